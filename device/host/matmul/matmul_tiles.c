/* SPDX-License-Identifier: MIT */
/* The cache blocks of the matrix product, and the tiles of each in turn.
 *
 * The second-level cache holds a block of packed a. Of b one panel is packed at a time, and of that
 * a part of k: so much that the first-level cache holds it while all strips of a go by. Between two
 * parts of k the chains of a panel's tiles wait in a buffer, one tile after the other; between two
 * blocks of k they wait in c. */
#include "device/host/matmul/matmul_check.h"
#include "device/host/matmul/matmul_work.h"

#define BLOCK_A     (96 * 1024) /* floats of packed a: less than a second-level cache of 512 KiB */
#define PACK_PANELS 4           /* panels of b that pay for packing a */
#define TILE_MAX    (8 * BP_MATMUL_PANEL_MAX) /* elements of a form's tile */

/* Memory that tiles ask for, each its share of so many rows. */
typedef struct tiles_region {
    const char *from;
    int64_t pitch; /* bytes from row to row */
    int64_t rows;
    int64_t bytes; /* of a row */
    int64_t share; /* rows that each tile asks for, at most */
    int64_t tiles; /* that ask for it */
    int64_t step;  /* bytes from tile to tile, but a row more for `rest` of the tiles */
    int64_t rest;
    int64_t left; /* what rest has come to */
} tiles_region;

/* What tiles ask for, and what that was planned for: parts of one block are mostly alike. */
typedef struct tiles_asks {
    tiles_region ahead;   /* the next panel */
    tiles_region later;   /* the next block of a */
    tiles_region planned; /* the panel that it was planned for, */
    int64_t terms;        /* a part's terms then, */
    bool ends;            /* and whether k ended; */
    int64_t other;        /* bytes to the other line of a request */
    int64_t ahead_other;
    bp_matmul_asks asks;
} tiles_asks;

/* How a rectangle of c is cut into blocks and parts. */
typedef struct tiles_cut {
    int64_t rows;    /* of a block of c */
    int64_t columns; /* of a block of c */
    int64_t depth;   /* of a block of k */
    int64_t part;    /* of a part of it */
    int64_t end;     /* the row after the rectangle's last */
    bool packed;     /* a is */
    bool in_c;       /* chains wait in c between blocks of k; else in the buffer, a whole block */
    bool buffered;   /* chains wait in the buffer between parts */
} tiles_cut;

/* A panel's part of k in a block, and where chains are on entering and leaving it. */
typedef struct tiles_part {
    matmul_block at; /* the block of c, with the part's terms */
    bool starts;     /* k starts here */
    bool ends;
    bool opens; /* the block of k starts here */
    bool closes;
} tiles_part;

static int64_t packed_floats(const matmul_work *w, const tiles_cut *cut)
{
    return cut->packed ? round_up(cut->rows, w->form->rows) * cut->depth + BP_MATMUL_OVERRUN : 0;
}

static int64_t buffer_floats(const matmul_work *w, const tiles_cut *cut)
{
    int64_t columns = cut->in_c ? w->form->columns : round_up(cut->columns, w->form->columns);
    return cut->buffered ? round_up(cut->rows, w->form->rows) * columns : 0;
}

static bool cut_fits(const matmul_work *w, const tiles_cut *cut)
{
    return packed_floats(w, cut) + cut->part * w->form->columns + buffer_floats(w, cut) <= w->room;
}

/* Chains may wait in c: c holds nothing yet that is needed. Blocks are as large as the workspace
 * has room for. */
static bool cut_freely(const matmul_work *w, const matmul_block *all, tiles_cut *cut)
{
    int64_t rows = least(all->rows, w->form->block), unit = w->form->rows;
    cut->depth = piece(w->s->k, BLOCK_A / round_up(rows, unit), 8);
    cut->rows = piece(all->rows, BLOCK_A / cut->depth / unit * unit, unit);
    cut->columns = all->columns;
    cut->part = piece(cut->depth, w->form->terms, 8);
    cut->in_c = true;
    cut->buffered = cut->part < cut->depth;
    if (cut->buffered && !cut_fits(w, cut)) {
        cut->buffered = false;
    }
    return cut_fits(w, cut);
}

/* The cut that the workspace was made for. */
static void cut_closely(const matmul_work *w, const matmul_block *all, tiles_cut *cut)
{
    cut->depth = w->closest.depth;
    cut->rows = piece(all->rows, w->closest.rows, w->form->rows);
    cut->columns = piece(all->columns, w->closest.columns, w->form->columns);
    cut->buffered = w->closest.depth < w->s->k;
    cut->part = cut->buffered ? piece(cut->depth, w->form->terms, 8) : cut->depth;
    cut->in_c = false;
}

static bool low_rank(const matmul_work *w)
{
    return w->epilogue != NULL && w->epilogue->low_rank != NULL;
}

/* Few columns would not pay for packing an a that can be read in place. */
static tiles_cut cut_rectangle(const matmul_work *w, const matmul_block *all)
{
    tiles_cut cut = {.end = all->row + all->rows,
                     .packed = w->s->transpose_a != 0 || w->type != BP_F32 || low_rank(w) ||
                               all->columns >= PACK_PANELS * w->form->columns};
    bool free = w->c_type == BP_F32 && w->residual != w->c && w->s->k > 0;
    if (!free || !cut_freely(w, all, &cut)) {
        cut_closely(w, all, &cut);
    }
    if (w->check != NULL) { /* both are multiples of every form's tile */
        cut.rows = least(cut.rows, BP_MATMUL_CHECK_ROWS);
        cut.columns = w->check->keeps ? least(cut.columns, BP_MATMUL_CHECK_COLUMNS) : cut.columns;
    }
    return cut;
}

/* Nothing but the panel, which is near. */
static tiles_region region_none(const matmul_work *w)
{
    return (tiles_region){.from = (const char *)w->panel, .tiles = 1};
}

/* Shares a region's rows among so many tiles. */
static void region_share(tiles_region *region, int64_t tiles)
{
    region->tiles = tiles;
    region->share = ceil_div(region->rows, tiles);
    region->step = region->rows / tiles * region->pitch;
    region->rest = region->rows % tiles;
}

/* Where the next tile's share begins. */
static const char *region_next(tiles_region *region)
{
    const char *from = region->from;
    region->from += region->step;
    region->left += region->rest;
    if (region->left >= region->tiles) {
        region->left -= region->tiles;
        region->from += region->pitch;
    }
    return from;
}

/* What the next panel is packed from, for so many tiles to ask for. After a panel's part comes its
 * next part, then the next panel's first. What a quantised b has is small. */
static tiles_region next_panel(const matmul_work *w, const tiles_cut *cut, const tiles_part *part,
                               int64_t column, int64_t tiles)
{
    int64_t bytes = (int64_t)bp_dtype_bytes(w->type), columns = w->form->columns;
    int64_t term = part->at.term + part->at.terms;
    if (w->weights != NULL) {
        return region_none(w);
    }
    if (part->closes && column + columns < part->at.column + part->at.columns) {
        column += columns;
        term = part->at.term / cut->depth * cut->depth;
    } else if (part->closes && !part->ends) {
        column = part->at.column;
    } else if (part->ends) {
        column = least(column + columns, w->s->n - 1);
        term = 0;
    }
    int64_t terms = least(cut->part, w->s->k - term);
    columns = least(columns, w->s->n - column);
    bool along_k = w->s->transpose_b != 0;
    tiles_region next = {.from = place_b(w, term, column), .pitch = w->s->ldb * bytes};
    next.rows = along_k ? columns : terms;
    next.bytes = (along_k ? terms : columns) * bytes;
    region_share(&next, tiles);
    return next;
}

/* What the next block of a is packed from: the same rows' next terms, then the next rows. */
static tiles_region next_block(const matmul_work *w, const tiles_cut *cut,
                               const matmul_block *block)
{
    const bp_matmul_scalars *s = w->s;
    int64_t bytes = (int64_t)bp_dtype_bytes(w->type), row = block->row;
    int64_t term = block->term + cut->depth,
            parts = block->terms > 0 ? ceil_div(block->terms, cut->part) : 1;
    if (term >= s->k) {
        term = 0;
        row += cut->rows;
    }
    if (!cut->packed || row >= cut->end) {
        return region_none(w);
    }
    int64_t rows = least(cut->rows, cut->end - row), terms = least(cut->depth, s->k - term);
    int64_t tiles =
        ceil_div(block->rows, w->form->rows) * parts * ceil_div(block->columns, w->form->columns);
    bool along_k = s->transpose_a == 0;
    int64_t place = along_k ? row * s->lda + term : term * s->lda + row;
    tiles_region next = {.from = bp_element_at(w->a, place, w->type), .pitch = s->lda * bytes};
    next.rows = along_k ? rows : terms;
    next.bytes = (along_k ? terms : rows) * bytes;
    region_share(&next, tiles);
    return next;
}

/* Lines of a row of so many bytes, wherever in a line it begins. */
static int64_t lines_of(int64_t bytes)
{
    return ceil_div(bytes + (bytes % BP_MATMUL_LINE != 0 ? BP_MATMUL_LINE - 1 : 0), BP_MATMUL_LINE);
}

/* The requests of a tile's share, `step` lines from one to the next, evenly over its time: those
 * that are not needed repeat the one before. */
static void ask_for(const tiles_region *region, int64_t step, int64_t requests, int64_t *to)
{
    const int64_t run = ceil_div(lines_of(region->bytes), step), asks = run * region->share;
    int64_t left = 0, at = 0, row = 0;
    for (int64_t i = 0; i < requests; i++) {
        to[i] = row * region->pitch + at * step * BP_MATMUL_LINE;
        left += asks;
        if (left >= requests) {
            left -= requests;
            at++;
        }
        if (at == run) {
            at = 0;
            row += row + 1 < region->share;
        }
    }
}

/* Bytes from c to what the last part of k touches beside it: the residual, or what was before GELU.
 * 0: nothing, or c itself. */
static int64_t beside_c(const matmul_work *w)
{
    const void *other = w->residual != NULL ? w->residual : w->before;
    return other != NULL ? (int64_t)((uintptr_t)other - (uintptr_t)w->c) : 0;
}

/* Whether the requests for the present panel are those that were planned. */
static bool plan_holds(const tiles_part *part, const tiles_asks *to)
{
    const tiles_region *x = &to->ahead, *y = &to->planned;
    return to->terms == part->at.terms && to->ends == part->ends && x->share == y->share &&
           x->bytes == y->bytes && x->pitch == y->pitch;
}

/* Plans what the tiles of a panel's part ask for. */
static void plan_asks(const matmul_work *w, const tiles_part *part, tiles_asks *to)
{
    int64_t element = (int64_t)bp_dtype_bytes(w->c_type), rows = w->form->rows;
    int64_t requests = part->at.terms / BP_MATMUL_STRIDE;
    const tiles_region below = {
        .pitch = w->s->ldc * element, .bytes = w->form->columns * element, .share = rows};
    bool pairs = rows * lines_of(below.bytes) > requests;
    bool more = to->ahead.share * lines_of(to->ahead.bytes) > requests;
    if (plan_holds(part, to)) {
        return;
    }
    ask_for(&below, pairs ? 2 : 1, requests, to->asks.next);
    ask_for(&to->ahead, more ? 2 : 1, requests, to->asks.ahead);
    ask_for(&to->later, 1, requests, to->asks.later);
    to->other = pairs ? BP_MATMUL_LINE : part->ends ? beside_c(w) : 0;
    to->ahead_other = more ? BP_MATMUL_LINE : 0;
    to->planned = to->ahead;
    to->terms = part->at.terms;
    to->ends = part->ends;
}

/* Starts the walks of the next tile of those that use the present panel. The one that is asked for
 * lies some tiles below, or at the top of the next panel. */
static void start_walks(const matmul_work *w, const matmul_block *block, tiles_asks *asks,
                        const int64_t at[2], bp_matmul_tile *tile)
{
    bp_matmul_walks *walks = &tile->walks;
    int64_t row = at[0] + w->form->lead * w->form->rows, column = at[1];
    if (row >= block->row + block->rows) {
        row = least(row - round_up(block->rows, w->form->rows), w->s->m - 1);
        column = least(column + w->form->columns, w->s->n - 1);
    }
    walks->next = bp_element_at(w->c, row * w->s->ldc + column, w->c_type);
    walks->next_other = walks->next + asks->other;
    walks->ahead = region_next(&asks->ahead);
    walks->ahead_other = walks->ahead + asks->ahead_other;
    walks->later = region_next(&asks->later);
}

/* Where a tile's chains come from and go to: c, or the buffer. */
static void place_ends(const matmul_work *w, const tiles_cut *cut, const tiles_part *part,
                       bp_matmul_tile *tile, const int64_t at[2], float *waiting)
{
    float *c = (float *)w->c + at[0] * w->s->ldc + at[1];
    bool from_c = part->starts || (part->opens ? cut->in_c : !cut->buffered);
    bool to_c = part->ends || (part->closes ? cut->in_c : !cut->buffered);
    tile->from = from_c ? c : waiting;
    tile->from_pitch = from_c ? w->s->ldc : w->form->columns;
    if (part->starts && w->s->accumulate == 0) {
        tile->from = NULL;
    }
    tile->to = to_c ? c : waiting;
    tile->to_pitch = to_c ? w->s->ldc : w->form->columns;
    tile->bias = NULL;
    tile->residual = NULL;
    if (part->ends && w->bias != NULL) {
        tile->bias = (const float *)w->bias + at[1];
    }
    if (part->ends && w->residual != NULL) {
        tile->residual = (const float *)w->residual + at[0] * w->s->ldc + at[1];
    }
}

static void compute_tile(const matmul_work *w, const bp_matmul_tile *tile)
{
    (w->pairs != NULL ? w->pairs->tile : w->form->tile)(tile);
}

/* A tile of a c of 16 bits begins and ends in the scratch, and what is added to it comes there. */
static void run_rounded(const matmul_work *w, const tiles_part *part, bp_matmul_tile *tile,
                        const int64_t place[2], float *waiting)
{
    const bp_matmul_isa *form = w->form;
    float *chain = w->scratch, *other = w->scratch + TILE_MAX, *bias = other + TILE_MAX;
    int64_t pitch = form->columns, ldc = w->s->ldc, at = place[0] * ldc + place[1];
    void *c = (uint16_t *)w->c + at;
    tile->from = waiting;
    if (part->starts) {
        tile->from = w->s->accumulate != 0 ? chain : NULL;
        if (tile->from != NULL) {
            form->load(chain, pitch, c, ldc, tile->rows, tile->columns, w->c_type);
        }
    }
    tile->to = part->ends ? chain : waiting;
    tile->from_pitch = tile->to_pitch = pitch;
    tile->bias = NULL;
    tile->residual = NULL;
    if (part->ends && w->bias != NULL) {
        form->load(bias, pitch, bp_element_at(w->bias, place[1], w->type), 0, 1, tile->columns,
                   w->type);
        tile->bias = bias;
    }
    if (part->ends && w->residual != NULL) {
        form->load(other, pitch, bp_element_at(w->residual, at, w->type), ldc, tile->rows,
                   tile->columns, w->type);
        tile->residual = other;
    }
    compute_tile(w, tile);
    if (part->ends && w->check != NULL) {
        bp_matmul_check_tile(w, &part->at, place, tile);
    }
    if (part->ends && w->s->gelu != 0) {
        /* GELU is of the value that `before` holds, whether that is kept or not */
        form->store(other, pitch, chain, pitch, tile->rows, tile->columns, w->type);
        form->load(chain, pitch, other, pitch, tile->rows, tile->columns, w->type);
        form->gelu(chain, other, pitch, tile->rows, tile->columns);
        if (w->before != NULL) {
            form->store((uint16_t *)w->before + at, ldc, other, pitch, tile->rows, tile->columns,
                        w->type);
        }
    }
    if (part->ends) {
        form->store(c, ldc, chain, pitch, tile->rows, tile->columns, w->c_type);
    }
}

/* GELU while the tile is near. */
static void finish_gelu(const matmul_work *w, const matmul_block *block, const bp_matmul_tile *tile,
                        const int64_t at[2])
{
    int64_t place = at[0] * w->s->ldc + at[1];
    if (w->check != NULL && w->before == NULL) {
        bp_matmul_check_tile(w, block, at, tile);
    }
    float *before = w->before != NULL ? (float *)w->before + place : NULL;
    w->form->gelu(tile->to, before, w->s->ldc, tile->rows, tile->columns);
}

/* All tiles of a block of c that use one panel's part of b. */
static void run_panel(const matmul_work *w, const tiles_cut *cut, const tiles_part *part,
                      int64_t column, tiles_asks *asks)
{
    const float *packed_a =
        w->packed_a + round_up(part->at.rows, w->form->rows) * (part->at.term % cut->depth);
    const bp_matmul_isa *form = w->form;
    const matmul_block *block = &part->at;
    int64_t tiles = ceil_div(block->rows, form->rows), tile_count = form->rows * form->columns;
    int64_t panel = cut->in_c ? 0 : (column - block->column) / form->columns;
    float *waiting = w->unfinished + panel * tiles * tile_count;
    bp_matmul_tile tile = {.depth = block->terms,
                           .packed = cut->packed,
                           .a_pitch = w->s->lda,
                           .panel = w->panel,
                           .panel_pitch = form->columns};
    tile.columns = least(form->columns, block->column + block->columns - column);
    bp_matmul_pack_panel(w, block, column, tile.columns);
    const int64_t columns[2] = {column, tile.columns};
    if (w->check != NULL) {
        bp_matmul_check_panel(w, block, columns, block->term / cut->depth * cut->depth,
                              part->starts, part->ends);
    }
    asks->ahead = next_panel(w, cut, part, column, tiles);
    plan_asks(w, part, asks);
    tile.walks.asks = &asks->asks;
    const bool epilogue = w->epilogue != NULL && part->ends;
    if (epilogue) {
        bp_matmul_epilogue_panel(w, column, tile.columns);
    }
    for (int64_t row = 0; row < block->rows; row += form->rows) {
        const int64_t at[2] = {block->row + row, column};
        tile.rows = least(form->rows, block->rows - row);
        tile.a = cut->packed ? packed_a + row * block->terms
                             : (const float *)w->a + at[0] * w->s->lda + block->term;
        start_walks(w, block, asks, at, &tile);
        if (w->c_type == BP_F32) {
            place_ends(w, cut, part, &tile, at, waiting);
            compute_tile(w, &tile);
            if (part->ends && w->s->gelu != 0) {
                finish_gelu(w, block, &tile, at);
            }
        } else {
            run_rounded(w, part, &tile, at, waiting);
        }
        if (epilogue && row > 0) {
            bp_matmul_epilogue_tile(w, form->rows, tile.columns, at[0] - form->rows, column);
        }
        waiting += tile_count;
    }
    if (epilogue) {
        bp_matmul_epilogue_tile(w, tile.rows, tile.columns, block->row + block->rows - tile.rows,
                                column);
    }
    if (w->check != NULL && part->ends && bp_matmul_check_late(w)) {
        bp_matmul_check_stored(w, block, columns);
    }
}

static tiles_part part_of(const matmul_work *w, const tiles_cut *cut, const matmul_block *block,
                          int64_t term)
{
    int64_t end = least(block->term + block->terms, term + cut->part);
    tiles_part part = {.at = *block};
    part.at.term = term;
    part.at.terms = end - term;
    part.starts = term == 0;
    part.ends = end >= w->s->k;
    part.opens = term == block->term;
    part.closes = end == block->term + block->terms;
    return part;
}

/* One block of c over one block of k: a packed part by part, then panel after panel. Without terms
 * there is one part, which is empty. */
static void run_depth(const matmul_work *w, const tiles_cut *cut, const matmul_block *block)
{
    int64_t end = block->term + block->terms, rows = round_up(block->rows, w->form->rows);
    for (int64_t term = block->term; cut->packed && term < end; term += cut->part) {
        tiles_part part = part_of(w, cut, block, term);
        bp_matmul_pack_a(w, &part.at, w->packed_a + rows * (term - block->term));
        if (low_rank(w) && block->column == 0) {
            bp_matmul_epilogue_low_rank(w, &part.at, w->packed_a + rows * (term - block->term),
                                        part.ends);
        }
    }
    if (w->check != NULL) {
        bp_matmul_check_depth(w, block);
    }
    tiles_asks asks = {.later = next_block(w, cut, block), .terms = -1};
    for (int64_t j = 0; j < block->columns; j += w->form->columns) {
        int64_t term = block->term;
        do {
            tiles_part part = part_of(w, cut, block, term);
            run_panel(w, cut, &part, block->column + j, &asks);
            term += cut->part;
        } while (term < end);
    }
}

static void run_block(const matmul_work *w, const tiles_cut *cut, matmul_block block)
{
    const bp_matmul_scalars *s = w->s;
    if (w->check != NULL) {
        bp_matmul_check_begin(w, &block);
    }
    for (block.term = 0; block.term == 0 || block.term < s->k; block.term += cut->depth) {
        block.terms = least(cut->depth, s->k - block.term);
        run_depth(w, cut, &block);
    }
    if (w->check != NULL) {
        bp_matmul_check_end(w, &block);
    }
}

void bp_matmul_rectangle(matmul_work *w, const matmul_block *all)
{
    const tiles_cut cut = cut_rectangle(w, all);
    matmul_block block = *all;
    w->packed_a = w->work;
    w->panel = w->packed_a + packed_floats(w, &cut);
    w->unfinished = w->panel + cut.part * w->form->columns;
    for (int64_t j = 0; j < all->columns; j += cut.columns) {
        block.column = all->column + j;
        block.columns = least(cut.columns, all->columns - j);
        for (int64_t i = 0; i < all->rows; i += cut.rows) {
            block.row = all->row + i;
            block.rows = least(cut.rows, all->rows - i);
            run_block(w, &cut, block);
        }
    }
}
