/* SPDX-License-Identifier: MIT */
/* The square tile of attention for one class of head widths: loads, scores, sums, masks. Included once
 * per tile with WIDTH (a head's width rounded up), ROWS (queries and keys of a tile) and TILE(x)
 * defined.
 *
 * 256 threads stand as 16 x 16: in a tile of scores thread (down, across) has rows down + 16 r and
 * columns across + 16 c; in a tile of outputs, columns across + 16 n of the head's width. */
#undef PITCH
#undef PARTS
#undef SIDE
#undef SPAN
#define PITCH (WIDTH + 4) /* floats between rows of q, k, v in shared memory */
#define SPAN  (ROWS + 4)  /* and of weights */
#define PARTS (WIDTH / 16) /* columns of the width per thread */
#define SIDE  (ROWS / 16)  /* rows and columns of scores per thread */

/* Brings ROWS rows of a matrix, from row `first` on, to shared memory; what is not there is 0. Rows
 * are whole groups of four elements, each aligned to that. */
BP_DEVICE void TILE(load)(float *to, const bp_element *from, uint64_t pitch, uint64_t first,
                          const bp_attention *at)
{
    uint32_t d = threadIdx.x % (WIDTH / 4) * 4;
#pragma unroll 1
    for (uint32_t row = threadIdx.x / (WIDTH / 4); row < ROWS; row += 1024 / WIDTH) {
        float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (first + row < at->sequence && d < at->width) {
            bp_unpack4(*(const bp_element4 *)(from + (first + row) * pitch + d), v);
        }
        *(float4 *)(to + row * PITCH + d) = *(float4 *)v;
    }
}

/* sum[r][c] = x_row . y_column, fused, in order of the width. */
BP_DEVICE void TILE(scores)(float sum[SIDE][SIDE], const float *x, const float *y)
{
    x += threadIdx.x / 16 * PITCH;
    y += threadIdx.x % 16 * PITCH;
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
#pragma unroll
        for (uint32_t c = 0; c < SIDE; c++) {
            sum[r][c] = 0.0f;
        }
    }
#pragma unroll 1
    for (uint32_t d = 0; d < WIDTH; d += 4) {
        float4 u[SIDE], v[SIDE];
#pragma unroll
        for (uint32_t r = 0; r < SIDE; r++) {
            u[r] = *(const float4 *)(x + 16 * r * PITCH + d);
            v[r] = *(const float4 *)(y + 16 * r * PITCH + d);
        }
#pragma unroll
        for (uint32_t r = 0; r < SIDE; r++) {
#pragma unroll
            for (uint32_t c = 0; c < SIDE; c++) {
                float s = fmaf(u[r].x, v[c].x, sum[r][c]);
                s = fmaf(u[r].y, v[c].y, s);
                s = fmaf(u[r].z, v[c].z, s);
                sum[r][c] = fmaf(u[r].w, v[c].w, s);
            }
        }
    }
}

/* sum[r][n] += weights_row . y, over the rows of y in order. */
BP_DEVICE void TILE(combine)(float sum[SIDE][PARTS], const float *weights, const float *y)
{
    weights += threadIdx.x / 16 * SPAN;
    y += threadIdx.x % 16;
#pragma unroll 1
    for (uint32_t j = 0; j < ROWS; j += 4) {
        float w[SIDE][4];
#pragma unroll
        for (uint32_t r = 0; r < SIDE; r++) {
            *(float4 *)w[r] = *(const float4 *)(weights + 16 * r * SPAN + j);
        }
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
#pragma unroll
            for (uint32_t n = 0; n < PARTS; n++) {
                float v = y[(j + e) * PITCH + 16 * n];
#pragma unroll
                for (uint32_t r = 0; r < SIDE; r++) {
                    sum[r][n] = fmaf(w[r][e], v, sum[r][n]);
                }
            }
        }
    }
}

/* Multiplies each row by its factor. */
BP_DEVICE void TILE(scale)(float sum[SIDE][PARTS], const float factor[ROWS])
{
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
        float f = factor[threadIdx.x / 16 + 16 * r];
#pragma unroll
        for (uint32_t n = 0; n < PARTS; n++) {
            sum[r][n] *= f;
        }
    }
}

/* weights[down][across] = value, or the transposed place. */
BP_DEVICE void TILE(put)(float *weights, float value[SIDE][SIDE], bool transposed)
{
    uint32_t across = threadIdx.x % 16, down = threadIdx.x / 16;
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
#pragma unroll
        for (uint32_t c = 0; c < SIDE; c++) {
            uint32_t row = down + 16 * r, column = across + 16 * c;
            weights[transposed ? column * SPAN + row : row * SPAN + column] = value[r][c];
        }
    }
}

BP_DEVICE void TILE(clear)(float sum[SIDE][PARTS])
{
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
#pragma unroll
        for (uint32_t n = 0; n < PARTS; n++) {
            sum[r][n] = 0.0f;
        }
    }
}

/* Writes sums to the rows of a matrix that are there. */
BP_DEVICE void TILE(store)(bp_element *to, uint64_t pitch, uint64_t first,
                           float sum[SIDE][PARTS], const bp_attention *at)
{
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
        uint64_t row = first + threadIdx.x / 16 + 16 * r;
#pragma unroll
        for (uint32_t n = 0; n < PARTS; n++) {
            uint64_t d = threadIdx.x % 16 + 16 * n;
            if (row < at->sequence && d < at->width) {
                to[row * pitch + d] = bp_to_element(sum[r][n]);
            }
        }
    }
}

/* Which elements of a tile of scores are kept, 16 columns to a word. */
BP_DEVICE void TILE(masks)(uint16_t *kept, const bp_mask *mask, const bp_attention *at,
                           const bp_head *head, uint64_t row, uint64_t column)
{
#pragma unroll 1
    for (uint32_t s = threadIdx.x; s < ROWS * SIDE; s += 256) {
        kept[s] =
            (uint16_t)bp_head_mask16(mask, at, head, row + s / SIDE, column + s % SIDE * 16);
    }
}

/* The factor of this thread's element of row `row` and column across + 16 c. */
BP_DEVICE float TILE(factor)(const uint16_t *kept, uint32_t row, uint32_t c, const bp_attention *at)
{
    uint32_t word = kept[row * SIDE + c];
    return (word >> threadIdx.x % 16 & 1) != 0 ? at->factor : 0.0f;
}
