/* SPDX-License-Identifier: MIT */
/* A grid over host threads, reports, and what the instrument allocates for itself. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/ptxvm/block.h"
#include "tools/ptxvm/config.h"

enum { WORKERS_MAX = 64 };

void *vm_resize(void *block, size_t bytes)
{
    void *made = realloc(block, bytes == 0 ? 1 : bytes);
    if (made == NULL) {
        fprintf(stderr, "ptxvm: out of host memory (%zu bytes)\n", bytes);
        abort();
    }
    return made;
}

void *vm_allocate(size_t bytes)
{
    /* Lane arrays want cache-line alignment. */
    void *made = NULL;
    size_t padded = bytes == 0 ? 64 : (bytes + 63) / 64 * 64;
    if (posix_memalign(&made, 64, padded) != 0) {
        fprintf(stderr, "ptxvm: out of host memory (%zu bytes)\n", bytes);
        abort();
    }
    memset(made, 0, padded);
    return made;
}

void *vm_copy(const void *source, size_t bytes)
{
    void *made = vm_allocate(bytes);
    if (bytes != 0) {
        memcpy(made, source, bytes);
    }
    return made;
}

/* ---- reports ---- */

static size_t describe_place(const vm_module *module, uint32_t index, char *text, size_t size)
{
    size_t used = 0;
    for (int depth = 0; index != 0 && depth < 8; depth++) {
        const vm_place *place = &module->places[index];
        const char *file = place->file < module->file_count ? module->files[place->file] : NULL;
        int n = snprintf(text + used, size - used, "%s%s:%u", depth == 0 ? "" : " inlined at ",
                         file != NULL ? file : "?", place->line);
        used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
        index = place->inlined_at;
    }
    return used;
}

static void vm_describe(const vm_module *module, const vm_insn *in, char *text, size_t size)
{
    int used = snprintf(text, size, "PTX line %u", in->line);
    if (in->place != 0 && used > 0) {
        char place[400];
        if (describe_place(module, in->place, place, sizeof place) > 0) {
            snprintf(text + used, size - (size_t)used, " (%s)", place);
        }
    }
}

bool vm_fail(const vm_warp *warp, const vm_insn *in, int lane, int result, const char *format, ...)
{
    vm_block *block = warp->block;
    vm_launch *launch = block->launch;
    pthread_mutex_lock(&launch->lock);
    if (launch->result == VM_OK) {
        char what[500];
        char place[480] = "its end";
        va_list values;
        va_start(values, format);
        vsnprintf(what, sizeof what, format, values);
        va_end(values);
        if (in != NULL) {
            vm_describe(launch->module, in, place, sizeof place);
        }
        char thread[60];
        snprintf(thread, sizeof thread, "warp %u", warp->index);
        if (lane >= 0) {
            const uint32_t *rows = (const uint32_t *)warp->specials;
            snprintf(thread, sizeof thread, "thread (%u,%u,%u)", rows[VP_TID_X * VM_LANES + lane],
                     rows[VP_TID_Y * VM_LANES + lane], rows[VP_TID_Z * VM_LANES + lane]);
        }
        snprintf(launch->report, VM_REPORT_MAX, "kernel %s, %s, block (%u,%u,%u), %s: %s",
                 launch->function->name, place, block->index[0], block->index[1], block->index[2],
                 thread, what);
        __atomic_store_n(&launch->result, result, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&launch->lock);
    return false;
}

/* ---- operands ---- */

/* Each lane's bit as often as a lane has words: shifts by a lane's number are no vector operations.
 */
#define BITS4(b)  (b), (b) << 1, (b) << 2, (b) << 3
#define BITS16(b) BITS4(b), BITS4((b) << 4), BITS4((b) << 8), BITS4((b) << 12)
static const uint32_t lane_bits[VM_LANES] = {BITS16(1u), BITS16(1u << 16)};

/* The words of some lanes: the mask against each lane's bit. */
static void put_words(uint32_t *at, const uint32_t *lanes, uint32_t mask)
{
    uint32_t merged[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        const uint32_t takes = (mask & lane_bits[i]) == lane_bits[i] ? UINT32_MAX : 0;
        merged[i] = (lanes[i] & takes) | (at[i] & ~takes);
    }
    memcpy(at, merged, sizeof merged);
}

/* The same of two words each. */
static void put_pairs(uint64_t *at, const uint64_t *lanes, uint32_t mask)
{
    uint64_t merged[VM_LANES];
    uint32_t takes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        takes[i] = (mask & lane_bits[i]) == lane_bits[i] ? UINT32_MAX : 0;
    }
    for (unsigned i = 0; i < VM_LANES; i++) {
        const uint64_t both = (uint64_t)takes[i] << 32 | takes[i];
        merged[i] = (lanes[i] & both) | (at[i] & ~both);
    }
    memcpy(at, merged, sizeof merged);
}

void vm_put(vm_warp *warp, const vm_insn *in, unsigned i, uint32_t mask, const void *lanes)
{
    const vm_operand *operand = vm_operand_at(warp, in, i);
    uint8_t *at = warp->bases[operand->where] + operand->offset;
    if (mask == VM_ALL_LANES && operand->bytes == 4) {
        memcpy(at, lanes, (size_t)4 * VM_LANES); /* of a constant size: a few vector moves */
        return;
    }
    if (mask == VM_ALL_LANES && operand->bytes == 8) {
        memcpy(at, lanes, (size_t)8 * VM_LANES);
        return;
    }
    if (mask == VM_ALL_LANES && operand->bytes == 2) {
        memcpy(at, lanes, (size_t)2 * VM_LANES);
        return;
    }
    if (mask == VM_ALL_LANES) {
        memcpy(at, lanes, (size_t)operand->bytes * VM_LANES);
        return;
    }
    if (operand->bytes == 4) {
        put_words((uint32_t *)(void *)at, lanes, mask);
        return;
    }
    if (operand->bytes == 8) {
        put_pairs((uint64_t *)(void *)at, lanes, mask);
        return;
    }
    for (; mask != 0; mask &= mask - 1) {
        size_t lane = vm_first_lane(mask);
        memcpy(at + lane * operand->bytes, (const uint8_t *)lanes + lane * operand->bytes,
               operand->bytes);
    }
}

bool vm_exec_kernel(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    uint64_t lanes[VM_LANES];
    const void *a = vm_source(warp, in, in->operands > 1 ? 1 : 0);
    const void *b = in->operands > 2 ? vm_source(warp, in, 2) : a;
    const void *c = in->operands > 3 ? vm_source(warp, in, 3) : a;
    const vm_operand *target = vm_operand_at(warp, in, 0);
    uint8_t *at = warp->bases[target->where] + target->offset;
    if (mask == VM_ALL_LANES && at != a && at != b && at != c) {
        in->kernel(at, a, b, c, in->flags);
        return true;
    }
    in->kernel(lanes, a, b, c, in->flags);
    if (mask == VM_ALL_LANES && target->bytes == 4) {
        memcpy(at, lanes, (size_t)4 * VM_LANES);
        return true;
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

bool vm_exec_pair(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    uint64_t lanes[VM_LANES];
    size_t half = (size_t)vm_operand_at(warp, in, 0)->bytes * VM_LANES / 2;
    const uint8_t *a = vm_source(warp, in, 1);
    const uint8_t *b = in->operands > 2 ? vm_source(warp, in, 2) : a;
    const uint8_t *c = in->operands > 3 ? vm_source(warp, in, 3) : a;
    in->kernel(lanes, a, b, c, in->flags);
    in->kernel((uint8_t *)lanes + half, a + half, b + half, c + half, in->flags);
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

/* ---- the grid ---- */

static void *work(void *argument)
{
    vm_launch *launch = argument;
    vm_cluster *cluster = vm_config_cluster_take();
    while (__atomic_load_n(&launch->result, __ATOMIC_ACQUIRE) == VM_OK) {
        uint64_t next = __atomic_fetch_add(&launch->next_cluster, 1, __ATOMIC_RELAXED);
        if (next >= launch->cluster_total) {
            break;
        }
        uint64_t index = launch->order != NULL ? launch->order[next] : next;
        if (!vm_cluster_run(cluster, launch, index)) {
            break;
        }
    }
    vm_config_cluster_give(cluster);
    return NULL;
}

static void make_order(vm_launch *launch)
{
    if (launch->seed == 0 || launch->cluster_total > 1u << 24) {
        return;
    }
    uint64_t state = launch->seed;
    launch->order = vm_allocate((size_t)launch->cluster_total * sizeof(uint64_t));
    for (uint64_t i = 0; i < launch->cluster_total; i++) {
        uint64_t j = vm_random(&state) % (i + 1);
        launch->order[i] = launch->order[j];
        launch->order[j] = i;
    }
}

int vm_launch_run(vm_launch *launch)
{
    const vm_module *module = launch->module;
    const vm_function *function = launch->function;
    launch->cluster_total =
        (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2] / launch->cluster;
    launch->next_cluster = 0;
    launch->register_bytes = module->register_bytes;
    launch->local_stride =
        (function->local_bytes + 15) / 16 * 16 + (module->local_bytes + 15) / 16 * 16;
    launch->frame_stride = (module->frame_bytes + 15) / 16 * 16;
    launch->locations = NULL;
    launch->order = NULL;
    pthread_mutex_init(&launch->lock, NULL);
    make_order(launch);
    pthread_t workers[WORKERS_MAX];
    unsigned count = 0;
    unsigned wanted = vm_config_threads();
    wanted = wanted > launch->cluster_total ? (unsigned)launch->cluster_total : wanted;
    vm_race_concurrent = wanted > 1;
    vm_race_watched = vm_config_number("PTXVM_RACES", 1) != 0;
    for (; count + 1 < wanted && count < WORKERS_MAX; count++) {
        if (pthread_create(&workers[count], NULL, work, launch) != 0) {
            break;
        }
    }
    work(launch);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i], NULL);
    }
    vm_race_launch_end(launch);
    free(launch->order);
    pthread_mutex_destroy(&launch->lock);
    return launch->result;
}
