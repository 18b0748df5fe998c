/* SPDX-License-Identifier: MIT */
/* Small programs with known answers (make.py says which), one kernel k each, chosen by a macro.
 * They are written in the C of NVRTC, nvcc and clang alike; clang has no headers here. */
#ifdef __clang__
#define __global__   __attribute__((global))
#define __device__   __attribute__((device))
#define __shared__   __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __noinline__ __attribute__((noinline))
#define THREAD       (int)__nvvm_read_ptx_sreg_tid_x()
#define INDEX        (int)(__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + THREAD)
#else
#define THREAD (int)threadIdx.x
#define INDEX  (int)(blockIdx.x * blockDim.x + threadIdx.x)
#endif
typedef unsigned long long u64;
typedef long long s64;

#ifdef WIDE /* 64-bit quotients, remainders, products, shifts */
extern "C" __global__ void k(u64 *o, const u64 *a, const u64 *b)
{
    int i = INDEX;
    u64 x = a[i], y = b[i] | 1;
    s64 p = (s64)x, q = (s64)y;
    o[i] = x / y + 3 * (x % y) + (u64)(p / q) * 5 + (u64)(p % q) * 7 + (x << (y & 63)) + x * y +
           (x >> 7) + x % 1000;
}
#endif

#ifdef CHOICE /* a jump table, fall-through, returns, loops left early */
extern "C" __global__ void k(int *o, const int *a)
{
    int i = INDEX, x = a[i], r = 0;
    switch (x) {
    case 0:
        r = 11;
        break;
    case 1:
        r = x * 7 + i;
        break;
    case 2:
        r = 5; /* falls through */
    case 3:
        r += 99 + i;
        break;
    case 4:
        r = -x;
        break;
    case 5:
        r = i * i;
        break;
    case 6:
        r = i ^ x;
        break;
    case 7:
        o[i] = -7;
        return;
    case 8:
        for (int j = 0; j < i; j++) {
            if ((j * j) % 13 == 4) {
                continue;
            }
            if (j > 20) {
                break;
            }
            r += j;
        }
        break;
    case 9:
        r = i / 3;
        break;
    default:
        r = -1;
    }
    o[i] = r;
}
#endif

#ifdef RECORD /* structures by value through functions that are not inlined */
struct pair {
    int a;
    double b;
    short c[3];
};
__device__ __noinline__ pair twist(pair p, int i)
{
    pair r;
    r.a = p.a * 3 + i;
    r.b = p.b * 0.5 + p.c[i % 3];
    for (int j = 0; j < 3; j++) {
        r.c[j] = (short)(p.c[2 - j] + i);
    }
    return r;
}
extern "C" __global__ void k(double *o, int seed)
{
    int i = INDEX;
    pair p = {seed, 4.5, {1, 2, 3}};
    pair q = twist(twist(p, i), i + 1);
    o[i] = q.a + q.b + q.c[0] * 10 + q.c[1] * 100 + q.c[2] * 1000;
}
#endif

#ifdef LOCAL /* an array of the thread's own, indexed at run time; a table of constants; a global  \
              */
__constant__ int weights[5] = {1, -2, 3, 40, 500};
__device__ short shift[3] = {-7, 8, 300};
extern "C" __global__ void k(int *o)
{
    int i = INDEX;
    int v[12];
    for (int j = 0; j < 12; j++) {
        v[j] = (i * 31 + j * 17) % 23;
    }
    for (int p = 0; p < 12; p++) {
        for (int q = 0; q + 1 < 12 - p; q++) {
            if (v[q] > v[q + 1]) {
                int t = v[q];
                v[q] = v[q + 1];
                v[q + 1] = t;
            }
        }
    }
    o[i] = v[i % 12] * weights[i % 5] + shift[i % 3];
}
#endif

#ifdef HALVES /* halves, single and packed, compared, widened and rounded */
#include <cuda_fp16.h>
extern "C" __global__ void k(unsigned short *o, const unsigned short *a)
{
    int i = INDEX;
    __half x = __ushort_as_half(a[2 * i]), y = __ushort_as_half(a[2 * i + 1]);
    __half2 p = __halves2half2(x, y);
    __half2 q = __hfma2(p, p, __halves2half2(y, x));
    unsigned short *r = o + 8 * i;
    r[0] = __half_as_ushort(__hadd(x, y));
    r[1] = __half_as_ushort(__hmul(x, y));
    r[2] = __half_as_ushort(__low2half(q));
    r[3] = __half_as_ushort(__high2half(q));
    r[4] = __half_as_ushort(__hgt(x, y) ? __hmax(x, y) : __hneg(y));
    r[5] = __half_as_ushort(__float2half_rz(__half2float(x) * 1.3f));
    r[6] = __half_as_ushort(__float2half_ru(__half2float(y) * 1.3f));
    r[7] = (unsigned short)(short)__half2int_rd(x);
}
#endif

#ifdef PACKED /* packed integers: differences, extrema, dot products, permuted bytes */
extern "C" __global__ void k(unsigned *o, const unsigned *a)
{
    int i = INDEX;
    unsigned x = a[2 * i], y = a[2 * i + 1];
    o[i] = __vabsdiffu4(x, y) + 3 * __vsadu4(x, y) + 5 * __vabsdiffu2(x, y) + 7 * __vmaxs2(x, y) +
           9 * __byte_perm(x, y, 0x5173) + 11 * (unsigned)__dp4a((int)x, (int)y, 5) +
           13 * __usad(x, y, 1u) + 17 * __umulhi(x, y) + 19 * __funnelshift_l(x, y, x & 31) +
           23 * (unsigned)__clz((int)x) + 29 * __brev(y) + 31 * (unsigned)__popc(x);
}
#endif

#ifdef TENSOR /* cp.async, ldmatrix and mma: C = A B of 16 x 16 x 8 in bf16 */
extern "C" __global__ void k(float *o, const unsigned short *a, const unsigned short *b)
{
    __shared__ __align__(16) unsigned short tile[16 * 16 + 16 * 8];
    int t = THREAD;
    unsigned base = (unsigned)__cvta_generic_to_shared(tile), r[4], s[2];
    float c[4] = {0, 0, 0, 0};
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(base + t * 16), "l"(a + t * 8));
    asm volatile("cp.async.commit_group;");
    if (t < 16) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(base + 512 + t * 16),
                     "l"(b + t * 8));
    }
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(base + (t % 16) * 32 + (t / 16) * 16));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(s[0]), "=r"(s[1])
                 : "r"(base + 512 + (t % 16) * 16));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(s[0]), "r"(s[1]));
    for (int j = 0; j < 4; j++) {
        o[(t / 4 + j / 2 * 8) * 8 + t % 4 * 2 + j % 2] = c[j];
    }
}
#endif

#ifdef ATOMS /* atomics of every width and scope, and a loop of compare and swap */
extern "C" __global__ void k(int *p, u64 *l, float *f)
{
    int t = INDEX;
    atomicAdd(p, t);
    atomicMax(p + 1, t);
    atomicMin(p + 2, -t);
    atomicOr(p + 3, 1 << (t & 31));
    atomicXor(p + 4, 3 << (t & 15));
    atomicInc((unsigned *)p + 5, 9);
    atomicAdd_block(p + 6, 2);
    atomicAdd_system(p + 7, 3);
    int old = *(volatile int *)(p + 8), seen;
    do {
        seen = old;
        old = atomicCAS(p + 8, seen, seen * 2 + 1);
    } while (old != seen);
    atomicAdd(l, (u64)t << 20);
    atomicMax((s64 *)l + 1, (s64)-t);
    atomicAdd(f, 0.5f);
}
#endif

#ifdef LANES /* shuffles, votes, matches, reductions of a warp, part of a warp */
extern "C" __global__ void k(unsigned *o)
{
    int t = THREAD;
    unsigned all = 0xffffffffu;
    unsigned r = __shfl_xor_sync(all, t * 3, 5) + 100u * __shfl_up_sync(all, t, 3) +
                 10000u * __shfl_down_sync(all, t, 2, 8);
    r += __ballot_sync(all, t % 3 == 0) ^ __match_any_sync(all, t % 5);
    r += __reduce_add_sync(all, (unsigned)t * 7) + __reduce_max_sync(all, (unsigned)(t ^ 21));
    if (t & 1) {
        r += __reduce_xor_sync(0xaaaaaaaau, (unsigned)t) + (unsigned)__all_sync(0xaaaaaaaau, t > 0);
    }
    o[t] = r;
}
#endif

#ifdef TREE /* shared memory, dynamic and static, and a barrier in a loop */
extern __shared__ float dynamic[];
extern "C" __global__ void k(float *o, const float *a)
{
    __shared__ float kept[64];
    int t = THREAD;
    dynamic[t] = a[INDEX];
    kept[t & 63] = 0;
    __syncthreads();
    for (int n = 32; n > 0; n >>= 1) {
        if (t < n) {
            dynamic[t] += dynamic[t + n];
        }
        __syncthreads();
    }
    if (t < 2) {
        kept[t] = dynamic[0] * (float)(t + 1);
    }
    __syncthreads();
    o[INDEX] = kept[t & 1] + (float)t;
}
#endif

#ifdef DEVICE /* clang: a device function, a table, doubles and widths */
__constant__ int table[5] = {1, 2, 3, 4, 5};
__device__ __noinline__ int divisor(int a, int b)
{
    while (b != 0) {
        int t = a % b;
        a = b;
        b = t;
    }
    return a;
}
extern "C" __global__ void k(double *o, const short *a, unsigned char *c)
{
    int i = INDEX;
    o[i] = (double)divisor(i * 12 + 60, i * 18 + 90) * table[i % 5] + (double)a[i] / 8 +
           (float)(a[i] * a[i]);
    c[i] = (unsigned char)(a[i] * 3 - i);
}
#endif

#ifdef ROUNDS /* directed rounding and the conversion of what has no integer */
extern "C" __global__ void k(unsigned *o, const float *a)
{
    int i = INDEX;
    float x = a[2 * i], y = a[2 * i + 1];
    unsigned *r = o + 8 * i;
    r[0] = __float_as_uint(__fadd_rd(x, y));
    r[1] = __float_as_uint(__fmul_ru(x, y));
    r[2] = __float_as_uint(__fdiv_rz(x, y));
    r[3] = __float_as_uint(__fsqrt_rn(fabsf(x)));
    r[4] = __float_as_uint(__fmaf_rn(x, y, x));
    r[5] = (unsigned)__float2int_rn(x);
    r[6] = (unsigned)(__float2ll_rz(y) >> 32);
    r[7] = (unsigned)__double2int_rd((double)x * 1e3);
}
#endif

#ifdef RING /* Hopper: a warp that copies tiles into a ring, elected, and two that read them */
#define STAGES 2
#define TILES  5
#define TILE   64
__device__ unsigned address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}
__device__ void await(unsigned barrier, unsigned parity)
{
    asm volatile("{\n.reg .pred p;\nloop:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra done;\nbra loop;\ndone:\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
extern "C" __global__ void k(float *o, const float *a)
{
    __shared__ __align__(128) float tile[STAGES][TILE];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < STAGES; s++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&full[s])));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" ::"r"(address(&empty[s])));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (t >= 64) {
        unsigned chosen;
        asm volatile(
            "{\n.reg .pred p;\n.reg .b32 r;\nelect.sync r|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}"
            : "=r"(chosen));
        for (int i = 0; chosen && i < TILES; i++) {
            int s = i % STAGES;
            await(address(&empty[s]), (i / STAGES & 1) ^ 1);
            asm volatile(
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&full[s])),
                "r"(TILE * 4)
                : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                         "[%1], %2, [%3];" ::"r"(address(tile[s])),
                         "l"(a + i * TILE), "r"(TILE * 4), "r"(address(&full[s]))
                         : "memory");
        }
        return;
    }
    float sum = 0;
    for (int i = 0; i < TILES; i++) {
        int s = i % STAGES;
        await(address(&full[s]), i / STAGES & 1);
        sum = sum * 2 + tile[s][t ^ i];
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(&empty[s]))
                     : "memory");
    }
    o[t] = sum;
}
#endif

#ifdef SHARES /* Hopper: blocks of a cluster read each other's sums */
#include <cooperative_groups.h>
extern "C" __global__ void __cluster_dims__(4) k(int *o, const int *a)
{
    namespace cg = cooperative_groups;
    __shared__ int sums[32];
    const cg::cluster_group cluster = cg::this_cluster();
    const unsigned t = threadIdx.x, rank = cluster.block_rank();
    sums[t] = a[blockIdx.x * 32 + t] * (int)(rank + 1);
    cluster.sync();
    int sum = 0;
    for (unsigned other = 0; other < cluster.num_blocks(); other++) {
        sum = sum * 3 +
              cluster.map_shared_rank(sums, (rank + other) % cluster.num_blocks())[t ^ other];
    }
    o[blockIdx.x * 32 + t] = sum;
    cluster.sync();
}
#endif

#ifdef GROUP /* Hopper: a product of a warpgroup whose operands threads have stored */
#include <cuda_bf16.h>
__device__ unsigned long long described(const void *p, unsigned leading, unsigned stride)
{
    const unsigned long long at = (unsigned)__cvta_generic_to_shared(p);
    return at >> 4 | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(stride >> 4) << 32;
}
/* 8 x 8 elements lie together; the next 8 of K 128 bytes on, the next 8 rows 256. */
__device__ unsigned place(unsigned row, unsigned k)
{
    return row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8;
}
extern "C" __global__ void k(float *o, const __nv_bfloat16 *a, const __nv_bfloat16 *b)
{
    __shared__ __align__(128) __nv_bfloat16 left[64 * 16], right[8 * 16];
    const unsigned t = threadIdx.x;
    float d[4] = {7, 7, 7, 7}; /* which the first product does not read */
    for (int step = 0; step < 3; step++) {
        for (unsigned i = t; i < 64 * 16; i += 128) {
            left[place(i / 16, i % 16)] = a[i / 16 * 48 + step * 16 + i % 16];
        }
        right[place(t / 16, t % 16)] = b[t / 16 * 48 + step * 16 + t % 16];
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, "
            "p, 1, 1, 0, 0;\n}"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "l"(described(left, 128, 256)), "l"(described(right, 128, 256)), "r"(step)
            : "memory");
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     :
                     : "memory");
        __syncthreads();
    }
    const unsigned row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
    for (int i = 0; i < 4; i++) {
        o[(row + i / 2 * 8) * 8 + column + i % 2] = d[i];
    }
}
#endif
