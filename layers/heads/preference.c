/* SPDX-License-Identifier: MIT */
/* The loss over pairs of rows as an op. */
#include "layers/heads/preference.h"

#include "core/ir/step.h"

/* Where the sum goes: of losses that are counted already, to nobody. */
static bp_ref preference_result(bp_emit *emit)
{
    return emit->loss_counted ? bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_U8, 1,
                                               sizeof(bp_result_block), "counted")
                              : emit->result;
}

void bp_preference_emit(bp_emit *emit, bp_ref weights, bp_ref logps)
{
    const bp_preference *p = &emit->spec->preference;
    const uint64_t sequence = emit->spec->sequence;
    const bool adds = emit->loss_written && !emit->loss_counted;
    const bp_preference_loss_scalars scalars = {.batch = (int64_t)(emit->rows / sequence),
                                                .sequence = (int64_t)sequence,
                                                .kind = p->kind,
                                                .accumulate = adds ? 1 : 0,
                                                .beta = p->beta,
                                                .smoothing = p->smoothing,
                                                .gamma = p->gamma,
                                                .nll = p->nll,
                                                .desirable = p->desirable,
                                                .undesirable = p->undesirable};
    const bp_preference_loss_operands operands = {.result = preference_result(emit),
                                                  .weights = weights,
                                                  .logps = logps,
                                                  .losses = emit->losses,
                                                  .labels = emit->input[BP_INPUT_LABELS],
                                                  .sides = emit->input[BP_INPUT_SIDES]};
    bp_emit_preference_loss(emit, &operands, &scalars);
    emit->loss_written = true; /* a second backward's was before it */
}
