/* SPDX-License-Identifier: MIT */
/* Attention in tiles of bfloat16 and half elements on tensor cores, for head widths that are
 * multiples of 8. */
#include "device/cuda/kernels/attention/attention_tensor.cuh"

#define NAME(x) x##_16
#include "device/cuda/kernels/attention/attention_body.cuh"
