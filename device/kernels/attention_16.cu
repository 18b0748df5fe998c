/* SPDX-License-Identifier: MIT */
/* Attention in tiles of bfloat16 and half elements on tensor cores, for head widths that are
 * multiples of 8. */
#include "device/kernels/attention_tensor.cuh"

#define NAME(x) x##_16
#include "device/kernels/attention_body.cuh"
