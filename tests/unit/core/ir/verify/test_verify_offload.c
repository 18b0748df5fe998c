/* SPDX-License-Identifier: MIT */
/* Faults planted into the copies of plans whose weights, states, gradients and checkpoints are
 * offloaded: a begin, a wait or a write-back that is not what it was is refused. So is an op
 * that writes where frozen weights lie in memory that is only read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/compile_private.h"
#include "core/ir/verify/verify.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/plans/mutant.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

typedef struct bed {
    bp_plan plan;
    bp_runtime runtime;
    void *host;
    bp_graph copy;
    bp_error error;
    void *scratch;
    uint64_t scratch_bytes;
} bed;

static bed b;

static void bed_open(const bp_spec *spec)
{
    const uint64_t bytes = plan_bytes(spec);
    b.host = NULL;
    assert_int_equal(posix_memalign(&b.host, 64, (size_t)bytes), 0);
    assert_int_equal(bp_plan_make(&b.plan, spec, b.host, bytes), BP_OK);
    mutant_copy(&b.plan.graph, &b.copy, &b.error);
    b.scratch_bytes = 2 * bp_verify_scratch(&b.plan.graph) + 4096;
    b.scratch = malloc((size_t)b.scratch_bytes);
    assert_non_null(b.scratch);
}

static void bed_close(void)
{
    mutant_free(&b.copy);
    free(b.scratch);
    free(b.host);
}

static bp_status bed_verify(void)
{
    const bp_spec *spec = &b.plan.spec;
    return bp_verify(&b.copy, spec->device, &spec->device_options, b.scratch, b.scratch_bytes);
}

/* The graph as it was planned. */
static void bed_reset(void)
{
    const mutant none = {.way = MUTANT_WAYS};
    mutant_plant(&b.plan.graph, &none, &b.copy);
}

static bool is_copy(const bp_op *op)
{
    return op->kernel == BP_KERNEL_copy_begin || op->kernel == BP_KERNEL_copy_wait ||
           op->kernel == BP_KERNEL_rows_begin || op->kernel == BP_KERNEL_rows_wait;
}

/* Scalars of a flat copy that mean nothing: the pitches of its only row. */
static bool means_nothing(const mutant *m, const bp_op *op)
{
    const bool flat = op->kernel == BP_KERNEL_copy_begin || op->kernel == BP_KERNEL_copy_wait;
    return m->way == MUTANT_SCALAR && flat &&
           m->which - op->scalar >= offsetof(bp_copy_begin_scalars, to_pitch) / sizeof(bp_scalar);
}

typedef struct tally {
    uint32_t refused;
    uint32_t passed;
} tally;

/* Every mutant of an op that copies; a swap may be of two that have nothing
 * to do with each other. */
static tally mutate(void)
{
    const bp_graph *graph = &b.plan.graph;
    tally t = {0, 0};
    uint32_t count = 0;
    mutant *mutants = mutant_list(graph, &count);
    bed_reset();
    assert_int_equal(bed_verify(), BP_OK);
    for (uint32_t i = 0; i < count; i++) {
        const mutant *m = &mutants[i];
        const bp_op *op = &graph->ops[m->op];
        if (!is_copy(op) || m->way == MUTANT_SWAP || means_nothing(m, op)) {
            continue;
        }
        mutant_plant(graph, m, &b.copy);
        if (bed_verify() == BP_OK) {
            char text[160];
            mutant_describe(graph, m, text, sizeof text);
            print_message("passed: %s\n", text);
            t.passed++;
        } else {
            t.refused++;
        }
    }
    free(mutants);
    return t;
}

/* Moves the op at `from` to `to`. */
static void move_op(uint32_t from, uint32_t to)
{
    const bp_op op = b.copy.ops[from];
    if (from < to) {
        memmove(&b.copy.ops[from], &b.copy.ops[from + 1], (to - from) * sizeof op);
    } else {
        memmove(&b.copy.ops[to + 1], &b.copy.ops[to], (from - to) * sizeof op);
    }
    b.copy.ops[to] = op;
}

/* The wait of what op `begin` begins. */
static uint32_t wait_of(const bp_graph *graph, uint32_t begin, uint32_t end)
{
    const int64_t request = graph->scalars[graph->ops[begin].scalar].integer;
    uint32_t i = begin + 1;
    while (i < end && (graph->ops[i].kernel != BP_KERNEL_copy_wait ||
                       graph->scalars[graph->ops[i].scalar].integer != request)) {
        i++;
    }
    assert_true(i < end);
    return i;
}

static bool op_has(const bp_graph *graph, const bp_op *op, uint32_t buffer)
{
    const uint32_t count = op->tuples * bp_kernel_describe(op->kernel)->operand_count;
    for (uint32_t k = 0; k < count; k++) {
        if (graph->refs[op->operand + k].buffer == buffer) {
            return true;
        }
    }
    return false;
}

/* What is brought is read before it is there, and what is written back is changed on its way: the
 * wait goes behind the next op that has the buffer of the arena, the begin before the last one. */
static tally misplace(void)
{
    const bp_graph *graph = &b.plan.graph;
    tally t = {0, 0};
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT; p++) {
        const uint32_t first = graph->program_first[p], end = first + graph->program_count[p];
        for (uint32_t i = first; i < end; i++) {
            const bp_op *op = &graph->ops[i];
            if (op->kernel != BP_KERNEL_copy_begin) {
                continue;
            }
            const bp_ref to = graph->refs[op->operand], from = graph->refs[op->operand + 1];
            const bool down = graph->buffers[to.buffer].space != BP_SPACE_DEVICE;
            const uint32_t wait = wait_of(graph, i, end), near = down ? from.buffer : to.buffer;
            uint32_t other = down ? i : wait;
            do {
                other = down ? other - 1 : other + 1;
            } while (other >= first && other < end && !op_has(graph, &graph->ops[other], near));
            assert_true(other >= first && other < end); /* something made it, or reads it */
            bed_reset();
            move_op(down ? i : wait, other);
            t.refused += bed_verify() != BP_OK;
            t.passed += bed_verify() == BP_OK;
        }
    }
    return t;
}

/* Leaves out what brings something, or what writes it where nothing else in its program does. */
static tally leave_out(void)
{
    const bp_graph *graph = &b.plan.graph;
    tally t = {0, 0};
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT; p++) {
        const uint32_t first = graph->program_first[p], end = first + graph->program_count[p];
        for (uint32_t i = first; i < end; i++) {
            const bp_op *op = &graph->ops[i];
            const bp_buffer *to = &graph->buffers[graph->refs[op->operand].buffer];
            if (op->kernel != BP_KERNEL_copy_begin ||
                (to->space != BP_SPACE_DEVICE && to->scope != BP_SCOPE_PROGRAM)) {
                continue;
            }
            const uint32_t wait = wait_of(graph, i, end);
            bed_reset();
            move_op(wait, end - 1);
            move_op(i, end - 1);
            b.copy.program_count[p] -= 2; /* no two programs' ops are looked at together */
            compile_ahead_number(&b.copy, first, end - 2);
            const bool refused =
                bed_verify() != BP_OK && strstr(b.error.text, "read before it is written") != NULL;
            t.refused += refused;
            t.passed += !refused;
        }
    }
    return t;
}

static bp_spec offload_spec(const bp_offload *offload)
{
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    spec.config.vocabulary = 80;
    spec.policy = (bp_policy){.kind = BP_POLICY_FULL};
    spec.offload = *offload;
    return spec;
}

static void every_mutant_is_refused(const bp_spec *spec)
{
    bed_open(spec);
    assert_true(b.plan.report.offload.arena_bytes > 0);
    const tally one = mutate();
    const tally two = misplace();
    const tally three = leave_out();
    print_message("%u, %u and %u refused\n", one.refused, two.refused, three.refused);
    assert_true(one.refused > 500 && two.refused > 10 && three.refused > 10);
    assert_int_equal(one.passed + two.passed + three.passed, 0);
    bed_close();
}

/* verifies program-6.0f88 */
static void copies_that_are_not_what_they_were(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    bp_spec spec = offload_spec(&(bp_offload){
        .states = BP_OFFLOAD_ALL, .weights = BP_OFFLOAD_ALL, .checkpoints = 1, .ahead = 2});
    every_mutant_is_refused(&spec);
    spec.accumulation = 2;
    spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL, .gradients = BP_OFFLOAD_ALL, .ahead = 1};
    every_mutant_is_refused(&spec);
    spec.gradient_int8 = true;
    every_mutant_is_refused(&spec);
    spec = offload_spec(&(bp_offload){.bases = BP_OFFLOAD_ALL, .ahead = 2});
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
    spec.quantised = BP_QUANTISED_NF4;
    every_mutant_is_refused(&spec);
    spec.offload.room = 320000; /* some stay from one use to the next */
    every_mutant_is_refused(&spec);
    assert_true(b.plan.resident.bytes > 50000 && b.plan.resident.bytes < 100000);
}

/* Whatever an op writes, frozen weights in read-only memory in its place are refused. */
/* verifies device-25.d3df */
static void read_only_memory_is_never_written(void **state)
{
    (void)state;
    static const bp_parameter_rule rule = {.glob = "transformer.h.*", .kind = BP_RULE_FREEZE};
    bp_spec spec = offload_spec(&(bp_offload){.fixed = true});
    spec.rules = &rule;
    spec.rule_count = 1;
    bed_open(&spec);
    const bp_graph *graph = &b.plan.graph;
    uint32_t frozen = BP_NO_BUFFER, said = 0, tried = 0;
    for (uint32_t i = 1; i < graph->used.buffers; i++) {
        const bp_buffer *buffer = &graph->buffers[i];
        const bool more = frozen == BP_NO_BUFFER || buffer->bytes > graph->buffers[frozen].bytes;
        frozen = buffer->space == BP_SPACE_HOST && more ? i : frozen;
    }
    assert_true(frozen != BP_NO_BUFFER);
    bed_reset();
    assert_int_equal(bed_verify(), BP_OK);
    for (uint32_t i = 0; i < graph->used.ops; i++) {
        const bp_op *op = &graph->ops[i];
        const bp_kernel_info *info = bp_kernel_describe(op->kernel);
        bp_extent extents[BP_OPERANDS_MAX];
        info->extents(graph->scalars + op->scalar, extents);
        for (uint32_t k = 0; k < info->operand_count; k++) {
            const bool writes = extents[k].access != BP_ACCESS_READ;
            const bp_ref was = graph->refs[op->operand + k];
            if (!writes || !bp_ref_present(was) || extents[k].width == 0) {
                continue;
            }
            bed_reset();
            b.copy.refs[op->operand + k] = (bp_ref){frozen, was.dtype, 0};
            assert_int_equal(bed_verify(), BP_ERR_VERIFY);
            said += strstr(b.error.text, "read-only memory is written") != NULL;
            tried++;
        }
    }
    print_message("%u of %u refused as written\n", said, tried);
    assert_true(said > 20);
    bed_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_that_are_not_what_they_were),
        cmocka_unit_test(read_only_memory_is_never_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
