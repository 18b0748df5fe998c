/* SPDX-License-Identifier: MIT */
/* ViT as a chain of stages. */
#include "layers/families/vit.h"

#include "core/plan/range.h"
#include "layers/blocks/block.h"
#include "layers/heads/classifier.h"
#include "layers/nodes/inputs.h"
#include "layers/nodes/publish.h"
#include "layers/blocks/vit_block.h"
#include "layers/images/vit_embed.h"

BP_FAMILY_CONFIG_FITS(bp_vit_config);

bp_vit_config bp_vit_config_of(const bp_model_config *config)
{
    bp_vit_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

uint32_t bp_vit_tokens(const bp_vit_config *own)
{
    const bp_image_window w = bp_vit_window(own);
    return (uint32_t)(w.out_height * w.out_width) + (own->kind == BP_VIT_SIGLIP ? 0 : 1);
}

static bool is_block(const bp_vit_config *own, uint32_t stage)
{
    return stage >= 1 && stage <= own->stack.layers;
}

static uint32_t vit_stages(const bp_model_config *config)
{
    return bp_vit_config_of(config).stack.layers + 2;
}

static uint32_t vit_variants(const bp_model_config *config, uint32_t stage)
{
    const bp_vit_config own = bp_vit_config_of(config);
    return is_block(&own, stage) ? BP_TAPE_VARIANTS : 1;
}

/* The last norm, and behind it the classifier. */
static uint32_t vit_head(const bp_vit_config *own)
{
    return bp_vit_number(own, own->stack.layers, BP_VIT_NORM_1);
}

static uint32_t vit_parameter_count(const bp_model_config *config)
{
    const bp_vit_config own = bp_vit_config_of(config);
    return vit_head(&own) + 4;
}

static uint32_t vit_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    const bp_vit_config own = bp_vit_config_of(config);
    uint32_t block = 0;
    if (parameter < bp_vit_embeddings_of(&own).count) {
        return 0;
    }
    while (block < own.stack.layers && parameter >= bp_vit_number(&own, block + 1, BP_VIT_NORM_1)) {
        block++;
    }
    return 1 + block;
}

static void vit_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    const bp_vit_config own = bp_vit_config_of(config);
    if (is_block(&own, stage)) {
        bp_name_append_number(bp_name_append(text, "layers."), stage - 1);
    } else {
        bp_name_append(text, stage == 0 ? "embed" : "head");
    }
}

/* What the kinds call their parts; the layers of a block in their order. */
typedef struct vit_names {
    const char *tower;
    const char *first;
    const char *positions;
    const char *patches;
    const char *block;
    const char *layer[BP_VIT_BLOCK_LAYERS];
    const char *last;
} vit_names;

#define TOWER_BLOCK                                                                                \
    "encoder.layers.",                                                                             \
    {                                                                                              \
        "layer_norm1", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",                 \
            "self_attn.out_proj", "layer_norm2", "mlp.fc1", "mlp.fc2"                              \
    }
#define TOWER_NAMES                                                                                \
    "vision_model.", "embeddings.class_embedding", "embeddings.position_embedding.weight",         \
        "embeddings.patch_embedding", TOWER_BLOCK, "post_layernorm"

static const vit_names vit_names_of[BP_VIT_KINDS] = {
    [BP_VIT_PLAIN] = {"vit.",
                      "embeddings.cls_token",
                      "embeddings.position_embeddings",
                      "embeddings.patch_embeddings.projection",
                      "encoder.layer.",
                      {"layernorm_before", "attention.attention.query", "attention.attention.key",
                       "attention.attention.value", "attention.output.dense", "layernorm_after",
                       "intermediate.dense", "output.dense"},
                      "layernorm"},
    [BP_VIT_CLIP] = {TOWER_NAMES},
    [BP_VIT_SIGLIP] = {TOWER_NAMES},
    [BP_VIT_CLIP_TEXT] = {"text_model.", NULL, NULL, NULL, TOWER_BLOCK, "final_layer_norm"},
    [BP_VIT_SIGLIP_TEXT] = {"", NULL, NULL, NULL, TOWER_BLOCK, "final_layer_norm"}};

static void vit_publish_weight(bp_builder *builder, const bp_vit_config *own, const char *name,
                               const char *more, bp_parameter_info info)
{
    char whole[BP_NAME_BYTES];
    char *end = bp_name_append(whole, vit_names_of[own->kind].tower);
    bp_name_append(bp_name_append(end, name), more);
    info.name = whole;
    info.init = BP_INIT_NORMAL;
    info.deviation = own->stack.initializer_range;
    info.decay = info.rank > 1;
    bp_build_parameter(builder, &info);
}

void bp_vit_publish_vector(bp_builder *builder, const bp_vit_config *own, const char *name,
                           bool norm)
{
    const uint64_t width = own->stack.width;
    const bp_publish_row weight = {".weight", {width, 0}, BP_INIT_ONES, 0.0},
                         bias = {".bias", {width, 0}, BP_INIT_ZEROS, 0.0};
    char whole[BP_NAME_BYTES];
    bp_name_append(bp_name_append(whole, vit_names_of[own->kind].tower), name);
    if (norm) {
        bp_publish(builder, whole, &weight);
    }
    bp_publish(builder, whole, &bias);
}

void bp_vit_publish_embeddings(bp_builder *builder, const bp_vit_config *own)
{
    const uint64_t width = own->stack.width, patch = own->patch, tokens = bp_vit_tokens(own);
    const vit_names *names = &vit_names_of[own->kind];
    const bp_vit_embeddings at = bp_vit_embeddings_of(own);
    const bool plain = own->kind == BP_VIT_PLAIN;
    const bp_parameter_info first[2] = {{.rank = 1, .shape = {width}},
                                        {.rank = 3, .shape = {1, 1, width}}},
                            positions[2] = {{.rank = 2, .shape = {tokens, width}},
                                            {.rank = 3, .shape = {1, tokens, width}}},
                            patches = {.rank = 4, .shape = {width, own->channels, patch, patch}};
    if (at.first != BP_NO_PARAMETER) {
        vit_publish_weight(builder, own, names->first, "", first[plain]);
    }
    vit_publish_weight(builder, own, names->positions, "", positions[plain]);
    vit_publish_weight(builder, own, names->patches, ".weight", patches);
    if (at.bias != BP_NO_PARAMETER) {
        bp_vit_publish_vector(builder, own, names->patches, false);
    }
    if (at.norm != BP_NO_PARAMETER) {
        bp_vit_publish_vector(builder, own, "pre_layrnorm", true);
    }
}

void bp_vit_publish_block(bp_builder *builder, const bp_vit_config *own, uint32_t index)
{
    const vit_names *names = &vit_names_of[own->kind];
    const char *tower = own->first > 0 ? "text_model." : names->tower; /* beside one of images */
    const uint64_t w = own->stack.width, inner = bp_transformer_inner(&own->stack);
    const uint64_t shapes[BP_VIT_BLOCK_LAYERS][2] = {{w, 0}, {w, w}, {w, w},     {w, w},
                                                     {w, w}, {w, 0}, {inner, w}, {w, inner}};
    for (uint32_t i = 0; i < BP_VIT_BLOCK_LAYERS; i++) {
        const bool norm = shapes[i][1] == 0, turned = i == BP_VIT_QUERY || i == BP_VIT_KEY;
        const bp_publish_row weight = {".weight",
                                       {shapes[i][0], shapes[i][1]},
                                       norm ? BP_INIT_ONES : BP_INIT_NORMAL,
                                       norm ? 0.0 : own->stack.initializer_range};
        const bp_publish_row bias = {".bias", {shapes[i][0], 0}, BP_INIT_ZEROS, 0.0};
        const uint64_t together = turned ? w / own->stack.heads : 0;
        char prefix[BP_NAME_BYTES];
        char *end = bp_name_append(bp_name_append(prefix, tower), names->block);
        bp_name_append(bp_name_append(bp_name_append_number(end, index), "."), names->layer[i]);
        bp_publish_dense(builder, prefix, &weight, false, together);
        if (bp_vit_biased(own, (bp_vit_layer)i)) {
            bp_publish_dense(builder, prefix, &bias, false, together);
        }
    }
}

/* The last norm, which CLIP's classifier does not read: it stays as it is. */
static void vit_publish_last(bp_builder *builder, const bp_vit_config *own)
{
    const vit_names *names = &vit_names_of[own->kind];
    const uint64_t width = own->stack.width;
    static const char *const ends[2] = {".weight", ".bias"};
    if (own->kind != BP_VIT_CLIP) {
        bp_vit_publish_vector(builder, own, names->last, true);
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        char whole[BP_NAME_BYTES];
        char *end = bp_name_append(whole, names->tower);
        bp_name_append(bp_name_append(end, names->last), ends[i]);
        const bp_parameter_info info = {
            .name = whole, .rank = 1, .shape = {width}, .constant = true};
        bp_build_parameter(builder, &info);
    }
}

static void vit_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_vit_config own = bp_vit_config_of(config);
    const bp_publish_row rows[2] = {{"classifier.weight",
                                     {config->classes, own.stack.width},
                                     BP_INIT_NORMAL,
                                     own.stack.initializer_range},
                                    {"classifier.bias", {config->classes, 0}, BP_INIT_ZEROS, 0.0}};
    bp_vit_publish_embeddings(builder, &own);
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        bp_vit_publish_block(builder, &own, i);
    }
    vit_publish_last(builder, &own);
    for (uint32_t i = 0; i < 2; i++) {
        bp_publish_head(builder, "", &rows[i], BP_HEAD_TASK);
    }
}

/* CLIP's last norm beside a classifier begins as any norm does. */
static double vit_constant(const bp_model_config *config, uint32_t parameter, uint64_t element)
{
    const bp_vit_config own = bp_vit_config_of(config);
    (void)element;
    return parameter == vit_head(&own) ? 1.0 : 0.0;
}

/* ---- Rows of tokens ---- */

void bp_vit_rows_begin(bp_builder *builder, bp_vit_rows *rows)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    rows->whole = builder->spec;
    rows->spec = *builder->spec;
    rows->spec.sequence = bp_vit_tokens(&own);
    builder->spec = &rows->spec;
    builder->rows = (uint64_t)rows->spec.batch * rows->spec.sequence;
}

void bp_vit_rows_end(bp_builder *builder, const bp_vit_rows *rows)
{
    builder->spec = rows->whole;
    builder->rows = (uint64_t)builder->spec->batch * builder->spec->sequence;
}

/* ---- The head ---- */

static bp_classifier vit_judge(const bp_builder *builder, const bp_vit_config *own)
{
    return (bp_classifier){.score = {.weight = vit_head(own) + 2,
                                     .bias = vit_head(own) + 3,
                                     .in = own->stack.width,
                                     .out = builder->spec->config.classes,
                                     .output_major = true}};
}

/* What the classifier reads. */
typedef struct vit_read {
    bp_norm norm;
    bp_ref first, statistics; /* BP_VIT_PLAIN: of first tokens */
    bp_ref read;              /* (batch, width) */
} vit_read;

static bp_ref vit_row(bp_builder *builder, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                           builder->spec->batch, width, name);
}

static bp_ref vit_statistics(bp_builder *builder, bool backward, uint64_t rows)
{
    return backward
               ? bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, rows, "norm.statistics")
               : BP_ABSENT;
}

/* The mean of each image's patches in x, whose rows are tokens. */
static void vit_mean(bp_builder *builder, const bp_vit_config *own, bp_ref x, bp_ref y)
{
    const uint64_t width = own->stack.width, tokens = bp_vit_tokens(own);
    const uint64_t lead = own->kind == BP_VIT_CLIP ? 1 : 0;
    for (uint64_t i = 0; i < builder->spec->batch; i++) {
        const bp_sample_row_scalars scalars = {
            .batch = 1, .sequence = (int64_t)(tokens - lead), .width = (int64_t)width, .mean = 1};
        const bp_sample_row_operands operands = {.y = bp_ref_at(y, i * width),
                                                 .x = bp_ref_at(x, (i * tokens + lead) * width),
                                                 .lengths = BP_ABSENT};
        bp_build_sample_row(builder, &operands, &scalars);
    }
}

/* The gradient of tokens (rows, width) from that of the means: no patch has none. */
static bp_ref vit_mean_backward(bp_builder *builder, const bp_vit_config *own, bp_ref d)
{
    const uint64_t width = own->stack.width, tokens = bp_vit_tokens(own);
    const uint64_t lead = own->kind == BP_VIT_CLIP ? 1 : 0;
    const bp_ref d_x = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                       builder->rows, width, "d_mean");
    for (uint64_t i = 0; i < builder->spec->batch; i++) {
        const bp_sample_row_backward_scalars scalars = {
            .batch = 1, .sequence = (int64_t)(tokens - lead), .width = (int64_t)width, .mean = 1};
        const bp_sample_row_backward_operands operands = {
            .d_x = bp_ref_at(d_x, (i * tokens + lead) * width),
            .d_y = bp_ref_at(d, i * width),
            .lengths = BP_ABSENT};
        const bp_state_begin_scalars none = {.count = (int64_t)width};
        const bp_state_begin_operands zero = {
            .y = bp_ref_at(d_x, i * tokens * width), .x = BP_ABSENT, .step = builder->step};
        if (lead > 0) {
            bp_build_state_begin(builder, &zero, &none);
        }
        bp_build_sample_row_backward(builder, &operands, &scalars);
    }
    return d_x;
}

static vit_read vit_look(bp_builder *builder, const bp_vit_config *own, bp_ref x, bool backward)
{
    const uint64_t width = own->stack.width;
    vit_read r = {.norm = bp_vit_norm(own, own->stack.layers, BP_VIT_NORM_1)};
    if (own->kind == BP_VIT_PLAIN) {
        r.statistics = vit_statistics(builder, backward, builder->spec->batch);
        r.first = bp_sample_pick(builder, width, BP_SAMPLE_FIRST, x);
        r.read = vit_row(builder, width, "norm");
        bp_samples_begin(builder);
        bp_norm_forward(builder, &r.norm, builder->rows, r.first, r.read, r.statistics);
        bp_samples_end(builder);
        return r;
    }
    if (own->kind == BP_VIT_SIGLIP) {
        const bp_ref y = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                         builder->rows, width, "norm");
        r.statistics = vit_statistics(builder, backward, builder->rows);
        bp_norm_forward(builder, &r.norm, builder->rows, x, y, r.statistics);
        x = y;
    }
    r.read = vit_row(builder, width, "mean");
    vit_mean(builder, own, x, r.read);
    return r;
}

/* The gradient of tokens from that of what was read of them, on which this writes. */
static bp_ref vit_look_backward(bp_builder *builder, const bp_vit_config *own,
                                const bp_stage_call *call, const vit_read *r, bp_ref d)
{
    const bool wanted = call->input_wanted;
    if (own->kind == BP_VIT_PLAIN) {
        const bp_norm_backward_call back = {r->first, r->statistics, d, BP_ABSENT, wanted, false};
        bp_samples_begin(builder);
        bp_norm_backward(builder, &r->norm, &back);
        bp_samples_end(builder);
        return wanted ? bp_sample_spread(builder, own->stack.width, BP_SAMPLE_FIRST, d) : BP_ABSENT;
    }
    if (!wanted && (own->kind == BP_VIT_CLIP || !bp_norm_trains(builder, &r->norm))) {
        return BP_ABSENT;
    }
    const bp_ref d_x = vit_mean_backward(builder, own, d);
    if (own->kind == BP_VIT_SIGLIP) {
        const bp_norm_backward_call back = {call->input, r->statistics, d_x,
                                            BP_ABSENT,   wanted,        false};
        bp_norm_backward(builder, &r->norm, &back);
    }
    return wanted ? d_x : BP_ABSENT;
}

static void vit_head_forward(bp_builder *builder, bp_stage_call *call, const bp_spec *whole)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    const bp_classifier judge = vit_judge(builder, &own);
    const vit_read r = vit_look(builder, &own, call->input, false);
    builder->spec = whole;
    bp_classifier_forward(builder, &judge, r.read);
    call->output = BP_ABSENT;
}

static void vit_head_backward(bp_builder *builder, bp_stage_call *call, const bp_spec *whole)
{
    const bp_spec *const tokens = builder->spec;
    const bp_vit_config own = bp_vit_config_of(&tokens->config);
    const bp_classifier judge = vit_judge(builder, &own);
    const vit_read r = vit_look(builder, &own, call->input, true);
    builder->spec = whole;
    const bp_ref d = bp_classifier_backward(builder, &judge, r.read);
    builder->spec = tokens;
    bp_samples_end(builder);
    call->d_input = vit_look_backward(builder, &own, call, &r, d);
}

/* ---- Stages ---- */

static void vit_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    bp_vit_rows rows;
    bp_vit_rows_begin(builder, &rows);
    if (call->stage == 0) {
        call->output = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                       builder->rows, own.stack.width, "out");
        bp_vit_embed(builder, call->output);
    } else if (is_block(&own, call->stage)) {
        bp_block_forward(builder, call, bp_block_family_list(builder, call));
    } else {
        vit_head_forward(builder, call, rows.whole);
    }
    bp_vit_rows_end(builder, &rows);
}

static void vit_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    bp_vit_rows rows;
    bp_vit_rows_begin(builder, &rows);
    if (call->stage == 0) {
        bp_vit_embed_backward(builder, call->d_output);
        call->d_input = BP_ABSENT;
    } else if (is_block(&own, call->stage)) {
        bp_block_backward(builder, call, bp_block_family_list(builder, call));
    } else {
        vit_head_backward(builder, call, rows.whole);
    }
    bp_vit_rows_end(builder, &rows);
}

static uint32_t vit_tapes(bp_builder *builder, const bp_stage_call *call,
                          const bp_tape_request *request, uint32_t *variants)
{
    bp_vit_rows rows;
    bp_vit_rows_begin(builder, &rows);
    const uint32_t count = bp_block_family_tapes(builder, call, request, variants);
    bp_vit_rows_end(builder, &rows);
    return count;
}

/* ---- Refusals ---- */

static bp_status vit_check_sizes(const bp_model_config *config, bp_error *error)
{
    const bp_vit_config own = bp_vit_config_of(config);
    const bp_transformer *stack = &own.stack;
    const uint64_t pixels = bp_size_mul(bp_size_mul(own.image, own.image), own.channels);
    const bp_range counts[] = {{"vocab_size", config->vocabulary, 0, 0},
                               {"hidden_size", stack->width, 1, 1u << 20},
                               {"num_hidden_layers", stack->layers, 1, 1u << 12},
                               {"num_attention_heads", stack->heads, 1, 1u << 16},
                               {"intermediate_size", stack->inner, 0, 1u << 22},
                               {"image_size", own.image, 1, BP_VIT_SIZE_MOST},
                               {"num_channels", own.channels, 1, BP_VIT_SIZE_MOST},
                               {"kind", own.kind, 0, BP_VIT_SIGLIP},
                               {"patch_size", own.patch, 1, own.image},
                               {"input_size", config->positions, pixels, pixels}};
    const bp_real_range reals[] = {
        {"hidden_dropout_prob", stack->residual_dropout, 0.0, 1.0},
        {"hidden_dropout_prob", stack->embedding_dropout, 0.0, 1.0},
        {"attention_probs_dropout_prob", stack->attention_dropout, 0.0, 1.0},
        {"layer_norm_eps", stack->norm_epsilon, 0.0, 1.0},
        {"initializer_range", stack->initializer_range, 0.0, 1e6}};
    BP_TRY(bp_ranges_check(counts, sizeof counts / sizeof counts[0], "vit", error));
    BP_TRY(bp_real_ranges_check(reals, sizeof reals / sizeof reals[0], "vit", error));
    if (stack->width % stack->heads != 0) {
        return bp_error_limit(error, BP_ERR_USAGE, "vit",
                              "the number of heads does not divide the width hidden_size",
                              "num_attention_heads", stack->heads, BP_LIMIT_DIVISOR, stack->width);
    }
    return BP_OK;
}

static bp_status vit_check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    BP_TRY(vit_check_sizes(config, error));
    if (!bp_task_scores_samples(config->task) || config->task == BP_TASK_RECONSTRUCTION ||
        spec->generate_context > 0) {
        return bp_error_set(error, BP_ERR_USAGE, "vit",
                            "this model judges images: its tasks are classification, "
                            "multi-label-classification and regression",
                            "task");
    }
    if (spec->sequence != config->positions) {
        return bp_error_numbers(error, BP_ERR_USAGE, "vit",
                                "a row has the numbers of the model's image", "max-seq-length",
                                spec->sequence, config->positions);
    }
    if (spec->working != BP_F32) {
        return bp_error_set(error, BP_ERR_USAGE, "vit",
                            "images are read in fp32, which is the working type that this model "
                            "has",
                            spec->working == BP_F16 ? "fp16" : "bf16");
    }
    return BP_OK;
}

static const bp_block_family vit_self = {bp_vit_block_describe};

const bp_model bp_model_vit = {.name = "vit",
                               .scratch = sizeof(bp_block),
                               .self = &vit_self,
                               .check = vit_check,
                               .inputs = bp_inputs_numbers,
                               .stages = vit_stages,
                               .stage_name = vit_stage_name,
                               .variants = vit_variants,
                               .tapes = vit_tapes,
                               .slot_name = bp_block_family_slot_name,
                               .parameters = vit_parameters,
                               .parameter_count = vit_parameter_count,
                               .parameter_stage = vit_parameter_stage,
                               .constant = vit_constant,
                               .forward = vit_forward,
                               .backward = vit_backward};
