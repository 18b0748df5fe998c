/* SPDX-License-Identifier: MIT */
/* What freezing leaves out of a plan, and the bytes that it saves. */
#ifndef BP_BEDPLATE_FROZEN_H
#define BP_BEDPLATE_FROZEN_H

#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/session.h"

typedef struct frozen {
    uint32_t tensors;     /* that stay as they are; 0: nothing is frozen */
    uint64_t parameters;  /* elements of these */
    uint64_t arena_bytes; /* that live at one time in the same run with nothing frozen; the plan's
                             own where that is refused */
} frozen;

/* Counts what is frozen in a planned session and plans once more without it. */
bp_status frozen_find(session *s, frozen *out) BP_MUST_CHECK;

/* "frozen 38,597,376 parameters of 1 tensor (NAME, ..), which saves at least N bytes of arena": no
 * layout without freezing needs less than f->arena_bytes. Nothing when nothing is frozen. */
void frozen_put(bp_text *text, const session *s, const frozen *f);

/* frozen_parameters, trainable_parameters, frozen_saved_bytes, and the list "frozen" of names. */
void frozen_json(output *out, const session *s, const frozen *f);

#endif
