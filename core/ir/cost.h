/* SPDX-License-Identifier: MIT */
/* What an op costs, counted: floating-point operations and bytes moved by each engine, no clock. */
#ifndef BP_CORE_COST_H
#define BP_CORE_COST_H

#include "core/ir/program.h"

typedef struct bp_cost {
    double flops; /* multiplications and additions of products; the rest is counted by its bytes */
    double bytes; /* of all operands of what computes, once each */
    double copy_bytes;   /* that copies move, once each */
    double fabric_bytes; /* that this rank gets from others */
} bp_cost;

/* Rates at which counted costs become seconds. Only their ratio decides between policies. */
typedef struct bp_rates {
    double flops_per_second;
    double bytes_per_second;
} bp_rates;

/* A processor of some cores: 100 GFLOP/s and 10 GB/s, ten operations per byte. */
#define BP_RATES_DEFAULT ((bp_rates){1e11, 1e10})

/* One op, all its tuples. What is begun is counted with its begin, and waiting costs nothing: the
 * bytes of a wait are those of its begin. */
bp_cost bp_cost_op(const bp_graph *graph, const bp_op *op);

/* The sum over all ops of a program. */
bp_cost bp_cost_total(const bp_graph *graph, bp_program_kind program);

/* The longer of computing and moving, on the compute engine: copies and calls of a fabric run
 * beside it, on links whose rates are no part of bp_rates. */
double bp_cost_seconds(bp_cost cost, const bp_rates *rates);

/* These seconds of all ops of a program. */
double bp_cost_program(const bp_graph *graph, bp_program_kind program, const bp_rates *rates);

#endif
