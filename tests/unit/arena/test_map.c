/* SPDX-License-Identifier: MIT */
/* The memory map: class totals, text, JSON as another reader sees it, and the page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena/map.h"

#define ROWS 3000

static const bp_map_class classes[] = {{"weights", "#4c78a8"}, {"tape", "#54a24b"}, {"io", "#aaa"}};
static const char *const ops[] = {"embed", "norm<1>", "matmul", "loss", "backward", "update"};

/* Offsets as a plan could give them: weights below, then what lives for a while. */
static const bp_map_buffer small[] = {
    {"w", 0, {.size = 100, .lower = 0, .upper = 6, .offset = 0}},
    {"h.0 \"mlp\" & <gelu>", 1, {.size = 60, .lower = 1, .upper = 5, .offset = 112}},
    {"h.1", 1, {.size = 48, .lower = 2, .upper = 4, .offset = 176}},
    {"late", 1, {.size = 48, .lower = 4, .upper = 6, .offset = 176}},
    {"nothing", 2, {.size = 0, .lower = 0, .upper = 6, .offset = 0}},
    {"never", 2, {.size = 16, .lower = 3, .upper = 3, .offset = 0}},
};

static char output[1 << 20];
static uint64_t scratch[(1 << 20) / 8];

static bp_map small_map(void)
{
    return (bp_map){.title = "a <small> model",
                    .classes = classes,
                    .buffers = small,
                    .op_names = ops,
                    .class_count = 3,
                    .buffer_count = 6,
                    .op_count = 6,
                    .alignment = 16,
                    .report = {.bytes = 224,
                               .lower_bound = 224,
                               .peak_time = 2,
                               .optimal = true,
                               .fits = true,
                               .method = "dive"}};
}

typedef bp_status (*map_form)(const bp_map *map, void *memory, size_t bytes, bp_text *out);

static const char *form_of(map_form form, const bp_map *map)
{
    bp_text text;
    bp_text_init(&text, NULL, NULL, output, sizeof output);
    /* An odd address: the map aligns its scratch itself. */
    size_t bytes = bp_map_scratch(map->buffer_count, map->class_count);
    assert_true(bytes < sizeof scratch);
    assert_int_equal(form(map, (char *)scratch + 1, bytes, &text), BP_OK);
    return output;
}

/* verifies arena-12.cc7d */
static void totals_count_each_class(void **state)
{
    (void)state;
    bp_map map = small_map();
    uint64_t most[3];
    uint64_t at_peak[3];
    assert_int_equal(bp_map_totals(&map, scratch, sizeof scratch, most, at_peak), BP_OK);
    assert_int_equal(most[0], 112);
    assert_int_equal(most[1], 112);
    assert_int_equal(most[2], 0);
    assert_int_equal(at_peak[1], 112);
    map.report.peak_time = 1;
    assert_int_equal(bp_map_totals(&map, scratch, sizeof scratch, most, at_peak), BP_OK);
    assert_int_equal(at_peak[0], 112);
    assert_int_equal(at_peak[1], 64);
    /* An interval ends before its upper time: h.1 at 4, h.0 at 5. */
    map.report.peak_time = 4;
    assert_int_equal(bp_map_totals(&map, scratch, sizeof scratch, most, at_peak), BP_OK);
    assert_int_equal(at_peak[1], 112);
    map.report.peak_time = 5;
    assert_int_equal(bp_map_totals(&map, scratch, sizeof scratch, most, at_peak), BP_OK);
    assert_int_equal(at_peak[1], 48);
    map.report.peak_time = 1;
    map.alignment = 0;
    assert_int_equal(bp_map_totals(&map, scratch, sizeof scratch, most, at_peak), BP_OK);
    assert_int_equal(at_peak[1], 60);
}

/* verifies arena-12.cc7d */
static void text_lists_by_offset(void **state)
{
    (void)state;
    bp_map map = small_map();
    const char *text = form_of(bp_map_text, &map);
    static const char *const lines[] = {
        "memory map of a <small> model\n",
        "  0x00000000000000              100  weights      0       6  w\n",
        "  0x000000000000b0               48  tape         2       4  h.1\n",
        "  0x000000000000b0               48  tape         4       6  late\n",
        "tape                        112                   112\n",
        "arena 224 bytes (224 B), lower bound 224, waste 0 (optimal)\n",
        "peak at op 2 matmul with 3 buffers alive\n",
        "from op         weights            tape              io\n",
        "      2             112             112               0\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_non_null(strstr(text, lines[i]));
    }
    /* h.1 is alive at 3 and ends before 4, where "late" begins. */
    for (uint32_t time = 3; time <= 4; time++) {
        map.report.peak_time = time;
        text = form_of(bp_map_text, &map);
        assert_non_null(strstr(text, time == 3 ? "peak at op 3 loss with 3 buffers alive\n"
                                               : "peak at op 4 backward with 3 buffers alive\n"));
    }
    map.op_names = NULL;
    map.report.optimal = false;
    map.report.peak_time = 0;
    text = form_of(bp_map_text, &map);
    assert_non_null(strstr(text, "waste 0\npeak at op 0 with 1 buffer alive\n"));
}

/* verifies arena-12.cc7d */
static void json_reads_back(void **state)
{
    (void)state;
    bp_map map = small_map();
    json_error_t error;
    json_t *root = json_loads(form_of(bp_map_json, &map), JSON_REJECT_DUPLICATES, &error);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "arena_bytes")), 224);
    assert_int_equal(json_integer_value(json_object_get(root, "lower_bound_bytes")), 224);
    assert_int_equal(json_integer_value(json_object_get(root, "waste_bytes")), 0);
    assert_true(json_is_true(json_object_get(root, "optimal")));
    assert_int_equal(json_integer_value(json_object_get(root, "peak_op")), 2);
    assert_string_equal(json_string_value(json_object_get(root, "peak_op_name")), "matmul");
    json_t *most = json_object_get(root, "classes");
    assert_int_equal(json_object_size(most), 3);
    assert_int_equal(json_integer_value(json_object_get(most, "tape")), 112);
    json_t *peak = json_object_get(root, "classes_at_peak");
    assert_int_equal(json_integer_value(json_object_get(peak, "weights")), 112);
    json_t *columns = json_object_get(root, "columns");
    static const int64_t tape[6] = {0, 64, 112, 112, 112, 48}; /* rounded up to 16 */
    assert_int_equal(json_array_size(columns), 6);
    for (size_t i = 0; i < 6; i++) {
        json_t *column = json_array_get(columns, i);
        assert_int_equal(json_integer_value(json_object_get(column, "op")), i);
        json_t *bytes = json_object_get(json_object_get(column, "classes"), "tape");
        assert_int_equal(json_integer_value(bytes), tape[i]);
    }
    json_t *rows = json_object_get(root, "buffers");
    assert_int_equal(json_array_size(rows), 6);
    json_t *row = json_array_get(rows, 3);
    assert_string_equal(json_string_value(json_object_get(row, "name")), "h.0 \"mlp\" & <gelu>");
    assert_string_equal(json_string_value(json_object_get(row, "class")), "tape");
    assert_int_equal(json_integer_value(json_object_get(row, "offset")), 112);
    assert_int_equal(json_integer_value(json_object_get(row, "size")), 60);
    assert_int_equal(json_integer_value(json_object_get(row, "lower")), 1);
    assert_int_equal(json_integer_value(json_object_get(row, "upper")), 5);
    json_decref(root);
    map.report.optimal = false;
    map.alignment = 0;
    root = json_loads(form_of(bp_map_json, &map), 0, &error);
    assert_false(json_is_true(json_object_get(root, "optimal")));
    assert_int_equal(json_integer_value(json_object_get(root, "alignment")), 1);
    json_decref(root);
}

static size_t count_of(const char *text, const char *needle)
{
    size_t count = 0;
    for (const char *at = strstr(text, needle); at != NULL; at = strstr(at + 1, needle)) {
        count++;
    }
    return count;
}

/* verifies arena-13.2aff */
static void the_page_stands_alone(void **state)
{
    (void)state;
    bp_map map = small_map();
    const char *page = form_of(bp_map_html, &map);
    map.details = "batch <4>";
    page = form_of(bp_map_html, &map);
    assert_non_null(strstr(page, "model: batch &lt;4&gt;</title>"));
    assert_non_null(strstr(page, "<p class=\"sub\">batch &lt;4&gt;</p>"));
    static const char *const outside[] = {"http", "src=", "href", "url(", "@import", "<script"};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        assert_null(strstr(page, outside[i]));
    }
    static const char *const pairs[][2] = {
        {"<svg ", "</svg>"},     {"<g>", "</g>"},         {"<text ", "</text>"},
        {"<title>", "</title>"}, {"<rect ", "</rect>"},   {"<path ", "</path>"},
        {"<table", "</table>"},  {"<tr>", "</tr>"},       {"<div ", "</div>"},
        {"<style", "</style>"},  {"<html ", "</html>\n"}, {"<body>", "</body>"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_int_equal(count_of(page, pairs[i][0]), count_of(page, pairs[i][1]));
        assert_true(count_of(page, pairs[i][0]) > 0);
    }
    /* Four buffers have bytes and a life. */
    assert_int_equal(count_of(page, "<rect "), 4);
    assert_non_null(strstr(page, "h.0 &quot;mlp&quot; &amp; &lt;gelu&gt;"));
    assert_non_null(strstr(page, "ops 1 to 4 (norm&lt;1&gt; to backward)"));
    assert_non_null(strstr(page, "Memory map of a &lt;small&gt; model"));
    assert_non_null(strstr(page, "waste (proven optimal)"));
    assert_null(strstr(page, "lower bound</text>"));
    /* Two classes have bytes: two bands, two entries in the legend. */
    assert_int_equal(count_of(page, "<path "), 2);
    assert_int_equal(count_of(page, "<i class="), 2);
}

/* Ticks lie where their op does, from the left of the plot to its right; at most ten steps. */
/* verifies arena-13.2aff */
static void ticks_of_time(void **state)
{
    static const struct {
        uint32_t ops;
        size_t ticks;
    } rows[] = {{6, 7}, {9, 10}, {10, 11}, {11, 6}, {20, 11}, {22, 5}, {100, 11}, {110, 6}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_map map = small_map();
        map.op_count = rows[i].ops;
        map.op_names = NULL;
        const char *page = form_of(bp_map_html, &map);
        double before = -1.0;
        size_t found = 0;
        for (const char *at = strstr(page, "<text class=\"tm"); at != NULL && found < rows[i].ticks;
             at = strstr(at + 1, "<text class=\"tm")) {
            const double x = strtod(strstr(at, "x=\"") + 3, NULL);
            assert_true(x > before);
            before = x;
            found++;
        }
        assert_int_equal(found, rows[i].ticks);
        /* and one name of the axis for each plot */
        assert_int_equal(count_of(page, "<text class=\"tm") % (rows[i].ticks + 1), 0);
    }
}

/* Corners of what is drawn, worked out by hand: the plot lies 40 from above, is 560 high for the
 * offsets and 200 for the totals; across, buffers are in percent and bands in thousandths. */
/* verifies arena-17.7767 */
static void buffers_and_bands_lie_where_they_are(void **state)
{
    (void)state;
    bp_map map = small_map();
    const char *page = form_of(bp_map_html, &map);
    /* "h.1" of 48 bytes at 176 of 224, alive for a third from a third on */
    assert_non_null(strstr(page, "<rect class=\"b c1\" x=\"33.333%\" y=\"40.00\" width=\"33.333%\" "
                                 "height=\"120.00\""));
    /* weights fill 112 of 224 bytes from the first op to the last, the tape what is above */
    assert_non_null(strstr(page, "<path class=\"c0\" d=\"M0.00,100.00H166.67L166.67,100.00"));
    assert_non_null(strstr(page, "L166.67,200.00H0.00Z\"><title>weights"));
    assert_non_null(strstr(page, "<path class=\"c1\" d=\"M0.00,100.00H166.67L166.67,42.86H333.33"));
    /* a name is written where there is room for a line of it: 12 of 560 */
    bp_map_buffer thin = {"thin", 1, {.size = 48, .lower = 0, .upper = 6, .offset = 0}};
    map.buffers = &thin;
    map.buffer_count = 1;
    map.report.bytes = 2240;
    assert_non_null(strstr(form_of(bp_map_html, &map), ">thin</text>"));
    map.report.bytes = 2338; /* 11.5 */
    assert_null(strstr(form_of(bp_map_html, &map), ">thin</text>"));
}

/* Each class has its colour, and white letters where it is dark: below 100 of 255 by 0.299 R +
 * 0.587 G
 * + 0.114 B. A picture is as high as its plot with 40 above it and 44 below. */
/* verifies arena-17.7767 */
static void classes_have_their_colours(void **state)
{
    (void)state;
    static const bp_map_class four[] = {
        {"light", "#646464"}, {"dark", "#636363"}, {"green", "#00ab00"}, {"short", "#000"}};
    bp_map map = small_map();
    map.classes = four;
    map.class_count = 4;
    const char *page = form_of(bp_map_html, &map);
    assert_non_null(strstr(page, ".c0{fill:#646464;background:#646464}\n.c1{"));
    assert_non_null(strstr(page, ".c1{fill:#636363;background:#636363}\n.c1+.n{fill:#fff}\n"));
    assert_non_null(strstr(page, ".c2{fill:#00ab00;background:#00ab00}\n.c3{"));
    assert_non_null(strstr(page, ".c3{fill:#000;background:#000}\n</style>"));
    page = strstr(page, "<svg width=\"100%\" height=\"644\" ");
    assert_non_null(page);
    assert_non_null(strstr(page, "<svg width=\"100%\" height=\"284\" "));
}

/* verifies arena-17.7767 */
static void parts_of_the_time_are_a_strip(void **state)
{
    (void)state;
    static const bp_map_part parts[] = {{"<first>", 0, 2}, {"x", 2, 3}};
    bp_map map = small_map();
    assert_null(strstr(form_of(bp_map_html, &map), "class=\"part\""));
    map.parts = parts;
    map.part_count = 2;
    map.op_count = 5;
    const char *page = form_of(bp_map_html, &map);
    assert_non_null(strstr(page, "<rect class=\"part\" x=\"0.000%\" y=\"1.00\" width=\"40.000%\" "
                                 "height=\"16.00\"><title>program &lt;first&gt;\nops 0 to 1<"));
    assert_non_null(strstr(page, "x=\"40.000%\" y=\"1.00\" width=\"60.000%\" "
                                 "height=\"16.00\"><title>program x\nops 2 to 4<"));
    assert_non_null(strstr(page, "<text class=\"n\" x=\"20.000%\" y=\"13.00\">&lt;first&gt;<"));
}

/* verifies arena-17.7767 */
static void the_page_shows_the_bound_that_was_missed(void **state)
{
    (void)state;
    bp_map map = small_map();
    map.report.optimal = false;
    map.report.lower_bound = 200;
    map.report.waste = 24;
    map.op_names = NULL;
    map.report.peak_time = 5;
    map.unit = "<part>";
    map.units = 80;
    const char *page = form_of(bp_map_html, &map);
    assert_non_null(strstr(page, "peak: op 5<"));
    assert_non_null(strstr(page, "<th class=\"r u\">bytes/&lt;part&gt;</th>"));
    assert_non_null(
        strstr(page, "<td>tape</td><td class=\"r\">112</td><td class=\"r u\">1.40</td>"));
    map.unit = NULL;
    page = form_of(bp_map_html, &map);
    assert_non_null(
        strstr(page, "<tr><td>tape</td><td class=\"r\">112</td><td class=\"r\">48</td>"));
    assert_null(strstr(page, "bytes/"));
    assert_non_null(strstr(page, "lower bound</text>"));
    assert_non_null(strstr(page, "class=\"card bad\""));
    assert_non_null(strstr(page, "tape, 60 B (60 bytes)\noffset 112\nops 1 to 4</title>"));
    assert_non_null(strstr(page, "x=\"90.476%\" y=\"32.00\" dx=\"-5.00\">peak: op 5<"));
    map.report.peak_time = 1;
    page = form_of(bp_map_html, &map);
    assert_non_null(strstr(page, "x=\"23.810%\" y=\"32.00\" dx=\"5.00\">peak: op 1<"));
}

/* verifies arena-17.7767 */
static void large_programs_are_gathered_into_columns(void **state)
{
    (void)state;
    static bp_map_buffer rows[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        rows[i] = (bp_map_buffer){
            "x", i % 3, {.size = i == 2000 ? 900 : 4, .lower = i, .upper = i + 2, .offset = i % 8}};
    }
    bp_map map = small_map();
    map.buffers = rows;
    map.buffer_count = ROWS;
    map.op_count = ROWS;
    map.op_names = NULL;
    map.alignment = 1;
    map.report.bytes = 1000;
    /* in text 32 rows, of which one has the large buffer */
    const char *text = form_of(bp_map_text, &map), *rows_of = strstr(text, "\nfrom op");
    assert_non_null(rows_of);
    assert_int_equal(count_of(rows_of, "\n") - count_of(strstr(rows_of, "\n\n"), "\n"), 33);
    assert_int_equal(count_of(rows_of, " 900\n"), 2); /* and the list of classes */
    const char *page = form_of(bp_map_html, &map);
    assert_true(strlen(page) < sizeof output - 1);
    /* The one large buffer is in its column, although other times share it. */
    assert_non_null(strstr(page, "M0.00,"));
    assert_non_null(strstr(page, "900 B at most"));
    /* Everybody alive at one time: the table of the peak is cut. */
    for (uint32_t i = 0; i < ROWS; i++) {
        rows[i].interval.lower = 0;
        rows[i].interval.upper = ROWS + 7; /* lives beyond the program: cut at its end */
    }
    page = form_of(bp_map_html, &map);
    assert_non_null(strstr(page, "and 2,960 smaller ones"));
}

/* verifies arena-12.cc7d */
static void an_empty_map_is_legal(void **state)
{
    (void)state;
    bp_map map = {.title = "", .report = {.method = "none", .optimal = true}};
    json_error_t error;
    json_t *root = json_loads(form_of(bp_map_json, &map), 0, &error);
    assert_non_null(root);
    assert_int_equal(json_array_size(json_object_get(root, "buffers")), 0);
    json_decref(root);
    assert_non_null(strstr(form_of(bp_map_text, &map), "arena 0 bytes"));
    assert_non_null(strstr(form_of(bp_map_html, &map), "</html>"));
    map.classes = classes;
    map.class_count = 3;
    const char *page = form_of(bp_map_html, &map);
    assert_non_null(strstr(page, "most at one time"));
    assert_null(strstr(page, "<td>weights")); /* what has no bytes has no row */
    assert_null(strstr(output, "nan"));
}

/* Ops that have no name are left out, at the beginning of a life and at its end. */
/* verifies arena-13.2aff */
static void ops_may_lack_names(void **state)
{
    (void)state;
    static const char *const some[] = {"", "", "matmul", "", "", "update"};
    bp_map map = small_map();
    map.op_names = some;
    const char *page = form_of(bp_map_html, &map);
    assert_non_null(strstr(page, "ops 0 to 5 ( to update)</title>"));
    assert_non_null(strstr(page, "ops 1 to 4</title>"));
    assert_non_null(strstr(page, "ops 2 to 3 (matmul to )</title>"));
    map.op_count = 5; /* lives that go on are cut there */
    assert_non_null(strstr(form_of(bp_map_html, &map), "ops 0 to 5</title>"));
}

static bp_status refuse(void *user, const char *text, size_t length)
{
    (void)user;
    (void)text;
    (void)length;
    return BP_ERR_STORE;
}

static void errors_are_reported(void **state)
{
    (void)state;
    static const map_form forms[] = {bp_map_text, bp_map_json, bp_map_html};
    bp_map map = small_map();
    size_t bytes = bp_map_scratch(6, 3);
    char buffer[64];
    for (size_t i = 0; i < 3; i++) {
        bp_text text;
        bp_text_init(&text, refuse, NULL, buffer, sizeof buffer);
        assert_int_equal(forms[i](&map, scratch, bytes - 1, &text), BP_ERR_FIT);
        map.class_count = 2;
        assert_int_equal(forms[i](&map, scratch, bytes, &text), BP_ERR_USAGE);
        map.class_count = 3;
        assert_int_equal(forms[i](&map, scratch, bytes, &text), BP_ERR_STORE);
    }
    uint64_t totals[3];
    assert_int_equal(bp_map_totals(&map, scratch, bytes - 1, totals, totals), BP_ERR_FIT);
    static const bp_map_buffer bad[] = {{"x", 0, {.size = 1, .lower = 2, .upper = 1}}};
    map.buffers = bad;
    map.buffer_count = 1;
    assert_int_equal(bp_map_totals(&map, scratch, bytes, totals, totals), BP_ERR_USAGE);
}

static void put_section(bp_text *out, const void *user)
{
    bp_text_string(out, user);
}

/* verifies arena-17.7767 */
static void the_page_takes_a_further_section(void **state)
{
    (void)state;
    bp_map map = small_map();
    map.section = put_section;
    map.section_user = "<h2>more</h2>";
    assert_non_null(strstr(form_of(bp_map_html, &map), "<h2>more</h2>"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_count_each_class),
        cmocka_unit_test(text_lists_by_offset),
        cmocka_unit_test(json_reads_back),
        cmocka_unit_test(the_page_stands_alone),
        cmocka_unit_test(ticks_of_time),
        cmocka_unit_test(buffers_and_bands_lie_where_they_are),
        cmocka_unit_test(classes_have_their_colours),
        cmocka_unit_test(the_page_shows_the_bound_that_was_missed),
        cmocka_unit_test(large_programs_are_gathered_into_columns),
        cmocka_unit_test(an_empty_map_is_legal),
        cmocka_unit_test(ops_may_lack_names),
        cmocka_unit_test(errors_are_reported),
        cmocka_unit_test(the_page_takes_a_further_section),
        cmocka_unit_test(parts_of_the_time_are_a_strip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
