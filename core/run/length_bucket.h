/* SPDX-License-Identifier: MIT */
/* Length buckets inside a runtime (core/plan/buckets.h): they lie in the places
 * that the padded programs' buffers have, so the arena stays what it is. */
#ifndef BP_CORE_LENGTH_BUCKET_H
#define BP_CORE_LENGTH_BUCKET_H

#include "core/plan/compile.h"
#include "core/ir/link.h"

struct bp_runtime;

/* One length. */
typedef struct bp_length_bucket {
    uint32_t sequence;
    bp_graph graph;
    bp_link link;
    uint64_t micro_bytes;             /* of a micro-batch's step block and inputs */
    uint64_t offset[BP_INPUTS_MAX];   /* of each input, from its micro-batch's step block on */
    uint32_t elements[BP_INPUTS_MAX]; /* that each sample has of it */
    uint64_t runs;                    /* micro-batches of training so far */
    uint64_t evaluations;             /* and of evaluations */
} bp_length_bucket;

/* Bytes of plan memory that the lengths of a spec keep beside the padded programs, with tables of
 * so many rows; and those that making one takes for a while. */
uint64_t bp_length_bucket_bytes(const bp_spec *spec, const bp_graph_limits *rows);
uint64_t bp_length_bucket_scratch(const bp_spec *spec, const bp_graph_limits *rows);

/* Makes the programs of every length of the spec that gives the bits of the padded run and finds
 * room in its places; the others are left out (runtime->left_out). The padded graph is planned. */
bp_status bp_length_bucket_make(struct bp_runtime *runtime) BP_MUST_CHECK;

/* Links them in the plan's memory, and then to the device, which is open. */
bp_status bp_length_bucket_link(struct bp_runtime *runtime) BP_MUST_CHECK;
bp_status bp_length_bucket_open(struct bp_runtime *runtime) BP_MUST_CHECK;

/* The device's number of a length's program. */
uint32_t bp_length_bucket_program(const struct bp_runtime *runtime, const bp_length_bucket *bucket,
                                  bp_program_kind program);

#endif
