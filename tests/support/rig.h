/* SPDX-License-Identifier: MIT */
/* A runtime over tokens in memory, with its arena: what tests of whole models train. */
#ifndef BP_TESTS_SUPPORT_RIG_H
#define BP_TESTS_SUPPORT_RIG_H

#include "core/run/runtime.h"
#include "tests/support/config.h"

typedef struct rig {
    bp_runtime runtime;
    bp_feed feed;
    bp_source source;
    const int32_t *tokens;
    bp_error error; /* the feed's */
    void *host;
    void *arena;
} rig;

/* A GPT-2 of 2 layers, 2 heads, width 16, 37 tokens, 12 positions; AdamW at 1e-2, no clipping;
 * batch 2 x 10, one micro-batch per step, no dropout, the portable kernels on one thread. */
bp_spec rig_spec(void);

/* Plans, opens and initialises; tokens stay the caller's. Fails the test when anything fails. */
void rig_open(rig *r, const bp_spec *spec, const int32_t *tokens, uint32_t count);
void rig_close(rig *r);

/* A feed over other tokens for the same model, in file order. */
void rig_feed(rig *r, bp_feed *feed, bp_source *source, const int32_t *tokens, uint32_t count);

/* One step that has to succeed. */
bp_outcome rig_step(rig *r);

/* The bytes of a buffer, in new memory that the caller frees. */
void *rig_read(rig *r, uint32_t buffer);
void rig_write(rig *r, uint32_t buffer, const void *bytes);

/* Number of the buffer of a name; fails the test when there is none. */
uint32_t rig_find(const rig *r, const char *name);

/* The central difference of the first step's loss along a parameter's gradient, `step` to each
 * side, and that gradient's norm, which it should be. The spec has a learning rate and a decay of
 * 0. */
void rig_differ(rig *r, const bp_parameter *parameter, double step, double *difference,
                double *norm);

/* FNV-1a over every persistent buffer in name order. */
uint64_t rig_digest(rig *r);

#endif
