/* SPDX-License-Identifier: MIT */
/* cp.async.bulk into shared memory. A copy's bytes move when somebody waits in vain for its
 * mbarrier, one copy at a time under a seed: so a phase that ends too soon lets its waiters run
 * into bytes in flight. */
#include "tools/ptxvm/mbarrier.h"
#include "tools/ptxvm/parse.h"

enum { CHUNK = 16 /* bytes that a bulk copy consists of */ };

static bool bulk_moves(vm_warp *warp, const vm_bulk *bulk)
{
    vm_block *block = warp->block;
    const unsigned lane = bulk->thread % VM_LANES;
    for (uint32_t done = 0; done < bulk->bytes; done += CHUNK) {
        const uint8_t *from =
            vm_access(warp, bulk->insn, lane, VS_GLOBAL, bulk->source + done, CHUNK, VA_READ);
        if (from == NULL) {
            return false;
        }
        memcpy(block->shared + bulk->target + done, from, CHUNK);
        vm_bits_set(block->shared_defined, bulk->target + done, CHUNK, true);
        if (!vm_race_flight(warp, bulk->insn, lane, &block->shared_race, bulk->target + done, CHUNK,
                            false)) {
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
        vm_warp *warp = &block->warps[bulk.thread / VM_LANES];
        moved++;
        if (!bulk_moves(warp, &bulk) ||
            !vm_mbarrier_transact(warp, bulk.insn, bulk.thread % VM_LANES, m,
                                  -(int64_t)bulk.bytes)) {
            return false;
        }
        vm_mbarrier_bring(warp, m);
        vm_mbarrier_settle(block, m);
    }
    block->bulk_count = kept;
    return true;
}

/* What the copy writes belongs to nobody from now on. */
static bool bulk_leaves(vm_warp *warp, const vm_insn *in, unsigned lane, const vm_bulk *bulk)
{
    vm_block *block = warp->block;
    if (bulk->bytes == 0 || bulk->bytes % CHUNK != 0 || bulk->bytes > VM_MBARRIER_MOST) {
        return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                       "a bulk copy moves a multiple of 16 bytes, not %u", bulk->bytes);
    }
    if (bulk->source % CHUNK != 0 || bulk->target % CHUNK != 0) {
        return vm_fail(warp, in, (int)lane, VM_MISALIGNED_ADDRESS,
                       "both ends of a bulk copy are 16-byte aligned");
    }
    for (uint32_t done = 0; done < bulk->bytes; done += CHUNK) {
        if (vm_access(warp, in, lane, VS_SHARED, bulk->target + done, CHUNK,
                      VA_WRITE | VA_UNCHECKED) == NULL ||
            !vm_race_flight(warp, in, lane, &block->shared_race, bulk->target + done, CHUNK,
                            true)) {
            return false;
        }
    }
    vm_bits_set(block->shared_defined, bulk->target, bulk->bytes, false);
    return true;
}

/* cp.async.bulk.shared.global.mbarrier::complete_tx::bytes [to], [from], bytes, [m] */
static bool exec_bulk(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_block *block = warp->block;
    const vm_operand *to = vm_operand_at(warp, in, 0), *from = vm_operand_at(warp, in, 1);
    const uint32_t *sizes = vm_source(warp, in, 2);
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const unsigned lane = vm_first_lane(left);
        const vm_mbarrier *m = vm_mbarrier_use(warp, in, 3, lane);
        if (m == NULL) {
            return false;
        }
        if (!m->fenced) {
            return vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                           "a bulk copy on an mbarrier whose init no fence.mbarrier_init or "
                           "fence.proxy.async of its thread followed");
        }
        vm_bulk bulk = {.bytes = sizes[lane],
                        .thread = warp->index * VM_LANES + lane,
                        .mbarrier = m->address,
                        .insn = in,
                        .function = warp->function};
        bulk.target = (uint32_t)(vm_lane(vm_source(warp, in, 0), to->bytes, lane) +
                                 (uint64_t)to->displacement);
        bulk.source =
            vm_lane(vm_source(warp, in, 1), from->bytes, lane) + (uint64_t)from->displacement;
        if (bulk.target >> VM_RANK_SHIFT == block->rank + 1u) {
            bulk.target &= (1u << VM_RANK_SHIFT) - 1;
        }
        if (!bulk_leaves(warp, in, lane, &bulk)) {
            return false;
        }
        if (block->bulk_count == block->bulk_capacity) {
            block->bulk_capacity = 2 * block->bulk_capacity + 16;
            block->bulks = vm_resize(block->bulks, block->bulk_capacity * sizeof(vm_bulk));
        }
        block->bulks[block->bulk_count++] = bulk;
    }
    return true;
}

bool vm_bulk_finish(vm_block *block)
{
    if (block->bulk_count == 0) {
        return true;
    }
    const vm_bulk *bulk = &block->bulks[0];
    return vm_fail(&block->warps[bulk->thread / VM_LANES], bulk->insn,
                   (int)(bulk->thread % VM_LANES), VM_LAUNCH_FAILED,
                   "%u bulk copies still in flight at the block's end", block->bulk_count);
}

static bool hook_bulk(vm_parser *parser, vm_insn *in)
{
    const vm_node *nodes = parser->nodes;
    in->vector = 0;
    if (parser->node_count < 4 || parser->node_count > 5) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wrong operands of cp.async.bulk");
    }
    if (parser->module->target < 90) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "bulk copies need .target sm_90");
    }
    return vm_add_memory(parser, in, &nodes[0]) && vm_add_memory(parser, in, &nodes[1]) &&
           vm_add_source(parser, in, &nodes[2], VT_U32, false) &&
           vm_add_memory(parser, in, &nodes[3]);
}

const vm_row vm_rows_bulk[] = {
    {"cp.async.bulk.shared::cluster|shared::cta.global.mbarrier::complete_tx::bytes."
     "L2::cache_hint?",
     NULL, exec_bulk, NULL, 0, SY_NONE, hook_bulk},
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
