/* SPDX-License-Identifier: MIT */
/* Rotary positions as ops. */
#include "layers/nodes/rotary.h"

#include <string.h>

#include "core/plan/passes/token_lanes.h"

/* Whether each row that is decoded has a position of its own. */
static bool slots(const bp_builder *builder)
{
    return builder->mode == BP_MODE_DECODE && builder->spec->generate_regions > 0;
}

/* Rows of the table: the positions of a sample, or of the rows that are decoded of each sequence.
 */
static uint64_t positions(const bp_builder *builder)
{
    if (slots(builder)) {
        return builder->rows;
    }
    return builder->mode == BP_MODE_DECODE ? builder->rows / builder->sequences
                                           : builder->spec->sequence;
}

/* The last token of a text that is learned by successors is not read. */
bool bp_rotary_has_far(const bp_builder *builder, const bp_rotary *rotary)
{
    const uint64_t longest = builder->mode == BP_MODE_DECODE
                                 ? builder->spec->generate_context
                                 : (uint64_t)builder->spec->sequence + 1;
    const bp_rope_scaling *scaling = &rotary->scaling;
    return scaling->kind == BP_ROPE_LONG && scaling->factor > 0.0 && longest > scaling->original;
}

static double frequency_of(const bp_rotary *rotary, uint64_t pair, bool far)
{
    const char *divisors = far ? rotary->far : rotary->near;
    float divisor = 1.0f;
    if (divisors != NULL) {
        memcpy(&divisor, divisors + pair * sizeof divisor, sizeof divisor);
    }
    return bp_rope_frequency(&rotary->scaling, rotary->theta,
                             (const uint64_t[]){rotary->width, pair}, divisor);
}

/* Rows of a table: of so many positions from `first` on. */
typedef struct table_rows {
    uint64_t first;
    uint64_t count;
} table_rows;

/* Eight columns at a time, of frequencies that are found here. */
static void make_scaled(bp_builder *builder, const bp_rotary *rotary, table_rows rows, bp_ref table,
                        bool far)
{
    const uint64_t half = rotary->width / 2;
    for (uint64_t first = 0; first < half; first += 8) {
        const uint64_t count = half - first < 8 ? half - first : 8;
        double f[8] = {0.0};
        for (uint64_t i = 0; i < count; i++) {
            f[i] = frequency_of(rotary, first + i, far);
        }
        const bp_rotary_angles_scalars scalars = {.rows = (int64_t)rows.count,
                                                  .width = (int64_t)rotary->width,
                                                  .count = (int64_t)count,
                                                  .decode = builder->mode == BP_MODE_DECODE &&
                                                            !slots(builder),
                                                  .magnitude = bp_rope_magnitude(&rotary->scaling),
                                                  .f0 = f[0],
                                                  .f1 = f[1],
                                                  .f2 = f[2],
                                                  .f3 = f[3],
                                                  .f4 = f[4],
                                                  .f5 = f[5],
                                                  .f6 = f[6],
                                                  .f7 = f[7],
                                                  .first = (int64_t)rows.first};
        const bp_rotary_angles_operands operands = {.cosines = bp_ref_at(table, first),
                                                    .sines = bp_ref_at(table, half + first),
                                                    .step = builder->step};
        bp_build_rotary_angles(builder, &operands, &scalars);
    }
}

/* Of a table of all positions the rows of those that the slots have. */
static bp_ref pick_positions(bp_builder *builder, const bp_rotary *rotary, bp_ref table)
{
    const bp_embedding_forward_scalars scalars = {.rows = (int64_t)builder->rows,
                                                  .sequence = (int64_t)builder->rows,
                                                  .width = (int64_t)rotary->width,
                                                  .vocabulary =
                                                      (int64_t)builder->spec->generate_context};
    const bp_embedding_forward_operands operands = {
        .out = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, builder->rows, rotary->width,
                               "slot_rotary"),
        .ids = builder->input[BP_INPUT_SLOT_POSITIONS],
        .wte = table,
        .wpe = BP_ABSENT,
        .type_row = BP_ABSENT,
        .step = builder->step};
    bp_build_embedding_forward(builder, &operands, &scalars);
    return operands.out;
}

static bp_ref make_table(bp_builder *builder, const bp_rotary *rotary, table_rows rows)
{
    const bool both = bp_rotary_has_far(builder, rotary);
    const bp_ref table =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, both ? 2 * rows.count : rows.count,
                        rotary->width, "rotary");
    if (rotary->scaling.factor > 0.0 && rotary->scaling.kind != BP_ROPE_LLAMA3) {
        make_scaled(builder, rotary, rows, table, false);
        if (both) {
            make_scaled(builder, rotary, rows, bp_ref_at(table, rows.count * rotary->width), true);
        }
        return table;
    }
    const bp_rotary_table_scalars scalars = {.rows = (int64_t)rows.count,
                                             .width = (int64_t)rotary->width,
                                             .decode =
                                                 builder->mode == BP_MODE_DECODE && !slots(builder),
                                             .theta = rotary->theta,
                                             .factor = rotary->scaling.factor,
                                             .low = rotary->scaling.low,
                                             .high = rotary->scaling.high,
                                             .original = (double)rotary->scaling.original,
                                             .first = (int64_t)rows.first};
    const bp_rotary_table_operands operands = {.table = table, .step = builder->step};
    bp_build_rotary_table(builder, &operands, &scalars);
    return table;
}

/* Turns `rows` rows, of one sample or of whole samples, the first by the table's first row. */
static void turn_rows(bp_builder *builder, bp_rotary_scalars scalars, uint64_t rows, bp_ref x,
                      bp_ref table)
{
    scalars.rows = (int64_t)rows;
    scalars.sequence = (int64_t)(rows < positions(builder) ? rows : positions(builder));
    const bp_rotary_operands operands = {
        .x = x,
        .table = table,
        .extents = scalars.second != 0 ? builder->input[BP_INPUT_EXTENTS] : BP_ABSENT};
    bp_build_rotary(builder, &operands, &scalars);
}

/* The table that all rows of a program share; BP_ABSENT where rows live in storage, and each part
 * of them has its own. */
static bp_ref shared_table(bp_builder *builder, const bp_rotary *rotary)
{
    bp_ref *table = rotary->table == 0 ? &builder->shared : &builder->shared_second;
    if (bp_build_streams(builder) && !bp_rotary_has_far(builder, rotary)) {
        return BP_ABSENT;
    }
    if (!bp_ref_present(*table)) {
        const uint64_t all = slots(builder) ? builder->spec->generate_context : positions(builder);
        *table = make_table(builder, rotary, (table_rows){0, all});
        *table = slots(builder) ? pick_positions(builder, rotary, *table) : *table;
    }
    return *table;
}

void bp_rotary_rotate(bp_builder *builder, const bp_rotary *rotary, uint64_t heads, uint64_t pitch,
                      bp_ref x, bool back)
{
    const bp_ref shared = shared_table(builder, rotary);
    const uint64_t sequence = positions(builder), all = builder->rows;
    if (builder->mode != BP_MODE_DECODE && all < sequence && bp_rotary_has_far(builder, rotary)) {
        bp_token_lanes_whole(builder, "rotary positions of long texts have two tables (longrope), "
                                      "which are not split");
    }
    const uint64_t apart = rotary->apart != 0 ? rotary->apart : rotary->width;
    const bp_rotary_scalars scalars = {.heads = (int64_t)heads,
                                       .width = (int64_t)rotary->width,
                                       .pitch = (int64_t)pitch,
                                       .inverse = back,
                                       .apart = (int64_t)apart,
                                       .second = bp_rotary_has_far(builder, rotary),
                                       .original = (int64_t)rotary->scaling.original,
                                       .neighbours = rotary->neighbours};
    /* Rows of a rank or of a chunk may begin and end amid a sample. */
    for (uint64_t row = 0, rows; row < all; row += rows) {
        const uint64_t first = (builder->row_first + row) % sequence, left = all - row;
        const uint64_t own = left < sequence - first ? left : sequence - first;
        rows = first == 0 && left >= sequence ? left / sequence * sequence : own;
        const table_rows own_rows = {first, rows < sequence ? rows : sequence};
        const bp_ref table = bp_ref_present(shared) ? bp_ref_at(shared, first * rotary->width)
                                                    : make_table(builder, rotary, own_rows);
        turn_rows(builder, scalars, rows, bp_ref_at(x, row * pitch), table);
    }
}
