/* SPDX-License-Identifier: MIT */
/* A product of low rank that is added to each tile of another one as soon as that is finished, and
 * its left factor, made of what the other one packs. */
#include "device/host/matmul/matmul_work.h"

void bp_matmul_epilogue_panel(const matmul_work *w, int64_t column, int64_t columns)
{
    const bp_matmul_isa *form = w->form;
    const bp_matmul_scalars *s = w->epilogue->s;
    float *to = w->epilogue->panel;
    float floats[BP_JOIN_RANK_MOST * STAGE_ROWS];
    if (s->transpose_b == 0) {
        const void *from = bp_element_at(w->epilogue->b, column, w->type);
        form->load(to, form->columns, from, s->ldb, s->k, columns, w->type);
        return;
    }
    for (int64_t j = 0; j < columns; j += STAGE_ROWS) {
        int64_t rows = least(STAGE_ROWS, columns - j);
        const void *from = bp_element_at(w->epilogue->b, (column + j) * s->ldb, w->type);
        form->load(floats, BP_JOIN_RANK_MOST, from, s->ldb, rows, s->k, w->type);
        form->transpose(to + j, form->columns, floats, BP_JOIN_RANK_MOST, rows, s->k);
    }
}

void bp_matmul_epilogue_tile(const matmul_work *w, int64_t rows, int64_t columns, int64_t row,
                             int64_t column)
{
    const bp_matmul_isa *form = w->form;
    const bp_matmul_scalars *s = w->epilogue->s;
    const int64_t ldc = w->s->ldc, at = row * ldc + column;
    float c[BP_MATMUL_ROWS_MAX * BP_MATMUL_PANEL_MAX], a[BP_MATMUL_ROWS_MAX * BP_JOIN_RANK_MOST];
    bp_matmul_tile tile = {.rows = rows,
                           .columns = columns,
                           .depth = s->k,
                           .a = (const float *)w->epilogue->a + row * s->lda,
                           .a_pitch = s->lda,
                           .panel = w->epilogue->panel,
                           .panel_pitch = form->columns,
                           .from = (float *)w->c + at,
                           .from_pitch = ldc,
                           .to = (float *)w->c + at,
                           .to_pitch = ldc};
    if (w->type != BP_F32) {
        form->load(a, BP_JOIN_RANK_MOST, bp_element_at(w->epilogue->a, row * s->lda, w->type),
                   s->lda, rows, s->k, w->type);
        tile.a = a;
        tile.a_pitch = BP_JOIN_RANK_MOST;
    }
    if (w->c_type == BP_F32) {
        form->tile(&tile);
        return;
    }
    void *to = (uint16_t *)w->c + at;
    tile.from = tile.to = c;
    tile.from_pitch = tile.to_pitch = form->columns;
    form->load(c, form->columns, to, ldc, rows, columns, w->c_type);
    form->tile(&tile);
    form->store(to, ldc, c, form->columns, rows, columns, w->c_type);
}

/* u *= factor, in the rows and columns of a tile. */
static void then_scale(const bp_matmul_tile *tile, float factor)
{
    for (int64_t r = 0; factor != 1.0f && r < tile->rows; r++) {
        for (int64_t j = 0; j < tile->columns; j++) {
            tile->to[r * tile->to_pitch + j] *= factor;
        }
    }
}

void bp_matmul_epilogue_low_rank(const matmul_work *w, const matmul_block *part,
                                 const float *packed_a, bool ends)
{
    static const bp_matmul_asks nothing;
    const bp_matmul_isa *form = w->form;
    const bp_matmul_scalars *s = w->epilogue->low_rank;
    const char *panel = (const char *)w->panel;
    const matmul_work narrow = {
        .form = form, .s = s, .type = BP_F32, .b = w->epilogue->low_rank_b, .panel = w->panel};
    for (int64_t j = 0; j < s->n; j += form->columns) {
        bp_matmul_tile tile = {.columns = least(form->columns, s->n - j),
                               .depth = part->terms,
                               .packed = true,
                               .panel = w->panel,
                               .panel_pitch = form->columns,
                               .from_pitch = s->ldc,
                               .to_pitch = s->ldc,
                               .walks = {&nothing, panel, panel, panel, panel, panel}};
        bp_matmul_pack_panel(&narrow, part, j, tile.columns);
        for (int64_t i = 0; i < part->rows; i += form->rows) {
            tile.rows = least(form->rows, part->rows - i);
            tile.a = packed_a + i * part->terms;
            tile.to = w->epilogue->u + (part->row + i) * s->ldc + j;
            tile.from = part->term == 0 ? NULL : tile.to;
            form->tile(&tile);
            if (ends) {
                then_scale(&tile, w->epilogue->factor);
            }
        }
    }
}
