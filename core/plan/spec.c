/* SPDX-License-Identifier: MIT */
/* Range checks of a spec, and the sizes it leaves to us. */
#include "core/plan/spec.h"

#include <math.h>
#include <string.h>

#include "core/plan/input.h"
#include "core/plan/model.h"
#include "core/plan/optimizer.h"
#include "core/plan/parts.h"
#include "core/plan/range.h"
#include "core/plan/rows.h"

#define LOSS_CHUNK_BYTES   60000000u
#define LOSS_BROUGHT_BYTES ((uint64_t)1 << 30)
#define LOSS_ROWS_LEAST    64
#define PREFILL_ROWS_MOST                                                                          \
    (BP_TRANSFER_BYTES / 8) /* as many ids, and an extent of each, as a transfer piece holds */

static const char where[] = "spec";

bool bp_spec_needs_norm(const bp_spec *spec)
{
    if (spec->gradient_release > BP_RELEASE_EXACT) {
        return false;
    }
    return spec->optimizer_options.max_grad_norm > 0.0 || spec->optimizer_options.percentile != 0 ||
           spec->scaling.kind != BP_SCALING_OFF;
}

bool bp_spec_keeps_vectors(const bp_spec *spec)
{
    return spec->config.task == BP_TASK_EMBEDDING && spec->texts > 1 && spec->accumulation > 1;
}

uint32_t bp_spec_eval_batch(const bp_spec *spec)
{
    return spec->eval_batch != 0 ? spec->eval_batch : spec->batch;
}

uint32_t bp_spec_decode_rows(const bp_spec *spec)
{
    return spec->generate_sequences > 1 ? spec->generate_sequences : 1;
}

uint32_t bp_spec_loss_rows(const bp_spec *spec)
{
    uint64_t rows = (uint64_t)spec->batch * spec->sequence;
    const bool tokens = spec->config.task == BP_TASK_TOKENS;
    const uint64_t outputs = tokens ? spec->config.classes : spec->config.vocabulary;
    const uint64_t width = bp_dtype_bytes(spec->working);
    const bool wide = spec->policy_temperature > 0.0 && spec->working != BP_F32;
    const uint64_t row_bytes = outputs * (wide ? sizeof(float) + width : width);
    uint64_t chunk = row_bytes > 0 ? LOSS_CHUNK_BYTES / row_bytes : rows;
    chunk = chunk < LOSS_ROWS_LEAST ? LOSS_ROWS_LEAST : chunk;
    /* Each chunk brings the table that is in a file, so there are fewer, up to the parts in which
     * rows come from there. */
    if (spec->offload.bases > 0 && spec->offload.checkpoints == BP_OFFLOAD_STREAMS) {
        const uint64_t most = row_bytes > 0 ? LOSS_BROUGHT_BYTES / row_bytes : rows;
        const uint64_t part = most < spec->sequence_chunk ? most : spec->sequence_chunk;
        chunk = chunk < part ? part : chunk;
    }
    /* As many chunks, but all of one length: no short last one, and less memory for each. */
    const uint64_t chunks = bp_size_ceil_div(rows, chunk);
    return (uint32_t)(chunks > 1 ? bp_size_ceil_div(rows, chunks) : rows);
}

/* A classifier has as many outputs as its task allows. */
static bp_status check_classes(const bp_model_config *config, bp_error *error)
{
    const bp_task task = config->task;
    const bool judges = task >= BP_TASK_CLASSES, ends = task == BP_TASK_ANSWERS;
    const bool many = task == BP_TASK_CLASSES || task == BP_TASK_TOKENS;
    const uint64_t most = many                                                          ? 1024
                          : task == BP_TASK_LABELS                                      ? 32
                          : task == BP_TASK_EMBEDDING || task == BP_TASK_RECONSTRUCTION ? 1u << 20
                          : ends                                                        ? 2
                                                                                        : 1;
    const bp_range fields[] = {
        {"num-labels", config->classes,
         ends     ? 2
         : judges ? 1
                  : 0,
         judges ? most : UINT32_MAX},
    };
    return bp_ranges_check(fields, sizeof fields / sizeof fields[0], where, error);
}

static bp_status check_shapes(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_range fields[] = {
        {"vocab_size", config->vocabulary, 0, INT32_MAX},
        {"n_positions", config->positions, 1, 1u << 24},
        {"per-device-train-batch-size", spec->batch, 1, 1u << 20},
        {"max-seq-length", spec->sequence, 1, config->positions},
        {"max-source-length", spec->source, 0, 1u << 20},
        {"gradient-accumulation-steps", spec->accumulation, 1, 1u << 20},
        {"threads", spec->device_options.threads, 1, BP_THREADS_MAX},
        {"generate-context", spec->generate_context, 0, config->positions},
        {"num-return-sequences", spec->generate_sequences, 0, spec->model->pads ? 1u << 12 : 1},
    };
    BP_TRY(bp_ranges_check(fields, sizeof fields / sizeof fields[0], where, error));
    BP_TRY(check_classes(config, error));
    uint64_t rows = bp_size_mul(spec->batch, spec->sequence);
    const bp_range products[] = {
        {"per-device-train-batch-size", rows, 1, INT32_MAX},
        {"per-device-eval-batch-size", bp_size_mul(bp_spec_eval_batch(spec), spec->sequence), 1,
         INT32_MAX},
        {"gradient-accumulation-steps", bp_size_mul(rows, spec->accumulation), 1, INT32_MAX},
        {"max-source-length",
         bp_size_mul(bp_spec_eval_batch(spec) > spec->batch ? bp_spec_eval_batch(spec)
                                                            : spec->batch,
                     spec->source),
         0, INT32_MAX},
        {"loss-chunk-rows", spec->loss_rows, 0, rows},
        {"between-bytes", spec->between_bytes, 0, (uint64_t)1 << 62},
        {"beside-below", spec->beside_below, 0, spec->shares_base ? (uint64_t)1 << 61 : 0},
        {"beside-above", spec->beside_above, 0, spec->shares_base ? (uint64_t)1 << 61 : 0},
        {"prefill-rows", spec->prefill_rows, 0,
         spec->generate_regions > 0 ? PREFILL_ROWS_MOST / 4 : PREFILL_ROWS_MOST},
        {"generate-regions", spec->generate_regions, 0, spec->model->pads ? 1u << 12 : 0},
        {"generate-prompt", spec->generate_prompt, spec->generate_regions > 0 ? 1 : 0,
         spec->generate_regions > 0 && spec->generate_context > 0 ? spec->generate_context - 1 : 0},
    };
    return bp_ranges_check(products, sizeof products / sizeof products[0], where, error);
}

/* Length buckets are in rising order. */
static bp_status check_lengths(const bp_spec *spec, bp_error *error)
{
    const bp_range count = {"length-buckets", spec->length_count, 0, BP_LENGTH_BUCKETS_MAX};
    BP_TRY(bp_ranges_check(&count, 1, where, error));
    for (uint32_t i = 0; i < spec->length_count; i++) {
        const uint64_t least = i > 0 ? (uint64_t)spec->lengths[i - 1] + 1 : 1;
        const bp_range length = {"length-buckets", spec->lengths[i], least,
                                 (uint64_t)spec->sequence - 1};
        BP_TRY(bp_ranges_check(&length, 1, where, error));
    }
    return BP_OK;
}

/* False for NaN as well. */
static bool inside(double value, double least, double below)
{
    return value >= least && value < below;
}

static bp_status refuse(bp_error *error, const char *option, const char *text)
{
    return bp_error_set(error, BP_ERR_USAGE, where, text, option);
}

/* Which master forms and gradient types go with a working type. */
static bp_status check_precision(const bp_spec *spec, bp_error *error)
{
    bool sixteen = spec->working == BP_BF16 || spec->working == BP_F16;
    if (spec->working != BP_F32 && !sixteen) {
        return refuse(error, "bf16", "the working type is fp32, bf16 or fp16");
    }
    if (!sixteen && spec->master != BP_MASTER_WEIGHT) {
        return refuse(error, "master",
                      "fp32 weights are their own master; give --bf16 or --fp16 with it");
    }
    if (sixteen && spec->master == BP_MASTER_WEIGHT && spec->optimizer != NULL) {
        return refuse(error, "master", "16-bit weights need a master: fp32, split, split8 or none");
    }
    if (spec->working == BP_F16 && spec->master > BP_MASTER_FP32) {
        return refuse(error, "master",
                      "split, split8 and none complete bf16 weights; --fp16 takes --master fp32");
    }
    if (spec->gradient != BP_F32 && spec->gradient != BP_BF16 && spec->gradient != spec->working) {
        return refuse(error, "gradient-dtype",
                      "weight gradients are fp32, bf16 or the working type");
    }
    return BP_OK;
}

bp_status bp_rows_check(const bp_spec *spec, bp_error *error)
{
    static const char option[] = "trainable-token-indices";
    const bp_lora *lora = &spec->lora;
    const uint32_t vocabulary = spec->config.vocabulary;
    if (lora->token_count > BP_TRAINED_ROWS_MAX) {
        return bp_error_limit(error, BP_ERR_USAGE, "lora", "too many rows are to be trained",
                              option, lora->token_count, BP_LIMIT_MOST, BP_TRAINED_ROWS_MAX);
    }
    for (uint32_t i = 0; i < lora->token_count; i++) {
        if (lora->tokens[i] >= vocabulary) {
            return bp_error_limit(error, BP_ERR_USAGE, "lora",
                                  "the vocabulary has no token of this number", option,
                                  lora->tokens[i], BP_LIMIT_MOST, (int64_t)vocabulary - 1);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (lora->tokens[k] == lora->tokens[i]) {
                return bp_error_limit(error, BP_ERR_USAGE, "lora", "a token is there twice", option,
                                      lora->tokens[i], BP_LIMIT_NONE, 0);
            }
        }
    }
    return BP_OK;
}

static bp_status check_lora(const bp_spec *spec, bp_error *error)
{
    const bp_lora *lora = &spec->lora;
    if (lora->rank == 0) {
        return BP_OK;
    }
    if (lora->rank > 4096) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "a value is above its range", "lora-r",
                              lora->rank, BP_LIMIT_MOST, 4096);
    }
    if (!inside(lora->dropout, 0.0, 1.0) || !inside(lora->alpha, 1e-9, 1e9)) {
        return refuse(error, "lora-alpha",
                      "lora-alpha is a positive number and lora-dropout at least 0 and below 1");
    }
    if (lora->bias >= BP_LORA_BIASES) {
        return refuse(error, "lora-bias", "the biases to train are none, all or lora_only");
    }
    return bp_rows_check(spec, error);
}

/* Codes complete no 16-bit weight, and what moves weights moves elements. */
static bp_status check_weights(const bp_spec *spec, bp_error *error)
{
    const bool narrow = spec->master == BP_MASTER_SPLIT || spec->master == BP_MASTER_SPLIT8;
    if (spec->master == BP_MASTER_FP8) {
        return refuse(error, "master", "weights of 8 bits are asked for by weight-dtype");
    }
    if (spec->weights == BP_WEIGHT_WORKING || spec->optimizer == NULL) {
        return BP_OK;
    }
    if (spec->working != BP_BF16 || !narrow) {
        return refuse(error, "weight-dtype",
                      "weights in fp8 go with --bf16, and with --master split8 or split for the "
                      "weights that stay in bf16");
    }
    if (spec->products == BP_PRODUCT_FP8) {
        return refuse(error, "product-dtype",
                      "products with weights in fp8 are those of their values; leave out "
                      "weight-dtype or product-dtype");
    }
    if (spec->lora.rank > 0) {
        return refuse(error, "weight-dtype",
                      "adapters leave the dense layers' weights as they are; --load-in-8bit keeps "
                      "frozen ones in 8 bits");
    }
    if (spec->ranks > 1 && spec->sharing != BP_SHARING_NONE) {
        return refuse(error, "weight-dtype", "weights in fp8 are not shared out; --shard none");
    }
    return BP_OK;
}

/* Names in order, each once, and forms that a file has. */
static bp_status check_stored(const bp_spec *spec, bp_error *error)
{
    if (spec->stored_count > 0 && spec->quantised != BP_QUANTISED_NONE) {
        return refuse(error, "stored", "weights are quantised, or kept as they are stored");
    }
    if (spec->stored_count > 0 && spec->optimizer != NULL && spec->lora.rank == 0) {
        return refuse(error, "stored", "packed weights are frozen: training needs adapters");
    }
    for (uint32_t i = 0; i < spec->stored_count; i++) {
        const bp_stored_weight *weight = &spec->stored[i];
        if (!bp_quantised_packed(weight->form) || !bp_quantised_valid(weight->form)) {
            return refuse(error, weight->name, "there are no such blocks");
        }
        if (i > 0 && strcmp(spec->stored[i - 1].name, weight->name) >= 0) {
            return refuse(error, weight->name, "stored weights are named in order, each once");
        }
    }
    return BP_OK;
}

/* Codes have no gradient. */
static bp_status check_quantised(const bp_spec *spec, bp_error *error)
{
    BP_TRY(check_stored(spec, error));
    if (!bp_quantised_valid(spec->quantised) || bp_quantised_packed(spec->quantised) ||
        spec->quantised == BP_QUANTISED_FP8) {
        return refuse(error, "load-in-4bit", "there is no such form of frozen weights");
    }
    if (!bp_quantised_valid(spec->experts) || spec->experts == BP_QUANTISED_FP8) {
        return refuse(error, "experts", "there is no such form of frozen weights");
    }
    const bool none = spec->quantised == BP_QUANTISED_NONE && spec->experts == BP_QUANTISED_NONE;
    if (none || spec->optimizer == NULL || spec->lora.rank > 0) {
        return BP_OK;
    }
    return bp_error_mend(
        error, BP_ERR_USAGE, where,
        "quantised weights are frozen: training needs adapters, --lora-r 8 for instance",
        spec->quantised == BP_QUANTISED_NONE   ? "experts"
        : spec->quantised == BP_QUANTISED_INT8 ? "load-in-8bit"
                                               : "load-in-4bit",
        BP_MEND_ADAPTERS);
}

static bp_status check_scaling(const bp_spec *spec, bp_error *error)
{
    const bp_scaling *scaling = &spec->scaling;
    if (scaling->kind == BP_SCALING_OFF) {
        if (spec->working == BP_F16 && spec->optimizer != NULL) {
            return refuse(
                error, "loss-scale",
                "--fp16 gradients underflow without loss scaling; dynamic is the default");
        }
        return BP_OK;
    }
    if (!inside(scaling->initial, 1e-30, 1e30)) {
        return refuse(error, "loss-scale", "a loss scale is a positive number below 1e30");
    }
    if (scaling->kind == BP_SCALING_DYNAMIC) {
        bool moves = inside(scaling->growth, 1.0, 1e6) && inside(scaling->backoff, 1e-6, 1.0);
        bool counts = scaling->interval >= 1 && scaling->hysteresis >= 1;
        if (!moves || !counts || !inside(scaling->floor, 0.0, 1e30)) {
            return refuse(error, "loss-scale",
                          "growth is at least 1, backoff inside (0, 1), interval and hysteresis at "
                          "least 1, the floor not negative");
        }
    }
    return BP_OK;
}

/* Pairs of rows. */
static bp_status check_preference(const bp_spec *spec, bp_error *error)
{
    const bp_preference *p = &spec->preference;
    if (p->kind == BP_PREFERENCE_NONE) {
        return BP_OK;
    }
    if (!bp_input_declared(spec, BP_INPUT_PREFERENCES) || spec->generate_context > 0) {
        return refuse(error, "task",
                      "a loss over pairs is for training a language model that reads from left to "
                      "right: gpt2, llama and their relatives");
    }
    if (spec->batch % 2 != 0 || bp_spec_eval_batch(spec) % 2 != 0) {
        return refuse(error, "per-device-train-batch-size", "a batch holds whole pairs of rows");
    }
    if (spec->smoothing > 0.0 || spec->class_weights != NULL) {
        return refuse(error, "label-smoothing-factor",
                      "a loss over pairs has no smoothed tokens; --label-smoothing is that of "
                      "pairs");
    }
    if (!inside(p->beta, 1e-9, 1e9) || !inside(p->smoothing, 0.0, 0.5)) {
        return refuse(error, "beta",
                      "beta is above 0, and the label smoothing of pairs at least 0 and below 0.5");
    }
    if (!inside(p->gamma, 0.0, 1e9) || !inside(p->nll, 0.0, 1e9) ||
        !inside(p->desirable, 0.0, 1e9) || !inside(p->undesirable, 0.0, 1e9)) {
        return refuse(error, "simpo-gamma", "the numbers of a loss over pairs are at least 0");
    }
    return BP_OK;
}

/* What can be shared out. */
static bp_status check_sharing(const bp_spec *spec, bp_error *error)
{
    if (spec->ranks < 2 || spec->sharing == BP_SHARING_NONE) {
        return BP_OK;
    }
    if (spec->rank >= spec->ranks) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "there is no such rank", "rank",
                              spec->rank, BP_LIMIT_BELOW, spec->ranks);
    }
    if (spec->gather_ahead > BP_AHEAD_MOST) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "weights gathered ahead", "shard-ahead",
                              spec->gather_ahead, BP_LIMIT_MOST, BP_AHEAD_MOST);
    }
    if (spec->optimizer != NULL && spec->optimizer->whole_tensors && !spec->optimizer->unit_sums) {
        return refuse(error, "shard",
                      "the update rule looks at whole tensors (rows and columns, projections), "
                      "which shards would part; take --shard none, or adamw, adam, lion, sgd");
    }
    return BP_OK;
}

/* Chunks are formed of blocks that read from left to right, and cut rows that stand for themselves:
 * the columns of a product in fp8 have a scale over all rows. */
static bp_status check_chunk(const bp_spec *spec, bp_error *error)
{
    const char *name = "sequence-chunk";
    if (spec->sequence_chunk == 0) {
        return BP_OK;
    }
    if (!spec->model->chunks) {
        return refuse(error, name,
                      "chunks of a sequence are for language models that read from left to right: "
                      "gpt2, llama and their relatives");
    }
    if (spec->products == BP_PRODUCT_FP8) {
        return refuse(error, name,
                      "products in fp8 have scales over all rows, which chunks would change; leave "
                      "out product-dtype or sequence-chunk");
    }
    return BP_OK;
}

/* What the approximate forms of gradient release cannot go with. */
static bp_status check_release(const bp_spec *spec, bp_error *error)
{
    const bp_optimizer_options *options = &spec->optimizer_options;
    if (spec->gradient_release != BP_RELEASE_NONE && spec->gradient_int8) {
        return refuse(error, "gradient-dtype",
                      "int8 is a form of full gradients, and released gradients are never full; "
                      "take --gradient-dtype bf16 with --gradient-release, or int8 without it");
    }
    if (spec->gradient_release <= BP_RELEASE_EXACT || spec->optimizer == NULL) {
        return BP_OK;
    }
    if (spec->scaling.kind == BP_SCALING_DYNAMIC) {
        return refuse(error, "gradient-release",
                      "a dynamic loss scale has to find an overflow before the first update, and "
                      "only exact does; take exact, a fixed --loss-scale X, or --bf16");
    }
    if (options->percentile != 0) {
        return refuse(error, "gradient-release",
                      "percentile clipping needs the step's own norm before the first update, and "
                      "only exact has it; take exact, or --percentile-clipping 0");
    }
    if (spec->gradient_release == BP_RELEASE_PREVIOUS_NORM) {
        return BP_OK;
    }
    if (!spec->optimizer->folds) {
        return refuse(error, "gradient-release",
                      "adama folds gradients into the moments of Adam; take --optim adamw or adam "
                      "(in 32, 8 or 4 bits), or another form: exact, previous-norm");
    }
    if (options->max_grad_norm > 0.0) {
        return refuse(error, "gradient-release",
                      "adama folds a gradient away before the norm of the step is known, so it "
                      "cannot be clipped; take --max-grad-norm 0, or another form: exact, "
                      "previous-norm");
    }
    return BP_OK;
}

uint32_t bp_spec_virtual_ranks(const bp_spec *spec)
{
    return spec->virtual_ranks > 0 ? spec->virtual_ranks : 1;
}

uint32_t bp_spec_ranks(const bp_spec *spec)
{
    return spec->ranks > 0 && bp_spec_leaves(spec) > 1 ? spec->ranks : 1;
}

bool bp_spec_whole_group(const bp_spec *spec)
{
    return spec->gradient_release != BP_RELEASE_NONE || bp_spec_leaves(spec) > 1;
}

/* How a group is split into virtual ranks, and virtual ranks among ranks. */
static bp_status check_virtual_ranks(const bp_spec *spec, bp_error *error)
{
    const uint32_t lanes = bp_spec_virtual_ranks(spec), ranks = bp_spec_data_ranks(spec);
    if ((lanes & (lanes - 1)) != 0 || lanes > BP_VIRTUAL_RANKS_MAX) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "the number of virtual ranks is a power of two, at most 1024",
                              "virtual-ranks", lanes, BP_LIMIT_NONE, 0);
    }
    uint32_t least = 1; /* virtual ranks for these ranks */
    while (least < ranks && least < BP_VIRTUAL_RANKS_MAX) {
        least *= 2;
    }
    if (ranks > lanes) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "there are more ranks than virtual ranks",
                              "virtual-ranks", lanes, BP_LIMIT_LEAST, least);
    }
    if (lanes % ranks != 0) {
        return bp_error_limit(
            error, BP_ERR_USAGE, where,
            "the virtual ranks cannot be shared equally: the number of ranks has to "
            "divide theirs",
            "ranks", ranks, BP_LIMIT_MOST, least / 2);
    }
    if (spec->accumulation % lanes != 0) {
        return bp_error_numbers(
            error, BP_ERR_USAGE, where,
            "the micro-batches of a step cannot be shared by the virtual ranks: their number has "
            "to be a multiple of --virtual-ranks, which is by default the number of ranks",
            "gradient-accumulation-steps", spec->accumulation,
            (spec->accumulation / (int64_t)lanes + 1) * (int64_t)lanes);
    }
    if (bp_spec_leaves(spec) == 1) {
        return BP_OK;
    }
    if (spec->gradient_int8) {
        return refuse(
            error, "virtual-ranks",
            "sums in 8 bits are no tree of fp32 additions; take another --gradient-dtype, "
            "or one virtual rank");
    }
    if (spec->gradient_release == BP_RELEASE_ADAMA) {
        return refuse(
            error, "virtual-ranks",
            "adama folds each micro-batch into the moments, which is no sum over virtual ranks; "
            "take another --gradient-release, or one virtual rank");
    }
    return BP_OK;
}

/* Labels can be smoothed and weighted where they are classes. */
static bool finite_weights(const bp_spec *spec)
{
    for (uint32_t i = 0; i < spec->config.classes; i++) {
        if (!inside((double)spec->class_weights[i], 0.0, 1e30)) {
            return false;
        }
    }
    return true;
}

static bp_status check_loss(const bp_spec *spec, bp_error *error)
{
    const bp_task task = spec->config.task;
    if (task == BP_TASK_RECONSTRUCTION &&
        (spec->config.vocabulary != 0 || spec->config.classes != spec->config.positions)) {
        return refuse(error, "task",
                      "reconstruction is for models that read rows of numbers, and gives back as "
                      "many as a row has");
    }
    if (task == BP_TASK_RANKING && spec->config.vocabulary == 0) {
        return refuse(error, "task", "reranking is for models that read texts");
    }
    if (!inside(spec->noise, 0.0, 1e9)) {
        return refuse(error, "neftune-noise-alpha", "has to be a number of at least 0");
    }
    if (spec->noise > 0.0 && spec->config.vocabulary == 0) {
        return refuse(error, "neftune-noise-alpha",
                      "noise is added to the embeddings of tokens, and this model reads numbers");
    }
    if (!(spec->policy_temperature >= 0.0 && spec->policy_temperature <= 1e3)) {
        return refuse(error, "temperature", "has to be at least 0 and at most 1000");
    }
    if (spec->policy_temperature > 0.0 &&
        (task != BP_TASK_CAUSAL_LM || spec->smoothing > 0.0 || spec->distill.top_k > 0 ||
         spec->preference.kind != BP_PREFERENCE_NONE)) {
        return refuse(error, "temperature",
                      "a policy is a language model whose losses are those of its own tokens: "
                      "nothing is smoothed, distilled or preferred");
    }
    if (!inside(spec->smoothing, 0.0, 1.0)) {
        return refuse(error, "label-smoothing-factor", "has to be at least 0 and below 1");
    }
    const bool classes = task == BP_TASK_CLASSES || task == BP_TASK_TOKENS;
    if (spec->smoothing > 0.0 &&
        (task == BP_TASK_LABELS || task == BP_TASK_REGRESSION || task == BP_TASK_EMBEDDING ||
         task == BP_TASK_RECONSTRUCTION || task == BP_TASK_RANKING)) {
        return refuse(error, "label-smoothing-factor",
                      "labels are smoothed where each is one of several classes: language models, "
                      "--task classification, token-classification and question-answering");
    }
    if (spec->class_weights != NULL && (!classes || !finite_weights(spec))) {
        return refuse(error, "class-weights",
                      "weights go with --task classification and token-classification, and are "
                      "numbers of at least 0");
    }
    return BP_OK;
}

/* Examples are whole, and a group is one batch of them. */
static bp_status check_texts(const bp_spec *spec, bp_error *error)
{
    const bool learns = spec->optimizer != NULL, pairs = spec->model->compares;
    const bool compares = spec->texts > 1 || pairs;
    if (spec->config.task != BP_TASK_EMBEDDING || (!compares && !learns)) {
        return BP_OK;
    }
    if (spec->generate_context > 0) {
        return refuse(error, "task", "a model of vectors does not generate");
    }
    if (!compares) {
        return refuse(error, "task", "vectors are trained on rows of two texts and more");
    }
    if (pairs && spec->texts > 1) {
        return refuse(error, "negatives", "a row of this model has one image and one text");
    }
    if (!pairs && (spec->batch % spec->texts != 0 || bp_spec_eval_batch(spec) % spec->texts != 0)) {
        return refuse(error, "per-device-train-batch-size",
                      "a micro-batch has to hold whole rows of texts");
    }
    if (!pairs && !inside(spec->similarity, 1e-6, 1e6)) {
        return refuse(error, "scale", "has to be above 0, and below a million");
    }
    if (learns && (spec->ranks > 1 || spec->virtual_ranks > 1)) {
        return refuse(
            error, "virtual-ranks",
            "each row is compared with all others of its batch, which virtual ranks and ranks "
            "would part");
    }
    if (bp_spec_keeps_vectors(spec) && spec->gradient_release != BP_RELEASE_NONE) {
        return refuse(error, "gradient-release",
                      "with --task embedding gradients are released where a batch is one "
                      "micro-batch: no --gradient-accumulation-steps");
    }
    return BP_OK;
}

/* What lives in storage is brought by one process, for itself. */
static bp_status check_offload(const bp_spec *spec, bp_error *error)
{
    const bp_offload *offload = &spec->offload;
    if (offload->bases > BP_OFFLOAD_ALL || offload->states > BP_OFFLOAD_ALL ||
        offload->weights > BP_OFFLOAD_ALL || offload->gradients > BP_OFFLOAD_ALL ||
        offload->ahead > BP_OFFLOAD_AHEAD_MOST) {
        return refuse(error, "offload", "shares are parts of 64, and at most 16 are ahead");
    }
    if (offload->part_count > BP_OFFLOAD_PARTS) {
        return refuse(error, "offload", "at most 16 sizes are chosen from one by one");
    }
    if (offload->gradients > 0 && offload->states == 0) {
        return refuse(error, "offload", "gradients are offloaded beside the states that they move");
    }
    const bool any = offload->bases > 0 || offload->states > 0 || offload->weights > 0 ||
                     offload->checkpoints > 0;
    if (offload->fixed && (any || offload->host || !spec->device->tier)) {
        return refuse(error, "offload",
                      "read-only memory beside the arena is the host device's, and nothing else "
                      "is offloaded then");
    }
    if (offload->fixed && spec->ranks > 1) {
        return refuse(error, "offload", "read-only memory beside the arena is for one rank");
    }
    if (offload->fixed && spec->lora.token_count > 0) {
        return refuse(error, "offload",
                      "trained rows are put into a table: not in read-only memory");
    }
    if (!any) {
        return BP_OK;
    }
    if (offload->checkpoints > 0 && (offload->host || spec->length_count > 0)) {
        return refuse(error, "offload",
                      "checkpoints live in a file, and beside one length of sequences");
    }
    const uint64_t rows = bp_size_mul(spec->batch, spec->sequence);
    if (offload->checkpoints == BP_OFFLOAD_STREAMS &&
        (spec->sequence_chunk == 0 || spec->sequence_chunk >= rows)) {
        return refuse(error, "offload",
                      "streams come and go in chunks of fewer tokens than a micro-batch has: "
                      "--sequence-chunk N");
    }
    if (offload->states > 0 && spec->optimizer != NULL && spec->optimizer->whole_tensors) {
        return refuse(error, "offload",
                      "the update rule needs whole tensors for its trust ratios; take one without "
                      "them: adamw, adam, lion, sgd");
    }
    if (!offload->host && !spec->device->tier) {
        return refuse(error, "offload", "this device has no tier of memory to offload to");
    }
    if (spec->ranks > 1) {
        return refuse(error, "offload",
                      "of several ranks nothing is offloaded; --shard parameters gives each a part "
                      "of the weights");
    }
    return BP_OK;
}

/* Weights that are averaged for evaluations have all of their state at hand. */
static bp_status check_pixels(const bp_spec *spec, bp_error *error)
{
    const bp_pixel_bytes *pixels = &spec->pixels;
    bp_input rows[BP_INPUTS_MAX];
    if (!pixels->there) {
        return BP_OK;
    }
    const bool read = bp_input_declare(spec, rows) > 0 && rows[0].dtype == BP_U8;
    bool divides = true;
    for (uint32_t c = 0; c < 4; c++) {
        divides = divides && fabs(pixels->std[c]) > 0.0;
    }
    return read && divides
               ? BP_OK
               : refuse(error, "pixels",
                        "images in bytes are for convolutional nets of 1 to 4 channels that do "
                        "not give them back, whose images have a multiple of 4 numbers");
}

static bp_status check_average(const bp_spec *spec, bp_error *error)
{
    const bp_optimizer *optimizer = spec->optimizer;
    if (optimizer == NULL || optimizer->average == NULL) {
        return BP_OK;
    }
    if (spec->weights == BP_WEIGHT_FP8) {
        return refuse(error, "weight-dtype",
                      "this update rule evaluates an average, which weights in fp8 do not hold");
    }
    if (spec->ranks > 1 && spec->sharing != BP_SHARING_NONE) {
        return refuse(error, "shard",
                      "this update rule evaluates an average of all of its state; --shard none");
    }
    return spec->offload.states > 0
               ? refuse(error, "offload",
                        "this update rule evaluates an average of all of its state; take one "
                        "without it: adamw, adam, lion, sgd")
               : BP_OK;
}

/* What a spec says of a teacher. */

static bp_status distill_refuse(bp_error *error, const char *option, const char *text)
{
    return bp_error_set(error, BP_ERR_USAGE, where, text, option);
}

/* What only a student has. */
static bp_status check_student(const bp_spec *spec, bp_error *error)
{
    const bp_distill *d = &spec->distill;
    if (spec->smoothing > 0.0) {
        return distill_refuse(error, "label-smoothing-factor",
                              "the loss against a teacher has no smoothed labels");
    }
    if (!(d->alpha >= 0.0 && d->alpha <= 1.0)) {
        return distill_refuse(error, "distill-alpha",
                              "the teacher's part of the loss is from 0 to 1");
    }
    if (!(d->temperature >= 1e-3 && d->temperature <= 1e3)) {
        return distill_refuse(error, "distill-temperature",
                              "the temperature is from 0.001 to 1000");
    }
    return BP_OK;
}

static bp_status check_distill(const bp_spec *spec, bp_error *error)
{
    const bp_distill *d = &spec->distill;
    const uint64_t words = spec->config.vocabulary;
    const uint32_t most = words < BP_DISTILL_MOST ? (uint32_t)words : BP_DISTILL_MOST;
    if (d->top_k == 0) {
        return BP_OK;
    }
    if (d->top_k > most) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "a teacher's tokens at each place",
                              "distill-top-k", d->top_k, BP_LIMIT_MOST, most);
    }
    if (spec->config.task != BP_TASK_CAUSAL_LM || spec->preference.kind != BP_PREFERENCE_NONE ||
        (!d->is_teacher && !bp_input_declared(spec, BP_INPUT_TOPS))) {
        return distill_refuse(
            error, "distill",
            "a teacher is for training a language model that reads from left to right: gpt2, "
            "llama and their relatives");
    }
    return d->is_teacher ? BP_OK : check_student(spec, error);
}

/* What buffers are aligned to: what the device's forms ask for, or more of the same. */
static bp_status check_alignment(const bp_spec *spec, bp_error *error)
{
    const uint64_t asked = bp_device_alignment(&spec->device_options);
    uint64_t least = BP_ARENA_ALIGNMENT;
    if (spec->device != NULL && spec->device->alignment != NULL) {
        least = spec->device->alignment(&spec->device_options);
    }
    if (asked < least) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "the kernels of this device take buffers at multiples of more bytes; "
                              "32 are for --kernels portable, neon or avx2, 64 for all of the host",
                              "alignment", (int64_t)asked, BP_LIMIT_LEAST, (int64_t)least);
    }
    if (asked > BP_ARENA_ALIGNMENT || (asked & (asked - 1)) != 0) {
        return refuse(error, "alignment", "buffers are aligned to 32, 64, 128 or 256 bytes");
    }
    if ((spec->beside_below | spec->beside_above) % asked != 0) {
        return refuse(error, "beside-below", "bytes of others are multiples of the alignment");
    }
    return BP_OK;
}

/* The rate stands in the options of the schedule, and without one in those of the rule: a 0 there
 * beside another number in the other place is a mistake that would train nothing. */
static bp_status check_rate(const bp_spec *spec, bp_error *error)
{
    const double rule = spec->optimizer_options.learning_rate;
    const double peak = spec->rate_options.learning_rate;
    const bool scheduled = spec->rate != NULL;
    if (spec->optimizer == NULL || (scheduled ? peak : rule) != 0.0 ||
        (scheduled ? rule : peak) == 0.0) {
        return BP_OK;
    }
    return refuse(error,
                  scheduled ? "rate_options.learning_rate" : "optimizer_options.learning_rate",
                  "the learning rate that is used is 0, and the other one is not");
}

bp_status bp_spec_check(const bp_spec *spec, bp_error *error)
{
    if (spec->model == NULL) {
        return refuse(error, "model", "the spec has none");
    }
    BP_TRY(check_shapes(spec, error));
    BP_TRY(check_alignment(spec, error));
    BP_TRY(check_lengths(spec, error));
    BP_TRY(check_rate(spec, error));
    BP_TRY(check_precision(spec, error));
    BP_TRY(check_scaling(spec, error));
    BP_TRY(check_lora(spec, error));
    BP_TRY(check_weights(spec, error));
    BP_TRY(check_quantised(spec, error));
    BP_TRY(check_offload(spec, error));
    BP_TRY(check_average(spec, error));
    BP_TRY(check_pixels(spec, error));
    BP_TRY(check_loss(spec, error));
    BP_TRY(check_texts(spec, error));
    BP_TRY(check_chunk(spec, error));
    if (spec->policy.kind == BP_POLICY_EVERY && spec->policy.every == 0) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "every:K needs a K of at least 1",
                              "gradient-checkpointing", 0, BP_LIMIT_LEAST, 1);
    }
    BP_TRY(spec->model->check(spec, error));
    BP_TRY(check_preference(spec, error));
    BP_TRY(check_distill(spec, error));
    if (spec->row_weights && (!bp_input_declared(spec, BP_INPUT_WEIGHTS) ||
                              spec->preference.kind != BP_PREFERENCE_NONE ||
                              spec->distill.top_k > 0 || spec->class_weights != NULL)) {
        return refuse(error, "row_weights",
                      "weights of rows are for training a language model that reads from left to "
                      "right on its own labels alone");
    }
    if (spec->source > 0 && !bp_input_declared(spec, BP_INPUT_SOURCE)) {
        return refuse(error, "max-source-length",
                      "this model reads one text: a source is of models with an encoder and a "
                      "decoder");
    }
    if (spec->packed && (!bp_input_declared(spec, BP_INPUT_STARTS) || spec->generate_context > 0)) {
        return refuse(error, "packing",
                      "documents are packed for training language models that guess the next "
                      "token");
    }
    if (spec->optimizer == NULL) {
        return BP_OK;
    }
    BP_TRY(check_release(spec, error));
    BP_TRY(check_sharing(spec, error));
    BP_TRY(bp_token_lanes_check(spec, error));
    BP_TRY(check_virtual_ranks(spec, error));
    return spec->optimizer->check(spec->optimizer, &spec->optimizer_options, error);
}
