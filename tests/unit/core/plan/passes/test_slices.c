/* SPDX-License-Identifier: MIT */
/* Slices of matrices that are offloaded: every row once and in order, each slice from a whole block
 * of scales on, no copy larger than about 4 MiB; and what is brought whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/optimizer.h"
#include "core/run/runtime.h"
#include "layers/families/llama.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_made.h"
#include "tests/fixtures/model_fixture.h"

#define MIB ((uint64_t)1 << 20)

static bp_plan plan;

/* A Llama of one layer with adapters, whose widths are `width` and `inner`. */
static bp_spec slices_spec(uint32_t width, uint32_t inner)
{
    static const char *const all[] = {"all-linear"};
    bp_spec spec = model_fixture_spec();
    spec.model = &bp_model_llama;
    SET_FAMILY(&spec.config, bp_transformer, layers, 1);
    SET_FAMILY(&spec.config, bp_transformer, heads, width / 64);
    SET_FAMILY(&spec.config, bp_transformer, width, width);
    SET_FAMILY(&spec.config, bp_transformer, inner, inner);
    SET_FAMILY(&spec.config, bp_llama_config, kv_heads, 1);
    SET_FAMILY(&spec.config, bp_llama_config, rope_theta, 1e4);
    spec.lora = (bp_lora){.rank = 4, .alpha = 4.0, .targets = all, .target_count = 1};
    spec.offload = (bp_offload){.bases = BP_OFFLOAD_ALL, .ahead = 2};
    return spec;
}

static const bp_parameter *parameter_called(const char *part, uint32_t *index)
{
    for (*index = 0; *index < plan.builder.parameter_count; ++*index) {
        const char *name = bp_build_name(&plan.builder, *index);
        if (strstr(name, part) != NULL && strstr(name, "lora") == NULL) {
            return &plan.builder.parameters[*index];
        }
    }
    fail();
    return NULL;
}

/* The widest copy to the arena in the program of a step. */
static uint64_t widest_copy(void)
{
    const bp_graph *graph = &plan.graph;
    const uint32_t first = graph->program_first[BP_PROGRAM_STEP];
    uint64_t widest = 0;
    for (uint32_t i = first; i < first + graph->program_count[BP_PROGRAM_STEP]; i++) {
        const bp_op *op = &graph->ops[i];
        const bp_copy_begin_scalars *s = (const void *)(graph->scalars + op->scalar);
        if (op->kernel == BP_KERNEL_copy_begin && (uint64_t)s->width > widest) {
            widest = (uint64_t)s->width;
        }
    }
    return widest;
}

/* Slices of a matrix; returns how many there are. */
static uint32_t walk_slices(const char *part)
{
    uint32_t index = 0, count = 0;
    const bp_parameter *p = parameter_called(part, &index);
    const uint64_t unit = !bp_quantised_four(p->quantised)   ? 1
                          : bp_quantised_nests(p->quantised) ? 64 * 256
                                                             : 64;
    uint64_t row = 0;
    for (bp_weight_slice s = bp_build_slice_first(&plan.builder, index); s.rows > 0;
         s = bp_build_slice_next(&plan.builder, index, s)) {
        assert_int_equal(s.first, row);
        assert_int_equal(s.first * p->shape[1] % unit, 0);
        assert_int_equal(s.first % 64, 0);
        row += s.rows;
        count++;
    }
    assert_true(count != 1 && (count == 0 || row == p->shape[0]));
    return count;
}

/* Widths that slices and blocks divide, and that they do not. */
/* verifies compile-31.a51c */
static void every_row_once(void **state)
{
    (void)state;
    static const struct {
        bp_quantised form;
        bp_dtype working;
        uint32_t width, inner;
        uint32_t slices; /* of gate_proj */
    } cases[] = {
        {BP_QUANTISED_NONE, BP_F32, 1088, 4104, 5},
        {BP_QUANTISED_NONE, BP_BF16, 1088, 4104, 3},
        {BP_QUANTISED_INT8, BP_F32, 1088, 4104, 2},
        {BP_QUANTISED_NF4, BP_BF16, 2112, 4104, 2},
        {BP_QUANTISED_NF4_DOUBLE, BP_BF16, 2112, 4160, 2},
        {BP_QUANTISED_NF4_DOUBLE, BP_BF16, 512, 704, 0},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bp_spec spec = slices_spec(cases[i].width, cases[i].inner);
        spec.working = cases[i].working;
        spec.gradient = cases[i].working;
        spec.master = cases[i].working == BP_F32 ? BP_MASTER_WEIGHT : BP_MASTER_SPLIT;
        spec.quantised = cases[i].form;
        void *memory = plan_make(&plan, &spec);
        assert_int_equal(walk_slices("gate_proj"), cases[i].slices);
        assert_true(walk_slices("down_proj") > 1 || cases[i].slices == 0);
        assert_true(widest_copy() <= 4 * MIB);
        free(memory);
    }
}

static void expect_whole(bp_spec spec, bool whole)
{
    void *memory = plan_make(&plan, &spec);
    uint32_t index = 0;
    (void)parameter_called("gate_proj", &index);
    assert_true((bp_build_slice_first(&plan.builder, index).rows == 0) == whole);
    assert_true((widest_copy() > 4 * MIB) == whole);
    free(memory);
}

/* Sums of many rows take more than copies save; what holds a matrix for more than a product, and
 * operands that have a scale for all terms, need all of it. A parameter that is held is there. */
/* verifies compile-31.a51c */
static void what_comes_whole(void **state)
{
    (void)state;
    bp_spec spec = slices_spec(1088, 4096);
    expect_whole(spec, false);
    spec.offload.ahead = 0; /* one copy of 4 MiB for one of 17, and sums of 16 rows */
    expect_whole(spec, false);
    spec = slices_spec(1088, 4096);
    spec.batch = 2048;
    expect_whole(spec, true);
    spec = slices_spec(1088, 4096);
    spec.lora.magnitudes = true;
    expect_whole(spec, true);
    spec = slices_spec(1088, 4096);
    spec.sequence_chunk = 2;
    expect_whole(spec, true);

    spec = slices_spec(1088, 4096);
    void *memory = plan_make(&plan, &spec);
    uint32_t index = 0;
    (void)parameter_called("gate_proj", &index);
    assert_true(bp_build_slice_first(&plan.builder, index).rows > 0);
    plan.builder.parameters[index].acquired.held = 1;
    assert_int_equal(bp_build_slice_first(&plan.builder, index).rows, 0);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_once),
        cmocka_unit_test(what_comes_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
