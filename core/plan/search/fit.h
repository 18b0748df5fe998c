/* SPDX-License-Identifier: MIT */
/* The fit: the fastest way to train inside a number of bytes.
 *
 * A candidate is a policy, a micro-batch, a loss chunk and a chunk of the sequence. Candidates are
 * planned exactly, so their bytes are true, and timed by counted costs (core/ir/cost.h), so the
 * choice is a function of the spec and of the budget alone. What the caller chose is never changed.
 */
#ifndef BP_CORE_FIT_H
#define BP_CORE_FIT_H

#include "core/ir/cost.h"
#include "core/plan/planned.h"

#define BP_FIT_TRIED_MAX 64 /* candidates of which a record is kept */

typedef struct bp_fit_request {
    bp_spec spec;    /* with everything that is not free chosen */
    uint64_t budget; /* bytes of arena; 0: no limit */
    bool free_policy;
    bool free_batch;          /* batch x accumulation stays what it is */
    bool free_chunk;          /* loss_rows */
    bool free_sequence_chunk; /* sequence_chunk, where the model has chunks */
    bool first;               /* the first candidate found that fits will do */
    bool bounds;              /* where none fits, the bound of the one of fewest bytes will do */
    bool planned;             /* the same, for it is planned next */
    bool estimate;       /* a candidate whose bound fits is taken to fit: nothing is laid out */
    bp_rates rates;      /* BP_RATES_DEFAULT, or calibrated */
    void (*watch)(void); /* called before each plan; NULL: nobody watches */
} bp_fit_request;

/* One candidate and what its plan says. */
typedef struct bp_fit_try {
    bp_policy policy; /* of kind BP_POLICY_ACTIONS: `actions` of the fit, when it is the best one */
    uint32_t batch;
    uint32_t accumulation;
    uint32_t loss_rows;
    uint32_t sequence_chunk;
    uint64_t arena_bytes; /* of one that is slower than the best and fits easily: its bound */
    double seconds;       /* counted time of one optimizer step */
    bool fits;
} bp_fit_try;

typedef struct bp_fit {
    bp_fit_try best;      /* the fastest that fits; when none does, the one of fewest bytes */
    bp_fit_try runner_up; /* the next fastest that fits; batch 0: there is none */
    bp_fit_try least;     /* the one of fewest bytes */
    bp_fit_try tried[BP_FIT_TRIED_MAX];
    uint32_t tried_count;
    /* An estimate of what no step takes less than inside the budget, in counted seconds: of
     * persistent schedules of the micro-batches and chunks that were tried, with room for twice
     * what plans took less than their schedules' sums. 0: unknown, as it is where everything is
     * kept, with gradient release, offload and ranks, and where the policy was given or the first
     * that fits will do. */
    double bound_seconds;
    /* The fewest that live all the time in any candidate, whatever its policy; and the least of
     * what candidates show that no policy needs less than: these bytes, and of one that keeps the
     * inputs of stages alone those at its peak that are no checkpoint. */
    uint64_t fixed_bytes;
    uint64_t floor_bytes;
    bp_action *actions; /* the schedule of best when it came from the dynamic programme */
    uint32_t action_count;
    bp_spec spec; /* the request's with best filled in; refers to `actions` */
} bp_fit;

/* The size number `step`, from 1 on, of a chunk of the spec's micro-batch that the fit tries where
 * that is free: a 4th, a 16th and, of 65,473 rows and more, a 64th of them, in multiples of 64; 0:
 * there is none, or the spec cannot have chunks. */
uint32_t bp_fit_sequence_chunk(const bp_spec *spec, uint32_t step);

/* Sequences of a batch that belong together: two of a pair, all texts of a row of texts; else 1. Of
 * KTO a batch has two pairs at least, which it compares, and of images with their texts two. */
uint32_t bp_fit_example(const bp_spec *spec);
uint32_t bp_fit_least_batch(const bp_spec *spec);

/* Why a step that is divided into micro-batches in another way learns something else, beyond the
 * rounding of sums: a value is of each micro-batch. NULL: it learns the same. No batch is divided
 * for the budget's sake then, unless the request frees it. */
const char *bp_fit_batch_matters(const bp_spec *spec);

/* Bytes of memory in which bp_fit_count works: closed form; BP_SIZE_INVALID when the spec makes no
 * sense. */
uint64_t bp_fit_scratch(const bp_fit_request *request);

/* Counts the bytes of memory that serve bp_fit_run, bp_fit_curve and bp_fit_largest_batch up to the
 * request's micro-batch. The memory, aligned to 64 bytes, is free again afterwards. Errors are
 * those of bp_plan_count. */
bp_status bp_fit_count(const bp_fit_request *request, void *memory, uint64_t bytes,
                       uint64_t *needed, bp_error *error) BP_MUST_CHECK;

/* Finds the best candidate. The memory stays in use for as long as fit->actions is. BP_ERR_FIT when
 * none fits: best and least then say what would be needed. Other errors are those of planning.
 * Cost: one plan per candidate; per micro-batch size and loss chunk up to eight dynamic programmes,
 * each with its plan, where not everything can be kept. */
bp_status bp_fit_run(const bp_fit_request *request, void *memory, uint64_t bytes, bp_fit *fit,
                     bp_error *error) BP_MUST_CHECK;

/* One point of the curve of time against bytes. */
typedef struct bp_fit_point {
    uint64_t arena_bytes;
    double seconds;
    bp_policy_kind kind;
} bp_fit_point;

/* Plans the request's shapes at `count` budgets from the least arena to keep-all, evenly spaced,
 * and writes the points that no other beats in both bytes and time, in increasing bytes. */
bp_status bp_fit_curve(const bp_fit_request *request, void *memory, uint64_t bytes,
                       bp_fit_point *points, uint32_t *count, bp_error *error) BP_MUST_CHECK;

/* What choosing sets of values to keep gains over choosing among the tape variants that have names:
 * counted seconds of a step at one budget. */
typedef struct bp_fit_gain {
    uint64_t budget;
    double before; /* with the named variants only */
    double after;  /* with all; never more, as budgets hold a named policy */
} bp_fit_gain;

/* Fills `count` gains at budgets evenly spaced from the least arena of a named policy to below
 * keep-all's. Memory as for bp_fit_curve. */
bp_status bp_fit_gains(const bp_fit_request *request, void *memory, uint64_t bytes,
                       bp_fit_gain *gains, uint32_t count, bp_error *error) BP_MUST_CHECK;

/* The largest micro-batch of whole examples (accumulation as in the spec) for which some policy
 * fits the budget; 0 when not even the least does. Looks up to `most` sequences. */
bp_status bp_fit_largest_batch(const bp_fit_request *request, uint32_t most, void *memory,
                               uint64_t bytes, uint32_t *batch, bp_error *error) BP_MUST_CHECK;

#endif
