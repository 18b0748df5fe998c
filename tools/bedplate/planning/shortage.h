/* SPDX-License-Identifier: MIT */
/* What to propose when nothing fits. */
#ifndef BP_BEDPLATE_SHORTAGE_H
#define BP_BEDPLATE_SHORTAGE_H

#include "tools/bedplate/planning/choice.h"
#include "tools/bedplate/app/settings.h"

enum { SHORTAGE_WAYS = 3 };

/* Options that make the plan fit, and the arena that it has with them. */
typedef struct shortage_way {
    char options[512];
    const char *changes; /* why its smaller micro-batches change the result; NULL: they do not */
    uint64_t arena_bytes;
} shortage_way;

typedef struct shortage {
    bool found; /* shortage_find has been called */
    uint32_t count;
    shortage_way way[SHORTAGE_WAYS];
    uint64_t least; /* bytes of the smallest arena without any of them */
} shortage;

/* Finds what would fit, least loss of quality first: other checkpointing or batches, which change
 * no result; where they are not enough batches that do (bp_fit_batch_matters), an optimizer,
 * weights or masters of fewer bits, adapters (over a quantised base), shorter sequences, offload.
 * `plan` is of the spec that needs the fewest bytes; `c` is the choice that did not fit, or was not
 * made (a model that only runs forward). Uses the heap. */
void shortage_find(shortage *to, const bp_choice *c, const bp_plan *plan, const settings *set);

/* Prints to stderr: the least arena that would do, the largest buffer at the peak, what was found,
 * and the whole command with the first of the ways. `chose`: the choice was made. */
void shortage_print(const shortage *ways, bool chose, const settings *set, const bp_plan *plan);

/* A member "proposals". */
void shortage_json(output *out, const shortage *ways);

#endif
