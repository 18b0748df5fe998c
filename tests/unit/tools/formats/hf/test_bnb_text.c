/* SPDX-License-Identifier: MIT */
/* What bitsandbytes and transformers say in JSON about quantised weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tools/formats/hf/bnb.h"
#include "tools/formats/hf/bnb_state.h"
#include "tools/formats/hf/hf_config_copy.h"

#define NF4    BP_QUANTISED_NF4
#define DOUBLE BP_QUANTISED_NF4_DOUBLE
#define INT8   BP_QUANTISED_INT8

/* verifies formats-13.dd0a */
static void states_are_written_as_python_does(void **state)
{
    (void)state;
    static const struct {
        bp_bnb_state state;
        const char *text;
    } cases[] = {
        {{100, 37, BP_F32, false, true, 64, (double)2.6695780754089355f},
         "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", \"shape\": [100, "
         "37], "
         "\"nested_blocksize\": 256, \"nested_dtype\": \"float32\", \"nested_offset\": "
         "2.6695780754089355}"},
        {{1, 2, BP_BF16, false, true, 64, 2.0},
         "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"bfloat16\", \"shape\": [1, 2], "
         "\"nested_blocksize\": 256, \"nested_dtype\": \"float32\", \"nested_offset\": 2.0}"},
        {{3, 5, BP_F32, true, false, 4096, 0.0},
         "{\"quant_type\": \"fp4\", \"blocksize\": 4096, \"dtype\": \"float32\", \"shape\": [3, "
         "5]}"},
        {{3, 5, BP_F16, false, false, 64, 0.0},
         "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float16\", \"shape\": [3, "
         "5]}"}};
    for (size_t i = 0; i < 4; i++) {
        char text[BP_BNB_STATE_MAX];
        bp_bnb_state back;
        size_t length = bp_bnb_state_write(&cases[i].state, text);
        assert_int_equal(length, strlen(cases[i].text));
        assert_memory_equal(text, cases[i].text, length);
        assert_int_equal(bp_bnb_state_read(text, length, &back, NULL), BP_OK);
        assert_int_equal(back.rows, cases[i].state.rows);
        assert_int_equal(back.columns, cases[i].state.columns);
        assert_int_equal(back.dtype, cases[i].state.dtype);
        assert_true(back.offset == cases[i].state.offset);
        assert_int_equal(back.nested, cases[i].state.nested);
        assert_int_equal(back.fp4, cases[i].state.fp4);
        assert_int_equal(back.block, cases[i].state.block);
    }
}

#define REST ", \"dtype\": \"float16\", \"shape\": [54, 18]}"

/* verifies formats-13.dd0a */
static void bad_states_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "missing"},
        {"[]", "object"},
        {"{}", "missing"},
        {"{\"quant_type\": \"af4\", \"blocksize\": 64" REST, "quant_type"},
        {"{\"quant_type\": \"nf4\", \"blocksize\": 96" REST, "blocksize"},
        {"{\"quant_type\": \"nf4\", \"blocksize\": 8192" REST, "blocksize"},
        {"{\"quant_type\": \"nf4\", \"blocksize\": -64" REST, "blocksize"},
        {"{\"quant_type\": \"nf4\", \"quant_type\": \"nf4\"}", "twice"},
        {"{\"colour\": 1}", "not known"},
        {"{\"quant_type\": 4}", "quant_type"},
        {"{\"quant_type\": \"nf4\", \"blocksize\": \"64\"" REST, "blocksize"},
        {"{\"quant_type\": \"nf4\", \"blocksize\": 64.5" REST, "blocksize"},
        {"{\"shape\": [54, \"18\"]}", "shape"},
        {"{\"shape\": [54, 1.5]}", "shape"},
        {"{\"shape\": [54, 1099511627776]}", "shape"},
        {"{\"shape\": 54}", "shape"},
        {"{\"nested_blocksize\": \"256\"}", "nested_blocksize"},
        {"{\"nested_blocksize\": 256.5}", "nested_blocksize"},
        {"{\"nested_offset\": -1e300}", "nested_offset"},
        {"{\"dtype\": \"int8\"}", "dtype"},
        {"{\"shape\": [54]}", "shape"},
        {"{\"shape\": [54, 18, 1]}", "shape"},
        {"{\"shape\": [54, -18]}", "shape"},
        {"{\"shape\": [1099511627775, 1099511627775]}", "missing"},
        {"{\"nested_blocksize\": 64}", "nested_blocksize"},
        {"{\"nested_offset\": \"x\"}", "nested_offset"},
        {"{\"nested_offset\": 1e300}", "nested_offset"},
        {"{\"nested_dtype\": 7}", "dtype"},
        {"{\"quant_type\": \"nf4\", \"blocksize\": 64, \"nested_offset\": 0.5" REST, "missing"},
        {"{\"quant_type\": \"nf4\", \"blocksize\": 64" REST " 1", "end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bp_bnb_state read;
        bp_error error = {.code = BP_OK};
        assert_int_equal(bp_bnb_state_read(cases[i][0], strlen(cases[i][0]), &read, &error),
                         BP_ERR_DATA);
        assert_non_null(strstr(error.text, cases[i][1]));
    }
}

/* The quantization_config of a config.json. */
static bp_status read_config(const char *text, bp_quantised *form, bp_error *error)
{
    bp_quantised experts;
    char room[256];
    bp_json json;
    bp_json_event event;
    bp_json_span span = {text, strlen(text)};
    const bp_json_source source = {bp_json_span_fill, &span, strlen(text)};
    const bp_json_memory memory = {.text = room, .text_bytes = sizeof room, .max_depth = 8};
    *error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_json_init(&json, &source, &memory, error), BP_OK);
    assert_int_equal(bp_json_next(&json, &event), BP_OK);
    return bp_bnb_config_read(&json, &event, form, &experts, error);
}

#define METHOD "{\"quant_method\": \"bitsandbytes\", "

/* verifies formats-13.dd0a */
static void configurations_name_a_form(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int form; /* -1: refused */
    } cases[] = {
        {"null", BP_QUANTISED_NONE},
        {METHOD "\"load_in_8bit\": true, \"x\": [1, {}]}", INT8},
        {METHOD "\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"nf4\"}", NF4},
        {METHOD "\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"nf4\", "
                "\"bnb_4bit_use_double_quant\": true, \"bnb_4bit_quant_storage\": \"uint8\"}",
         DOUBLE},
        {"7", -1},
        {"{}", -1},
        {METHOD "\"load_in_4bit\": true}", -1},
        {METHOD "\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"fp4\"}", BP_QUANTISED_FP4},
        {METHOD "\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"fp4\", "
                "\"bnb_4bit_use_double_quant\": true, \"bnb_4bit_blocksize\": 128}",
         BP_QUANTISED_FP4_DOUBLE + 8},
        {METHOD "\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"nf4\", "
                "\"bnb_4bit_blocksize\": 100}",
         -1},
        {METHOD "\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"int4\"}", -1},
        {METHOD "\"load_in_4bit\": 1}", -1},
        {METHOD "\"bnb_4bit_quant_type\": 4}", -1},
        {METHOD "\"load_in_4bit\": true, \"load_in_8bit\": true, \"bnb_4bit_quant_type\": \"nf4\"}",
         -1},
        {METHOD "\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"nf4\", "
                "\"bnb_4bit_quant_storage\": \"bfloat16\"}",
         -1},
        {"{\"quant_method\": \"gptq\", \"load_in_8bit\": true}", -1},
        {METHOD "\"load_in_8bit\": tru", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bp_quantised form;
        bp_error error;
        bp_status status = read_config(cases[i].text, &form, &error);
        assert_int_equal(status, cases[i].form < 0 ? BP_ERR_DATA : BP_OK);
        if (status == BP_OK) {
            assert_int_equal(form, cases[i].form);
        }
    }
}

static bp_status keep_text(void *user, const char *bytes, size_t count)
{
    strncat(user, bytes, count);
    return BP_OK;
}

/* verifies formats-13.dd0a */
static void configurations_are_rewritten(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": 1, \"quantization_config\": {\"b\": 2}}";
    static uint64_t scratch[BP_CONFIG_COPY_SCRATCH / 8];
    for (int form = BP_QUANTISED_NONE; form < 64; form++) {
        if (!bp_quantised_valid(form) || form == BP_QUANTISED_FP8) {
            continue;
        }
        char out[2048] = "";
        bp_quantised back = BP_QUANTISED_NONE;
        bp_error error;
        bp_json_span span = {text, strlen(text)};
        const bp_json_source source = {bp_json_span_fill, &span, strlen(text)};
        const bp_config_change change = {.requantised = true, .quantised = (bp_quantised)form};
        assert_int_equal(bp_hf_config_change(&source, &change, scratch, keep_text, out, NULL),
                         BP_OK);
        const char *at = strstr(out, "quantization_config\": ");
        assert_null(strstr(out, "\"b\""));
        assert_true((at == NULL) == (form == BP_QUANTISED_NONE));
        if (at != NULL) {
            assert_non_null(strstr(at, "\"llm_int8_skip_modules\": [\"lm_head\", "));
            assert_non_null(strstr(at, "\"bert.pooler\""));
            assert_non_null(strstr(at, "\"gate\", \"mlp.experts\", \"block_sparse_moe.experts\"]"));
            *strrchr(out, '}') = ' ';
            assert_int_equal(read_config(strchr(at, '{'), &back, &error), BP_OK);
        }
        assert_int_equal(back, form);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_written_as_python_does),
        cmocka_unit_test(bad_states_are_refused),
        cmocka_unit_test(configurations_name_a_form),
        cmocka_unit_test(configurations_are_rewritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
