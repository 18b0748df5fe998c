/* SPDX-License-Identifier: MIT */
/* Counts of batches, read from files of every kind and written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/cnn.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/store_memory.h"
#include "tests/fixtures/formats/tensors_made.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_counts.h"
#include "tools/formats/gguf/gguf_write.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/hf/hf_weights.h"
#include "tools/formats/hf/tensor_match.h"
#include "tools/formats/hf/weight_target.h"

enum { NUMBERS = 4 * 4, SCRATCH = 1 << 21 };

typedef struct fixture {
    model_fixture r;
    memory_store memory;
    void *scratch;
    bp_error error;
} fixture;

/* Two layers, of which the second has a norm and the first has none, and a third with one. */
static fixture *fixture_of(const bp_family *family, const bp_optimizer *optimizer, uint32_t rank)
{
    static const char *const all[] = {"convolution"};
    static const bp_cnn_config own = {
        .height = 4,
        .width = 4,
        .channels = 1,
        .layers = 3,
        .epsilon = 1e-3,
        .momentum = 0.1,
        .layer = {
            {.kind = BP_CNN_CONV, .kernel = {1, 1}, .stride = {1, 1}, .plain = 1, .channels = 2},
            {.kind = BP_CNN_CONV, .kernel = {1, 1}, .stride = {1, 1}, .channels = 2},
            {.kind = BP_CNN_CONV, .kernel = {1, 1}, .stride = {1, 1}, .channels = 3}}};
    static const int32_t nothing[NUMBERS];
    fixture *d = calloc(1, sizeof *d);
    assert_non_null(d);
    bp_spec spec = model_fixture_spec();
    spec.model = &bp_model_cnn;
    spec.config = (bp_model_config){
        .family = family, .positions = NUMBERS, .task = BP_TASK_CLASSES, .classes = 3};
    bp_family_config_set(&spec.config, &own, sizeof own);
    spec.sequence = NUMBERS;
    spec.optimizer = optimizer;
    spec.evaluate = true;
    if (rank > 0) {
        spec.lora = (bp_lora){.rank = rank, .alpha = 1.0, .targets = all, .target_count = 1};
    }
    model_fixture_open(&d->r, &spec, nothing, 1000000);
    memory_store_init(&d->memory);
    d->scratch = malloc(SCRATCH);
    assert_non_null(d->scratch);
    return d;
}

static fixture *fixture_new(const bp_optimizer *optimizer, uint32_t rank)
{
    return fixture_of(&bp_family_cnn, optimizer, rank);
}

static void fixture_free(fixture *d)
{
    memory_store_free(&d->memory);
    model_fixture_close(&d->r);
    free(d->scratch);
    free(d);
}

/* Loads a file that has one tensor, of `bytes` bytes. */
static bp_status load_one(fixture *d, const char *name, const char *type, const char *shape,
                          const void *value, size_t bytes)
{
    char head[256], file[400];
    snprintf(head, sizeof head,
             "{\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[0,%u]}}", name, type,
             shape, (unsigned)bytes);
    const uint64_t length = strlen(head);
    memcpy(file, &length, sizeof length);
    memcpy(file + sizeof length, head, length);
    memcpy(file + sizeof length + length, value, bytes);
    memory_store_put(&d->memory, "m", file, sizeof length + length + bytes);
    d->error = (bp_error){.code = BP_OK};
    const bp_hf_location place = {.store = &d->memory.store,
                                  .path = "m",
                                  .scratch = {d->scratch, SCRATCH},
                                  .allow = BP_ALLOW_MISSING,
                                  .error = &d->error};
    return bp_hf_weights_load(&d->r.runtime, &place);
}

static void assert_counts(fixture *d, int32_t first, int32_t second)
{
    int32_t *counts = model_fixture_read(&d->r, d->r.plan.builder.batches.buffer);
    assert_int_equal(counts[0], first);
    assert_int_equal(counts[1], second);
    free(counts);
}

/* verifies layers-17.99a3 */
static void counts_are_read(void **state)
{
    (void)state;
    fixture *d = fixture_new(model_fixture_spec().optimizer, 0);
    const int64_t many = INT32_MAX, more = many + 1, less = -1, pair[2] = {1, 2};
    const int32_t few = 9, two[2] = {1, 2};
    static const char first[] = "layers.1.normalization.num_batches_tracked",
                      second[] = "layers.2.normalization.num_batches_tracked";
    assert_int_equal(bp_hf_counts(&d->r.runtime), 2);
    assert_int_equal(load_one(d, second, "I64", "", &many, 8), BP_OK);
    assert_counts(d, 0, INT32_MAX);
    assert_int_equal(load_one(d, first, "I32", "1", &few, 4), BP_OK);
    assert_counts(d, 9, 0);
    const struct {
        const char *type, *shape;
        const void *value;
        size_t bytes;
    } wrong[] = {{"I64", "", &more, 8}, {"I64", "", &less, 8}, {"I64", "2", pair, 16},
                 {"I32", "2", two, 8},  {"F32", "", &few, 4},  {"I32", "1", &less, 4}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(
            load_one(d, first, wrong[i].type, wrong[i].shape, wrong[i].value, wrong[i].bytes),
            BP_ERR_DATA);
        assert_string_equal(d->error.name, first);
    }
    fixture_free(d);
}

/* Of a family whose tensors have two names a count is found by either. */
/* verifies layers-17.99a3 */
static void names_are_those_of_the_family(void **state)
{
    (void)state;
    static const char *const names[] = {"layers.1.normalization.num_batches_tracked",
                                        "renamed.num_batches_tracked"};
    static const bp_tensor_rule rules[] = {
        {"*", "*", BP_LAYOUT_PLAIN}, {"layers.1.normalization.*", "renamed.*", BP_LAYOUT_PLAIN}};
    bp_family family = bp_family_cnn;
    const int64_t five = 5;
    family.naming.rules = rules;
    family.naming.rule_count = 2;
    for (size_t i = 0; i < 2; i++) {
        fixture *d = fixture_of(&family, model_fixture_spec().optimizer, 0);
        assert_int_equal(load_one(d, names[i], "I64", "", &five, 8), BP_OK);
        assert_counts(d, 5, 0);
        fixture_free(d);
    }
}

/* verifies layers-17.99a3 */
static void counts_are_written(void **state)
{
    (void)state;
    fixture *d = fixture_new(model_fixture_spec().optimizer, 0);
    const int32_t counts[2] = {3, 70000};
    static const bp_hf_scheme form = {.dtype = BP_F32};
    bp_hf_location place = {.store = &d->memory.store,
                            .path = "m",
                            .scratch = {d->scratch, SCRATCH},
                            .error = &d->error};
    model_fixture_write(&d->r, d->r.plan.builder.batches.buffer, counts);
    assert_int_equal(bp_hf_weights_save(&d->r.runtime, &place, &form), BP_OK);
    const int32_t none[2] = {0, 0};
    model_fixture_write(&d->r, d->r.plan.builder.batches.buffer, none);
    assert_int_equal(bp_hf_weights_load(&d->r.runtime, &place), BP_OK);
    assert_counts(d, 3, 70000);
    /* with less and less room for their names */
    bp_status status = BP_OK;
    for (size_t bytes = 6000; bytes >= 512; bytes -= 8) {
        place.scratch.capacity = bytes;
        d->error = (bp_error){.code = BP_OK};
        status = bp_hf_weights_save(&d->r.runtime, &place, &form);
        assert_true(status == BP_OK || status == BP_ERR_FIT);
    }
    assert_int_equal(status, BP_ERR_FIT);
    fixture_free(d);
}

/* What trains nothing, or adapters, counts nothing. */
/* verifies layers-17.99a3 */
static void others_have_none(void **state)
{
    (void)state;
    fixture *d = fixture_new(NULL, 0);
    const int64_t many = 5;
    assert_int_equal(bp_hf_counts(&d->r.runtime), 0);
    assert_int_equal(load_one(d, "layers.1.normalization.num_batches_tracked", "I64", "", &many, 8),
                     BP_OK);
    fixture_free(d);
    d = fixture_new(model_fixture_spec().optimizer, 1);
    assert_int_equal(bp_hf_counts(&d->r.runtime), 0);
    fixture_free(d);
}

/* A family that GGUF has no names for takes its own: the file lacks every tensor. */
/* verifies formats-6.0edb */
static void gguf_has_no_names_for_it(void **state)
{
    (void)state;
    fixture *d = fixture_new(model_fixture_spec().optimizer, 0);
    bp_gguf_writer w;
    assert_null(bp_family_cnn.gguf);
    assert_int_equal(bp_gguf_begin(&w, &d->memory.store, "m.gguf", NULL), BP_OK);
    bp_gguf_put_string(&w, "general.architecture", "cnn", 3);
    assert_int_equal(bp_gguf_data(&w), BP_OK);
    assert_int_equal(bp_gguf_end(&w), BP_OK);
    bp_hf_location place = {.store = &d->memory.store,
                            .path = "m.gguf",
                            .scratch = {d->scratch, SCRATCH},
                            .error = &d->error};
    assert_int_equal(bp_hf_weights_load(&d->r.runtime, &place), BP_ERR_DATA);
    assert_non_null(strstr(d->error.name, "layers.0"));
    place.allow = BP_ALLOW_MISSING;
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_hf_weights_load(&d->r.runtime, &place), BP_OK);
    fixture_free(d);
}

typedef struct moving {
    memory_store memory;
    made_tensors made;
    bp_tensor_set set;
    bp_error error;
    uint64_t room[1 << 14], work[1 << 14];
} moving;

/* What export makes of a mean and its count; under rules that have no form for them, a refusal. */
static bp_status export_mean(moving *m, const bp_tensor_naming *naming)
{
    static const char mean[] = "layers.1.normalization.running_mean";
    bp_wanted wanted = {.name = mean, .rank = 1, .shape = {3}};
    bp_staging room = {m->room, sizeof m->room};
    m->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_hf_open(&m->set, &m->memory.store, "in", &room, &m->error), BP_OK);
    const bp_match match = {.set = &m->set,
                            .naming = &bp_family_cnn.naming,
                            .wanted = &wanted,
                            .count = 1,
                            .allow = BP_ALLOW_UNEXPECTED,
                            .work = {m->work, sizeof m->work}};
    assert_int_equal(bp_tensor_match(&match), BP_OK);
    const bp_weight_source source = {.set = &m->set, .list = &wanted, .count = 1};
    const bp_weight_target target = {.store = &m->memory.store,
                                     .path = "out",
                                     .keep = true,
                                     .work = {m->work, sizeof m->work},
                                     .error = &m->error};
    bp_weight_target to = target;
    const bp_status status = bp_hf_export(&source, naming, &to);
    assert_int_equal(bp_tensor_set_close(&m->set), BP_OK);
    return status;
}

/* verifies layers-17.99a3 */
static void counts_go_from_file_to_file(void **state)
{
    (void)state;
    static const uint64_t shape[1] = {3};
    static const bp_tensor_rule turned[] = {{"*", "*", BP_LAYOUT_TRANSPOSED}};
    moving *m = calloc(1, sizeof *m);
    assert_non_null(m);
    memory_store_init(&m->memory);
    made_add_values(&m->made, "layers.1.normalization.running_mean", BP_F32, 1, shape, 1);
    made_tensor *count =
        made_add(&m->made, "layers.1.normalization.num_batches_tracked", BP_I64, 0, shape);
    const int64_t many = 70000;
    memcpy(count->bytes, &many, sizeof many);
    for (size_t there = 1; there <= 2; there++) { /* without the count and with it */
        uint32_t part = 0;
        int64_t found = 0;
        made_write(&m->made, 0, there, &m->memory.store, "in");
        assert_int_equal(export_mean(m, &bp_family_cnn.naming), BP_OK);
        bp_staging room = {m->room, sizeof m->room};
        assert_int_equal(bp_hf_open(&m->set, &m->memory.store, "out", &room, &m->error), BP_OK);
        const bp_tensor_entry *entry =
            bp_tensor_set_find(&m->set, "layers.1.normalization.num_batches_tracked", &part);
        assert_int_equal(entry != NULL, there == 2);
        if (entry != NULL) {
            assert_int_equal(bp_tensor_set_read(&m->set, part, entry, 0, &found, sizeof found),
                             BP_OK);
            assert_true(found == many);
        }
        assert_int_equal(bp_tensor_set_close(&m->set), BP_OK);
    }
    /* One dimension cannot be turned. */
    bp_tensor_naming other = bp_family_cnn.naming;
    other.rules = turned;
    other.rule_count = 1;
    assert_int_equal(export_mean(m, &other), BP_ERR_USAGE);
    assert_string_equal(m->error.text, "the format has no name or no form for this tensor");
    made_free(&m->made);
    memory_store_free(&m->memory);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_read),          cmocka_unit_test(names_are_those_of_the_family),
        cmocka_unit_test(counts_are_written),       cmocka_unit_test(others_have_none),
        cmocka_unit_test(gguf_has_no_names_for_it), cmocka_unit_test(counts_go_from_file_to_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
