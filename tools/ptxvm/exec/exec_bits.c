/* SPDX-License-Identifier: MIT */
/* Bit instructions: logic, shifts, fields, permutes, counts; and integer and float comparison. */
#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/exec/lanes.h"
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

static uint32_t reverse32(uint32_t x)
{
    x = ((x >> 1) & 0x55555555u) | ((x & 0x55555555u) << 1);
    x = ((x >> 2) & 0x33333333u) | ((x & 0x33333333u) << 2);
    x = ((x >> 4) & 0x0f0f0f0fu) | ((x & 0x0f0f0f0fu) << 4);
    return __builtin_bswap32(x);
}

OP1(popc_b32, uint32_t, uint32_t, __builtin_popcount(x))
OP1(popc_b64, uint32_t, uint64_t, __builtin_popcountll(x))
OP1(clz_b32, uint32_t, uint32_t, x == 0 ? 32 : __builtin_clz(x))
OP1(clz_b64, uint32_t, uint64_t, x == 0 ? 64 : __builtin_clzll(x))
OP1(brev_b32, uint32_t, uint32_t, reverse32(x))
OP1(brev_b64, uint64_t, uint64_t,
    (uint64_t)reverse32((uint32_t)x) << 32 | reverse32((uint32_t)(x >> 32)))
OP1(cnot_b16, uint16_t, uint16_t, x == 0 ? 1 : 0)
OP1(cnot_b32, uint32_t, uint32_t, x == 0 ? 1 : 0)
OP1(cnot_b64, uint64_t, uint64_t, x == 0 ? 1 : 0)

/* The most significant bit that differs from the sign; .shiftamt counts from the top. */
static uint32_t find_bit(uint64_t x, unsigned bits, bool is_signed, unsigned how)
{
    uint64_t all = bits == 64 ? ~0ull : (1ull << bits) - 1;
    if (is_signed && (x >> (bits - 1) & 1) != 0) {
        x = ~x;
    }
    x &= all;
    if (x == 0) {
        return UINT32_MAX;
    }
    uint32_t place = 63u - (uint32_t)__builtin_clzll(x);
    return (how & VF_SHIFTAMT) != 0 ? bits - 1 - place : place;
}
#define BFIND(name, A, bits, is_signed)                                                            \
    HEAD(name)                                                                                     \
    {                                                                                              \
        uint32_t *restrict d = dv;                                                                 \
        const A *a = av;                                                                           \
        (void)bv, (void)cv;                                                                        \
        for (int i = 0; i < L; i++) {                                                              \
            d[i] = find_bit(a[i], bits, is_signed, how);                                           \
        }                                                                                          \
    }
BFIND(bfind_u32, uint32_t, 32, false)
BFIND(bfind_s32, uint32_t, 32, true)
BFIND(bfind_u64, uint64_t, 64, false)
BFIND(bfind_s64, uint64_t, 64, true)

/* bfe: position and length are the low bytes of b and c; the sign is the field's top bit, or the
 * number's when the field reaches beyond it. */
static uint64_t extract(uint64_t a, uint32_t b, uint32_t c, unsigned bits, bool is_signed)
{
    unsigned position = b & 0xff;
    unsigned length = c & 0xff;
    uint64_t sign = 0;
    if (is_signed && length != 0) {
        unsigned top = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
        sign = a >> top & 1;
    }
    uint64_t result = 0;
    for (unsigned i = 0; i < bits; i++) {
        uint64_t bit = i < length && position + i < bits ? a >> (position + i) & 1 : sign;
        result |= bit << i;
    }
    return result;
}

static uint64_t insert(uint64_t a, uint64_t b, uint32_t c, uint32_t d, unsigned bits)
{
    unsigned position = c & 0xff;
    unsigned length = d & 0xff;
    for (unsigned i = 0; i < length && position + i < bits; i++) {
        uint64_t place = 1ull << (position + i);
        b = (b & ~place) | ((a >> i & 1) != 0 ? place : 0);
    }
    return b;
}

/* Fields: operands 1 value(s), then two 32-bit numbers. */
static bool exec_field(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_type type = (vm_type)in->types[0];
    unsigned bytes = vm_type_bytes(type);
    bool inserts = in->operands == 5;
    const void *a = vm_source(warp, in, 1);
    const void *b = vm_source(warp, in, 2);
    const uint32_t *position = vm_source(warp, in, inserts ? 3 : 2);
    const uint32_t *length = vm_source(warp, in, inserts ? 4 : 3);
    uint64_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        uint64_t x = vm_lane(a, bytes, i);
        uint64_t r = inserts ? insert(x, vm_lane(b, bytes, i), position[i], length[i], bytes * 8)
                             : extract(x, position[i], length[i], bytes * 8, vm_type_signed(type));
        vm_set_lane(lanes, bytes, i, r);
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

static uint32_t permute(uint32_t a, uint32_t b, uint32_t selector, vm_choice mode)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned base = selector & 3;
    uint32_t result = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned pick = (selector >> (4 * i)) & 7;
        bool sign = (selector >> (4 * i) & 8) != 0;
        if (mode != VX_NONE) {
            sign = false;
        }
        switch (mode) {
        case VX_F4E:
            pick = base + i;
            break;
        case VX_B4E:
            pick = (base + 8 - i) & 7;
            break;
        case VX_RC8:
            pick = base;
            break;
        case VX_ECL:
            pick = i < base ? base : i;
            break;
        case VX_ECR:
            pick = i > base ? base : i;
            break;
        case VX_RC16:
            pick = (base & 1) * 2 + (i & 1);
            break;
        default:
            break;
        }
        uint32_t byte = (uint32_t)(bytes >> (8 * pick)) & 0xffu;
        byte = sign ? ((byte & 0x80u) != 0 ? 0xffu : 0) : byte;
        result |= byte << (8 * i);
    }
    return result;
}

static bool exec_permute(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint32_t *a = vm_source(warp, in, 1);
    const uint32_t *b = vm_source(warp, in, 2);
    const uint32_t *c = vm_source(warp, in, 3);
    uint32_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        lanes[i] = permute(a[i], b[i], c[i], (vm_choice)in->choice);
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

/* lop3: bit i of the table is the result for the inputs whose bits spell i. */
static bool exec_lop3(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint32_t *a = vm_source(warp, in, 1);
    const uint32_t *b = vm_source(warp, in, 2);
    const uint32_t *c = vm_source(warp, in, 3);
    const uint32_t *table = vm_source(warp, in, 4);
    uint32_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        uint32_t r = 0;
        for (unsigned k = 0; k < 8; k++) {
            uint32_t hit = ((k & 4) != 0 ? a[i] : ~a[i]) & ((k & 2) != 0 ? b[i] : ~b[i]) &
                           ((k & 1) != 0 ? c[i] : ~c[i]);
            r |= (table[i] >> k & 1) != 0 ? hit : 0;
        }
        lanes[i] = r;
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

/* shf: a is the low word, b the high one; .l shifts left and keeps the high word. */
static bool exec_funnel(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint32_t *a = vm_source(warp, in, 1);
    const uint32_t *b = vm_source(warp, in, 2);
    const uint32_t *c = vm_source(warp, in, 3);
    uint32_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        uint32_t n = (in->flags & VF_CLAMP) != 0 ? (c[i] > 32 ? 32 : c[i]) : c[i] & 31;
        uint64_t both = (uint64_t)b[i] << 32 | a[i];
        lanes[i] = in->choice == VX_L ? (uint32_t)((n == 0 ? both : both << n) >> 32)
                                      : (uint32_t)(both >> n);
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

/* fns: the place of the offset-th set bit of a mask from a base on, upwards or downwards. */
static uint32_t find_nth(uint32_t bits, uint32_t base, int32_t offset)
{
    int64_t step = offset < 0 ? -1 : 1;
    int64_t left = offset < 0 ? -(int64_t)offset : offset;
    int64_t end = left == 0 ? (int64_t)base + 1 : (step > 0 ? 32 : -1);
    left = left == 0 ? 1 : left;
    for (int64_t at = base; at != end && at >= 0 && at < 32; at += step) {
        left -= bits >> at & 1;
        if (left == 0) {
            return (uint32_t)at;
        }
    }
    return UINT32_MAX;
}

OP3(fns_b32, uint32_t, uint32_t, uint32_t, find_nth(x, y, (int32_t)z))

/* bmsk: a field of ones; szext: sign or zero extension from a width. */
static bool exec_mask(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint32_t *a = vm_source(warp, in, 1);
    const uint32_t *b = vm_source(warp, in, 2);
    bool wraps = (in->flags & VF_WRAP) != 0;
    uint32_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        if (in->types[0] == VT_B32) {
            uint32_t position = wraps ? a[i] & 31 : a[i];
            uint32_t length = wraps ? b[i] & 31 : b[i];
            uint32_t field = length >= 32 ? UINT32_MAX : (1u << length) - 1;
            lanes[i] = position >= 32 ? 0 : field << position;
        } else {
            uint32_t width = wraps ? b[i] & 31 : (b[i] > 32 ? 32 : b[i]);
            bool sign = in->types[0] == VT_S32 && width > 0 && (a[i] >> (width - 1) & 1) != 0;
            uint32_t field = width >= 32 ? UINT32_MAX : (1u << width) - 1;
            lanes[i] = sign ? a[i] | ~field : a[i] & field;
        }
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

/* ---- predicates ---- */

static bool exec_logic(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    uint32_t a = vm_predicate(warp, in, 1);
    uint32_t b = in->operands > 2 ? vm_predicate(warp, in, 2) : 0;
    uint32_t r = in->choice == VX_AND   ? a & b
                 : in->choice == VX_OR  ? a | b
                 : in->choice == VX_XOR ? a ^ b
                                        : ~a;
    vm_put_predicate(warp, in, 0, mask, r);
    return true;
}

#define LOGIC(name, value)                                                                         \
    static bool name(vm_parser *parser, vm_insn *in)                                               \
    {                                                                                              \
        (void)parser;                                                                              \
        in->choice = value;                                                                        \
        return true;                                                                               \
    }
LOGIC(hook_and, VX_AND)
LOGIC(hook_or, VX_OR)
LOGIC(hook_xor, VX_XOR)
LOGIC(hook_not, VX_NONE)

static uint32_t pack(const uint32_t *lanes)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < VM_LANES; i++) {
        mask |= lanes[i] << i;
    }
    return mask;
}

/* The comparison of operands i and i + 1 as a mask, in->kernel deciding lt, le, eq or ne. */
static uint32_t compare(const vm_warp *warp, const vm_insn *in, unsigned i)
{
    uint32_t lanes[VM_LANES];
    const void *a = vm_source(warp, in, i);
    const void *b = vm_source(warp, in, i + 1);
    bool swap = in->compare == VC_GT || in->compare == VC_GE || in->compare == VC_GTU ||
                in->compare == VC_GEU;
    in->kernel(lanes, swap ? b : a, swap ? a : b, a, in->flags);
    uint32_t mask = pack(lanes);
    if (in->compare >= VC_EQU) {
        /* Unordered forms are the ordered ones or a NaN; num is no NaN. */
        vm_type type = (vm_type)in->types[in->vector];
        vm_kernel *nan = vm_arith_kernel(type == VT_F64 ? AR_nan_f64 : AR_nan_f32);
        nan(lanes, a, b, a, in->flags);
        uint32_t unordered = pack(lanes);
        mask = in->compare == VC_NUM   ? ~unordered
               : in->compare == VC_NAN ? unordered
                                       : mask | unordered;
    }
    return mask;
}

static uint32_t exec_bits_combine(vm_choice how, uint32_t a, uint32_t b)
{
    return how == VX_AND ? a & b : (how == VX_OR ? a | b : (how == VX_XOR ? a ^ b : a));
}

/* setp p[|q], a, b [, c] */
static bool exec_setp(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    uint32_t result = compare(warp, in, 2);
    uint32_t c = in->operands > 4 ? vm_predicate(warp, in, 4) : 0;
    vm_put_predicate(warp, in, 0, mask, exec_bits_combine((vm_choice)in->choice, result, c));
    vm_put_predicate(warp, in, 1, mask, exec_bits_combine((vm_choice)in->choice, ~result, c));
    return true;
}

/* set d, a, b [, c]: all ones or zero, or 1.0 or 0.0. */
static bool exec_set(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    uint32_t c = in->operands > 3 ? vm_predicate(warp, in, 3) : 0;
    uint32_t result = exec_bits_combine((vm_choice)in->choice, compare(warp, in, 1), c);
    uint32_t lanes[VM_LANES];
    uint32_t yes = in->types[0] == VT_F32 ? 0x3f800000u : UINT32_MAX;
    for (unsigned i = 0; i < VM_LANES; i++) {
        lanes[i] = (result >> i & 1) != 0 ? yes : 0;
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

/* Chooses the kernel by type and comparison. vector keeps which type is compared. */
static bool choose_compare(vm_parser *parser, vm_insn *in, unsigned which)
{
    static const struct {
        vm_type type;
        int eq, ne, lt, le;
    } kernels[] = {{VT_B16, AR_eq_b16, AR_ne_b16, 0, 0},
                   {VT_U16, AR_eq_b16, AR_ne_b16, AR_lt_u16, AR_le_u16},
                   {VT_S16, AR_eq_b16, AR_ne_b16, AR_lt_s16, AR_le_s16},
                   {VT_B32, AR_eq_b32, AR_ne_b32, 0, 0},
                   {VT_U32, AR_eq_b32, AR_ne_b32, AR_lt_u32, AR_le_u32},
                   {VT_S32, AR_eq_b32, AR_ne_b32, AR_lt_s32, AR_le_s32},
                   {VT_B64, AR_eq_b64, AR_ne_b64, 0, 0},
                   {VT_U64, AR_eq_b64, AR_ne_b64, AR_lt_u64, AR_le_u64},
                   {VT_S64, AR_eq_b64, AR_ne_b64, AR_lt_s64, AR_le_s64},
                   {VT_F32, AR_eq_f32, AR_ne_f32, AR_lt_f32, AR_le_f32},
                   {VT_F64, AR_eq_f64, AR_ne_f64, AR_lt_f64, AR_le_f64}};
    in->vector = (uint8_t)which;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (kernels[i].type != (vm_type)in->types[which]) {
            continue;
        }
        int chosen = 0;
        switch (in->compare) {
        case VC_EQ:
        case VC_EQU:
            chosen = kernels[i].eq;
            break;
        case VC_NE:
        case VC_NEU:
            chosen = kernels[i].ne;
            break;
        case VC_LE:
        case VC_GE:
        case VC_LEU:
        case VC_GEU:
            chosen = kernels[i].le;
            break;
        default:
            chosen = kernels[i].lt;
            break;
        }
        in->kernel = vm_arith_kernel(chosen);
        bool fits = chosen != 0 && (in->compare < VC_EQU || kernels[i].type >= VT_F32);
        return fits || vm_parse_fail(parser, VM_INVALID_PTX, "no such comparison of this type");
    }
    return vm_parse_fail(parser, VM_INVALID_PTX, "no such comparison of this type");
}
static bool hook_setp(vm_parser *parser, vm_insn *in)
{
    return choose_compare(parser, in, 0);
}
static bool hook_set(vm_parser *parser, vm_insn *in)
{
    return choose_compare(parser, in, 1);
}

#define CMP  "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan"
#define INTS "b16|u16|s16|b32|u32|s32|b64|u64|s64"
#define K    vm_exec_kernel
#define FAST(pattern, shape, name)                                                                 \
    {                                                                                              \
        pattern, shape, K, NULL, AR_##name, SY_NONE, NULL                                          \
    }
#define SLOW(pattern, shape, name)                                                                 \
    {                                                                                              \
        pattern, shape, K, name, AR_NONE, SY_NONE, NULL                                            \
    }
#define EXEC(pattern, shape, exec, hook)                                                           \
    {                                                                                              \
        pattern, shape, exec, NULL, AR_NONE, SY_NONE, hook                                         \
    }

const vm_row vm_rows_bits[] = {
    EXEC("setp." CMP ".ftz?." INTS "|f32|f64", "P R s0 s0", exec_setp, hook_setp),
    EXEC("setp." CMP ".and|or|xor.ftz?." INTS "|f32|f64", "P R s0 s0 p", exec_setp, hook_setp),
    EXEC("set." CMP ".ftz?.u32|s32|f32." INTS "|f32|f64", "d0 s1 s1", exec_set, hook_set),
    EXEC("set." CMP ".and|or|xor.ftz?.u32|s32|f32." INTS "|f32|f64", "d0 s1 s1 p", exec_set,
         hook_set),
    EXEC("and.pred", "P p p", exec_logic, hook_and),
    EXEC("or.pred", "P p p", exec_logic, hook_or),
    EXEC("xor.pred", "P p p", exec_logic, hook_xor),
    EXEC("not.pred", "P p", exec_logic, hook_not),
    FAST("and.b16", "d0 s0 s0", and_b16),
    FAST("and.b32", "d0 s0 s0", and_b32),
    FAST("and.b64", "d0 s0 s0", and_b64),
    FAST("or.b16", "d0 s0 s0", or_b16),
    FAST("or.b32", "d0 s0 s0", or_b32),
    FAST("or.b64", "d0 s0 s0", or_b64),
    FAST("xor.b16", "d0 s0 s0", xor_b16),
    FAST("xor.b32", "d0 s0 s0", xor_b32),
    FAST("xor.b64", "d0 s0 s0", xor_b64),
    FAST("not.b16", "d0 s0", not_b16),
    FAST("not.b32", "d0 s0", not_b32),
    FAST("not.b64", "d0 s0", not_b64),
    SLOW("cnot.b16", "d0 s0", cnot_b16),
    SLOW("cnot.b32", "d0 s0", cnot_b32),
    SLOW("cnot.b64", "d0 s0", cnot_b64),
    FAST("shl.b16", "d0 s0 u", shl_b16),
    FAST("shl.b32", "d0 s0 u", shl_b32),
    FAST("shl.b64", "d0 s0 u", shl_b64),
    FAST("shr.u16|b16", "d0 s0 u", shr_u16),
    FAST("shr.u32|b32", "d0 s0 u", shr_u32),
    FAST("shr.u64|b64", "d0 s0 u", shr_u64),
    FAST("shr.s16", "d0 s0 u", shr_s16),
    FAST("shr.s32", "d0 s0 u", shr_s32),
    FAST("shr.s64", "d0 s0 u", shr_s64),
    SLOW("popc.b32", "U s0", popc_b32),
    SLOW("popc.b64", "U s0", popc_b64),
    SLOW("clz.b32", "U s0", clz_b32),
    SLOW("clz.b64", "U s0", clz_b64),
    SLOW("brev.b32", "d0 s0", brev_b32),
    SLOW("brev.b64", "d0 s0", brev_b64),
    SLOW("bfind.shiftamt?.u32", "U s0", bfind_u32),
    SLOW("bfind.shiftamt?.s32", "U s0", bfind_s32),
    SLOW("bfind.shiftamt?.u64", "U s0", bfind_u64),
    SLOW("bfind.shiftamt?.s64", "U s0", bfind_s64),
    SLOW("fns.b32", "d0 s0 s0 s0", fns_b32),
    EXEC("bfe.u32|s32|u64|s64", "d0 s0 u u", exec_field, NULL),
    EXEC("bfi.b32|b64", "d0 s0 s0 u u", exec_field, NULL),
    EXEC("prmt.b32.f4e|b4e|rc8|ecl|ecr|rc16?", "d0 s0 s0 s0", exec_permute, NULL),
    EXEC("lop3.b32", "d0 s0 s0 s0 s0", exec_lop3, NULL),
    EXEC("shf.l|r.clamp|wrap.b32", "d0 s0 s0 u", exec_funnel, NULL),
    EXEC("bmsk.clamp|wrap.b32", "d0 s0 s0", exec_mask, NULL),
    EXEC("szext.clamp|wrap.u32|s32", "d0 s0 u", exec_mask, NULL),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
