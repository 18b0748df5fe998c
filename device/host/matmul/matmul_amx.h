/* SPDX-License-Identifier: MIT */
/* Matrix products of bf16 by AMX tiles (TDPBF16PS): a form with bits of its own, which runs only
 * where it is asked for by name ("amx"). What it computes, and bp_amx_group is the specification:
 *
 * The k terms of an element of c are taken in groups of 32, in order; a last group is filled up
 * with zeros. Of a group, the products of the terms 0, 2, .. 30 are added up in order from 0 by
 * fused multiply-add, those of 1, 3, .. 31 likewise, the two sums are added, and their sum is added
 * to c: each step rounded to the nearest even float. What is smaller than the least normal number
 * is 0, in operands and results. Between groups c is a float. What follows the chain (bias,
 * residual, GELU, rounding to c's type) is as in the other forms, and so are products of fp32 and
 * fp16, and those with a single row. */
#ifndef BP_DEVICE_HOST_MATMUL_AMX_H
#define BP_DEVICE_HOST_MATMUL_AMX_H

#include <math.h>

struct matmul_work;
struct matmul_block;

#define BP_AMX_TERMS 32 /* of a group */

/* Zero with the sign of x for what is too small to be normal. */
static inline float bp_amx_flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/* c after one group of terms. */
static inline float bp_amx_group(float c, const float a[BP_AMX_TERMS], const float b[BP_AMX_TERMS])
{
    float sum[2] = {0.0f, 0.0f};
    for (int k = 0; k < BP_AMX_TERMS; k++) {
        sum[k % 2] = bp_amx_flush(fmaf(bp_amx_flush(a[k]), bp_amx_flush(b[k]), sum[k % 2]));
    }
    return bp_amx_flush(bp_amx_flush(c) + bp_amx_flush(sum[0] + sum[1]));
}

/* A rectangle of c of a call whose operands are bf16. Only where bp_cpu_has_amx() says so. */
void bp_matmul_amx(const struct matmul_work *work, const struct matmul_block *block);

#endif
