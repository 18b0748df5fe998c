/* SPDX-License-Identifier: MIT */
/* Whole models on the CUDA device: the same training as on the host, the same bits in every form,
 * state that moves between devices, and nothing taken after the seal. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/run/checkpoint/checkpoint.h"
#include "device/cuda/cuda.h"
#include "device/host/host.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/store_memory.h"
#include "tests/fixtures/share.h"

#define TOKENS     400
#define STEPS      20
#define STATES_MAX 128

static instrument on;
static int32_t tokens[TOKENS];

static void fill_tokens(void)
{
    uint32_t x = 12345;
    for (uint32_t i = 0; i < TOKENS; i++) {
        x = x * 1664525u + 1013904223u;
        tokens[i] = (int32_t)(i % 3 == 0 ? (x >> 16) % 37 : (i * i) % 37);
    }
}

/* Training steps without a schedule, dropout as asked. */
static bp_spec spec_on(const bp_device *device, const char *variant)
{
    bp_spec spec = model_fixture_spec();
    spec.device = device;
    spec.device_options = (bp_device_options){.threads = 1, .variant = variant};
    spec.optimizer_options.max_grad_norm = 1.0;
    return spec;
}

static bp_spec on_host(void)
{
    return spec_on(&bp_device_host, "portable");
}

static bp_spec on_cuda(const char *variant)
{
    return spec_on(&bp_device_cuda, variant);
}

typedef struct course {
    double loss[STEPS];
    double norm[STEPS];
    uint64_t digest;
} course;

static course train(const bp_spec *spec, uint32_t steps)
{
    model_fixture r;
    course c = {.digest = 0};
    model_fixture_open(&r, spec, tokens, TOKENS);
    for (uint32_t i = 0; i < steps; i++) {
        bp_outcome outcome = model_fixture_step(&r);
        c.loss[i] = outcome.loss;
        c.norm[i] = outcome.norm;
    }
    c.digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return c;
}

static void assert_near(double got, double right, double tolerance, const char *what, uint32_t step)
{
    if (!(fabs(got - right) <= tolerance * fabs(right))) {
        fail_msg("%s of step %u: %.9g, on the host %.9g", what, step, got, right);
    }
}

static void assert_same(const course *a, const course *b)
{
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_memory_equal(a->norm, b->norm, sizeof a->norm);
    assert_true(a->digest == b->digest);
}

static void nothing_is_left(void)
{
    char text[512] = "";
    if (!on.real && on.ledger(text, sizeof text) != 0) {
        fail_msg("left behind: %s", text);
    }
}

/* The host's losses; graph, plain launches, undefined bytes watched for, another order of whatever
 * may run in any order: one result to the bit. */
/* verifies device-11.4def */
static void training_is_the_hosts_and_always_the_same(void **state)
{
    (void)state;
    const uint32_t steps = share_of(STEPS, 4, 4);
    bp_spec spec = on_host();
    course host = train(&spec, steps);
    spec = on_cuda(NULL);
    course graph = train(&spec, steps);
    for (uint32_t i = 0; i < steps; i++) {
        assert_near(graph.loss[i], host.loss[i], 1e-5, "loss", i);
        assert_near(graph.norm[i], host.norm[i], 1e-3, "norm", i);
    }
    assert_true(graph.loss[steps - 1] < graph.loss[0]);
    spec = on_cuda("plain");
    course plain = train(&spec, steps);
    assert_same(&graph, &plain);
    if (!on.real) {
        on.set("PTXVM_SEED", "3");
        spec = on_cuda(NULL);
        spec.poison = true;
        course watched = train(&spec, steps);
        on.set("PTXVM_SEED", "0");
        assert_same(&graph, &watched);
    }
    nothing_is_left();
}

/* The same in 16 bits: what the devices compute in another order is rounded to 8 or 11 bits at
 * every activation, which is what the bound is for. Two runs are equal to the bit. */
static void train_in_16_bits(bp_dtype working, bp_master master, bp_dtype gradient)
{
    const uint32_t steps = share_of(STEPS, 3, 3);
    bp_spec spec = on_host();
    spec.working = working;
    spec.master = master;
    spec.gradient = gradient;
    if (working == BP_F16) {
        spec.scaling = (bp_scaling){.kind = BP_SCALING_DYNAMIC,
                                    .initial = 1024.0,
                                    .growth = 2.0,
                                    .backoff = 0.5,
                                    .interval = 5,
                                    .hysteresis = 1};
    }
    course host = train(&spec, steps);
    bp_spec other = on_cuda(NULL);
    spec.device = other.device;
    spec.device_options = other.device_options;
    course graph = train(&spec, steps);
    for (uint32_t i = 0; i < steps; i++) {
        assert_near(graph.loss[i], host.loss[i], 2e-3, "loss", i);
    }
    assert_true(graph.loss[steps - 1] < graph.loss[0]);
    course again = train(&spec, steps);
    assert_same(&graph, &again);
    nothing_is_left();
}

/* verifies device-11.4def */
static void training_in_bf16_is_the_hosts(void **state)
{
    (void)state;
    train_in_16_bits(BP_BF16, BP_MASTER_SPLIT, BP_BF16);
    train_in_16_bits(BP_BF16, BP_MASTER_FP32, BP_F32);
}

/* verifies device-11.4def */
static void training_in_f16_is_the_hosts(void **state)
{
    (void)state;
    train_in_16_bits(BP_F16, BP_MASTER_FP32, BP_F32);
}

/* Sums of gradients in 8 bits: near the host's, whose gradients differ in their last bits, and
 * equal to the bit in every order. */
/* verifies device-11.4def */
static void gradients_added_up_in_8_bits_agree(void **state)
{
    (void)state;
    const uint32_t steps = 4;
    course c[3];
    for (uint32_t i = 0; i < 3; i++) {
        bp_spec spec = i == 0 ? on_host() : on_cuda(i == 1 ? NULL : "plain");
        spec.accumulation = 3;
        spec.gradient_int8 = true;
        spec.policy.kind = i == 2 ? BP_POLICY_FULL : BP_POLICY_NONE;
        spec.poison = i == 2;
        c[i] = train(&spec, steps);
    }
    for (uint32_t i = 0; i < steps; i++) {
        assert_near(c[1].loss[i], c[0].loss[i], 1e-2, "loss", i);
        assert_near(c[1].norm[i], c[0].norm[i], 5e-2, "norm", i);
    }
    assert_memory_equal(c[1].loss, c[2].loss, steps * sizeof c[1].loss[0]);
    assert_true(c[1].digest == c[2].digest);
    nothing_is_left();
}

/* The tape in 8 bits: near the host's, and equal to the bit whatever is kept. */
/* verifies device-11.4def */
static void a_tape_in_8_bits_agrees(void **state)
{
    (void)state;
    const uint32_t steps = 3;
    course c[4];
    for (uint32_t i = 0; i < 4; i++) {
        bp_spec spec = i == 0 ? on_host() : on_cuda(i == 1 ? NULL : "plain");
        spec.tape = BP_TAPE_FP8;
        spec.policy.kind = i == 2 ? BP_POLICY_FULL : i == 3 ? BP_POLICY_SELECTIVE : BP_POLICY_NONE;
        spec.policy.recompute = BP_RECOMPUTE_ATTENTION;
        spec.poison = i == 2;
        c[i] = train(&spec, steps);
    }
    for (uint32_t i = 0; i < steps; i++) {
        assert_near(c[1].loss[i], c[0].loss[i], 1e-3, "loss", i);
        assert_near(c[1].norm[i], c[0].norm[i], 2e-2, "norm", i);
    }
    for (uint32_t i = 2; i < 4; i++) {
        assert_memory_equal(c[1].loss, c[i].loss, steps * sizeof c[1].loss[0]);
        assert_true(c[1].digest == c[i].digest);
    }
    nothing_is_left();
}

/* Weights in fp8 with their remainders: the same. */
/* verifies device-11.4def */
static void weights_in_fp8_agree(void **state)
{
    (void)state;
    const uint32_t steps = 3;
    course c[3];
    for (uint32_t i = 0; i < 3; i++) {
        bp_spec spec = i == 0 ? on_host() : on_cuda(i == 1 ? NULL : "plain");
        spec.working = BP_BF16;
        spec.gradient = BP_BF16;
        spec.master = BP_MASTER_SPLIT8;
        spec.weights = BP_WEIGHT_FP8;
        spec.policy.kind = i == 2 ? BP_POLICY_FULL : BP_POLICY_NONE;
        spec.poison = i == 2;
        c[i] = train(&spec, steps);
    }
    for (uint32_t i = 0; i < steps; i++) {
        assert_near(c[1].loss[i], c[0].loss[i], 1e-2, "loss", i);
        assert_near(c[1].norm[i], c[0].norm[i], 5e-2, "norm", i);
    }
    assert_memory_equal(c[1].loss, c[2].loss, steps * sizeof c[1].loss[0]);
    assert_true(c[1].digest == c[2].digest);
    nothing_is_left();
}

/* Dropout masks are a function of the place, so both devices drop the same elements; micro-batches,
 * recomputation and chunks of the loss change nothing of that. */
/* verifies device-11.4def */
static void dropout_and_micro_batches_agree(void **state)
{
    (void)state;
    const uint32_t steps = 3;
    course c[2];
    for (uint32_t i = 0; i < 2; i++) {
        bp_spec spec = i == 0 ? on_host() : on_cuda(NULL);
        SET_FAMILY(&spec.config, bp_transformer, embedding_dropout, 0.1);
        SET_FAMILY(&spec.config, bp_transformer, residual_dropout, 0.2);
        SET_FAMILY(&spec.config, bp_transformer, attention_dropout, 0.3);
        spec.accumulation = 3;
        spec.policy = (bp_policy){.kind = BP_POLICY_FULL};
        spec.poison = true;
        c[i] = train(&spec, steps);
    }
    for (uint32_t i = 0; i < steps; i++) {
        assert_near(c[1].loss[i], c[0].loss[i], 1e-5, "loss", i);
    }
}

/* verifies device-11.4def */
static void evaluation_and_generation_agree(void **state)
{
    (void)state;
    static const int32_t prompt[] = {3, 1, 4, 1, 5, 9, 2, 6};
    double loss[2];
    float logits[2][37];
    for (uint32_t i = 0; i < 2; i++) {
        model_fixture r;
        uint64_t targets = 0;
        bp_spec spec = i == 0 ? on_host() : on_cuda(NULL);
        spec.evaluate = true;
        spec.generate_context = 12;
        spec.prefill_rows = 5;
        model_fixture_open(&r, &spec, tokens, TOKENS);
        model_fixture_step(&r);
        assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 3, &loss[i], &targets), BP_OK);
        assert_int_equal(bp_runtime_restart(&r.runtime), BP_OK);
        assert_int_equal(bp_runtime_accept(&r.runtime, prompt, 8), BP_OK);
        memcpy(logits[i], r.runtime.logits_host, sizeof logits[i]);
        model_fixture_close(&r);
    }
    assert_near(loss[1], loss[0], 1e-5, "evaluation", 0);
    for (uint32_t i = 0; i < 37; i++) {
        assert_true(fabs((double)logits[0][i] - (double)logits[1][i]) < 1e-4);
    }
}

static bp_status read_state(void *user, uint64_t handle, uint64_t offset, void *to, size_t bytes)
{
    model_fixture *r = user;
    return bp_runtime_read(&r->runtime, bp_runtime_state(&r->runtime, (uint32_t)handle), offset, to,
                           bytes);
}

static bp_status write_state(void *user, uint64_t handle, uint64_t offset, const void *from,
                             size_t bytes)
{
    model_fixture *r = user;
    return bp_runtime_write(&r->runtime, bp_runtime_state(&r->runtime, (uint32_t)handle), offset,
                            from, bytes);
}

/* A run's state as what is saved, over a store in memory. */
typedef struct fixture {
    bp_state_tensor tensors[STATES_MAX];
    bp_checkpoint checkpoint;
    bp_checkpoint_location place;
    bp_error error;
    char staging[4096];
    void *scratch;
} fixture;

static void fixture_init(fixture *d, model_fixture *r, memory_store *store)
{
    memset(d, 0, sizeof *d);
    uint32_t count = bp_runtime_state_count(&r->runtime);
    assert_in_range(count, 1, STATES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const bp_buffer *b = bp_runtime_state(&r->runtime, i);
        bp_state_tensor *t = &d->tensors[i];
        *t = (bp_state_tensor){
            .name = bp_graph_name(&r->plan.graph, (uint32_t)(b - r->plan.graph.buffers)),
            .dtype = b->dtype,
            .rank = b->rank,
            .bytes = b->bytes,
            .handle = i,
            .weight = b->class_of == BP_CLASS_WEIGHTS};
        memcpy(t->shape, b->shape, sizeof t->shape);
    }
    d->checkpoint = (bp_checkpoint){.step = r->runtime.steps,
                                    .tensors = d->tensors,
                                    .tensor_count = count,
                                    .io = {r, read_state, write_state}};
    size_t bytes = (size_t)bp_checkpoint_scratch(&d->checkpoint);
    d->scratch = malloc(bytes);
    d->place = (bp_checkpoint_location){.store = &store->store,
                                        .directory = "run",
                                        .scratch = d->scratch,
                                        .scratch_bytes = bytes,
                                        .staging = {d->staging, sizeof d->staging},
                                        .error = &d->error};
}

static uint64_t save(model_fixture *r, memory_store *store)
{
    fixture d;
    uint64_t digest = 0;
    fixture_init(&d, r, store);
    assert_int_equal(bp_checkpoint_save(&d.place, &d.checkpoint, &digest), BP_OK);
    free(d.scratch);
    return digest;
}

static uint64_t load(model_fixture *r, memory_store *store, uint64_t step)
{
    fixture d;
    uint64_t digest = 0;
    char path[64];
    fixture_init(&d, r, store);
    snprintf(path, sizeof path, "run/checkpoint-%u", (unsigned)step);
    assert_int_equal(bp_checkpoint_load(&d.place, path, &d.checkpoint, &digest), BP_OK);
    r->runtime.steps = step;
    free(d.scratch);
    return digest;
}

/* Trains three steps on one device, saves, and goes on for three on each. */
static void check_move(const bp_spec *from, const bp_spec *to)
{
    memory_store *store = calloc(1, sizeof *store);
    memory_store_init(store);
    double straight[3];
    model_fixture r;
    model_fixture_open(&r, from, tokens, TOKENS);
    for (uint32_t i = 0; i < 3; i++) {
        model_fixture_step(&r);
    }
    uint64_t saved = save(&r, store);
    for (uint32_t i = 0; i < 3; i++) {
        straight[i] = model_fixture_step(&r).loss;
    }
    uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    model_fixture_open(&r, to, tokens, TOKENS);
    assert_true(load(&r, store, 3) == saved);
    for (uint32_t i = 0; i < 3; i++) {
        assert_near(model_fixture_step(&r).loss, straight[i], 1e-5, "loss after resuming", i);
    }
    if (from->device == to->device) {
        assert_true(model_fixture_digest(&r) == digest);
    }
    model_fixture_close(&r);
    memory_store_free(store);
    free(store);
}

/* verifies device-11.4def */
static void checkpoints_move_between_devices(void **state)
{
    (void)state;
    const bp_spec host = on_host();
    const bp_spec cuda = on_cuda(NULL);
    const bp_spec plain = on_cuda("plain");
    check_move(&host, &cuda);
    check_move(&cuda, &host);
    check_move(&cuda, &plain);
}

/* Planned bytes are the bytes taken, to the granularity of the driver, and a plan asks no driver.
 */
/* verifies device-11.4def */
static void planned_is_used(void **state)
{
    (void)state;
    model_fixture r;
    bp_device_memory memory;
    static const char *const targets[] = {NULL, "sm_80", "sm_90a"};
    uint64_t bytes[3];
    for (uint32_t i = 0; i < 3; i++) {
        bp_plan plan = {.made = false};
        bp_spec spec = on_cuda(NULL);
        spec.device_options.target = targets[i];
        uint64_t host_bytes = plan_bytes(&spec);
        void *host = NULL;
        int before = on.real ? 0 : on.calls(NULL);
        assert_int_equal(posix_memalign(&host, 64, (size_t)host_bytes), 0);
        assert_int_equal(bp_plan_make(&plan, &spec, host, host_bytes), BP_OK);
        bytes[i] = plan.report.arena_bytes;
        free(host);
        assert_true(on.real || on.calls(NULL) == before);
    }
    assert_true(bytes[0] == bytes[1] && bytes[2] > 0);
    const bp_spec spec = on_cuda(NULL);
    model_fixture_open(&r, &spec, tokens, TOKENS);
    assert_true(r.plan.report.arena_bytes == bytes[0]);
    for (uint32_t i = 0; i < 3; i++) {
        model_fixture_step(&r);
    }
    assert_int_equal(bp_cuda_memory_read(r.runtime.device, true, &memory), BP_OK);
    uint64_t taken = memory.free_context - memory.free_arena;
    assert_true(taken >= bytes[0] && (on.real || taken < bytes[0] + 4096));
    assert_true(memory.free_sealed == memory.free_now);
    assert_true(bp_device_cuda.bytes_in_use(r.runtime.device) >= bytes[0]);
    model_fixture_close(&r);
}

/* Between the seal and close only these are called. */
/* verifies run-2.fd4a */
static void a_step_takes_nothing(void **state)
{
    (void)state;
    static const char *const allowed[] = {
        "cuCtxSetCurrent", "cuEventSynchronize", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
        "cuEventRecord",   "cuStreamWaitEvent",  "cuGraphLaunch",        "cuStreamSynchronize"};
    int counts[256];
    model_fixture r;
    if (on.real) {
        return;
    }
    const bp_spec spec = on_cuda(NULL);
    model_fixture_open(&r, &spec, tokens, TOKENS);
    for (int i = 0; on.entry(i) != NULL && i < 256; i++) {
        counts[i] = on.calls(on.entry(i));
    }
    for (uint32_t i = 0; i < 3; i++) {
        model_fixture_step(&r);
    }
    for (int i = 0; on.entry(i) != NULL && i < 256; i++) {
        bool may = false;
        for (size_t k = 0; k < sizeof allowed / sizeof allowed[0]; k++) {
            may = may || strcmp(on.entry(i), allowed[k]) == 0;
        }
        if (!may && on.calls(on.entry(i)) != counts[i]) {
            fail_msg("a step calls %s", on.entry(i));
        }
    }
    model_fixture_close(&r);
}

/* A kernel that goes wrong in the middle of training: the step says so, and nothing is tried again.
 */
/* verifies device-12.8cb0 */
static void a_gpu_lost_in_a_step_is_reported(void **state)
{
    (void)state;
    model_fixture r;
    bp_outcome outcome;
    if (on.real) {
        return;
    }
    const bp_spec spec = on_cuda(NULL);
    model_fixture_open(&r, &spec, tokens, TOKENS);
    model_fixture_step(&r);
    on.set("PTXVM_FAULT", "cuStreamSynchronize:1:719:on");
    assert_int_equal(bp_runtime_step(&r.runtime, &r.feed, &outcome), BP_ERR_DEVICE);
    assert_int_equal(bp_status_exit_code(r.runtime.error.code), 7);
    assert_non_null(strstr(r.runtime.error.name, "CUDA_ERROR_LAUNCH_FAILED (719)"));
    assert_non_null(strstr(r.runtime.error.text, "a kernel went wrong"));
    int before = on.calls(NULL);
    assert_int_equal(bp_runtime_step(&r.runtime, &r.feed, &outcome), BP_ERR_DEVICE);
    assert_int_equal(on.calls(NULL), before);
    model_fixture_close(&r);
    on.set("PTXVM_FAULT", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_is_used),
        cmocka_unit_test(a_step_takes_nothing),
        cmocka_unit_test(gradients_added_up_in_8_bits_agree),
        cmocka_unit_test(a_tape_in_8_bits_agrees),
        cmocka_unit_test(weights_in_fp8_agree),
        cmocka_unit_test(dropout_and_micro_batches_agree),
        cmocka_unit_test(evaluation_and_generation_agree),
        cmocka_unit_test(checkpoints_move_between_devices),
        cmocka_unit_test(training_is_the_hosts_and_always_the_same),
        cmocka_unit_test(training_in_bf16_is_the_hosts),
        cmocka_unit_test(training_in_f16_is_the_hosts),
        cmocka_unit_test(a_gpu_lost_in_a_step_is_reported),
    };
    fill_tokens();
    /* Races are looked for in every kernel by test_kernels.c and its like. */
    if (!long_form()) {
        (void)setenv("PTXVM_RACES", "0", 0);
    }
    if (!fake_driver_load(&on)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
