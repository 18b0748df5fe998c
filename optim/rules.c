/* SPDX-License-Identifier: MIT */
/* core/ops/rules.def read as rules and optimizers. */
#include "optim/rules.h"

#include "optim/matrix.h"

#define ARGUMENT(text, member, range, option)                                                      \
    {text, offsetof(bp_optimizer_options, member), BP_RULE_##range, option},
#define RULE(name, body)     static const bp_rule_argument arguments_##name[] = {
#define MATRIX(name, kernel) static const bp_rule_argument arguments_##name[] = {
#define BETA1                ARGUMENT("adam-beta1", beta1, FRACTION, true)
#define BETA2                ARGUMENT("adam-beta2", beta2, FRACTION, true)
#define EPSILON              ARGUMENT("adam-epsilon", epsilon, NOT_NEGATIVE, true)
#define ADAM_OPTIONS                                                                               \
    ARGUMENT("adam-beta1", beta1, FRACTION, true)                                                  \
    ARGUMENT("adam-beta2", beta2, FRACTION, true)                                                  \
    ARGUMENT("adam-epsilon", epsilon, NOT_NEGATIVE, true)
#define NUMBER(x, kind, member, range) ARGUMENT(#x, member, range, false)
#define KEY(x, member, range)          ARGUMENT(#x, member, range, false)
#define END_RULE(name)                                                                             \
    }                                                                                              \
    ;
#include "core/ops/rules.def"

/* The row's own scalars from the options. */
#define RULE(name, body)                                                                           \
    static void rules_fill_##name(const bp_optimizer_options *options, bp_rule_scalars *scalars)   \
    {                                                                                              \
        bp_##name##_scalars *s = &scalars->name;
#define BETA1                          s->beta1 = options->beta1;
#define BETA2                          s->beta2 = options->beta2;
#define EPSILON                        s->epsilon = options->epsilon;
#define NUMBER(x, kind, member, range) s->x = options->member;
#define END_RULE(name)                 }
#define END_MATRIX(name)
#include "core/ops/rules.def"

#define COUNT(array) (uint32_t)(sizeof(array) / sizeof((array)[0]))
#define RULE(rule_name, body)                                                                      \
    static const bp_rule rule_##rule_name = {.name = #rule_name,                                   \
                                             .kernel = BP_KERNEL_##rule_name,                      \
                                             .argument_count = COUNT(arguments_##rule_name),       \
                                             .arguments = arguments_##rule_name,                   \
                                             .fill = rules_fill_##rule_name,
#define MATRIX(rule_name, row)                                                                     \
    static const bp_rule rule_##rule_name = {.name = #rule_name,                                   \
                                             .kernel = BP_KERNEL_##row,                            \
                                             .argument_count = COUNT(arguments_##rule_name),       \
                                             .arguments = arguments_##rule_name,
#define STATE(i, text, sign) .state_names[i] = text,
#define MOMENTUM_STATE       .momentum_state = true,
#define TRUST(name, decays)                                                                        \
    .norms = bp_##name##_norms, .coefficient = bp_##name##_coefficient, .decay_in_ratio = decays,
#define REST .fill = bp_matrix_rest_fill,
#define END_RULE(name)                                                                             \
    }                                                                                              \
    ;
#include "core/ops/rules.def"

#define DEFAULTS(name, ...) static const bp_optimizer_options defaults_##name = {__VA_ARGS__};
#include "core/ops/rules.def"

/* What each kind of optimizer has beside the rule. */
#define OF_RULE                                                                                    \
    .check = bp_rule_check, .declare = bp_rule_declare, .state_bytes = bp_rule_state_bytes,        \
    .decide = bp_clip_decide, .apply = bp_rule_apply
#define OF_PLAIN(rule)    OF_RULE
#define OF_FOLDING(rule)  .folds = true, OF_RULE
#define OF_TRUSTING(rule) .whole_tensors = true, .unit_sums = true, OF_RULE
#define OF_AVERAGING(rule)                                                                         \
    .average = bp_##rule##_average, .state_form = bp_rule_codec, .check = bp_##rule##_check,       \
    .declare = bp_rule_declare, .state_bytes = bp_rule_state_bytes, .decide = bp_##rule##_decide,  \
    .apply = bp_rule_apply
#define OF_WHOLE(rule)                                                                             \
    .whole_tensors = true, .check = bp_rule_check, .declare = bp_##rule##_declare,                 \
    .state_bytes = bp_##rule##_state_bytes, .decide = bp_clip_decide, .apply = bp_##rule##_apply
#define OPTIMIZER(kind, rule_name, optimizer, codec, numbers)                                      \
    const bp_optimizer bp_optimizer_##optimizer = {.name = #optimizer,                             \
                                                   .form = BP_CODEC_##codec,                       \
                                                   .defaults = &defaults_##numbers,                \
                                                   .rule = &rule_##rule_name,                      \
                                                   .norms = bp_clip_norms,                         \
                                                   OF_##kind(rule_name)};
#include "core/ops/rules.def"

static const bp_optimizer *const optimizers[] = {
#define OPTIMIZER(kind, rule, optimizer, codec, defaults) &bp_optimizer_##optimizer,
#include "core/ops/rules.def"
};

const bp_optimizer *bp_rule_optimizer(uint32_t index)
{
    return index < COUNT(optimizers) ? optimizers[index] : NULL;
}
