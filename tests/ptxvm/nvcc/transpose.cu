/* SPDX-License-Identifier: MIT */
/* Tiled transpose, unoptimised debug code. */
extern "C" __global__ void k(float *y, const float *x, int rows, int columns)
{
    __shared__ float tile[16][17];
    int c = blockIdx.x * 16 + threadIdx.x % 16;
    int r = blockIdx.y * 16 + threadIdx.x / 16;
    if (r < rows && c < columns) {
        tile[threadIdx.x / 16][threadIdx.x % 16] = x[r * columns + c];
    }
    __syncthreads();
    int r2 = blockIdx.x * 16 + threadIdx.x / 16;
    int c2 = blockIdx.y * 16 + threadIdx.x % 16;
    if (r2 < columns && c2 < rows) {
        y[r2 * rows + c2] = tile[threadIdx.x % 16][threadIdx.x / 16];
    }
}
