/* SPDX-License-Identifier: MIT */
/* Parameters matched with tensors by a table of names: what is let pass for which flag, forms that
 * a tensor does not have, and tensors that must equal another one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_memory.h"
#include "tests/fixtures/formats/tensors_made.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/hf/tensor_match.h"

/* "q.*" in thirds, "t.*" turned, all else as it is; a head is that of the table, unless there is
 * a parameter for it, and a copy always is. */
static const bp_tensor_rule rules[] = {{"q.*", "q.*", BP_LAYOUT_THIRDS},
                                       {"t.*", "t.*", BP_LAYOUT_TRANSPOSED},
                                       {"*", "*", BP_LAYOUT_PLAIN}};
static const bp_tensor_twin twins[] = {{"head.weight", "table.weight", "score.weight"},
                                       {"copy.weight", "table.weight", NULL}};
static const bp_tensor_naming naming = {rules, 3, NULL, 0, twins, 2};

typedef struct match_case {
    made_tensor tensors[3]; /* of the file; values by their places in the list, or all equal */
    size_t count;
    const char *wanted; /* a (3, 2) matrix */
    unsigned allow;
    const char *said; /* NULL: it is matched */
} match_case;

#define IS(name, ...)                                                                              \
    {                                                                                              \
        name, BP_F32, 2, __VA_ARGS__, NULL                                                         \
    }
#define SHAPE  "a tensor's shape differs from the model's"
#define TIED   "the tensor differs from the one"
#define UNTIED 0x80000000u /* beside `allow`: the model's head is its own */

static const match_case cases[] = {
    {{IS("w", {3, 2})}, 1, "w", 0, NULL},
    {{IS("w", {2, 2})}, 1, "w", 0, SHAPE},
    {{IS("w", {2, 2})}, 1, "w", BP_ALLOW_SHAPE, NULL},
    {{IS("w", {2, 2})}, 1, "w", BP_ALLOW_NEW_HEAD, SHAPE},
    {{IS("classifier.1.w", {2, 2})}, 1, "classifier.1.w", BP_ALLOW_NEW_HEAD, NULL},
    {{IS("classifier.1.w", {2, 2})}, 1, "classifier.1.w", BP_ALLOW_MISSING, SHAPE},
    {{IS("w", {3, 2})}, 1, "classifier.1.w", BP_ALLOW_NEW_HEAD | BP_ALLOW_UNEXPECTED, NULL},
    {{IS("t.w", {2, 3})}, 1, "t.w", 0, NULL},
    {{IS("t.w", {3, 2})}, 1, "t.w", 0, SHAPE},
    {{IS("q.w", {3, 2})}, 1, "q.w", 0, NULL},
    {{IS("q.w", {4, 2})}, 1, "q.w", 0, SHAPE}, /* no three parts */
    {{{"w", BP_I8, 2, {3, 2}, NULL}, {"w.SCB", BP_F32, 1, {3}, NULL}},
     2,
     "w",
     BP_ALLOW_UNEXPECTED,
     "a tensor's type is not"},
    {{{"t.weight", BP_I8, 2, {2, 3}, NULL}, {"t.SCB", BP_F32, 1, {2}, NULL}},
     2,
     "t.weight",
     0,
     "a tensor's type is not"}, /* codes are not turned */
    {{{"n.weight", BP_I8, 2, {3, 2}, NULL}, {"n.SCB", BP_F32, 1, {3}, NULL}},
     2,
     "n.weight",
     0,
     NULL},
    {{IS("table.weight", {3, 2}), IS("head.weight", {3, 2})}, 2, "table.weight", 0, NULL},
    {{IS("table.weight", {3, 2}), IS("head.weight", {2, 3})}, 2, "table.weight", 0, TIED},
    {{IS("table.weight", {3, 2}), {"head.weight", BP_F32, 1, {6}, NULL}},
     2,
     "table.weight",
     0,
     TIED},
    {{IS("table.weight", {3, 2}), {"head.weight", BP_F16, 2, {3, 2}, NULL}},
     2,
     "table.weight",
     0,
     TIED},
    {{IS("score.weight", {3, 2}), IS("head.weight", {3, 2})}, 2, "score.weight", 0, NULL},
    {{IS("score.weight", {3, 2}), IS("copy.weight", {3, 2})}, 2, "score.weight", 0, TIED},
    {{IS("table.weight", {3, 2}), IS("copy.weight", {3, 2})}, 2, "table.weight", 0, NULL},
    /* the only one of those that are tied */
    {{IS("head.weight", {3, 2})}, 1, "table.weight", 0, NULL},
    {{IS("head.weight", {3, 2}), IS("copy.weight", {3, 2})}, 2, "table.weight", 0, NULL},
    {{IS("head.weight", {3, 2}), IS("copy.weight", {2, 3})}, 2, "table.weight", 0, TIED},
    {{IS("head.weight", {2, 3})}, 1, "table.weight", 0, SHAPE},
    {{IS("head.weight", {3, 2})}, 1, "w", 0, "a tensor of the model is missing"},
    {{IS("table.weight", {3, 2})}, 1, "head.weight", 0, "a tensor of the model is missing"},
    /* a model that is not tied: the head is another tensor, which a task without it passes over */
    {{IS("table.weight", {3, 2}), IS("head.weight", {3, 2})}, 2, "table.weight", UNTIED, NULL},
    {{IS("table.weight", {3, 2}), IS("head.weight", {2, 3})}, 2, "table.weight", UNTIED, NULL},
    {{IS("head.weight", {3, 2})}, 1, "table.weight", UNTIED, "a tensor of the model is missing"},
};

/* verifies formats-6.0edb */
static void each_fault_is_let_pass_by_its_flag(void **state)
{
    (void)state;
    static uint64_t scratch[8192], work[BP_VIEW_WORK_MIN / 8];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const match_case *c = &cases[i];
        memory_store memory;
        made_tensors made = {.count = 0};
        bp_tensor_set set;
        bp_error error = {.code = BP_OK};
        bp_staging room = {scratch, sizeof scratch};
        bp_wanted wanted = {.name = c->wanted, .rank = 2, .shape = {3, 2}};
        memory_store_init(&memory);
        for (size_t k = 0; k < c->count; k++) {
            made_add(&made, c->tensors[k].name, c->tensors[k].dtype, c->tensors[k].rank,
                     c->tensors[k].shape);
        }
        made_write(&made, 0, made.count, &memory.store, "m");
        made_free(&made);
        assert_int_equal(bp_hf_open(&set, &memory.store, "m", &room, &error), BP_OK);
        const bp_match match = {.set = &set,
                                .naming = &naming,
                                .wanted = &wanted,
                                .count = 1,
                                .heads = {1, 1, 0},
                                .allow = c->allow & ~UNTIED,
                                .untied = (c->allow & UNTIED) != 0,
                                .work = {work, sizeof work}};
        const bp_status status = bp_tensor_match(&match);
        if (status != (c->said == NULL ? BP_OK : BP_ERR_DATA) ||
            (c->said != NULL && strstr(error.text, c->said) == NULL)) {
            fail_msg("%zu: %d %s: %s", i, status, error.name, error.text);
        }
        assert_int_equal(bp_tensor_set_close(&set), BP_OK);
        memory_store_free(&memory);
    }
}

/* Patterns with ^ are of the layer behind the last one alone. */
/* verifies formats-2.1f4a */
static void the_layer_behind_the_last_is_passed_over(void **state)
{
    (void)state;
    static const char *const patterns[] = {"*.inv_freq", "blk.^.*"};
    const bp_tensor_naming behind = {NULL, 0, patterns, 2, NULL, 0};
    const bp_wanted list[] = {
        {.name = "model.layers.9.a"}, {.name = "model.layers.10.b"}, {.name = "model.norm.weight"}};
    assert_int_equal(bp_tensor_layers(list, 3), 11);
    assert_int_equal(bp_tensor_layers(list + 2, 1), 0);
    assert_true(bp_tensor_ignored(&behind, 11, "blk.11.a"));
    assert_true(bp_tensor_ignored(&behind, 11, "x.inv_freq"));
    assert_false(bp_tensor_ignored(&behind, 11, "blk.10.a"));
    assert_false(bp_tensor_ignored(&behind, 11, "blk.12.a"));
    assert_false(bp_tensor_ignored(&behind, 11, "blk.1.a"));
    assert_false(bp_tensor_ignored(&behind, 11, "blk.111.a"));
    assert_false(bp_tensor_ignored(&behind, 11, "blk.11"));
    assert_false(bp_tensor_ignored(&behind, 0, "blk.0.a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_fault_is_let_pass_by_its_flag),
                                       cmocka_unit_test(the_layer_behind_the_last_is_passed_over)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
