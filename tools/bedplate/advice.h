/* SPDX-License-Identifier: MIT */
/* What to say when a plan does not fit. */
#ifndef BP_BEDPLATE_ADVICE_H
#define BP_BEDPLATE_ADVICE_H

#include "core/runtime.h"

/* A change of options that makes the plan smaller, and what it then needs. */
typedef struct advice {
    bool found; /* something fits */
    uint32_t batch;
    uint32_t accumulation;
    uint32_t loss_rows; /* 0: not changed */
    bp_policy policy;
    uint64_t arena_bytes; /* of this change; when nothing fits, the least of all that were tried */
} advice;

/* Plans the alternatives of a planned runtime in the order of what they cost in time: shorter loss
 * chunks, smaller micro-batches with accumulation, both, then the same with
 * --gradient-checkpointing full and memory-poor; takes the first that fits `limit` bytes. Uses the
 * heap, before anything is sealed. */
void advice_find(const bp_runtime *runtime, uint64_t limit, advice *found);

/* Prints to stderr how many bytes are missing, which class is largest, and the advice. */
void advice_print(const bp_runtime *runtime, uint64_t limit);

/* The options that turn the runtime's plan into the advised one: "--a 1 --b 2". */
void advice_text(const bp_runtime *runtime, const advice *found, char *text, size_t room);

#endif
