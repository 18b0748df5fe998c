/* SPDX-License-Identifier: MIT */
/* Rotary positions, heads and windows in GGUF's keys: each value that is read and each that is not,
 * one key changed at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "layers/families/llama.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_llama.h"
#include "tools/formats/gguf/gguf_rope.h"

static memory_store memory;
static bp_error error;
static bp_gguf_writer writer;
static bp_gguf_file file;
static uint64_t tables[1 << 13];

/* A key behind its architecture: a text, a whole number, or with `real` a float. */
typedef struct key_value {
    const char *rest;
    const char *text;
    double number;
    bool real;
} key_value;

static const key_value usual[] = {
    {"context_length", NULL, 64, false},
    {"embedding_length", NULL, 16, false},
    {"block_count", NULL, 1, false},
    {"feed_forward_length", NULL, 24, false},
    {"attention.head_count", NULL, 2, false},
    {"attention.layer_norm_rms_epsilon", NULL, 1e-5, true},
};

enum { CHANGES = 3 };

/* Keys that are added or take a usual one's place, and a tensor of `rows` x `count` zeros. */
typedef struct document {
    const char *type; /* of the family */
    key_value changes[CHANGES];
    const char *tensor;
    bp_dtype dtype;
    uint64_t count, rows;
    const char *says; /* in name or text of the refusal; NULL: it is read */
} document;

static void put_key(const char *architecture, const key_value *key)
{
    const bp_gguf_key_name name = bp_gguf_key_of(architecture, key->rest);
    if (key->text != NULL) {
        bp_gguf_put_string(&writer, name.text, key->text, strlen(key->text));
    } else if (key->real) {
        bp_gguf_put_f32(&writer, name.text, (float)key->number);
    } else {
        bp_gguf_put_u32(&writer, name.text, (uint32_t)key->number);
    }
}

static const key_value *change_of(const document *d, const char *rest)
{
    for (size_t i = 0; i < CHANGES && d->changes[i].rest != NULL; i++) {
        if (strcmp(d->changes[i].rest, rest) == 0) {
            return &d->changes[i];
        }
    }
    return NULL;
}

static void put_document(const document *d)
{
    static const char zeros[4096];
    const char *architecture = bp_family_find(d->type)->gguf->architecture;
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_gguf_begin(&writer, &memory.store, "g", &error), BP_OK);
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        if (change_of(d, usual[i].rest) == NULL) {
            put_key(architecture, &usual[i]);
        }
    }
    for (size_t i = 0; i < CHANGES && d->changes[i].rest != NULL; i++) {
        put_key(architecture, &d->changes[i]);
    }
    const uint64_t shape[2] = {d->rows > 1 ? d->rows : d->count, d->count};
    if (d->tensor != NULL) {
        bp_gguf_put_tensor(&writer, d->tensor, d->rows > 1 ? 2 : 1, shape, d->dtype);
    }
    assert_int_equal(bp_gguf_data(&writer), BP_OK);
    if (d->tensor != NULL) {
        const size_t bytes =
            (size_t)((d->rows > 1 ? d->rows : 1) * d->count * bp_dtype_bytes(d->dtype));
        assert_true(bytes <= sizeof zeros);
        assert_int_equal(bp_gguf_data_add(&writer, zeros, bytes), BP_OK);
        assert_int_equal(bp_gguf_data_pad(&writer), BP_OK);
    }
    assert_int_equal(bp_gguf_end(&writer), BP_OK);
}

static bp_status take_file(const document *d, bp_store *store, bp_model_config *config)
{
    const bp_gguf_family *family = bp_family_find(d->type)->gguf;
    bp_staging room = {tables, sizeof tables};
    *config = bp_family_defaults(bp_family_find(d->type));
    error = (bp_error){.code = BP_OK};
    if (bp_gguf_open(&file, store, "g", &room, &error) != BP_OK) {
        fail_msg("%s: %s", error.name, error.text);
    }
    const bp_status status = family->take(&file, family->architecture, config);
    assert_int_equal(bp_gguf_close(&file), BP_OK);
    return status;
}

static bp_llama_config read_document(const document *d)
{
    bp_model_config config;
    memory_store_init(&memory);
    put_document(d);
    const bp_status status = take_file(d, &memory.store, &config);
    if (status != (d->says == NULL ? BP_OK : BP_ERR_DATA) ||
        (d->says != NULL && strstr(error.text, d->says) == NULL &&
         strstr(error.name, d->says) == NULL)) {
        fail_msg("%s %s: %d %s: %s", d->type, d->changes[0].rest, status, error.name, error.text);
    }
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
    return bp_llama_config_of(&config);
}

#define SCALED(type)                                                                               \
    {                                                                                              \
        "rope.scaling.type", type, 0, false                                                        \
    }
#define FACTOR(value)                                                                              \
    {                                                                                              \
        "rope.scaling.factor", NULL, value, true                                                   \
    }
#define MAGNITUDE(value)                                                                           \
    {                                                                                              \
        "rope.scaling.attn_factor", NULL, value, true                                              \
    }
#define COUNT(key, value)                                                                          \
    {                                                                                              \
        key, NULL, value, false                                                                    \
    }
#define REAL(key, value)                                                                           \
    {                                                                                              \
        key, NULL, value, true                                                                     \
    }

/* verifies formats-10.4a5c */
static void values_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const document rows[] = {
        {.type = "llama", .changes = {FACTOR(0)}, .says = "above 0, below 1e12"},
        {.type = "llama", .changes = {FACTOR(-1)}, .says = "above 0, below 1e12"},
        {.type = "llama", .changes = {FACTOR(2e12)}, .says = "above 0, below 1e12"},
        {.type = "llama", .changes = {SCALED("ntk")}, .says = "rope.scaling.type"},
        {.type = "llama", .changes = {MAGNITUDE(2)}, .says = "rope.scaling.attn_factor"},
        {.type = "llama", .changes = {COUNT("rope.scale_linear", 2)}, .says = "rope.scale_linear"},
        {.type = "llama",
         .changes = {REAL("attention.layer_norm_rms_epsilon", -1e-5)},
         .says = "0 to 1"},
        {.type = "llama",
         .changes = {REAL("attention.layer_norm_rms_epsilon", 1)},
         .says = "0 to 1"},
        {.type = "llama", .changes = {REAL("rope.freq_base", 2e12)}, .says = "1 to 1e12"},
        {.type = "llama", .changes = {REAL("rope.freq_base", 0.5)}, .says = "1 to 1e12"},
        {.type = "llama",
         .changes = {COUNT("embedding_length", 17)},
         .says = "heads do not divide"},
        {.type = "llama",
         .changes = {COUNT("attention.head_count_kv", 3)},
         .says = "heads do not divide"},
        {.type = "llama",
         .changes = {COUNT("attention.key_length", 7)},
         .says = "heads do not divide"},
        {.type = "llama",
         .changes = {COUNT("rope.dimension_count", 10)},
         .says = "turn as a whole"},
        {.type = "llama", .changes = {COUNT("rope.dimension_count", 6)}, .says = "turn as a whole"},
        {.type = "phi3", .changes = {COUNT("rope.dimension_count", 10)}, .says = "turn as a whole"},
        {.type = "phi3", .changes = {COUNT("rope.dimension_count", 7)}, .says = "turn as a whole"},
        {.type = "llama",
         .changes = {COUNT("attention.sliding_window", 63)},
         .says = "a window is not"},
        {.type = "gemma2",
         .changes = {REAL("attn_logit_softcapping", 0)},
         .says = "above 0, below 1e12"},
        {.type = "gemma2",
         .changes = {REAL("attn_logit_softcapping", 2e12)},
         .says = "above 0, below 1e12"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)read_document(&rows[i]);
    }
}

static const struct {
    document file;
    bp_rope_kind kind;
    double factor, magnitude;
    uint32_t window, head_width;
} shapes[] = {
    {{.type = "llama"}, BP_ROPE_LLAMA3, 0, 0, 0, 0},
    {{.type = "llama", .changes = {SCALED("none"), FACTOR(4), MAGNITUDE(2)}},
     BP_ROPE_LLAMA3,
     0,
     0,
     0,
     0},
    {{.type = "llama", .changes = {FACTOR(4)}}, BP_ROPE_LINEAR, 4, 0, 0, 0},
    {{.type = "llama", .changes = {SCALED("linear"), FACTOR(1)}}, BP_ROPE_LLAMA3, 0, 0, 0, 0},
    {{.type = "llama", .changes = {SCALED("yarn"), FACTOR(1), MAGNITUDE(2)}},
     BP_ROPE_YARN,
     1,
     2,
     0,
     0},
    {{.type = "llama", .changes = {SCALED("yarn"), FACTOR(4)}}, BP_ROPE_YARN, 4, 0, 0, 0},
    {{.type = "llama", .changes = {COUNT("attention.key_length", 8)}}, BP_ROPE_LLAMA3, 0, 0, 0, 0},
    {{.type = "llama", .changes = {COUNT("attention.key_length", 6)}}, BP_ROPE_LLAMA3, 0, 0, 0, 6},
    {{.type = "llama",
      .changes = {COUNT("embedding_length", 17), COUNT("attention.key_length", 6)}},
     BP_ROPE_LLAMA3,
     0,
     0,
     0,
     6},
    {{.type = "llama", .changes = {COUNT("attention.sliding_window", 0)}},
     BP_ROPE_LLAMA3,
     0,
     0,
     0,
     0},
    {{.type = "llama", .changes = {COUNT("attention.sliding_window", 64)}},
     BP_ROPE_LLAMA3,
     0,
     0,
     0,
     0},
    {{.type = "mistral", .changes = {COUNT("rope.dimension_count", 8)}},
     BP_ROPE_LLAMA3,
     0,
     0,
     0,
     0},
    {{.type = "phi3",
      .changes = {COUNT("rope.dimension_count", 6), COUNT("attention.sliding_window", 9)}},
     BP_ROPE_LLAMA3,
     0,
     0,
     9,
     0},
};

/* verifies formats-8.e397 */
static void values_say_what_a_model_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const bp_llama_config own = read_document(&shapes[i].file);
        assert_true(own.rope_scaling.factor == shapes[i].factor);
        assert_true(shapes[i].factor == 0 || own.rope_scaling.kind == shapes[i].kind);
        assert_true(fabs(own.rope_scaling.magnitude - shapes[i].magnitude) < 1e-6);
        assert_int_equal(own.window, shapes[i].window);
        assert_int_equal(own.head_width, shapes[i].head_width);
    }
}

/* verifies formats-10.4a5c */
static void tensors_of_factors_that_are_none(void **state)
{
    (void)state;
    static const char none[] = "no floats, one for two of a head";
    static const document rows[] = {
        {.type = "llama", .tensor = "rope_freqs.weight", .count = 4, .dtype = BP_F16, .says = none},
        {.type = "llama", .tensor = "rope_freqs.weight", .count = 5, .says = none},
        {.type = "llama", .tensor = "rope_freqs.weight", .count = 4, .rows = 2, .says = none},
        {.type = "llama", .tensor = "rope_freqs.weight", .count = 4, .says = "not Llama 3's"},
        {.type = "llama",
         .changes = {FACTOR(4)},
         .tensor = "rope_freqs.weight",
         .count = 4,
         .says = "this rotary scaling is not implemented"},
        {.type = "llama",
         .changes = {COUNT("attention.key_length", 1026)},
         .tensor = "rope_freqs.weight",
         .count = 513,
         .says = "this rotary scaling is not implemented"},
        {.type = "phi3", .tensor = "rope_factors_long.weight", .count = 4, .says = "no short ones"},
        {.type = "phi3", .tensor = "rope_factors_long.weight", .count = 3, .says = none},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)read_document(&rows[i]);
    }
    /* A packed type: 32 factors as Q8_0. */
    static const document packed = {.type = "llama",
                                    .changes = {COUNT("attention.key_length", 64)},
                                    .tensor = "rope_freqs.weight",
                                    .count = 32};
    bp_model_config config;
    size_t size;
    memory_store_init(&memory);
    put_document(&packed);
    unsigned char *bytes = memory_store_bytes(&memory, "g", &size);
    size_t at = 0;
    while (memcmp(bytes + at, packed.tensor, strlen(packed.tensor)) != 0) {
        at++;
    }
    bytes[at + strlen(packed.tensor) + 4 + 8] = 8; /* behind rank and size */
    static unsigned char shorter[4096];            /* 34 bytes, padded to 64, and not 128 */
    memcpy(shorter, bytes, size - 64);
    memory_store_put(&memory, "g", shorter, size - 64);
    assert_int_equal(take_file(&packed, &memory.store, &config), BP_ERR_DATA);
    assert_non_null(strstr(error.text, none));
    memory_store_free(&memory);
}

/* verifies formats-24.7573 */
static void a_failing_read_of_factors_is_reported(void **state)
{
    (void)state;
    static const document d = {.type = "llama", .tensor = "rope_freqs.weight", .count = 4};
    const bp_gguf_family *family = bp_family_find(d.type)->gguf;
    faulty_store faulty;
    bp_staging room = {tables, sizeof tables};
    bp_model_config config = bp_family_defaults(bp_family_find(d.type));
    memory_store_init(&memory);
    put_document(&d);
    faulty_store_init(&faulty, &memory.store);
    assert_int_equal(bp_gguf_open(&file, &faulty.store, "g", &room, &error), BP_OK);
    faulty_store_arm(&faulty, FAULT_READ_AT, 1, true);
    assert_int_equal(family->take(&file, family->architecture, &config), BP_ERR_STORE);
    faulty_store_arm(&faulty, FAULT_READ_AT, 0, false);
    assert_int_equal(bp_gguf_close(&file), BP_OK);
    memory_store_free(&memory);
}

/* What has no key is not written, and factors are those of their own kind of scaling. */
/* verifies formats-50.b7a1 */
static void scalings_without_keys(void **state)
{
    (void)state;
    static const bp_rope_scaling scalings[] = {{.factor = 0.0},
                                               {.factor = 2.0, .kind = BP_ROPE_LLAMA3},
                                               {.factor = 2.0, .kind = BP_ROPE_DYNAMIC}};
    bp_model_config config = bp_family_defaults(bp_family_find("phi3"));
    const char *name = "";
    float factors[8];
    for (size_t i = 0; i < 3; i++) {
        bp_llama_config own = bp_llama_config_of(&config);
        size_t size;
        own.rope_scaling = scalings[i];
        memory_store_init(&memory);
        assert_int_equal(bp_gguf_begin(&writer, &memory.store, "g", &error), BP_OK);
        bp_gguf_rope_put(&writer, "llama", &own);
        assert_int_equal(bp_gguf_data(&writer), BP_OK);
        assert_int_equal(bp_gguf_end(&writer), BP_OK);
        const unsigned char *bytes = memory_store_bytes(&memory, "g", &size);
        assert_int_equal(bytes[16], 0); /* keys */
        memory_store_free(&memory);
    }
    bp_llama_long both;
    bp_family_config_get(&config, &both, sizeof both);
    both.llama.rope_pairs = 4;
    both.llama.rope_scaling = (bp_rope_scaling){.factor = 2.0, .kind = BP_ROPE_LONG};
    bp_family_config_set(&config, &both, sizeof both);
    assert_int_equal(bp_gguf_long_factors(&config, 0, &name, factors, 8), 4);
    assert_int_equal(bp_gguf_long_factors(&config, 2, &name, factors, 8), 0);
    SET_FAMILY(&config, bp_llama_config, rope_scaling.kind, BP_ROPE_YARN);
    assert_int_equal(bp_gguf_long_factors(&config, 0, &name, factors, 8), 0);
    SET_FAMILY(&config, bp_llama_config, rope_scaling.kind, BP_ROPE_LONG);
    SET_FAMILY(&config, bp_llama_config, rope_pairs, 0);
    assert_int_equal(bp_gguf_long_factors(&config, 0, &name, factors, 8), 0);
}

/* verifies formats-50.b7a1 */
static void biases_of_gemma_are_not_written(void **state)
{
    (void)state;
    bp_model_config config = bp_family_defaults(bp_family_find("gemma"));
    error = (bp_error){.code = BP_OK};
    SET_FAMILY(&config, bp_llama_config, output_bias, true);
    assert_int_equal(config.family->gguf->exports(&config, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "attention_bias");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_do_not_fit_are_refused),
        cmocka_unit_test(values_say_what_a_model_is),
        cmocka_unit_test(tensors_of_factors_that_are_none),
        cmocka_unit_test(a_failing_read_of_factors_is_reported),
        cmocka_unit_test(scalings_without_keys),
        cmocka_unit_test(biases_of_gemma_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
