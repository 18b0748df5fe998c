/* SPDX-License-Identifier: MIT */
/* Weights in fp8 from outside: put and got by value, and as tensors of the state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/run/state.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/model_fixture.h"

#define COUNT 768u /* 16 x 48, three blocks */

static const int32_t tokens[] = {1,  5,  9,  2,  7, 7, 3, 0, 4, 8, 6,
                                 11, 36, 20, 13, 1, 2, 3, 4, 5, 6, 7};
static const char name[] = "transformer.h.1.attn.c_attn.weight";

static void open_model_fixture(model_fixture *r)
{
    bp_spec spec = model_fixture_spec();
    spec.working = BP_BF16;
    spec.gradient = BP_BF16;
    spec.master = BP_MASTER_SPLIT8;
    spec.weights = BP_WEIGHT_FP8;
    model_fixture_open(r, &spec, tokens, sizeof tokens / sizeof tokens[0]);
}

/* The parameter of this name. */
static uint32_t parameter_of(const model_fixture *r)
{
    for (uint32_t i = 0; i < bp_runtime_weights(&r->runtime); i++) {
        if (strcmp(bp_runtime_weight(&r->runtime, i).name, name) == 0) {
            assert_int_equal(bp_runtime_weight(&r->runtime, i).count, COUNT);
            return i;
        }
    }
    fail();
    return 0;
}

static bp_state_tensor tensor_of(const model_fixture *r, const char *which)
{
    for (uint32_t i = 0; i < bp_runtime_state_count(&r->runtime); i++) {
        const bp_state_tensor tensor = bp_runtime_state_tensor(&r->runtime, i);
        if (strcmp(tensor.name, which) == 0) {
            return tensor;
        }
    }
    fail();
    return (bp_state_tensor){0};
}

/* verifies run-23.6445 */
static void values_go_in_by_blocks_and_come_out_anywhere(void **state)
{
    static float put[COUNT], all[COUNT], part[COUNT];
    static const uint32_t stretches[][2] = {{0, COUNT}, {1, 3}, {250, 6}, {250, 300}, {767, 1}};
    model_fixture r;
    (void)state;
    open_model_fixture(&r);
    const uint32_t p = parameter_of(&r);
    fill_normal(put, COUNT, 3, 0.02);
    assert_int_equal(bp_runtime_put_weight(&r.runtime, p, 0, put, 512), BP_OK);
    assert_int_equal(bp_runtime_put_weight(&r.runtime, p, 512, put + 512, 256), BP_OK);
    assert_int_equal(bp_runtime_put_weight(&r.runtime, p, 1, put, 255), BP_ERR_USAGE);
    assert_non_null(strstr(r.runtime.error.text, "whole blocks of 256"));
    assert_int_equal(bp_runtime_put_weight(&r.runtime, p, 256, put, 100), BP_ERR_USAGE);
    assert_int_equal(bp_runtime_get_weight(&r.runtime, p, 0, all, COUNT), BP_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(all[i] >= put[i] - 1e-7f && all[i] <= put[i] + 1e-7f);
    }
    for (uint32_t i = 0; i < sizeof stretches / sizeof stretches[0]; i++) {
        const uint32_t first = stretches[i][0], count = stretches[i][1];
        memset(part, 0x5a, sizeof part);
        assert_int_equal(bp_runtime_get_weight(&r.runtime, p, first, part, count), BP_OK);
        assert_memory_equal(part, all + first, count * sizeof *part);
        for (uint32_t k = 4 * count; k < sizeof part; k++) {
            assert_int_equal(((const uint8_t *)part)[k], 0x5a); /* and no value more */
        }
    }
    model_fixture_close(&r);
}

/* The tensor of the weight is the masters in bf16, in the model's shape; the one beside it brings
 * all back. Bytes come and go in any pieces. */
/* verifies run-23.6445 */
static void tensors_are_the_weight_and_all_of_its_bits(void **state)
{
    static unsigned char rounded[2 * COUNT], bits[8 * COUNT], again[8 * COUNT];
    static float values[COUNT];
    model_fixture r;
    (void)state;
    open_model_fixture(&r);
    const bp_state_io io = bp_runtime_state_io(&r.runtime);
    const bp_state_tensor weight = tensor_of(&r, name);
    const bp_state_tensor rest = tensor_of(&r, "transformer.h.1.attn.c_attn.weight.master");
    const uint64_t bytes = bp_fp8_bytes(COUNT) + 2 * COUNT;
    assert_true(weight.weight && weight.dtype == BP_BF16 && weight.rank == 2);
    assert_true(weight.shape[0] == 16 && weight.shape[1] == 48 && weight.bytes == 2 * COUNT);
    assert_true(!rest.weight && rest.dtype == BP_U8 && rest.shape[0] == bytes);
    assert_int_equal(bp_runtime_get_weight(&r.runtime, parameter_of(&r), 0, values, COUNT), BP_OK);
    for (uint64_t at = 0; at < weight.bytes; at += 101) {
        const uint64_t left = weight.bytes - at;
        assert_int_equal(io.read(io.user, weight.handle, at, rounded + at, left < 101 ? left : 101),
                         BP_OK);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        uint16_t right = bp_bf16_from_f32(values[i]);
        assert_memory_equal(rounded + 2 * i, &right, sizeof right);
    }
    assert_int_equal(io.read(io.user, rest.handle, 0, bits, bytes), BP_OK);
    memset(again, 0, sizeof again);
    assert_int_equal(io.write(io.user, rest.handle, 0, again, bytes), BP_OK);
    for (uint64_t at = 0; at < bytes; at += 97) {
        const uint64_t left = bytes - at;
        assert_int_equal(io.write(io.user, rest.handle, at, bits + at, left < 97 ? left : 97),
                         BP_OK);
    }
    assert_int_equal(io.write(io.user, weight.handle, 0, again, weight.bytes), BP_OK);
    for (uint64_t at = 0; at < bytes; at += 89) {
        const uint64_t left = bytes - at;
        assert_int_equal(io.read(io.user, rest.handle, at, again + at, left < 89 ? left : 89),
                         BP_OK);
    }
    assert_memory_equal(bits, again, bytes);
    assert_int_equal(io.read(io.user, weight.handle, 1, again, weight.bytes), BP_ERR_USAGE);
    assert_int_equal(io.write(io.user, weight.handle, weight.bytes, again, 1), BP_ERR_USAGE);
    assert_int_equal(io.read(io.user, rest.handle, bytes, again, 1), BP_ERR_USAGE);
    assert_int_equal(io.write(io.user, rest.handle, bytes - 1, again, 2), BP_ERR_USAGE);
    model_fixture_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_in_by_blocks_and_come_out_anywhere),
        cmocka_unit_test(tensors_are_the_weight_and_all_of_its_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
