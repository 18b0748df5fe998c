/* SPDX-License-Identifier: MIT */
/* Who wrote each byte of the arena last: programs walked byte by byte, with kernels.def's extents
 * but none of the verifier's code. Slow and simple. */
#ifndef BP_TESTS_SUPPORT_SHADOW_H
#define BP_TESTS_SUPPORT_SHADOW_H

#include "core/run/runtime.h"

typedef struct shadow {
    const bp_graph *graph;
    const bp_emit *emit;
    const bp_spec *spec;
    uint64_t arena_bytes;
    uint32_t *owner; /* of each byte: the buffer whose contents it holds, or SHADOW_NOBODY */
    uint32_t *mark;  /* of each byte: the operand seen there last */
    uint32_t marks;
    uint64_t *wrote; /* of each byte: the op and tuple that wrote it last, */
    uint64_t *read;  /* and that read it last */
    uint64_t op;     /* ops walked so far */
    char fault[256]; /* the first one; empty: none */
} shadow;

#define SHADOW_NOBODY UINT32_MAX

void shadow_open(shadow *s, const bp_emit *emit, const bp_spec *spec, uint64_t arena_bytes);
void shadow_close(shadow *s);

/* Walks all programs of a planned graph as a run executes them: initialisation, groups of every
 * number of micro-batches, evaluation, generation, another group. False at the first byte that is
 * read and not its buffer's own contents, written beyond its buffer or by two operands, or left
 * without contents where the host or the next group reads them. */
bool shadow_walk(shadow *s, const bp_graph *graph, uint64_t arena_bytes);

#endif
