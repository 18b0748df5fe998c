/* SPDX-License-Identifier: MIT */
/* Built-in rewards: pure functions of a completion's bytes, its count of tokens and the answer of
 * its example. None executes anything of what it reads. */
#ifndef BP_BEDPLATE_REWARD_BUILTIN_H
#define BP_BEDPLATE_REWARD_BUILTIN_H

#include "core/base/error.h"
#include "tools/bedplate/reward/pattern.h"

#define REWARD_FUNCTIONS_MAX 16 /* columns of scores */
#define REWARD_KEYS_MAX      16 /* of json:KEY,KEY,.. */

/* A completion that is to be judged. Texts need no terminator; all belong to the caller. */
typedef struct reward_case {
    uint64_t id;   /* its number among the completions of the run: unique */
    uint64_t step; /* the step for which it was generated */
    const char *prompt;
    size_t prompt_bytes;
    const char *completion;
    size_t completion_bytes;
    const char *answer; /* the row's; NULL: it has none */
    size_t answer_bytes;
    const char *row; /* the row of the data, a JSON object on one line; NULL: none */
    size_t row_bytes;
    const int32_t *ids; /* of the completion, with the end token where there is one */
    uint32_t id_count;
    const int32_t *prompt_ids;
    uint32_t prompt_count;
    bool rendered;  /* the prompt is a chat template's: it has all of its special tokens */
    bool truncated; /* it has no end token */
} reward_case;

/* What a reward reads of its arguments. */
typedef struct reward_builtin {
    const struct reward_kind *kind;
    const char *text; /* the arguments as given, "" without any */
    double numbers[2];
    pattern pattern;
} reward_builtin;

/* Reads "NAME[:ARGS]", whose text must stay. BP_ERR_USAGE names the unknown name, with all that
 * there are, or the argument that is wrong. */
bp_status reward_builtin_read(reward_builtin *reward, const char *text,
                              bp_error *error) BP_MUST_CHECK;

/* The reward of a completion; not a number where the row has no answer and the function needs one.
 * Linear in the texts (regex: times its states; repetition: with a sort). BP_ERR_FIT: no memory. */
bp_status reward_builtin_score(const reward_builtin *reward, const reward_case *one, double *score,
                               bp_error *error) BP_MUST_CHECK;

const char *reward_builtin_name(const reward_builtin *reward);

#endif
