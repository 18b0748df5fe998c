/* SPDX-License-Identifier: MIT */
/* The memory map as one self-contained HTML page. */
#include "arena/map.h"

#include <string.h>

#include "arena/map_work.h"
#include "arena/page.h"

/* How many buffers the table of the peak lists. */
#define PEAK_ROWS 40u

static void html_card(bp_text *out, const char *style, const char *label, uint64_t bytes)
{
    bp_text_string(out, "<div class=\"card ");
    bp_text_string(out, style);
    bp_text_string(out, "\"><small>");
    bp_text_string(out, label);
    bp_text_string(out, "</small><b>");
    bp_text_bytes_human(out, bytes);
    bp_text_string(out, "</b><small>");
    bp_text_grouped(out, bytes);
    bp_text_string(out, " bytes</small></div>\n");
}

/* The certificate: what the arena needs, what no layout can be offloaded, and where that is. */
static void html_certificate(const bp_map *map, bp_text *out)
{
    const bp_layout_report *report = &map->report;
    bp_text_string(out, "<div class=\"cards\">\n");
    html_card(out, "", "arena", report->bytes);
    html_card(out, "", "lower bound", report->lower_bound);
    html_card(out, report->optimal ? "good" : "bad",
              report->optimal ? "waste (proven optimal)" : "waste", report->waste);
    bp_text_string(out, "<div class=\"card\"><small>peak</small><b>op ");
    bp_text_grouped(out, report->peak_time);
    bp_text_string(out, "</b><small>");
    bp_text_html(out, map_op_name(map, report->peak_time));
    bp_text_string(out, "</small></div>\n<div class=\"card\"><small>buffers</small><b>");
    bp_text_grouped(out, map->buffer_count);
    bp_text_string(out, "</b><small>laid out by ");
    bp_text_html(out, report->method);
    bp_text_string(out, "</small></div>\n</div>\n");
}

/* Whether letters on a colour "#rrggbb" are better read in white. */
static bool html_is_dark(const char *colour)
{
    static const char digits[] = "0123456789abcdef";
    static const uint32_t weights[] = {299, 587, 114};
    uint32_t light = 0;
    if (strlen(colour) != 7) {
        return false;
    }
    for (size_t i = 0; i < 6; i++) {
        const char *digit = strchr(digits, colour[i + 1] | 0x20);
        const uint32_t value = digit != NULL ? (uint32_t)(digit - digits) : 0;
        light += value * (i % 2 == 0 ? 16 : 1) * weights[i / 2];
    }
    return light < 100000;
}

/* The colours as style rules, so that a rectangle names its class in a few bytes. */
static void html_colours(const bp_map *map, bp_text *out)
{
    bp_text_string(
        out, "@media(max-width:700px){.scroll td:first-child{min-width:100px}.u{display:none}}\n");
    for (uint32_t c = 0; c < map->class_count; c++) {
        bp_text_string(out, ".c");
        bp_text_u64(out, c);
        bp_text_string(out, "{fill:");
        bp_text_html(out, map->classes[c].colour);
        bp_text_string(out, ";background:");
        bp_text_html(out, map->classes[c].colour);
        bp_text_string(out, "}\n");
        if (html_is_dark(map->classes[c].colour)) {
            bp_text_string(out, ".c");
            bp_text_u64(out, c);
            bp_text_string(out, "+.n{fill:#fff}\n");
        }
    }
}

static void html_legend(const map_work *work, bp_text *out)
{
    const bp_map *map = work->map;
    bp_text_string(out, "<div class=\"legend\">\n");
    for (uint32_t c = 0; c < map->class_count; c++) {
        if (work->most[c] == 0) {
            continue;
        }
        bp_text_string(out, "<span><i class=\"c");
        bp_text_u64(out, c);
        bp_text_string(out, "\"></i>");
        bp_text_html(out, map->classes[c].name);
        bp_text_char(out, ' ');
        bp_text_bytes_human(out, work->most[c]);
        bp_text_string(out, "</span>\n");
    }
    bp_text_string(out, "</div>\n");
}

/* The anatomy: what of each class lives at once, and at the peak. */
static void html_anatomy(const map_work *work, bp_text *out)
{
    const bp_map *map = work->map;
    bp_text_string(out, "<div class=\"scroll\"><table><tr><th>class</th><th class=\"r\">most at "
                        "one time, bytes</th>");
    if (map->unit != NULL) {
        bp_text_string(out, "<th class=\"r u\">bytes/");
        bp_text_html(out, map->unit);
        bp_text_string(out, "</th>");
    }
    bp_text_string(out, "<th class=\"r\">at the peak, bytes</th></tr>\n");
    for (uint32_t c = 0; c < map->class_count; c++) {
        if (work->most[c] == 0) {
            continue;
        }
        bp_text_string(out, "<tr><td>");
        bp_text_html(out, map->classes[c].name);
        bp_text_string(out, "</td><td class=\"r\">");
        bp_text_grouped(out, work->most[c]);
        if (map->unit != NULL) {
            bp_text_string(out, "</td><td class=\"r u\">");
            bp_text_fixed_padded(out, (double)work->most[c] / (double)map->units, 2, 0);
        }
        bp_text_string(out, "</td><td class=\"r\">");
        bp_text_grouped(out, work->at_peak[c]);
        bp_text_string(out, "</td></tr>\n");
    }
    bp_text_string(out, "</table></div>\n");
}

static void html_row(const bp_map *map, bp_text *out, const bp_map_buffer *buffer)
{
    bp_text_string(out, "<tr><td>");
    bp_text_html(out, buffer->name);
    bp_text_string(out, "</td><td>");
    bp_text_html(out, map->classes[buffer->class_index].name);
    bp_text_string(out, "</td><td class=\"r\">");
    bp_text_bytes_human(out, buffer->interval.size);
    bp_text_string(out, "</td><td class=\"r\"><code>0x");
    bp_text_hex(out, buffer->interval.offset, 10);
    bp_text_string(out, "</code></td><td class=\"r\">");
    bp_text_u64(out, buffer->interval.lower);
    bp_text_string(out, "</td><td class=\"r\">");
    bp_text_u64(out, buffer->interval.upper);
    bp_text_string(out, "</td></tr>\n");
}

/* The largest buffers that live at the peak: what to shorten or shrink to need less. */
static void html_peak(map_work *work, bp_text *out)
{
    const bp_map *map = work->map;
    bp_text_string(out,
                   "<h2>Alive at the peak, largest first</h2>\n<div "
                   "class=\"scroll\"><table><tr><th>buffer</th><th>class"
                   "</th><th class=\"r\">size</th><th class=\"r\">offset</th><th class=\"r\">born"
                   "</th><th class=\"r\">dies</th></tr>\n");
    map_sort(work, MAP_BY_SIZE);
    uint64_t live = 0;
    for (uint32_t i = 0; i < map->buffer_count; i++) {
        const bp_map_buffer *buffer = &map->buffers[work->order[i]];
        if (!map_lives(buffer, map->report.peak_time)) {
            continue;
        }
        if (live < PEAK_ROWS) {
            html_row(map, out, buffer);
        }
        live++;
    }
    bp_text_string(out, "</table></div>\n");
    if (live > PEAK_ROWS) {
        bp_text_string(out, "<p>and ");
        bp_text_grouped(out, live - PEAK_ROWS);
        bp_text_string(out, " smaller ones</p>\n");
    }
}

/* The title, and what was planned behind `between`. */
static void html_name(const bp_map *map, bp_text *out, const char *between)
{
    bp_text_string(out, "Memory map of ");
    bp_text_html(out, map->title);
    if (map->details != NULL) {
        bp_text_string(out, between);
        bp_text_html(out, map->details);
    }
}

bp_status bp_map_html(const bp_map *map, void *scratch, size_t scratch_bytes, bp_text *out)
{
    map_work work;
    BP_TRY(map_begin(&work, map, scratch, scratch_bytes));
    bp_page_head(out);
    html_name(map, out, ": ");
    bp_page_style(out);
    html_colours(map, out);
    bp_text_string(out, "</style>\n</head>\n<body>\n<h1>");
    html_name(map, out, "</h1>\n<p class=\"sub\">");
    bp_text_string(out, map->details != NULL ? "</p>\n" : "</h1>\n");
    html_certificate(map, out);
    bp_text_string(out, "<h2>Where every buffer lies, and when</h2>\n");
    html_legend(&work, out);
    map_svg_memory(&work, out);
    bp_text_string(out, "<h2>Bytes alive, by class</h2>\n");
    map_svg_totals(&work, out);
    html_anatomy(&work, out);
    if (map->section != NULL) {
        map->section(out, map->section_user);
    }
    html_peak(&work, out);
    bp_text_string(out, "</body>\n</html>\n");
    return bp_text_flush(out);
}
