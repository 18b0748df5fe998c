/* SPDX-License-Identifier: MIT */
/* Products that are checked while they run.
 *
 * Of each block of c, signed sums of columns are formed twice: r^T c of what was stored, and
 * (r^T a) b of what was read, with a sign r for each row chosen by a key (Huang and Abraham, IEEE
 * ToC C-33, 1984; Freivalds, 1979). Sums that differ by more than rounding are a suspicion, no
 * verdict: the column is computed again element by element with scalar arithmetic and compared bit
 * for bit. So no tolerance decides what is right, and the limit of suspicion may follow what
 * rounding was seen to do: a column that was right lifts it. A few elements of each block, chosen
 * by the key, are computed again in any case. */
#ifndef BP_DEVICE_HOST_MATMUL_CHECK_H
#define BP_DEVICE_HOST_MATMUL_CHECK_H

#include "device/host/matmul/matmul_work.h"

/* What one worker has seen; at the beginning of its memory. */
typedef struct bp_host_check_found {
    uint64_t columns; /* computed again */
    uint64_t wrong;   /* elements that differed, and now are what computing again gave */
    uint64_t own;     /* columns that were right, and whose sums were not */
    float level;      /* the limit that would have suspected no column that was right */
    uint32_t damaged; /* computing again gave two results, or one that exact sums exclude */
} bp_host_check_found;

/* What a call is given; the same for all workers. */
struct bp_host_check {
    uint64_t key;
    float level;    /* units of rounding by which sums may differ */
    void *memory;   /* of all workers, one behind the other, */
    uint64_t bytes; /* and bytes of each */
};

#define BP_MATMUL_CHECK_ROWS    384 /* of a block at most: a multiple of every form's tile */
#define BP_MATMUL_CHECK_COLUMNS 480 /* likewise, where old values of c are kept */

/* One worker's check of a call. */
typedef struct matmul_check {
    const bp_host_check *given;
    bp_host_check_found *found;
    float *signs;  /* of a block's rows */
    float *terms;  /* r^T a over a block of k */
    float *made;   /* r^T c without bias, by column of the block */
    float *right;  /* (r^T a) b, and the same of the residual and of what was there */
    float *before; /* of c, where it is added to or lies in the residual's place */
    int64_t pitch; /* of these */
    bool keeps;
    double all; /* sum of signs */
} matmul_check;

/* Bytes that each worker needs for the scalars of a matmul or matmul_quantised. */
uint64_t bp_matmul_check_bytes(bp_kernel kernel, const void *scalars);

void bp_matmul_check_open(matmul_work *w, matmul_check *check, const bp_host_check *given,
                          uint32_t worker);

/* Before a block of c is computed; before its next block of k; before and after the tiles of a
 * panel's part, which starts or ends all of k; after the block. */
void bp_matmul_check_begin(const matmul_work *w, const matmul_block *block);
void bp_matmul_check_depth(const matmul_work *w, const matmul_block *block);
void bp_matmul_check_panel(const matmul_work *w, const matmul_block *part, const int64_t columns[2],
                           int64_t first_term, bool starts, bool ends);
void bp_matmul_check_stored(const matmul_work *w, const matmul_block *part,
                            const int64_t columns[2]);
void bp_matmul_check_end(const matmul_work *w, const matmul_block *block);

/* Adds a tile's finished chains, where they are not stored as such. */
void bp_matmul_check_tile(const matmul_work *w, const matmul_block *block, const int64_t at[2],
                          const bp_matmul_tile *tile);

/* Whether chains are stored as they are, so that what is stored can be summed. */
static inline bool bp_matmul_check_late(const matmul_work *w)
{
    return w->c_type == BP_F32 && (w->s->gelu == 0 || w->before != NULL);
}

#endif
