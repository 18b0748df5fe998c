/* SPDX-License-Identifier: MIT */
/* Measuring a model's stages by writing each one's ops apart from the rest: exact bytes of tape and
 * of peaks for every tape variant, and counted times. The input of core/plan/search/chain.h. */
#ifndef BP_CORE_MEASURE_H
#define BP_CORE_MEASURE_H

#include "core/plan/search/chain.h"
#include "core/ir/cost.h"
#include "core/plan/model.h"

/* Bytes of memory in which bp_measure_count works: closed form. */
uint64_t bp_measure_scratch(const bp_spec *spec);

/* Counts the bytes of memory that bp_measure_stages needs. The memory is free again afterwards;
 * stages[model's stage count] are written over. */
bp_status bp_measure_count(const bp_spec *spec, bp_arena *memory, bp_chain_stage *stages,
                           uint64_t *bytes, bp_error *error) BP_MUST_CHECK;

/* Fills stages[model's stage count], each with the tape variants that none other beats in bytes,
 * peaks and time. A gradient shared by several stages counts where backward
 * meets it first; with several micro-batches per group gradients live all the time and count
 * nowhere. */
bp_status bp_measure_stages(const bp_spec *spec, const bp_rates *rates, bp_arena *memory,
                            bp_chain_stage *stages, bp_error *error) BP_MUST_CHECK;

/* The same with only the tape variants that selective:NAMES names, and the one that keeps nothing.
 */
bp_status bp_measure_named(const bp_spec *spec, const bp_rates *rates, bp_arena *memory,
                           bp_chain_stage *stages, bp_error *error) BP_MUST_CHECK;

/* The ops of one trial, of which the measure is taken: those from `first` to before `last` in the
 * graph are the forward, or the backward, of a stage in one of its variants. */
typedef struct bp_measured {
    const bp_graph *graph;
    bp_action_kind kind;
    uint32_t stage;
    uint32_t variant;
    uint32_t first;
    uint32_t last;
} bp_measured;

typedef void (*bp_measure_watch)(void *user, const bp_measured *trial);

/* bp_measure_stages with a watcher that sees every trial (NULL: none). */
bp_status bp_measure_each(const bp_spec *spec, const bp_rates *rates, bp_arena *memory,
                          bp_chain_stage *stages, bp_measure_watch watch, void *user,
                          bp_error *error) BP_MUST_CHECK;

#endif
