/* SPDX-License-Identifier: MIT */
/* The matrix product's cut into tasks and cache blocks, shared by its fast forms.
 *
 * A form brings three leaf functions for its registers: a tile of c kept in registers over a depth
 * of k, a copy of a panel of b and a transposing copy. Everything else (tasks, blocks, the order of
 * the k terms) is here once. The k terms of an element are added one by one in increasing order:
 * when k is cut into blocks, a block continues the chain from the stored fp32 value, so the bits do
 * not depend on the cut. The blocking is that of Goto and van de Geijn (ACM TOMS 34, 2008), with b
 * packed one panel at a time just before it is used and a read in place where its rows run along k.
 */
#ifndef BP_DEVICE_HOST_MATMUL_PACK_H
#define BP_DEVICE_HOST_MATMUL_PACK_H

#include "device/host/kernel.h"

#define BP_MATMUL_PANEL_MAX 48 /* most columns of a form's tile */

/* One tile: rows x columns of c, at most the form's own, over `depth` terms of k. */
typedef struct bp_matmul_tile {
    int64_t rows;
    int64_t columns;
    int64_t depth;
    const float *a; /* (rows, depth; a_pitch) */
    int64_t a_pitch;
    const float *panel; /* (depth, form's columns), zero beyond `columns` */
    const float *from;  /* (rows, columns; from_pitch): the chain so far; NULL: 0 */
    int64_t from_pitch;
    float *to; /* (rows, columns; to_pitch) */
    int64_t to_pitch;
    const float *bias;     /* (columns) or NULL; added to the finished chain */
    const float *residual; /* (rows, columns; to_pitch) or NULL; may be `to` */
    const char *ahead;     /* memory that the next panel will be packed from: two cache lines are */
    int64_t ahead_run;     /* asked for every few terms, ahead_run times side by side, then */
    int64_t ahead_jump;    /* ahead_jump bytes further, and so on */
} bp_matmul_tile;

typedef struct bp_matmul_form {
    int64_t rows;    /* of a tile */
    int64_t columns; /* of a tile and of a panel, at most BP_MATMUL_PANEL_MAX */
    void (*tile)(const bp_matmul_tile *tile);
    /* to (rows, form's columns) = from (rows, columns; pitch), zero beyond `columns`. */
    void (*copy)(float *to, const float *from, int64_t pitch, int64_t rows, int64_t columns);
    /* to (columns, rows; to_pitch) = transpose of from (rows, columns; from_pitch). Columns rows ..
     * to the next multiple of 16 of `to` may be written too, with anything. */
    void (*transpose)(float *to, int64_t to_pitch, const float *from, int64_t from_pitch,
                      int64_t rows, int64_t columns);
    /* c = GELU(c) over (rows, columns; pitch), the value before going to `before` when not NULL. */
    void (*gelu)(float *c, float *before, int64_t pitch, int64_t rows, int64_t columns);
} bp_matmul_form;

/* Bytes of workspace per worker for the scalars of a matmul; the same for every form. */
uint64_t bp_matmul_workspace(const void *scalars);

/* bp_host_kernel's tasks and run for a form. Tasks are tiles of c, numbered so that a range of them
 * is a few rectangles, each of which is then blocked as a whole. */
uint64_t bp_matmul_tasks(const void *scalars, const bp_matmul_form *form);
void bp_matmul_run(const bp_matmul_form *form, const bp_host_call *call, uint64_t first,
                   uint64_t last, uint32_t worker);

#endif
