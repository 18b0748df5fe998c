/* SPDX-License-Identifier: MIT */
/* The form of sharing over ranks that is fastest among those that fit a budget on every rank; and
 * the plans of all ranks, none of which has to exist. */
#ifndef BP_CORE_SHARE_H
#define BP_CORE_SHARE_H

#include "core/plan/search/offload_fit.h"
#include "core/plan/search/wire.h"

/* A form as it would be, at the options that are chosen for it: the largest arena of all ranks, and
 * seconds by the plan of the rank that owns most. */
typedef struct bp_share_try {
    bool known; /* false: this model or rule cannot be shared out so */
    bool fits;
    uint64_t arena_bytes;
    double computing; /* seconds of a step by counted costs, */
    double exchange;  /* and of its calls one after the other */
} bp_share_try;

typedef struct bp_share_choice {
    bool made;
    uint32_t chosen; /* a bp_sharing */
    bp_share_try form[BP_SHARINGS];
} bp_share_choice;

/* What is searched, over what the caller has: `choose` fills *spec and *choice for the sharing in
 * *spec, and says in *error what is wrong; *choice is made by bp_share_fit or empty. */
typedef struct bp_share_search {
    bp_spec *spec;
    bp_choice *choice;
    bp_error *error;
    bp_status (*choose)(void *user);
    void *user;
    uint64_t arena;  /* bytes that each rank has; 0: no limit */
    bool free_ahead; /* how many weights are gathered ahead, where there is a limit */
    bp_wire wire;    /* its ranks and links */
    const bp_lender *memory;
    bp_wire_clocks *clocks;
} bp_share_search;

/* Puts the rank that owns most of what is shared out into spec->rank: ranks that all look at its
 * plan choose alike. Where gradients leave in buckets another rank's arena may be the larger by a
 * few hundredths (bp_share_fit). Cost: a plan; nothing where nothing is shared. */
bp_status bp_share_largest(bp_spec *spec, const bp_lender *memory, bp_error *error) BP_MUST_CHECK;

/* bp_choice_run, and bp_choice_offload up to `most` (NULL: nothing is offloaded) where nothing
 * fits, for every rank at once: what is chosen fits on all of them, and fit.best.arena_bytes is the
 * largest arena of any, that of fit.spec.rank. The rest of *c is the choice of one rank, the
 * largest. On any status *c is to be ended. Cost: as those, and a plan for each rank where state is
 * shared; again where a rank has not room enough. */
bp_status bp_share_fit(bp_choice *c, const bp_fit_request *request, const bp_offload *most,
                       const bp_rates *calibrated, const bp_lender *memory,
                       bp_offload_chosen *chosen, bp_error *error) BP_MUST_CHECK;

/* The choice for the form of sharing in *spec; where they are free with as many of 2, 1, 0 weights
 * gathered ahead as fit without making the step slower. */
bp_status bp_share_ahead(const bp_share_search *s) BP_MUST_CHECK;

/* bp_share_ahead for every form; keeps what has the least computing + exchange of those that fit;
 * as fast, what shares less; when none fits the form of fewest bytes. *spec and *choice are then
 * its own. On any status *choice is to be ended. Cost: a fit, and a plan of each rank, for each
 * form. */
bp_status bp_share_find(const bp_share_search *s, bp_share_choice *all) BP_MUST_CHECK;

/* One rank's plan. */
typedef struct bp_share_rank {
    uint64_t arena_bytes;
    uint64_t class_most[BP_CLASS_COUNT];
    uint64_t owned_bytes; /* of what is shared out */
    double sent_bytes;    /* in a step */
} bp_share_rank;

/* Fills rank[0] to rank[made->spec.ranks - 1]: the row of `made`, a plan that is made, from itself,
 * the others from plans of the same spec in borrowed memory, all of it given back. Where nothing is
 * shared all rows are that of `made`. Errors are those of planning, and the lender's. Cost: a plan
 * for each other rank where state is shared. */
bp_status bp_share_ranks(const bp_plan *made, const bp_lender *memory, bp_share_rank *rank,
                         bp_error *error) BP_MUST_CHECK;

#endif
