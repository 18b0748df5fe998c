/* SPDX-License-Identifier: MIT */
/* Training in bf16 and f16 from end to end: the same 20 steps of a small GPT-2 in every master
 * form, policy, number of threads and form of kernels, and the loss scale under overflows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ir/step.h"
#include "tests/fixtures/golden.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/bare_fixture.h"
#include "tests/fixtures/share.h"

/* A trial in memory. */
typedef struct session {
    trial trial;
    void *host;
    void *arena;
} session;

static void *aligned(uint64_t bytes)
{
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, BP_ARENA_ALIGNMENT, (size_t)bytes), 0);
    return memory;
}

static void require_ok(bp_status status, const session *s)
{
    if (status != BP_OK) {
        const bp_error *error = &s->trial.runtime.error;
        fail_msg("%s: %s: %s %s", bp_status_text(status), error->where, error->text, error->name);
    }
}

static void session_open(session *s, const bp_spec *spec)
{
    uint64_t bytes = plan_bytes(spec);
    s->host = aligned(bytes);
    require_ok(bare_fixture_plan(&s->trial, spec, s->host, bytes), s);
    bytes = s->trial.plan.report.arena_bytes;
    s->arena = aligned(bytes);
    require_ok(bare_fixture_open(&s->trial, s->arena, bytes), s);
}

static void session_close(session *s)
{
    bp_runtime_close(&s->trial.runtime);
    free(s->arena);
    free(s->host);
}

static bp_outcome session_step(session *s)
{
    bp_outcome outcome;
    require_ok(bp_runtime_step(&s->trial.runtime, &s->trial.feed, &outcome), s);
    assert_false(outcome.nonfinite);
    return outcome;
}

/* The trial in a working type, with the fastest kernels on two threads. */
static bp_spec half_spec(bp_dtype working, bp_master master, bp_dtype gradient)
{
    bp_spec spec = bare_fixture_spec();
    spec.device_options.variant = NULL;
    spec.device_options.threads = 2;
    spec.working = working;
    spec.master = master;
    spec.gradient = gradient;
    if (working == BP_F16) {
        spec.scaling = (bp_scaling){.kind = BP_SCALING_DYNAMIC,
                                    .initial = 65536.0,
                                    .growth = 2.0,
                                    .backoff = 0.5,
                                    .interval = 2000,
                                    .hysteresis = 1};
    }
    return spec;
}

static uint64_t digest_of(const bp_spec *spec, double *loss)
{
    static session s;
    uint64_t digest = 0;
    session_open(&s, spec);
    require_ok(bare_fixture_train(&s.trial, loss), &s);
    require_ok(bare_fixture_digest(&s.trial, &digest), &s);
    session_close(&s);
    return digest;
}

static bool is_weight(const bp_runtime *runtime, const bp_buffer *buffer)
{
    uint32_t number = (uint32_t)(buffer - runtime->plan->graph.buffers);
    for (uint32_t i = 0; i < runtime->plan->builder.parameter_count; i++) {
        const bp_parameter *p = &runtime->plan->builder.parameters[i];
        if (p->weight == number || p->master == number) {
            return true;
        }
    }
    return false;
}

/* Every other persistent buffer: moments, the control block. */
static void compare_rest(session *a, session *b)
{
    bp_runtime *x = &a->trial.runtime, *y = &b->trial.runtime;
    uint32_t compared = 0;
    for (uint32_t i = 0; i < bp_runtime_state_count(x); i++) {
        const bp_buffer *one = bp_runtime_state(x, i);
        if (is_weight(x, one)) {
            continue;
        }
        const bp_buffer *other = bp_runtime_find(
            y, bp_graph_name(&x->plan->graph, (uint32_t)(one - x->plan->graph.buffers)));
        assert_non_null(other);
        assert_true(one->bytes == other->bytes);
        unsigned char *p = malloc(one->bytes), *q = malloc(one->bytes);
        require_ok(bp_runtime_read(x, one, 0, p, one->bytes), a);
        require_ok(bp_runtime_read(y, other, 0, q, one->bytes), b);
        assert_memory_equal(p, q, one->bytes);
        free(p);
        free(q);
        compared++;
    }
    assert_true(compared > x->plan->builder.parameter_count);
}

static void compare_masters(session *a, session *b)
{
    bp_runtime *x = &a->trial.runtime, *y = &b->trial.runtime;
    for (uint32_t i = 0; i < x->plan->builder.parameter_count; i++) {
        uint64_t count = x->plan->builder.parameters[i].count;
        float *p = malloc(count * sizeof(float)), *q = malloc(count * sizeof(float));
        require_ok(bp_runtime_get_weight(x, i, 0, p, count), a);
        require_ok(bp_runtime_get_weight(y, i, 0, q, count), b);
        assert_memory_equal(p, q, count * sizeof(float));
        free(p);
        free(q);
    }
}

/* A split master is the fp32 master in half the bytes: nothing else may differ. */
/* verifies run-8.f13d */
static void split_masters_train_as_fp32_masters(void **state)
{
    (void)state;
    static session whole, split;
    for (bp_dtype gradient = BP_F32; gradient <= BP_BF16; gradient++) {
        bp_spec spec = half_spec(BP_BF16, BP_MASTER_FP32, gradient);
        session_open(&whole, &spec);
        spec.master = BP_MASTER_SPLIT;
        session_open(&split, &spec);
        for (int step = 0; step < TRIAL_STEPS; step++) {
            bp_outcome one = session_step(&whole), other = session_step(&split);
            assert_true(one.loss == other.loss && one.norm == other.norm);
        }
        compare_masters(&whole, &split);
        compare_rest(&whole, &split);
        session_close(&whole);
        session_close(&split);
    }
}

/* verifies run-1.e4fa */
static void neither_policy_nor_threads_nor_form_matter(void **state)
{
    (void)state;
    static const struct {
        bp_dtype working;
        bp_master master;
        bp_dtype gradient;
    } types[] = {{BP_BF16, BP_MASTER_SPLIT, BP_BF16},
                 {BP_BF16, BP_MASTER_STOCHASTIC, BP_F32},
                 {BP_F16, BP_MASTER_FP32, BP_F32}};
    static const bp_policy policies[] = {
        {.kind = BP_POLICY_FULL},
        {.kind = BP_POLICY_MEMORY_POOR},
        {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ALL}};
    for (uint32_t i = 0; i < 3; i++) {
        double loss;
        bp_spec spec = half_spec(types[i].working, types[i].master, types[i].gradient);
        uint64_t wanted = digest_of(&spec, &loss);
        for (uint32_t k = 0; k < 3; k++) {
            if (!long_form() && k != i) {
                continue; /* each type has one */
            }
            spec.policy = policies[k];
            spec.poison = k == 0;
            assert_true(digest_of(&spec, &loss) == wanted);
        }
        spec.poison = false;
        spec.policy = (bp_policy){.kind = BP_POLICY_NONE};
        for (uint32_t threads = 1; threads <= 4; threads += long_or(1, 2)) {
            spec.device_options.threads = threads;
            assert_true(digest_of(&spec, &loss) == wanted);
        }
        if (!long_form() && i > 0) {
            continue;
        }
        spec.device_options.variant = "portable";
        assert_true(digest_of(&spec, &loss) == wanted);
    }
}

static double mean_loss(const bp_spec *spec)
{
    static session s;
    double sum = 0.0;
    session_open(&s, spec);
    for (int step = 0; step < TRIAL_STEPS; step++) {
        bp_outcome outcome = session_step(&s);
        assert_false(outcome.skipped);
        sum += step >= TRIAL_STEPS / 2 ? outcome.loss : 0.0;
    }
    session_close(&s);
    return sum / (TRIAL_STEPS / 2);
}

/* Over the last ten steps, in which the loss falls from 4.3 to 3.7. */
/* verifies optim-7.92a4 */
static void losses_are_near_those_of_fp32(void **state)
{
    (void)state;
    bp_spec spec = half_spec(BP_F32, BP_MASTER_WEIGHT, BP_F32);
    double right = mean_loss(&spec);
    static const bp_dtype workings[] = {BP_BF16, BP_BF16, BP_BF16, BP_BF16, BP_F16};
    static const bp_master masters[] = {BP_MASTER_FP32, BP_MASTER_SPLIT, BP_MASTER_SPLIT8,
                                        BP_MASTER_STOCHASTIC, BP_MASTER_FP32};
    static const double bounds[] = {2e-3, 2e-3, 2e-3, 2e-2, 5e-4};
    for (uint32_t i = 0; i < 5; i++) {
        spec = half_spec(workings[i], masters[i], BP_F32);
        double loss = mean_loss(&spec);
        if (!(fabs(loss - right) <= bounds[i] * right)) {
            fail_msg("%s with master %s: %.6f, fp32 has %.6f", bp_dtype_name(workings[i]),
                     bp_master_name(masters[i]), loss, right);
        }
    }
}

static void read_control(session *s, bp_control_block *control)
{
    const bp_buffer *buffer = bp_runtime_find(&s->trial.runtime, "control");
    assert_non_null(buffer);
    require_ok(bp_runtime_read(&s->trial.runtime, buffer, 0, control, sizeof(*control)), s);
}

/* An infinite weight for one step is an overflow; it leaves no trace but in the scale. */
static bp_outcome step_with_overflow(session *s)
{
    bp_runtime *runtime = &s->trial.runtime;
    const bp_buffer *bias = bp_runtime_find(runtime, "transformer.h.1.mlp.c_fc.bias");
    const bp_buffer *moment = bp_runtime_find(runtime, "transformer.h.1.mlp.c_fc.bias.exp_avg");
    const uint16_t infinity = 0x7c00;
    uint16_t kept, after;
    float moments[2];
    assert_non_null(bias);
    assert_non_null(moment);
    require_ok(bp_runtime_read(runtime, bias, 6, &kept, 2), s);
    require_ok(bp_runtime_read(runtime, moment, 12, &moments[0], 4), s);
    require_ok(bp_runtime_write(runtime, bias, 6, &infinity, 2), s);
    bp_outcome outcome = session_step(s);
    require_ok(bp_runtime_read(runtime, bias, 6, &after, 2), s);
    require_ok(bp_runtime_read(runtime, moment, 12, &moments[1], 4), s);
    assert_int_equal(after, infinity);
    assert_true(moments[0] == moments[1]);
    require_ok(bp_runtime_write(runtime, bias, 6, &kept, 2), s);
    return outcome;
}

/* Scale, skip and tracker after each step as GradScaler has them; a skipped step counts for the
 * schedule and not for the bias corrections. */
/* verifies run-9.f721 */
static void the_scale_moves_as_in_pytorch(void **state)
{
    (void)state;
    static session s;
    static const uint32_t intervals[] = {1, 3, 5, 2000};
    static const double scales[] = {16.0, 65536.0, 65536.0, 65536.0};
    golden g;
    golden_open(&g, "tests/golden/scaler.safetensors");
    for (uint32_t i = 0; i < 4; i++) {
        char name[32];
        size_t bytes;
        bp_spec spec = half_spec(BP_F16, BP_MASTER_FP32, BP_F32);
        spec.scaling.interval = intervals[i];
        spec.scaling.initial = scales[i];
        snprintf(name, sizeof(name), "interval_%u", intervals[i]);
        double *want = golden_tensor(&g, name, &bytes);
        assert_int_equal(bytes, TRIAL_STEPS * 3 * sizeof(double));
        session_open(&s, &spec);
        double scale = scales[i];
        uint64_t applied = 0;
        for (uint32_t step = 1; step <= TRIAL_STEPS; step++) {
            bp_control_block control;
            bool planted = step == 7 || step == 8;
            bp_outcome outcome = planted ? step_with_overflow(&s) : session_step(&s);
            read_control(&s, &control);
            const double *row = want + (step - 1) * 3;
            applied += outcome.skipped ? 0 : 1;
            assert_true(outcome.scale == scale);
            assert_true((double)control.scale == row[0]);
            assert_true((outcome.skipped ? 1.0 : 0.0) == row[1]);
            assert_true((double)control.good_steps == row[2]);
            assert_true(control.applied == applied);
            assert_true(outcome.step == step);
            scale = row[0];
        }
        session_close(&s);
        free(want);
    }
    golden_close(&g);
}

/* A second backward carries the loss scale of its step, though the decision before it has moved it:
 * up until it overflows, and down again. */
/* verifies compile-8.b061 */
static void released_gradients_have_the_scale_of_their_step(void **state)
{
    (void)state;
    for (uint32_t interval = 1; interval <= 3; interval += 2) {
        bp_spec spec = half_spec(BP_F16, BP_MASTER_FP32, BP_F32);
        double loss[2];
        spec.scaling.interval = interval;
        spec.scaling.initial = 16384.0;
        const uint64_t whole = digest_of(&spec, &loss[0]);
        spec.gradient_release = BP_RELEASE_EXACT;
        assert_int_equal(digest_of(&spec, &loss[1]), whole);
        assert_true(isfinite(loss[0]) && loss[1] == loss[0]);
    }
}

/* A step that is not finite is tried again at a lower scale, as long as there is one of use: at the
 * least scale it is what it is. */
/* verifies run-9.f721 */
static void a_scale_that_cannot_fall(void **state)
{
    (void)state;
    static const struct {
        double initial, floor;
        bool again;
    } scales[] = {{4.0, 0.0, true}, {1.0, 0.0, false}, {8.0, 8.0, false}, {16.0, 8.0, true}};
    static int32_t some[60];
    for (size_t i = 0; i < 4; i++) {
        model_fixture r;
        bp_spec spec = model_fixture_spec();
        spec.scaling = (bp_scaling){.kind = BP_SCALING_DYNAMIC,
                                    .initial = scales[i].initial,
                                    .growth = 2.0,
                                    .backoff = 0.5,
                                    .interval = 2000,
                                    .hysteresis = 1,
                                    .floor = scales[i].floor};
        model_fixture_open(&r, &spec, some, 60);
        const uint32_t weight = r.plan.builder.parameters[0].weight;
        float *values = model_fixture_read(&r, weight);
        for (uint64_t k = 0; k < r.plan.builder.parameters[0].count; k++) {
            values[k] = NAN;
        }
        model_fixture_write(&r, weight, values);
        free(values);
        const bp_outcome outcome = model_fixture_step(&r);
        assert_true(outcome.skipped == scales[i].again);
        assert_true(outcome.nonfinite == !scales[i].again);
        model_fixture_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scale_that_cannot_fall),
        cmocka_unit_test(split_masters_train_as_fp32_masters),
        cmocka_unit_test(neither_policy_nor_threads_nor_form_matter),
        cmocka_unit_test(losses_are_near_those_of_fp32),
        cmocka_unit_test(the_scale_moves_as_in_pytorch),
        cmocka_unit_test(released_gradients_have_the_scale_of_their_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
