/* SPDX-License-Identifier: MIT */
/* Rotary positions as ops. */
#include "layers/rotary.h"

/* Rows of the table: the positions of a sample, or of the rows that are decoded. */
static uint64_t positions(const bp_emit *emit)
{
    return emit->mode == BP_MODE_DECODE ? emit->rows : emit->spec->sequence;
}

static void make_table(bp_emit *emit, const bp_rotary *rotary)
{
    emit->shared =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F32, positions(emit), rotary->width, "rotary");
    const bp_rotary_table_scalars scalars = {.rows = (int64_t)positions(emit),
                                             .width = (int64_t)rotary->width,
                                             .decode = emit->mode == BP_MODE_DECODE,
                                             .theta = rotary->theta,
                                             .factor = rotary->scaling.factor,
                                             .low = rotary->scaling.low,
                                             .high = rotary->scaling.high,
                                             .original = (double)rotary->scaling.original};
    const bp_rotary_table_operands operands = {.table = emit->shared, .step = emit->step};
    bp_emit_rotary_table(emit, &operands, &scalars);
}

void bp_rotary_turn(bp_emit *emit, const bp_rotary *rotary, uint64_t heads, uint64_t pitch,
                    bp_ref x, bool back)
{
    if (!bp_ref_present(emit->shared)) {
        make_table(emit, rotary);
    }
    const bp_rotary_scalars scalars = {.rows = (int64_t)emit->rows,
                                       .sequence = (int64_t)positions(emit),
                                       .heads = (int64_t)heads,
                                       .width = (int64_t)rotary->width,
                                       .pitch = (int64_t)pitch,
                                       .inverse = back};
    const bp_rotary_operands operands = {.x = x, .table = emit->shared};
    bp_emit_rotary(emit, &operands, &scalars);
}
