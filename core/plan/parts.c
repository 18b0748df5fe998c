/* SPDX-License-Identifier: MIT */
/* Parts of a sample's tokens, and who has them. */
#include "core/plan/parts.h"

#include "core/plan/model.h"

uint32_t bp_spec_token_lanes(const bp_spec *spec)
{
    return spec->token_lanes > 0 ? spec->token_lanes : 1;
}

uint32_t bp_spec_sequence_ranks(const bp_spec *spec)
{
    return spec->sequence_ranks > 0 ? spec->sequence_ranks : 1;
}

uint32_t bp_spec_leaves(const bp_spec *spec)
{
    return bp_spec_virtual_ranks(spec) * bp_spec_token_lanes(spec);
}

uint32_t bp_spec_data_ranks(const bp_spec *spec)
{
    return bp_spec_ranks(spec) / bp_spec_sequence_ranks(spec);
}

uint32_t bp_spec_data_rank(const bp_spec *spec)
{
    return spec->rank / bp_spec_sequence_ranks(spec);
}

uint32_t bp_spec_sequence_rank(const bp_spec *spec)
{
    return spec->rank % bp_spec_sequence_ranks(spec);
}

uint64_t bp_spec_rank_tokens(const bp_spec *spec)
{
    return spec->sequence / bp_spec_sequence_ranks(spec);
}

uint64_t bp_spec_lane_tokens(const bp_spec *spec)
{
    return spec->sequence / bp_spec_token_lanes(spec);
}

/* ---- What cannot be split ---- */

static const char where[] = "token lanes";

const char *bp_token_lanes_option(const bp_spec *spec)
{
    return bp_spec_sequence_ranks(spec) > 1 ? "sequence-ranks" : "virtual-sequence-ranks";
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
            BP_TRY(bp_error_set(error, BP_ERR_USAGE, bp_token_lanes_option(spec), refusals[i].why,
                                refusals[i].option));
        }
    }
    return check_split(spec, error);
}
