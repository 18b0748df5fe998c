/* SPDX-License-Identifier: MIT */
/* The tower of texts of CLIP and SigLIP as a chain of stages, and both of their towers. */
#include "layers/families/clip.h"

#include "core/plan/range.h"
#include "layers/blocks/block.h"
#include "layers/blocks/vit_block.h"
#include "layers/heads/classifier.h"
#include "layers/heads/loss.h"
#include "layers/heads/pooler.h"
#include "layers/heads/vector.h"
#include "layers/images/vit_embed.h"
#include "layers/nodes/embedding.h"
#include "layers/nodes/inputs.h"
#include "layers/nodes/publish.h"

BP_FAMILY_CONFIG_FITS(bp_clip_config);

/* Parameters of the last norm of images and of what makes their vectors. */
static uint32_t pair_image_parameters(uint32_t kind)
{
    return 2 + (kind == BP_VIT_SIGLIP ? (uint32_t)BP_POOLER_PARAMETERS : 1);
}

bp_clip_config bp_clip_config_of(const bp_model_config *config)
{
    bp_clip_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

/* The last norm of the tower of images of both, which its bias and the projection follow. */
static uint32_t pair_image_end(const bp_clip_config *own)
{
    return bp_vit_number(&own->vision, own->vision.stack.layers, BP_VIT_NORM_1);
}

/* What ViT's blocks read of the tower. Beside one of images it comes behind it. */
static bp_vit_config clip_text(const bp_model_config *config)
{
    const bp_clip_config own = bp_clip_config_of(config);
    if (own.paired) {
        return (bp_vit_config){
            .stack = own.text,
            .kind = own.vision.kind == BP_VIT_CLIP ? BP_VIT_CLIP_TEXT : BP_VIT_SIGLIP_TEXT,
            .first = pair_image_end(&own) + pair_image_parameters(own.vision.kind),
            .site = 3 * own.vision.stack.layers};
    }
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

/* Numbers of a vector. */
static uint32_t clip_width(const bp_model_config *config)
{
    return bp_clip_config_of(config).paired ? config->classes / 2 : config->classes;
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
    const bool paired = text.first > 0;
    const char *tower = siglip && !paired ? "" : "text_model.";
    const uint64_t width = text.stack.width, out = clip_width(config);
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
        bp_publish_head(builder, siglip ? tower : "", &projection[i], BP_HEAD_OUTPUT);
    }
}

static bp_embedding clip_embedding(const bp_model_config *config)
{
    const uint32_t first = clip_text(config).first;
    return (bp_embedding){.token = first + BP_CLIP_TEXT_TOKENS,
                          .position = first + BP_CLIP_TEXT_POSITIONS,
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
                                 .out = clip_width(config),
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

/* From the gradient of the vectors. */
static void clip_look_backward(bp_builder *builder, bp_stage_call *call, const clip_end *end,
                               bp_ref d_vectors)
{
    const clip_end e = *end;
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

static void clip_head_backward(bp_builder *builder, bp_stage_call *call)
{
    const clip_end e = clip_look(builder, call->input, true);
    clip_look_backward(builder, call, &e, bp_vector_rows_backward(builder, e.vectors));
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

/* ---- Both towers ---- */

typedef enum pair_place {
    PAIR_IMAGE_EMBED,
    PAIR_IMAGE_BLOCK,
    PAIR_IMAGE_VECTOR,
    PAIR_TEXT_EMBED,
    PAIR_TEXT_BLOCK,
    PAIR_HEAD
} pair_place;

/* The stage of the vectors of images; that of the embeddings of texts follows it. */
static uint32_t pair_memory(const bp_model_config *config)
{
    return bp_clip_config_of(config).vision.stack.layers + 1;
}

static uint32_t pair_stages(const bp_model_config *config)
{
    return pair_memory(config) + bp_clip_config_of(config).text.layers + 3;
}

static pair_place pair_place_of(const bp_model_config *config, uint32_t stage)
{
    const uint32_t memory = pair_memory(config);
    if (stage <= memory) {
        return stage == 0       ? PAIR_IMAGE_EMBED
               : stage < memory ? PAIR_IMAGE_BLOCK
                                : PAIR_IMAGE_VECTOR;
    }
    return stage == memory + 1               ? PAIR_TEXT_EMBED
           : stage + 1 < pair_stages(config) ? PAIR_TEXT_BLOCK
                                             : PAIR_HEAD;
}

static bool pair_is_block(pair_place place)
{
    return place == PAIR_IMAGE_BLOCK || place == PAIR_TEXT_BLOCK;
}

static uint32_t pair_variants(const bp_model_config *config, uint32_t stage)
{
    return pair_is_block(pair_place_of(config, stage)) ? BP_TAPE_VARIANTS : 1;
}

static void pair_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    const uint32_t memory = pair_memory(config);
    static const char *const names[] = {[PAIR_IMAGE_EMBED] = "image.embed",
                                        [PAIR_IMAGE_VECTOR] = "image.head",
                                        [PAIR_TEXT_EMBED] = "text.embed",
                                        [PAIR_HEAD] = "head"};
    const pair_place place = pair_place_of(config, stage);
    if (place == PAIR_IMAGE_BLOCK) {
        bp_name_append_number(bp_name_append(text, "image.layers."), stage - 1);
    } else if (place == PAIR_TEXT_BLOCK) {
        bp_name_append_number(bp_name_append(text, "text.layers."), stage - memory - 2);
    } else {
        bp_name_append(text, names[place]);
    }
}

/* The logarithm of the scale. */
static uint32_t pair_scale(const bp_model_config *config)
{
    return clip_head(config) + (clip_biased(config) ? 4 : 3);
}

static uint32_t pair_parameter_count(const bp_model_config *config)
{
    return pair_scale(config) + (clip_biased(config) ? 2 : 1);
}

static uint32_t pair_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    const bp_clip_config own = bp_clip_config_of(config);
    const bp_vit_config text = clip_text(config);
    const bool image = parameter < text.first;
    const bp_vit_config *tower = image ? &own.vision : &text;
    const uint32_t before = image ? 0 : pair_memory(config) + 1;
    uint32_t block = 0;
    if (parameter < tower->first + bp_vit_embeddings_of(tower).count) {
        return before;
    }
    while (block < tower->stack.layers &&
           parameter >= bp_vit_number(tower, block + 1, BP_VIT_NORM_1)) {
        block++;
    }
    return before + 1 + block;
}

static void pair_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_clip_config own = bp_clip_config_of(config);
    const uint64_t width = own.vision.stack.width;
    const bp_publish_row projection = {"visual_projection.weight",
                                       {clip_width(config), width},
                                       BP_INIT_NORMAL,
                                       own.vision.stack.initializer_range};
    const bp_publish_row scale = {"logit_scale", {1, 0}, BP_INIT_VALUE, own.logit_scale},
                         bias = {"logit_bias", {1, 0}, BP_INIT_ZEROS, 0.0};
    const bool siglip = own.vision.kind == BP_VIT_SIGLIP;
    bp_vit_publish_embeddings(builder, &own.vision);
    for (uint32_t i = 0; i < own.vision.stack.layers; i++) {
        bp_vit_publish_block(builder, &own.vision, i);
    }
    bp_vit_publish_vector(builder, &own.vision, "post_layernorm", true);
    if (siglip) {
        bp_pooler_publish(builder, &own.vision);
    } else {
        bp_publish_head(builder, "", &projection, BP_HEAD_OUTPUT);
    }
    clip_parameters(builder, config);
    bp_publish(builder, "", &scale);
    if (siglip) {
        bp_publish(builder, "", &bias);
    }
}

static uint32_t pair_inputs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    const bp_vit_config own = bp_clip_config_of(&spec->config).vision;
    const uint32_t count = bp_inputs_texts(spec, rows);
    rows[count] = (bp_input){.name = "image",
                             .from = BP_INPUT_SOURCE,
                             .dtype = BP_F32,
                             .rank = 3,
                             .shape = {own.image, own.image, own.channels},
                             .whole = true};
    return count + 1;
}

/* ---- The vectors of images ---- */

typedef struct pair_image {
    bp_norm norm;
    bp_linear projection;
    bp_ref first;      /* (batch, width): the first token of each image, */
    bp_ref statistics; /* of its norm; absent in evaluation */
    bp_ref read;       /* and what the projection reads */
} pair_image;

static pair_image pair_look(bp_builder *builder, bp_ref x, bool backward)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_clip_config own = bp_clip_config_of(config);
    const uint64_t width = own.vision.stack.width;
    pair_image e = {.norm = bp_vit_norm(&own.vision, own.vision.stack.layers, BP_VIT_NORM_1),
                    .projection = {.weight = pair_image_end(&own) + 2,
                                   .bias = BP_NO_PARAMETER,
                                   .in = width,
                                   .out = clip_width(config),
                                   .output_major = true},
                    .statistics = BP_ABSENT};
    if (backward) {
        e.statistics = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, builder->spec->batch,
                                       "norm.statistics");
    }
    e.first = bp_sample_pick(builder, width, BP_SAMPLE_FIRST, x);
    e.read = clip_rows(builder, width, "norm");
    bp_samples_begin(builder);
    bp_norm_forward(builder, &e.norm, builder->rows, e.first, e.read, e.statistics);
    bp_samples_end(builder);
    return e;
}

/* SigLIP's: the pooling head of the last norm of all tokens. */
static bp_ref pair_tokens(bp_builder *builder, const bp_clip_config *own, bp_ref x,
                          bp_ref statistics)
{
    const bp_norm norm = bp_vit_norm(&own->vision, own->vision.stack.layers, BP_VIT_NORM_1);
    const bp_ref y = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                     builder->rows, norm.width, "norm");
    bp_norm_forward(builder, &norm, builder->rows, x, y, statistics);
    return y;
}

static void pair_pool_forward(bp_builder *builder, bp_stage_call *call, const bp_clip_config *own)
{
    const bp_ref tokens = pair_tokens(builder, own, call->input, BP_ABSENT);
    call->output = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                   builder->spec->batch, own->vision.stack.width, "out");
    bp_pooler_forward(builder, &own->vision, pair_image_end(own) + 2, tokens, call->output);
}

static void pair_pool_backward(bp_builder *builder, bp_stage_call *call, const bp_clip_config *own)
{
    const bp_norm norm = bp_vit_norm(&own->vision, own->vision.stack.layers, BP_VIT_NORM_1);
    const bp_ref statistics =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, builder->rows, "norm.statistics");
    const bp_ref tokens = pair_tokens(builder, own, call->input, statistics);
    const bp_ref d =
        bp_pooler_backward(builder, &own->vision, pair_image_end(own) + 2, tokens, call->d_output);
    const bp_norm_backward_call back = {call->input, statistics,         d,
                                        BP_ABSENT,   call->input_wanted, false};
    bp_norm_backward(builder, &norm, &back);
    call->d_input = call->input_wanted ? d : BP_ABSENT;
}

static void pair_image_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_clip_config own = bp_clip_config_of(&builder->spec->config);
    if (own.vision.kind == BP_VIT_SIGLIP) {
        pair_pool_forward(builder, call, &own);
        return;
    }
    const pair_image e = pair_look(builder, call->input, false);
    call->output = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                   builder->spec->batch, e.projection.out, "out");
    bp_samples_begin(builder);
    bp_linear_forward(builder, &e.projection, e.read, BP_ABSENT, call->output);
    bp_samples_end(builder);
}

static void pair_image_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_clip_config own = bp_clip_config_of(&builder->spec->config);
    if (own.vision.kind == BP_VIT_SIGLIP) {
        pair_pool_backward(builder, call, &own);
        return;
    }
    const pair_image e = pair_look(builder, call->input, true);
    const bp_ref d = clip_rows(builder, e.norm.width, "d_norm");
    const bp_norm_backward_call back = {e.first,   e.statistics,       d,
                                        BP_ABSENT, call->input_wanted, false};
    bp_samples_begin(builder);
    bp_linear_backward_parameters(builder, &e.projection, e.read, call->d_output);
    bp_linear_backward_input(builder, &e.projection, call->d_output, d);
    bp_norm_backward(builder, &e.norm, &back);
    bp_samples_end(builder);
    call->d_input = call->input_wanted ? bp_sample_spread(builder, e.norm.width, BP_SAMPLE_FIRST, d)
                                       : BP_ABSENT;
}

/* ---- The loss ---- */

enum { PAIR_TEXT, PAIR_IMAGE, PAIR_SIDES };

typedef struct pair_compared {
    bp_ref units[PAIR_SIDES], norms[PAIR_SIDES]; /* (batch, width), (batch) */
    bp_ref scores;                               /* (batch, batch), and then their gradient */
    bp_ref sums;                                 /* the gradients of scale and bias */
} pair_compared;

static bp_ref pair_make(bp_builder *builder, uint64_t rows, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, rows, width, name);
}

/* c = op(a) op(b) of vectors' width or of pairs. */
static bp_matmul_scalars pair_product(uint64_t pairs, uint64_t width, bool cosines)
{
    return (bp_matmul_scalars){.m = (int64_t)pairs,
                               .n = (int64_t)(cosines ? pairs : width),
                               .k = (int64_t)(cosines ? width : pairs),
                               .lda = (int64_t)(cosines ? width : pairs),
                               .ldb = (int64_t)width,
                               .ldc = (int64_t)(cosines ? pairs : width),
                               .transpose_b = cosines};
}

/* The loss of texts' and images' vectors, added up in builder->result. */
static pair_compared pair_compare(bp_builder *builder, bp_ref texts)
{
    const bp_model_config *config = &builder->spec->config;
    const uint64_t pairs = builder->spec->batch, width = clip_width(config);
    const bp_ref x[PAIR_SIDES] = {texts, builder->memory};
    const bp_unit_rows_scalars unit = {(int64_t)pairs, 1, (int64_t)width};
    const bp_matmul_scalars cosines = pair_product(pairs, width, true);
    const bool sigmoid = clip_biased(config);
    const bp_pair_loss_scalars scalars = {.pairs = (int64_t)pairs,
                                          .sigmoid = sigmoid,
                                          .scaled = builder->spec->scaling.kind != BP_SCALING_OFF};
    pair_compared c;
    for (uint32_t i = 0; i < PAIR_SIDES; i++) {
        c.units[i] = pair_make(builder, pairs, width, "units");
        c.norms[i] = pair_make(builder, pairs, 1, "norms");
        bp_build_unit_rows(
            builder, &(bp_unit_rows_operands){c.units[i], c.norms[i], x[i], builder->step}, &unit);
    }
    c.scores = pair_make(builder, pairs, pairs, "scores");
    c.sums = pair_make(builder, 2, 1, "d_scale");
    bp_build_product(builder, c.scores, c.units[PAIR_TEXT], c.units[PAIR_IMAGE], &cosines);
    const bp_pair_loss_operands operands = {
        .scores = c.scores,
        .losses = pair_make(builder, pairs, 1, "pair_losses"),
        .sums = c.sums,
        .lines = pair_make(builder, 2 * pairs, 3, "lines"),
        .scale = bp_build_acquire(builder, pair_scale(config), BP_FOR_FORWARD),
        .bias =
            sigmoid ? bp_build_acquire(builder, pair_scale(config) + 1, BP_FOR_FORWARD) : BP_ABSENT,
        .step = builder->step,
        .control = bp_build_loss_control(builder)};
    bp_build_pair_loss(builder, &operands, &scalars);
    if (sigmoid) {
        bp_build_release(builder, pair_scale(config) + 1);
    }
    bp_build_release(builder, pair_scale(config));
    bp_loss_sum_of(builder, operands.losses, pairs);
    return c;
}

/* A number's gradient, the sum of one row. */
static void pair_number_backward(bp_builder *builder, uint32_t parameter, bp_ref d)
{
    bp_bias_backward_scalars scalars = {.rows = 1, .n = 1, .pitch = 1};
    if (!bp_build_trainable(builder, parameter)) {
        return;
    }
    const bp_bias_backward_operands operands = {
        .d_bias = bp_build_gradient(builder, parameter, &scalars.accumulate), .d_y = d};
    bp_build_bias_backward(builder, &operands, &scalars);
}

/* The gradient of one side's vectors. */
static bp_ref pair_side_backward(bp_builder *builder, const pair_compared *c, uint32_t side)
{
    const uint64_t pairs = builder->spec->batch, width = clip_width(&builder->spec->config);
    bp_matmul_scalars product = pair_product(pairs, width, false);
    const bp_unit_rows_backward_scalars unit = {(int64_t)pairs, 1, (int64_t)width};
    const bp_ref d_units = pair_make(builder, pairs, width, "d_units"),
                 d = pair_make(builder, pairs, width, "d_vectors");
    const bp_unit_rows_backward_operands operands = {d, d_units, c->units[side], c->norms[side],
                                                     builder->step};
    product.transpose_a = side == PAIR_IMAGE;
    bp_build_product(builder, d_units, c->scores, c->units[1 - side], &product);
    bp_build_unit_rows_backward(builder, &operands, &unit);
    return d;
}

/* Kept logits: of each pair the text's vector, then the image's. */
static void pair_keep(bp_builder *builder, bp_ref texts)
{
    const uint64_t width = clip_width(&builder->spec->config);
    const bp_ref x[PAIR_SIDES] = {texts, builder->memory};
    const bp_sample_row_scalars one = {.batch = 1, .sequence = 1, .width = (int64_t)width};
    for (uint64_t i = 0; bp_ref_present(builder->logits) && i < builder->spec->batch; i++) {
        for (uint32_t side = 0; side < PAIR_SIDES; side++) {
            const bp_sample_row_operands operands = {
                .y = bp_ref_at(builder->logits, (2 * i + side) * width),
                .x = bp_ref_at(x[side], i * width),
                .lengths = BP_ABSENT};
            bp_build_sample_row(builder, &operands, &one);
        }
    }
}

static void pair_head_forward(bp_builder *builder, bp_stage_call *call)
{
    const clip_end e = clip_look(builder, call->input, false);
    pair_keep(builder, e.vectors);
    (void)pair_compare(builder, e.vectors);
    call->output = BP_ABSENT;
}

static void pair_head_backward(bp_builder *builder, bp_stage_call *call)
{
    const clip_end e = clip_look(builder, call->input, true);
    const pair_compared c = pair_compare(builder, e.vectors);
    const bp_model_config *config = &builder->spec->config;
    pair_number_backward(builder, pair_scale(config), c.sums);
    if (clip_biased(config)) {
        pair_number_backward(builder, pair_scale(config) + 1, bp_ref_at(c.sums, 1));
    }
    clip_look_backward(builder, call, &e, pair_side_backward(builder, &c, PAIR_TEXT));
    if (builder->memory_wanted) {
        builder->d_memory = pair_side_backward(builder, &c, PAIR_IMAGE);
    }
}

/* ---- Stages of both ---- */

static void pair_list(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_clip_config own = bp_clip_config_of(config);
    const bp_vit_config text = clip_text(config);
    if (pair_place_of(config, call->stage) == PAIR_IMAGE_BLOCK) {
        bp_vit_block_list(builder, &own.vision, call->stage - 1, block);
    } else {
        bp_vit_block_list(builder, &text, call->stage - pair_memory(config) - 2, block);
    }
}

static void pair_stage_forward(bp_builder *builder, bp_stage_call *call, pair_place place)
{
    const bp_model_config *config = &builder->spec->config;
    if (place == PAIR_IMAGE_EMBED || place == PAIR_TEXT_EMBED) {
        const bp_embedding embedding = clip_embedding(config);
        const bool image = place == PAIR_IMAGE_EMBED;
        const uint64_t width =
            image ? bp_clip_config_of(config).vision.stack.width : embedding.width;
        call->output = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                       builder->rows, width, "out");
        if (image) {
            bp_vit_embed(builder, call->output);
        } else {
            bp_embedding_forward(builder, &embedding, call->output);
        }
    } else if (pair_is_block(place)) {
        bp_block_forward(builder, call, bp_block_family_list(builder, call));
    } else if (place == PAIR_IMAGE_VECTOR) {
        pair_image_forward(builder, call);
    } else {
        pair_head_forward(builder, call);
    }
}

/* Behind the embeddings of texts the vectors of images have their gradient. */
static void pair_stage_backward(bp_builder *builder, bp_stage_call *call, pair_place place)
{
    if (place == PAIR_IMAGE_EMBED) {
        bp_vit_embed_backward(builder, call->d_output);
        call->d_input = BP_ABSENT;
    } else if (place == PAIR_TEXT_EMBED) {
        const bp_embedding embedding = clip_embedding(&builder->spec->config);
        bp_embedding_backward(builder, &embedding, call->d_output);
        call->d_input = call->input_wanted ? builder->d_memory : BP_ABSENT;
    } else if (pair_is_block(place)) {
        bp_block_backward(builder, call, bp_block_family_list(builder, call));
    } else if (place == PAIR_IMAGE_VECTOR) {
        pair_image_backward(builder, call);
    } else {
        pair_head_backward(builder, call);
    }
}

/* Stages of images have the images' rows, all others those of texts. */
static void pair_rows(bp_builder *builder, bp_stage_call *call,
                      void (*stage)(bp_builder *, bp_stage_call *, pair_place))
{
    const pair_place place = pair_place_of(&builder->spec->config, call->stage);
    const bool sees = place <= PAIR_IMAGE_VECTOR;
    bp_vit_rows rows;
    if (sees) {
        bp_vit_rows_begin(builder, &rows);
    }
    stage(builder, call, place);
    if (sees) {
        bp_vit_rows_end(builder, &rows);
    }
}

static void pair_forward(bp_builder *builder, bp_stage_call *call)
{
    pair_rows(builder, call, pair_stage_forward);
}

static void pair_backward(bp_builder *builder, bp_stage_call *call)
{
    pair_rows(builder, call, pair_stage_backward);
}

static uint32_t pair_tapes(bp_builder *builder, const bp_stage_call *call,
                           const bp_tape_request *request, uint32_t *variants)
{
    const bool image = pair_place_of(&builder->spec->config, call->stage) == PAIR_IMAGE_BLOCK;
    bp_vit_rows rows;
    if (!image) {
        return bp_block_family_tapes(builder, call, request, variants);
    }
    bp_vit_rows_begin(builder, &rows);
    const uint32_t count = bp_block_family_tapes(builder, call, request, variants);
    bp_vit_rows_end(builder, &rows);
    return count;
}

static bp_status pair_check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_clip_config own = bp_clip_config_of(config);
    const bp_vit_config *vision = &own.vision;
    const uint32_t heads = vision->stack.heads > 0 ? vision->stack.heads : 1;
    const bp_range sizes[] = {
        {"kind", vision->kind, BP_VIT_CLIP, BP_VIT_SIGLIP},
        {"vision_config.hidden_size", vision->stack.width, 1, 1u << 20},
        {"vision_config.num_hidden_layers", vision->stack.layers, 1, 1u << 12},
        {"vision_config.num_attention_heads", vision->stack.heads, 1, 1u << 16},
        {"vision_config.intermediate_size", vision->stack.inner, 0, 1u << 22},
        {"vision_config.image_size", vision->image, 1, BP_VIT_SIZE_MOST},
        {"vision_config.num_channels", vision->channels, 1, BP_VIT_SIZE_MOST},
        {"vision_config.patch_size", vision->patch, 1, vision->image}};
    BP_TRY(bp_ranges_check(sizes, sizeof sizes / sizeof sizes[0], "clip", error));
    BP_TRY(clip_check(spec, error));
    if (vision->stack.width % heads != 0) {
        return bp_error_limit(error, BP_ERR_USAGE, "clip",
                              "the number of heads does not divide the width hidden_size",
                              "vision_config.num_attention_heads", heads, BP_LIMIT_DIVISOR,
                              vision->stack.width);
    }
    const bool siglip = vision->kind == BP_VIT_SIGLIP;
    if (siglip && 2 * vision->stack.width != config->classes) {
        return bp_error_limit(
            error, BP_ERR_USAGE, "clip", "vectors of texts are as wide as the tower of images",
            "projection_size", config->classes / 2, BP_LIMIT_EXACT, vision->stack.width);
    }
    const bp_range inputs[] = {
        {"max-source-length", spec->source, bp_vit_tokens(vision), bp_vit_tokens(vision)}};
    BP_TRY(bp_ranges_check(inputs, 1, "clip", error));
    const bool few = spec->evaluate && bp_spec_eval_batch(spec) < 2;
    if (few || (spec->optimizer != NULL && spec->batch < 2)) {
        return bp_error_set(error, BP_ERR_USAGE, "clip",
                            "an image is compared with the texts of its micro-batch: at least two",
                            few ? "per-device-eval-batch-size" : "per-device-train-batch-size");
    }
    return spec->working == BP_F32
               ? BP_OK
               : bp_error_set(error, BP_ERR_USAGE, "clip",
                              "images are read in fp32, which is the working type that this model "
                              "has",
                              spec->working == BP_F16 ? "fp16" : "bf16");
}

static const bp_block_family pair_self = {pair_list};

const bp_model bp_model_clip = {.name = "clip",
                                .scratch = sizeof(bp_block),
                                .self = &pair_self,
                                .compares = true,
                                .check = pair_check,
                                .inputs = pair_inputs,
                                .memory = pair_memory,
                                .stages = pair_stages,
                                .stage_name = pair_stage_name,
                                .variants = pair_variants,
                                .tapes = pair_tapes,
                                .slot_name = bp_block_family_slot_name,
                                .parameters = pair_parameters,
                                .parameter_count = pair_parameter_count,
                                .parameter_stage = pair_parameter_stage,
                                .forward = pair_forward,
                                .backward = pair_backward};
