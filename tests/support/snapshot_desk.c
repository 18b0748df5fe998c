/* SPDX-License-Identifier: MIT */
/* The small state. */
#include "tests/support/snapshot_desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bp_status copy_out(void *user, uint64_t handle, uint64_t offset, void *to, size_t bytes)
{
    snapshot_desk *desk = user;
    if (desk->copies_left == 0) {
        return BP_ERR_DEVICE;
    }
    desk->copies_left--;
    memcpy(to, desk->state + handle + offset, bytes);
    return BP_OK;
}

static bp_status copy_in(void *user, uint64_t handle, uint64_t offset, const void *from,
                         size_t bytes)
{
    snapshot_desk *desk = user;
    if (desk->copies_left == 0) {
        return BP_ERR_DEVICE;
    }
    desk->copies_left--;
    memcpy(desk->state + handle + offset, from, bytes);
    return BP_OK;
}

static const bp_state_tensor tensors[DESK_TENSORS] = {
    {"a.weight", BP_F32, 2, {3, 5}, 60, 0, true},
    {"b.bias", BP_BF16, 1, {7}, 14, 60, true},
    {"counter", BP_U64, 0, {0}, 8, 80, false},
    {"moment.a.weight", BP_F32, 2, {3, 5}, 60, 90, false},
    {"nothing", BP_F32, 1, {0}, 0, 150, false},
    {"z.weight", BP_F32, 4, {1, 2, 1, 2}, 16, 150, true},
};

static void *made(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL) {
        fprintf(stderr, "the test ran out of memory\n");
        exit(1);
    }
    return memory;
}

static void mount(snapshot_desk *desk)
{
    assert_int_equal(bp_store_flash_init(&desk->flash, &desk->chip->flash, DESK_FILES, desk->table,
                                         sizeof desk->table),
                     BP_OK);
}

static snapshot_desk *desk_over(flash_chip *chip, uint32_t blocks)
{
    snapshot_desk *desk = made(sizeof *desk);
    memory_store_init(&desk->memory);
    desk->inner = &desk->memory.store;
    desk->chip = chip;
    if (chip != NULL) {
        flash_chip_init(chip, blocks);
        mount(desk);
        desk->inner = &desk->flash.store;
    }
    faulty_store_init(&desk->faulty, desk->inner);
    memcpy(desk->tensors, tensors, sizeof tensors);
    desk->keys[0] = (bp_pair){"seed", "1"};
    desk->keys[1] = (bp_pair){"optim", "adamw"};
    desk->keys[2] = (bp_pair){"data", "shakespeare \xc3\xa9"};
    desk->blobs[0] = (bp_blob){"config.json", "{\"model_type\":\"gpt2\"}\n", 22};
    desk->blobs[1] = (bp_blob){"empty.txt", "", 0};
    desk->copies_left = (size_t)-1;
    desk->snapshot = (bp_snapshot){.step = 1,
                                   .tensors = desk->tensors,
                                   .tensor_count = DESK_TENSORS,
                                   .keys = {desk->keys, DESK_KEYS},
                                   .blobs = desk->blobs,
                                   .blob_count = 2,
                                   .io = {desk, copy_out, copy_in}};
    size_t scratch = (size_t)bp_snapshot_scratch(&desk->snapshot);
    desk->place = (bp_snapshot_place){.store = &desk->faulty.store,
                                      .directory = "run",
                                      .scratch = malloc(scratch),
                                      .scratch_bytes = scratch,
                                      .staging = {desk->staging, sizeof desk->staging},
                                      .error = &desk->error};
    return desk;
}

snapshot_desk *snapshot_desk_new(void)
{
    return desk_over(NULL, 0);
}

snapshot_desk *snapshot_desk_new_flash(void)
{
    return desk_over(made(sizeof(flash_chip)), CHIP_BLOCKS);
}

snapshot_desk *snapshot_desk_new_small_flash(void)
{
    return desk_over(made(sizeof(flash_chip)), DESK_BLOCKS);
}

void snapshot_desk_cut_after(snapshot_desk *desk, size_t changes, uint64_t seed)
{
    if (desk->chip != NULL) {
        desk->chip->seed = seed;
        desk->chip->changes_until = desk->chip->changes_made + changes;
    } else {
        desk->memory.changes_until = desk->memory.changes_made + changes;
    }
}

void snapshot_desk_power_back(snapshot_desk *desk, uint64_t seed)
{
    if (desk->chip != NULL) {
        flash_chip_on(desk->chip);
        mount(desk);
    } else {
        memory_store_power_cut(&desk->memory, seed);
    }
}

bool snapshot_desk_free(snapshot_desk *desk)
{
    bool closed = desk->memory.open_files == 0 &&
                  (desk->chip == NULL || desk->flash.writing == desk->flash.files);
    memory_store_free(&desk->memory);
    free(desk->chip);
    free(desk->place.scratch);
    free(desk);
    return closed;
}

static unsigned char byte_of(uint64_t step, size_t i)
{
    return (unsigned char)(step * 37 + i * 11 + 1);
}

void snapshot_desk_step(snapshot_desk *desk, uint64_t step)
{
    for (size_t i = 0; i < DESK_BYTES; i++) {
        desk->state[i] = byte_of(step, i);
    }
    desk->snapshot.step = step;
}

bp_status snapshot_desk_save(snapshot_desk *desk, uint64_t step)
{
    snapshot_desk_step(desk, step);
    desk->error = (bp_error){.code = BP_OK};
    return bp_snapshot_save(&desk->place, &desk->snapshot, NULL);
}

bool snapshot_desk_is(snapshot_desk *desk, uint64_t step)
{
    for (size_t t = 0; t < DESK_TENSORS; t++) {
        for (size_t i = 0; i < desk->tensors[t].bytes; i++) {
            size_t at = (size_t)desk->tensors[t].handle + i;
            if (desk->state[at] != byte_of(step, at)) {
                return false;
            }
        }
    }
    return true;
}

uint64_t snapshot_desk_newest(snapshot_desk *d)
{
    bp_snapshot_found found;
    bool any;
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_snapshot_find(&d->place, NULL, NULL, &found, &any), BP_OK);
    if (!any) {
        return 0;
    }
    snapshot_desk_step(d, 999);
    assert_int_equal(bp_snapshot_load(&d->place, found.path, &d->snapshot, NULL), BP_OK);
    assert_true(snapshot_desk_is(d, found.step));
    return found.step;
}
