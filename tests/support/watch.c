/* SPDX-License-Identifier: MIT */
/* Watching ops. */
#include "tests/support/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/host/host.h"

enum { MAY_READ = 1, MAY_WRITE = 2, SCRATCH = 4, LINK_BYTES = 1 << 16 };

typedef struct watcher {
    bp_linked_program programs[BP_PROGRAMS_MAX];
    unsigned char *arena;
    uint64_t bytes;
    const bp_device_options *options;
    bool looked[BP_PROGRAMS_MAX]; /* the programs whose ops have been looked at */
    unsigned char *copy;          /* the arena of the look */
    unsigned char *first;         /* what it held after the first pattern */
    unsigned char *may;           /* of each byte */
    void *linked;
} watcher;

/* Lies behind the host device's own context. */
static watcher *watcher_of(void *context)
{
    return (watcher *)(void *)((unsigned char *)context +
                               bp_size_align(bp_device_host.context_bytes, 64));
}

static watch_choice chosen;
static bool looking;
static char *found;
static bp_device table;

static void watch_fault(const char *what, const bp_linked_op *op)
{
    if (found != NULL && found[0] == '\0') {
        snprintf(found, 256, "%s: %s", what, bp_kernel_describe(op->kernel)->name);
    }
}

static bp_status execute(const watcher *w, void *context, const bp_linked_op *op)
{
    const bp_linked_program one = {op, 1};
    BP_TRY(bp_device_host.link(context, 0, &one, w->linked, LINK_BYTES));
    return bp_device_host.run(context, 0);
}

/* Marks what a row lets its operands do. */
static void mark_operands(watcher *w, const bp_linked_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    memset(w->may, 0, w->bytes);
    for (uint32_t t = 0; t < op->tuples; t++) {
        const uint64_t *scalars = (const uint64_t *)op->scalars + t * info->scalar_count;
        const uint64_t *offsets = op->offsets + (size_t)t * info->operand_count;
        const uint8_t *dtypes = op->dtypes + (size_t)t * info->operand_count;
        bp_extent extents[BP_OPERANDS_MAX];
        info->extents(scalars, extents);
        for (uint32_t i = 0; i < info->operand_count; i++) {
            bp_extent e = extents[i];
            size_t size = bp_operand_element_bytes(info->operand[i].type, (bp_dtype)dtypes[i]);
            if (info->operand[i].workspace) {
                e.rows = 1;
                e.width = bp_device_host.workspace(w->options, op->kernel, scalars, dtypes);
                size = 1;
            }
            const int may = (e.access == BP_ACCESS_SCRATCH ? SCRATCH : (int)e.access);
            for (uint64_t r = 0; offsets[i] != BP_OFFSET_ABSENT && r < e.rows; r++) {
                for (uint64_t k = 0; k < e.width * size; k++) {
                    w->may[offsets[i] + r * e.pitch * size + k] |= (unsigned char)may;
                }
            }
        }
    }
}

/* Executes an op where only what it may read is as it was; false when it fails or changes what is
 * not its own. */
static void look_once(watcher *w, const bp_linked_op *op, uint32_t pattern)
{
    static uint64_t context[1 << 14];
    const bp_places places = bp_places_device(w->copy, w->bytes);
    for (uint64_t i = 0; i < w->bytes; i++) {
        const uint32_t filler = pattern >> (8 * (i % 4)) & 0xff;
        w->copy[i] = (unsigned char)((w->may[i] & MAY_READ) != 0 ? w->arena[i] : filler);
    }
    if (bp_device_host.context_bytes > sizeof context ||
        bp_device_host.open(context, w->options, &places, NULL) != BP_OK ||
        execute(w, context, op) != BP_OK) {
        watch_fault("cannot be executed alone", op);
        return;
    }
    bp_device_host.close(context);
    for (uint64_t i = 0; i < w->bytes; i++) {
        const uint32_t filler = pattern >> (8 * (i % 4)) & 0xff;
        const uint32_t was = (w->may[i] & MAY_READ) != 0 ? w->arena[i] : filler;
        if ((w->may[i] & (MAY_WRITE | SCRATCH)) == 0 && w->copy[i] != was) {
            watch_fault("writes bytes that are not its own", op);
            return;
        }
    }
}

static void look(watcher *w, const bp_linked_op *op)
{
    mark_operands(w, op);
    look_once(w, op, 0x7fa00000u);
    memcpy(w->first, w->copy, w->bytes);
    look_once(w, op, 0x00000003u);
    for (uint64_t i = 0; i < w->bytes; i++) {
        if ((w->may[i] & (MAY_WRITE | SCRATCH)) == MAY_WRITE && w->copy[i] != w->first[i]) {
            watch_fault("depends on bytes that it may not read, or leaves some unwritten", op);
            return;
        }
    }
}

static bool looks_up(const bp_linked_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        if (info->operand[i].type == BP_TYPE_I32) {
            return true;
        }
    }
    return false;
}

static bool is_chosen(const watcher *w, uint32_t program, uint32_t op, const bp_linked_op *linked)
{
    if (!looking || w->looked[program]) {
        return false;
    }
    for (uint32_t i = 0; i < chosen.count; i++) {
        if (chosen.program == program && chosen.op[i] == op) {
            return true;
        }
    }
    return looks_up(linked);
}

static bp_status watch_open(void *context, const bp_device_options *options,
                            const bp_places *places, bp_error *error)
{
    watcher *w = watcher_of(context);
    const uint64_t bytes = places->space[BP_SPACE_DEVICE].bytes;
    *w = (watcher){
        .arena = places->space[BP_SPACE_DEVICE].address, .bytes = bytes, .options = options};
    if (posix_memalign((void **)&w->copy, BP_ARENA_ALIGNMENT, bytes + 1) != 0) {
        return BP_ERR_FIT;
    }
    w->first = malloc(bytes + 1);
    w->may = malloc(bytes + 1);
    w->linked = malloc(LINK_BYTES);
    return bp_device_host.open(context, options, places, error);
}

static bp_status watch_link(void *context, uint32_t program, const bp_linked_program *linked,
                            void *memory, size_t bytes)
{
    watcher_of(context)->programs[program] = *linked;
    return bp_device_host.link(context, program, linked, memory, bytes);
}

static bp_status watch_seal(void *context)
{
    (void)context; /* ops are linked one by one */
    return BP_OK;
}

static bp_status watch_run_ops(void *context, uint32_t program, uint32_t first, uint32_t count)
{
    watcher *w = watcher_of(context);
    uint32_t number = 0;
    for (uint32_t i = 0; i < first + count; i++) {
        const bp_linked_op *op = &w->programs[program].ops[i];
        const bool poison = op->kernel == BP_KERNEL_poison;
        if (i >= first && !poison && is_chosen(w, program, number, op)) {
            look(w, op);
        }
        number += !poison;
        if (i >= first) {
            BP_TRY(execute(w, context, op));
        }
    }
    return BP_OK;
}

static bp_status watch_run(void *context, uint32_t program)
{
    watcher *w = watcher_of(context);
    BP_TRY(watch_run_ops(context, program, 0, w->programs[program].count));
    w->looked[program] = true;
    return BP_OK;
}

static void watch_close(void *context)
{
    watcher *w = watcher_of(context);
    free(w->copy);
    free(w->first);
    free(w->may);
    free(w->linked);
    bp_device_host.close(context);
}

const bp_device *watch_device(void)
{
    table = bp_device_host;
    table.context_bytes = (size_t)bp_size_align(bp_device_host.context_bytes, 64) + sizeof(watcher);
    table.open = watch_open;
    table.link = watch_link;
    table.seal = watch_seal;
    table.run = watch_run;
    table.run_ops = watch_run_ops;
    table.close = watch_close;
    return &table;
}

void watch_choose(const watch_choice *choice, char *fault)
{
    looking = choice != NULL;
    chosen = looking ? *choice : (watch_choice){.count = 0};
    found = fault;
}
