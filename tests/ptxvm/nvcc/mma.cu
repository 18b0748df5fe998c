/* SPDX-License-Identifier: MIT */
/* One 16x8x16 product through cp.async, ldmatrix and mma. */
#include <cuda_bf16.h>
extern "C" __global__ void k(float *c, const __nv_bfloat16 *a, const __nv_bfloat16 *b)
{
    __shared__ __align__(16) __nv_bfloat16 sa[16 * 16];
    __shared__ __align__(16) __nv_bfloat16 sb[16 * 8];
    unsigned lane = threadIdx.x;
    unsigned pa = (unsigned)__cvta_generic_to_shared(sa);
    unsigned pb = (unsigned)__cvta_generic_to_shared(sb);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(pa + lane * 16),
                 "l"(a + lane * 8));
    if (lane < 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(pb + lane * 16),
                     "l"(b + lane * 8));
    }
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncwarp();
    unsigned ra[4], rb[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
                 : "r"(pa + (lane % 16) * 32 + (lane / 16) * 16));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(rb[0]), "=r"(rb[1])
                 : "r"(pb + (lane % 16) * 16));
    float d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    for (int i = 0; i < 4; i++) {
        c[(lane / 4 + (i / 2) * 8) * 8 + (lane % 4) * 2 + i % 2] = d[i];
    }
}
