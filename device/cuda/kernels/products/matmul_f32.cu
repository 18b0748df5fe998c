/* SPDX-License-Identifier: MIT */
/* Matrix products in single precision (true FP32), in every transposition, with all that follows.
 */
#include "device/cuda/kernels/products/matmul.cuh"

#define DEPTH 8 /* terms of a slice */

#define TILE    128
#define BLOCKS  2 /* per multiprocessor: 256 threads of up to 128 registers */
#define NAME(x) x##_128
#include "device/cuda/kernels/products/matmul_simple.cuh"
#undef TILE
#undef BLOCKS
#undef NAME

#define TILE    64
#define BLOCKS  4
#define NAME(x) x##_64
#include "device/cuda/kernels/products/matmul_simple.cuh"
#undef TILE
#undef BLOCKS
#undef NAME
