/* SPDX-License-Identifier: MIT */
/* A budget in which something is offloaded: as little as fits. */
#ifndef BP_CORE_OFFLOAD_FIT_H
#define BP_CORE_OFFLOAD_FIT_H

#include "core/plan/search/choice.h"

/* What was chosen to be offloaded, of the last kind of which not all does. */
typedef struct bp_offload_chosen {
    bool made;
    bp_offload_kind kind;
    uint64_t moved; /* bytes a step, for what was chosen of that kind, less what is kept */
    uint64_t least; /* no choice of it that fits moves less, where nothing is kept */
} bp_offload_chosen;

/* The choice for a request of which nothing fits, in place of *c: with all of `most` offloaded, and
 * then as little of it as fits (core/plan/search/offload_fit.c). Else as bp_choice_run. Cost: tens
 * of plans besides. */
bp_status bp_choice_offload(bp_choice *c, const bp_fit_request *request, const bp_offload *most,
                            const bp_rates *calibrated, const bp_lender *memory,
                            bp_offload_chosen *chosen, bp_error *error) BP_MUST_CHECK;

#endif
