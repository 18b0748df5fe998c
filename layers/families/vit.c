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
    return (uint32_t)(w.out_height * w.out_width) + 1;
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
    if (parameter < BP_VIT_EMBEDDINGS) {
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

static void vit_publish_embeddings(bp_builder *builder, const bp_vit_config *own)
{
    const uint64_t width = own->stack.width, patch = own->patch;
    const bp_parameter_info rows[BP_VIT_EMBEDDINGS - 1] = {
        {.name = "vit.embeddings.cls_token", .rank = 3, .shape = {1, 1, width}},
        {.name = "vit.embeddings.position_embeddings",
         .rank = 3,
         .shape = {1, bp_vit_tokens(own), width}},
        {.name = "vit.embeddings.patch_embeddings.projection.weight",
         .rank = 4,
         .shape = {width, own->channels, patch, patch}}};
    const bp_publish_row bias = {"bias", {width, 0}, BP_INIT_ZEROS, 0.0};
    for (uint32_t i = 0; i < BP_VIT_EMBEDDINGS - 1; i++) {
        bp_parameter_info info = rows[i];
        info.init = BP_INIT_NORMAL;
        info.deviation = own->stack.initializer_range;
        info.decay = true;
        bp_build_parameter(builder, &info);
    }
    bp_publish(builder, "vit.embeddings.patch_embeddings.projection.", &bias);
}

static void vit_publish_block(bp_builder *builder, const bp_vit_config *own, uint32_t index)
{
    static const char *const names[BP_VIT_BLOCK_LAYERS] = {
        "layernorm_before",        "attention.attention.query",
        "attention.attention.key", "attention.attention.value",
        "attention.output.dense",  "layernorm_after",
        "intermediate.dense",      "output.dense"};
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
        char *end = bp_name_append_number(bp_name_append(prefix, "vit.encoder.layer."), index);
        bp_name_append(bp_name_append(end, "."), names[i]);
        bp_publish_dense(builder, prefix, &weight, false, together);
        if (bp_vit_biased(own, (bp_vit_layer)i)) {
            bp_publish_dense(builder, prefix, &bias, false, together);
        }
    }
}

static void vit_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_vit_config own = bp_vit_config_of(config);
    const uint64_t width = own.stack.width;
    const bp_publish_row rows[4] = {{"vit.layernorm.weight", {width, 0}, BP_INIT_ONES, 0.0},
                                    {"vit.layernorm.bias", {width, 0}, BP_INIT_ZEROS, 0.0},
                                    {"classifier.weight",
                                     {config->classes, width},
                                     BP_INIT_NORMAL,
                                     own.stack.initializer_range},
                                    {"classifier.bias", {config->classes, 0}, BP_INIT_ZEROS, 0.0}};
    vit_publish_embeddings(builder, &own);
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        vit_publish_block(builder, &own, i);
    }
    for (uint32_t i = 0; i < 4; i++) {
        bp_publish_head(builder, "", &rows[i], i < 2 ? BP_HEAD_NONE : BP_HEAD_TASK);
    }
}

/* ---- Rows of tokens ----
 *
 * A sample of the spec is an image; within the stages it is as many rows as it has tokens. */

typedef struct vit_rows {
    bp_spec spec; /* with that sequence */
    const bp_spec *whole;
} vit_rows;

static void vit_rows_begin(bp_builder *builder, vit_rows *rows)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    rows->whole = builder->spec;
    rows->spec = *builder->spec;
    rows->spec.sequence = bp_vit_tokens(&own);
    builder->spec = &rows->spec;
    builder->rows = (uint64_t)rows->spec.batch * rows->spec.sequence;
}

static void vit_rows_end(bp_builder *builder, const vit_rows *rows)
{
    builder->spec = rows->whole;
    builder->rows = (uint64_t)builder->spec->batch * builder->spec->sequence;
}

/* ---- The head ---- */

static bp_norm vit_last_norm(const bp_vit_config *own)
{
    const uint32_t first = vit_head(own);
    return (bp_norm){first, first + 1, own->stack.width, own->stack.norm_epsilon, false};
}

static bp_classifier vit_judge(const bp_builder *builder, const bp_vit_config *own)
{
    return (bp_classifier){.score = {.weight = vit_head(own) + 2,
                                     .bias = vit_head(own) + 3,
                                     .in = own->stack.width,
                                     .out = builder->spec->config.classes,
                                     .output_major = true}};
}

/* The last norm of first tokens (batch, width), which nothing else of it is asked of. */
static bp_ref vit_normalise(bp_builder *builder, const bp_norm *norm, bp_ref first,
                            bp_ref statistics)
{
    const bp_ref y = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                     builder->spec->batch, norm->width, "norm");
    bp_samples_begin(builder);
    bp_norm_forward(builder, norm, builder->rows, first, y, statistics);
    bp_samples_end(builder);
    return y;
}

static void vit_head_forward(bp_builder *builder, bp_stage_call *call, const bp_spec *whole)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    const bp_norm norm = vit_last_norm(&own);
    const bp_classifier judge = vit_judge(builder, &own);
    const bp_ref first = bp_sample_pick(builder, own.stack.width, BP_SAMPLE_FIRST, call->input);
    const bp_ref read = vit_normalise(builder, &norm, first, BP_ABSENT);
    builder->spec = whole;
    bp_classifier_forward(builder, &judge, read);
    call->output = BP_ABSENT;
}

static void vit_head_backward(bp_builder *builder, bp_stage_call *call, const bp_spec *whole)
{
    const bp_spec *const tokens = builder->spec;
    const bp_vit_config own = bp_vit_config_of(&tokens->config);
    const bp_norm norm = vit_last_norm(&own);
    const bp_classifier judge = vit_judge(builder, &own);
    const bp_ref statistics =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, tokens->batch, "norm.statistics");
    const bp_ref first = bp_sample_pick(builder, own.stack.width, BP_SAMPLE_FIRST, call->input);
    const bp_ref read = vit_normalise(builder, &norm, first, statistics);
    builder->spec = whole;
    const bp_ref d = bp_classifier_backward(builder, &judge, read);
    builder->spec = tokens;
    const bp_norm_backward_call back = {first, statistics, d, BP_ABSENT, call->input_wanted, false};
    bp_samples_begin(builder);
    bp_norm_backward(builder, &norm, &back);
    bp_samples_end(builder);
    call->d_input = call->input_wanted
                        ? bp_sample_spread(builder, own.stack.width, BP_SAMPLE_FIRST, d)
                        : BP_ABSENT;
}

/* ---- Stages ---- */

static void vit_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    vit_rows rows;
    vit_rows_begin(builder, &rows);
    if (call->stage == 0) {
        call->output = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                       builder->rows, own.stack.width, "out");
        bp_vit_embed(builder, call->output);
    } else if (is_block(&own, call->stage)) {
        bp_block_forward(builder, call, bp_block_family_list(builder, call));
    } else {
        vit_head_forward(builder, call, rows.whole);
    }
    vit_rows_end(builder, &rows);
}

static void vit_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    vit_rows rows;
    vit_rows_begin(builder, &rows);
    if (call->stage == 0) {
        bp_vit_embed_backward(builder, call->d_output);
        call->d_input = BP_ABSENT;
    } else if (is_block(&own, call->stage)) {
        bp_block_backward(builder, call, bp_block_family_list(builder, call));
    } else {
        vit_head_backward(builder, call, rows.whole);
    }
    vit_rows_end(builder, &rows);
}

static uint32_t vit_tapes(bp_builder *builder, const bp_stage_call *call,
                          const bp_tape_request *request, uint32_t *variants)
{
    vit_rows rows;
    vit_rows_begin(builder, &rows);
    const uint32_t count = bp_block_family_tapes(builder, call, request, variants);
    vit_rows_end(builder, &rows);
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
                               .forward = vit_forward,
                               .backward = vit_backward};
