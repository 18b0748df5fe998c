/* SPDX-License-Identifier: MIT */
/* A flash memory in RAM that knows what is forbidden, what a cut of power leaves, and how to fail.
 */
#ifndef BP_TESTS_SUPPORT_FLASH_CHIP_H
#define BP_TESTS_SUPPORT_FLASH_CHIP_H

#include "device/host/store_flash.h"

enum { CHIP_BLOCK = 4096, CHIP_BLOCKS = 28, CHIP_UNIT = 256, CHIP_UNITS = CHIP_BLOCK / CHIP_UNIT };

typedef struct flash_chip {
    bp_flash flash;
    unsigned char bytes[CHIP_BLOCKS][CHIP_BLOCK];
    bool programmed[CHIP_BLOCKS][CHIP_UNITS]; /* since the erasure */
    uint32_t erasures[CHIP_BLOCKS];
    size_t changes_made;  /* units programmed and blocks erased */
    size_t changes_until; /* power fails when changes_made reaches it, within the next one */
    size_t fails_at;      /* the change that fails once, with power on; 0: none */
    size_t reads_until;   /* reads before one fails; SIZE_MAX: none */
    bool off;
    uint64_t seed; /* of what a cut leaves */
} flash_chip;

/* So many blocks of it, never programmed, full of what a factory leaves: not 0xff. */
void flash_chip_init(flash_chip *chip, uint32_t blocks);

/* Power is back. */
void flash_chip_on(flash_chip *chip);

#endif
