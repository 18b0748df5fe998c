/* SPDX-License-Identifier: MIT */
/* Checkpoint policies as users write them: "none", "every:4", "list:3,6,9", "selective:norm". */
#ifndef BP_BEDPLATE_POLICY_H
#define BP_BEDPLATE_POLICY_H

#include "arena/text.h"
#include "core/plan/spec.h"

#define POLICY_LIST_MAX 4100 /* stages that a list can name: more than any model has */
#define POLICY_WORDS    "none|full|memory-poor|every:K|sqrt|list:I,J,..|selective:NAMES|auto"

/* Must not move once read: the policy refers to the list. */
typedef struct policy_text {
    bool automatic; /* the policy is the fit's to choose; until it does, `policy` is none */
    bp_policy policy;
    uint32_t list[POLICY_LIST_MAX];
} policy_text;

/* Reads a policy, - and _ alike. Returns NULL, or what would have been right. */
const char *policy_read(const char *text, policy_text *out);

/* Writes a policy as it could be given; "auto" for a schedule that the fit made. */
void policy_put(bp_text *text, const bp_policy *policy);

/* The names of what `bits` of BP_RECOMPUTE_ALL say is computed again: "norm, gelu". */
void policy_put_recompute(bp_text *text, uint32_t bits, const char *separator);

#endif
