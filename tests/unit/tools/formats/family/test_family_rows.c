/* SPDX-License-Identifier: MIT */
/* Every row of every family, by table: what its kind does not take is refused with the key, the
 * value and what is supported; a value that it takes is read, told from the usual one under its
 * key, and written back. A family that is added is tested without a line here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/fixtures/store_memory.h"
#include "layers/families/cnn.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_config.h"

static uint64_t scratch[BP_HF_CONFIG_SCRATCH / 8];

static bp_status read_text(const char *json, bp_model_config *config, bp_error *error)
{
    memory_store memory;
    memory_store_init(&memory);
    memory_store_put(&memory, "c", json, strlen(json));
    *error = (bp_error){.code = BP_OK};
    bp_status status = bp_hf_config_read(&memory.store, "c", scratch, config, error);
    memory_store_free(&memory);
    return status;
}

/* Of the keys that say together which layers have a window none means anything alone. */
static int add_window(const bp_family *family, const bp_row *row, char *to, size_t room)
{
    static const char *const keys[] = {"use_sliding_window", "sliding_window", "max_window_layers"};
    static const char *const values[] = {"true", "8"};
    int used = 0;
    bool one = false;
    for (size_t i = 0; i < 3; i++) {
        one = one || strcmp(row->key, keys[i]) == 0;
    }
    for (size_t i = 0; i < 2 && one && bp_family_row(family, keys[0]) != NULL; i++) {
        if (strcmp(row->key, keys[i]) != 0) {
            used += snprintf(to + used, room - (size_t)used, ", \"%s\": %s", keys[i], values[i]);
        }
    }
    return used;
}

/* What a row that the family cannot do without takes. */
static int add_required(const bp_row *row, char *to, size_t room)
{
    switch (row->kind) {
    case BP_ROW_TEXT:
    case BP_ROW_WORDS:
        return snprintf(to, room, ", \"%s\": \"%s\"", row->key, row->words);
    case BP_ROW_TRUE:
    case BP_ROW_FALSE:
        return snprintf(to, room, ", \"%s\": %s", row->key,
                        row->kind == BP_ROW_TRUE ? "true" : "false");
    default:
        return snprintf(to, room, ", \"%s\": %d", row->key, row->most > 0.0 ? 4 : 0);
    }
}

/* {model_type, what the family cannot do without, key: value}. */
static bp_status read_row(const bp_family *family, const bp_row *row, const char *value,
                          bp_model_config *config, bp_error *error)
{
    char json[512];
    int used = snprintf(json, sizeof json, "{\"model_type\": \"%s\"", family->model_type);
    for (size_t i = 0; i < family->row_count; i++) {
        const bp_row *other = &family->rows[i];
        if ((other->flags & BP_ROW_REQUIRED) != 0 && other != row) {
            used += add_required(other, json + used, sizeof json - (size_t)used);
        }
    }
    /* The usual heads of GLM-4.5 do not divide its usual width. */
    if (strcmp(family->model_type, "glm4_moe") == 0 && strcmp(row->key, "head_dim") != 0) {
        used += snprintf(json + used, sizeof json - (size_t)used, ", \"head_dim\": 128");
    }
    used += add_window(family, row, json + used, sizeof json - (size_t)used);
    snprintf(json + used, sizeof json - (size_t)used, ", \"%s\": %s}", row->key, value);
    return read_text(json, config, error);
}

/* A value, and how an error says it. */
typedef struct wrong {
    const char *value;
    const char *found;
} wrong;

static const wrong text = {"\"no such word\"", "\"no such word\""}, number = {"7.5", "7.5"},
                   yes = {"true", "true"}, no = {"false", "false"}, nothing = {"null", "null"},
                   list = {"[]", "a list"}, object = {"{\"a\": 1}", "an object"},
                   below = {"-3", "-3"}, above = {"9999999999999999", "9999999999999999"},
                   in_list = {"[7.5]", "7.5"};

/* What a kind of row takes none of; of an object its own test says more. */
static size_t wrongs_of(const bp_row *row, wrong wrongs[16])
{
    const bool counts = row->kind == BP_ROW_COUNT || row->kind == BP_ROW_COUNT_NULL;
    const bool reals = row->kind == BP_ROW_REAL || row->kind == BP_ROW_REAL_NULL;
    const bool flags = row->kind == BP_ROW_FLAG || row->kind == BP_ROW_FLAG_NOT;
    const bool words = row->kind == BP_ROW_TEXT || row->kind == BP_ROW_CHOICE;
    const bool silent = (row->flags & BP_ROW_SPARSE) != 0 &&
                        (!BP_ROW_STORED(row->kind) || row->kind == BP_ROW_CHOICE || flags);
    size_t n = 0;
    wrongs[n++] = text;
    if (!reals) {
        wrongs[n++] = number;
    }
    if (!flags && row->kind != BP_ROW_TRUE) {
        wrongs[n++] = yes;
    }
    if (!flags && row->kind != BP_ROW_FALSE) {
        wrongs[n++] = no;
    }
    if (!silent && (row->kind == BP_ROW_COUNT || row->kind == BP_ROW_REAL || flags || words ||
                    row->kind == BP_ROW_SIZES || row->kind == BP_ROW_TRUE ||
                    row->kind == BP_ROW_FALSE || row->kind == BP_ROW_ONE)) {
        wrongs[n++] = nothing;
    }
    if (counts || reals || flags || words || row->kind == BP_ROW_NULL) {
        wrongs[n++] = list;
    }
    if (row->kind != BP_ROW_LABELS && row->kind != BP_ROW_ROPE && row->kind != BP_ROW_THETA) {
        wrongs[n++] = object;
    }
    if (counts || reals || row->kind == BP_ROW_TOKEN || row->kind == BP_ROW_ONE) {
        wrongs[n++] = below;
        wrongs[n++] = above;
    }
    if (row->kind == BP_ROW_SIZES || row->kind == BP_ROW_TOKEN || row->kind == BP_ROW_TEXTS ||
        row->kind == BP_ROW_CLASSES || row->kind == BP_ROW_NET) {
        wrongs[n++] = in_list;
    }
    return n;
}

static void require_refused(const bp_family *family, const bp_row *row, const wrong *w)
{
    char name[BP_ERROR_NAME_MAX], words[512];
    bp_model_config config;
    bp_error error;
    bp_text out;
    if (read_row(family, row, w->value, &config, &error) != BP_ERR_DATA) {
        fail_msg("%s: %s takes %s", family->model_type, row->key, w->value);
    }
    bp_text_init(&out, NULL, NULL, words, sizeof words);
    bp_row_words(&out, row);
    bp_text_char(&out, '\0');
    assert_int_equal(bp_text_flush(&out), BP_OK);
    assert_true(strlen(words) > 0);
    words[BP_ERROR_RIGHT_MAX - 1] = '\0'; /* as far as an error has room */
    snprintf(name, sizeof name, "c: %s", row->key);
    assert_string_equal(error.name, name);
    assert_string_equal(error.word, w->found);
    assert_true(strncmp(error.right, words, BP_ERROR_RIGHT_MAX - 2) == 0);
    assert_string_equal(error.text, "this value is not supported");
}

/* verifies formats-1.08bd */
static void what_no_row_takes_is_refused(void **state)
{
    (void)state;
    const bp_family *family;
    size_t refused = 0;
    for (size_t f = 0; (family = bp_family_at(f)) != NULL; f++) {
        for (size_t i = 0; i < family->row_count; i++) {
            wrong wrongs[16];
            const bp_row *row = &family->rows[i];
            const bool other = row->kind == BP_ROW_QUANTISED || row->kind == BP_ROW_TYPE;
            const bool inside = (row->flags & BP_ROW_INSIDE) != 0;
            const size_t count = other || inside ? 0 : wrongs_of(row, wrongs);
            for (size_t w = 0; w < count; w++) {
                require_refused(family, row, &wrongs[w]);
                refused++;
            }
        }
    }
    print_message("%zu values refused\n", refused);
    assert_true(refused > 500);
}

/* A value that a row takes and that is not the usual one; false: its kind has none. */
static bool other_value(const bp_row *row, char value[64])
{
    const int count = row->role == BP_ROLE_HEADS      ? 2 * (int)row->otherwise
                      : row->role == BP_ROLE_KV_HEADS ? (row->otherwise == 2.0 ? 4 : 2)
                      : row->role == BP_ROLE_WIDTH    ? 3840
                      : row->otherwise == 24.0        ? 12
                      : row->most < 24.0              ? (int)row->most
                                                      : 24;
    const char *end = row->words != NULL ? strchr(row->words, '|') : NULL;
    switch (row->kind) {
    case BP_ROW_COUNT:
    case BP_ROW_COUNT_NULL:
        snprintf(value, 64, "%d", count);
        return row->most > row->least; /* or it has one value */
    case BP_ROW_TOKEN:
        snprintf(value, 64, "[17, 18]");
        return true;
    case BP_ROW_REAL:
    case BP_ROW_REAL_NULL:
        snprintf(value, 64, "0.3125");
        return row->most > 0.3125; /* what has to be 0 has no other value */
    case BP_ROW_FLAG:
    case BP_ROW_FLAG_NOT:
        snprintf(value, 64, "%s",
                 (row->otherwise != 0.0) == (row->kind == BP_ROW_FLAG) ? "false" : "true");
        return true;
    case BP_ROW_CHOICE:
        /* The last word is the usual one or is not: the one or the other end. */
        if (row->otherwise == 0.0) {
            snprintf(value, 64, "\"%s\"", strrchr(end, '|') + 1);
        } else {
            snprintf(value, 64, "\"%.*s\"", (int)(end - row->words), row->words);
        }
        return true;
    case BP_ROW_SIZES:
        snprintf(value, 64, "[5, 7, 9]");
        return true;
    case BP_ROW_NET:
        snprintf(value, 64, "[\"conv 5 3x1\", \"max-pool 2 stride 2\"]");
        return true;
    default:
        return false;
    }
}

/* Whether both configurations have the same value under a key. */
static bool same_value(const bp_model_config *a, const bp_model_config *b, const char *key)
{
    char one[BP_ROW_VALUE_BYTES], two[BP_ROW_VALUE_BYTES];
    for (size_t i = 0; i < a->family->row_count; i++) {
        if (strcmp(a->family->rows[i].key, key) == 0 && bp_row_value(a, i, one) &&
            bp_row_value(b, i, two)) {
            return strcmp(one, two) == 0;
        }
    }
    return true;
}

static void require_reported_and_kept(const bp_family *family, const bp_row *row, const char *value)
{
    static char json[BP_HF_CONFIG_TEXT + 1];
    bp_row none = {.key = "other"};
    bp_model_config usual, other, again;
    bp_error error;
    size_t length = 0;
    const bool alias = (row->flags & BP_ROW_READ) != 0;
    assert_int_equal(read_row(family, &none, "0", &usual, &error), BP_OK);
    if (read_row(family, row, value, &other, &error) != BP_OK) {
        fail_msg("%s: %s does not take %s: %s (%s)", family->model_type, row->key, value,
                 error.text, error.right);
    }
    if (!alias && same_value(&usual, &other, row->key)) {
        fail_msg("%s: %s: %s is not told from the usual value", family->model_type, row->key,
                 value);
    }
    /* What the layers compute, apart from dropout and random numbers, makes another model. */
    const bool counts = row->kind != BP_ROW_TOKEN && row->role != BP_ROLE_DROPOUT &&
                        row->role != BP_ROLE_INITIAL && !alias;
    const bool listed =
        row->role == BP_ROLE_WIDTH && usual.vocabulary == 0 && row->kind == BP_ROW_COUNT;
    if (counts && !listed) {
        assert_false(bp_family_same(&usual, &other));
    }
    assert_true(bp_family_same(&other, &other));
    assert_int_equal(bp_hf_config_text(&other, NULL, json, &length), BP_OK);
    json[length] = '\0';
    assert_int_equal(read_text(json, &again, &error), BP_OK);
    for (size_t i = 0; i < family->row_count; i++) {
        if (!same_value(&other, &again, family->rows[i].key)) {
            fail_msg("%s: %s = %s: %s is not read back", family->model_type, row->key, value,
                     family->rows[i].key);
        }
    }
}

/* verifies formats-2.1f4a */
static void what_a_row_takes_is_read_and_written(void **state)
{
    (void)state;
    const bp_family *family;
    size_t told = 0;
    for (size_t f = 0; (family = bp_family_at(f)) != NULL; f++) {
        for (size_t i = 0; i < family->row_count; i++) {
            char value[64];
            const bp_row *row = &family->rows[i];
            /* no class of SigLIP here has the head, and what is written says so */
            const bool said = strcmp(row->key, "vision_config.vision_use_head") == 0;
            if ((row->flags & BP_ROW_INSIDE) == 0 && !said && other_value(row, value)) {
                require_reported_and_kept(family, row, value);
                told++;
            }
        }
    }
    print_message("%zu values told\n", told);
    assert_true(told > 60);
}

/* A list as long as it may be has nothing behind its end. */
/* verifies formats-2.1f4a */
static void whole_lists_are_written(void **state)
{
    (void)state;
    static const char *const lists[] = {"[8, 16, 24, 32, 40]", "[8, 16]"};
    for (size_t i = 0; i < 2; i++) {
        bp_model_config config, again;
        bp_cnn_config own;
        bp_error error;
        size_t length = 0;
        char given[256];
        static char written[BP_HF_CONFIG_TEXT + 1];
        snprintf(given, sizeof given,
                 "{\"model_type\": \"resnet\", \"hidden_sizes\": %s, \"depths\": %s}", lists[i],
                 i == 0 ? "[1, 1, 2, 1, 3]" : "[1, 2]");
        assert_int_equal(read_text(given, &config, &error), BP_OK);
        assert_int_equal(bp_hf_config_text(&config, NULL, written, &length), BP_OK);
        written[length] = '\0';
        assert_int_equal(read_text(written, &again, &error), BP_OK);
        assert_true(bp_family_same(&config, &again));
        bp_family_config_get(&again, &own, sizeof own);
        assert_int_equal(own.resnet.hidden_sizes[4], i == 0 ? 40 : 0);
        assert_int_equal(own.resnet.depths[4], i == 0 ? 3 : 0);
        assert_int_equal(own.resnet.depths[1], i == 0 ? 1 : 2);
    }
}

/* Rows fit their table, keys that a checkpoint has are found, members lie inside the record. */
static void tables_are_whole(void **state)
{
    (void)state;
    const bp_family *family;
    for (size_t f = 0; (family = bp_family_at(f)) != NULL; f++) {
        assert_in_range(family->row_count, 3, BP_ROWS_MAX);
        const bp_family *first = bp_family_find(family->model_type);
        assert_ptr_equal(family->pairs == family ? first->pairs : first, family);
        assert_non_null(family->model);
        assert_true(family->model == &bp_model_cnn || /* each layer has its own */
                    bp_family_role(family, BP_ROLE_WIDTH) != NULL);
        for (size_t i = 0; i < family->row_count; i++) {
            const bp_row *row = &family->rows[i];
            assert_true(strlen(row->key) > 1);
            assert_true(row->offset < sizeof(bp_model_config));
            assert_true(!BP_ROW_STORED(row->kind) || bp_family_row(family, row->key) != NULL);
        }
    }
    assert_null(bp_family_find("gpt3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_row_takes_is_refused),
        cmocka_unit_test(what_a_row_takes_is_read_and_written),
        cmocka_unit_test(whole_lists_are_written),
        cmocka_unit_test(tables_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
