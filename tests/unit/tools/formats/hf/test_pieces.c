/* SPDX-License-Identifier: MIT */
/* Parameters that files keep in several tensors: names, shapes, and where each element lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tools/formats/hf/tensor_pieces.h"

static const bp_tensor_rule each = {"*.experts.gate_up", "*.experts.@.gate|*.experts.@.up",
                                    BP_LAYOUT_PIECES},
                            stacked = {"a.#.experts.gate_up", "b.#.gates|b.#.ups",
                                       BP_LAYOUT_PIECES},
                            alone = {"*.experts.gate_up", "*.experts.@.w2", BP_LAYOUT_PIECES};

static bp_tensor_pieces pieces_of(const bp_tensor_rule *rule, const uint64_t shape[3])
{
    bp_tensor_pieces pieces;
    assert_true(bp_tensor_pieces_of(&pieces, rule, "a.7.experts.gate_up", 3, shape));
    return pieces;
}

static void expect(const bp_tensor_pieces *pieces, uint64_t index, const char *name)
{
    char theirs[BP_TENSOR_NAME_MAX];
    assert_true(bp_tensor_pieces_name(pieces, index, theirs));
    assert_string_equal(theirs, name);
}

/* verifies formats-2.1f4a */
static void tensors_have_names_and_shapes(void **state)
{
    (void)state;
    const uint64_t shape[3] = {12, 6, 5};
    uint64_t found[3] = {0};
    bp_tensor_pieces pieces = pieces_of(&each, shape);
    assert_int_equal(bp_tensor_pieces_count(&pieces), 24);
    expect(&pieces, 0, "a.7.experts.0.gate");
    expect(&pieces, 1, "a.7.experts.0.up");
    expect(&pieces, 22, "a.7.experts.11.gate");
    expect(&pieces, 23, "a.7.experts.11.up");
    assert_int_equal(bp_tensor_pieces_shape(&pieces, found), 2);
    assert_true(found[0] == 3 && found[1] == 5);
    pieces = pieces_of(&stacked, shape);
    assert_int_equal(bp_tensor_pieces_count(&pieces), 2);
    expect(&pieces, 0, "b.7.gates");
    expect(&pieces, 1, "b.7.ups");
    assert_int_equal(bp_tensor_pieces_shape(&pieces, found), 3);
    assert_true(found[0] == 12 && found[1] == 3 && found[2] == 5);
    pieces = pieces_of(&alone, shape);
    assert_int_equal(bp_tensor_pieces_count(&pieces), 12);
    expect(&pieces, 10, "a.7.experts.10.w2");
}

/* verifies formats-2.1f4a */
static void shapes_that_do_not_go_are_none(void **state)
{
    (void)state;
    const uint64_t odd[3] = {12, 7, 5};
    bp_tensor_pieces pieces;
    assert_false(bp_tensor_pieces_of(&pieces, &each, "a.experts.gate_up", 3, odd));
    assert_false(bp_tensor_pieces_of(&pieces, &alone, "a.experts.gate_up", 2, odd));
    assert_true(bp_tensor_pieces_of(&pieces, &alone, "a.experts.gate_up", 3, odd));
    char theirs[BP_TENSOR_NAME_MAX], longest[BP_TENSOR_NAME_MAX];
    memset(longest, 'x', sizeof longest);
    memcpy(longest + 235, ".experts.gate_up", 17);
    assert_true(bp_tensor_pieces_of(&pieces, &each, longest, 3, (const uint64_t[3]){12, 6, 5}));
    assert_true(bp_tensor_pieces_name(&pieces, 0, theirs));
    memset(longest, 'x', sizeof longest);
    memcpy(longest + 239, ".experts.gate_up", 17);
    assert_true(bp_tensor_pieces_name(&pieces, 22, theirs));
    assert_false(bp_tensor_pieces_name(&pieces, 200, theirs));
}

/* Each element of the parameter lies in one place of one tensor, and is found from there. */
/* verifies formats-2.1f4a */
static void places_are_those_of_elements(void **state)
{
    (void)state;
    const uint64_t shape[3] = {3, 4, 5};
    const bp_tensor_rule *const rules[] = {&each, &stacked, &alone};
    for (uint32_t r = 0; r < 3; r++) {
        const bp_tensor_pieces pieces = pieces_of(rules[r], shape);
        for (uint64_t i = 0; i < 60; i++) {
            const uint64_t expert = i / 20, row = i / 5 % 4, column = i % 5;
            const uint64_t rows = r == 2 ? 4 : 2, side = row / rows, within = row % rows;
            const bp_tensor_place place = bp_tensor_pieces_place(&pieces, i);
            uint64_t run;
            assert_int_equal(place.index, r == 0 ? 2 * expert + side : r == 1 ? side : expert);
            assert_int_equal(place.first, (r == 1 ? expert * rows * 5 : 0) + within * 5 + column);
            assert_int_equal(place.run, rows * 5 - within * 5 - column);
            assert_int_equal(bp_tensor_pieces_element(&pieces, place.index, place.first, &run), i);
            assert_int_equal(run, place.run);
        }
    }
}

/* gpt-oss: of (experts, in, 2 out) tensor `side` has element (e, i, 2 o + side) at (e, o, i), of
 * (experts, 2 out) element (e, 2 o + side) at (e, o), as llama.cpp's converter takes them apart. */
/* verifies formats-2.1f4a */
static void numbers_that_alternate_come_apart(void **state)
{
    (void)state;
    static const bp_tensor_rule turns = {"*.gate_up", "*.gates|*.ups", BP_LAYOUT_TURNS};
    const uint64_t shape[3] = {3, 5, 8}, list[2] = {3, 8}, odd[3] = {3, 5, 7};
    uint64_t found[3] = {0}, run;
    bp_tensor_pieces pieces;
    assert_true(bp_tensor_pieces_of(&pieces, &turns, "a.gate_up", 3, shape));
    assert_int_equal(bp_tensor_pieces_count(&pieces), 2);
    expect(&pieces, 1, "a.ups");
    assert_int_equal(bp_tensor_pieces_shape(&pieces, found), 3);
    assert_true(found[0] == 3 && found[1] == 4 && found[2] == 5);
    for (uint64_t i = 0; i < 120; i++) {
        const uint64_t expert = i / 40, in = i / 8 % 5, side = i % 2, out = i % 8 / 2;
        const bp_tensor_place place = bp_tensor_pieces_place(&pieces, i);
        assert_true(place.index == side && place.run == 1);
        assert_int_equal(place.first, (expert * 4 + out) * 5 + in);
        assert_int_equal(bp_tensor_pieces_element(&pieces, side, place.first, &run), i);
    }
    assert_true(bp_tensor_pieces_of(&pieces, &turns, "a.gate_up", 2, list));
    assert_int_equal(bp_tensor_pieces_shape(&pieces, found), 2);
    assert_true(found[0] == 3 && found[1] == 4);
    for (uint64_t i = 0; i < 24; i++) {
        const bp_tensor_place place = bp_tensor_pieces_place(&pieces, i);
        assert_true(place.index == i % 2 && place.first == i / 8 * 4 + i % 8 / 2);
        assert_int_equal(bp_tensor_pieces_element(&pieces, place.index, place.first, &run), i);
    }
    assert_false(bp_tensor_pieces_of(&pieces, &turns, "a.gate_up", 3, odd));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_have_names_and_shapes),
        cmocka_unit_test(shapes_that_do_not_go_are_none),
        cmocka_unit_test(places_are_those_of_elements),
        cmocka_unit_test(numbers_that_alternate_come_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
