/* SPDX-License-Identifier: MIT */
/* The tower of texts of CLIP and SigLIP as a chain of stages. */
#include "layers/families/clip.h"

#include "core/plan/range.h"
#include "layers/blocks/block.h"
#include "layers/blocks/vit_block.h"
#include "layers/heads/classifier.h"
#include "layers/heads/vector.h"
#include "layers/nodes/embedding.h"
#include "layers/nodes/inputs.h"
#include "layers/nodes/publish.h"

BP_FAMILY_CONFIG_FITS(bp_clip_config);

bp_clip_config bp_clip_config_of(const bp_model_config *config)
{
    bp_clip_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

/* What ViT's blocks read of the tower. */
static bp_vit_config clip_text(const bp_model_config *config)
{
    const bp_clip_config own = bp_clip_config_of(config);
    return (bp_vit_config){.stack = own.text,
                           .kind = own.vision.kind == BP_VIT_CLIP ? BP_VIT_CLIP_TEXT
                                                                  : BP_VIT_SIGLIP_TEXT};
}

static uint32_t clip_stages(const bp_model_config *config)
{
    return bp_clip_config_of(config).text.layers + 2;
}

static bool clip_is_block(const bp_model_config *config, uint32_t stage)
{
    return stage >= 1 && stage <= bp_clip_config_of(config).text.layers;
}

static uint32_t clip_variants(const bp_model_config *config, uint32_t stage)
{
    return clip_is_block(config, stage) ? BP_TAPE_VARIANTS : 1;
}

static void clip_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    if (clip_is_block(config, stage)) {
        bp_name_append_number(bp_name_append(text, "layers."), stage - 1);
    } else {
        bp_name_append(text, stage == 0 ? "embed" : "head");
    }
}

/* The last norm's weight; its bias, the projection's weight and SigLIP's bias of it follow. */
static uint32_t clip_head(const bp_model_config *config)
{
    const bp_vit_config text = clip_text(config);
    return bp_vit_number(&text, text.stack.layers, BP_VIT_NORM_1);
}

static bool clip_biased(const bp_model_config *config)
{
    return clip_text(config).kind == BP_VIT_SIGLIP_TEXT;
}

static uint32_t clip_parameter_count(const bp_model_config *config)
{
    return clip_head(config) + (clip_biased(config) ? 4 : 3);
}

static uint32_t clip_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    const bp_vit_config text = clip_text(config);
    uint32_t block = 0;
    if (parameter < BP_CLIP_TEXT_EMBEDDINGS) {
        return 0;
    }
    while (block < text.stack.layers &&
           parameter >= bp_vit_number(&text, block + 1, BP_VIT_NORM_1)) {
        block++;
    }
    return 1 + block;
}

static void clip_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_vit_config text = clip_text(config);
    const bool siglip = clip_biased(config);
    const char *tower = siglip ? "" : "text_model.";
    const uint64_t width = text.stack.width, out = config->classes;
    const double range = text.stack.initializer_range;
    const bp_publish_row tables[2] = {
        {"embeddings.token_embedding.weight", {config->vocabulary, width}, BP_INIT_NORMAL, range},
        {"embeddings.position_embedding.weight",
         {config->positions, width},
         BP_INIT_NORMAL,
         range}};
    const bp_publish_row norm[2] = {{"final_layer_norm.weight", {width, 0}, BP_INIT_ONES, 0.0},
                                    {"final_layer_norm.bias", {width, 0}, BP_INIT_ZEROS, 0.0}};
    const bp_publish_row projection[2] = {
        {siglip ? "head.weight" : "text_projection.weight", {out, width}, BP_INIT_NORMAL, range},
        {"head.bias", {out, 0}, BP_INIT_ZEROS, 0.0}};
    for (uint32_t i = 0; i < 2; i++) {
        bp_publish_table(builder, tower, &tables[i]);
    }
    for (uint32_t i = 0; i < text.stack.layers; i++) {
        bp_vit_publish_block(builder, &text, i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        bp_publish(builder, tower, &norm[i]);
    }
    for (uint32_t i = 0; i < (siglip ? 2 : 1); i++) {
        bp_publish_head(builder, "", &projection[i], BP_HEAD_OUTPUT);
    }
}

static bp_embedding clip_embedding(const bp_model_config *config)
{
    return (bp_embedding){.token = BP_CLIP_TEXT_TOKENS,
                          .position = BP_CLIP_TEXT_POSITIONS,
                          .vocabulary = config->vocabulary,
                          .positions = config->positions,
                          .width = clip_text(config).stack.width};
}

/* ---- The head ---- */

typedef struct clip_end {
    bp_norm norm;
    bp_linear projection;
    bp_ref last;       /* (batch, width): the end of each text, */
    bp_ref statistics; /* of its norm; absent in evaluation */
    bp_ref read;       /* and what the projection reads */
    bp_ref vectors;    /* (batch, classes) */
} clip_end;

static bp_ref clip_rows(bp_builder *builder, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                           builder->spec->batch, width, name);
}

/* SigLIP's end is the row's, padding or not: row `sequence` - 1 of each sample. */
static bp_ref clip_pick(bp_builder *builder, uint64_t width, bp_ref x)
{
    const bp_spec *spec = builder->spec;
    if (!clip_biased(&spec->config)) {
        return bp_sample_pick(builder, width, BP_SAMPLE_LAST, x);
    }
    const bp_ref y = clip_rows(builder, width, "sample");
    const bp_sample_row_scalars one = {.batch = 1, .sequence = 1, .width = (int64_t)width};
    for (uint64_t i = 0; i < spec->batch; i++) {
        const bp_sample_row_operands operands = {
            .y = bp_ref_at(y, i * width),
            .x = bp_ref_at(x, ((i + 1) * spec->sequence - 1) * width),
            .lengths = BP_ABSENT};
        bp_build_sample_row(builder, &operands, &one);
    }
    return y;
}

static bp_ref clip_spread(bp_builder *builder, uint64_t width, bp_ref d)
{
    const bp_spec *spec = builder->spec;
    if (!clip_biased(&spec->config)) {
        return bp_sample_spread(builder, width, BP_SAMPLE_LAST, d);
    }
    const bp_ref d_x = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                       builder->rows, width, "d_sample");
    for (uint64_t i = 0; i < spec->batch; i++) {
        /* the first row's gradient is d, that of the others 0: the last one's is put behind */
        const uint64_t first = i * spec->sequence * width,
                       last = first + (spec->sequence - 1) * width;
        const bp_sample_row_backward_scalars rows = {
            .batch = 1, .sequence = spec->sequence, .width = (int64_t)width};
        const bp_sample_row_backward_scalars one = {
            .batch = 1, .sequence = 1, .width = (int64_t)width};
        const bp_state_begin_scalars none = {.count = (int64_t)width};
        const bp_ref d_y = bp_ref_at(d, i * width);
        const bp_sample_row_backward_operands all = {
            .d_x = bp_ref_at(d_x, first), .d_y = d_y, .lengths = BP_ABSENT};
        const bp_state_begin_operands zero = {
            .y = bp_ref_at(d_x, first), .x = BP_ABSENT, .step = builder->step};
        const bp_sample_row_backward_operands end = {
            .d_x = bp_ref_at(d_x, last), .d_y = d_y, .lengths = BP_ABSENT};
        bp_build_sample_row_backward(builder, &all, &rows);
        if (spec->sequence > 1) {
            bp_build_state_begin(builder, &zero, &none);
            bp_build_sample_row_backward(builder, &end, &one);
        }
    }
    return d_x;
}

static clip_end clip_look(bp_builder *builder, bp_ref x, bool backward)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_vit_config text = clip_text(config);
    const uint64_t width = text.stack.width;
    const uint32_t head = clip_head(config);
    clip_end e = {.norm = bp_vit_norm(&text, text.stack.layers, BP_VIT_NORM_1),
                  .projection = {.weight = head + 2,
                                 .bias = clip_biased(config) ? head + 3 : BP_NO_PARAMETER,
                                 .in = width,
                                 .out = config->classes,
                                 .output_major = true},
                  .statistics = BP_ABSENT};
    if (backward) {
        e.statistics = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, builder->spec->batch,
                                       "norm.statistics");
    }
    e.last = clip_pick(builder, width, x);
    e.read = clip_rows(builder, width, "norm");
    e.vectors = clip_rows(builder, e.projection.out, "projected");
    bp_samples_begin(builder);
    bp_norm_forward(builder, &e.norm, builder->rows, e.last, e.read, e.statistics);
    bp_linear_forward(builder, &e.projection, e.read, BP_ABSENT, e.vectors);
    bp_samples_end(builder);
    return e;
}

static void clip_head_backward(bp_builder *builder, bp_stage_call *call)
{
    const clip_end e = clip_look(builder, call->input, true);
    const bp_ref d_vectors = bp_vector_rows_backward(builder, e.vectors);
    const bp_ref d = clip_rows(builder, e.norm.width, "d_norm");
    const bp_norm_backward_call back = {e.last,    e.statistics,       d,
                                        BP_ABSENT, call->input_wanted, false};
    bp_samples_begin(builder);
    bp_linear_backward_parameters(builder, &e.projection, e.read, d_vectors);
    bp_linear_backward_input(builder, &e.projection, d_vectors, d);
    bp_norm_backward(builder, &e.norm, &back);
    bp_samples_end(builder);
    call->d_input = call->input_wanted ? clip_spread(builder, e.norm.width, d) : BP_ABSENT;
}

/* ---- Stages ---- */

static void clip_list(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    const bp_vit_config text = clip_text(&builder->spec->config);
    bp_vit_block_list(builder, &text, call->stage - 1, block);
}

static void clip_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_model_config *config = &builder->spec->config;
    if (call->stage == 0) {
        const bp_embedding embedding = clip_embedding(config);
        call->output = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                       builder->rows, embedding.width, "out");
        bp_embedding_forward(builder, &embedding, call->output);
    } else if (clip_is_block(config, call->stage)) {
        bp_block_forward(builder, call, bp_block_family_list(builder, call));
    } else {
        const clip_end e = clip_look(builder, call->input, false);
        bp_vector_rows_forward(builder, e.vectors);
        call->output = BP_ABSENT;
    }
}

static void clip_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_model_config *config = &builder->spec->config;
    if (call->stage == 0) {
        const bp_embedding embedding = clip_embedding(config);
        bp_embedding_backward(builder, &embedding, call->d_output);
        call->d_input = BP_ABSENT;
    } else if (clip_is_block(config, call->stage)) {
        bp_block_backward(builder, call, bp_block_family_list(builder, call));
    } else {
        clip_head_backward(builder, call);
    }
}

/* ---- Refusals ---- */

static bp_status clip_check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_transformer text = bp_clip_config_of(config).text;
    const bool whole = clip_biased(config);
    const bp_range ranges[] = {
        {"vocab_size", config->vocabulary, 1, INT32_MAX},
        {"hidden_size", text.width, 1, 1u << 20},
        {"num_hidden_layers", text.layers, 1, 1u << 12},
        {"num_attention_heads", text.heads, 1, 1u << 16},
        {"intermediate_size", text.inner, 0, 1u << 22},
        {"projection_dim", config->classes, 1, 1u << 20},
        {"max-seq-length", spec->sequence, whole ? config->positions : 1, config->positions}};
    const bp_real_range reals[] = {{"attention_dropout", text.attention_dropout, 0.0, 1.0},
                                   {"layer_norm_eps", text.norm_epsilon, 0.0, 1.0},
                                   {"initializer_range", text.initializer_range, 0.0, 1e6}};
    BP_TRY(bp_ranges_check(ranges, sizeof ranges / sizeof ranges[0], "clip", error));
    BP_TRY(bp_real_ranges_check(reals, sizeof reals / sizeof reals[0], "clip", error));
    if (text.width % text.heads != 0) {
        return bp_error_limit(error, BP_ERR_USAGE, "clip",
                              "the number of heads does not divide the width hidden_size",
                              "num_attention_heads", text.heads, BP_LIMIT_DIVISOR, text.width);
    }
    if (config->task != BP_TASK_EMBEDDING || spec->generate_context > 0 ||
        config->dense_count > 0) {
        return bp_error_set(error, BP_ERR_USAGE, "clip",
                            "this model makes vectors of texts: its task is embedding", "task");
    }
    return BP_OK;
}

static const bp_block_family clip_self = {clip_list};

#define CLIP_TEXT_MODEL(name_, pads_)                                                              \
    {                                                                                              \
        .name = name_, .scratch = sizeof(bp_block), .self = &clip_self, .pads = pads_,             \
        .check = clip_check, .inputs = bp_inputs_texts, .stages = clip_stages,                     \
        .stage_name = clip_stage_name, .variants = clip_variants, .tapes = bp_block_family_tapes,  \
        .slot_name = bp_block_family_slot_name, .parameters = clip_parameters,                     \
        .parameter_count = clip_parameter_count, .parameter_stage = clip_parameter_stage,          \
        .forward = clip_forward, .contrast = bp_vector_contrast, .backward = clip_backward         \
    }

const bp_model bp_model_clip_text = CLIP_TEXT_MODEL("clip_text_model", true);
const bp_model bp_model_siglip_text = CLIP_TEXT_MODEL("siglip_text_model", false);
