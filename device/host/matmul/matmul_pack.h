/* SPDX-License-Identifier: MIT */
/* The matrix product's cut into tasks and cache blocks, shared by its fast forms.
 *
 * A form brings three leaf functions for its registers: a tile of c kept in registers over a depth
 * of k, a copy of a panel of b and a transposing copy. Everything else (tasks, blocks, the order of
 * the k terms) is here once. The k terms of an element are added one by one in increasing order:
 * when k is cut into blocks, a block continues the chain from the stored fp32 value, so the bits do
 * not depend on the cut. The blocking is that of Goto and van de Geijn (ACM TOMS 34, 2008): a block
 * of a is packed so that a tile reads it as one stream, and b one panel at a time just before it is
 * used (matmul_tiles.c). Elements of 16 bits become floats as they are packed, but where a form
 * multiplies bf16 as they are (bp_matmul_pairs), and a finished chain is rounded once.
 */
#ifndef BP_DEVICE_HOST_MATMUL_PACK_H
#define BP_DEVICE_HOST_MATMUL_PACK_H

#include "core/ops/quantised.h"
#include "device/host/vector/half.h"
#include "device/host/kernel.h"

#define BP_MATMUL_PANEL_MAX 48   /* most columns of a form's tile */
#define BP_MATMUL_ROWS_MAX  8    /* most rows of one */
#define BP_MATMUL_STRIP     128  /* columns of a task when c is one row, with nothing to reuse */
#define BP_MATMUL_WIDE      2048 /* columns and terms of such a row that are at hand at once */
#define BP_MATMUL_NARROW    8    /* columns of a c that is computed by vectors of rows */

#define BP_MATMUL_LINE   64 /* bytes of a cache line */
#define BP_MATMUL_STRIDE 8  /* terms from one request to the next */
#define BP_MATMUL_ASKS   64 /* requests that the longest tile makes */

/* Memory that will soon be needed, asked for while a tile computes: three walks, of each a request
 * every few terms. Of each request its distance in bytes from where the walk begins, so that no
 * unit that could multiply counts lines. The first two ask for the line there and for another one.
 */
typedef struct bp_matmul_asks {
    int64_t next[BP_MATMUL_ASKS];  /* where a later tile's chains start or end */
    int64_t ahead[BP_MATMUL_ASKS]; /* what the next panel will be packed from */
    int64_t later[BP_MATMUL_ASKS]; /* and the next block of a */
} bp_matmul_asks;

/* Where the walks of a tile begin, and the first two's other lines. */
typedef struct bp_matmul_walks {
    const bp_matmul_asks *asks;
    const char *next;
    const char *next_other;
    const char *ahead;
    const char *ahead_other;
    const char *later;
} bp_matmul_walks;

/* One tile: rows x columns of c, at most the form's own, over `depth` terms of k. Row r may run
 * over r * extra more terms: with extra = 1 a tile on the diagonal of a causal product adds to each
 * row just the terms that it has. */
typedef struct bp_matmul_tile {
    int64_t rows;
    int64_t columns;
    int64_t depth;
    int64_t extra;  /* 0 or 1; 0 when packed */
    bool packed;    /* a is (depth, form's rows), the panel (depth, form's columns) */
    const float *a; /* (rows, depth; a_pitch) unless packed */
    int64_t a_pitch;
    const float *panel; /* (depth, columns; panel_pitch) unless packed */
    int64_t panel_pitch;
    const float *from; /* (rows, columns; from_pitch): the chain so far; NULL: 0 */
    int64_t from_pitch;
    float *to; /* (rows, columns; to_pitch) */
    int64_t to_pitch;
    const float *bias;     /* (columns) or NULL; added to the finished chain */
    const float *residual; /* (rows, columns; to_pitch) or NULL; may be `to` */
    bp_matmul_walks walks; /* where packed */
} bp_matmul_tile;

struct matmul_work;
struct matmul_block;

/* How a form multiplies bf16 that stay so. Two terms are a word of 32 bits, the earlier one in its
 * lower half; where a is packed are words (depth / 2 rounded up, form's rows), and in a panel (..,
 * form's columns). Each strip of a begins where it would as floats. */
typedef struct bp_matmul_pairs {
    void (*tile)(const bp_matmul_tile *tile); /* its a and panel are such words, packed */
    /* As bp_matmul_pack_panel and bp_matmul_pack_a. */
    void (*panel)(const struct matmul_work *work, const struct matmul_block *block, int64_t column,
                  int64_t columns);
    void (*pack_a)(const struct matmul_work *work, const struct matmul_block *block, float *to);
} bp_matmul_pairs;

typedef struct bp_matmul_isa {
    int64_t rows;    /* of a tile, at most BP_MATMUL_ROWS_MAX */
    int64_t columns; /* of a tile and of a panel, at most BP_MATMUL_PANEL_MAX */
    int64_t terms;   /* of a panel that the first-level cache holds */
    int64_t block;   /* rows of a block of c: they share what packing b costs */
    int64_t lanes;   /* floats of a vector */
    int64_t lead;    /* tiles from asking for where one ends to that one */
    void (*tile)(const bp_matmul_tile *tile);
    /* to (rows, columns; to_pitch) = from (rows, columns; from_pitch) of that type. */
    void (*load)(float *to, int64_t to_pitch, const void *from, int64_t from_pitch, int64_t rows,
                 int64_t columns, bp_dtype type);
    /* The same with `to` of a 16-bit type, rounded to nearest even. */
    void (*store)(void *to, int64_t to_pitch, const float *from, int64_t from_pitch, int64_t rows,
                  int64_t columns, bp_dtype type);
    /* Packed a: to (depth, form's rows) = from (depth, readable; pitch), where there are `readable`
     * floats, at least 1; columns that are not there hold anything. */
    void (*pack_columns)(float *to, const float *from, int64_t pitch, int64_t readable,
                         int64_t depth);
    /* to (depth, form's rows) = transpose of from (rows, depth; pitch); 1 <= rows <= form's. Up
     * to 2 floats past the end of `to` are written. */
    void (*pack_rows)(float *to, const float *from, int64_t pitch, int64_t rows, int64_t depth);
    /* to (columns, rows; to_pitch) = transpose of from (rows, columns; from_pitch). */
    void (*transpose)(float *to, int64_t to_pitch, const float *from, int64_t from_pitch,
                      int64_t rows, int64_t columns);
    /* One row of c: sums[j] = fma(a[i], b_ij, sums[j]) for i in order.
     * b_ij, of that type, lies at b + i * pitch + j, or for row_transposed at b + j * pitch + i. */
    void (*row)(float *sums, const float *a, const void *b, int64_t pitch, int64_t depth,
                int64_t columns, bp_dtype type);
    void (*row_transposed)(float *sums, const float *a, const void *b, int64_t pitch, int64_t depth,
                           int64_t columns, bp_dtype type);
    /* Few columns, vectors of `lanes` rows: sums[v * lanes + r] = fma(a_ri, b_iv, ..) for i in
     * order, v < columns <= BP_MATMUL_NARROW. a_ri, of that type, lies at a + r * pitch + i, for
     * the `rows` <= lanes rows that are there; b is (depth, BP_MATMUL_NARROW), with zeros behind
     * the columns. */
    void (*narrow)(float *sums, const void *a, int64_t pitch, const float *b, int64_t rows,
                   int64_t depth, int64_t columns, bp_dtype type);
    /* Elements first .. first + count - 1 of a quantised matrix, all of one row where its scales
     * are per row, rounded to that type. */
    void (*dequantise)(float *to, const bp_quantised_matrix *from, uint64_t first, int64_t count,
                       bp_dtype type);
    /* c = GELU(c) over (rows, columns; pitch), the value before going to `before` when not NULL. */
    void (*gelu)(float *c, float *before, int64_t pitch, int64_t rows, int64_t columns);
    /* row_transposed of a quantised b, whose element (i, j) is number first + j * pitch + i,
     * rounded to `type`. Returns how many columns it did, 0 where they do not begin and end with
     * blocks. */
    int64_t (*row_codes)(float *sums, const float *a, const bp_quantised_matrix *b, uint64_t first,
                         uint64_t pitch, int64_t depth, int64_t columns, bp_dtype type);
    /* A rectangle of a c of bf16 operands, by instructions with bits of their own (matmul_amx.h);
     * NULL: none, which is so in all forms but one. */
    void (*own)(const struct matmul_work *work, const struct matmul_block *block);
    const bp_matmul_pairs *pairs; /* for operands of bf16; NULL: they become floats */
    /* As row and row_transposed, with terms added in any order (matmul_sums.h). */
    void (*sum)(float *sums, const float *a, const void *b, int64_t pitch, int64_t depth,
                int64_t columns, bp_dtype type);
    void (*sum_transposed)(float *sums, const float *a, const void *b, int64_t pitch, int64_t depth,
                           int64_t columns, bp_dtype type);
} bp_matmul_isa;

extern const bp_matmul_isa bp_matmul_isa_avx2;
extern const bp_matmul_isa bp_matmul_isa_avx512;
extern const bp_matmul_isa bp_matmul_isa_neon;

/* Bytes of workspace per worker for the scalars of a matmul; the same for every form. */
uint64_t bp_matmul_workspace(const void *scalars, const uint8_t *dtypes);

#define BP_MATMUL_WORK_ALIGNMENT 64

/* Whether a matmul or matmul_quantised can be done with so many bytes of workspace per worker: with
 * fewer than it asks for it takes fewer rows at a time. */
bool bp_matmul_fits(bp_kernel kernel, const void *scalars, const uint8_t *dtypes, uint64_t bytes);

/* bp_host_kernel's tasks and run for a form. Tasks are tiles of c, numbered so that a range of them
 * is a few rectangles, each of which is then blocked as a whole. */
uint64_t bp_matmul_tasks(const void *scalars, const bp_matmul_isa *form);

/* Of a product that makes u along (bp_host_epilogue.squeeze), by the scalars of what adds it: rows.
 */
uint64_t bp_matmul_fused_tasks(const void *scalars);

void bp_matmul_run(const bp_matmul_isa *form, const bp_host_call *call, uint64_t first,
                   uint64_t last, uint32_t worker);

/* A whole product by one worker, in a workspace of so many bytes. */
void bp_matmul_run_whole(const bp_matmul_isa *form, const bp_host_call *call, uint64_t bytes);

/* The same of columns columns[0] to before columns[1], with a b in codes. */
void bp_matmul_run_coded(const bp_matmul_isa *form, const bp_host_call *call,
                         const bp_quantised_matrix *codes, const int64_t columns[2],
                         uint64_t bytes);

/* The same for matmul_quantised. */
uint64_t bp_matmul_quantised_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_matmul_quantised_tasks(const void *scalars, const bp_matmul_isa *form);
void bp_matmul_quantised_run(const bp_matmul_isa *form, const bp_host_call *call, uint64_t first,
                             uint64_t last, uint32_t worker);

#endif
