/* SPDX-License-Identifier: MIT */
/* Tasks, rectangles and cache blocks of the matrix product (see matmul_pack.h). */
#include "device/host/matmul/matmul_pack.h"

#include "device/host/matmul/matmul_quantised.h"
#include "device/host/matmul/matmul_work.h"

/* Blocks in elements. a's block and the unfinished part of c share a second-level cache of 1 to 2
 * MiB with two panels of b; a depth of DEPTH makes reloading an unfinished tile a cost of 2 %. */
#define DEPTH        512
#define BLOCK_A      (192 * 1024)
#define BLOCK_C      (192 * 1024)
#define TASKS_WANTED 64 /* enough to share evenly among 2 to 16 workers and more */
#define SIDE_LEAST   48 /* shorter tasks would pack more than they compute */
#define ROW_ROUND    24 /* a multiple of every form's tile rows */
#define TILE_MAX     (8 * BP_MATMUL_PANEL_MAX)  /* elements of a form's tile */
#define SCRATCH      (STAGE_TERMS * STAGE_ROWS) /* holds two tiles and a bias too */
#define PACK_PANELS  4                          /* panels of b that pay for packing a */
#define OVERRUN      16 /* floats after packed a, at least what packing may write there */

static matmul_cut cut_of(const bp_matmul_scalars *s)
{
    matmul_cut cut = {0};
    if (s->k == 0) {
        cut.depth = 1;
    } else {
        cut.depth = piece(s->k, DEPTH, 8);
    }
    cut.rows = round_up(least(s->m, BLOCK_A / cut.depth), ROW_ROUND);
    cut.columns = round_up(s->n, BP_MATMUL_PANEL_MAX);
    if (s->k > cut.depth) {
        cut.columns = round_up(least(s->n, BLOCK_C / cut.rows), BP_MATMUL_PANEL_MAX);
    }
    cut.a_count = cut.rows * cut.depth + OVERRUN;
    cut.panel_count = cut.depth * BP_MATMUL_PANEL_MAX;
    cut.c_count = s->k > cut.depth ? cut.rows * cut.columns : 0;
    return cut;
}

/* A row times a matrix uses each element of b once: b is streamed in place. */
static bool single_row(const bp_matmul_scalars *s)
{
    return s->m == 1 && s->transpose_a == 0;
}

static uint64_t workspace_of(const bp_matmul_scalars *s, bool scratch)
{
    if (s->m <= 0 || s->n <= 0 || s->k < 0 || single_row(s)) {
        return 0;
    }
    matmul_cut cut = cut_of(s);
    int64_t count = cut.a_count + cut.panel_count + cut.c_count + (scratch ? SCRATCH : 0);
    return (uint64_t)round_up(count, 64) * sizeof(float);
}

uint64_t bp_matmul_workspace(const void *scalars, const uint8_t *dtypes)
{
    bool floats = dtypes == NULL || (dtypes[0] == BP_F32 && dtypes[2] == BP_F32);
    return workspace_of(scalars, !floats);
}

/* What is dequantised goes through the scratch, or, for a c of one row, through a strip. */
uint64_t bp_matmul_quantised_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_matmul_scalars s = bp_matmul_as_plain(scalars);
    (void)dtypes;
    if (s.m == 1 && s.n > 0 && s.k >= 0) {
        return BP_QUANTISED_STRIP * sizeof(float);
    }
    return workspace_of(&s, true);
}

/* The grid of tasks: tiles of `rows` x `columns` of c, the longer side of c running slowest. */
typedef struct matmul_grid {
    int64_t rows;
    int64_t columns;
    int64_t down;
    int64_t across;
    bool rows_slow;
} matmul_grid;

/* Strips of the longer side, at most 2 * TASKS_WANTED of them. */
static int64_t strip(int64_t side, int64_t unit)
{
    return ceil_div(ceil_div(side, unit), 2 * TASKS_WANTED) * unit;
}

/* Pieces of the shorter side, as few as bring the tasks to TASKS_WANTED. */
static int64_t part(int64_t side, int64_t strips, int64_t unit, int64_t smallest)
{
    int64_t parts = least(ceil_div(TASKS_WANTED, strips), ceil_div(side, smallest));
    return round_up(ceil_div(side, parts), unit);
}

static matmul_grid grid_of(const bp_matmul_scalars *s, const bp_matmul_form *form)
{
    matmul_grid grid;
    if (single_row(s)) {
        return (matmul_grid){1, BP_MATMUL_STRIP, 1, ceil_div(s->n, BP_MATMUL_STRIP), false};
    }
    grid.rows_slow = s->m > s->n;
    if (grid.rows_slow) {
        grid.rows = strip(s->m, SIDE_LEAST);
        grid.columns = part(s->n, ceil_div(s->m, grid.rows), form->columns, SIDE_LEAST);
    } else {
        grid.columns = strip(s->n, form->columns);
        grid.rows = part(s->m, ceil_div(s->n, grid.columns), form->rows, SIDE_LEAST);
    }
    grid.down = ceil_div(s->m, grid.rows);
    grid.across = ceil_div(s->n, grid.columns);
    return grid;
}

uint64_t bp_matmul_tasks(const void *scalars, const bp_matmul_form *form)
{
    const bp_matmul_scalars *s = scalars;
    if (s->m <= 0 || s->n <= 0) {
        return 0;
    }
    matmul_grid grid = grid_of(s, form);
    return (uint64_t)(grid.down * grid.across);
}

/* Rows of 16-bit elements turned by way of floats: panels of b whose rows run along k. */
static void turn_panel(const matmul_work *w, const void *from, int64_t columns, int64_t terms)
{
    const bp_matmul_form *form = w->form;
    for (int64_t j = 0; j < columns; j += STAGE_ROWS) {
        int64_t rows = least(STAGE_ROWS, columns - j);
        for (int64_t k = 0; k < terms; k += STAGE_TERMS) {
            int64_t run = least(STAGE_TERMS, terms - k);
            const void *source = bp_element_at(from, j * w->s->ldb + k, w->type);
            form->load(w->scratch, STAGE_TERMS, source, w->s->ldb, rows, run, w->type);
            form->transpose(w->panel + k * form->columns + j, form->columns, w->scratch,
                            STAGE_TERMS, rows, run);
        }
    }
}

/* Packs the panel of b that the tiles of these columns read. */
static void pack_panel(const matmul_work *w, const matmul_block *block, int64_t column,
                       int64_t columns)
{
    const bp_matmul_form *form = w->form;
    if (w->weights != NULL) {
        bp_matmul_quantised_panel(w, block, column, columns);
        return;
    }
    const void *from = place_b(w, block->term, column);
    if (w->s->transpose_b == 0) {
        form->load(w->panel, form->columns, from, w->s->ldb, block->terms, columns, w->type);
    } else if (w->type == BP_F32) {
        form->transpose(w->panel, form->columns, from, w->s->ldb, columns, block->terms);
    } else {
        turn_panel(w, from, columns, block->terms);
    }
}

/* Strips of a tile's rows, one after the other, each (terms, form's rows). a's rows run along k. */
static void pack_rows(const matmul_work *w, const matmul_block *block)
{
    const bp_matmul_form *form = w->form;
    float *to = w->packed_a;
    for (int64_t i = 0; i < block->rows; i += form->rows, to += form->rows * block->terms) {
        int64_t rows = least(form->rows, block->rows - i), lda = w->s->lda;
        const void *from = bp_element_at(w->a, (block->row + i) * lda + block->term, w->type);
        if (w->type == BP_F32) {
            form->pack_rows(to, from, lda, rows, block->terms);
            continue;
        }
        for (int64_t k = 0; k < block->terms; k += STAGE_TERMS) {
            int64_t run = least(STAGE_TERMS, block->terms - k);
            form->load(w->scratch, STAGE_TERMS, bp_element_at(from, k, w->type), lda, rows, run,
                       w->type);
            form->pack_rows(to + k * form->rows, w->scratch, STAGE_TERMS, rows, run);
        }
    }
}

/* The same from an a whose rows run along m, a few terms at a time over a few strips: short runs of
 * many rows would each cost a look-up of an address. */
static void pack_columns(const matmul_work *w, const matmul_block *block)
{
    const bp_matmul_form *form = w->form;
    int64_t lda = w->s->lda;
    for (int64_t k = 0; k < block->terms; k += STAGE_ROWS) {
        int64_t run = least(STAGE_ROWS, block->terms - k);
        for (int64_t i = 0; i < block->rows; i += ROW_ROUND) {
            int64_t some = least(ROW_ROUND, block->rows - i), pitch = lda, readable = w->s->m;
            const void *from =
                bp_element_at(w->a, (block->term + k) * lda + block->row + i, w->type);
            readable -= block->row + i;
            if (w->type != BP_F32) {
                form->load(w->scratch, ROW_ROUND, from, lda, run, some, w->type);
                from = w->scratch;
                pitch = ROW_ROUND;
                readable = some;
            }
            for (int64_t r = 0; r < some; r += form->rows) {
                form->pack_columns(w->packed_a + (i + r) * block->terms + k * form->rows,
                                   (const float *)from + r, pitch, readable - r, run);
            }
        }
    }
}

/* What the next panel will be packed from, as rows of cache lines in pairs. */
typedef struct matmul_ahead {
    const char *from;
    int64_t pitch; /* bytes from row to row */
    int64_t rows;
    int64_t pairs; /* of lines in a row */
} matmul_ahead;

static matmul_ahead next_panel(const matmul_work *w, const matmul_block *block, int64_t column)
{
    matmul_ahead ahead = {0};
    int64_t bytes = (int64_t)bp_dtype_bytes(w->type), columns = w->form->columns;
    int64_t term = block->term;
    if (w->weights != NULL) {
        return (matmul_ahead){(const char *)w->panel, 0, 0, 1}; /* it is small */
    }
    if (column + columns < block->column + block->columns) {
        column += columns;
    } else if (term + block->terms < w->s->k) {
        column = block->column;
        term += block->terms;
    } else if (column + columns < w->s->n) {
        column += columns;
        term = 0;
    }
    int64_t terms = least(block->terms, w->s->k - term);
    columns = least(columns, w->s->n - column);
    bool along_k = w->s->transpose_b != 0;
    ahead.from = place_b(w, term, column);
    ahead.pitch = w->s->ldb * bytes;
    ahead.rows = along_k ? columns : terms;
    ahead.pairs = ceil_div((along_k ? terms : columns) * bytes + 1, BP_MATMUL_PAIR);
    return ahead;
}

/* Gives the tile its share: the rows of the next panel that tile number `number` of those that use
 * the present panel has time to ask for; past the last row, nothing new. */
static void look_ahead(const matmul_ahead *ahead, int64_t number, bp_matmul_tile *tile)
{
    int64_t requests = tile->depth / BP_MATMUL_STRIDE - tile->next_count;
    int64_t row = number * ceil_div(requests, ahead->pairs);
    tile->ahead = (bp_matmul_ahead){(const char *)tile->panel, ahead->pairs, 0};
    if (row < ahead->rows) {
        tile->ahead.from = ahead->from + row * ahead->pitch;
        tile->ahead.jump = ahead->pitch - (ahead->pairs - 1) * BP_MATMUL_PAIR;
    }
}

/* The tile after this one lies below, or at the top of the next panel. Unfinished tiles lie one
 * after the other and need no request. */
static void look_below(const matmul_work *w, const matmul_block *block, int64_t row, int64_t column,
                       bp_matmul_tile *tile)
{
    int64_t bytes = (int64_t)bp_dtype_bytes(w->c_type), pitch = w->s->ldc;
    int64_t pairs = ceil_div(w->form->columns * bytes + 1, BP_MATMUL_PAIR);
    row += w->form->rows;
    if (row >= block->row + block->rows) {
        row = block->row;
        column = least(column + w->form->columns, w->s->n - 1);
    }
    tile->next.from = bp_element_at(w->c, row * pitch + column, w->c_type);
    tile->next.run = pairs;
    tile->next.jump = pitch * bytes - (pairs - 1) * BP_MATMUL_PAIR;
    bool starts = block->term == 0 && w->s->accumulate != 0;
    bool ends = block->term + block->terms == w->s->k;
    tile->next_count = starts || ends ? w->form->rows * pairs : 0;
}

/* The chain's start and end for a tile: c itself, or the unfinished tile between blocks of k. */
static void place_ends(const matmul_work *w, const matmul_block *block, bp_matmul_tile *tile,
                       int64_t row, int64_t column, float *unfinished)
{
    bool first = block->term == 0;
    bool last = block->term + block->terms == w->s->k;
    int64_t at = row * w->s->ldc + column;
    float *c = w->c;
    tile->from = unfinished;
    tile->from_pitch = w->form->columns;
    if (first) {
        tile->from = w->s->accumulate != 0 ? c + at : NULL;
        tile->from_pitch = w->s->ldc;
    }
    tile->to = last ? c + at : unfinished;
    tile->to_pitch = last ? w->s->ldc : w->form->columns;
    tile->bias = last && w->bias != NULL ? (const float *)w->bias + column : NULL;
    tile->residual = last && w->residual != NULL ? (const float *)w->residual + at : NULL;
}

/* A tile of a c of 16 bits begins and ends in the scratch, and what is added to it comes there. */
static void run_rounded(const matmul_work *w, const matmul_block *block, bp_matmul_tile *tile,
                        int64_t row, int64_t column, float *unfinished)
{
    const bp_matmul_form *form = w->form;
    float *chain = w->scratch, *other = w->scratch + TILE_MAX, *bias = other + TILE_MAX;
    int64_t pitch = form->columns, ldc = w->s->ldc, at = row * ldc + column;
    bool last = block->term + block->terms == w->s->k;
    void *c = (uint16_t *)w->c + at;
    tile->from = unfinished;
    if (block->term == 0) {
        tile->from = w->s->accumulate != 0 ? chain : NULL;
        if (tile->from != NULL) {
            form->load(chain, pitch, c, ldc, tile->rows, tile->columns, w->c_type);
        }
    }
    tile->to = last ? chain : unfinished;
    tile->from_pitch = tile->to_pitch = pitch;
    tile->bias = NULL;
    tile->residual = NULL;
    if (last && w->bias != NULL) {
        form->load(bias, pitch, bp_element_at(w->bias, column, w->type), 0, 1, tile->columns,
                   w->type);
        tile->bias = bias;
    }
    if (last && w->residual != NULL) {
        form->load(other, pitch, bp_element_at(w->residual, at, w->type), ldc, tile->rows,
                   tile->columns, w->type);
        tile->residual = other;
    }
    form->tile(tile);
    if (last && w->s->gelu != 0) {
        /* GELU is of the value that `before` holds, whether that is kept or not */
        form->store(other, pitch, chain, pitch, tile->rows, tile->columns, w->type);
        form->load(chain, pitch, other, pitch, tile->rows, tile->columns, w->type);
        form->gelu(chain, other, pitch, tile->rows, tile->columns);
        if (w->before != NULL) {
            form->store((uint16_t *)w->before + at, ldc, other, pitch, tile->rows, tile->columns,
                        w->type);
        }
    }
    if (last) {
        form->store(c, ldc, chain, pitch, tile->rows, tile->columns, w->c_type);
    }
}

/* All tiles of a block of c that use one panel of b. */
static void run_panel(const matmul_work *w, const matmul_block *block, int64_t column, bool packed)
{
    const bp_matmul_form *form = w->form;
    int64_t tile_count = form->rows * form->columns;
    int64_t tiles_before =
        (column - block->column) / form->columns * ceil_div(block->rows, form->rows);
    float *unfinished = w->unfinished + tiles_before * tile_count;
    bp_matmul_tile tile = {.depth = block->terms,
                           .packed = packed,
                           .a_pitch = w->s->lda,
                           .panel = w->panel,
                           .panel_pitch = form->columns};
    tile.columns = least(form->columns, block->column + block->columns - column);
    pack_panel(w, block, column, tile.columns);
    matmul_ahead ahead = next_panel(w, block, column);
    for (int64_t row = 0; row < block->rows; row += form->rows) {
        tile.rows = least(form->rows, block->rows - row);
        tile.a = packed ? w->packed_a + row * block->terms
                        : (const float *)w->a + (block->row + row) * w->s->lda + block->term;
        look_below(w, block, block->row + row, column, &tile);
        look_ahead(&ahead, row / form->rows, &tile);
        if (w->c_type == BP_F32) {
            place_ends(w, block, &tile, block->row + row, column, unfinished);
            form->tile(&tile);
        } else {
            run_rounded(w, block, &tile, block->row + row, column, unfinished);
        }
        unfinished += tile_count;
    }
}

/* One block of c over all blocks of k. Few columns would not pay for packing an a that can be read
 * in place. */
static void run_block(const matmul_work *w, matmul_block block)
{
    const bp_matmul_scalars *s = w->s;
    bool packed =
        s->transpose_a != 0 || w->type != BP_F32 || block.columns >= PACK_PANELS * w->form->columns;
    for (block.term = 0; block.term == 0 || block.term < s->k; block.term += w->cut.depth) {
        block.terms = least(w->cut.depth, s->k - block.term);
        if (packed && s->transpose_a != 0) {
            pack_columns(w, &block);
        } else if (packed) {
            pack_rows(w, &block);
        }
        for (int64_t j = 0; j < block.columns; j += w->form->columns) {
            run_panel(w, &block, block.column + j, packed);
        }
    }
    if (s->gelu != 0 && w->c_type == BP_F32) {
        int64_t at = block.row * s->ldc + block.column;
        w->form->gelu((float *)w->c + at, w->before != NULL ? (float *)w->before + at : NULL,
                      s->ldc, block.rows, block.columns);
    }
}

/* A rectangle of c in blocks that the caches hold. */
static void run_rectangle(const matmul_work *w, matmul_block all)
{
    int64_t rows = piece(all.rows, w->cut.rows, w->form->rows);
    int64_t columns = piece(all.columns, w->cut.columns, w->form->columns);
    matmul_block block = all;
    for (int64_t j = 0; j < all.columns; j += columns) {
        block.column = all.column + j;
        block.columns = least(columns, all.columns - j);
        for (int64_t i = 0; i < all.rows; i += rows) {
            block.row = all.row + i;
            block.rows = least(rows, all.rows - i);
            run_block(w, block);
        }
    }
}

/* The rectangle of c of tasks (slow .. slow + slows - 1) x (fast .. fast + fasts - 1). */
static matmul_block rectangle(const matmul_work *w, const matmul_grid *grid, const int64_t slow[2],
                              const int64_t fast[2])
{
    const int64_t *down = grid->rows_slow ? slow : fast;
    const int64_t *across = grid->rows_slow ? fast : slow;
    matmul_block block = {0};
    block.row = down[0] * grid->rows;
    block.rows = least(down[1] * grid->rows, w->s->m - block.row);
    block.column = across[0] * grid->columns;
    block.columns = least(across[1] * grid->columns, w->s->n - block.column);
    return block;
}

/* Tasks first .. last - 1; `work` is this worker's part of the workspace. */
static void matmul_pack_run_tasks(matmul_work *w, float *work, uint64_t first, uint64_t last)
{
    const bp_matmul_scalars *s = w->s;
    matmul_grid grid = grid_of(s, w->form);
    int64_t per_slow = grid.rows_slow ? grid.across : grid.down;
    int64_t task = (int64_t)first;
    w->packed_a = work;
    if (single_row(s)) {
        int64_t column = task * BP_MATMUL_STRIP;
        bp_matmul_strip(w, column, least((int64_t)last * BP_MATMUL_STRIP, s->n) - column);
        return;
    }
    w->cut = cut_of(s);
    w->panel = w->packed_a + w->cut.a_count;
    w->unfinished = w->panel + w->cut.panel_count;
    w->scratch = w->unfinished + w->cut.c_count;
    while (task < (int64_t)last) {
        int64_t left = (int64_t)last - task;
        int64_t slow[2] = {task / per_slow, 1};
        int64_t fast[2] = {task % per_slow, 0};
        fast[1] = least(per_slow - fast[0], left);
        if (fast[1] == per_slow) {
            slow[1] = left / per_slow;
        }
        run_rectangle(w, rectangle(w, &grid, slow, fast));
        task += slow[1] * fast[1];
    }
}

static matmul_work work_of(const bp_matmul_form *form, const bp_matmul_scalars *s,
                           const bp_matmul_pointers *p, const bp_host_call *call)
{
    return (matmul_work){.form = form,
                         .s = s,
                         .type = bp_call_type(call, 2),
                         .c_type = bp_call_type(call, 0),
                         .a = p->a,
                         .b = p->b,
                         .bias = p->bias,
                         .residual = p->residual,
                         .c = p->c,
                         .before = p->before};
}

/* A worker's part of a workspace, `bytes` each; NULL where there is none. */
static float *matmul_pack_part_of(void *work, uint64_t bytes, uint32_t worker)
{
    return work != NULL ? (float *)(void *)((char *)work + worker * bytes) : NULL;
}

void bp_matmul_run(const bp_matmul_form *form, const bp_host_call *call, uint64_t first,
                   uint64_t last, uint32_t worker)
{
    const bp_matmul_pointers *p = call->pointers;
    matmul_work w = work_of(form, call->scalars, p, call);
    uint64_t bytes = bp_matmul_workspace(call->scalars, call->dtypes);
    matmul_pack_run_tasks(&w, matmul_pack_part_of(p->work, bytes, worker), first, last);
}

uint64_t bp_matmul_quantised_tasks(const void *scalars, const bp_matmul_form *form)
{
    const bp_matmul_scalars s = bp_matmul_as_plain(scalars);
    return bp_matmul_tasks(&s, form);
}

void bp_matmul_quantised_run(const bp_matmul_form *form, const bp_host_call *call, uint64_t first,
                             uint64_t last, uint32_t worker)
{
    const bp_matmul_quantised_pointers *p = call->pointers;
    const bp_matmul_scalars s = bp_matmul_as_plain(call->scalars);
    const bp_matmul_pointers plain = bp_matmul_plain_pointers(p);
    const bp_quantised_matrix weights = bp_matmul_weights(call);
    matmul_work w = work_of(form, &s, &plain, call);
    uint64_t bytes = bp_matmul_quantised_workspace(call->scalars, call->dtypes);
    w.weights = &weights;
    matmul_pack_run_tasks(&w, matmul_pack_part_of(p->work, bytes, worker), first, last);
}
