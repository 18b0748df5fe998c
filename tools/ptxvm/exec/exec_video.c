/* SPDX-License-Identifier: MIT */
/* Packed integer ("video") instructions, which nvcc emits for the SIMD intrinsics: two halves or
 * four bytes of a word, each by itself, or summed onto the third operand by .add. Selectors and
 * byte masks are not known here and are refused where operands are read. */
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

typedef enum video_op { VO_ADD, VO_SUB, VO_ABSDIFF, VO_MIN, VO_MAX, VO_AVERAGE, VO_SET } video_op;

static int32_t exec_video_part_of(uint32_t word, unsigned at, unsigned bits, bool is_signed)
{
    uint32_t part = (word >> at) & ((1u << bits) - 1);
    bool negative = is_signed && (part >> (bits - 1)) != 0;
    return (int32_t)part - (negative ? (int32_t)(1u << bits) : 0);
}

static int32_t exec_video_combine(const vm_insn *in, int32_t a, int32_t b)
{
    switch ((video_op)in->choice2) {
    case VO_ADD:
        return a + b;
    case VO_SUB:
        return a - b;
    case VO_ABSDIFF:
        return a < b ? b - a : a - b;
    case VO_MIN:
        return a < b ? a : b;
    case VO_MAX:
        return a > b ? a : b;
    case VO_AVERAGE:
        return (a + b + 1) >> 1;
    default:
        break;
    }
    switch ((vm_compare)in->compare) {
    case VC_EQ:
        return a == b;
    case VC_NE:
        return a != b;
    case VC_LT:
        return a < b;
    case VC_LE:
        return a <= b;
    case VC_GT:
        return a > b;
    default:
        return a >= b;
    }
}

static uint32_t one_lane(const vm_insn *in, uint32_t a, uint32_t b, uint32_t c)
{
    unsigned bits = 32u / in->vector;
    bool sets = in->choice2 == VO_SET;
    bool signed_a = in->types[sets ? 0 : 1] == VT_S32;
    bool signed_b = in->types[sets ? 1 : 2] == VT_S32;
    bool signed_d = !sets && in->types[0] == VT_S32;
    int32_t least = signed_d ? -(int32_t)(1u << (bits - 1)) : 0;
    int32_t most = (int32_t)(1u << (signed_d ? bits - 1 : bits)) - 1;
    uint32_t result = in->choice == VX_ADD ? c : 0;
    for (unsigned at = 0; at < 32; at += bits) {
        int32_t value = exec_video_combine(in, exec_video_part_of(a, at, bits, signed_a),
                                           exec_video_part_of(b, at, bits, signed_b));
        if ((in->flags & VF_SAT) != 0) {
            value = value < least ? least : (value > most ? most : value);
        }
        if (in->choice == VX_ADD) {
            result += (uint32_t)value;
        } else {
            result |= ((uint32_t)value & ((1u << bits) - 1)) << at;
        }
    }
    return result;
}

static bool exec_video(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint32_t *a = vm_source(warp, in, 1);
    const uint32_t *b = vm_source(warp, in, 2);
    const uint32_t *c = vm_source(warp, in, 3);
    uint32_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        lanes[i] = one_lane(in, a[i], b[i], c[i]);
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

#define HOOK(name, op, parts)                                                                      \
    static bool name(vm_parser *parser, vm_insn *in)                                               \
    {                                                                                              \
        (void)parser;                                                                              \
        in->choice2 = op;                                                                          \
        in->vector = parts;                                                                        \
        return true;                                                                               \
    }
HOOK(add2, VO_ADD, 2)
HOOK(add4, VO_ADD, 4)
HOOK(sub2, VO_SUB, 2)
HOOK(sub4, VO_SUB, 4)
HOOK(absdiff2, VO_ABSDIFF, 2)
HOOK(absdiff4, VO_ABSDIFF, 4)
HOOK(min2, VO_MIN, 2)
HOOK(min4, VO_MIN, 4)
HOOK(max2, VO_MAX, 2)
HOOK(max4, VO_MAX, 4)
HOOK(avrg2, VO_AVERAGE, 2)
HOOK(avrg4, VO_AVERAGE, 4)
HOOK(set2, VO_SET, 2)
HOOK(set4, VO_SET, 4)

#define WORD  "u32|s32"
#define TYPES WORD "." WORD "." WORD
#define VIDEO(op)                                                                                  \
    {"v" #op "2." TYPES ".sat?.add?", "U u u u", exec_video, NULL, 0, SY_NONE, op##2},             \
    {                                                                                              \
        "v" #op "4." TYPES ".sat?.add?", "U u u u", exec_video, NULL, 0, SY_NONE, op##4            \
    }

const vm_row vm_rows_video[] = {
    VIDEO(add),
    VIDEO(sub),
    VIDEO(absdiff),
    VIDEO(min),
    VIDEO(max),
    {"vavrg2.u32.u32.u32.sat?.add?", "U u u u", exec_video, NULL, 0, SY_NONE, avrg2},
    {"vavrg4.u32.u32.u32.sat?.add?", "U u u u", exec_video, NULL, 0, SY_NONE, avrg4},
    {"vset2." WORD "." WORD ".eq|ne|lt|le|gt|ge.add?", "U u u u", exec_video, NULL, 0, SY_NONE,
     set2},
    {"vset4." WORD "." WORD ".eq|ne|lt|le|gt|ge.add?", "U u u u", exec_video, NULL, 0, SY_NONE,
     set4},
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
