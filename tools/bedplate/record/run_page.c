/* SPDX-License-Identifier: MIT */
/* Curves, tables and pictures of runs. */
#include "tools/bedplate/record/run_page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arena/page.h"
#include "core/base/store.h"
#include "tools/bedplate/app/path_guard.h"
#include "tools/bedplate/pages/class_colour.h"
#include "tools/bedplate/pages/plot.h"
#include "tools/bedplate/record/run_curves.h"
#include "tools/bedplate/record/run_events.h"
#include "tools/bedplate/record/run_script.h"

enum { VALUE = 512 };

/* Colours of runs for light and dark, of the curves, and of the bars of memory. */
static const char page_rules[] =
    ":root{--r0:#0072b2;--r1:#d55e00;--r2:#008a64;--r3:#b8578f;--r4:#9a6b00;--r5:#3d8fc0;"
    "--r6:#444;--r7:#7a5cc0}\n"
    "@media(prefers-color-scheme:dark){:root{--r0:#4aa8e8;--r1:#ff8f52;--r2:#31c79a;--r3:#e59ac6;"
    "--r4:#f0b429;--r5:#8fd2f8;--r6:#ddd;--r7:#b9a6f0}}\n"
    ".r0{color:var(--r0)}.r1{color:var(--r1)}.r2{color:var(--r2)}.r3{color:var(--r3)}"
    ".r4{color:var(--r4)}.r5{color:var(--r5)}.r6{color:var(--r6)}.r7{color:var(--r7)}\n"
    "polyline{fill:none;stroke:currentColor;stroke-width:1.6}.raw{opacity:.3;stroke-width:1}"
    ".dash{stroke-dasharray:5 3}circle{fill:var(--paper);stroke:currentColor;stroke-width:1.6}\n"
    /* Beside each other where there is room, the loss alone: a run by rewards has twenty. */
    "@media(min-width:1000px){.charts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));"
    "column-gap:28px}.charts>:first-child{grid-column:1/-1}}\n"
    "h1~h1{margin-top:36px}"
    ".e{stroke:var(--soft);stroke-dasharray:2 3}.plot{position:relative}"
    ".tip{position:absolute;top:30px;background:var(--card);border:1px solid var(--line);"
    "border-radius:6px;padding:4px 8px;font-size:12px;white-space:pre;pointer-events:none;"
    "max-width:100%;overflow:hidden;box-sizing:border-box}\n"
    "#bar{display:flex;flex-wrap:wrap;gap:4px "
    "22px;margin-top:18px;color:var(--soft);font-size:13px}"
    "#bar[hidden]{display:none}#bar label,.toggle{display:inline-flex;align-items:center;gap:6px}"
    ".toggle{font-size:13px;font-weight:400;color:var(--soft);margin-left:14px}\n"
    ".bars{margin:6px 0 14px}.bars p{margin:6px 0 2px;font-size:13px;color:var(--soft)}"
    ".bars div{display:flex;height:20px;background:var(--card);overflow:hidden}\n"
    ".long{max-height:460px;overflow-y:auto}td.d{white-space:nowrap;color:var(--soft)}"
    "tr.d td{background:#8883}td,th{vertical-align:top}td{overflow-wrap:break-word}"
    "code,td.a{overflow-wrap:anywhere}summary{cursor:pointer;color:var(--soft);margin:6px 0}\n"
    "</style>\n<link rel=\"icon\" href=\"data:,\">\n";

static void page_real(bp_text *t, double value, unsigned digits)
{
    if (isfinite(value)) {
        bp_text_general(t, value, digits);
    } else {
        bp_text_string(t, "-");
    }
}

static void page_cell(bp_text *t, const char *text)
{
    bp_text_string(t, "<td>");
    bp_text_html(t, text);
    bp_text_string(t, "</td>");
}

static void page_number_cell(bp_text *t, double value, unsigned digits)
{
    bp_text_string(t, "<td class=\"r\">");
    page_real(t, value, digits);
    bp_text_string(t, "</td>");
}

/* A share of the steps. */
static void page_share_cell(bp_text *t, uint64_t part, uint64_t steps)
{
    bp_text_string(t, "<td class=\"r\">");
    bp_text_fixed(t, steps > 0 ? 100.0 * (double)part / (double)steps : 0, 1);
    bp_text_string(t, "&nbsp;%</td>");
}

static void page_square(bp_text *t, uint32_t run)
{
    bp_text_string(t, "<span class=\"r");
    bp_text_u64(t, run);
    bp_text_string(t, "\">&#9632;</span> ");
}

static void page_count_cell(bp_text *t, uint64_t value)
{
    bp_text_string(t, "<td class=\"r\">");
    bp_text_grouped(t, value);
    bp_text_string(t, "</td>");
}

static void page_rows_begin(bp_text *t, const char *title, const char *heads)
{
    bp_text_string(t, "<h2>");
    bp_text_string(t, title);
    bp_text_string(t, "</h2>\n<div class=\"scroll\"><table><tr>");
    bp_text_string(t, heads);
    bp_text_string(t, "</tr>\n");
}

static const char *page_state(const run_view *v)
{
    return v->ended       ? "complete"
           : v->code == 0 ? "stopped"
           : v->code > 0  ? "ended"
                          : "running or killed";
}

static double page_least(const view_curve *c)
{
    double least = (double)NAN;
    for (uint32_t i = 0; i < c->count; i++) {
        least = !(least <= c->value[i]) ? c->value[i] : least;
    }
    return least;
}

static void page_summary(bp_text *t, const run_view *views, uint32_t count)
{
    bp_text_string(t, "<div class=\"scroll\"><table><tr><th></th><th>directory</th><th>state</th>"
                      "<th class=\"r\">step</th><th class=\"r\">of</th><th class=\"r\">loss</th>"
                      "<th class=\"r\">best evaluation loss</th><th class=\"r\">saves</th>"
                      "<th class=\"r\">resumes</th></tr>\n");
    for (uint32_t i = 0; i < count; i++) {
        const run_view *v = &views[i];
        bp_text_string(t, "<tr><td>");
        page_square(t, i);
        bp_text_string(t, "</td>");
        page_cell(t, v->directory);
        page_cell(t, page_state(v));
        page_count_cell(t, v->steps);
        page_count_cell(t, v->total);
        page_number_cell(t, view_last(&v->curves[VIEW_LOSS]), 6);
        page_number_cell(t, page_least(&v->curves[VIEW_EVAL]), 6);
        page_count_cell(t, v->saves);
        page_count_cell(t, v->resumes);
        bp_text_string(t, "</tr>\n");
    }
    bp_text_string(t, "</table></div>\n");
}

static void page_card_begin(bp_text *t, const char *label)
{
    bp_text_string(t, "<div class=\"card\"><small>");
    bp_text_html(t, label);
    bp_text_string(t, "</small><b>");
}

static void page_card_end(bp_text *t, const char *below)
{
    bp_text_string(t, "</b><small>");
    bp_text_html(t, below);
    bp_text_string(t, "</small></div>\n");
}

/* A curve's last value; nothing where it has none. */
static void page_card(bp_text *t, const char *label, const view_curve *c)
{
    if (c->count > 0) {
        page_card_begin(t, label);
        page_real(t, view_last(c), 5);
        bp_text_string(t, "</b><small>after step ");
        bp_text_grouped(t, view_count(c->step[c->count - 1]));
        bp_text_string(t, "</small></div>\n");
    }
}

/* A run by rewards has twenty metrics, each with a curve: the ends of distributions have no card.
 */
static bool page_worth_card(const char *name)
{
    static const char *const details[] = {"/std",           "/min_length",
                                          "/max_length",    "_terminated_length",
                                          "_ratio/low_min", "_ratio/high_max"};
    bool detail = false;
    for (size_t i = 0; i < sizeof details / sizeof details[0]; i++) {
        const size_t whole = strlen(name), part = strlen(details[i]);
        detail = detail || (whole >= part && strcmp(name + whole - part, details[i]) == 0);
    }
    return !detail;
}

/* What one run is at, as cards. */
static void page_cards(bp_text *t, const run_view *v)
{
    const plot_axis clock = {0, 0, "", PLOT_SECONDS, false};
    bp_text_string(t, "<div class=\"cards\">\n");
    page_card_begin(t, "step");
    bp_text_grouped(t, v->steps);
    bp_text_string(t, "</b><small>of ");
    bp_text_grouped(t, v->total);
    bp_text_string(t, ", ");
    bp_text_string(t, page_state(v));
    bp_text_string(t, "</small></div>\n");
    page_card(t, "loss", &v->curves[VIEW_LOSS]);
    page_card(t, "evaluation loss", &v->curves[VIEW_EVAL]);
    for (uint32_t i = 0; i < v->metric_count; i++) {
        if (page_worth_card(v->metrics[i].name)) {
            page_card(t, v->metrics[i].name, &v->metrics[i].curve);
        }
    }
    if (v->curves[VIEW_SPEED].count > 0) {
        page_card_begin(t, v->by_samples ? "samples per second" : "tokens per second");
        plot_value(t, &(plot_axis){0, 1, "", PLOT_NUMBER, false},
                   view_last(&v->curves[VIEW_SPEED]));
        page_card_end(t, "");
    }
    if (v->ran > 0) {
        page_card_begin(t, "running time");
        plot_value(t, &clock, v->ran);
        bp_text_string(t, "</b><small>");
        if (v->code < 0 && v->left > 0) {
            plot_value(t, &clock, v->left);
            bp_text_string(t, " left");
        } else {
            bp_text_grouped(t, v->resumes);
            bp_text_string(t, v->resumes == 1 ? " resume" : " resumes");
        }
        bp_text_string(t, "</small></div>\n");
    }
    page_card_begin(t, "saves");
    bp_text_grouped(t, v->saves);
    bp_text_string(t, "</b><small>");
    bp_text_grouped(t, v->save_failures);
    bp_text_string(t, " failed</small></div>\n</div>\n");
}

/* The value of an option in a run's first line. */
static bool page_option(const run_view *v, const char *name, char value[VALUE])
{
    char key[VIEW_TEXT];
    const char *at = NULL;
    while (view_pair(v->run, "options", &at, key, value, VIEW_TEXT)) {
        if (strcmp(key, name) == 0) {
            return true;
        }
    }
    value[0] = '\0';
    return false;
}

static void page_option_row(bp_text *t, const run_view *views, uint32_t count, const char *name,
                            bool differing)
{
    char first[VALUE], value[VALUE];
    bool differs = false;
    (void)page_option(&views[0], name, first);
    for (uint32_t i = 1; i < count; i++) {
        (void)page_option(&views[i], name, value);
        differs = differs || strcmp(first, value) != 0;
    }
    if (differs != differing) {
        return;
    }
    bp_text_string(t, differs ? "<tr class=\"d\">" : "<tr>");
    page_cell(t, name);
    for (uint32_t i = 0; i < count; i++) {
        (void)page_option(&views[i], name, value);
        page_cell(t, value);
    }
    bp_text_string(t, "</tr>\n");
}

static void page_option_head(bp_text *t, const run_view *views, uint32_t count)
{
    bp_text_string(t, "<div class=\"scroll\"><table><tr><th>option</th>");
    for (uint32_t i = 0; i < count; i++) {
        bp_text_string(t, "<th>");
        page_square(t, i);
        bp_text_html(t, views[i].directory);
        bp_text_string(t, "</th>");
    }
    bp_text_string(t, "</tr>\n");
}

/* Options of the first run, and those that only others have; what differs is shown, what does not
 * can be unfolded. */
static void page_options(bp_text *t, const run_view *views, uint32_t count)
{
    char name[VIEW_TEXT], value[VIEW_TEXT], other[VALUE];
    bp_text_string(t, count > 1 ? "<h2>Options that differ</h2>\n" : "<h2>Options</h2>\n");
    for (int same = count > 1 ? 0 : 1; same < 2; same++) {
        bp_text_string(t, same == 0   ? ""
                          : count > 1 ? "<details><summary>the others, which are alike</summary>\n"
                                      : "<details><summary>all of them</summary>\n");
        page_option_head(t, views, count);
        for (uint32_t i = 0; i < count; i++) {
            const char *at = NULL;
            while (view_pair(views[i].run, "options", &at, name, value, sizeof name)) {
                bool shown = false;
                for (uint32_t j = 0; j < i; j++) {
                    shown = shown || page_option(&views[j], name, other);
                }
                if (!shown) {
                    page_option_row(t, views, count, name, same == 0);
                }
            }
        }
        bp_text_string(t, same == 0 ? "</table></div>\n" : "</table></div></details>\n");
    }
}

/* A part of a bar, in percent of the most. */
static void page_bar(bp_text *t, double bytes, double most, const char *colour, const char *name)
{
    if (!(bytes > 0)) {
        return;
    }
    bp_text_string(t, "<i style=\"width:");
    bp_text_fixed(t, 100 * bytes / most, 2);
    bp_text_string(t, "%;background:");
    bp_text_string(t, colour);
    bp_text_string(t, "\" title=\"");
    bp_text_html(t, name);
    bp_text_char(t, ' ');
    bp_text_grouped(t, view_count(bytes));
    bp_text_string(t, " bytes\"></i>");
}

/* A plan is of one rank, what is resident of the process. */
static double page_ranks(const run_view *v)
{
    return v->process_ranks > 1 ? v->process_ranks : 1;
}

static void page_ranks_put(bp_text *t, const char *words, const run_view *v)
{
    bp_text_string(t, words);
    if (page_ranks(v) > 1) {
        bp_text_string(t, ", ");
        bp_text_u64(t, view_count(v->process_ranks));
        bp_text_string(t, " ranks");
    }
}

#define BESIDE "#888b" /* colours of what no class has */
#define USED   "var(--ink)"

/* Planned above, used below, in one scale. */
static void page_bars(bp_text *t, const run_view *v)
{
    const double ranks = page_ranks(v), planned = ranks * (v->arena + v->host);
    const double most = (planned > v->resident ? planned : v->resident) / ranks;
    double at = 0;
    page_ranks_put(t, "<div class=\"bars\"><p>planned", v);
    bp_text_string(t, "</p><div>");
    for (uint32_t i = 0; i < v->class_count; i++) {
        page_bar(t, v->class_bytes[i], most, class_colour(v->classes[i]), v->classes[i]);
        at += v->class_bytes[i];
    }
    page_bar(t, v->arena - at, most, "#8886", "arena, not live at the peak");
    page_bar(t, v->host, most, BESIDE, "beside the arena");
    bp_text_string(t, "</div>");
    if (v->resident > 0) {
        bp_text_string(t, "<p>used (resident)</p><div>");
        page_bar(t, v->resident, most * ranks, USED, "resident");
        bp_text_string(t, "</div>");
    }
    bp_text_string(t, "</div>\n");
}

static void page_memory_row(bp_text *t, const char *colour, const char *name, double bytes)
{
    if (!(bytes > 0)) {
        return;
    }
    bp_text_string(t, "<tr><td>");
    if (colour != NULL) {
        bp_text_string(t, "<span style=\"color:");
        bp_text_string(t, colour);
        bp_text_string(t, "\">&#9632;</span> ");
    }
    bp_text_html(t, name);
    bp_text_string(t, "</td><td class=\"r\">");
    bp_text_grouped(t, view_count(bytes));
    bp_text_string(t, "</td><td class=\"r\">");
    bp_text_bytes_human(t, view_count(bytes));
    bp_text_string(t, "</td></tr>\n");
}

static void page_memory(bp_text *t, const run_view *v)
{
    if (!(v->arena + v->host > 0)) {
        return;
    }
    bp_text_string(t, "<h2>Memory: planned and used</h2>\n");
    page_bars(t, v);
    bp_text_string(t, "<div class=\"scroll\"><table><tr><th>memory at the peak</th>"
                      "<th class=\"r\">bytes</th><th></th></tr>\n");
    for (uint32_t i = 0; i < v->class_count; i++) {
        page_memory_row(t, class_colour(v->classes[i]), v->classes[i], v->class_bytes[i]);
    }
    page_memory_row(t, NULL, "arena", v->arena);
    page_memory_row(t, BESIDE, "beside the arena", v->host);
    char all[64];
    bp_text words;
    bp_text_init(&words, NULL, NULL, all, sizeof all);
    page_ranks_put(&words, "planned in all", v);
    if (bp_text_flush(&words) == BP_OK) {
        page_memory_row(t, NULL, all, page_ranks(v) * (v->arena + v->host));
    }
    page_memory_row(t, USED, "used: the most that was resident", v->resident);
    bp_text_string(t, "</table></div>\n");
    run_curves_step(t, v);
}

/* What the model wrote in the newest steps: of a prompt the best and the worst completion. */
static void page_samples(bp_text *t, const run_view *v)
{
    const uint32_t first = v->sample_count > VIEW_SAMPLES ? v->sample_count - VIEW_SAMPLES : 0;
    if (v->sample_count == 0) {
        return;
    }
    page_rows_begin(t, "Completions",
                    "<th>step</th><th>prompt</th><th>the best</th><th>reward</th><th>the worst</th>"
                    "<th>reward</th>");
    for (uint32_t i = v->sample_count; i > first; i--) {
        const view_sample *sample = &v->samples[(i - 1) % VIEW_SAMPLES];
        bp_text_string(t, "<tr>");
        page_count_cell(t, view_count(sample->step));
        page_cell(t, sample->prompt);
        page_cell(t, sample->best);
        page_number_cell(t, sample->best_reward, 5);
        page_cell(t, sample->worst);
        page_number_cell(t, sample->worst_reward, 5);
        bp_text_string(t, "</tr>\n");
    }
    bp_text_string(t, "</table></div>\n");
}

/* Nothing where no run has anything to tell here. */
static void page_checks(bp_text *t, const run_view *views, uint32_t count)
{
    uint64_t any = 0;
    for (uint32_t i = 0; i < count; i++) {
        const run_view *v = &views[i];
        any |= v->replays | v->mismatches | v->verified | v->proven | v->anomalies | v->left_out |
               v->save_failures;
    }
    if (any == 0) {
        return;
    }
    page_rows_begin(t, "Checks and decisions",
                    "<th>directory</th><th>steps computed twice</th><th>share</th>"
                    "<th>that differed</th><th>the last of them equal</th>"
                    "<th>proven by replay</th><th>anomalies</th><th>updates left out</th>"
                    "<th>saves that failed</th>");
    for (uint32_t i = 0; i < count; i++) {
        const run_view *v = &views[i];
        bp_text_string(t, "<tr>");
        page_cell(t, v->directory);
        page_count_cell(t, v->replays);
        page_share_cell(t, v->replays, v->steps);
        page_count_cell(t, v->mismatches);
        page_count_cell(t, v->verified);
        page_share_cell(t, v->proven, v->steps);
        page_count_cell(t, v->anomalies);
        page_count_cell(t, v->left_out);
        page_count_cell(t, v->save_failures);
        bp_text_string(t, "</tr>\n");
    }
    bp_text_string(t, "</table></div>\n");
}

static void page_machine(bp_text *t, const run_view *v)
{
    static const char *const keys[] = {"host",   "system",  "release", "machine", "processor",
                                       "device", "kernels", "threads", "version", "source"};
    char value[VIEW_TEXT];
    if (v->start[0] == '\0' && v->chain[0] == '\0') {
        return;
    }
    page_rows_begin(t, "Machine and program", "");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (view_text(v->start, keys[i], value, sizeof value)) {
            bp_text_string(t, "<tr>");
            page_cell(t, keys[i]);
            bp_text_string(t, "<td class=\"a\">");
            bp_text_html(t, value);
            bp_text_string(t, "</td></tr>\n");
        }
    }
    bp_text_string(t, "<tr><td>chain of the record</td><td><code>");
    bp_text_html(t, v->chain);
    bp_text_string(t, "</code></td></tr>\n</table></div>\n");
}

static void page_title(bp_text *t, const run_view *views, uint32_t count)
{
    bp_text_string(t, count == 1 ? "Run " : "Runs ");
    for (uint32_t i = 0; i < count; i++) {
        bp_text_string(t, i > 0 ? ", " : "");
        bp_text_html(t, views[i].directory);
    }
}

static void page_begin(bp_text *t, const run_view *views, uint32_t count)
{
    bp_page_head(t);
    page_title(t, views, count);
    bp_page_style(t);
    bp_text_string(t, page_rules);
    run_script_policy(t);
    bp_text_string(t, "</head>\n<body>\n");
}

static void run_page_put(bp_text *t, const run_view *views, uint32_t count)
{
    page_begin(t, views, count);
    run_curves_clocks(t, views, count);
    bp_text_string(t, "<h1>");
    page_title(t, views, count);
    bp_text_string(t, "</h1>\n");
    if (count == 1) {
        page_cards(t, &views[0]);
    } else {
        page_summary(t, views, count);
    }
    run_curves_put(t, views, count);
    page_checks(t, views, count);
    page_options(t, views, count);
    for (uint32_t i = 0; i < count; i++) {
        if (count > 1) {
            bp_text_string(t, "<h1>");
            page_square(t, i);
            bp_text_html(t, views[i].directory);
            bp_text_string(t, "</h1>\n");
        }
        page_samples(t, &views[i]);
        page_memory(t, &views[i]);
        page_machine(t, &views[i]);
        run_events_put(t, &views[i]);
    }
    run_script_put(t);
    bp_text_string(t, "</body></html>\n");
}

static bp_status page_sink(void *user, const char *text, size_t length)
{
    return fwrite(text, 1, length, user) == length ? BP_OK : BP_ERR_STORE;
}

bp_status run_page_write(const run_view *views, uint32_t count, const char *path, bp_error *error)
{
    char temporary[BP_STORE_PATH_MAX + 8];
    char buffer[4096];
    bp_text text;
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    const int made = path_guard_create(temporary, 0666);
    FILE *file = made >= 0 ? fdopen(made, "w") : NULL;
    bp_status status = file != NULL ? BP_OK : BP_ERR_STORE;
    if (file != NULL) {
        bp_text_init(&text, page_sink, file, buffer, sizeof buffer);
        run_page_put(&text, views, count);
        status = bp_text_flush(&text);
        const bool closed = fclose(file) == 0;
        const bool moved = closed && status == BP_OK && rename(temporary, path) == 0;
        status = moved ? BP_OK : BP_ERR_STORE;
        if (!moved) {
            (void)remove(temporary);
        }
    }
    return status == BP_OK
               ? BP_OK
               : bp_error_set(error, status, "report", "the page could not be written", path);
}
