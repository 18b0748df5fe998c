/* SPDX-License-Identifier: MIT */
/* What must not change while a run goes on: constant buffers (a frozen base, tables) and the linked
 * programs. A pass reads all of it in slices and forms one digest; the first pass says what is
 * right, so a bit that changes later is found one pass later at most. */
#ifndef BP_CORE_GUARD_H
#define BP_CORE_GUARD_H

#include "core/base/digest.h"
#include "core/run/handle.h"

/* A plain record; zero is its first state. */
typedef struct bp_guard {
    bp_digest running;
    uint32_t region; /* which is read, and from where on */
    uint64_t at;
    uint64_t right;  /* of the first pass */
    uint64_t passes; /* whole ones so far */
    uint64_t bytes;  /* of a pass; known after the first one */
} bp_guard;

/* Reads about `bytes` more. *changed is true where a pass has ended with another digest than the
 * first. `programs`: the device's own linked programs as well, which only those keep unchanged that
 * execute them in place (the host's). Uses the runtime's transfer piece: between steps. */
bp_status bp_guard_slice(bp_guard *guard, bp_runtime *runtime, uint64_t bytes, bool programs,
                         bool *changed) BP_MUST_CHECK;

/* The sum of bp_word_sum over all of the state, formed by the device where it can: for comparing
 * what must not change while something else is done. Between steps. */
bp_status bp_guard_state(bp_runtime *runtime, uint64_t *sum) BP_MUST_CHECK;

#endif
