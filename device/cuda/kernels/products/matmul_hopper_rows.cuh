/* SPDX-License-Identifier: MIT */
/* The sums of Hopper's warpgroups on their way out, through shared memory: each warp's own rows, in
 * the forms of matmul_rows.cuh. */
#ifndef BP_DEVICE_KERNELS_MATMUL_HOPPER_ROWS_CUH
#define BP_DEVICE_KERNELS_MATMUL_HOPPER_ROWS_CUH

#include "device/cuda/kernels/products/hopper.cuh"
#include "device/cuda/kernels/products/matmul_rows.cuh"

/* A warp's 16 rows of 64 columns, on their way out by shared memory. A unit is what four lanes have
 * of a row, the row eight further and eight columns: 16 floats, as wgmma leaves them. The pitches
 * keep what eight lanes write at once in different banks, and what they read. */
#define UNIT_PITCH 20                     /* floats, from eight columns to the next */
#define LINE_PITCH 176                    /* from row to row */
#define WARP_PITCH (8 * LINE_PITCH)       /* from warp to warp */
#define ROWS_PITCH (4 * WARP_PITCH)       /* from warpgroup to warpgroup */
#define ROWS_BIAS  (2 * ROWS_PITCH * 4u)  /* bytes of two warpgroups, and behind them their bias */
#define ROWS_BYTES (ROWS_BIAS + 2 * 1024) /* of all, for at most 256 columns */

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

/* Eight columns of a row, and of that eight further. */
BP_DEVICE void bp_rows_take(uint32_t from, float above[8], float below[8])
{
#pragma unroll
    for (uint32_t i = 0; i < 8; i += 2) {
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(above[i]), "=f"(above[i + 1]), "=f"(below[i]), "=f"(below[i + 1])
                     : "r"(from + 8 * i)
                     : "memory");
    }
}

BP_DEVICE void bp_rows_four(uint32_t from, float x[4])
{
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"(from)
                 : "memory");
}

/* A warp's rows, all of which there are, and all of the thread's eight columns, whose bias is at
 * `bias` in shared memory; form and half are constants. `pitch`: bytes of four rows. */
BP_DEVICE void bp_rows_make(uint32_t from, unsigned char *to, uint64_t pitch,
                            const bp_rows_other *o, uint32_t bias, uint32_t form, bool half)
{
    const uint32_t end = from + 2 * 4 * LINE_PITCH * 4;
#pragma unroll 1
    while (from != end) {
        float above[8], below[8], b[4];
        bp_rows_take(from, above, below);
        if (o->biased) {
#pragma unroll
            for (uint32_t e = 0; e < 8; e++) {
                if (e % 4 == 0) {
                    bp_rows_four(bias + e * 4, b);
                }
                above[e] += b[e % 4];
                below[e] += b[e % 4];
            }
        }
        bp_eight_end(to, o, above, form, half);
        bp_eight_end(to + 2 * pitch, o, below, form, half);
        from += 4 * LINE_PITCH * 4;
        to += pitch;
    }
}

BP_DEVICE void bp_rows_make_gelu(uint32_t from, unsigned char *to, uint64_t pitch,
                                 const bp_rows_other *o, uint32_t bias, bool half)
{
#pragma unroll 1
    for (uint32_t turn = 0; turn < 4; turn++) {
        float v[8], b[4];
#pragma unroll
        for (uint32_t i = 0; i < 8; i += 2) {
            bp_rows_two(from + 8 * i, v + i);
        }
        if (o->biased) {
#pragma unroll
            for (uint32_t e = 0; e < 8; e++) {
                if (e % 4 == 0) {
                    bp_rows_four(bias + e * 4, b);
                }
                v[e] += b[e % 4];
            }
        }
        bp_eight_end(to, o, v, ROWS_GELU, half);
        from += turn == 1 ? 8 - 4 * LINE_PITCH * 4 : 4 * LINE_PITCH * 4; /* rows 0, 4, 8, 12 */
        to += pitch;
    }
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

/* The bias of a tile's columns to shared memory, by the threads of a warpgroup. */
BP_DEVICE void bp_rows_bias(const bp_rows *r, uint32_t to, uint32_t barrier)
{
    const uint32_t form = bp_rows_half(r->p) ? BP_HALF : BP_BFLOAT;
    bp_group_sync(barrier, 128); /* what was there before is read */
#pragma unroll 1
    for (uint32_t i = threadIdx.x % 128; i < r->columns; i += 128) {
        const uint64_t column = (uint64_t)r->column + i;
        const float x = column < r->p->n ? bp_get_as(r->p->bias, column, form) : 0.0f;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + i * 4), "f"(x) : "memory");
    }
    bp_group_sync(barrier, 128);
}

/* The thread's place in a tile: its first sums, and its columns that there are. */
typedef struct bp_rows_place {
    uint32_t from;
    uint32_t left;
    uint64_t row;
    uint64_t column;
} bp_rows_place;

BP_DEVICE bp_rows_place bp_rows_first(const bp_rows *r)
{
    const uint32_t thread = bp_rows_thread(), warp = thread / BP_WARP, lane = thread % BP_WARP;
    const uint32_t all = (uint32_t)bp_least(r->columns, r->p->n - r->column);
    const uint32_t from = warp * WARP_PITCH + lane / 8 * LINE_PITCH + lane % 8 * UNIT_PITCH;
    const bp_rows_place at = {r->out + from * 4, all > lane % 8 * 8 ? all - lane % 8 * 8 : 0,
                              (uint64_t)r->row + bp_rows_warp(r, warp) + lane / 8,
                              (uint64_t)r->column + lane % 8 * 8};
    return at;
}

#endif
