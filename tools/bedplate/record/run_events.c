/* SPDX-License-Identifier: MIT */
/* Events as sentences. */
#include "tools/bedplate/record/run_events.h"

#include <math.h>
#include <string.h>
#include <time.h>

typedef struct event_words {
    bp_text *t;
    const view_event *e;
    void (*text)(bp_text *t, const char *text); /* of a run: bp_text_html, or bp_text_string */
} event_words;

static void say(const event_words *w, const char *words)
{
    bp_text_string(w->t, words);
}

/* A text of the event behind `before`; nothing where it has none. */
static void say_text(const event_words *w, const char *before, const char *key)
{
    char text[VIEW_TEXT];
    if (view_text(w->e->text, key, text, sizeof text) && text[0] != '\0') {
        bp_text_string(w->t, before);
        w->text(w->t, text);
    }
}

static bool say_number(const event_words *w, const char *before, const char *key, const char *after)
{
    double value;
    const bool known = view_number(w->e->text, key, &value) && isfinite(value);
    if (known) {
        bp_text_string(w->t, before);
        if (value >= 1000 && value < 1e15) {
            bp_text_grouped(w->t, view_count(value));
        } else {
            bp_text_general(w->t, value, 4);
        }
        bp_text_string(w->t, after);
    }
    return known;
}

static bool sentence_flag(const event_words *w, const char *key)
{
    char word[8];
    return view_text(w->e->text, key, word, sizeof word) && strcmp(word, "true") == 0;
}

static void say_bytes(const event_words *w, const char *before, const char *key)
{
    double value;
    if (view_number(w->e->text, key, &value) && value >= 0) {
        bp_text_string(w->t, before);
        bp_text_bytes_human(w->t, view_count(value));
        bp_text_string(w->t, " (");
        bp_text_grouped(w->t, view_count(value));
        bp_text_string(w->t, " bytes)");
    }
}

static const char *signal_name(unsigned number)
{
    static const struct {
        unsigned number;
        const char *name;
    } names[] = {{1, "SIGHUP"},   {2, "SIGINT"},   {9, "SIGKILL"},
                 {10, "SIGUSR1"}, {12, "SIGUSR2"}, {15, "SIGTERM"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].number == number) {
            return names[i].name;
        }
    }
    return "a signal";
}

static void sentence_start(const event_words *w)
{
    say(w, w->e->kind[0] == 's' ? "Started" : "Resumed");
    say_text(w, " with bedplate ", "version");
    say_text(w, " on ", "host");
    say(w, ".");
}

static void sentence_plan(const event_words *w)
{
    say(w, "Planned");
    say_bytes(w, " an arena of ", "arena_bytes");
    say_bytes(w, "; a checkpoint has ", "checkpoint_bytes");
    say(w, ".");
}

static void sentence_eval(const event_words *w)
{
    say(w, "Evaluated");
    (void)say_number(w, ": loss ", "loss", "");
    say(w, ".");
}

static void sentence_save(const event_words *w)
{
    say(w, "Saved a checkpoint");
    (void)say_number(w, " in ", "seconds", " s");
    say(w, sentence_flag(w, "read_back") ? ", and read it back" : "");
    say(w, sentence_flag(w, "due") ? "." : ", before it was due.");
}

static void sentence_save_failed(const event_words *w)
{
    say(w, "A save failed");
    say_text(w, ": ", "reason");
    say_text(w, ", file ", "file");
    say(w, ".");
}

static void sentence_signal(const event_words *w)
{
    double number = 0;
    const bool known = view_number(w->e->text, "number", &number) && number > 0;
    const bool stops = sentence_flag(w, "stop");
    say(w, stops                        ? "Stopped"
           : sentence_flag(w, "save")   ? "Asked for a checkpoint"
           : sentence_flag(w, "report") ? "Asked for this page"
           : sentence_flag(w, "reopen") ? "Asked to open the logs again"
                                        : "Stopped");
    if (known) {
        say(w, " by ");
        say(w, signal_name((unsigned)view_count(number) & 255u));
    } else {
        say_text(w, ": ", "why");
    }
    say(w, ".");
}

static void sentence_anomaly(const event_words *w)
{
    say(w, "Anomaly");
    say_text(w, ": ", "kind");
    (void)say_number(w, ", loss ", "loss", "");
    (void)say_number(w, " (limit ", "loss_limit", ")");
    (void)say_number(w, ", gradient norm ", "grad_norm", "");
    (void)say_number(w, " (limit ", "grad_norm_limit", ")");
    say_text(w, "; ", "action");
    say(w, ".");
}

static void sentence_mismatch(const event_words *w)
{
    say(w, "A step computed twice gave two results");
    say_text(w, ": ", "class");
    say_text(w, ", first in ", "tensor");
    say(w, ".");
}

static void sentence_roll(const event_words *w)
{
    say(w, "Rolled back");
    (void)say_number(w, " to step ", "to", "");
    (void)say_number(w, "; ", "batches", " batches are left out");
    say(w, ".");
}

static void sentence_memory(const event_words *w)
{
    say(w, "Memory was checked");
    say_text(w, " while ", "while");
    (void)say_number(w, "; verified up to step ", "verified", "");
    say(w, ".");
}

static void sentence_selftest(const event_words *w)
{
    say(w, "Self-test");
    (void)say_number(w, " of ", "runs", " runs");
    (void)say_number(w, ", ", "wrong", " wrong");
    say(w, ".");
}

static void sentence_record(const event_words *w)
{
    say(w, "The record was not as it had been written");
    say_text(w, ": ", "reason");
    say(w, ".");
}

static void sentence_data(const event_words *w)
{
    say(w, "A data file changed");
    say_text(w, ": ", "file");
    say_bytes(w, ", from ", "bytes_before");
    say_bytes(w, " to ", "bytes");
    say(w, ".");
}

static void sentence_replay(const event_words *w)
{
    say(w, "Replayed");
    (void)say_number(w, " ", "executed", " steps");
    say(w, sentence_flag(w, "equal") ? ": all are equal" : ": they differ");
    (void)say_number(w, "; ", "proven", " steps are proven");
    say(w, ".");
}

static void sentence_exit(const event_words *w)
{
    double code = 0;
    (void)view_number(w->e->text, "code", &code);
    const unsigned number = (unsigned)(view_count(code) & 255u);
    if (number > 128) {
        say(w, "Ended by ");
        say(w, signal_name(number - 128));
        say(w, ", exit code ");
    } else {
        say(w, "Ended with exit code ");
    }
    bp_text_u64(w->t, number);
    say(w, ".");
}

static void events_sentence(const event_words *words)
{
    static const struct {
        const char *kind;
        void (*say)(const event_words *w);
    } kinds[] = {{"start", sentence_start},
                 {"resume", sentence_start},
                 {"plan", sentence_plan},
                 {"save", sentence_save},
                 {"eval", sentence_eval},
                 {"signal", sentence_signal},
                 {"save-failed", sentence_save_failed},
                 {"anomaly", sentence_anomaly},
                 {"mismatch", sentence_mismatch},
                 {"roll", sentence_roll},
                 {"memory", sentence_memory},
                 {"selftest", sentence_selftest},
                 {"record", sentence_record},
                 {"data-changed", sentence_data},
                 {"replay", sentence_replay},
                 {"exit", sentence_exit}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].kind, words->e->kind) == 0) {
            kinds[i].say(words);
            return;
        }
    }
    words->text(words->t, words->e->kind);
    bp_text_string(words->t, ": ");
    words->text(words->t, words->e->text);
}

void run_events_sentence(bp_text *t, const view_event *e)
{
    events_sentence(&(event_words){t, e, bp_text_html});
}

void run_events_line(bp_text *t, const view_event *e)
{
    events_sentence(&(event_words){t, e, bp_text_string});
}

bool run_events_marked(const view_event *e)
{
    double code = 0;
    (void)view_number(e->text, "code", &code);
    const bool well = strcmp(e->kind, "exit") == 0 && !(code > 0);
    return strcmp(e->kind, "save") != 0 && strcmp(e->kind, "plan") != 0 &&
           strcmp(e->kind, "start") != 0 && strcmp(e->kind, "replay") != 0 &&
           strcmp(e->kind, "eval") != 0 && !well;
}

static void events_row_begin(bp_text *t, const char *date, uint64_t step)
{
    bp_text_string(t, "<tr><td class=\"d\">");
    bp_text_html(t, date);
    bp_text_string(t, "</td><td class=\"r\">");
    bp_text_grouped(t, step);
}

/* Evaluations have no time in the record: those of a step stand before what happened next. */
static void events_evaluation(bp_text *t, const run_view *v, const view_curve *loss, uint32_t at)
{
    events_row_begin(t, "", view_count(loss->step[at]));
    bp_text_string(t, "</td><td>Evaluated: loss ");
    bp_text_general(t, loss->value[at], 5);
    for (uint32_t m = 0; m < v->metric_count; m++) {
        const view_curve *c = &v->metrics[m].curve;
        for (uint32_t i = 0; c->stride <= 1 && !v->metrics[m].of_steps && i < c->count; i++) {
            if (!(c->step[i] < loss->step[at]) && !(c->step[i] > loss->step[at])) {
                bp_text_string(t, ", ");
                bp_text_html(t, v->metrics[m].name);
                bp_text_char(t, ' ');
                bp_text_general(t, c->value[i], 5);
            }
        }
    }
    bp_text_string(t, ".</td></tr>\n");
}

static void events_row(bp_text *t, const view_event *e)
{
    char date[40];
    const time_t when = (time_t)view_count(e->unix_time);
    struct tm parts;
    const bool known = gmtime_r(&when, &parts) != NULL;
    date[known ? strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &parts) : 0] = '\0';
    events_row_begin(t, date, e->step);
    bp_text_string(t, "</td><td title=\"");
    bp_text_html(t, e->text);
    bp_text_string(t, "\">");
    run_events_sentence(t, e);
    bp_text_string(t, "</td></tr>\n");
}

void run_events_put(bp_text *t, const run_view *v)
{
    const view_curve *loss = &v->curves[VIEW_EVAL];
    const uint32_t judged = loss->stride <= 1 ? loss->count : 0; /* means are no evaluation's */
    const uint32_t first = v->event_count > VIEW_EVENTS ? v->event_count - VIEW_EVENTS : 0;
    uint32_t next = 0;
    if (v->event_count == 0 && judged == 0) {
        return;
    }
    bp_text_string(t, "<h2>Events</h2>\n<div class=\"scroll long\"><table><tr><th>time (UTC)</th>"
                      "<th class=\"r\">step</th><th>what happened</th></tr>\n");
    for (uint32_t i = first; i < v->event_count; i++) {
        const view_event *e = &v->events[i % VIEW_EVENTS];
        for (; next < judged && loss->step[next] <= (double)e->step; next++) {
            if (i > first || first == 0) {
                events_evaluation(t, v, loss, next);
            }
        }
        if (strcmp(e->kind, "eval") != 0) { /* its metrics stand with the evaluation */
            events_row(t, e);
        }
    }
    for (; next < judged; next++) {
        events_evaluation(t, v, loss, next);
    }
    bp_text_string(t, "</table></div>\n");
}
