/* SPDX-License-Identifier: MIT */
/* plan --sparse-update-bytes: which tensors are trained under a budget of bytes. */
#ifndef BP_BEDPLATE_SPARSE_CHOICE_H
#define BP_BEDPLATE_SPARSE_CHOICE_H

#include "tools/bedplate/session/session.h"

#define SPARSE_TENSORS_MAX 1024

/* What was chosen; `made` is false without the option. */
typedef struct sparse_choice {
    bool made;
    uint64_t budget;
    uint64_t arena_bytes; /* of the plan with what was chosen */
    uint64_t least;       /* of those with a tensor alone */
    uint64_t parameters;  /* in what was chosen */
    uint32_t candidates;  /* tensors that the options leave to be trained */
    uint32_t chosen;
    double contribution; /* the sum over what was chosen */
    uint32_t rules;      /* beside the one that freezes the rest: overrides, and the chosen */
} sparse_choice;

/* Puts rules into s->spec that train the chosen tensors alone. Tensors are tried in the order of
 * their contribution, the largest first, of equal ones the last of the model first: each is taken
 * whose plan, with those taken before, stays within the budget; with --sparse-update-rows of one
 * that does not, half, a quarter or an eighth of its rows. Contributions are those of
 * --contributions: of a file, or, by the parameters that they take, of a checkpoint's second
 * moments (sparse_measured.h). Without it biases have 2 and other tensors 1, so that all biases
 * from the last on are tried, then weights from the last on. The error names the option, or the
 * file and line; BP_ERR_FIT where no tensor fits. s->spec must be complete. One plan for each
 * tensor. */
bp_status sparse_choose(sparse_choice *out, session *s) BP_MUST_CHECK;

/* A line for the table: bytes, tensors, and the options of train that train the same. */
void sparse_put(bp_text *text, const session *s, const sparse_choice *choice);

/* Member "sparse_update" of an open JSON object. */
void sparse_json(output *out, const session *s, const sparse_choice *choice);

#endif
