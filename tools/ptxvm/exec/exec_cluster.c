/* SPDX-License-Identifier: MIT */
/* Clusters of blocks: their barrier, addresses in each other's shared memory; and the wait for the
 * kernel before this one in the stream. */
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

enum { PATIENCE = 200000 };

/* Ends the phase when every warp that lives has arrived. */
static void cluster_resolve(vm_cluster *cluster)
{
    for (uint32_t b = 0; b < cluster->block_count; b++) {
        const vm_block *block = &cluster->blocks[b];
        for (uint32_t w = 0; w < block->warp_count; w++) {
            const vm_warp *warp = &block->warps[w];
            if (warp->live != 0 &&
                !(warp->cluster_arrived && warp->cluster_phase == cluster->phase)) {
                return;
            }
        }
    }
    cluster->phase++;
    memcpy(cluster->complete, cluster->gathering, sizeof cluster->complete);
    memset(cluster->gathering, 0, sizeof cluster->gathering);
    for (uint32_t b = 0; b < cluster->block_count; b++) {
        cluster->blocks[b].pauses = 0;
    }
}

static bool exec_arrive(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)mask;
    vm_cluster *cluster = warp->block->cluster;
    const bool relaxed = (in->flags & VF_STRONG) != 0 && (in->flags & VF_RELEASE) == 0;
    if (warp->cluster_arrived) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                       "a warp arrives twice at the cluster's barrier without a wait");
    }
    warp->cluster_arrived = true;
    warp->cluster_phase = cluster->phase;
    if (!relaxed) {
        vm_race_bring(warp, &cluster->gathering[warp->block->rank]);
    }
    cluster_resolve(cluster);
    return true;
}

/* What all blocks had done before they arrived is before what follows. */
static void cluster_take(vm_warp *warp)
{
    vm_block *block = warp->block;
    const vm_cluster *cluster = block->cluster;
    for (uint32_t rank = 0; rank < cluster->block_count; rank++) {
        const vm_clock_set *set = &cluster->complete[rank];
        if (rank == block->rank) {
            const uint32_t own = set->seen[warp->index];
            vm_race_take(warp, set);
            warp->clock.warp_time = own > warp->clock.warp_time ? own : warp->clock.warp_time;
            continue;
        }
        vm_release release = {.block = (uint32_t)cluster->blocks[rank].linear};
        memcpy(release.seen, set->seen, sizeof release.seen);
        release.proxied = set->proxied;
        vm_race_merge(&block->acquired, &release);
    }
}

static bool exec_wait(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)mask;
    vm_cluster *cluster = warp->block->cluster;
    if (!warp->cluster_arrived) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                       "a wait at the cluster's barrier without an arrival");
    }
    cluster_resolve(cluster);
    if (warp->cluster_phase == cluster->phase) {
        warp->pauses = warp->again = true;
        return ++warp->block->pauses <= PATIENCE ||
               vm_fail(warp, in, VM_FULL, VM_LAUNCH_TIMEOUT,
                       "the cluster's barrier waits for threads that never arrive");
    }
    warp->cluster_arrived = false;
    cluster_take(warp);
    return true;
}

/* mapa: the address of the same place in another block of the cluster; u64: generic ones. */
static bool exec_mapa(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint32_t *rank = vm_source(warp, in, 2);
    const unsigned bytes = vm_type_bytes((vm_type)in->types[0]);
    uint64_t lanes[VM_LANES] = {0};
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const unsigned i = vm_first_lane(left);
        const uint64_t a = vm_lane(vm_source(warp, in, 1), bytes, i);
        if (rank[i] >= warp->block->cluster->block_count) {
            return vm_fail(warp, in, (int)i, VM_ILLEGAL_INSTRUCTION,
                           "mapa to block %u of a cluster of %u", rank[i],
                           warp->block->cluster->block_count);
        }
        const uint64_t kept = (a & VM_GENERIC_MASK) | (a & ((1u << VM_RANK_SHIFT) - 1));
        vm_set_lane(lanes, bytes, i, kept | (uint64_t)(rank[i] + 1) << VM_RANK_SHIFT);
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

static bool exec_rank(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const unsigned bytes = vm_type_bytes((vm_type)in->types[0]);
    uint32_t lanes[VM_LANES] = {0};
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const unsigned i = vm_first_lane(left);
        const uint32_t a = (uint32_t)vm_lane(vm_source(warp, in, 1), bytes, i) >> VM_RANK_SHIFT;
        lanes[i] = a == 0 ? warp->block->rank : a - 1;
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

/* griddepcontrol.wait: the kernel before this one has ended. launch_dependents is a hint. */
static bool exec_depend(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)mask;
    warp->grid_waited = warp->grid_waited || in->vector != 0;
    return true;
}

static bool cluster_target(vm_parser *parser)
{
    return parser->module->target >= 90 ||
           vm_parse_fail(parser, VM_INVALID_PTX, "this needs .target sm_90");
}

static bool hook_bare(vm_parser *parser, vm_insn *in)
{
    in->vector = 0;
    return cluster_target(parser) &&
           (parser->node_count == 0 || vm_parse_fail(parser, VM_INVALID_PTX, "too many operands"));
}

static bool hook_wait(vm_parser *parser, vm_insn *in)
{
    bool fine = hook_bare(parser, in);
    in->vector = 1;
    return fine;
}

static bool hook_hopper(vm_parser *parser, vm_insn *in)
{
    (void)in;
    return cluster_target(parser);
}

#define ROW(pattern, shape, exec, sync, hook)                                                      \
    {                                                                                              \
        pattern, shape, exec, NULL, 0, sync, hook                                                  \
    }

const vm_row vm_rows_cluster[] = {
    ROW("barrier.cluster.arrive.release|relaxed?.aligned?", NULL, exec_arrive, SY_ALIGNED,
        hook_bare),
    ROW("barrier.cluster.wait.acquire?.aligned?", NULL, exec_wait, SY_ALIGNED, hook_bare),
    ROW("mapa.shared::cluster?.u32|u64", "d0 s0 u", exec_mapa, SY_NONE, hook_hopper),
    ROW("getctarank.shared::cluster?.u32|u64", "U s0", exec_rank, SY_NONE, hook_hopper),
    ROW("griddepcontrol.wait", NULL, exec_depend, SY_NONE, hook_wait),
    ROW("griddepcontrol.launch_dependents", NULL, exec_depend, SY_NONE, hook_bare),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
