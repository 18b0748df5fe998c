/* SPDX-License-Identifier: MIT */
/* The compact form of a trainer's state over a simulated flash: cuts of power at every change of
 * it, a failing one, every byte changed, and states of another model or version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/trainer_state.h"
#include "tests/fixtures/flash_chip.h"

enum { ARENA = 1024, FIRST = 700, FROZEN = 4, LAST = 9, PART = 33, SLOT_BLOCKS = 2, MOST = 100 };

static const unsigned char frozen[FROZEN] = {91, 92, 93, 94};
static const unsigned char other_frozen[FROZEN] = {91, 92, 93, 95};
static const bp_trainer_range rows[] = {{8, FIRST}, {ARENA, FROZEN}, {720, LAST}};
static const bp_trainer_plan plan = {
    .arena_bytes = ARENA, .frozen = frozen, .state = rows, .state_count = 3};
static const bp_state_tensor tensors[] = {{"bias", BP_F32, 2, {5, 35}, FIRST, 0, true},
                                          {"frozen", BP_U8, 1, {FROZEN}, FROZEN, 1, true},
                                          {"moments", BP_U8, 1, {LAST}, LAST, 2, false}};

static uint64_t arena[ARENA / sizeof(uint64_t)];
static bp_trainer trainer;
static unsigned char mean[PART];
static const bp_trainer_part parts[] = {{"sensor", mean, PART}};
static const bp_trainer_kept kept = {tensors, parts, 1};
static flash_chip chip;

static bp_status slot_read(void *user, uint32_t slot, uint64_t offset, void *to, size_t bytes)
{
    const bp_flash *flash = user;
    unsigned char *at = to;
    for (; bytes > 0; bytes--, offset++, at++) {
        BP_TRY(flash->read(flash->context, slot * SLOT_BLOCKS + (uint32_t)(offset / CHIP_BLOCK),
                           (uint32_t)(offset % CHIP_BLOCK), at, 1));
    }
    return BP_OK;
}

static bp_status slot_erase(void *user, uint32_t slot)
{
    const bp_flash *flash = user;
    for (uint32_t i = 0; i < SLOT_BLOCKS; i++) {
        BP_TRY(flash->erase(flash->context, slot * SLOT_BLOCKS + i));
    }
    return BP_OK;
}

static bp_status slot_write(void *user, uint32_t slot, uint64_t offset, const void *from,
                            size_t bytes)
{
    const bp_flash *flash = user;
    return flash->program(flash->context, slot * SLOT_BLOCKS + (uint32_t)(offset / CHIP_BLOCK),
                          (uint32_t)(offset % CHIP_BLOCK), from, bytes);
}

static const bp_trainer_slots slots = {&chip.flash, (uint64_t)SLOT_BLOCKS *CHIP_BLOCK, slot_read,
                                       slot_erase, slot_write};

static unsigned char value(uint64_t version, size_t at)
{
    return (unsigned char)(version * 57 + at * 7 + (at >> 8));
}

/* Another version of the state; version 0 is zeros. */
static void fill(uint64_t version)
{
    assert_int_equal(bp_trainer_open(&trainer, &plan, arena, sizeof arena), BP_OK);
    memset(mean, 0, sizeof mean);
    for (size_t i = 0; version > 0 && i < FIRST + LAST + PART; i++) {
        unsigned char *at = i < FIRST          ? (unsigned char *)arena + 8 + i
                            : i < FIRST + LAST ? (unsigned char *)arena + 720 + (i - FIRST)
                                               : mean + (i - FIRST - LAST);
        *at = value(version, i);
    }
    trainer.steps = version;
}

/* The version that is there whole. */
static uint64_t recalled(void)
{
    bool any;
    fill(0);
    assert_int_equal(bp_trainer_recall(&trainer, &kept, &slots, &any), BP_OK);
    const uint64_t version = trainer.steps;
    assert_int_equal(any, version > 0);
    for (size_t i = 0; i < FIRST + LAST + PART; i++) {
        const unsigned char at = i < FIRST          ? ((unsigned char *)arena)[8 + i]
                                 : i < FIRST + LAST ? ((unsigned char *)arena)[720 + (i - FIRST)]
                                                    : mean[i - FIRST - LAST];
        assert_int_equal(at, version > 0 ? value(version, i) : 0);
    }
    return version;
}

static bp_status keep(uint64_t version)
{
    fill(version);
    return bp_trainer_keep(&trainer, &kept, &slots);
}

/* verifies device-40.58da */
static void cut_at_every_change(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        for (uint64_t before = 0; before < 4; before++) {
            bool done = false;
            for (size_t cut = 0; !done; cut++) {
                assert_true(cut < MOST);
                flash_chip_init(&chip, 2 * SLOT_BLOCKS);
                chip.seed = seed * 1000 + cut;
                for (uint64_t i = 1; i <= before; i++) {
                    assert_int_equal(keep(i), BP_OK);
                }
                chip.changes_until = chip.changes_made + cut;
                done = keep(before + 1) == BP_OK;
                flash_chip_on(&chip);
                const uint64_t found = recalled();
                assert_true(found == before + 1 || (!done && found == before));
                /* and it goes on from there */
                assert_int_equal(keep(9), BP_OK);
                assert_int_equal(recalled(), 9);
            }
        }
    }
}

/* verifies device-40.58da */
static void a_change_that_fails(void **state)
{
    (void)state;
    bool done = false;
    for (size_t n = 1; !done; n++) {
        flash_chip_init(&chip, 2 * SLOT_BLOCKS);
        assert_int_equal(keep(1), BP_OK);
        chip.fails_at = chip.changes_made + n;
        done = keep(2) == BP_OK;
        chip.fails_at = 0;
        const uint64_t found = recalled();
        assert_true(found == 2 || (!done && found == 1));
    }
}

/* Any changed byte of the newer one gives the older one; of the older one, nothing. */
/* verifies device-40.58da */
static void every_byte_changed(void **state)
{
    (void)state;
    flash_chip_init(&chip, 2 * SLOT_BLOCKS);
    assert_int_equal(keep(1), BP_OK);
    assert_int_equal(keep(2), BP_OK);
    fill(0);
    const size_t used = (size_t)bp_trainer_kept_bytes(&trainer, &kept);
    assert_true(used < CHIP_BLOCK && used % BP_TRAINER_UNIT == 0);
    for (size_t newer = 0; newer < 2; newer++) {
        unsigned char *at = chip.bytes[newer == 0 ? SLOT_BLOCKS : 0];
        size_t older = 0;
        if (newer == 1) {
            memset(chip.bytes[SLOT_BLOCKS], 0xff, CHIP_BLOCK);
        }
        for (size_t i = 0; i < used; i++) {
            at[i] ^= 0x10;
            const uint64_t found = recalled();
            at[i] ^= 0x10;
            older += found == (newer == 0 ? 1 : 0);
            /* padding behind head and bytes */
            assert_true(found == (newer == 0 ? 1 : 0) || found == (newer == 0 ? 2 : 1));
        }
        assert_true(older >= sizeof(bp_trainer_state_head) + FIRST + LAST + PART);
    }
}

/* CRC-32, a bit at a time. */
static uint32_t crc_of_bits(const void *from, size_t bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < 8 * bytes; i++) {
        const uint32_t bit = (uint32_t)((const unsigned char *)from)[i / 8] >> i % 8;
        crc = crc >> 1 ^ (((crc ^ bit) & 1) != 0 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

/* verifies device-40.58da */
static void states_of_others(void **state)
{
    (void)state;
    bool any;
    bp_trainer_plan changed = plan;
    bp_state_tensor list[3];
    memcpy(list, tensors, sizeof list);
    bp_trainer_kept other = {list, parts, 1};
    flash_chip_init(&chip, 2 * SLOT_BLOCKS);
    assert_int_equal(keep(1), BP_OK);
    assert_int_equal(bp_trainer_recall(&trainer, &other, &slots, &any), BP_OK);
    list[0].name = "beat";
    assert_int_equal(bp_trainer_recall(&trainer, &other, &slots, &any), BP_ERR_DATA);
    list[0] = tensors[0];
    list[0].shape[0] = 35;
    list[0].shape[1] = 5;
    assert_int_equal(bp_trainer_recall(&trainer, &other, &slots, &any), BP_ERR_DATA);
    list[0] = tensors[0];
    other.part_count = 0;
    assert_int_equal(bp_trainer_recall(&trainer, &other, &slots, &any), BP_ERR_DATA);
    changed.frozen = other_frozen;
    assert_int_equal(bp_trainer_open(&trainer, &changed, arena, sizeof arena), BP_OK);
    assert_int_equal(bp_trainer_recall(&trainer, &kept, &slots, &any), BP_ERR_DATA);
    assert_false(any);
    assert_int_equal(keep(2), BP_OK);
    memset(chip.bytes[0], 0xff, CHIP_BLOCK); /* the older one */
    bp_trainer_state_head head;
    memcpy(&head, chip.bytes[SLOT_BLOCKS], sizeof head);
    head.version++;
    head.crc = crc_of_bits(&head, offsetof(bp_trainer_state_head, crc));
    memcpy(chip.bytes[SLOT_BLOCKS], &head, sizeof head);
    fill(0);
    assert_int_equal(bp_trainer_recall(&trainer, &kept, &slots, &any), BP_ERR_DATA);
    bp_trainer_slots small = slots;
    small.bytes = bp_trainer_kept_bytes(&trainer, &kept) - 1;
    assert_int_equal(bp_trainer_keep(&trainer, &kept, &small), BP_ERR_FIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_every_change), cmocka_unit_test(a_change_that_fails),
        cmocka_unit_test(every_byte_changed), cmocka_unit_test(states_of_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
