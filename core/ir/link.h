/* SPDX-License-Identifier: MIT */
/* The linker: operands become offsets, programs become what a device takes. */
#ifndef BP_CORE_LINK_H
#define BP_CORE_LINK_H

#include "core/ir/program.h"

/* Linked forms of all programs; memory inside the plan's arena. */
typedef struct bp_link {
    bp_linked_op *ops;
    uint64_t *offsets;
    uint8_t *dtypes;
    bp_poison_scalars *poison; /* one per poison op */
    uint32_t ops_used;
    uint32_t offsets_used;
    uint32_t poison_used;
    uint64_t table; /* where the next list op's table lies */
    bp_linked_program programs[BP_PROGRAM_COUNT];
    void *device_memory[BP_PROGRAM_COUNT]; /* what bp_device.link gets for each */
    size_t device_bytes[BP_PROGRAM_COUNT];
} bp_link;

/* Upper bound of the bytes that linking any graph within these limits allocates. */
uint64_t bp_link_bytes(const bp_graph_limits *limit, const bp_device *device, bool poison);

/* Bytes of the tables of all list ops of a graph, each rounded up to BP_ARENA_ALIGNMENT. */
uint64_t bp_link_table_bytes(const bp_graph *graph, const bp_device *device);

/* Links every program of a planned graph. With poison, buffers of program and group scope are
 * filled with NaNs right before their first op and right after their last. */
bp_status bp_link_graph(bp_link *link, const bp_graph *graph, const bp_device *device, bool poison,
                        bp_arena *memory) BP_MUST_CHECK;

#endif
