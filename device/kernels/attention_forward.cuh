/* SPDX-License-Identifier: MIT */
/* Attention forward in tiles, after attention_tile.cuh for the same tile; NAME(x) names the kernel. A
 * running maximum and sum per row of queries (Dao et al., arXiv 2205.14135). Shared memory: q, then
 * keys and values in turn, then weights. */

/* What a block keeps of its rows while it goes through the keys. */
typedef struct NAME(running) {
    float most[ROWS];
    float total[ROWS];
    float shrink[ROWS]; /* what the newest tile of keys does to the sums before it */
} NAME(running);

/* The maximum, or the sum, of a row over its sixteen threads, in all of them. */
BP_DEVICE float NAME(row_max)(float a)
{
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2) {
        float b = __shfl_xor_sync(BP_ALL_LANES, a, distance);
        a = b > a ? b : a;
    }
    return a;
}

BP_DEVICE float NAME(row_sum)(float a)
{
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2) {
        a += __shfl_xor_sync(BP_ALL_LANES, a, distance);
    }
    return a;
}

/* A tile of dot products becomes weights, in place in shared memory, and the running state moves on.
 * Each thread has the elements that it put there; columns after the row are out. */
BP_DEVICE void NAME(advance)(NAME(running) *state, float *weights, const uint16_t *kept,
                             uint64_t row, uint64_t column, const bp_attention *at)
{
    uint32_t across = threadIdx.x % 16;
#pragma unroll 1
    for (uint32_t i = threadIdx.x / 16; i < ROWS; i += 16) {
        float *w = weights + i * SPAN + across;
        float before = state->most[i], largest = before, part = 0.0f;
#pragma unroll
        for (uint32_t c = 0; c < SIDE; c++) {
            bool there = column + across + 16 * c <= row + i;
            float score = there ? w[16 * c] * at->scale : -INFINITY;
            w[16 * c] = score;
            largest = score > largest ? score : largest;
        }
        largest = NAME(row_max)(largest);
#pragma unroll 1
        for (uint32_t c = 0; c < SIDE; c++) {
            float p = bp_expf_inline(w[16 * c] - largest);
            part += p;
            w[16 * c] = at->threshold != 0 ? p * TILE(factor)(kept, i, c, at) : p;
        }
        part = NAME(row_sum)(part);
        float shrink = bp_expf_inline(before - largest);
        __syncwarp(); /* all have read `most` */
        if (across == 0) {
            state->most[i] = largest;
            state->total[i] = fmaf(state->total[i], shrink, part);
            state->shrink[i] = shrink;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    NAME(bp_attention_forward)(bp_element *out, float *lse, const bp_element *qkv,
                               BP_ATTENTION_PARAMETERS)
{
    extern __shared__ float4 memory[];
    __shared__ uint16_t kept[ROWS * SIDE];
    __shared__ NAME(running) state;
    if (sequence == 0) {
        return;
    }
    const bp_attention attention = BP_ATTENTION_GATHER;
    const bp_attention *at = &attention;
    float *q = (float *)memory, *y = q + ROWS * PITCH, *weights = y + ROWS * PITCH;
    uint64_t tiles = (sequence + ROWS - 1) / ROWS;
    uint64_t first = (tiles - 1 - blockIdx.x % tiles) * ROWS; /* most keys first */
    bp_head head = bp_head_make(at, blockIdx.x / tiles);
    bp_mask mask = bp_mask_make(step, site, threshold, factor);
    float sum[SIDE][PARTS];
    TILE(clear)(sum);
    if (threadIdx.x < ROWS) {
        state.most[threadIdx.x] = -INFINITY;
        state.total[threadIdx.x] = 0.0f;
    }
    TILE(load)(q, qkv + head.first, head.pitch, first, at);
#pragma unroll 1
    for (uint64_t key = 0; key <= first; key += ROWS) {
        float score[SIDE][SIDE];
        __syncthreads();
        TILE(load)(y, qkv + head.first + head.step_k, head.pitch, key, at);
        if (threshold != 0) {
            TILE(masks)(kept, &mask, at, &head, first, key);
        }
        __syncthreads();
        TILE(scores)(score, q, y);
        TILE(put)(weights, score, false);
        NAME(advance)(&state, weights, kept, first, key, at);
        __syncthreads();
        TILE(load)(y, qkv + head.first + 2 * head.step_k, head.pitch, key, at);
        __syncthreads();
        TILE(scale)(sum, state.shrink);
        TILE(combine)(sum, weights, y);
    }
    __syncthreads();
    if (threadIdx.x < ROWS) {
        float total = state.total[threadIdx.x];
        if (lse != NULL && first + threadIdx.x < sequence) {
            lse[head.first_row + first + threadIdx.x] = state.most[threadIdx.x] + bp_logf(total);
        }
        state.shrink[threadIdx.x] = 1.0f / total;
    }
    __syncthreads();
    TILE(scale)(sum, state.shrink);
    TILE(store)(out + head.first_out, head.step_k, first, sum, at);
}
