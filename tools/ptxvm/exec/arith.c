/* SPDX-License-Identifier: MIT */
/* Lane arithmetic as plain loops of 32. VM_ARITH_TABLE and VM_MULTIPLY name this build's tables.
 * Results are the PTX manual's: wrap-around integers, clamped shifts, 32-bit floats whose NaN is
 * 0x7fffffff. Anything but round-to-nearest without flags goes to vm_slow_*. */
#include <math.h>
#include <string.h>

#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/exec/lanes.h"
#include "tools/ptxvm/exec/softfloat.h"

OP(add_u16, uint16_t, uint16_t, x + y)
OP(sub_u16, uint16_t, uint16_t, x - y)
OP(mul_u16, uint16_t, uint16_t, (uint32_t)x *y)
OP(add_u32, uint32_t, uint32_t, x + y)
OP(sub_u32, uint32_t, uint32_t, x - y)
OP(mul_u32, uint32_t, uint32_t, x *y)
OP3(mad_u32, uint32_t, uint32_t, uint32_t, x *y + z)
OP(add_u64, uint64_t, uint64_t, x + y)
OP(sub_u64, uint64_t, uint64_t, x - y)
OP(mul_u64, uint64_t, uint64_t, x *y)
OP3(mad_u64, uint64_t, uint64_t, uint64_t, x *y + z)
OP(wide_u32, uint64_t, uint32_t, (uint64_t)x *y)
OP(wide_s32, int64_t, int32_t, (int64_t)x *y)
OP3(mad_wide_u32, uint64_t, uint32_t, uint64_t, (uint64_t)x *y + z)
OP3(mad_wide_s32, uint64_t, int32_t, uint64_t, (uint64_t)((int64_t)x *y) + z)
OP(min_u16, uint16_t, uint16_t, x < y ? x : y)
OP(min_s16, int16_t, int16_t, x < y ? x : y)
OP(max_u16, uint16_t, uint16_t, x > y ? x : y)
OP(max_s16, int16_t, int16_t, x > y ? x : y)
OP(min_u32, uint32_t, uint32_t, x < y ? x : y)
OP(min_s32, int32_t, int32_t, x < y ? x : y)
OP(max_u32, uint32_t, uint32_t, x > y ? x : y)
OP(max_s32, int32_t, int32_t, x > y ? x : y)
OP(min_u64, uint64_t, uint64_t, x < y ? x : y)
OP(min_s64, int64_t, int64_t, x < y ? x : y)
OP(max_u64, uint64_t, uint64_t, x > y ? x : y)
OP(max_s64, int64_t, int64_t, x > y ? x : y)
OP1(neg_s16, uint16_t, uint16_t, 0 - x)
OP1(neg_s32, uint32_t, uint32_t, 0 - x)
OP1(neg_s64, uint64_t, uint64_t, 0 - x)
OP1(abs_s16, uint16_t, uint16_t, (int16_t)x < 0 ? 0 - x : x)
OP1(abs_s32, uint32_t, uint32_t, (int32_t)x < 0 ? 0 - x : x)
OP1(abs_s64, uint64_t, uint64_t, (int64_t)x < 0 ? 0 - x : x)
OP(and_b16, uint16_t, uint16_t, x &y)
OP(or_b16, uint16_t, uint16_t, x | y)
OP(xor_b16, uint16_t, uint16_t, x ^ y)
OP1(not_b16, uint16_t, uint16_t, ~x)
OP(and_b32, uint32_t, uint32_t, x &y)
OP(or_b32, uint32_t, uint32_t, x | y)
OP(xor_b32, uint32_t, uint32_t, x ^ y)
OP1(not_b32, uint32_t, uint32_t, ~x)
OP(and_b64, uint64_t, uint64_t, x &y)
OP(or_b64, uint64_t, uint64_t, x | y)
OP(xor_b64, uint64_t, uint64_t, x ^ y)
OP1(not_b64, uint64_t, uint64_t, ~x)

/* Shift amounts have 32 bits and are clamped to the width. */
#define SHIFT(name, D, A, width, inside, outside)                                                  \
    HEAD(name)                                                                                     \
    {                                                                                              \
        D *restrict d = dv;                                                                        \
        const A *a = av;                                                                           \
        const uint32_t *b = bv;                                                                    \
        (void)cv, (void)how;                                                                       \
        for (int i = 0; i < L; i++) {                                                              \
            const A x = a[i];                                                                      \
            const uint32_t n = b[i] < width ? b[i] : width - 1;                                    \
            d[i] = (D)(b[i] < width ? (inside) : (outside));                                       \
        }                                                                                          \
    }
SHIFT(shl_b16, uint16_t, uint16_t, 16, (uint32_t)x << n, 0)
SHIFT(shl_b32, uint32_t, uint32_t, 32, x << n, 0)
SHIFT(shl_b64, uint64_t, uint64_t, 64, x << n, 0)
SHIFT(shr_u16, uint16_t, uint16_t, 16, x >> n, 0)
SHIFT(shr_u32, uint32_t, uint32_t, 32, x >> n, 0)
SHIFT(shr_u64, uint64_t, uint64_t, 64, x >> n, 0)
SHIFT(shr_s16, int16_t, int16_t, 16, x >> n, x >> n)
SHIFT(shr_s32, int32_t, int32_t, 32, x >> n, x >> n)
SHIFT(shr_s64, int64_t, int64_t, 64, x >> n, x >> n)

static inline float canonical(float value)
{
    const uint32_t word = 0x7fffffffu;
    float quiet;
    memcpy(&quiet, &word, sizeof quiet);
    return value != value ? quiet : value;
}

/* f32 arithmetic; the slow one takes any rounding, .ftz and .sat. */
#define FLOAT2(name, slow, expression)                                                             \
    HEAD(name)                                                                                     \
    {                                                                                              \
        float *restrict d = dv;                                                                    \
        const float *a = av, *b = bv;                                                              \
        (void)cv;                                                                                  \
        if ((how & (VF_ROUND_MASK | VF_FTZ | VF_SAT)) != 0) {                                      \
            for (int i = 0; i < L; i++) {                                                          \
                d[i] = slow(a[i], b[i], how);                                                      \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int i = 0; i < L; i++) {                                                              \
            const float x = a[i], y = b[i];                                                        \
            d[i] = canonical(expression);                                                          \
        }                                                                                          \
    }
FLOAT2(add_f32, vm_slow_add_f32, x + y)
FLOAT2(sub_f32, vm_slow_sub_f32, x - y)
FLOAT2(mul_f32, vm_slow_mul_f32, x *y)

HEAD(fma_f32)
{
    float *restrict d = dv;
    const float *a = av, *b = bv, *c = cv;
    if ((how & (VF_ROUND_MASK | VF_FTZ | VF_SAT | VF_RELU)) != 0) {
        for (int i = 0; i < L; i++) {
            d[i] = vm_slow_fma_f32(a[i], b[i], c[i], how);
        }
        return;
    }
    for (int i = 0; i < L; i++) {
        d[i] = canonical(fmaf(a[i], b[i], c[i]));
    }
}

#define DOUBLE2(name, slow, expression)                                                            \
    HEAD(name)                                                                                     \
    {                                                                                              \
        double *restrict d = dv;                                                                   \
        const double *a = av, *b = bv;                                                             \
        (void)cv;                                                                                  \
        for (int i = 0; i < L; i++) {                                                              \
            const double x = a[i], y = b[i];                                                       \
            d[i] = (how & VF_ROUND_MASK) != 0 ? slow(x, y, how) : (expression);                    \
        }                                                                                          \
    }
DOUBLE2(add_f64, vm_slow_add_f64, x + y)
DOUBLE2(sub_f64, vm_slow_sub_f64, x - y)
DOUBLE2(mul_f64, vm_slow_mul_f64, x *y)

HEAD(fma_f64)
{
    double *restrict d = dv;
    const double *a = av, *b = bv, *c = cv;
    for (int i = 0; i < L; i++) {
        d[i] = (how & VF_ROUND_MASK) != 0 ? vm_slow_fma_f64(a[i], b[i], c[i], how)
                                          : fma(a[i], b[i], c[i]);
    }
}

HEAD(min_f32)
{
    float *restrict d = dv;
    const float *a = av, *b = bv;
    (void)cv;
    for (int i = 0; i < L; i++) {
        d[i] = vm_min_f32(a[i], b[i], how);
    }
}

HEAD(max_f32)
{
    float *restrict d = dv;
    const float *a = av, *b = bv;
    (void)cv;
    for (int i = 0; i < L; i++) {
        d[i] = vm_max_f32(a[i], b[i], how);
    }
}

HEAD(neg_f32)
{
    float *restrict d = dv;
    const float *a = av;
    (void)bv, (void)cv;
    for (int i = 0; i < L; i++) {
        d[i] = canonical(-vm_flush_f32(a[i], how));
    }
}

HEAD(abs_f32)
{
    float *restrict d = dv;
    const float *a = av;
    (void)bv, (void)cv;
    for (int i = 0; i < L; i++) {
        d[i] = canonical(fabsf(vm_flush_f32(a[i], how)));
    }
}

/* Comparisons give one 32-bit 0 or 1 for each lane. */
#define COMPARE(name, A, expression) OP(name, uint32_t, A, (expression) ? 1u : 0u)
#define COMPARES(bits)                                                                             \
    COMPARE(eq_b##bits, uint##bits##_t, x == y)                                                    \
    COMPARE(ne_b##bits, uint##bits##_t, x != y)                                                    \
    COMPARE(lt_u##bits, uint##bits##_t, x < y)                                                     \
    COMPARE(le_u##bits, uint##bits##_t, x <= y)                                                    \
    COMPARE(lt_s##bits, int##bits##_t, x < y)                                                      \
    COMPARE(le_s##bits, int##bits##_t, x <= y)
COMPARES(16)
COMPARES(32)
COMPARES(64)

#define FLOAT_COMPARE(name, expression)                                                            \
    HEAD(name)                                                                                     \
    {                                                                                              \
        uint32_t *restrict d = dv;                                                                 \
        const float *a = av, *b = bv;                                                              \
        (void)cv;                                                                                  \
        for (int i = 0; i < L; i++) {                                                              \
            const float x = vm_flush_f32(a[i], how), y = vm_flush_f32(b[i], how);                  \
            d[i] = (expression) ? 1u : 0u;                                                         \
        }                                                                                          \
    }
FLOAT_COMPARE(eq_f32, x == y)
FLOAT_COMPARE(ne_f32, x<y || x> y)
FLOAT_COMPARE(lt_f32, x < y)
FLOAT_COMPARE(le_f32, x <= y)
FLOAT_COMPARE(nan_f32, x != x || y != y)
COMPARE(eq_f64, double, x == y)
COMPARE(ne_f64, double, x<y || x> y)
COMPARE(lt_f64, double, x < y)
COMPARE(le_f64, double, x <= y)
COMPARE(nan_f64, double, x != x || y != y)

OP1(f32_of_s32, float, int32_t, x)
OP1(f32_of_u32, float, uint32_t, x)
OP1(s64_of_s32, int64_t, int32_t, x)
OP1(u64_of_u32, uint64_t, uint32_t, x)
OP1(u32_of_u64, uint32_t, uint64_t, x)
OP1(u32_of_u16, uint32_t, uint16_t, x)
OP1(s32_of_s16, int32_t, int16_t, x)
OP1(u16_of_u32, uint16_t, uint32_t, x)

HEAD(f32_of_bf16)
{
    uint32_t *restrict d = dv;
    const uint16_t *a = av;
    UNUSED3();
    for (int i = 0; i < L; i++) {
        const uint32_t word = (uint32_t)a[i] << 16;
        d[i] = (word & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : word;
    }
}

/* Round to nearest, ties to even; NaN becomes 0x7fff. */
HEAD(bf16_of_f32)
{
    uint16_t *restrict d = dv;
    const uint32_t *a = av;
    UNUSED3();
    for (int i = 0; i < L; i++) {
        const uint32_t word = a[i];
        const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
        d[i] = (uint16_t)((word & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
    }
}

HEAD(f64_of_f32)
{
    double *restrict d = dv;
    const float *a = av;
    (void)bv, (void)cv;
    for (int i = 0; i < L; i++) {
        d[i] = (double)vm_flush_f32(a[i], how);
    }
}

enum { TOGETHER = 8 /* columns */ };

static void multiply(float *restrict c, const float *a, const float *b, unsigned rows,
                     unsigned columns, unsigned depth)
{
    for (unsigned at = 0; at < rows * columns; at += TOGETHER) {
        const float *x = a + (size_t)(at / columns) * depth;
        const float *y = b + at % columns;
        float sums[TOGETHER];
        for (unsigned j = 0; j < TOGETHER; j++) {
            sums[j] = c[at + j];
        }
        for (unsigned k = 0; k < depth; k++) {
            for (unsigned j = 0; j < TOGETHER; j++) {
                sums[j] = fmaf(x[k], y[(size_t)k * columns + j], sums[j]);
            }
        }
        for (unsigned j = 0; j < TOGETHER; j++) {
            c[at + j] = canonical(sums[j]);
        }
    }
}

vm_multiply *const VM_MULTIPLY = multiply;

vm_kernel *const VM_ARITH_TABLE[AR_COUNT] = {
#define VM_ARITH(name) [AR_##name] = name,
#include "tools/ptxvm/exec/arith.def"
#undef VM_ARITH
};
