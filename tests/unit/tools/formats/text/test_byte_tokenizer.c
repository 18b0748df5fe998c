/* SPDX-License-Identifier: MIT */
/* The byte tokenizer's files, replacing files, and sampling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/text/byte_tokenizer.h"
#include "tools/formats/files/stream_file.h"

/* The program's own part, which no library holds. */
#include "tools/bedplate/predict/sample.c"

/* Code point of a string that holds one character of at most two bytes. */
static unsigned character_of(const char *utf8)
{
    const unsigned char *c = (const unsigned char *)utf8;
    if (c[0] < 0x80) {
        assert_int_equal(c[1], 0);
        return c[0];
    }
    assert_int_equal(c[2], 0);
    return (unsigned)(c[0] & 0x1f) << 6 | (c[1] & 0x3f);
}

static void every_byte_has_its_character_and_its_value(void **state)
{
    (void)state;
    char json[BP_BYTE_TOKENIZER_TEXT];
    size_t length;
    json_error_t why;
    assert_int_equal(bp_byte_tokenizer_text(json, &length), BP_OK);
    json_t *tree = json_loadb(json, length, JSON_REJECT_DUPLICATES, &why);
    assert_non_null(tree);
    json_t *vocabulary = json_object_get(json_object_get(tree, "model"), "vocab");
    assert_int_equal(json_object_size(vocabulary), 256);
    const char *key;
    json_t *value;
    bool seen[256] = {false};
    unsigned next = 256;
    unsigned wanted[256];
    for (unsigned byte = 0; byte < 256; byte++) {
        bool prints = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        wanted[byte] = prints ? byte : next++;
    }
    json_object_foreach(vocabulary, key, value)
    {
        json_int_t id = json_integer_value(value);
        assert_true(id >= 0 && id < 256 && !seen[id]);
        seen[id] = true;
        assert_int_equal(character_of(key), wanted[id]);
    }
    json_t *model = json_object_get(tree, "model");
    assert_int_equal(json_array_size(json_object_get(model, "merges")), 0);
    json_decref(tree);
    assert_int_equal(bp_byte_tokenizer_settings(77, json, &length), BP_OK);
    tree = json_loadb(json, length, JSON_REJECT_DUPLICATES, &why);
    assert_int_equal(json_integer_value(json_object_get(tree, "model_max_length")), 77);
    json_decref(tree);
}

/* verifies formats-20.fa9a */
static void a_file_is_replaced_whole_or_not_at_all(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_WRITE, FAULT_WRITE_AT, FAULT_SYNC, FAULT_RENAME};
    memory_store memory;
    faulty_store faulty;
    size_t size;
    memory_store_init(&memory);
    faulty_store_init(&faulty, &memory.store);
    assert_int_equal(bp_replace_file(&faulty.store, "f", "old", 3, NULL), BP_OK);
    for (size_t i = 0; i < 4; i++) {
        bp_error error = {.code = BP_OK};
        faulty_store_arm(&faulty, kinds[i], 1, false);
        assert_int_equal(bp_replace_file(&faulty.store, "f", "new one", 7, &error), BP_ERR_STORE);
        assert_memory_equal(memory_store_bytes(&memory, "f", &size), "old", 3);
        assert_null(memory_store_bytes(&memory, "f.tmp", &size));
    }
    assert_int_equal(bp_replace_file(&faulty.store, "f", "new one", 7, NULL), BP_OK);
    assert_memory_equal(memory_store_bytes(&memory, "f", &size), "new one", 7);
    assert_int_equal(size, 7);
    char path[BP_STORE_PATH_MAX];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(bp_replace_file(&faulty.store, path, "x", 1, NULL), BP_ERR_USAGE);
    assert_int_equal(bp_replace_end(&faulty.store, path, NULL), BP_ERR_USAGE);
    memory_store_free(&memory);
}

/* verifies face-19.bfb9 */
static void greedy_takes_the_first_of_the_likeliest(void **state)
{
    (void)state;
    static const float logits[6] = {NAN, 1.0f, 3.0f, -INFINITY, 3.0f, NAN};
    uint32_t order[6];
    const sampling greedy = {
        .temperature = 0.0, .top_k = 0, .top_p = 1.0, .repetition_penalty = 1.0, .seed = 1};
    assert_int_equal(sample_token(&greedy, logits, 6, 0, 0, order), 2);
    const sampling one = {
        .temperature = 5.0, .top_k = 1, .top_p = 1.0, .repetition_penalty = 1.0, .seed = 1};
    assert_int_equal(sample_token(&one, logits, 6, 0, 0, order), 2);
}

/* Counts 20,000 draws; token i of `logits` must come up as often as its probability says. */
static void assert_distributed(const sampling *how, const float *logits, uint32_t count,
                               const double *wanted)
{
    enum { DRAWS = 20000 };
    uint32_t order[8];
    double seen[8] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        seen[sample_token(how, logits, count, 0, i, order)] += 1.0 / (double)DRAWS;
    }
    for (uint32_t i = 0; i < count; i++) {
        double deviation = sqrt(wanted[i] * (1.0 - wanted[i]) / (double)DRAWS);
        assert_true(fabs(seen[i] - wanted[i]) <= 5.0 * deviation);
    }
}

/* verifies face-19.bfb9 */
static void draws_follow_the_softmax_of_the_k_likeliest(void **state)
{
    (void)state;
    /* exp gives 1 2 3 4 and something that is no number */
    const float logits[5] = {0.0f, 0.693147181f, 1.09861229f, 1.38629436f, NAN};
    const double all[5] = {0.1, 0.2, 0.3, 0.4, 0.0};
    const double two[5] = {0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0, 0.0};
    const double hot[5] = {1 / 6.146264, 1.414214 / 6.146264, 1.732051 / 6.146264, 2 / 6.146264,
                           0.0};
    const sampling plain = {
        .temperature = 1.0, .top_k = 0, .top_p = 1.0, .repetition_penalty = 1.0, .seed = 3};
    const sampling best_two = {
        .temperature = 1.0, .top_k = 2, .top_p = 1.0, .repetition_penalty = 1.0, .seed = 4};
    const sampling warm = {
        .temperature = 2.0, .top_k = 9, .top_p = 1.0, .repetition_penalty = 1.0, .seed = 5};
    assert_distributed(&plain, logits, 5, all);
    assert_distributed(&best_two, logits, 5, two);
    assert_distributed(&warm, logits, 5, hot);
    uint32_t order[5];
    assert_int_equal(sample_token(&plain, logits, 5, 0, 17, order),
                     sample_token(&plain, logits, 5, 0, 17, order));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_has_its_character_and_its_value),
        cmocka_unit_test(a_file_is_replaced_whole_or_not_at_all),
        cmocka_unit_test(greedy_takes_the_first_of_the_likeliest),
        cmocka_unit_test(draws_follow_the_softmax_of_the_k_likeliest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
