/* SPDX-License-Identifier: MIT */
/* Merging rows of a token embedding that were trained beside adapters, and lengths of many rows
 * (test_merge.c has the rest). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/store_memory.h"
#include "tests/fixtures/formats/tensors_made.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/peft/merge.h"
#include "tools/formats/hf/weight_target.h"

#define FC "base_model.model.m.fc"

typedef struct fixture {
    memory_store memory;
    bp_error error;
    bp_tensor_set adapters;
    struct bp_merge merge;
    bp_staging room;
    uint64_t scratch[1 << 15];
} fixture;

/* Rows of a token embedding that were trained: they take the place of the table's own. */
/* verifies formats-28.7a35 */
static void test_trained_rows(void **state)
{
    (void)state;
    static const struct {
        uint32_t token, count; /* of trained rows */
        bool there, factors;
        const char *says; /* NULL: it is merged */
    } rows[] = {
        {1, 1, true, true, NULL},
        {1, 1, true, false, NULL},
        {1, 1, false, true, NULL},
        {2, 1, true, true, NULL},
        {3, 1, true, true, "a token that the table has not"},
        {1, 0, false, true, NULL},
        {1, 0, true, true, "another base"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_wanted list[] = {{.name = "m.fc.weight", .rank = 2, .shape = {3, 2}},
                            {.name = "m.fc.bias", .rank = 1, .shape = {3}},
                            {.name = "m.table", .rank = 2, .shape = {2, 2}}};
        fixture *d = calloc(1, sizeof *d);
        made_tensors made = {.count = 0};
        const bp_lora lora = {
            .rank = 1, .alpha = 1.0, .token_count = rows[i].count, .tokens = &rows[i].token};
        if (rows[i].factors) {
            made_add(&made, FC ".lora_A.weight", BP_F32, 2, (uint64_t[]){1, 2});
            made_add(&made, FC ".lora_B.weight", BP_F32, 2, (uint64_t[]){3, 1});
        }
        if (rows[i].there) {
            made_add_values(&made, FC ".token_adapter.trainable_tokens_delta", BP_F32, 2,
                            (uint64_t[]){1, 2}, 5);
        }
        if (made.count == 0) {
            made_add(&made, FC ".bias", BP_F32, 1, (uint64_t[]){3});
        }
        assert_non_null(d);
        memory_store_init(&d->memory);
        d->room = (bp_staging){d->scratch, sizeof d->scratch};
        made_write(&made, 0, made.count, &d->memory.store, "ad");
        made_free(&made);
        assert_int_equal(bp_hf_open(&d->adapters, &d->memory.store, "ad", &d->room, &d->error),
                         BP_OK);
        const bp_weight_source source = {.set = &d->adapters, .list = list, .count = 3};
        const bp_status status =
            bp_merge_load(&d->merge, &d->adapters, &lora, false, &source, &d->room, &d->error);
        if (rows[i].says != NULL) {
            assert_true(status == BP_ERR_DATA && strstr(d->error.text, rows[i].says) != NULL);
        } else {
            float values[6] = {9, 9, 9, 9, 9, 9};
            const bp_tensor_view view = {.rank = 2, .shape = {3, 2}};
            assert_int_equal(status, BP_OK);
            bp_merge_add(&d->merge, &source, 0, &view, 0, 6, values);
            for (size_t k = 0; k < 6; k++) {
                const bool trained = rows[i].there && k / 2 == rows[i].token;
                assert_true(values[k] == (trained ? made_value(5, k % 2) : 9.0f));
            }
        }
        assert_int_equal(bp_tensor_set_close(&d->adapters), BP_OK);
        assert_int_equal(d->memory.open_files, 0);
        memory_store_free(&d->memory);
        free(d);
    }
}

/* Lengths of many rows take room of their own: it is there, or said to be too little. */
/* verifies formats-26.24e5 */
static void test_lengths_of_many_rows(void **state)
{
    (void)state;
    enum { ROWS = 1024 };
    static const uint64_t in[2] = {ROWS, 2}, a[2] = {1, 2}, b[2] = {ROWS, 1}, lengths[1] = {ROWS};
    static uint64_t work[1 << 13];
    const bp_lora lora = {.rank = 1, .alpha = 1.0, .magnitudes = true};
    bp_wanted list[] = {{.name = "m.fc.weight", .rank = 2, .shape = {ROWS, 2}}};
    fixture *d = calloc(1, sizeof *d);
    made_tensors made = {.count = 0};
    bp_tensor_set base;
    uint32_t part = 0;
    size_t fit = 0;
    assert_non_null(d);
    memory_store_init(&d->memory);
    d->room = (bp_staging){d->scratch, sizeof d->scratch};
    made_add_values(&made, "m.fc.weight", BP_F32, 2, in, 3);
    made_add(&made, FC ".lora_A.weight", BP_F32, 2, a); /* zeros */
    made_add(&made, FC ".lora_B.weight", BP_F32, 2, b);
    made_add_values(&made, FC ".lora_magnitude_vector", BP_F32, 1, lengths, 5);
    made_write(&made, 0, 1, &d->memory.store, "in");
    made_write(&made, 1, 3, &d->memory.store, "ad");
    made_free(&made);
    assert_int_equal(bp_hf_open(&base, &d->memory.store, "in", &d->room, &d->error), BP_OK);
    assert_int_equal(bp_hf_open(&d->adapters, &d->memory.store, "ad", &d->room, &d->error), BP_OK);
    assert_true(bp_tensor_view_of(&list[0].view, 0, bp_tensor_set_find(&base, "m.fc.weight", &part),
                                  BP_LAYOUT_PLAIN, (bp_tensor_heads){0, 0, 0}));
    const bp_weight_source source = {.set = &base, .list = list, .count = 1};
    for (size_t bytes = 64; bytes < sizeof work; bytes += 64) {
        bp_staging room = {work, bytes};
        d->error = (bp_error){.code = BP_OK};
        const bp_status status =
            bp_merge_load(&d->merge, &d->adapters, &lora, false, &source, &room, &d->error);
        assert_true(status == BP_ERR_FIT || (status == BP_OK && bytes > 16 * ROWS));
        assert_true(fit == 0 || status == BP_OK); /* more memory is no worse */
        fit = status == BP_OK && fit == 0 ? bytes : fit;
    }
    assert_true(fit > 0);
    float values[2] = {made_value(3, 0), made_value(3, 1)};
    const double was = sqrt((double)(values[0] * values[0] + values[1] * values[1]));
    const double wanted = (double)made_value(3, 1) * (double)made_value(5, 0) / was;
    bp_merge_add(&d->merge, &source, 0, &list[0].view, 0, 2, values);
    assert_true(fabs((double)values[1] - wanted) < 1e-6);
    assert_int_equal(bp_tensor_set_close(&base), BP_OK);
    assert_int_equal(bp_tensor_set_close(&d->adapters), BP_OK);
    memory_store_free(&d->memory);
    free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_trained_rows),
                                       cmocka_unit_test(test_lengths_of_many_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
