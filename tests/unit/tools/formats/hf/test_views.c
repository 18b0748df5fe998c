/* SPDX-License-Identifier: MIT */
/* Tensors of files seen transposed, by heads and in other types, through little memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tests/fixtures/formats/tensors_made.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/hf/tensor_match.h"

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    made_tensors made;
    bp_tensor_set set;
    uint64_t scratch[8192];
    uint64_t work[BP_VIEW_WORK_MIN / 8];
    bp_error error;
} fixture;

static const bp_tensor_heads two_and_one = {2, 1, 0};

static fixture *fixture_new(void)
{
    fixture *d = calloc(1, sizeof *d);
    assert_non_null(d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    return d;
}

static void fixture_open(fixture *d)
{
    made_write(&d->made, 0, d->made.count, &d->memory.store, "m");
    bp_staging room = {d->scratch, sizeof d->scratch};
    assert_int_equal(bp_hf_open(&d->set, &d->faulty.store, "m", &room, &d->error), BP_OK);
}

static void fixture_free(fixture *d)
{
    assert_int_equal(bp_tensor_set_close(&d->set), BP_OK);
    assert_int_equal(d->memory.open_files, 0);
    made_free(&d->made);
    memory_store_free(&d->memory);
    free(d);
}

static bp_tensor_view view_of(fixture *d, const char *name, bp_tensor_layout form)
{
    uint32_t part = 0;
    bp_tensor_view view;
    bp_tensor_entry *entry = bp_tensor_set_find(&d->set, name, &part);
    assert_non_null(entry);
    assert_true(bp_tensor_view_of(&view, part, entry, form, two_and_one));
    return view;
}

static bp_status read(fixture *d, const bp_tensor_view *view, uint64_t first, size_t count,
                      bp_dtype to, void *out)
{
    return bp_tensor_view_read(&d->set, view, first, count, to, out,
                               (bp_staging){d->work, sizeof d->work});
}

/* Every stretch of some lengths agrees with the reference. */
static void check_stretches(fixture *d, const bp_tensor_view *view, const float *wanted)
{
    static const size_t lengths[] = {1, 2, 7, 30, 129, 1000};
    size_t elements = (size_t)bp_tensor_view_elements(view);
    float *out = malloc((elements + 1) * sizeof *out);
    assert_non_null(out);
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        for (size_t first = 0; first <= elements; first += 1 + elements / 37) {
            size_t left = elements - first;
            size_t count = lengths[l] < left ? lengths[l] : left;
            out[count] = 77.0f;
            assert_int_equal(read(d, view, first, count, BP_F32, out), BP_OK);
            assert_memory_equal(out, wanted + first, count * sizeof *out);
            assert_true(out[count] == 77.0f);
        }
    }
    assert_int_equal(read(d, view, 0, elements, BP_F32, out), BP_OK);
    assert_memory_equal(out, wanted, elements * sizeof *out);
    assert_int_equal(read(d, view, 0, elements + 1, BP_F32, out), BP_ERR_USAGE);
    free(out);
}

/* verifies formats-30.16f4 */
static void every_type_is_seen_as_every_other(void **state)
{
    (void)state;
    static const bp_dtype types[] = {BP_F32, BP_F16, BP_BF16};
    static const uint64_t shape[2] = {37, 29};
    for (int i = 0; i < 3; i++) {
        fixture *d = fixture_new();
        made_add_values(&d->made, "odd", BP_BF16, 1, (uint64_t[]){3}, 1);
        made_add_values(&d->made, "t", types[i], 2, shape, 5);
        fixture_open(d);
        float wanted[37 * 29];
        for (size_t k = 0; k < 37 * 29; k++) {
            wanted[k] = made_value(5, k);
        }
        bp_tensor_view view = view_of(d, "t", BP_LAYOUT_PLAIN);
        check_stretches(d, &view, wanted);
        uint16_t same[37 * 29];
        for (int t = 1; t < 3; t++) {
            assert_int_equal(read(d, &view, 0, 37 * 29, types[t], same), BP_OK);
            for (size_t k = 0; k < 37 * 29; k++) {
                float back =
                    types[t] == BP_F16 ? bp_f32_from_f16(same[k]) : bp_f32_from_bf16(same[k]);
                assert_true(back == wanted[k]);
            }
        }
        fixture_free(d);
    }
}

/* verifies formats-30.16f4 */
static void a_transposed_tensor_is_gathered_in_strips(void **state)
{
    (void)state;
    static const uint64_t shapes[][2] = {{37, 29}, {1, 40}, {40, 1}, {300, 5}, {5, 300}};
    for (size_t s = 0; s < 5; s++) {
        fixture *d = fixture_new();
        uint64_t rows = shapes[s][0];
        uint64_t columns = shapes[s][1];
        made_add_values(&d->made, "t", s % 2 == 0 ? BP_F32 : BP_F16, 2, shapes[s], s);
        fixture_open(d);
        bp_tensor_view view = view_of(d, "t", BP_LAYOUT_TRANSPOSED);
        assert_int_equal(view.shape[0], columns);
        assert_int_equal(view.shape[1], rows);
        float wanted[1500];
        for (size_t i = 0; i < columns; i++) {
            for (size_t j = 0; j < rows; j++) {
                wanted[i * rows + j] = made_value(s, j * columns + i);
            }
        }
        check_stretches(d, &view, wanted);
        /* Turned once more it is the file again. */
        assert_true(bp_tensor_view_transpose(&view, BP_LAYOUT_TRANSPOSED, two_and_one));
        assert_false(view.transposed);
        fixture_free(d);
    }
}

/* verifies formats-30.16f4 */
static void heads_go_from_pairs_to_halves_and_back(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    /* Two heads of six rows: rows p0 p1 q0 q1 r0 r1 of a head become p0 q0 r0 p1 q1 r1. */
    static const size_t behind[12] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
    made_add_values(&d->made, "q", BP_F32, 2, (uint64_t[]){12, 5}, 3);
    made_add_values(&d->made, "b", BP_F32, 1, (uint64_t[]){12}, 4);
    made_add_values(&d->made, "odd", BP_F32, 1, (uint64_t[]){6}, 4);
    fixture_open(d);
    float wanted[60];
    bp_tensor_view view = view_of(d, "q", BP_LAYOUT_QUERY_HEADS);
    for (size_t r = 0; r < 12; r++) {
        for (size_t c = 0; c < 5; c++) {
            wanted[r * 5 + c] = made_value(3, behind[r] * 5 + c);
        }
    }
    check_stretches(d, &view, wanted);
    view = view_of(d, "b", BP_LAYOUT_QUERY_HEADS);
    for (size_t r = 0; r < 12; r++) {
        wanted[r] = made_value(4, behind[r]);
    }
    check_stretches(d, &view, wanted);
    /* The other direction undoes it. */
    view = view_of(d, "b", BP_LAYOUT_PLAIN);
    assert_true(bp_tensor_view_transpose(&view, BP_LAYOUT_QUERY_HEADS, two_and_one));
    for (size_t r = 0; r < 12; r++) {
        wanted[behind[r]] = made_value(4, r);
    }
    check_stretches(d, &view, wanted);
    /* One head of twelve. */
    view = view_of(d, "b", BP_LAYOUT_KEY_HEADS);
    for (size_t r = 0; r < 12; r++) {
        wanted[r] = made_value(4, r < 6 ? 2 * r : 2 * (r - 6) + 1);
    }
    check_stretches(d, &view, wanted);
    fixture_free(d);
}

/* verifies formats-30.16f4 */
static void queries_keys_and_values_are_taken_apart_and_put_together(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    /* The file has two heads' queries, then keys, then values, two rows each: a head at a time. */
    static const size_t behind[12] = {0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11};
    made_add_values(&d->made, "w", BP_F32, 2, (uint64_t[]){12, 5}, 3);
    made_add_values(&d->made, "b", BP_F32, 1, (uint64_t[]){12}, 4);
    made_add_values(&d->made, "odd", BP_F32, 1, (uint64_t[]){8}, 4);
    fixture_open(d);
    float wanted[60];
    bp_tensor_view view = view_of(d, "w", BP_LAYOUT_THIRDS);
    for (size_t r = 0; r < 12; r++) {
        for (size_t c = 0; c < 5; c++) {
            wanted[r * 5 + c] = made_value(3, behind[r] * 5 + c);
        }
    }
    check_stretches(d, &view, wanted);
    view = view_of(d, "b", BP_LAYOUT_PLAIN);
    assert_true(bp_tensor_view_transpose(&view, BP_LAYOUT_THIRDS, two_and_one));
    for (size_t r = 0; r < 12; r++) {
        wanted[behind[r]] = made_value(4, r);
    }
    check_stretches(d, &view, wanted);
    view = view_of(d, "odd", BP_LAYOUT_PLAIN);
    assert_false(bp_tensor_view_transpose(&view, BP_LAYOUT_THIRDS, two_and_one));
    fixture_free(d);
}

/* verifies formats-30.16f4 */
static void norms_about_one_are_kept_about_zero(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    float wanted[600];
    made_add_values(&d->made, "n", BP_BF16, 1, (uint64_t[]){600}, 6);
    fixture_open(d);
    for (int way = 0; way < 3; way++) {
        bp_tensor_view view = view_of(d, "n", way == 0 ? BP_LAYOUT_PLAIN : BP_LAYOUT_RAISED);
        if (way != 1) {
            assert_true(bp_tensor_view_transpose(&view, BP_LAYOUT_RAISED, two_and_one));
        }
        for (size_t k = 0; k < 600; k++) {
            const float more = way == 0 ? 1.0f : way == 1 ? -1.0f : 0.0f; /* and both ways */
            wanted[k] = made_value(6, k) + more;
        }
        check_stretches(d, &view, wanted);
    }
    fixture_free(d);
}

/* verifies formats-30.16f4 */
static void forms_that_do_not_go_with_a_shape_are_refused(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    made_add_values(&d->made, "v", BP_F32, 1, (uint64_t[]){6}, 4);
    made_add_values(&d->made, "w", BP_F32, 2, (uint64_t[]){4, 4}, 4);
    fixture_open(d);
    uint32_t part = 0;
    bp_tensor_view view;
    bp_tensor_entry *v = bp_tensor_set_find(&d->set, "v", &part);
    bp_tensor_entry *w = bp_tensor_set_find(&d->set, "w", &part);
    assert_false(bp_tensor_view_of(&view, 0, v, BP_LAYOUT_TRANSPOSED, two_and_one));
    assert_false(bp_tensor_view_of(&view, 0, v, BP_LAYOUT_QUERY_HEADS, two_and_one));
    assert_false(bp_tensor_view_of(&view, 0, v, BP_LAYOUT_KEY_HEADS, (bp_tensor_heads){1, 0, 0}));
    assert_true(bp_tensor_view_of(&view, 0, w, BP_LAYOUT_TRANSPOSED, two_and_one));
    assert_false(bp_tensor_view_transpose(&view, BP_LAYOUT_QUERY_HEADS, two_and_one));
    assert_true(bp_tensor_view_of(&view, 0, w, BP_LAYOUT_QUERY_HEADS, two_and_one));
    assert_false(bp_tensor_view_transpose(&view, BP_LAYOUT_TRANSPOSED, two_and_one));
    assert_false(bp_tensor_view_transpose(&view, BP_LAYOUT_KEY_HEADS, two_and_one));
    assert_false(bp_tensor_view_transpose(&view, BP_LAYOUT_THIRDS, two_and_one));
    assert_true(bp_tensor_view_transpose(&view, BP_LAYOUT_QUERY_HEADS, two_and_one));
    assert_true(view.heads == 0 && !view.to_halves); /* the file's order again */
    fixture_free(d);
}

/* verifies formats-30.16f4 */
static void a_value_too_large_for_its_type_is_named(void **state)
{
    (void)state;
    static const float values[4] = {65504.0f, 65520.0f, 3.4e38f, INFINITY};
    fixture *d = fixture_new();
    made_tensor *made = made_add(&d->made, "t", BP_F32, 2, (uint64_t[]){2, 2});
    memcpy(made->bytes, values, sizeof values);
    fixture_open(d);
    uint16_t out[4];
    bp_tensor_view view = view_of(d, "t", BP_LAYOUT_PLAIN);
    assert_int_equal(read(d, &view, 0, 1, BP_F16, out), BP_OK);
    assert_int_equal(read(d, &view, 3, 1, BP_F16, out), BP_OK); /* it was infinite before */
    assert_int_equal(read(d, &view, 0, 2, BP_F16, out), BP_ERR_DATA);
    assert_string_equal(d->error.name, "t");
    assert_non_null(strstr(d->error.text, "fp16"));
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(read(d, &view, 0, 2, BP_BF16, out), BP_OK);
    assert_int_equal(read(d, &view, 2, 1, BP_BF16, out), BP_ERR_DATA);
    assert_non_null(strstr(d->error.text, "bf16"));
    view = view_of(d, "t", BP_LAYOUT_TRANSPOSED);
    assert_int_equal(read(d, &view, 0, 4, BP_F16, out), BP_ERR_DATA);
    assert_false(bp_elements_finite(BP_F32, values, 4));
    assert_true(bp_elements_finite(BP_F32, values, 3));
    fixture_free(d);
}

/* verifies formats-24.7573 */
static void storage_that_fails_is_said_so(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    float out[60];
    made_add_values(&d->made, "t", BP_F16, 2, (uint64_t[]){12, 5}, 3);
    fixture_open(d);
    static const bp_tensor_layout forms[] = {BP_LAYOUT_PLAIN, BP_LAYOUT_TRANSPOSED,
                                             BP_LAYOUT_QUERY_HEADS};
    for (size_t f = 0; f < 3; f++) {
        bp_tensor_view view = view_of(d, "t", forms[f]);
        for (size_t n = 1;; n++) {
            faulty_store_arm(&d->faulty, FAULT_READ_AT, n, false);
            bp_status status = read(d, &view, 0, 60, BP_F32, out);
            if (d->faulty.failures == 0) {
                assert_true(n > 1);
                assert_int_equal(status, BP_OK);
                break;
            }
            assert_int_equal(status, BP_ERR_STORE);
        }
    }
    /* The file grows while it is read. */
    assert_int_equal(bp_tensor_set_close(&d->set), BP_OK);
    made_add(&d->made, "more", BP_F32, 1, (uint64_t[]){9});
    made_write(&d->made, 0, d->made.count, &d->memory.store, "m");
    bp_tensor_view view = view_of(d, "t", BP_LAYOUT_PLAIN);
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(read(d, &view, 0, 60, BP_F32, out), BP_ERR_DATA);
    assert_int_equal(d->error.wanted, (int64_t)d->set.parts[0].file_bytes);
    fixture_free(d);
}

/* A table whose first rows are left out when it is written, and what is none. */
/* verifies formats-30.16f4 */
static void rows_before_the_first_are_left_out(void **state)
{
    (void)state;
    const bp_tensor_heads behind = {2, 1, 2};
    float out[18];
    fixture *d = fixture_new();
    made_add_values(&d->made, "v", BP_F32, 1, (uint64_t[]){6}, 4);
    made_add_values(&d->made, "w", BP_F32, 2, (uint64_t[]){4, 3}, 4);
    made_add_values(&d->made, "two", BP_F32, 2, (uint64_t[]){2, 6}, 4);
    made_add(&d->made, "one", BP_F32, 0, (uint64_t[]){1});
    fixture_open(d);
    bp_tensor_view view = view_of(d, "v", BP_LAYOUT_PLAIN);
    assert_false(bp_tensor_view_transpose(&view, BP_LAYOUT_BEHIND, behind));
    view = view_of(d, "two", BP_LAYOUT_PLAIN);
    assert_false(bp_tensor_view_transpose(&view, BP_LAYOUT_BEHIND, behind));
    view = view_of(d, "w", BP_LAYOUT_TRANSPOSED);
    assert_false(bp_tensor_view_transpose(&view, BP_LAYOUT_BEHIND, behind));
    view = view_of(d, "w", BP_LAYOUT_QUERY_HEADS);
    assert_false(bp_tensor_view_transpose(&view, BP_LAYOUT_BEHIND, behind));
    view = view_of(d, "w", BP_LAYOUT_PLAIN);
    /* Read from a file, they are zeros, and cut off again. */
    assert_true(bp_tensor_view_of(&view, view.part, view.entry, BP_LAYOUT_BEHIND, behind));
    assert_int_equal(bp_tensor_view_elements(&view), 18);
    for (uint64_t from = 0; from < 18; from++) {
        assert_int_equal(read(d, &view, from, (size_t)(18 - from), BP_F32, out), BP_OK);
        for (uint64_t i = from; i < 18; i++) {
            assert_true(out[i - from] == (i < 6 ? 0.0F : made_value(4, i - 6)));
        }
    }
    assert_int_equal(read(d, &view, 2, 3, BP_BF16, out), BP_OK);
    assert_true(out[0] == 0.0F && ((const uint16_t *)(const void *)out)[2] == 0);
    assert_true(bp_tensor_view_transpose(&view, BP_LAYOUT_BEHIND, behind));
    assert_int_equal(read(d, &view, 0, 12, BP_F32, out), BP_OK);
    assert_true(out[0] == made_value(4, 0) && out[11] == made_value(4, 11));
    view = view_of(d, "w", BP_LAYOUT_PLAIN);
    assert_true(bp_tensor_view_transpose(&view, BP_LAYOUT_BEHIND, behind));
    assert_int_equal(bp_tensor_view_elements(&view), 6);
    assert_int_equal(read(d, &view, 0, 6, BP_F32, out), BP_OK);
    for (size_t i = 0; i < 6; i++) {
        assert_true(out[i] == made_value(4, 6 + i));
    }
    uint32_t part = 0;
    const bp_tensor_entry *one = bp_tensor_set_find(&d->set, "one", &part);
    assert_false(bp_tensor_view_of(&view, part, one, BP_LAYOUT_QUERY_HEADS, behind));
    fixture_free(d);
}

/* verifies formats-30.16f4 */
static void stretches_that_are_not_there_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t first;
        size_t count, work;
        bp_status status;
    } cases[] = {
        {0, 12, BP_VIEW_WORK_MIN, BP_OK},           {12, 0, BP_VIEW_WORK_MIN, BP_OK},
        {13, 0, BP_VIEW_WORK_MIN, BP_ERR_USAGE},    {0, 13, BP_VIEW_WORK_MIN, BP_ERR_USAGE},
        {0, 1, BP_VIEW_WORK_MIN - 1, BP_ERR_USAGE},
    };
    float out[16];
    fixture *d = fixture_new();
    made_add_values(&d->made, "w", BP_F32, 2, (uint64_t[]){4, 3}, 4);
    fixture_open(d);
    const bp_tensor_view view = view_of(d, "w", BP_LAYOUT_PLAIN);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        d->error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_tensor_view_read(&d->set, &view, cases[i].first, cases[i].count, BP_F32,
                                             out, (bp_staging){d->work, cases[i].work}),
                         cases[i].status);
    }
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_tensor_set_read(&d->set, 0, view.entry, 49, out, 0), BP_ERR_USAGE);
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_tensor_set_read(&d->set, 0, view.entry, 40, out, 9), BP_ERR_USAGE);
    assert_int_equal(d->error.found, 49);
    /* Room that begins between two places, and ends before the next. */
    bp_staging room = {(char *)d->work + 1, 6};
    assert_null(bp_room_take(&room, 0));
    room.capacity = 7;
    assert_non_null(bp_room_take(&room, 0));
    fixture_free(d);
}

/* Codes of which one part is otherwise: refused by name, or no codes at all. */
/* verifies formats-16.301b */
static void codes_of_other_shapes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bp_dtype dtype;
        uint32_t rank;
        uint64_t shape[3], state; /* bytes of the state; 0: there is SCB */
        const char *said;         /* NULL: taken, "": no codes */
    } cases[] = {
        {"m.w.weight", BP_I8, 2, {2, 3}, 0, NULL},
        {"m.w.weight", BP_I8, 1, {6}, 0, "must be a matrix"},
        {"m.w.weight", BP_I8, 3, {2, 3, 1}, 0, "must be a matrix"},
        {"m.w.weight", BP_I8, 2, {0, 3}, 0, "must be a matrix"},
        {"m.w.weight", BP_I8, 2, {2, 0}, 0, "must be a matrix"},
        {"m.w.other", BP_I8, 2, {2, 3}, 0, ""},
        {"w", BP_I8, 2, {2, 3}, 0, ""},
        {"m.w.weight", BP_U8, 2, {3, 1}, 1025, "at most 1024 bytes"},
        {"m.w.weight", BP_U8, 2, {3, 1}, 1024, "a value is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture *d = fixture_new();
        bp_bnb bnb;
        uint32_t part = 0;
        made_add(&d->made, cases[i].name, cases[i].dtype, cases[i].rank, cases[i].shape);
        if (cases[i].state > 0) {
            made_add(&d->made, "m.w.weight.quant_state.bitsandbytes__nf4", BP_U8, 1,
                     (uint64_t[]){cases[i].state});
        } else {
            made_add_values(&d->made, "m.w.SCB", BP_F32, 1, (uint64_t[]){2}, 1);
        }
        fixture_open(d);
        bp_tensor_entry *entry = bp_tensor_set_find(&d->set, cases[i].name, &part);
        assert_non_null(entry);
        const bp_status status = bp_bnb_find(&d->set, entry, part, 1, &bnb);
        const bool good = cases[i].said == NULL || cases[i].said[0] == '\0';
        if (status != (good ? BP_OK : BP_ERR_DATA) ||
            (!good && strstr(d->error.text, cases[i].said) == NULL)) {
            fail_msg("%zu: %d %s: %s", i, status, d->error.name, d->error.text);
        }
        assert_true(!good || (bnb.form != BP_QUANTISED_NONE) == (cases[i].said == NULL));
        fixture_free(d);
    }
}

static unsigned char *bytes_of(made_tensors *made, const char *name, uint32_t rank,
                               const uint64_t *shape)
{
    made_tensor *tensor = made_add(made, name, BP_U8, rank, shape);
    return tensor->bytes;
}

static const bp_tensor_rule all_names[] = {{"*", "*", BP_LAYOUT_PLAIN}};
static const bp_tensor_naming any_naming = {all_names, 1, NULL, 0, NULL, 0};

static bp_status match_blocks(fixture *d, bp_wanted *wanted)
{
    const bp_match match = {.set = &d->set,
                            .naming = &any_naming,
                            .wanted = wanted,
                            .count = 1,
                            .heads = two_and_one,
                            .work = {d->work, sizeof d->work}};
    return bp_tensor_match(&match);
}

/* Blocks of MXFP4 with the numbers that e2m1 has, times 2^(scale - 127), of (experts, out, in) as
 * the parameter (experts, in, out); the first six bytes are those that transformers' conversion was
 * asked about. */
/* verifies formats-30.16f4 */
static void blocks_of_experts_are_seen_as_what_they_stand_for(void **state)
{
    (void)state;
    enum { EXPERTS = 3, OUT = 5, IN = 64, COUNT = EXPERTS * OUT * IN };
    static const uint8_t first[] = {1, 18, 35, 52, 69, 86};
    static const float right[] = {.125f, 0,     .25f, .125f, .375f, .25f,
                                  .5f,   .375f, .75f, .5f,   1,     .75f};
    static const double numbers[] = {0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6};
    fixture *d = fixture_new();
    unsigned char *codes = bytes_of(&d->made, "a.x_blocks", 4, (uint64_t[]){EXPERTS, OUT, 2, 16});
    unsigned char *scales = bytes_of(&d->made, "a.x_scales", 3, (uint64_t[]){EXPERTS, OUT, 2});
    for (uint32_t i = 0; i < COUNT / 2; i++) {
        codes[i] = (unsigned char)(i < sizeof first ? first[i] : 37 * i + i / 16);
        scales[i / 16] = (unsigned char)(i < 16 ? 125 : 118 + 7 * (i / 16) % 20);
    }
    float wanted[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) { /* of the parameter */
        const uint32_t expert = i / (IN * OUT), in = i / OUT % IN, out = i % OUT;
        const uint32_t at = (expert * OUT + out) * IN + in;
        wanted[i] =
            (float)ldexp(numbers[codes[at / 2] >> 4 * (at % 2) & 15], scales[at / 32] - 127);
        assert_true(i % OUT != 0 || i / OUT >= 12 || wanted[i] == right[i / OUT]);
    }
    fixture_open(d);
    bp_wanted x = {.name = "a.x", .rank = 3, .shape = {EXPERTS, IN, OUT}};
    assert_int_equal(match_blocks(d, &x), BP_OK);
    assert_true(bp_tensor_view_scattered(&x.view));
    assert_int_equal(bp_tensor_view_dtype(&x.view), BP_BF16);
    check_stretches(d, &x.view, wanted);
    uint16_t halves[COUNT];
    assert_int_equal(read(d, &x.view, 0, COUNT, BP_BF16, halves), BP_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(bp_f32_from_bf16(halves[i]) == wanted[i]);
    }
    bp_wanted turned = {.name = "a.x", .rank = 3, .shape = {EXPERTS, OUT, IN}};
    assert_int_equal(match_blocks(d, &turned), BP_ERR_DATA);
    fixture_free(d);
}

/* What no float of 16 bits holds is named; so are blocks without scales. */
/* verifies formats-30.16f4 */
static void blocks_of_experts_that_are_wrong_are_named(void **state)
{
    (void)state;
    for (int lacks = 0; lacks < 2; lacks++) {
        fixture *d = fixture_new();
        float values[64];
        uint16_t halves[64];
        unsigned char *codes = bytes_of(&d->made, "a.x_blocks", 4, (uint64_t[]){1, 2, 1, 16});
        unsigned char *scales = bytes_of(&d->made, "a.x_scales", 3, (uint64_t[]){1, 2, 1});
        memset(codes, 0x77, 32);
        scales[0] = scales[1] = 145; /* 6 * 2^18 */
        if (lacks != 0) {
            made_drop(&d->made, "a.x_scales");
        }
        fixture_open(d);
        bp_wanted x = {.name = "a.x", .rank = 3, .shape = {1, 32, 2}};
        assert_int_equal(match_blocks(d, &x), lacks != 0 ? BP_ERR_DATA : BP_OK);
        if (lacks == 0) {
            assert_int_equal(read(d, &x.view, 0, 64, BP_F32, values), BP_OK);
            assert_true(values[63] == 1572864.0f);
            assert_int_equal(read(d, &x.view, 0, 64, BP_F16, halves), BP_ERR_DATA);
        } else {
            assert_non_null(strstr(d->set.error->text, "missing"));
        }
        fixture_free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_seen_as_every_other),
        cmocka_unit_test(a_transposed_tensor_is_gathered_in_strips),
        cmocka_unit_test(heads_go_from_pairs_to_halves_and_back),
        cmocka_unit_test(queries_keys_and_values_are_taken_apart_and_put_together),
        cmocka_unit_test(norms_about_one_are_kept_about_zero),
        cmocka_unit_test(forms_that_do_not_go_with_a_shape_are_refused),
        cmocka_unit_test(a_value_too_large_for_its_type_is_named),
        cmocka_unit_test(storage_that_fails_is_said_so),
        cmocka_unit_test(rows_before_the_first_are_left_out),
        cmocka_unit_test(stretches_that_are_not_there_are_refused),
        cmocka_unit_test(codes_of_other_shapes_are_refused),
        cmocka_unit_test(blocks_of_experts_are_seen_as_what_they_stand_for),
        cmocka_unit_test(blocks_of_experts_that_are_wrong_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
