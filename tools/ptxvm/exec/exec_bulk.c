/* SPDX-License-Identifier: MIT */
/* cp.async.bulk and cp.async.bulk.tensor into shared memory. A copy's bytes move when somebody
 * waits in vain for its mbarrier, one copy at a time under a seed: so a phase that ends too soon
 * lets its waiters run into bytes in flight. */
#include "tools/ptxvm/block.h"
#include "tools/ptxvm/exec/mbarrier.h"
#include "tools/ptxvm/text/parse.h"
#include "tools/ptxvm/exec/reading.h"

enum {
    CHUNK = VM_MAP_CHUNK, /* bytes that a bulk copy consists of */
    TENSOR_ALIGN = 128    /* of a box in shared memory, and of a map */
};

void vm_bulk_append(vm_bulk **list, uint32_t *count, uint32_t *capacity, const vm_bulk *bulk)
{
    if (*count == *capacity) {
        *capacity = 2 * *capacity + 16;
        *list = vm_resize(*list, *capacity * sizeof(vm_bulk));
    }
    (*list)[(*count)++] = *bulk;
}

uint32_t vm_bulk_place(const vm_bulk *bulk, uint32_t chunk)
{
    const uint32_t address = bulk->shared + chunk * CHUNK;
    return bulk->tensor ? vm_swizzled(address, (vm_swizzle)bulk->map.swizzle) : address;
}

/* The fill of elements outside of a tensor: zeros, or a NaN that has every bit but the sign set. */
static void bulk_fill(uint8_t *bytes, const vm_bulk *bulk)
{
    const unsigned size = vm_map_element(bulk->map.type);
    memset(bytes, bulk->map.fills_nan ? 0xff : 0, CHUNK);
    for (unsigned i = size - 1; i < CHUNK && bulk->map.fills_nan; i += size) {
        bytes[i] = 0x7f;
    }
}

static bool bulk_fetch(const vm_bulk *bulk, uint32_t chunk, uint8_t *bytes)
{
    vm_warp *warp = bulk->issuer;
    const unsigned lane = bulk->thread % VM_LANES;
    vm_map_chunk found = {.address = bulk->global + (uint64_t)chunk * CHUNK};
    found.inside = found.elements = 1;
    if (bulk->tensor) {
        found = vm_map_find(&bulk->map, bulk->at, chunk);
        bulk_fill(bytes, bulk);
    }
    const bool whole = found.inside == (1u << found.elements) - 1 && found.address % CHUNK == 0;
    const unsigned size = whole ? (unsigned)CHUNK : CHUNK / found.elements;
    for (unsigned e = 0; e < (whole ? 1 : found.elements); e++) {
        const uint8_t *from = bytes + (size_t)e * size;
        if ((found.inside >> e & 1) != 0) {
            from = vm_access(warp, bulk->insn, lane, VS_GLOBAL, found.address + (uint64_t)e * size,
                             size, VA_READ | VA_ASYNC);
        }
        if (from == NULL) {
            return false;
        }
        memmove(bytes + (size_t)e * size, from, size);
    }
    return true;
}

static bool bulk_moves(vm_block *block, const vm_bulk *bulk)
{
    const bool away = bulk->issuer->block != block;
    const uint32_t copy = bulk->tensor ? ++block->copies : 0;
    const uint32_t width =
        bulk->tensor ? bulk->map.box[0] * vm_map_element(bulk->map.type) / CHUNK : 0;
    for (uint32_t chunk = 0; chunk < bulk->bytes / CHUNK; chunk++) {
        uint8_t bytes[CHUNK];
        const uint32_t to = vm_bulk_place(bulk, chunk);
        if (!bulk_fetch(bulk, chunk, bytes)) {
            return false;
        }
        memcpy(block->shared + to, bytes, CHUNK);
        vm_bits_set(block->shared_defined, to, CHUNK, true);
        const vm_tag tag = {copy, chunk, width};
        block->tags[to / CHUNK] = tag;
        if (away) {
            vm_race_flight_away(block, to, CHUNK, false);
        } else if (!vm_race_flight(bulk->issuer, bulk->insn, bulk->thread % VM_LANES,
                                   &block->shared_race, to, CHUNK, FL_ENDS)) {
            return false;
        }
    }
    return true;
}

/* Completes copies of an mbarrier: all, or under a seed one. */
bool vm_bulk_deliver(vm_warp *waiter, vm_mbarrier *m)
{
    vm_block *block = waiter->block;
    const bool seeded = block->launch->seed != 0;
    uint32_t kept = 0, moved = 0;
    for (uint32_t i = 0; i < block->bulk_count; i++) {
        const vm_bulk bulk = block->bulks[i];
        if (bulk.mbarrier != m->address || (seeded && moved > 0)) {
            block->bulks[kept++] = bulk;
            continue;
        }
        moved++;
        if (!bulk_moves(block, &bulk) ||
            !vm_mbarrier_transact(bulk.issuer, bulk.insn, bulk.thread % VM_LANES, m,
                                  -(int64_t)bulk.bytes)) {
            return false;
        }
        if (bulk.issuer->block == block) {
            vm_mbarrier_bring(bulk.issuer, m);
        } else {
            m->gathering.seen[VM_AWAY_WARP] = block->time++;
        }
        vm_mbarrier_resolve(block, m);
    }
    block->bulk_count = kept;
    return true;
}

static bool bulk_sized(const vm_bulk *bulk)
{
    vm_warp *warp = bulk->issuer;
    const int lane = (int)(bulk->thread % VM_LANES);
    if (bulk->bytes == 0 || bulk->bytes % CHUNK != 0 || bulk->bytes > VM_MBARRIER_MOST) {
        return vm_fail(warp, bulk->insn, lane, VM_ILLEGAL_INSTRUCTION,
                       "a bulk copy moves a multiple of 16 bytes, not %u", bulk->bytes);
    }
    if (bulk->tensor && bulk->shared % TENSOR_ALIGN != 0) {
        return vm_fail(warp, bulk->insn, lane, VM_MISALIGNED_ADDRESS,
                       "a tensor's box lies 128-byte aligned in shared memory, not at 0x%x",
                       bulk->shared);
    }
    return (bulk->global % CHUNK == 0 && bulk->shared % CHUNK == 0) ||
           vm_fail(warp, bulk->insn, lane, VM_MISALIGNED_ADDRESS,
                   "both ends of a bulk copy are 16-byte aligned");
}

/* What the copy writes belongs to nobody from now on. */
static bool bulk_leaves(vm_block *home, const vm_bulk *bulk)
{
    vm_warp *warp = bulk->issuer;
    const unsigned lane = bulk->thread % VM_LANES;
    if (!bulk_sized(bulk)) {
        return false;
    }
    for (uint32_t done = 0; done < bulk->bytes; done += CHUNK) {
        const uint32_t to = bulk->shared + done;
        const uint64_t address = to | (uint64_t)(home->rank + 1) << VM_RANK_SHIFT;
        if (vm_access(warp, bulk->insn, lane, VS_SHARED, address, CHUNK, VA_WRITE | VA_UNCHECKED) ==
            NULL) {
            return false;
        }
        if (home != warp->block) {
            if (home->reading_count != 0 &&
                !vm_reading_free(warp, bulk->insn, lane, home, to, CHUNK)) {
                return false;
            }
            vm_race_flight_away(home, to, CHUNK, true);
        } else if (!vm_race_flight(warp, bulk->insn, lane, &home->shared_race, to, CHUNK,
                                   FL_BULK)) {
            return false;
        }
    }
    vm_bits_set(home->shared_defined, bulk->shared, bulk->bytes, false);
    return true;
}

/* ---- operands ---- */

/* A map's 128 bytes, from wherever in memory they lie. */
static bool bulk_map(vm_warp *warp, const vm_insn *in, unsigned lane, uint64_t address,
                     vm_tensor_map *map)
{
    if (address % TENSOR_ALIGN != 0) {
        return vm_fail(warp, in, (int)lane, VM_MISALIGNED_ADDRESS,
                       "a tensor map is 128-byte aligned");
    }
    for (unsigned done = 0; done < VM_MAP_BYTES; done += CHUNK) {
        const uint8_t *from = vm_access(warp, in, lane, VS_GENERIC, address + done, CHUNK, VA_READ);
        if (from == NULL) {
            return false;
        }
        memcpy((uint8_t *)map + done, from, CHUNK);
    }
    return vm_map_whole(map) ||
           vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                   "no tensor map that cuTensorMapEncodeTiled made, or an altered one");
}

static bool bulk_described(vm_warp *warp, const vm_insn *in, unsigned lane, const vm_bulk *bulk)
{
    static const unsigned spans[] = {0, 32, 64, 128};
    const vm_tensor_map *map = &bulk->map;
    if (map->rank != in->vector) {
        return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                       "a copy in %u dimensions of a tensor map of %u", in->vector, map->rank);
    }
    for (unsigned i = 0; i < map->rank; i++) {
        if (map->steps[i] != 1) {
            return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                           "steps through a tensor are not there");
        }
    }
    const unsigned inner = map->box[0] * vm_map_element(map->type);
    return spans[map->swizzle] == 0 || spans[map->swizzle] == inner ||
           vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                   "a box %u bytes wide under a pattern of %u: where they lie is not documented",
                   inner, spans[map->swizzle]);
}

static uint64_t bulk_address(vm_warp *warp, const vm_insn *in, unsigned operand, unsigned lane)
{
    const vm_operand *at = vm_operand_at(warp, in, operand);
    return vm_lane(vm_source(warp, in, operand), at->bytes, lane) + (uint64_t)at->displacement;
}

bool vm_bulk_global(vm_warp *warp, const vm_insn *in, unsigned operand, unsigned lane,
                    vm_bulk *bulk)
{
    const uint64_t address = bulk_address(warp, in, operand, lane);
    bulk->tensor = in->vector != 0;
    bulk->thread = warp->index * VM_LANES + lane;
    bulk->insn = in;
    bulk->issuer = warp;
    bulk->function = warp->function;
    if (!bulk->tensor) {
        bulk->global = address;
        return true;
    }
    if (!bulk_map(warp, in, lane, address, &bulk->map) || !bulk_described(warp, in, lane, bulk)) {
        return false;
    }
    for (unsigned i = 0; i < in->vector; i++) {
        bulk->at[i] = ((const int32_t *)vm_source(warp, in, operand + 1 + i))[lane];
    }
    bulk->bytes = vm_map_box_bytes(&bulk->map);
    return true;
}

bool vm_bulk_decode(vm_parser *parser, vm_insn *in, size_t *at)
{
    const vm_node *nodes = parser->nodes;
    if (*at >= parser->node_count || !vm_add_memory(parser, in, &nodes[*at])) {
        return false;
    }
    (*at)++;
    if (in->vector == 0) {
        return true;
    }
    if (*at >= parser->node_count || !nodes[*at].paired || nodes[*at].kind != ND_VECTOR ||
        nodes[*at].children != in->vector) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "%u coordinates are wanted", in->vector);
    }
    (*at)++;
    for (unsigned i = 0; i < in->vector; i++, (*at)++) {
        if (!vm_add_source(parser, in, &nodes[*at], VT_S32, false)) {
            return false;
        }
    }
    return true;
}

/* ---- copies into shared memory ---- */

/* The copy as one block of the cluster sees it; they all have it at the same place. */
static bool bulk_begin(vm_block *home, vm_bulk *bulk)
{
    const vm_mbarrier *m = vm_mbarrier_at(home, bulk->mbarrier);
    vm_warp *warp = bulk->issuer;
    const int lane = (int)(bulk->thread % VM_LANES);
    if (home != warp->block && !vm_cluster_reaches(warp, bulk->insn, (unsigned)lane, home->rank)) {
        return false;
    }
    if (m == NULL) {
        return vm_fail(warp, bulk->insn, lane, VM_ILLEGAL_INSTRUCTION,
                       "no mbarrier at 0x%x in block %u of the cluster", bulk->mbarrier,
                       home->rank);
    }
    if (!m->fenced) {
        return vm_fail(warp, bulk->insn, lane, VM_LAUNCH_FAILED,
                       "a bulk copy on an mbarrier whose init no fence.mbarrier_init or "
                       "fence.proxy.async of its thread followed");
    }
    if (!bulk_leaves(home, bulk)) {
        return false;
    }
    vm_bulk_append(&home->bulks, &home->bulk_count, &home->bulk_capacity, bulk);
    return true;
}

/* cp.async.bulk(.tensor) [to], [from{, coordinates}], {bytes,} [m] {, blocks}: the blocks last, and
 * the mbarrier before them, whatever else there is. */
static bool exec_bulk(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_cluster *cluster = warp->block->cluster;
    const bool many = (in->flags & VF_MULTICAST) != 0;
    const unsigned barrier = in->operands - (many ? 2u : 1u);
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const unsigned lane = vm_first_lane(left);
        vm_bulk bulk;
        memset(&bulk, 0, sizeof bulk);
        const vm_mbarrier *m = vm_mbarrier_use(warp, in, barrier, lane, NULL);
        if (m == NULL || !vm_bulk_global(warp, in, 1, lane, &bulk)) {
            return false;
        }
        if (!bulk.tensor) {
            bulk.bytes = ((const uint32_t *)vm_source(warp, in, 2))[lane];
        }
        bulk.mbarrier = m->address;
        bulk.shared = (uint32_t)bulk_address(warp, in, 0, lane);
        if (bulk.shared >> VM_RANK_SHIFT == warp->block->rank + 1u) {
            bulk.shared &= (1u << VM_RANK_SHIFT) - 1;
        }
        uint32_t blocks = 1u << warp->block->rank;
        if (many) {
            blocks = ((const uint16_t *)vm_source(warp, in, in->operands - 1u))[lane];
        }
        if (blocks == 0 || blocks >> cluster->block_count != 0) {
            return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                           "a copy to blocks 0x%x of a cluster of %u", blocks,
                           cluster->block_count);
        }
        for (; blocks != 0; blocks &= blocks - 1) {
            if (!bulk_begin(&cluster->blocks[vm_first_lane(blocks)], &bulk)) {
                return false;
            }
        }
    }
    return true;
}

bool vm_bulk_finish(vm_block *block)
{
    if (block->bulk_count == 0) {
        return true;
    }
    const vm_bulk *bulk = &block->bulks[0];
    return vm_fail(bulk->issuer, bulk->insn, (int)(bulk->thread % VM_LANES), VM_LAUNCH_FAILED,
                   "%u bulk copies still in flight at the block's end", block->bulk_count);
}

static bool bulk_hook(vm_parser *parser, vm_insn *in, bool tensor)
{
    const vm_node *nodes = parser->nodes;
    size_t at = 1;
    if (parser->module->target < 90) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "bulk copies need .target sm_90");
    }
    in->vector = tensor ? in->vector : 0;
    if (parser->node_count < 3 || !vm_add_memory(parser, in, &nodes[0]) ||
        !vm_bulk_decode(parser, in, &at) ||
        (!tensor && !vm_add_source(parser, in, &nodes[at++], VT_U32, false)) ||
        at >= parser->node_count || !vm_add_memory(parser, in, &nodes[at++])) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wrong operands of cp.async.bulk");
    }
    if ((in->flags & VF_MULTICAST) != 0 &&
        (at >= parser->node_count || !vm_add_source(parser, in, &nodes[at++], VT_U16, false))) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "a mask of 16 bits names the blocks");
    }
    return at + 1 >= parser->node_count || /* a cache policy may follow */
           vm_parse_fail(parser, VM_INVALID_PTX, "too many operands");
}

static bool hook_bulk(vm_parser *parser, vm_insn *in)
{
    return bulk_hook(parser, in, false);
}
static bool hook_tensor(vm_parser *parser, vm_insn *in)
{
    return bulk_hook(parser, in, true);
}

#define ROW(pattern, hook)                                                                         \
    {                                                                                              \
        pattern, NULL, exec_bulk, NULL, 0, SY_NONE, hook                                           \
    }

const vm_row vm_rows_bulk[] = {
    ROW("cp.async.bulk.shared::cluster|shared::cta.global.mbarrier::complete_tx::bytes."
        "multicast::cluster?.L2::cache_hint?",
        hook_bulk),
    ROW("cp.async.bulk.tensor.1d|2d|3d|4d|5d.shared::cluster|shared::cta.global.tile?."
        "mbarrier::complete_tx::bytes.multicast::cluster?.L2::cache_hint?",
        hook_tensor),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
