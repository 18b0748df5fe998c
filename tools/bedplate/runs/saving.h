/* SPDX-License-Identifier: MIT */
/* Saving where nobody looks after the disk: room is made before a checkpoint is begun, a checkpoint
 * that cannot be written is postponed, and training goes on for as long as --storage-patience. */
#ifndef BP_BEDPLATE_SAVING_H
#define BP_BEDPLATE_SAVING_H

#include "tools/bedplate/runs/checkpoint.h"

typedef struct saving {
    checkpoint *points;
    bool waits;          /* --storage-patience holds at the end of the run, too */
    double patience;     /* seconds */
    uint64_t proven;     /* step of the newest checkpoint that replays have verified; 0: none */
    uint64_t keep;       /* --save-total-limit, or what stands for it; 0: all */
    bool may_prune;      /* on shortage fewer than `keep` may be kept */
    double missed_since; /* clock_seconds() of the first save that is still missing; 0: none is */
    double tried;        /* when it was tried last */
    uint64_t failures;   /* saves that failed or were postponed */
    uint64_t faults;     /* of removing old checkpoints */
    uint64_t saves;
    double seconds; /* of a save: the last one's, before it what was estimated; 0: unknown */
    uint64_t bytes; /* of a checkpoint */
    double wall;    /* time() of the last save; 0: none */
    bool replaced;  /* another directory has taken its place: no save can succeed */
    int lock;       /* the directory, while this run is the one at work there; below 0: none */
    bp_error error; /* of the last failure */
} saving;

/* After checkpoint_begin. */
void saving_begin(saving *v, checkpoint *points);

/* Makes sure that no other run is at work in the directory (BP_ERR_STORE: it may end), as far as
 * the file system knows locks; removes what earlier runs abandoned, and makes room for the first
 * checkpoint as before each. BP_ERR_STORE with the numbers where there is none, BP_ERR_USAGE for
 * what cannot be a checkpoint. */
bp_status saving_check(saving *v) BP_MUST_CHECK;

/* BP_ERR_STORE where the output directory is not the one any more that saving_check has locked: it
 * was removed, or another one has its name. Looked at before each save as well. */
bp_status saving_here(saving *v) BP_MUST_CHECK;

/* Writes a few megabytes to the output directory, which is there, and removes them: fills seconds
 * and bytes, and says them on stderr unless --quiet. A medium that refuses is found by saving. */
void saving_measure(saving *v);

/* Saves the state at runtime.steps, when it is not saved yet. A failure of the storage is told on
 * stderr, counted, and BP_OK, until the patience is over: BP_ERR_STORE. The same for `last`, the
 * save at the end of a run, after waiting where the options say so. The record has its line of a
 * state that was due, in any case. */
bp_status saving_save(saving *v, checkpoint_cause cause, bool last) BP_MUST_CHECK;

/* Whether a postponed save should be tried again after this step. */
bool saving_due(const saving *v);

#endif
