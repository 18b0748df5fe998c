/* SPDX-License-Identifier: MIT */
/* Range checks of a spec, and the sizes it leaves to us. */
#include "core/compile/spec.h"

#include "core/compile/model.h"
#include "core/compile/optimizer.h"
#include "core/compile/range.h"

#define LOSS_CHUNK_BYTES  60000000u
#define LOSS_ROWS_LEAST   64
#define PREFILL_ROWS_MOST 16384 /* as many ids as the runtime's transfer piece holds */

static const char where[] = "spec";

bool bp_spec_needs_norm(const bp_spec *spec)
{
    if (spec->gradient_release > BP_RELEASE_EXACT) {
        return false;
    }
    return spec->optimizer_options.max_grad_norm > 0.0 || spec->optimizer_options.percentile != 0 ||
           spec->scaling.kind != BP_SCALING_OFF;
}

uint32_t bp_spec_eval_batch(const bp_spec *spec)
{
    return spec->eval_batch != 0 ? spec->eval_batch : spec->batch;
}

uint32_t bp_spec_loss_rows(const bp_spec *spec)
{
    uint64_t rows = (uint64_t)spec->batch * spec->sequence;
    const bool tokens = spec->config.task == BP_TASK_TOKENS;
    const uint64_t outputs = tokens ? spec->config.classes : spec->config.vocabulary;
    uint64_t row_bytes = outputs * bp_dtype_bytes(spec->working);
    uint64_t chunk = row_bytes > 0 ? LOSS_CHUNK_BYTES / row_bytes : rows;
    chunk = chunk < LOSS_ROWS_LEAST ? LOSS_ROWS_LEAST : chunk;
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
    const uint64_t most = many ? 1024 : task == BP_TASK_LABELS ? 32 : ends ? 2 : 1;
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
        {"gradient-accumulation-steps", spec->accumulation, 1, 1u << 20},
        {"threads", spec->device_options.threads, 1, BP_THREADS_MAX},
        {"generate-context", spec->generate_context, 0, config->positions},
    };
    BP_TRY(bp_ranges_check(fields, sizeof fields / sizeof fields[0], where, error));
    BP_TRY(check_classes(config, error));
    uint64_t rows = bp_size_mul(spec->batch, spec->sequence);
    const bp_range products[] = {
        {"per-device-train-batch-size", rows, 1, INT32_MAX},
        {"per-device-eval-batch-size", bp_size_mul(bp_spec_eval_batch(spec), spec->sequence), 1,
         INT32_MAX},
        {"gradient-accumulation-steps", bp_size_mul(rows, spec->accumulation), 1, INT32_MAX},
        {"loss-chunk-rows", spec->loss_rows, 0, rows},
        {"prefill-rows", spec->prefill_rows, 0, PREFILL_ROWS_MOST},
    };
    return bp_ranges_check(products, sizeof products / sizeof products[0], where, error);
}

/* Programs for shorter sequences are in rising order. */
static bp_status check_lengths(const bp_spec *spec, bp_error *error)
{
    const bp_range count = {"length-buckets", spec->length_count, 0, BP_LENGTHS_MAX};
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
    return BP_OK;
}

/* Codes have no gradient. */
static bp_status check_quantised(const bp_spec *spec, bp_error *error)
{
    if (spec->quantised == BP_QUANTISED_NONE || spec->optimizer == NULL || spec->lora.rank > 0) {
        return BP_OK;
    }
    return refuse(error, spec->quantised == BP_QUANTISED_INT8 ? "load-in-8bit" : "load-in-4bit",
                  "quantised weights are frozen: training needs adapters, --lora-r 8 for instance");
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
    if (!inside(spec->smoothing, 0.0, 1.0)) {
        return refuse(error, "label-smoothing-factor", "has to be at least 0 and below 1");
    }
    const bool several = task <= BP_TASK_CLASSES || task == BP_TASK_TOKENS;
    if (spec->smoothing > 0.0 && !several) {
        return refuse(error, "label-smoothing-factor",
                      "labels are smoothed where each is one of several classes: language models, "
                      "--task classification and token-classification");
    }
    if (spec->class_weights != NULL && (task != BP_TASK_CLASSES || !finite_weights(spec))) {
        return refuse(error, "class-weights",
                      "weights go with --task classification, and are numbers of at least 0");
    }
    return BP_OK;
}

bp_status bp_spec_check(const bp_spec *spec, bp_error *error)
{
    BP_TRY(check_shapes(spec, error));
    BP_TRY(check_lengths(spec, error));
    BP_TRY(check_precision(spec, error));
    BP_TRY(check_scaling(spec, error));
    BP_TRY(check_lora(spec, error));
    BP_TRY(check_quantised(spec, error));
    BP_TRY(check_loss(spec, error));
    if (spec->policy.kind == BP_POLICY_EVERY && spec->policy.every == 0) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "every:K needs a K of at least 1",
                              "gradient-checkpointing", 0, BP_LIMIT_LEAST, 1);
    }
    BP_TRY(spec->model->check(spec, error));
    if (spec->optimizer == NULL) {
        return BP_OK;
    }
    BP_TRY(check_release(spec, error));
    return spec->optimizer->check(spec->optimizer, &spec->optimizer_options, error);
}
