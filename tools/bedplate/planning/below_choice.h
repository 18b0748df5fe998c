/* SPDX-License-Identifier: MIT */
/* The second tier of memory: --below. */
#ifndef BP_BEDPLATE_BELOW_CHOICE_H
#define BP_BEDPLATE_BELOW_CHOICE_H

#include "core/ir/tier_versions.h"
#include "core/ir/traffic.h"
#include "core/run/runtime.h"
#include "device/host/storage/tier_posix.h"
#include "tools/bedplate/planning/choice.h"
#include "tools/bedplate/app/memory.h"
#include "tools/bedplate/app/settings.h"

/* What --below-what names. */
#define BELOW_BASES       1u
#define BELOW_STATES      2u
#define BELOW_WEIGHTS     4u
#define BELOW_CHECKPOINTS 8u
#define BELOW_GRADIENTS   16u
#define BELOW_ALL         7u /* that costs no bytes written for every micro-batch */

/* What was chosen to live below, of the last kind of which not all does. */
typedef struct below_chosen {
    bool made;
    bp_below_kind kind;
    uint64_t moved; /* bytes a step, for what was chosen of that kind, less what is kept */
    uint64_t least; /* no choice of it that fits moves less, where nothing is kept */
} below_chosen;

typedef struct below_choice {
    bool asked;
    bool host;  /* in the host's memory beside a GPU, instead of a file */
    bool flash; /* frozen weights in the read-only memory of a board */
    char path[1024];
    uint64_t bytes; /* of any, at most */
    uint32_t what;  /* may live there: bits of BELOW_.. */
    bool two;       /* --below-two-versions */
    bool resumes;   /* a snapshot is gone on from, of which the file has to have a part */
    uint64_t step;  /* that snapshot's */
    below_chosen chosen;
    bp_tier_posix file;
    bp_tier_versions versions; /* over the file; count 0: there is one version */
    memory_block room;
    memory_block list; /* of the ranges that have two versions */
    memory_block bits; /* and which of their pages are where */
} below_choice;

/* Whether the file of an open run has two versions of something. */
static inline bool below_versions(const below_choice *b)
{
    return b->versions.count > 0;
}

/* Reads --below, if it is given. BP_ERR_USAGE says what is wrong with it. */
bp_status below_read(below_choice *b, const settings *set, bp_error *error) BP_MUST_CHECK;

/* Whether the device has the kind of tier that is asked for, and what else is asked for goes with
 * it: BP_ERR_USAGE. */
bp_status below_check(const below_choice *b, const settings *set, const bp_spec *spec,
                      bp_error *error) BP_MUST_CHECK;

/* Everything that may live below does, of what is asked for (bits of BELOW_..): in the host's
 * memory where the device is a GPU. */
void below_all(bp_spec *spec, uint32_t what);

/* As little of it as fits the choice's budget, of a choice that fits with all of it; the choice's
 * record follows (tools/bedplate/planning/below_least.c). */
bp_status below_least(choice *c, below_chosen *chosen, bp_error *error) BP_MUST_CHECK;

/* Bytes of the process's memory that the file is read and written through, and of what is known of
 * its pages; 0: nothing is below. */
uint64_t below_room(const below_choice *b, const bp_runtime *runtime);

/* Opens the file of a plan with bytes below and puts it into `places`. BP_ERR_FIT where it may not
 * have as many; BP_ERR_STORE where it has no version of the step that is gone on from. */
bp_status below_open(below_choice *b, const settings *set, const bp_runtime *runtime,
                     bp_places *places, bp_error *error) BP_MUST_CHECK;

/* Whether an error is the tier's, which fails in the middle of a step. */
bool below_failed(const bp_error *error);

void below_close(below_choice *b);

/* What a step moves, and the rate from which on it does not wait: lines of the plan's table, member
 * "below" of its JSON object. Nothing where nothing is below. */
typedef struct below_traffic {
    bp_traffic step;
    bp_rates rates;
    below_chosen choice;
    bp_keep keep;
    uint64_t bytes;   /* that live below; 0: nothing does */
    bool host;        /* in the host's memory */
    double endurance; /* --below-endurance; 0: not given */
} below_traffic;

bp_status below_traffic_find(const bp_runtime *runtime, const below_choice *b, const settings *set,
                             const bp_rates *rates, below_traffic *t,
                             bp_error *error) BP_MUST_CHECK;
void below_json(output *out, const below_traffic *t);
void below_put(bp_text *text, const below_traffic *t);

/* Room of the arena in which stays what was brought from below. */
/* Of a step, below. */
typedef struct below_bytes {
    uint64_t moved; /* read and written */
    uint64_t written;
} below_bytes;

/* Bytes that a step moves for each buffer of a plan: moved[buffers], which is zero before. Returns
 * how many of them all are written. */
uint64_t below_moved(const bp_runtime *runtime, uint64_t *moved);

/* What a step of a spec moves, were its plan to have no waste. */
bp_status below_moves(const bp_spec *spec, below_bytes *moved, bp_error *error) BP_MUST_CHECK;

/* Sets spec->below.room so that the plan has at most `budget` bytes, as that of the spec without it
 * has: to 0 where no room is found that leads there. *moved as above, *arena the plan's bytes or
 * more. */
bp_status below_keep(bp_spec *spec, uint64_t budget, uint64_t *arena, below_bytes *moved,
                     bp_error *error) BP_MUST_CHECK;

#endif
