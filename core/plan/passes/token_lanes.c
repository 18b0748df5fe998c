/* SPDX-License-Identifier: MIT */
/* Sums over tokens, lane by lane. */
#include "core/plan/passes/token_lanes.h"

#include "core/plan/compile_private.h"
#include "core/plan/model.h"
#include "core/plan/passes/virtual_ranks.h"

static const char where[] = "token lanes";

/* Inputs of which each token has one value, which nothing else than its row reads. */
static const bp_input_from by_token[] = {BP_INPUT_IDS, BP_INPUT_LABELS, BP_INPUT_EXTENTS};

#define BY_TOKEN (sizeof by_token / sizeof by_token[0])

static bool lanes_there(const bp_builder *builder)
{
    return bp_spec_token_lanes(builder->spec) > 1;
}

uint32_t bp_token_lanes_count(const bp_builder *builder)
{
    return lanes_there(builder) ? builder->lanes.compile->token_lanes : 1;
}

static void shift_inputs(bp_builder *builder, uint64_t tokens)
{
    for (size_t i = 0; i < BY_TOKEN; i++) {
        bp_ref *input = &builder->input[by_token[i]];
        *input = bp_ref_present(*input) ? bp_ref_at(*input, tokens) : *input;
    }
}

void bp_token_lanes_place(bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    builder->row_first = bp_spec_sequence_rank(spec) * bp_spec_rank_tokens(spec);
    shift_inputs(builder, builder->row_first);
}

void bp_token_lane_begin(bp_builder *builder, uint32_t lane)
{
    bp_token_lanes *lanes = &builder->lanes;
    if (!lanes_there(builder)) {
        return;
    }
    const uint64_t rows = bp_spec_lane_tokens(builder->spec);
    lanes->outside = false;
    lanes->row = lane * rows;
    lanes->rows = builder->rows;
    lanes->losses = builder->losses;
    for (size_t i = 0; i < BY_TOKEN; i++) {
        lanes->input[i] = builder->input[by_token[i]];
    }
    builder->rows = rows;
    builder->row_first += lanes->row;
    builder->losses = bp_token_lane_at(builder, builder->losses, 1);
    shift_inputs(builder, lanes->row);
    bp_virtual_ranks_enter(lanes->compile, builder, lanes->first + lane);
}

void bp_token_lane_end(bp_builder *builder, uint32_t lane)
{
    bp_token_lanes *lanes = &builder->lanes;
    if (!lanes_there(builder)) {
        return;
    }
    bp_virtual_ranks_leave(lanes->compile, builder, lanes->first + lane);
    lanes->outside = true;
    builder->row_first -= lanes->row;
    lanes->row = 0;
    builder->rows = lanes->rows;
    builder->losses = lanes->losses;
    for (size_t i = 0; i < BY_TOKEN; i++) {
        builder->input[by_token[i]] = lanes->input[i];
    }
}

bp_ref bp_token_lane_at(const bp_builder *builder, bp_ref ref, uint64_t width)
{
    return bp_ref_present(ref) ? bp_ref_at(ref, builder->lanes.row * width) : ref;
}

void bp_token_lanes_enter(bp_compile *compile, bp_builder *builder, uint32_t micro)
{
    builder->lanes = (bp_token_lanes){.compile = compile, .outside = lanes_there(builder)};
    if (compile->virtual_ranks == 0) {
        return;
    }
    builder->lanes.first = bp_virtual_ranks_lane(compile, micro);
    if (!builder->lanes.outside) {
        bp_virtual_ranks_enter(compile, builder, builder->lanes.first);
    }
}

void bp_token_lanes_leave(bp_compile *compile, bp_builder *builder, uint32_t micro)
{
    if (compile->virtual_ranks > 0 && !builder->lanes.outside) {
        bp_virtual_ranks_leave(compile, builder, bp_virtual_ranks_lane(compile, micro));
    }
    builder->lanes.outside = false;
}

/* What was asked for, as the option is called. */
static const char *lanes_option(const bp_spec *spec)
{
    return bp_spec_sequence_ranks(spec) > 1 ? "sequence-ranks" : "virtual-sequence-ranks";
}

void bp_token_lanes_refuse(bp_builder *builder, uint32_t index)
{
    if (builder->status == BP_OK) {
        builder->status = bp_error_set(
            builder->graph->error, BP_ERR_USAGE, lanes_option(builder->spec),
            "the gradient of this parameter is not added up part by part of the tokens",
            bp_build_name(builder, index));
    }
}

void bp_token_lanes_whole(bp_builder *builder, const char *what)
{
    if (builder->status == BP_OK && lanes_there(builder)) {
        builder->status = bp_error_set(builder->graph->error, BP_ERR_USAGE, where, what,
                                       lanes_option(builder->spec));
    }
}

/* Numbers. */

static bp_status check_shares(const bp_spec *spec, bp_error *error)
{
    const uint32_t lanes = bp_spec_token_lanes(spec), own = bp_spec_sequence_ranks(spec);
    const uint32_t ranks = spec->ranks > 0 ? spec->ranks : 1;
    const uint32_t most = BP_VIRTUAL_RANKS_MAX / bp_spec_virtual_ranks(spec);
    if ((lanes & (lanes - 1)) != 0 || lanes > most) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "the parts of a sample's tokens are a power of two, and with the "
                              "virtual ranks at most 1024",
                              "virtual-sequence-ranks", lanes, BP_LIMIT_MOST, most);
    }
    if (own > lanes || lanes % own != 0) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "the parts of a sample's tokens cannot be shared equally",
                              "sequence-ranks", own, BP_LIMIT_DIVISOR, lanes);
    }
    if (ranks % own != 0) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "all ranks are groups of so many, each of one sample",
                              "sequence-ranks", own, BP_LIMIT_DIVISOR, ranks);
    }
    if (own > 1 && ranks / own != bp_spec_virtual_ranks(spec)) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "ranks that share a sample's tokens have one virtual rank in each "
                              "group of them",
                              "virtual-ranks", bp_spec_virtual_ranks(spec), BP_LIMIT_EXACT,
                              ranks / own);
    }
    return BP_OK;
}

static bp_status check_split(const bp_spec *spec, bp_error *error)
{
    const uint32_t lanes = bp_spec_token_lanes(spec);
    if (spec->batch != 1) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "where tokens are split a micro-batch is one sample; take more "
                              "--gradient-accumulation-steps",
                              "per-device-train-batch-size", spec->batch, BP_LIMIT_EXACT, 1);
    }
    if (spec->evaluate && bp_spec_eval_batch(spec) != 1) {
        return bp_error_limit(
            error, BP_ERR_USAGE, where, "where tokens are split a micro-batch is one sample",
            "per-device-eval-batch-size", bp_spec_eval_batch(spec), BP_LIMIT_EXACT, 1);
    }
    if (spec->sequence % lanes != 0) {
        return bp_error_numbers(
            error, BP_ERR_USAGE, where, "a sample's tokens are split into parts of equal length",
            "max-seq-length", spec->sequence, (int64_t)bp_size_align(spec->sequence, lanes));
    }
    return BP_OK;
}

/* What is left out, and why. */

static bool other_model(const bp_spec *spec)
{
    return !spec->model->token_lanes;
}

static bool other_task(const bp_spec *spec)
{
    return spec->config.task != BP_TASK_CAUSAL_LM;
}

static bool pairs(const bp_spec *spec)
{
    return spec->preference.kind != BP_PREFERENCE_NONE;
}

static bool teacher(const bp_spec *spec)
{
    return spec->distill.top_k > 0;
}

static bool rewards(const bp_spec *spec)
{
    return spec->row_weights || spec->policy_temperature > 0.0;
}

static bool generates(const bp_spec *spec)
{
    return spec->generate_context > 0;
}

static bool keeps_logits(const bp_spec *spec)
{
    return spec->keep_logits;
}

static bool has_noise(const bp_spec *spec)
{
    return spec->noise > 0.0;
}

static bool chunked(const bp_spec *spec)
{
    return spec->sequence_chunk > 0;
}

static bool several_lengths(const bp_spec *spec)
{
    return spec->length_count > 0;
}

static bool releases(const bp_spec *spec)
{
    return spec->gradient_release != BP_RELEASE_NONE;
}

static bool narrow_products(const bp_spec *spec)
{
    return spec->products == BP_PRODUCT_FP8;
}

static bool narrow_tape(const bp_spec *spec)
{
    return spec->tape == BP_TAPE_FP8;
}

static bool offloads_gradients(const bp_spec *spec)
{
    return spec->offload.gradients > 0;
}

static bool other_device(const bp_spec *spec)
{
    return spec->device != NULL && !spec->device->tier;
}

typedef struct lanes_refusal {
    bool (*holds)(const bp_spec *spec);
    const char *option;
    const char *why;
} lanes_refusal;

static const lanes_refusal refusals[] = {
    {other_model, "model",
     "the tokens of a sample are split among ranks for decoders of the LLaMA and GPT-NeoX "
     "families"},
    {other_task, "task", "the tokens of a sample are split where each is guessed: causal-lm"},
    {pairs, "task", "a loss over pairs of rows needs the whole row; the tokens are not split"},
    {teacher, "distill", "a teacher's tokens are not split among ranks"},
    {rewards, "task", "weights of single tokens are not split among ranks"},
    {generates, "generate", "a run that generates has whole texts; their tokens are not split"},
    {keeps_logits, "token-accuracy", "logits that are kept would be those of a part of the tokens"},
    {has_noise, "neftune-noise-alpha", "noise is drawn by the place of a whole sample"},
    {chunked, "sequence-chunk", "a part of a sample is one chunk"},
    {several_lengths, "length-buckets", "parts of shorter samples would be other sums"},
    {releases, "gradient-release", "gradients are added up over the parts before the update"},
    {narrow_products, "product-dtype", "products in fp8 have scales over all rows"},
    {narrow_tape, "tape-dtype", "blocks of a tape in 8 bits go over the ends of parts"},
    {offloads_gradients, "offload-what", "each part's gradients are in the arena"},
    {other_device, "device", "the tokens of a sample are split on the host's processors alone"},
};

bp_status bp_token_lanes_check(const bp_spec *spec, bp_error *error)
{
    if (bp_spec_token_lanes(spec) == 1 && bp_spec_sequence_ranks(spec) == 1) {
        return BP_OK;
    }
    BP_TRY(check_shares(spec, error));
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (refusals[i].holds(spec)) {
            BP_TRY(bp_error_set(error, BP_ERR_USAGE, lanes_option(spec), refusals[i].why,
                                refusals[i].option));
        }
    }
    return check_split(spec, error);
}
