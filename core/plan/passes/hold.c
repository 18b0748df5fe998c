/* SPDX-License-Identifier: MIT */
/* Parameters that are held while ops on them are written. */
#include "core/plan/compile_private.h"
#include "core/plan/emit.h"

static const char where[] = "emit";

void bp_emit_unheld(bp_emit *emit, uint32_t index, const char *text)
{
    emit->status =
        bp_error_set(emit->graph->error, BP_ERR_INTERNAL, where, text, bp_emit_name(emit, index));
    bp_error_prefix(emit->graph->error, emit->label);
}

static bp_ref emit_hold(bp_emit *emit, uint32_t index, bp_purpose purpose)
{
    emit->parameters[index].held++;
    emit->held++;
    emit->acquired[purpose]++;
    return bp_emit_weight(emit, index);
}

bp_ref bp_emit_acquire_update(bp_emit *emit, uint32_t index)
{
    if (emit->status != BP_OK || index == BP_NO_PARAMETER) {
        return BP_ABSENT;
    }
    return emit_hold(emit, index, BP_FOR_UPDATE);
}

bp_ref bp_emit_acquire(bp_emit *emit, uint32_t index, bp_purpose purpose)
{
    if (purpose == BP_FOR_UPDATE) {
        return bp_emit_acquire_update(emit, index);
    }
    if (emit->status != BP_OK || index == BP_NO_PARAMETER) {
        return BP_ABSENT;
    }
    if (emit->flying != NULL) {
        compile_pump(emit);
    }
    if (emit->parameters[index].held == 0 && bp_emit_weight_shared(emit, index)) {
        compile_gather(emit, index);
    }
    if (emit->status == BP_OK && emit->parameters[index].held == 0 &&
        emit->parameters[index].below) {
        compile_fetch(emit, index);
    }
    if (emit->status == BP_OK && emit->parameters[index].held == 0 &&
        compile_averages(emit, index)) {
        compile_average(emit, index);
    }
    return emit_hold(emit, index, purpose);
}

void bp_emit_release(bp_emit *emit, uint32_t index)
{
    if (emit->status != BP_OK || index == BP_NO_PARAMETER) {
        return;
    }
    if (emit->parameters[index].held == 0) {
        bp_emit_unheld(emit, index, "a parameter is released that was not acquired");
        return;
    }
    emit->parameters[index].held--;
    emit->held--;
    if (emit->parameters[index].held == 0) {
        emit->parameters[index].whole = BP_NO_BUFFER;
        emit->parameters[index].whole_scales = BP_NO_BUFFER;
        emit->parameters[index].whole_nested = BP_NO_BUFFER;
    }
}

void bp_emit_settled(bp_emit *emit)
{
    for (uint32_t i = 0; emit->held > 0 && i < emit->parameter_count; i++) {
        if (emit->status == BP_OK && emit->parameters[i].held > 0) {
            bp_emit_unheld(emit, i, "a parameter was acquired and not released");
        }
    }
}

/* The parameter that a buffer of theirs belongs to: they lie in the order of publication. */
