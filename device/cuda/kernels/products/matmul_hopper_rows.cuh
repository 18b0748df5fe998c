/* SPDX-License-Identifier: MIT */
/* The sums of Hopper's warpgroups on their way out, through shared memory: each warp's own rows, in
 * the forms of matmul_rows.cuh. */
#ifndef BP_DEVICE_KERNELS_MATMUL_HOPPER_ROWS_CUH
#define BP_DEVICE_KERNELS_MATMUL_HOPPER_ROWS_CUH

#include "device/cuda/kernels/products/hopper.cuh"
#include "device/cuda/kernels/products/matmul_rows.cuh"
#include "device/cuda/kernels/async.cuh"

/* A warp's 16 rows of 64 columns, on their way out by shared memory. A unit is what four lanes have
 * of a row, the row eight further and eight columns: 16 floats, as wgmma leaves them. The pitches
 * keep what eight lanes write at once in different banks, and what they read. */
#define UNIT_PITCH 20                     /* floats, from eight columns to the next */
#define LINE_PITCH 176                    /* from row to row */
#define WARP_PITCH (8 * LINE_PITCH)       /* from warp to warp */
#define ROWS_PITCH (4 * WARP_PITCH)       /* from warpgroup to warpgroup */
#define ROWS_BIAS  (2 * ROWS_PITCH * 4u)  /* bytes of two warpgroups, and behind them their bias */
#define ROWS_BYTES (ROWS_BIAS + 2 * 1024) /* of all, for at most 256 columns */

/* In the same place what are 16-bit elements already: 16 rows of 64 columns, and behind them those
 * that are added. The pitch keeps what eight lanes read or write at once in different banks. */
#define SHORT_PITCH 144u               /* bytes, from row to row */
#define SHORT_ADDED (16 * SHORT_PITCH) /* where those that are added begin */

/* The thread's lane, asked for each time: what is known to stay the same is kept in a register, of
 * which the sums leave few. */
BP_DEVICE uint32_t bp_rows_lane(void)
{
    uint32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread % BP_WARP;
}

/* The thread's number, asked for anew: what is known to stay the same would be kept in registers,
 * of which the sums leave few. */
BP_DEVICE uint32_t bp_rows_thread(void)
{
    uint32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

BP_DEVICE void bp_rows_lay(const float sum[32], uint32_t to)
{
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + UNIT_PITCH * 4 * i),
                     "f"(sum[4 * i]), "f"(sum[4 * i + 1]), "f"(sum[4 * i + 2]), "f"(sum[4 * i + 3])
                     : "memory");
    }
}

/* Two columns of a row. */
BP_DEVICE void bp_rows_two(uint32_t from, float x[2])
{
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(x[0]), "=f"(x[1])
                 : "r"(from)
                 : "memory");
}

BP_DEVICE void bp_rows_four(uint32_t from, float x[4])
{
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"(from)
                 : "memory");
}

/* `to`: the thread's first float, of rows `pitch` apart; `count`: columns from there on. */
BP_DEVICE void bp_rows_make_floats(uint32_t from, float *to, uint64_t pitch, bool adds,
                                   uint32_t count)
{
#pragma unroll 1
    for (uint32_t turn = 0; turn < 4; turn++) {
        float v[8];
#pragma unroll
        for (uint32_t i = 0; i < 8; i += 2) {
            bp_rows_two(from + 8 * i, v + i);
        }
        bp_eight_floats(to, v, adds, count);
        from += turn == 1 ? 8 - 4 * LINE_PITCH * 4 : 4 * LINE_PITCH * 4; /* rows 0, 4, 8, 12 */
        to += 4 * pitch;
    }
}

/* A warp's rows of any form, of which some may not be there, by fours; `across`: columns that the
 * tile has. */
BP_DEVICE void bp_rows_make_edge(const bp_product *p, uint32_t out, uint64_t row0, uint64_t column0,
                                 uint32_t across)
{
#pragma unroll 1
    for (uint32_t s = bp_rows_thread() % BP_WARP; s < 16 * 16; s += BP_WARP) {
        const uint32_t i = s / 16, j = s % 16 * 4;
        const uint64_t row = row0 + i, column = column0 + j;
        const uint32_t from = i % 8 * LINE_PITCH + j / 8 * UNIT_PITCH + j % 8 * 2 + i / 8 * 2;
        if (row < p->m && column < p->n && j < across) {
            float v[4];
            bp_rows_two(out + from * 4, v);
            bp_rows_two(out + from * 4 + 16, v + 2);
            bp_product_end(p, row, column, v, (p->flags & BP_ACCUMULATE) != 0);
        }
    }
}

/* What all threads know of a tile. Products of this kind have fewer than 2^31 rows and columns. */
typedef struct bp_rows {
    const bp_product *p;
    uint32_t form;
    uint32_t out;   /* shared address of all warps' rows */
    uint32_t group; /* rows from one warpgroup to the next */
    uint32_t row;   /* of the tile */
    uint32_t column;
    uint32_t columns; /* that the tile has */
} bp_rows;

/* `form`: of the product; a tile of which there is less goes by fours. */
BP_DEVICE bp_rows bp_rows_set(const bp_product *p, uint32_t form, uint32_t out, uint32_t row,
                              uint32_t column, uint32_t group, uint32_t columns)
{
    const bool whole = row + 2 * group <= p->m &&
                       (p->n % (form == ROWS_FLOAT ? 4 : 8) == 0 || column + columns <= p->n);
    const bp_rows r = {p, whole ? form : ROWS_EDGE, out, group, row, column, columns};
    return r;
}

/* Where the thread lays its sums. */
BP_DEVICE uint32_t bp_rows_to(uint32_t out)
{
    const uint32_t thread = bp_rows_thread(), lane = thread % BP_WARP;
    return out + (thread / BP_WARP * WARP_PITCH + lane / 4 * LINE_PITCH + lane % 4 * 4) * 4;
}

/* The first of a warp's rows in the tile. */
BP_DEVICE uint32_t bp_rows_warp(const bp_rows *r, uint32_t warp)
{
    return warp / 4 * r->group + warp % 4 * 16;
}

/* Rows that the warp has laid out, `below` and columns `right` further, by fours. */
BP_DEVICE void bp_rows_edge(const bp_rows *r, uint32_t below, uint32_t right)
{
    const uint32_t warp = bp_rows_thread() / BP_WARP;
    bp_rows_make_edge(r->p, r->out + warp * WARP_PITCH * 4,
                      (uint64_t)r->row + below + bp_rows_warp(r, warp), (uint64_t)r->column + right,
                      r->columns - right);
}

/* The bias of a tile's columns to shared memory, by the threads of a warpgroup: of 16 columns in
 * the order of the lanes that have them, four a lane. */
BP_DEVICE void bp_rows_bias(const bp_rows *r, uint32_t to, uint32_t barrier)
{
    const uint32_t form = bp_rows_half(r->p) ? BP_HALF : BP_BFLOAT;
    bp_group_sync(barrier, 128); /* what was there before is read */
#pragma unroll 1
    for (uint32_t i = threadIdx.x % 128; i < (r->columns + 63) / 64 * 64; i += 128) {
        const uint64_t column = (uint64_t)r->column + i;
        const float x = column < r->p->n ? bp_get_as(r->p->bias, column, form) : 0.0f;
        const uint32_t place = i / 16 * 16 + i % 8 / 2 * 4 + i / 8 % 2 * 2 + i % 2;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + place * 4), "f"(x) : "memory");
    }
    bp_group_sync(barrier, 128);
}

/* The thread's place in a tile: its columns that there are, and its first row. */
typedef struct bp_rows_place {
    uint32_t left;
    uint64_t row;
    uint64_t column;
} bp_rows_place;

BP_DEVICE bp_rows_place bp_rows_first(const bp_rows *r)
{
    const uint32_t thread = bp_rows_thread(), warp = thread / BP_WARP, lane = thread % BP_WARP;
    const uint32_t all = (uint32_t)bp_least(r->columns, r->p->n - r->column);
    const bp_rows_place at = {all > lane % 8 * 8 ? all - lane % 8 * 8 : 0,
                              (uint64_t)r->row + bp_rows_warp(r, warp) + lane / 8,
                              (uint64_t)r->column + lane % 8 * 8};
    return at;
}

/* Where the thread reads the floats that its warp has laid out. */
BP_DEVICE uint32_t bp_rows_from(uint32_t out)
{
    const uint32_t thread = bp_rows_thread(), lane = thread % BP_WARP;
    return out +
           (thread / BP_WARP * WARP_PITCH + lane / 8 * LINE_PITCH + lane % 8 * UNIT_PITCH) * 4;
}

/* Addresses of 16-bit elements, for a thread. */
typedef struct bp_shorts {
    uint32_t lay;  /* its line of four matrices */
    uint32_t row;  /* its eight elements of a row */
    uint32_t bias; /* that of its columns */
    bool biased;
} bp_shorts;

BP_DEVICE bp_shorts bp_shorts_at(const bp_rows *r)
{
    const uint32_t thread = bp_rows_thread(), lane = thread % BP_WARP, warp = thread / BP_WARP;
    const uint32_t out = r->out + warp * (WARP_PITCH * 4);
    const uint32_t copy = r->out + ROWS_BIAS + thread / 128 * 1024;
    const bp_shorts s = {out + lane % 16 * SHORT_PITCH + lane / 16 * 16,
                         out + lane / 8 * SHORT_PITCH + lane % 8 * 16, copy + lane % 4 * 16,
                         r->p->bias != NULL};
    if (s.biased) {
        bp_rows_bias(r, copy, 1 + thread / 128);
    }
    return s;
}

/* The bias of 64 columns from `right` on to a thread's sums of 16 rows. */
BP_DEVICE void bp_shorts_bias(const bp_shorts *s, uint32_t right, float sum[32])
{
    if (s->biased) {
#pragma unroll
        for (uint32_t i = 0; i < 32; i += 8) {
            float b[4];
            bp_rows_four(s->bias + right * 4 + i * 8, b);
#pragma unroll
            for (uint32_t e = 0; e < 8; e++) {
                sum[i + e] += b[e / 4 * 2 + e % 2];
            }
        }
    }
}

/* Four words of a row; and a line of four matrices, as a product leaves them. */
BP_DEVICE uint4 bp_shorts_row(uint32_t from)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}

BP_DEVICE void bp_shorts_lay(const bp_shorts *s, const float sum[32], bool half)
{
#pragma unroll
    for (uint32_t i = 0; i < 32; i += 8) {
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(s->lay +
                                                                                     4 * i),
            "r"(bp_pair(sum[i], sum[i + 1], half)), "r"(bp_pair(sum[i + 2], sum[i + 3], half)),
            "r"(bp_pair(sum[i + 4], sum[i + 5], half)), "r"(bp_pair(sum[i + 6], sum[i + 7], half))
            : "memory");
    }
}

/* The thread's eight elements of each of its four rows of 64 columns, those that are added, begin
 * to come; those of columns that are not there are 0. */
BP_DEVICE void bp_shorts_fetch(const bp_shorts *s, unsigned char *const row[4], int64_t by,
                               bool there)
{
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        bp_copy_async16(s->row + SHORT_ADDED + i * 4 * SHORT_PITCH, row[i] + by, there ? 16 : 0);
    }
    bp_copy_commit();
}

/* They are added to the thread's sums. */
BP_DEVICE void bp_shorts_add(const bp_shorts *s, float sum[32], bool half)
{
    bp_copy_wait(0);
    __syncwarp();
#pragma unroll
    for (uint32_t i = 0; i < 32; i += 8) {
        uint32_t added[4];
        bp_matrix(added, s->lay + SHORT_ADDED + 4 * i);
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            float other[2];
            bp_pair_widen(added[e], half, other);
            sum[i + 2 * e] += other[0];
            sum[i + 2 * e + 1] += other[1];
        }
    }
    __syncwarp();
}

/* GELU of eight elements of a row, which `before` bytes further are kept. */
BP_DEVICE void bp_shorts_gelu_eight(uint32_t from, unsigned char *to, const bp_rows_other *o,
                                    bool half)
{
    const uint4 kept = bp_shorts_row(from);
    float v[8];
    if (o->kept) {
        *(uint4 *)(to + o->before) = kept;
    }
    bp_eight_widen(&kept, half, v);
    if (half) {
        bp_gelu4(v);
        bp_gelu4(v + 4);
    } else {
#pragma unroll
        for (uint32_t e = 0; e < 8; e++) {
            v[e] = bp_gelu_bfloat_inline(v[e]);
        }
    }
    bp_eight_store(to, v, half);
}

/* The same of the thread's four rows of 64 columns, `pitch` bytes apart. */
BP_DEVICE void bp_shorts_gelu(const bp_shorts *s, unsigned char *to, uint64_t pitch,
                              const bp_rows_other *o, bool half)
{
    unsigned char *next = to + pitch;
#pragma unroll 1
    for (uint32_t from = s->row; from != s->row + 16 * SHORT_PITCH; from += 8 * SHORT_PITCH) {
        bp_shorts_gelu_eight(from, to, o, half);
        bp_shorts_gelu_eight(from + 4 * SHORT_PITCH, next, o, half);
        to += 2 * pitch;
        next += 2 * pitch;
    }
}

/* Sums of a warp's 16 rows and of `panels` times 64 columns, in fours of rows from row[0] on,
 * become elements; form, half and panels are constants. What is added to the next panel comes
 * beside the work on this one, and what is added to the next block's first, which is `next` bytes
 * further, beside that on the last (0: there is none). */
BP_DEVICE void bp_shorts_end(const bp_shorts *s, const bp_rows *r, float *sum, uint32_t panels,
                             unsigned char *const row[4], uint32_t left, const bp_rows_other *o,
                             int64_t next, uint32_t form, bool half)
{
#pragma unroll
    for (uint32_t panel = 0; panel < panels; panel++) {
        const uint32_t right = panel * 64;
        if (panel > 0 && right >= r->columns) {
            break;
        }
        bp_shorts_bias(s, right, sum + right / 2);
        if (form == ROWS_ADDS) {
            bp_shorts_add(s, sum + right / 2, half);
            const bool last = panel + 1 == panels || right + 64 >= r->columns;
            if (!last || next != 0) {
                bp_shorts_fetch(s, row, last ? o->added + next : o->added + 2 * right + 128,
                                left > (last ? 0 : right + 64));
            }
        } else {
            __syncwarp(); /* what was there before is read: a warp reads what it wrote itself */
        }
        bp_shorts_lay(s, sum + right / 2, half);
        __syncwarp();
        if (left > right) {
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                *(uint4 *)(row[i] + 2 * right) = bp_shorts_row(s->row + i * 4 * SHORT_PITCH);
            }
        }
    }
}

#endif
