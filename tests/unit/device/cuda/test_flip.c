/* SPDX-License-Identifier: MIT */
/* A GPU on which one bit of one output of one op of forward and backward falls over: a step that is
 * computed again finds it, and goes on with the bits of one that met nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/digest.h"
#include "core/base/random.h"
#include "device/cuda/cuda.h"
#include "tests/fixtures/flip.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/share.h"

enum { TOKENS = 200, TRIALS = 12 };

static instrument on;
static int32_t tokens[TOKENS];

typedef struct bench {
    uint32_t equal, transient, other;
} bench;

static bool bench_again(void *user, const bp_outcome *seen)
{
    (void)user;
    (void)seen;
    return true;
}

static void bench_found(void *user, const bp_outcome *seen, const bp_recompute_found *found)
{
    bench *b = user;
    (void)seen;
    b->equal += found->result == BP_RECOMPUTED_EQUAL ? 1 : 0;
    b->transient += found->result == BP_RECOMPUTED_TRANSIENT ? 1 : 0;
    b->other += found->result > BP_RECOMPUTED_TRANSIENT ? 1 : 0;
}

static bp_step_verdict bench_decide(void *user, const bp_outcome *seen, double *factor)
{
    (void)user;
    (void)seen;
    *factor = 1.0;
    return BP_STEP_APPLY;
}

/* Copies of all persistent buffers, to begin every trial with the same state. */
static void **keep_state(model_fixture *r)
{
    void **copies = calloc(r->runtime.state_count, sizeof *copies);
    assert_non_null(copies);
    for (uint32_t i = 0; i < r->runtime.state_count; i++) {
        copies[i] = model_fixture_read(r, r->runtime.state[i]);
    }
    return copies;
}

static void put_state(model_fixture *r, void **copies)
{
    for (uint32_t i = 0; i < r->runtime.state_count; i++) {
        model_fixture_write(r, r->runtime.state[i], copies[i]);
    }
    bp_runtime_continue(&r->runtime, 0);
}

static void free_state(const model_fixture *r, void **copies)
{
    for (uint32_t i = 0; i < r->runtime.state_count; i++) {
        free(copies[i]);
    }
    free(copies);
}

/* Ops up to the one that decides the step. */
static uint32_t ops_before_update(const model_fixture *r)
{
    const bp_linked_program *program = &r->runtime.link.programs[BP_PROGRAM_STEP];
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        count = program->ops[i].kernel == BP_KERNEL_step_decide ? i + 1 : count;
    }
    return count;
}

/* BP_FLIP_TRIALS=500 is the long form. */
/* verifies run-17.720a */
static void a_flipped_bit_is_found(void **state)
{
    (void)state;
    const char *asked = getenv("BP_FLIP_TRIALS");
    const uint32_t trials = asked != NULL ? (uint32_t)strtoul(asked, NULL, 10) : TRIALS;
    const bp_device defective = flip_device_of(&bp_device_cuda);
    bp_spec spec = model_fixture_spec();
    spec.device = &defective;
    spec.device_options = (bp_device_options){.threads = 1};
    spec.optimizer_options.max_grad_norm = 0.5;
    model_fixture r;
    flip_now = (flip){
        .runtime = &r.runtime, .device = &bp_device_cuda, .at = UINT64_MAX, .sick_op = UINT32_MAX};
    model_fixture_open(&r, &spec, tokens, TOKENS);
    bench b = {.equal = 0};
    const bp_step_check judge = {&b, bench_again, bench_found, bench_decide, NULL};
    assert_int_equal(bp_runtime_step_check(&r.runtime, &judge), BP_OK);
    void **first = keep_state(&r);
    (void)model_fixture_step(&r);
    const uint64_t right = model_fixture_digest(&r);
    assert_int_equal(b.equal, 1);
    uint32_t found = 0, harmless = 0;
    for (uint32_t trial = 0; trial < trials; trial++) {
        uint32_t random[4];
        put_state(&r, first);
        b = (bench){.equal = 0};
        bp_philox((const uint32_t[4]){trial, 0, 0, 0}, 17, random);
        flip_now.seed = trial;
        flip_now.at = flip_now.ran + random[0] % ops_before_update(&r);
        (void)model_fixture_step(&r);
        if (model_fixture_digest(&r) != right) {
            print_message("missed: trial %u, %s\n", trial,
                          bp_kernel_describe(flip_now.kernel)->name);
        }
        assert_true(model_fixture_digest(&r) == right);
        assert_int_equal(b.other, 0);
        found += b.transient;
        harmless += b.equal;
    }
    print_message("%u trials: %u found in the step, %u changed nothing, none missed\n", trials,
                  found, harmless);
    assert_int_equal(found + harmless, trials);
    assert_true(found > trials / 3);
    free_state(&r, first);
    model_fixture_close(&r);
}

/* The device's sum over words is that of the bytes on the host, for any number of them; more than
 * one block has its part. */
/* verifies number-12.5283 */
static void words_are_summed_up_where_they_lie(void **state)
{
    (void)state;
    static unsigned char bytes[70003];
    static const uint64_t counts[] = {0, 1, 2, 3, 4, 5, 1023, 1024, 16384, 16389, 70003};
    bp_spec cuda = model_fixture_spec();
    model_fixture r;
    cuda.device = &bp_device_cuda;
    cuda.device_options = (bp_device_options){.threads = 1};
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 131 + i / 256);
    }
    model_fixture_open(&r, &cuda, tokens, TOKENS);
    assert_true(r.plan.report.arena_bytes > sizeof bytes + 256);
    assert_int_equal(bp_device_cuda.upload(r.runtime.device, 256, bytes, sizeof bytes), BP_OK);
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t sum = 1;
        const uint64_t from = i % 2 == 0 ? 0 : UINT64_C(1) << 33;
        assert_int_equal(bp_device_cuda.word_sum(r.runtime.device, 256, counts[i], from, &sum),
                         BP_OK);
        assert_true(sum == bp_word_sum(bytes, (size_t)counts[i], from));
    }
    uint64_t sum;
    assert_int_equal(
        bp_device_cuda.word_sum(r.runtime.device, r.plan.report.arena_bytes - 8, 16, 0, &sum),
        BP_ERR_USAGE);
    model_fixture_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_summed_up_where_they_lie),
        cmocka_unit_test(a_flipped_bit_is_found),
    };
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)(i * i % 37);
    }
    /* Races are looked for in every kernel by test_kernels.c and its like. */
    if (!long_form()) {
        (void)setenv("PTXVM_RACES", "0", 0);
    }
    if (!fake_driver_load(&on)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
