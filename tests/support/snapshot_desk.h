/* SPDX-License-Identifier: MIT */
/* A small state and everything that saving it needs, over a store that can fail and lose power. */
#ifndef BP_TESTS_SUPPORT_SNAPSHOT_DESK_H
#define BP_TESTS_SUPPORT_SNAPSHOT_DESK_H

#include "core/run/snapshot.h"
#include "tests/support/flash_chip.h"
#include "tests/support/store_faulty.h"
#include "tests/support/store_memory.h"

enum {
    DESK_TENSORS = 6,
    DESK_KEYS = 3,
    DESK_BYTES = 256,
    DESK_STAGING = 24,
    DESK_FILES = 32,
    DESK_BLOCKS = 11
};

typedef struct snapshot_desk {
    memory_store memory;
    flash_chip *chip; /* NULL: the medium is memory */
    bp_store_flash flash;
    uint64_t table[1024]; /* of the flash */
    bp_store *inner;
    faulty_store faulty;
    bp_error error;
    unsigned char state[DESK_BYTES]; /* a tensor's handle is its offset here */
    bp_state_tensor tensors[DESK_TENSORS];
    bp_pair keys[DESK_KEYS];
    bp_blob blobs[2];
    bp_snapshot snapshot;
    bp_snapshot_place place;
    unsigned char staging[DESK_STAGING];
    size_t copies_left; /* copies from and to the state before they fail with BP_ERR_DEVICE */
} snapshot_desk;

/* Output directory "run"; scratch is allocated with exactly the bytes that the closed form gives.
 */
snapshot_desk *snapshot_desk_new(void);
/* The same over a flash; and over one with room for three snapshots and no more, so that every
 * block that is freed is soon taken. */
snapshot_desk *snapshot_desk_new_flash(void);
snapshot_desk *snapshot_desk_new_small_flash(void);
/* True if every file was closed. */
bool snapshot_desk_free(snapshot_desk *desk);

/* A state that is different for every step, and the snapshot's step. */
void snapshot_desk_step(snapshot_desk *desk, uint64_t step);

/* bp_snapshot_save of that step with a fresh error. */
bp_status snapshot_desk_save(snapshot_desk *desk, uint64_t step);

/* Whether the state is the one of that step. */
bool snapshot_desk_is(snapshot_desk *desk, uint64_t step);

/* The newest valid snapshot holds exactly the state of its step, which is asserted: the step, 0 for
 * none. */
uint64_t snapshot_desk_newest(snapshot_desk *d);

/* Power fails after so many further changes of the medium; and is back: what was under way is lost
 * or torn as the seed decides. The same seed in both: a flash is torn when power fails, a disk's
 * writes that were not synced are lost behind it. */
void snapshot_desk_cut_after(snapshot_desk *desk, size_t changes, uint64_t seed);
void snapshot_desk_power_back(snapshot_desk *desk, uint64_t seed);

#endif
