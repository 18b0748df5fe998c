/* SPDX-License-Identifier: MIT */
/* The end of a product on tensor cores: included after the tile's constants by the texts of its
 * kernels, with NAME(x) defined. */
#define FINISH_COLUMN (threadIdx.x % (TILE / 4) * 4) /* of the thread's four */
#define FINISH_ROW    (threadIdx.x / (TILE / 4))     /* its first */
#define FINISH_STEP   (THREADS / (TILE / 4))         /* rows from one to its next */

/* A whole tile's sums in a form, which is a constant as half is, by fours of which there are all:
 * what a thread's columns have in common is read once. */
BP_DEVICE void NAME(finish_as)(const bp_product *p, uint64_t row0, uint64_t column0,
                               const float *out, uint32_t form, bool half)
{
    const bp_rows_other o = bp_rows_others(p);
    const uint64_t column = column0 + FINISH_COLUMN, step = FINISH_STEP * p->ldc * 2;
    unsigned char *to = (unsigned char *)p->c + ((row0 + FINISH_ROW) * p->ldc + column) * 2;
    float bias[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (o.biased) {
        bp_load4_wide(p->bias, column, half ? BP_HALF : BP_BFLOAT, bias);
    }
    out += FINISH_ROW * PITCH + FINISH_COLUMN;
#pragma unroll 2
    for (uint32_t i = 0; i < TILE; i += FINISH_STEP) {
        float v[4];
        *(float4 *)v = *(const float4 *)(out + i * PITCH);
        bp_four_end(to, &o, v, bias, form, half);
        to += step;
    }
}

BP_DEVICE void NAME(finish_gelu)(const bp_product *p, uint64_t row0, uint64_t column0,
                                 const float *out, bool half)
{
    const bp_rows_other o = bp_rows_others(p);
    const uint64_t column = column0 + FINISH_COLUMN, step = FINISH_STEP * p->ldc * 2;
    unsigned char *to = (unsigned char *)p->c + ((row0 + FINISH_ROW) * p->ldc + column) * 2;
    float bias[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (o.biased) {
        bp_load4_wide(p->bias, column, half ? BP_HALF : BP_BFLOAT, bias);
    }
#pragma unroll 1
    for (uint32_t i = FINISH_ROW; i < TILE; i += FINISH_STEP) {
        float v[4];
        *(float4 *)v = *(const float4 *)(out + i * PITCH + FINISH_COLUMN);
        bp_four_end(to, &o, v, bias, ROWS_GELU, half);
        to += step;
    }
}

BP_DEVICE void NAME(finish_floats)(const bp_product *p, uint64_t row0, uint64_t column0,
                                   const float *out)
{
    const bool adds = p->splits == 1 && (p->flags & BP_ACCUMULATE) != 0;
    uint64_t pitch;
    float *to = bp_rows_floats(p, &pitch) + column0 + FINISH_COLUMN;
    to += (row0 + FINISH_ROW) * pitch;
#pragma unroll 1
    for (uint32_t i = FINISH_ROW; i < TILE; i += FINISH_STEP) {
        float4 v = *(const float4 *)(out + i * PITCH + FINISH_COLUMN);
        if (adds) {
            const float4 old = *(const float4 *)to;
            v = make_float4(v.x + old.x, v.y + old.y, v.z + old.z, v.w + old.w);
        }
        *(float4 *)to = v;
        to += FINISH_STEP * pitch;
    }
}

/* What is not a whole tile, or has no form of its own. */
BP_DEVICE void NAME(finish_edge)(const bp_product *p, uint64_t row0, uint64_t column0,
                                 const float *out)
{
#pragma unroll 1
    for (uint32_t s = threadIdx.x; s < TILE * TILE / 4; s += THREADS) {
        uint32_t i = s / (TILE / 4), j = s % (TILE / 4) * 4;
        uint64_t to_row = row0 + i, to_column = column0 + j;
        if (to_row < p->m && to_column < p->n) {
            float v[4];
            *(float4 *)v = *(const float4 *)(out + i * PITCH + j);
            bp_product_end(p, to_row, to_column, v, (p->flags & BP_ACCUMULATE) != 0);
        }
    }
}

/* The sums go to shared memory, then row by row to c, or to the workspace of a split product. */
BP_DEVICE void NAME(finish)(const bp_product *p, uint64_t row0, uint64_t column0, uint32_t row,
                            uint32_t column, float sum[BLOCKS][2 * BLOCKS][4], float *out)
{
    uint32_t lane = threadIdx.x % BP_WARP;
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < BLOCKS; i++) {
#pragma unroll
        for (uint32_t j = 0; j < 2 * BLOCKS; j++) {
            float *to = out + (row + 16 * i + lane / 4) * PITCH + column + 8 * j + lane % 4 * 2;
            *(float2 *)to = make_float2(sum[i][j][0], sum[i][j][1]);
            *(float2 *)(to + 8 * PITCH) = make_float2(sum[i][j][2], sum[i][j][3]);
        }
    }
    __syncthreads();
    const bool whole = row0 + TILE <= p->m && column0 + TILE <= p->n;
    const uint32_t form = whole ? bp_rows_form(p) : ROWS_EDGE;
    if (form == ROWS_EDGE) {
        NAME(finish_edge)(p, row0, column0, out);
    } else if (form == ROWS_FLOAT) {
        NAME(finish_floats)(p, row0, column0, out);
#ifndef FINISH_SINGLE /* sums of 16-bit operands */
    } else if (form == ROWS_GELU && bp_rows_half(p)) {
        NAME(finish_gelu)(p, row0, column0, out, true);
    } else if (form == ROWS_GELU) {
        NAME(finish_gelu)(p, row0, column0, out, false);
    } else if (form == ROWS_ADDS && bp_rows_half(p)) {
        NAME(finish_as)(p, row0, column0, out, ROWS_ADDS, true);
    } else if (form == ROWS_ADDS) {
        NAME(finish_as)(p, row0, column0, out, ROWS_ADDS, false);
    } else if (bp_rows_half(p)) {
        NAME(finish_as)(p, row0, column0, out, ROWS_PLAIN, true);
    } else {
        NAME(finish_as)(p, row0, column0, out, ROWS_PLAIN, false);
#endif
    }
}

#undef FINISH_COLUMN
#undef FINISH_ROW
#undef FINISH_STEP
