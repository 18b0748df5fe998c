/* SPDX-License-Identifier: MIT */
/* Between the steps of a run. */
#include "tools/bedplate/planning/over_step.h"
#include "tools/bedplate/runs/service.h"
#include "tools/bedplate/app/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/storage.h"
#include "tools/bedplate/app/notify.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/process_memory.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/record/run_page.h"
#include "tools/bedplate/app/signals.h"
#include "tools/bedplate/record/train_record.h"

#define TELL_SECONDS 1.0
#define FILE_SECONDS 5.0  /* between writes of the metrics */
#define NOTE_SECONDS 10.0 /* between lines of progress among the events */
#define LOOK_SECONDS 1.0
#define LOAD_SECONDS 3600.0 /* what loading and tokenising may take before a manager doubts */

/* Only what is not zero: the buffers stay untouched until they are needed. */
void service_begin(service *v, const settings *set)
{
    v->set = set;
    v->now.mean_loss = (double)NAN;
    v->now.step.loss = (double)NAN; /* until a step of this process has one */
    v->now.saved = (double)NAN;
    v->now.verified = (double)NAN;
    v->board.fd = -1;
    signals_begin(strcmp(set->on_usr1, "stop") == 0);
    if (ranks_leads(set) && notify_begin()) {
        notify_send("STATUS=loading");
        notify_extend(LOAD_SECONDS);
    }
}

/* Every option of the run, as the hparams plugin shows them. */
static void service_put_hparams(service *v)
{
    event_file *e = &v->board;
    const option *which;
    char value[BP_STORE_PATH_MAX];
    event_hparams_begin(e);
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        const bool trains =
            (which->commands & COMMAND_TRAIN) != 0 && (which->commands & COMMAND_ARENA) == 0;
        bp_text text;
        if (!trains || which->kind == OPTION_PATHS) {
            continue;
        }
        bp_text_init(&text, NULL, NULL, value, sizeof value);
        option_put(&text, which, v->set);
        if (bp_text_flush(&text) != BP_OK || value[0] == '\0') {
            continue;
        }
        if (which->kind == OPTION_FLAG) {
            event_hparam_flag(e, which->name, value[0] == 't');
        } else if (which->kind == OPTION_COUNT || which->kind == OPTION_SIGNED ||
                   which->kind == OPTION_REAL || which->kind == OPTION_STEPS ||
                   which->kind == OPTION_BYTES) {
            event_hparam_number(e, which->name, strtod(value, NULL));
        } else {
            event_hparam_text(e, which->name, value);
        }
    }
    event_hparams_end(e);
}

/* The plan as a table in Markdown. */
static void service_put_plan(service *v, const session *s)
{
    char words[2048];
    bp_text text;
    const bp_report *report = &s->plan.report;
    bp_text_init(&text, NULL, NULL, words, sizeof words);
    bp_text_string(&text, "| memory | bytes at the peak |\n|---|---|\n");
    for (uint32_t c = 0; c < BP_CLASS_COUNT; c++) {
        bp_text_string(&text, "| ");
        bp_text_string(&text, bp_class_name((bp_class)c));
        bp_text_string(&text, " | ");
        bp_text_grouped(&text, report->class_peak[c]);
        bp_text_string(&text, " |\n");
    }
    bp_text_string(&text, "| arena | ");
    bp_text_grouped(&text, report->arena_bytes);
    bp_text_string(&text, " |\n| beside it | ");
    bp_text_grouped(&text, session_host_bytes(s));
    bp_text_string(&text, " |\n");
    if (bp_text_flush(&text) == BP_OK) {
        event_text(&v->board, s->runtime.steps, "plan", words);
    }
}

bp_status service_open(service *v, session *s)
{
    const settings *set = v->set;
    if (!ranks_leads(set)) {
        return BP_OK;
    }
    char directory[BP_STORE_PATH_MAX];
    v->now.arena_bytes = s->plan.report.arena_bytes;
    v->now.host_bytes = session_host_bytes(s);
    v->metrics.kernels = s->spec.device->variant(s->runtime.device);
    BP_TRY(metrics_begin(&v->metrics, set->metrics, set->output_dir, &s->error));
    if (strcmp(set->report_to, "tensorboard") != 0) {
        return BP_OK;
    }
    if (set->logging_dir == NULL) {
        BP_TRY(bp_storage_join(directory, set->output_dir, "runs", &s->error));
    }
    /* What older files say of the next step and later ones was lost with the process. */
    if (event_file_open(&v->board, set->logging_dir != NULL ? set->logging_dir : directory,
                        s->runtime.steps + 1)) {
        service_put_hparams(v);
        service_put_plan(v, s);
    }
    return BP_OK;
}

/* Everything that others may read, from where it is kept. */
static void service_gather(service *v)
{
    const saving *saves = &v->saves;
    const checkpoint *c = saves->points;
    run_status *now = &v->now;
    uint64_t room;
    now->checkpoint_bytes = saves->bytes;
    now->save_seconds = saves->seconds;
    now->saved = c->saved != UINT64_MAX ? (double)c->saved : (double)NAN;
    now->saved_wall = saves->wall;
    now->saves = saves->saves;
    now->save_failures = saves->failures;
    now->postponed = saves->missed_since > 0;
    now->output_errors = v->metrics.errors + v->board.errors + saves->faults + c->log.errors +
                         c->book.errors + (ferror(stdout) != 0 ? 1 : 0);
    now->verified = c->watch.every > 0 ? (double)c->watch.verified : (double)NAN;
    now->replays = c->watch.replays;
    now->transient = c->watch.mismatches - (c->watch.doubt ? 1 : 0);
    now->persistent = c->watch.doubt ? 1 : 0;
    now->product_repairs = c->s->checked.repaired;
    now->anomalies = c->watch.flagged;
    now->anomaly_skips = c->watch.acted_count;
    now->rollbacks = c->watch.policy == ANOMALY_ROLLBACK ? c->watch.acted_count : 0;
    bp_store *store = c->place.store;
    if (store->free_bytes(store, c->place.directory, &room) == BP_OK) {
        now->free_bytes = room;
    }
}

static void service_write_metrics(service *v)
{
    if (v->metrics.path != NULL) {
        service_gather(v);
        metrics_write(&v->metrics, &v->now);
    }
}

/* The page, beside what it tells of. */
static void service_write_report(service *v)
{
    static run_view view; /* large */
    char path[BP_STORE_PATH_MAX];
    bp_error error = {.code = BP_OK};
    if (bp_storage_join(path, v->set->output_dir, "report.html", NULL) != BP_OK ||
        run_view_read(&view, v->set->output_dir, &error) != BP_OK ||
        run_page_write(&view, 1, path, &error) != BP_OK) {
        v->metrics.errors++;
    }
}

/* The plan, for whoever reads the events later. */
static void service_note_plan(service *v, const session *s)
{
    const bp_report *report = &s->plan.report;
    json_line *line = events_begin(&v->saves.points->log, "plan", s->runtime.steps);
    line_count(line, "arena_bytes", report->arena_bytes);
    line_count(line, "lower_bound_bytes", report->lower_bound_bytes);
    line_count(line, "host_bytes", v->now.host_bytes);
    line_count(line, "process_ranks", ranks_in_process(v->set));
    line_count(line, "checkpoint_bytes", v->saves.bytes);
    line_real(line, "save_seconds", v->saves.seconds);
    line_open(line, "classes");
    for (uint32_t c = 0; c < BP_CLASS_COUNT; c++) {
        line_count(line, bp_class_name((bp_class)c), report->class_peak[c]);
    }
    line_close(line);
    over_step_put(line, &s->plan);
    events_end(&v->saves.points->log);
}

static void service_note_progress(service *v)
{
    json_line *line = events_begin(&v->saves.points->log, "progress", v->now.step.step);
    v->noted = clock_seconds();
    line_count(line, "total", v->now.total);
    line_real(line, "loss", v->now.step.loss);
    line_real(line, v->now.step.rows ? "samples_per_second" : "tokens_per_second",
              progress_speed(&v->now.step));
    line_real(line, "eta_seconds", run_status_left(&v->now));
    line_count(line, "resident_bytes", process_peak());
    line_flag(line, "saves_postponed", v->saves.missed_since > 0);
    line_count(line, "verified", v->saves.points->watch.verified);
    line_count(line, "replays", v->saves.points->watch.replays);
    events_end(&v->saves.points->log);
}

static void service_note_signal(service *v, unsigned wishes, service_stop stop)
{
    static const char *const names[] = {"stop", "save", "report", "reopen"};
    if ((wishes & ~(unsigned)SIGNAL_STOP) == 0 && stop == SERVICE_GO_ON) {
        return;
    }
    json_line *line = events_begin(&v->saves.points->log, "signal", v->now.step.step);
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        line_flag(line, names[i], (wishes >> i & 1) != 0);
    }
    line_count(line, "number", (uint64_t)signals_caught());
    line_text(line, "why", stop != SERVICE_GO_ON ? service_stop_name(stop) : "asked");
    events_end(&v->saves.points->log);
}

void service_ready(service *v, uint64_t total)
{
    signals_watch();
    if (!ranks_leads(v->set)) {
        return;
    }
    v->now.first = v->saves.points->s->runtime.steps;
    v->now.step.step = v->now.first;
    v->now.total = total;
    v->now.began = clock_seconds();
    saving_measure(&v->saves);
    service_note_plan(v, v->saves.points->s);
    v->noted = clock_seconds();
    notify_send("READY=1\nSTATUS=training");
    notify_extend(LOAD_SECONDS); /* nobody knows yet how long a step takes */
}

double run_status_left(const run_status *now)
{
    const double done = (double)(now->step.step - now->first);
    const double left = now->total > now->step.step ? (double)(now->total - now->step.step) : 0;
    return done > 0 ? (clock_seconds() - now->began) / done * left : -1;
}

static void service_tell(service *v)
{
    const run_status *now = &v->now;
    const checkpoint *c = v->saves.points;
    char text[256];
    const double time = clock_seconds();
    if (time - v->told < TELL_SECONDS && now->step.step != now->total) {
        return;
    }
    v->told = time;
    int used = snprintf(text, sizeof text,
                        "STATUS=step %" PRIu64 "/%" PRIu64 " loss %.4f %.0f %s/s eta %.0fs",
                        now->step.step, now->total, now->step.loss, progress_speed(&now->step),
                        progress_unit(&now->step), run_status_left(now));
    if (c->saved != UINT64_MAX) {
        used += snprintf(text + used, sizeof text - (size_t)used, ", saved %" PRIu64, c->saved);
    }
    if (v->saves.missed_since > 0) {
        snprintf(text + used, sizeof text - (size_t)used, ", saves postponed");
    }
    notify_send(text);
}

/* In time: a step, an evaluation that is due after it, the save, and half of all again may come
 * before the end. */
static bool service_time_over(const service *v)
{
    const double limit = v->set->time_limit;
    const double judged = v->judges_next ? v->judge_seconds : 0;
    const double reserve = 1.5 * (v->now.seconds + judged + v->saves.seconds);
    return limit > 0 && clock_seconds() - v->set->began + reserve >= limit;
}

static service_stop service_stop_file(service *v)
{
    const double time = clock_seconds();
    if (v->set->stop_when == NULL || time - v->looked < LOOK_SECONDS) {
        return SERVICE_GO_ON;
    }
    v->looked = time;
    return access(v->set->stop_when, F_OK) == 0 ? SERVICE_FILE : SERVICE_GO_ON;
}

/* Of several ranks none may end before a step that the others begin. */
service_stop service_before_step(service *v)
{
    return ranks_size(v->set) == 1 ? service_stop_file(v) : SERVICE_GO_ON;
}

/* What others may look at. */
static void service_show(service *v)
{
    notify_slow(v->now.seconds);
    notify_alive();
    service_tell(v);
    if (clock_seconds() - v->metrics.written >= FILE_SECONDS) {
        service_write_metrics(v);
    }
    if (clock_seconds() - v->noted >= NOTE_SECONDS) {
        service_note_progress(v);
    }
}

/* What signals ask for beside stopping. */
static void service_obey(service *v, unsigned wishes)
{
    if ((wishes & SIGNAL_REPORT) != 0) {
        service_write_metrics(v);
        service_write_report(v);
    }
    if ((wishes & SIGNAL_REOPEN) != 0) {
        events_reopen(&v->saves.points->log);
        train_record_reopen(v->saves.points);
    }
    if ((wishes & SIGNAL_REOPEN) != 0 && v->board.directory[0] != '\0') {
        event_file_reopen(&v->board);
    }
}

/* Ranks that are threads have one process's signals, which the first rank takes. */
static service_stop service_follow(const service *v, bool *save)
{
    const ranks *own = v->set->ranks;
    if (own == NULL || own->turn == NULL) {
        const unsigned wishes = signals_take();
        *save = (wishes & SIGNAL_SAVE) != 0;
    }
    return signals_caught() != 0 ? SERVICE_SIGNAL : SERVICE_GO_ON;
}

service_stop service_step(service *v, const progress_numbers *now, double seconds, bool *save)
{
    if (!ranks_leads(v->set)) {
        return service_follow(v, save);
    }
    v->now.step = *now;
    v->now.seconds = seconds;
    v->now.slowest = seconds > v->now.slowest ? seconds : v->now.slowest;
    v->now.wall = (double)time(NULL);
    metrics_step(&v->metrics, seconds);
    service_show(v);
    const unsigned wishes = signals_take();
    const service_stop stop = (wishes & SIGNAL_STOP) != 0 ? SERVICE_SIGNAL
                              : service_time_over(v)      ? SERVICE_TIME
                                                          : service_stop_file(v);
    service_note_signal(v, wishes, stop);
    service_obey(v, wishes);
    const bool asked = (wishes & SIGNAL_SAVE) != 0 && stop == SERVICE_GO_ON;
    *save = asked || saving_due(&v->saves);
    return stop;
}

void service_count(service *v, uint64_t tokens, uint64_t samples)
{
    v->now.tokens += tokens;
    v->now.samples += samples;
}

void service_logged(service *v, const progress_numbers *step, const train_totals *sum, double epoch)
{
    v->now.step = *step;
    event_file *e = &v->board;
    const double mean_loss = train_totals_mean(sum);
    v->now.mean_loss = mean_loss;
    v->now.epoch = epoch;
    if (e->directory[0] == '\0') {
        return;
    }
    event_scalar(e, step->step, "train/loss", mean_loss);
    event_scalar(e, step->step, "train/grad_norm", step->norm);
    event_scalar(e, step->step, "train/learning_rate", step->rate);
    event_scalar(e, step->step, "train/epoch", epoch);
    event_scalar(e, step->step, step->rows ? "perf/samples_per_second" : "perf/tokens_per_second",
                 progress_speed(step));
    if (step->scale != 1.0) {
        event_scalar(e, step->step, "train/loss_scale", step->scale);
    }
    for (uint32_t i = 0; i < sum->found.count; i++) {
        char tag[96];
        snprintf(tag, sizeof tag, "train/%s", sum->found.of[i].name);
        event_scalar(e, step->step, tag, sum->found.of[i].value);
    }
}

void service_evaluated(service *v, uint64_t step, const metric_list *found)
{
    char tag[48];
    v->now.found = found;
    for (uint32_t i = 0; v->board.directory[0] != '\0' && i < found->count; i++) {
        snprintf(tag, sizeof tag, "eval/%s", found->of[i].name);
        event_scalar(&v->board, step, tag, found->of[i].value);
    }
    if (ranks_leads(v->set)) {
        json_line *line = events_begin(&v->saves.points->log, "eval", step);
        for (uint32_t i = 0; i < found->count; i++) {
            line_real(line, found->of[i].name, found->of[i].value);
        }
        events_end(&v->saves.points->log);
    }
}

void service_state(service *v, run_state state)
{
    const run_state before = v->now.state;
    v->now.state = state;
    if (!ranks_leads(v->set)) {
        return;
    }
    service_write_metrics(v);
    if (before == RUN_EVALUATING) {
        v->judge_seconds = clock_seconds() - v->judging;
    }
    if (state == RUN_EVALUATING) {
        v->judging = clock_seconds();
        notify_send("STATUS=evaluating");
        notify_extend(LOAD_SECONDS); /* no step is completed meanwhile */
    }
}

void service_replays(void *user, bool again)
{
    service *v = user;
    char text[64];
    const double time = clock_seconds();
    v->now.state = again ? RUN_REPLAYING : RUN_TRAINING;
    if (!ranks_leads(v->set) || (again ? time - v->replayed < TELL_SECONDS : !v->replays)) {
        return;
    }
    v->replays = again;
    v->replayed = time;
    service_write_metrics(v);
    if (again) {
        snprintf(text, sizeof text, "STATUS=replaying step %" PRIu64, v->now.step.step + 1);
        notify_send(text);
        v->told = 0; /* the next step says that it goes on */
    }
}

bp_status service_save(service *v, checkpoint_cause cause, bool last)
{
    checkpoint *points = v->saves.points;
    if (v->data != NULL) {
        BP_TRY(data_watch_check(v->data, points->s, &points->log));
    }
    if (points->saved != points->s->runtime.steps) {
        service_state(v, RUN_SAVING);
    }
    const bp_status status = saving_save(&v->saves, cause, last);
    if (v->now.state == RUN_SAVING) {
        service_state(v, RUN_TRAINING);
    }
    return status;
}

const char *service_stop_name(service_stop stop)
{
    static const char *const names[] = {NULL, "signal", "time-limit", "stop-when"};
    return names[stop];
}

void service_end(service *v, int code)
{
    if (!ranks_leads(v->set)) {
        return;
    }
    if (v->now.began > 0) {
        service_state(v, RUN_ENDED);
        service_note_progress(v);
    }
    if (v->board.directory[0] != '\0') {
        const bool good = code == 0 || code >= 128;
        event_hparams_status(&v->board, v->now.step.step, good ? 1 : 2);
        event_file_close(&v->board);
    }
    notify_end(code);
}
