/* SPDX-License-Identifier: MIT */
/* AdamW and clipping on a small model: one step against a plain double-precision loop, the clip
 * factor of clip_grad_norm_, steps that are skipped, bad options, tables that are too small. */
#include "core/plan/optimizer.h"
#include "optim/rules.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "optim/clip.h"
#include "tests/fixtures/model_fixture.h"

#define TOKENS 64

static int32_t tokens[TOKENS];

static int make_tokens(void **state)
{
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * i * 7 % 37;
    }
    return 0;
}

/* Weights, moments and gradient of one parameter around a step. */
typedef struct before {
    float *weight;
    float *m;
    float *v;
} before;

static before remember(model_fixture *r, uint32_t index)
{
    const bp_parameter *p = &r->plan.builder.parameters[index];
    return (before){model_fixture_read(r, p->weight), model_fixture_read(r, p->state[0]),
                    model_fixture_read(r, p->state[1])};
}

static void forget(before b)
{
    free(b.weight);
    free(b.m);
    free(b.v);
}

static double gradient_norm(model_fixture *r)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < r->plan.builder.parameter_count; i++) {
        const bp_parameter *p = &r->plan.builder.parameters[i];
        float *gradient = model_fixture_read(r, p->gradient);
        for (uint64_t k = 0; k < p->count; k++) {
            sum += (double)gradient[k] * (double)gradient[k];
        }
        free(gradient);
    }
    return sqrt(sum);
}

/* The update of torch.optim.AdamW in double; compares with what the step made of `b`. */
static void check_update(model_fixture *r, uint32_t index, before b, double clip, uint32_t applied)
{
    const bp_optimizer_options *o = &r->plan.spec.optimizer_options;
    const bp_parameter *p = &r->plan.builder.parameters[index];
    const double decay = p->decay || o->decay_all ? o->weight_decay : 0.0;
    float *gradient = model_fixture_read(r, p->gradient);
    before a = remember(r, index);
    for (uint64_t i = 0; i < p->count; i++) {
        const double g = clip * (double)gradient[i];
        const double m = (double)b.m[i] + (1.0 - o->beta1) * (g - (double)b.m[i]);
        const double v = o->beta2 * (double)b.v[i] + (1.0 - o->beta2) * g * g;
        const double c1 = 1.0 - pow(o->beta1, applied);
        const double c2 = 1.0 - pow(o->beta2, applied);
        const double w = (double)b.weight[i] * (1.0 - o->learning_rate * decay) -
                         o->learning_rate / c1 * m / (sqrt(v) / sqrt(c2) + o->epsilon);
        /* m may cancel: its error is a few units in the last place of its terms. */
        assert_true(fabs((double)a.m[i] - m) <= 3e-7 * (fabs((double)b.m[i]) + fabs(g)));
        assert_true(fabs((double)a.v[i] - v) <= 1e-6 * v + 1e-16);
        assert_true(fabs((double)a.weight[i] - w) <= 1e-6 * fabs(w) + 1e-7);
    }
    forget(a);
    free(gradient);
}

static void run_steps(const bp_spec *spec, uint32_t steps)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    const uint32_t count = r.plan.builder.parameter_count;
    before *b = calloc(count, sizeof *b);
    for (uint32_t step = 1; step <= steps; step++) {
        for (uint32_t i = 0; i < count; i++) {
            b[i] = remember(&r, i);
        }
        const bp_outcome outcome = model_fixture_step(&r);
        const double norm = gradient_norm(&r);
        assert_true(fabs(outcome.norm - norm) <= 1e-6 * norm);
        const double most = spec->optimizer_options.max_grad_norm;
        const double clip = most > 0.0 ? fmin(1.0, most / (norm + 1e-6)) : 1.0;
        bp_control_block *control = model_fixture_read(&r, model_fixture_find(&r, "control"));
        assert_true(fabs((double)control->clip - clip) <= 1e-6 * clip);
        assert_int_equal(control->applied, step);
        free(control);
        for (uint32_t i = 0; i < count; i++) {
            check_update(&r, i, b[i], clip, step);
            forget(b[i]);
        }
    }
    free(b);
    model_fixture_close(&r);
}

/* verifies optim-1.ca07 */
static void test_update(void **state)
{
    (void)state;
    const bp_spec spec = model_fixture_spec();
    run_steps(&spec, 3);
}

/* Gradients far above the bound, far below it, and no bound at all. */
/* verifies optim-5.f2a2 */
static void test_clip(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    spec.optimizer_options.max_grad_norm = 0.01;
    run_steps(&spec, 2);
    spec.optimizer_options.max_grad_norm = 1e6;
    run_steps(&spec, 2);
}

/* verifies optim-1.ca07 */
static void test_decay_all(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    spec.optimizer_options.decay_all = true;
    run_steps(&spec, 1);
}

/* More elements than one partial sum holds. */
/* verifies optim-1.ca07 */
static void test_long_tensor(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    spec.config.vocabulary = BP_CLIP_CHUNK / 16 + 3;
    run_steps(&spec, 1);
}

/* verifies optim-5.f2a2 */
static void test_skip(void **state)
{
    (void)state;
    const bp_spec spec = model_fixture_spec();
    model_fixture r;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    (void)model_fixture_step(&r);
    /* An infinite bias makes the loss and every gradient behind it not finite. */
    const uint32_t buffer = model_fixture_find(&r, "transformer.h.1.mlp.c_proj.bias");
    float *bias = model_fixture_read(&r, buffer);
    const float kept = bias[3];
    bias[3] = INFINITY;
    model_fixture_write(&r, buffer, bias);
    const uint64_t digest = model_fixture_digest(&r);
    bp_control_block *control = model_fixture_read(&r, model_fixture_find(&r, "control"));
    assert_int_equal(control->applied, 1);
    const bp_outcome outcome = model_fixture_step(&r);
    assert_true(outcome.nonfinite);
    bp_control_block *after = model_fixture_read(&r, model_fixture_find(&r, "control"));
    assert_int_equal(after->applied, 1);
    assert_int_equal(after->skip, 1);
    /* Everything but the decision itself is as it was. */
    model_fixture_write(&r, model_fixture_find(&r, "control"), control);
    assert_true(model_fixture_digest(&r) == digest);
    /* And with the cause mended training goes on. */
    bias[3] = kept;
    model_fixture_write(&r, buffer, bias);
    assert_false(model_fixture_step(&r).nonfinite);
    assert_true(model_fixture_digest(&r) != digest);
    free(after);
    free(control);
    free(bias);
    model_fixture_close(&r);
}

/* verifies optim-6.74aa */
static void test_check(void **state)
{
    (void)state;
    const bp_optimizer_options good = model_fixture_spec().optimizer_options;
    assert_int_equal(bp_optimizer_adamw.check(&bp_optimizer_adamw, &good, NULL), BP_OK);
    const struct {
        const char *name;
        size_t offset;
        double bad[2];
    } rules[] = {
        {"learning-rate", offsetof(bp_optimizer_options, learning_rate), {-1.0, (double)NAN}},
        {"adam-beta1", offsetof(bp_optimizer_options, beta1), {-0.1, 1.0}},
        {"adam-beta2", offsetof(bp_optimizer_options, beta2), {1.0, (double)NAN}},
        {"adam-epsilon", offsetof(bp_optimizer_options, epsilon), {-1e-9, (double)INFINITY}},
        {"weight-decay", offsetof(bp_optimizer_options, weight_decay), {-0.01, (double)NAN}},
        {"max-grad-norm", offsetof(bp_optimizer_options, max_grad_norm), {-1.0, (double)INFINITY}}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        for (int k = 0; k < 2; k++) {
            bp_optimizer_options options = good;
            memcpy((char *)&options + rules[i].offset, &rules[i].bad[k], sizeof(double));
            bp_error error = {0};
            assert_int_equal(bp_optimizer_adamw.check(&bp_optimizer_adamw, &options, &error),
                             BP_ERR_USAGE);
            assert_string_equal(error.name, rules[i].name);
        }
    }
}

static void test_names(void **state)
{
    (void)state;
    const bp_spec spec = model_fixture_spec();
    model_fixture r;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    assert_string_equal(bp_optimizer_adamw.name, "adamw");
    const bp_parameter *p = &r.plan.builder.parameters[0];
    assert_int_equal(p->state[0], model_fixture_find(&r, "transformer.wte.weight.exp_avg"));
    assert_int_equal(p->state[1], model_fixture_find(&r, "transformer.wte.weight.exp_avg_sq"));
    model_fixture_close(&r);
}

/* An update of that many parameters in a graph of so many rows, or, with NULL, one that counts
 * them. A parameter without gradient has no part in it. */
static bp_status emit_update(const bp_graph_limits *limit, uint32_t parameters,
                             bp_graph_limits *used)
{
    static uint64_t memory[1 << 13];
    bp_spec spec = model_fixture_spec();
    bp_arena arena;
    bp_graph graph;
    bp_error error = {0};
    bp_parameter rows[8];
    char names[64];
    bp_arena_init(&arena, memory, sizeof memory);
    if (limit == NULL) {
        bp_graph_count(&graph, &error);
    } else {
        assert_int_equal(bp_graph_init(&graph, limit, &arena, &error), BP_OK);
    }
    bp_builder builder;
    bp_build_init(&builder, &graph, &spec, rows, 8);
    builder.label = "update";
    builder.names = names;
    builder.names_limit = sizeof names;
    for (uint32_t i = 0; i < parameters; i++) {
        const bp_parameter_info info = {.name = "weight", .rank = 1, .shape = {5, 0}};
        bp_build_parameter(&builder, &info);
        rows[i].ready = i != 1;
        rows[i].ready_count = rows[i].count;
    }
    for (uint32_t i = 0; i < parameters; i++) {
        int64_t accumulate = 0;
        if (rows[i].ready) {
            (void)bp_build_gradient(&builder, i, &accumulate);
        }
    }
    bp_optimizer_adamw.declare(&builder);
    bp_graph_begin(&graph, BP_PROGRAM_UPDATE);
    bp_optimizer_adamw.norms(&builder);
    bp_optimizer_adamw.decide(&builder, false, true);
    bp_optimizer_adamw.apply(&builder);
    *used = graph.used;
    if (builder.status == BP_OK && limit != NULL) {
        assert_int_equal(graph.used.ops, 3);
        assert_int_equal(graph.ops[0].tuples, parameters - (parameters > 1 ? 1 : 0));
        assert_int_equal(graph.ops[2].tuples, graph.ops[0].tuples);
    }
    return builder.status;
}

/* What is counted is what is needed, to the row. */
/* verifies compile-6.ea09 */
static void test_counted(void **state)
{
    (void)state;
    for (uint32_t parameters = 1; parameters <= 5; parameters++) {
        bp_graph_limits counted, used;
        assert_int_equal(emit_update(NULL, parameters, &counted), BP_OK);
        assert_int_equal(emit_update(&counted, parameters, &used), BP_OK);
        assert_memory_equal(&used, &counted, sizeof used);
    }
}

/* Every table too small by more and more rows: always a clean refusal. */
/* verifies compile-21.c84d */
static void test_small_tables(void **state)
{
    (void)state;
    bp_graph_limits all, used;
    assert_int_equal(emit_update(NULL, 5, &all), BP_OK);
    for (uint32_t refs = 0; refs < all.refs; refs++) {
        bp_graph_limits limit = all;
        limit.refs = refs;
        assert_int_equal(emit_update(&limit, 5, &used), BP_ERR_FIT);
    }
    for (uint32_t scalars = 0; scalars < all.scalars; scalars++) {
        bp_graph_limits limit = all;
        limit.scalars = scalars;
        assert_int_equal(emit_update(&limit, 5, &used), BP_ERR_FIT);
    }
    for (uint32_t ops = 0; ops < all.ops; ops++) {
        bp_graph_limits limit = all;
        limit.ops = ops;
        assert_int_equal(emit_update(&limit, 5, &used), BP_ERR_FIT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_update),       cmocka_unit_test(test_clip),
        cmocka_unit_test(test_decay_all),    cmocka_unit_test(test_long_tensor),
        cmocka_unit_test(test_skip),         cmocka_unit_test(test_check),
        cmocka_unit_test(test_names),        cmocka_unit_test(test_counted),
        cmocka_unit_test(test_small_tables),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
