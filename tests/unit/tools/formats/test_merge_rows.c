/* SPDX-License-Identifier: MIT */
/* Merging rows of a table of tokens that were trained beside adapters (test_merge.c has the rest).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/store_memory.h"
#include "tests/support/tensors_made.h"
#include "tools/formats/hf_files.h"
#include "tools/formats/merge.h"
#include "tools/formats/weight_target.h"

#define FC "base_model.model.m.fc"

typedef struct desk {
    memory_store memory;
    bp_error error;
    bp_tensor_set adapters;
    struct bp_merge merge;
    bp_staging room;
    uint64_t scratch[1 << 15];
} desk;

/* Rows of a table of tokens that were trained: they take the place of the table's own. */
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
        desk *d = calloc(1, sizeof *d);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_trained_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
