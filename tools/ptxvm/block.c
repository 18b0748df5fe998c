/* SPDX-License-Identifier: MIT */
/* Clusters of blocks: set up from a launch, warps run in turn, barriers between them. */
#include "tools/ptxvm/block.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/ptxvm/exec/async.h"
#include "tools/ptxvm/exec/matrix.h"

enum { SLICE_NATURAL = 1 << 20, SLICE_SEEDED = 96 };

static void fill_special(vm_warp *warp, vm_special row, uint32_t value)
{
    uint32_t *lanes = (uint32_t *)warp->specials + (size_t)row * VM_LANES;
    for (int i = 0; i < VM_LANES; i++) {
        lanes[i] = value;
    }
}

static void fill_special64(vm_warp *warp, vm_special row, uint64_t value)
{
    uint64_t *lanes = (uint64_t *)((uint32_t *)warp->specials + (size_t)row * VM_LANES);
    for (int i = 0; i < VM_LANES; i++) {
        lanes[i] = value;
    }
}

static void fill_lanes(vm_warp *warp)
{
    const vm_launch *launch = warp->block->launch;
    uint32_t *rows = (uint32_t *)warp->specials;
    for (uint32_t i = 0; i < VM_LANES; i++) {
        uint32_t thread = warp->index * VM_LANES + i;
        rows[VP_TID_X * VM_LANES + i] = thread % launch->block[0];
        rows[VP_TID_Y * VM_LANES + i] = thread / launch->block[0] % launch->block[1];
        rows[VP_TID_Z * VM_LANES + i] = thread / launch->block[0] / launch->block[1];
        rows[VP_LANEID * VM_LANES + i] = i;
        rows[VP_LANEMASK_EQ * VM_LANES + i] = 1u << i;
        rows[VP_LANEMASK_LT * VM_LANES + i] = (1u << i) - 1;
        rows[VP_LANEMASK_LE * VM_LANES + i] = ((1u << i) - 1) | 1u << i;
        rows[VP_LANEMASK_GE * VM_LANES + i] = ~((1u << i) - 1);
        rows[VP_LANEMASK_GT * VM_LANES + i] = ~(((1u << i) - 1) | 1u << i);
    }
}

static void fill_specials(vm_warp *warp)
{
    const vm_block *block = warp->block;
    const vm_launch *launch = block->launch;
    fill_lanes(warp);
    for (uint32_t i = 0; i < 3; i++) {
        fill_special(warp, (vm_special)(VP_NTID_X + i), launch->block[i]);
        fill_special(warp, (vm_special)(VP_CTAID_X + i), block->index[i]);
        fill_special(warp, (vm_special)(VP_NCTAID_X + i), launch->grid[i]);
    }
    fill_special(warp, VP_WARPID, warp->index);
    fill_special(warp, VP_NWARPID, block->warp_count);
    fill_special(warp, VP_DYNAMIC_BASE, launch->function->dynamic_base);
    fill_special64(warp, VP_DYNAMIC_BASE64, launch->function->dynamic_base);
    fill_special(warp, VP_DYNAMIC_SIZE, launch->dynamic_shared);
    fill_special(warp, VP_TOTAL_SHARED, launch->shared_bytes);
    fill_special(warp, VP_ZERO, 0);
    fill_special(warp, VP_ONE, 1);
    fill_special64(warp, VP_GRIDID, launch->serial);
    fill_special64(warp, VP_ZERO64, 0);
    fill_special(warp, VP_CLUSTER_RANK, block->rank);
    fill_special(warp, VP_CLUSTER_SIZE, launch->cluster);
}

/* ---- storage, kept from launch to launch ---- */

static void vm_cluster_free(vm_cluster *cluster)
{
    for (uint32_t b = 0; b < cluster->capacity_blocks; b++) {
        vm_block *block = &cluster->blocks[b];
        for (size_t w = 0; w < cluster->capacity_warps; w++) {
            vm_warp *warp = &block->warps[w];
            free(warp->registers);
            free(warp->specials);
            free(warp->local);
            free(warp->frame);
            free(warp->clock.lanes);
            free(warp->marks);
        }
        free(block->warps);
        free(block->shared);
        free(block->shared_defined);
        vm_race_free(&block->shared_race);
        free(block->groups);
        free(block->actors);
        free(block->warpgroups);
        free(block->acquired.items);
        vm_mbarrier_free(block);
    }
    free(cluster->blocks);
    memset(cluster, 0, sizeof *cluster);
}

static size_t block_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Makes the cluster large enough; anything too small is made anew. */
static void reserve(vm_cluster *cluster, const vm_launch *launch)
{
    uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    size_t warps = (threads + VM_LANES - 1) / VM_LANES;
    size_t local = (size_t)launch->local_stride * VM_LANES;
    size_t frame = (size_t)launch->frame_stride * VM_LANES;
    if (launch->cluster <= cluster->capacity_blocks && warps <= cluster->capacity_warps &&
        launch->register_bytes <= cluster->capacity_registers &&
        launch->shared_bytes <= cluster->capacity_shared && local <= cluster->capacity_local &&
        frame <= cluster->capacity_frame) {
        return;
    }
    vm_cluster old = *cluster;
    vm_cluster wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.capacity_blocks = (uint32_t)block_larger(launch->cluster, old.capacity_blocks);
    wanted.capacity_warps = block_larger(warps, old.capacity_warps);
    wanted.capacity_registers = block_larger(launch->register_bytes, old.capacity_registers);
    wanted.capacity_shared = block_larger(launch->shared_bytes, old.capacity_shared);
    wanted.capacity_local = block_larger(local, old.capacity_local);
    wanted.capacity_frame = block_larger(frame, old.capacity_frame);
    vm_cluster_free(cluster);
    *cluster = wanted;
    cluster->blocks = vm_allocate(wanted.capacity_blocks * sizeof(vm_block));
    for (uint32_t b = 0; b < wanted.capacity_blocks; b++) {
        vm_block *block = &cluster->blocks[b];
        block->warps = vm_allocate(wanted.capacity_warps * sizeof(vm_warp));
        block->shared = vm_allocate(wanted.capacity_shared + 64);
        block->shared_defined = vm_allocate((wanted.capacity_shared / 64 + 2) * 8);
        vm_race_init(&block->shared_race, wanted.capacity_shared, false);
        block->store_groups = vm_allocate(wanted.capacity_warps * VM_LANES * sizeof(uint32_t));
        block->tags = vm_allocate((wanted.capacity_shared / VM_MAP_CHUNK + 2) * sizeof(vm_tag));
        block->warpgroups =
            vm_allocate((wanted.capacity_warps / VM_READERS + 1) * sizeof(vm_warpgroup));
        block->groups = vm_allocate(wanted.capacity_warps * VM_LANES * sizeof(uint32_t));
        for (size_t w = 0; w < wanted.capacity_warps; w++) {
            vm_warp *warp = &block->warps[w];
            warp->registers = vm_allocate(wanted.capacity_registers + 64);
            warp->specials = vm_allocate((size_t)VP_COUNT * VM_LANES * 4);
            warp->local = vm_allocate(wanted.capacity_local + 64);
            warp->frame = vm_allocate(wanted.capacity_frame + 64);
        }
    }
}

static void start_block(vm_cluster *cluster, vm_launch *launch, uint32_t rank, uint64_t linear)
{
    vm_block *block = &cluster->blocks[rank];
    block->cluster = cluster;
    block->launch = launch;
    block->rank = rank;
    block->linear = linear;
    block->index[0] = (uint32_t)(linear % launch->grid[0]);
    block->index[1] = (uint32_t)(linear / launch->grid[0] % launch->grid[1]);
    block->index[2] = (uint32_t)(linear / launch->grid[0] / launch->grid[1]);
    block->threads = launch->block[0] * launch->block[1] * launch->block[2];
    block->warp_count = (block->threads + VM_LANES - 1) / VM_LANES;
    block->warps_done = 0;
    block->time = 1;
    block->actor_count = 0;
    vm_mbarrier_start(block);
    block->acquired.count = 0;
    memset(block->barriers, 0, sizeof block->barriers);
    memset(block->groups, 0, block->threads * sizeof(uint32_t));
    memset(block->shared_defined, 0, (launch->shared_bytes / 64 + 1) * 8);
    for (uint32_t w = 0; w < block->warp_count; w++) {
        vm_warp *warp = &block->warps[w];
        warp->block = block;
        warp->index = w;
        uint32_t left = block->threads - w * VM_LANES;
        uint32_t existing = left >= VM_LANES ? VM_ALL_LANES : (1u << left) - 1;
        fill_specials(warp);
        vm_warp_start(warp, existing);
    }
}

/* ---- barriers ---- */

bool vm_cluster_reaches(vm_warp *warp, const vm_insn *in, unsigned lane, uint32_t rank)
{
    const vm_cluster *cluster = warp->block->cluster;
    const vm_block *home = &cluster->blocks[rank];
    bool lives = false;
    for (uint32_t w = 0; w < home->warp_count; w++) {
        lives = lives || home->warps[w].live != 0;
    }
    if (!lives) {
        return vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                       "shared memory of block %u of the cluster, which has ended", rank);
    }
    return cluster->phase != 0 ||
           vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                   "shared memory of block %u of the cluster, of which no barrier.cluster has said "
                   "that it has begun",
                   rank);
}

static uint32_t live_warps(const vm_block *block)
{
    uint32_t count = 0;
    for (uint32_t w = 0; w < block->warp_count; w++) {
        count += block->warps[w].live != 0 ? 1 : 0;
    }
    return count;
}

bool vm_block_check_barriers(vm_block *block)
{
    bool released = false;
    for (int i = 0; i < VM_BARRIERS; i++) {
        vm_barrier *barrier = &block->barriers[i];
        uint32_t wanted = barrier->counted ? barrier->expected : live_warps(block);
        if (barrier->arrived == 0 || barrier->arrived < wanted) {
            continue;
        }
        vm_barrier done = *barrier;
        memset(barrier, 0, sizeof *barrier);
        vm_race_complete(block, &done.clocks, done.waiting);
        for (uint32_t w = 0; w < block->warp_count; w++) {
            if ((done.waiting >> w & 1) != 0) {
                vm_race_take(&block->warps[w], &done.clocks);
                block->warps[w].barrier_result = done.votes;
                vm_warp_release(&block->warps[w]);
                released = true;
            }
        }
    }
    return released;
}

static bool report_barriers(vm_block *block)
{
    char text[600];
    size_t used = 0;
    text[0] = '\0';
    const vm_warp *first = NULL;
    const vm_insn *at = NULL;
    for (uint32_t w = 0; w < block->warp_count && used + 80 < sizeof text; w++) {
        const vm_warp *warp = &block->warps[w];
        if (warp->live == 0) {
            continue;
        }
        const vm_fragment *fragment = &warp->fragments[0];
        const vm_function *function = &block->launch->module->functions[fragment->function];
        const vm_insn *in = &function->insns[fragment->pc];
        first = first == NULL ? warp : first;
        at = at == NULL ? in : at;
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%swarp %u at barrier %d, line %u",
                             used == 0 ? "" : "; ", w, warp->barrier, in->line);
    }
    return vm_fail(first, at, VM_FULL, VM_LAUNCH_TIMEOUT, "deadlock: %s", text);
}

static bool check_leftovers(vm_block *block)
{
    for (int i = 0; i < VM_BARRIERS; i++) {
        if (block->barriers[i].arrived != 0) {
            return vm_fail(&block->warps[0], NULL, VM_FULL, VM_LAUNCH_FAILED,
                           "barrier %d is left with %u arrivals at the block's end", i,
                           block->barriers[i].arrived);
        }
    }
    return vm_async_finish(block) && vm_bulk_finish(block) && vm_matrix_finish(block) &&
           vm_reading_finish(block);
}

/* ---- running ---- */

/* Gives every warp of a block a slice. *progress: something ran. */
static bool run_block(vm_block *block, bool *progress, bool *ended)
{
    vm_cluster *cluster = block->cluster;
    bool seeded = block->launch->seed != 0;
    uint32_t first = seeded ? (uint32_t)(vm_random(&cluster->random) % block->warp_count) : 0;
    uint32_t step = 1;
    uint32_t done = 0;
    for (uint32_t i = 0; i < block->warp_count; i++) {
        vm_warp *warp = &block->warps[(first + i * step) % block->warp_count];
        if (warp->live == 0) {
            done++;
            continue;
        }
        if (warp->barrier >= 0) {
            continue;
        }
        uint64_t slice = seeded ? 1 + vm_random(&cluster->random) % SLICE_SEEDED : SLICE_NATURAL;
        if (!vm_warp_run(warp, slice)) {
            return false;
        }
        *progress = true;
        if (warp->live == 0 || warp->barrier >= 0) {
            vm_block_check_barriers(block);
        }
    }
    *ended = done == block->warp_count;
    return true;
}

bool vm_cluster_run(vm_cluster *cluster, vm_launch *launch, uint64_t index)
{
    reserve(cluster, launch);
    cluster->block_count = launch->cluster;
    cluster->phase = 0;
    memset(cluster->gathering, 0, sizeof cluster->gathering);
    cluster->random = launch->seed * 0x9e3779b97f4a7c15ull + index + 1;
    for (uint32_t rank = 0; rank < launch->cluster; rank++) {
        start_block(cluster, launch, rank, index * launch->cluster + rank);
    }
    for (;;) {
        bool progress = false;
        bool all = true;
        for (uint32_t rank = 0; rank < launch->cluster; rank++) {
            bool ended = false;
            if (!run_block(&cluster->blocks[rank], &progress, &ended)) {
                return false;
            }
            all = all && ended;
        }
        if (all) {
            break;
        }
        if (!progress) {
            return report_barriers(&cluster->blocks[0]);
        }
    }
    for (uint32_t rank = 0; rank < launch->cluster; rank++) {
        if (!check_leftovers(&cluster->blocks[rank])) {
            return false;
        }
    }
    return true;
}
