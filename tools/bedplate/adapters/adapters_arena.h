/* SPDX-License-Identifier: MIT */
/* One arena for the runs of several adapters. At its bottom lies the frozen base, once; behind it
 * what each run keeps from step to step, one run after the other: adapters, masters, optimizer
 * states, inputs; above them what programs work in, as large as the largest run needs, for a run
 * leaves nothing there between its steps. Each run's plan has those of the others as gaps, so that
 * its programs are those of the run alone, at other places. */
#ifndef BP_BEDPLATE_ADAPTERS_ARENA_H
#define BP_BEDPLATE_ADAPTERS_ARENA_H

#include "tools/bedplate/adapters/adapters_file.h"
#include "tools/bedplate/session/session.h"

/* Bytes of the arena. */
typedef struct adapters_bytes {
    uint64_t base;
    uint64_t own[ADAPTERS_MAX];
    uint64_t owns;                /* their sum */
    uint64_t workspace;           /* the most of any run */
    uint64_t alone[ADAPTERS_MAX]; /* the arena of each run if it were alone */
    uint64_t arena;               /* all of it */
    uint64_t host;                /* beside it */
} adapters_bytes;

/* Must not move once sessions refer to it. */
typedef struct adapters_arena {
    const adapters_file *file;
    session *sessions[ADAPTERS_MAX];
    session_arena shared;
    adapters_bytes bytes;
} adapters_arena;

/* Whether a session that has begun can be one of several; it refers to the arena from here on. */
bp_status adapters_arena_join(adapters_arena *a, uint32_t index, session *s) BP_MUST_CHECK;

/* Counts what each session keeps and lets it choose what was left to it (session_choose), inside
 * what the others leave of --arena. *failed: whose error a status is. */
bp_status adapters_arena_choose(adapters_arena *a, uint32_t *failed) BP_MUST_CHECK;

/* Once all are planned: whether they have one base, and all bytes. */
bp_status adapters_arena_count(adapters_arena *a, uint32_t *failed) BP_MUST_CHECK;

/* Prints that --arena is smaller than the plan; the exit code. */
int adapters_arena_short(const adapters_arena *a, const settings *base);

/* Takes the memory; BP_ERR_FIT, printed, where --arena is smaller. */
bp_status adapters_arena_take(adapters_arena *a, const settings *base) BP_MUST_CHECK;

/* Once the first run has loaded the base: whether that of others would be the same. */
bp_status adapters_arena_check_drawn(const adapters_arena *a, uint32_t *failed) BP_MUST_CHECK;

/* Bytes of a run beyond those of the others: its workspace. */
uint64_t adapters_arena_workspace(const adapters_arena *a, uint32_t index);

#endif
