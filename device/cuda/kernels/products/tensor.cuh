/* SPDX-License-Identifier: MIT */
/* Tensor cores: matrix loads from shared memory, and mma.m16n8k16 of 16-bit elements. */
#ifndef BP_DEVICE_KERNELS_TENSOR_CUH
#define BP_DEVICE_KERNELS_TENSOR_CUH

#include "device/cuda/kernels/base.cuh"

/* Four 8 x 8 matrices whose rows, 16 bytes each, lie where lanes 0 .. 7, 8 .. 15, ... point. */
BP_DEVICE void bp_matrix(uint32_t to[4], uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

/* The same, each matrix transposed. */
BP_DEVICE void bp_matrix_turned(uint32_t to[4], uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

/* sum (16 x 8) += x (16 x 16) y (16 x 8), of half or bfloat16 elements; half is a constant. */
BP_DEVICE void bp_multiply_add(float sum[4], const uint32_t x[4], const uint32_t y[2], bool half)
{
    if (half) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    }
}

/* `count` elements, the rest of eight 0, to 16 bytes of shared memory, from any address. */
BP_DEVICE void bp_copy_narrow16(uint32_t to, const uint16_t *from, uint32_t count)
{
    uint32_t word = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t x = i < count ? from[i] : 0;
        word = (i & 1) != 0 ? word | x << 16 : x;
        if ((i & 1) != 0) {
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + i / 2 * 4), "r"(word) : "memory");
        }
    }
}

/* The bits of a float rounded to TF32: to nearest, ties away from zero. */
BP_DEVICE uint32_t bp_tf32(float x)
{
    uint32_t y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

/* sum (16 x 8) += x (16 x 8) y (8 x 8), of TF32 elements. */
BP_DEVICE void bp_multiply_add_tf32(float sum[4], const uint32_t x[4], const uint32_t y[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}

/* Two floats rounded to halves or bfloat16, the first in the lower half. */
BP_DEVICE uint32_t bp_pair(float x, float y, bool half)
{
    uint32_t u, v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(y), "f"(x));
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(y), "f"(x));
    return half ? u : v;
}

/* Such a pair as floats; half is a constant. */
BP_DEVICE void bp_pair_widen(uint32_t pair, bool half, float x[2])
{
    if (half) {
        asm("{\n.reg .b16 u, v;\nmov.b32 {u, v}, %2;\n"
            "cvt.f32.f16 %0, u;\ncvt.f32.f16 %1, v;\n}"
            : "=f"(x[0]), "=f"(x[1])
            : "r"(pair));
    } else {
        x[0] = bp_float_from_bits(pair << 16);
        x[1] = bp_float_from_bits(pair & 0xffff0000u);
    }
}

#endif
