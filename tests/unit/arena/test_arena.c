/* SPDX-License-Identifier: MIT */
/* Carving, rewinding and sealing an arena. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "arena/arena.h"

/* verifies arena-1.6463 */
static void allocates_aligned_pieces_that_do_not_overlap(void **state)
{
    (void)state;
    static unsigned char memory[1024];
    bp_arena arena;
    /* An odd start: alignment is of the address, not of the distance from the start. */
    bp_arena_init(&arena, memory + 1, 1023);
    unsigned char *end = memory + 1;
    for (size_t alignment = 1; alignment <= 64; alignment *= 2) {
        void *piece;
        assert_int_equal(bp_arena_allocate(&arena, 10, alignment, &piece), BP_OK);
        assert_int_equal((uintptr_t)piece % alignment, 0);
        assert_true((unsigned char *)piece >= end);
        assert_true((unsigned char *)piece < end + alignment);
        end = (unsigned char *)piece + 10;
        assert_ptr_equal(memory + 1 + arena.used, end);
    }
    assert_int_equal(arena.peak, arena.used);
    assert_int_equal(bp_arena_left(&arena), 1023 - arena.used);
}

/* verifies arena-2.3858 */
static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    static unsigned char memory[64];
    bp_arena arena;
    void *piece;
    bp_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(bp_arena_allocate(&arena, 65, 1, &piece), BP_ERR_FIT);
    assert_null(piece);
    assert_int_equal(bp_arena_allocate(&arena, SIZE_MAX, 64, &piece), BP_ERR_FIT);
    assert_int_equal(bp_arena_allocate(&arena, 64, 1, &piece), BP_OK);
    assert_int_equal(bp_arena_allocate(&arena, 0, 1, &piece), BP_OK);
    assert_int_equal(bp_arena_allocate(&arena, 1, 1, &piece), BP_ERR_FIT);
    assert_int_equal(arena.used, 64);
    /* No room for the padding itself. */
    bp_arena_init(&arena, memory, 3);
    assert_int_equal(bp_arena_allocate(&arena, 1, 1, &piece), BP_OK);
    assert_int_equal(bp_arena_allocate(&arena, 0, (size_t)1 << 62, &piece), BP_ERR_FIT);
}

/* verifies arena-2.3858 */
static void refuses_an_alignment_that_is_no_power_of_two(void **state)
{
    (void)state;
    static unsigned char memory[64];
    bp_arena arena;
    void *piece;
    bp_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(bp_arena_allocate(&arena, 1, 0, &piece), BP_ERR_USAGE);
    assert_int_equal(bp_arena_allocate(&arena, 1, 3, &piece), BP_ERR_USAGE);
    assert_int_equal(bp_arena_allocate(&arena, 1, 48, &piece), BP_ERR_USAGE);
    assert_int_equal(arena.used, 0);
}

/* verifies arena-4.5295 */
static void rewinds_to_a_mark_and_keeps_the_peak(void **state)
{
    (void)state;
    static unsigned char memory[64];
    bp_arena arena;
    void *piece;
    bp_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(bp_arena_allocate(&arena, 8, 1, &piece), BP_OK);
    size_t mark = arena.used;
    assert_int_equal(bp_arena_allocate(&arena, 40, 1, &piece), BP_OK);
    assert_int_equal(bp_arena_rewind(&arena, mark), BP_OK);
    assert_int_equal(arena.used, 8);
    assert_int_equal(arena.peak, 48);
    assert_int_equal(bp_arena_rewind(&arena, 9), BP_ERR_USAGE);
}

/* verifies arena-3.bd8d */
static void a_sealed_arena_refuses_and_counts(void **state)
{
    (void)state;
    static unsigned char memory[64];
    bp_arena arena;
    void *piece = memory;
    bp_arena_init(&arena, memory, sizeof memory);
    bp_arena_seal(&arena);
    assert_int_equal(bp_arena_allocate(&arena, 1, 1, &piece), BP_ERR_SEALED);
    assert_null(piece);
    assert_int_equal(bp_arena_allocate(&arena, 0, 1, &piece), BP_ERR_SEALED);
    assert_int_equal(bp_arena_rewind(&arena, 0), BP_ERR_SEALED);
    assert_int_equal(arena.refused, 3);
    assert_int_equal(arena.used, 0);
}

/* What a piece of code with a few parts does, whatever arena it is given. */
static bp_status take_parts(bp_arena *arena, void *part[4])
{
    BP_TRY(bp_arena_allocate(arena, 3, 1, &part[0]));
    BP_TRY(bp_arena_rows(arena, 5, 8, 16, &part[1]));
    BP_TRY(bp_arena_allocate(arena, 0, 64, &part[2]));
    return bp_arena_rows(arena, 3, 7, 64, &part[3]);
}

/* verifies arena-19.0f0e */
static void what_is_counted_is_what_is_allocated(void **state)
{
    (void)state;
    static unsigned char memory[256];
    unsigned char *aligned = memory + (64 - (uintptr_t)memory % 64) % 64;
    bp_arena arena;
    void *part[4];
    bp_arena_count(&arena);
    assert_int_equal(take_parts(&arena, part), BP_OK);
    for (int i = 0; i < 4; i++) {
        assert_null(part[i]);
    }
    const size_t used = arena.used;
    assert_int_equal(used, 64 + 21);
    assert_int_equal(bp_arena_counted(&arena), used + 64);
    bp_arena_init(&arena, aligned, used);
    assert_int_equal(take_parts(&arena, part), BP_OK);
    assert_int_equal(arena.used, used);
    bp_arena_init(&arena, aligned, used - 1);
    assert_int_equal(take_parts(&arena, part), BP_ERR_FIT);
    for (size_t off = 0; off < 64; off++) {
        bp_arena_init(&arena, aligned + off, used + 64);
        assert_int_equal(take_parts(&arena, part), BP_OK);
    }
}

/* verifies arena-19.0f0e */
static void counts_up_to_what_there_can_be(void **state)
{
    (void)state;
    bp_arena arena;
    void *part;
    bp_arena_count(&arena);
    assert_int_equal(bp_arena_counted(&arena), 0);
    assert_int_equal(bp_arena_rows(&arena, SIZE_MAX / 2, 1, 1, &part), BP_OK);
    const size_t mark = arena.used;
    assert_int_equal(bp_arena_rows(&arena, (uint64_t)1 << 62, 8, 16, &part), BP_ERR_FIT);
    assert_true(bp_arena_counted(&arena) == BP_SIZE_INVALID);
    assert_int_equal(bp_arena_allocate(&arena, 1, 1, &part), BP_ERR_FIT);
    assert_int_equal(bp_arena_rewind(&arena, mark), BP_OK);
    assert_true(bp_arena_counted(&arena) == (uint64_t)mark + 1);
    bp_arena_count(&arena);
    assert_int_equal(bp_arena_rows(&arena, BP_SIZE_INVALID, 1, 1, &part), BP_ERR_FIT);
    static unsigned char memory[8];
    bp_arena_init(&arena, memory, sizeof memory); /* one with memory forgets nothing */
    assert_int_equal(bp_arena_rows(&arena, 3, (size_t)1 << 63, 1, &part), BP_ERR_FIT);
    assert_int_equal(arena.used, 0);
}

/* verifies arena-19.0f0e */
static void rows_that_were_counted_are_taken(void **state)
{
    (void)state;
    static unsigned char memory[64];
    unsigned char *aligned = memory + (8 - (uintptr_t)memory % 8) % 8;
    bp_arena arena;
    bp_arena_count(&arena);
    assert_null(bp_arena_take(&arena, 3, 3));
    assert_null(bp_arena_take(&arena, 2, 8));
    assert_int_equal(arena.used, 16 + 16);
    assert_int_equal(bp_arena_counted(&arena), 32 + 8);
    bp_arena_init(&arena, aligned, 32);
    assert_ptr_equal(bp_arena_take(&arena, 3, 3), aligned);
    assert_ptr_equal(bp_arena_take(&arena, 2, 8), aligned + 16);
    assert_null(bp_arena_take(&arena, 1, 1));
    bp_arena_count(&arena);
    assert_null(bp_arena_take(&arena, UINT64_MAX, 1)); /* padding it is more than there can be */
    assert_true(bp_arena_counted(&arena) == BP_SIZE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_were_counted_are_taken),
        cmocka_unit_test(what_is_counted_is_what_is_allocated),
        cmocka_unit_test(counts_up_to_what_there_can_be),
        cmocka_unit_test(allocates_aligned_pieces_that_do_not_overlap),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(refuses_an_alignment_that_is_no_power_of_two),
        cmocka_unit_test(rewinds_to_a_mark_and_keeps_the_peak),
        cmocka_unit_test(a_sealed_arena_refuses_and_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
