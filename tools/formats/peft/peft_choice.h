/* SPDX-License-Identifier: MIT */
/* Which modules a configuration of PEFT adapts, and with what rank and alpha (peft/tuners/
 * tuners_utils.py, check_target_module_exists; peft/utils, get_pattern_key):
 *
 *   excluded   a name of exclude_modules is the module's name, or its end behind a dot, or the
 *              expression matches all of it
 *   targeted   the same of target_modules; "all-linear" is every dense layer of the blocks
 *   layers     with layers_to_transform the number behind the last ".<name>.", name one of
 *              layers_pattern or anything, is one of them, unless a target is the whole name; not
 *              beside an expression
 *   patterns   the first key of rank_pattern (alpha_pattern) that matches the name's end behind a
 *              dot, or all of it, sets its rank (alpha) */
#ifndef BP_FORMATS_PEFT_CHOICE_H
#define BP_FORMATS_PEFT_CHOICE_H

#include "core/plan/builder.h"
#include "core/plan/rows.h"
#include "core/plan/spec.h"

#define BP_PEFT_TARGETS_MAX  192 /* three convolutions of each layer that a net may have */
#define BP_PEFT_PATTERNS_MAX 32
#define BP_PEFT_LAYERS_MAX   256
#define BP_PEFT_WORDS        12288 /* bytes of all names together */

typedef struct bp_peft_list {
    const char *item[BP_PEFT_TARGETS_MAX];
    uint32_t count;
    bool expression; /* item[0] is a regular expression, and all there is */
} bp_peft_list;

typedef struct bp_peft_patterns {
    const char *key[BP_PEFT_PATTERNS_MAX];
    double value[BP_PEFT_PATTERNS_MAX];
    uint32_t count;
} bp_peft_patterns;

/* Must not move while it is in use. */
typedef struct bp_peft_choice {
    bp_peft_list targets;
    bp_peft_list excluded;
    bp_peft_list layer_names; /* layers_pattern */
    uint32_t layers[BP_PEFT_LAYERS_MAX];
    uint32_t layer_count;                 /* 0: all */
    uint32_t tokens[BP_TRAINED_ROWS_MAX]; /* trainable_token_indices */
    uint32_t token_count;
    bp_peft_patterns ranks;
    bp_peft_patterns alphas;
    char words[BP_PEFT_WORDS];
    size_t used;
} bp_peft_choice;

/* Lists take texts of `length` bytes, which are copied. NULL, or what is wrong: a static text. */
const char *bp_peft_add_name(bp_peft_choice *choice, bp_peft_list *list, const char *text,
                             size_t length) BP_MUST_CHECK;
const char *bp_peft_add_expression(bp_peft_choice *choice, bp_peft_list *list, const char *text,
                                   size_t length) BP_MUST_CHECK;
const char *bp_peft_add_pattern(bp_peft_choice *choice, bp_peft_patterns *patterns,
                                const char *text, size_t length, double value) BP_MUST_CHECK;
const char *bp_peft_add_layer(bp_peft_choice *choice, double number) BP_MUST_CHECK;
const char *bp_peft_add_token(bp_peft_choice *choice, double number) BP_MUST_CHECK;

/* Whether a text is an expression rather than a name: it has a character that no name has. */
bool bp_peft_is_expression(const char *text, size_t length);

/* Lets lora->targets refer to the choice, and lora->choose where names alone do not say it. NULL,
 * or what does not go together. */
const char *bp_peft_choice_use(const bp_peft_choice *choice, bp_lora *lora) BP_MUST_CHECK;

/* Lets targets be names of modules that transformers 5 has renamed (peft_names.h), of a model that
 * has such; nothing for others. */
void bp_peft_choice_rename(const bp_peft_choice *choice, const bp_model_config *config,
                           bp_lora *lora);

/* Whether the targets name modules as they were called before: then files say the same. */
bool bp_peft_is_older(const bp_builder *builder);

/* The choice behind a bp_lora; NULL where its targets say all. */
const bp_peft_choice *bp_peft_choice_of(const bp_lora *lora);

#endif
