/* SPDX-License-Identifier: MIT */
/* What follows the sums of a product, eight of a row at a time: in the forms of most products,
 * whose choice is outside every loop, so that a thread has few instructions for each sum. The
 * others, and edges, go by fours through bp_product_end(); bits are the same. */
#ifndef BP_DEVICE_KERNELS_MATMUL_ROWS_CUH
#define BP_DEVICE_KERNELS_MATMUL_ROWS_CUH

#include "device/cuda/kernels/products/matmul.cuh"
#include "device/cuda/kernels/products/tensor.cuh"

/* 2^u and 1 / d, approximately: numbers below the smallest normal one are 0. */
BP_DEVICE float bp_gelu_power(float u)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(u));
    return y;
}

BP_DEVICE float bp_gelu_reciprocal(float d)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(d));
    return y;
}

#define inline __forceinline__ __device__
#include "device/cuda/kernels/products/gelu_bfloat.h"
#undef inline

/* What a product's sums become, besides ROWS_HALF: they are half elements, not bfloat16. */
#define ROWS_EDGE  0u /* by fours */
#define ROWS_FLOAT 1u /* floats, of c or of the workspace */
#define ROWS_PLAIN 2u /* elements, with a bias or without */
#define ROWS_ADDS  3u /* the same, and a residual or what c had */
#define ROWS_GELU  4u /* the same as plain, kept before GELU or not */

/* A product's form: of 16-bit elements eight are aligned, of floats four. */
BP_DEVICE uint32_t bp_rows_form(const bp_product *p)
{
    const uint32_t c = p->flags >> BP_TYPE_C & BP_TYPE_BITS;
    const bool adds = p->residual != NULL || (p->flags & BP_ACCUMULATE) != 0;
    const bool gelu = (p->flags & BP_GELU) != 0;
    if (p->splits > 1) {
        return p->n % 4 == 0 ? ROWS_FLOAT : ROWS_EDGE;
    }
    if (c == BP_SINGLE) {
        const bool alone = p->bias == NULL && p->residual == NULL && p->before == NULL && !gelu;
        return alone && (p->flags & BP_WIDE_C) != 0 && p->n % 4 == 0 ? ROWS_FLOAT : ROWS_EDGE;
    }
    if ((p->flags & BP_WIDE_ROWS) == 0 || c != (p->flags >> BP_TYPE_AB & BP_TYPE_BITS) ||
        (adds && gelu) || (p->before != NULL && !gelu)) {
        return ROWS_EDGE;
    }
    return gelu ? ROWS_GELU : adds ? ROWS_ADDS : ROWS_PLAIN;
}

BP_DEVICE bool bp_rows_half(const bp_product *p)
{
    return (p->flags >> BP_TYPE_AB & BP_TYPE_BITS) == BP_HALF;
}

/* Eight elements become floats, and back. */
BP_DEVICE void bp_eight_widen(const uint4 *from, bool half, float x[8])
{
    const uint4 v = *from;
    bp_pair_widen(v.x, half, x);
    bp_pair_widen(v.y, half, x + 2);
    bp_pair_widen(v.z, half, x + 4);
    bp_pair_widen(v.w, half, x + 6);
}

BP_DEVICE void bp_eight_store(void *to, const float x[8], bool half)
{
    *(uint4 *)to = make_uint4(bp_pair(x[0], x[1], half), bp_pair(x[2], x[3], half),
                              bp_pair(x[4], x[5], half), bp_pair(x[6], x[7], half));
}

/* What is added to the sums beside the bias, and where they go before GELU: bytes from c on. */
typedef struct bp_rows_other {
    int64_t added;
    int64_t before;
    bool biased;
    bool kept; /* before GELU */
} bp_rows_other;

BP_DEVICE bp_rows_other bp_rows_others(const bp_product *p)
{
    const unsigned char *c = (const unsigned char *)p->c;
    const bp_rows_other o = {
        (p->flags & BP_ACCUMULATE) != 0 ? 0 : (const unsigned char *)p->residual - c,
        (const unsigned char *)p->before - c, p->bias != NULL, p->before != NULL};
    return o;
}

/* Four sums of one row, of 16-bit elements, with their bias, to `to`; form and half are constants.
 */
BP_DEVICE void bp_four_end(unsigned char *to, const bp_rows_other *o, float v[4],
                           const float bias[4], uint32_t form, bool half)
{
    const uint32_t type = half ? BP_HALF : BP_BFLOAT;
    if (o->biased) {
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            v[e] += bias[e];
        }
    }
    if (form == ROWS_ADDS) {
        float other[4];
        bp_load4_wide(to + o->added, 0, type, other);
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            v[e] += other[e];
        }
    }
    if (form == ROWS_GELU) {
        if (o->kept) {
            bp_store4_wide(to + o->before, 0, type, v);
        }
        bp_round4(type, v); /* as it is kept, or would be */
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            v[e] = half ? bp_gelu_inline(v[e]) : bp_gelu_bfloat_inline(v[e]);
        }
    }
    *(uint2 *)to = make_uint2(bp_pair(v[0], v[1], half), bp_pair(v[2], v[3], half));
}

/* Eight sums of one row as floats, `count` of which there are: to the workspace, or to c. */
BP_DEVICE void bp_eight_floats(float *to, const float v[8], bool adds, uint32_t count)
{
#pragma unroll
    for (uint32_t e = 0; e < 8; e += 4) {
        float4 sum = make_float4(v[e], v[e + 1], v[e + 2], v[e + 3]);
        if (e < count) {
            if (adds) {
                const float4 old = *(const float4 *)(to + e);
                sum = make_float4(sum.x + old.x, sum.y + old.y, sum.z + old.z, sum.w + old.w);
            }
            *(float4 *)(to + e) = sum;
        }
    }
}

/* Where a row's floats go: `pitch` elements from row to row. */
BP_DEVICE float *bp_rows_floats(const bp_product *p, uint64_t *pitch)
{
    *pitch = p->splits > 1 ? p->n : p->ldc;
    return p->splits > 1 ? p->work + (uint64_t)blockIdx.y * p->m * p->n : (float *)p->c;
}

#endif
