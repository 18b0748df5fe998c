/* SPDX-License-Identifier: MIT */
/* A plan: what a spec becomes. Programs, a place in memory for each of their buffers, and an
 * account of the bytes; no device, no arena, nothing that runs.
 *
 *     static bp_plan_room room;
 *     bp_plan *plan = bp_plan_begin(&room);
 *     bp_plan_make(plan, &spec, memory, bytes);       // arena bytes are now known
 *     bp_plan_footprint(plan).arena_bytes ..
 *
 * Who takes memory to measure calls bp_plan_count, in bp_plan_scratch bytes, then
 * bp_plan_make_counted in footprint.host_bytes, in place of bp_plan_make. A runtime opens a plan
 * (bp_runtime_open); it works in what the plan has left of its memory.
 *
 * The caller owns room and memory, which stay where they are as long as the plan is asked for
 * anything; nothing else is allocated. Calls of one plan are made by one thread at a time. */
/* Installed as part of <bedplate/plan.h>. */
#ifndef BP_CORE_PLAN_H
#define BP_CORE_PLAN_H

#include "core/plan/spec.h"

typedef struct bp_plan bp_plan;

/* Room for a plan. */
#define BP_PLAN_BYTES 8192

typedef union bp_plan_room {
    unsigned char bytes[BP_PLAN_BYTES];
    uint64_t number;
    double real;
    void *address;
} bp_plan_room;

/* The plan in a room, empty. What was in the room before is forgotten, so a runtime that has it
 * open has to be closed first. */
bp_plan *bp_plan_begin(bp_plan_room *room);

/* Bytes of memory that bp_plan_count works in: closed form, no memory touched, a few hundred for
 * each parameter and each stage. BP_SIZE_INVALID when the spec makes no sense. */
uint64_t bp_plan_scratch(const bp_spec *spec);

/* Emits the spec's programs without keeping them and counts what they hold: footprint.host_bytes is
 * then what the plan and a runtime need, at least bp_plan_scratch. The memory, aligned to 64 bytes,
 * is free again afterwards. On failure bp_plan_error says why; BP_ERR_USAGE while a runtime has the
 * plan open. Cost: a small part of planning. */
bp_status bp_plan_count(bp_plan *plan, const bp_spec *spec, void *memory,
                        uint64_t bytes) BP_MUST_CHECK;

/* Compiles, verifies and lays out what was counted. memory is aligned to 64 bytes; BP_ERR_FIT where
 * it is too small, with its bytes and those needed in the error. */
bp_status bp_plan_make_counted(bp_plan *plan, void *memory, uint64_t bytes) BP_MUST_CHECK;

/* Counts and plans, in one memory. */
bp_status bp_plan_make(bp_plan *plan, const bp_spec *spec, void *memory,
                       uint64_t bytes) BP_MUST_CHECK;

/* What a plan says. */
typedef struct bp_footprint {
    uint64_t arena_bytes;       /* what a runtime is opened over */
    uint64_t lower_bound_bytes; /* the largest sum of live bytes; no layout takes less */
    uint64_t host_bytes;        /* of the plan memory: used by plan and runtime; before, counted */
    uint64_t parameters;        /* elements of all weights */
    uint64_t state_bytes;       /* what a checkpoint holds */
} bp_footprint;

/* All of a plan that is made; of another one host_bytes, as far as it was counted, and 0. */
bp_footprint bp_plan_footprint(const bp_plan *plan);

/* BP_OK where two plans are the same: choices of the spec, programs, the place of each buffer,
 * length buckets. BP_ERR_DATA: `error` names the first difference, with a's value as what was found
 * and b's as what was expected. BP_ERR_USAGE: one of them is not made. */
bp_status bp_plan_compare(const bp_plan *a, const bp_plan *b, bp_error *error) BP_MUST_CHECK;

/* Takes `length` characters, not terminated. A status other than BP_OK ends the printing. */
typedef bp_status (*bp_plan_sink)(void *user, const char *text, size_t length);

/* Prints a plan for reading: version, choices, bytes, a line for each buffer, and the programs op
 * by op with their operands' places. The same plan gives the same text. BP_ERR_USAGE: it is not
 * made; else the sink's status. */
bp_status bp_plan_print(const bp_plan *plan, bp_plan_sink sink, void *user) BP_MUST_CHECK;

/* Bytes that bp_plan_write writes of a plan that is made; 0 of another. */
uint64_t bp_plan_file_bytes(const bp_plan *plan);

/* Writes what planning found, so that bp_plan_read need not search again: the version, a digest of
 * the programs, choices of the spec, the places, a digest of all of it. BP_ERR_FIT: `bytes` are too
 * few. The same bytes on every machine. */
bp_status bp_plan_write(bp_plan *plan, void *to, uint64_t bytes) BP_MUST_CHECK;

/* Makes the plan that was written, in place of bp_plan_make: the caller's spec is compiled again,
 * and what was written is trusted in nothing but its places, which are verified. Of a file of
 * another version or format, of another spec (the error names the first choice that differs, or
 * says that the programs do), one that is cut off or damaged: BP_ERR_DATA. BP_ERR_VERIFY: its
 * places are none. Else as bp_plan_make. */
bp_status bp_plan_read(bp_plan *plan, const bp_spec *spec, const void *from, uint64_t from_bytes,
                       void *memory, uint64_t bytes) BP_MUST_CHECK;

/* The first error since the plan was last counted; its code is BP_OK when there is none. Stays the
 * plan's. */
const bp_error *bp_plan_error(const bp_plan *plan);

#endif
