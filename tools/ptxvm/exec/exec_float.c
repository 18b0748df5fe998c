/* SPDX-License-Identifier: MIT */
/* Single and double precision: exact arithmetic in every rounding, and the approximate functions,
 * which are computed in double and rounded once, so they keep any bound the manual documents. */
#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/exec/lanes.h"
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"
#include "tools/ptxvm/exec/softfloat.h"

#define FLOAT1(name, expression)                                                                   \
    HEAD(name)                                                                                     \
    {                                                                                              \
        float *restrict d = dv;                                                                    \
        const float *a = av;                                                                       \
        (void)bv, (void)cv;                                                                        \
        for (int i = 0; i < L; i++) {                                                              \
            const float x = vm_flush_f32(a[i], how);                                               \
            d[i] = vm_finish_f32(expression, how);                                                 \
        }                                                                                          \
    }
#define FLOATS2(name, T, expression)                                                               \
    HEAD(name)                                                                                     \
    {                                                                                              \
        T *restrict d = dv;                                                                        \
        const T *a = av, *b = bv;                                                                  \
        (void)cv, (void)how;                                                                       \
        for (int i = 0; i < L; i++) {                                                              \
            const T x = a[i], y = b[i];                                                            \
            d[i] = (expression);                                                                   \
        }                                                                                          \
    }
#define DOUBLE1(name, expression)                                                                  \
    HEAD(name)                                                                                     \
    {                                                                                              \
        double *restrict d = dv;                                                                   \
        const double *a = av;                                                                      \
        (void)bv, (void)cv, (void)how;                                                             \
        for (int i = 0; i < L; i++) {                                                              \
            const double x = a[i];                                                                 \
            d[i] = (expression);                                                                   \
        }                                                                                          \
    }

FLOATS2(div_f32, float, vm_slow_div_f32(x, y, how))
FLOATS2(div_f64, double, vm_slow_div_f64(x, y, how))
FLOAT1(sqrt_f32, vm_slow_sqrt_f32(x, how))
FLOAT1(rcp_f32, vm_slow_div_f32(1.0f, x, how))
DOUBLE1(sqrt_f64, vm_slow_sqrt_f64(x, how))
DOUBLE1(rcp_f64, vm_slow_div_f64(1.0, x, how))
DOUBLE1(neg_f64, vm_f64_bits(vm_bits_f64(x) ^ 0x8000000000000000ull))
DOUBLE1(abs_f64, fabs(x))

static double min_max_f64(double x, double y, bool largest)
{
    if (x != x || y != y) {
        return x != x ? (y != y ? vm_f64_bits(0x7fffffffffffffffull) : y) : x;
    }
    if (x == y) {
        return (signbit(x) != 0) != largest ? x : y;
    }
    return (largest ? x > y : x < y) ? x : y;
}
FLOATS2(min_f64, double, min_max_f64(x, y, false))
FLOATS2(max_f64, double, min_max_f64(x, y, true))
/* copysign d, a, b: the sign of a on the magnitude of b. */
FLOATS2(copysign_f32, float, copysignf(y, x))
FLOATS2(copysign_f64, double, copysign(y, x))

/* div.approx: for a divisor of magnitude in [2^126, 2^128) the quotient is 0, or NaN of infinity.
 */
static float divide_approx(float a, float b, unsigned how)
{
    float x = vm_flush_f32(a, how), y = vm_flush_f32(b, how);
    if (fabsf(y) > 0x1p126f && isfinite(y)) {
        return isinf(x) ? vm_f32_bits(0x7fffffffu)
                        : ((signbit(x) != 0) != (signbit(y) != 0) ? -0.0f : 0.0f);
    }
    return vm_finish_f32(x / y, how);
}
FLOATS2(div_approx, float, divide_approx(x, y, how))
FLOATS2(div_full, float, vm_slow_div_f32(x, y, how))
FLOAT1(rsqrt_f32, (float)(1.0 / sqrt((double)x)))
FLOAT1(sin_f32, (float)sin((double)x))
FLOAT1(cos_f32, (float)cos((double)x))
FLOAT1(lg2_f32, (float)log2((double)x))
FLOAT1(ex2_f32, (float)exp2((double)x))
FLOAT1(tanh_f32, (float)tanh((double)x))
DOUBLE1(rsqrt_f64, 1.0 / sqrt(x))

/* rcp.approx.ftz.f64: the low 32 bits of operand and result are zero. */
DOUBLE1(rcp_approx_f64,
        vm_f64_bits(vm_bits_f64(1.0 / vm_f64_bits(vm_bits_f64(x) & 0xffffffff00000000ull)) &
                    0xffffffff00000000ull))
DOUBLE1(rsqrt_approx_f64,
        vm_f64_bits(vm_bits_f64(1.0 / sqrt(vm_f64_bits(vm_bits_f64(x) & 0xffffffff00000000ull))) &
                    0xffffffff00000000ull))

static bool test_property(double value, bool subnormal, vm_choice what)
{
    switch (what) {
    case VX_FINITE:
        return isfinite(value) != 0;
    case VX_INFINITE:
        return isinf(value) != 0;
    case VX_NUMBER:
        return value == value;
    case VX_NOTANUMBER:
        return value != value;
    case VX_SUBNORMAL:
        return subnormal;
    default:
        return isfinite(value) && value != 0 && !subnormal;
    }
}

static bool exec_testp(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const void *a = vm_source(warp, in, 1);
    bool wide = in->types[0] == VT_F64;
    uint32_t result = 0;
    for (unsigned i = 0; i < VM_LANES; i++) {
        double value = wide ? ((const double *)a)[i] : (double)((const float *)a)[i];
        double least = wide ? 0x1p-1022 : 0x1p-126;
        bool subnormal = value != 0 && fabs(value) < least;
        result |= test_property(value, subnormal, (vm_choice)in->choice) ? 1u << i : 0;
    }
    vm_put_predicate(warp, in, 0, mask, result);
    return true;
}

#define RND   "rn|rz|rm|rp"
#define K     vm_exec_kernel
#define TWO   "d0 s0 s0"
#define THREE "d0 s0 s0 s0"
#define ONE   "d0 s0"
#define FAST(pattern, shape, name)                                                                 \
    {                                                                                              \
        pattern, shape, K, NULL, AR_##name, SY_NONE, NULL                                          \
    }
#define SLOW(pattern, shape, name)                                                                 \
    {                                                                                              \
        pattern, shape, K, name, AR_NONE, SY_NONE, NULL                                            \
    }
#define PAIR(pattern, shape, name)                                                                 \
    {                                                                                              \
        pattern, shape, vm_exec_pair, NULL, AR_##name, SY_NONE, NULL                               \
    }

const vm_row vm_rows_float[] = {FAST("add." RND "?.ftz?.sat?.f32", TWO, add_f32),
                                FAST("sub." RND "?.ftz?.sat?.f32", TWO, sub_f32),
                                FAST("mul." RND "?.ftz?.sat?.f32", TWO, mul_f32),
                                FAST("fma." RND ".ftz?.sat?.f32", THREE, fma_f32),
                                FAST("mad." RND ".ftz?.sat?.f32", THREE, fma_f32),
                                FAST("add." RND "?.f64", TWO, add_f64),
                                FAST("sub." RND "?.f64", TWO, sub_f64),
                                FAST("mul." RND "?.f64", TWO, mul_f64),
                                FAST("fma." RND ".f64", THREE, fma_f64),
                                FAST("mad." RND ".f64", THREE, fma_f64),
                                PAIR("add." RND "?.ftz?.f32x2", TWO, add_f32),
                                PAIR("sub." RND "?.ftz?.f32x2", TWO, sub_f32),
                                PAIR("mul." RND "?.ftz?.f32x2", TWO, mul_f32),
                                PAIR("fma." RND ".ftz?.f32x2", THREE, fma_f32),
                                FAST("min.ftz?.NaN?.xorsign?.abs?.f32", TWO, min_f32),
                                FAST("max.ftz?.NaN?.xorsign?.abs?.f32", TWO, max_f32),
                                SLOW("min.f64", TWO, min_f64),
                                SLOW("max.f64", TWO, max_f64),
                                FAST("neg.ftz?.f32", ONE, neg_f32),
                                FAST("abs.ftz?.f32", ONE, abs_f32),
                                SLOW("neg.f64", ONE, neg_f64),
                                SLOW("abs.f64", ONE, abs_f64),
                                SLOW("div." RND ".ftz?.f32", TWO, div_f32),
                                SLOW("div." RND ".f64", TWO, div_f64),
                                SLOW("sqrt." RND ".ftz?.f32", ONE, sqrt_f32),
                                SLOW("sqrt." RND ".f64", ONE, sqrt_f64),
                                SLOW("rcp." RND ".ftz?.f32", ONE, rcp_f32),
                                SLOW("rcp." RND ".f64", ONE, rcp_f64),
                                SLOW("copysign.f32", TWO, copysign_f32),
                                SLOW("copysign.f64", TWO, copysign_f64),
                                {"testp.finite|infinite|number|notanumber|normal|subnormal.f32|f64",
                                 "P s0", exec_testp, NULL, AR_NONE, SY_NONE, NULL},
                                {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};

const vm_row vm_rows_approx[] = {SLOW("div.approx.ftz?.f32", TWO, div_approx),
                                 SLOW("div.full.ftz?.f32", TWO, div_full),
                                 SLOW("rcp.approx.ftz?.f32", ONE, rcp_f32),
                                 SLOW("sqrt.approx.ftz?.f32", ONE, sqrt_f32),
                                 SLOW("rsqrt.approx.ftz?.f32", ONE, rsqrt_f32),
                                 SLOW("rsqrt.approx.f64", ONE, rsqrt_f64),
                                 SLOW("rcp.approx.ftz.f64", ONE, rcp_approx_f64),
                                 SLOW("rsqrt.approx.ftz.f64", ONE, rsqrt_approx_f64),
                                 SLOW("sin.approx.ftz?.f32", ONE, sin_f32),
                                 SLOW("cos.approx.ftz?.f32", ONE, cos_f32),
                                 SLOW("lg2.approx.ftz?.f32", ONE, lg2_f32),
                                 SLOW("ex2.approx.ftz?.f32", ONE, ex2_f32),
                                 SLOW("tanh.approx.f32", ONE, tanh_f32),
                                 {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
