/* SPDX-License-Identifier: MIT */
/* Matrix products of bf16 by AMX tiles; matmul_amx.h says what they compute. Blocks of 32 x 32
 * elements of c are four tiles; a and b are packed into tiles of 16 rows of 64 bytes, those of b
 * with pairs of terms side by side. */
#include "device/host/matmul/matmul_amx.h"

#include <immintrin.h>
#include <string.h>

#include "device/host/matmul/matmul_work.h"
#include "device/host/peak.h"

#define ROW        16                   /* rows of a tile, and 32-bit columns */
#define SIDE       (2 * ROW)            /* of a block of c */
#define TILE       (ROW * BP_AMX_TERMS) /* elements of a tile of a or b */
#define TILE_BYTES 64                   /* from row to row of one */
#define DEPTH      1024                 /* terms packed at once, at most */
#define ROWS       256                  /* rows of c whose a is packed at once, */
#define COLUMNS    512                  /* and columns, where chains wait for more terms */
#define ON_STACK   (16 * 1024)          /* bytes for a workspace that is too small */

/* How a rectangle of c is gone through. */
typedef struct amx_plan {
    int64_t depth;
    int64_t rows;
    int64_t columns;
    bool partial; /* chains wait in `sums` for the next terms */
    uint16_t *a;  /* tiles of rows x depth */
    uint16_t *b;  /* tiles of depth x SIDE */
    float *sums;  /* (rows, columns) */
} amx_plan;

static uint64_t amx_bytes(const amx_plan *p)
{
    int64_t sums = p->partial ? p->rows * p->columns : 0;
    return (uint64_t)(p->depth * (p->rows + SIDE)) * sizeof(uint16_t) +
           (uint64_t)sums * sizeof(float);
}

/* The largest pieces that so many bytes hold; all are multiples of their least. */
static amx_plan amx_plan_of(const bp_matmul_scalars *s, const matmul_block *block, void *work,
                            uint64_t bytes)
{
    const int64_t terms = round_up(s->k, BP_AMX_TERMS);
    amx_plan p = {.depth = least(terms, DEPTH),
                  .rows = least(round_up(block->rows, SIDE), ROWS),
                  .columns = least(round_up(block->columns, SIDE), COLUMNS)};
    p.partial = p.depth < terms;
    while (amx_bytes(&p) > bytes) {
        if (p.partial && p.columns > 2 * SIDE) {
            p.columns -= SIDE;
        } else if (p.rows > 2 * SIDE || p.depth == BP_AMX_TERMS) {
            p.rows -= SIDE;
        } else {
            p.depth = round_up(p.depth / 2, BP_AMX_TERMS);
            p.partial = p.depth < terms;
        }
    }
    p.columns = p.partial ? p.columns : round_up(block->columns, SIDE);
    p.a = work;
    p.b = p.a + p.rows * p.depth;
    p.sums = (float *)(void *)(p.b + SIDE * p.depth);
    return p;
}

/* to: ROW rows of BP_AMX_TERMS elements, from (rows, terms; pitch), zeros elsewhere. */
static void tile_rows(__m512i to[ROW], const uint16_t *from, int64_t pitch, int64_t rows,
                      int64_t terms)
{
    const __mmask32 mask = terms >= BP_AMX_TERMS ? UINT32_MAX : (UINT32_C(1) << terms) - 1;
    for (int64_t i = 0; i < ROW; i++) {
        to[i] =
            i < rows ? _mm512_maskz_loadu_epi16(mask, from + i * pitch) : _mm512_setzero_si512();
    }
}

/* to[i]: elements of rows 2 i and 2 i + 1 in turns; from (terms, columns; pitch). */
static void tile_pairs(__m512i to[ROW], const uint16_t *from, int64_t pitch, int64_t terms,
                       int64_t columns)
{
    const __mmask16 mask = (__mmask16)(columns >= ROW ? 0xffff : (1u << columns) - 1u);
    for (int64_t i = 0; i < ROW; i++) {
        __m512i low = _mm512_setzero_si512(), high = low;
        if (2 * i < terms) {
            low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + 2 * i * pitch));
        }
        if (2 * i + 1 < terms) {
            high =
                _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + (2 * i + 1) * pitch));
        }
        to[i] = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
    }
}

/* 16 x 16 words of 32 bits transposed. */
static void tile_transpose(__m512i x[ROW])
{
    __m512i t[ROW], u[ROW];
    for (int i = 0; i < ROW; i += 2) {
        t[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < ROW; i += 4) {
        u[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        u[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        u[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        u[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int j = 0; j < 4; j++) {
        __m512i a = _mm512_shuffle_i32x4(u[j], u[4 + j], 0x88);
        __m512i b = _mm512_shuffle_i32x4(u[j], u[4 + j], 0xdd);
        __m512i c = _mm512_shuffle_i32x4(u[8 + j], u[12 + j], 0x88);
        __m512i d = _mm512_shuffle_i32x4(u[8 + j], u[12 + j], 0xdd);
        x[j] = _mm512_shuffle_i32x4(a, c, 0x88);
        x[4 + j] = _mm512_shuffle_i32x4(b, d, 0x88);
        x[8 + j] = _mm512_shuffle_i32x4(a, c, 0xdd);
        x[12 + j] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
}

static void tile_put(uint16_t *to, const __m512i x[ROW])
{
    for (int i = 0; i < ROW; i++) {
        _mm512_storeu_si512(to + i * BP_AMX_TERMS, x[i]);
    }
}

/* Rows `row` and following of op(a), terms `term` and following, as tiles: SIDE rows, all terms;
 * then the next rows. */
static void amx_pack_a(const matmul_work *w, const amx_plan *p, const int64_t rows[2],
                       const int64_t terms[2])
{
    const bp_matmul_scalars *s = w->s;
    const uint16_t *a = w->a;
    for (int64_t i = 0; i < round_up(rows[1], SIDE); i += ROW) {
        for (int64_t k = 0; k < terms[1]; k += BP_AMX_TERMS) {
            const int64_t row = rows[0] + i, term = terms[0] + k;
            const int64_t some = least(ROW, rows[1] - i), run = least(BP_AMX_TERMS, terms[1] - k);
            __m512i tile[ROW];
            if (s->transpose_a == 0) {
                tile_rows(tile, a + row * s->lda + term, s->lda, some, run);
            } else {
                tile_pairs(tile, a + term * s->lda + row, s->lda, run, some < 0 ? 0 : some);
                tile_transpose(tile);
            }
            tile_put(p->a + i / SIDE * SIDE * p->depth +
                         (2 * k / BP_AMX_TERMS + i / ROW % 2) * TILE,
                     tile);
        }
    }
}

/* Elements of a quantised b as bf16, which they are exactly: (rows, BP_AMX_TERMS) along its rows.
 */
static void amx_codes(const matmul_work *w, uint16_t *to, int64_t row, int64_t column, int64_t rows,
                      int64_t columns)
{
    float floats[BP_AMX_TERMS];
    memset(to, 0, BP_AMX_TERMS * BP_AMX_TERMS * sizeof *to);
    for (int64_t i = 0; i < rows; i++) {
        w->form->dequantise(floats, w->weights, (uint64_t)((row + i) * w->s->ldb + column), columns,
                            w->type);
        w->form->store(to + i * BP_AMX_TERMS, 0, floats, 0, 1, columns, w->type);
    }
}

/* One tile of op(b): terms x columns. */
static void amx_tile_b(const matmul_work *w, __m512i tile[ROW], int64_t term, int64_t terms,
                       int64_t column, int64_t columns)
{
    const bp_matmul_scalars *s = w->s;
    uint16_t values[BP_AMX_TERMS * BP_AMX_TERMS];
    const bool transposed = s->transpose_b != 0;
    const uint16_t *from = w->b;
    int64_t pitch = s->ldb;
    columns = columns < 0 ? 0 : columns;
    if (w->weights == NULL) {
        from += transposed ? column * s->ldb + term : term * s->ldb + column;
    } else {
        amx_codes(w, values, transposed ? column : term, transposed ? term : column,
                  transposed ? columns : terms, transposed ? terms : columns);
        from = values;
        pitch = BP_AMX_TERMS;
    }
    if (transposed) {
        tile_rows(tile, from, pitch, columns, terms);
        tile_transpose(tile);
    } else {
        tile_pairs(tile, from, pitch, terms, columns);
    }
}

/* SIDE columns of op(b). */
static void amx_pack_b(const matmul_work *w, const amx_plan *p, const int64_t terms[2],
                       int64_t column, int64_t columns)
{
    for (int64_t k = 0; k < terms[1]; k += BP_AMX_TERMS) {
        for (int64_t j = 0; j < SIDE; j += ROW) {
            __m512i tile[ROW];
            amx_tile_b(w, tile, terms[0] + k, least(BP_AMX_TERMS, terms[1] - k), column + j,
                       least(ROW, columns - j));
            tile_put(p->b + (2 * k / BP_AMX_TERMS + j / ROW) * TILE, tile);
        }
    }
}

/* c (SIDE, SIDE; pitch) += a b over `groups` groups. */
static void amx_block(float *c, int64_t pitch, const uint16_t *a, const uint16_t *b, int64_t groups)
{
    const size_t bytes = (size_t)pitch * sizeof(float);
    _tile_loadd(0, c, bytes);
    _tile_loadd(1, c + ROW, bytes);
    _tile_loadd(2, c + ROW * pitch, bytes);
    _tile_loadd(3, c + ROW * pitch + ROW, bytes);
    for (int64_t i = 0; i < groups; i++, a += 2 * TILE, b += 2 * TILE) {
        _tile_loadd(4, a, TILE_BYTES);
        _tile_loadd(6, b, TILE_BYTES);
        _tile_loadd(5, a + TILE, TILE_BYTES);
        _tile_loadd(7, b + TILE, TILE_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, bytes);
    _tile_stored(1, c + ROW, bytes);
    _tile_stored(2, c + ROW * pitch, bytes);
    _tile_stored(3, c + ROW * pitch + ROW, bytes);
}

/* x += the elements at `from`, one rounding each. */
static void amx_add(const matmul_work *w, float *x, int64_t pitch, const void *from,
                    int64_t from_pitch, const int64_t size[2])
{
    float row[SIDE];
    for (int64_t i = 0; i < size[0]; i++) {
        w->form->load(row, 0, bp_element_at(from, i * from_pitch, w->type), 0, 1, size[1], w->type);
        for (int64_t j = 0; j < size[1]; j++) {
            x[i * pitch + j] += row[j];
        }
    }
}

/* What follows the chains of a block, and their way to c. */
static void amx_finish(const matmul_work *w, float *x, int64_t pitch, int64_t row, int64_t column,
                       const int64_t size[2])
{
    const bp_matmul_isa *form = w->form;
    const int64_t ldc = w->s->ldc, at = row * ldc + column;
    uint16_t rounded[SIDE * SIDE];
    if (w->bias != NULL) {
        amx_add(w, x, pitch, bp_element_at(w->bias, column, w->type), 0, size);
    }
    if (w->residual != NULL) {
        amx_add(w, x, pitch, bp_element_at(w->residual, at, w->type), ldc, size);
    }
    if (w->s->gelu != 0) {
        form->store(rounded, SIDE, x, pitch, size[0], size[1], w->type);
        form->load(x, pitch, rounded, SIDE, size[0], size[1], w->type);
        for (int64_t i = 0; w->before != NULL && i < size[0]; i++) {
            memcpy((uint16_t *)w->before + at + i * ldc, rounded + i * SIDE,
                   (size_t)size[1] * sizeof(uint16_t));
        }
        form->gelu(x, NULL, pitch, size[0], size[1]);
    }
    if (w->c_type == BP_F32) {
        form->load((float *)w->c + at, ldc, x, pitch, size[0], size[1], BP_F32);
    } else {
        form->store((uint16_t *)w->c + at, ldc, x, pitch, size[0], size[1], w->c_type);
    }
}

/* The blocks of c of a panel of b: rows[0] .. of c, the chains of some terms. */
static void amx_panel(const matmul_work *w, const amx_plan *p, const int64_t rows[2],
                      const int64_t terms[2], int64_t column, int64_t columns, float *sums)
{
    const bool first = terms[0] == 0, last = terms[0] + terms[1] >= w->s->k;
    float block[SIDE * SIDE];
    for (int64_t i = 0; i < rows[1]; i += SIDE) {
        const int64_t size[2] = {least(SIDE, rows[1] - i), least(SIDE, columns)};
        const int64_t row = rows[0] + i, pitch = p->partial ? p->columns : SIDE;
        float *x = p->partial ? sums + i * pitch : block;
        for (int64_t r = 0; first && r < SIDE; r++) {
            memset(x + r * pitch, 0, SIDE * sizeof(float));
        }
        if (first && w->s->accumulate != 0) {
            w->form->load(x, pitch, bp_element_at(w->c, row * w->s->ldc + column, w->c_type),
                          w->s->ldc, size[0], size[1], w->c_type);
        }
        amx_block(x, pitch, p->a + i * p->depth, p->b, ceil_div(terms[1], BP_AMX_TERMS));
        if (last) {
            amx_finish(w, x, pitch, row, column, size);
        }
    }
}

static void amx_rectangle(const matmul_work *w, const matmul_block *all, const amx_plan *p)
{
    const int64_t k = w->s->k > 0 ? w->s->k : 1; /* no terms: one group of zeros */
    for (int64_t j = 0; j < all->columns; j += p->columns) {
        const int64_t columns = least(p->columns, all->columns - j);
        for (int64_t i = 0; i < all->rows; i += p->rows) {
            const int64_t rows[2] = {all->row + i, least(p->rows, all->rows - i)};
            for (int64_t t = 0; t < k; t += p->depth) {
                const int64_t terms[2] = {t, least(p->depth, w->s->k - t)};
                amx_pack_a(w, p, rows, terms);
                for (int64_t q = 0; q < columns; q += SIDE) {
                    const int64_t column = all->column + j + q;
                    amx_pack_b(w, p, terms, column, columns - q);
                    amx_panel(w, p, rows, terms, column, columns - q, p->sums + q);
                }
            }
        }
    }
}

/* All eight tiles are whole: what is not there is zeros. A constant, for gcc's header says of
 * ldtilecfg that it reads eight bytes, so that stores into the rest of a variable would be left
 * out. */
static void amx_begin(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1,
               .bytes = {TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES,
                         TILE_BYTES, TILE_BYTES},
               .rows = {ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW}};
    _tile_loadconfig(&tiles);
}

void bp_matmul_amx(const matmul_work *w, const matmul_block *block)
{
    float stack[ON_STACK / sizeof(float)];
    const bool small = w->bytes < ON_STACK;
    const amx_plan p =
        amx_plan_of(w->s, block, small ? stack : w->work, small ? ON_STACK : w->bytes);
    amx_begin();
    amx_rectangle(w, block, &p);
    _tile_release();
}

uint64_t bp_peak_loop_amx(uint64_t iterations, float *sink)
{
    float c[ROW * ROW];
    amx_begin();
    for (uint64_t round = 0; round < iterations; round++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, TILE_BYTES);
    _tile_release();
    *sink = c[0];
    return iterations * 4 * (2 * TILE * ROW);
}
