/* SPDX-License-Identifier: MIT */
/* What the fit measures is what runs: for every family and every option that changes stages, the
 * ops of each trial are those of the programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/search/measure.h"
#include "core/run/runtime.h"
#include "layers/families/modernbert.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/share.h"
#include "tests/fixtures/plans/spec_case.h"

#define STAGES 16
#define OPS    512 /* most of one trial */
#define TRIALS (BP_TAPE_VARIANTS + BP_CHAIN_VARIANTS)

/* The ops of one trial: a hash of each one's kernel and shapes. */
typedef struct bare_fixture_ops {
    uint32_t count;
    uint64_t shape[OPS];
} bare_fixture_ops;

typedef struct comparison {
    char name[SPEC_CASE_NAME + 32];
    bare_fixture_ops measured[2][STAGES][TRIALS]; /* kind, stage, variant: with a name, then sets */
    uint32_t set[STAGES][BP_CHAIN_VARIANTS];
    uint32_t sets[STAGES];
    uint64_t compared; /* actions */
    uint64_t in_sets;  /* of them, those of kept sets */
} comparison;

static comparison found;

/* Where the trials of a variant are. */
static uint32_t place_of(uint32_t stage, uint32_t variant)
{
    if ((variant & BP_TAPE_SET) == 0) {
        assert_true(variant < BP_TAPE_VARIANTS);
        return variant;
    }
    uint32_t i = 0;
    while (i < found.sets[stage] && found.set[stage][i] != variant) {
        i++;
    }
    if (i == found.sets[stage]) {
        assert_true(i < BP_CHAIN_VARIANTS);
        found.set[stage][found.sets[stage]++] = variant;
    }
    return BP_TAPE_VARIANTS + i;
}

static void mix(uint64_t *hash, uint64_t value)
{
    *hash = (*hash ^ value) * 1099511628211ULL;
}

/* Kernel, tuples, and each operand's type and extent; workspaces are the device's. */
static uint64_t shape_of(const bp_graph *graph, const bp_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    uint64_t hash = 1469598103934665603ULL;
    mix(&hash, (uint64_t)op->kernel);
    mix(&hash, op->tuples);
    for (uint32_t t = 0; t < op->tuples; t++) {
        bp_extent extents[BP_OPERANDS_MAX];
        info->extents(graph->scalars + op->scalar + t * info->scalar_count, extents);
        for (uint32_t i = 0; i < info->operand_count; i++) {
            const bp_ref ref = graph->refs[op->operand + t * info->operand_count + i];
            if (info->operand[i].workspace) {
                continue;
            }
            mix(&hash, bp_ref_present(ref) ? 1 + (uint64_t)ref.dtype : 0);
            mix(&hash, extents[i].rows);
            mix(&hash, extents[i].width);
            mix(&hash, extents[i].pitch);
        }
    }
    return hash;
}

/* What all stages share is made once in a program, and the losses are summed once in a group, as
 * rows of a gradient that no position has are cleared once; no trial is charged for the first, and
 * the others are left out of the comparison. */
static bool counts(const bp_graph *graph, const bp_op *op)
{
    const uint32_t written = graph->refs[op->operand].buffer;
    return op->kernel != BP_KERNEL_rotary_table && op->kernel != BP_KERNEL_relative_bias &&
           op->kernel != BP_KERNEL_loss_sum &&
           (op->kernel != BP_KERNEL_state_begin ||
            graph->buffers[written].class_of != BP_CLASS_GRADIENTS);
}

static void note_trial(void *user, const bp_measured *trial)
{
    comparison *to = user;
    assert_true(trial->stage < STAGES);
    bare_fixture_ops *ops =
        &to->measured[trial->kind][trial->stage][place_of(trial->stage, trial->variant)];
    ops->count = 0;
    for (uint32_t i = trial->first; i < trial->last; i++) {
        const bp_op *op = &trial->graph->ops[i];
        assert_int_not_equal(op->kernel, BP_KERNEL_rotary_table);
        if (counts(trial->graph, op)) {
            assert_true(ops->count < OPS);
            ops->shape[ops->count++] = shape_of(trial->graph, op);
        }
    }
}

static void measure_into(const bp_spec *spec, bp_chain_stage stages[STAGES], bp_measure_watch watch)
{
    const bp_rates rates = BP_RATES_DEFAULT;
    uint64_t bytes = bp_measure_scratch(spec);
    void *memory = malloc((size_t)bytes);
    bp_arena arena;
    bp_error error = {0};
    assert_non_null(memory);
    assert_true(spec->model->stages(&spec->config) <= STAGES);
    bp_arena_init(&arena, memory, (size_t)bytes);
    assert_int_equal(bp_measure_count(spec, &arena, stages, &bytes, &error), BP_OK);
    free(memory);
    memory = malloc((size_t)bytes);
    assert_non_null(memory);
    bp_arena_init(&arena, memory, (size_t)bytes);
    memset(stages, 0xff, STAGES * sizeof *stages); /* of what was there nothing stays */
    if (bp_measure_each(spec, &rates, &arena, stages, watch, &found, &error) != BP_OK) {
        fail_msg("%s: %s %s", found.name, error.text, error.name);
    }
    assert_int_equal(stages[0].input, 0);
    free(memory);
}

static void measure(const bp_spec *spec)
{
    static bp_chain_stage stages[STAGES];
    memset(found.measured, 0, sizeof found.measured);
    memset(found.sets, 0, sizeof found.sets);
    measure_into(spec, stages, note_trial);
}

/* How often an action's ops come one after the other: backward goes through all micro-batches of a
 * program at once, forward and AdamA through one after the other. */
static uint32_t repeats(const bp_plan *plan, const bp_action *action)
{
    const bool one = plan->spec.gradient_release == BP_RELEASE_ADAMA;
    return action->kind == BP_ACTION_FORWARD || one ? 1 : plan->compile.micros;
}

/* The ops of one action from `first` on: those of its trial, as often as they come, then, behind a
 * backward, what gradient release and sums in 8 bits add. Returns where the next action begins. */
static uint32_t compare_action(const bp_plan *plan, uint32_t first, uint32_t end)
{
    const bp_graph *graph = &plan->graph;
    const uint32_t index = graph->ops[first].action;
    const bp_action *action = &plan->compile.actions[index];
    const uint32_t place = place_of(action->stage, action->variant);
    const bare_fixture_ops *ops = &found.measured[action->kind][action->stage][place];
    const uint32_t wanted = repeats(plan, action) * ops->count;
    uint32_t next = first;
    assert_int_equal(graph->ops[first].stage, action->stage);
    if (wanted == 0 && action->kind == BP_ACTION_FORWARD) {
        fail_msg("%s: forward of stage %u was not measured", found.name, action->stage);
    }
    for (uint32_t i = 0; i < wanted; next++) {
        const bool ours = next < end && graph->ops[next].action == index;
        const bool equal =
            ours && (!counts(graph, &graph->ops[next]) ||
                     shape_of(graph, &graph->ops[next]) == ops->shape[i % ops->count]);
        if (!equal) {
            fail_msg("%s: %s of stage %u, variant %u: op %u of %u is %s", found.name,
                     action->kind == BP_ACTION_FORWARD ? "forward" : "backward", action->stage,
                     action->variant, i, ops->count,
                     ours ? bp_kernel_describe(graph->ops[next].kernel)->name : "not there");
        }
        i += counts(graph, &graph->ops[next]) ? 1 : 0;
    }
    const bool more = plan->spec.gradient_release != BP_RELEASE_NONE || plan->spec.gradient_int8;
    while (action->kind == BP_ACTION_BACKWARD && next < end && graph->ops[next].action == index) {
        assert_true(more || !counts(graph, &graph->ops[next]));
        next++;
    }
    found.compared++;
    found.in_sets += place >= BP_TAPE_VARIANTS ? 1 : 0;
    return next;
}

static void compare_program(const bp_plan *plan, bp_program_kind program)
{
    const bp_graph *graph = &plan->graph;
    const uint32_t end = graph->program_first[program] + graph->program_count[program];
    uint32_t shared = 0;
    uint32_t next = graph->program_first[program];
    for (uint32_t i = next; i < end; i++) {
        shared += graph->ops[i].kernel == BP_KERNEL_rotary_table ? 1 : 0;
    }
    /* One for each kind of layers. */
    assert_true(shared <= (plan->spec.model == &bp_model_modernbert ? 2 : 1));
    while (next < end && graph->ops[next].action != UINT32_MAX) {
        next = compare_action(plan, next, end);
    }
}

/* Returns the lowest stage that is trained. */
static uint32_t compare_policy(bp_spec spec, bp_policy policy)
{
    static bp_plan plan;
    spec.policy = policy;
    const uint64_t bytes = plan_bytes(&spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    if (bp_plan_make(&plan, &spec, memory, bytes) != BP_OK) {
        fail_msg("%s: %s %s", found.name, plan.error.text, plan.error.name);
    }
    for (uint32_t p = BP_PROGRAM_STEP; p <= BP_PROGRAM_MICRO_NEXT; p++) {
        if (plan.graph.program_count[p] > 0) {
            compare_program(&plan, (bp_program_kind)p);
        }
    }
    free(memory);
    return plan.compile.first;
}

/* A schedule in which every stage keeps its set number `index`, where it has so many. */
static void compare_sets(const bp_spec *spec, uint32_t first, uint32_t index)
{
    bp_action actions[2 * STAGES];
    const uint32_t count = spec->model->stages(&spec->config) - first;
    uint32_t used = 0;
    for (uint32_t a = 0; a + 1 < 2 * count; a++) {
        const bool forward = a + 1 < count;
        const uint32_t s = forward ? a : 2 * count - 2 - a;
        const uint32_t stage = first + s;
        const bool has = index < found.sets[stage];
        const uint32_t nothing = spec->model->variants(&spec->config, stage) - 1;
        actions[used++] = (bp_action){.kind = forward ? BP_ACTION_FORWARD : BP_ACTION_BACKWARD,
                                      .stage = s,
                                      .variant = has ? found.set[stage][index] : nothing};
    }
    (void)compare_policy(
        *spec, (bp_policy){.kind = BP_POLICY_ACTIONS, .actions = actions, .action_count = used});
}

/* verifies compile-15.03c7 */
static void test_trials_are_the_programs_ops(void **state)
{
    (void)state;
    uint32_t cases = 0;
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        bp_spec spec;
        if (!spec_case(i, &spec, found.name) || spec.optimizer == NULL) {
            continue;
        }
        measure(&spec);
        const uint32_t every = long_or(1, 3); /* which kinds are computed again, by turns */
        for (uint32_t bits = i % every; bits <= BP_RECOMPUTE_ALL; bits += every) {
            (void)compare_policy(spec, (bp_policy){.kind = BP_POLICY_SELECTIVE, .recompute = bits});
        }
        const uint32_t first = compare_policy(spec, (bp_policy){.kind = BP_POLICY_FULL});
        for (uint32_t k = 0; k < BP_CHAIN_VARIANTS; k += 5) {
            compare_sets(&spec, first, k);
        }
        cases++;
    }
    print_message("%u cases, %llu actions, %llu of kept sets\n", cases,
                  (unsigned long long)found.compared, (unsigned long long)found.in_sets);
    assert_true(cases >= 120 && found.in_sets >= 1000);
}

/* Two declared inputs make other stages: the lengths of a first stage's chain differ. */
/* verifies compile-15.03c7 */
static void test_pairs_are_measured(void **state)
{
    (void)state;
    uint32_t ops[2] = {0, 0};
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        bp_spec spec;
        if (!spec_case(i, &spec, found.name)) {
            continue;
        }
        const bool without = strcmp(found.name, "bert classes") == 0;
        if (without || strcmp(found.name, "bert classes-pairs") == 0) {
            measure(&spec);
            ops[without ? 0 : 1] = found.measured[BP_ACTION_FORWARD][0][0].count;
        }
    }
    assert_true(ops[0] > 0 && ops[1] > ops[0]);
}

/* Gradients below the arena are no bytes of it that a stage leaves for the update. */
/* verifies compile-15.03c7 */
static void test_offloaded_gradients_take_nothing(void **state)
{
    (void)state;
    uint64_t left[2];
    for (uint32_t below = 0; below < 2; below++) {
        static bp_chain_stage stages[STAGES];
        bp_spec spec = model_fixture_spec();
        SET_FAMILY(&spec.config, bp_transformer, width, 64);
        spec.config.vocabulary = 80;
        spec.accumulation = 1;
        spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL, .ahead = 1};
        spec.offload.gradients = below != 0 ? BP_OFFLOAD_ALL : 0;
        snprintf(found.name, sizeof found.name, "gradients below");
        measure_into(&spec, stages, NULL);
        left[below] = stages[1].gradients;
    }
    assert_true(left[1] < left[0] / 10); /* small tensors stay in the arena */
}

/* A group of two micro-batches keeps its gradients as one of three does, and one of one does not.
 */
/* verifies compile-15.03c7 */
static void test_groups_keep_their_gradients(void **state)
{
    (void)state;
    static bp_chain_stage stages[3][STAGES];
    for (uint32_t i = 0; i < 3; i++) {
        bp_spec spec = model_fixture_spec();
        spec.accumulation = i + 1;
        snprintf(found.name, sizeof found.name, "groups");
        memset(stages[i], 0, sizeof stages[i]);
        measure_into(&spec, stages[i], NULL);
    }
    assert_int_equal(stages[1][1].gradients, stages[2][1].gradients);
    assert_int_equal(stages[1][1].variant[0].backward_peak, stages[2][1].variant[0].backward_peak);
    assert_true(stages[0][1].gradients > stages[1][1].gradients);
}

/* A ref of zeros is absent, and so is everything of a new emitter. */
static void test_zeros_are_absent(void **state)
{
    (void)state;
    const bp_spec spec = {.batch = 3, .sequence = 5};
    bp_ref ref;
    bp_builder builder;
    memset(&ref, 0, sizeof ref);
    memset(&builder, 0xa5, sizeof builder);
    assert_false(bp_ref_present(ref));
    assert_false(bp_ref_present(BP_ABSENT));
    bp_build_init(&builder, NULL, &spec, NULL, 0);
    assert_int_equal(builder.rows, 15);
    const bp_ref refs[] = {builder.step,    builder.shared,       builder.result,
                           builder.control, builder.norm_history, builder.losses,
                           builder.logits,  builder.logits_kept,  builder.norms};
    for (size_t i = 0; i < sizeof refs / sizeof refs[0]; i++) {
        assert_false(bp_ref_present(refs[i]));
    }
    for (size_t i = 0; i < BP_INPUT_KINDS; i++) {
        assert_false(bp_ref_present(builder.input[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trials_are_the_programs_ops),
        cmocka_unit_test(test_pairs_are_measured),
        cmocka_unit_test(test_offloaded_gradients_take_nothing),
        cmocka_unit_test(test_groups_keep_their_gradients),
        cmocka_unit_test(test_zeros_are_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
