/* SPDX-License-Identifier: MIT */
/* What the caller wants: model, shapes, optimizer, schedule, device. A plain struct; the plan is a
 * function of it and of nothing else. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_CORE_SPEC_H
#define BP_CORE_SPEC_H

#include "arena/base.h"
#include "core/compile/config.h"
#include "core/error.h"
#include "core/number/dtype.h"
#include "core/number/forms.h"
#include "core/program/device_options.h"

typedef struct bp_model bp_model;
typedef struct bp_optimizer bp_optimizer;

/* Numbers of the update rule and of clipping; an optimizer ignores what it has no use for. */
typedef struct bp_optimizer_options {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
    bool decay_all;           /* decay norms and biases as well */
    double max_grad_norm;     /* 0: no clipping */
    uint32_t percentile;      /* percentile clipping, 1 to 99; 0: none */
    double momentum;          /* sgd, rmsprop, lars */
    double dampening;         /* sgd */
    bool nesterov;            /* sgd */
    double smoothing;         /* rmsprop's alpha */
    double trust_coefficient; /* lars */
    double beta3;             /* ademamix, and the rest: decay of the slow moment */
    double mix;               /* alpha: its weight */
    double mix_steps;         /* T_alpha: steps until it has it; 0: from the start */
    double beta3_steps;       /* T_beta3 */
} bp_optimizer_options;

/* Low-rank adapters (core/compile/adapter.h). */
typedef struct bp_lora {
    uint32_t rank; /* 0: none */
    double alpha;
    double dropout;             /* of what A reads */
    bool rank_stabilized;       /* alpha / sqrt(rank) instead of alpha / rank */
    const char *const *targets; /* ends of modules' names, or "all-linear"; the caller's */
    uint32_t target_count;
} bp_lora;

/* Loss scaling, as torch.amp.GradScaler does it (kernels.def, step_decide). */
typedef enum bp_scaling_kind {
    BP_SCALING_OFF,
    BP_SCALING_STATIC,
    BP_SCALING_DYNAMIC
} bp_scaling_kind;

typedef struct bp_scaling {
    bp_scaling_kind kind;
    double initial;      /* the scale, or where it starts; 65536 is usual */
    double growth;       /* 2 */
    double backoff;      /* 0.5 */
    uint32_t interval;   /* applied steps in a row before the scale grows; 2000 */
    uint32_t hysteresis; /* skipped steps before it shrinks; 1 */
    double floor;        /* it never shrinks below this; 0 in GradScaler */
} bp_scaling;

/* Gradient release: each stage is updated inside backward, and no full gradient ever exists.
 *   EXACT          what the ordinary form computes. Several micro-batches go stage by stage;
 *                  clipping and loss scaling run backward twice, the first time for the norm.
 *   PREVIOUS_NORM  the same with one backward: the clip factor is min(1, max_norm / (|g'| + 1e-6)),
 *                  g' the whole gradient of the applied step before. The first step has none and is
 *                  not clipped. |g'| is part of the state.
 *   ADAMA          AdamA (Zhang et al., arXiv 2305.19982): the gradient g_i of each micro-batch is
 *                  folded into the moments at once, so that one goes forward and backward after the
 *                  other: m becomes beta1 m + (1 - beta1) sum g_i, and v becomes
 *                  beta2 v + (1 - beta2) sum g_i^2, where Adam has (sum g_i)^2. With a single
 *                  micro-batch it is Adam.
 * Both approximations decide on each stage with what is known by then, so an overflow is found
 * after the stages above it have moved: they stop training there, as without loss scaling, and
 * cannot go with a dynamic scale. */
typedef enum bp_release {
    BP_RELEASE_NONE,
    BP_RELEASE_EXACT,
    BP_RELEASE_PREVIOUS_NORM,
    BP_RELEASE_ADAMA
} bp_release;

/* A rule for the parameters whose name matches `glob` (* any run of characters, ? any one); what is
 * not set in it stays. The last rule that sets a thing wins. */
typedef struct bp_parameter_rule {
    const char *glob;
    enum { BP_RULE_FREEZE, BP_RULE_TRAIN, BP_RULE_OVERRIDE } kind; /* TRAIN wins over FREEZE */
    bool sets_rate, sets_decay, sets_bits;
    double learning_rate; /* replaces the peak: the schedule is scaled by it */
    double weight_decay;
    uint32_t optim_bits; /* 32, 8 or 4 */
} bp_parameter_rule;

/* A learning-rate schedule: a pure function of the attempted step. Implementations in optim/. */
typedef struct bp_rate_options {
    double learning_rate; /* the peak */
    double minimum;       /* where decaying schedules end */
    uint64_t warmup_steps;
    uint64_t total_steps;
    uint64_t decay_steps; /* warmup-stable-decay: length of the last phase; 0 means a tenth */
    double cycles;    /* waves of a cosine, 0 means half of one; restarts, 0 means one descent */
    double power;     /* polynomial: of what is left of the way; 0 means 1 */
    double timescale; /* inverse_sqrt, in steps; 0 means the warm-up's, without one 10,000 */
} bp_rate_options;

typedef double (*bp_rate)(const bp_rate_options *options, uint64_t step);

/* Which intermediate results are kept between forward and backward (core/compile/schedule.h). */
typedef enum bp_policy_kind {
    BP_POLICY_NONE,        /* keep everything */
    BP_POLICY_FULL,        /* keep each stage's input */
    BP_POLICY_MEMORY_POOR, /* keep the model's input only */
    BP_POLICY_EVERY,       /* keep the input of every k-th stage */
    BP_POLICY_SQRT,      /* the same with k = ceil(sqrt(stages)) (Chen et al., arXiv 1604.06174) */
    BP_POLICY_LIST,      /* keep the inputs of the stages listed */
    BP_POLICY_SELECTIVE, /* keep everything but what `recompute` names */
    BP_POLICY_ACTIONS    /* a schedule given action by action (core/compile/fit.h makes them) */
} bp_policy_kind;

/* Cheap results inside a stage that its backward can compute again: the bits of `recompute`, and of
 * the numbers of tape variants (bp_model.variants). */
#define BP_RECOMPUTE_NORM       1u
#define BP_RECOMPUTE_ACTIVATION 2u /* gelu, swiglu */
#define BP_RECOMPUTE_ATTENTION  4u
#define BP_RECOMPUTE_ALL        7u

struct bp_action;

typedef struct bp_policy {
    bp_policy_kind kind;
    uint32_t every;       /* BP_POLICY_EVERY: k >= 1 */
    uint32_t recompute;   /* BP_POLICY_SELECTIVE: BP_RECOMPUTE_ bits */
    const uint32_t *list; /* BP_POLICY_LIST: stages; the caller's */
    uint32_t list_count;
    const struct bp_action *actions; /* BP_POLICY_ACTIONS; the caller's */
    uint32_t action_count;
} bp_policy;

#define BP_LENGTHS_MAX 7 /* most programs for shorter sequences beside the one for `sequence` */

typedef struct bp_spec {
    const bp_model *model;
    bp_model_config config;
    const bp_optimizer *optimizer; /* NULL: no training programs (eval and generate only) */
    bp_optimizer_options optimizer_options;
    bp_rate rate; /* NULL: constant learning_rate */
    bp_rate_options rate_options;
    const bp_device *device;
    bp_device_options device_options;

    bp_dtype working;   /* element type of weights and activations: f32, bf16, f16 */
    bp_dtype gradient;  /* element type of weight gradients */
    bool gradient_int8; /* a stage's gradients, of that type, are added up in 8 bits per element
                           (accumulate_codes of kernels.def), which the update reads */
    bp_master master;
    bp_scaling scaling;
    bp_release gradient_release;
    bp_lora lora;
    bp_quantised quantised;         /* of the blocks' dense layers, which are frozen then */
    const bp_parameter_rule *rules; /* the caller's */
    uint32_t rule_count;

    double smoothing;           /* of labels: 0 to below 1 (cross_entropy of kernels.def) */
    const float *class_weights; /* of a classification: (classes), the caller's; NULL: all 1. The
                                   loss is a mean weighted with them */
    uint32_t batch;             /* sequences per micro-batch */
    uint32_t sequence;          /* tokens per sequence; <= config.positions */
    uint32_t lengths[BP_LENGTHS_MAX]; /* shorter sequences that have programs of their own, rising
                                         (core/compile/lengths.h); they change no bit of a result */
    uint32_t length_count;
    uint32_t accumulation; /* micro-batches per optimizer step, >= 1 */
    uint32_t loss_rows;    /* tokens per chunk of the loss; 0: chosen by bp_spec_loss_rows */
    bp_policy policy;
    uint64_t seed;

    uint64_t plan_nodes;       /* steps of exact search when greedy layouts miss the bound; 0: none,
                                  and much less plan memory */
    bool pairs;                /* rows may be pairs of texts: where the model has token types, those
                                  of the second text have type 1 */
    bool evaluate;             /* have the eval program */
    uint32_t eval_batch;       /* sequences per run of it; 0: batch */
    bool keep_logits;          /* which leaves its logits to be read (bp_runtime_evaluate_each) */
    uint32_t generate_context; /* tokens the decode programs can hold; 0: none */
    uint32_t prefill_rows;     /* prompt tokens per run of prefill; 0: 32 */
    bool poison;               /* host only: fill buffers with signalling NaNs at birth and death */
} bp_spec;

/* Whether the norm over all gradients has to be known before the first update: there is clipping or
 * loss scaling, and no approximation that does without. */
bool bp_spec_needs_norm(const bp_spec *spec);

/* Sequences per run of the eval program. */
uint32_t bp_spec_eval_batch(const bp_spec *spec);

/* The chunk used when loss_rows is 0: a function of the shapes only. As few chunks as keep the
 * logits within 60 MB, or have 64 rows, and the rows shared out evenly. */
uint32_t bp_spec_loss_rows(const bp_spec *spec);

/* Checks every field against its range and the model's own rules; BP_ERR_USAGE with the field's
 * option name, what was found and what would be right. */
bp_status bp_spec_check(const bp_spec *spec, bp_error *error) BP_MUST_CHECK;

#endif
