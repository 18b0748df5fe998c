/* SPDX-License-Identifier: MIT */
/* A byte budget: the fastest way to train inside it, or, where there is none, the fewest bytes that
 * do and what would help: a choice that was not free, or another spec. What it finds is a spec that
 * bp_plan_make plans in as many bytes. */
/* Installed as part of <bedplate/plan.h>. */
#ifndef BP_CORE_BUDGET_H
#define BP_CORE_BUDGET_H

#include "core/plan/spec.h"

/* Memory that a search borrows, piece by piece: `bytes` bytes aligned to 64, or a status and what
 * is wrong. At most BP_BUDGET_PIECES are lent at a time, and given back in any order. */
#define BP_BUDGET_PIECES 6

typedef struct bp_lender {
    bp_status (*take)(void *user, uint64_t bytes, void **memory, bp_error *error);
    void (*give_back)(void *user, void *memory, uint64_t bytes);
    void *user;
} bp_lender;

typedef struct bp_budget_request {
    bp_spec spec;             /* with everything that is not free chosen */
    uint64_t arena;           /* bytes of the budget: 1 to PTRDIFF_MAX */
    bool free_policy;         /* which activations are kept */
    bool free_batch;          /* how batch * accumulation is divided */
    bool free_chunk;          /* rows of a chunk of the loss */
    bool free_sequence_chunk; /* tokens of a chunk of the sequence */
    /* Most that may live in a second memory where nothing fits otherwise: as little of it as fits
     * does. All zero: nothing */
    bp_offload offload;
    /* Specs that would do as well where nothing else fits: another update rule, fewer bits, a
     * second memory. Each is tried with every choice free; the caller's, may be NULL with a count
     * of 0 */
    const bp_spec *other;
    uint32_t other_count;
    bp_lender memory;
} bp_budget_request;

/* What would fit. Choices that would have to be free besides, which change no result (the batch is
 * not among them where it does: with KTO, batch norms, a balancing loss); or another spec. The
 * arena with them. */
typedef struct bp_budget_proposal {
    bool policy;
    bool batch;
    bool chunk;
    bool sequence_chunk;
    uint32_t other; /* 0: the request's own spec; else its number in `other`, counted from 1 */
    uint64_t arena_bytes;
} bp_budget_proposal;

#define BP_BUDGET_PROPOSALS 4

typedef struct bp_budget {
    bp_spec spec;            /* what fits; where nothing does, what needs the fewest bytes */
    uint64_t arena_bytes;    /* of its plan */
    double seconds;          /* counted, of a step */
    bool release_dropped;    /* exact gradient release, which changes no bit, was left out: it would
                                enlarge the arena */
    uint32_t proposal_count; /* where nothing fits: each is enough by itself. Choices, the fastest
                                first; where none helps other specs, in the order given */
    bp_budget_proposal proposal[BP_BUDGET_PROPOSALS];
    struct bp_action *actions; /* of spec.policy, borrowed until bp_budget_end */
    uint64_t actions_bytes;
} bp_budget;

/* BP_ERR_FIT: nothing fits; *budget says what would, and error has the fewest bytes as `wanted`
 * (arena_bytes 0: the lender had no memory, and *budget is zero). BP_ERR_USAGE: the spec is none,
 * or the budget is 0 bytes. BP_ERR_OVERFLOW: the budget is above what an arena can have. On any
 * status but BP_OK and BP_ERR_FIT *budget is zero, and nothing stays borrowed. What fails where
 * proposals are looked for is not proposed. Cost: one plan per candidate, tens to hundreds in all.
 */
bp_status bp_budget_find(const bp_budget_request *request, bp_budget *budget,
                         bp_error *error) BP_MUST_CHECK;

/* Gives the schedule back, with which the spec must not be planned any more. */
void bp_budget_end(bp_budget *budget, const bp_lender *memory);

#endif
