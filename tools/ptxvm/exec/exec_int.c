/* SPDX-License-Identifier: MIT */
/* Integer instructions: sums, products, quotients, extrema, carries, dot products. */
#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/exec/lanes.h"
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

static int32_t saturate(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : (value < INT32_MIN ? INT32_MIN : (int32_t)value);
}

OP(add_sat, int32_t, int32_t, saturate((int64_t)x + y))
OP(sub_sat, int32_t, int32_t, saturate((int64_t)x - y))
OP3(mad_hi_sat, int32_t, int32_t, int32_t, saturate((((int64_t)x * y) >> 32) + z))

static uint64_t high_u64(uint64_t a, uint64_t b)
{
    uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    uint64_t low = a0 * b0;
    uint64_t middle = a1 * b0 + (low >> 32);
    uint64_t other = a0 * b1 + (middle & 0xffffffffu);
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

static uint64_t high_s64(uint64_t a, uint64_t b)
{
    uint64_t high = high_u64(a, b);
    high -= (int64_t)a < 0 ? b : 0;
    return high - ((int64_t)b < 0 ? a : 0);
}

OP(hi_u16, uint16_t, uint16_t, ((uint32_t)x * y) >> 16)
OP(hi_s16, uint16_t, int16_t, ((int32_t)x * y) >> 16)
OP(hi_u32, uint32_t, uint32_t, ((uint64_t)x * y) >> 32)
OP(hi_s32, uint32_t, int32_t, ((int64_t)x * y) >> 32)
OP(hi_u64, uint64_t, uint64_t, high_u64(x, y))
OP(hi_s64, uint64_t, uint64_t, high_s64(x, y))
OP(wide_u16, uint32_t, uint16_t, (uint32_t)x *y)
OP(wide_s16, int32_t, int16_t, (int32_t)x *y)
OP3(mad_u16, uint16_t, uint16_t, uint16_t, (uint32_t)x *y + z)
OP3(mad_hi_u16, uint16_t, uint16_t, uint16_t, (((uint32_t)x * y) >> 16) + z)
OP3(mad_hi_s16, uint16_t, int16_t, uint16_t, (uint32_t)(((int32_t)x * y) >> 16) + z)
OP3(mad_hi_u32, uint32_t, uint32_t, uint32_t, (((uint64_t)x * y) >> 32) + z)
OP3(mad_hi_s32, uint32_t, int32_t, uint32_t, (uint32_t)(((int64_t)x * y) >> 32) + z)
OP3(mad_hi_u64, uint64_t, uint64_t, uint64_t, high_u64(x, y) + z)
OP3(mad_hi_s64, uint64_t, uint64_t, uint64_t, high_s64(x, y) + z)
OP3(mad_wide_u16, uint32_t, uint16_t, uint32_t, (uint32_t)x *y + z)
OP3(mad_wide_s16, uint32_t, int16_t, uint32_t, (uint32_t)((int32_t)x *y) + z)
/* Products of 24 bits: .lo is the low 32 bits of 48, .hi the high 32. */
static int64_t times24_s(int32_t a, int32_t b)
{
    return ((int64_t)(int32_t)((uint32_t)a << 8) >> 8) * ((int32_t)((uint32_t)b << 8) >> 8);
}
static uint64_t times24_u(uint32_t a, uint32_t b)
{
    return (uint64_t)(a & 0xffffffu) * (b & 0xffffffu);
}
OP(mul24_s32, int32_t, int32_t, times24_s(x, y))
OP(mul24_u32, uint32_t, uint32_t, times24_u(x, y))
OP(mul24_hi_s32, int32_t, int32_t, times24_s(x, y) >> 16)
OP(mul24_hi_u32, uint32_t, uint32_t, times24_u(x, y) >> 16)
OP3(mad24_s32, uint32_t, int32_t, uint32_t, (uint32_t)times24_s(x, y) + z)
OP3(mad24_u32, uint32_t, uint32_t, uint32_t, (uint32_t)times24_u(x, y) + z)
OP3(mad24_hi_s32, uint32_t, int32_t, uint32_t, (uint32_t)(times24_s(x, y) >> 16) + z)
OP3(mad24_hi_u32, uint32_t, uint32_t, uint32_t, (uint32_t)(times24_u(x, y) >> 16) + z)
OP3(mad24_hi_sat, int32_t, int32_t, int32_t, saturate((times24_s(x, y) >> 16) + z))

/* Division by zero gives all ones (unsigned) as the hardware does; the manual leaves it open. */
OP(div_u16, uint16_t, uint16_t, y == 0 ? 0xffff : x / y)
OP(div_s16, int16_t, int16_t, y == 0 ? -1 : (int32_t)x / y)
OP(div_u32, uint32_t, uint32_t, y == 0 ? UINT32_MAX : x / y)
OP(div_s32, int32_t, int32_t, y == 0 ? -1 : (int64_t)x / y)
OP(div_u64, uint64_t, uint64_t, y == 0 ? UINT64_MAX : x / y)
OP(div_s64, int64_t, int64_t, y == 0 ? -1 : (y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y))
OP(rem_u16, uint16_t, uint16_t, y == 0 ? x : x % y)
OP(rem_s16, int16_t, int16_t, y == 0 ? x : (int32_t)x % y)
OP(rem_u32, uint32_t, uint32_t, y == 0 ? x : x % y)
OP(rem_s32, int32_t, int32_t, y == 0 ? x : (int64_t)x % y)
OP(rem_u64, uint64_t, uint64_t, y == 0 ? x : x % y)
OP(rem_s64, int64_t, int64_t, y == 0 ? x : (y == -1 ? 0 : x % y))

OP3(sad_u32, uint32_t, uint32_t, uint32_t, z + (x < y ? y - x : x - y))
OP3(sad_s32, uint32_t, int32_t, uint32_t,
    z + (x < y ? (uint32_t)y - (uint32_t)x : (uint32_t)x - (uint32_t)y))
OP3(sad_u16, uint16_t, uint16_t, uint16_t, z + (x < y ? y - x : x - y))
OP3(sad_s16, uint16_t, int16_t, uint16_t, z + (x < y ? y - x : x - y))
OP3(sad_u64, uint64_t, uint64_t, uint64_t, z + (x < y ? y - x : x - y))
OP3(sad_s64, uint64_t, int64_t, uint64_t,
    z + (x < y ? (uint64_t)y - (uint64_t)x : (uint64_t)x - (uint64_t)y))
OP(min_s32_relu, int32_t, int32_t, (x < y ? x : y) < 0 ? 0 : (x < y ? x : y))
OP(max_s32_relu, int32_t, int32_t, (x > y ? x : y) < 0 ? 0 : (x > y ? x : y))

OP(min_s16_relu, int16_t, int16_t, (x < y ? x : y) < 0 ? 0 : (x < y ? x : y))
OP(max_s16_relu, int16_t, int16_t, (x > y ? x : y) < 0 ? 0 : (x > y ? x : y))

/* dp4a: four products of bytes and an accumulator; the signs of a and b are chosen apart. */
static uint32_t dot4(uint32_t a, uint32_t b, uint32_t c, bool signed_a, bool signed_b)
{
    for (unsigned i = 0; i < 32; i += 8) {
        uint32_t x = (a >> i) & 0xffu;
        uint32_t y = (b >> i) & 0xffu;
        int32_t p = signed_a ? (int8_t)x : (int32_t)x;
        int32_t q = signed_b ? (int8_t)y : (int32_t)y;
        c += (uint32_t)(p * q);
    }
    return c;
}
OP3(dp4a_uu, uint32_t, uint32_t, uint32_t, dot4(x, y, z, false, false))
OP3(dp4a_us, uint32_t, uint32_t, uint32_t, dot4(x, y, z, false, true))
OP3(dp4a_su, uint32_t, uint32_t, uint32_t, dot4(x, y, z, true, false))
OP3(dp4a_ss, uint32_t, uint32_t, uint32_t, dot4(x, y, z, true, true))

static uint32_t dot2(uint32_t a, uint32_t b, uint32_t c, bool signed_a, bool signed_b, bool high)
{
    for (unsigned i = 0; i < 2; i++) {
        uint32_t x = (a >> (16 * i)) & 0xffffu;
        uint32_t y = (b >> (8 * i + (high ? 16 : 0))) & 0xffu;
        int32_t p = signed_a ? (int16_t)x : (int32_t)x;
        int32_t q = signed_b ? (int8_t)y : (int32_t)y;
        c += (uint32_t)p * (uint32_t)q;
    }
    return c;
}
OP3(dp2a_lo_ss, uint32_t, uint32_t, uint32_t, dot2(x, y, z, true, true, false))
OP3(dp2a_hi_ss, uint32_t, uint32_t, uint32_t, dot2(x, y, z, true, true, true))
OP3(dp2a_lo_uu, uint32_t, uint32_t, uint32_t, dot2(x, y, z, false, false, false))
OP3(dp2a_hi_uu, uint32_t, uint32_t, uint32_t, dot2(x, y, z, false, false, true))
OP3(dp2a_lo_su, uint32_t, uint32_t, uint32_t, dot2(x, y, z, true, false, false))
OP3(dp2a_hi_su, uint32_t, uint32_t, uint32_t, dot2(x, y, z, true, false, true))
OP3(dp2a_lo_us, uint32_t, uint32_t, uint32_t, dot2(x, y, z, false, true, false))
OP3(dp2a_hi_us, uint32_t, uint32_t, uint32_t, dot2(x, y, z, false, true, true))

/* ---- carries: one bit for each lane of a warp ---- */

/* Sum of two numbers and a carry of `bits` bits; *out is the carry. */
static uint64_t add_carry(uint64_t a, uint64_t b, uint64_t carry, unsigned bits, bool *out)
{
    uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
    uint64_t sum = a + b;
    bool over = sum < a;
    uint64_t total = sum + carry;
    over = over || total < sum;
    *out = bits == 64 ? over : (total >> bits) != 0;
    return total & mask;
}

/* add, sub, mad with .cc or their c forms. choice: VX_ADD, VX_MIN (subtract) or VX_MAX (mad). */
static bool exec_carry(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    unsigned bytes = vm_type_bytes((vm_type)in->types[0]);
    const void *a = vm_source(warp, in, 1);
    const void *b = vm_source(warp, in, 2);
    const void *c = in->operands > 3 ? vm_source(warp, in, 3) : NULL;
    uint64_t lanes[VM_LANES];
    uint64_t all = bytes == 8 ? ~0ull : 0xffffffffu;
    bool takes = in->vector != 0;
    for (unsigned i = 0; i < VM_LANES; i++) {
        uint64_t x = vm_lane(a, bytes, i);
        uint64_t y = vm_lane(b, bytes, i);
        uint64_t carry = takes ? warp->carry >> i & 1 : 0;
        bool out = false;
        uint64_t result;
        if (in->choice2 == VX_MIN) {
            /* x - y - borrow = x + ~y + !borrow, and the borrow is the missing carry. */
            result = add_carry(x, ~y & all, 1 - carry, bytes * 8, &out);
            out = !out;
        } else {
            if (in->choice2 == VX_MAX) {
                bool high = in->compare == VC_GT;
                uint64_t product = x * y;
                if (high) {
                    bool is_signed = vm_type_signed((vm_type)in->types[0]);
                    product = bytes == 8  ? (is_signed ? high_s64(x, y) : high_u64(x, y))
                              : is_signed ? (uint64_t)(((int64_t)(int32_t)x * (int32_t)y) >> 32)
                                          : product >> 32;
                }
                x = product & all;
                y = vm_lane(c, bytes, i);
            }
            result = add_carry(x, y, carry, bytes * 8, &out);
        }
        vm_set_lane(lanes, bytes, i, result);
        if ((in->flags & VF_CC) != 0 && (mask >> i & 1) != 0) {
            warp->carry = (warp->carry & ~(1u << i)) | (out ? 1u << i : 0);
        }
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

static bool hook_add_cc(vm_parser *parser, vm_insn *in)
{
    (void)parser;
    in->choice2 = VX_ADD;
    return true;
}
static bool hook_addc(vm_parser *parser, vm_insn *in)
{
    in->vector = 1;
    return hook_add_cc(parser, in);
}
static bool hook_sub_cc(vm_parser *parser, vm_insn *in)
{
    (void)parser;
    in->choice2 = VX_MIN;
    return true;
}
static bool hook_subc(vm_parser *parser, vm_insn *in)
{
    in->vector = 1;
    return hook_sub_cc(parser, in);
}
static bool hook_mad_cc(vm_parser *parser, vm_insn *in)
{
    (void)parser;
    in->choice2 = VX_MAX;
    return true;
}
static bool hook_madc(vm_parser *parser, vm_insn *in)
{
    in->vector = 1;
    return hook_mad_cc(parser, in);
}

#define K vm_exec_kernel
#define FAST(pattern, shape, name)                                                                 \
    {                                                                                              \
        pattern, shape, K, NULL, AR_##name, SY_NONE, NULL                                          \
    }
#define SLOW(pattern, shape, name)                                                                 \
    {                                                                                              \
        pattern, shape, K, name, AR_NONE, SY_NONE, NULL                                            \
    }
#define PAIR(pattern, shape, kernel, fast)                                                         \
    {                                                                                              \
        pattern, shape, vm_exec_pair, kernel, fast, SY_NONE, NULL                                  \
    }
#define CARRY(pattern, shape, hook)                                                                \
    {                                                                                              \
        pattern, shape, exec_carry, NULL, AR_NONE, SY_NONE, hook                                   \
    }
#define TWO   "d0 s0 s0"
#define THREE "d0 s0 s0 s0"

/* .wide: the result has twice the width of the types named. */
static bool hook_wide(vm_parser *parser, vm_insn *in)
{
    vm_type wide = vm_type_bytes((vm_type)in->types[0]) == 2 ? VT_B32 : VT_B64;
    vm_type narrow = (vm_type)in->types[0];
    if (parser->node_count != 3 && parser->node_count != 4) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wrong number of operands");
    }
    return vm_add_target(parser, in, &parser->nodes[0], wide, false) &&
           vm_add_source(parser, in, &parser->nodes[1], narrow, false) &&
           vm_add_source(parser, in, &parser->nodes[2], narrow, false) &&
           (parser->node_count == 3 || vm_add_source(parser, in, &parser->nodes[3], wide, false));
}
#define WIDE(pattern, fast, kernel)                                                                \
    {                                                                                              \
        pattern, NULL, K, kernel, fast, SY_NONE, hook_wide                                         \
    }

const vm_row vm_rows_integer[] = {FAST("add.u16|s16", TWO, add_u16),
                                  FAST("add.u32|s32", TWO, add_u32),
                                  FAST("add.u64|s64", TWO, add_u64),
                                  PAIR("add.u16x2|s16x2", TWO, NULL, AR_add_u16),
                                  PAIR("min.u16x2", TWO, NULL, AR_min_u16),
                                  PAIR("min.s16x2", TWO, NULL, AR_min_s16),
                                  PAIR("min.relu?.s16x2.relu?", TWO, min_s16_relu, AR_NONE),
                                  PAIR("max.u16x2", TWO, NULL, AR_max_u16),
                                  PAIR("max.s16x2", TWO, NULL, AR_max_s16),
                                  PAIR("max.relu?.s16x2.relu?", TWO, max_s16_relu, AR_NONE),
                                  SLOW("add.sat.s32", TWO, add_sat),
                                  FAST("sub.u16|s16", TWO, sub_u16),
                                  FAST("sub.u32|s32", TWO, sub_u32),
                                  FAST("sub.u64|s64", TWO, sub_u64),
                                  SLOW("sub.sat.s32", TWO, sub_sat),
                                  FAST("mul.lo.u16|s16", TWO, mul_u16),
                                  FAST("mul.lo.u32|s32", TWO, mul_u32),
                                  FAST("mul.lo.u64|s64", TWO, mul_u64),
                                  SLOW("mul.hi.u16", TWO, hi_u16),
                                  SLOW("mul.hi.s16", TWO, hi_s16),
                                  SLOW("mul.hi.u32", TWO, hi_u32),
                                  SLOW("mul.hi.s32", TWO, hi_s32),
                                  SLOW("mul.hi.u64", TWO, hi_u64),
                                  SLOW("mul.hi.s64", TWO, hi_s64),
                                  WIDE("mul.wide.u16", AR_NONE, wide_u16),
                                  WIDE("mul.wide.s16", AR_NONE, wide_s16),
                                  WIDE("mul.wide.u32", AR_wide_u32, NULL),
                                  WIDE("mul.wide.s32", AR_wide_s32, NULL),
                                  SLOW("mul24.lo.s32", TWO, mul24_s32),
                                  SLOW("mul24.lo.u32", TWO, mul24_u32),
                                  SLOW("mul24.hi.s32", TWO, mul24_hi_s32),
                                  SLOW("mul24.hi.u32", TWO, mul24_hi_u32),
                                  SLOW("mad24.lo.s32", THREE, mad24_s32),
                                  SLOW("mad24.lo.u32", THREE, mad24_u32),
                                  SLOW("mad24.hi.s32", THREE, mad24_hi_s32),
                                  SLOW("mad24.hi.u32", THREE, mad24_hi_u32),
                                  SLOW("mad24.hi.sat.s32", THREE, mad24_hi_sat),
                                  SLOW("mad.lo.u16|s16", THREE, mad_u16),
                                  FAST("mad.lo.u32|s32", THREE, mad_u32),
                                  FAST("mad.lo.u64|s64", THREE, mad_u64),
                                  SLOW("mad.hi.u16", THREE, mad_hi_u16),
                                  SLOW("mad.hi.s16", THREE, mad_hi_s16),
                                  SLOW("mad.hi.u32", THREE, mad_hi_u32),
                                  SLOW("mad.hi.s32", THREE, mad_hi_s32),
                                  SLOW("mad.hi.sat.s32", THREE, mad_hi_sat),
                                  SLOW("mad.hi.u64", THREE, mad_hi_u64),
                                  SLOW("mad.hi.s64", THREE, mad_hi_s64),
                                  WIDE("mad.wide.u16", AR_NONE, mad_wide_u16),
                                  WIDE("mad.wide.s16", AR_NONE, mad_wide_s16),
                                  WIDE("mad.wide.u32", AR_mad_wide_u32, NULL),
                                  WIDE("mad.wide.s32", AR_mad_wide_s32, NULL),
                                  SLOW("div.u16", TWO, div_u16),
                                  SLOW("div.s16", TWO, div_s16),
                                  SLOW("div.u32", TWO, div_u32),
                                  SLOW("div.s32", TWO, div_s32),
                                  SLOW("div.u64", TWO, div_u64),
                                  SLOW("div.s64", TWO, div_s64),
                                  SLOW("rem.u16", TWO, rem_u16),
                                  SLOW("rem.s16", TWO, rem_s16),
                                  SLOW("rem.u32", TWO, rem_u32),
                                  SLOW("rem.s32", TWO, rem_s32),
                                  SLOW("rem.u64", TWO, rem_u64),
                                  SLOW("rem.s64", TWO, rem_s64),
                                  FAST("min.u16", TWO, min_u16),
                                  FAST("min.s16", TWO, min_s16),
                                  FAST("min.u32", TWO, min_u32),
                                  FAST("min.s32", TWO, min_s32),
                                  SLOW("min.relu?.s32.relu?", TWO, min_s32_relu),
                                  FAST("min.u64", TWO, min_u64),
                                  FAST("min.s64", TWO, min_s64),
                                  FAST("max.u16", TWO, max_u16),
                                  FAST("max.s16", TWO, max_s16),
                                  FAST("max.u32", TWO, max_u32),
                                  FAST("max.s32", TWO, max_s32),
                                  SLOW("max.relu?.s32.relu?", TWO, max_s32_relu),
                                  FAST("max.u64", TWO, max_u64),
                                  FAST("max.s64", TWO, max_s64),
                                  FAST("neg.s16", "d0 s0", neg_s16),
                                  FAST("neg.s32", "d0 s0", neg_s32),
                                  FAST("neg.s64", "d0 s0", neg_s64),
                                  FAST("abs.s16", "d0 s0", abs_s16),
                                  FAST("abs.s32", "d0 s0", abs_s32),
                                  FAST("abs.s64", "d0 s0", abs_s64),
                                  SLOW("sad.u16", THREE, sad_u16),
                                  SLOW("sad.s16", THREE, sad_s16),
                                  SLOW("sad.u64", THREE, sad_u64),
                                  SLOW("sad.s64", THREE, sad_s64),
                                  SLOW("sad.u32", THREE, sad_u32),
                                  SLOW("sad.s32", THREE, sad_s32),
                                  SLOW("dp4a.u32.u32", "d0 u u s0", dp4a_uu),
                                  SLOW("dp4a.u32.s32", "d0 u u s0", dp4a_us),
                                  SLOW("dp4a.s32.u32", "d0 u u s0", dp4a_su),
                                  SLOW("dp4a.s32.s32", "d0 u u s0", dp4a_ss),
                                  SLOW("dp2a.lo.s32.s32", "d0 u u s0", dp2a_lo_ss),
                                  SLOW("dp2a.hi.s32.s32", "d0 u u s0", dp2a_hi_ss),
                                  SLOW("dp2a.lo.u32.u32", "d0 u u s0", dp2a_lo_uu),
                                  SLOW("dp2a.hi.u32.u32", "d0 u u s0", dp2a_hi_uu),
                                  SLOW("dp2a.lo.s32.u32", "d0 u u s0", dp2a_lo_su),
                                  SLOW("dp2a.hi.s32.u32", "d0 u u s0", dp2a_hi_su),
                                  SLOW("dp2a.lo.u32.s32", "d0 u u s0", dp2a_lo_us),
                                  SLOW("dp2a.hi.u32.s32", "d0 u u s0", dp2a_hi_us),
                                  CARRY("add.cc.u32|s32|u64|s64", TWO, hook_add_cc),
                                  CARRY("addc.cc?.u32|s32|u64|s64", TWO, hook_addc),
                                  CARRY("sub.cc.u32|s32|u64|s64", TWO, hook_sub_cc),
                                  CARRY("subc.cc?.u32|s32|u64|s64", TWO, hook_subc),
                                  CARRY("mad.lo|hi.cc.u32|s32|u64|s64", THREE, hook_mad_cc),
                                  CARRY("madc.lo|hi.cc?.u32|s32|u64|s64", THREE, hook_madc),
                                  {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
