/* SPDX-License-Identifier: MIT */
/* A rig, and weight files that it reads, as made tensors in memory: "m" of a store that may fail.
 */
#ifndef BP_TESTS_SUPPORT_WEIGHTS_DESK_H
#define BP_TESTS_SUPPORT_WEIGHTS_DESK_H

#include "tests/support/rig.h"
#include "tests/support/store_faulty.h"
#include "tests/support/store_memory.h"
#include "tests/support/tensors_made.h"
#include "tools/formats/hf_weights.h"

enum { WEIGHTS_DESK_SCRATCH = 1 << 17 }; /* bytes that a load may use */

typedef struct weights_desk {
    rig r;
    memory_store memory;
    faulty_store faulty;
    made_tensors made;
    bool digests; /* whether the file has its tensors' */
    char *scratch;
    bp_error error;
    bp_hf_place place;
    unsigned faults[BP_TENSOR_FAULTS]; /* what the last load found, .. */
    unsigned allowed;
    char last[64]; /* .. and of which tensor, the last time */
} weights_desk;

/* NULL: the rig's usual model. */
weights_desk *weights_desk_new(const bp_spec *spec);
void weights_desk_free(weights_desk *d);

/* The model's own tensors, of one type; names with or without the prefix. */
void weights_desk_add(weights_desk *d, bp_dtype dtype, bool prefix);
void weights_desk_put(weights_desk *d);
/* Writes the file and loads it. */
bp_status weights_desk_load(weights_desk *d);

#endif
