/* SPDX-License-Identifier: MIT */
/* The curve of time against bytes, in words, numbers and a picture. */
#include "tools/bedplate/planning/frontier_text.h"

#include "core/plan/schedule.h"
#include "tools/bedplate/pages/plot.h"

static void put_grouped(bp_text *text, uint64_t value)
{
    char grouped[32];
    bp_text number;
    bp_text_init(&number, NULL, NULL, grouped, sizeof grouped);
    bp_text_grouped(&number, value);
    bp_status fits = bp_text_flush(&number);
    (void)fits;
    bp_text_padded(text, grouped, 20, BP_TEXT_RIGHT);
}

/* Seconds at ten budgets: choosing among what selective:NAMES drops, and among kept sets. */
static void put_gains(bp_text *text, const bp_frontier *f)
{
    bp_text_string(text, "\n       budget of arena     classes, s   kept sets, s      saved, %\n");
    for (uint32_t i = 0; i < BP_FRONTIER_GAINS; i++) {
        const bp_fit_gain *gain = &f->gain[i];
        const double saved = gain->before > 0.0 ? 1.0 - gain->after / gain->before : 0.0;
        put_grouped(text, gain->budget);
        bp_text_fixed_padded(text, gain->before, 4, 15);
        bp_text_fixed_padded(text, gain->after, 4, 15);
        bp_text_fixed_padded(text, 100.0 * saved, 2, 14);
        bp_text_char(text, '\n');
    }
}

void frontier_put_table(bp_text *text, const bp_frontier *f)
{
    double fastest = f->point[f->count - 1].seconds;
    bp_text_string(text, "         arena bytes    s a step  times the fastest  checkpointing\n");
    for (uint32_t i = 0; i < f->count; i++) {
        put_grouped(text, f->point[i].arena_bytes);
        bp_text_fixed_padded(text, f->point[i].seconds, 4, 12);
        bp_text_fixed_padded(text, f->point[i].seconds / fastest, 3, 19);
        bp_text_string(text, "  ");
        bp_text_string(text, bp_policy_name(f->point[i].kind));
        bp_text_char(text, '\n');
    }
    put_gains(text, f);
}

static void json_gains(output *out, const bp_frontier *f)
{
    json_list(out, "frontier_gains");
    for (uint32_t i = 0; i < BP_FRONTIER_GAINS; i++) {
        json_item(out);
        json_count(out, "budget_bytes", f->gain[i].budget);
        json_real(out, "seconds_classes", f->gain[i].before, 6);
        json_real(out, "seconds_sets", f->gain[i].after, 6);
        json_close(out);
    }
    json_list_end(out);
}

void frontier_json(output *out, const bp_frontier *f)
{
    json_list(out, "frontier");
    for (uint32_t i = 0; i < f->count; i++) {
        json_item(out);
        json_count(out, "arena_bytes", f->point[i].arena_bytes);
        json_real(out, "seconds", f->point[i].seconds, 6);
        json_text(out, "policy", bp_policy_name(f->point[i].kind));
        json_close(out);
    }
    json_list_end(out);
    json_gains(out, f);
}

static void put_point(bp_text *text, const plot *p, const bp_fit_point *point)
{
    bp_text_string(text, "<circle r=\"4\" fill=\"#0072b2\" cx=\"");
    bp_text_fixed(text, plot_left(p, (double)point->arena_bytes), 2);
    bp_text_string(text, "%\" cy=\"");
    bp_text_fixed(text, plot_down(p, point->seconds), 2);
    bp_text_string(text, "\"><title>");
    bp_text_bytes_human(text, point->arena_bytes);
    bp_text_string(text, " (");
    bp_text_grouped(text, point->arena_bytes);
    bp_text_string(text, " bytes), ");
    bp_text_general(text, point->seconds, 4);
    bp_text_string(text, " s a step, checkpointing ");
    bp_text_html(text, bp_policy_name(point->kind));
    bp_text_string(text, "</title></circle>\n");
}

void frontier_page(bp_text *text, const bp_frontier *f)
{
    const bp_fit_point *first = &f->point[0], *last = &f->point[f->count - 1];
    plot p = {
        .x = {(double)first->arena_bytes, (double)last->arena_bytes, "arena", PLOT_BYTES, false},
        .y = {last->seconds, first->seconds, "seconds a step (estimated)", PLOT_NUMBER, false}};
    plot_axis_fit(&p.x, true);
    plot_axis_fit(&p.y, true);
    bp_text_string(text, "<h2>Time of a step against the size of the arena</h2>\n");
    plot_begin(text, &p, "estimated time of a step against the size of the arena");
    plot_paths(text);
    bp_text_string(text, "<path fill=\"none\" stroke=\"#0072b2\" stroke-width=\"2\" d=\"");
    for (uint32_t i = 0; i < f->count; i++) {
        bp_text_char(text, i == 0 ? 'M' : 'L');
        plot_pair(text, &p, (double)f->point[i].arena_bytes, f->point[i].seconds);
    }
    bp_text_string(text, "\"/>\n");
    plot_paths_end(text);
    for (uint32_t i = 0; i < f->count; i++) {
        put_point(text, &p, &f->point[i]);
    }
    plot_end(text);
}
