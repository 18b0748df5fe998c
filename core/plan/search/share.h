/* SPDX-License-Identifier: MIT */
/* The form of sharing over ranks that is fastest among those that fit a budget on every rank. */
#ifndef BP_CORE_SHARE_H
#define BP_CORE_SHARE_H

#include "core/plan/search/choice.h"
#include "core/plan/search/wire.h"

/* A form as it would be: the plan of the rank that owns most, at the options that are chosen for
 * it. */
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
 * *spec, and says in *error what is wrong; *choice is made by bp_choice_run or empty. */
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

/* Puts the rank that owns most of what is shared out into spec->rank: its plan is the largest, and
 * ranks that all look at it choose alike. Cost: a plan; nothing where nothing is shared. */
bp_status bp_share_largest(bp_spec *spec, const bp_lender *memory, bp_error *error) BP_MUST_CHECK;

/* The choice for the form of sharing in *spec; where they are free with as many of 2, 1, 0 weights
 * gathered ahead as fit without making the step slower. */
bp_status bp_share_ahead(const bp_share_search *s) BP_MUST_CHECK;

/* bp_share_ahead for every form; keeps what has the least computing + exchange of those that fit;
 * as fast, what shares less; when none fits the form of fewest bytes. *spec and *choice are then
 * its own. Cost: a fit and two plans for each form. */
bp_status bp_share_find(const bp_share_search *s, bp_share_choice *all) BP_MUST_CHECK;

#endif
