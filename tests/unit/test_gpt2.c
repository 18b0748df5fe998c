/* SPDX-License-Identifier: MIT */
/* GPT-2 as a whole: equal bits under every checkpoint policy and tape variant, accumulation,
 * gradients with dropout against finite differences, generation against evaluation, tables and
 * names. */
#include "layers/gpt2.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/rig.h"

#define TOKENS 131

static int32_t tokens[TOKENS];

static int make_tokens(void **state)
{
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (i * i * 7 + i / 5) % 37;
    }
    return 0;
}

static bp_spec dropped(bp_spec spec)
{
    spec.config.embedding_dropout = 0.1;
    spec.config.residual_dropout = 0.2;
    spec.config.attention_dropout = 0.15;
    return spec;
}

static uint64_t digest_after(const bp_spec *spec, uint32_t steps)
{
    rig r;
    rig_open(&r, spec, tokens, TOKENS);
    for (uint32_t i = 0; i < steps; i++) {
        const bp_outcome outcome = rig_step(&r);
        assert_true(isfinite(outcome.loss));
        assert_false(outcome.nonfinite);
    }
    const uint64_t digest = rig_digest(&r);
    rig_close(&r);
    return digest;
}

/* Every policy, with and without dropout, one and three micro-batches, poisoned and not. */
static void test_policies(void **state)
{
    (void)state;
    const bp_policy policies[] = {{BP_POLICY_FULL, 0},
                                  {BP_POLICY_MEMORY_POOR, 0},
                                  {BP_POLICY_EVERY, 1},
                                  {BP_POLICY_EVERY, 2},
                                  {BP_POLICY_EVERY, 3}};
    for (int drop = 0; drop < 2; drop++) {
        for (uint32_t accumulation = 1; accumulation <= 3; accumulation += 2) {
            bp_spec spec = drop != 0 ? dropped(rig_spec()) : rig_spec();
            spec.accumulation = accumulation;
            const uint64_t wanted = digest_after(&spec, 5);
            spec.poison = true;
            assert_true(digest_after(&spec, 5) == wanted);
            for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
                spec.policy = policies[p];
                assert_true(digest_after(&spec, 5) == wanted);
            }
        }
    }
}

static void test_seed_matters(void **state)
{
    (void)state;
    bp_spec spec = dropped(rig_spec());
    const uint64_t first = digest_after(&spec, 1);
    assert_true(digest_after(&spec, 1) == first);
    spec.seed++;
    assert_true(digest_after(&spec, 1) != first);
    spec = rig_spec();
    const uint64_t plain = digest_after(&spec, 1);
    spec.config.residual_dropout = 0.3;
    assert_true(digest_after(&spec, 1) != plain);
}

/* GPT-2 with forward and backward held to one tape variant of the blocks: no schedule that the core
 * makes asks for the ones between. */
static uint32_t forced_variant;

static void force_variant(bp_stage_call *call, const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    if (bp_model_gpt2.variants(config, call->stage) > forced_variant) {
        call->variant = forced_variant;
    }
}

static void forced_forward(bp_emit *emit, bp_stage_call *call)
{
    force_variant(call, emit);
    bp_model_gpt2.forward(emit, call);
}

static void forced_backward(bp_emit *emit, bp_stage_call *call)
{
    force_variant(call, emit);
    bp_model_gpt2.backward(emit, call);
}

static void test_variants(void **state)
{
    (void)state;
    bp_model model = bp_model_gpt2;
    model.forward = forced_forward;
    model.backward = forced_backward;
    for (int drop = 0; drop < 2; drop++) {
        bp_spec spec = drop != 0 ? dropped(rig_spec()) : rig_spec();
        const uint64_t wanted = digest_after(&spec, 5);
        spec.model = &model;
        spec.poison = true;
        for (forced_variant = 0; forced_variant < 3; forced_variant++) {
            spec.policy = (bp_policy){BP_POLICY_NONE, 0};
            assert_true(digest_after(&spec, 5) == wanted);
            /* Here the last forward of a segment only makes its tape. */
            spec.policy = (bp_policy){BP_POLICY_FULL, 0};
            assert_true(digest_after(&spec, 5) == wanted);
        }
    }
}

/* Less on the tape takes less memory. */
static void test_variants_save_memory(void **state)
{
    (void)state;
    bp_model model = bp_model_gpt2;
    model.forward = forced_forward;
    model.backward = forced_backward;
    bp_spec spec = rig_spec();
    spec.config.layers = 6;
    spec.model = &model;
    uint64_t before = UINT64_MAX;
    for (forced_variant = 0; forced_variant < 3; forced_variant++) {
        rig r;
        rig_open(&r, &spec, tokens, TOKENS);
        assert_true(r.runtime.report.class_most[BP_CLASS_TAPE] < before);
        before = r.runtime.report.class_most[BP_CLASS_TAPE];
        rig_close(&r);
    }
}

/* Gradients of the first group, all of them. */
static float *gradients_of(const bp_spec *spec, uint64_t *count)
{
    rig r;
    rig_open(&r, spec, tokens, TOKENS);
    const bp_emit *emit = &r.runtime.emit;
    *count = r.runtime.report.parameters;
    float *all = malloc((size_t)*count * sizeof *all);
    assert_non_null(all);
    (void)rig_step(&r);
    uint64_t at = 0;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        float *gradient = rig_read(&r, emit->parameters[i].gradient);
        memcpy(all + at, gradient, (size_t)emit->parameters[i].count * sizeof *all);
        at += emit->parameters[i].count;
        free(gradient);
    }
    assert_int_equal(at, *count);
    rig_close(&r);
    return all;
}

/* k micro-batches of b are one of k * b, dropout on: within 1e-6, norm-wise. */
static void test_accumulation(void **state)
{
    (void)state;
    bp_spec whole = dropped(rig_spec());
    whole.batch = 6;
    whole.loss_rows = 17;
    uint64_t count = 0;
    float *wanted = gradients_of(&whole, &count);
    for (uint32_t batch = 1; batch <= 3; batch++) {
        bp_spec parts = whole;
        parts.batch = batch;
        parts.loss_rows = 0;
        parts.accumulation = 6 / batch;
        float *found = gradients_of(&parts, &count);
        double difference = 0.0;
        double norm = 0.0;
        for (uint64_t i = 0; i < count; i++) {
            const double d = (double)found[i] - (double)wanted[i];
            difference += d * d;
            norm += (double)wanted[i] * (double)wanted[i];
        }
        assert_true(sqrt(difference) <= 1e-6 * sqrt(norm));
        free(found);
    }
    free(wanted);
}

/* The loss of the first group with one parameter moved by `distance` along `direction`. */
static double moved_loss(rig *r, uint32_t buffer, const float *at, const float *direction,
                         double distance)
{
    const size_t count = (size_t)r->runtime.graph.buffers[buffer].bytes / sizeof *at;
    float *moved = malloc(count * sizeof *moved);
    assert_non_null(moved);
    for (size_t i = 0; i < count; i++) {
        moved[i] = (float)((double)at[i] + distance * (double)direction[i]);
    }
    rig_write(r, buffer, moved);
    free(moved);
    r->runtime.steps = 0; /* the same tokens, the same masks */
    return rig_step(r).loss;
}

/* Along its own gradient the loss grows by the gradient's norm: for every parameter, with a rate of
 * 0 so that the weights stay. */
static void check_differences(const bp_spec *spec)
{
    rig r;
    rig_open(&r, spec, tokens, TOKENS);
    (void)rig_step(&r);
    for (uint32_t p = 0; p < r.runtime.emit.parameter_count; p++) {
        const bp_parameter *parameter = &r.runtime.emit.parameters[p];
        r.runtime.steps = 0;
        (void)rig_step(&r);
        float *gradient = rig_read(&r, parameter->gradient);
        float *weight = rig_read(&r, parameter->weight);
        double square = 0.0;
        for (uint64_t i = 0; i < parameter->count; i++) {
            square += (double)gradient[i] * (double)gradient[i];
        }
        assert_true(square > 0.0);
        /* A step of 2e-3 in all: the loss changes by far more than it is rounded. */
        const double step = 2e-3 / sqrt(square);
        const double rise = moved_loss(&r, parameter->weight, weight, gradient, step) -
                            moved_loss(&r, parameter->weight, weight, gradient, -step);
        if (fabs(rise / (2.0 * step) - square) > 0.01 * square + 2e-4 * sqrt(square)) {
            fail_msg("%s: slope %g, gradient %g",
                     bp_graph_name(&r.runtime.graph, parameter->weight),
                     rise / (2.0 * step) / sqrt(square), sqrt(square));
        }
        rig_write(&r, parameter->weight, weight);
        free(gradient);
        free(weight);
    }
    rig_close(&r);
}

static void test_differences(void **state)
{
    (void)state;
    bp_spec spec = rig_spec();
    spec.optimizer_options.learning_rate = 0.0;
    spec.config.initializer_range = 0.3;
    check_differences(&spec);
    spec = dropped(spec);
    check_differences(&spec);
    spec.config.inner = 13;
    spec.loss_rows = 3;
    check_differences(&spec);
}

static double negative_log_likelihood(const float *logits, uint32_t count, int32_t target)
{
    double most = (double)logits[0];
    for (uint32_t i = 1; i < count; i++) {
        most = fmax(most, (double)logits[i]);
    }
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        sum += exp((double)logits[i] - most);
    }
    return most + log(sum) - (double)logits[target];
}

/* Tokens fed one by one predict as evaluation does; a prompt fed in runs predicts as one by one. */
static void test_generation(void **state)
{
    (void)state;
    bp_spec spec = dropped(rig_spec());
    spec.batch = 1;
    spec.evaluate = true;
    spec.generate_context = 12;
    spec.prefill_rows = 4;
    rig r;
    rig_open(&r, &spec, tokens, 11);
    for (int i = 0; i < 3; i++) {
        (void)rig_step(&r);
    }
    const uint64_t digest = rig_digest(&r);
    double loss = 0.0;
    uint64_t targets = 0;
    assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 0, &loss, &targets), BP_OK);
    assert_int_equal(targets, 10);
    assert_int_equal(bp_runtime_restart(&r.runtime), BP_OK);
    double sum = 0.0;
    float each[10][37];
    for (int i = 0; i < 10; i++) {
        assert_int_equal(bp_runtime_accept(&r.runtime, &tokens[i], 1), BP_OK);
        memcpy(each[i], r.runtime.logits_host, sizeof each[i]);
        sum += negative_log_likelihood(r.runtime.logits_host, 37, tokens[i + 1]);
    }
    assert_true(fabs(sum / 10.0 - loss) <= 1e-5 * loss);
    for (uint32_t length = 1; length <= 10; length++) {
        assert_int_equal(bp_runtime_restart(&r.runtime), BP_OK);
        assert_int_equal(bp_runtime_accept(&r.runtime, tokens, length), BP_OK);
        for (int v = 0; v < 37; v++) {
            const double wanted = (double)each[length - 1][v];
            assert_true(fabs((double)r.runtime.logits_host[v] - wanted) <= 1e-5);
        }
    }
    assert_true(rig_digest(&r) == digest);
    rig_close(&r);
}

/* Evaluation in chunks, of a last micro-batch that is not full, and without an optimizer. */
static void test_evaluation(void **state)
{
    (void)state;
    bp_spec spec = dropped(rig_spec());
    spec.evaluate = true;
    spec.optimizer = NULL;
    double wanted = 0.0;
    for (uint32_t rows = 0; rows <= 20; rows += 5) {
        rig r;
        double loss = 0.0;
        uint64_t targets = 0;
        spec.loss_rows = rows;
        rig_open(&r, &spec, tokens, TOKENS);
        assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 0, &loss, &targets), BP_OK);
        assert_int_equal(targets, TOKENS - 1);
        wanted = rows == 0 ? loss : wanted;
        assert_true(fabs(loss - wanted) <= 1e-7 * wanted);
        assert_true(fabs(loss - log(37.0)) < 0.5);
        rig_close(&r);
    }
}

static void check_parameter(rig *r, uint32_t index, const char *name, uint64_t rows, uint64_t width,
                            double deviation)
{
    const bp_parameter *p = &r->runtime.emit.parameters[index];
    const bp_buffer *b = &r->runtime.graph.buffers[p->weight];
    assert_string_equal(bp_graph_name(&r->runtime.graph, p->weight), name);
    assert_int_equal(b->rank, width != 0 ? 2 : 1);
    assert_int_equal(b->shape[0], rows);
    assert_int_equal(b->shape[1], width);
    assert_int_equal(p->decay, width != 0);
    float *weight = rig_read(r, p->weight);
    double mean = 0.0;
    double square = 0.0;
    for (uint64_t i = 0; i < p->count; i++) {
        mean += (double)weight[i] / (double)p->count;
        square += (double)weight[i] * (double)weight[i] / (double)p->count;
    }
    free(weight);
    if (deviation > 0.0) {
        assert_true(fabs(sqrt(square) / deviation - 1.0) < 0.15);
        assert_true(fabs(mean) < 0.3 * deviation);
    } else {
        /* Ones or zeros. */
        assert_true(mean == square);
        assert_true(mean == (strstr(name, "weight") != NULL ? 1.0 : 0.0));
    }
}

static void test_parameters(void **state)
{
    (void)state;
    bp_spec spec = rig_spec();
    spec.config.layers = 11;
    rig r;
    rig_open(&r, &spec, tokens, TOKENS);
    const double end = 0.1 / sqrt(22.0);
    const struct {
        const char *name;
        uint64_t rows, width;
        double deviation;
    } block[] = {{"ln_1.weight", 16, 0, 0.0},         {"ln_1.bias", 16, 0, 0.0},
                 {"attn.c_attn.weight", 16, 48, 0.1}, {"attn.c_attn.bias", 48, 0, 0.0},
                 {"attn.c_proj.weight", 16, 16, end}, {"attn.c_proj.bias", 16, 0, 0.0},
                 {"ln_2.weight", 16, 0, 0.0},         {"ln_2.bias", 16, 0, 0.0},
                 {"mlp.c_fc.weight", 16, 64, 0.1},    {"mlp.c_fc.bias", 64, 0, 0.0},
                 {"mlp.c_proj.weight", 64, 16, end},  {"mlp.c_proj.bias", 16, 0, 0.0}};
    assert_int_equal(r.runtime.emit.parameter_count, 2 + 11 * 12 + 2);
    assert_int_equal(bp_model_gpt2.parameter_count(&spec.config), 2 + 11 * 12 + 2);
    check_parameter(&r, 0, "transformer.wte.weight", 37, 16, 0.1);
    check_parameter(&r, 1, "transformer.wpe.weight", 12, 16, 0.1);
    for (uint32_t layer = 0; layer < 11; layer++) {
        for (uint32_t i = 0; i < 12; i++) {
            char name[96];
            snprintf(name, sizeof name, "transformer.h.%u.%s", layer, block[i].name);
            check_parameter(&r, 2 + 12 * layer + i, name, block[i].rows, block[i].width,
                            block[i].deviation);
        }
    }
    check_parameter(&r, 134, "transformer.ln_f.weight", 16, 0, 0.0);
    check_parameter(&r, 135, "transformer.ln_f.bias", 16, 0, 0.0);
    rig_close(&r);
}

static void test_stages(void **state)
{
    (void)state;
    const bp_model_config config = {.layers = 12};
    char text[32];
    assert_string_equal(bp_model_gpt2.name, "gpt2");
    assert_int_equal(bp_model_gpt2.stages(&config), 14);
    const struct {
        uint32_t stage;
        const char *name;
        uint32_t variants;
    } stages[] = {{0, "wte", 1}, {1, "h.0", 3}, {12, "h.11", 3}, {13, "head", 1}};
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        bp_model_gpt2.stage_name(&config, stages[i].stage, text);
        assert_string_equal(text, stages[i].name);
        assert_int_equal(bp_model_gpt2.variants(&config, stages[i].stage), stages[i].variants);
    }
}

static void test_check(void **state)
{
    (void)state;
    bp_spec spec = rig_spec();
    bp_error error = {0};
    assert_int_equal(bp_model_gpt2.check(&spec, &error), BP_OK);
    spec.config.heads = 3;
    assert_int_equal(bp_model_gpt2.check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "n_head");
    assert_int_equal(error.found, 3);
    assert_int_equal(error.wanted, 16);
    spec.config.heads = 32;
    assert_int_equal(bp_model_gpt2.check(&spec, NULL), BP_ERR_USAGE);
}

/* What one call of a stage emits, in a program of its own with more room than it needs. */
static bp_graph_limits emitted(const bp_spec *spec, bp_mode mode, uint32_t stage, uint32_t variant,
                               bool backward)
{
    static uint64_t memory[1 << 16];
    const bp_graph_limits room = {1024, 512, 8192, 8192, 1 << 16};
    bp_arena arena;
    bp_graph graph;
    bp_error error = {0};
    bp_parameter parameters[64];
    bp_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(bp_graph_init(&graph, &room, &arena, &error), BP_OK);
    bp_emit emit = {.graph = &graph,
                    .spec = spec,
                    .parameters = parameters,
                    .parameter_limit = 64,
                    .mode = mode,
                    .label = "h.1000",
                    .rows = mode == BP_MODE_DECODE ? 4 : spec->batch * spec->sequence};
    bp_model_gpt2.parameters(&emit, &spec->config);
    const bp_graph_limits start = graph.used;
    bp_graph_begin(&graph, BP_PROGRAM_STEP);
    bp_stage_call call = {.stage = stage, .variant = variant};
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        call.tape[i] = BP_ABSENT;
    }
    if (backward) {
        bp_model_gpt2.backward(&emit, &call);
    } else if (mode == BP_MODE_DECODE) {
        bp_model_gpt2.decode(&emit, &call);
    } else {
        bp_model_gpt2.forward(&emit, &call);
    }
    assert_int_equal(emit.status, BP_OK);
    return (bp_graph_limits){graph.used.buffers - start.buffers, graph.used.ops, graph.used.refs,
                             graph.used.scalars, graph.used.name_bytes - start.name_bytes};
}

static void assert_within(bp_graph_limits used, bp_graph_limits limit)
{
    assert_true(used.buffers <= limit.buffers);
    assert_true(used.ops <= limit.ops);
    assert_true(used.refs <= limit.refs);
    assert_true(used.scalars <= limit.scalars);
    assert_true(used.name_bytes <= limit.name_bytes);
}

/* No call emits more than limits says, and the largest comes near it. */
static void test_limits(void **state)
{
    (void)state;
    for (uint32_t rows = 1; rows <= 20; rows += 19) {
        bp_spec spec = dropped(rig_spec());
        spec.loss_rows = rows;
        spec.generate_context = 12;
        const bp_graph_limits limit = bp_model_gpt2.limits(&spec);
        for (uint32_t stage = 0; stage < 4; stage++) {
            for (uint32_t v = 0; v < bp_model_gpt2.variants(&spec.config, stage); v++) {
                assert_within(emitted(&spec, BP_MODE_TRAIN, stage, v, false), limit);
            }
            assert_within(emitted(&spec, BP_MODE_EVAL, stage, 0, false), limit);
            assert_within(emitted(&spec, BP_MODE_DECODE, stage, 0, false), limit);
            assert_within(emitted(&spec, BP_MODE_TRAIN, stage, 2, true), limit);
        }
        const bp_graph_limits most = emitted(&spec, BP_MODE_TRAIN, rows == 1 ? 3 : 1, 2, true);
        assert_true(limit.ops <= most.ops + most.ops / 4);
        assert_true(limit.refs <= 2 * most.refs);
        assert_true(limit.scalars <= 2 * most.scalars);
        assert_true(limit.buffers <= 2 * most.buffers);
    }
    /* Sizes that make no sense must not wrap round to small tables. */
    bp_spec huge = rig_spec();
    huge.batch = UINT32_MAX;
    huge.sequence = UINT32_MAX;
    huge.loss_rows = 1;
    assert_true(bp_model_gpt2.limits(&huge).ops > 1U << 26);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),     cmocka_unit_test(test_seed_matters),
        cmocka_unit_test(test_variants),     cmocka_unit_test(test_variants_save_memory),
        cmocka_unit_test(test_accumulation), cmocka_unit_test(test_differences),
        cmocka_unit_test(test_generation),   cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_parameters),   cmocka_unit_test(test_stages),
        cmocka_unit_test(test_check),        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
