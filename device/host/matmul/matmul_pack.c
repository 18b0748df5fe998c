/* SPDX-License-Identifier: MIT */
/* Tasks, rectangles and packing of the matrix product (see matmul_pack.h). */
#include "device/host/matmul/matmul_pack.h"

#include "device/host/matmul/matmul_check.h"
#include "device/host/matmul/matmul_experts.h"
#include "device/host/matmul/matmul_quantised.h"
#include "device/host/matmul/matmul_work.h"

/* The blocks in elements that the workspace is made for: of packed a, and of chains that wait. */
#define DEPTH        512
#define BLOCK_A      (192 * 1024)
#define BLOCK_C      (192 * 1024)
#define TASKS_WANTED 64 /* enough to share evenly among 2 to 16 workers and more */
#define SIDE_LEAST   48 /* shorter tasks would pack more than they compute */
#define ROW_ROUND    24 /* a multiple of every form's tile rows */
#define SCRATCH      (STAGE_TERMS * STAGE_ROWS) /* holds two tiles and a bias too */

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
    cut.a_count = cut.rows * cut.depth + BP_MATMUL_OVERRUN;
    cut.panel_count = cut.depth * BP_MATMUL_PANEL_MAX;
    cut.c_count = s->k > cut.depth ? cut.rows * cut.columns : 0;
    return cut;
}

/* A row times a matrix uses each element of b once: b is streamed in place. */
static bool single_row(const bp_matmul_scalars *s)
{
    return s->m == 1 && s->transpose_a == 0;
}

static uint64_t cut_bytes(const matmul_cut *cut, bool scratch)
{
    int64_t count = cut->a_count + cut->panel_count + cut->c_count + (scratch ? SCRATCH : 0);
    return (uint64_t)round_up(count, 64) * sizeof(float);
}

/* The cut for a workspace of so many bytes: where it is smaller than asked for, blocks have fewer
 * rows. False: it is too small. */
static bool cut_within(const bp_matmul_scalars *s, bool scratch, uint64_t bytes, matmul_cut *cut)
{
    *cut = cut_of(s);
    while (cut_bytes(cut, scratch) > bytes && cut->rows > ROW_ROUND) {
        cut->rows -= ROW_ROUND;
        cut->a_count = cut->rows * cut->depth + BP_MATMUL_OVERRUN;
        cut->c_count = s->k > cut->depth ? cut->rows * cut->columns : 0;
    }
    return cut_bytes(cut, scratch) <= bytes;
}

static bool has_scratch(const uint8_t *dtypes)
{
    return dtypes != NULL && (dtypes[0] != BP_F32 || dtypes[2] != BP_F32);
}

bool bp_matmul_fits(bp_kernel kernel, const void *scalars, const uint8_t *dtypes, uint64_t bytes)
{
    matmul_cut cut;
    if (kernel == BP_KERNEL_matmul_quantised) {
        const bp_matmul_scalars s = bp_matmul_as_plain(scalars);
        return !single_row(&s) && cut_within(&s, true, bytes, &cut);
    }
    return !single_row(scalars) && cut_within(scalars, has_scratch(dtypes), bytes, &cut);
}

static uint64_t workspace_of(const bp_matmul_scalars *s, bool scratch)
{
    if (s->m <= 0 || s->n <= 0 || s->k < 0 || single_row(s)) {
        return 0;
    }
    matmul_cut cut = cut_of(s);
    return cut_bytes(&cut, scratch);
}

uint64_t bp_matmul_workspace(const void *scalars, const uint8_t *dtypes)
{
    return workspace_of(scalars, has_scratch(dtypes));
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

static matmul_grid grid_of(const bp_matmul_scalars *s, const bp_matmul_isa *form)
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

uint64_t bp_matmul_tasks(const void *scalars, const bp_matmul_isa *form)
{
    const bp_matmul_scalars *s = scalars;
    if (s->m <= 0 || s->n <= 0) {
        return 0;
    }
    matmul_grid grid = grid_of(s, form);
    return (uint64_t)(grid.down * grid.across);
}

static matmul_grid fused_grid(const bp_matmul_scalars *s)
{
    return (matmul_grid){BP_FUSE_ROWS, s->n, ceil_div(s->m, BP_FUSE_ROWS), 1, true};
}

uint64_t bp_matmul_fused_tasks(const void *scalars)
{
    return (uint64_t)fused_grid(scalars).down;
}

/* Rows of 16-bit elements transposed by way of floats: panels of b whose rows run along k. */
static void transpose_panel(const matmul_work *w, const void *from, int64_t columns, int64_t terms)
{
    const bp_matmul_isa *form = w->form;
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

void bp_matmul_pack_panel(const matmul_work *w, const matmul_block *block, int64_t column,
                          int64_t columns)
{
    const bp_matmul_isa *form = w->form;
    if (w->weights != NULL) {
        bp_matmul_quantised_panel(w, block, column, columns);
        return;
    }
    if (w->pairs != NULL) {
        w->pairs->panel(w, block, column, columns);
        return;
    }
    const void *from = place_b(w, block->term, column);
    if (w->s->transpose_b == 0) {
        form->load(w->panel, form->columns, from, w->s->ldb, block->terms, columns, w->type);
    } else if (w->type == BP_F32) {
        form->transpose(w->panel, form->columns, from, w->s->ldb, columns, block->terms);
    } else {
        transpose_panel(w, from, columns, block->terms);
    }
}

/* Strips of a tile's rows, one after the other, each (terms, form's rows). a's rows run along k. */
static void pack_rows(const matmul_work *w, const matmul_block *block, float *to)
{
    const bp_matmul_isa *form = w->form;
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
static void pack_columns(const matmul_work *w, const matmul_block *block, float *to)
{
    const bp_matmul_isa *form = w->form;
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
                form->pack_columns(to + (i + r) * block->terms + k * form->rows,
                                   (const float *)from + r, pitch, readable - r, run);
            }
        }
    }
}

void bp_matmul_pack_a(const matmul_work *w, const matmul_block *block, float *to)
{
    if (w->pairs != NULL) {
        w->pairs->pack_a(w, block, to);
    } else if (w->s->transpose_a != 0) {
        pack_columns(w, block, to);
    } else {
        pack_rows(w, block, to);
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

/* The form's own product; what is added to it is one more of them. */
static void run_own(const matmul_work *w, const matmul_block *block)
{
    w->form->own(w, block);
    if (w->epilogue != NULL) {
        const matmul_work epilogue = {.form = w->form,
                                      .s = w->epilogue->s,
                                      .type = w->type,
                                      .c_type = w->c_type,
                                      .a = w->epilogue->a,
                                      .b = w->epilogue->b,
                                      .c = w->c,
                                      .work = w->work,
                                      .bytes = w->bytes};
        w->form->own(&epilogue, block);
    }
}

/* The parts of w->work for a product of those scalars. */
static void divide_work(matmul_work *w, const bp_matmul_scalars *s)
{
    (void)cut_within(s, w->type != BP_F32 || w->c_type != BP_F32 || w->weights != NULL, w->bytes,
                     &w->closest); /* it fits, or the call were not made */
    w->room = w->closest.a_count + w->closest.panel_count + w->closest.c_count;
    w->scratch = w->work + w->room;
}

/* Tasks first .. last - 1; `work` is this worker's part of the workspace. */
static void matmul_pack_run_tasks(matmul_work *w, float *work, uint64_t first, uint64_t last)
{
    const bp_matmul_scalars *s = w->s;
    const bool low_rank = w->epilogue != NULL && w->epilogue->low_rank != NULL;
    matmul_grid grid = low_rank ? fused_grid(s) : grid_of(s, w->form);
    int64_t per_slow = grid.rows_slow ? grid.across : grid.down;
    int64_t task = (int64_t)first;
    w->work = work;
    w->packed_a = work;
    if (single_row(s)) {
        int64_t column = task * BP_MATMUL_STRIP;
        bp_matmul_strip(w, column, least((int64_t)last * BP_MATMUL_STRIP, s->n) - column);
        return;
    }
    divide_work(w, s);
    w->pairs = w->type == BP_BF16 && w->weights == NULL && !low_rank ? w->form->pairs : NULL;
    while (task < (int64_t)last) {
        int64_t left = (int64_t)last - task;
        int64_t slow[2] = {task / per_slow, 1};
        int64_t fast[2] = {task % per_slow, 0};
        fast[1] = least(per_slow - fast[0], left);
        if (fast[1] == per_slow) {
            slow[1] = left / per_slow;
        }
        matmul_block block = rectangle(w, &grid, slow, fast);
        if (w->form->own != NULL && w->type == BP_BF16) {
            run_own(w, &block);
        } else if (w->check == NULL && bp_matmul_few_rows(w, &block)) {
            bp_matmul_few_rows_run(w, &block);
        } else if (w->check != NULL || !bp_matmul_narrow(w, &block)) {
            bp_matmul_rectangle(w, &block);
        }
        task += slow[1] * fast[1];
    }
}

static matmul_work work_of(const bp_matmul_isa *form, const bp_matmul_scalars *s,
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

/* Tasks first .. last - 1 with this worker's part of a workspace of `bytes` for each. */
static void run_with(matmul_work *w, const bp_host_call *call, void *work, uint64_t bytes,
                     const uint64_t tasks[2], uint32_t worker)
{
    matmul_epilogue epilogue;
    if (call->epilogue != NULL) {
        const bp_matmul_pointers *p = call->epilogue->call.pointers;
        epilogue.s = call->epilogue->call.scalars;
        epilogue.a = p->a;
        epilogue.b = p->b;
        epilogue.low_rank = NULL;
        epilogue.factor = call->epilogue->factor;
        if (call->epilogue->low_rank != NULL) {
            const bp_matmul_pointers *q = call->epilogue->low_rank->pointers;
            epilogue.low_rank = call->epilogue->low_rank->scalars;
            epilogue.low_rank_b = q->b;
            epilogue.u = q->c;
        }
        w->epilogue = &epilogue;
        work = call->epilogue->work;
        bytes = call->epilogue->bytes;
    }
    matmul_check check;
    if (call->check != NULL && !single_row(w->s)) {
        bp_matmul_check_open(w, &check, call->check, worker);
    }
    w->bytes = bytes;
    float *part = work != NULL ? (float *)(void *)((char *)work + worker * bytes) : NULL;
    matmul_pack_run_tasks(w, part, tasks[0], tasks[1]);
}

void bp_matmul_run(const bp_matmul_isa *form, const bp_host_call *call, uint64_t first,
                   uint64_t last, uint32_t worker)
{
    const bp_matmul_pointers *p = call->pointers;
    matmul_work w = work_of(form, call->scalars, p, call);
    const uint64_t tasks[2] = {first, last};
    run_with(&w, call, p->work, bp_matmul_workspace(call->scalars, call->dtypes), tasks, worker);
}

void bp_matmul_run_whole(const bp_matmul_isa *form, const bp_host_call *call, uint64_t bytes)
{
    const bp_matmul_pointers *p = call->pointers;
    matmul_work w = work_of(form, call->scalars, p, call);
    const uint64_t tasks[2] = {0, bp_matmul_tasks(call->scalars, form)};
    run_with(&w, call, p->work, bytes, tasks, 0);
}

void bp_matmul_run_coded(const bp_matmul_isa *form, const bp_host_call *call,
                         const bp_quantised_matrix *codes, const int64_t columns[2], uint64_t bytes)
{
    const bp_matmul_pointers *p = call->pointers;
    matmul_work w = work_of(form, call->scalars, p, call);
    const matmul_block block = {
        .rows = w.s->m, .column = columns[0], .columns = columns[1] - columns[0]};
    bp_matmul_scalars part = *w.s;
    w.weights = codes;
    w.bytes = bytes;
    w.work = w.packed_a = (float *)p->work;
    if (single_row(w.s)) {
        bp_matmul_strip(&w, block.column, block.columns);
        return;
    }
    part.n = block.columns;
    divide_work(&w, &part);
    bp_matmul_rectangle(&w, &block);
}

/* A run has any number of rows up to all tokens, and of those is what a workspace is for: a product
 * with fewer takes no more. */
uint64_t bp_experts_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_matmul_experts_scalars *s = scalars;
    const bp_matmul_scalars one = {
        .m = s->rows > 1 ? s->rows : 2, .n = least(s->n, BP_EXPERTS_SIDE), .k = s->k};
    const bool scratch = dtypes != NULL && dtypes[0] != BP_F32;
    return s->rows > 0 ? workspace_of(&one, scratch) : 0;
}

/* What is dequantised goes through a scratch, that of a single row through a strip. */
uint64_t bp_experts_quantised_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_matmul_experts_quantised_scalars *s = scalars;
    const bp_matmul_scalars one = {
        .m = s->rows > 1 ? s->rows : 2, .n = least(s->n, BP_EXPERTS_SIDE), .k = s->k};
    const uint64_t strip = BP_QUANTISED_STRIP * sizeof(float), most = workspace_of(&one, true);
    (void)dtypes;
    return s->rows > 0 && most > 0 ? (most > strip ? most : strip) : 0;
}

/* The rows are the terms here: of more of them than a block has, chains wait beside it. */
uint64_t bp_experts_sums_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_matmul_experts_sums_scalars *s = scalars;
    bp_matmul_scalars one = {
        .m = least(s->m, BP_EXPERTS_SIDE), .n = s->n, .k = least(s->rows, DEPTH), .transpose_a = 1};
    const bool scratch = dtypes != NULL && (dtypes[0] != BP_F32 || dtypes[1] != BP_F32);
    const uint64_t most = workspace_of(&one, scratch);
    one.k = s->rows;
    return s->rows > DEPTH ? bp_size_add(most, workspace_of(&one, scratch)) : most;
}

uint64_t bp_matmul_quantised_tasks(const void *scalars, const bp_matmul_isa *form)
{
    const bp_matmul_scalars s = bp_matmul_as_plain(scalars);
    return bp_matmul_tasks(&s, form);
}

void bp_matmul_quantised_run(const bp_matmul_isa *form, const bp_host_call *call, uint64_t first,
                             uint64_t last, uint32_t worker)
{
    const bp_matmul_quantised_pointers *p = call->pointers;
    const bp_matmul_scalars s = bp_matmul_as_plain(call->scalars);
    const bp_matmul_pointers plain = bp_matmul_plain_pointers(p);
    const bp_quantised_matrix weights = bp_matmul_weights(call);
    matmul_work w = work_of(form, &s, &plain, call);
    const uint64_t tasks[2] = {first, last};
    w.weights = &weights;
    run_with(&w, call, p->work, bp_matmul_quantised_workspace(call->scalars, call->dtypes), tasks,
             worker);
}
