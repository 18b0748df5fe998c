/* SPDX-License-Identifier: MIT */
/* Traffic to and from the offload tier: bytes counted, and the rate that a program needs, against
 * programs small enough to reckon by hand. Copying a float takes a second here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/ir/traffic.h"
#include "device/host/host.h"
#include "tests/fixtures/plans/hand_program.h"

#define COUNT 1024

static hand_program h;
static bp_ref w, y, at[4], far[4];

/* A floating-point copy of COUNT floats moves 8 COUNT bytes: so many seconds. */
static const bp_rates rates = {.flops_per_second = 1.0, .bytes_per_second = 8.0};

static void begin(void)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static const char *const below[] = {"a below", "b below", "c below", "d below"};
    hand_begin(&h);
    w = hand_buffer(&h, "w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, COUNT * 4);
    y = hand_buffer(&h, "y", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, COUNT * 4);
    for (int i = 0; i < 4; i++) {
        at[i] = hand_buffer(&h, names[i], BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, COUNT * 4);
        far[i] = hand_buffer(&h, below[i], BP_SPACE_OFFLOAD, BP_SCOPE_PERSISTENT, COUNT * 4);
    }
}

static bp_traffic count(void)
{
    void *scratch = malloc((size_t)bp_traffic_scratch(&h.graph));
    assert_non_null(scratch);
    memset(scratch, 0xff,
           (size_t)bp_traffic_scratch(&h.graph)); /* of what was there nothing stays */
    assert_int_equal(hand_plan(&h, &bp_device_host), BP_OK);
    const bp_traffic out = bp_traffic_program(&h.graph, BP_PROGRAM_STEP, &rates, scratch);
    free(scratch);
    hand_close(&h);
    return out;
}

static int64_t milli(double value)
{
    return (int64_t)(value * 1000.0 + 0.5);
}

static void compute(uint32_t seconds)
{
    hand_compute(&h, y, w, (int64_t)seconds);
}

/* a is waited for before anything runs; b has 10 seconds, c 30 of which b takes its share. */
/* verifies program-10.8294 */
static void rates_are_of_the_tightest_stretch(void **state)
{
    (void)state;
    begin();
    const int64_t a = hand_copy_begin(&h, at[0], far[0], 400);
    hand_copy_wait(&h, a, at[0], far[0], 400);
    compute(5);
    const int64_t b = hand_copy_begin(&h, at[1], far[1], 1000);
    const int64_t c = hand_copy_begin(&h, at[2], far[2], 2600);
    compute(10);
    hand_copy_wait(&h, b, at[1], far[1], 1000);
    compute(20);
    hand_copy_wait(&h, c, at[2], far[2], 2600);
    hand_compute(&h, y, at[0], 1);
    hand_compute(&h, y, at[1], 1);
    hand_compute(&h, y, at[2], 1);
    const bp_traffic t = count();
    assert_int_equal(t.read, 4000);
    assert_int_equal(t.written, 0);
    assert_int_equal(t.first, 400);
    assert_int_equal(t.pending, 3600);
    assert_int_equal(milli(t.seconds), 38000);
    assert_int_equal(milli(t.read_rate), 120000); /* 3600 bytes in 30 s, and not 1000 in 10 */
}

/* What goes down is counted for itself. */
/* verifies program-10.8294 */
static void writes_have_a_way_of_their_own(void **state)
{
    (void)state;
    begin();
    compute(4);
    const int64_t out = hand_copy_begin(&h, far[0], w, 2000);
    const int64_t in = hand_copy_begin(&h, at[1], far[1], 300);
    compute(5);
    hand_copy_wait(&h, in, at[1], far[1], 300);
    compute(5);
    hand_copy_wait(&h, out, far[0], w, 2000);
    hand_compute(&h, y, at[1], 1);
    const bp_traffic t = count();
    assert_int_equal(t.read, 300);
    assert_int_equal(t.written, 2000);
    assert_int_equal(t.first, 0);
    assert_int_equal(milli(t.read_rate), 60000);
    assert_int_equal(milli(t.written_rate), 200000);
}

/* Calls of a fabric, and copies within the arena, are no traffic to the tier. */
/* verifies program-10.8294 */
static void other_work_in_flight_is_not_counted(void **state)
{
    (void)state;
    begin();
    compute(1);
    const int64_t in = hand_copy_begin(&h, at[0], far[0], 400);
    const int64_t near = hand_copy_begin(&h, at[1], w, 500);
    const int64_t round = hand_all_gather(&h, 0, 1, at[2], far[2], 600);
    compute(5);
    hand_copy_wait(&h, in, at[0], far[0], 400);
    hand_copy_wait(&h, near, at[1], w, 500);
    hand_fabric_wait(&h, round, at[2], 600, far[2], 600);
    hand_compute(&h, y, at[0], 1);
    const bp_traffic t = count();
    assert_int_equal(t.read, 400);
    assert_int_equal(t.written, 0);
    assert_int_equal(milli(t.read_rate), 80000);
}

/* What nothing is computed for is waited for at any rate, with what is on its way before it; what
 * is written last as well. */
/* verifies program-10.8294 */
static void what_is_asked_for_at_once_is_waited_for(void **state)
{
    (void)state;
    begin();
    compute(2);
    const int64_t c = hand_copy_begin(&h, at[2], far[2], 500);
    compute(1);
    const int64_t a = hand_copy_begin(&h, at[0], far[0], 400);
    const int64_t b = hand_copy_begin(&h, at[1], far[1], 1000);
    hand_copy_wait(&h, a, at[0], far[0], 400);
    compute(10);
    hand_copy_wait(&h, b, at[1], far[1], 1000);
    hand_copy_wait(&h, c, at[2], far[2], 500);
    const int64_t out = hand_copy_begin(&h, far[3], w, 700);
    hand_copy_wait(&h, out, far[3], w, 700);
    hand_compute(&h, y, at[0], 1);
    const bp_traffic t = count();
    assert_int_equal(t.first, 900); /* a, and c before it */
    assert_int_equal(t.last, 700);
    assert_int_equal(milli(t.read_rate), 100000); /* b has 10 seconds to itself */
    assert_int_equal(milli(t.written_rate), 0);
}

/* A copy of nothing makes no other wait, however soon it is waited for. */
/* verifies program-10.8294 */
static void copies_of_nothing_are_none(void **state)
{
    (void)state;
    begin();
    compute(1);
    const int64_t a = hand_copy_begin(&h, at[0], far[0], 400);
    const int64_t b = hand_copy_begin(&h, at[1], far[1], 0);
    hand_copy_wait(&h, b, at[1], far[1], 0);
    compute(4);
    hand_copy_wait(&h, a, at[0], far[0], 400);
    hand_compute(&h, y, at[0], 1);
    const bp_traffic t = count();
    assert_int_equal(t.read, 400);
    assert_int_equal(t.first, 0);
    assert_int_equal(milli(t.read_rate), 100000);
}

/* One way of a program, of which storage moves so many bytes in a second. */
typedef struct channel {
    double rate;
    double free; /* when it has moved all that was begun */
    double done[4];
} channel;

/* Seconds that a program waits. */
static double simulate(const bp_graph *graph, double read_rate, double written_rate)
{
    channel ways[2] = {{.rate = read_rate}, {.rate = written_rate}};
    double now = 0.0, waited = 0.0;
    for (uint32_t i = 0; i < graph->program_count[BP_PROGRAM_STEP]; i++) {
        const bp_op *op = &graph->ops[graph->program_first[BP_PROGRAM_STEP] + i];
        const bp_copy_begin_scalars *s = (const void *)(graph->scalars + op->scalar);
        const uint32_t to = graph->refs[op->operand].buffer;
        const bool down = graph->buffers[to].space == BP_SPACE_OFFLOAD;
        uint32_t which = 0;
        while (which < 3 && to != (down ? far : at)[which].buffer) {
            which++;
        }
        channel *c = &ways[down ? 1 : 0];
        if (op->kernel == BP_KERNEL_copy_begin) {
            c->free = (c->free > now ? c->free : now) + (double)s->width / c->rate;
            c->done[which] = c->free;
        } else if (op->kernel == BP_KERNEL_copy_wait) {
            waited += c->done[which] > now ? c->done[which] - now : 0.0;
            now = c->done[which] > now ? c->done[which] : now;
        } else {
            now += bp_cost_seconds(bp_cost_op(graph, op), &rates);
        }
    }
    return waited;
}

static uint64_t drawn;

static uint32_t draw(uint32_t below)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(drawn >> 33) % below;
}

/* Up to four copies at a time, two each way, between ops of up to 8 seconds. */
static void draw_program(bool ahead)
{
    int64_t request[4] = {0}, bytes[4] = {0};
    begin();
    if (ahead) {
        compute(1);
    }
    for (uint32_t n = 4 + draw(30); n > 0; n--) {
        const uint32_t i = draw(4);
        const bp_ref to = i < 2 ? at[i] : far[i], from = i < 2 ? far[i] : w;
        if (draw(2) == 0) {
            compute(1 + draw(8));
        } else if (bytes[i] == 0) {
            bytes[i] = 4 + 4 * (int64_t)draw(800);
            request[i] = hand_copy_begin(&h, to, from, bytes[i]);
            if (ahead) {
                compute(1); /* something is computed for each */
            }
        } else {
            hand_copy_wait(&h, request[i], to, from, bytes[i]);
            bytes[i] = 0;
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        const bp_ref to = i < 2 ? at[i] : far[i], from = i < 2 ? far[i] : w;
        if (bytes[i] > 0) {
            hand_copy_wait(&h, request[i], to, from, bytes[i]);
        }
    }
}

/* Storage of the certified rates makes a program wait for what is said and no longer; where there
 * is nothing of that, slower storage makes it wait. */
/* verifies program-10.8294 */
static void certificates_hold_in_simulation(void **state)
{
    (void)state;
    uint32_t held = 0, slower = 0;
    for (uint32_t n = 0; n < 3000; n++) {
        draw_program(n % 2 == 0);
        void *scratch = malloc((size_t)bp_traffic_scratch(&h.graph));
        assert_int_equal(hand_plan(&h, &bp_device_host), BP_OK);
        const bp_traffic t = bp_traffic_program(&h.graph, BP_PROGRAM_STEP, &rates, scratch);
        const double read = t.read_rate > 1.0 ? t.read_rate : 1.0;
        const double written = t.written_rate > 1.0 ? t.written_rate : 1.0;
        const double most = (double)t.first / read + (double)t.last / written;
        assert_true(simulate(&h.graph, read, written) <= most * (1.0 + 1e-9) + 1e-9);
        held++;
        if (t.first + t.last == 0 && t.read_rate > 1.0) {
            assert_true(simulate(&h.graph, 0.99 * read, written) > 1e-6);
            slower++;
        }
        free(scratch);
        hand_close(&h);
    }
    assert_true(held == 3000 && slower > 500);
}

/* Experts count as all of them, and what is expected by 4 tokens that choose 2 of 5 each. */
/* verifies program-10.8294 */
static void experts_are_expected(void **state)
{
    (void)state;
    begin();
    const bp_ref runs = hand_buffer(&h, "runs", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, 64);
    compute(1);
    const int64_t a = hand_copy_begin(&h, at[1], far[1], 300);
    hand_copy_wait(&h, a, at[1], far[1], 300);
    hand_compute(&h, y, at[1], 1);
    const int64_t in = hand_experts_begin(&h, at[0], far[0], runs, 5, 800);
    hand_experts_wait(&h, in, at[0], far[0], runs, 5, 800);
    const bp_traffic t = count();
    assert_int_equal(t.read, 4300);
    assert_int_equal(t.even, 300 + (uint64_t)(4000.0 * (1.0 - pow(0.6, 4.0)) + 0.5));
    assert_int_equal(t.routed, 4000);
    assert_int_equal(t.pending, 4000);
}

/* A program without such copies, or that is not there, moves nothing. */
/* verifies program-10.8294 */
static void nothing_is_nothing(void **state)
{
    (void)state;
    begin();
    compute(3);
    const bp_traffic t = count();
    assert_int_equal(t.read + t.written + t.first + t.pending, 0);
    assert_int_equal(milli(t.read_rate + t.written_rate), 0);
    assert_int_equal(milli(t.seconds), 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rates_are_of_the_tightest_stretch),
                                       cmocka_unit_test(writes_have_a_way_of_their_own),
                                       cmocka_unit_test(other_work_in_flight_is_not_counted),
                                       cmocka_unit_test(what_is_asked_for_at_once_is_waited_for),
                                       cmocka_unit_test(copies_of_nothing_are_none),
                                       cmocka_unit_test(certificates_hold_in_simulation),
                                       cmocka_unit_test(experts_are_expected),
                                       cmocka_unit_test(nothing_is_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
