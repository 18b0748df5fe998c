/* SPDX-License-Identifier: MIT */
/* Whisper as a chain of stages. Those of the encoder run over the rows of samples' spectra, the
 * others over their texts, as those of a model that reads from left to right. */
#include "layers/families/whisper.h"

#include "core/base/math.h"
#include "core/plan/range.h"
#include "layers/blocks/whisper_block.h"
#include "layers/families/causal.h"
#include "layers/heads/classifier.h"
#include "layers/nodes/cross.h"
#include "layers/nodes/inputs.h"
#include "layers/nodes/publish.h"

#define WHISPER_MELS_MOST 1024

BP_FAMILY_CONFIG_FITS(bp_whisper_config);

bp_whisper_config bp_whisper_config_of(const bp_model_config *config)
{
    bp_whisper_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

uint32_t bp_whisper_frames(const bp_whisper_config *own)
{
    return 2 * own->source_positions;
}

static bp_whisper_place whisper_place(const bp_model_config *config, uint32_t stage)
{
    const bp_whisper_config own = bp_whisper_config_of(config);
    return bp_whisper_place_of(&own, stage);
}

static uint32_t whisper_memory(const bp_model_config *config)
{
    const bp_whisper_config own = bp_whisper_config_of(config);
    return bp_whisper_memory_stage(&own);
}

static uint32_t whisper_stages(const bp_model_config *config)
{
    return whisper_memory(config) + bp_whisper_config_of(config).decoder_layers + 3;
}

static bool whisper_is_list(bp_whisper_place place)
{
    return place <= BP_WHISPER_ENCODER_BLOCK || place == BP_WHISPER_DECODER_BLOCK;
}

static uint32_t whisper_variants(const bp_model_config *config, uint32_t stage)
{
    return whisper_is_list(whisper_place(config, stage)) ? BP_TAPE_VARIANTS : 1;
}

static void whisper_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    const uint32_t memory = whisper_memory(config);
    switch (whisper_place(config, stage)) {
    case BP_WHISPER_FIRST_CONV:
        bp_name_append(text, "encoder.conv1");
        break;
    case BP_WHISPER_SECOND_CONV:
        bp_name_append(text, "encoder.conv2");
        break;
    case BP_WHISPER_ENCODER_BLOCK:
        bp_name_append_number(bp_name_append(text, "encoder.layers."), stage - 2);
        break;
    case BP_WHISPER_ENCODER_END:
        bp_name_append(text, "encoder.layer_norm");
        break;
    case BP_WHISPER_DECODER_EMBEDDING:
        bp_name_append(text, "decoder.embed_tokens");
        break;
    case BP_WHISPER_DECODER_BLOCK:
        bp_name_append_number(bp_name_append(text, "decoder.layers."), stage - memory - 2);
        break;
    default:
        bp_name_append(text, "head");
        break;
    }
}

/* ---- Parameters ---- */

static uint32_t whisper_parameter_count(const bp_model_config *config)
{
    const bp_whisper_config own = bp_whisper_config_of(config);
    return bp_whisper_decoder_first(&own, own.decoder_layers) + 2;
}

static uint32_t whisper_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    const bp_whisper_config own = bp_whisper_config_of(config);
    const uint32_t memory = bp_whisper_memory_stage(&own);
    uint32_t index = 0;
    if (parameter < BP_WHISPER_CONV_1) {
        return memory + 1;
    }
    if (parameter < BP_WHISPER_EMBEDDINGS) {
        return parameter < BP_WHISPER_CONV_2 ? 0 : 1;
    }
    if (parameter < bp_whisper_decoder_first(&own, 0)) {
        return 2 + (parameter - BP_WHISPER_EMBEDDINGS) / BP_WHISPER_BLOCK_PARAMETERS;
    }
    while (index < own.decoder_layers && parameter >= bp_whisper_decoder_first(&own, index + 1)) {
        index++;
    }
    return memory + 2 + index;
}

/* The encoder's positions: sines of rising wave lengths, from 2 pi to 10000 times that, then their
 * cosines. */
static double whisper_constant(const bp_model_config *config, uint32_t parameter, uint64_t element)
{
    const uint64_t width = bp_whisper_config_of(config).stack.width, half = width / 2;
    const uint64_t position = element / width, column = element % width;
    const uint64_t wave = column < half ? column : column - half;
    const double step = half > 1 ? bp_log(10000.0) / (double)(half - 1) : 0.0;
    const double angle = (double)position * bp_exp(-step * (double)wave);
    (void)parameter;
    return column < half ? bp_sin(angle) : bp_cos(angle);
}

/* A weight and its bias, or a norm's; `width` 0: a vector. */
static void whisper_publish_layer(bp_builder *builder, const char *prefix, const char *name,
                                  const uint64_t shape[3], bool biased, uint64_t together)
{
    const bp_transformer own = bp_transformer_of(&builder->spec->config);
    const bool norm = shape[1] == 0;
    char whole[BP_NAME_BYTES];
    bp_name_append(bp_name_append(whole, prefix), name);
    const bp_publish_row weight = {".weight",
                                   {shape[0], shape[1], shape[2]},
                                   norm ? BP_INIT_ONES : BP_INIT_NORMAL,
                                   norm ? 0.0 : own.initializer_range};
    const bp_publish_row bias = {".bias", {shape[0], 0}, BP_INIT_ZEROS, 0.0};
    bp_publish_dense(builder, whole, &weight, false, together);
    if (biased) {
        bp_publish_dense(builder, whole, &bias, false, together);
    }
}

/* Attention and the norm before it. */
static void whisper_publish_attention(bp_builder *builder, const char *prefix, const char *name,
                                      uint32_t heads)
{
    const uint64_t width = bp_transformer_of(&builder->spec->config).width;
    const uint64_t matrix[3] = {width, width, 0}, vector[3] = {width, 0, 0};
    char attention[BP_NAME_BYTES], norm[BP_NAME_BYTES];
    bp_name_append(bp_name_append(attention, prefix), name);
    bp_name_append(bp_name_append(norm, attention), "_layer_norm");
    whisper_publish_layer(builder, attention, ".k_proj", matrix, false, width / heads);
    whisper_publish_layer(builder, attention, ".v_proj", matrix, true, 0);
    whisper_publish_layer(builder, attention, ".q_proj", matrix, true, width / heads);
    whisper_publish_layer(builder, attention, ".out_proj", matrix, true, 0);
    whisper_publish_layer(builder, norm, "", vector, true, 0);
}

static void whisper_publish_stack(bp_builder *builder, const bp_whisper_config *own, bool decodes)
{
    const uint64_t width = own->stack.width;
    const uint64_t inner = decodes ? own->decoder_inner : bp_transformer_inner(&own->stack);
    const uint64_t vector[3] = {width, 0, 0}, up[3] = {inner, width, 0},
                   down[3] = {width, inner, 0};
    const uint32_t layers = decodes ? own->decoder_layers : own->stack.layers;
    const uint32_t heads = decodes ? own->decoder_heads : own->stack.heads;
    char prefix[BP_NAME_BYTES];
    char *end = bp_name_append(prefix, decodes ? "model.decoder." : "model.encoder.");
    for (uint32_t i = 0; i < layers; i++) {
        bp_name_append(bp_name_append_number(bp_name_append(end, "layers."), i), ".");
        whisper_publish_attention(builder, prefix, "self_attn", heads);
        if (decodes) {
            whisper_publish_attention(builder, prefix, "encoder_attn", heads);
        }
        whisper_publish_layer(builder, prefix, "fc1", up, true, 0);
        whisper_publish_layer(builder, prefix, "fc2", down, true, 0);
        whisper_publish_layer(builder, prefix, "final_layer_norm", vector, true, 0);
    }
    *end = '\0';
    whisper_publish_layer(builder, prefix, "layer_norm", vector, true, 0);
}

static void whisper_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_whisper_config own = bp_whisper_config_of(config);
    const double range = own.stack.initializer_range;
    const uint64_t width = own.stack.width;
    const uint64_t first[3] = {width, own.mels, 3}, second[3] = {width, width, 3};
    const bp_publish_row token = {
        "embed_tokens.weight", {config->vocabulary, width}, BP_INIT_NORMAL, range};
    const bp_publish_row position = {
        "embed_positions.weight", {config->positions, width}, BP_INIT_NORMAL, range};
    const bp_parameter_info sinusoids = {.name = "model.encoder.embed_positions.weight",
                                         .rank = 2,
                                         .shape = {own.source_positions, width},
                                         .embedding = true,
                                         .constant = true};
    bp_publish_table(builder, "model.decoder.", &token);
    bp_publish_table(builder, "model.decoder.", &position);
    whisper_publish_layer(builder, "model.encoder.", "conv1", first, true, 0);
    whisper_publish_layer(builder, "model.encoder.", "conv2", second, true, 0);
    bp_build_parameter(builder, &sinusoids);
    whisper_publish_stack(builder, &own, false);
    whisper_publish_stack(builder, &own, true);
}

/* ---- The encoder's stages ---- */

typedef struct whisper_encoder {
    bp_source_rows rows;
    bp_mode mode;
} whisper_encoder;

/* Ops go over the rows of spectra; a prompt's is read as evaluation does. */
static void whisper_encoder_begin(bp_builder *builder, whisper_encoder *encoder)
{
    encoder->mode = builder->mode;
    bp_source_rows_begin(builder, &encoder->rows);
    builder->mode = encoder->mode == BP_MODE_DECODE ? BP_MODE_EVAL : encoder->mode;
}

static void whisper_encoder_end(bp_builder *builder, const whisper_encoder *encoder)
{
    builder->mode = encoder->mode;
    bp_source_rows_end(builder, &encoder->rows);
}

/* Dropout of the sum with the positions, or, the same, of its gradient. */
static void whisper_drop(bp_builder *builder, bp_ref x)
{
    const bp_transformer own = bp_transformer_of(&builder->spec->config);
    const bp_dropout dropout = {0, own.embedding_dropout};
    if (bp_dropout_probability(builder, &dropout) > 0.0) {
        bp_dropout_apply(builder, &dropout, own.width, x, BP_ABSENT, x);
    }
}

/* x (batch, positions, width) += the encoder's positions. */
static void whisper_add_positions(bp_builder *builder, bp_ref x)
{
    const bp_whisper_config own = bp_whisper_config_of(&builder->spec->config);
    const uint64_t count = (uint64_t)own.source_positions * own.stack.width;
    const bp_dropout_scalars sum = {.count = (int64_t)count, .per_sample = (int64_t)count};
    const bp_ref positions = bp_build_acquire(builder, BP_WHISPER_SINUSOIDS, BP_FOR_FORWARD);
    for (uint64_t i = 0; i < builder->spec->batch; i++) {
        const bp_ref y = bp_ref_at(x, i * count);
        const bp_dropout_operands parts = {
            .y = y, .x = y, .residual = positions, .step = builder->step};
        bp_build_dropout(builder, &parts, &sum);
    }
    bp_build_release(builder, BP_WHISPER_SINUSOIDS);
}

static bp_norm whisper_encoder_norm(const bp_whisper_config *own)
{
    const uint32_t first = bp_whisper_encoder_first(own, own->stack.layers);
    return (bp_norm){first, first + 1, own->stack.width, own->stack.norm_epsilon, false};
}

static void whisper_memory_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_whisper_config own = bp_whisper_config_of(&builder->spec->config);
    const bp_norm norm = whisper_encoder_norm(&own);
    call->output = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                   builder->rows, norm.width, "out");
    bp_norm_forward(builder, &norm, builder->rows, call->input, call->output, BP_ABSENT);
}

static void whisper_memory_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_whisper_config own = bp_whisper_config_of(&builder->spec->config);
    const bp_norm norm = whisper_encoder_norm(&own);
    const bp_ref statistics =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, bp_norm_statistics(&norm),
                        builder->rows, "norm.statistics");
    const bp_ref again = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                         builder->rows, norm.width, "norm");
    bp_norm_forward(builder, &norm, builder->rows, call->input, again, statistics);
    const bp_norm_backward_call back = {call->input, statistics,         call->d_output,
                                        BP_ABSENT,   call->input_wanted, false};
    bp_norm_backward(builder, &norm, &back);
    call->d_input = call->input_wanted ? call->d_output : BP_ABSENT;
}

/* A convolution's rows are samples while its ops are written. */
static bp_block *whisper_list(bp_builder *builder, bp_stage_call *call, bp_whisper_place place)
{
    if (place == BP_WHISPER_FIRST_CONV) {
        call->input = builder->input[BP_INPUT_SOURCE];
    }
    if (place <= BP_WHISPER_SECOND_CONV) {
        bp_samples_begin(builder);
    }
    return bp_block_family_list(builder, call);
}

static void whisper_encoder_forward(bp_builder *builder, bp_stage_call *call,
                                    bp_whisper_place place)
{
    whisper_encoder encoder;
    whisper_encoder_begin(builder, &encoder);
    if (place == BP_WHISPER_ENCODER_END) {
        whisper_memory_forward(builder, call);
    } else {
        bp_block_forward(builder, call, whisper_list(builder, call, place));
        bp_samples_end(builder);
    }
    if (place == BP_WHISPER_SECOND_CONV) {
        whisper_add_positions(builder, call->output);
        whisper_drop(builder, call->output);
    }
    whisper_encoder_end(builder, &encoder);
}

static void whisper_encoder_backward(bp_builder *builder, bp_stage_call *call,
                                     bp_whisper_place place)
{
    whisper_encoder encoder;
    whisper_encoder_begin(builder, &encoder);
    if (place == BP_WHISPER_SECOND_CONV) {
        whisper_drop(builder, call->d_output);
    }
    if (place == BP_WHISPER_ENCODER_END) {
        whisper_memory_backward(builder, call);
    } else {
        bp_block_backward(builder, call, whisper_list(builder, call, place));
        bp_samples_end(builder);
    }
    whisper_encoder_end(builder, &encoder);
}

/* ---- All of them ---- */

static bp_causal whisper_describe(const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_whisper_config own = bp_whisper_config_of(config);
    const uint32_t norm = bp_whisper_decoder_first(&own, own.decoder_layers);
    const uint32_t site = bp_whisper_decoder_site(&own, 0) - 1;
    const bool pads = config->pad_token >= 0;
    return (bp_causal){.embedding = {.token = BP_WHISPER_TABLE,
                                     .position = BP_WHISPER_POSITIONS,
                                     .vocabulary = config->vocabulary,
                                     .positions = config->positions,
                                     .width = own.stack.width,
                                     .still = pads ? (uint64_t)config->pad_token + 1 : 0,
                                     .dropout = {site, own.stack.embedding_dropout}},
                       .norm = {norm, norm + 1, own.stack.width, own.stack.norm_epsilon, false},
                       .output = BP_NO_PARAMETER};
}

/* The stage's number in a model of the encoder's blocks that reads from left to right, whose first
 * and last stages are the decoder's. */
static uint32_t whisper_causal_stage(const bp_builder *builder, bp_whisper_place place)
{
    const bp_transformer own = bp_transformer_of(&builder->spec->config);
    return place == BP_WHISPER_HEAD ? own.layers + 1 : 0;
}

static void whisper_forward(bp_builder *builder, bp_stage_call *call)
{
    const uint32_t stage = call->stage;
    const bp_whisper_place place = whisper_place(&builder->spec->config, stage);
    if (place <= BP_WHISPER_ENCODER_END) {
        whisper_encoder_forward(builder, call, place);
    } else if (place == BP_WHISPER_DECODER_BLOCK) {
        bp_block_forward(builder, call, bp_block_family_list(builder, call));
    } else {
        call->stage = whisper_causal_stage(builder, place);
        bp_causal_forward(builder, call);
        call->stage = stage;
    }
}

/* Behind the decoder's embedding the encoder's output has all of its gradient. */
static void whisper_backward(bp_builder *builder, bp_stage_call *call)
{
    const uint32_t stage = call->stage;
    const bp_whisper_place place = whisper_place(&builder->spec->config, stage);
    if (place <= BP_WHISPER_ENCODER_END) {
        whisper_encoder_backward(builder, call, place);
    } else if (place == BP_WHISPER_DECODER_BLOCK) {
        bp_block_backward(builder, call, bp_block_family_list(builder, call));
    } else {
        call->stage = whisper_causal_stage(builder, place);
        bp_causal_backward(builder, call);
        call->stage = stage;
        if (place == BP_WHISPER_DECODER_EMBEDDING) {
            call->d_input = call->input_wanted ? builder->d_memory : BP_ABSENT;
        }
    }
}

/* The spectrum is read by prefill alone, which leaves what the decoder's blocks make of it. */
static void whisper_decode(bp_builder *builder, bp_stage_call *call)
{
    const uint32_t stage = call->stage;
    const bp_whisper_place place = whisper_place(&builder->spec->config, stage);
    if (place <= BP_WHISPER_ENCODER_END) {
        call->output = BP_ABSENT;
        if (!builder->continues) {
            whisper_encoder_forward(builder, call, place);
        }
    } else if (place == BP_WHISPER_DECODER_BLOCK) {
        bp_block_decode(builder, call, bp_block_family_list(builder, call));
    } else {
        call->stage = whisper_causal_stage(builder, place);
        bp_causal_decode(builder, call);
        call->stage = stage;
    }
}

static uint32_t whisper_tapes(bp_builder *builder, const bp_stage_call *call,
                              const bp_tape_request *request, uint32_t *variants)
{
    const bp_whisper_place place = whisper_place(&builder->spec->config, call->stage);
    if (place > BP_WHISPER_ENCODER_END) {
        return bp_block_family_tapes(builder, call, request, variants);
    }
    bp_stage_call asked = *call;
    whisper_encoder encoder;
    whisper_encoder_begin(builder, &encoder);
    bp_block *block = whisper_list(builder, &asked, place);
    const uint32_t count = bp_block_tapes(builder, &asked, block, request, variants);
    bp_samples_end(builder);
    whisper_encoder_end(builder, &encoder);
    return count;
}

static const char *whisper_slot_name(const bp_spec *spec, uint32_t stage, uint32_t slot)
{
    const bp_builder builder = {.spec = spec, .rows = 1};
    const bp_stage_call call = {.stage = stage};
    bp_block block;
    bp_whisper_block_describe(&builder, &call, &block);
    return bp_block_slot_name(&block, slot);
}

static uint32_t whisper_inputs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    const bp_whisper_config own = bp_whisper_config_of(&spec->config);
    const uint32_t count = bp_inputs_windows(spec, rows);
    rows[count] = (bp_input){.name = "source",
                             .from = BP_INPUT_SOURCE,
                             .dtype = BP_F32,
                             .rank = 2,
                             .shape = {bp_whisper_frames(&own), own.mels},
                             .whole = true};
    return count + 1;
}

/* ---- Refusals ---- */

static bp_status whisper_check_sizes(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_whisper_config own = bp_whisper_config_of(config);
    const bp_range ranges[] = {
        {"num_mel_bins", own.mels, 1, WHISPER_MELS_MOST},
        {"max_source_positions", own.source_positions, 1, 1u << 16},
        {"decoder_layers", own.decoder_layers, 1, 1u << 12},
        {"decoder_attention_heads", own.decoder_heads, 1, 1u << 16},
        {"decoder_ffn_dim", own.decoder_inner, 1, 1u << 22},
        {"decoder_start_token_id", own.start_token, 0, (uint64_t)config->vocabulary - 1},
        {"max-source-length", spec->source, own.source_positions, own.source_positions}};
    const uint32_t heads[2] = {own.stack.heads, own.decoder_heads};
    BP_TRY(bp_transformer_check(config, "whisper", error));
    BP_TRY(bp_ranges_check(ranges, sizeof ranges / sizeof ranges[0], "whisper", error));
    for (uint32_t i = 0; i < 2; i++) {
        if (own.stack.width % heads[i] != 0) {
            return bp_error_limit(error, BP_ERR_USAGE, "whisper",
                                  "the number of heads does not divide the width",
                                  i == 0 ? "encoder_attention_heads" : "decoder_attention_heads",
                                  heads[i], BP_LIMIT_DIVISOR, own.stack.width);
        }
    }
    return own.stack.width % 2 == 0
               ? BP_OK
               : bp_error_set(error, BP_ERR_USAGE, "whisper",
                              "positions are sines and cosines: the width is even", "d_model");
}

static bp_status whisper_check(const bp_spec *spec, bp_error *error)
{
    const struct {
        bool asked;
        const char *option;
        const char *text;
    } refused[] = {
        {spec->config.task != BP_TASK_CAUSAL_LM, "task",
         "this model writes what it hears: its task is causal-lm"},
        {spec->working != BP_F32, spec->working == BP_F16 ? "fp16" : "bf16",
         "speech is read in fp32, which is the working type that this model has"},
        {spec->preference.kind != BP_PREFERENCE_NONE, "task",
         "losses over pairs are of models that read one text"},
        {spec->distill.top_k > 0, "distill", "this model has no teacher"},
        {spec->row_weights, "row_weights", "this model's tokens have no weights"},
        {spec->packed, "packing", "texts of speech are not packed"},
        {spec->noise > 0.0, "neftune-noise-alpha", "this model's embeddings get no noise"},
        {spec->generate_regions > 0, "generate-regions",
         "sequences of several prompts are of models that read one text"},
        {spec->lora.magnitudes && spec->generate_context > 0, "use-dora",
         "adapters with magnitudes are merged before this model generates"},
    };
    BP_TRY(whisper_check_sizes(spec, error));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (refused[i].asked) {
            return bp_error_set(error, BP_ERR_USAGE, "whisper", refused[i].text, refused[i].option);
        }
    }
    return BP_OK;
}

static const bp_causal_family whisper_self = {{bp_whisper_block_describe}, whisper_describe};

const bp_model bp_model_whisper = {.name = "whisper",
                                   .scratch = sizeof(bp_block),
                                   .self = &whisper_self,
                                   .pads = true,
                                   .check = whisper_check,
                                   .inputs = whisper_inputs,
                                   .memory = whisper_memory,
                                   .stages = whisper_stages,
                                   .stage_name = whisper_stage_name,
                                   .variants = whisper_variants,
                                   .tapes = whisper_tapes,
                                   .slot_name = whisper_slot_name,
                                   .parameters = whisper_parameters,
                                   .parameter_count = whisper_parameter_count,
                                   .parameter_stage = whisper_parameter_stage,
                                   .constant = whisper_constant,
                                   .forward = whisper_forward,
                                   .backward = whisper_backward,
                                   .decode = whisper_decode};
