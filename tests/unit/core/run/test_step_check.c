/* SPDX-License-Identifier: MIT */
/* Steps that are judged before their update: in two parts they give the bits of whole ones, a
 * skipped one leaves weights and moments alone, and what a defective device computed once is found.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/random.h"
#include "core/run/run_private.h"
#include "device/host/host.h"
#include "tests/fixtures/flip.h"
#include "tests/fixtures/model_fixture.h"

enum { TOKENS = 400, STEPS = 4, TRIALS = 150 };

static int32_t tokens[TOKENS];

/* What a test's judge does, and what it was told. */
typedef struct bench {
    uint64_t skip; /* this step; 0: none */
    bool back;     /* after it */
    uint64_t clip;
    bool twice;
    uint32_t equal, transient, persistent, doubt;
    bp_recompute_found found;
    bp_outcome seen;
} bench;

static bool bench_again(void *user, const bp_outcome *seen)
{
    (void)seen;
    return ((bench *)user)->twice;
}

static void bench_found(void *user, const bp_outcome *seen, const bp_recompute_found *found)
{
    bench *b = user;
    const bp_recompute result = found->result;
    b->seen = *seen;
    b->found = *found;
    b->persistent += result == BP_RECOMPUTED_PERSISTENT ? 1 : 0;
    b->equal += result == BP_RECOMPUTED_EQUAL ? 1 : 0;
    b->transient += result == BP_RECOMPUTED_TRANSIENT ? 1 : 0;
    b->doubt += result == BP_RECOMPUTED_MISMATCH ? 1 : 0;
}

static bp_step_verdict bench_decide(void *user, const bp_outcome *seen, double *factor)
{
    const bench *b = user;
    *factor = 0.5;
    return seen->step == b->skip   ? (b->back ? BP_STEP_BACK : BP_STEP_SKIP)
           : seen->step == b->clip ? BP_STEP_CLIP
                                   : BP_STEP_APPLY;
}

static bp_step_check judge_of(bench *b)
{
    return (bp_step_check){b, bench_again, bench_found, bench_decide, NULL};
}

static void open_model_fixture(model_fixture *r, const bp_spec *spec)
{
    for (uint32_t i = 0; i < TOKENS; i++) {
        uint32_t words[4];
        bp_philox((const uint32_t[4]){i, 0, 0, 0}, 3, words);
        tokens[i] = (int32_t)(words[0] % 37);
    }
    flip_now = (flip){
        .runtime = &r->runtime, .device = flip_now.device, .at = UINT64_MAX, .sick_op = UINT32_MAX};
    model_fixture_open(r, spec, tokens, TOKENS);
}

static uint64_t digest_of(const bp_spec *spec, bench *b)
{
    model_fixture r;
    open_model_fixture(&r, spec);
    const bp_step_check judge = b != NULL ? judge_of(b) : (bp_step_check){.user = NULL};
    assert_int_equal(bp_runtime_step_check(&r.runtime, b != NULL ? &judge : NULL), BP_OK);
    for (uint32_t i = 0; i < STEPS; i++) {
        (void)model_fixture_step(&r);
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* Shapes of a step: one micro-batch, several, released gradients, lanes; clipping by norm and
 * percentile, loss scaling. */
enum { VARIANTS = 7 };

static bp_spec variant_of(uint32_t which)
{
    bp_spec spec = model_fixture_spec();
    spec.optimizer_options.max_grad_norm = which > 0 ? 0.5 : 0.0;
    spec.accumulation = which == 1 || which == 3 ? 3 : which >= 5 ? 4 : 1;
    spec.virtual_ranks = which >= 5 ? 4 : 1;
    spec.gradient_release =
        which == 3 || which == 4 || which == 6 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
    spec.optimizer_options.percentile = which == 2 ? 90 : 0;
    return spec;
}

/* verifies run-16.b740 */
static void judged_steps_have_the_bits_of_whole_ones(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < VARIANTS; which++) {
        const bp_spec spec = variant_of(which);
        const uint64_t right = digest_of(&spec, NULL);
        bench once = {.skip = 0}, twice = {.twice = true}, moved = {.twice = true};
        bp_spec best = spec;
        best.device_options = (bp_device_options){.threads = 3};
        assert_true(digest_of(&best, &moved) == right); /* the second run by another form */
        assert_int_equal(moved.equal, STEPS);
        assert_true(digest_of(&spec, &once) == right);
        assert_true(digest_of(&spec, &twice) == right);
        assert_int_equal(twice.equal, STEPS);
        assert_int_equal(twice.transient + twice.doubt, 0);
        bench clips = {.clip = 3};
        assert_true(digest_of(&spec, &clips) != right);
    }
}

/* Weights, moments and history after a skipped step are those before it, but for the skip flag. */
/* verifies run-16.b740 */
static void a_skipped_step_changes_nothing(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < VARIANTS; which++) {
        const bp_spec spec = variant_of(which);
        model_fixture r;
        open_model_fixture(&r, &spec);
        bench b = {.skip = 3, .back = which % 2 == 1};
        const bp_step_check judge = judge_of(&b);
        assert_int_equal(bp_runtime_step_check(&r.runtime, &judge), BP_OK);
        (void)model_fixture_step(&r);
        (void)model_fixture_step(&r);
        const uint64_t before = model_fixture_digest(&r);
        bp_outcome outcome = model_fixture_step(&r);
        assert_int_equal(outcome.verdict, which % 2 == 0 ? BP_STEP_SKIP : BP_STEP_BACK);
        const uint32_t control = model_fixture_find(&r, "control");
        bp_control_block *block = model_fixture_read(&r, control);
        assert_int_equal(block->skip, 1);
        assert_int_equal(block->applied, 2);
        block->skip = 0;
        model_fixture_write(&r, control, block);
        free(block);
        assert_true(model_fixture_digest(&r) == before);
        outcome = model_fixture_step(&r);
        assert_int_equal(outcome.verdict, BP_STEP_APPLY);
        assert_true(model_fixture_digest(&r) != before);
        model_fixture_close(&r);
    }
}

/* verifies run-36.a7c0 */
static void plans_without_the_place_are_refused(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    spec.gradient_release = BP_RELEASE_EXACT; /* nothing asks for the norm: updates come at once */
    model_fixture r;
    open_model_fixture(&r, &spec);
    bench b = {.skip = 0};
    const bp_step_check judge = judge_of(&b);
    assert_int_equal(bp_runtime_step_check(&r.runtime, &judge), BP_ERR_USAGE);
    model_fixture_close(&r);
    static const bp_release early[] = {BP_RELEASE_PREVIOUS_NORM, BP_RELEASE_ADAMA};
    for (size_t i = 0; i < 2; i++) {
        spec = model_fixture_spec();
        spec.gradient_release = early[i];
        spec.optimizer_options.max_grad_norm = i == 0 ? 0.5 : 0.0;
        open_model_fixture(&r, &spec);
        assert_int_equal(bp_runtime_step_check(&r.runtime, NULL), BP_OK);
        assert_int_equal(bp_runtime_step_check(&r.runtime, &judge), BP_ERR_USAGE);
        assert_string_equal(r.runtime.error.name, "--gradient-release");
        model_fixture_close(&r);
    }
}

/* Ops of a program by hand: what begins and is not over keeps a step from being decided in two
 * parts, unless the host does it. */
/* verifies run-36.a7c0 */
static void programs_with_work_under_way_have_no_place(void **state)
{
    (void)state;
    const uint64_t near = bp_address(BP_SPACE_DEVICE, 64),
                   offload = bp_address(BP_SPACE_OFFLOAD, 64);
    const uint32_t nothing = UINT32_MAX;
    const struct {
        struct {
            bp_kernel kernel;
            bool to, from; /* below */
        } op[4];
        uint32_t count, found;
    } cases[] = {
        {{{BP_KERNEL_copy, false, false}, {BP_KERNEL_step_decide, false, false}}, 2, 1},
        {{{BP_KERNEL_copy, false, false}}, 1, nothing},
        {{{BP_KERNEL_step_decide, false, false}, {BP_KERNEL_step_decide, false, false}},
         2,
         nothing},
        {{{BP_KERNEL_copy_begin, false, true},
          {BP_KERNEL_copy_wait, false, true},
          {BP_KERNEL_step_decide, false, false}},
         3,
         2},
        {{{BP_KERNEL_copy_begin, true, false},
          {BP_KERNEL_copy_wait, true, false},
          {BP_KERNEL_step_decide, false, false}},
         3,
         2},
        {{{BP_KERNEL_copy_begin, false, false},
          {BP_KERNEL_copy_wait, false, false},
          {BP_KERNEL_step_decide, false, false}},
         3,
         nothing},
        {{{BP_KERNEL_all_gather_begin, false, false},
          {BP_KERNEL_fabric_wait, false, false},
          {BP_KERNEL_step_decide, false, false}},
         3,
         2},
        {{{BP_KERNEL_all_gather_begin, false, false},
          {BP_KERNEL_step_decide, false, false},
          {BP_KERNEL_fabric_wait, false, false}},
         3,
         nothing},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t offsets[4][2];
        bp_linked_op ops[4] = {{.tuples = 1}};
        for (uint32_t k = 0; k < cases[i].count; k++) {
            offsets[k][0] = cases[i].op[k].to ? offload : near;
            offsets[k][1] = cases[i].op[k].from ? offload : near;
            ops[k] =
                (bp_linked_op){.kernel = cases[i].op[k].kernel, .tuples = 1, .offsets = offsets[k]};
        }
        const bp_linked_program program = {.ops = ops, .count = cases[i].count};
        if (step_check_find(&program) != cases[i].found) {
            fail_msg("case %zu: %u", i, step_check_find(&program));
        }
    }
}

/* What is frozen has no gradient to be compared; a device without sums of its own is read. */
/* verifies run-16.b740 */
static void frozen_weights_and_devices_without_sums(void **state)
{
    (void)state;
    static const bp_parameter_rule frozen[] = {{.glob = "*wte*", .kind = BP_RULE_FREEZE}};
    bp_device plain = bp_device_host;
    plain.word_sum = NULL;
    for (int i = 0; i < 2; i++) {
        bp_spec spec = variant_of(0);
        spec.rules = frozen;
        spec.rule_count = i == 0 ? 1 : 0;
        const uint64_t right = digest_of(&spec, NULL);
        bench twice = {.twice = true};
        spec.device = i == 0 ? spec.device : &plain;
        assert_true(digest_of(&spec, &twice) == right);
        assert_int_equal(twice.equal, STEPS);
    }
}

/* A step that moves what it reads, as norms over a batch do, cannot be computed again. */
/* verifies run-36.a7c0 */
static void a_step_that_moves_what_it_reads_runs_once(void **state)
{
    (void)state;
    const bp_spec spec = variant_of(0);
    model_fixture r;
    open_model_fixture(&r, &spec);
    bench b = {.twice = true};
    const bp_step_check judge = judge_of(&b);
    assert_int_equal(bp_runtime_step_check(&r.runtime, &judge), BP_OK);
    (void)model_fixture_step(&r);
    assert_int_equal(b.equal, 1);
    r.plan.builder.moves = true;
    (void)model_fixture_step(&r);
    assert_int_equal(b.equal, 1);
    model_fixture_close(&r);
}

/* A step that is not finite is told as one if it is taken, and not if it is skipped. */
/* verifies run-16.b740 */
static void steps_that_are_not_finite(void **state)
{
    (void)state;
    for (uint64_t skip = 0; skip < 2; skip++) {
        const bp_spec spec = variant_of(1);
        model_fixture r;
        open_model_fixture(&r, &spec);
        bench b = {.skip = skip};
        const bp_step_check judge = judge_of(&b);
        assert_int_equal(bp_runtime_step_check(&r.runtime, &judge), BP_OK);
        const uint32_t weight = r.plan.builder.parameters[0].weight;
        float *values = model_fixture_read(&r, weight);
        for (uint64_t i = 0; i < r.plan.builder.parameters[0].count; i++) {
            values[i] = NAN;
        }
        model_fixture_write(&r, weight, values);
        free(values);
        const bp_outcome outcome = model_fixture_step(&r);
        assert_int_equal(outcome.verdict, skip != 0 ? BP_STEP_SKIP : BP_STEP_APPLY);
        assert_true(outcome.nonfinite == (skip == 0));
        assert_false(outcome.skipped);
        model_fixture_close(&r);
    }
}

/* One bit of one output of a random op of a random step, once. A step that is computed twice finds
 * every one that changes what is learned. BP_FLIP_TRIALS=10000 is the long form. */
/* verifies run-17.720a */
static void a_flipped_bit_is_found(void **state)
{
    (void)state;
    const char *asked = getenv("BP_FLIP_TRIALS");
    const uint32_t trials = asked != NULL ? (uint32_t)strtoul(asked, NULL, 10) : TRIALS;
    const bp_device defective = flip_device();
    uint32_t found = 0, harmless = 0, missed = 0;
    for (uint32_t way = 0; way < 4; way++) {
        const uint32_t which = way % 2;
        bp_spec spec = variant_of(which);
        const uint64_t right = digest_of(&spec, NULL);
        spec.device = &defective;
        if (way >= 2) { /* the best form and more workers, so that the second run moves */
            spec.device_options = (bp_device_options){.threads = 3};
        }
        for (uint32_t trial = 0; trial < trials / 4; trial++) {
            model_fixture r;
            open_model_fixture(&r, &spec);
            bench b = {.twice = true};
            const bp_step_check judge = judge_of(&b);
            assert_int_equal(bp_runtime_step_check(&r.runtime, &judge), BP_OK);
            uint32_t random[4];
            bp_philox((const uint32_t[4]){trial, way, 0, 0}, 11, random);
            const uint32_t step = random[0] % STEPS;
            for (uint32_t i = 0; i < step; i++) {
                (void)model_fixture_step(&r);
            }
            /* In forward and backward of the first run: updates are not computed twice. */
            const bp_linked_program *head =
                &r.runtime.link.programs[which == 0 ? BP_PROGRAM_STEP : BP_PROGRAM_MICRO_FIRST];
            uint32_t ops = head->count;
            for (uint32_t i = 0; which == 0 && i < head->count; i++) {
                ops = head->ops[i].kernel == BP_KERNEL_step_decide ? i + 1 : ops;
            }
            flip_now.seed = trial;
            flip_now.at = flip_now.ran + random[1] % ops;
            for (uint32_t i = step; i < STEPS; i++) {
                (void)model_fixture_step(&r);
            }
            const bool same = model_fixture_digest(&r) == right;
            assert_int_equal(b.doubt, 0);
            found += b.transient;
            harmless += b.transient == 0 && same ? 1 : 0;
            if (!same) {
                missed++;
                print_message("missed: way %u, trial %u, %s\n", way, trial,
                              bp_kernel_describe(flip_now.kernel)->name);
            }
            model_fixture_close(&r);
        }
    }
    print_message("%u trials: %u found in the step, %u changed nothing, %u missed\n",
                  trials / 4 * 4, found, harmless, missed);
    assert_int_equal(missed, 0);
    assert_true(found > trials / 3);
}

/* An op that writes gradients, so that whatever it writes otherwise is seen. */
static uint32_t late_op(const model_fixture *r)
{
    const bp_linked_program *program = &r->runtime.link.programs[BP_PROGRAM_STEP];
    uint32_t found = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        found = program->ops[i].kernel == BP_KERNEL_layernorm_backward_parameters ? i : found;
    }
    return found;
}

/* What was found names things of a model_fixture that is gone by then. */
static char sick_tensor[64];
static char sick_kernels[64];

static void keep_name(char to[64], const char *name)
{
    const size_t length = name != NULL ? strnlen(name, 63) : 0;
    memcpy(to, name != NULL ? name : "", length);
    to[length] = '\0';
}

/* A step on a machine that is sick in the way that flip_now says. */
static bp_status sick_step(uint32_t threads, uint32_t sick, bool form, bench *b)
{
    const bp_device defective = flip_device();
    bp_spec spec = variant_of(0);
    spec.device = &defective;
    spec.device_options =
        (bp_device_options){.threads = threads}; /* the best form, which has others */
    model_fixture r;
    open_model_fixture(&r, &spec);
    *b = (bench){.twice = true};
    const bp_step_check judge = judge_of(b);
    assert_int_equal(bp_runtime_step_check(&r.runtime, &judge), BP_OK);
    (void)model_fixture_step(&r);
    assert_int_equal(b->equal, 1);
    flip_now.sick = sick;
    flip_now.sick_form = form;
    flip_now.threads = threads;
    flip_now.sick_op = late_op(&r);
    bp_outcome outcome;
    const bp_status status = bp_runtime_step(&r.runtime, &r.feed, &outcome);
    assert_int_equal(flip_now.move.count, 0); /* it is where it was opened again */
    assert_int_equal(flip_now.move.form, 0);
    keep_name(sick_tensor, b->found.tensor);
    keep_name(sick_kernels, b->found.kernels);
    model_fixture_close(&r);
    return status;
}

/* Which processor spoils what it computes is found by halving, although every run that all of them
 * take part in comes out in a way of its own; or by moving a single worker. */
/* verifies run-17.720a */
static void a_sick_processor_is_found(void **state)
{
    (void)state;
    bench b;
    for (uint32_t sick = 1; sick <= FLIP_PROCESSORS; sick++) {
        assert_int_equal(sick_step(FLIP_PROCESSORS, sick, false, &b), BP_ERR_DEVICE);
        assert_int_equal(b.persistent, 1);
        assert_int_equal(b.found.processors, 1);
        assert_int_equal(b.found.processor[0], sick - 1);
        assert_true(sick_tensor[0] != '\0');
    }
    assert_int_equal(sick_step(1, 1, false, &b), BP_ERR_DEVICE);
    assert_int_equal(b.persistent, 1);
    assert_int_equal(b.found.processors, 1);
    assert_int_equal(b.found.processor[0], 0);
    assert_int_equal(sick_step(3, 2, false, &b), BP_ERR_DEVICE);
    assert_int_equal(b.found.processors, 1);
    assert_int_equal(b.found.processor[0], 1);
}

/* Kernels that are wrong on every processor give the same wrong bits each time: two other forms
 * have the majority, and no half of the processors is well. */
/* verifies run-17.720a */
static void a_sick_form_is_found(void **state)
{
    (void)state;
    bench b;
    assert_int_equal(sick_step(FLIP_PROCESSORS, 0, true, &b), BP_ERR_DEVICE);
    assert_int_equal(b.persistent, 1);
    assert_true(b.found.processors > 1);
    assert_true(strncmp(sick_kernels, "host ", 5) == 0);
}

/* A device that computes wrongly all the time agrees with itself never: the step is not taken. */
/* verifies run-17.720a */
static void a_broken_device_is_in_doubt(void **state)
{
    (void)state;
    const bp_device defective = flip_device();
    bp_spec spec = variant_of(0);
    spec.device = &defective;
    model_fixture r;
    open_model_fixture(&r, &spec);
    bench b = {.twice = true};
    const bp_step_check judge = judge_of(&b);
    assert_int_equal(bp_runtime_step_check(&r.runtime, &judge), BP_OK);
    (void)model_fixture_step(&r);
    const uint64_t before = model_fixture_digest(&r);
    flip_now.at = flip_now.ran;
    flip_now.every = 1;
    bp_outcome outcome;
    assert_int_equal(bp_runtime_step(&r.runtime, &r.feed, &outcome), BP_ERR_DEVICE);
    assert_int_equal(b.doubt, 1);
    assert_int_equal(bp_runtime_steps(&r.runtime), 1);
    (void)before;
    model_fixture_close(&r);
}

static bp_status any_alone(void *user, bool mine, bool *holds)
{
    *holds = mine;
    return ((const bench *)user)->clip == UINT64_MAX ? BP_ERR_DEVICE : BP_OK;
}

/* With others it is the third run that decides, whichever of the two before it agrees; and what the
 * others cannot be asked is an error. */
/* verifies run-17.720a */
static void ranks_vote_together(void **state)
{
    (void)state;
    static const bp_recompute results[] = {BP_RECOMPUTED_TRANSIENT, BP_RECOMPUTED_TRANSIENT,
                                           BP_RECOMPUTED_MISMATCH, BP_RECOMPUTED_EQUAL};
    const bp_device defective = flip_device();
    for (uint32_t which = 0; which < 5; which++) {
        static const bp_parameter_rule frozen[] = {{.glob = "*wpe*", .kind = BP_RULE_FREEZE}};
        bp_spec spec = variant_of(0);
        spec.device = &defective;
        spec.rules = frozen; /* which no run can have otherwise */
        spec.rule_count = 1;
        model_fixture r;
        open_model_fixture(&r, &spec);
        bench b = {.twice = true};
        bp_step_check judge = judge_of(&b);
        judge.any = any_alone;
        assert_int_equal(bp_runtime_step_check(&r.runtime, &judge), BP_OK);
        (void)model_fixture_step(&r);
        const uint64_t ops = step_check_find(&r.runtime.link.programs[BP_PROGRAM_STEP]) + 1;
        /* a gradient in the first run, in the second, in every one, in none */
        flip_now.at = flip_now.ran + late_op(&r) + (which == 1 ? ops : 0);
        flip_now.every = which == 2 ? 1 : 0;
        flip_now.at = which >= 3 ? UINT64_MAX : flip_now.at;
        b.clip = which == 4 ? UINT64_MAX : 0;
        bp_outcome outcome;
        const bp_status status = bp_runtime_step(&r.runtime, &r.feed, &outcome);
        assert_int_equal(status, which == 2 || which == 4 ? BP_ERR_DEVICE : BP_OK);
        if (which < 4) {
            assert_int_equal(b.found.result, results[which]);
            assert_true((b.found.tensor[0] != '\0') == (which < 3));
        }
        model_fixture_close(&r);
    }
}

static uint32_t one_processor(const void *context, uint16_t *to, uint32_t most)
{
    (void)context;
    (void)most;
    to[0] = 0;
    return 1;
}

/* Where there is one processor no part of the processors can be asked for a vote. */
/* verifies run-17.720a */
static void one_processor_alone_is_in_doubt(void **state)
{
    (void)state;
    bp_device defective = flip_device();
    defective.processors = one_processor;
    bp_spec spec = variant_of(0);
    spec.device = &defective;
    model_fixture r;
    open_model_fixture(&r, &spec);
    bench b = {.twice = true};
    const bp_step_check judge = judge_of(&b);
    assert_int_equal(bp_runtime_step_check(&r.runtime, &judge), BP_OK);
    (void)model_fixture_step(&r);
    flip_now.at = flip_now.ran;
    flip_now.every = 1;
    bp_outcome outcome;
    assert_int_equal(bp_runtime_step(&r.runtime, &r.feed, &outcome), BP_ERR_DEVICE);
    assert_int_equal(b.doubt, 1);
    model_fixture_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judged_steps_have_the_bits_of_whole_ones),
        cmocka_unit_test(a_skipped_step_changes_nothing),
        cmocka_unit_test(plans_without_the_place_are_refused),
        cmocka_unit_test(a_flipped_bit_is_found),
        cmocka_unit_test(a_sick_processor_is_found),
        cmocka_unit_test(a_sick_form_is_found),
        cmocka_unit_test(a_broken_device_is_in_doubt),
        cmocka_unit_test(programs_with_work_under_way_have_no_place),
        cmocka_unit_test(frozen_weights_and_devices_without_sums),
        cmocka_unit_test(a_step_that_moves_what_it_reads_runs_once),
        cmocka_unit_test(steps_that_are_not_finite),
        cmocka_unit_test(ranks_vote_together),
        cmocka_unit_test(one_processor_alone_is_in_doubt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
