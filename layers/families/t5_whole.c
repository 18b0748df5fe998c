/* SPDX-License-Identifier: MIT */
/* The stages of T5 with a decoder. Those of the encoder run over the rows of sources; the others
 * over the texts that are made of them, and are those of a model that reads from left to right. */
#include "layers/families/t5_whole.h"

#include <math.h>

#include "core/plan/range.h"
#include "layers/blocks/t5_block.h"
#include "layers/nodes/cross.h"
#include "layers/nodes/publish.h"

/* What a stage is. */
typedef enum t5_place {
    T5_ENCODER_EMBEDDING,
    T5_ENCODER_BLOCK,
    T5_ENCODER_END,
    T5_DECODER_EMBEDDING,
    T5_DECODER_BLOCK,
    T5_HEAD
} t5_place;

static t5_place t5_place_of(const bp_model_config *config, uint32_t stage)
{
    const bp_t5_config own = bp_t5_config_of(config);
    const uint32_t memory = bp_t5_memory_stage(&own);
    return stage == 0                                         ? T5_ENCODER_EMBEDDING
           : stage < memory                                   ? T5_ENCODER_BLOCK
           : stage == memory                                  ? T5_ENCODER_END
           : stage == memory + 1                              ? T5_DECODER_EMBEDDING
           : stage <= memory + 1 + bp_t5_decoder_layers(&own) ? T5_DECODER_BLOCK
                                                              : T5_HEAD;
}

uint32_t bp_t5_whole_stages(const bp_model_config *config)
{
    const bp_t5_config own = bp_t5_config_of(config);
    return bp_t5_memory_stage(&own) + bp_t5_decoder_layers(&own) + 3;
}

uint32_t bp_t5_whole_variants(const bp_model_config *config, uint32_t stage)
{
    const t5_place place = t5_place_of(config, stage);
    return place == T5_ENCODER_BLOCK || place == T5_DECODER_BLOCK ? BP_TAPE_VARIANTS : 1;
}

void bp_t5_whole_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    const bp_t5_config own = bp_t5_config_of(config);
    switch (t5_place_of(config, stage)) {
    case T5_ENCODER_EMBEDDING:
        bp_name_append(text, "encoder.shared");
        break;
    case T5_ENCODER_BLOCK:
        bp_name_append_number(bp_name_append(text, "encoder.block."), stage - 1);
        break;
    case T5_ENCODER_END:
        bp_name_append(text, "encoder.norm");
        break;
    case T5_DECODER_EMBEDDING:
        bp_name_append(text, "decoder.shared");
        break;
    case T5_DECODER_BLOCK:
        bp_name_append_number(bp_name_append(text, "decoder.block."),
                              stage - bp_t5_memory_stage(&own) - 2);
        break;
    default:
        bp_name_append(text, "head");
        break;
    }
}

bp_causal bp_t5_describe_decoder(const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_t5_config own = bp_t5_config_of(config);
    const uint32_t layers = bp_t5_decoder_layers(&own);
    const uint32_t norm = bp_t5_decoder_first(&own, layers);
    return (bp_causal){
        .embedding = {.token = BP_T5_TABLE,
                      .position = BP_NO_PARAMETER,
                      .vocabulary = config->vocabulary,
                      .positions = config->positions,
                      .width = own.stack.width,
                      .dropout = {bp_t5_decoder_site(&own, 0) - 1, own.stack.embedding_dropout}},
        .norm = {norm, BP_NO_PARAMETER, own.stack.width, own.stack.norm_epsilon, false},
        .output = norm + 1,
        .logit_divisor = own.scaled ? sqrt((double)own.stack.width) : 0.0,
        .dropout = {{bp_t5_decoder_site(&own, layers), own.stack.residual_dropout}}};
}

/* ---- The encoder's stages ---- */

typedef struct t5_encoder {
    bp_source_rows rows;
    bp_ref ids;
    bp_mode mode;
} t5_encoder;

/* Ops go over the rows of sources, and read those; a prompt's source is read as evaluation does. */
static void t5_encoder_begin(bp_builder *builder, t5_encoder *encoder)
{
    encoder->ids = builder->input[BP_INPUT_IDS];
    encoder->mode = builder->mode;
    bp_source_rows_begin(builder, &encoder->rows);
    builder->input[BP_INPUT_IDS] = builder->input[BP_INPUT_SOURCE];
    builder->mode = encoder->mode == BP_MODE_DECODE ? BP_MODE_EVAL : encoder->mode;
}

static void t5_encoder_end(bp_builder *builder, const t5_encoder *encoder)
{
    builder->input[BP_INPUT_IDS] = encoder->ids;
    builder->mode = encoder->mode;
    bp_source_rows_end(builder, &encoder->rows);
}

static bp_norm t5_encoder_norm(const bp_t5_config *own)
{
    return (bp_norm){bp_t5_block_first(own, own->stack.layers), BP_NO_PARAMETER, own->stack.width,
                     own->stack.norm_epsilon, false};
}

/* Dropout of the encoder's output, or, the same, of its gradient. */
static void t5_drop(bp_builder *builder, const bp_t5_config *own, bp_ref x)
{
    const bp_dropout dropout = {bp_t5_site(own->stack.layers), own->stack.residual_dropout};
    if (bp_dropout_probability(builder, &dropout) > 0.0) {
        bp_dropout_apply(builder, &dropout, own->stack.width, x, BP_ABSENT, x);
    }
}

static void t5_memory_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_t5_config own = bp_t5_config_of(&builder->spec->config);
    const bp_norm norm = t5_encoder_norm(&own);
    call->output = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                   builder->rows, norm.width, "out");
    bp_norm_forward(builder, &norm, builder->rows, call->input, call->output, BP_ABSENT);
    t5_drop(builder, &own, call->output);
}

static void t5_memory_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_t5_config own = bp_t5_config_of(&builder->spec->config);
    const bp_norm norm = t5_encoder_norm(&own);
    const bp_ref statistics =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, bp_norm_statistics(&norm),
                        builder->rows, "norm.statistics");
    const bp_ref again = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                         builder->rows, norm.width, "norm");
    bp_norm_forward(builder, &norm, builder->rows, call->input, again, statistics);
    t5_drop(builder, &own, call->d_output);
    const bp_norm_backward_call back = {call->input, statistics,         call->d_output,
                                        BP_ABSENT,   call->input_wanted, false};
    bp_norm_backward(builder, &norm, &back);
    call->d_input = call->input_wanted ? call->d_output : BP_ABSENT;
}

static void t5_encoder_forward(bp_builder *builder, bp_stage_call *call, t5_place place)
{
    t5_encoder encoder;
    t5_encoder_begin(builder, &encoder);
    if (place == T5_ENCODER_EMBEDDING) {
        bp_causal_forward(builder, call);
    } else if (place == T5_ENCODER_BLOCK) {
        bp_block_forward(builder, call, bp_block_family_list(builder, call));
    } else {
        t5_memory_forward(builder, call);
    }
    t5_encoder_end(builder, &encoder);
}

static void t5_encoder_backward(bp_builder *builder, bp_stage_call *call, t5_place place)
{
    t5_encoder encoder;
    t5_encoder_begin(builder, &encoder);
    if (place == T5_ENCODER_EMBEDDING) {
        bp_causal_backward(builder, call);
    } else if (place == T5_ENCODER_BLOCK) {
        bp_block_backward(builder, call, bp_block_family_list(builder, call));
    } else {
        t5_memory_backward(builder, call);
    }
    t5_encoder_end(builder, &encoder);
}

/* ---- All of them ---- */

/* The stage's number in a model of the encoder's blocks that reads from left to right, whose first
 * and last stages are the decoder's. */
static uint32_t t5_causal_stage(const bp_builder *builder, t5_place place)
{
    const bp_t5_config own = bp_t5_config_of(&builder->spec->config);
    return place == T5_HEAD ? own.stack.layers + 1 : 0;
}

void bp_t5_whole_forward(bp_builder *builder, bp_stage_call *call)
{
    const uint32_t stage = call->stage;
    const t5_place place = t5_place_of(&builder->spec->config, stage);
    if (place <= T5_ENCODER_END) {
        t5_encoder_forward(builder, call, place);
    } else if (place == T5_DECODER_BLOCK) {
        bp_block_forward(builder, call, bp_block_family_list(builder, call));
    } else {
        call->stage = t5_causal_stage(builder, place);
        bp_causal_forward(builder, call);
        call->stage = stage;
    }
}

/* Behind the decoder's embedding the encoder's output has all of its gradient. */
void bp_t5_whole_backward(bp_builder *builder, bp_stage_call *call)
{
    const uint32_t stage = call->stage;
    const t5_place place = t5_place_of(&builder->spec->config, stage);
    if (place <= T5_ENCODER_END) {
        t5_encoder_backward(builder, call, place);
    } else if (place == T5_DECODER_BLOCK) {
        bp_block_backward(builder, call, bp_block_family_list(builder, call));
    } else {
        call->stage = t5_causal_stage(builder, place);
        bp_causal_backward(builder, call);
        call->stage = stage;
        if (place == T5_DECODER_EMBEDDING) {
            call->d_input = call->input_wanted ? builder->d_memory : BP_ABSENT;
        }
    }
}

/* The source is read by prefill alone, which leaves what the decoder's blocks make of it. */
void bp_t5_whole_decode(bp_builder *builder, bp_stage_call *call)
{
    const uint32_t stage = call->stage;
    const t5_place place = t5_place_of(&builder->spec->config, stage);
    if (place <= T5_ENCODER_END) {
        call->output = BP_ABSENT;
        if (!builder->continues) {
            t5_encoder_forward(builder, call, place);
        }
    } else if (place == T5_DECODER_BLOCK) {
        bp_block_decode(builder, call, bp_block_family_list(builder, call));
    } else {
        call->stage = t5_causal_stage(builder, place);
        bp_causal_decode(builder, call);
        call->stage = stage;
    }
}

uint32_t bp_t5_whole_tapes(bp_builder *builder, const bp_stage_call *call,
                           const bp_tape_request *request, uint32_t *variants)
{
    if (t5_place_of(&builder->spec->config, call->stage) > T5_ENCODER_END) {
        return bp_block_family_tapes(builder, call, request, variants);
    }
    t5_encoder encoder;
    t5_encoder_begin(builder, &encoder);
    const uint32_t count = bp_block_family_tapes(builder, call, request, variants);
    t5_encoder_end(builder, &encoder);
    return count;
}

/* ---- Refusals ---- */

bp_status bp_t5_whole_check(const bp_spec *spec, bp_error *error)
{
    const bp_t5_config own = bp_t5_config_of(&spec->config);
    const struct {
        bool asked;
        const char *option;
        const char *text;
    } refused[] = {
        {spec->preference.kind != BP_PREFERENCE_NONE, "task",
         "losses over pairs are of models that read one text"},
        {spec->distill.top_k > 0, "distill", "this model has no teacher"},
        {spec->row_weights, "row_weights", "this model's tokens have no weights"},
        {spec->packed, "packing", "texts with sources are not packed"},
        {spec->noise > 0.0, "neftune-noise-alpha", "this model's embeddings get no noise"},
        {spec->generate_regions > 0, "generate-regions",
         "sequences of several prompts are of models that read one text"},
        {spec->lora.token_count > 0, "trainable-token-indices",
         "rows of a table that two stacks read are not trained apart"},
        {spec->lora.magnitudes && spec->generate_context > 0, "use-dora",
         "adapters with magnitudes are merged before this model generates"},
    };
    const bp_range ranges[] = {
        {"max-source-length", spec->source, 1, 1u << 20},
        {"relative_attention_max_distance", own.distance, (uint64_t)own.buckets / 2 + 1, 1u << 24},
        {"num_decoder_layers", own.decoder_layers, 0, 1u << 12},
        {"decoder_start_token_id", own.start_token, 0, (uint64_t)spec->config.vocabulary - 1}};
    BP_TRY(bp_ranges_check(ranges, sizeof ranges / sizeof ranges[0], "t5", error));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (refused[i].asked) {
            return bp_error_set(error, BP_ERR_USAGE, "t5", refused[i].text, refused[i].option);
        }
    }
    return BP_OK;
}
