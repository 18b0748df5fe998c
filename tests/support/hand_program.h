/* SPDX-License-Identifier: MIT */
/* A program written op by op, planned and run on a device whose arenas lie between guard pages. */
#ifndef BP_TESTS_SUPPORT_HAND_PROGRAM_H
#define BP_TESTS_SUPPORT_HAND_PROGRAM_H

#include "core/program/link.h"
#include "core/program/report.h"

typedef struct hand_arena {
    void *map;
    size_t map_bytes;
} hand_arena;

typedef struct hand_program {
    bp_graph graph;
    bp_error error;
    bp_report report;
    bp_link link;
    bp_places places;
    const bp_device *device;
    bp_device_options options;
    void *context;
    void *tables; /* of the graph */
    void *linked;
    bool open;
    hand_arena arenas[BP_SPACE_COUNT];
} hand_program;

/* Starts the program STEP of an empty graph. */
void hand_begin(hand_program *h);

/* A buffer of bytes; of scope BP_SCOPE_PROGRAM or _PERSISTENT mostly. */
bp_ref hand_buffer(hand_program *h, const char *name, bp_space space, bp_scope scope,
                   uint64_t bytes);

/* ref, `bytes` bytes further, as elements of that type. */
bp_ref hand_at(bp_ref ref, uint64_t bytes, bp_dtype dtype);

/* Any op of one tuple. */
void hand_op(hand_program *h, bp_kernel kernel, const void *operands, const void *scalars);

/* y = x, `count` floats, on the compute engine. */
void hand_compute(hand_program *h, bp_ref y, bp_ref x, int64_t count);

/* Asynchronous ops; begins return their tickets. */
int64_t hand_copy_begin(hand_program *h, bp_ref to, bp_ref from, int64_t bytes);
void hand_copy_wait(hand_program *h, int64_t ticket, bp_ref to, bp_ref from, int64_t bytes);
int64_t hand_all_gather(hand_program *h, int64_t group, int64_t ranks, bp_ref to, bp_ref from,
                        int64_t bytes);
int64_t hand_exchange(hand_program *h, int64_t group, int64_t ranks, bp_ref to, bp_ref from,
                      int64_t bytes);
int64_t hand_broadcast(hand_program *h, int64_t group, int64_t ranks, int64_t root, bp_ref to,
                       bp_ref from, int64_t bytes);
void hand_fabric_wait(hand_program *h, int64_t ticket, bp_ref to, int64_t to_bytes, bp_ref from,
                      int64_t from_bytes);

/* Verifies and plans for a device. */
bp_status hand_plan(hand_program *h, const bp_device *device);

/* Takes arenas of exactly the planned bytes, links, opens over them and a fabric (NULL: none) and
 * seals. */
bp_status hand_open(hand_program *h, const bp_device_options *options, bool poison,
                    const bp_fabric *fabric, void *rank);

bp_status hand_run(hand_program *h);

/* The bytes of a buffer, from its start. */
bp_status hand_write(hand_program *h, bp_ref ref, const void *from, size_t bytes);
bp_status hand_read(hand_program *h, bp_ref ref, void *to, size_t bytes);

void hand_close(hand_program *h);

#endif
