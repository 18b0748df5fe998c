/* SPDX-License-Identifier: MIT */
/* The end of a product on tensor cores: included after the tile's constants by the texts of its
 * kernels, with NAME(x) defined. */
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
