/* SPDX-License-Identifier: MIT */
/* --shard auto: the form of sharing that is fastest among those that fit --arena on every rank. */
#ifndef BP_BEDPLATE_SHARD_CHOICE_H
#define BP_BEDPLATE_SHARD_CHOICE_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/settings.h"

struct session;

/* A form as it would be: the plan of the rank that owns most, at the options that the fit chooses
 * for it. */
typedef struct shard_try {
    bool known; /* false: this model or rule cannot be shared out so */
    bool fits;
    uint64_t arena_bytes;
    double computing; /* seconds of a step by counted costs, */
    double exchange;  /* and of its calls one after the other, by --bandwidth and --latency */
} shard_try;

typedef struct shard_choice {
    bool made;
    uint32_t chosen; /* a bp_sharing */
    shard_try form[BP_SHARINGS];
} shard_choice;

/* Puts the rank that owns most of what is shared out into spec->rank: its plan is the largest, and
 * ranks that all look at it choose alike. Cost: a plan; nothing where nothing is shared. */
bp_status shard_choice_largest(bp_spec *spec, bp_error *error) BP_MUST_CHECK;

/* Runs `choose` (which fills s->spec and s->choice for the sharing in s->spec) for every form, and
 * keeps what has the least computing + exchange of those that fit; as fast, what shares less; when
 * none fits the form of fewest bytes. Cost: a fit and two plans for each form. */
bp_status shard_choice_run(struct session *s, bp_status (*choose)(struct session *s)) BP_MUST_CHECK;

/* What each form would take; nothing where none was chosen. */
void shard_choice_put(bp_text *text, const shard_choice *all);
void shard_choice_json(output *out, const shard_choice *all);

/* The choice for one form of sharing by `choose`; with --arena, and without --shard-ahead, with as
 * many of 2, 1, 0 weights gathered ahead as fit without making the step slower. */
bp_status shard_choice_ahead(struct session *s,
                             bp_status (*choose)(struct session *s)) BP_MUST_CHECK;

#endif
