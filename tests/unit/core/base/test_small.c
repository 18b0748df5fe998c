/* SPDX-License-Identifier: MIT */
/* The small parts of core: the error record, ordering, spec checks, kernel extents, the pen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <stdlib.h>

#include "core/plan/builder.h"
#include "core/base/error.h"
#include "core/plan/model.h"
#include "core/plan/optimizer.h"
#include "core/base/sort.h"
#include "core/ir/fabric.h"

/* verifies error-1.c4b2 */
static void test_first_error_sticks(void **state)
{
    (void)state;
    bp_error error = {0};
    assert_int_equal(bp_error_numbers(&error, BP_ERR_FIT, "here", "first", "a", 1, 2), BP_ERR_FIT);
    assert_int_equal(bp_error_set(&error, BP_ERR_DATA, "there", "second", "b"), BP_ERR_DATA);
    assert_int_equal(bp_error_numbers(&error, BP_ERR_DATA, "x", "third", "c", 8, 9), BP_ERR_DATA);
    assert_string_equal(error.text, "first");
    assert_string_equal(error.name, "a");
    assert_true(error.numbers && error.found == 1 && error.wanted == 2);
    /* Numbers are told as they are given; sizes beyond INT64_MAX are given as that. */
    error = (bp_error){0};
    assert_int_equal(bp_error_limit(&error, BP_ERR_DATA, "x", "y", "z",
                                    bp_size_signed(BP_SIZE_INVALID), BP_LIMIT_MOST,
                                    bp_size_signed((uint64_t)INT64_MAX + 1)),
                     BP_ERR_DATA);
    assert_true(error.found == INT64_MAX && error.wanted == INT64_MAX);
    assert_true(bp_size_signed(0) == 0 && bp_size_signed(INT64_MAX - 1) == INT64_MAX - 1);
    error = (bp_error){0};
    assert_int_equal(bp_error_limit(&error, BP_ERR_DATA, "x", "y", "z", -1, BP_LIMIT_MOST, 9),
                     BP_ERR_DATA);
    assert_true(error.found == -1 && error.wanted == 9);
    error = (bp_error){0};
    assert_int_equal(bp_error_limit(&error, BP_ERR_DATA, "x", "y", "z", -5, BP_LIMIT_LEAST, -1),
                     BP_ERR_DATA);
    assert_true(error.found == -5 && error.wanted == -1);
    assert_int_equal(bp_error_set(NULL, BP_ERR_STORE, "x", "y", "z"), BP_ERR_STORE);
    assert_int_equal(bp_error_numbers(NULL, BP_ERR_STORE, "x", "y", "z", 0, 0), BP_ERR_STORE);
}

/* verifies error-2.e818 */
static void test_words_that_were_found(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_error_found(&error, "no error", 8);
    bp_error_found(NULL, "x", 1);
    assert_string_equal(error.word, "");
    assert_int_equal(bp_error_set(&error, BP_ERR_DATA, "x", "y", "z"), BP_ERR_DATA);
    bp_error_found(&error, "a\tb\xc3\xa9 \"c\"rest", 9);
    assert_string_equal(error.word, "a?b?? \"c\"");
    bp_error_found(&error, "~\x7f", 2);
    assert_string_equal(error.word, "~?");
    bp_error_right(NULL, "x");
    bp_error_right(&error, "another one");
    assert_string_equal(error.right, "another one");
    bp_error fresh = {.code = BP_OK};
    bp_error_right(&fresh, "nothing is wrong");
    assert_string_equal(fresh.right, "");
    assert_string_equal(bp_limit_words(BP_LIMIT_BELOW), "below ");
    assert_string_equal(bp_limit_words(BP_LIMIT_EXACT), "");
    assert_string_equal(bp_limit_words((bp_limit)99), "");
    /* The longest that is kept whole, and one more: its end is what names a file. */
    const char *most = "/tmp/a/directory/of/47/characters/that/is/whole";
    bp_error_found(&error, most, strlen(most));
    assert_string_equal(error.word, most);
    const char *path = "/tmp/one/that/is/longer/than/the/room/of/a/word/model.gguf";
    bp_error_found(&error, path, strlen(path));
    assert_string_equal(error.word, "/tmp/one/tha...an/the/room/of/a/word/model.gguf");
    char text[2 * BP_ERROR_WORD_MAX];
    memset(text, 'w', sizeof text);
    bp_error_found(&error, text, sizeof text);
    assert_int_equal(strlen(error.word), BP_ERROR_WORD_MAX - 1);
    error.code = BP_OK;
    assert_int_equal(bp_error_set(&error, BP_ERR_DATA, "x", "y", "z"), BP_ERR_DATA);
    assert_string_equal(error.word, "");
}

/* What mends an error belongs to the error that is kept. */
static void test_mends_belong_to_their_error(void **state)
{
    (void)state;
    bp_error error = {0};
    assert_int_equal(bp_error_mend(&error, BP_ERR_DATA, "x", "y", "z", BP_MEND_STEPS), BP_ERR_DATA);
    assert_int_equal(error.mend, BP_MEND_STEPS);
    assert_int_equal(bp_error_mend(&error, BP_ERR_FIT, "x", "y", "z", BP_MEND_PROMPT), BP_ERR_FIT);
    assert_true(error.code == BP_ERR_DATA && error.mend == BP_MEND_STEPS);
    error.code = BP_OK;
    assert_int_equal(bp_error_set(&error, BP_ERR_DATA, "x", "y", "z"), BP_ERR_DATA);
    assert_int_equal(error.mend, BP_MEND_NONE);
    assert_int_equal(bp_error_mend(NULL, BP_ERR_FIT, "x", "y", "z", BP_MEND_STEPS), BP_ERR_FIT);
}

/* verifies error-1.c4b2 error-2.e818 */
static void test_names_are_prefixed_and_cut(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_error_prefix(&error, "no error, no name");
    assert_string_equal(error.name, "");
    bp_error_prefix(NULL, "nothing");
    assert_int_equal(bp_error_set(&error, BP_ERR_DATA, "x", "y", "tensor"), BP_ERR_DATA);
    bp_error_prefix(&error, "file");
    assert_string_equal(error.name, "file: tensor");
    char longest[2 * BP_ERROR_NAME_MAX];
    memset(longest, 'n', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    bp_error_prefix(&error, longest);
    assert_int_equal(strlen(error.name), BP_ERROR_NAME_MAX - 1);
    error = (bp_error){0};
    assert_int_equal(bp_error_set(&error, BP_ERR_DATA, "x", "y", longest), BP_ERR_DATA);
    assert_int_equal(strlen(error.name), BP_ERROR_NAME_MAX - 1);
    error = (bp_error){0};
    assert_int_equal(bp_error_set(&error, BP_ERR_DATA, "x", "y", NULL), BP_ERR_DATA);
    bp_error_prefix(&error, "file");
    assert_string_equal(error.name, "file");
    /* Two that fit alone and not together are cut, and what stands behind the name stays. */
    error = (bp_error){0};
    longest[BP_ERROR_NAME_MAX - 8] = '\0';
    assert_int_equal(bp_error_numbers(&error, BP_ERR_DATA, "x", "y", longest, 3, 4), BP_ERR_DATA);
    bp_error_right(&error, "another one");
    bp_error_prefix(&error, "a longer file");
    assert_int_equal(strlen(error.name), BP_ERROR_NAME_MAX - 1);
    assert_true(error.numbers && error.found == 3 && error.wanted == 4);
    assert_int_equal(error.limit, BP_LIMIT_EXACT);
    assert_string_equal(error.word, "");
    assert_string_equal(error.right, "another one");
    /* Of what the record held before nothing is left. */
    error.code = BP_OK;
    assert_int_equal(bp_error_set(&error, BP_ERR_DATA, "x", "y", "z"), BP_ERR_DATA);
    assert_false(error.numbers);
    assert_string_equal(error.right, "");
}

/* verifies error-2.e818 */
static void test_exit_codes(void **state)
{
    (void)state;
    const int expected[] = {0, 2, 3, 4, 5, 6, 7, 130, 70, 2, 70, 10, 70};
    for (int s = BP_OK; s <= BP_ERR_INTERNAL; s++) {
        assert_int_equal(bp_status_exit_code((bp_status)s), expected[s]);
        assert_non_null(bp_status_text((bp_status)s));
    }
    assert_int_equal(bp_status_exit_code((bp_status)99), 70);
}

static bool smaller(const void *user, uint32_t a, uint32_t b)
{
    const uint32_t *values = user;
    return values[a] != values[b] ? values[a] < values[b] : a < b;
}

static int compare_first_bytes(const void *a, const void *b)
{
    return memcmp(a, b, 4);
}

/* Elements of any size against the C library's order; the first four bytes are all different. */
static void test_heap_sort(void **state)
{
    (void)state;
    static unsigned char sorted[200 * 24], wanted[200 * 24];
    for (size_t size = 4; size <= 24; size += 5) {
        for (size_t count = 0; count <= 200; count = count * 2 + 1) {
            for (size_t i = 0; i < count * size; i++) {
                sorted[i] = (unsigned char)(i * 7 % 251);
            }
            for (size_t i = 0; i < count; i++) {
                const uint32_t key = (uint32_t)i * 2654435761u;
                memcpy(sorted + i * size, &key, sizeof key);
            }
            memcpy(wanted, sorted, sizeof sorted);
            bp_heap_sort(sorted, count, size, compare_first_bytes);
            qsort(wanted, count, size, compare_first_bytes);
            assert_memory_equal(sorted, wanted, count * size);
        }
    }
}

static void test_order(void **state)
{
    (void)state;
    uint32_t values[100] = {0};
    uint32_t indices[100];
    for (uint32_t count = 0; count <= 100; count++) {
        for (uint32_t i = 0; i < count; i++) {
            values[i] = (i * 7919 + count) % 13;
            indices[i] = i;
        }
        bp_order(indices, count, smaller, values);
        for (uint32_t i = 1; i < count; i++) {
            assert_true(smaller(values, indices[i - 1], indices[i]));
        }
    }
}

static bp_status accept_spec(const bp_spec *spec, bp_error *error)
{
    (void)spec;
    (void)error;
    return BP_OK;
}

static const bp_model any_model = {.name = "any", .check = accept_spec};

static bp_spec good_spec(void)
{
    return (bp_spec){.model = &any_model,
                     .config = {.vocabulary = 50257, .positions = 1024},
                     .device_options = {.threads = 2},
                     .batch = 4,
                     .sequence = 64,
                     .accumulation = 1};
}

static void refused(const bp_spec *spec, const char *name)
{
    bp_error error = {0};
    assert_int_equal(bp_spec_check(spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, name);
}

/* verifies compile-1.aa19 */
static void test_spec_ranges(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_spec spec = good_spec();
    assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
    spec.config.vocabulary = UINT32_C(1) << 31;
    refused(&spec, "vocab_size");
    spec = good_spec();
    spec.sequence = 1025;
    refused(&spec, "max-seq-length");
    spec = good_spec();
    spec.batch = 1 << 20;
    spec.sequence = 1024;
    spec.accumulation = 4;
    refused(&spec, "gradient-accumulation-steps");
    spec.batch = 1 << 20;
    spec.config.positions = 4096;
    spec.sequence = 4096;
    refused(&spec, "per-device-train-batch-size");
    spec = good_spec();
    spec.accumulation = 0;
    refused(&spec, "gradient-accumulation-steps");
    spec = good_spec();
    spec.loss_rows = 257;
    refused(&spec, "loss-chunk-rows");
    spec = good_spec();
    spec.policy.kind = BP_POLICY_EVERY;
    refused(&spec, "gradient-checkpointing");
    spec = good_spec();
    spec.device_options.threads = 0;
    refused(&spec, "threads");
}

/* verifies compile-14.a94c */
static void test_loss_rows(void **state)
{
    (void)state;
    bp_spec spec = good_spec();
    assert_int_equal(bp_spec_loss_rows(&spec), 256);
    spec.batch = 64;
    /* 60 MB / (50257 * 4) is 298: 14 chunks of 4096 rows, which are then 293 each. */
    assert_int_equal(bp_spec_loss_rows(&spec), 293);
    spec.batch = 4;
    spec.config.vocabulary = 256;
    assert_int_equal(bp_spec_loss_rows(&spec), 256);
    spec.config.vocabulary = 1 << 20;
    assert_int_equal(bp_spec_loss_rows(&spec), 64);
    spec.config.vocabulary = 0;
    assert_int_equal(bp_spec_loss_rows(&spec), 256);
}

static void test_extents(void **state)
{
    (void)state;
    assert_int_equal(bp_extent_bytes(&(bp_extent){.rows = 0, .width = 5, .pitch = 5}, 4), 0);
    assert_int_equal(bp_extent_bytes(&(bp_extent){.rows = 3, .width = 0, .pitch = 5}, 4), 0);
    assert_int_equal(bp_extent_bytes(&(bp_extent){.rows = 3, .width = 2, .pitch = 5}, 4), 48);
    assert_true(bp_extent_bytes(&(bp_extent){.rows = 2, .width = 5, .pitch = 4}, 4) ==
                BP_SIZE_INVALID);
    assert_true(bp_size_sub(3, 4) == BP_SIZE_INVALID);
    assert_true(bp_size_add(BP_SIZE_INVALID, 1) == BP_SIZE_INVALID);
    assert_true(bp_size_ceil_div(7, 0) == BP_SIZE_INVALID);
    assert_int_equal(bp_size_align(257, 256), 512);
}

static uint64_t no_workspace(const bp_device_options *options, bp_kernel kernel,
                             const void *scalars, const uint8_t *dtypes)
{
    (void)options;
    (void)dtypes;
    (void)kernel;
    (void)scalars;
    return 0;
}

/* verifies compile-21.c84d */
static void test_the_pen_stops_at_its_first_failure(void **state)
{
    (void)state;
    static uint64_t memory[4096];
    static const bp_device device = {.name = "none", .workspace = no_workspace};
    bp_spec spec = good_spec();
    spec.device = &device;
    bp_error error = {0};
    bp_arena arena;
    bp_graph graph;
    bp_parameter parameters[1];
    const bp_graph_limits limit = {4, 1, 64, 64, 512};
    bp_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(bp_graph_init(&graph, &limit, &arena, &error), BP_OK);
    bp_graph_begin(&graph, BP_PROGRAM_STEP);
    bp_builder builder;
    bp_build_init(&builder, &graph, &spec, parameters, 1);
    builder.label = "stage";
    const bp_parameter_info info = {.name = "p", .rank = 1, .shape = {8}};
    bp_build_parameter(&builder, &info);
    assert_int_equal(builder.status, BP_OK);
    int64_t accumulate = 9;
    bp_ref gradient = bp_build_gradient(&builder, 0, &accumulate);
    assert_int_equal(accumulate, 0);
    assert_string_equal(bp_graph_name(&graph, gradient.buffer), "p.grad");
    (void)bp_build_gradient(&builder, 0, &accumulate);
    assert_int_equal(accumulate, 1);
    bp_build_matmul(&builder,
                    &(bp_matmul_operands){.c = gradient,
                                          .before = BP_ABSENT,
                                          .a = gradient,
                                          .b = gradient,
                                          .bias = BP_ABSENT,
                                          .residual = BP_ABSENT},
                    &(bp_matmul_scalars){.m = 1});
    assert_int_equal(builder.status, BP_OK);
    assert_false(bp_ref_present(graph.refs[6])); /* no workspace is asked for */
    bp_build_parameter(&builder, &info);         /* one more than was said */
    assert_int_equal(builder.status, BP_ERR_INTERNAL);
    assert_false(bp_ref_present(bp_build_weight(&builder, 0)));
    assert_false(bp_ref_present(bp_build_gradient(&builder, 0, &accumulate)));
    assert_int_equal(bp_build_state(&builder, 0, BP_F32, "m"), BP_NO_BUFFER);
    assert_false(bp_ref_present(bp_build_buffer(&builder, BP_CLASS_TAPE, BP_F32, 1, 1, "after")));
    bp_build_parameter(&builder, &info);
    bp_build_copy(&builder, &(bp_copy_operands){.y = gradient, .x = gradient},
                  &(bp_copy_scalars){.count = 1});
    assert_int_equal(graph.used.ops, 1);
    builder.status = BP_OK;
    bp_build_copy(&builder, &(bp_copy_operands){.y = gradient, .x = gradient},
                  &(bp_copy_scalars){.count = 1});
    assert_int_equal(builder.status, BP_ERR_FIT);
}

/* Of an exchange each member gets its own piece, of the other calls all get all. */
/* verifies ranks-14.d729 */
static void test_pieces_of_a_transfer(void **state)
{
    (void)state;
    static const bp_fabric_piece parts[] = {{0, 8}, {8, 24}, {32, 16}};
    bp_fabric_transfer transfer = {.call = BP_FABRIC_EXCHANGE, .bytes = 8};
    assert_int_equal(bp_fabric_piece_for(&transfer, 0).first, 0);
    assert_int_equal(bp_fabric_piece_for(&transfer, 2).first, 16);
    assert_int_equal(bp_fabric_piece_for(&transfer, 2).bytes, 8);
    transfer.pieces = parts;
    assert_int_equal(bp_fabric_piece_for(&transfer, 1).first, 8);
    assert_int_equal(bp_fabric_piece_for(&transfer, 1).bytes, 24);
    transfer.call = BP_FABRIC_ALL_GATHER;
    assert_int_equal(bp_fabric_piece_for(&transfer, 1).first, 0);
    assert_int_equal(bp_fabric_piece_for(&transfer, 1).bytes, 8);
    transfer.call = BP_FABRIC_BROADCAST;
    assert_int_equal(bp_fabric_piece_for(&transfer, 2).first, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_error_sticks),
        cmocka_unit_test(test_words_that_were_found),
        cmocka_unit_test(test_mends_belong_to_their_error),
        cmocka_unit_test(test_names_are_prefixed_and_cut),
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_heap_sort),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_spec_ranges),
        cmocka_unit_test(test_loss_rows),
        cmocka_unit_test(test_extents),
        cmocka_unit_test(test_the_pen_stops_at_its_first_failure),
        cmocka_unit_test(test_pieces_of_a_transfer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
