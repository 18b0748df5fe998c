/* SPDX-License-Identifier: MIT */
/* GPT-2's tables: parameters and their first values, stages, tapes, dropout sites, bounds. */
#include "layers/families/gpt2.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/blocks/block.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/model_fixture.h"

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
    SET_FAMILY(&spec.config, bp_transformer, embedding_dropout, 0.1);
    SET_FAMILY(&spec.config, bp_transformer, residual_dropout, 0.2);
    SET_FAMILY(&spec.config, bp_transformer, attention_dropout, 0.15);
    return spec;
}

static void check_parameter(model_fixture *r, uint32_t index, const char *name, uint64_t rows,
                            uint64_t width, double deviation)
{
    const bp_parameter *p = &r->plan.builder.parameters[index];
    const bp_buffer *b = &r->plan.graph.buffers[p->weight];
    assert_string_equal(bp_graph_name(&r->plan.graph, p->weight), name);
    assert_int_equal(b->rank, width != 0 ? 2 : 1);
    assert_int_equal(b->shape[0], rows);
    assert_int_equal(b->shape[1], width);
    assert_int_equal(p->decay, width != 0);
    float *weight = model_fixture_read(r, p->weight);
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
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, layers, 11);
    model_fixture r;
    model_fixture_open(&r, &spec, tokens, TOKENS);
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
    assert_int_equal(r.plan.builder.parameter_count, 2 + 11 * 12 + 2);
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
    model_fixture_close(&r);
}

static void test_stages(void **state)
{
    (void)state;
    const bp_model_config config =
        config_with((bp_model_config){.family = NULL}, OWN(bp_transformer, .layers = 12));
    char text[32];
    assert_string_equal(bp_model_gpt2.name, "gpt2");
    assert_int_equal(bp_model_gpt2.stages(&config), 14);
    const struct {
        uint32_t stage;
        const char *name;
        uint32_t variants;
    } stages[] = {{0, "wte", 1}, {1, "h.0", 9}, {12, "h.11", 9}, {13, "head", 1}};
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        bp_model_gpt2.stage_name(&config, stages[i].stage, text);
        assert_string_equal(text, stages[i].name);
        assert_int_equal(bp_model_gpt2.variants(&config, stages[i].stage), stages[i].variants);
    }
}

/* verifies layers-15.2c18 */
static void test_check(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    bp_error error = {0};
    assert_int_equal(bp_model_gpt2.check(&spec, &error), BP_OK);
    SET_FAMILY(&spec.config, bp_transformer, heads, 3);
    assert_int_equal(bp_model_gpt2.check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "n_head");
    assert_int_equal(error.found, 3);
    assert_int_equal(error.wanted, 16);
    SET_FAMILY(&spec.config, bp_transformer, heads, 32);
    assert_int_equal(bp_model_gpt2.check(&spec, NULL), BP_ERR_USAGE);
}

/* What one call of a stage emits, in a program of its own with more room than it needs. `call` says
 * which and receives what the stage answers. */
static void emitted(const bp_spec *spec, bp_mode mode, bool backward, bp_stage_call *call)
{
    static uint64_t memory[1 << 16];
    const bp_graph_limits room = {1024, 512, 8192, 8192, 1 << 16};
    bp_arena arena;
    bp_graph graph;
    bp_error error = {0};
    bp_parameter parameters[64];
    bp_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(bp_graph_init(&graph, &room, &arena, &error), BP_OK);
    bp_builder builder;
    bp_build_init(&builder, &graph, spec, parameters, 64);
    static bp_block block;
    builder.scratch = &block;
    builder.mode = mode;
    builder.label = "h.1000";
    builder.rows = mode == BP_MODE_DECODE ? 4 : builder.rows;
    bp_model_gpt2.parameters(&builder, &spec->config);
    bp_graph_begin(&graph, BP_PROGRAM_STEP);
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        call->tape[i] = BP_ABSENT;
    }
    if (backward) {
        bp_model_gpt2.backward(&builder, call);
    } else if (mode == BP_MODE_DECODE) {
        bp_model_gpt2.decode(&builder, call);
    } else {
        bp_model_gpt2.forward(&builder, call);
    }
    assert_int_equal(builder.status, BP_OK);
}

static uint32_t tape_of(const bp_spec *spec, bp_mode mode, uint32_t variant)
{
    bp_stage_call call = {.stage = 1, .variant = variant};
    uint32_t kept = 0;
    emitted(spec, mode, false, &call);
    assert_true(bp_ref_present(call.output));
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        kept += bp_ref_present(call.tape[i]) ? 1 : 0;
    }
    return kept;
}

/* What is kept. */
static void test_tape(void **state)
{
    (void)state;
    const bp_spec spec = dropped(model_fixture_spec());
    assert_int_equal(tape_of(&spec, BP_MODE_TRAIN, 0), 10);
    assert_int_equal(tape_of(&spec, BP_MODE_TRAIN, BP_RECOMPUTE_NORM), 6);
    assert_int_equal(tape_of(&spec, BP_MODE_TRAIN, BP_RECOMPUTE_ACTIVATION), 9);
    assert_int_equal(tape_of(&spec, BP_MODE_TRAIN, BP_RECOMPUTE_ATTENTION), 8);
    assert_int_equal(tape_of(&spec, BP_MODE_TRAIN, BP_RECOMPUTE_ALL), 3);
    assert_int_equal(tape_of(&spec, BP_MODE_TRAIN, BP_RECOMPUTE_ALL + 1), 0);
    assert_int_equal(tape_of(&spec, BP_MODE_EVAL, 0), 0);
}

/* The site of a dropping op; UINT32_MAX for other ops. */
static uint32_t site_of(const bp_graph *graph, const bp_op *op)
{
    const void *scalars = graph->scalars + op->scalar;
    switch (op->kernel) {
    case BP_KERNEL_embedding_forward:
        return (uint32_t)((const bp_embedding_forward_scalars *)scalars)->site;
    case BP_KERNEL_attention_forward:
        return (uint32_t)((const bp_attention_forward_scalars *)scalars)->site;
    case BP_KERNEL_dropout:
        return (uint32_t)((const bp_dropout_scalars *)scalars)->site;
    default:
        return UINT32_MAX;
    }
}

/* Forward passes the dropout sites 0, 1, 2, 3, ... in order: no two places share one. */
static void test_sites(void **state)
{
    (void)state;
    const bp_spec spec = dropped(model_fixture_spec());
    model_fixture r;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    const bp_graph *graph = &r.plan.graph;
    uint32_t next = 0;
    for (uint32_t i = 0; i < graph->used.ops && next < 7; i++) {
        const uint32_t site = site_of(graph, &graph->ops[i]);
        if (site != UINT32_MAX) {
            assert_int_equal(site, next);
            next++;
        }
    }
    assert_int_equal(next, 7);
    model_fixture_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters), cmocka_unit_test(test_stages),
        cmocka_unit_test(test_check),      cmocka_unit_test(test_tape),
        cmocka_unit_test(test_sites),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
