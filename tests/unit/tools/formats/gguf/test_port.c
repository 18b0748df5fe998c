/* SPDX-License-Identifier: MIT */
/* Models to other programs' files and back, byte by byte as those programs write them
 * (tools/golden/formats/port.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "layers/families/gpt2.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/disk_file.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/formats/tensors_made.h"
#include "tools/formats/gguf/gguf_export.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/llmc/llmc_model.h"
#include "tools/formats/gguf/gguf_model.h"

#define GOLDEN "tests/golden/port/"

enum { SCRATCH = 1 << 18, WORK = 1 << 17 };

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    bp_error error;
    bp_model_config config;
    bp_tensor_set set;
    bp_parameters parameters;
    bp_weight_source source;
    bp_weight_target target;
    bp_gguf_file gguf;
    bp_llmc_file llmc;
    bp_staging room;
    uint64_t scratch[SCRATCH / 8];
    uint64_t work[WORK / 8];
} fixture;

static fixture *fixture_new(void)
{
    fixture *d = calloc(1, sizeof *d);
    assert_non_null(d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    disk_file_put(&d->memory, GOLDEN "model.safetensors", "model");
    disk_file_put(&d->memory, GOLDEN "config.json", "config");
    assert_int_equal(bp_hf_config_read(&d->memory.store, "config", d->work, &d->config, &d->error),
                     BP_OK);
    d->target = (bp_weight_target){.store = &d->faulty.store,
                                   .path = "out",
                                   .keep = true,
                                   .work = {d->work, sizeof d->work},
                                   .error = &d->error};
    return d;
}

static void fixture_free(fixture *d)
{
    assert_int_equal(bp_tensor_set_close(&d->set), BP_OK);
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d);
}

static void fresh(fixture *d)
{
    assert_int_equal(bp_tensor_set_close(&d->set), BP_OK);
    d->error = (bp_error){.code = BP_OK};
    d->room = (bp_staging){d->scratch, sizeof d->scratch};
}

static bp_status match(fixture *d, const bp_tensor_naming *naming)
{
    BP_TRY(bp_parameters_list(&bp_model_gpt2, &d->config, &d->room, &d->parameters, &d->error));
    const bp_match m = {
        .set = &d->set,
        .naming = naming,
        .wanted = d->parameters.list,
        .count = d->parameters.count,
        .heads = {bp_transformer_of(&d->config).heads, bp_transformer_of(&d->config).heads, 0},
        .work = d->target.work};
    d->source = (bp_weight_source){
        .set = &d->set, .list = d->parameters.list, .count = d->parameters.count, .heads = m.heads};
    return bp_tensor_match(&m);
}

static void open_hf(fixture *d, const char *path)
{
    fresh(d);
    assert_int_equal(bp_hf_open(&d->set, &d->faulty.store, path, &d->room, &d->error), BP_OK);
    assert_int_equal(match(d, &bp_family_find("gpt2")->naming), BP_OK);
}

static void open_gguf(fixture *d, const char *path)
{
    fresh(d);
    const bp_gguf_family *family = bp_gguf_family_find("gpt2");
    assert_int_equal(bp_gguf_open(&d->gguf, &d->faulty.store, path, &d->room, &d->error), BP_OK);
    assert_int_equal(family->take(&d->gguf, family->architecture, &d->config), BP_OK);
    assert_int_equal(bp_gguf_close(&d->gguf), BP_OK);
    bp_tensor_set_init(&d->set, &d->faulty.store, path, &d->gguf.part, 1, &d->error);
    assert_int_equal(match(d, family->naming), BP_OK);
}

static bp_status to_gguf(fixture *d)
{
    const bp_gguf_model model = {
        bp_gguf_family_find("gpt2"), &d->config, "port", NULL, NULL, -1, NULL, 0};
    return bp_gguf_export(&d->source, &model, &d->target);
}

static bp_status to_hf(fixture *d)
{
    return bp_hf_export(&d->source, &bp_family_find("gpt2")->naming, &d->target);
}

static bp_status to_llmc(fixture *d)
{
    return bp_llmc_export(&d->source, &d->config, &d->target);
}

static void set_dtype(fixture *d, bp_dtype dtype)
{
    d->target.keep = false;
    d->target.dtype = dtype;
}

/* verifies formats-7.5b71 */
static void gguf_files_are_those_of_gguf_py(void **state)
{
    (void)state;
    static const struct {
        bp_dtype dtype;
        const char *path;
    } cases[] = {
        {BP_F32, GOLDEN "f32.gguf"}, {BP_F16, GOLDEN "f16.gguf"}, {BP_BF16, GOLDEN "bf16.gguf"}};
    fixture *d = fixture_new();
    open_hf(d, "model");
    for (size_t i = 0; i < 3; i++) {
        set_dtype(d, cases[i].dtype);
        assert_int_equal(to_gguf(d), BP_OK);
        disk_file_compare(&d->memory, "out", cases[i].path);
    }
    d->target.keep = true; /* the model is float32 */
    assert_int_equal(to_gguf(d), BP_OK);
    disk_file_compare(&d->memory, "out", cases[0].path);
    fixture_free(d);
}

/* verifies formats-7.5b71 */
static void gguf_files_come_back_as_they_were(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    disk_file_put(&d->memory, GOLDEN "f32.gguf", "in");
    open_gguf(d, "in");
    assert_int_equal(to_hf(d), BP_OK);
    disk_file_compare(&d->memory, "out", GOLDEN "model.safetensors");
    /* Through 16 bits: the second time nothing is lost. */
    static const bp_dtype types[] = {BP_F16, BP_BF16};
    static const char *const paths[] = {GOLDEN "f16.gguf", GOLDEN "bf16.gguf"};
    for (size_t i = 0; i < 2; i++) {
        disk_file_put(&d->memory, paths[i], "in");
        open_gguf(d, "in");
        d->target.keep = true;
        assert_int_equal(to_hf(d), BP_OK);
        size_t size;
        unsigned char *bytes = memory_store_bytes(&d->memory, "out", &size);
        memory_store_put(&d->memory, "model2", bytes, size);
        open_hf(d, "model2");
        set_dtype(d, types[i]);
        assert_int_equal(to_gguf(d), BP_OK);
        disk_file_compare(&d->memory, "out", paths[i]);
    }
    fixture_free(d);
}

/* verifies formats-11.6e9f */
static void llmc_files_are_those_of_its_script_and_come_back(void **state)
{
    (void)state;
    static const char *const paths[] = {GOLDEN "fp32.llmc", GOLDEN "bf16.llmc"};
    static const bp_dtype types[] = {BP_F32, BP_BF16};
    fixture *d = fixture_new();
    for (size_t i = 0; i < 2; i++) {
        open_hf(d, "model");
        set_dtype(d, types[i]);
        assert_int_equal(to_llmc(d), BP_OK);
        disk_file_compare(&d->memory, "out", paths[i]);
        size_t size;
        unsigned char *bytes = memory_store_bytes(&d->memory, "out", &size);
        memory_store_put(&d->memory, "in", bytes, size);
        fresh(d);
        assert_int_equal(bp_llmc_open(&d->llmc, &d->faulty.store, "in", &d->room, &d->error),
                         BP_OK);
        assert_int_equal(d->llmc.config.vocabulary, d->config.vocabulary);
        assert_int_equal(d->llmc.config.positions, d->config.positions);
        assert_int_equal(d->llmc.dtype, types[i]);
        d->config = d->llmc.config;
        bp_tensor_set_init(&d->set, &d->faulty.store, "in", &d->llmc.part, 1, &d->error);
        assert_int_equal(match(d, &bp_llmc_naming), BP_OK);
        d->target.keep = true;
        assert_int_equal(to_hf(d), BP_OK);
        if (i == 0) {
            disk_file_compare(&d->memory, "out", GOLDEN "model.safetensors");
        }
        assert_int_equal(to_llmc(d), BP_OK); /* keeps bf16 as bf16 */
        disk_file_compare(&d->memory, "out", paths[i]);
    }
    fixture_free(d);
}

/* verifies formats-11.6e9f */
static void a_model_that_llmc_cannot_say_is_refused(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    open_hf(d, "model");
    const bp_model_config good = d->config;
    set_dtype(d, BP_F16);
    assert_int_equal(to_llmc(d), BP_ERR_USAGE);
    set_dtype(d, BP_F32);
    d->error = (bp_error){.code = BP_OK};
    SET_FAMILY(&d->config, bp_transformer, inner, 33);
    assert_int_equal(to_llmc(d), BP_ERR_USAGE);
    assert_string_equal(d->error.name, "n_inner");
    d->error = (bp_error){.code = BP_OK};
    d->config = good;
    SET_FAMILY(&d->config, bp_transformer, inner, 4 * bp_transformer_of(&good).width);
    SET_FAMILY(&d->config, bp_transformer, norm_epsilon, 1e-6);
    assert_int_equal(to_llmc(d), BP_ERR_USAGE);
    assert_string_equal(d->error.name, "layer_norm_epsilon");
    d->error = (bp_error){.code = BP_OK};
    d->config = good;
    SET_FAMILY(&d->config, bp_transformer, untied, true);
    assert_int_equal(to_llmc(d), BP_ERR_USAGE);
    assert_string_equal(d->error.name, "tie_word_embeddings");
    d->config = good;
    d->config.vocabulary = INT32_MAX;
    assert_int_equal(to_llmc(d), BP_ERR_USAGE);
    d->config = good;
    SET_FAMILY(&d->config, bp_transformer, layers, 3); /* more than were matched */
    assert_int_equal(to_llmc(d), BP_ERR_USAGE);
    bool there;
    assert_int_equal(d->memory.store.exists(&d->memory.store, "out", &there), BP_OK);
    assert_false(there);
    fixture_free(d);
}

static const struct {
    size_t word;
    int32_t value;
    const char *text;
} llmc_lies[] = {
    {0, 20240520, "magic"},
    {1, 1, "version"},
    {1, 0x7fffffff, "version"},
    {2, 0, "maximum sequence"},
    {2, -1, "maximum sequence"},
    {2, 1 << 25, "maximum sequence"},
    {2, 7, "size differs"},
    {3, 0, "vocabulary"},
    {3, -5, "vocabulary"},
    {3, 500, "padded vocabulary"},
    {4, 0, "layers"},
    {4, 4097, "layers"},
    {4, 3, "size differs"},
    {5, 0, "heads"},
    {5, 3, "do not divide"},
    {5, INT32_MIN, "heads"},
    {6, 0, "width"},
    {6, 1 << 21, "width"},
    {6, 16, "size differs"},
    {7, 0, "padded vocabulary"},
    {7, -1, "padded vocabulary"},
    {7, INT32_MAX, "size differs"},
};

/* verifies formats-11.6e9f */
static void hostile_llmc_headers_are_refused(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    size_t size;
    unsigned char *good = disk_file_read(GOLDEN "fp32.llmc", &size);
    for (size_t i = 0; i < sizeof llmc_lies / sizeof llmc_lies[0]; i++) {
        memory_store_put(&d->memory, "in", good, size);
        size_t length;
        memcpy(memory_store_bytes(&d->memory, "in", &length) + 4 * llmc_lies[i].word,
               &llmc_lies[i].value, 4);
        fresh(d);
        assert_int_equal(bp_llmc_open(&d->llmc, &d->faulty.store, "in", &d->room, &d->error),
                         BP_ERR_DATA);
        char both[512];
        strcpy(both, d->error.text);
        strcat(both, d->error.name);
        assert_non_null(strstr(both, llmc_lies[i].text));
    }
    static const size_t cuts[] = {0, 3, 1023, 1024, 20000};
    for (size_t i = 0; i < 5; i++) {
        memory_store_put(&d->memory, "in", good, cuts[i]);
        fresh(d);
        assert_int_equal(bp_llmc_open(&d->llmc, &d->faulty.store, "in", &d->room, &d->error),
                         BP_ERR_DATA);
    }
    memory_store_put(&d->memory, "in", good, size);
    fresh(d);
    d->room.capacity = 100;
    assert_int_equal(bp_llmc_open(&d->llmc, &d->faulty.store, "in", &d->room, &d->error),
                     BP_ERR_FIT);
    static const fault_kind kinds[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT};
    for (size_t k = 0; k < 3; k++) {
        fresh(d);
        faulty_store_arm(&d->faulty, kinds[k], 1, false);
        assert_int_equal(bp_llmc_open(&d->llmc, &d->faulty.store, "in", &d->room, &d->error),
                         BP_ERR_STORE);
    }
    /* Nobody listens, or something was wrong before. */
    memory_store_put(&d->memory, "in", good, 1023);
    fresh(d);
    assert_int_equal(bp_llmc_open(&d->llmc, &d->faulty.store, "in", &d->room, NULL), BP_ERR_DATA);
    d->error = (bp_error){.code = BP_ERR_STORE, .text = "before"};
    assert_int_equal(bp_llmc_open(&d->llmc, &d->faulty.store, "in", &d->room, &d->error),
                     BP_ERR_DATA);
    assert_string_equal(d->error.text, "before");
    d->error = (bp_error){.code = BP_OK};
    free(good);
    fixture_free(d);
}

/* verifies formats-20.fa9a */
static void a_value_too_large_stops_before_anything_is_replaced(void **state)
{
    (void)state;
    bp_status (*const exports[])(fixture *) = {to_hf, to_gguf};
    fixture *d = fixture_new();
    size_t size;
    memory_store_put(&d->memory, "out", "old", 3);
    unsigned char *bytes = memory_store_bytes(&d->memory, "model", &size);
    const float huge = 1e30f;
    memcpy(bytes + size - 4, &huge, 4); /* of wte or another matrix: the last tensor by name */
    for (size_t i = 0; i < 2; i++) {
        open_hf(d, "model");
        set_dtype(d, BP_F16);
        assert_int_equal(exports[i](d), BP_ERR_DATA);
        assert_non_null(strstr(d->error.text, "fp16"));
        assert_memory_equal(memory_store_bytes(&d->memory, "out", &size), "old", 3);
    }
    fixture_free(d);
}

/* verifies formats-20.fa9a */
static void storage_that_fails_leaves_the_old_file(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_WRITE, FAULT_WRITE_AT, FAULT_SYNC,
                                       FAULT_CLOSE,      FAULT_RENAME,   FAULT_READ_AT};
    bp_status (*const exports[])(fixture *) = {to_hf, to_gguf, to_llmc};
    fixture *d = fixture_new();
    for (size_t e = 0; e < 3; e++) {
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            for (size_t n = 1; n < 1000; n += 1 + n / 8) {
                size_t size;
                memory_store_put(&d->memory, "out", "old", 3);
                open_hf(d, "model");
                faulty_store_arm(&d->faulty, kinds[k], n, false);
                bp_status status = exports[e](d);
                bool failed = d->faulty.failures > 0;
                faulty_store_arm(&d->faulty, kinds[k], 0, false);
                assert_int_equal(status, failed ? BP_ERR_STORE : BP_OK);
                if (!failed) {
                    assert_true(n > 1); /* each kind is called */
                    break;
                }
                assert_memory_equal(memory_store_bytes(&d->memory, "out", &size), "old", 3);
                assert_int_equal(size, 3);
                assert_true(kinds[k] == FAULT_RENAME ||
                            memory_store_bytes(&d->memory, "out.tmp", &size) == NULL);
            }
        }
    }
    fixture_free(d);
}

/* verifies formats-26.24e5 */
static void little_memory_is_said_so(void **state)
{
    (void)state;
    bp_status (*const exports[])(fixture *) = {to_hf, to_gguf, to_llmc};
    fixture *d = fixture_new();
    for (size_t e = 0; e < 3; e++) {
        open_hf(d, "model");
        d->target.work.capacity = 1000;
        assert_int_equal(exports[e](d), BP_ERR_FIT);
        d->error = (bp_error){.code = BP_OK};
        d->target.work.capacity = BP_TARGET_WORK_MIN + 256 * d->source.count;
        assert_int_equal(exports[e](d), BP_OK);
        d->target.work.capacity = sizeof d->work;
    }
    fresh(d);
    d->room.capacity = 1000;
    assert_int_equal(
        bp_parameters_list(&bp_model_gpt2, &d->config, &d->room, &d->parameters, &d->error),
        BP_ERR_FIT);
    fresh(d);
    d->room.capacity = (size_t)bp_parameters_bytes(&bp_model_gpt2, &d->config) + 8;
    assert_int_equal(
        bp_parameters_list(&bp_model_gpt2, &d->config, &d->room, &d->parameters, &d->error), BP_OK);
    fixture_free(d);
}

/* Memory of every size for what is written, and for the tables of what is read: enough, or said. */
/* verifies formats-26.24e5 */
static void memory_of_every_size_is_enough_or_said(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    uint32_t enough = 0, less = 0;
    for (size_t bytes = 0; bytes <= BP_TARGET_WORK_MIN + 256 * d->source.count + 248;
         bytes += 248) {
        open_hf(d, "model");
        d->target.work.capacity = bytes;
        const bp_status status = to_hf(d);
        assert_true(status == BP_OK || status == BP_ERR_FIT);
        enough += status == BP_OK;
        less += status == BP_ERR_FIT;
    }
    assert_true(enough > 0 && less > 0);
    d->target.work.capacity = sizeof d->work;
    open_hf(d, "model");
    assert_int_equal(to_llmc(d), BP_OK);
    bp_status status = BP_ERR_FIT;
    for (size_t bytes = 0; status == BP_ERR_FIT; bytes += 8) {
        fresh(d);
        d->room.capacity = bytes;
        status = bp_llmc_open(&d->llmc, &d->faulty.store, "out", &d->room, &d->error);
    }
    assert_int_equal(status, BP_OK);
    /* A table without names has none for this model. */
    open_hf(d, "model");
    bp_tensor_naming none = bp_llmc_naming;
    none.rule_count = 0;
    assert_int_equal(bp_hf_export(&d->source, &none, &d->target), BP_ERR_USAGE);
    fixture_free(d);
}

/* A file of GPT-2's own vocabulary begins and ends its texts as GPT-2 does. */
/* verifies formats-11.6e9f */
static void the_vocabulary_says_what_ends_a_text(void **state)
{
    (void)state;
    enum { OWN = 50257, OTHERS = 1 + 25 + 2 }; /* positions, one layer of width 1, the last norm */
    static int32_t file[BP_LLMC_HEADER / 4 + OWN + OTHERS];
    fixture *d = fixture_new();
    for (int32_t vocabulary = OWN - 1; vocabulary <= OWN; vocabulary++) {
        const int32_t head[8] = {BP_LLMC_MAGIC, 3, 1, vocabulary, 1, 1, 1, OWN};
        memcpy(file, head, sizeof head);
        memory_store_put(&d->memory, "in", file, sizeof file);
        fresh(d);
        assert_int_equal(bp_llmc_open(&d->llmc, &d->faulty.store, "in", &d->room, &d->error),
                         BP_OK);
        assert_int_equal(d->llmc.config.bos_token, vocabulary == OWN ? OWN - 1 : -1);
        assert_int_equal(d->llmc.config.eos_token, vocabulary == OWN ? OWN - 1 : -1);
    }
    fixture_free(d);
}

/* Of a few tensors and of all: memory for the table of what is written, and none beside it. */
/* verifies formats-26.24e5 */
static void tables_in_little_memory(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    for (size_t count = 2; count <= 28; count += 26) {
        size_t least = 0;
        open_hf(d, "model");
        d->source.count = d->source.count < count ? d->source.count : count;
        for (size_t bytes = 0; bytes < 3 * BP_TARGET_WORK_MIN / 8; bytes += 8) {
            d->error = (bp_error){.code = BP_OK};
            d->target.work.capacity = bytes;
            const bp_status status = to_hf(d);
            assert_true(status == BP_ERR_FIT || status == BP_OK);
            assert_true(least == 0 || status == BP_OK); /* more memory is no worse */
            least = status == BP_OK && least == 0 ? bytes : least;
        }
        assert_true(least >= 4 * BP_VIEW_WORK_MIN);
    }
    d->target.work.capacity = sizeof d->work;
    fixture_free(d);
}

/* A write that fails is what is said, whatever closing says behind it. */
/* verifies formats-20.fa9a */
static void closing_may_fail_behind_a_write(void **state)
{
    (void)state;
    bp_status (*const exports[])(fixture *) = {to_hf, to_gguf, to_llmc};
    fixture *d = fixture_new();
    faulty_store outer;
    for (size_t e = 0; e < 3; e++) {
        open_hf(d, "model");
        faulty_store_init(&outer, &d->faulty.store);
        d->target.store = &outer.store;
        faulty_store_arm(&d->faulty, FAULT_WRITE_AT, 1, false);
        faulty_store_arm(&outer, FAULT_CLOSE, 1, false);
        assert_int_equal(exports[e](d), BP_ERR_STORE);
        assert_non_null(strstr(d->error.name, "write"));
        faulty_store_arm(&d->faulty, FAULT_WRITE_AT, 0, false);
        d->target.store = &d->faulty.store;
    }
    bool is;
    memory_store_put(&d->memory, "short", "GGU", 3);
    assert_int_equal(bp_gguf_look(&d->memory.store, "short", &is, &d->error), BP_OK);
    assert_false(is);
    memory_store_put(&d->memory, "whole", "GGUF", 4);
    d->error = (bp_error){.code = BP_OK};
    faulty_store_arm(&d->faulty, FAULT_READ_AT, 1, false);
    faulty_store_arm(&outer, FAULT_CLOSE, 1, false);
    assert_int_equal(bp_gguf_look(&outer.store, "whole", &is, &d->error), BP_ERR_STORE);
    assert_non_null(strstr(d->error.name, "read"));
    assert_int_equal(bp_gguf_look(&outer.store, "whole", &is, &d->error), BP_OK);
    assert_true(is);
    fixture_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vocabulary_says_what_ends_a_text),
        cmocka_unit_test(tables_in_little_memory),
        cmocka_unit_test(gguf_files_are_those_of_gguf_py),
        cmocka_unit_test(gguf_files_come_back_as_they_were),
        cmocka_unit_test(llmc_files_are_those_of_its_script_and_come_back),
        cmocka_unit_test(a_model_that_llmc_cannot_say_is_refused),
        cmocka_unit_test(hostile_llmc_headers_are_refused),
        cmocka_unit_test(a_value_too_large_stops_before_anything_is_replaced),
        cmocka_unit_test(storage_that_fails_leaves_the_old_file),
        cmocka_unit_test(little_memory_is_said_so),
        cmocka_unit_test(memory_of_every_size_is_enough_or_said),
        cmocka_unit_test(closing_may_fail_behind_a_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
