/* SPDX-License-Identifier: MIT */
/* cvt: every pair of types through an exact middle (a 64-bit integer or a double), rounded once. */
#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"
#include "tools/ptxvm/exec/softfloat.h"

/* A value on its way: an integer (with its signedness) or a double that holds it exactly. */
typedef struct middle {
    bool real;
    bool negative; /* integers: the bits are a negative two's complement number */
    bool from_f64;
    uint64_t bits;
    double value;
} middle;

static uint64_t cut(uint64_t bits, unsigned bytes)
{
    return bytes >= 8 ? bits : bits & ((1ull << (bytes * 8)) - 1);
}

static uint64_t extend(uint64_t bits, unsigned bytes)
{
    uint64_t sign = 1ull << (bytes * 8 - 1);
    return bytes >= 8 ? bits : (cut(bits, bytes) ^ sign) - sign;
}

static middle exec_convert_load(vm_type type, uint64_t bits, unsigned how)
{
    middle m = {true, false, type == VT_F64, 0, 0.0};
    switch (type) {
    case VT_F16:
        m.value = vm_f64_of_f16((uint16_t)bits);
        return m;
    case VT_BF16:
        m.value = vm_f64_of_bf16((uint16_t)bits);
        return m;
    case VT_F32:
        m.value = (double)vm_flush_f32(vm_f32_bits((uint32_t)bits), how);
        return m;
    case VT_F64:
        m.value = vm_f64_bits(bits);
        return m;
    default:
        break;
    }
    unsigned bytes = vm_type_bytes(type);
    m.real = false;
    m.bits = vm_type_signed(type) ? extend(bits, bytes) : cut(bits, bytes);
    m.negative = vm_type_signed(type) && (m.bits >> 63) != 0;
    return m;
}

static double integral(double value, unsigned round)
{
    switch (round) {
    case VR_RZ:
        return trunc(value);
    case VR_RM:
        return floor(value);
    case VR_RP:
        return ceil(value);
    default:
        return rint(value);
    }
}

/* A float to an integer clamps to the range. NaN becomes 0 when neither the source is f64 nor the
 * target has 64 bits, else the target's top bit alone (PTX manual, cvt). */
static uint64_t integer_of_real(const middle *m, vm_type type, unsigned round)
{
    double value = m->value;
    unsigned bits = vm_type_bytes(type) * 8;
    bool is_signed = vm_type_signed(type);
    double whole = integral(value, round);
    if (value != value) {
        uint64_t top = m->from_f64 || bits == 64 ? 1ull << (bits - 1) : 0;
        return is_signed ? extend(top, bits / 8) : top;
    }
    double high = ldexp(1.0, (int)(is_signed ? bits - 1 : bits));
    if (whole >= high) {
        return is_signed ? (1ull << (bits - 1)) - 1 : cut(~0ull, bits / 8);
    }
    if (is_signed) {
        return whole < -high ? extend(1ull << (bits - 1), bits / 8) : (uint64_t)(int64_t)whole;
    }
    return whole <= 0 ? 0 : (uint64_t)whole;
}

static uint64_t saturate(const middle *m, vm_type type)
{
    unsigned bits = vm_type_bytes(type) * 8;
    bool to_signed = vm_type_signed(type);
    uint64_t top = to_signed ? (1ull << (bits - 1)) - 1 : cut(~0ull, bits / 8);
    if (m->negative) {
        if (!to_signed) {
            return 0;
        }
        int64_t least = -(int64_t)top - 1;
        return (int64_t)m->bits < least ? (uint64_t)least : m->bits;
    }
    return m->bits > top ? top : m->bits;
}

/* An integer as the exact sum of two doubles. */
static double split_integer(const middle *m, double *low)
{
    *low = (double)(m->bits & 0xffffffffu);
    return m->negative ? (double)((int64_t)m->bits >> 32) * 0x1p32
                       : (double)(m->bits >> 32) * 0x1p32;
}

static uint64_t store_f32(const middle *m, unsigned how)
{
    unsigned round = how & VF_ROUND_MASK;
    if (!m->real) {
        double low;
        double high = split_integer(m, &low);
        double odd = vm_add_odd(high, low); /* 53 bits keep the direction of any rounding */
        return vm_bits_f32(vm_finish_f32(vm_round_f32(odd, 0.0, round), how));
    }
    double value = (how & VF_INTEGER) != 0 ? integral(m->value, round) : m->value;
    if ((how & VF_INTEGER) != 0 && value == 0.0) {
        value = signbit(m->value) != 0 ? -0.0 : 0.0;
    }
    return vm_bits_f32(vm_finish_f32(vm_round_f32(value, 0.0, round), how));
}

static uint64_t store_f64(const middle *m, unsigned how)
{
    unsigned round = how & VF_ROUND_MASK;
    double value = m->value;
    if (!m->real) {
        double low;
        double high = split_integer(m, &low);
        value = vm_slow_add_f64(high, low, round);
    } else if ((how & VF_INTEGER) != 0) {
        value = integral(value, round);
    }
    if ((how & VF_SAT) != 0) {
        value = value > 0.0 ? (value < 1.0 ? value : 1.0) : 0.0;
    }
    return vm_bits_f64(value);
}

static uint64_t store_half(const middle *m, vm_type type, unsigned how)
{
    double value = m->value;
    bool pair_rule = (how & VF_CLAMP) != 0; /* .satfinite clamps to the largest finite number */
    if (!m->real) {
        double low;
        double high = split_integer(m, &low);
        value = vm_add_odd(high, low);
    } else if ((how & VF_INTEGER) != 0) {
        value = integral(value, how & VF_ROUND_MASK);
    }
    if ((how & VF_SAT) != 0 && !pair_rule) {
        value = value > 0.0 ? (value < 1.0 ? value : 1.0) : 0.0;
        how &= ~(unsigned)VF_SAT;
    }
    return type == VT_BF16 ? vm_bf16_of_f64(value, how) : vm_f16_of_f64(value, how);
}

static uint64_t exec_convert_store(const middle *m, vm_type type, unsigned how)
{
    switch (type) {
    case VT_F32:
        return store_f32(m, how);
    case VT_F64:
        return store_f64(m, how);
    case VT_F16:
    case VT_BF16:
        return store_half(m, type, how);
    default:
        break;
    }
    if (m->real) {
        return integer_of_real(m, type, how & VF_ROUND_MASK);
    }
    uint64_t bits = (how & VF_SAT) != 0 ? saturate(m, type) : m->bits;
    unsigned bytes = vm_type_bytes(type);
    return vm_type_signed(type) ? extend(bits, bytes) : cut(bits, bytes);
}

static bool exec_convert(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_type to = (vm_type)in->types[0];
    vm_type from = (vm_type)in->types[1];
    const vm_operand *target = vm_operand_at(warp, in, 0);
    const vm_operand *source = vm_operand_at(warp, in, 1);
    const void *a = vm_source(warp, in, 1);
    uint64_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        middle m = exec_convert_load(from, vm_lane(a, source->bytes, i), in->flags);
        vm_set_lane(lanes, target->bytes, i, exec_convert_store(&m, to, in->flags));
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

/* cvt.rn.f16x2.f32 d, a, b: a becomes the upper half. */
static bool exec_convert_pair(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_type half = in->types[0] == VT_BF16X2 ? VT_BF16 : VT_F16;
    const uint32_t *a = vm_source(warp, in, 1);
    const uint32_t *b = vm_source(warp, in, 2);
    uint32_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        middle high = exec_convert_load(VT_F32, a[i], 0);
        middle low = exec_convert_load(VT_F32, b[i], 0);
        lanes[i] = (uint32_t)store_half(&high, half, in->flags) << 16 |
                   (uint32_t)store_half(&low, half, in->flags);
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

static bool exec_tf32(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const float *a = vm_source(warp, in, 1);
    uint32_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        lanes[i] = vm_tf32_of_f32(a[i], in->flags);
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

/* cvt.pack.sat.dtype.s32 d, a, b: a above b, each clamped; a form with c shifts that up. */
static bool exec_pack(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_type part = (vm_type)in->types[0];
    unsigned bits = vm_type_bytes(part) * 8;
    const uint32_t *a = vm_source(warp, in, 1);
    const uint32_t *b = vm_source(warp, in, 2);
    const uint32_t *c = in->operands > 3 ? vm_source(warp, in, 3) : NULL;
    uint32_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        middle high = exec_convert_load(VT_S32, a[i], 0);
        middle low = exec_convert_load(VT_S32, b[i], 0);
        uint32_t h = (uint32_t)cut(saturate(&high, part), bits / 8);
        uint32_t l = (uint32_t)cut(saturate(&low, part), bits / 8);
        uint32_t rest = c != NULL && bits == 8 ? c[i] << 16 : 0;
        lanes[i] = rest | h << bits | l;
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

/* Common conversions between registers of exactly the types' sizes have kernels of their own. */
static bool hook_convert(vm_parser *parser, vm_insn *in)
{
    static const struct {
        vm_type to;
        vm_type from;
        uint32_t flags;
        int kernel;
    } fast[] = {{VT_F32, VT_S32, 0, AR_f32_of_s32},   {VT_F32, VT_U32, 0, AR_f32_of_u32},
                {VT_S64, VT_S32, 0, AR_s64_of_s32},   {VT_U64, VT_U32, 0, AR_u64_of_u32},
                {VT_S64, VT_U32, 0, AR_u64_of_u32},   {VT_U32, VT_U64, 0, AR_u32_of_u64},
                {VT_U32, VT_S64, 0, AR_u32_of_u64},   {VT_S32, VT_S64, 0, AR_u32_of_u64},
                {VT_S32, VT_U64, 0, AR_u32_of_u64},   {VT_F32, VT_BF16, 0, AR_f32_of_bf16},
                {VT_BF16, VT_F32, 0, AR_bf16_of_f32}, {VT_F64, VT_F32, 0, AR_f64_of_f32},
                {VT_U32, VT_U16, 0, AR_u32_of_u16},   {VT_S32, VT_S16, 0, AR_s32_of_s16},
                {VT_U16, VT_U32, 0, AR_u16_of_u32},   {VT_U64, VT_S32, 0, AR_s64_of_s32}};
    const vm_operand *operands = (const vm_operand *)parser->operands.items + in->first;
    bool exact = operands[0].bytes == vm_type_bytes((vm_type)in->types[0]) &&
                 operands[1].bytes == vm_type_bytes((vm_type)in->types[1]);
    bool to_float = vm_type_float((vm_type)in->types[0]);
    bool from_float = vm_type_float((vm_type)in->types[1]);
    if (from_float && !to_float && (in->flags & VF_INTEGER) == 0) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "cvt to an integer needs a rounding");
    }
    for (size_t i = 0; exact && i < sizeof fast / sizeof fast[0]; i++) {
        if (fast[i].to == (vm_type)in->types[0] && fast[i].from == (vm_type)in->types[1] &&
            in->flags == fast[i].flags) {
            in->kernel = vm_arith_kernel(fast[i].kernel);
            in->exec = vm_exec_kernel;
        }
    }
    return true;
}

static bool hook_pair(vm_parser *parser, vm_insn *in)
{
    (void)parser;
    in->flags |= VF_CLAMP;
    return true;
}

#define ANY   "u8|s8|u16|s16|u32|s32|u64|s64|f16|bf16|f32|f64"
#define ROUND "rn|rz|rm|rp|rni|rzi|rmi|rpi"

const vm_row vm_rows_convert[] = {
    {"cvt." ROUND "?.ftz?.sat?." ANY "." ANY, "D0 S1", exec_convert, NULL, 0, SY_NONE,
     hook_convert},
    {"cvt.rn|rz.relu.f16|bf16.f32", "D0 S1", exec_convert, NULL, 0, SY_NONE, NULL},
    {"cvt.rn|rz.relu?.satfinite.f16|bf16.f32", "D0 S1", exec_convert, NULL, 0, SY_NONE, hook_pair},
    {"cvt.rn|rz.relu?.satfinite?.f16x2|bf16x2.f32", "d0 s1 s1", exec_convert_pair, NULL, 0, SY_NONE,
     hook_pair},
    {"cvt.rna|rn|rz.relu?.tf32.f32", "d0 s1", exec_tf32, NULL, 0, SY_NONE, NULL},
    {"cvt.pack.sat.u16|s16.s32", "U s1 s1", exec_pack, NULL, 0, SY_NONE, NULL},
    {"cvt.pack.sat.u8|s8.s32.b32", "U s1 s1 s2", exec_pack, NULL, 0, SY_NONE, NULL},
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
