/* SPDX-License-Identifier: MIT */
/* The fit as a budget asks for it: with exact gradient release or without, in borrowed memory. */
#ifndef BP_CORE_CHOICE_H
#define BP_CORE_CHOICE_H

#include "core/plan/search/budget.h"
#include "core/plan/search/fit.h"

typedef struct bp_choice {
    bool made; /* there was a budget, and the fit ran */
    bool fits;
    bool release_dropped; /* gradient release would have enlarged the arena: chosen without */
    bp_fit_request request;
    bp_fit fit;
    bp_action *actions; /* of fit.spec.policy; borrowed */
    uint64_t actions_bytes;
} bp_choice;

/* Runs the fit. Nothing that fits is no error: c->fits says so, and c->fit.spec is then what needs
 * the fewest bytes. Exact gradient release, which changes no bit of the result, is left out where
 * the choice is smaller without it. `calibrated` (NULL: none) are measured rates; they choose the
 * policy alone. The schedule stays borrowed until bp_choice_end. */
bp_status bp_choice_run(bp_choice *c, const bp_fit_request *request, const bp_rates *calibrated,
                        const bp_lender *memory, bp_error *error) BP_MUST_CHECK;

/* Counts what a fit of the request works in and borrows it: *bytes bytes at *at, which the caller
 * gives back. On any status but BP_OK nothing stays borrowed. Cost: a count of one or two plans. */
bp_status bp_choice_lend(const bp_fit_request *request, const bp_lender *memory, void **at,
                         uint64_t *bytes, bp_error *error) BP_MUST_CHECK;

#define BP_CHOICE_PROPOSALS 4

/* What would have to be free besides, and the candidate that it gives. */
typedef struct bp_choice_proposal {
    bp_budget_proposal more;
    bp_fit_try found;
} bp_choice_proposal;

/* Whether `more` frees anything that the request does not. */
bool bp_choice_frees(const bp_fit_request *request, const bp_budget_proposal *more);

/* Whether the request fits with `more` free as well (the batch only where bp_fit_batch_matters
 * gives no reason against it), counted costs only; `first`: the first
 * candidate that fits will do. *trial says what was found, without its schedule. What fails, for
 * want of memory too, does not fit. */
bool bp_choice_try(const bp_fit_request *given, const bp_budget_proposal *more, bool first,
                   const bp_lender *memory, bp_choice *trial);

/* Whether the way of training that needs the fewest bytes, micro-batches of the least examples (one
 * sequence, a pair, KTO's two), fits: two plans of few ops. What does not fit so fits in no way. */
bool bp_choice_least_fits(const bp_fit_request *given, const bp_lender *memory, bp_choice *trial);

/* Whether another spec fits in some way. */
bool bp_choice_try_spec(const bp_fit_request *given, const bp_spec *spec, const bp_lender *memory,
                        bp_choice *trial);

/* The same by bounds alone: what may not fit so fits in no way. */
bool bp_choice_spec_may_fit(const bp_fit_request *given, const bp_spec *spec,
                            const bp_lender *memory, bp_choice *trial);

/* The changes of one choice (of batch and accumulation together) that are enough for the request,
 * by time; where none is, all of them together, and where these are not, chunks of the sequence,
 * which compute more again, alone or besides. Returns their count. */
uint32_t bp_choice_propose(const bp_fit_request *given, const bp_lender *memory,
                           bp_choice_proposal proposal[BP_CHOICE_PROPOSALS], bp_choice *trial);

/* The fewest bytes of any candidate of the request with all of its choices free, laid out. */
uint64_t bp_choice_least(const bp_fit_request *given, const bp_lender *memory, bp_choice *trial);

void bp_choice_end(bp_choice *c, const bp_lender *memory);

/* A plan that was counted, in borrowed memory of its size. */
typedef struct bp_lent_plan {
    bp_plan *plan;
    void *memory;
    uint64_t bytes;
} bp_lent_plan;

/* Counts a plan and borrows what it needs; where that fails nothing stays borrowed. */
bp_status bp_lent_plan_count(bp_lent_plan *lent, const bp_spec *spec, const bp_lender *memory,
                             bp_error *error) BP_MUST_CHECK;

void bp_lent_plan_end(bp_lent_plan *lent, const bp_lender *memory);

/* What the plan of a spec says, made in memory that is given back at once; as bp_plan_measure says
 * it, so that beyond wish.limit (0: there is none) the arena is a bound. */
bp_status bp_choice_report(const bp_spec *spec, bp_report_wish wish, const bp_lender *memory,
                           bp_report *report, bp_error *error) BP_MUST_CHECK;

#endif
