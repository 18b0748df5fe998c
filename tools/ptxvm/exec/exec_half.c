/* SPDX-License-Identifier: MIT */
/* f16 and bf16, scalar and packed: computed exactly (or rounded to odd) in double, rounded once. */
#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/exec/lanes.h"
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"
#include "tools/ptxvm/exec/softfloat.h"

/* .ftz of halves: subnormals become zeros of their sign. */
static uint16_t flush_f16(uint16_t half, unsigned how)
{
    return (how & VF_FTZ) != 0 && (half & 0x7c00u) == 0 ? half & 0x8000u : half;
}

static uint16_t clamp(double value, unsigned how, bool brain)
{
    if ((how & VF_SAT) != 0) {
        value = value > 0.0 ? (value < 1.0 ? value : 1.0) : 0.0;
    }
    unsigned rest = how & ~(unsigned)VF_SAT;
    uint16_t half = brain ? vm_bf16_of_f64(value, rest) : vm_f16_of_f64(value, rest);
    return brain ? half : flush_f16(half, how);
}

#define HALF3(name, exec_half_load, brain, expression)                                             \
    HEAD(name)                                                                                     \
    {                                                                                              \
        uint16_t *restrict d = dv;                                                                 \
        const uint16_t *a = av, *b = bv, *c = cv;                                                  \
        for (int i = 0; i < L; i++) {                                                              \
            const double x = exec_half_load(a[i]), y = exec_half_load(b[i]),                       \
                         z = exec_half_load(c[i]);                                                 \
            (void)y, (void)z;                                                                      \
            d[i] = clamp(expression, how, brain);                                                  \
        }                                                                                          \
    }
#define F16(h)  vm_f64_of_f16(flush_f16(h, how))
#define BF16(h) vm_f64_of_bf16(h)

/* Sums of two halves and products are exact in double but for bf16 sums far apart. */
HALF3(add_f16, F16, false, x + y)
HALF3(sub_f16, F16, false, x - y)
HALF3(mul_f16, F16, false, x *y)
HALF3(fma_f16, F16, false, vm_add_odd(x *y, z))
HALF3(add_bf16, BF16, true, vm_add_odd(x, y))
HALF3(sub_bf16, BF16, true, vm_add_odd(x, -y))
HALF3(mul_bf16, BF16, true, x *y)
HALF3(fma_bf16, BF16, true, vm_add_odd(x *y, z))
HALF3(ex2_f16, F16, false, exp2(x))
HALF3(ex2_bf16, BF16, true, exp2(x))
HALF3(tanh_f16, F16, false, tanh(x))
HALF3(tanh_bf16, BF16, true, tanh(x))

/* Negation and magnitude keep NaN canonical. */
static uint16_t is_nan_or(uint16_t half, uint16_t result, uint16_t infinity)
{
    return (half & 0x7fffu) > infinity ? 0x7fff : result;
}
OP1(neg_f16, uint16_t, uint16_t, is_nan_or(x, x ^ 0x8000u, 0x7c00))
OP1(abs_f16, uint16_t, uint16_t, is_nan_or(x, x & 0x7fffu, 0x7c00))
OP1(neg_bf16, uint16_t, uint16_t, is_nan_or(x, x ^ 0x8000u, 0x7f80))
OP1(abs_bf16, uint16_t, uint16_t, is_nan_or(x, x & 0x7fffu, 0x7f80))

/* The float rules of min and max hold for halves too; a half is a float exactly. */
static uint16_t min_max(uint16_t a, uint16_t b, unsigned how, bool largest, bool brain)
{
    float x = (float)(brain ? vm_f64_of_bf16(a) : vm_f64_of_f16(flush_f16(a, how)));
    float y = (float)(brain ? vm_f64_of_bf16(b) : vm_f64_of_f16(flush_f16(b, how)));
    float r = vm_min_max_f32(x, y, how & ~(unsigned)VF_FTZ, largest);
    return brain ? vm_bf16_of_f64((double)r, 0) : vm_f16_of_f64((double)r, 0);
}
#define EXTREMUM(name, largest, brain)                                                             \
    HEAD(name)                                                                                     \
    {                                                                                              \
        uint16_t *restrict d = dv;                                                                 \
        const uint16_t *a = av, *b = bv;                                                           \
        (void)cv;                                                                                  \
        for (int i = 0; i < L; i++) {                                                              \
            d[i] = min_max(a[i], b[i], how, largest, brain);                                       \
        }                                                                                          \
    }
EXTREMUM(min_f16, false, false)
EXTREMUM(max_f16, true, false)
EXTREMUM(min_bf16, false, true)
EXTREMUM(max_bf16, true, true)

/* ---- comparisons ---- */

static bool holds(vm_compare what, double x, double y)
{
    bool unordered = x != x || y != y;
    switch (what) {
    case VC_EQ:
        return x == y;
    case VC_NE:
        return !unordered && x != y;
    case VC_LT:
        return x < y;
    case VC_LE:
        return x <= y;
    case VC_GT:
        return x > y;
    case VC_GE:
        return x >= y;
    case VC_EQU:
        return unordered || x == y;
    case VC_NEU:
        return unordered || x != y;
    case VC_LTU:
        return unordered || x < y;
    case VC_LEU:
        return unordered || x <= y;
    case VC_GTU:
        return unordered || x > y;
    case VC_GEU:
        return unordered || x >= y;
    case VC_NUM:
        return !unordered;
    default:
        return unordered;
    }
}

static double exec_half_load(vm_type type, uint32_t bits, unsigned how)
{
    bool brain = type == VT_BF16 || type == VT_BF16X2;
    return brain ? vm_f64_of_bf16((uint16_t)bits) : vm_f64_of_f16(flush_f16((uint16_t)bits, how));
}

static uint32_t compare_part(const vm_warp *warp, const vm_insn *in, unsigned first, vm_type type,
                             unsigned shift)
{
    unsigned bytes = vm_type_bytes(type);
    const void *a = vm_source(warp, in, first);
    const void *b = vm_source(warp, in, first + 1);
    uint32_t mask = 0;
    for (unsigned i = 0; i < VM_LANES; i++) {
        double x = exec_half_load(type, (uint32_t)(vm_lane(a, bytes, i) >> shift), in->flags);
        double y = exec_half_load(type, (uint32_t)(vm_lane(b, bytes, i) >> shift), in->flags);
        mask |= holds((vm_compare)in->compare, x, y) ? 1u << i : 0;
    }
    return mask;
}

static uint32_t exec_half_combine(vm_choice how, uint32_t a, uint32_t b)
{
    return how == VX_AND ? a & b : (how == VX_OR ? a | b : (how == VX_XOR ? a ^ b : a));
}

/* setp of one half: p|!p; of a pair: one predicate for each half. */
static bool exec_setp(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_type type = (vm_type)in->types[0];
    uint32_t c = in->operands > 4 ? vm_predicate(warp, in, 4) : 0;
    uint32_t low = compare_part(warp, in, 2, type, 0);
    uint32_t other = vm_type_bytes(type) == 4 ? compare_part(warp, in, 2, type, 16) : ~low;
    vm_put_predicate(warp, in, 0, mask, exec_half_combine((vm_choice)in->choice, low, c));
    vm_put_predicate(warp, in, 1, mask, exec_half_combine((vm_choice)in->choice, other, c));
    return true;
}

/* set.CMP.dtype.stype: pairs give two halves (1.0 or all ones), singles one number. */
static bool exec_set(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_type to = (vm_type)in->types[0];
    vm_type from = (vm_type)in->types[1];
    bool pair = vm_type_bytes(from) == 4;
    uint32_t yes = to == VT_F16 || to == VT_F16X2     ? 0x3c00u
                   : to == VT_BF16 || to == VT_BF16X2 ? 0x3f80u
                   : to == VT_F32                     ? 0x3f800000u
                                                      : UINT32_MAX;
    uint32_t low = compare_part(warp, in, 1, from, 0);
    uint32_t high = pair ? compare_part(warp, in, 1, from, 16) : 0;
    unsigned bytes = vm_operand_at(warp, in, 0)->bytes;
    uint64_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        uint32_t value = (low >> i & 1) != 0 ? yes : 0;
        if (pair) {
            value = (value & 0xffffu) | ((high >> i & 1) != 0 ? yes << 16 : 0);
        }
        vm_set_lane(lanes, bytes, i, value);
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

/* add, sub and fma of an f32 sum with half factors: the halves are widened exactly first. */
static bool exec_mixed(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    float wide[2][VM_LANES];
    float lanes[VM_LANES];
    bool fused = in->operands > 3;
    for (unsigned k = 0; k < (fused ? 2u : 1u); k++) {
        const uint16_t *halves = vm_source(warp, in, 1 + k);
        for (unsigned i = 0; i < VM_LANES; i++) {
            wide[k][i] = (float)(in->types[1] == VT_BF16 ? vm_f64_of_bf16(halves[i])
                                                         : vm_f64_of_f16(halves[i]));
        }
    }
    const void *sum = vm_source(warp, in, fused ? 3 : 2);
    vm_arith_kernel(in->choice2)(lanes, wide[0], fused ? wide[1] : sum, sum, in->flags);
    vm_put(warp, in, 0, mask, lanes);
    return true;
}
#define MIXED(name, kernel)                                                                        \
    static bool name(vm_parser *parser, vm_insn *in)                                               \
    {                                                                                              \
        (void)parser;                                                                              \
        in->choice2 = kernel;                                                                      \
        return true;                                                                               \
    }
MIXED(hook_mixed_add, AR_add_f32)
MIXED(hook_mixed_sub, AR_sub_f32)
MIXED(hook_mixed_fma, AR_fma_f32)

#define CMP    "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"
#define HALVES "f16|f16x2|bf16|bf16x2"
#define ARITH(op, shape, name)                                                                     \
    {op ".rn?.ftz?.sat?.f16", shape, vm_exec_kernel, name##_f16, 0, SY_NONE, NULL},                \
        {op ".rn?.ftz?.sat?.f16x2", shape, vm_exec_pair, name##_f16, 0, SY_NONE, NULL},            \
        {op ".rn?.bf16", shape, vm_exec_kernel, name##_bf16, 0, SY_NONE, NULL},                    \
    {                                                                                              \
        op ".rn?.bf16x2", shape, vm_exec_pair, name##_bf16, 0, SY_NONE, NULL                       \
    }
#define FLAGGED(op, words, shape, name)                                                            \
    {op "." words "f16", shape, vm_exec_kernel, name##_f16, 0, SY_NONE, NULL},                     \
        {op "." words "f16x2", shape, vm_exec_pair, name##_f16, 0, SY_NONE, NULL},                 \
        {op "." words "bf16", shape, vm_exec_kernel, name##_bf16, 0, SY_NONE, NULL},               \
    {                                                                                              \
        op "." words "bf16x2", shape, vm_exec_pair, name##_bf16, 0, SY_NONE, NULL                  \
    }

const vm_row vm_rows_half[] = {
    ARITH("add", "d0 s0 s0", add),
    ARITH("sub", "d0 s0 s0", sub),
    ARITH("mul", "d0 s0 s0", mul),
    FLAGGED("fma", "rn.ftz?.sat?.relu?.", "d0 s0 s0 s0", fma),
    FLAGGED("neg", "ftz?.", "d0 s0", neg),
    FLAGGED("abs", "ftz?.", "d0 s0", abs),
    FLAGGED("min", "ftz?.NaN?.xorsign?.abs?.", "d0 s0 s0", min),
    FLAGGED("max", "ftz?.NaN?.xorsign?.abs?.", "d0 s0 s0", max),
    FLAGGED("ex2", "approx.ftz?.", "d0 s0", ex2),
    FLAGGED("tanh", "approx.", "d0 s0", tanh),
    {"add.rn|rz|rm|rp?.sat?.f32.f16|bf16", "d0 s1 s0", exec_mixed, NULL, 0, SY_NONE,
     hook_mixed_add},
    {"sub.rn|rz|rm|rp?.sat?.f32.f16|bf16", "d0 s1 s0", exec_mixed, NULL, 0, SY_NONE,
     hook_mixed_sub},
    {"fma.rn|rz|rm|rp.sat?.f32.f16|bf16", "d0 s1 s1 s0", exec_mixed, NULL, 0, SY_NONE,
     hook_mixed_fma},
    {"setp." CMP ".ftz?." HALVES, "P R s0 s0", exec_setp, NULL, 0, SY_NONE, NULL},
    {"setp." CMP ".and|or|xor.ftz?." HALVES, "P R s0 s0 p", exec_setp, NULL, 0, SY_NONE, NULL},
    {"set." CMP ".ftz?.u16|s16|u32|s32|f32|" HALVES "." HALVES, "D0 s1 s1", exec_set, NULL, 0,
     SY_NONE, NULL},
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
