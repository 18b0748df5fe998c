/* SPDX-License-Identifier: MIT */
/* Steps whose products and attention are checked have the bits of those that are not, also where a
 * bit turns over while they run; what computing again does not settle ends the run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/random.h"
#include "device/host/device_private.h"
#include "device/host/host.h"
#include "device/host/isa_table.h"
#include "device/host/matmul/matmul_check.h"
#include "tests/fixtures/model_fixture.h"

#if defined(__x86_64__)
#define FORM bp_matmul_isa_avx2
#define NAME "avx2"
#else
#define FORM bp_matmul_isa_neon
#define NAME "neon"
#endif

enum { TOKENS = 400, STEPS = 3, TRIALS = 40 };

static int32_t tokens[TOKENS];
static bp_checked checked;

/* Calls of the faulty kernel's leaf or of attention before the bit turns; below 0: it has. */
static int64_t tile_left, attention_left;
static int64_t tile_calls;
static bool attention_always;
static uint32_t bit, turned;
static bp_matmul_isa faulty;
static const bp_host_kernel *attention[BP_KERNEL_COUNT];

static void turn(void *at, uint32_t number)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    word ^= UINT32_C(1) << number;
    memcpy(at, &word, sizeof word);
    turned++;
}

static void tile(const bp_matmul_tile *t)
{
    FORM.tile(t);
    tile_calls++;
    if (tile_left-- == 0) {
        turn(t->to, bit);
    }
}

static uint64_t tasks(const void *scalars)
{
    return bp_matmul_tasks(scalars, &faulty);
}

static void run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    bp_matmul_run(&faulty, call, first, last, worker);
}

static const bp_host_kernel product = {tasks, run, NULL};

/* The first operand of both is what they write. */
static void attention_run(bp_kernel kernel, const bp_host_call *call, uint64_t first, uint64_t last,
                          uint32_t worker)
{
    attention[kernel]->run(call, first, last, worker);
    if (first == 0 && (attention_always || attention_left-- == 0)) {
        turn(*(void *const *)call->pointers, attention_always ? turned % 23 : bit);
    }
}

static void forward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    attention_run(BP_KERNEL_attention_forward, call, first, last, worker);
}

static void backward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    attention_run(BP_KERNEL_attention_backward, call, first, last, worker);
}

static bp_host_kernel forward, backward;

/* Puts the faulty kernels in the places of those that were linked. */
static void spoil(model_fixture *r)
{
    host_context *context = r->runtime.device;
    for (uint32_t p = 0; p < BP_PROGRAMS_MAX; p++) {
        host_op *ops = (host_op *)(uintptr_t)context->programs[p].ops;
        for (uint32_t i = 0; ops != NULL && i < context->programs[p].count; i++) {
            if (ops[i].number == BP_KERNEL_matmul) {
                ops[i].kernel = &product;
                ((host_tuple *)(uintptr_t)ops[i].tuples)[0].end =
                    product.tasks(ops[i].tuples[0].scalars);
            } else if (ops[i].number == BP_KERNEL_attention_forward) {
                attention[ops[i].number] = ops[i].kernel;
                forward = *ops[i].kernel;
                forward.run = forward_run;
                ops[i].kernel = &forward;
            } else if (ops[i].number == BP_KERNEL_attention_backward) {
                attention[ops[i].number] = ops[i].kernel;
                backward = *ops[i].kernel;
                backward.run = backward_run;
                ops[i].kernel = &backward;
            }
        }
    }
}

static bp_spec spec_of(bool check, uint32_t micros, uint32_t threads)
{
    bp_spec spec = model_fixture_spec();
    checked = (bp_checked){.ops = 0};
    spec.optimizer_options.max_grad_norm = 0.5;
    spec.accumulation = micros; /* with two, gradients are added to */
    spec.device_options =
        (bp_device_options){.threads = threads, .variant = NAME, .verify = check ? &checked : NULL};
    return spec;
}

static bool runs_here(void)
{
    uint32_t form;
    return bp_host_isa_find(NAME, &form) == BP_OK;
}

static void never(void)
{
    tile_left = attention_left = INT64_MAX;
    attention_always = false;
    turned = 0;
}

static uint64_t digest_of(bool check, uint32_t micros, bool spoiled)
{
    model_fixture r;
    const bp_spec spec = spec_of(check, micros, spoiled ? 1 : micros);
    model_fixture_open(&r, &spec, tokens, TOKENS);
    if (spoiled) {
        spoil(&r);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        (void)model_fixture_step(&r);
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* verifies device-44.ebba */
static void checked_steps_have_the_same_bits(void **state)
{
    (void)state;
    never();
    for (uint32_t micros = 1; runs_here() && micros <= 2; micros++) {
        const uint64_t right = digest_of(false, micros, false);
        assert_int_equal(checked.ops, 0);
        assert_true(digest_of(true, micros, false) == right);
        assert_true(checked.ops > 0);
        assert_int_equal(checked.repaired, 0);
        assert_false(checked.damaged);
    }
}

/* verifies device-44.ebba */
static void flips_in_a_step_are_repaired(void **state)
{
    (void)state;
    for (uint32_t micros = 1; runs_here() && micros <= 2; micros++) {
        never();
        tile_calls = 0;
        const uint64_t right = digest_of(true, micros, true);
        const int64_t calls = tile_calls;
        for (uint32_t trial = 0; trial < TRIALS; trial++) {
            uint32_t w[4];
            bp_philox((const uint32_t[4]){trial, micros, 0, 0}, 31, w);
            never();
            bit = 16 + w[0] % 16;
            if (trial % 4 == 0) {
                attention_left = w[1] % 8;
                bit = w[0] % 32; /* of attention every bit is found */
            } else {
                tile_left = (int64_t)(w[1] % (uint64_t)calls);
            }
            assert_true(digest_of(true, micros, true) == right);
            assert_int_equal(turned, 1);
            assert_false(checked.damaged);
            /* what was about to be computed again anyway, or went into no result, is not counted */
            assert_true(checked.repaired + checked.own > 0 || trial % 4 != 0);
        }
    }
}

/* Attention that gives three results ends the step by name. */
/* verifies device-44.ebba */
static void what_is_not_settled_ends_the_step(void **state)
{
    (void)state;
    model_fixture r;
    bp_outcome outcome;
    if (!runs_here()) {
        skip();
    }
    never();
    const bp_spec spec = spec_of(true, 1, 1);
    model_fixture_open(&r, &spec, tokens, TOKENS);
    (void)model_fixture_step(&r);
    spoil(&r);
    attention_always = true;
    assert_int_equal(bp_runtime_step(&r.runtime, &r.feed, &outcome), BP_ERR_DEVICE);
    assert_true(checked.damaged);
    assert_string_equal(r.runtime.error.where, "verify");
    assert_string_equal(r.runtime.error.name, "attention_forward");
    model_fixture_close(&r);
}

/* Without the option a plan has not a byte more; with it, workspaces have what checks need. */
/* verifies device-44.ebba */
static void plans_count_what_checks_need(void **state)
{
    (void)state;
    const bp_matmul_scalars s = {.m = 100, .n = 50, .k = 30, .lda = 30, .ldb = 50, .ldc = 50};
    const bp_device_options plain = {.threads = 3}, on = {.threads = 3, .verify = &checked};
    const uint64_t without = bp_device_host.workspace(&plain, BP_KERNEL_matmul, &s, NULL);
    assert_int_equal(bp_device_host.workspace(&on, BP_KERNEL_matmul, &s, NULL),
                     without + 3 * bp_matmul_check_bytes(BP_KERNEL_matmul, &s));
    assert_int_equal(without, 3 * bp_matmul_workspace(&s, NULL));
    const bp_attention_forward_scalars a = {
        .batch = 1, .sequence = 8, .heads = 2, .kv_heads = 2, .head_width = 4};
    assert_int_equal(bp_device_host.workspace(&on, BP_KERNEL_attention_forward, &a, NULL),
                     bp_device_host.workspace(&plain, BP_KERNEL_attention_forward, &a, NULL));
}

/* verifies device-44.ebba */
static void forms_without_checks_are_refused(void **state)
{
    (void)state;
    static char memory[1 << 16];
    host_context *context = calloc(1, bp_device_host.context_bytes);
    const bp_device_options options = {.threads = 1, .variant = "portable", .verify = &checked};
    const bp_regions regions = bp_regions_device(
        memory + (BP_ARENA_ALIGNMENT - (uintptr_t)memory % BP_ARENA_ALIGNMENT), 1024);
    bp_error error = {.code = BP_OK};
    assert_non_null(context);
    assert_int_equal(bp_device_host.open(context, &options, &regions, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "portable");
    free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked_steps_have_the_same_bits),
        cmocka_unit_test(flips_in_a_step_are_repaired),
        cmocka_unit_test(what_is_not_settled_ends_the_step),
        cmocka_unit_test(plans_count_what_checks_need),
        cmocka_unit_test(forms_without_checks_are_refused),
    };
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)(i * i % 37);
    }
    faulty = FORM;
    faulty.tile = tile;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
