/* SPDX-License-Identifier: MIT */
/* Programs with two memory spaces on the host device: copies that run beside what computes give the
 * bytes of plain loops, poisoned or not, whatever the order of the waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "device/host/engine.h"
#include "device/host/host.h"
#include "tests/support/hand_program.h"

#define COUNT  5000 /* floats of a buffer */
#define BYTES  ((int64_t)COUNT * 4)
#define PIECES 150 /* copies in flight: more than an engine's queue holds */

static hand_program h;
static float given[COUNT], got[COUNT], right[COUNT];

static void all_well(bp_status status)
{
    if (status != BP_OK) {
        print_error("%s: %s\n", h.error.name, h.error.text);
    }
    assert_int_equal(status, BP_OK);
}

static void fill(float *to, float seed)
{
    for (int i = 0; i < COUNT; i++) {
        to[i] = seed + (float)(i % 97) * 0.25f;
    }
}

/* y *= factor */
static void scaled(bp_ref y, double factor, int64_t count)
{
    const bp_scale_operands operands = {.y = hand_at(y, 0, BP_F32), .x = hand_at(y, 0, BP_F32)};
    const bp_scale_scalars scalars = {.count = count, .factor = factor};
    hand_op(&h, BP_KERNEL_scale, &operands, &scalars);
}

/* w goes to the host arena while t = 3 w is computed; then what came back is scaled, too, and both
 * are the state. */
static void write_program(bp_ref *w, bp_ref *out, bp_ref *kept)
{
    hand_begin(&h);
    *w = hand_buffer(&h, "w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    *out = hand_buffer(&h, "out", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    *kept = hand_buffer(&h, "kept", BP_SPACE_HOST, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    bp_ref t = hand_buffer(&h, "t", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, (uint64_t)BYTES);
    bp_ref far = hand_buffer(&h, "far", BP_SPACE_HOST, BP_SCOPE_PROGRAM, (uint64_t)BYTES);
    bp_ref back = hand_buffer(&h, "back", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, (uint64_t)BYTES);
    int64_t to_host = hand_copy_begin(&h, far, *w, BYTES);
    hand_compute(&h, t, *w, COUNT);
    scaled(t, 3.0, COUNT);
    hand_copy_wait(&h, to_host, far, *w, BYTES);
    int64_t to_device = hand_copy_begin(&h, back, far, BYTES);
    int64_t aside = hand_copy_begin(&h, *kept, far, BYTES);
    hand_compute(&h, *out, t, COUNT);
    hand_copy_wait(&h, aside, *kept, far, BYTES);
    hand_copy_wait(&h, to_device, back, far, BYTES);
    scaled(back, 0.5, COUNT);
    hand_compute(&h, *w, back, COUNT);
}

/* verifies device-18.3d2e */
static void copies_run_beside_what_computes(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 4; kind++) {
        bp_ref w, out, kept;
        const bp_device_options options = {.threads = 1 + 2 * (kind & 1)};
        write_program(&w, &out, &kept);
        all_well(hand_plan(&h, &bp_device_host));
        all_well(hand_open(&h, &options, (kind & 2) != 0, NULL, NULL));
        fill(given, 1.0f);
        all_well(hand_write(&h, w, given, sizeof given));
        for (int run = 0; run < 3; run++) {
            all_well(hand_run(&h));
            all_well(hand_read(&h, out, got, sizeof got));
            for (int i = 0; i < COUNT; i++) {
                right[i] = 3.0f * given[i];
            }
            assert_memory_equal(got, right, sizeof got);
            all_well(hand_read(&h, kept, got, sizeof got));
            assert_memory_equal(got, given, sizeof got);
            for (int i = 0; i < COUNT; i++) {
                given[i] *= 0.5f;
            }
            all_well(hand_read(&h, w, got, sizeof got));
            assert_memory_equal(got, given, sizeof got);
        }
        hand_close(&h);
    }
}

/* More copies in flight than the queue has room for, waited for from the last to the first. */
/* verifies device-18.3d2e */
static void many_copies_fly_at_once(void **state)
{
    (void)state;
    const int64_t piece = BYTES / PIECES / 4 * 4;
    hand_begin(&h);
    bp_ref w = hand_buffer(&h, "w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    bp_ref z = hand_buffer(&h, "z", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    bp_ref far = hand_buffer(&h, "far", BP_SPACE_HOST, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    for (int64_t i = 0; i < PIECES; i++) { /* piece i goes to place PIECES - 1 - i */
        bp_ref to = hand_at(far, (uint64_t)((PIECES - 1 - i) * piece), BP_U8);
        assert_int_equal(hand_copy_begin(&h, to, hand_at(w, (uint64_t)(i * piece), BP_U8), piece),
                         i);
    }
    for (int64_t i = PIECES; i-- > 0;) {
        bp_ref to = hand_at(far, (uint64_t)((PIECES - 1 - i) * piece), BP_U8);
        hand_copy_wait(&h, i, to, hand_at(w, (uint64_t)(i * piece), BP_U8), piece);
    }
    int64_t last = hand_copy_begin(&h, z, far, PIECES * piece);
    hand_copy_wait(&h, last, z, far, PIECES * piece);
    all_well(hand_plan(&h, &bp_device_host));
    all_well(hand_open(&h, &(bp_device_options){.threads = 1}, false, NULL, NULL));
    fill(given, 2.0f);
    all_well(hand_write(&h, w, given, sizeof given));
    all_well(hand_run(&h));
    all_well(hand_run(&h));
    all_well(hand_read(&h, z, got, sizeof got));
    for (int64_t i = 0; i < PIECES; i++) {
        assert_memory_equal((char *)got + (PIECES - 1 - i) * piece, (char *)given + i * piece,
                            (size_t)piece);
    }
    hand_close(&h);
}

/* Columns of a matrix, to another pitch and another space. */
/* verifies device-18.3d2e */
static void rows_keep_their_pitches(void **state)
{
    (void)state;
    const int64_t rows = 40, width = 70, from_pitch = 125, to_pitch = 90;
    unsigned char *bytes = (unsigned char *)given, *result = (unsigned char *)got;
    hand_begin(&h);
    bp_ref w = hand_buffer(&h, "w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    bp_ref far = hand_buffer(&h, "far", BP_SPACE_HOST, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    const bp_copy_begin_operands operands = {hand_at(far, 8, BP_U8), hand_at(w, 4, BP_U8)};
    const bp_copy_begin_scalars s = {0, rows, width, to_pitch, from_pitch};
    hand_op(&h, BP_KERNEL_copy_begin, &operands, &s);
    hand_op(&h, BP_KERNEL_copy_wait, &operands, &s);
    all_well(hand_plan(&h, &bp_device_host));
    all_well(hand_open(&h, &(bp_device_options){.threads = 1}, false, NULL, NULL));
    for (int64_t i = 0; i < BYTES; i++) {
        bytes[i] = (unsigned char)(i * 31 + i / 256);
    }
    memset(result, 0xee, sizeof got);
    memset(right, 0xee, sizeof right);
    all_well(hand_write(&h, w, given, sizeof given));
    all_well(hand_write(&h, far, got, sizeof got));
    all_well(hand_run(&h));
    all_well(hand_read(&h, far, got, sizeof got));
    for (int64_t r = 0; r < rows; r++) {
        memcpy((unsigned char *)right + 8 + r * to_pitch, bytes + 4 + r * from_pitch,
               (size_t)width);
    }
    assert_memory_equal(got, right, sizeof got);
    hand_close(&h);
}

/* Without a host arena there is no thread for copies: a begin does them. A group of one rank needs
 * no fabric. */
static void one_space_and_one_rank_need_no_engine(void **state)
{
    (void)state;
    hand_begin(&h);
    bp_ref w = hand_buffer(&h, "w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    bp_ref y[5];
    for (int i = 0; i < 5; i++) {
        static const char *const names[] = {"a", "b", "c", "d", "e"};
        y[i] = hand_buffer(&h, names[i], BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    }
    int64_t copy = hand_copy_begin(&h, y[0], w, BYTES);
    int64_t gather = hand_all_gather(&h, 0, 1, y[1], w, BYTES);
    int64_t exchange = hand_exchange(&h, 0, 1, y[2], w, BYTES);
    int64_t cast = hand_broadcast(&h, 0, 1, 0, y[3], w, BYTES);
    hand_fabric_wait(&h, cast, y[3], BYTES, w, BYTES);
    hand_fabric_wait(&h, exchange, y[2], BYTES, w, BYTES);
    hand_fabric_wait(&h, gather, y[1], BYTES, w, BYTES);
    hand_copy_wait(&h, copy, y[0], w, BYTES);
    int64_t in_place = hand_broadcast(&h, 0, 1, 0, w, w, BYTES);
    hand_fabric_wait(&h, in_place, w, BYTES, w, BYTES);
    hand_compute(&h, y[4], w, COUNT);
    all_well(hand_plan(&h, &bp_device_host));
    assert_int_equal(h.report.host.arena_bytes, 0);
    all_well(hand_open(&h, &(bp_device_options){.threads = 2}, true, NULL, NULL));
    fill(given, 3.0f);
    all_well(hand_write(&h, w, given, sizeof given));
    all_well(hand_run(&h));
    for (int i = 0; i < 5; i++) {
        all_well(hand_read(&h, y[i], got, sizeof got));
        assert_memory_equal(got, given, sizeof got);
    }
    hand_close(&h);
}

/* Places are held against the arenas; a program of more ranks, or of a space that is not there, is
 * refused at the link. */
/* verifies run-20.39b0 */
static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    bp_ref w, out, kept;
    unsigned char byte = 0;
    write_program(&w, &out, &kept);
    all_well(hand_plan(&h, &bp_device_host));
    all_well(hand_open(&h, &(bp_device_options){.threads = 1}, false, NULL, NULL));
    uint64_t end = h.report.host.arena_bytes;
    assert_int_equal(end, h.places.space[BP_SPACE_HOST].bytes);
    void *context = h.context;
    assert_int_equal(bp_device_host.upload(context, bp_place(BP_SPACE_HOST, end - 1), &byte, 1),
                     BP_OK);
    assert_int_equal(bp_device_host.upload(context, bp_place(BP_SPACE_HOST, end), &byte, 1),
                     BP_ERR_USAGE);
    assert_int_equal(bp_device_host.download(context, bp_place(BP_SPACE_COUNT, 0), &byte, 1),
                     BP_ERR_USAGE);
    assert_int_equal(bp_device_host.download(context, BP_OFFSET_ABSENT, &byte, 1), BP_ERR_USAGE);
    /* there is no tier */
    assert_int_equal(bp_device_host.upload(context, bp_place(BP_SPACE_BELOW, 0), &byte, 1),
                     BP_ERR_USAGE);
    hand_close(&h);

    write_program(&w, &out, &kept);
    all_well(hand_plan(&h, &bp_device_host));
    h.report.host.arena_bytes = 0;
    assert_int_equal(hand_open(&h, &(bp_device_options){.threads = 1}, false, NULL, NULL),
                     BP_ERR_USAGE);
    assert_string_equal(h.error.text, "an operand lies in a memory space that was not given");
    assert_string_equal(h.error.name, "copy_begin");
    hand_close(&h);

    for (int kind = 0; kind < 3; kind++) {
        hand_begin(&h);
        w = hand_buffer(&h, "w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, 64);
        out = hand_buffer(&h, "out", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, 64);
        int64_t ticket = hand_broadcast(&h, kind == 1, 1 + (kind == 0), 0, out, w, 64);
        hand_fabric_wait(&h, ticket, out, 64, w, 64);
        all_well(hand_plan(&h, &bp_device_host));
        if (kind == 2) { /* the verifier sees it too, but a device does not rely on that */
            h.graph.scalars[4].integer = 1;
        }
        assert_int_equal(hand_open(&h, &(bp_device_options){.threads = 1}, false, NULL, NULL),
                         BP_ERR_USAGE);
        assert_string_equal(h.error.text,
                            kind == 2
                                ? "a broadcast begins at a rank that the group does not have"
                                : "a program was made for another number of ranks in the group");
        hand_close(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_run_beside_what_computes),
        cmocka_unit_test(many_copies_fly_at_once),
        cmocka_unit_test(rows_keep_their_pitches),
        cmocka_unit_test(one_space_and_one_rank_need_no_engine),
        cmocka_unit_test(what_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
