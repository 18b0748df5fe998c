/* SPDX-License-Identifier: MIT */
/* Weight files that say or hold something else (test_weights.c has what they usually are). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/base/safetensors.h"
#include "tests/fixtures/formats/weights_fixture.h"

/* verifies run-12.25e7 */
static void a_digest_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char key[] = BP_SAFETENSORS_DIGEST "transformer.wte.weight\":\"";
    weights_fixture *d = weights_fixture_new(NULL);
    size_t size, at = 0;
    d->digests = true;
    weights_fixture_add(d, BP_F32, true);
    weights_fixture_put(d);
    unsigned char *bytes = memory_store_bytes(&d->memory, "m", &size);
    while (at + sizeof key < size && memcmp(bytes + at, key, sizeof key - 1) != 0) {
        at++;
    }
    assert_true(at + sizeof key < size);
    bytes[at + sizeof key - 1] = 'z';
    assert_int_equal(bp_hf_weights_load(&d->r.runtime, &d->place), BP_ERR_DATA);
    assert_non_null(strstr(d->error.text, "digest"));
    assert_string_equal(d->error.name, "m: transformer.wte.weight");
    weights_fixture_free(d);
}

/* A head of other sizes is another one, and a file that only begins as GGUF does is none. */
/* verifies formats-6.0edb */
static void other_files_are_refused(void **state)
{
    (void)state;
    weights_fixture *d = weights_fixture_new(NULL);
    const bp_buffer *wte = bp_runtime_find(&d->r.runtime, "transformer.wte.weight");
    const uint64_t shapes[2][2] = {{wte->shape[0] * wte->shape[1]}, {wte->shape[1], wte->shape[0]}};
    for (uint32_t i = 0; i < 2; i++) {
        weights_fixture_add(d, BP_F32, true);
        made_add_values(&d->made, "lm_head.weight", BP_F32, 1 + i, shapes[i], 0);
        assert_int_equal(weights_fixture_load(d), BP_ERR_DATA);
        assert_int_equal(d->faults[BP_TENSOR_UNTIED], 1);
        made_free(&d->made);
        d->made.count = 0;
    }
    memory_store_put(&d->memory, "m", "GGUF and nothing of it behind that", 34);
    for (int i = 0; i < 2; i++) {
        d->error = (bp_error){.code = BP_OK};
        assert_int_equal(i == 0 ? bp_hf_weights_load(&d->r.runtime, &d->place)
                                : bp_hf_adapters_load(&d->r.runtime, &d->place),
                         BP_ERR_DATA);
    }
    weights_fixture_free(d);
}

/* Saved weights have the types of their source's, as far as it has them in one; room is asked for.
 */
/* verifies formats-5.1c0b */
static void saved_weights_have_the_types_of_their_source(void **state)
{
    (void)state;
    const bp_hf_scheme form = {.dtype = BP_F32, .source = "m"};
    weights_fixture *d = weights_fixture_new(NULL);
    bp_status status = BP_ERR_FIT;
    weights_fixture_add(d, BP_BF16, true);
    made_drop(&d->made, "transformer.wpe.weight");
    made_drop(&d->made, "transformer.h.1.attn.c_attn.weight"); /* codes are no type of weights */
    made_add(&d->made, "transformer.h.1.attn.c_attn.weight", BP_I8, 2, (uint64_t[]){48, 16});
    made_add_values(&d->made, "transformer.h.1.attn.c_attn.SCB", BP_F32, 1, (uint64_t[]){48}, 0);
    weights_fixture_put(d);
    d->place.path = "out";
    for (size_t bytes = 0; status == BP_ERR_FIT && bytes < WEIGHTS_FIXTURE_SCRATCH; bytes += 24) {
        d->error = (bp_error){.code = BP_OK};
        d->place.scratch.capacity = bytes;
        status = bp_hf_weights_save(&d->r.runtime, &d->place, &form);
    }
    assert_int_equal(status, BP_OK);
    static uint64_t room[WEIGHTS_FIXTURE_SCRATCH / 8];
    bp_safetensors file;
    size_t wide = 0;
    assert_int_equal(
        bp_safetensors_open(&file, &d->memory.store, "out", (char *)room, sizeof room, NULL),
        BP_OK);
    for (size_t i = 0; i < file.entry_count; i++) {
        wide += file.entries[i].dtype == BP_F32 ? 1 : 0;
        assert_true(file.entries[i].dtype == BP_F32 || file.entries[i].dtype == BP_BF16);
    }
    assert_int_equal(wide, 2);
    assert_int_equal(bp_safetensors_close(&file), BP_OK);
    weights_fixture_free(d);
}

/* Beside adapters a checkpoint holds these alone: the rest is read. */
/* verifies run-19.df56 */
static void what_no_checkpoint_gives_is_read(void **state)
{
    (void)state;
    static const char *const targets[] = {"c_attn"};
    bp_spec spec = model_fixture_spec();
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = targets, .target_count = 1};
    weights_fixture *d = weights_fixture_new(&spec);
    const uint64_t before = model_fixture_digest(&d->r);
    weights_fixture_add(d, BP_F32, true);
    d->place.state_follows = true;
    assert_int_equal(weights_fixture_load(d), BP_OK);
    float *weights = model_fixture_read(&d->r, model_fixture_find(&d->r, "transformer.wte.weight"));
    assert_true(weights[1] == made_value(0, 1));
    free(weights);
    assert_true(model_fixture_digest(&d->r) == before); /* the adapters are what they were */
    weights_fixture_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_that_is_none_is_refused),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(saved_weights_have_the_types_of_their_source),
        cmocka_unit_test(what_no_checkpoint_gives_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
