/* SPDX-License-Identifier: MIT */
/* Token and position embedding: forward, and both backward scatters without atomics. */
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/mask.cuh"

#define THREADS 128 /* a block; each thread has four columns */

/* First of this thread's four columns; blocks of a row lie along y. */
BP_DEVICE uint64_t first_column(void)
{
    return ((uint64_t)blockIdx.y * THREADS + threadIdx.x) * 4;
}

/* token[i] += the noise of element first + i (core/base/random.h, bp_noise_key). */
BP_DEVICE void add_noise(const bp_step_block *step, uint32_t site, uint32_t sample, uint64_t first,
                         float unit, float token[4])
{
    uint32_t w[4];
    bp_mask mask = bp_mask_make(step, site, 0, 0.0f);
    mask.seed ^= 0x6e656674756e65ull;
    bp_mask_words4(&mask, sample, first, w);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        token[e] += (float)(int32_t)w[e] * unit;
    }
}

/* One row per block: out = (wte[id] + noise + wpe[position] + type_row) * mask; a NULL table adds
 * nothing. Rows past the last position of a cache have no meaning, but they must stay inside wpe.
 */
BP_KERNEL bp_embedding_forward(void *out, const int32_t *ids, const void *wte, const void *wpe,
                               const void *type_row, const bp_step_block *step, uint64_t rows,
                               uint64_t sequence, uint64_t width, uint64_t positions, uint32_t site,
                               uint32_t decode, uint32_t threshold, float factor, float unit,
                               uint32_t form)
{
    uint64_t row = blockIdx.x, column = first_column();
    if (row >= rows || column >= width) {
        return;
    }
    uint64_t t = row % sequence;
    uint64_t position = bp_least(t + (decode != 0 ? step->position : 0), positions - 1);
    float token[4];
    bp_load4(wte, (uint64_t)ids[row] * width + column, width - column, form, token);
    if (unit > 0.0f) {
        add_noise(step, site, (uint32_t)(row / sequence), t * width + column, unit, token);
    }
#pragma unroll 1
    for (uint32_t term = 0; term < 2; term++) {
        const void *table = term == 0 ? wpe : type_row;
        if (table == NULL) {
            continue;
        }
        float more[4];
        bp_load4(table, (term == 0 ? position * width : 0) + column, width - column, form, more);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            token[e] += more[e];
        }
    }
    if (threshold != 0) {
        float f[4];
        bp_mask mask = bp_mask_make(step, site, threshold, factor);
        bp_mask4(&mask, (uint32_t)(row / sequence), t * width + column, f);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            token[e] *= f[e];
        }
    }
    bp_store4(out, row * width + column, width - column, form, token);
}

/* sum += d_out of one row, masked. */
BP_DEVICE void add_row(float sum[4], const void *d_out, uint64_t row, uint64_t sequence,
                       uint64_t width, uint64_t column, const bp_mask *mask, uint32_t form)
{
    float d[4];
    bp_load4(d_out, row * width + column, width - column, form, d);
    if (mask->threshold != 0) {
        float f[4];
        bp_mask4(mask, (uint32_t)(row / sequence), row % sequence * width + column, f);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            d[e] *= f[e];
        }
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        sum[e] += d[e];
    }
}

/* d_wte = 0. */
BP_KERNEL bp_embedding_clear(void *d_wte, uint64_t count, uint32_t form)
{
    uint64_t i = bp_run_first();
    if (i < count) {
        const float zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        bp_store4(d_wte, i, count - i, form, zero);
    }
}

/* One row per block. The block whose row is the first with its id adds that row and all later ones
 * with the same id, in order; every other block finds an earlier row and leaves. */
BP_KERNEL bp_embedding_token_backward(void *d_wte, const int32_t *ids, const void *d_out,
                                      const bp_step_block *step, uint64_t rows, uint64_t sequence,
                                      uint64_t width, uint64_t first, uint64_t vocabulary,
                                      uint32_t site, uint32_t threshold, float factor,
                                      uint32_t form, uint32_t form_sum)
{
    __shared__ uint32_t same[THREADS / BP_WARP];
    uint64_t row = blockIdx.x, column = first_column();
    if (row >= rows) {
        return;
    }
    int32_t id = ids[row];
    uint64_t place = (uint64_t)(int64_t)id - first;
    if (place >= vocabulary) {
        return; /* of another part of the table */
    }
    for (uint64_t from = 0; from < row; from += THREADS) {
        uint64_t i = from + threadIdx.x;
        if (__syncthreads_or(i < row && ids[i] == id)) {
            return;
        }
    }
    bool mine = column < width;
    bp_mask mask = bp_mask_make(step, site, threshold, factor);
    uint64_t to = place * width + column;
    float sum[4];
    if (mine) {
        bp_load4(d_wte, to, width - column, form_sum, sum);
    }
    for (uint64_t from = row; from < rows; from += THREADS) {
        uint64_t i = from + threadIdx.x;
        uint32_t votes = __ballot_sync(BP_ALL_LANES, i < rows && ids[i] == id);
        __syncthreads();
        if (threadIdx.x % BP_WARP == 0) {
            same[threadIdx.x / BP_WARP] = votes;
        }
        __syncthreads();
#pragma unroll 1
        for (uint32_t word = 0; word < THREADS / BP_WARP; word++) {
            for (uint32_t left = same[word]; left != 0; left &= left - 1) {
                uint64_t other = from + word * BP_WARP + (uint32_t)__ffs((int)left) - 1;
                if (mine) {
                    add_row(sum, d_out, other, sequence, width, column, &mask, form);
                }
            }
        }
    }
    if (mine) {
        bp_store4(d_wte, to, width - column, form_sum, sum);
    }
}

/* One position per block: the samples' rows are added in order. */
BP_KERNEL bp_embedding_position_backward(void *d_wpe, const void *d_out, const bp_step_block *step,
                                         uint64_t rows, uint64_t sequence, uint64_t width,
                                         uint64_t positions, uint32_t site, uint32_t accumulate,
                                         uint32_t threshold, float factor, uint32_t form,
                                         uint32_t form_sum)
{
    uint64_t t = blockIdx.x, column = first_column();
    if (t >= positions || column >= width) {
        return;
    }
    bp_mask mask = bp_mask_make(step, site, threshold, factor);
    uint64_t to = t * width + column;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (accumulate != 0) {
        bp_load4(d_wpe, to, width - column, form_sum, sum);
    }
#pragma unroll 1
    for (uint64_t row = t; t < sequence && row < rows; row += sequence) {
        add_row(sum, d_out, row, sequence, width, column, &mask, form);
    }
    bp_store4(d_wpe, to, width - column, form_sum, sum);
}
