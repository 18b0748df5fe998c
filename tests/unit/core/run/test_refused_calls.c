/* SPDX-License-Identifier: MIT */
/* Calls of a runtime that cannot be: beyond a buffer, before the device is open, of parts that
 * other ranks have; and weights that are quantised piece by piece. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/optimizer.h"
#include "core/run/state.h"
#include "layers/families/transformer.h"
#include "optim/rules.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/model_fixture.h"

static const int32_t tokens[] = {1,  5,  9,  2,  7, 7, 3, 0, 4, 8, 6,
                                 11, 36, 20, 13, 1, 2, 3, 4, 5, 6, 7};
#define TOKENS (sizeof tokens / sizeof tokens[0])

static void open_model_fixture(model_fixture *r, const bp_spec *spec)
{
    model_fixture_open(r, spec, tokens, TOKENS);
}

/* verifies run-31.bd98 */
static void test_copies_beyond(void **state)
{
    (void)state;
    const bp_spec spec = model_fixture_spec();
    model_fixture r;
    uint8_t bytes[8] = {0};
    open_model_fixture(&r, &spec);
    bp_runtime *runtime = &r.runtime;
    const bp_buffer *buffer =
        &runtime->plan->graph.buffers[runtime->plan->builder.parameters[0].weight];
    assert_int_equal(bp_runtime_read(runtime, buffer, buffer->bytes - 8, bytes, 8), BP_OK);
    assert_int_equal(bp_runtime_read(runtime, buffer, buffer->bytes - 7, bytes, 8), BP_ERR_USAGE);
    assert_non_null(bp_runtime_reach(runtime, buffer, buffer->bytes - 8, 8, 1));
    assert_null(bp_runtime_reach(runtime, buffer, buffer->bytes - 7, 8, 1));
    runtime->open = false;
    assert_null(bp_runtime_reach(runtime, buffer, 0, 8, 1));
    runtime->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_runtime_read(runtime, buffer, 0, bytes, 8), BP_ERR_USAGE);
    assert_string_equal(runtime->error.name, "transformer.wte.weight");
    runtime->open = true;
    model_fixture_close(&r);
}

/* A tensor of which other ranks have parts: without them, and beyond its end. */
/* verifies run-31.bd98 */
static void test_parts_of_others(void **state)
{
    (void)state;
    const bp_spec spec = model_fixture_spec();
    model_fixture r;
    uint8_t bytes[8] = {0};
    open_model_fixture(&r, &spec);
    bp_runtime *runtime = &r.runtime;
    bp_buffer buffer = runtime->plan->graph.buffers[runtime->plan->builder.parameters[0].weight];
    const bp_fabric none = {.name = "none"};
    assert_int_equal(bp_runtime_read_gathered(runtime, &buffer, 0, bytes, 8), BP_OK);
    buffer.part.whole = 64;
    assert_int_equal(bp_runtime_read_gathered(runtime, &buffer, 0, bytes, 8), BP_ERR_USAGE);
    runtime->fabric = &none;
    runtime->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_runtime_read_gathered(runtime, &buffer, 57, bytes, 8), BP_ERR_USAGE);
    assert_non_null(strstr(runtime->error.text, "other ranks"));
    runtime->fabric = NULL;
    model_fixture_close(&r);
}

/* A base has a digest where weights are constant; what else is constant has none. */
/* verifies run-33.2aa2 */
static void test_digests_of_bases(void **state)
{
    (void)state;
    static const float weights[] = {1.0f, 2.0f, 0.5f};
    static const char *const all[] = {"all-linear"};
    bp_spec spec = model_fixture_spec();
    bool there = true;
    uint64_t digest = 1;
    model_fixture r;
    spec.config.task = BP_TASK_CLASSES;
    spec.config.classes = 3;
    spec.class_weights = weights;
    open_model_fixture(&r, &spec);
    assert_int_equal(bp_runtime_base_digest(&r.runtime, &there, &digest), BP_OK);
    assert_false(there);
    assert_int_equal(digest, 0);
    void *written = model_fixture_read(&r, r.plan.builder.class_weights.buffer);
    assert_memory_equal(written, weights, sizeof weights);
    free(written);
    model_fixture_close(&r);
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
    open_model_fixture(&r, &spec);
    assert_int_equal(bp_runtime_base_digest(&r.runtime, &there, &digest), BP_OK);
    assert_true(there && digest != 0);
    model_fixture_close(&r);
}

static bp_spec quantised_spec(bp_quantised form, uint32_t width, uint32_t inner)
{
    static const char *const all[] = {"all-linear"};
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, width, width);
    SET_FAMILY(&spec.config, bp_transformer, inner, inner);
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
    spec.quantised = form;
    return spec;
}

/* The first parameter that is, or one of those behind it. */
static uint32_t quantised_of(const model_fixture *r, uint32_t behind)
{
    uint32_t i = 0;
    for (;; i++) {
        if (r->plan.builder.parameters[i].quantised != BP_QUANTISED_NONE && behind-- == 0) {
            return i;
        }
    }
}

/* verifies run-31.bd98 */
static void test_parts_of_blocks(void **state)
{
    (void)state;
    static const struct {
        uint64_t first, count;
        bp_status status;
    } rows[] = {{0, 64, BP_OK},          {64, 128, BP_OK},       {1, 63, BP_ERR_USAGE},
                {0, 63, BP_ERR_USAGE},   {384, 48, BP_OK},       {384, 64, BP_ERR_USAGE},
                {448, 64, BP_ERR_USAGE}, {10, 422, BP_ERR_USAGE}};
    const bp_spec spec = quantised_spec(BP_QUANTISED_NF4, 12, 48); /* 12 x 36 is no whole blocks */
    float values[512];
    model_fixture r;
    open_model_fixture(&r, &spec);
    fill_normal(values, 512, 3, 0.02);
    const uint32_t dense = quantised_of(&r, 0);
    assert_int_equal(r.plan.builder.parameters[dense].count, 432);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (bp_runtime_quantise(&r.runtime, dense, 0, rows[i].first, values, rows[i].count) !=
            rows[i].status) {
            fail_msg("row %zu", i);
        }
    }
    assert_int_equal(bp_runtime_quantise(&r.runtime, 0, 0, 0, values, 64), BP_ERR_USAGE);
    model_fixture_close(&r);
}

/* Both passes over a weight in pieces of so many elements: codes and scales then, the caller's to
 * free. */
static void *quantise_by(const bp_spec *spec, uint32_t behind, const float *values, uint64_t piece,
                         uint64_t *bytes)
{
    model_fixture r;
    open_model_fixture(&r, spec);
    const uint32_t dense = quantised_of(&r, behind);
    const uint64_t count = r.plan.builder.parameters[dense].count;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint64_t done = 0; done < count; done += piece) {
            const uint64_t some = count - done < piece ? count - done : piece;
            /* nor does what lay in the memory that it uses */
            memset(r.runtime.transfer, (int)(piece % 127 + 1), BP_TRANSFER_BYTES);
            assert_int_equal(
                bp_runtime_quantise(&r.runtime, dense, pass, done, values + done, some), BP_OK);
        }
    }
    const bp_parameter *p = &r.plan.builder.parameters[dense];
    const bool nests = bp_quantised_nests(p->quantised);
    for (uint64_t i = 0; i < count && piece == 64; i += 63) {
        float value;
        assert_int_equal(bp_runtime_dequantise(&r.runtime, dense, i, &value, 1), BP_OK);
        assert_true(fabsf(value - values[i]) < 0.02f);
    }
    const uint32_t tensors[] = {p->weight, p->scales, nests ? p->nested : BP_NO_BUFFER};
    uint8_t *codes = NULL;
    *bytes = 0;
    for (uint32_t i = 0; i < (nests ? 3 : 2); i++) {
        const uint64_t some = r.plan.graph.buffers[tensors[i]].bytes;
        void *tensor = model_fixture_read(&r, tensors[i]);
        codes = realloc(codes, *bytes + some);
        assert_non_null(codes);
        memcpy(codes + *bytes, tensor, some);
        *bytes += some;
        free(tensor);
    }
    model_fixture_close(&r);
    return codes;
}

/* verifies run-31.bd98 */
static void test_pieces_make_no_difference(void **state)
{
    (void)state;
    enum { MOST = 80 * 320 };
    static float values[MOST];
    static const bp_quantised forms[] = {BP_QUANTISED_NF4, BP_QUANTISED_NF4_DOUBLE,
                                         BP_QUANTISED_INT8};
    static const struct {
        uint32_t width, inner;
    } sizes[] = {{12, 48}, {80, 320}, {12, 1100}}; /* rows beyond a piece of one */
    fill_normal(values, MOST, 3, 0.02);
    for (uint32_t i = 0; i < 18; i++) {
        const bp_spec spec =
            quantised_spec(forms[i / 6], sizes[i / 2 % 3].width, sizes[i / 2 % 3].inner);
        uint64_t bytes, others;
        void *whole = quantise_by(&spec, 2 + i % 2, values, MOST, &bytes);
        void *pieces = quantise_by(&spec, 2 + i % 2, values, 64, &others);
        assert_int_equal(bytes, others);
        assert_memory_equal(whole, pieces, bytes);
        free(whole);
        free(pieces);
    }
}

/* Weights of a rule that evaluates an average differ from those that it trains; others do not. */
/* verifies optim-8.2b0b */
static void test_trained_weights(void **state)
{
    (void)state;
    for (uint32_t averages = 0; averages < 3; averages++) {
        static float got[600], trained[600], part[200];
        static const bp_parameter_rule still = {.glob = "*wte*", .kind = BP_RULE_FREEZE};
        bp_spec spec = model_fixture_spec();
        model_fixture r;
        spec.optimizer = averages > 0 ? &bp_optimizer_schedule_free_adamw : spec.optimizer;
        if (averages > 0) {
            spec.optimizer_options = *spec.optimizer->defaults;
            spec.optimizer_options.learning_rate = 1e-2;
        }
        spec.rules = &still;
        spec.rule_count = averages == 2 ? 1 : 0;
        open_model_fixture(&r, &spec);
        for (int i = 0; i < 3; i++) {
            (void)model_fixture_step(&r);
        }
        const uint64_t count = r.plan.builder.parameters[0].count;
        assert_int_equal(count, 592);
        assert_int_equal(bp_runtime_get_weight(&r.runtime, 0, 0, got, count), BP_OK);
        assert_int_equal(bp_runtime_get_trained(&r.runtime, 0, 0, trained, count), BP_OK);
        assert_int_equal(memcmp(got, trained, count * sizeof *got) != 0, averages == 1);
        assert_int_equal(bp_runtime_get_trained(&r.runtime, 0, 200, part, 200), BP_OK);
        assert_memory_equal(part, trained + 200, sizeof part);
        model_fixture_close(&r);
    }
    bp_spec spec = model_fixture_spec();
    float value[2];
    model_fixture r;
    spec.optimizer = NULL;
    spec.evaluate = true;
    open_model_fixture(&r, &spec);
    assert_int_equal(bp_runtime_get_weight(&r.runtime, 0, 0, value, 1), BP_OK);
    assert_int_equal(bp_runtime_get_trained(&r.runtime, 0, 0, value + 1, 1), BP_OK);
    assert_memory_equal(value, value + 1, sizeof *value);
    model_fixture_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_beyond),
        cmocka_unit_test(test_parts_of_others),
        cmocka_unit_test(test_digests_of_bases),
        cmocka_unit_test(test_parts_of_blocks),
        cmocka_unit_test(test_pieces_make_no_difference),
        cmocka_unit_test(test_trained_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
