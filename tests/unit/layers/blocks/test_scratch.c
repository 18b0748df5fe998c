/* SPDX-License-Identifier: MIT */
/* Where models write the list of nodes of the stage that they emit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "layers/blocks/block.h"
#include "layers/families/gpt2.h"
#include "tests/fixtures/model_fixture.h"

#define TOKENS 300

static int32_t tokens[TOKENS];

/* Others wrote on the model's scratch since its last call. */
static void scribble(bp_builder *builder)
{
    const size_t bytes = builder->spec->model->scratch;
    assert_true(bytes >= sizeof(bp_block));
    assert_non_null(builder->scratch);
    assert_int_equal((uintptr_t)builder->scratch % 16, 0);
    for (size_t i = 0; i < bytes; i++) {
        ((unsigned char *)builder->scratch)[i] = 0xa5;
    }
}

static void forward_scribbled(bp_builder *builder, bp_stage_call *call)
{
    scribble(builder);
    bp_model_gpt2.forward(builder, call);
    scribble(builder);
}

static void backward_scribbled(bp_builder *builder, bp_stage_call *call)
{
    scribble(builder);
    bp_model_gpt2.backward(builder, call);
    scribble(builder);
}

static uint64_t digest_after_step(const bp_spec *spec)
{
    static model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    (void)model_fixture_step(&r);
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* The list of nodes lies in the caller's memory, in room that the plan counts, and nothing in it
 * has to outlive a call. */
/* verifies house-11.a2ff */
static void test_scratch_is_nobodys_between_calls(void **state)
{
    (void)state;
    bp_model model = bp_model_gpt2;
    bp_spec spec = model_fixture_spec();
    const uint64_t digest = digest_after_step(&spec);
    const uint64_t bytes = bp_compile_bytes(&spec);
    model.forward = forward_scribbled;
    model.backward = backward_scribbled;
    spec.model = &model;
    assert_true(digest_after_step(&spec) == digest);
    model.scratch += 4096;
    assert_int_equal(bp_compile_bytes(&spec), bytes + 4096);
    assert_true(digest_after_step(&spec) == digest);
}

int main(void)
{
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)((i * i + 3 * i) % 37);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scratch_is_nobodys_between_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
