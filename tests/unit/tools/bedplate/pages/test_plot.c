/* SPDX-License-Identifier: MIT */
/* Axes of plots: round ticks within their range, how they are written, and where values lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tools/bedplate/pages/plot.c"

/* The ticks of an axis as they are written, with blanks between. */
static const char *ticks_of(const plot_axis *axis, uint32_t most)
{
    static char words[512];
    double tick[PLOT_TICKS];
    bp_text text;
    bp_text_init(&text, NULL, NULL, words, sizeof words);
    const uint32_t count = plot_ticks(axis, most, tick);
    assert_true(count <= most && most <= PLOT_TICKS);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(tick[i] >= axis->low && tick[i] <= axis->high);
        bp_text_string(&text, i > 0 ? "|" : "");
        plot_value(&text, axis, tick[i]);
    }
    assert_int_equal(bp_text_flush(&text), BP_OK);
    return words;
}

/* verifies record-17.185d */
static void ticks_are_round(void **state)
{
    static const struct {
        plot_axis axis;
        const char *ticks;
    } rows[] = {
        {{0, 60, "", PLOT_NUMBER, false}, "0|10|20|30|40|50|60"},
        {{0, 123456, "", PLOT_NUMBER, false}, "0|20,000|40,000|60,000|80,000|100,000|120,000"},
        {{-0.21, 0.19, "", PLOT_NUMBER, false}, "-0.2|-0.1|0|0.1"},
        {{2.95, 3.4, "", PLOT_NUMBER, false}, "3|3.1|3.2|3.3|3.4"},
        {{0, 5e-5, "", PLOT_NUMBER, false}, "0|1e-05|2e-05|3e-05|4e-05|5e-05"},
        {{0, 0x3p30, "", PLOT_BYTES, false}, "0 B|512 MiB|1 GiB|1.5 GiB|2 GiB|2.5 GiB|3 GiB"},
        {{0, 100, "", PLOT_SECONDS, false}, "0 s|30 s|1 min|1.5 min"},
        {{0, 20000, "", PLOT_SECONDS, false}, "0 s|1 h|2 h|3 h|4 h|5 h"},
        {{0, 1e6, "", PLOT_SECONDS, false}, "0 s|2 d|4 d|6 d|8 d|10 d"},
        {{1e-6, 2, "", PLOT_NUMBER, true}, "1e-06|1e-05|0.0001|0.001|0.01|0.1|1"},
        {{0.4, 9, "", PLOT_NUMBER, true}, "0.5|1|2|5"},
        {{0.08, 6, "", PLOT_NUMBER, true}, "0.1|0.2|0.5|1|2|5"},
        {{0.02, 30, "", PLOT_NUMBER, true}, "0.03|0.1|0.3|1|3|10|30"},
        {{3, 4, "", PLOT_NUMBER, true}, "3|3.2|3.4|3.6|3.8|4"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(ticks_of(&rows[i].axis, 8), rows[i].ticks);
    }
}

/* Ranges of many sizes, and of none at all, have at least two ticks and no more than asked for. */
/* verifies record-17.185d */
static void every_range_has_ticks(void **state)
{
    static const plot_unit units[] = {PLOT_NUMBER, PLOT_BYTES, PLOT_SECONDS};
    (void)state;
    for (double size = 1e-30; size < 1e99; size *= 7.3) {
        for (size_t i = 0; i < 12; i++) {
            plot_axis axis = {i % 2 == 0 ? 0 : size, size, "", units[i % 3], i % 2 == 1 && i > 5};
            if (axis.unit == PLOT_BYTES && !(size > 8 && size < 1e18)) {
                continue; /* bytes are whole, and fewer than 2^63 */
            }
            plot_axis_fit(&axis, i % 2 == 0);
            assert_true(isfinite(axis.low) && axis.low < axis.high);
            assert_non_null(strchr(ticks_of(&axis, 6), '|'));
        }
    }
}

/* What differs beyond its sixth digit is level, and zeros have an axis without negative numbers. */
/* verifies record-17.185d */
static void level_ranges_are_widened(void **state)
{
    (void)state;
    plot_axis entropy = {6.7172001, 6.7172009, "", PLOT_NUMBER, false};
    plot_axis_fit(&entropy, true);
    assert_true(entropy.low < 3.4 && entropy.high > 10);
    plot_axis zeros = {0, 0, "", PLOT_NUMBER, false};
    plot_axis_fit(&zeros, true);
    assert_true(zeros.low >= 0 && zeros.high >= 1);
    assert_true(plot_level(5, 5) && plot_level(-3, -3) && !plot_level(1, 1.001));
    assert_true(!plot_level(0, 1e-30) && !plot_level(-1, 1));
}

/* verifies record-17.185d */
static void values_lie_between_the_edges(void **state)
{
    (void)state;
    const plot line = {.x = {10, 20, "", PLOT_NUMBER, false}, .y = {1, 100, "", PLOT_NUMBER, true}};
    assert_true(plot_left(&line, 10) == 0 && plot_left(&line, 20) == 100);
    assert_true(plot_across(&line, 15) == 500);
    assert_true(plot_down(&line, 1) == PLOT_HEIGHT && plot_down(&line, 100) == 0);
    assert_true(fabs(plot_down(&line, 10) - PLOT_HEIGHT / 2.0) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(every_range_has_ticks),
        cmocka_unit_test(level_ranges_are_widened),
        cmocka_unit_test(values_lie_between_the_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
