/* SPDX-License-Identifier: MIT */
/* The update rules over whole matrices against their references in double
 * (tools/golden/matrix_rules.py): a model of the test's own, whose loss is of no matter and whose
 * gradients are W (I + K), in f32, on every form of the host, with states of 32 and 8 bits; planned
 * state bytes; what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/optimizer.h"
#include "layers/nodes/embedding.h"
#include "layers/nodes/inputs.h"
#include "layers/heads/loss.h"
#include "optim/rules.h"
#include "tests/fixtures/golden.h"
#include "tests/fixtures/model_fixture.h"

enum { TOKENS = 120, STEPS = 12, LEARNED = 6, MIXES = 4, WIDTH = 8 };
enum { TABLE = 0, FIRST = 1, MIX = FIRST + LEARNED, HEAD = MIX + MIXES, PARAMETERS };

/* As in tools/golden/matrix_rules.py. */
static const struct tensor {
    const char *name;
    uint64_t shape[2];
    bool input_major;
    uint64_t together;
} learned[LEARNED] = {{"tall.weight", {12, 7}, false, 1}, {"wide.weight", {6, 13}, false, 1},
                      {"conv.weight", {8, 9}, true, 1},   {"query.weight", {8, 6}, false, 4},
                      {"some.bias", {5, 0}, false, 1},    {"some.norm", {9, 0}, false, 1}};

static uint64_t count_of(uint32_t i)
{
    return learned[i].shape[0] * (learned[i].shape[1] > 0 ? learned[i].shape[1] : 1);
}

static double value(uint32_t i, uint32_t salt)
{
    uint32_t x = i * 2654435761u + salt * 2246822519u + 374761393u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (double)(x >> 16) / 65536.0 - 0.5;
}

static bp_status toy_check(const bp_spec *spec, bp_error *error)
{
    (void)spec, (void)error;
    return BP_OK;
}

static uint32_t toy_stages(const bp_model_config *config)
{
    (void)config;
    return 2;
}

static void toy_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    (void)config;
    memcpy(text, stage == 0 ? "embed" : "judge", 6);
}

static uint32_t toy_variants(const bp_model_config *config, uint32_t stage)
{
    (void)config, (void)stage;
    return 1;
}

static void toy_parameters(bp_builder *builder, const bp_model_config *config)
{
    bp_parameter_info table = {.name = "table",
                               .rank = 2,
                               .shape = {config->vocabulary, WIDTH},
                               .init = BP_INIT_NORMAL,
                               .deviation = 0.3};
    bp_build_parameter(builder, &table);
    for (uint32_t i = 0; i < LEARNED; i++) {
        const bool matrix = learned[i].shape[1] > 0;
        const bp_parameter_info info = {.name = learned[i].name,
                                        .rank = matrix ? 2 : 1,
                                        .shape = {learned[i].shape[0], learned[i].shape[1]},
                                        .decay = matrix,
                                        .input_major = learned[i].input_major,
                                        .together = learned[i].together};
        bp_build_parameter(builder, &info);
    }
    for (uint32_t i = 0; i < MIXES; i++) {
        char name[] = "mix.0";
        name[4] = (char)('0' + i);
        const bp_parameter_info info = {
            .name = name, .rank = 2, .shape = {learned[i].shape[1], learned[i].shape[1]}};
        bp_build_parameter(builder, &info);
    }
    table.name = "head";
    bp_build_parameter(builder, &table);
}

static uint32_t toy_count(const bp_model_config *config)
{
    (void)config;
    return PARAMETERS;
}

static uint32_t toy_stage(const bp_model_config *config, uint32_t parameter)
{
    (void)config;
    return parameter == HEAD ? 1 : 0;
}

static bp_embedding toy_embedding(const bp_builder *builder)
{
    return (bp_embedding){.token = TABLE,
                          .position = BP_NO_PARAMETER,
                          .vocabulary = builder->spec->config.vocabulary,
                          .width = WIDTH};
}

static bp_head toy_head(const bp_builder *builder)
{
    return (bp_head){HEAD, BP_NO_PARAMETER, builder->spec->config.vocabulary, WIDTH, 0.0};
}

static bp_ref boundary(bp_builder *builder, bp_class class_of, const char *name)
{
    return bp_build_buffer(builder, class_of, bp_build_working(builder), builder->rows, WIDTH,
                           name);
}

static void toy_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_embedding embedding = toy_embedding(builder);
    const bp_head head = toy_head(builder);
    if (call->stage == 0) {
        call->output = boundary(builder, builder->output_class, "out");
        bp_embedding_forward(builder, &embedding, call->output);
    } else {
        bp_loss_forward(builder, &head, call->input);
    }
}

/* W times its mix, or a vector's half. */
static void toy_gradient(bp_builder *builder, uint32_t i)
{
    int64_t accumulate = 0;
    const int64_t m = (int64_t)learned[i].shape[0], n = (int64_t)learned[i].shape[1];
    const bp_ref gradient = bp_build_gradient(builder, FIRST + i, &accumulate);
    const bp_ref weight = bp_build_acquire(builder, FIRST + i, BP_FOR_BACKWARD);
    if (n > 0) {
        const bp_matmul_scalars scalars = {
            .m = m, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .accumulate = accumulate};
        const bp_matmul_operands operands = {
            .c = gradient,
            .before = BP_ABSENT,
            .a = weight,
            .b = bp_build_acquire(builder, MIX + i, BP_FOR_BACKWARD),
            .bias = BP_ABSENT,
            .residual = BP_ABSENT,
            .work = BP_ABSENT};
        bp_build_matmul(builder, &operands, &scalars);
        bp_build_release(builder, MIX + i);
    } else {
        bp_build_scale(builder, &(bp_scale_operands){.y = gradient, .x = weight},
                       &(bp_scale_scalars){.count = m, .factor = 0.5});
    }
    bp_build_release(builder, FIRST + i);
}

static void toy_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_head head = toy_head(builder);
    if (call->stage == 1) {
        call->d_input = boundary(builder, BP_CLASS_WORKSPACE, "d_in");
        bp_loss_backward(builder, &head, call->input, call->d_input, BP_ABSENT);
        return;
    }
    for (uint32_t i = 0; i < LEARNED; i++) {
        toy_gradient(builder, i);
    }
}

static const bp_model toy = {.name = "toy",
                             .check = toy_check,
                             .inputs = bp_inputs_windows,
                             .stages = toy_stages,
                             .stage_name = toy_name,
                             .variants = toy_variants,
                             .parameters = toy_parameters,
                             .parameter_count = toy_count,
                             .parameter_stage = toy_stage,
                             .forward = toy_forward,
                             .backward = toy_backward};

static const bp_parameter_rule frozen[] = {
    {.glob = "table", .kind = BP_RULE_FREEZE},
    {.glob = "mix.*", .kind = BP_RULE_FREEZE},
    {.glob = "head", .kind = BP_RULE_FREEZE},
    {.glob = "*", .kind = BP_RULE_OVERRIDE, .sets_bits = true, .optim_bits = 8}};

static const struct rule_case {
    const char *name;
    const bp_optimizer *optimizer;
    uint64_t bytes; /* of its state in f32 */
    double rank;    /* not 0: apollo's */
    bool plain;     /* muon's step as its author has it */
} cases[] = {
    /* rows and columns, and vectors */
    {"adafactor", &bp_optimizer_adafactor, 4 * (19 + 19 + 17 + 14 + 5 + 9), 0, false},
    {"adalomo", &bp_optimizer_adalomo, 4 * (19 + 19 + 17 + 14 + 5 + 9), 0, false},
    /* the first moments, and one second of each row, column, head, element or vector */
    {"adam_mini", &bp_optimizer_adam_mini, 4 * (296 + 12 + 6 + 9 + 2 + 5 + 1), 0, false},
    {"muon", &bp_optimizer_muon, 4 * (282 + 2 * 14), 0, false},
    {"muon_plain", &bp_optimizer_muon, 4 * (282 + 2 * 14), 0, true},
    {"apollo", &bp_optimizer_apollo, 4 * (2 * 3 * (12 + 13 + 9 + 8) + 4 + 2 * 14), 3, false},
    {"apollo_mini", &bp_optimizer_apollo_mini, 4 * (2 * (12 + 13 + 9 + 8) + 4 + 2 * 14), 1, false}};
enum { CASES = sizeof cases / sizeof cases[0] };

static int32_t tokens[TOKENS];

static bp_spec spec_of(const struct rule_case *c)
{
    bp_spec spec = model_fixture_spec();
    spec.model = &toy;
    spec.optimizer = c->optimizer;
    spec.optimizer_options = *c->optimizer->defaults;
    spec.optimizer_options.learning_rate = 0.01;
    spec.optimizer_options.weight_decay = 0.1;
    spec.optimizer_options.interval = 5.0;
    spec.optimizer_options.match_rms = !c->plain;
    if (c->rank > 0.0) {
        spec.optimizer_options.rank = c->rank;
    }
    spec.rules = frozen;
    spec.rule_count = 3;
    spec.seed = 42;
    return spec;
}

static void fill(model_fixture *r, const char *name, uint64_t count, uint32_t salt,
                 uint64_t identity)
{
    float *values = malloc(count * sizeof *values);
    for (uint32_t i = 0; i < count; i++) {
        const bool one = identity > 0 && i % (identity + 1) == 0;
        values[i] = (float)(value(i, salt) + (one ? 1.0 : 0.0));
    }
    model_fixture_write(r, model_fixture_find(r, name), values);
    free(values);
}

static uint64_t train(model_fixture *r, const bp_spec *spec)
{
    model_fixture_open(r, spec, tokens, TOKENS);
    for (uint32_t i = 0; i < LEARNED; i++) {
        fill(r, learned[i].name, count_of(i), i + 1, 0);
        if (i < MIXES) {
            char name[] = "mix.0";
            name[4] = (char)('0' + i);
            fill(r, name, learned[i].shape[1] * learned[i].shape[1], 101 + i, learned[i].shape[1]);
        }
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        (void)model_fixture_step(r);
    }
    return model_fixture_digest(r);
}

static void compare(model_fixture *r, const golden *g, const struct rule_case *c, double bound)
{
    for (uint32_t i = 0; i < LEARNED; i++) {
        char name[64];
        size_t bytes;
        snprintf(name, sizeof name, "%s/%s", c->name, learned[i].name);
        double *want = golden_tensor(g, name, &bytes);
        float *got = model_fixture_read(r, model_fixture_find(r, learned[i].name));
        assert_int_equal(bytes, count_of(i) * sizeof *want);
        for (uint64_t k = 0; k < count_of(i); k++) {
            if (!(fabs((double)got[k] - want[k]) <= bound)) {
                fail_msg("%s[%u] is %.9g, the reference has %.9g", name, (unsigned)k,
                         (double)got[k], want[k]);
            }
        }
        free(want);
        free(got);
    }
}

/* verifies optim-1.ca07 */
static void test_references(void **state)
{
    static const char *const variants[] = {"portable", NULL};
    golden g;
    (void)state;
    golden_open(&g, "tests/golden/matrix_rules.safetensors");
    for (uint32_t i = 0; i < CASES; i++) {
        uint64_t digest[3];
        for (uint32_t k = 0; k < 3; k++) { /* the last with several threads */
            model_fixture r;
            bp_spec spec = spec_of(&cases[i]);
            spec.device_options.variant = variants[k > 0];
            spec.device_options.threads = k + 1;
            digest[k] = train(&r, &spec);
            compare(&r, &g, &cases[i], 2e-6);
            model_fixture_close(&r);
        }
        assert_true(digest[0] == digest[1] && digest[1] == digest[2]);
    }
    golden_close(&g);
}

/* Released gradients and every checkpoint policy give the same bits, and the plan has the state
 * that the rule needs and nothing beside it but the control block. */
/* verifies optim-6.74aa */
static void test_plans(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CASES; i++) {
        model_fixture r;
        bp_spec spec = spec_of(&cases[i]);
        const uint64_t plain = train(&r, &spec);
        uint64_t bytes = 0;
        for (uint32_t b = 1; b < r.plan.graph.used.buffers; b++) {
            const bp_buffer *buffer = &r.plan.graph.buffers[b];
            const bool state_of = buffer->class_of == BP_CLASS_OPTIMIZER &&
                                  buffer->scope == BP_SCOPE_PERSISTENT &&
                                  strchr(r.plan.graph.names + buffer->name, '.') != NULL;
            bytes += state_of ? buffer->bytes : 0;
        }
        assert_int_equal(bytes, cases[i].bytes);
        model_fixture_close(&r);
        spec.gradient_release = BP_RELEASE_EXACT;
        assert_true(train(&r, &spec) == plain);
        model_fixture_close(&r);
    }
}

/* A state of 8 bits follows the one of 32. */
/* verifies optim-7.92a4 */
static void test_narrow_states(void **state)
{
    static const struct rule_case narrow[] = {{"adam_mini", &bp_optimizer_adam_mini_8bit, 0, 0, 0},
                                              {"muon", &bp_optimizer_muon_8bit, 0, 0, 0},
                                              {"apollo", &bp_optimizer_apollo_8bit, 0, 3, 0}};
    golden g;
    (void)state;
    golden_open(&g, "tests/golden/matrix_rules.safetensors");
    for (uint32_t i = 0; i < 3; i++) {
        model_fixture r;
        bp_spec spec = spec_of(&narrow[i]);
        spec.rule_count = 4; /* small tensors as well */
        (void)train(&r, &spec);
        compare(&r, &g, &narrow[i], 2e-2);
        model_fixture_close(&r);
    }
    golden_close(&g);
}

int main(void)
{
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)((i * i + 3 * i) % 37);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_narrow_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
