/* SPDX-License-Identifier: MIT */
/* Tiled product without fused multiply-add. */
extern "C" __global__ void k(float *c, const float *a, const float *b, int m, int n, int depth)
{
    __shared__ float ta[16][16], tb[16][16];
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int t = 0; t < depth; t += 16) {
        ta[y][x] = row < m && t + x < depth ? a[row * depth + t + x] : 0;
        tb[y][x] = t + y < depth && column < n ? b[(t + y) * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < 16; i++) {
            sum += ta[y][i] * tb[i][x];
        }
        __syncthreads();
    }
    if (row < m && column < n) {
        c[row * n + column] = sum;
    }
}
