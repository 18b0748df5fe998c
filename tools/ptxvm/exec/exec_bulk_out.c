/* SPDX-License-Identifier: MIT */
/* Bulk copies and reductions out of shared memory, their groups, and prefetches. The bytes are read
 * and written when the copy begins; until the wait for its group nobody may overwrite the source,
 * and nobody may touch the target. */
#include "tools/ptxvm/exec/mbarrier.h"
#include "tools/ptxvm/text/parse.h"
#include "tools/ptxvm/exec/reading.h"
#include "tools/ptxvm/exec/softfloat.h"

enum { CHUNK = VM_MAP_CHUNK };

static pthread_mutex_t reduce_lock = PTHREAD_MUTEX_INITIALIZER;

/* Global addresses of a chunk: whole, or element by element. */
static vm_map_chunk out_find(const vm_bulk *bulk, uint32_t chunk)
{
    vm_map_chunk found = {.address = bulk->global + (uint64_t)chunk * CHUNK};
    found.inside = found.elements = 1;
    if (bulk->tensor) {
        found = vm_map_find(&bulk->map, bulk->at, chunk);
    }
    const bool all = found.inside == (1u << found.elements) - 1;
    if (all && found.address % CHUNK == 0) {
        found.inside = found.elements = 1;
    }
    return found;
}

/* One piece of the target: written, or no longer anybody's, or somebody's again. */
static bool out_mark(const vm_bulk *bulk, uint64_t address, unsigned bytes, vm_flight what)
{
    const vm_race *race = NULL;
    uint64_t offset = 0;
    vm_locate(bulk->issuer, bulk->thread % VM_LANES, VS_GLOBAL, address, &race, &offset);
    return race == NULL || vm_race_flight(bulk->issuer, bulk->insn, bulk->thread % VM_LANES,
                                          (vm_race *)(uintptr_t)race, offset, bytes, what);
}

static bool out_write(const vm_bulk *bulk, uint32_t chunk, const uint8_t *bytes)
{
    const vm_map_chunk found = out_find(bulk, chunk);
    const unsigned size = CHUNK / found.elements;
    for (unsigned e = 0; e < found.elements; e++) {
        const uint64_t address = found.address + (uint64_t)e * size;
        if ((found.inside >> e & 1) == 0) {
            continue; /* outside of the tensor: dropped */
        }
        uint8_t *to = vm_access(bulk->issuer, bulk->insn, bulk->thread % VM_LANES, VS_GLOBAL,
                                address, size, VA_WRITE | VA_UNCHECKED);
        if (to == NULL || !out_mark(bulk, address, size, FL_OUT)) {
            return false;
        }
        memcpy(to, bytes + (size_t)e * size, size);
    }
    return true;
}

static void add_into(uint8_t *to, const uint8_t *from, vm_type type, unsigned size)
{
    uint64_t a = 0, b = 0;
    memcpy(&a, to, size);
    memcpy(&b, from, size);
    if (type == VT_F32) { /* flushes subnormal numbers, as red.global does */
        const float sum = vm_flush_f32(vm_f32_bits((uint32_t)a), VF_FTZ) +
                          vm_flush_f32(vm_f32_bits((uint32_t)b), VF_FTZ);
        a = vm_bits_f32(vm_finish_f32(sum, VF_FTZ));
    } else if (type == VT_BF16) {
        a = vm_bf16_of_f64(vm_add_odd(vm_f64_of_bf16((uint16_t)a), vm_f64_of_bf16((uint16_t)b)), 0);
    } else if (type == VT_F16) {
        a = vm_f16_of_f64(vm_f64_of_f16((uint16_t)a) + vm_f64_of_f16((uint16_t)b), 0);
    } else {
        a += b;
    }
    memcpy(to, &a, size);
}

/* Sums of single elements, each of them atomic. */
static bool out_reduce(const vm_bulk *bulk, uint32_t chunk, const uint8_t *bytes)
{
    const vm_type type = bulk->tensor ? vm_map_type(bulk->map.type) : (vm_type)bulk->insn->types[0];
    const unsigned size = vm_type_bytes(type);
    vm_map_chunk found = {.address = bulk->global + (uint64_t)chunk * CHUNK};
    found.elements = CHUNK / size;
    found.inside = (1u << found.elements) - 1;
    if (bulk->tensor) {
        found = vm_map_find(&bulk->map, bulk->at, chunk);
    }
    for (unsigned e = 0; e < found.elements; e++) {
        if ((found.inside >> e & 1) == 0) {
            continue;
        }
        pthread_mutex_lock(&reduce_lock);
        uint8_t *to = vm_access(bulk->issuer, bulk->insn, bulk->thread % VM_LANES, VS_GLOBAL,
                                found.address + (uint64_t)e * size, size,
                                VA_READ | VA_WRITE | VA_STRONG | VA_ASYNC);
        if (to != NULL) {
            add_into(to, bytes + (size_t)e * size, type, size);
        }
        pthread_mutex_unlock(&reduce_lock);
        if (to == NULL) {
            return false;
        }
    }
    return true;
}

/* The source of one chunk, if it is there, defined, and known to the asynchronous proxy. */
static const uint8_t *out_source(const vm_bulk *bulk, uint32_t chunk)
{
    vm_warp *warp = bulk->issuer;
    const unsigned lane = bulk->thread % VM_LANES;
    const uint32_t at = vm_bulk_place(bulk, chunk);
    const uint8_t *from =
        vm_access(warp, bulk->insn, lane, VS_SHARED, at, CHUNK, VA_READ | VA_UNCHECKED);
    return from != NULL && vm_race_async_read(warp, bulk->insn, lane, warp->block, at, CHUNK)
               ? from
               : NULL;
}

static bool out_begin(vm_bulk *bulk, bool reduces)
{
    vm_warp *warp = bulk->issuer;
    vm_block *block = warp->block;
    const int lane = (int)(bulk->thread % VM_LANES);
    if (bulk->bytes == 0 || bulk->bytes % CHUNK != 0) {
        return vm_fail(warp, bulk->insn, lane, VM_ILLEGAL_INSTRUCTION,
                       "a bulk copy moves a multiple of 16 bytes, not %u", bulk->bytes);
    }
    if (bulk->global % CHUNK != 0 || bulk->shared % (bulk->tensor ? 128 : CHUNK) != 0) {
        return vm_fail(warp, bulk->insn, lane, VM_MISALIGNED_ADDRESS,
                       "both ends of a bulk copy are 16-byte aligned, a tensor's box 128-byte");
    }
    for (uint32_t chunk = 0; chunk < bulk->bytes / CHUNK; chunk++) {
        const uint8_t *from = out_source(bulk, chunk);
        if (from == NULL ||
            !(reduces ? out_reduce(bulk, chunk, from) : out_write(bulk, chunk, from))) {
            return false;
        }
    }
    const vm_reading reading = {.first = bulk->shared,
                                .bytes = bulk->bytes,
                                .owner = bulk->thread,
                                .group = bulk->group,
                                .insn = bulk->insn};
    vm_reading_add(block, &reading);
    if (!reduces) {
        vm_bulk_append(&block->stores, &block->store_count, &block->store_capacity, bulk);
    }
    return true;
}

/* cp.async.bulk(.tensor).global.shared::cta.bulk_group [to{, coordinates}], [from] {, bytes};
 * choice != 0: cp.reduce. */
static bool exec_out(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const unsigned lane = vm_first_lane(left);
        const unsigned source = 1u + in->vector;
        const vm_operand *from = vm_operand_at(warp, in, source);
        vm_bulk bulk;
        memset(&bulk, 0, sizeof bulk);
        if (!vm_bulk_global(warp, in, 0, lane, &bulk)) {
            return false;
        }
        bulk.shared = (uint32_t)(vm_lane(vm_source(warp, in, source), from->bytes, lane) +
                                 (uint64_t)from->displacement);
        bulk.group = warp->block->store_groups[bulk.thread];
        if (!bulk.tensor) {
            bulk.bytes = ((const uint32_t *)vm_source(warp, in, 2))[lane];
        }
        if (!out_begin(&bulk, in->choice != VX_NONE)) {
            return false;
        }
    }
    return true;
}

static bool exec_commit(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)in;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        warp->block->store_groups[warp->index * VM_LANES + vm_first_lane(left)]++;
    }
    return true;
}

/* The target is ordinary memory again, written by the issuer. */
static bool out_ends(const vm_bulk *bulk)
{
    for (uint32_t chunk = 0; chunk < bulk->bytes / CHUNK; chunk++) {
        const vm_map_chunk found = out_find(bulk, chunk);
        const unsigned size = CHUNK / found.elements;
        for (unsigned e = 0; e < found.elements; e++) {
            if ((found.inside >> e & 1) != 0 &&
                !out_mark(bulk, found.address + (uint64_t)e * size, size, FL_ENDS)) {
                return false;
            }
        }
    }
    return true;
}

/* cp.async.bulk.wait_group{.read} n: all but the newest n groups. */
static bool exec_wait(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_block *block = warp->block;
    const uint32_t *keep = vm_source(warp, in, 0);
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const unsigned lane = vm_first_lane(left);
        const uint32_t thread = warp->index * VM_LANES + lane;
        const uint32_t groups = block->store_groups[thread];
        const uint32_t over = groups > keep[lane] ? groups - keep[lane] : 0;
        uint32_t kept = 0;
        vm_reading_end(warp, thread, false, over);
        for (uint32_t i = 0; i < block->store_count && (in->flags & VF_READ) == 0; i++) {
            const vm_bulk bulk = block->stores[i];
            if (bulk.thread != thread || bulk.group >= over) {
                block->stores[kept++] = bulk;
            } else if (!out_ends(&bulk)) {
                return false;
            }
        }
        block->store_count = (in->flags & VF_READ) == 0 ? kept : block->store_count;
    }
    return true;
}

/* Prefetches of boxes and of maps: only what they name is looked at. */
static bool exec_prefetch(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    for (uint32_t left = mask; left != 0 && in->vector != 0; left &= left - 1) {
        vm_bulk bulk;
        memset(&bulk, 0, sizeof bulk);
        if (!vm_bulk_global(warp, in, 0, vm_first_lane(left), &bulk)) {
            return false;
        }
    }
    return true;
}

static bool needs_hopper(vm_parser *parser)
{
    return parser->module->target >= 90 ||
           vm_parse_fail(parser, VM_INVALID_PTX, "bulk copies need .target sm_90");
}

static bool out_hook(vm_parser *parser, vm_insn *in, bool tensor)
{
    size_t at = 0;
    in->vector = tensor ? in->vector : 0;
    if (!needs_hopper(parser)) {
        return false;
    }
    if (!vm_bulk_decode(parser, in, &at) || at >= parser->node_count ||
        !vm_add_memory(parser, in, &parser->nodes[at++]) ||
        (!tensor && (at >= parser->node_count ||
                     !vm_add_source(parser, in, &parser->nodes[at++], VT_U32, false))) ||
        parser->node_count > at + 1) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wrong operands of a bulk copy");
    }
    return true;
}

static bool hook_out(vm_parser *parser, vm_insn *in)
{
    return out_hook(parser, in, false);
}
static bool hook_tensor_out(vm_parser *parser, vm_insn *in)
{
    return out_hook(parser, in, true);
}

static bool hook_commit(vm_parser *parser, vm_insn *in)
{
    (void)in;
    return needs_hopper(parser) &&
           (parser->node_count == 0 || vm_parse_fail(parser, VM_INVALID_PTX, "too many operands"));
}

static bool hook_prefetch(vm_parser *parser, vm_insn *in)
{
    size_t at = 0;
    return needs_hopper(parser) && vm_bulk_decode(parser, in, &at);
}

static bool hook_prefetch_map(vm_parser *parser, vm_insn *in)
{
    in->vector = 0;
    return needs_hopper(parser) && parser->node_count == 1 &&
           vm_add_memory(parser, in, &parser->nodes[0]);
}

static bool hook_plain_prefetch(vm_parser *parser, vm_insn *in)
{
    in->vector = 0;
    return needs_hopper(parser);
}

#define RANK "1d|2d|3d|4d|5d"
#define ROW(pattern, shape, exec, hook)                                                            \
    {                                                                                              \
        pattern, shape, exec, NULL, 0, SY_NONE, hook                                               \
    }

const vm_row vm_rows_bulk_out[] = {
    ROW("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint?", NULL, exec_out, hook_out),
    ROW("cp.async.bulk.tensor." RANK ".global.shared::cta.tile?.bulk_group.L2::cache_hint?", NULL,
        exec_out, hook_tensor_out),
    ROW("cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint?.add.f32|u32|s32|u64",
        NULL, exec_out, hook_out),
    ROW("cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint?.add.noftz.f16|bf16",
        NULL, exec_out, hook_out),
    ROW("cp.reduce.async.bulk.tensor." RANK ".global.shared::cta.add.tile?.bulk_group."
        "L2::cache_hint?",
        NULL, exec_out, hook_tensor_out),
    ROW("cp.async.bulk.commit_group", NULL, exec_commit, hook_commit),
    ROW("cp.async.bulk.wait_group.read?", "u", exec_wait, NULL),
    ROW("cp.async.bulk.prefetch.tensor." RANK ".L2.global.tile?.L2::cache_hint?", NULL,
        exec_prefetch, hook_prefetch),
    ROW("cp.async.bulk.prefetch.L2.global.L2::cache_hint?", NULL, exec_prefetch,
        hook_plain_prefetch),
    ROW("prefetch.tensormap", NULL, exec_prefetch, hook_prefetch_map),
    ROW("prefetch.param::entry|const|param.tensormap", NULL, exec_prefetch, hook_prefetch_map),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
