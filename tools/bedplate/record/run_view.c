/* SPDX-License-Identifier: MIT */
/* Reading a run's lines. */
#define _DEFAULT_SOURCE /* getline */
#include "tools/bedplate/record/run_view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "tools/bedplate/record/old_names.h"
#include "tools/bedplate/record/record_grammar.h"

/* Behind "key": in the line; a quote in a text is escaped, so the first match is the member. */
static const char *view_find(const char *line, const char *key)
{
    char words[64];
    snprintf(words, sizeof words, "\"%s\":", key);
    const char *found = strstr(line, words);
    return found != NULL ? found + strlen(words) : NULL;
}

bool view_number(const char *line, const char *key, double *number)
{
    const char *at = view_find(line, key);
    char *end;
    if (at == NULL) {
        return false;
    }
    const double value = strtod(at, &end);
    *number = end != at ? value : (double)NAN; /* null: what is not finite */
    return true;
}

uint64_t view_count(double number)
{
    const double most = 9007199254740992.0;
    return !(number > 0) ? 0 : (uint64_t)(number < most ? number : most);
}

/* Where the value at `at` ends. */
static const char *view_end(const char *at)
{
    int depth = 0;
    bool text = false;
    for (; *at != '\0'; at++) {
        if (text) {
            if (*at == '\\' && at[1] != '\0') {
                at++; /* whatever is escaped does not end the text */
                continue;
            }
            text = *at != '"';
            if (!text && depth == 0) {
                return at + 1;
            }
            continue;
        }
        if (depth == 0 && (*at == ',' || *at == '}' || *at == ']')) {
            return at;
        }
        text = *at == '"';
        depth += *at == '{' || *at == '[' ? 1 : *at == '}' || *at == ']' ? -1 : 0;
        if (depth == 0 && (*at == '}' || *at == ']')) {
            return at + 1;
        }
    }
    return at;
}

static void view_copy(const char *from, const char *end, char *text, size_t room)
{
    const bool quoted = *from == '"' && end > from + 1;
    from += quoted ? 1 : 0;
    end -= quoted ? 1 : 0;
    size_t length = (size_t)(end - from) < room ? (size_t)(end - from) : room - 1;
    memcpy(text, from, length);
    text[length] = '\0';
}

bool view_text(const char *line, const char *key, char *text, size_t room)
{
    const char *at = view_find(line, key);
    text[0] = '\0';
    if (at != NULL) {
        view_copy(at, view_end(at), text, room);
    }
    return at != NULL;
}

bool view_pair(const char *line, const char *key, const char **at, char *name, char *value,
               size_t room)
{
    if (*at == NULL) {
        *at = key != NULL ? view_find(line, key) : line;
        if (*at == NULL || **at != '{') {
            return false;
        }
    }
    const char *from = *at;
    if ((*from != '{' && *from != ',') || from[1] != '"') {
        return false;
    }
    const char *middle = view_end(from + 1);
    if (*middle == '\0' || middle[0] != ':') {
        return false;
    }
    view_copy(from + 1, middle, name, room);
    *at = view_end(middle + 1);
    view_copy(middle + 1, *at, value, room);
    return true;
}

double view_last(const view_curve *curve)
{
    return curve->count > 0 ? curve->value[curve->count - 1] : (double)NAN;
}

/* Full: neighbours become their mean, and each point stands for twice as many. */
static void view_halve(view_curve *c)
{
    for (uint32_t i = 0; i < VIEW_POINTS / 2; i++) {
        c->value[i] = 0.5 * (c->value[2 * i] + c->value[2 * i + 1]);
        c->step[i] = c->step[2 * i + 1];
    }
    c->count = VIEW_POINTS / 2;
    c->stride *= 2;
}

static void view_add(view_curve *c, double step, double value)
{
    if (!(fabs(value) < 1e100)) {
        return; /* not finite, or what no run computes: sums and differences stay finite */
    }
    c->stride = c->stride > 0 ? c->stride : 1;
    c->sum += value;
    c->held++;
    if (c->held < c->stride) {
        return;
    }
    if (c->count == VIEW_POINTS) {
        view_halve(c);
        return; /* what is held becomes a part of the next point */
    }
    c->step[c->count] = step;
    c->value[c->count++] = c->sum / c->held;
    c->sum = 0;
    c->held = 0;
}

/* The metric of that name, which a line that has it for the first time adds; NULL: too many. */
static view_metric *view_metric_of(run_view *v, const char *name, bool of_steps)
{
    for (uint32_t i = 0; i < v->metric_count; i++) {
        if (strcmp(v->metrics[i].name, name) == 0) {
            return &v->metrics[i];
        }
    }
    if (v->metric_count == VIEW_METRICS || strlen(name) >= sizeof v->metrics[0].name) {
        return NULL;
    }
    view_metric *added = &v->metrics[v->metric_count++];
    memcpy(added->name, name, strlen(name) + 1);
    added->of_steps = of_steps;
    return added;
}

static void view_metric_add(run_view *v, const char *name, double step, const char *text,
                            bool of_steps)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(fabs(value) < 1e100)) {
        return; /* a text, an object, or no number that a run computes */
    }
    view_metric *metric =
        view_metric_of(v, strncmp(name, "eval_", 5) == 0 ? name + 5 : name, of_steps);
    const view_curve *c = metric != NULL ? &metric->curve : NULL;
    if (c != NULL && (c->count == 0 || c->step[c->count - 1] < step)) {
        view_add(&metric->curve, step, value); /* once a step, whichever file has it first */
    }
}

/* Every number of an evaluation but what it counts: {"eval":20,"loss":..,"metric":"f1","value":..},
 * further members by their names, and those of an object "metrics". */
static void view_metrics_of(run_view *v, const char *line, double step, bool of_steps)
{
    static const char *const keys[] = {NULL, "metrics"};
    static const char *const others[] = {"event",  "seq",         "unix",         "step", "eval",
                                         "chain",  "targets",     "seconds",      "loss", "best",
                                         "prompt", "best_reward", "worst_reward", "worst"};
    char name[VIEW_TEXT], value[VIEW_TEXT], metric[VIEW_TEXT];
    (void)view_text(line, "metric", metric, sizeof metric);
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        const char *at = NULL;
        while (view_pair(line, keys[k], &at, name, value, sizeof name)) {
            const bool named = strcmp(name, "value") == 0;
            const char *called = named ? metric : name;
            const size_t length = strlen(name);
            bool other = *called == '\0' || (length > 5 && strcmp(name + length - 5, "_bits") == 0);
            for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
                other = other || strcmp(called, others[i]) == 0;
            }
            if (!other) {
                view_metric_add(v, called, step, value, of_steps);
            }
        }
    }
}

static void view_record_line(run_view *v, const char *line)
{
    double step, value;
    char word[32];
    if (view_number(line, "step", &step) && strncmp(line, "{\"step\"", 7) == 0) {
        v->steps = view_count(step);
        value = (double)NAN;
        (void)view_number(line, "loss", &value);
        view_add(&v->curves[VIEW_LOSS], step, value);
        value = (double)NAN;
        (void)view_number(line, "grad_norm", &value);
        view_add(&v->curves[VIEW_NORM], step, value);
        value = (double)NAN;
        (void)view_number(line, "lr", &value);
        view_add(&v->curves[VIEW_RATE], step, value);
        const bool told = view_text(line, "outcome", word, sizeof word);
        v->applied += told && strcmp(word, "applied") == 0 ? 1 : 0;
        v->left_out += told && strcmp(word, "applied") != 0 ? 1 : 0;
    } else if (strncmp(line, "{\"eval\"", 7) == 0 && view_number(line, "eval", &step) &&
               view_number(line, "loss", &value)) {
        view_add(&v->curves[VIEW_EVAL], step, value);
        view_metrics_of(v, line, step, false);
        v->chosen = v->chosen || v->metric_count > 0; /* a record has no other */
    } else if (strncmp(line, "{\"run\"", 6) == 0) {
        snprintf(v->run, sizeof v->run, "%.*s", (int)strcspn(line, "\n"), line);
        v->total = view_number(line, "total_steps", &value) ? view_count(value) : 0;
    } else if (strncmp(line, "{\"end\"", 6) == 0) {
        v->ended = true;
    }
    (void)view_text(line, "chain", v->chain, sizeof v->chain);
}

static void view_take(const char *line, const char *key, double *to)
{
    double value;
    if (view_number(line, key, &value)) {
        *to = value;
    }
}

/* Numbers of a list "[1,2,..]"; their count. */
static uint32_t view_list(const char *text, double to[VIEW_COLUMNS])
{
    uint32_t count = 0;
    for (const char *at = text; *at != '\0' && *at != ']' && count < VIEW_COLUMNS;) {
        char *end;
        const double value = strtod(at + 1, &end);
        if (end == at + 1) {
            break;
        }
        to[count++] = value >= 0 && value < 1e18 ? value : 0;
        at = end;
    }
    return count;
}

/* Bytes of the classes over one step: {..,"over_step":{"op":[..],"weights":[..],..}}. */
static void view_over_step(run_view *v, const char *line)
{
    char name[VIEW_TEXT * 8], value[VIEW_TEXT * 8];
    const char *at = NULL;
    v->columns = 0;
    memset(v->column_bytes, 0, sizeof v->column_bytes);
    while (view_pair(line, "over_step", &at, name, value, sizeof name)) {
        if (strcmp(name, "op") == 0) {
            v->columns = view_list(value, v->column_op);
        }
        for (uint32_t c = 0; c < v->class_count; c++) {
            if (strcmp(name, v->classes[c]) == 0) {
                (void)view_list(value, v->column_bytes[c]);
            }
        }
    }
}

/* The classes of the plan: {"event":"plan",..,"classes":{"weights":N,..}}. */
static void view_plan(run_view *v, const char *line)
{
    const char *at = NULL;
    char value[24];
    v->class_count = 0;
    while (v->class_count < VIEW_CLASSES &&
           view_pair(line, "classes", &at, v->classes[v->class_count], value, sizeof value)) {
        v->class_bytes[v->class_count++] = strtod(value, NULL);
    }
    view_take(line, "arena_bytes", &v->arena);
    view_take(line, "host_bytes", &v->host);
    view_take(line, "process_ranks", &v->process_ranks);
    view_take(line, "planned_bytes", &v->planned);
    view_over_step(v, line);
}

/* Steps that were computed twice: each process counts its own. */
static void view_replays(run_view *v, const char *line)
{
    double value;
    if (view_number(line, "replays", &value)) {
        v->replays = v->replays_before + view_count(value);
    }
}

static void view_count_event(run_view *v, const view_event *e, const char *line)
{
    const char *kind = e->kind;
    double value = 0;
    if (strcmp(kind, "start") == 0 || strcmp(kind, "resume") == 0) {
        /* a run that has ended and is started once more does not go on */
        const bool ended = view_number(line, "total_steps", &value) && (double)e->step >= value;
        v->resumes += kind[0] == 'r' && !ended ? 1 : 0;
        v->replays_before = v->replays;
        v->code = -1;
        snprintf(v->start, sizeof v->start, "%.*s", (int)strcspn(line, "\n"), line);
    } else if (strcmp(kind, "save") == 0) {
        v->saves++;
        v->saved = e->step;
        v->saved_unix = e->unix_time;
        view_take(line, "seconds", &v->save_seconds);
    } else if (strcmp(kind, "save-failed") == 0) {
        v->save_failures++;
    } else if (strcmp(kind, "signal") == 0) {
        v->signals++;
    } else if (strcmp(kind, "anomaly") == 0) {
        v->anomalies++;
    } else if (strcmp(kind, "replay") == 0) {
        const bool more = view_number(line, "proven", &value) && value > (double)v->proven;
        v->proven = more ? view_count(value) : v->proven;
    } else if (strcmp(kind, "mismatch") == 0) {
        v->mismatches++;
    } else if (strcmp(kind, "plan") == 0) {
        view_plan(v, line);
    } else if (strcmp(kind, "exit") == 0 && view_number(line, "code", &value)) {
        v->code = (int)(view_count(value) & 0xff); /* as a parent process sees it */
        view_replays(v, line);
    }
    if (view_number(line, "verified", &value) && value > (double)v->verified) {
        v->verified = view_count(value);
    }
}

/* Full: every second point is left out, of those to come as well. */
static void view_clock_halve(run_view *v)
{
    for (uint32_t i = 0; i < VIEW_CLOCK / 2; i++) {
        v->clock_step[i] = v->clock_step[2 * i];
        v->clock_seconds[i] = v->clock_seconds[2 * i];
    }
    v->clock_count = VIEW_CLOCK / 2;
    v->clock_stride *= 2;
}

/* How long the run has run: between a process's events, and not between processes. A resume at an
 * earlier step takes back what came after it. */
static void view_clock(run_view *v, const view_event *e)
{
    const bool begins = strcmp(e->kind, "start") == 0 || strcmp(e->kind, "resume") == 0;
    const double passed = e->unix_time - v->ran_at;
    if (strcmp(e->kind, "replay") == 0 || (!begins && v->ran_at < 0)) {
        return; /* of another process */
    }
    v->ran += !begins && passed > 0 && passed < 1e10 ? passed : 0;
    v->ran_at = strcmp(e->kind, "exit") == 0 ? -1 : e->unix_time;
    view_curve *speed = &v->curves[VIEW_SPEED];
    while (begins && speed->count > 0 && speed->step[speed->count - 1] > (double)e->step) {
        speed->count--;
    }
    while (begins && v->clock_count > 0 && v->clock_step[v->clock_count - 1] >= (double)e->step) {
        v->clock_count--;
    }
    if (v->clock_count > 0 && v->clock_step[v->clock_count - 1] >= (double)e->step) {
        return;
    }
    v->clock_stride = v->clock_stride > 0 ? v->clock_stride : 1;
    if (!begins && ++v->clock_skipped < v->clock_stride) {
        return;
    }
    v->clock_skipped = 0;
    if (v->clock_count == VIEW_CLOCK) {
        view_clock_halve(v);
    }
    v->clock_step[v->clock_count] = (double)e->step;
    v->clock_seconds[v->clock_count++] = v->ran;
}

/* {"event":"rollout",..,"prompt":"..","best":"..","best_reward":1,"worst":"..","worst_reward":0} */
static void view_sample_line(run_view *v, const char *line, double step)
{
    view_sample *to = &v->samples[v->sample_count % VIEW_SAMPLES];
    const uint32_t before = (v->sample_count + VIEW_SAMPLES - 1) % VIEW_SAMPLES;
    if (v->sample_count > 0 && !(v->samples[before].step < step)) {
        return; /* of steps that a resumed run makes again */
    }
    *to = (view_sample){.step = step, .best_reward = (double)NAN, .worst_reward = (double)NAN};
    (void)view_number(line, "best_reward", &to->best_reward);
    (void)view_number(line, "worst_reward", &to->worst_reward);
    const bool both = view_text(line, "prompt", to->prompt, sizeof to->prompt) &&
                      view_text(line, "best", to->best, sizeof to->best) &&
                      view_text(line, "worst", to->worst, sizeof to->worst);
    v->sample_count += both ? 1 : 0;
}

static void view_event_line(run_view *v, const char *line)
{
    view_event e = {.step = 0};
    double value;
    if (!view_text(line, "event", e.kind, sizeof e.kind)) {
        return;
    }
    e.unix_time = view_number(line, "unix", &value) ? value : 0;
    e.step = view_number(line, "step", &value) ? view_count(value) : 0;
    v->updated = e.unix_time;
    view_clock(v, &e);
    view_count_event(v, &e, line);
    if (strcmp(e.kind, "eval") == 0) {
        view_metrics_of(v, line, (double)e.step, false);
    }
    if (strcmp(e.kind, "rollout") == 0) {
        view_metrics_of(v, line, (double)e.step, true);
        view_sample_line(v, line, (double)e.step);
        return; /* as many as lines of the log */
    }
    if (strcmp(e.kind, "progress") == 0) {
        value = (double)NAN;
        v->by_samples = view_number(line, "samples_per_second", &value);
        (void)(v->by_samples || view_number(line, "tokens_per_second", &value));
        if (!(value <= 0)) { /* a run that was complete has made no step, and has no speed */
            view_add(&v->curves[VIEW_SPEED], (double)e.step, value);
            view_take(line, "eta_seconds", &v->left);
        }
        view_take(line, "resident_bytes", &v->resident);
        view_replays(v, line);
        return; /* one of many: in the curve, not in the list */
    }
    const char *rest = strstr(line, "\"step\":");
    rest = rest != NULL ? strchr(rest, ',') : NULL;
    snprintf(e.text, sizeof e.text, "%.*s", rest != NULL ? (int)strcspn(rest + 1, "\n") : 0,
             rest != NULL ? rest + 1 : "");
    v->events[v->event_count++ % VIEW_EVENTS] = e;
}

/* A line of a record is one of its grammar. */
static bool view_is_recorded(const char *line, size_t length)
{
    record_line found;
    return record_line_read(line, length, RECORD_NAMES_OF_TODAY, &found) == BP_OK ||
           record_line_read(line, length, RECORD_NAMES_OF_FORMAT_1, &found) == BP_OK;
}

static bool view_is_object(const char *line, size_t length)
{
    return length > 0 && line[0] == '{';
}

static bool view_file(run_view *v, const char *name, bool (*is)(const char *line, size_t length),
                      void (*each)(run_view *v, const char *line))
{
    char path[BP_STORE_PATH_MAX];
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    FILE *file = bp_storage_join(path, v->directory, name, NULL) == BP_OK ? fopen(path, "r") : NULL;
    if (file == NULL) {
        return false;
    }
    while ((length = getline(&line, &room, file)) > 0) {
        size_t bytes = (size_t)length - 1;
        const bool whole = line[bytes] == '\n';
        line[bytes] = '\0';
        if (whole && is(line, bytes) && old_names_line(&line, &room, &bytes) == BP_OK) {
            each(v, line);
        }
    }
    free(line);
    fclose(file);
    return true;
}

bp_status run_view_read(run_view *v, const char *directory, bp_error *error)
{
    memset(v, 0, sizeof *v);
    v->directory = directory;
    v->code = -1;
    v->left = -1;
    v->ran_at = -1;
    v->recorded = view_file(v, "record.jsonl", view_is_recorded, view_record_line);
    v->logged = view_file(v, "events.jsonl", view_is_object, view_event_line);
    if (v->recorded || v->logged) {
        return BP_OK;
    }
    return bp_error_set(error, BP_ERR_DATA, "run",
                        "there is no record.jsonl and no events.jsonl: not the output directory of "
                        "a run",
                        directory);
}
