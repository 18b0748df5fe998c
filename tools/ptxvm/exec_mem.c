/* SPDX-License-Identifier: MIT */
/* Loads and stores of every state space, prefetches, fences. */
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/parse.h"
#include "tools/ptxvm/softfloat.h"

enum { SPINS_MAX = 1000 };

/* The address of one lane of a memory operand. */
static uint64_t address_of(const vm_operand *operand, const void *base, unsigned lane)
{
    return vm_lane(base, operand->bytes, lane) + (uint64_t)operand->displacement;
}

/* 32-bit bases wrap at 32 bits in the windows that are that small. */
static uint64_t wrap(uint64_t address, unsigned bytes, vm_space space)
{
    bool small = bytes == 4 && space != VS_GENERIC && space != VS_GLOBAL;
    return small ? address & 0xffffffffu : address;
}

static unsigned how_of(const vm_insn *in, unsigned how)
{
    return how | ((in->flags & VF_STRONG) != 0 ? VA_STRONG : 0u);
}

/* One element from memory into a lane of its register, extended to the register's width. */
static void place(uint8_t *lanes, unsigned register_bytes, unsigned lane, const uint8_t *from,
                  unsigned bytes, bool is_signed)
{
    uint8_t *at = lanes + (size_t)lane * register_bytes;
    memcpy(at, from, bytes < register_bytes ? bytes : register_bytes);
    if (register_bytes > bytes) {
        bool negative = is_signed && (from[bytes - 1] & 0x80u) != 0;
        memset(at + bytes, negative ? 0xff : 0, register_bytes - bytes);
    }
}

static void finish_strong(vm_warp *warp, const vm_insn *in, unsigned lane, vm_space space,
                          uint64_t address, bool load)
{
    if ((in->flags & VF_STRONG) == 0) {
        return;
    }
    const vm_race *race = NULL;
    uint64_t offset = 0;
    vm_locate(warp, lane, space, address, &race, &offset);
    if (race == NULL) {
        return;
    }
    if (load) {
        vm_race_acquire(warp, race, offset);
    } else if ((in->flags & VF_RELEASE) != 0 || warp->clock.fence_time != 0) {
        if ((in->flags & VF_RELEASE) != 0) {
            vm_race_fence(warp);
        }
        vm_race_release(warp, race, offset);
    }
}

/* What one load keeps from lane to lane. */
typedef struct load_state {
    vm_quick quick;
    vm_space space;
    unsigned bytes;
    bool weak;
    bool is_quick;
    uint64_t last;       /* the address before this one */
    const uint8_t *data; /* of it */
    unsigned repeats;    /* how many lanes in a row have had it */
} load_state;

/* The bytes for one lane. Lanes that name the address of the lane before them need no checks from
 * the third on: the second has made the history say "several lanes of this warp". */
static const uint8_t *fetch(vm_warp *warp, const vm_insn *in, load_state *state, unsigned lane,
                            uint64_t address)
{
    bool again = state->data != NULL && address == state->last && state->weak;
    state->repeats = again ? state->repeats + 1 : 0;
    state->last = address;
    if (state->repeats > 1 && state->space != VS_LOCAL && state->space != VS_PARAM &&
        state->space != VS_GENERIC) {
        return state->data;
    }
    state->data =
        state->is_quick ? vm_quick_load(&state->quick, address, state->bytes, lane) : NULL;
    if (state->data == NULL) {
        state->data =
            vm_access(warp, in, lane, state->space, address, state->bytes, how_of(in, VA_READ));
        state->is_quick = state->weak && vm_quick_prepare(warp, state->space, &state->quick);
    }
    return state->data;
}

/* A strong load of one global word again and again waits for another block, which may not run
 * before this one has ended. */
static bool check_spin(vm_warp *warp, const vm_insn *in, uint64_t address, unsigned lane)
{
    bool again = warp->spin_insn == in && warp->spin_address == address;
    warp->spins = again ? warp->spins + 1 : 0;
    warp->spin_insn = in;
    warp->spin_address = address;
    return warp->spins < SPINS_MAX ||
           vm_fail(warp, in, (int)lane, VM_LAUNCH_TIMEOUT,
                   "a loop waits for another block: the same word was read %u times", warp->spins);
}

/* ld: targets 0 .. n-1, then the address. */
static bool exec_load(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    unsigned count = in->vector == 0 ? 1 : in->vector;
    vm_type type = (vm_type)in->types[0];
    unsigned bytes = vm_type_bytes(type);
    bool is_signed = vm_type_signed(type);
    const vm_operand *memory = vm_operand_at(warp, in, count);
    const void *base = vm_source(warp, in, count);
    vm_space space = (vm_space)in->space;
    uint8_t lanes[8][VM_LANES * 16];
    load_state state;
    state.space = space;
    state.bytes = bytes * count;
    state.weak = (in->flags & VF_STRONG) == 0;
    state.is_quick = state.weak && vm_quick_prepare(warp, space, &state.quick);
    state.data = NULL;
    state.last = 0;
    state.repeats = 0;
    /* The commonest loads of all: words into registers of their size. */
    bool plain = bytes == 4 && state.weak;
    for (unsigned e = 0; e < count; e++) {
        plain = plain && vm_operand_at(warp, in, e)->bytes == 4;
    }
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        uint64_t address = wrap(address_of(memory, base, lane), memory->bytes, space);
        const uint8_t *data = fetch(warp, in, &state, lane, address);
        if (data == NULL) {
            return false;
        }
        if (plain) {
            for (unsigned e = 0; e < count; e++) {
                memcpy(lanes[e] + (size_t)lane * 4, data + (size_t)e * 4, 4);
            }
            continue;
        }
        for (unsigned e = 0; e < count; e++) {
            place(lanes[e], vm_operand_at(warp, in, e)->bytes, lane, data + (size_t)e * bytes,
                  bytes, is_signed);
        }
        finish_strong(warp, in, lane, space, address, true);
        if (!state.weak && space == VS_GLOBAL && !check_spin(warp, in, address, lane)) {
            return false;
        }
    }
    for (unsigned e = 0; e < count; e++) {
        vm_put(warp, in, e, mask, lanes[e]);
    }
    return true;
}

/* st: the address, then sources. */
static bool exec_store(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    unsigned count = in->vector == 0 ? 1 : in->vector;
    unsigned bytes = vm_type_bytes((vm_type)in->types[0]);
    const vm_operand *memory = vm_operand_at(warp, in, 0);
    const void *base = vm_source(warp, in, 0);
    vm_space space = (vm_space)in->space;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        uint64_t address = wrap(address_of(memory, base, lane), memory->bytes, space);
        finish_strong(warp, in, lane, space, address, false);
        uint8_t *data =
            vm_access(warp, in, lane, space, address, bytes * count, how_of(in, VA_WRITE));
        if (data == NULL) {
            return false;
        }
        for (unsigned e = 0; e < count; e++) {
            const vm_operand *operand = vm_operand_at(warp, in, 1 + e);
            const uint8_t *source = vm_source(warp, in, 1 + e);
            memcpy(data + (size_t)e * bytes, source + (size_t)lane * operand->bytes, bytes);
        }
    }
    return true;
}

/* membar and fence: what this warp did before it may be released by a later strong write. */
static bool exec_fence(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)in;
    (void)mask;
    vm_race_fence(warp);
    return true;
}

static bool exec_prefetch(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)warp;
    (void)in;
    (void)mask;
    return true;
}

/* A cache-hint operand at the end is dropped; the vector's size is checked against the widest. */
static bool hook_access(vm_parser *parser, vm_insn *in, bool load)
{
    size_t used = 0;
    unsigned count = in->vector == 0 ? 1 : in->vector;
    vm_type type = (vm_type)in->types[0];
    const vm_node *nodes = parser->nodes;
    if (vm_type_bytes(type) * count > (count == 8 || count == 4 ? 32u : 16u)) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "a vector access that wide does not exist");
    }
    size_t value = load ? 0 : 1;
    size_t width = nodes[value].kind == ND_VECTOR ? 1u + nodes[value].children : 1u;
    size_t address = load ? width : 0;
    if (parser->node_count < width + 1 || (count > 1) != (nodes[value].kind == ND_VECTOR) ||
        (count > 1 && nodes[value].children != count)) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wrong number of elements");
    }
    if (!load && !vm_add_memory(parser, in, &nodes[address])) {
        return false;
    }
    for (unsigned e = 0; e < count; e++) {
        const vm_node *node = &nodes[value + (count > 1 ? 1 : 0) + e];
        if (!(load ? vm_add_target(parser, in, node, type, true)
                   : vm_add_source(parser, in, node, type, true))) {
            return false;
        }
    }
    if (load && !vm_add_memory(parser, in, &nodes[address])) {
        return false;
    }
    used = width + 1;
    return parser->node_count <= used + 1 ||
           vm_parse_fail(parser, VM_INVALID_PTX, "too many operands");
}

static bool hook_load(vm_parser *parser, vm_insn *in)
{
    return hook_access(parser, in, true);
}
static bool hook_store(vm_parser *parser, vm_insn *in)
{
    bool read_only = in->space == VS_CONST;
    return read_only ? vm_parse_fail(parser, VM_INVALID_PTX, "store to constant memory")
                     : hook_access(parser, in, false);
}
static bool hook_none(vm_parser *parser, vm_insn *in)
{
    (void)parser;
    (void)in;
    return true;
}

#define TYPES "b8|u8|s8|b16|u16|s16|b32|u32|s32|b64|u64|s64|f16|bf16|f16x2|bf16x2|f32|f64|b128"
#define SPACES                                                                                     \
    "global|shared|shared::cta|shared::cluster|local|const|param|param::entry|param::func"
#define SCOPES "cta|gpu|sys|cluster"
#define EVICT                                                                                      \
    "ca|cg|cs|lu|cv|wb|wt|L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|"    \
    "L1::no_allocate?.L2::evict_last|L2::evict_normal|L2::evict_first?.L2::cache_hint?.L2::64B|"   \
    "L2::128B|L2::256B?"
#define ROW(pattern, exec, hook)                                                                   \
    {                                                                                              \
        pattern, NULL, exec, NULL, 0, SY_NONE, hook                                                \
    }

const vm_row vm_rows_memory[] = {
    ROW("ld." SPACES "?." EVICT ".v2|v4|v8?." TYPES, exec_load, hook_load),
    ROW("ld.global.ca|cg|cs?.nc." EVICT ".v2|v4|v8?." TYPES, exec_load, hook_load),
    ROW("ld.volatile." SPACES "?.v2|v4?." TYPES, exec_load, hook_load),
    ROW("ld.relaxed|acquire." SCOPES "." SPACES "?." EVICT ".v2|v4|v8?." TYPES, exec_load,
        hook_load),
    ROW("ldu.global.v2|v4?." TYPES, exec_load, hook_load),
    ROW("st." SPACES "?." EVICT ".v2|v4|v8?." TYPES, exec_store, hook_store),
    ROW("st.volatile." SPACES "?.v2|v4?." TYPES, exec_store, hook_store),
    ROW("st.relaxed|release." SCOPES "." SPACES "?." EVICT ".v2|v4|v8?." TYPES, exec_store,
        hook_store),
    ROW("membar.cta|gl|sys", exec_fence, hook_none),
    ROW("fence.sc|acq_rel|acquire|release?." SCOPES, exec_fence, hook_none),
    ROW("fence.proxy.async|alias.global|shared::cta?", exec_fence, hook_none),
    ROW("prefetch.global|local?.L1|L2|L2::evict_last|L2::evict_normal", exec_prefetch, hook_none),
    ROW("prefetchu.L1", exec_prefetch, hook_none),
    ROW("discard.global.L2", exec_prefetch, hook_none),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
