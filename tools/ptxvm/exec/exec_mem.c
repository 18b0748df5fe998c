/* SPDX-License-Identifier: MIT */
/* Loads and stores of every state space, prefetches, fences. */
#include "tools/ptxvm/config.h"
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/exec/mbarrier.h"
#include "tools/ptxvm/text/parse.h"
#include "tools/ptxvm/exec/softfloat.h"

enum { SPINS_MAX = 1000 };

/* The addresses of all lanes of a memory operand. 32-bit ones wrap in the windows that are that
 * small. */
static void find_addresses(const vm_warp *warp, const vm_insn *in, unsigned operand,
                           uint64_t addresses[VM_LANES])
{
    const vm_operand *memory = vm_operand_at(warp, in, operand);
    const void *base = vm_source(warp, in, operand);
    uint64_t displacement = (uint64_t)memory->displacement;
    bool small = in->space != VS_GENERIC && in->space != VS_GLOBAL;
    uint64_t kept = memory->bytes == 4 && small ? UINT32_MAX : UINT64_MAX;
    if (memory->bytes == 4) {
        for (unsigned lane = 0; lane < VM_LANES; lane++) {
            addresses[lane] = (((const uint32_t *)base)[lane] + displacement) & kept;
        }
        return;
    }
    for (unsigned lane = 0; lane < VM_LANES; lane++) {
        addresses[lane] = vm_lane(base, memory->bytes, lane) + displacement;
    }
}

static unsigned how_of(const vm_insn *in, unsigned how)
{
    return how | ((in->flags & VF_STRONG) != 0 ? VA_STRONG : 0u);
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
        vm_race_acquire(warp, lane, race, offset);
    } else if ((in->flags & VF_RELEASE) != 0 || warp->clock.fence_time != 0) {
        if ((in->flags & VF_RELEASE) != 0) {
            vm_race_fence(warp);
        }
        vm_race_release(warp, race, offset);
    }
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

/* Where each lane's bytes are, after every check. */
static bool find_loads(vm_warp *warp, const vm_insn *in, uint32_t mask, const uint64_t *addresses,
                       unsigned bytes, uint8_t **data)
{
    vm_space space = (vm_space)in->space;
    bool weak = (in->flags & VF_STRONG) == 0;
    if (weak && vm_access_together(warp, mask, space, addresses, bytes, false, data)) {
        return true;
    }
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        uint64_t address = addresses[lane];
        data[lane] = vm_access(warp, in, lane, space, address, bytes, how_of(in, VA_READ));
        if (data[lane] == NULL) {
            return false;
        }
        finish_strong(warp, in, lane, space, address, true);
        if (!weak && space == VS_GLOBAL && !check_spin(warp, in, address, lane)) {
            return false;
        }
    }
    return true;
}

/* Elements of `bytes` bytes, `from` bytes behind where each lane's begin, into the lanes of a
 * register, extended to its width. */
static void exec_mem_extend(uint8_t *lanes, unsigned width, uint32_t mask, uint8_t *const *data,
                            size_t from, unsigned bytes, bool is_signed)
{
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        const uint8_t *element = data[lane] + from;
        uint8_t *at = lanes + (size_t)lane * width;
        memcpy(at, element, bytes < width ? bytes : width);
        if (width > bytes) {
            bool negative = is_signed && (element[bytes - 1] & 0x80u) != 0;
            memset(at + bytes, negative ? 0xff : 0, width - bytes);
        }
    }
}

/* Elements as wide as their register. Of a constant size, each is one move. */
static inline void exec_mem_move(uint8_t *lanes, uint32_t mask, uint8_t *const *data, size_t from,
                                 size_t size)
{
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        memcpy(lanes + lane * size, data[lane] + from, size);
    }
}

static void exec_mem_place(uint8_t *lanes, unsigned width, uint32_t mask, uint8_t *const *data,
                           size_t from, unsigned bytes, bool is_signed)
{
    if (bytes != width) {
        exec_mem_extend(lanes, width, mask, data, from, bytes, is_signed);
    } else if (width == 2) {
        exec_mem_move(lanes, mask, data, from, 2);
    } else if (width == 4) {
        exec_mem_move(lanes, mask, data, from, 4);
    } else if (width == 8) {
        exec_mem_move(lanes, mask, data, from, 8);
    } else {
        exec_mem_move(lanes, mask, data, from, width);
    }
}

/* ld: targets 0 .. n-1, then the address. */
static bool exec_load(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    unsigned count = in->vector == 0 ? 1 : in->vector;
    vm_type type = (vm_type)in->types[0];
    unsigned bytes = vm_type_bytes(type);
    bool is_signed = vm_type_signed(type);
    uint64_t addresses[VM_LANES];
    uint8_t *data[VM_LANES];
    find_addresses(warp, in, count, addresses);
    if (!find_loads(warp, in, mask, addresses, bytes * count, data)) {
        return false;
    }
    for (unsigned e = 0; e < count; e++) {
        const vm_operand *target = vm_operand_at(warp, in, e);
        uint8_t *lanes = warp->bases[target->where] + target->offset;
        size_t from = (size_t)e * bytes;
        exec_mem_place(lanes, target->bytes, mask, data, from, bytes, is_signed);
    }
    return true;
}

/* The weak stores of a whole warp; false where the lanes have to go one by one. */
static bool store_together(vm_warp *warp, const vm_insn *in, uint32_t mask,
                           const uint64_t *addresses, unsigned bytes, unsigned count)
{
    uint8_t *data[VM_LANES];
    if ((in->flags & VF_STRONG) != 0 || !vm_access_together(warp, mask, (vm_space)in->space,
                                                            addresses, bytes * count, true, data)) {
        return false;
    }
    for (unsigned e = 0; e < count; e++) {
        const vm_operand *operand = vm_operand_at(warp, in, 1 + e);
        const uint8_t *source = vm_source(warp, in, 1 + e);
        for (uint32_t left = mask; left != 0; left &= left - 1) {
            unsigned lane = vm_first_lane(left);
            memcpy(data[lane] + (size_t)e * bytes, source + (size_t)lane * operand->bytes, bytes);
        }
    }
    return true;
}

/* The lanes whose store another lane of the instruction does not make too: the same bytes at the
 * same address. Triton's reductions store so; only where PTXVM_PERMIT says equal-writes. */
static uint32_t without_repeats(const vm_warp *warp, const vm_insn *in, uint32_t mask,
                                const uint64_t *addresses, unsigned count)
{
    uint32_t kept = 0;
    for (; mask != 0; mask &= mask - 1) {
        unsigned lane = vm_first_lane(mask);
        bool repeats = false;
        for (uint32_t left = kept; left != 0 && !repeats; left &= left - 1) {
            unsigned other = vm_first_lane(left);
            repeats = addresses[lane] == addresses[other];
            for (unsigned e = 0; e < count && repeats; e++) {
                unsigned width = vm_operand_at(warp, in, 1 + e)->bytes;
                const uint8_t *source = vm_source(warp, in, 1 + e);
                repeats = memcmp(source + (size_t)lane * width, source + (size_t)other * width,
                                 width) == 0;
            }
        }
        kept |= repeats ? 0 : 1u << lane;
    }
    return kept;
}

/* st: the address, then sources. */
static bool exec_store(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    unsigned count = in->vector == 0 ? 1 : in->vector;
    unsigned bytes = vm_type_bytes((vm_type)in->types[0]);
    vm_space space = (vm_space)in->space;
    uint64_t addresses[VM_LANES];
    find_addresses(warp, in, 0, addresses);
    if (store_together(warp, in, mask, addresses, bytes, count)) {
        return true;
    }
    if (vm_config_permits("equal-writes")) {
        mask = without_repeats(warp, in, mask, addresses, count);
    }
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        uint64_t address = addresses[lane];
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

/* Of mbarriers just made. */
static bool exec_init_fence(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_mbarrier_fence(warp);
    return exec_fence(warp, in, mask);
}

/* Towards the asynchronous proxy: of what lanes have stored to one memory, or to both. */
static bool exec_proxy_fence(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    if (in->space != VS_GLOBAL) {
        vm_race_proxy_fence(warp, VM_OF_SHARED, mask);
    }
    if (in->space != VS_SHARED) {
        vm_race_proxy_fence(warp, VM_OF_GLOBAL, mask);
    }
    return exec_init_fence(warp, in, mask);
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
    bool braces = nodes[value].kind == ND_VECTOR; /* also around a single element */
    size_t width = braces ? 1u + nodes[value].children : 1u;
    size_t address = load ? width : 0;
    if (parser->node_count < width + 1 || (braces ? nodes[value].children : 1u) != count) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wrong number of elements");
    }
    if (!load && !vm_add_memory(parser, in, &nodes[address])) {
        return false;
    }
    for (unsigned e = 0; e < count; e++) {
        const vm_node *node = &nodes[value + (braces ? 1 : 0) + e];
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
    ROW("ld.weak?." SPACES "?." EVICT ".v2|v4|v8?." TYPES, exec_load, hook_load),
    ROW("ld.global.ca|cg|cs?.nc." EVICT ".v2|v4|v8?." TYPES, exec_load, hook_load),
    ROW("ld.volatile." SPACES "?.v2|v4?." TYPES, exec_load, hook_load),
    ROW("ld.relaxed|acquire." SCOPES "." SPACES "?." EVICT ".v2|v4|v8?." TYPES, exec_load,
        hook_load),
    ROW("ldu.global.v2|v4?." TYPES, exec_load, hook_load),
    ROW("st.weak?." SPACES "?." EVICT ".v2|v4|v8?." TYPES, exec_store, hook_store),
    ROW("st.volatile." SPACES "?.v2|v4?." TYPES, exec_store, hook_store),
    ROW("st.relaxed|release." SCOPES "." SPACES "?." EVICT ".v2|v4|v8?." TYPES, exec_store,
        hook_store),
    ROW("membar.cta|gl|sys", exec_fence, hook_none),
    ROW("fence.sc|acq_rel|acquire|release?." SCOPES, exec_fence, hook_none),
    ROW("fence.proxy.alias", exec_fence, hook_none),
    ROW("fence.proxy.async.global|shared::cta?", exec_proxy_fence, hook_none),
    ROW("fence.mbarrier_init.release.cluster", exec_init_fence, hook_none),
    ROW("prefetch.global|local?.L1|L2|L2::evict_last|L2::evict_normal", exec_prefetch, hook_none),
    ROW("applypriority.global?.L2::evict_normal", exec_prefetch, hook_none),
    ROW("prefetchu.L1", exec_prefetch, hook_none),
    ROW("discard.global.L2", exec_prefetch, hook_none),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
