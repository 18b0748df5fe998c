/* SPDX-License-Identifier: MIT */
/* The simulated chip. What no flash allows ends the test program. */
#include "tests/support/flash_chip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(bool allowed, const char *what)
{
    if (!allowed) {
        fprintf(stderr, "the flash was used wrongly: %s\n", what);
        exit(1);
    }
}

static uint64_t draw(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15u;
    uint64_t z = *seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Counts a change; false: it does not happen, and what it did on the way is drawn. */
static bool happens(flash_chip *chip)
{
    if (chip->off) {
        return false;
    }
    if (chip->changes_made == chip->changes_until) {
        chip->off = true;
        return false;
    }
    return ++chip->changes_made != chip->fails_at;
}

static bp_status chip_read(void *context, uint32_t block, uint32_t offset, void *to, size_t bytes)
{
    flash_chip *chip = context;
    must(block < CHIP_BLOCKS && offset <= CHIP_BLOCK && bytes <= CHIP_BLOCK - offset,
         "read outside");
    if (chip->off || chip->reads_until == 0) {
        return BP_ERR_STORE;
    }
    chip->reads_until -= chip->reads_until != SIZE_MAX;
    memcpy(to, chip->bytes[block] + offset, bytes);
    return BP_OK;
}

/* One unit; a cut leaves some of its bits as they were. */
static bp_status program_unit(flash_chip *chip, uint32_t block, uint32_t offset,
                              const unsigned char *from)
{
    unsigned char *to = chip->bytes[block] + offset;
    must(!chip->programmed[block][offset / CHIP_UNIT], "a unit programmed twice");
    const bool was_on = !chip->off;
    const bool whole = happens(chip);
    const uint64_t fate = whole ? 0 : draw(&chip->seed) % 4;
    for (size_t i = 0; was_on && i < CHIP_UNIT; i++) {
        const unsigned char kept = fate == 0   ? 0
                                   : fate == 1 ? 0xff
                                   : fate == 2 ? (unsigned char)draw(&chip->seed)
                                               : (i < CHIP_UNIT / 2 ? 0 : 0xff);
        to[i] &= from[i] | kept;
    }
    chip->programmed[block][offset / CHIP_UNIT] |= was_on;
    return whole ? BP_OK : BP_ERR_STORE;
}

static bp_status chip_program(void *context, uint32_t block, uint32_t offset, const void *from,
                              size_t bytes)
{
    flash_chip *chip = context;
    must(block < CHIP_BLOCKS && offset <= CHIP_BLOCK && bytes <= CHIP_BLOCK - offset &&
             offset % CHIP_UNIT == 0 && bytes % CHIP_UNIT == 0,
         "programmed outside or not by units");
    for (size_t at = 0; at < bytes; at += CHIP_UNIT) {
        BP_TRY(program_unit(chip, block, offset + (uint32_t)at, (const unsigned char *)from + at));
    }
    return BP_OK;
}

static bp_status chip_erase(void *context, uint32_t block)
{
    flash_chip *chip = context;
    must(block < CHIP_BLOCKS, "erased outside");
    const bool was_on = !chip->off;
    const bool whole = happens(chip);
    for (size_t i = 0; was_on && i < CHIP_BLOCK; i++) {
        chip->bytes[block][i] |= whole ? 0xff : (unsigned char)draw(&chip->seed);
    }
    for (size_t i = 0; was_on && i < CHIP_UNITS; i++) {
        chip->programmed[block][i] = !whole;
    }
    chip->erasures[block] += was_on;
    return whole ? BP_OK : BP_ERR_STORE;
}

void flash_chip_init(flash_chip *chip, uint32_t blocks)
{
    memset(chip, 0, sizeof *chip);
    memset(chip->bytes, 0xa5, sizeof chip->bytes);
    memset(chip->programmed, 1, sizeof chip->programmed);
    chip->flash = (bp_flash){.context = chip,
                             .block_bytes = CHIP_BLOCK,
                             .block_count = blocks,
                             .unit_bytes = CHIP_UNIT,
                             .read = chip_read,
                             .program = chip_program,
                             .erase = chip_erase};
    chip->changes_until = SIZE_MAX;
    chip->reads_until = SIZE_MAX;
}

void flash_chip_on(flash_chip *chip)
{
    chip->off = false;
    chip->changes_until = SIZE_MAX;
}
