/* SPDX-License-Identifier: MIT */
/* Two memory spaces: a plan for each and one report over both, lifetimes that reach from begin to
 * wait, what ops cost each engine, and the digest of a plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/ir/cost.h"
#include "core/ir/verify/verify.h"
#include "device/host/host.h"
#include "tests/fixtures/plans/hand_program.h"

#define BYTES 1024
#define COUNT (BYTES / 4)

static hand_program h;

static bp_ref buffer(const char *name, bp_space space, bp_scope scope, uint64_t bytes)
{
    return hand_buffer(&h, name, space, scope, bytes);
}

static const bp_buffer *of(bp_ref ref)
{
    return &h.graph.buffers[ref.buffer];
}

static void plan(void)
{
    if (hand_plan(&h, &bp_device_host) != BP_OK) {
        print_error("%s: %s\n", h.error.name, h.error.text);
    }
    assert_int_equal(h.error.code, BP_OK);
}

static bool overlap(bp_ref a, bp_ref b)
{
    const bp_buffer *p = of(a), *q = of(b);
    return p->space == q->space && p->offset < q->offset + q->bytes &&
           q->offset < p->offset + p->bytes;
}

/* x goes out while y is made and z of it: neither may take the room of x, which nothing but the
 * copy still needs. Without the copy in flight z does. */
/* verifies program-12.d19d */
static void work_in_flight_keeps_its_room(void **state)
{
    (void)state;
    for (int flying = 0; flying < 2; flying++) {
        hand_begin(&h);
        bp_ref w = buffer("w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, BYTES);
        bp_ref x = buffer("x", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
        bp_ref y = buffer("y", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
        bp_ref z = buffer("z", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
        bp_ref far = buffer("far", BP_SPACE_HOST, BP_SCOPE_PERSISTENT, BYTES);
        hand_compute(&h, x, w, COUNT);
        int64_t request = hand_copy_begin(&h, far, x, BYTES);
        if (flying == 0) {
            hand_copy_wait(&h, request, far, x, BYTES);
        }
        hand_compute(&h, y, w, COUNT);
        hand_compute(&h, z, y, COUNT);
        hand_compute(&h, w, z, COUNT);
        if (flying == 1) {
            hand_copy_wait(&h, request, far, x, BYTES);
        }
        plan();
        assert_int_equal(of(x)->lower, 0);
        assert_int_equal(of(x)->upper, flying == 0 ? 3 : 6);
        assert_int_equal(h.report.arena_bytes, (flying == 0 ? 3 : 4) * BYTES);
        bool reused = overlap(x, y) || overlap(x, z);
        assert_true(reused == (flying == 0));
        hand_close(&h);
    }
}

/* The target of a copy is taken from its begin on, the room of a temporary before it is free. */
/* verifies program-12.d19d */
static void targets_live_from_the_begin(void **state)
{
    (void)state;
    hand_begin(&h);
    bp_ref w = buffer("w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, BYTES);
    bp_ref far = buffer("far", BP_SPACE_HOST, BP_SCOPE_PERSISTENT, BYTES);
    bp_ref early = buffer("early", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
    bp_ref target = buffer("target", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
    bp_ref beside = buffer("beside", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
    hand_compute(&h, early, w, COUNT);
    hand_compute(&h, w, early, COUNT);
    int64_t request = hand_copy_begin(&h, target, far, BYTES);
    hand_compute(&h, beside, w, COUNT);
    hand_compute(&h, w, beside, COUNT);
    hand_copy_wait(&h, request, target, far, BYTES);
    hand_compute(&h, w, target, COUNT);
    plan();
    assert_int_equal(of(target)->lower, 2);
    assert_int_equal(of(target)->upper, 7);
    assert_false(overlap(target, beside));
    assert_int_equal(h.report.arena_bytes, 3 * BYTES);
    hand_close(&h);
}

/* Each space is planned for itself: sizes, peaks, what lives always, and no gap in either. */
/* verifies program-12.d19d */
static void spaces_have_a_plan_each(void **state)
{
    (void)state;
    hand_begin(&h);
    bp_ref w = buffer("w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, BYTES);
    bp_ref slots[3] = {buffer("slot 0", BP_SPACE_HOST, BP_SCOPE_PROGRAM, BYTES),
                       buffer("slot 1", BP_SPACE_HOST, BP_SCOPE_PROGRAM, BYTES),
                       buffer("slot 2", BP_SPACE_HOST, BP_SCOPE_PROGRAM, BYTES)};
    bp_ref kept = buffer("kept", BP_SPACE_HOST, BP_SCOPE_PERSISTENT, 2 * BYTES - 100);
    bp_ref t = buffer("t", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
    for (int i = 0; i < 3; i++) { /* slot i lives for four ops, slots i and i + 1 never meet */
        int64_t out = hand_copy_begin(&h, slots[i], w, BYTES);
        hand_copy_wait(&h, out, slots[i], w, BYTES);
        int64_t in = hand_copy_begin(&h, t, slots[i], BYTES);
        hand_copy_wait(&h, in, t, slots[i], BYTES);
    }
    int64_t save = hand_copy_begin(&h, kept, w, BYTES);
    hand_copy_wait(&h, save, kept, w, BYTES);
    plan();
    const bp_report *report = &h.report;
    assert_int_equal(report->arena_bytes, 2 * BYTES);
    assert_int_equal(report->resident_bytes, BYTES);
    assert_int_equal(report->host.resident_bytes, 2 * BYTES);
    assert_int_equal(report->host.arena_bytes, 3 * BYTES);
    assert_int_equal(report->host.lower_bound_bytes, 3 * BYTES);
    assert_true(report->host.optimal && report->optimal);
    assert_int_equal(report->host.class_most[BP_CLASS_TAPE], 3 * BYTES);
    assert_int_equal(report->class_most[BP_CLASS_TAPE], 2 * BYTES);
    assert_int_equal(report->host.activations_most, 3 * BYTES);
    assert_int_equal(report->state_bytes, BYTES + 2 * BYTES - 100); /* wherever it is */
    assert_int_equal(of(slots[0])->offset, of(slots[1])->offset);
    assert_int_equal(bp_buffer_address(of(w)), of(w)->offset);
    assert_int_equal(bp_address_space(bp_buffer_address(of(kept))), BP_SPACE_HOST);
    assert_int_equal(bp_address_offset(bp_buffer_address(of(kept))), of(kept)->offset);

    uint64_t bytes = bp_verify_scratch(&h.graph);
    void *scratch = malloc(bytes);
    uint64_t arena = report->host.arena_bytes;
    assert_int_equal(bp_verify_space(&h.graph, BP_SPACE_HOST, arena, scratch, bytes), BP_OK);
    assert_int_equal(bp_verify_space(&h.graph, BP_SPACE_HOST, arena, scratch, 1), BP_ERR_FIT);
    h.error = (bp_error){0};
    assert_int_equal(bp_verify_space(&h.graph, BP_SPACE_HOST, arena - 1, scratch, bytes),
                     BP_ERR_VERIFY);
    h.error = (bp_error){0};
    h.graph.buffers[slots[2].buffer].offset = of(kept)->offset;
    assert_int_equal(bp_verify_space(&h.graph, BP_SPACE_HOST, arena, scratch, bytes),
                     BP_ERR_VERIFY);
    assert_string_equal(h.error.text, "two live buffers overlap in the arena");
    h.error = (bp_error){0};
    assert_int_equal(bp_verify_plan(&h.graph, report->arena_bytes, scratch, bytes), BP_OK);
    free(scratch);
    hand_close(&h);
}

/* Buffers of one space only leave the other's plan as it is. */
/* verifies program-12.d19d */
static void an_empty_space_has_no_bytes(void **state)
{
    (void)state;
    hand_begin(&h);
    bp_ref w = buffer("w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, BYTES);
    bp_ref t = buffer("t", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
    hand_compute(&h, t, w, COUNT);
    plan();
    assert_int_equal(h.report.host.arena_bytes, 0);
    assert_int_equal(h.report.host.lower_bound_bytes, 0);
    assert_int_equal(h.report.host.class_most[BP_CLASS_TAPE], 0);
    hand_close(&h);
}

/* verifies program-10.8294 */
static void costs_are_counted_by_engine(void **state)
{
    (void)state;
    hand_begin(&h);
    bp_ref w = buffer("w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, BYTES);
    bp_ref all = buffer("all", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, 4 * BYTES);
    bp_ref far = buffer("far", BP_SPACE_HOST, BP_SCOPE_PROGRAM, BYTES);
    hand_compute(&h, all, w, COUNT);
    const bp_copy_begin_operands operands = {far, w};
    const bp_copy_begin_scalars s = {0, 8, 32, 64, 64};
    hand_op(&h, BP_KERNEL_copy_begin, &operands, &s);
    hand_op(&h, BP_KERNEL_copy_wait, &operands, &s);
    int64_t gather = hand_all_gather(&h, 0, 4, all, w, BYTES);
    hand_fabric_wait(&h, gather, all, 4 * BYTES, w, BYTES);
    int64_t exchange = hand_exchange(&h, 0, 4, all, w, BYTES / 4);
    hand_fabric_wait(&h, exchange, all, BYTES, w, BYTES);
    int64_t cast = hand_broadcast(&h, 0, 4, 1, all, w, BYTES);
    hand_fabric_wait(&h, cast, all, BYTES, w, BYTES);
    int64_t alone = hand_broadcast(&h, 0, 1, 0, all, w, BYTES);
    hand_fabric_wait(&h, alone, all, BYTES, w, BYTES);
    plan();
    const double right[] = {0, 0, 0, 3 * BYTES, 0, 3 * BYTES / 4, 0, BYTES, 0, 0, 0};
    for (uint32_t i = 0; i < h.graph.used.ops; i++) {
        bp_cost cost = bp_cost_op(&h.graph, &h.graph.ops[i]);
        assert_true(cost.fabric_bytes == right[i]);
        assert_true(cost.copy_bytes == (i == 1 ? 256 : 0));
        assert_true(cost.bytes == (i == 0 ? 2 * BYTES : 0));
    }
    bp_cost total = bp_cost_total(&h.graph, BP_PROGRAM_STEP);
    assert_true(total.bytes == 2 * BYTES && total.copy_bytes == 256 && total.flops == 0);
    assert_true(total.fabric_bytes == 3 * BYTES + 3 * BYTES / 4 + BYTES);
    const bp_rates rates = {1.0, 2.0};
    assert_true(bp_cost_program(&h.graph, BP_PROGRAM_STEP, &rates) == BYTES);
    hand_close(&h);
}

/* A small plan, changed in one thing. */
static uint64_t digest_of(int change)
{
    hand_begin(&h);
    bp_ref w = buffer(change == 1 ? "v" : "w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, BYTES);
    bp_ref t = buffer("t", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
    bp_ref far = buffer("far", change == 2 ? BP_SPACE_DEVICE : BP_SPACE_HOST, BP_SCOPE_PROGRAM,
                        change == 3 ? BYTES + 4 : BYTES);
    hand_compute(&h, t, w, change == 4 ? COUNT - 1 : COUNT);
    int64_t request = hand_copy_begin(&h, far, w, BYTES);
    hand_copy_wait(&h, request, far, w, BYTES);
    if (change == 5) {
        hand_compute(&h, w, t, COUNT - 1);
    } else {
        hand_compute(&h, w, change == 6 ? hand_at(t, 4, BP_F32) : t, COUNT - 1);
    }
    if (change == 7) {
        bp_graph_begin(&h.graph, BP_PROGRAM_EVAL);
        hand_compute(&h, t, w, COUNT);
    }
    plan();
    if (change == 8) {
        h.graph.buffers[t.buffer].offset += 256;
    } else if (change == 9) {
        h.graph.buffers[t.buffer].space = BP_SPACE_HOST;
    }
    uint64_t digest = bp_graph_digest(&h.graph);
    hand_close(&h);
    return digest;
}

/* verifies program-14.81b9 */
static void digests_tell_plans_apart(void **state)
{
    (void)state;
    const uint64_t first = digest_of(0);
    for (int change = 0; change < 10; change++) {
        bool same = change == 0 || change == 5;
        assert_true((digest_of(change) == first) == same);
    }
}

/* verifies program-15.274c */
static void words(void **state)
{
    (void)state;
    assert_string_equal(bp_space_name(BP_SPACE_DEVICE), "device");
    assert_string_equal(bp_space_name(BP_SPACE_HOST), "host");
    assert_string_equal(bp_engine_name(BP_ENGINE_COMPUTE), "compute");
    assert_string_equal(bp_engine_name(BP_ENGINE_COPY), "copy");
    assert_string_equal(bp_engine_name(BP_ENGINE_FABRIC), "fabric");
    uint32_t engines[BP_ENGINE_COUNT] = {0};
    for (uint32_t kernel = 0; kernel < BP_KERNEL_COUNT; kernel++) {
        const bp_kernel_info *info = bp_kernel_describe((bp_kernel)kernel);
        engines[info->engine]++;
        assert_true((info->engine == BP_ENGINE_COMPUTE) == (info->pending == BP_PENDING_NONE));
        if (info->pending != BP_PENDING_NONE) { /* what the verifier and the devices rely on */
            const bool rows = kernel == BP_KERNEL_rows_begin || kernel == BP_KERNEL_rows_wait ||
                              kernel == BP_KERNEL_experts_begin || kernel == BP_KERNEL_experts_wait;
            assert_int_equal(info->operand_count, rows ? 3 : 2);
            assert_string_equal(info->operand[0].name, "to");
            assert_string_equal(info->operand[1].name, "from");
            assert_string_equal(info->scalar[0].name, "request");
            assert_false(info->list);
        }
    }
    assert_int_equal(engines[BP_ENGINE_COPY], 6);
    assert_int_equal(engines[BP_ENGINE_FABRIC], 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_in_flight_keeps_its_room),
        cmocka_unit_test(targets_live_from_the_begin),
        cmocka_unit_test(spaces_have_a_plan_each),
        cmocka_unit_test(an_empty_space_has_no_bytes),
        cmocka_unit_test(costs_are_counted_by_engine),
        cmocka_unit_test(digests_tell_plans_apart),
        cmocka_unit_test(words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
