/* SPDX-License-Identifier: MIT */
/* The verifier and asynchronous work: legal programs pass, and each planted fault is refused by
 * name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/ir/verify/verify.h"
#include "device/host/host.h"
#include "tests/fixtures/plans/hand_program.h"

#define BYTES 512
#define COUNT (BYTES / 4)

/* The buffers of every program here: a source and other persistent bytes, and temporaries. */
typedef struct fixture {
    hand_program h;
    bp_ref source; /* persistent, device */
    bp_ref other;  /* persistent, device */
    bp_ref far;    /* host arena */
    bp_ref near;   /* device */
} fixture;

static fixture f;

static fixture *begin(void)
{
    hand_begin(&f.h);
    f.source = hand_buffer(&f.h, "source", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, BYTES);
    f.other = hand_buffer(&f.h, "other", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, BYTES);
    f.far = hand_buffer(&f.h, "far", BP_SPACE_HOST, BP_SCOPE_PROGRAM, BYTES);
    f.near = hand_buffer(&f.h, "near", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
    return &f;
}

static int64_t send(void)
{
    return hand_copy_begin(&f.h, f.far, f.source, BYTES);
}

static void receive(int64_t request)
{
    hand_copy_wait(&f.h, request, f.far, f.source, BYTES);
}

static void accepted(void)
{
    if (hand_plan(&f.h, &bp_device_host) != BP_OK) {
        print_error("%s: %s\n", f.h.error.name, f.h.error.text);
    }
    assert_int_equal(f.h.error.code, BP_OK);
    hand_close(&f.h);
}

static void refused(const char *text, const char *name)
{
    assert_int_equal(hand_plan(&f.h, &bp_device_host), BP_ERR_VERIFY);
    if (strstr(f.h.error.text, text) == NULL) {
        print_error("%s: %s\n", f.h.error.name, f.h.error.text);
    }
    assert_non_null(strstr(f.h.error.text, text));
    assert_string_equal(f.h.error.name, name);
    hand_close(&f.h);
}

/* Out and back, with work in between; two copies in flight that share a source, waited for in the
 * other order. */
/* verifies program-9.2d98 */
static void legal_programs_pass(void **state)
{
    (void)state;
    begin();
    int64_t out = send();
    hand_compute(&f.h, f.near, f.source, COUNT);
    hand_compute(&f.h, f.other, f.near, COUNT);
    receive(out);
    int64_t back = hand_copy_begin(&f.h, f.near, f.far, BYTES);
    hand_copy_wait(&f.h, back, f.near, f.far, BYTES);
    hand_compute(&f.h, f.source, f.near, COUNT);
    accepted();

    begin();
    int64_t first = send();
    int64_t second = hand_copy_begin(&f.h, f.near, f.source, BYTES);
    assert_int_equal(first, 0);
    assert_int_equal(second, 1);
    hand_copy_wait(&f.h, second, f.near, f.source, BYTES);
    hand_compute(&f.h, f.other, f.near, COUNT);
    receive(first);
    accepted();
}

/* verifies program-6.0f88 */
static void what_is_in_flight_is_left_alone(void **state)
{
    (void)state;
    begin();
    int64_t request = send();
    hand_compute(&f.h, f.source, f.other, COUNT);
    receive(request);
    refused("the source of work in flight is written", "copy");

    /* the target is read by another copy */
    begin();
    request = send();
    int64_t second = hand_copy_begin(&f.h, f.near, f.far, BYTES);
    hand_copy_wait(&f.h, second, f.near, f.far, BYTES);
    receive(request);
    refused("the target of work in flight is touched", "copy_begin");

    /* the target is read by what computes */
    begin();
    request = hand_copy_begin(&f.h, f.near, f.source, BYTES);
    hand_compute(&f.h, f.other, f.near, COUNT);
    hand_copy_wait(&f.h, request, f.near, f.source, BYTES);
    refused("the target of work in flight is touched", "copy");

    /* and written by it */
    begin();
    request = hand_copy_begin(&f.h, f.near, f.source, BYTES);
    hand_compute(&f.h, f.near, f.other, COUNT);
    hand_copy_wait(&f.h, request, f.near, f.source, BYTES);
    refused("the target of work in flight is touched", "copy");
}

/* Of storage a page is read and written by two threads: never at one time, whoever begins; pages
 * beside each other are, and two writes have one thread. */
/* verifies program-6.0f88 */
static void pages_of_storage_have_one_thread(void **state)
{
    (void)state;
    const uint64_t half = BP_OFFLOAD_ALIGNMENT / 2, page = BP_OFFLOAD_ALIGNMENT;
    for (uint32_t which = 0; which < 4; which++) {
        hand_begin(&f.h);
        const bp_ref here = hand_buffer(&f.h, "here", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, half);
        const bp_ref there = hand_buffer(&f.h, "there", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, half);
        const bp_ref far =
            hand_buffer(&f.h, "far", BP_SPACE_OFFLOAD, BP_SCOPE_PERSISTENT, 2 * page);
        const bp_ref second = hand_at(far, which == 2 ? page : half, BP_U8);
        const bool reads_first = which == 1, writes_both = which == 3;
        const bp_ref to[] = {reads_first ? here : far, reads_first || writes_both ? second : there};
        const bp_ref from[] = {reads_first ? far : here,
                               reads_first || writes_both ? there : second};
        int64_t request[2];
        for (uint32_t i = 0; i < 2; i++) {
            request[i] = hand_copy_begin(&f.h, to[i], from[i], half);
        }
        for (uint32_t i = 0; i < 2; i++) {
            hand_copy_wait(&f.h, request[i], to[i], from[i], half);
        }
        if (which < 2) {
            refused("a page of storage is read and written at one time", "copy_begin");
        } else {
            accepted();
        }
    }
}

/* Only the bytes in flight are forbidden, row by row. */
/* verifies program-6.0f88 */
static void other_bytes_of_the_buffers_are_free(void **state)
{
    (void)state;
    begin();
    int64_t request = hand_copy_begin(&f.h, f.near, f.source, BYTES / 2);
    hand_compute(&f.h, hand_at(f.near, BYTES / 2, BP_F32), f.other, COUNT / 2);
    hand_compute(&f.h, hand_at(f.source, BYTES / 2, BP_F32), f.other, COUNT / 2);
    hand_copy_wait(&f.h, request, f.near, f.source, BYTES / 2);
    hand_compute(&f.h, f.other, f.near, COUNT);
    accepted();

    for (int shift = 0; shift < 2; shift++) {
        begin();
        const bp_copy_begin_operands operands = {f.near, f.source};
        const bp_copy_begin_scalars scalars = {0, 8, 16, 64, 64};
        hand_op(&f.h, BP_KERNEL_copy_begin, &operands, &scalars);
        /* columns 16 to 31 of 64, or with the shift 12 to 27 */
        const bp_copy_begin_operands beside = {hand_at(f.near, 16 - 4 * (uint64_t)shift, BP_U8),
                                               f.other};
        const bp_copy_begin_scalars also = {1, 8, 16, 64, 64};
        hand_op(&f.h, BP_KERNEL_copy_begin, &beside, &also);
        const bp_copy_wait_operands wait = {beside.to, beside.from};
        const bp_copy_wait_scalars second = {1, 8, 16, 64, 64};
        hand_op(&f.h, BP_KERNEL_copy_wait, &wait, &second);
        const bp_copy_wait_operands last = {f.near, f.source};
        const bp_copy_wait_scalars first = {0, 8, 16, 64, 64};
        hand_op(&f.h, BP_KERNEL_copy_wait, &last, &first);
        if (shift == 0) {
            accepted();
        } else {
            refused("the target of work in flight is touched", "copy_begin");
        }
    }
}

/* Of a list between begin and wait each tuple has bytes of its own: the second's 64 floats end
 * where those in flight begin, 65 do not. */
/* verifies program-6.0f88 program-9.2d98 */
static void each_tuple_of_a_list_is_held(void **state)
{
    (void)state;
    for (int64_t count = COUNT / 2; count <= COUNT / 2 + 1; count++) {
        begin();
        const bp_ref to = hand_at(f.near, BYTES / 2, BP_U8);
        const int64_t request = hand_copy_begin(&f.h, to, f.source, BYTES / 2);
        const bp_ref x = hand_at(f.source, 0, BP_F32);
        const bp_ref refs[6] = {hand_at(f.other, 0, BP_F32), x, BP_ABSENT,
                                hand_at(f.near, 0, BP_F32),  x, BP_ABSENT};
        const bp_tree_add_scalars scalars[2] = {{.count = 4}, {.count = count}};
        const bp_op list = {.kernel = BP_KERNEL_tree_add, .tuples = 2};
        assert_int_equal(bp_graph_op(&f.h.graph, &list, refs, scalars), BP_OK);
        hand_copy_wait(&f.h, request, to, f.source, BYTES / 2);
        hand_compute(&f.h, f.other, f.near, COUNT);
        if (count == COUNT / 2) {
            accepted();
        } else {
            refused("the target of work in flight is touched", "tree_add");
        }
    }
}

/* verifies program-6.0f88 */
static void begins_and_waits_come_in_pairs(void **state)
{
    (void)state;
    begin();
    (void)send();
    hand_compute(&f.h, f.other, f.source, COUNT);
    refused("nothing waits for what an op began", "copy_begin");

    begin();
    int64_t request = send();
    receive(request);
    receive(request);
    refused("an op waits a second time", "copy_wait");

    /* the verifier of contents comes first: the target has to be written to get here */
    begin();
    hand_compute(&f.h, f.near, f.source, COUNT);
    hand_copy_wait(&f.h, 0, f.near, f.source, BYTES);
    refused("an op waits for what was not begun", "copy_wait");

    begin();
    request = send();
    hand_fabric_wait(&f.h, request, f.far, BYTES, f.source, BYTES);
    refused("a wait is for another engine than its begin", "fabric_wait");
}

/* verifies program-13.6226 */
static void requests_count(void **state)
{
    (void)state;
    begin();
    const bp_copy_begin_operands operands = {f.far, f.source};
    const bp_copy_begin_scalars scalars = {1, 1, BYTES, BYTES, BYTES};
    hand_op(&f.h, BP_KERNEL_copy_begin, &operands, &scalars);
    receive(1);
    refused("a request is not the number of begins before it", "copy_begin");

    begin();
    receive(send());
    hand_op(&f.h, BP_KERNEL_copy_begin, &operands, &(bp_copy_begin_scalars){0, 1, 4, 4, 4});
    hand_copy_wait(&f.h, 0, f.far, f.source, 4);
    refused("a request is not the number of begins before it", "copy_begin");
}

/* verifies program-13.6226 */
static void a_wait_repeats_its_begin(void **state)
{
    (void)state;
    begin();
    int64_t request = send();
    hand_copy_wait(&f.h, request, f.far, f.source, BYTES - 4);
    refused("a wait has other operands than its begin", "copy_wait");

    begin();
    request = send();
    hand_copy_wait(&f.h, request, f.far, f.other, BYTES);
    refused("a wait has other operands than its begin", "copy_wait");

    begin();
    hand_compute(&f.h, f.near, f.other, COUNT);
    request = send();
    hand_copy_wait(&f.h, request, f.near, f.source, BYTES);
    refused("a wait has other operands than its begin", "copy_wait");

    /* the same bytes said in another way are the same bytes */
    begin();
    request = send();
    const bp_copy_wait_operands operands = {f.far, f.source};
    hand_op(&f.h, BP_KERNEL_copy_wait, &operands,
            &(bp_copy_wait_scalars){request, 2, BYTES / 2, BYTES / 2, BYTES / 2});
    accepted();
}

/* A wait in the next program is too late, and the target is not written there. */
/* verifies program-13.6226 */
static void work_ends_in_its_program(void **state)
{
    (void)state;
    begin();
    f.far = hand_buffer(&f.h, "kept", BP_SPACE_HOST, BP_SCOPE_PERSISTENT, BYTES);
    int64_t request = send();
    bp_graph_begin(&f.h.graph, BP_PROGRAM_EVAL);
    receive(request);
    refused("nothing waits for what an op began", "copy_begin");

    begin();
    receive(send());
    bp_graph_begin(&f.h.graph, BP_PROGRAM_EVAL);
    request = send();
    assert_int_equal(request, 0);
    receive(request);
    accepted();
}

/* verifies program-13.6226 */
static void lists_and_places_that_do_not_compute(void **state)
{
    (void)state;
    begin();
    const bp_ref refs[4] = {f.far, f.source, f.near, f.source};
    const bp_copy_begin_scalars scalars[2] = {{0, 1, BYTES, BYTES, BYTES},
                                              {0, 1, BYTES, BYTES, BYTES}};
    const bp_op list = {.kernel = BP_KERNEL_copy_begin, .tuples = 2};
    assert_int_equal(bp_graph_op(&f.h.graph, &list, refs, scalars), BP_OK);
    receive(0);
    refused("asynchronous work is no list", "copy_begin");

    begin();
    receive(send());
    hand_compute(&f.h, f.other, f.far, COUNT);
    refused("an op that computes has an operand in another space", "copy");
}

/* Where the host arena is read-only memory, ops read it in place and none writes there. */
/* verifies device-25.d3df */
static void read_only_memory_is_read(void **state)
{
    (void)state;
    for (int writes = 0; writes < 2; writes++) {
        begin();
        f.h.graph.fixed = true;
        const bp_ref held = hand_buffer(&f.h, "held", BP_SPACE_HOST, BP_SCOPE_PERSISTENT, BYTES);
        hand_compute(&f.h, writes != 0 ? held : f.other, writes != 0 ? f.other : held, COUNT);
        if (writes != 0) {
            refused("read-only memory is written", "copy: y");
        } else {
            accepted();
        }
    }
}

/* A workspace counts to the end of its buffer. */
/* verifies program-6.0f88 */
static void workspaces_keep_away(void **state)
{
    (void)state;
    for (int place = 0; place < 3; place++) { /* behind what is asked for, the last byte, apart */
        begin();
        bp_ref a = hand_buffer(&f.h, "a", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, 4096);
        bp_ref c = hand_buffer(&f.h, "c", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, 4096);
        const bp_matmul_scalars s = {.m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8};
        uint64_t work = bp_device_host.workspace(&(bp_device_options){.threads = 1},
                                                 BP_KERNEL_matmul, &s, NULL);
        bp_ref room = hand_buffer(&f.h, "room", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, work + 1025);
        bp_ref next = hand_buffer(&f.h, "next", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, 1024);
        const int64_t bytes = place == 1 ? 1 : BYTES;
        bp_ref to = place == 2 ? next : hand_at(room, place == 1 ? work + 1024 : work, BP_U8);
        int64_t request = hand_copy_begin(&f.h, to, f.source, bytes);
        const bp_matmul_operands operands = {.c = hand_at(c, 0, BP_F32),
                                             .before = BP_ABSENT,
                                             .a = hand_at(a, 0, BP_F32),
                                             .b = hand_at(a, 1024, BP_F32),
                                             .bias = BP_ABSENT,
                                             .residual = BP_ABSENT,
                                             .work = room};
        hand_op(&f.h, BP_KERNEL_matmul, &operands, &s);
        hand_copy_wait(&f.h, request, to, f.source, bytes);
        if (place == 2) {
            accepted();
        } else {
            refused("the target of work in flight is touched", "matmul");
        }
    }
}

static int64_t many; /* ranks that the next gather of pieces says it has; 0: its four */

/* A gather of four pieces that make `whole` bytes, in the order of members from one of them on. */
static void gather_pieces(const bp_fabric_piece pieces[4], int64_t bytes, int64_t whole,
                          int64_t far)
{
    begin();
    const uint32_t row = f.h.graph.used.scalars;
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(bp_graph_piece(&f.h.graph, pieces[i].first, pieces[i].bytes), BP_OK);
    }
    const bp_ref all = hand_buffer(&f.h, "all", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, 4 * BYTES);
    const bp_gather_pieces_begin_operands operands = {all, f.source};
    const bp_gather_pieces_begin_scalars s = {.request = bp_graph_request(&f.h.graph),
                                              .ranks = many > 0 ? many : 4,
                                              .bytes = bytes,
                                              .whole = whole,
                                              .member = 1,
                                              .pieces =
                                                  (int64_t)(f.h.graph.used.scalars - row) + far};
    hand_op(&f.h, BP_KERNEL_gather_pieces_begin, &operands, &s);
    hand_fabric_wait(&f.h, s.request, all, whole, f.source, bytes);
}

/* Pieces that differ in size are one behind the other the whole, and before their op. */
/* verifies program-6.0f88 */
static void pieces_are_the_whole(void **state)
{
    (void)state;
    const char *const refusal = "pieces are not one behind the other the whole";
    const bp_fabric_piece good[4] = {{8, 4}, {12, 8}, {20, 0}, {0, 8}};
    gather_pieces(good, 8, 20, 0);
    accepted();
    gather_pieces(good, 8, 20, -1);
    refused("a row of pieces is not before its op", "gather_pieces_begin");
    gather_pieces(good, 8, 20, 1);
    refused("a row of pieces is not before its op", "gather_pieces_begin");
    many = UINT32_MAX + INT64_C(1); /* more than there are rows of, whatever these say */
    gather_pieces(good, 8, 20, 0);
    refused("a row of pieces is not before its op", "gather_pieces_begin");
    many = 0;
    gather_pieces(good, 4, 20, 0);
    refused(refusal, "gather_pieces_begin");
    gather_pieces(good, 8, 24, 0);
    refused(refusal, "gather_pieces_begin");
    static const bp_fabric_piece bad[][4] = {
        {{8, 4}, {12, 8}, {20, 0}, {0, 4}},  /* a hole */
        {{0, 4}, {4, 8}, {8, 4}, {16, 4}},   /* as long as what lies twice */
        {{8, 4}, {12, 8}, {20, 4}, {0, 8}},  /* too far */
        {{0, 20}, {0, 8}, {8, 12}, {20, 0}}, /* twice */
        {{12, 4}, {16, 8}, {24, 0}, {4, 8}}, /* not from the first byte on */
        {{UINT64_MAX, 2}, {12, 8}, {0, 8}, {8, 4}}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gather_pieces(bad[i], 8, 20, 0);
        refused(refusal, "gather_pieces_begin");
    }
}

/* The calls of a fabric obey the same rules, and a broadcast may be in place. */
/* verifies program-6.0f88 */
static void calls_of_a_fabric(void **state)
{
    (void)state;
    begin();
    bp_ref all = hand_buffer(&f.h, "all", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, 4 * BYTES);
    int64_t gather = hand_all_gather(&f.h, 0, 4, all, f.source, BYTES);
    int64_t cast = hand_broadcast(&f.h, 0, 4, 1, f.other, f.other, BYTES);
    hand_fabric_wait(&f.h, cast, f.other, BYTES, f.other, BYTES);
    hand_fabric_wait(&f.h, gather, all, 4 * BYTES, f.source, BYTES);
    hand_compute(&f.h, f.other, hand_at(all, 3 * BYTES, BP_F32), COUNT);
    accepted();

    begin();
    cast = hand_broadcast(&f.h, 0, 4, 1, f.other, f.other, BYTES);
    hand_compute(&f.h, f.near, f.other, COUNT);
    hand_fabric_wait(&f.h, cast, f.other, BYTES, f.other, BYTES);
    refused("the target of work in flight is touched", "copy");

    /* what is to be sent has to be written, and has to be there */
    begin();
    cast = hand_broadcast(&f.h, 0, 4, 1, f.near, f.near, BYTES);
    hand_fabric_wait(&f.h, cast, f.near, BYTES, f.near, BYTES);
    refused("an operand is read before it is written", "broadcast_begin: from");

    /* a root that the group does not have, and a group of nobody */
    begin();
    cast = hand_broadcast(&f.h, 0, 4, 4, f.near, f.source, BYTES);
    hand_fabric_wait(&f.h, cast, f.near, BYTES, f.source, BYTES);
    refused("scalars are not what its row requires", "broadcast_begin");
    begin();
    gather = hand_all_gather(&f.h, 0, 0, f.near, f.source, BYTES);
    hand_fabric_wait(&f.h, gather, f.near, 0, f.source, BYTES);
    refused("scalars are not what its row requires", "all_gather_begin");

    begin();
    gather = hand_exchange(&f.h, 0, 4, f.near, f.source, BYTES / 4 + 1);
    hand_fabric_wait(&f.h, gather, f.near, BYTES, f.source, BYTES);
    refused("an operand reaches beyond its buffer", "exchange_begin: to");
}

static void route(bp_ref order, bp_ref choice)
{
    const bp_route_order_operands operands = {hand_at(order, 0, BP_I32),
                                              hand_at(choice, 0, BP_I32)};
    const bp_route_order_scalars s = {.rows = 8, .top = 1, .experts = 4};
    hand_op(&f.h, BP_KERNEL_route_order, &operands, &s);
}

/* Which experts are brought is read while they are: nobody writes it then, before or after all may.
 * The wait is for the same. */
/* verifies program-6.0f88 */
static void runs_of_experts_stay(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        begin();
        const bp_ref runs = hand_buffer(&f.h, "runs", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
        const bp_ref more = hand_buffer(&f.h, "more", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
        hand_compute(&f.h, f.near, f.other, COUNT);
        const int64_t out = hand_copy_begin(&f.h, f.far, f.near, BYTES);
        hand_copy_wait(&f.h, out, f.far, f.near, BYTES);
        route(runs, f.source);
        route(more, f.source);
        const int64_t request = hand_experts_begin(&f.h, f.near, f.far, runs, 4, BYTES / 4);
        route(way == 1 ? runs : more, f.source);
        hand_experts_wait(&f.h, request, f.near, f.far, way == 2 ? more : runs, 4, BYTES / 4);
        route(runs, f.source);
        if (way == 0) {
            accepted();
        } else if (way == 1) {
            refused("what work in flight reads beside is written", "route_order");
        } else {
            refused("a wait has other operands than its begin", "experts_wait");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal_programs_pass),
        cmocka_unit_test(what_is_in_flight_is_left_alone),
        cmocka_unit_test(pages_of_storage_have_one_thread),
        cmocka_unit_test(other_bytes_of_the_buffers_are_free),
        cmocka_unit_test(each_tuple_of_a_list_is_held),
        cmocka_unit_test(begins_and_waits_come_in_pairs),
        cmocka_unit_test(requests_count),
        cmocka_unit_test(a_wait_repeats_its_begin),
        cmocka_unit_test(work_ends_in_its_program),
        cmocka_unit_test(lists_and_places_that_do_not_compute),
        cmocka_unit_test(read_only_memory_is_read),
        cmocka_unit_test(workspaces_keep_away),
        cmocka_unit_test(calls_of_a_fabric),
        cmocka_unit_test(pieces_are_the_whole),
        cmocka_unit_test(runs_of_experts_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
