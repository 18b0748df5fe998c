/* SPDX-License-Identifier: MIT */
/* What the two files of the store over flash share: blocks and the table. */
#ifndef BP_DEVICE_HOST_STORE_FLASH_PRIVATE_H
#define BP_DEVICE_HOST_STORE_FLASH_PRIVATE_H

#include "device/host/storage/store_flash.h"

/* What holds a block that no file has. */
#define FLASH_FREE  0xff
#define FLASH_TABLE 0xfe
#define FLASH_BAD   0xfd

/* Kinds of entries. */
#define FLASH_NONE   0
#define FLASH_FILE   1
#define FLASH_FOLDER 2

/* Leaves the reason and returns BP_ERR_STORE. */
bp_status bp_flash_failed(bp_store_flash *f, const char *reason) BP_MUST_CHECK;

/* Buffer number `i` of a unit; BP_FLASH_OPEN is the table's. */
unsigned char *bp_flash_unit(const bp_store_flash *f, uint32_t i);

/* The most bytes of a table, whole units. */
uint64_t bp_flash_table_most(const bp_flash *flash, uint32_t files);

/* Erases the free block that was erased least and gives it to the owner. For a file one is left
 * that the next table may need. */
bp_status bp_flash_take(bp_store_flash *f, uint8_t owner, uint16_t index,
                        uint32_t *block) BP_MUST_CHECK;

/* Programs whole units; a block that fails is taken no more. */
bp_status bp_flash_program(bp_store_flash *f, uint32_t block, uint32_t offset, const void *from,
                           size_t bytes) BP_MUST_CHECK;

/* Puts the table on the medium: what it does not name may be erased from then on. */
bp_status bp_flash_commit(bp_store_flash *f) BP_MUST_CHECK;

/* Finds the newest table and takes it. The statuses of bp_store_flash_init. */
bp_status bp_flash_mount(bp_store_flash *f) BP_MUST_CHECK;

#endif
