/* SPDX-License-Identifier: MIT */
/* What is fetched from the offload tier and stays until it is used again: as many bytes as any
 * choice of gaps keeps where all choices can be tried, within the room, less of them read, and
 * never bytes that were written below in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/run/runtime.h"
#include "device/host/host.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/plans/hand_program.h"
#include "tests/fixtures/plans/plan_made.h"
#include "tests/fixtures/model_fixture.h"

enum { GAPS = 16, TICKS = 4000 };

static bp_plan plan;
static void *memory;

static void plan_of(const bp_spec *spec)
{
    memory = plan_make(&plan, spec);
}

static const bp_copy_begin_scalars *scalars_of(const bp_op *op)
{
    return (const void *)(plan.graph.scalars + op->scalar);
}

static bp_ref ref_of(const bp_op *op, uint32_t operand)
{
    return plan.graph.refs[op->operand + operand];
}

/* Whether an op begins to bring bytes from below; down: to write some there. */
static bool begins(const bp_op *op, bool down)
{
    const bp_buffer *buffers = plan.graph.buffers;
    return op->kernel == BP_KERNEL_copy_begin &&
           buffers[ref_of(op, down ? 0 : 1).buffer].space == BP_SPACE_OFFLOAD;
}

/* Whether nothing but a copy writes what an op brings: parts of what is updated are written. */
static bool stays(const bp_op *op)
{
    const bp_graph *graph = &plan.graph;
    const uint32_t buffer = ref_of(op, 0).buffer;
    for (uint32_t i = 0; i < graph->used.ops; i++) {
        const bp_op *other = &graph->ops[i];
        const bp_kernel_info *info = bp_kernel_describe(other->kernel);
        for (uint32_t k = 0; k < other->tuples * info->operand_count; k++) {
            bp_extent extents[BP_OPERANDS_MAX];
            const uint32_t tuple = k / info->operand_count;
            info->extents(graph->scalars + other->scalar + tuple * info->scalar_count, extents);
            if (graph->refs[other->operand + k].buffer == buffer &&
                info->pending == BP_PENDING_NONE &&
                extents[k % info->operand_count].access != BP_ACCESS_READ) {
                return false;
            }
        }
    }
    return true;
}

/* Bytes that a step reads below. */
static uint64_t bytes_read(void)
{
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT; p++) {
        const uint64_t runs = bp_compile_runs(&plan.spec, (bp_program_kind)p);
        for (uint32_t i = 0; i < plan.graph.program_count[p]; i++) {
            const bp_op *op = &plan.graph.ops[plan.graph.program_first[p] + i];
            bytes += begins(op, false) ? runs * (uint64_t)scalars_of(op)->width : 0;
        }
    }
    return bytes;
}

typedef struct gap {
    uint64_t bytes;
    uint32_t from;
    uint32_t to;
} gap;

typedef struct timeline {
    gap gaps[GAPS];
    uint32_t count;
    uint64_t free; /* bytes that need no gap: both copies are there at one time */
    uint64_t load[TICKS];
} timeline;

static bool meet(bp_ref a, uint64_t a_bytes, bp_ref b, uint64_t b_bytes)
{
    return a.buffer == b.buffer && a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes;
}

/* The gap behind the copy at op `at`, if the same bytes are brought again before any of them is
 * written below. */
static void gap_behind(timeline *t, uint32_t at, uint32_t end)
{
    const bp_graph *graph = &plan.graph;
    const bp_op *op = &graph->ops[at];
    const uint64_t width = (uint64_t)scalars_of(op)->width;
    const bp_buffer *now = &graph->buffers[ref_of(op, 0).buffer];
    for (uint32_t i = at + 1; i < end; i++) {
        const bp_op *next = &graph->ops[i];
        const uint64_t other = (uint64_t)scalars_of(next)->width;
        if (begins(next, true) && meet(ref_of(next, 0), other, ref_of(op, 1), width)) {
            return;
        }
        if (!begins(next, false) || other != width || !stays(next) ||
            !meet(ref_of(next, 1), 1, ref_of(op, 1), 1)) {
            continue;
        }
        const bp_buffer *then = &graph->buffers[ref_of(next, 0).buffer];
        const uint64_t bytes = bp_report_rounded(graph, now);
        if (then->lower > now->upper) {
            assert_true(t->count < GAPS);
            t->gaps[t->count++] = (gap){bytes, now->upper, then->lower};
        } else {
            t->free += bytes;
            for (uint32_t tick = then->lower; tick < now->upper && tick < then->upper; tick++) {
                t->load[tick] -= bytes;
            }
        }
        return;
    }
}

/* Of a plan in which nothing is kept: the gaps of its one program, and what lives when. */
static void lay_out(timeline *t)
{
    const bp_graph *graph = &plan.graph;
    const uint32_t first = graph->program_first[BP_PROGRAM_STEP];
    const uint32_t end = first + graph->program_count[BP_PROGRAM_STEP];
    *t = (timeline){.count = 0};
    assert_true(end < TICKS);
    for (uint32_t i = 1; i < graph->used.buffers; i++) {
        const bp_buffer *buffer = &graph->buffers[i];
        for (uint32_t tick = buffer->lower; tick < buffer->upper; tick++) {
            t->load[tick] +=
                buffer->space == BP_SPACE_DEVICE ? bp_report_rounded(graph, buffer) : 0;
        }
    }
    for (uint32_t i = first; i < end; i++) {
        if (begins(&graph->ops[i], false) && stays(&graph->ops[i])) {
            gap_behind(t, i, end);
        }
    }
}

/* The most bytes of all sets of gaps with which no more than `room` live at a time. */
static uint64_t every_choice(const timeline *t, uint64_t room)
{
    uint64_t best = 0;
    for (uint32_t set = 0; set < 1u << t->count; set++) {
        uint64_t bytes = 0;
        bool fits = true;
        for (uint32_t i = 0; i < t->count; i++) {
            bytes += (set >> i & 1) != 0 ? t->gaps[i].bytes : 0;
        }
        /* what lives is the most where a gap that is in the set begins, or inside one */
        for (uint32_t i = 0; i < t->count && fits && bytes > best; i++) {
            for (uint32_t tick = t->gaps[i].from; (set >> i & 1) && tick < t->gaps[i].to; tick++) {
                uint64_t load = t->load[tick];
                for (uint32_t k = 0; k < t->count; k++) {
                    const gap *g = &t->gaps[k];
                    load += (set >> k & 1) && g->from <= tick && tick < g->to ? g->bytes : 0;
                }
                fits = fits && load <= room;
            }
        }
        best = fits && bytes > best ? bytes : best;
    }
    return best + t->free;
}

static bp_spec offload_spec(const bp_offload *offload)
{
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    spec.config.vocabulary = 80;
    spec.policy = (bp_policy){.kind = BP_POLICY_FULL};
    spec.plan_nodes = 0;
    spec.offload = *offload;
    return spec;
}

/* Sizes are multiples of the alignment here, so that what is saved is what is kept. */
static uint32_t against_every_choice(bp_spec spec)
{
    static timeline t;
    uint32_t partly = 0;
    plan_of(&spec);
    lay_out(&t);
    const uint64_t read = bytes_read(), least = plan.report.lower_bound_bytes;
    assert_true(t.count >= 4 && plan.resident.bytes == 0 && plan.resident.most == 0);
    free(memory);
    uint64_t all = t.free;
    for (uint32_t i = 0; i < t.count; i++) {
        all += t.gaps[i].bytes;
    }
    for (uint32_t k = 0; k < 12; k++) {
        spec.offload.room = least / 2 + k * (least / 2 + all) / 11;
        plan_of(&spec);
        const uint64_t kept = every_choice(&t, spec.offload.room);
        assert_int_equal(plan.resident.bytes, kept);
        assert_int_equal(plan.resident.most, kept);
        assert_int_equal(bytes_read(), read - kept);
        assert_true(plan.report.lower_bound_bytes <= least ||
                    plan.report.lower_bound_bytes <= spec.offload.room);
        partly += kept > t.free && kept < all ? 1 : 0;
        free(memory);
    }
    spec.offload.room = UINT64_MAX / 4;
    plan_of(&spec);
    assert_int_equal(plan.resident.bytes, all);
    free(memory);
    return partly;
}

/* verifies compile-30.0872 */
static void as_much_as_any_choice(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    bp_spec spec = offload_spec(
        &(bp_offload){.states = BP_OFFLOAD_ALL, .weights = BP_OFFLOAD_ALL, .ahead = 2});
    uint32_t partly = against_every_choice(spec);
    spec.offload.ahead = 0;
    partly += against_every_choice(spec);
    spec.policy = (bp_policy){.kind = BP_POLICY_NONE};
    partly += against_every_choice(spec);
    spec = offload_spec(&(bp_offload){.bases = BP_OFFLOAD_ALL, .ahead = 1});
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
    partly += against_every_choice(spec);
    assert_true(partly > 8);
}

/* Bytes that are read in each program at least: of what is not written there, once. */
static uint64_t read_once(void)
{
    const bp_graph *graph = &plan.graph;
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT; p++) {
        const uint32_t first = graph->program_first[p], end = first + graph->program_count[p];
        for (uint32_t i = first; i < end; i++) {
            bool again = false;
            const bp_op *op = &graph->ops[i];
            for (uint32_t k = i; k-- > first && begins(op, false) && stays(op) && !again;) {
                const bp_op *other = &graph->ops[k];
                const uint64_t width = (uint64_t)scalars_of(op)->width;
                if (begins(other, true) &&
                    meet(ref_of(other, 0), (uint64_t)scalars_of(other)->width, ref_of(op, 1),
                         width)) {
                    break;
                }
                again = begins(other, false) && stays(other) &&
                        ref_of(other, 1).buffer == ref_of(op, 1).buffer &&
                        ref_of(other, 1).offset == ref_of(op, 1).offset &&
                        (uint64_t)scalars_of(other)->width == width;
            }
            bytes += again || !begins(op, false) ? 0
                                                 : bp_compile_runs(&plan.spec, (bp_program_kind)p) *
                                                       (uint64_t)scalars_of(op)->width;
        }
    }
    return bytes;
}

/* With room for all of it nothing is read twice, in groups of several programs and of one, where
 * weights are updated and read again, and where checkpoints and gradients are. */
/* verifies compile-30.0872 */
static void nothing_is_read_twice(void **state)
{
    (void)state;
    const bp_offload all = {
        .states = BP_OFFLOAD_ALL, .weights = BP_OFFLOAD_ALL, .checkpoints = 1, .ahead = 2};
    for (uint32_t which = 0; which < 6; which++) {
        bp_spec spec = offload_spec(&all);
        spec.accumulation = which < 2 ? 1 : 3;
        spec.gradient_release = which == 2   ? BP_RELEASE_EXACT
                                : which == 3 ? BP_RELEASE_ADAMA
                                             : BP_RELEASE_NONE;
        spec.policy.kind = which == 1 ? BP_POLICY_MEMORY_POOR : BP_POLICY_FULL;
        spec.offload.gradients = which >= 4 ? BP_OFFLOAD_ALL : 0;
        spec.gradient_int8 = which == 5;
        plan_of(&spec);
        const uint64_t read = bytes_read(), once = read_once();
        free(memory);
        spec.offload.room = UINT64_MAX / 4;
        plan_of(&spec);
        assert_true(once < read);
        assert_int_equal(bytes_read(), once);
        assert_int_equal(plan.resident.bytes, read - once);
        free(memory);
    }
}

enum { ALL = 256, HALF = 128 };

static void move(hand_program *h, bp_ref to, bp_ref from, int64_t bytes)
{
    const int64_t request = hand_copy_begin(h, to, from, bytes);
    hand_copy_wait(h, request, to, from, bytes);
}

/* A program in which what is below is brought to x, and some of it to z, and both are read, with
 * something between; and the bytes of it that are kept. */
typedef struct between {
    uint64_t offset; /* of what z is brought from, behind x's */
    uint64_t bytes;
    uint64_t down; /* where y goes: x comes from ALL */
    bp_space space;
    bp_scope scope; /* of z */
    bool small;     /* z is half as large */
    bool goes;      /* y does */
    bool written;   /* z is, once it was read */
    bool taken;     /* and read by the host */
    bool again;     /* one more copy of the same, behind z */
    uint64_t kept;
} between;

static void hand_keep(const between *c)
{
    hand_program h;
    const bp_spec spec = {.accumulation = 1, .offload = {.room = 1 << 20}};
    bp_resident keep;
    hand_begin(&h);
    const bp_ref y = hand_buffer(&h, "y", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, ALL);
    const bp_ref out = hand_buffer(&h, "out", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, ALL);
    const bp_ref offload = hand_buffer(&h, "offload", c->space, BP_SCOPE_PERSISTENT, 4 * ALL);
    const bp_ref x = hand_buffer(&h, "x", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
    const bp_ref z = hand_buffer(&h, "z", BP_SPACE_DEVICE, c->scope, c->small ? HALF : ALL);
    const bp_ref a = hand_buffer(&h, "a", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
    move(&h, x, hand_at(offload, ALL, BP_U8), ALL);
    hand_compute(&h, out, x, ALL / 4);
    if (c->goes) {
        move(&h, hand_at(offload, c->down, BP_U8), y, HALF);
    }
    move(&h, z, hand_at(offload, ALL + c->offset, BP_U8), (int64_t)c->bytes);
    hand_compute(&h, out, z, HALF / 4);
    if (c->again) {
        move(&h, a, hand_at(offload, ALL, BP_U8), ALL);
        hand_compute(&h, out, a, ALL / 4);
    }
    if (c->written) {
        hand_compute(&h, z, y, HALF / 4);
    }
    bp_graph_take(&h.graph, z.buffer, c->taken ? 1u << BP_PROGRAM_STEP : 0);
    const uint32_t ops = h.graph.used.ops;
    uint64_t *scratch = malloc((size_t)bp_resident_scratch(&h.graph.used));
    assert_non_null(scratch);
    bp_resident_run(&h.graph, &spec, scratch, &keep);
    free(scratch);
    assert_int_equal(keep.bytes, c->kept);
    assert_int_equal(keep.most, c->kept);
    assert_int_equal(h.graph.used.ops, ops - 2 * (c->kept / ALL));
    assert_int_equal(hand_plan(&h, &bp_device_host), BP_OK);
    assert_true(c->kept < ALL || h.graph.buffers[(c->again ? a : z).buffer].upper == 0);
    hand_close(&h);
}

/* The same bytes, whole buffers, which live in the program, and nothing that changes them. */
/* verifies compile-30.0872 */
static void what_may_stay(void **state)
{
    (void)state;
    const bp_space offload = BP_SPACE_OFFLOAD;
    const bp_scope program = BP_SCOPE_PROGRAM;
    const between cases[] = {
        {.bytes = ALL, .space = offload, .scope = program, .kept = ALL},
        {.bytes = ALL, .space = BP_SPACE_HOST, .scope = program, .kept = ALL},
        {.bytes = ALL, .space = BP_SPACE_DEVICE, .scope = program},
        {.bytes = ALL, .space = offload, .scope = BP_SCOPE_GROUP},
        {.bytes = HALF, .space = offload, .scope = program},
        {.bytes = HALF, .small = true, .space = offload, .scope = program},
        {.bytes = ALL, .offset = ALL, .space = offload, .scope = program},
        {.bytes = ALL, .offset = HALF, .space = offload, .scope = program},
        {.bytes = ALL, .goes = true, .down = 0, .space = offload, .scope = program, .kept = ALL},
        {.bytes = ALL, .goes = true, .down = ALL, .space = offload, .scope = program},
        {.bytes = ALL, .goes = true, .down = ALL + HALF, .space = offload, .scope = program},
        {.bytes = ALL, .goes = 1, .down = 2 * ALL, .space = offload, .scope = program, .kept = ALL},
        {.bytes = ALL, .written = true, .space = offload, .scope = program},
        {.bytes = ALL, .taken = true, .space = offload, .scope = program},
        {.bytes = ALL, .again = true, .space = offload, .scope = program, .kept = 2 * ALL},
        {.bytes = ALL,
         .again = 1,
         .goes = 1,
         .down = ALL,
         .space = offload,
         .scope = program,
         .kept = ALL},
        {.bytes = ALL, .again = 1, .written = 1, .space = offload, .scope = program, .kept = ALL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hand_keep(&cases[i]);
    }
}

/* x outlives z, which is the same, and a is brought twice behind z's end: to keep it takes its
 * bytes beside x's, of which z's are none there. */
/* verifies compile-30.0872 */
static void what_outlives_the_later_copy(void **state)
{
    (void)state;
    for (uint32_t enough = 0; enough < 2; enough++) {
        hand_program h;
        const bp_spec spec = {.accumulation = 1, .offload = {.room = 4 * ALL - 1 + enough}};
        bp_resident keep;
        hand_begin(&h);
        const bp_ref y = hand_buffer(&h, "y", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, ALL);
        const bp_ref out = hand_buffer(&h, "out", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, ALL);
        const bp_ref offload =
            hand_buffer(&h, "offload", BP_SPACE_OFFLOAD, BP_SCOPE_PERSISTENT, 4 * ALL);
        const bp_ref x = hand_buffer(&h, "x", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
        const bp_ref z = hand_buffer(&h, "z", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
        const bp_ref a = hand_buffer(&h, "a", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
        const bp_ref b = hand_buffer(&h, "b", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
        move(&h, x, offload, ALL);
        move(&h, z, offload, ALL);
        hand_compute(&h, out, z, ALL / 4);
        move(&h, a, hand_at(offload, ALL, BP_U8), ALL);
        hand_compute(&h, out, a, ALL / 4);
        hand_compute(&h, out, y, ALL / 4);
        move(&h, b, hand_at(offload, ALL, BP_U8), ALL);
        hand_compute(&h, out, b, ALL / 4);
        hand_compute(&h, out, x, ALL / 4);
        uint64_t *scratch = malloc((size_t)bp_resident_scratch(&h.graph.used));
        assert_non_null(scratch);
        bp_resident_run(&h.graph, &spec, scratch, &keep);
        free(scratch);
        assert_int_equal(keep.bytes, (1 + enough) * ALL);
        assert_int_equal(hand_plan(&h, &bp_device_host), BP_OK);
        hand_close(&h);
    }
}

/* Experts that are brought by the same runs of rows stay; by others, or by these once they are
 * written anew, or beside a copy of all, they do not. */
/* verifies compile-30.0872 */
static void experts_of_the_same_rows_stay(void **state)
{
    (void)state;
    enum { SAME, OTHER, WRITTEN, WHOLE, WAYS };
    for (int way = 0; way < WAYS; way++) {
        hand_program h;
        const bp_spec spec = {.accumulation = 1, .offload = {.room = 1 << 20}};
        bp_resident keep;
        hand_begin(&h);
        const bp_ref given = hand_buffer(&h, "given", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, ALL);
        const bp_ref out = hand_buffer(&h, "out", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, 4 * ALL);
        const bp_ref offload =
            hand_buffer(&h, "offload", BP_SPACE_OFFLOAD, BP_SCOPE_PERSISTENT, ALL);
        const bp_ref x = hand_buffer(&h, "x", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
        const bp_ref z = hand_buffer(&h, "z", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
        const bp_ref runs = hand_buffer(&h, "runs", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
        const bp_ref more = hand_buffer(&h, "more", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, ALL);
        const bp_route_order_scalars sizes = {.rows = 8, .top = 1, .experts = 4};
        for (int i = 0; i < 2; i++) {
            const bp_route_order_operands route = {hand_at(i == 0 ? runs : more, 0, BP_I32),
                                                   hand_at(given, 0, BP_I32)};
            hand_op(&h, BP_KERNEL_route_order, &route, &sizes);
        }
        for (int i = 0; i < 2; i++) {
            const bp_ref to = i == 0 ? x : z, by = i == 1 && way == OTHER ? more : runs;
            const bp_route_order_operands route = {hand_at(runs, 0, BP_I32),
                                                   hand_at(given, 0, BP_I32)};
            if (i == 1 && way == WRITTEN) {
                hand_op(&h, BP_KERNEL_route_order, &route, &sizes);
            }
            if (i == 1 && way == WHOLE) {
                move(&h, to, offload, ALL);
            } else {
                const int64_t request = hand_experts_begin(&h, to, offload, by, 4, ALL / 4);
                hand_experts_wait(&h, request, to, offload, by, 4, ALL / 4);
            }
            const bp_expert_bias_operands reads = {.y = hand_at(out, 0, BP_F32),
                                                   .bias = hand_at(to, 0, BP_F32),
                                                   .order = hand_at(by, 0, BP_I32)};
            const bp_expert_bias_scalars s = {.rows = 8, .top = 1, .experts = 4, .width = ALL / 16};
            hand_op(&h, BP_KERNEL_expert_bias, &reads, &s);
        }
        uint64_t *scratch = malloc((size_t)bp_resident_scratch(&h.graph.used));
        assert_non_null(scratch);
        bp_resident_run(&h.graph, &spec, scratch, &keep);
        free(scratch);
        assert_int_equal(keep.bytes, way == SAME ? ALL : 0);
        assert_int_equal(hand_plan(&h, &bp_device_host), BP_OK);
        hand_close(&h);
    }
}

/* Scratch has two words and a byte for each buffer. */
static void scratch_of_buffers(void **state)
{
    (void)state;
    const bp_graph_limits less = {.buffers = 8, .ops = 100}, more = {.buffers = 1008, .ops = 100};
    assert_int_equal(bp_resident_scratch(&more) - bp_resident_scratch(&less),
                     1000 * (2 * sizeof(uint32_t) + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_much_as_any_choice),
        cmocka_unit_test(nothing_is_read_twice),
        cmocka_unit_test(what_may_stay),
        cmocka_unit_test(what_outlives_the_later_copy),
        cmocka_unit_test(experts_of_the_same_rows_stay),
        cmocka_unit_test(scratch_of_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
