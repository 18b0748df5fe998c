/* SPDX-License-Identifier: MIT */
/* Small graphs written by hand: what the verifier's tests look at. */
#ifndef BP_TESTS_SUPPORT_GRAPH_MADE_H
#define BP_TESTS_SUPPORT_GRAPH_MADE_H

#include "core/program/report.h"
#include "core/program/verify.h"

#define MADE_COUNT 64 /* elements of every buffer here */

typedef struct made_graph {
    bp_graph graph;
    bp_arena arena;
    bp_error error;
} made_graph;

/* For verifying and planning. */
extern uint64_t made_scratch[(1 << 16) / 8];

/* A device that only says how much workspace a matmul wants: a buffer of MADE_COUNT f64. */
extern const bp_device made_device;
extern const bp_device_options made_options;

/* An empty graph that writes BP_PROGRAM_STEP; the one before is gone. */
made_graph *made_begin(void);

/* A buffer of MADE_COUNT elements, and an op. They fail the test when the graph does. */
bp_ref made_buffer(made_graph *f, const char *name, bp_scope scope, bp_dtype dtype);
void made_op(made_graph *f, bp_kernel kernel, uint32_t tuples, const void *refs,
             const void *scalars);
void made_copy(made_graph *f, bp_ref y, bp_ref x, int64_t count);

/* c = a a^T, both (4, 4). */
void made_matmul(made_graph *f, bp_ref c, bp_ref a, bp_ref work, int64_t ldc);

bp_status made_verify(made_graph *f);

/* The verifier refuses the graph with a text that holds this one. */
void made_refused(made_graph *f, const char *text);

#endif
