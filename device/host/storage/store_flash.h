/* SPDX-License-Identifier: MIT */
/* bp_store over flash memory, which a board reaches by three functions of its own.
 *
 * A block is erased as a whole; a unit of it is programmed once between two erasures. Each block
 * belongs to one file. Names, sizes and owners of blocks stand in one table, of which a whole new
 * copy with a number and a digest is written at every sync: the copy with the highest number whose
 * digest is right counts, so that a cut of power at any moment leaves the table of the last sync or
 * the one that was being written. What that table names is not erased before a newer one is there;
 * every block is erased just before it is taken, so that an erasure cut short does no harm; and the
 * first table after power on goes into a block of its own, behind nothing that may be half
 * programmed.
 *
 * Erasures are counted and the block with the fewest is taken, so that tables and files wander over
 * all blocks that are not held by files which stay. The counts stand in the table: a cut of power
 * forgets those since the last sync. A block that fails to erase or to program is taken no more. */
/* Installed as part of <bedplate/store.h>. */
#ifndef BP_DEVICE_HOST_STORE_FLASH_H
#define BP_DEVICE_HOST_STORE_FLASH_H

#include "arena/base.h"
#include "core/base/store.h"

#define BP_FLASH_PATH_MAX 64    /* longest path, with its terminator */
#define BP_FLASH_FILES    200   /* most files and folders */
#define BP_FLASH_BLOCKS   65535 /* most blocks */
#define BP_FLASH_OPEN     3     /* units in which a file that is written may be incomplete */
#define BP_FLASH_RUNS     3     /* pieces without a gap that it may be made of on the way */

/* A flash memory, or a part of one. Its functions return BP_OK or BP_ERR_STORE. */
typedef struct bp_flash {
    void *context;
    uint32_t block_bytes; /* erased at once; a multiple of unit_bytes */
    uint32_t block_count;
    uint32_t unit_bytes; /* programmed at once, 8 or more: of a NOR flash a page */
    bp_status (*read)(void *context, uint32_t block, uint32_t offset, void *to, size_t bytes);
    /* Whole units that are erased. When it returns, they are programmed. */
    bp_status (*program)(void *context, uint32_t block, uint32_t offset, const void *from,
                         size_t bytes);
    bp_status (*erase)(void *context, uint32_t block);
} bp_flash;

/* A file or folder, and a block: the table's rows, in the caller's memory. */
typedef struct bp_flash_entry {
    char path[BP_FLASH_PATH_MAX];
    uint32_t bytes;
    uint8_t kind;
} bp_flash_entry;

typedef struct bp_flash_block {
    uint32_t erasures;
    uint16_t index; /* which of its file's blocks it is */
    uint8_t owner;  /* entry, or what else holds it */
    bool kept;      /* a table on the medium may name it */
} bp_flash_block;

/* Bytes of the file being written that wait for the rest of their unit; and units that are there.
 */
typedef struct bp_flash_piece {
    uint32_t unit; /* of the file */
    uint32_t from; /* bytes [from, to) of it; equal: free */
    uint32_t to;
} bp_flash_piece;

typedef struct bp_flash_run {
    uint32_t from; /* units */
    uint32_t to;
} bp_flash_run;

/* The caller owns it; it must stay where it is while its store is used. */
typedef struct bp_store_flash {
    bp_store store;
    const bp_flash *flash;
    bp_flash_entry *entries;
    bp_flash_block *blocks;
    unsigned char *units; /* BP_FLASH_OPEN and one more */
    uint32_t files;
    uint32_t table;    /* the block of the newest table; block_count: none */
    uint32_t table_at; /* where the next one goes in it */
    uint32_t turn;     /* the block that was taken last */
    uint32_t writing;  /* the entry that is open for writing; files: none */
    uint64_t number;   /* of the newest table, or above it */
    bp_flash_piece piece[BP_FLASH_OPEN];
    bp_flash_run run[BP_FLASH_RUNS];
} bp_store_flash;

/* The caller's memory for so many files and folders, for arrays; and the same as a function. */
#define BP_FLASH_MEMORY(files, block_count, unit_bytes)                                            \
    (((files) * sizeof(bp_flash_entry) + 7) / 8 * 8 +                                              \
     ((block_count) * sizeof(bp_flash_block) + 7) / 8 * 8 + (BP_FLASH_OPEN + 1) * (unit_bytes))
uint64_t bp_store_flash_bytes(const bp_flash *flash, uint32_t files);

/* Makes *made a store over the flash: takes the newest table, or none where the flash has none,
 * which is an empty store. Reads only. `memory` is aligned to 8 bytes. BP_ERR_USAGE: the form of
 * the flash or the memory's alignment is not allowed, a block is too small for a table of so many
 * files and blocks, or the flash was written in another form; BP_ERR_FIT: too little memory;
 * BP_ERR_STORE: the flash did not answer; BP_ERR_DATA: it names more files. The reason stands in
 * store.reason.
 *
 * What differs from other stores: one file is written at a time, each byte once, in at most
 * BP_FLASH_RUNS ascending runs; a file that is written is read only after it was closed; sync puts
 * names on the medium too; renaming folders is atomic. */
bp_status bp_store_flash_init(bp_store_flash *made, const bp_flash *flash, uint32_t files,
                              void *memory, size_t bytes) BP_MUST_CHECK;

/* Erasures of the blocks: the fewest, the most, all of them; blocks that failed. */
typedef struct bp_flash_wear {
    uint32_t least;
    uint32_t most;
    uint64_t total;
    uint32_t failed;
} bp_flash_wear;

/* All 0 where bp_store_flash_init has not made the store. */
bp_flash_wear bp_store_flash_wear(const bp_store_flash *flash);

#endif
