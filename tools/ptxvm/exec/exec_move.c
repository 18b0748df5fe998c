/* SPDX-License-Identifier: MIT */
/* mov with packing, selection, address conversions, and values that shipped kernels must not ask
 * for (clocks, %smid, activemask). */
#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/config.h"
#include "tools/ptxvm/exec/lanes.h"
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

static bool exec_move(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_put(warp, in, 0, mask, vm_source(warp, in, 1));
    return true;
}

static bool exec_move_predicate(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_put_predicate(warp, in, 0, mask, vm_predicate(warp, in, 1));
    return true;
}

/* Parts of `part` bytes from steps of `from` bytes to steps of `to`: of constant sizes, moves. */
static inline void move_parts(uint8_t *target, size_t to, const uint8_t *source, size_t from,
                              size_t part)
{
    for (unsigned i = 0; i < VM_LANES; i++) {
        memcpy(target + i * to, source + i * from, part);
    }
}

/* mov.b64 d, {a, b}: the first element is the least significant. vector: elements. */
static bool exec_pack(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    unsigned count = in->vector;
    unsigned whole = vm_operand_at(warp, in, 0)->bytes;
    unsigned part = whole / count;
    uint8_t lanes[VM_LANES * 16];
    for (unsigned e = 0; e < count; e++) {
        const uint8_t *source = vm_source(warp, in, 1 + e);
        uint8_t *target = lanes + (size_t)e * part;
        if (whole == 4 && part == 2) {
            move_parts(target, 4, source, 2, 2);
        } else if (whole == 8 && part == 4) {
            move_parts(target, 8, source, 4, 4);
        } else {
            move_parts(target, whole, source, part, part);
        }
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

static bool exec_unpack(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    unsigned count = in->vector;
    const uint8_t *source = vm_source(warp, in, count);
    unsigned part = vm_type_bytes((vm_type)in->types[0]) / count;
    for (unsigned e = 0; e < count; e++) {
        uint8_t lanes[VM_LANES * 8];
        const uint8_t *first = source + (size_t)e * part;
        if (part == 2 && count == 2) {
            move_parts(lanes, 2, first, 4, 2);
        } else if (part == 4 && count == 2) {
            move_parts(lanes, 4, first, 8, 4);
        } else {
            move_parts(lanes, part, first, (size_t)part * count, part);
        }
        vm_put(warp, in, e, mask, lanes);
    }
    return true;
}

static vm_type type_of_bytes(unsigned bytes)
{
    switch (bytes) {
    case 2:
        return VT_B16;
    case 4:
        return VT_B32;
    default:
        return VT_B64;
    }
}

static bool hook_move(vm_parser *parser, vm_insn *in)
{
    const vm_node *nodes = parser->nodes;
    vm_type type = (vm_type)in->types[0];
    unsigned bytes = vm_type_bytes(type);
    if (parser->node_count < 2) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "too few operands");
    }
    bool unpacks = nodes[0].kind == ND_VECTOR;
    bool packs = nodes[1].kind == ND_VECTOR;
    if (!unpacks && !packs) {
        return vm_add_target(parser, in, &nodes[0], type, false) &&
               vm_add_source(parser, in, &nodes[1], type, false);
    }
    size_t count = unpacks ? nodes[0].children : nodes[1].children;
    if ((count != 2 && count != 4) || parser->node_count != count + 2 || bytes / count < 2) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "mov cannot split %u bytes so", bytes);
    }
    vm_type part = type_of_bytes(bytes / (unsigned)count);
    in->vector = (uint8_t)count;
    in->exec = unpacks ? exec_unpack : exec_pack;
    if (packs && !vm_add_target(parser, in, &nodes[0], type, false)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const vm_node *node = &nodes[(unpacks ? 1 : 2) + i];
        if (!(unpacks ? vm_add_target(parser, in, node, part, false)
                      : vm_add_source(parser, in, node, part, false))) {
            return false;
        }
    }
    return packs || vm_add_source(parser, in, &nodes[count + 1], type, false);
}

/* selp d, a, b, p */
static bool exec_select(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    uint32_t choose = vm_predicate(warp, in, 3);
    /* The first put changes lanes of b's register at most where b is not read any more. */
    vm_put(warp, in, 0, mask & choose, vm_source(warp, in, 1));
    vm_put(warp, in, 0, mask & ~choose, vm_source(warp, in, 2));
    return true;
}

/* slct.dtype.stype d, a, b, c: a where c >= 0; a NaN chooses b, as does -0 with .ftz not. */
static bool exec_slct(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint32_t *c = vm_source(warp, in, 3);
    uint32_t choose = 0;
    for (unsigned i = 0; i < VM_LANES; i++) {
        float value;
        memcpy(&value, &c[i], sizeof value);
        bool first = in->types[1] == VT_F32 ? value >= 0.0f : (int32_t)c[i] >= 0;
        choose |= first ? 1u << i : 0;
    }
    vm_put(warp, in, 0, mask & choose, vm_source(warp, in, 1));
    vm_put(warp, in, 0, mask & ~choose, vm_source(warp, in, 2));
    return true;
}

static uint64_t generic_base(vm_space space)
{
    switch (space) {
    case VS_SHARED:
        return VM_SHARED_GENERIC;
    case VS_LOCAL:
        return VM_LOCAL_GENERIC;
    case VS_CONST:
        return VM_CONST_GENERIC;
    case VS_PARAM:
        return VM_PARAM_GENERIC;
    default:
        return 0;
    }
}

/* cvta: adds or takes away the window's base; global addresses are generic ones. */
static bool exec_to_generic(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint64_t *a = vm_source(warp, in, 1);
    uint64_t base = generic_base((vm_space)in->space);
    uint64_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        lanes[i] = a[i] + base;
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

static bool exec_from_generic(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint64_t *a = vm_source(warp, in, 1);
    uint64_t base = generic_base((vm_space)in->space);
    uint64_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        lanes[i] = base != 0 && (a[i] & VM_GENERIC_MASK) == base ? a[i] - base : a[i];
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

static bool exec_is_space(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint64_t *a = vm_source(warp, in, 1);
    uint64_t base = generic_base((vm_space)in->space);
    uint32_t result = 0;
    for (unsigned i = 0; i < VM_LANES; i++) {
        uint64_t window = a[i] & VM_GENERIC_MASK;
        bool is_global = window == 0 || window == VM_WINDOW_BASE;
        bool inside = base != 0 ? window == base : is_global;
        result |= inside ? 1u << i : 0;
    }
    vm_put_predicate(warp, in, 0, mask, result);
    return true;
}

static bool hook_is_space(vm_parser *parser, vm_insn *in)
{
    if (parser->node_count != 2) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "isspacep takes two operands");
    }
    return vm_add_predicate(parser, in, &parser->nodes[0], true) &&
           vm_add_source(parser, in, &parser->nodes[1], VT_B64, false);
}

static bool exec_activemask(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    if (!vm_config_permits("activemask")) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                       "activemask depends on scheduling");
    }
    uint32_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        lanes[i] = mask;
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

static bool exec_nothing(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)warp;
    (void)in;
    (void)mask;
    return true;
}

/* createpolicy gives an opaque 64-bit hint. */
static bool exec_policy(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    uint64_t lanes[VM_LANES] = {0};
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

static bool hook_policy(vm_parser *parser, vm_insn *in)
{
    return vm_add_target(parser, in, &parser->nodes[0], VT_B64, false);
}

static bool hook_ignore(vm_parser *parser, vm_insn *in)
{
    (void)parser;
    (void)in;
    return true;
}

#define T16 "b16|u16|s16|f16|bf16"
#define T32 "b32|u32|s32|f32|f16x2|bf16x2"
#define T64 "b64|u64|s64|f64"
#define ROW(pattern, shape, exec, hook)                                                            \
    {                                                                                              \
        pattern, shape, exec, NULL, 0, SY_NONE, hook                                               \
    }

const vm_row vm_rows_move[] = {
    ROW("mov." T32 "|" T64 "|" T16 "|b128", NULL, exec_move, hook_move),
    ROW("mov.pred", "P p", exec_move_predicate, NULL),
    ROW("selp." T16 "|" T32 "|" T64, "d0 s0 s0 p", exec_select, NULL),
    ROW("slct.ftz?." T16 "|" T32 "|" T64 ".s32|f32", "d0 s0 s0 s1", exec_slct, NULL),
    ROW("cvta.global|shared|shared::cta|local|const|param|param::entry.u64", "d0 s0",
        exec_to_generic, NULL),
    ROW("cvta.to.global|shared|shared::cta|local|const|param|param::entry.u64", "d0 s0",
        exec_from_generic, NULL),
    ROW("isspacep.global|shared|shared::cta|local|const|param|param::entry", NULL, exec_is_space,
        hook_is_space),
    ROW("activemask.b32", "d0", exec_activemask, NULL),
    ROW("createpolicy.fractional.L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_"
        "unchanged.L2::evict_first|L2::evict_unchanged?.b64",
        NULL, exec_policy, hook_policy),
    ROW("createpolicy.cvt.L2.b64", NULL, exec_policy, hook_policy),
    ROW("pmevent", NULL, exec_nothing, hook_ignore),
    ROW("nanosleep.u32", NULL, exec_nothing, hook_ignore),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
