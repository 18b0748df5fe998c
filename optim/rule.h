/* SPDX-License-Identifier: MIT */
/* What the update rules share: their options' ranges, their states in 32, 8 or 4 bits, and their
 * ops. A rule is a row of kernels.def and a bp_rule that describes it; optim/<rule>.c holds both
 * that and the optimizers made of it. */
#ifndef BP_OPTIM_RULE_H
#define BP_OPTIM_RULE_H

#include "core/ops/codec.h"
#include "core/plan/optimizer.h"
#include "optim/clip.h"

#define BP_RULE_STATES      3    /* most states of a rule */
#define BP_RULE_LEAST_STATE 4096 /* smaller tensors keep 32-bit state unless told otherwise */
#define BP_RULE_PERCENTILE  99   /* the highest */

/* The scalars of an update row. Its first seven are the same for all. */
typedef union bp_rule_scalars {
    bp_sgd_scalars sgd;
    bp_adam_scalars adam;
    bp_adamw_scalars adamw;
    bp_lion_scalars lion;
    bp_rmsprop_scalars rmsprop;
    bp_adagrad_scalars adagrad;
    bp_lamb_scalars lamb;
    bp_lars_scalars lars;
    bp_ademamix_scalars ademamix;
} bp_rule_scalars;

/* A number of bp_optimizer_options that a rule takes, its range, and what users call it. */
typedef struct bp_rule_argument {
    const char *name; /* as an option ("adam-beta1") or in --optim-args ("momentum") */
    size_t offset;    /* in bp_optimizer_options; a double, or a bool for BP_RULE_FLAG */
    enum { BP_RULE_FRACTION, BP_RULE_NOT_NEGATIVE, BP_RULE_FLAG } range;
    bool option; /* has an option of its own */
} bp_rule_argument;

struct bp_rule {
    const char *name; /* of its row */
    bp_kernel kernel;
    const char *state_names[BP_RULE_STATES]; /* as in PyTorch */
    uint32_t argument_count;
    const bp_rule_argument *arguments;
    /* States that these options need; NULL: all that have names. */
    uint32_t (*states)(const bp_optimizer_options *options);
    /* Fills the row's own scalars. */
    void (*fill)(const bp_optimizer_options *options, bp_rule_scalars *scalars);
    /* NULL, or the row that forms the norms of the trust ratio, and the ratio's constants. */
    void (*norms)(bp_builder *builder, const bp_rule_scalars *scalars,
                  const bp_adamw_operands *operands, bp_ref partials, bool first);
    double (*coefficient)(const bp_optimizer_options *options);
    bool decay_in_ratio; /* lars: the denominator has decay |w| */
};

/* One of the rules whose update looks at whole tensors: apply has ops beside the row's. */
#define BP_RULE_OPTIMIZER_MATRIX(rule_name, c_suffix, text, form_of, options)                      \
    const bp_optimizer bp_optimizer_##rule_name##c_suffix = {.name = text,                         \
                                                             .form = form_of,                      \
                                                             .defaults = &options,                 \
                                                             .whole_tensors = true,                \
                                                             .rule = &rule,                        \
                                                             .check = bp_rule_check,               \
                                                             .declare = declare,                   \
                                                             .state_bytes = state_bytes,           \
                                                             .norms = bp_clip_norms,               \
                                                             .decide = bp_clip_decide,             \
                                                             .apply = apply};

/* The members of bp_optimizer that are the same for all rules. */
bp_status bp_rule_check(const bp_optimizer *self, const bp_optimizer_options *options,
                        bp_error *error) BP_MUST_CHECK;
void bp_rule_declare(bp_builder *builder);
uint64_t bp_rule_state_bytes(const bp_spec *spec, const bp_parameter *parameter, uint64_t elements);
void bp_rule_apply(bp_builder *builder);

/* For rules of which the update row is only a part: holds or gives back all that is ready; the
 * operands of an update row, and its scalars up to rate_scale; the update of those due parameters
 * that `takes` chooses, by the rule's row. */
void bp_rule_hold(bp_builder *builder, bool hold);
bp_adamw_operands bp_rule_operands(bp_builder *builder, uint32_t index);
void bp_rule_apply_where(bp_builder *builder,
                         bool (*takes)(const bp_builder *builder, uint32_t index));

/* Makes the states of a parameter as the rule's row has them. */
void bp_rule_declare_one(bp_builder *builder, uint32_t index);

/* How the states of a parameter are stored: as its override says, else in the optimizer's form from
 * BP_RULE_LEAST_STATE elements on unless it is an embedding, else in 32 bits. */
bp_codec bp_rule_codec(const bp_spec *spec, const bp_parameter *parameter);

/* An optimizer of a rule: `suffix` follows the rule's name in the C name and in --optim. WHOLE for
 * the rules with a trust ratio, which need all of a tensor's gradient at once; FOLDS for those that
 * AdamA has a form of (core/ops/update.h). */
#define BP_RULE_OPTIMIZER(rule_name, c_suffix, text, form_of, options)                             \
    BP_RULE_OPTIMIZER_OF(rule_name, c_suffix, text, form_of, options, false, false)
#define BP_RULE_OPTIMIZER_ACCUMULATES(rule_name, c_suffix, text, form_of, options)                 \
    BP_RULE_OPTIMIZER_OF(rule_name, c_suffix, text, form_of, options, false, true)
#define BP_RULE_OPTIMIZER_WHOLE(rule_name, c_suffix, text, form_of, options)                       \
    BP_RULE_OPTIMIZER_OF(rule_name, c_suffix, text, form_of, options, true, false)
#define BP_RULE_OPTIMIZER_OF(rule_name, c_suffix, text, form_of, options, whole, fold)             \
    const bp_optimizer bp_optimizer_##rule_name##c_suffix = {.name = text,                         \
                                                             .form = form_of,                      \
                                                             .defaults = &options,                 \
                                                             .whole_tensors = whole,               \
                                                             .unit_sums = whole,                   \
                                                             .folds = fold,                        \
                                                             .rule = &rule,                        \
                                                             .check = bp_rule_check,               \
                                                             .declare = bp_rule_declare,           \
                                                             .state_bytes = bp_rule_state_bytes,   \
                                                             .norms = bp_clip_norms,               \
                                                             .decide = bp_clip_decide,             \
                                                             .apply = bp_rule_apply};

#endif
