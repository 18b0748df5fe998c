/* SPDX-License-Identifier: MIT */
/* The check of a plan: places, overlaps, lifetimes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fixtures/plans/graph_made.h"

/* verifies program-4.15f3 */
static void test_plan_is_checked(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_report report;
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref a = made_buffer(f, "a", BP_SCOPE_PROGRAM, BP_F32);
    bp_ref b = made_buffer(f, "b", BP_SCOPE_PROGRAM, BP_F32);
    bp_ref c = made_buffer(f, "c", BP_SCOPE_PROGRAM, BP_F32);
    made_copy(f, a, w, MADE_COUNT);
    made_copy(f, b, a, MADE_COUNT);
    made_copy(f, c, b, MADE_COUNT);
    made_copy(f, w, c, MADE_COUNT);
    bp_graph_lifetimes(&f->graph);
    assert_int_equal(bp_report_plan(&f->graph, 0, made_scratch, sizeof made_scratch, &report),
                     BP_OK);
    assert_int_equal(report.arena_bytes, 3 * 256);
    assert_int_equal(report.lower_bound_bytes, 3 * 256);
    assert_int_equal(report.class_most[BP_CLASS_TAPE], 3 * 256);
    assert_true(report.optimal);
    assert_int_equal(report.state_bytes, MADE_COUNT * sizeof(float));
    assert_int_equal(
        bp_verify_plan(&f->graph, report.arena_bytes, made_scratch, sizeof made_scratch), BP_OK);

    uint64_t place = f->graph.buffers[b.buffer].offset;
    f->graph.buffers[b.buffer].offset = f->graph.buffers[a.buffer].offset;
    assert_int_equal(
        bp_verify_plan(&f->graph, report.arena_bytes, made_scratch, sizeof made_scratch),
        BP_ERR_VERIFY);
    assert_non_null(strstr(f->error.text, "overlap"));
    f->error = (bp_error){0};
    f->graph.buffers[b.buffer].offset = place + 4;
    assert_int_equal(
        bp_verify_plan(&f->graph, report.arena_bytes, made_scratch, sizeof made_scratch),
        BP_ERR_VERIFY);
    f->error = (bp_error){0};
    f->graph.buffers[b.buffer].offset = report.arena_bytes;
    assert_int_equal(
        bp_verify_plan(&f->graph, report.arena_bytes, made_scratch, sizeof made_scratch),
        BP_ERR_VERIFY);
    assert_non_null(strstr(f->error.text, "outside"));
}

/* Buffers of two sizes overlap at places that differ, whichever lies lower or is born first. */
/* verifies program-4.15f3 */
static void test_sizes_overlap_at_other_places(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        made_graph *f = made_begin();
        bp_report report;
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref a = made_buffer(f, "a", BP_SCOPE_PROGRAM, BP_F32);
        bp_ref b = made_buffer(f, "b", BP_SCOPE_PROGRAM, BP_F32);
        bp_buffer *large = &f->graph.buffers[turned != 0 ? b.buffer : a.buffer];
        bp_buffer *small = &f->graph.buffers[turned != 0 ? a.buffer : b.buffer];
        large->bytes = 512;
        made_copy(f, a, w, MADE_COUNT);
        made_copy(f, b, a, MADE_COUNT);
        made_copy(f, w, b, MADE_COUNT);
        bp_graph_lifetimes(&f->graph);
        assert_int_equal(bp_report_plan(&f->graph, 0, made_scratch, sizeof made_scratch, &report),
                         BP_OK);
        f->graph.buffers[w.buffer].offset = 1024;
        large->offset = 256;
        for (uint64_t place = 0; place <= 768; place += 256) {
            f->error = (bp_error){0};
            small->offset = place;
            assert_int_equal(bp_verify_plan(&f->graph, 2048, made_scratch, sizeof made_scratch),
                             place == 0 || place == 768 ? BP_OK : BP_ERR_VERIFY);
        }
    }
}

/* A plan of another alignment is judged by that one. */
/* verifies device-22.986d */
static void test_alignment_is_the_graphs(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_report report;
    f->graph.alignment = 32;
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref a = made_buffer(f, "a", BP_SCOPE_PROGRAM, BP_F32);
    made_copy(f, a, w, MADE_COUNT);
    made_copy(f, w, a, MADE_COUNT);
    bp_graph_lifetimes(&f->graph);
    assert_int_equal(bp_report_plan(&f->graph, 0, made_scratch, sizeof made_scratch, &report),
                     BP_OK);
    const uint64_t each = bp_size_align(MADE_COUNT * sizeof(float), 32);
    assert_int_equal(report.arena_bytes, 2 * each);
    assert_int_equal(report.lower_bound_bytes, 2 * each);
    for (uint64_t off = 0; off < 64; off += 4) {
        f->error = (bp_error){0};
        f->graph.buffers[a.buffer].offset = each + off;
        assert_int_equal(
            bp_verify_plan(&f->graph, report.arena_bytes + 64, made_scratch, sizeof made_scratch),
            off % 32 == 0 ? BP_OK : BP_ERR_VERIFY);
    }
}

/* Every use lies in the buffer's lifetime, whoever says how long that is. */
/* verifies program-4.15f3 */
static void test_lifetimes_are_checked(void **state)
{
    (void)state;
    for (int fault = 0; fault <= 6; fault++) {
        made_graph *f = made_begin();
        bp_report report;
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref unused = made_buffer(f, "unused", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref g = made_buffer(f, "g", BP_SCOPE_GROUP, BP_F32);
        bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
        bp_ref c = made_buffer(f, "c", BP_SCOPE_CARRIED, BP_F32);
        bp_graph_begin(&f->graph, BP_PROGRAM_MICRO_FIRST);
        made_copy(f, g, w, MADE_COUNT);
        bp_graph_begin(&f->graph, BP_PROGRAM_MICRO_NEXT);
        made_copy(f, t, w, MADE_COUNT);
        made_copy(f, g, t, MADE_COUNT);
        bp_graph_begin(&f->graph, BP_PROGRAM_UPDATE);
        made_copy(f, w, g, MADE_COUNT);
        bp_graph_begin(&f->graph, BP_PROGRAM_DECODE);
        made_copy(f, c, w, MADE_COUNT);
        made_copy(f, w, w, 0);
        bp_graph_lifetimes(&f->graph);
        assert_int_equal(bp_report_plan(&f->graph, 0, made_scratch, sizeof made_scratch, &report),
                         BP_OK);
        bp_buffer *b = f->graph.buffers;
        b[t.buffer].upper -= fault == 1;
        b[t.buffer].lower += fault == 2;
        b[g.buffer].upper = fault == 3 ? 2 : b[g.buffer].upper;
        b[c.buffer].upper -= fault == 4;
        b[unused.buffer].upper -= fault == 5;
        b[unused.buffer].lower += fault == 6;
        assert_int_equal(
            bp_verify_plan(&f->graph, report.arena_bytes, made_scratch, sizeof made_scratch),
            fault == 0 ? BP_OK : BP_ERR_VERIFY);
        if (fault > 0) {
            assert_non_null(
                strstr(f->error.text, fault < 5 ? "outside its lifetime" : "live always"));
        }
    }
}

/* Buffers may be made in another order than that in which they are used first. */
/* verifies program-9.2d98 */
static void test_births_are_those_of_lifetimes(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_report report;
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref late = made_buffer(f, "late", BP_SCOPE_PROGRAM, BP_F32);
    bp_ref early = made_buffer(f, "early", BP_SCOPE_PROGRAM, BP_F32);
    made_copy(f, early, w, MADE_COUNT);
    made_copy(f, w, early, MADE_COUNT);
    made_copy(f, late, w, MADE_COUNT);
    made_copy(f, w, late, MADE_COUNT);
    bp_graph_lifetimes(&f->graph);
    f->graph.buffers[w.buffer].class_of = BP_CLASS_WEIGHTS;
    assert_int_equal(bp_report_plan(&f->graph, 0, made_scratch, sizeof made_scratch, &report),
                     BP_OK);
    assert_int_equal(report.parameters, MADE_COUNT);
    const bp_buffer *b = f->graph.buffers;
    assert_true(b[late.buffer].offset == b[early.buffer].offset);
    assert_int_equal(
        bp_verify_plan(&f->graph, report.arena_bytes, made_scratch, sizeof made_scratch), BP_OK);
}

/* Where nothing is used nothing lives, and no byte is needed. */
/* verifies compile-22.b6af */
static void test_a_graph_without_ops_needs_nothing(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_report report;
    (void)made_buffer(f, "a", BP_SCOPE_PROGRAM, BP_F32);
    (void)made_buffer(f, "b", BP_SCOPE_PROGRAM, BP_F32);
    bp_graph_lifetimes(&f->graph);
    assert_int_equal(bp_report_plan(&f->graph, 0, made_scratch, sizeof made_scratch, &report),
                     BP_OK);
    assert_int_equal(report.arena_bytes, 0);
    assert_int_equal(report.class_most[BP_CLASS_TAPE], 0);
    assert_int_equal(bp_verify_plan(&f->graph, 0, made_scratch, sizeof made_scratch), BP_OK);
}

/* Programs that came later change a digest where they are, and are none where they are not. */
/* verifies program-14.81b9 */
static void test_digests_of_further_programs(void **state)
{
    (void)state;
    uint64_t digests[4];
    for (int i = 0; i < 4; i++) {
        made_graph *f = made_begin();
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
        made_copy(f, t, w, MADE_COUNT);
        if (i >= 2) {
            bp_graph_begin(&f->graph, BP_PROGRAM_VECTORS_FIRST);
            made_copy(f, t, w, MADE_COUNT);
            if (i == 3) { /* the same ops, in two programs */
                bp_graph_begin(&f->graph, BP_PROGRAM_VECTORS_NEXT);
            }
            made_copy(f, t, w, MADE_COUNT);
        } else if (i == 1) {
            made_copy(f, t, w, MADE_COUNT);
        }
        digests[i] = bp_graph_digest(&f->graph);
    }
    assert_true(digests[0] != digests[1] && digests[1] != digests[2]);
    assert_true(digests[2] != digests[3]);
}

/* Of ranks that share out a state all of a tensor's name counts, to its last letter. */
/* verifies program-14.81b9 */
static void test_digests_of_shared_names(void **state)
{
    (void)state;
    uint64_t digests[2];
    for (int i = 0; i < 2; i++) {
        made_graph *f = made_begin();
        bp_ref w = made_buffer(f, i == 0 ? "weight.a" : "weight.b", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
        f->graph.buffers[w.buffer].part.whole = 2 * f->graph.buffers[w.buffer].bytes;
        made_copy(f, t, w, MADE_COUNT);
        digests[i] = bp_graph_digest(&f->graph);
    }
    assert_true(digests[0] != digests[1]);
}

/* Ranks that share out a state need not compute the same: their calls of each other are what has to
 * agree. */
/* verifies program-14.81b9 */
static void test_digests_of_what_ranks_share(void **state)
{
    (void)state;
    uint64_t digests[3];
    for (int i = 0; i < 3; i++) {
        made_graph *f = made_begin();
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
        f->graph.buffers[w.buffer].part.whole = 2 * f->graph.buffers[w.buffer].bytes;
        made_copy(f, t, w, i == 1 ? MADE_COUNT / 2 : MADE_COUNT);
        const bp_broadcast_begin_operands call = {t, w};
        const bp_broadcast_begin_scalars scalars = {
            .ranks = 2, .root = 0, .bytes = i == 2 ? 64 : 32};
        made_op(f, BP_KERNEL_broadcast_begin, 1, &call, &scalars);
        digests[i] = bp_graph_digest(&f->graph);
    }
    assert_true(digests[0] == digests[1] && digests[0] != digests[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_is_checked),
        cmocka_unit_test(test_sizes_overlap_at_other_places),
        cmocka_unit_test(test_alignment_is_the_graphs),
        cmocka_unit_test(test_lifetimes_are_checked),
        cmocka_unit_test(test_births_are_those_of_lifetimes),
        cmocka_unit_test(test_a_graph_without_ops_needs_nothing),
        cmocka_unit_test(test_digests_of_further_programs),
        cmocka_unit_test(test_digests_of_shared_names),
        cmocka_unit_test(test_digests_of_what_ranks_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
