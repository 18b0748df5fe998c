/* SPDX-License-Identifier: MIT */
/* Programs with two memory spaces on the host device: copies that run beside what computes give the
 * bytes of plain loops, poisoned or not, whatever the order of the waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/ir/tier.h"
#include "device/host/engine.h"
#include "device/host/host.h"
#include "tests/fixtures/plans/hand_program.h"

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
    assert_int_equal(bp_device_host.upload(context, bp_address(BP_SPACE_HOST, end - 1), &byte, 1),
                     BP_OK);
    assert_int_equal(bp_device_host.upload(context, bp_address(BP_SPACE_HOST, end), &byte, 1),
                     BP_ERR_USAGE);
    assert_int_equal(bp_device_host.download(context, bp_address(BP_SPACE_COUNT, 0), &byte, 1),
                     BP_ERR_USAGE);
    assert_int_equal(bp_device_host.download(context, BP_OFFSET_ABSENT, &byte, 1), BP_ERR_USAGE);
    /* there is no tier */
    assert_int_equal(bp_device_host.upload(context, bp_address(BP_SPACE_OFFLOAD, 0), &byte, 1),
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
        int64_t request = hand_broadcast(&h, kind == 1, 1 + (kind == 0), 0, out, w, 64);
        hand_fabric_wait(&h, request, out, 64, w, 64);
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

/* A broadcast among one rank that has no fabric copies. */
/* verifies device-18.3d2e */
static void one_rank_needs_no_fabric(void **state)
{
    (void)state;
    hand_begin(&h);
    bp_ref w = hand_buffer(&h, "w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    bp_ref out = hand_buffer(&h, "out", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)BYTES);
    int64_t request = hand_broadcast(&h, 0, 1, 0, out, w, BYTES);
    hand_fabric_wait(&h, request, out, BYTES, w, BYTES);
    all_well(hand_plan(&h, &bp_device_host));
    all_well(hand_open(&h, &(bp_device_options){.threads = 1}, false, NULL, NULL));
    fill(given, 5.0f);
    all_well(hand_write(&h, w, given, sizeof given));
    all_well(hand_run(&h));
    all_well(hand_read(&h, out, got, sizeof got));
    assert_memory_equal(got, given, sizeof got);
    hand_close(&h);
}

/* A tier of 64 bytes, which fails, with words or without, where it is told to. */
typedef struct small_tier {
    unsigned char bytes[64];
    bool fails, says;
    int32_t reads; /* calls */
} small_tier;

static bp_status small_read(void *context, bp_tier_way way, uint64_t offset, void *to,
                            uint64_t bytes, bp_error *error)
{
    (void)way;
    (void)error;
    memcpy(to, ((small_tier *)context)->bytes + offset, bytes);
    ((small_tier *)context)->reads++;
    return BP_OK;
}

static bp_status small_write(void *context, bp_tier_way way, uint64_t offset, const void *from,
                             uint64_t bytes, bp_error *error)
{
    small_tier *t = context;
    (void)way;
    if (t->fails) {
        return t->says ? bp_error_set(error, BP_ERR_STORE, "small", "it fails", NULL)
                       : BP_ERR_STORE;
    }
    memcpy(t->bytes + offset, from, bytes);
    return BP_OK;
}

static bp_status small_resolve(void *context, bp_error *error)
{
    (void)context;
    (void)error;
    return BP_OK;
}

static const bp_tier small = {
    .name = "small", .read = small_read, .write = small_write, .resolve = small_resolve};

#define MEMORY 4096

/* A device over so many bytes, and what a program is linked in. */
typedef struct small_device {
    void *context;
    void *memory; /* MEMORY bytes */
    uint64_t link[4096];
    small_tier below;
    bp_regions places;
    bp_error error;
} small_device;

static void small_open(small_device *d, const bp_tier *tier, bp_error *error)
{
    memset(d, 0, sizeof *d);
    d->context = malloc(bp_device_host.context_bytes);
    assert_non_null(d->context);
    assert_int_equal(posix_memalign(&d->memory, MEMORY, MEMORY), 0);
    memset(d->memory, 1, MEMORY);
    d->places.space[BP_SPACE_DEVICE].address = d->memory;
    d->places.space[BP_SPACE_DEVICE].bytes = MEMORY;
    d->places.space[BP_SPACE_OFFLOAD].bytes = tier != NULL ? sizeof d->below.bytes : 0;
    d->places.tier = tier;
    d->places.tier_context = &d->below;
    assert_int_equal(
        bp_device_host.open(d->context, &(bp_device_options){.threads = 1}, &d->places, error),
        BP_OK);
}

static void small_close(small_device *d)
{
    bp_device_host.close(d->context);
    free(d->context);
    free(d->memory);
}

static bp_status small_link(small_device *d, const bp_linked_op *ops, uint32_t count)
{
    const bp_linked_program program = {ops, count};
    assert_true(bp_device_host.link_bytes(count, 8 * count, 8 * count) <= sizeof d->link);
    return bp_device_host.link(d->context, BP_PROGRAM_STEP, &program, d->link, sizeof d->link);
}

/* What a program may not name is refused by the link: spaces that were not given, the tier among
 * them, and types of which no kernel is. */
/* verifies run-20.39b0 */
static void links_refuse_what_is_not_there(void **state)
{
    (void)state;
    static const uint64_t nowhere = UINT64_C(64);
    const uint64_t here = bp_address(BP_SPACE_DEVICE, 0), below = bp_address(BP_SPACE_OFFLOAD, 0),
                   host = bp_address(BP_SPACE_HOST, nowhere);
    const struct {
        uint64_t offsets[2];
        uint8_t dtype;
        bool tier;
        const char *says; /* NULL: nothing is wrong */
    } rows[] = {
        {{here, bp_address(BP_SPACE_DEVICE, 64)}, BP_F32, false, NULL},
        {{here, below}, BP_F32, false, "an operand lies in a memory space that was not given"},
        {{host, below}, BP_F32, false, "an operand lies in a memory space that was not given"},
        {{host, below}, BP_F32, true, "an operand lies in a memory space that was not given"},
        {{host, here}, BP_F32, false, "an operand lies in a memory space that was not given"},
        {{here, here},
         BP_I64,
         false,
         "the device's table of kernels has no form of it for this type"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static small_device d;
        const bp_scale_scalars s = {.count = 4, .factor = 2.0};
        const uint8_t dtypes[2] = {rows[i].dtype, rows[i].dtype};
        const bp_linked_op op = {BP_KERNEL_scale, 1, rows[i].offsets, &s, dtypes, BP_OFFSET_ABSENT};
        small_open(&d, rows[i].tier ? &small : NULL, &d.error);
        const bp_status status = small_link(&d, &op, 1);
        assert_int_equal(status == BP_OK, rows[i].says == NULL);
        assert_true(status == BP_OK || strcmp(d.error.text, rows[i].says) == 0);
        small_close(&d);
    }
}

/* Bytes behind the end of the tier are none of it. */
/* verifies run-20.39b0 */
static void the_tier_ends(void **state)
{
    (void)state;
    static small_device d;
    unsigned char bytes[9] = "12345678";
    small_open(&d, &small, &d.error);
    assert_int_equal(bp_device_host.upload(d.context, bp_address(BP_SPACE_OFFLOAD, 56), bytes, 8),
                     BP_OK);
    assert_memory_equal(d.below.bytes + 56, bytes, 8);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(bp_device_host.download(d.context, bp_address(BP_SPACE_OFFLOAD, 56), bytes, 8),
                     BP_OK);
    assert_memory_equal(d.below.bytes + 56, bytes, 8);
    assert_int_equal(bp_device_host.upload(d.context, bp_address(BP_SPACE_OFFLOAD, 57), bytes, 8),
                     BP_ERR_USAGE);
    assert_int_equal(bp_device_host.download(d.context, bp_address(BP_SPACE_OFFLOAD, 57), bytes, 8),
                     BP_ERR_USAGE);
    small_close(&d);
}

/* Of experts in the tier those that have rows come, neighbours in one call; the places of others
 * keep what they had. */
/* verifies run-20.39b0 */
static void experts_with_rows_come(void **state)
{
    (void)state;
    enum { EXPERTS = 8, WIDTH = 8 };
    for (uint32_t used = 0; used < 1u << EXPERTS; used++) {
        static small_device d;
        const uint64_t offsets[3] = {bp_address(BP_SPACE_DEVICE, 64),
                                     bp_address(BP_SPACE_OFFLOAD, 0),
                                     bp_address(BP_SPACE_DEVICE, 1024)};
        const bp_experts_begin_scalars begin = {0, EXPERTS, WIDTH, 8, 2};
        const bp_experts_wait_scalars end = {0, EXPERTS, WIDTH, 8, 2};
        const uint8_t dtypes[3] = {BP_U8, BP_U8, BP_I32};
        const bp_linked_op ops[] = {
            {BP_KERNEL_experts_begin, 1, offsets, &begin, dtypes, BP_OFFSET_ABSENT},
            {BP_KERNEL_experts_wait, 1, offsets, &end, dtypes, BP_OFFSET_ABSENT}};
        small_open(&d, &small, &d.error);
        int32_t *runs = (void *)((char *)d.memory + 1024), calls = 0;
        const unsigned char *to = (unsigned char *)d.memory + 64;
        runs[0] = 0;
        for (uint32_t e = 0; e < EXPERTS; e++) {
            runs[e + 1] = runs[e] + (used >> e & 1 ? 1 + (int32_t)e % 3 : 0);
            memset(d.below.bytes + e * WIDTH, (int)(100 + e), WIDTH);
            calls += (used >> e & 1) != 0 && (e == 0 || (used >> (e - 1) & 1) == 0);
        }
        d.below.reads = 0;
        assert_int_equal(small_link(&d, ops, 2), BP_OK);
        assert_int_equal(bp_device_host.seal(d.context), BP_OK);
        assert_int_equal(bp_device_host.run(d.context, BP_PROGRAM_STEP), BP_OK);
        for (uint32_t i = 0; i < EXPERTS * WIDTH; i++) {
            const uint32_t e = i / WIDTH;
            assert_int_equal(to[i], used >> e & 1 ? 100 + e : 1);
        }
        assert_int_equal(to[EXPERTS * WIDTH], 1);
        assert_int_equal(d.below.reads, calls);
        small_close(&d);
    }
}

/* A copy that fails ends the run with its status, whoever wants to hear what it was, and whether or
 * not it says so. */
/* verifies run-20.39b0 */
static void failing_copies_end_the_run(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        static small_device d;
        const bool heard = way % 2 == 0, says = way / 2 == 0;
        const uint64_t offsets[2] = {bp_address(BP_SPACE_OFFLOAD, 0),
                                     bp_address(BP_SPACE_DEVICE, 0)};
        const bp_copy_begin_scalars begin = {1, 1, 64, 64, 64};
        const bp_copy_wait_scalars end = {1, 1, 64, 64, 64};
        const uint8_t dtypes[2] = {BP_U8, BP_U8};
        const bp_linked_op ops[] = {
            {BP_KERNEL_copy_begin, 1, offsets, &begin, dtypes, BP_OFFSET_ABSENT},
            {BP_KERNEL_copy_wait, 1, offsets, &end, dtypes, BP_OFFSET_ABSENT}};
        bp_error error = {.code = BP_OK, .found = 7};
        small_open(&d, &small, heard ? &error : NULL);
        assert_int_equal(small_link(&d, ops, 2), BP_OK);
        assert_int_equal(bp_device_host.seal(d.context), BP_OK);
        d.below.fails = true;
        d.below.says = says;
        bp_status status = bp_device_host.run(d.context, BP_PROGRAM_STEP);
        status = status == BP_OK ? bp_device_host.wait(d.context) : status;
        assert_int_equal(status, BP_ERR_STORE);
        assert_int_equal(error.code, heard && says ? BP_ERR_STORE : BP_OK);
        assert_int_equal(error.found, heard && says ? 0 : 7);
        small_close(&d);
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
        cmocka_unit_test(one_rank_needs_no_fabric),
        cmocka_unit_test(links_refuse_what_is_not_there),
        cmocka_unit_test(the_tier_ends),
        cmocka_unit_test(experts_with_rows_come),
        cmocka_unit_test(failing_copies_end_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
