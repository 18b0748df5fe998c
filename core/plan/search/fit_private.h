/* SPDX-License-Identifier: MIT */
/* What the files of the fit share: the search's memory, and the steps that plan and measure. */
#ifndef BP_CORE_FIT_PRIVATE_H
#define BP_CORE_FIT_PRIVATE_H

#include "core/plan/search/fit.h"

#include "core/plan/search/chain.h"

#define FIT_ALIGNMENT   64
#define FIT_CHUNK_LEAST 64 /* rows of the shortest chunk of the loss that is tried */

#define FIT_SEQUENCE_LEAST 64 /* tokens of the shortest chunk of a sequence */

/* Most actions of a schedule: none takes more than starting from the input every time. */
uint32_t fit_action_limit(const bp_spec *spec);

/* The policies that have names. The first keeps everything; nothing is slower than the last, nor
 * needs fewer slots. */
#define FIT_NAMED 13
extern const bp_policy fit_named[FIT_NAMED];

/* Memory of the search, laid out once. */
typedef struct fit_search {
    const bp_fit_request *request;
    bp_fit *fit;
    bp_error *error;
    bp_plan *candidate;     /* the one being planned */
    bp_chain_stage *stages; /* [stages] */
    bp_action *trial;       /* [action_limit] */
    bp_action *kept;        /* [action_limit] */
    uint32_t action_limit;
    bool smaller; /* a smaller micro-batch follows, for which all of what does not fit is shown */
    bp_fit_try hoped[2]; /* planned already of the micro-batch and chunk: full, memory-poor */
    uint32_t hoped_count;
    uint64_t tape;        /* bytes of tapes, of what keeps everything and was planned last */
    uint64_t checkpoints; /* bytes of inputs, of what keeps these alone and was planned last */
    bp_fit_try far[2];    /* the same, of the last micro-batch and chunk all of which was far from
                             fitting; batch 0: there is none */
    void *plan;           /* memory for one plan, one measurement or one dynamic programme */
    uint64_t plan_bytes;
    bp_report_wish wish; /* of each candidate's plan */
    uint64_t need;     /* bytes of the last schedule of the dynamic programme, by its own account */
    uint64_t excess;   /* the most that plans of such schedules have taken less, of all shapes */
    bool compared;     /* there was such a plan */
    bool unbounded;    /* of some shapes no bound was found */
    uint64_t schedule; /* digest of the last one of the dynamic programme that was planned */
} fit_search;

/* Lays out the search's memory. */
bp_status fit_search_init(fit_search *s, void *memory, uint64_t bytes) BP_MUST_CHECK;

/* Plans one candidate exactly. */
bp_status fit_plan(fit_search *s, const bp_spec *spec, bp_fit_try *out) BP_MUST_CHECK;

/* Bytes that live through the whole of a micro-batch whatever the policy, of the candidate planned
 * last: everything resident, and the accumulated gradients of a group. */
uint64_t fit_fixed_bytes(const fit_search *s);

/* Measures the spec's stages for the dynamic programme, with all tape variants or only those that
 * selective:NAMES names. */
bp_status fit_measure(fit_search *s, const bp_spec *spec, bool named_only) BP_MUST_CHECK;

/* The dynamic programme inside `budget` bytes of arena; *best is the fastest found that fits, batch
 * 0 if there is none. `enters`: plans that fit are entered into the ranking. The stages must have
 * been measured. */
bp_status fit_try_chain(fit_search *s, const bp_spec *base, uint64_t budget, uint64_t fixed,
                        bool enters, bp_fit_try *best) BP_MUST_CHECK;

#endif
