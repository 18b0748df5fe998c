/* SPDX-License-Identifier: MIT */
/* The body of a single-precision product for one tile size; included once per size by
 * matmul_f32.cu, with TILE (64 or 128) and NAME(x) defined.
 *
 * A block makes a TILE x TILE tile of c, a thread 8 x 8 of it in four quarters of 4 x 4. Each
 * element is one chain of fused multiply-adds over k in increasing order, as on the host. Slices of
 * DEPTH terms lie in shared memory with k slowest, whatever the transposition; the next one comes
 * to registers while one is used. */
#define THREADS (TILE * TILE / 64)
#define PITCH   (TILE + 4) /* keeps rows 16-byte aligned and spreads a column over the banks */
#define SLICE   (DEPTH * PITCH)
#define GROUPS                                                                                     \
    (DEPTH * TILE / 4 / THREADS) /* of four elements, of an operand's slice, per thread */

/* Four floats, of which `count` exist; here what is not aligned travels together, too. */
#ifndef BP_PRODUCT_GROUP
#define BP_PRODUCT_GROUP
BP_DEVICE void bp_product_group(const float *from, uint64_t count, bool wide, float x[4])
{
    if (wide && count >= 4) {
        *(float4 *)x = *(const float4 *)from;
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        x[e] = (uint64_t)e < count ? from[e] : 0.0f;
    }
}
#endif

/* Brings the thread's groups of four elements of one operand's slice to registers; what is not
 * there is 0. along: the elements of a row of memory lie along the tile's side i, not along k. */
BP_DEVICE void NAME(fetch)(float to[GROUPS][4], const float *from, uint64_t pitch, bool along,
                           bool wide, uint64_t rows, uint64_t terms)
{
#pragma unroll
    for (uint32_t s = 0; s < GROUPS; s++) {
        uint32_t at = threadIdx.x + s * THREADS;
        uint32_t line = along ? at / (TILE / 4) : at / (DEPTH / 4);
        uint32_t first = (along ? at % (TILE / 4) : at % (DEPTH / 4)) * 4;
        uint64_t lines = along ? terms : rows, length = along ? rows : terms;
        uint64_t count = line < lines && first < length ? length - first : 0;
        bp_product_group(from + line * pitch + first, count, wide, to[s]);
    }
}

/* Puts them into shared memory, [k][i]. */
BP_DEVICE void NAME(put)(float *slice, float from[GROUPS][4], bool along)
{
#pragma unroll
    for (uint32_t s = 0; s < GROUPS; s++) {
        uint32_t at = threadIdx.x + s * THREADS;
        if (along) {
            float *to = slice + at / (TILE / 4) * PITCH + at % (TILE / 4) * 4;
            *(float4 *)to = *(float4 *)from[s];
        } else {
            float *to = slice + at % (DEPTH / 4) * 4 * PITCH + at / (DEPTH / 4);
#pragma unroll
            for (uint32_t e = 0; e < 4; e++) {
                to[e * PITCH] = from[s][e];
            }
        }
    }
}

/* Where this block's tile begins. */
typedef struct NAME(place) {
    uint64_t row;
    uint64_t column;
} NAME(place);

/* The thread's place among the others: warps are 8 wide and 4 high. */
BP_DEVICE uint32_t NAME(across)(void)
{
    return threadIdx.x % 8 + threadIdx.x / BP_WARP % (TILE / 64) * 8;
}

BP_DEVICE uint32_t NAME(down)(void)
{
    return threadIdx.x / 8 % 4 + threadIdx.x / BP_WARP / (TILE / 64) * 4;
}

/* Adds one slice to the thread's 8 x 8 sums. */
BP_DEVICE void NAME(multiply)(const float *a, const float *b, float sum[8][8])
{
    a += NAME(down)() * 4;
    b += NAME(across)() * 4;
#pragma unroll 4
    for (uint32_t k = 0; k < DEPTH; k++) {
        float x[8], y[8];
        *(float4 *)x = *(const float4 *)(a + k * PITCH);
        *(float4 *)(x + 4) = *(const float4 *)(a + k * PITCH + TILE / 2);
        *(float4 *)y = *(const float4 *)(b + k * PITCH);
        *(float4 *)(y + 4) = *(const float4 *)(b + k * PITCH + TILE / 2);
#pragma unroll
        for (int i = 0; i < 8; i++) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
            }
        }
    }
}

BP_DEVICE void NAME(take_rows)(const float *ring, float sum[4][8])
{
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const float *from = ring + (NAME(down)() * 4 + i) * PITCH + NAME(across)() * 4;
        *(float4 *)sum[i] = *(const float4 *)from;
        *(float4 *)(sum[i] + 4) = *(const float4 *)(from + TILE / 2);
    }
}

/* Starts the sums from c, the upper and the lower half of the tile by way of shared memory. */
BP_DEVICE void NAME(start)(const bp_product *p, const NAME(place) * at, float sum[8][8],
                           float *ring)
{
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        __syncthreads();
#pragma unroll 1
        for (uint32_t s = threadIdx.x; s < TILE / 2 * TILE / 4; s += THREADS) {
            uint32_t i = s / (TILE / 4), j = s % (TILE / 4) * 4;
            uint64_t row = at->row + half * (TILE / 2) + i, column = at->column + j;
            float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            if (row < p->m && column < p->n) {
                bp_load4_as(p->c, row * p->ldc + column, p->n - column, bp_form_c(p), v);
            }
            *(float4 *)(ring + i * PITCH + j) = *(float4 *)v;
        }
        __syncthreads();
        if (half == 0) {
            NAME(take_rows)(ring, sum);
        } else {
            NAME(take_rows)(ring, sum + 4);
        }
    }
    __syncthreads();
}

/* Four rows of the thread's sums to their half of the tile in shared memory. */
BP_DEVICE void NAME(put_rows)(float *ring, float sum[4][8])
{
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        float *to = ring + (NAME(down)() * 4 + i) * PITCH + NAME(across)() * 4;
        *(float4 *)to = *(const float4 *)sum[i];
        *(float4 *)(to + TILE / 2) = *(const float4 *)(sum[i] + 4);
    }
}

/* Hands the sums on, an upper and a lower half of the tile after the other, by way of shared
 * memory, so that what follows is written once and rows are written by neighbouring threads. */
BP_DEVICE void NAME(finish)(const bp_product *p, const NAME(place) * at, float sum[8][8],
                            float *ring)
{
#pragma unroll 1
    for (uint32_t half = 0; half < 2; half++) {
        __syncthreads();
        if (half == 0) {
            NAME(put_rows)(ring, sum);
        } else {
            NAME(put_rows)(ring, sum + 4);
        }
        __syncthreads();
#pragma unroll 1
        for (uint32_t s = threadIdx.x; s < TILE / 2 * TILE / 4; s += THREADS) {
            uint32_t i = s / (TILE / 4), j = s % (TILE / 4) * 4;
            uint64_t row = at->row + half * (TILE / 2) + i, column = at->column + j;
            if (row >= p->m || column >= p->n) {
                continue;
            }
            float v[4];
            *(float4 *)v = *(const float4 *)(ring + i * PITCH + j);
            bp_product_end(p, row, column, v, false);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(bp_matmul)(BP_PRODUCT_PARAMETERS)
{
    __shared__ float4 memory[TILE / 2 * PITCH / 4]; /* half a tile, or two slices of both */
    if (m == 0) {
        return;
    }
    float *ring = (float *)memory;
    const bp_product product = BP_PRODUCT_GATHER;
    const bp_product *p = &product;
    NAME(place) at;
    bp_product_tile(p, TILE, &at.row, &at.column);
    float sum[8][8] = {{0.0f}};
    if ((flags & BP_ACCUMULATE) != 0 && splits == 1) {
        NAME(start)(p, &at, sum, ring);
    }
    uint64_t first = blockIdx.y * depth, end = bp_least(k, first + depth);
    bool along_a = (flags & BP_TRANSPOSE_A) != 0, along_b = (flags & BP_TRANSPOSE_B) == 0;
    const float *from_a = (const float *)a, *from_b = (const float *)b;
    from_a += along_a ? first * lda + at.row : at.row * lda + first;
    from_b += along_b ? first * ldb + at.column : at.column * ldb + first;
    float *fill = ring, *use = ring + 2 * SLICE;
#pragma unroll 1
    for (uint64_t term = first; term < end + DEPTH; term += DEPTH) {
        float next_a[GROUPS][4], next_b[GROUPS][4];
        bool more = term < end;
        if (more) {
            NAME(fetch)
            (next_a, from_a, lda, along_a, (flags & BP_WIDE_A) != 0, m - at.row, end - term);
            NAME(fetch)
            (next_b, from_b, ldb, along_b, (flags & BP_WIDE_B) != 0, n - at.column, end - term);
            from_a += along_a ? DEPTH * lda : DEPTH;
            from_b += along_b ? DEPTH * ldb : DEPTH;
        }
        if (term > first) {
            NAME(multiply)(use, use + SLICE, sum);
        }
        if (more) {
            NAME(put)(fill, next_a, along_a);
            NAME(put)(fill + SLICE, next_b, along_b);
        }
        __syncthreads();
        float *other = fill;
        fill = use;
        use = other;
    }
    NAME(finish)(p, &at, sum, ring);
}

#undef THREADS
#undef PITCH
#undef SLICE
#undef GROUPS
