/* SPDX-License-Identifier: MIT */
/* The compact form of a trainer's state: a head, a table of names, the tensors as they lie, and
 * sums that find every torn or changed byte. It is for memories of a board that are written in
 * units, where the checkpoints of a run (core/run/checkpoint/checkpoint.h) would take 26 KB of
 * code; this takes under 4. `bedplate import --from FILE` makes a checkpoint of it.
 *
 * Two slots hold it. Keeping writes into the one that does not have the newest state, the head
 * last, so a cut of power at any moment leaves that state or the new one. */
/* Installed as part of <bedplate/trainer.h>. */
#ifndef BP_DEVICE_HOST_TRAINER_STATE_H
#define BP_DEVICE_HOST_TRAINER_STATE_H

#include "device/host/trainer.h"

#define BP_TRAINER_UNIT          256 /* bytes that are written at once; a head takes one */
#define BP_TRAINER_STATE_MAGIC   UINT32_C(0x74737062) /* "bpst" */
#define BP_TRAINER_STATE_VERSION 1

/* As it lies at a slot's start, low bytes first. */
typedef struct bp_trainer_state_head {
    uint32_t magic;
    uint32_t version;
    uint32_t rows;        /* of the table */
    uint32_t table_bytes; /* which lies behind the head's unit; the bytes of the rows follow */
    uint64_t step;
    uint64_t sequence; /* of two states the larger one is newer */
    uint64_t bytes;    /* of table and rows */
    uint32_t identity; /* CRC-32 of the table: names, types, shapes, and frozen weights */
    uint32_t payload;  /* CRC-32 of table and rows */
    uint32_t unused[3];
    uint32_t crc; /* CRC-32 of what is before */
} bp_trainer_state_head;

#define BP_TRAINER_ROW_WEIGHT 1 /* as bp_state_tensor.weight */
#define BP_TRAINER_ROW_FROZEN 2 /* has no bytes here */
#define BP_TRAINER_ROW_PART   4 /* is the application's */

/* Of the table; `rank` extents of 32 bits follow, then the name without an end. */
typedef struct bp_trainer_state_row {
    uint8_t name_bytes;
    uint8_t dtype; /* bp_dtype */
    uint8_t rank;
    uint8_t kind;
    uint32_t number; /* frozen: CRC-32 of its bytes; else 0 */
} bp_trainer_state_row;

/* Memory of the application that is kept with the state: what a sensor has learned, labelled
 * samples. */
typedef struct bp_trainer_part {
    const char *name; /* of 1 to 255 bytes */
    void *memory;
    uint32_t bytes;
} bp_trainer_part;

typedef struct bp_trainer_kept {
    const bp_state_tensor *tensors; /* plan_tensors */
    const bp_trainer_part *parts;
    uint32_t part_count;
} bp_trainer_kept;

/* Two places of `bytes` each, 0 and 1. Units are written once after each erasure, from the second
 * on in order, then the first. A status other than BP_OK is passed on. */
typedef struct bp_trainer_slots {
    void *user;
    uint64_t bytes;
    bp_status (*read)(void *user, uint32_t slot, uint64_t offset, void *to, size_t bytes);
    bp_status (*erase)(void *user, uint32_t slot);
    bp_status (*write)(void *user, uint32_t slot, uint64_t offset, const void *from, size_t bytes);
} bp_trainer_slots;

/* Bytes of a slot that keeping needs, a multiple of BP_TRAINER_UNIT; 0: the trainer is not open. */
uint64_t bp_trainer_kept_bytes(bp_trainer *trainer, const bp_trainer_kept *kept);

/* Puts state, parts and number of steps into the slot that does not have the newest. BP_ERR_USAGE:
 * the trainer is not open; BP_ERR_FIT: a slot is smaller. */
bp_status bp_trainer_keep(bp_trainer *trainer, const bp_trainer_kept *kept,
                          const bp_trainer_slots *slots) BP_MUST_CHECK;

/* Takes the newest state that is whole; *any: there was one. BP_ERR_DATA where it is another
 * model's or another version's: nothing has changed then. A status of slots->read in between leaves
 * the state half taken. */
bp_status bp_trainer_recall(bp_trainer *trainer, const bp_trainer_kept *kept,
                            const bp_trainer_slots *slots, bool *any) BP_MUST_CHECK;

#endif
