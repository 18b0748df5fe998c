/* SPDX-License-Identifier: MIT */
/* Prometheus' text form: one table of names, and a histogram of the steps' times. */
#include "tools/bedplate/runs/metrics.h"
#include "tools/bedplate/app/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena/text.h"
#include "core/base/store.h"
#include "core/base/version.h"
#include "tools/bedplate/app/path_guard.h"

#define FIELD(member) offsetof(run_status, member)

typedef enum metric_kind { GAUGE_REAL, GAUGE_COUNT, COUNTER_COUNT } metric_kind;

/* Samples of one name stand together: `labels` are those of a row beside run=. */
static const struct metric_row {
    const char *name;
    metric_kind kind;
    size_t field;
    const char *labels;
    const char *help;
} rows[] = {
    {"step", GAUGE_COUNT, FIELD(step.step), "", "Steps of the run that are done."},
    {"planned_steps", GAUGE_COUNT, FIELD(total), "", "Steps of the whole run."},
    {"tokens_total", COUNTER_COUNT, FIELD(tokens), "", "Tokens trained on, padding left out."},
    {"samples_total", COUNTER_COUNT, FIELD(samples), "", "Texts, images or rows trained on."},
    {"epoch", GAUGE_REAL, FIELD(epoch), "", "Passes over the data."},
    {"train_loss", GAUGE_REAL, FIELD(step.loss), "", "Loss of the last step, nats."},
    {"train_loss_mean", GAUGE_REAL, FIELD(mean_loss), "", "Mean loss since the last log line."},
    {"gradient_norm", GAUGE_REAL, FIELD(step.norm), "", "Norm before clipping."},
    {"learning_rate", GAUGE_REAL, FIELD(step.rate), "", "Rate of the last step."},
    {"loss_scale", GAUGE_REAL, FIELD(step.scale), "", "Loss scale; 1 without scaling."},
    {"tokens_per_second", GAUGE_REAL, FIELD(step.tokens_per_second), "",
     "Since the last log line."},
    {"samples_per_second", GAUGE_REAL, FIELD(step.samples_per_second), "",
     "Since the last log line."},
    {"arena_bytes", GAUGE_COUNT, FIELD(arena_bytes), "", "Planned arena."},
    {"host_bytes", GAUGE_COUNT, FIELD(host_bytes), "", "Planned memory beside the arena."},
    {"checkpoint_bytes", GAUGE_COUNT, FIELD(checkpoint_bytes), "", "Size of a checkpoint."},
    {"checkpoint_duration_seconds", GAUGE_REAL, FIELD(save_seconds), "", "Time of the last save."},
    {"last_checkpoint_step", GAUGE_REAL, FIELD(saved), "", "Step of the newest checkpoint."},
    {"last_checkpoint_timestamp_seconds", GAUGE_REAL, FIELD(saved_wall), "", "When it was saved."},
    {"last_step_timestamp_seconds", GAUGE_REAL, FIELD(wall), "", "When the last step ended."},
    {"checkpoints_total", COUNTER_COUNT, FIELD(saves), "", "Checkpoints written."},
    {"checkpoint_failures_total", COUNTER_COUNT, FIELD(save_failures), "",
     "Saves that failed or were postponed."},
    {"free_bytes", GAUGE_COUNT, FIELD(free_bytes), "", "Room in the output directory."},
    {"verified_step", GAUGE_REAL, FIELD(verified), "", "Last step found equal by a replay."},
    {"replays_total", COUNTER_COUNT, FIELD(replays), "", "Steps that were run again."},
    {"replay_mismatches_total", COUNTER_COUNT, FIELD(transient), ",class=\"transient\"",
     "Replays that differed."},
    {"replay_mismatches_total", COUNTER_COUNT, FIELD(persistent), ",class=\"persistent\"", NULL},
    {"product_repairs_total", COUNTER_COUNT, FIELD(product_repairs), "",
     "Wrong elements of products that were computed again."},
    {"anomalies_total", COUNTER_COUNT, FIELD(anomalies), "", "Losses or norms out of line."},
    {"updates_skipped_total", COUNTER_COUNT, FIELD(step.overflow), ",reason=\"overflow\"",
     "Steps whose update was left out."},
    {"updates_skipped_total", COUNTER_COUNT, FIELD(anomaly_skips), ",reason=\"anomaly\"", NULL},
    {"rollbacks_total", COUNTER_COUNT, FIELD(rollbacks), "", "Returns to an earlier checkpoint."},
    {"output_errors_total", COUNTER_COUNT, FIELD(output_errors), "",
     "Failed writes of files that are no checkpoints."},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

typedef char metrics_rows_fit[(int)ROWS <= (int)METRICS_ROWS ? 1 : -1];

/* Seconds; the last bucket is all of them. */
static const double edges[METRICS_BUCKETS] = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
    0.5,   1,      2.5,   5,    10,    30,   60,  (double)INFINITY};

static void metrics_number(bp_text *text, double value)
{
    if (isnan(value)) {
        bp_text_string(text, "NaN");
    } else if (isinf(value)) {
        bp_text_string(text, value > 0 ? "+Inf" : "-Inf");
    } else {
        bp_text_general(text, value, 17);
    }
}

static void metrics_label(bp_text *text, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\') {
            bp_text_char(text, '\\');
        }
        bp_text_string(text, *value == '\n' ? "\\n" : "");
        if (*value != '\n') {
            bp_text_char(text, *value);
        }
    }
}

/* bedplate_NAME{run="RUN" LABELS} */
static void metrics_key(const metrics *m, bp_text *text, const char *name, const char *labels)
{
    bp_text_string(text, "bedplate_");
    bp_text_string(text, name);
    bp_text_string(text, "{run=\"");
    metrics_label(text, m->run);
    bp_text_char(text, '"');
    bp_text_string(text, labels);
    bp_text_string(text, "} ");
}

static void metrics_head(bp_text *text, const char *name, const char *type, const char *help)
{
    bp_text_string(text, "# HELP bedplate_");
    bp_text_string(text, name);
    bp_text_char(text, ' ');
    bp_text_string(text, help);
    bp_text_string(text, "\n# TYPE bedplate_");
    bp_text_string(text, name);
    bp_text_char(text, ' ');
    bp_text_string(text, type);
    bp_text_char(text, '\n');
}

/* ,le="X" of a bucket */
static void metrics_edge(uint32_t bucket, char labels[48])
{
    bp_text text;
    bp_text_init(&text, NULL, NULL, labels, 48);
    bp_text_string(&text, ",le=\"");
    if (isinf(edges[bucket])) {
        bp_text_string(&text, "+Inf");
    } else {
        bp_text_general(&text, edges[bucket], 6);
    }
    bp_text_char(&text, '"');
    bp_status fits = bp_text_flush(&text);
    (void)fits; /* 7 digits */
}

/* The sample's value in m->text, the file of the process before; 0: there is none. */
static double metrics_old(const metrics *m, const char *name, const char *labels)
{
    char key[BP_STORE_PATH_MAX * 2 + 128] = "\n";
    bp_text text;
    double value = 0;
    bp_text_init(&text, NULL, NULL, key + 1, sizeof key - 1);
    metrics_key(m, &text, name, labels);
    if (bp_text_flush(&text) != BP_OK) {
        return 0;
    }
    const char *found = strstr(m->text, key);
    const bool read = found != NULL && sscanf(found + strlen(key), "%lf", &value) == 1;
    return read && value > 0 && isfinite(value) ? value : 0;
}

static void metrics_recall(metrics *m)
{
    char labels[48];
    for (uint32_t i = 0; i < ROWS; i++) {
        const bool counts = rows[i].kind == COUNTER_COUNT;
        m->base[i] = counts ? metrics_old(m, rows[i].name, rows[i].labels) : 0;
    }
    for (uint32_t i = 0; i < METRICS_BUCKETS; i++) {
        metrics_edge(i, labels);
        m->past[i] = metrics_old(m, "step_duration_seconds_bucket", labels);
    }
    m->past[METRICS_BUCKETS] = metrics_old(m, "step_duration_seconds_sum", "");
    m->past[METRICS_BUCKETS + 1] = metrics_old(m, "step_duration_seconds_count", "");
}

static bool metrics_temporary(const metrics *m, char *path, size_t room)
{
    const int length = snprintf(path, room, "%s.tmp", m->path);
    return length > 0 && (size_t)length < room;
}

/* Whether a file can be made where the metrics go: what no time will heal is refused. */
static bp_status metrics_check(const metrics *m, bp_error *error)
{
    char path[BP_STORE_PATH_MAX + 24];
    struct stat there;
    const bool folder = stat(m->path, &there) == 0 && S_ISDIR(there.st_mode);
    const bool named = !folder && m->path[0] != '\0' && metrics_temporary(m, path, sizeof path);
    const int file = named ? path_guard_create(path, 0666) : -1;
    const int why = named ? errno : folder ? EISDIR : ENAMETOOLONG;
    if (file >= 0) {
        (void)close(file); /* nothing was written */
        (void)unlink(path);
        return BP_OK;
    }
    if (why == ENOSPC || why == EDQUOT || why == EIO) {
        return BP_OK;
    }
    bp_status status = bp_error_set(error, BP_ERR_STORE, "metrics",
                                    why == ENOENT    ? "the folder of the file is not there"
                                    : why == ENOTDIR ? "a part of the path is not a folder"
                                    : why == EISDIR  ? "a folder has this name"
                                    : why == EROFS   ? "the file system is read-only"
                                                     : "the file cannot be written",
                                    m->path);
    bp_error_prefix(error, "--metrics");
    return status;
}

bp_status metrics_begin(metrics *m, const char *path, const char *run, bp_error *error)
{
    m->path = path;
    m->run = run;
    if (path == NULL) {
        return BP_OK;
    }
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        const ssize_t got = read(file, m->text, sizeof m->text - 1);
        m->text[got > 0 ? got : 0] = '\0';
        (void)close(file); /* only read */
        metrics_recall(m);
    }
    return metrics_check(m, error);
}

void metrics_step(metrics *m, double seconds)
{
    uint32_t bucket = 0;
    while (seconds > edges[bucket]) {
        bucket++;
    }
    m->buckets[bucket]++;
    m->steps++;
    m->step_seconds += seconds;
}

static void metrics_histogram(const metrics *m, bp_text *text)
{
    char labels[48];
    uint64_t sum = 0;
    metrics_head(text, "step_duration_seconds", "histogram", "Time of a step.");
    for (uint32_t i = 0; i < METRICS_BUCKETS; i++) {
        sum += m->buckets[i];
        metrics_edge(i, labels);
        metrics_key(m, text, "step_duration_seconds_bucket", labels);
        metrics_number(text, m->past[i] + (double)sum);
        bp_text_char(text, '\n');
    }
    metrics_key(m, text, "step_duration_seconds_sum", "");
    metrics_number(text, m->past[METRICS_BUCKETS] + m->step_seconds);
    bp_text_char(text, '\n');
    metrics_key(m, text, "step_duration_seconds_count", "");
    metrics_number(text, m->past[METRICS_BUCKETS + 1] + (double)m->steps);
    bp_text_char(text, '\n');
}

static void metrics_row_put(const metrics *m, bp_text *text, uint32_t i, const run_status *now)
{
    const char *at = (const char *)now + rows[i].field;
    double value;
    if (now->step.rows && strncmp(rows[i].name, "tokens", 6) == 0) {
        return; /* images and rows of numbers have none */
    }
    if (rows[i].kind == GAUGE_REAL) {
        memcpy(&value, at, sizeof value);
    } else {
        uint64_t count;
        memcpy(&count, at, sizeof count);
        value = (double)count + m->base[i];
    }
    if (rows[i].help != NULL) {
        const bool counts = rows[i].kind == COUNTER_COUNT;
        metrics_head(text, rows[i].name, counts ? "counter" : "gauge", rows[i].help);
    }
    metrics_key(m, text, rows[i].name, rows[i].labels);
    metrics_number(text, value);
    bp_text_char(text, '\n');
}

static double metrics_resident(void)
{
    unsigned long long pages = 0;
    char words[128];
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t got = file >= 0 ? read(file, words, sizeof words - 1) : 0;
    words[got > 0 ? got : 0] = '\0';
    if (file >= 0) {
        (void)close(file); /* only read */
    }
    const bool read_it = sscanf(words, "%*u %llu", &pages) == 1;
    return read_it ? (double)pages * (double)sysconf(_SC_PAGESIZE) : 0;
}

static void metrics_gauge(const metrics *m, bp_text *text, const char *name, const char *help,
                          double value)
{
    metrics_head(text, name, "gauge", help);
    metrics_key(m, text, name, "");
    metrics_number(text, value);
    bp_text_char(text, '\n');
}

/* The loss under a name of its own, and every metric by its name, as evaluations print it. */
static void metrics_evaluation(const metrics *m, bp_text *text, const metric_list *found)
{
    char labels[64];
    metrics_gauge(m, text, "eval_loss", "Loss of the last evaluation, nats.",
                  found != NULL ? found->of[0].value : (double)NAN);
    for (uint32_t i = 0; found != NULL && i < found->count; i++) {
        if (i == 0) {
            metrics_head(text, "eval_metric", "gauge", "Numbers of the last evaluation.");
        }
        snprintf(labels, sizeof labels, ",metric=\"%s\"", found->of[i].name);
        metrics_key(m, text, "eval_metric", labels);
        metrics_number(text, found->of[i].value);
        bp_text_char(text, '\n');
    }
}

static void metrics_put(const metrics *m, bp_text *text, const run_status *now)
{
    static const char *const states[] = {
        ",state=\"training\"",  ",state=\"evaluating\"", ",state=\"saving\"",
        ",state=\"replaying\"", ",state=\"ended\"",
    };
    metrics_head(text, "build_info", "gauge", "The program and what executes.");
    bp_text_string(text, "bedplate_build_info{run=\"");
    metrics_label(text, m->run);
    bp_text_string(text, "\",version=\"" BP_VERSION "\",kernels=\"");
    metrics_label(text, m->kernels);
    bp_text_string(text, "\"} 1\n");
    for (uint32_t i = 0; i < ROWS; i++) {
        metrics_row_put(m, text, i, now);
    }
    metrics_evaluation(m, text, now->found);
    metrics_head(text, "steps_total", "counter", "Steps executed, repeated ones too.");
    metrics_key(m, text, "steps_total", "");
    metrics_number(text, m->past[METRICS_BUCKETS + 1] + (double)m->steps);
    bp_text_char(text, '\n');
    metrics_histogram(m, text);
    metrics_gauge(m, text, "process_resident_bytes", "Memory of the process now.",
                  metrics_resident());
    metrics_gauge(m, text, "saves_postponed", "1: a checkpoint is missing.",
                  now->postponed ? 1 : 0);
    const double left = run_status_left(now);
    metrics_gauge(m, text, "eta_seconds", "Until the last step.", left < 0 ? (double)NAN : left);
    metrics_head(text, "state", "gauge", "1 for what the run does now.");
    for (uint32_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        metrics_key(m, text, "state", states[i]);
        bp_text_string(text, i == (uint32_t)now->state ? "1\n" : "0\n");
    }
}

void metrics_write(metrics *m, const run_status *now)
{
    char path[BP_STORE_PATH_MAX + 24];
    if (m->path == NULL) {
        return;
    }
    bp_text text;
    m->written = clock_seconds();
    bp_text_init(&text, NULL, NULL, m->text, sizeof m->text);
    metrics_put(m, &text, now);
    const bool whole = bp_text_flush(&text) == BP_OK && metrics_temporary(m, path, sizeof path);
    const int file = whole ? path_guard_create(path, 0666) : -1;
    bool done = file >= 0 && write(file, m->text, text.used) == (ssize_t)text.used;
    done = file >= 0 && close(file) == 0 && done;
    if (done && rename(path, m->path) == 0) {
        return;
    }
    m->errors++;
    if (file >= 0) {
        (void)unlink(path);
    }
}
