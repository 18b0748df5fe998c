/* SPDX-License-Identifier: MIT */
/* Weights in several files with an index, faults that are allowed, and types when saving. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tests/fixtures/formats/tensors_made.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/hf/hf_weights.h"

enum { SCRATCH_BYTES = 1 << 17, INDEX_BYTES = 1 << 15 };

#define INDEX "d/model.safetensors.index.json"

typedef struct fixture {
    model_fixture r;
    memory_store memory;
    faulty_store faulty;
    made_tensors made;
    char index[INDEX_BYTES];
    char *scratch;
    bp_error error;
    bp_hf_location place;
    unsigned faults[BP_TENSOR_FAULTS];
    unsigned allowed;
} fixture;

static const int32_t tokens[60] = {1, 2, 3};

static void note(void *user, const bp_tensor_finding *finding)
{
    fixture *d = user;
    assert_true(finding->tensor[0] != '\0');
    d->faults[finding->fault]++;
    d->allowed += finding->allowed ? 1 : 0;
}

static fixture *fixture_with(const bp_spec *spec)
{
    fixture *d = calloc(1, sizeof *d);
    assert_non_null(d);
    model_fixture_open(&d->r, spec, tokens, 60);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    assert_int_equal(d->memory.store.make_directory(&d->memory.store, "d"), BP_OK);
    d->scratch = malloc(SCRATCH_BYTES);
    d->place = (bp_hf_location){.store = &d->faulty.store,
                                .path = INDEX,
                                .scratch = {d->scratch, SCRATCH_BYTES},
                                .watch = note,
                                .user = d,
                                .error = &d->error};
    return d;
}

static fixture *fixture_new(void)
{
    const bp_spec spec = model_fixture_spec();
    return fixture_with(&spec);
}

static void fixture_free(fixture *d)
{
    assert_int_equal(d->memory.open_files, 0);
    made_free(&d->made);
    model_fixture_close(&d->r);
    memory_store_free(&d->memory);
    free(d->scratch);
    free(d);
}

static void add_model(fixture *d, bp_dtype dtype)
{
    const bp_runtime *runtime = &d->r.runtime;
    for (uint32_t p = 0; p < runtime->plan->builder.parameter_count; p++) {
        const bp_buffer *buffer =
            &runtime->plan->graph.buffers[runtime->plan->builder.parameters[p].weight];
        made_add_values(&d->made, runtime->plan->graph.names + buffer->name, dtype, buffer->rank,
                        buffer->shape, p);
    }
}

static void put_index(fixture *d)
{
    memory_store_put(&d->memory, INDEX, d->index, strlen(d->index));
}

/* Three shards of the model and their index. */
static void put_shards(fixture *d)
{
    size_t used = 0;
    size_t third = d->made.count / 3;
    used += (size_t)snprintf(d->index, INDEX_BYTES,
                             "{\"metadata\": {\"total_size\": 1, \"other\": [1, {}]}, "
                             "\"weight_map\": {");
    for (size_t s = 0; s < 3; s++) {
        char path[64];
        size_t count = s < 2 ? third : d->made.count - 2 * third;
        snprintf(path, sizeof path, "d/model-0000%zu-of-00003.safetensors", s + 1);
        made_write(&d->made, s * third, count, &d->memory.store, path);
        for (size_t i = s * third; i < s * third + count; i++) {
            used += (size_t)snprintf(d->index + used, INDEX_BYTES - used, "%s\"%s\": \"%s\"",
                                     i == 0 ? "" : ", ", d->made.list[i].name, path + 2);
        }
    }
    snprintf(d->index + used, INDEX_BYTES - used, "}}");
    put_index(d);
}

static bp_status load(fixture *d)
{
    memset(d->faults, 0, sizeof d->faults);
    d->allowed = 0;
    d->error = (bp_error){.code = BP_OK};
    return bp_hf_weights_load(&d->r.runtime, &d->place);
}

static void assert_loaded(fixture *d)
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
static void weights_in_three_files_load(void **state)
{
    (void)state;
    static const bp_dtype types[] = {BP_F32, BP_F16, BP_BF16};
    for (int i = 0; i < 3; i++) {
        fixture *d = fixture_new();
        add_model(d, types[i]);
        put_shards(d);
        char path[BP_STORE_PATH_MAX];
        bool found;
        assert_int_equal(bp_hf_find(&d->memory.store, "d", path, &found, NULL), BP_OK);
        assert_true(found);
        assert_string_equal(path, INDEX);
        assert_int_equal(load(d), BP_OK);
        assert_loaded(d);
        made_write(&d->made, 0, d->made.count, &d->memory.store, "d/model.safetensors");
        assert_int_equal(bp_hf_find(&d->memory.store, "d", path, &found, NULL), BP_OK);
        assert_string_equal(path, "d/model.safetensors");
        assert_int_equal(bp_hf_find(&d->memory.store, "e", path, &found, NULL), BP_OK);
        assert_false(found);
        fixture_free(d);
    }
}

/* Replaces the first `from` in the index by `to`. */
static void edit_index(fixture *d, const char *from, const char *to)
{
    char old[INDEX_BYTES];
    put_shards(d);
    memcpy(old, d->index, sizeof old);
    char *at = strstr(old, from);
    assert_non_null(at);
    *at = '\0';
    snprintf(d->index, INDEX_BYTES, "%s%s%s", old, to, at + strlen(from));
    put_index(d);
}

/* verifies formats-18.2618 */
static void a_hostile_index_is_refused(void **state)
{
    (void)state;
#define FIRST "\"transformer.wte.weight\": \"model-00001-of-00003.safetensors\""
    static const struct {
        const char *from, *to, *text;
    } cases[] = {
        /* A path out of the directory, absolute, upwards, hidden, with a NUL, empty, no text. */
        {FIRST, "\"transformer.wte.weight\": \"/etc/passwd\"", "without a path"},
        {FIRST, "\"transformer.wte.weight\": \"../d/model-00001-of-00003.safetensors\"",
         "without a path"},
        {FIRST, "\"transformer.wte.weight\": \"x\\\\..\\\\y\"", "without a path"},
        {FIRST, "\"transformer.wte.weight\": \"..\"", "without a path"},
        {FIRST, "\"transformer.wte.weight\": \"model-00001-of-00003.safetensors\\u0000x\"",
         "without a path"},
        {FIRST, "\"transformer.wte.weight\": \"\"", "without a path"},
        {FIRST, "\"transformer.wte.weight\": 7", "without a path"},
        {FIRST, "\"transformer.wte.weight\": [\"a\"]", "without a path"},
        /* A tensor named twice, in one file or in two; in a file that does not hold it. */
        {FIRST, FIRST ", " FIRST, "twice"},
        {FIRST, "\"transformer.wte.weight\": \"model-00002-of-00003.safetensors\"",
         "a file that does not hold it"},
        {FIRST, FIRST ", \"ghost\": \"model-00002-of-00003.safetensors\"",
         "a file that does not hold it"},
        {FIRST ", ", "", "the index does not put there"},
        {FIRST, "\"transformer.wte.weight\": \"model-00009-of-00003.safetensors\"", "is missing"},
        {"\"transformer.wte.weight\"", "\"transformer.wte\\u0000weight\"", "NUL"},
        {"\"transformer.wte.weight\"", "\"\"", "empty"},
        {"{\"metadata\"", "[\"metadata\"", ""},
        {"\"weight_map\": {", "\"weight_map\": [", ""},
        {"\"weight_map\"", "\"weight_mop\"", "weight_map is missing"},
        {"\"weight_map\"", "\"weight_map\": {}, \"weight_map\"", "twice"},
        {"}}", "}", ""},
        {"}}", "}} {", ""},
    };
    fixture *d = fixture_new();
    add_model(d, BP_F32);
    uint64_t before = model_fixture_digest(&d->r);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        edit_index(d, cases[i].from, cases[i].to);
        assert_int_equal(load(d), BP_ERR_DATA);
        assert_non_null(strstr(d->error.text, cases[i].text));
        assert_non_null(strstr(d->error.name, "d/model"));
        assert_true(model_fixture_digest(&d->r) == before);
        assert_int_equal(d->memory.open_files, 0);
    }
    fixture_free(d);
}

static void long_names_and_too_many_files_are_refused(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    char name[2000];
    for (size_t length = 250; length < sizeof name; length += 600) {
        memset(name, 'x', length);
        name[length] = '\0';
        snprintf(d->index, INDEX_BYTES, "{\"weight_map\": {\"%s\": \"f\"}}", name);
        put_index(d);
        bp_status status = load(d);
        assert_true(status == BP_ERR_DATA || status == BP_ERR_FIT);
        snprintf(d->index, INDEX_BYTES, "{\"weight_map\": {\"t\": \"%s\"}}", name);
        put_index(d);
        assert_int_equal(load(d), BP_ERR_DATA);
    }
    size_t used = (size_t)snprintf(d->index, INDEX_BYTES, "{\"weight_map\": {");
    for (unsigned i = 0; i < BP_HF_SHARDS_MAX + 1; i++) {
        used += (size_t)snprintf(d->index + used, INDEX_BYTES - used, "%s\"t%u\":\"f%u\"",
                                 i == 0 ? "" : ",", i, i);
    }
    snprintf(d->index + used, INDEX_BYTES - used, "}}");
    put_index(d);
    assert_int_equal(load(d), BP_ERR_DATA);
    assert_non_null(strstr(d->error.text, "1024"));
    fixture_free(d);
}

/* verifies formats-26.24e5 */
static void little_memory_and_failing_storage_are_said_so(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_READ_AT, FAULT_OPEN_READ, FAULT_FILE_SIZE,
                                       FAULT_CLOSE};
    fixture *d = fixture_new();
    add_model(d, BP_F16);
    put_shards(d);
    bool loaded = false;
    for (size_t bytes = 0; bytes < SCRATCH_BYTES && !loaded; bytes += 1021) {
        d->place.scratch.capacity = bytes;
        bp_status status = load(d);
        loaded = status == BP_OK;
        assert_true(loaded || status == BP_ERR_FIT);
        assert_int_equal(d->memory.open_files, 0);
    }
    assert_true(loaded);
    assert_loaded(d);
    d->place.scratch.capacity = SCRATCH_BYTES;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (size_t n = 1;; n++) {
            faulty_store_arm(&d->faulty, kinds[k], n, false);
            bp_status status = load(d);
            if (d->faulty.failures == 0) {
                assert_true(n > 1); /* each kind is called */
                assert_int_equal(status, BP_OK);
                break;
            }
            /* A failing close of the index, which was only read, loses nothing. */
            assert_true(status == BP_ERR_STORE || kinds[k] == FAULT_CLOSE);
            assert_int_equal(d->memory.open_files, 0);
        }
    }
    fixture_free(d);
}

/* verifies formats-6.0edb */
static void what_is_allowed_is_reported_and_passes(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    d->place.path = "m";
    add_model(d, BP_F32);
    snprintf(d->made.list[0].name, sizeof d->made.list[0].name, "extra");
    d->made.list[1].shape[0] /= 2;
    made_write(&d->made, 0, d->made.count, &d->memory.store, "m");
    assert_int_equal(load(d), BP_ERR_DATA);
    assert_int_equal(d->allowed, 0);
    static const unsigned bits[] = {BP_ALLOW_MISSING, BP_ALLOW_UNEXPECTED, BP_ALLOW_SHAPE};
    for (int leave = 0; leave < 3; leave++) {
        d->place.allow = 7u & ~bits[leave];
        assert_int_equal(load(d), BP_ERR_DATA);
        assert_int_equal(d->allowed, 2);
    }
    float *wte = model_fixture_read(&d->r, d->r.plan.builder.parameters[0].weight);
    d->place.allow = 7u;
    assert_int_equal(load(d), BP_OK);
    assert_int_equal(d->allowed, 3);
    assert_int_equal(d->faults[BP_TENSOR_MISSING], 1);
    float *now = model_fixture_read(&d->r, d->r.plan.builder.parameters[0].weight);
    assert_memory_equal(now, wte, d->r.plan.builder.parameters[0].count * sizeof *wte);
    free(now);
    free(wte);
    now = model_fixture_read(&d->r, d->r.plan.builder.parameters[2].weight);
    assert_true(now[1] == made_value(2, 1));
    free(now);
    fixture_free(d);
}

/* verifies formats-6.0edb */
static void weights_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u};
    for (size_t i = 0; i < 4; i++) {
        fixture *d = fixture_new();
        d->place.path = "m";
        add_model(d, BP_F32);
        memcpy(d->made.list[3].bytes + 4, &bad[i], 4);
        made_write(&d->made, 0, d->made.count, &d->memory.store, "m");
        assert_int_equal(load(d), BP_ERR_DATA);
        assert_string_equal(d->error.name + 3, d->made.list[3].name);
        fixture_free(d);
    }
}

/* verifies formats-5.1c0b */
static void the_source_types_come_back_bit_by_bit(void **state)
{
    (void)state;
    static const bp_dtype types[] = {BP_F32, BP_F16, BP_BF16};
    fixture *d = fixture_new();
    add_model(d, BP_F16);
    for (size_t i = 0; i < d->made.count; i++) {
        made_tensor *tensor = &d->made.list[i];
        tensor->dtype = types[1 + i % 2]; /* other bits, other numbers: all of them finite */
        if (i % 5 == 0) {
            free(tensor->bytes);
            made_tensors one = {.count = 0};
            *tensor = *made_add_values(&one, tensor->name, BP_F32, tensor->rank, tensor->shape, i);
        }
    }
    made_write(&d->made, 0, d->made.count, &d->memory.store, "m");
    d->place.path = "m";
    assert_int_equal(load(d), BP_OK);
    const bp_hf_scheme form = {.dtype = BP_F32, .source = "m"};
    d->place.path = "n";
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &form), BP_OK);
    size_t sizes[2];
    unsigned char *m = memory_store_bytes(&d->memory, "m", &sizes[0]);
    unsigned char *n = memory_store_bytes(&d->memory, "n", &sizes[1]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(m, n, sizes[0]);
    /* Onto itself as well. */
    d->place.path = "m";
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &form), BP_OK);
    assert_memory_equal(memory_store_bytes(&d->memory, "m", &sizes[0]), n, sizes[1]);
    const bp_hf_scheme gone = {.dtype = BP_F32, .source = "gone"};
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &gone), BP_ERR_STORE);
    fixture_free(d);
}

/* Any finite bits. */
static void fill_bits(made_tensor *tensor, uint32_t seed)
{
    for (size_t i = 0; i < made_elements(tensor); i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t bits = (seed & 0x807fffffu) | (0x70u + (seed >> 9) % 16u) << 23;
        memcpy(tensor->bytes + 4 * i, &bits, 4);
    }
}

/* verifies number-1.d059 */
static void weights_of_16_bits_keep_exact_masters(void **state)
{
    (void)state;
    static const struct {
        bp_dtype working;
        bp_master master;
        bool exact;
    } cases[] = {
        {BP_BF16, BP_MASTER_SPLIT, true},
        {BP_BF16, BP_MASTER_FP32, true},
        {BP_F16, BP_MASTER_FP32, true},
        {BP_BF16, BP_MASTER_STOCHASTIC, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bp_spec spec = model_fixture_spec();
        spec.working = cases[c].working;
        spec.gradient = cases[c].working == BP_BF16 ? BP_BF16 : BP_F32;
        spec.master = cases[c].master;
        if (spec.working == BP_F16) {
            spec.scaling = (bp_scaling){.kind = BP_SCALING_STATIC, .initial = 1.0};
        }
        fixture *d = fixture_with(&spec);
        d->place.path = "m";
        add_model(d, BP_F32);
        for (size_t i = 0; i < d->made.count; i++) {
            fill_bits(&d->made.list[i], (uint32_t)i);
        }
        made_write(&d->made, 0, d->made.count, &d->memory.store, "m");
        assert_int_equal(load(d), BP_OK);
        const bp_hf_scheme form = {.dtype = BP_F32};
        d->place.path = "n";
        assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &form), BP_OK);
        size_t size;
        unsigned char *m = memory_store_bytes(&d->memory, "m", &size);
        unsigned char *n = memory_store_bytes(&d->memory, "n", &size);
        assert_int_equal(memcmp(m, n, size) == 0, cases[c].exact);
        if (cases[c].working == BP_F16) { /* what fp16 cannot hold is named */
            const float huge = 1e6f;
            memcpy(d->made.list[2].bytes, &huge, 4);
            made_write(&d->made, 0, d->made.count, &d->memory.store, "n");
            assert_int_equal(load(d), BP_ERR_DATA);
            assert_string_equal(d->error.name + 3, d->made.list[2].name);
        }
        fixture_free(d);
    }
}

/* verifies formats-6.0edb */
static void a_weight_too_large_for_fp16_is_named_and_nothing_replaced(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    const bp_hf_scheme half = {.dtype = BP_F16};
    d->place.path = "m";
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &half), BP_OK);
    size_t size;
    size_t again;
    memory_store_bytes(&d->memory, "m", &size);
    uint32_t wte = model_fixture_find(&d->r, "transformer.wte.weight");
    float *weights = model_fixture_read(&d->r, wte);
    weights[3] = 70000.0f;
    model_fixture_write(&d->r, wte, weights);
    free(weights);
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &d->place, &half), BP_ERR_DATA);
    assert_string_equal(d->error.name, "transformer.wte.weight");
    memory_store_bytes(&d->memory, "m", &again);
    assert_int_equal(size, again);
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(load(d), BP_OK);
    fixture_free(d);
}

/* What is wrong with an index is told to who wants to hear it and has heard nothing before; and
 * memory of any size is enough for it, or said to be too small. */
/* verifies formats-24.7573 */
static void an_index_may_be_wrong_for_nobody(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    bp_tensor_set set;
    add_model(d, BP_F32);
    put_shards(d);
    memory_store_put(&d->memory, INDEX, d->index, strlen(d->index) - 1);
    for (int heard = 0; heard < 3; heard++) {
        bp_staging room = {d->scratch, SCRATCH_BYTES};
        bp_error own = {.code = heard == 2 ? BP_ERR_FIT : BP_OK, .text = "before"};
        assert_int_equal(bp_hf_open(&set, &d->faulty.store, INDEX, &room, heard > 0 ? &own : NULL),
                         BP_ERR_DATA);
        assert_int_equal(own.code, heard == 0 ? BP_OK : heard == 1 ? BP_ERR_DATA : BP_ERR_FIT);
    }
    put_index(d);
    bp_status status = BP_ERR_FIT;
    for (size_t bytes = 0; status == BP_ERR_FIT && bytes < SCRATCH_BYTES; bytes += 64) {
        bp_staging room = {d->scratch, bytes};
        d->error = (bp_error){.code = BP_OK};
        status = bp_hf_open(&set, &d->faulty.store, INDEX, &room, &d->error);
    }
    assert_int_equal(status, BP_OK);
    assert_int_equal(bp_tensor_set_close(&set), BP_OK);
    /* A store that cannot say whether a file is there is not one without it. */
    char path[BP_STORE_PATH_MAX];
    bool there = true;
    faulty_store_arm(&d->faulty, FAULT_EXISTS, 1, true);
    assert_int_equal(bp_hf_find(&d->faulty.store, "d", path, &there, &d->error), BP_ERR_STORE);
    fixture_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_in_three_files_load),
        cmocka_unit_test(a_hostile_index_is_refused),
        cmocka_unit_test(long_names_and_too_many_files_are_refused),
        cmocka_unit_test(little_memory_and_failing_storage_are_said_so),
        cmocka_unit_test(what_is_allowed_is_reported_and_passes),
        cmocka_unit_test(weights_that_are_no_numbers_are_refused),
        cmocka_unit_test(the_source_types_come_back_bit_by_bit),
        cmocka_unit_test(weights_of_16_bits_keep_exact_masters),
        cmocka_unit_test(a_weight_too_large_for_fp16_is_named_and_nothing_replaced),
        cmocka_unit_test(an_index_may_be_wrong_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
