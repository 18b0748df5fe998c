/* SPDX-License-Identifier: MIT */
/* Weight files into a runtime and out of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "core/ops/master.h"
#include "device/host/host.h"
#include "tests/fixtures/formats/weights_fixture.h"

static const bp_hf_scheme plain = {.dtype = BP_F32};

static void assert_loaded(weights_fixture *d)
{
    const bp_runtime *runtime = &d->r.runtime;
    for (uint32_t p = 0; p < runtime->plan->builder.parameter_count; p++) {
        float *weights = model_fixture_read(&d->r, runtime->plan->builder.parameters[p].weight);
        for (size_t i = 0; i < runtime->plan->builder.parameters[p].count; i++) {
            assert_true(weights[i] == made_value(p, i));
        }
        free(weights);
    }
}

/* verifies formats-5.1c0b */
static void weights_of_three_types_under_either_name(void **state)
{
    (void)state;
    static const bp_dtype types[] = {BP_F32, BP_F16, BP_BF16};
    bp_device far = bp_device_host; /* whose memory cannot be reached */
    far.address = NULL;
    for (int i = 0; i < 12; i++) {
        bp_spec spec = model_fixture_spec();
        spec.device = i < 6 ? spec.device : &far;
        weights_fixture *d = weights_fixture_new(&spec);
        d->digests = i % 2 == 0;
        weights_fixture_add(d, types[i / 2 % 3], i % 2 == 0);
        assert_int_equal(weights_fixture_load(d), BP_OK);
        assert_loaded(d);
        weights_fixture_free(d);
    }
}

/* With room for more than is looked at at a time, which is of the cache. */
/* verifies formats-5.1c0b */
static void much_room_is_not_used_at_once(void **state)
{
    (void)state;
    enum { MUCH = 1 << 20 };
    bp_device far = bp_device_host;
    bp_spec spec = model_fixture_spec();
    far.address = NULL;
    spec.device = &far;
    weights_fixture *d = weights_fixture_new(&spec);
    const bp_staging own = d->place.scratch;
    void *much = malloc(MUCH);
    assert_non_null(much);
    weights_fixture_add(d, BP_F32, true);
    d->place.scratch = (bp_staging){much, MUCH};
    assert_int_equal(weights_fixture_load(d), BP_OK);
    assert_loaded(d);
    d->place.scratch = own;
    free(much);
    weights_fixture_free(d);
}

/* Weights and masters of every form are those that floats would have given. */
/* verifies formats-5.1c0b */
static void narrow_weights_have_their_masters(void **state)
{
    (void)state;
    static const bp_dtype types[] = {BP_F32, BP_F16, BP_BF16};
    static const bp_master forms[] = {BP_MASTER_WEIGHT, BP_MASTER_FP32, BP_MASTER_SPLIT,
                                      BP_MASTER_SPLIT8, BP_MASTER_STOCHASTIC};
    for (int i = 0; i < 15; i++) {
        bp_spec spec = model_fixture_spec();
        spec.working = BP_BF16;
        spec.master = forms[i % 5];
        spec.optimizer = spec.master == BP_MASTER_WEIGHT ? NULL : spec.optimizer;
        weights_fixture *d = weights_fixture_new(&spec);
        weights_fixture_add(d, types[i / 5], true);
        assert_int_equal(weights_fixture_load(d), BP_OK);
        for (uint32_t p = 0; p < d->r.plan.builder.parameter_count; p++) {
            const bp_parameter *q = &d->r.plan.builder.parameters[p];
            void *weights = model_fixture_read(&d->r, q->weight);
            void *masters = q->master != BP_NO_BUFFER ? model_fixture_read(&d->r, q->master) : NULL;
            uint16_t weight[1];
            float master[1];
            for (size_t k = 0; k < q->count; k++) {
                float value = made_value(p, k); /* exact in every type */
                bp_master_store(BP_BF16, q->master_form, weight, master, 0, value);
                assert_int_equal(((uint16_t *)weights)[k], weight[0]);
                assert_true(bp_master_load(BP_BF16, q->master_form, weights, masters, k) ==
                            bp_master_load(BP_BF16, q->master_form, weight, master, 0));
            }
            free(weights);
            free(masters);
        }
        weights_fixture_free(d);
    }
}

static uint32_t draws; /* ops that drew random numbers */

static bp_status run_counted(void *context, uint32_t program)
{
    draws += program == BP_PROGRAM_INITIALIZE ? 1000 : 0;
    return bp_device_host.run(context, program);
}

static bp_status run_ops_counted(void *context, uint32_t program, uint32_t first, uint32_t count)
{
    draws += count;
    return bp_device_host.run_ops(context, program, first, count);
}

/* What a file holds is not drawn; what it lacks is, to the bits that it has when all is drawn. */
/* verifies run-19.df56 */
static void only_what_files_lack_is_drawn(void **state)
{
    (void)state;
    bp_device device = bp_device_host;
    device.run = run_counted;
    device.run_ops = run_ops_counted;
    bp_spec spec = model_fixture_spec();
    spec.device = &device;
    weights_fixture *d = weights_fixture_new(&spec);
    bp_runtime *runtime = &d->r.runtime;
    const uint32_t wte = model_fixture_find(&d->r, "transformer.wte.weight");
    float *drawn = model_fixture_read(&d->r, wte);
    weights_fixture_add(d, BP_BF16, true);
    assert_int_equal(bp_runtime_clear(runtime), BP_OK);
    draws = 0;
    assert_int_equal(weights_fixture_load(d), BP_OK);
    assert_int_equal(bp_runtime_draw(runtime), BP_OK);
    assert_int_equal(draws, 0);
    assert_loaded(d);
    made_drop(&d->made, "transformer.wte.weight");
    made_drop(&d->made, "transformer.h.1.ln_1.weight"); /* ones, which nobody draws */
    d->place.allow = BP_ALLOW_MISSING;
    assert_int_equal(bp_runtime_clear(runtime), BP_OK);
    assert_int_equal(weights_fixture_load(d), BP_OK);
    assert_int_equal(bp_runtime_draw(runtime), BP_OK);
    assert_int_equal(draws, 1);
    float *now = model_fixture_read(&d->r, wte);
    assert_memory_equal(now, drawn, runtime->plan->graph.buffers[wte].bytes);
    free(now);
    now = model_fixture_read(&d->r, model_fixture_find(&d->r, "transformer.h.1.ln_1.weight"));
    assert_true(now[0] == 1.0f && now[15] == 1.0f);
    free(now);
    free(drawn);
    weights_fixture_free(d);
}

/* Of what a checkpoint will give nothing is read, but names and shapes are still looked at. */
/* verifies run-19.df56 */
static void what_a_checkpoint_gives_is_not_read(void **state)
{
    (void)state;
    weights_fixture *d = weights_fixture_new(NULL);
    const uint64_t before = model_fixture_digest(&d->r);
    weights_fixture_add(d, BP_F32, true);
    d->place.state_follows = true;
    assert_int_equal(weights_fixture_load(d), BP_OK);
    assert_true(model_fixture_digest(&d->r) == before);
    made_drop(&d->made, "transformer.wte.weight");
    assert_int_equal(weights_fixture_load(d), BP_ERR_DATA);
    assert_int_equal(d->faults[BP_TENSOR_MISSING], 1);
    weights_fixture_free(d);
}

/* verifies formats-25.6dee */
static void masks_and_a_tied_head_are_passed_over(void **state)
{
    (void)state;
    weights_fixture *d = weights_fixture_new(NULL);
    static const uint64_t mask[4] = {1, 1, 12, 12};
    weights_fixture_add(d, BP_F32, false);
    made_add(&d->made, "h.0.attn.bias", BP_BOOL, 4, mask);
    made_add(&d->made, "h.0.attn.masked_bias", BP_F32, 0, mask);
    const bp_buffer *wte = bp_runtime_find(&d->r.runtime, "transformer.wte.weight");
    made_add_values(&d->made, "lm_head.weight", BP_F32, 2, wte->shape, 0);
    assert_int_equal(weights_fixture_load(d), BP_OK);
    assert_loaded(d);
    d->place.watch = NULL;
    assert_int_equal(weights_fixture_load(d), BP_OK);
    weights_fixture_free(d);
}

/* verifies formats-6.0edb */
static void faults_are_all_named_and_nothing_is_changed(void **state)
{
    (void)state;
    weights_fixture *d = weights_fixture_new(NULL);
    uint64_t before = model_fixture_digest(&d->r);
    static const uint64_t shape[2] = {3, 3};
    weights_fixture_add(d, BP_F32, true);
    snprintf(d->made.list[1].name, sizeof d->made.list[1].name, "transformer.wpf.weight");
    d->made.list[4].shape[0] /= 2; /* c_attn, of another shape */
    d->made.list[2].rank = 2;      /* ln_1.weight, of another rank */
    d->made.list[2].shape[1] = 1;
    d->made.list[3].dtype = BP_U16;
    made_add(&d->made, "lm_head.weight", BP_F32, 2, shape);
    assert_int_equal(weights_fixture_load(d), BP_ERR_DATA);
    assert_int_equal(d->faults[BP_TENSOR_MISSING], 1);
    assert_int_equal(d->faults[BP_TENSOR_UNEXPECTED], 1);
    assert_int_equal(d->faults[BP_TENSOR_SHAPE], 2);
    assert_int_equal(d->faults[BP_TENSOR_DTYPE], 1);
    assert_int_equal(d->faults[BP_TENSOR_UNTIED], 1);
    assert_string_equal(d->error.name, "m: transformer.wpe.weight");
    assert_string_equal(d->error.text, bp_tensor_fault_text(BP_TENSOR_MISSING));
    assert_true(model_fixture_digest(&d->r) == before);
    weights_fixture_free(d);
}

/* verifies formats-6.0edb */
static void a_head_of_its_own_is_refused(void **state)
{
    (void)state;
    for (int prefix = 0; prefix < 2; prefix++) {
        weights_fixture *d = weights_fixture_new(NULL);
        weights_fixture_add(d, BP_F32, prefix != 0);
        const bp_buffer *wte = bp_runtime_find(&d->r.runtime, "transformer.wte.weight");
        made_tensor *head = made_add_values(&d->made, "lm_head.weight", BP_F32, 2, wte->shape, 0);
        head->bytes[5] ^= 1;
        assert_int_equal(weights_fixture_load(d), BP_ERR_DATA);
        assert_int_equal(d->faults[BP_TENSOR_UNTIED], 1);
        assert_string_equal(d->error.name, "m: lm_head.weight");
        head->dtype = BP_F16;
        assert_int_equal(weights_fixture_load(d), BP_ERR_DATA);
        weights_fixture_free(d);
    }
}

/* verifies run-12.25e7 */
static void a_damaged_tensor_is_found_by_its_digest(void **state)
{
    (void)state;
    weights_fixture *d = weights_fixture_new(NULL);
    size_t size;
    d->digests = true;
    weights_fixture_add(d, BP_F32, true);
    weights_fixture_put(d);
    memory_store_bytes(&d->memory, "m", &size)[size - 1] ^= 1;
    assert_int_equal(bp_hf_weights_load(&d->r.runtime, &d->place), BP_ERR_DATA);
    assert_true(strstr(d->error.text, "digest") != NULL);
    weights_fixture_free(d);
}

/* verifies formats-24.7573 */
static void storage_that_fails_is_said_so(void **state)
{
    (void)state;
    weights_fixture *d = weights_fixture_new(NULL);
    const bp_buffer *wte = bp_runtime_find(&d->r.runtime, "transformer.wte.weight");
    weights_fixture_add(d, BP_F32, true);
    made_add_values(&d->made, "lm_head.weight", BP_F32, 2, wte->shape, 0);
    weights_fixture_put(d);
    for (size_t n = 1;; n++) {
        d->error = (bp_error){.code = BP_OK};
        faulty_store_arm(&d->faulty, FAULT_READ_AT, n, false);
        bp_status status = bp_hf_weights_load(&d->r.runtime, &d->place);
        if (d->faulty.failures == 0) {
            assert_true(n > d->r.plan.builder.parameter_count); /* each was read */
            assert_int_equal(status, BP_OK);
            break;
        }
        assert_int_equal(status, BP_ERR_STORE);
        assert_int_equal(d->memory.open_files, 0);
    }
    d->error = (bp_error){.code = BP_OK};
    faulty_store_arm(&d->faulty, FAULT_CLOSE, 1, false);
    assert_int_equal(bp_hf_weights_load(&d->r.runtime, &d->place), BP_ERR_STORE);
    faulty_store_arm(&d->faulty, FAULT_OPEN_READ, 1, false);
    assert_int_equal(bp_hf_weights_load(&d->r.runtime, &d->place), BP_ERR_STORE);
    weights_fixture_free(d);
}

/* verifies formats-26.24e5 */
static void too_little_memory_is_said_so(void **state)
{
    (void)state;
    weights_fixture *d = weights_fixture_new(NULL);
    weights_fixture_add(d, BP_F16, true);
    weights_fixture_put(d);
    bool loaded = false;
    for (size_t bytes = 0; bytes < WEIGHTS_FIXTURE_SCRATCH && !loaded; bytes += 1021) {
        d->error = (bp_error){.code = BP_OK};
        d->place.scratch.capacity = bytes;
        bp_status status = bp_hf_weights_load(&d->r.runtime, &d->place);
        loaded = status == BP_OK;
        assert_true(loaded || status == BP_ERR_FIT);
    }
    assert_true(loaded);
    assert_loaded(d);
    assert_true(bp_hf_scratch(&d->r.runtime) > 1u << 20);
    /* Room for the tables, none for the data. */
    bp_safetensors file;
    assert_int_equal(bp_safetensors_open(&file, &d->memory.store, "m", d->scratch,
                                         WEIGHTS_FIXTURE_SCRATCH, NULL),
                     BP_OK);
    size_t needed = file.scratch_needed;
    assert_int_equal(bp_safetensors_close(&file), BP_OK);
    d->error = (bp_error){.code = BP_OK};
    d->place.scratch.capacity = needed;
    bp_status status = bp_hf_weights_load(&d->r.runtime, &d->place);
    assert_true(status == BP_ERR_FIT || status == BP_OK);
    weights_fixture_free(d);
}

/* verifies formats-5.1c0b */
static void what_is_saved_loads_again(void **state)
{
    (void)state;
    weights_fixture *d = weights_fixture_new(NULL);
    uint64_t before = model_fixture_digest(&d->r);
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &plain), BP_OK);
    bool there;
    assert_int_equal(d->memory.store.exists(&d->memory.store, "m.tmp", &there), BP_OK);
    assert_false(there);
    model_fixture_step(&d->r);
    assert_int_equal(bp_runtime_initialize(&d->r.runtime), BP_OK);
    uint32_t wte = model_fixture_find(&d->r, "transformer.wte.weight");
    float *weights = model_fixture_read(&d->r, wte);
    weights[3] += 1.0f;
    model_fixture_write(&d->r, wte, weights);
    free(weights);
    assert_true(model_fixture_digest(&d->r) != before);
    assert_int_equal(bp_hf_weights_load(&d->r.runtime, &d->place), BP_OK);
    assert_true(model_fixture_digest(&d->r) == before);
    d->place.scratch.capacity = 64;
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &plain), BP_ERR_FIT);
    weights_fixture_free(d);
}

/* FNV-1a over the weights of the adapters, or over all others. */
static uint64_t digest_of(weights_fixture *d, bool adapters)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const bp_builder *builder = &d->r.plan.builder;
    for (uint32_t p = 0; p < builder->parameter_count; p++) {
        if ((builder->parameters[p].base != BP_NO_PARAMETER) == adapters) {
            unsigned char *bytes = model_fixture_read(&d->r, builder->parameters[p].weight);
            for (size_t i = 0; i < builder->parameters[p].count * sizeof(float); i++) {
                hash = (hash ^ bytes[i]) * 0x100000001b3u;
            }
            free(bytes);
        }
    }
    return hash;
}

/* verifies formats-12.b2fa */
static void adapters_are_saved_and_loaded_by_themselves(void **state)
{
    (void)state;
    static const char *const targets[] = {"c_attn"};
    bp_spec spec = model_fixture_spec();
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = targets, .target_count = 1};
    weights_fixture *d = weights_fixture_new(&spec);
    const uint64_t fresh = digest_of(d, true), base = digest_of(d, false);
    model_fixture_step(&d->r);
    const uint64_t saved = digest_of(d, true);
    assert_true(saved != fresh);
    assert_int_equal(bp_hf_adapters_save(&d->r.runtime, &d->place, &plain), BP_OK);
    size_t size, whole;
    (void)memory_store_bytes(&d->memory, "m", &size);
    model_fixture_step(&d->r);
    assert_true(digest_of(d, true) != saved);
    assert_int_equal(bp_hf_adapters_load(&d->r.runtime, &d->place), BP_OK);
    assert_true(digest_of(d, true) == saved);
    assert_true(digest_of(d, false) == base);
    /* The model's own weights are another file, and neither is taken for the other. */
    d->place.path = "own";
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &plain), BP_OK);
    (void)memory_store_bytes(&d->memory, "own", &whole);
    assert_true(whole > 4 * size);
    assert_int_equal(bp_hf_adapters_load(&d->r.runtime, &d->place), BP_ERR_DATA);
    assert_true(d->faults[BP_TENSOR_MISSING] == 4); /* A and B in two layers */
    d->place.path = "m";
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_hf_weights_load(&d->r.runtime, &d->place), BP_ERR_DATA);
    assert_true(digest_of(d, true) == saved);
    assert_true(digest_of(d, false) == base);
    d->place.path = "none";
    assert_int_equal(bp_hf_adapters_load(&d->r.runtime, &d->place), BP_ERR_STORE);
    weights_fixture_free(d);
}

/* Those of the token embedding lie the other way round in the file, wherever the weights are. */
/* verifies formats-12.b2fa */
static void adapters_of_the_table_are_turned_on_any_device(void **state)
{
    (void)state;
    static const char *const targets[] = {"wte"};
    bp_device far = bp_device_host;
    far.address = NULL;
    uint64_t digests[2];
    for (int i = 0; i < 2; i++) {
        bp_spec spec = model_fixture_spec();
        spec.device = i == 0 ? spec.device : &far;
        spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = targets, .target_count = 1};
        weights_fixture *d = weights_fixture_new(&spec);
        model_fixture_step(&d->r);
        digests[i] = digest_of(d, true);
        assert_int_equal(bp_hf_adapters_save(&d->r.runtime, &d->place, &plain), BP_OK);
        model_fixture_step(&d->r);
        assert_true(digest_of(d, true) != digests[i]);
        assert_int_equal(bp_hf_adapters_load(&d->r.runtime, &d->place), BP_OK);
        assert_true(digest_of(d, true) == digests[i]);
        weights_fixture_free(d);
    }
    assert_true(digests[0] == digests[1]);
}

/* What an adapter brings with it is used where nothing is trained; a run that would leave it as it
 * is, and lose it, is refused. */
/* verifies formats-12.b2fa */
static void what_an_adapter_brings_is_trained_or_not_taken(void **state)
{
    (void)state;
    static const char *const targets[] = {"c_attn"};
    static const bp_parameter_rule rules[] = {
        {.kind = BP_RULE_TRAIN, .glob = "transformer.ln_f.weight"}};
    bp_spec spec = model_fixture_spec();
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = targets, .target_count = 1};
    spec.rules = rules;
    spec.rule_count = 1;
    weights_fixture *d = weights_fixture_new(&spec);
    assert_int_equal(bp_hf_adapters_save(&d->r.runtime, &d->place, &plain), BP_OK);
    size_t size;
    const void *file = memory_store_bytes(&d->memory, "m", &size);
    for (int i = 0; i < 3; i++) { /* trains it, trains other things, trains nothing */
        bp_spec other = spec;
        other.rule_count = i == 0;
        other.optimizer = i == 2 ? NULL : spec.optimizer;
        weights_fixture *e = weights_fixture_new(&other);
        memory_store_put(&e->memory, "m", file, size);
        assert_int_equal(bp_hf_adapters_load(&e->r.runtime, &e->place),
                         i == 1 ? BP_ERR_USAGE : BP_OK);
        assert_true(i != 1 || strstr(e->error.text, "brings this parameter") != NULL);
        weights_fixture_free(e);
    }
    weights_fixture_free(d);
}

/* Digests are read from the file: whatever read of it fails, nothing is taken as whole. */
/* verifies formats-24.7573 */
static void every_failing_read_of_digests_is_reported(void **state)
{
    (void)state;
    weights_fixture *d = weights_fixture_new(NULL);
    d->digests = true;
    weights_fixture_add(d, BP_F32, true);
    bp_status status = BP_ERR_STORE;
    size_t call = 0;
    while (status == BP_ERR_STORE) {
        faulty_store_arm(&d->faulty, FAULT_READ_AT, ++call, false);
        status = weights_fixture_load(d);
        assert_int_equal(d->error.code, status);
        assert_int_equal(d->memory.open_files, 0);
    }
    assert_int_equal(status, BP_OK);
    assert_true(call > 2 * d->r.plan.builder.parameter_count);
    assert_loaded(d);
    weights_fixture_free(d);
}

/* verifies formats-24.7573 */
static void a_save_that_fails_leaves_the_old_file(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_WRITE, FAULT_WRITE_AT, FAULT_SYNC, FAULT_CLOSE,
                                       FAULT_RENAME};
    weights_fixture *d = weights_fixture_new(NULL);
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &plain), BP_OK);
    model_fixture_step(&d->r);
    size_t size;
    unsigned char *old = memory_store_bytes(&d->memory, "m", &size);
    unsigned char *copy = malloc(size);
    memcpy(copy, old, size);
    for (size_t k = 0; k < 5; k++) {
        d->error = (bp_error){.code = BP_OK};
        faulty_store_arm(&d->faulty, kinds[k], 1, false);
        assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &plain), BP_ERR_STORE);
        assert_memory_equal(memory_store_bytes(&d->memory, "m", &size), copy, size);
    }
    faulty_store_arm(&d->faulty, FAULT_WRITE_AT, 2, false);
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &plain), BP_ERR_STORE);
    free(copy);
    char path[BP_STORE_PATH_MAX];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    d->place.path = path;
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &plain), BP_ERR_USAGE);
    weights_fixture_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_of_three_types_under_either_name),
        cmocka_unit_test(much_room_is_not_used_at_once),
        cmocka_unit_test(narrow_weights_have_their_masters),
        cmocka_unit_test(only_what_files_lack_is_drawn),
        cmocka_unit_test(what_a_checkpoint_gives_is_not_read),
        cmocka_unit_test(masks_and_a_tied_head_are_passed_over),
        cmocka_unit_test(faults_are_all_named_and_nothing_is_changed),
        cmocka_unit_test(a_head_of_its_own_is_refused),
        cmocka_unit_test(a_damaged_tensor_is_found_by_its_digest),
        cmocka_unit_test(storage_that_fails_is_said_so),
        cmocka_unit_test(too_little_memory_is_said_so),
        cmocka_unit_test(what_is_saved_loads_again),
        cmocka_unit_test(adapters_are_saved_and_loaded_by_themselves),
        cmocka_unit_test(adapters_of_the_table_are_turned_on_any_device),
        cmocka_unit_test(what_an_adapter_brings_is_trained_or_not_taken),
        cmocka_unit_test(every_failing_read_of_digests_is_reported),
        cmocka_unit_test(a_save_that_fails_leaves_the_old_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
