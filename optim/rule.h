/* SPDX-License-Identifier: MIT */
/* What the update rules share: their options' ranges, their states in 32, 8 or 4 bits, and their
 * ops. A rule is a row of core/ops/rules.def, of which optim/rules.c makes a bp_rule and its
 * optimizers; what is more than a row is in optim/<rule>.c. */
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
#define RULE(name, body) bp_##name##_scalars name;
#include "core/ops/rules.def"
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
    bool momentum_state; /* the last of them is there where options->momentum is above 0 */
    /* Fills the row's own scalars; NULL where apply does. */
    void (*fill)(const bp_optimizer_options *options, bp_rule_scalars *scalars);
    /* NULL, or the row that forms the norms of the trust ratio, and the ratio's constants. */
    void (*norms)(bp_builder *builder, const bp_rule_scalars *scalars,
                  const bp_adamw_operands *operands, bp_ref partials, bool first);
    double (*coefficient)(const bp_optimizer_options *options);
    bool decay_in_ratio; /* lars: the denominator has decay |w| */
};

/* Optimizer number index in the order of rules.def; NULL behind the last. */
const bp_optimizer *bp_rule_optimizer(uint32_t index);

/* How many states the rule has with these options. */
uint32_t bp_rule_states(const bp_rule *rule, const bp_optimizer_options *options);

/* What the words of rules.def take from the rules' own files: rules over whole tensors, trust
 * ratios, and the rule that averages. Contracts are those of the members that they fill. */
#define MATRIX(name, kernel)                                                                       \
    void bp_##name##_declare(bp_builder *builder);                                                 \
    uint64_t bp_##name##_state_bytes(const bp_spec *spec, const bp_parameter *parameter,           \
                                     uint64_t elements);                                           \
    void bp_##name##_apply(bp_builder *builder);
#define TRUST(name, decays)                                                                        \
    void bp_##name##_norms(bp_builder *builder, const bp_rule_scalars *scalars,                    \
                           const bp_adamw_operands *operands, bp_ref partials, bool first);        \
    double bp_##name##_coefficient(const bp_optimizer_options *options);
#include "core/ops/rules.def"
bp_status bp_schedule_free_check(const bp_optimizer *self, const bp_optimizer_options *options,
                                 bp_error *error) BP_MUST_CHECK;
double bp_schedule_free_average(const bp_optimizer_options *options);
void bp_schedule_free_decide(bp_builder *builder, bool later, bool last);

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

#endif
