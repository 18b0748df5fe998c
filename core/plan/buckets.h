/* SPDX-License-Identifier: MIT */
/* Length buckets: the same model over the same buffers, for micro-batches whose
 * samples are all short. They save what padding costs and give the bits of the padded run: what a
 * padded place adds to a sum is zero, and sums go row after row. */
#ifndef BP_CORE_LENGTH_BUCKETS_H
#define BP_CORE_LENGTH_BUCKETS_H

#include "core/ir/link.h"
#include "core/plan/compile.h"

/* Why this spec's shorter sequences would not give the bits of the padded ones, in words; NULL:
 * they do. */
const char *bp_length_buckets_refused(const bp_spec *spec);

/* The spec of a program for sequences of `sequence` tokens, at most spec->sequence. loss_rows is
 * resolved. The loss has as many chunks, which end behind the samples behind which the padded run's
 * do, where those end behind samples. */
bp_spec bp_length_buckets_spec(const bp_spec *spec, uint32_t sequence);

struct bp_plan;

/* One length inside a plan: its programs lie in the places that the padded programs' buffers have,
 * so the arena stays what it is. */
typedef struct bp_length_bucket {
    uint32_t sequence;
    bp_graph graph;
    uint64_t micro_bytes;             /* of a micro-batch's step block and inputs */
    uint64_t offset[BP_INPUTS_MAX];   /* of each input, from its micro-batch's step block on */
    uint32_t elements[BP_INPUTS_MAX]; /* that each sample has of it */
} bp_length_bucket;

/* And inside the runtime that has taken the plan. */
typedef struct bp_length_run {
    bp_link link;
    uint64_t runs;        /* micro-batches of training so far */
    uint64_t evaluations; /* and of evaluations */
} bp_length_run;

/* Bytes of plan memory that the lengths of a spec keep beside the padded programs, with tables of
 * so many rows; and those that making one takes for a while. */
uint64_t bp_length_buckets_bytes(const bp_spec *spec, const bp_graph_limits *rows);
uint64_t bp_length_buckets_scratch(const bp_spec *spec, const bp_graph_limits *rows);

/* Makes the programs of every length of the spec that gives the bits of the padded run and finds
 * room in its places; the others are left out (plan->left_out). The padded graph is planned. */
bp_status bp_length_buckets_make(struct bp_plan *plan) BP_MUST_CHECK;

#endif
