/* SPDX-License-Identifier: MIT */
/* Copies of what is offloaded, read while they are what is there and after that has changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "device/host/host.h"
#include "tests/fixtures/plans/hand_program.h"

/* Quarters of whole pages, which may be read while those beside them are written. */
enum { ALL = 4 * BP_OFFLOAD_ALIGNMENT, HALF = ALL / 2 };

typedef struct bed {
    hand_program h;
    bp_ref offload; /* 2 * ALL bytes */
    bp_ref x, y, z, out;
} bed;

static void move(bed *b, bp_ref to, bp_ref from, int64_t bytes)
{
    const int64_t request = hand_copy_begin(&b->h, to, from, bytes);
    hand_copy_wait(&b->h, request, to, from, bytes);
}

static bp_ref at(bp_ref ref, uint64_t bytes)
{
    return hand_at(ref, bytes, BP_U8);
}

/* y goes to the middle of the place, and while it does x's ends are brought from around it. */
static void move_around(bed *b)
{
    enum { END = ALL / 4 };
    const bp_ref middle = at(b->offload, END);
    const int64_t request = hand_copy_begin(&b->h, middle, b->y, HALF);
    move(b, b->x, b->offload, END);
    move(b, at(b->x, ALL - END), at(b->offload, ALL - END), END);
    hand_copy_wait(&b->h, request, middle, b->y, HALF);
}

static void read_both(bed *b)
{
    const bp_copy_operands operands[2] = {
        {.y = hand_at(b->out, 0, BP_F32), .x = hand_at(b->y, 0, BP_F32)},
        {.y = hand_at(b->out, HALF, BP_F32), .x = hand_at(b->x, 0, BP_F32)}};
    const bp_copy_scalars scalars[2] = {{.count = HALF / 4}, {.count = HALF / 4}};
    const bp_op op = {.kernel = BP_KERNEL_copy, .tuples = 2};
    assert_int_equal(bp_graph_op(&b->h.graph, &op, (const bp_ref *)operands, scalars), BP_OK);
}

/* One letter of a case. */
static void step(bed *b, char what)
{
    switch (what) {
    case 'x': /* all of x, its halves, and z are brought from the same place */
        move(b, b->x, b->offload, ALL);
        break;
    case 'l':
        move(b, b->x, b->offload, HALF);
        break;
    case 'h':
        move(b, at(b->x, HALF), at(b->offload, HALF), HALF);
        break;
    case 'z':
        move(b, b->z, b->offload, ALL);
        break;
    case 'o': /* y goes there, or to one half, or behind it */
        move(b, b->offload, b->y, ALL);
        break;
    case 'm':
        move(b, b->offload, b->y, HALF);
        break;
    case 'q':
        move(b, at(b->offload, HALF), b->y, HALF);
        break;
    case 'p':
        move(b, at(b->offload, ALL), b->y, HALF);
        break;
    case 'i': /* x goes to where it came from, or its first half does, or one half to the other's */
        move(b, b->offload, b->x, ALL);
        break;
    case 'k':
        move(b, b->offload, b->x, HALF);
        break;
    case 'n':
        move(b, b->offload, at(b->x, HALF), HALF);
        break;
    case 'j':
        move(b, at(b->offload, HALF), b->x, HALF);
        break;
    case 'w': /* an op writes x, or its first half; or a copy of y does */
        hand_compute(&b->h, b->x, b->y, ALL / 4);
        break;
    case 'v':
        hand_compute(&b->h, b->x, b->y, HALF / 4);
        break;
    case 'd':
        move(b, b->x, b->y, ALL);
        break;
    case 'a':
        move_around(b);
        break;
    case 't': /* y and then x are read by one op of two tuples */
        read_both(b);
        break;
    default: /* x is read, or z */
        hand_compute(&b->h, b->out, what == 'r' ? b->x : b->z, ALL / 4);
        break;
    }
}

static void expect(const char *steps, bool legal)
{
    bed b;
    hand_begin(&b.h);
    const bp_ref given = hand_buffer(&b.h, "given", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, ALL);
    b.offload = hand_buffer(&b.h, "offload", BP_SPACE_OFFLOAD, BP_SCOPE_PERSISTENT, 2 * ALL);
    b.x = hand_buffer(&b.h, "x", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
    b.y = hand_buffer(&b.h, "y", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
    b.z = hand_buffer(&b.h, "z", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
    b.out = hand_buffer(&b.h, "out", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, ALL);
    hand_compute(&b.h, b.y, given, ALL / 4);
    for (const char *s = steps; *s != '\0'; s++) {
        step(&b, *s);
    }
    const bp_status status = hand_plan(&b.h, &bp_device_host);
    if (status != (legal ? BP_OK : BP_ERR_VERIFY)) {
        fail_msg("%s: %s", steps, status == BP_OK ? "passed" : b.h.error.text);
    }
    if (!legal) {
        assert_non_null(strstr(b.h.error.text, "read after what it was brought from"));
        assert_string_equal(b.h.error.name, steps[strlen(steps) - 1] == 's' ? "z" : "x");
    }
    hand_close(&b.h);
}

/* verifies program-20.63d9 */
static void copies_of_what_is_there(void **state)
{
    (void)state;
    static const char *const legal[] = {"xr",    "xro",  "xpr",   "xir",   "xoxr", "xwor",
                                        "xdor",  "lhr",  "zxwor", "xzwor", "xozs", "oxr",
                                        "lhoxr", "xowr", "xoxir", "xkr",   "war",  "xt"};
    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++) {
        expect(legal[i], true);
    }
}

/* verifies program-20.63d9 */
static void copies_of_what_was_there(void **state)
{
    (void)state;
    static const char *const stale[] = {"xor",  "xqr",  "lhqr", "lhor",  "xjr",   "xolr",
                                        "xovr", "xzos", "xzor", "xzwos", "zxwos", "xohlr",
                                        "hlqr", "lhmr", "xmr",  "xnr",   "xvor",  "xot"};
    for (size_t i = 0; i < sizeof stale / sizeof stale[0]; i++) {
        expect(stale[i], false);
    }
}

enum { EXPERTS = 4, TOKENS = 8, WIDTH = ALL / 4 / EXPERTS };

static void route(hand_program *h, bp_ref order, bp_ref choice)
{
    const bp_route_order_operands operands = {hand_at(order, 0, BP_I32),
                                              hand_at(choice, 0, BP_I32)};
    const bp_route_order_scalars s = {.rows = TOKENS, .top = 1, .experts = EXPERTS};
    hand_op(h, BP_KERNEL_route_order, &operands, &s);
}

/* What was brought of experts by some runs of rows is read by an op that goes by these, while they
 * are what they were. */
/* verifies program-20.63d9 */
static void copies_of_experts_are_of_their_rows(void **state)
{
    (void)state;
    enum { FINE, OTHER, WRITTEN, NONE, WAYS };
    for (int way = 0; way < WAYS; way++) {
        hand_program h;
        hand_begin(&h);
        const bp_ref given = hand_buffer(&h, "given", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, ALL);
        const bp_ref offload =
            hand_buffer(&h, "offload", BP_SPACE_OFFLOAD, BP_SCOPE_PERSISTENT, ALL);
        const bp_ref x = hand_buffer(&h, "x", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
        const bp_ref runs = hand_buffer(&h, "runs", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
        const bp_ref more = hand_buffer(&h, "more", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
        const bp_ref out = hand_buffer(&h, "out", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, 2 * ALL);
        route(&h, runs, given);
        route(&h, more, given);
        const int64_t request = hand_experts_begin(&h, x, offload, runs, EXPERTS, ALL / EXPERTS);
        hand_experts_wait(&h, request, x, offload, runs, EXPERTS, ALL / EXPERTS);
        if (way == WRITTEN) {
            route(&h, runs, given);
        }
        const bp_expert_bias_operands operands = {
            .y = hand_at(out, 0, BP_F32),
            .bias = hand_at(x, 0, BP_F32),
            .order = hand_at(way == OTHER ? more : runs, 0, BP_I32)};
        const bp_expert_bias_scalars s = {
            .rows = TOKENS, .top = 1, .experts = EXPERTS, .width = WIDTH};
        if (way == NONE) {
            hand_compute(&h, out, x, ALL / 4);
        } else {
            hand_op(&h, BP_KERNEL_expert_bias, &operands, &s);
        }
        assert_int_equal(hand_plan(&h, &bp_device_host), way == FINE ? BP_OK : BP_ERR_VERIFY);
        assert_true(way == FINE || strstr(h.error.text, "experts of some rows is read for others"));
        hand_close(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_what_is_there),
        cmocka_unit_test(copies_of_what_was_there),
        cmocka_unit_test(copies_of_experts_are_of_their_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
