/* SPDX-License-Identifier: MIT */
/* The chain solver: against the binomial optimum on uniform chains, against exhaustive search on
 * small uneven ones, and its schedules played with every byte counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/search/chain.h"

#define STAGES_MAX  64
#define ACTIONS_MAX 4096

static bp_action actions[ACTIONS_MAX];
static uint32_t action_count;
static double seconds;

/* Actions name a stage's variants by numbers of their own. */
#define NUMBER(v) (70u + 3 * (v))

static void number_variants(bp_chain_stage *stage)
{
    for (uint32_t v = 0; v < stage->variants; v++) {
        stage->variant[v].number = NUMBER(v);
    }
}

/* The variant that an action means. */
static uint32_t variant_of(const bp_action *action)
{
    assert_int_equal(action->variant % 3, NUMBER(0) % 3);
    return (action->variant - NUMBER(0)) / 3;
}

static bp_status solve(const bp_chain_stage *stages, uint32_t count, uint64_t bytes)
{
    uint64_t size = bp_chain_scratch(count);
    void *scratch = malloc((size_t)size);
    assert_non_null(scratch);
    bp_status status = bp_chain_solve(stages, count, bytes, scratch, size, actions, ACTIONS_MAX,
                                      &action_count, &seconds);
    free(scratch);
    return status;
}

static uint64_t choose(uint64_t n, uint64_t k)
{
    uint64_t c = 1;
    for (uint64_t i = 1; i <= k; i++) {
        c = c * (n - k + i) / i;
    }
    return c;
}

/* Griewank and Walther, "Algorithm 799: Revolve" (2000): l = C(s + r, s) equal steps are reversed
 * from s checkpoints, the input among them, with r l - C(s + r, r - 1) forward steps. Their current
 * state is one of our boundaries, so s of those fit beside the input. */
/* verifies compile-3.6b2f */
static void test_uniform_chains_are_binomial(void **state)
{
    (void)state;
    bp_chain_stage stages[STAGES_MAX];
    for (uint32_t s = 1; s <= 5; s++) {
        for (uint32_t r = 1; choose(s + r, s) <= STAGES_MAX; r++) {
            uint32_t length = (uint32_t)choose(s + r, s);
            for (uint32_t i = 0; i < length; i++) {
                stages[i] = (bp_chain_stage){.input = 1000000, .variants = 2};
                stages[i].variant[0] = (bp_chain_variant){.forward = 1.0,
                                                          .tape = 1000000000,
                                                          .forward_peak = 1000000000,
                                                          .backward_peak = 1000000000};
                stages[i].variant[1] = (bp_chain_variant){.forward = 1.0};
                number_variants(&stages[i]);
            }
            assert_int_equal(solve(stages, length, 1000000 * (uint64_t)s + 500000), BP_OK);
            uint64_t expected = (uint64_t)r * length - choose(s + r, r - 1);
            assert_true(seconds == (double)expected);
        }
    }
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void random_chain(bp_chain_stage *stages, uint32_t count, uint32_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        bp_chain_stage *stage = &stages[i];
        *stage = (bp_chain_stage){.input = i > 0 ? 1 + next_random(&seed) % 8 : 0,
                                  .gradients = next_random(&seed) % 6,
                                  .variants = 1 + next_random(&seed) % 3};
        uint32_t tape = 12;
        for (uint32_t v = 0; v < stage->variants; v++) {
            bool nothing = v + 1 == stage->variants;
            tape = nothing ? 0 : 1 + next_random(&seed) % tape;
            stage->variant[v] = (bp_chain_variant){
                .forward = 1 + next_random(&seed) % 5,
                .backward = 1 + next_random(&seed) % 5,
                .tape = tape,
                .forward_peak = 8 + tape + next_random(&seed) % 4,
                .backward_peak = 8 + tape + stage->gradients + next_random(&seed) % 9};
        }
        number_variants(stage);
    }
    for (uint32_t i = 0; i + 1 < count; i++) {
        stages[i].d_output = stages[i + 1].input;
    }
}

#define NEVER 1e30

/* The least time by trying every persistent schedule, in bytes. Recursion over intervals. */
static double exhaustive(const bp_chain_stage *stages, uint32_t i, uint32_t l, int64_t memory)
{
    const bp_chain_stage *stage = &stages[i];
    uint32_t nothing = stage->variants - 1;
    double best = NEVER;
    if (i == l) {
        bool fits = (int64_t)stage->variant[nothing].backward_peak <= memory;
        return fits ? stage->variant[nothing].backward : NEVER;
    }
    int64_t later = 0;
    for (uint32_t g = i + 1; g <= l; g++) {
        later += (int64_t)stages[g].gradients;
    }
    for (uint32_t v = 0; v < (nothing > 0 ? nothing : 1); v++) {
        const bp_chain_variant *row = &stage->variant[v];
        int64_t held = (int64_t)(row->tape + stages[i + 1].input);
        bool fits = (int64_t)(row->forward_peak + stages[l].d_output) <= memory &&
                    (int64_t)row->backward_peak + later <= memory && held <= memory;
        if (fits) {
            double time =
                row->forward + row->backward + exhaustive(stages, i + 1, l, memory - held);
            best = time < best ? time : best;
        }
    }
    double forward = 0.0;
    for (uint32_t j = i + 1; j <= l; j++) {
        const bp_chain_stage *before = &stages[j - 1];
        const bp_chain_variant *row = &before->variant[before->variants - 1];
        uint64_t own = row->forward_peak + stages[l].d_output + (j - 1 > i ? before->input : 0);
        if ((int64_t)own > memory) {
            break;
        }
        forward += row->forward;
        int64_t gradients = 0;
        for (uint32_t g = j; g <= l; g++) {
            gradients += (int64_t)stages[g].gradients;
        }
        int64_t held = (int64_t)stages[j].input;
        if (held > memory || gradients > memory) {
            continue;
        }
        double time = forward + exhaustive(stages, j, l, memory - held) +
                      exhaustive(stages, i, j - 1, memory - gradients);
        best = time < best ? time : best;
    }
    return best;
}

/* Plays a schedule: what it holds at every action, and that each action finds what it reads.
 * Returns the most bytes at once; *time gets the sum of costs. */
static uint64_t play(const bp_chain_stage *stages, uint32_t count, double *time)
{
    bool tape[STAGES_MAX] = {false};
    uint32_t last_read[STAGES_MAX] = {0}; /* action that reads boundary s for the last time */
    uint32_t made[STAGES_MAX] = {0};
    uint64_t peak = 0;
    uint64_t gradients = 0;
    uint32_t next = count;
    *time = 0.0;
    for (uint32_t a = 0; a < action_count; a++) {
        last_read[actions[a].stage] = a;
    }
    for (uint32_t a = 0; a < action_count; a++) {
        const bp_action *action = &actions[a];
        const bp_chain_stage *stage = &stages[action->stage];
        const uint32_t variant = variant_of(action);
        const bp_chain_variant *row = &stage->variant[variant];
        bool backward = action->kind == BP_ACTION_BACKWARD;
        uint64_t held = gradients;
        for (uint32_t s = 0; s < count; s++) {
            bool others_tape = tape[s] && !(backward && s == action->stage);
            held += others_tape ? stages[s].variant[made[s]].tape : 0;
        }
        for (uint32_t s = 1; s < count; s++) {
            /* A boundary is there if something made it and something will read it before it is
             * made again. */
            bool there = false;
            for (uint32_t b = a; b < action_count && b <= last_read[s]; b++) {
                bool makes = actions[b].kind == BP_ACTION_FORWARD && actions[b].stage + 1 == s;
                if (actions[b].stage == s && !(makes && b == a)) {
                    there = true;
                    break;
                }
                if (makes) {
                    break;
                }
            }
            held += there ? stages[s].input : 0;
        }
        if (backward) {
            assert_int_equal(action->stage, next - 1);
            assert_true(tape[action->stage] || variant + 1 == stage->variants);
            held += row->backward_peak;
            *time += row->backward;
            gradients += stage->gradients;
            tape[action->stage] = false;
            next = action->stage;
        } else {
            held += row->forward_peak + (next < count ? stages[next - 1].d_output : 0);
            *time += row->forward;
            tape[action->stage] = variant + 1 < stage->variants;
            made[action->stage] = variant;
        }
        peak = held > peak ? held : peak;
    }
    assert_int_equal(next, 0);
    uint64_t room[2 * STAGES_MAX];
    assert_int_equal(bp_chain_peak(stages, count, actions, action_count, room), peak);
    return peak;
}

/* What no schedule undercuts: `best` where a size is a number of slots, and not above it where
 * slots cut bytes apart, which a unit of 4,999 bytes has them do. */
static void require_bound(const bp_chain_stage *stages, uint32_t count, uint64_t bytes, double best,
                          bool exact)
{
    const uint64_t unit = exact ? 1 : 4999;
    bp_chain_stage other[STAGES_MAX];
    double bound = 0.0;
    memcpy(other, stages, count * sizeof *stages);
    for (uint32_t i = 0; i < count; i++) {
        other[i].input *= unit;
        other[i].d_output *= unit;
        other[i].gradients *= unit;
        for (uint32_t v = 0; v < other[i].variants; v++) {
            other[i].variant[v].tape *= unit;
            other[i].variant[v].forward_peak *= unit;
            other[i].variant[v].backward_peak *= unit;
        }
    }
    const uint64_t size = bp_chain_scratch(count);
    void *scratch = malloc((size_t)size);
    assert_non_null(scratch);
    assert_int_equal(bp_chain_bound(other, count, bytes * unit, scratch, size, &bound), BP_OK);
    assert_true(bound <= best * (1.0 + 1e-6));
    assert_true(!exact || bound >= best * (1.0 - 1e-6));
    free(scratch);
}

/* verifies compile-3.6b2f */
static void test_uneven_chains_against_exhaustive_search(void **state)
{
    (void)state;
    bp_chain_stage stages[STAGES_MAX];
    uint32_t solved = 0;
    for (uint32_t seed = 1; seed <= 60; seed++) {
        uint32_t count = 1 + seed % 7;
        random_chain(stages, count, seed);
        for (uint64_t memory = 10; memory <= 130; memory += 7) {
            double best = exhaustive(stages, 0, count - 1, (int64_t)memory);
            bp_chain_stage scaled[STAGES_MAX];
            memcpy(scaled, stages, sizeof scaled);
            /* One byte is `unit` slots here, so nothing is lost by rounding. */
            uint64_t unit = bp_chain_slots(count) / memory;
            for (uint32_t i = 0; i < count; i++) {
                scaled[i].input *= unit;
                scaled[i].d_output *= unit;
                scaled[i].gradients *= unit;
                for (uint32_t v = 0; v < scaled[i].variants; v++) {
                    scaled[i].variant[v].tape *= unit;
                    scaled[i].variant[v].forward_peak *= unit;
                    scaled[i].variant[v].backward_peak *= unit;
                }
            }
            bp_status status = solve(scaled, count, bp_chain_slots(count));
            if (best >= NEVER) {
                /* unit * memory may leave a few slots over, never a whole unit */
                continue;
            }
            assert_int_equal(status, BP_OK);
            assert_true(seconds <= best);
            double time = 0.0;
            assert_true(play(scaled, count, &time) <= bp_chain_slots(count));
            assert_true(time == seconds);
            solved++;
            require_bound(scaled, count, memory * unit, best, true);
            require_bound(stages, count, memory, best, false);
        }
    }
    assert_true(solved > 300);
}

/* verifies compile-3.6b2f */
static void test_more_memory_is_never_slower(void **state)
{
    (void)state;
    bp_chain_stage stages[STAGES_MAX];
    random_chain(stages, 24, 77);
    double before = NEVER;
    uint32_t solved = 0;
    for (uint64_t memory = 20; memory < 500; memory += 20) {
        uint64_t bytes = memory * 1000;
        bp_chain_stage scaled[STAGES_MAX];
        memcpy(scaled, stages, sizeof scaled);
        for (uint32_t i = 0; i < 24; i++) {
            scaled[i].input *= 1000;
            scaled[i].d_output *= 1000;
            scaled[i].gradients *= 1000;
            for (uint32_t v = 0; v < scaled[i].variants; v++) {
                scaled[i].variant[v].tape *= 1000;
                scaled[i].variant[v].forward_peak *= 1000;
                scaled[i].variant[v].backward_peak *= 1000;
            }
        }
        if (solve(scaled, 24, bytes) == BP_OK) {
            double time = 0.0;
            assert_true(play(scaled, 24, &time) <= bytes);
            assert_true(seconds <= before + 1e-6);
            before = seconds;
            solved++;
        }
    }
    assert_true(solved > 5);
}

static void test_refusals(void **state)
{
    (void)state;
    bp_chain_stage stage = {.variants = 1};
    stage.variant[0].backward_peak = 100;
    assert_int_equal(solve(&stage, 1, 99), BP_ERR_FIT);
    assert_int_equal(solve(&stage, 1, 0), BP_ERR_FIT);
    assert_int_equal(solve(&stage, 1, 1 << 20), BP_OK);
    assert_int_equal(action_count, 1);
    char small[16];
    assert_int_equal(bp_chain_solve(&stage, 1, 1 << 20, small, sizeof small, actions, ACTIONS_MAX,
                                    &action_count, &seconds),
                     BP_ERR_FIT);
    assert_int_equal(bp_chain_solve(&stage, 0, 1 << 20, small, sizeof small, actions, ACTIONS_MAX,
                                    &action_count, &seconds),
                     BP_ERR_FIT);
    uint64_t size = bp_chain_scratch(1);
    void *scratch = malloc((size_t)size);
    assert_int_equal(
        bp_chain_solve(&stage, 1, 1 << 20, scratch, size, actions, 0, &action_count, &seconds),
        BP_ERR_FIT);
    free(scratch);
    assert_int_equal(bp_chain_slots(10), BP_CHAIN_SLOTS);
    assert_true(bp_chain_slots(258) > 100 && bp_chain_slots(258) < BP_CHAIN_SLOTS);
    assert_int_equal(bp_chain_slots(1 << 20), 1);
    assert_true(bp_chain_scratch(258) < 64u << 20);
}

/* A stage that takes longer than any schedule may has none. */
/* verifies compile-3.6b2f */
static void test_a_stage_that_never_ends(void **state)
{
    (void)state;
    bp_chain_stage stage = {.variants = 1, .variant = {{.backward = 1.0, .backward_peak = 64}}};
    const uint64_t bytes = bp_chain_scratch(1);
    void *memory = malloc((size_t)bytes);
    bp_action own[4];
    uint32_t count = 0;
    double took = 0.0;
    assert_non_null(memory);
    assert_int_equal(bp_chain_solve(&stage, 1, 1 << 20, memory, bytes, own, 4, &count, &took),
                     BP_OK);
    assert_int_equal(count, 1);
    stage.variant[0].backward = 3.3e38;
    assert_int_equal(bp_chain_solve(&stage, 1, 1 << 20, memory, bytes, own, 4, &count, &took),
                     BP_ERR_FIT);
    free(memory);
}

/* Micro-batches that go through a program at once keep what all of them keep: while one is computed
 * the outputs and tapes of the others are there. */
/* verifies compile-4.ecdd */
static void test_several_micro_batches(void **state)
{
    (void)state;
    for (uint64_t micros = 1; micros < 5; micros++) {
        bp_chain_stage stage = {.input = 7, .d_output = 11, .gradients = 13, .variants = 2};
        stage.variant[0] = (bp_chain_variant){.forward = 1.0,
                                              .backward = 2.0,
                                              .tape = 100,
                                              .forward_peak = 1000,
                                              .backward_peak = 500};
        stage.variant[1] = (bp_chain_variant){.tape = 0, .forward_peak = 900, .backward_peak = 800};
        bp_chain_widen(&stage, 50, micros);
        const uint64_t others = micros - 1;
        assert_int_equal(stage.input, 7 * micros);
        assert_int_equal(stage.d_output, 11 * micros);
        assert_int_equal(stage.gradients, 13);
        assert_int_equal(stage.variant[0].tape, 100 * micros);
        assert_int_equal(stage.variant[0].forward_peak, 1000 + others * (100 + 50));
        assert_int_equal(stage.variant[0].backward_peak, 500 + others * (100 + 11));
        assert_int_equal(stage.variant[1].tape, 0);
        assert_int_equal(stage.variant[1].forward_peak, 900 + others * 50);
        assert_int_equal(stage.variant[1].backward_peak, 800 + others * 11);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stage_that_never_ends),
        cmocka_unit_test(test_uniform_chains_are_binomial),
        cmocka_unit_test(test_uneven_chains_against_exhaustive_search),
        cmocka_unit_test(test_more_memory_is_never_slower),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_several_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
