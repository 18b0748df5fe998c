/* SPDX-License-Identifier: MIT */
/* Matrix products of e4m3 numbers on Hopper's own tensor instructions (kernels.def, matmul_fp8).
 * Both operands become codes first, terms one after the other, since these instructions take no
 * other direction: rows where they lie so, columns by way of shared memory, with a scale for each.
 *
 * The product is matmul_hopper.cu's with tiles of 128 x 128 and slices of 128 terms, which are as
 * many bytes. The sum of a slice is a product of its own; it is waited for and added to the sums in
 * single precision, while the other warpgroup multiplies. */
#define DEPTH 128
#define SUMS_BY
#include "device/cuda/kernels/products/matmul_hopper.cuh"

#define inline __forceinline__ __device__
#include "core/ops/tape_element.h"
#undef inline

#define WARPS   (BP_RUN_THREADS / BP_WARP)
#define COLUMNS 128 /* that a block reads at once */
#define LINES   256 /* of which it finds the largest */
#define TURNED  128 /* and that it turns */
#define ROOM    (TURNED + 4)

BP_DEVICE uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

BP_DEVICE uint32_t magnitude_of(float x)
{
    return bp_tape_bits(x) & 0x7fffffffu;
}

/* The float that codes of this scale are multiplied by. */
BP_DEVICE float scale_value(uint32_t scale)
{
    return bp_tape_float(scale == BP_TAPE_NOT_FINITE ? 0x7fc00000u : scale << 23);
}

/* Four codes in a word; zeros where the line is not finite. */
BP_DEVICE uint32_t codes_of(const float v[4], uint32_t scale)
{
    const float inverse = bp_tape_inverse(scale);
    uint32_t word = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        word |= bp_tape_code(v[e] * inverse) << (8 * e);
    }
    return scale == BP_TAPE_NOT_FINITE ? 0 : word;
}

/* Elements from `first` on, zeros behind the last. */
BP_DEVICE void load_some(const void *x, uint64_t first, uint64_t count, uint32_t form, float v[4])
{
    v[0] = v[1] = v[2] = v[3] = 0.0f;
    if (count > 0) {
        bp_load4(x, first, count, form, v);
    }
}

/* A block has a row. */
BP_KERNEL bp_fp8_rows(unsigned char *codes, float *scales, const void *x, uint64_t width,
                      uint64_t pitch, uint64_t codes_pitch, uint32_t form)
{
    __shared__ uint32_t found[WARPS];
    const uint64_t row = blockIdx.x;
    if (width == 0) {
        return;
    }
    uint32_t most = 0;
#pragma unroll 1
    for (uint64_t i = threadIdx.x * 4; i < width; i += BP_RUN_THREADS * 4) {
        float v[4];
        load_some(x, row * pitch + i, width - i, form, v);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            most = larger(most, magnitude_of(v[e]));
        }
    }
#pragma unroll
    for (int distance = BP_WARP / 2; distance > 0; distance /= 2) {
        most = larger(most, __shfl_xor_sync(BP_ALL_LANES, most, distance));
    }
    if (threadIdx.x % BP_WARP == 0) {
        found[threadIdx.x / BP_WARP] = most;
    }
    __syncthreads();
#pragma unroll
    for (uint32_t w = 0; w < WARPS; w++) {
        most = larger(most, found[w]);
    }
    const uint32_t scale = bp_tape_scale(most);
#pragma unroll 1
    for (uint64_t i = threadIdx.x * 4; i < width; i += BP_RUN_THREADS * 4) {
        float v[4];
        load_some(x, row * pitch + i, width - i, form, v);
        *(uint32_t *)(codes + row * codes_pitch + i) = codes_of(v, scale);
    }
    if (threadIdx.x == 0) {
        scales[row] = scale_value(scale);
    }
}

/* most (parts, width): the largest magnitudes of columns of LINES lines of x (lines, width). A warp
 * has every eighth line, a thread four columns. */
BP_KERNEL bp_fp8_columns_most(uint32_t *most, const void *x, uint64_t lines, uint64_t width,
                              uint64_t pitch, uint32_t form)
{
    __shared__ uint32_t found[WARPS][COLUMNS];
    const uint32_t warp = threadIdx.x / BP_WARP, inside = threadIdx.x % BP_WARP * 4;
    const uint64_t column = (uint64_t)blockIdx.x * COLUMNS + inside;
    const uint64_t first = (uint64_t)blockIdx.y * LINES;
    const uint64_t count = column < width ? width - column : 0;
    if (width == 0) {
        return;
    }
    uint32_t here[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (uint64_t line = first + warp; line < bp_least(lines, first + LINES); line += WARPS) {
        float v[4];
        load_some(x, line * pitch + column, count, form, v);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            here[e] = larger(here[e], magnitude_of(v[e]));
        }
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        found[warp][inside + e] = here[e];
    }
    __syncthreads();
    if (threadIdx.x < COLUMNS && (uint64_t)blockIdx.x * COLUMNS + threadIdx.x < width) {
        uint32_t all = 0;
#pragma unroll
        for (uint32_t w = 0; w < WARPS; w++) {
            all = larger(all, found[w][threadIdx.x]);
        }
        most[blockIdx.y * width + (uint64_t)blockIdx.x * COLUMNS + threadIdx.x] = all;
    }
}

/* The codes of columns, each column's one after the other; a block has TURNED lines of COLUMNS. */
BP_KERNEL bp_fp8_columns(unsigned char *codes, float *scales, const uint32_t *most, const void *x,
                         uint64_t lines, uint64_t width, uint64_t pitch, uint64_t codes_pitch,
                         uint32_t form)
{
    __shared__ __align__(4) unsigned char turned[COLUMNS][ROOM];
    __shared__ uint32_t scale[COLUMNS];
    const uint64_t column0 = (uint64_t)blockIdx.x * COLUMNS, line0 = (uint64_t)blockIdx.y * TURNED;
    const uint32_t warp = threadIdx.x / BP_WARP, inside = threadIdx.x % BP_WARP * 4;
    if (width == 0) {
        return;
    }
    if (threadIdx.x < COLUMNS && column0 + threadIdx.x < width) {
        uint32_t all = 0;
#pragma unroll 1
        for (uint64_t part = 0; part < (lines + LINES - 1) / LINES; part++) {
            all = larger(all, most[part * width + column0 + threadIdx.x]);
        }
        scale[threadIdx.x] = bp_tape_scale(all);
        if (blockIdx.y == 0) {
            scales[column0 + threadIdx.x] = scale_value(scale[threadIdx.x]);
        }
    }
    __syncthreads();
    const uint64_t count = column0 + inside < width ? width - column0 - inside : 0;
#pragma unroll 1
    for (uint32_t line = warp; line < TURNED; line += WARPS) {
        float v[4];
        load_some(x, (line0 + line) * pitch + column0 + inside, line0 + line < lines ? count : 0,
                  form, v);
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            if (e < count) {
                const uint32_t by = scale[inside + e];
                const uint32_t code = bp_tape_code(v[e] * bp_tape_inverse(by));
                turned[inside + e][line] = (unsigned char)(by == BP_TAPE_NOT_FINITE ? 0 : code);
            }
        }
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t c = warp; c < COLUMNS; c += WARPS) {
        if (column0 + c < width && line0 + inside < lines) {
            *(uint32_t *)(codes + (column0 + c) * codes_pitch + line0 + inside) =
                *(const uint32_t *)(turned[c] + inside);
        }
    }
}

BP_DEVICE void codes_bring(const bp_share *s, const bp_map *map_a, const bp_map *map_b)
{
    uint32_t stage = 0, turn = 1; /* an empty ring waits for the turn before its first */
#pragma unroll 1
    for (uint32_t tile = blockIdx.x; tile < s->tiles; tile += gridDim.x) {
        uint32_t row, column;
        tile_at(s, tile, &row, &column);
#pragma unroll 1
        for (uint32_t slice = 0; slice < s->slices; slice++) {
            uint32_t to = s->ring + stage * SLICE, full = s->full + stage * 8;
            bp_barrier_wait(s->empty + stage * 8, turn);
            bp_barrier_expect(full, SLICE);
            slice_bring(to, map_a, full, false, row, slice * DEPTH, 2);
            slice_bring(to + 2 * PANEL, map_b, full, false, column, slice * DEPTH, 2);
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            turn ^= stage == 0;
        }
    }
}

/* sum = a (64 x 128) b of e4m3 codes, in one statement with the fence before and the wait behind
 * it: `a` and `b` are descriptors, of terms one after the other. */
#define STEP_E4M3(from, scale)                                                                     \
    "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 " BP_SUMS_TEXT ", " from ", " scale     \
    ", 1, 1;\n"
#define GROUP_MULTIPLY_E4M3()                                                                      \
    asm volatile("wgmma.fence.sync.aligned;\n" STEP_E4M3("%64, %65", "0")                          \
                     STEP_E4M3("%66, %67", "1") STEP_E4M3("%68, %69", "1")                         \
                         STEP_E4M3("%70, %71", "1") "wgmma.commit_group.sync.aligned;\n"           \
                                                    "wgmma.wait_group.sync.aligned 0;\n"           \
                 : BP_SUMS8(0), BP_SUMS8(8), BP_SUMS8(16), BP_SUMS8(24), BP_SUMS8(32),             \
                   BP_SUMS8(40), BP_SUMS8(48), BP_SUMS8(56)                                        \
                 : "l"(a), "l"(b), "l"(a + 2), "l"(b + 2), "l"(a + 4), "l"(b + 4), "l"(a + 6),     \
                   "l"(b + 6)                                                                      \
                 : "memory")

BP_DEVICE void codes_multiply(const bp_share *s, uint32_t group, float *out)
{
    uint32_t stage = 0, turn = 0;
#pragma unroll 1
    for (uint32_t tile = blockIdx.x; tile < s->tiles; tile += gridDim.x) {
        float all[64], sum[64];
        uint32_t row, column;
        tile_at(s, tile, &row, &column);
        row += group * 64;
        sums_clear(all);
        sums_clear(sum);
#pragma unroll 1
        for (uint32_t slice = 0; slice < s->slices; slice++) {
            const uint32_t at = s->ring + stage * SLICE;
            const uint64_t a = bp_descriptor(at + group * PANEL, 16);
            const uint64_t b = bp_descriptor(at + 2 * PANEL, 16);
            bp_barrier_wait(s->full + stage * 8, turn);
            GROUP_MULTIPLY_E4M3();
            if (threadIdx.x % GROUP == 0) {
                bp_barrier_arrive(s->empty + stage * 8);
            }
#pragma unroll
            for (uint32_t i = 0; i < 64; i++) {
                all[i] += sum[i];
            }
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            turn ^= stage == 0;
        }
        sums_finish_by(s, row, column, group, all, out);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    bp_matmul_fp8(void *c, void *before, const float *rows, const float *columns, const void *bias,
                  const void *residual, uint64_t m, uint64_t n, uint64_t k, uint64_t ldc,
                  uint32_t flags, const __grid_constant__ bp_map map_a,
                  const __grid_constant__ bp_map map_b)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    if (m == 0) {
        return;
    }
    const bp_product product = {c, before, NULL, NULL, bias, residual, NULL, m,
                                n, k,      0,    0,    ldc,  k,        1,    flags};
    const uint32_t base = bp_shared_address(memory), ring = (base + 1023) / 1024 * 1024;
    bp_share share = share_of(&product, ring);
    share.by_row = rows;
    share.by_column = columns;
    ring_begin(&share, 1);
    const uint32_t group = threadIdx.x / GROUP;
    if (group == 2) {
        bp_registers_give(40);
        if (threadIdx.x / BP_WARP == 2 * GROUP / BP_WARP && bp_elect()) {
            codes_bring(&share, &map_a, &map_b);
        }
    } else {
        bp_registers_take(232);
        codes_multiply(&share, group, (float *)(memory + (ring - base) + OUT));
    }
}
