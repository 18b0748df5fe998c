/* SPDX-License-Identifier: MIT */
/* The body of a single-precision product for one tile size; included once per size by
 * matmul_f32.cu, with TILE (64 or 128) and NAME(x) defined.
 *
 * A block makes a TILE x TILE tile of c, a thread 8 x 8 of it in four quarters of 4 x 4. Each element
 * is one chain of fused multiply-adds over k in increasing order, as on the host. cp.async brings
 * slices of DEPTH terms into a ring of STAGES, stored with k slowest whatever the transposition. */
#define THREADS (TILE * TILE / 64)
#define PITCH   (TILE + 4) /* keeps rows 16-byte aligned and spreads a column over the banks */
#define SLICE   (DEPTH * PITCH)
#define SIDE    (TILE / 8) /* threads along a side of the tile */

/* Starts the copy of one operand's slice: element (i, k) of the tile to shared [k][i]. along: the
 * elements of a row of memory lie along i, not along k. */
BP_DEVICE void NAME(fetch)(uint32_t to, const float *from, uint64_t pitch, bool along, bool wide,
                           uint64_t rows, uint64_t terms)
{
    if (along && wide) {
#pragma unroll
        for (uint32_t s = 0; s < DEPTH * TILE / 4 / THREADS; s++) {
            uint32_t at = threadIdx.x + s * THREADS;
            uint32_t k = at / (TILE / 4), i = at % (TILE / 4) * 4;
            bool there = i < rows && k < terms;
            uint32_t bytes = there ? (uint32_t)bp_least(4, rows - i) * 4 : 0;
            bp_copy_async16(to + (k * PITCH + i) * 4, there ? from + k * pitch + i : from, bytes);
        }
        return;
    }
#pragma unroll 2
    for (uint32_t s = 0; s < DEPTH * TILE / THREADS; s++) {
        uint32_t at = threadIdx.x + s * THREADS;
        uint32_t k = along ? at / TILE : at % DEPTH, i = along ? at % TILE : at / DEPTH;
        bool there = i < rows && k < terms;
        uint64_t place = along ? k * pitch + i : i * pitch + k;
        bp_copy_async4(to + (k * PITCH + i) * 4, there ? from + place : from, there ? 4 : 0);
    }
}

/* Where this block's tile and split begin, and what is left from there. */
typedef struct NAME(place) {
    uint64_t row;
    uint64_t column;
    uint64_t first; /* term */
    uint64_t terms;
} NAME(place);

/* Starts the copies of slice number `slice` of both operands, if there is one; always ends a group, so
 * that waiting counts slices. */
BP_DEVICE void NAME(fetch_slice)(const bp_product *p, const NAME(place) *at, uint64_t slice,
                                 float *ring)
{
    uint64_t done = slice * DEPTH;
    if (done < at->terms) {
        uint64_t first = at->first + done, terms = at->terms - done;
        bool along_a = (p->flags & BP_TRANSPOSE_A) != 0, along_b = (p->flags & BP_TRANSPOSE_B) == 0;
        const float *a = along_a ? p->a + first * p->lda + at->row : p->a + at->row * p->lda + first;
        const float *b =
            along_b ? p->b + first * p->ldb + at->column : p->b + at->column * p->ldb + first;
        uint32_t to = bp_shared_address(ring + slice % STAGES * 2 * SLICE);
        NAME(fetch)(to, a, p->lda, along_a, (p->flags & BP_WIDE_A) != 0, p->m - at->row, terms);
        NAME(fetch)(to + SLICE * 4, b, p->ldb, along_b, (p->flags & BP_WIDE_B) != 0,
                    p->n - at->column, terms);
    }
    bp_copy_commit();
}

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

/* Starts the sums from c, the upper and the lower half of the tile by way of shared memory. */
BP_DEVICE void NAME(start)(const bp_product *p, const NAME(place) *at, float sum[8][8],
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
                bp_load4(p->c + row * p->ldc + column, p->n - column,
                         (p->flags & BP_WIDE_C) != 0, v);
            }
            *(float4 *)(ring + i * PITCH + j) = *(float4 *)v;
        }
        __syncthreads();
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const float *from = ring + (NAME(down)() * 4 + i) * PITCH + NAME(across)() * 4;
            *(float4 *)sum[half * 4 + i] = *(const float4 *)from;
            *(float4 *)(sum[half * 4 + i] + 4) = *(const float4 *)(from + TILE / 2);
        }
    }
    __syncthreads();
}

/* Hands the sums on, an upper and a lower half of the tile after the other, by way of shared memory,
 * so that what follows is written once and rows are written by neighbouring threads. */
BP_DEVICE void NAME(finish)(const bp_product *p, const NAME(place) *at, float sum[8][8],
                            float *ring)
{
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        __syncthreads();
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            float *to = ring + (NAME(down)() * 4 + i) * PITCH + NAME(across)() * 4;
            *(float4 *)to = *(const float4 *)sum[half * 4 + i];
            *(float4 *)(to + TILE / 2) = *(const float4 *)(sum[half * 4 + i] + 4);
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
            if (p->splits > 1) {
                float *to = p->work + ((uint64_t)blockIdx.y * p->m + row) * p->n + column;
                bp_store4f(to, p->n - column, p->n % 4 == 0, v);
            } else {
                bp_product_finish(p, row, column, v);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(bp_matmul)(BP_PRODUCT_PARAMETERS)
{
    __shared__ float4 memory[STAGES * 2 * SLICE / 4];
    if (m == 0) {
        return;
    }
    float *ring = (float *)memory;
    const bp_product product = BP_PRODUCT_GATHER;
    const bp_product *p = &product;
    NAME(place) at;
    bp_product_tile(p, TILE, &at.row, &at.column);
    at.first = blockIdx.y * depth;
    at.terms = bp_least(depth, k - at.first);
    float sum[8][8] = {{0.0f}};
    if ((flags & BP_ACCUMULATE) != 0 && splits == 1) {
        NAME(start)(p, &at, sum, ring);
    }
    uint64_t slices = (at.terms + DEPTH - 1) / DEPTH;
#pragma unroll 1
    for (uint64_t step = 0; step < slices + STAGES - 1; step++) {
        bool filled = step >= STAGES - 1;
        if (filled) {
            bp_copy_wait(STAGES - 2);
            __syncthreads();
        }
        NAME(fetch_slice)(p, &at, step, ring);
        if (filled) {
            const float *a = ring + (step + 1) % STAGES * 2 * SLICE; /* slice step - (STAGES - 1) */
            NAME(multiply)(a, a + SLICE, sum);
        }
    }
    bp_copy_wait(0);
    NAME(finish)(p, &at, sum, ring);
}

#undef THREADS
#undef PITCH
#undef SLICE
#undef SIDE
