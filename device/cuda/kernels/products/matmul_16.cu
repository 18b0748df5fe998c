/* SPDX-License-Identifier: MIT */
/* Matrix products of bfloat16 and half elements on tensor cores, in every transposition, with all
 * that follows; sums are float. */
#include "device/cuda/kernels/async.cuh"
#include "device/cuda/kernels/products/matmul_rows.cuh"
#include "device/cuda/kernels/products/tensor.cuh"

#define DEPTH   32 /* terms of a slice */
#define STAGES  4  /* slices in shared memory */
#define THREADS 128

#define TILE    128
#define NAME(x) x##_128
#include "device/cuda/kernels/products/matmul_tensor.cuh"
#undef TILE
#undef NAME

#define TILE    64
#define NAME(x) x##_64
#include "device/cuda/kernels/products/matmul_tensor.cuh"
#undef TILE
#undef NAME
