/* SPDX-License-Identifier: MIT */
/* Matrix products of single-precision operands rounded to TF32 (8 bits of exponent, 10 of fraction)
 * on tensor cores, in every transposition, with all that follows; sums are float. Only where it was
 * asked for. There is one size of tiles, to keep the texts small. The sums of splits are joined as
 * all others are. */
#include "device/cuda/kernels/async.cuh"
#include "device/cuda/kernels/products/matmul_rows.cuh"
#include "device/cuda/kernels/products/tensor.cuh"

#define DEPTH   16 /* terms of a slice */
#define STAGES  4  /* slices in shared memory */
#define THREADS 128
#define FINISH_SINGLE

#define TILE    64
#define NAME(x) x##_64
#include "device/cuda/kernels/products/matmul_tf32.cuh"
#undef TILE
#undef NAME
