/* SPDX-License-Identifier: MIT */
/* Record and events of a training run. */
#include "tools/bedplate/record/train_record.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/base/digest.h"
#include "core/base/version.h"
#include "core/base/storage.h"
#include "core/plan/parts.h"
#include "tools/bedplate/runs/checkpoint_keys.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/policy/policy_record.h"
#include "tools/bedplate/record/record_files.h"
#include "tools/bedplate/record/record_read.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/app/output.h"

static const char where[] = "record";

/* Options that are no result keys, because a resumed run may change them, and yet decide what its
 * record says. */
static const char *const record_options[] = {"dropout",
                                             "validation-split",
                                             "data-format",
                                             "allow-missing",
                                             "allow-unexpected",
                                             "ignore-mismatched-sizes",
                                             "save-dtype",
                                             "n-best-size",
                                             "max-answer-length",
                                             "tf32",
                                             "max-steps",
                                             "version-2-with-negative",
                                             "eval-strategy",
                                             "eval-steps",
                                             "null-score-diff-threshold",
                                             "save-strategy",
                                             "save-steps",
                                             "per-device-eval-batch-size",
                                             "num-train-epochs",
                                             "load-best-model-at-end",
                                             "metric-for-best-model",
                                             "greater-is-better",
                                             "early-stopping-patience",
                                             "early-stopping-threshold"};

static bool record_takes_option(const char *key)
{
    const char *dot = strchr(key, '.');
    const option *which = dot != NULL ? option_find(dot + 1, strlen(dot + 1)) : NULL;
    if (which == NULL || strncmp(key, "result.", 7) == 0) {
        return which != NULL && strcmp(which->name, "data") != 0;
    }
    for (size_t i = 0; i < sizeof record_options / sizeof record_options[0]; i++) {
        if (strcmp(record_options[i], which->name) == 0) {
            return true;
        }
    }
    return false;
}

static void record_put_options(json_line *line, const checkpoint *c)
{
    static const char config[] = CHECKPOINT_MODEL_PREFIX;
    const bp_pairs keys = c->checkpoint.keys;
    line_open(line, "options");
    for (size_t i = 0; i < keys.count; i++) {
        if (record_takes_option(keys.list[i].key)) {
            line_text(line, strchr(keys.list[i].key, '.') + 1, keys.list[i].value);
        }
    }
    line_close(line);
    line_open(line, "config");
    for (size_t i = 0; i < keys.count; i++) {
        if (strncmp(keys.list[i].key, config, sizeof config - 1) == 0) {
            line_text(line, keys.list[i].key + sizeof config - 1, keys.list[i].value);
        }
    }
    line_close(line);
}

/* Everything up to "state_digest" says which run it is: two runs of the same start are the same. */
bp_status train_record_put_run(json_line *line, checkpoint *c, const train_record_facts *facts)
{
    session *s = c->s;
    const bp_feed *feed = facts->feed;
    line_count(line, "from", s->runtime.steps);
    if (!s->directory && !s->gguf.open) {
        line_text(line, "preset", s->set->model);
    }
    record_put_options(line, c);
    BP_TRY(record_files_put(line, s, facts->data));
    line_text(line, "tokens", facts->identity);
    line_count(line, "windows", feed->windows);
    line_count(line, "steps_per_epoch", facts->epoch);
    line_count(line, "total_steps", facts->total);
    line_count(line, "seed", s->spec.seed);
    line_count(line, "data_seed", feed->seed);
    line_hex(line, "state_digest", c->first_digest);
    line_text(line, "program", "bedplate");
    line_text(line, "version", bp_version());
    line_text(line, "source", train_record_source);
    if (bp_spec_leaves(&s->spec) ==
        1) { /* of several virtual ranks it hangs on the number of ranks */
        line_hex(line, "plan", session_plan_digest(s));
    }
    return BP_OK;
}

static void event_paths(json_line *line, const char *key, const path_list *list)
{
    line_list(line, key);
    for (uint32_t i = 0; i < list->count; i++) {
        line_text(line, NULL, list->item[i]);
    }
    line_list_close(line);
}

void train_record_processor(char *text, size_t room)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(text, room, "unknown");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *value = strchr(line, ':');
        if (value != NULL && strncmp(line, "model name", 10) == 0) {
            snprintf(text, room, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* Where the run takes place, and by what it was asked. */
static void event_start(checkpoint *c, uint64_t total)
{
    session *s = c->s;
    const settings *set = s->set;
    char text[BP_STORE_PATH_MAX];
    struct utsname host;
    json_line *line = events_begin(&c->log, c->found ? "resume" : "start", s->runtime.steps);
    line_text(line, "version", bp_version());
    line_text(line, "source", train_record_source);
    if (uname(&host) == 0) {
        line_text(line, "host", host.nodename);
        line_text(line, "system", host.sysname);
        line_text(line, "release", host.release);
        line_text(line, "machine", host.machine);
    }
    line_count(line, "pid", (uint64_t)getpid());
    line_count(line, "total_steps", total);
    train_record_processor(text, sizeof text);
    line_text(line, "processor", text);
    line_text(line, "device", s->spec.device->name);
    line_text(line, "kernels", s->spec.device->variant(s->runtime.device));
    line_count(line, "threads", s->spec.device_options.threads);
    line_count(line, "arena_bytes", s->plan.report.arena_bytes);
    line_text(line, "directory", getcwd(text, sizeof text) != NULL ? text : "");
    line_text(line, "model", set->model);
    event_paths(line, "data", &set->data);
    event_paths(line, "eval_data", &set->eval_data);
    line_text(line, "tokenizer", set->tokenizer != NULL ? set->tokenizer : "");
    line_text(line, "adapter", set->adapter != NULL ? set->adapter : "");
    line_text(line, "distill", set->distill != NULL ? set->distill : "");
    line_text(line, "continue_from", set->continue_from != NULL ? set->continue_from : "");
    events_end(&c->log);
}

/* Whether the run line that is there begins as `line` does, up to the member "state_digest". */
static bool record_same_run(const char *there, const char *line)
{
    const char *end = strstr(line, ",\"state_digest\":\"");
    return end != NULL && strncmp(there, line, (size_t)(end - line)) == 0;
}

/* What was found of the file is told once. */
static void train_record_tell(checkpoint *c)
{
    record *r = &c->book;
    if (r->said == NULL) {
        return;
    }
    output_print(stderr, "bedplate: %s: %s\n", r->path, r->said);
    json_line *line = events_begin(&c->log, "record", c->s->runtime.steps);
    line_text(line, "reason", r->said);
    line_flag(line, "lost", r->broken);
    events_end(&c->log);
    r->said = NULL;
}

static void train_record_line_end(checkpoint *c)
{
    record_end(&c->book);
    train_record_tell(c);
}

void train_record_reopen(checkpoint *c)
{
    record_reopen(&c->book);
    train_record_tell(c);
}

bool train_record_sync(checkpoint *c)
{
    record_reopen(&c->book);
    const bool whole = record_sync(&c->book);
    train_record_tell(c);
    return whole;
}

/* What the record that is there is to a run that begins without a checkpoint. */
typedef struct record_there {
    bool same;   /* it is of this run, or it has no line but the first */
    bool states; /* it tells states, which were saved */
} record_there;

static bp_status record_look(session *s, const char *path, const char *line, record_there *found)
{
    bool more = false;
    bp_error inner = {.code = BP_OK};
    record_walk walk;
    BP_TRY(record_walk_begin(&walk, path, &s->error));
    bp_status status = record_walk_next(&walk, &more, &inner);
    found->same = status == BP_OK && (!more || record_same_run(walk.line, line));
    if (status == BP_OK && more && !found->same) {
        status = record_walk_next(&walk, &more, &inner);
        found->same = status == BP_OK && !more;
    }
    if (status == BP_ERR_STORE) {
        s->error = inner;
    } else {
        status = record_tells(&walk, "{\"state\":", &found->states, &s->error);
    }
    record_walk_end(&walk);
    return status;
}

/* Whether events.jsonl, whole from its first line, lists no save. The record has the state of a due
 * save that was postponed too, so that it is the same on every disk: a run that was killed before
 * its first save succeeded has states and never had a checkpoint. Without the events a checkpoint
 * may have been lost. */
static bool record_never_saved(const settings *set)
{
    char path[BP_STORE_PATH_MAX];
    bool starts = false;
    bool saves = true;
    record_walk walk;
    bp_error unread = {.code = BP_OK};
    if (bp_storage_join(path, set->output_dir, EVENTS_NAME, &unread) != BP_OK ||
        record_walk_begin(&walk, path, &unread) != BP_OK) {
        return false;
    }
    bp_status status = record_tells(&walk, "{\"event\":\"start\",\"seq\":0,", &starts, &unread);
    if (status == BP_OK) {
        rewind(walk.file);
        status = record_tells(&walk, "{\"event\":\"save\",", &saves, &unread);
    }
    record_walk_end(&walk);
    return status == BP_OK && starts && !saves;
}

/* A record that is there, of a run without any checkpoint: of this run it begins anew, where none
 * can have been lost; that of another one is not lost. */
static bp_status record_check_other(checkpoint *c, const char *line)
{
    session *s = c->s;
    char path[BP_STORE_PATH_MAX];
    bool there = false;
    record_there found = {.same = false};
    BP_TRY(bp_storage_join(path, s->set->output_dir, RECORD_NAME, &s->error));
    BP_TRY(bp_storage_holds(&s->posix.store, s->set->output_dir, RECORD_NAME, &there, &s->error));
    if (!there || s->set->overwrite) {
        return BP_OK;
    }
    BP_TRY(record_look(s, path, line, &found));
    if (!found.same) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the output directory holds the record of another run; move it "
                            "elsewhere, or give another directory",
                            path);
    }
    if (found.states && !record_never_saved(s->set)) {
        return bp_error_set(&s->error, s->set->resume ? BP_ERR_DATA : BP_ERR_USAGE, where,
                            "the record lists saved states, and no checkpoint is here; restore "
                            "them, or give --overwrite-output-dir to start from the beginning",
                            path);
    }
    return BP_OK;
}

/* A new record: of a run that begins, or that goes on from a checkpoint without one. */
static bp_status record_start(checkpoint *c, const train_record_facts *facts)
{
    record *r = &c->book;
    session *s = c->s;
    r->fd = -1;
    r->waiting = 0;
    json_line *line = record_begin(r, "run", RECORD_FORMAT);
    BP_TRY(train_record_put_run(line, c, facts));
    if (bp_text_flush(&line->text) != BP_OK) {
        return bp_error_set(&s->error, BP_ERR_FIT, where, "the run has too many files to record",
                            "--data");
    }
    if (!c->found) {
        BP_TRY(record_check_other(c, r->text));
    }
    BP_TRY(record_create(r, s->set->output_dir, &s->error));
    record_end(r);
    return BP_OK;
}

/* The record of the checkpoint that was loaded goes on behind what it says. */
static bp_status record_resume(checkpoint *c, const train_record_facts *facts)
{
    session *s = c->s;
    char path[BP_STORE_PATH_MAX];
    unsigned char chain[BP_SHA256_BYTES];
    bool there = false;
    BP_TRY(bp_storage_join(path, s->set->output_dir, RECORD_NAME, &s->error));
    BP_TRY(bp_storage_holds(&s->posix.store, s->set->output_dir, RECORD_NAME, &there, &s->error));
    if (!there) {
        output_print(stderr, "bedplate: %s: there is no such record: one begins at step %llu\n",
                     path, (unsigned long long)c->newest.step);
        return record_start(c, facts);
    }
    if (!bp_sha256_parse(c->loaded.chain, chain)) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "the checkpoint was saved without a record, and here is one; moved "
                            "elsewhere, a new one begins at the checkpoint",
                            path);
    }
    BP_TRY(record_continue(&c->book, s->set->output_dir, c->loaded.length, chain, &s->error));
    if (c->loaded.owed) {
        train_record_state(c, c->newest.step, c->digest);
    }
    return BP_OK;
}

/* Where ranks share out the state all of them read it at once. */
static bp_status find_first_digest(checkpoint *c)
{
    const settings *set = c->s->set;
    if (!ranks_leads(set) && c->s->plan.builder.shards.ranks == 0) {
        return BP_OK;
    }
    ranks_leave_turn(set);
    const bp_status status = bp_checkpoint_digest(&c->place, &c->checkpoint, &c->first_digest);
    ranks_take_turn(set);
    return status;
}

bp_status train_record_begin(checkpoint *c, const train_record_facts *facts)
{
    c->first_digest = c->digest; /* as it was loaded */
    if (!c->found) {
        BP_TRY(find_first_digest(c));
    }
    if (!ranks_leads(c->s->set)) {
        return BP_OK;
    }
    bp_status status = c->found ? record_resume(c, facts) : record_start(c, facts);
    BP_TRY(status);
    events_open(&c->log, c->s->set->output_dir);
    event_start(c, facts->total);
    return BP_OK;
}

/* The one label of each sample that is a row of numbers, with -1 for each further number: as such
 * labels were declared when the first records were written, which are replayed and continued. */
static void record_add_labels(bp_sha256 *sha, const bp_column *column, uint64_t samples,
                              uint32_t numbers)
{
    const int32_t none[] = {-1, -1, -1, -1, -1, -1, -1, -1};
    const uint32_t most = sizeof none / sizeof none[0];
    for (uint64_t i = 0; i < samples; i++) {
        bp_sha256_add(sha, (const int32_t *)column->data + i, sizeof none[0]);
        for (uint32_t left = numbers - 1, some; left > 0; left -= some) {
            some = left < most ? left : most;
            bp_sha256_add(sha, none, some * sizeof none[0]);
        }
    }
}

/* SHA-256 over the samples of the group, column by column: ids, labels, lengths, as the model is
 * fed. */
static void record_put_batch(json_line *line, const bp_group *group, uint32_t sequence)
{
    bp_sha256 sha;
    unsigned char digest[BP_SHA256_BYTES];
    char text[BP_SHA256_TEXT];
    bp_sha256_begin(&sha);
    for (uint32_t i = 0; i < group->columns; i++) {
        const bp_column *column = &group->column[i];
        const size_t bytes = column->elements * bp_dtype_bytes(column->dtype);
        if (column->from == BP_INPUT_LABELS && column->elements == 1) {
            record_add_labels(&sha, column, group->samples, sequence);
        } else {
            bp_sha256_add(&sha, column->data, group->samples * bytes);
        }
    }
    bp_sha256_end(&sha, digest);
    bp_sha256_text(digest, text);
    line_text(line, "batch", text);
}

void train_record_put_step(json_line *line, const bp_runtime *runtime, const bp_feed *feed,
                           const bp_outcome *outcome)
{
    const uint64_t index = outcome->step - 1;
    const uint64_t first =
        index / feed->steps_per_epoch * feed->windows + index % feed->steps_per_epoch * feed->group;
    const char *word = outcome->valid == 0 || !(outcome->weight > 0.0) ? "empty"
                       : outcome->verdict == BP_STEP_SKIP              ? "skipped-anomaly"
                       : outcome->verdict == BP_STEP_BACK              ? "rolled-back"
                       : outcome->verdict == BP_STEP_CLIP              ? "clipped"
                       : outcome->nonfinite                            ? "nonfinite"
                       : outcome->skipped                              ? "skipped-overflow"
                                                                       : "applied";
    line_count(line, "first", first);
    line_count(line, "samples", outcome->samples);
    record_put_batch(line, &runtime->group, feed->sequence);
    line_count(line, "valid", outcome->valid);
    line_exact(line, "loss", outcome->loss);
    line_exact(line, "grad_norm", outcome->norm);
    line_exact(line, "lr", outcome->rate);
    line_exact(line, "scale", outcome->scale);
    line_text(line, "outcome", word);
}

void train_record_step(checkpoint *c, const bp_feed *feed, const bp_outcome *outcome)
{
    if (!ranks_leads(c->s->set)) {
        return;
    }
    json_line *line = record_begin(&c->book, "step", outcome->step);
    train_record_put_step(line, &c->s->runtime, feed, outcome);
    train_record_line_end(c);
}

void train_record_put_eval(json_line *line, const train_record_evaluation *found)
{
    line_exact(line, "loss", found->loss);
    line_count(line, "targets", found->targets);
    line_text(line, "metric", found->metric);
    line_exact(line, "value", found->value);
}

void train_record_eval(checkpoint *c, const train_record_evaluation *found)
{
    const uint64_t step = c->s->runtime.steps;
    if (!ranks_leads(c->s->set) || c->book.evaluated == step) {
        return; /* rank 0 writes it; or the run that is resumed wrote it */
    }
    c->book.evaluated = step;
    json_line *line = record_begin(&c->book, "eval", step);
    train_record_put_eval(line, found);
    train_record_line_end(c);
}

void train_record_state(checkpoint *c, uint64_t step, uint64_t digest)
{
    if (c->stated == step || !ranks_leads(c->s->set)) {
        return;
    }
    c->stated = step;
    json_line *line = record_begin(&c->book, "state", step);
    line_hex(line, "state_digest", digest);
    if (c->watch.every > 0) {
        line_count(line, "verified", c->watch.verified);
    }
    train_record_line_end(c);
}

void train_record_put_roll(json_line *line, uint64_t step, uint64_t to, uint64_t digest)
{
    line_count(line, "from", step);
    line_count(line, "to", to);
    line_count(line, "batches", step - to);
    line_hex(line, "state_digest", digest);
}

void train_record_roll(checkpoint *c, uint64_t step, uint64_t digest)
{
    if (!ranks_leads(c->s->set)) {
        return;
    }
    train_record_put_roll(record_begin(&c->book, "roll", step), step, c->target, digest);
    train_record_line_end(c);
    train_record_put_roll(events_begin(&c->log, "roll", step), step, c->target, digest);
    events_end(&c->log);
}

void train_record_rollout(checkpoint *c, uint64_t step, const policy_run *policy)
{
    if (policy->s == NULL || !ranks_leads(c->s->set)) {
        return;
    }
    policy_record_put(record_begin(&c->book, "rollout", step), policy);
    train_record_line_end(c);
}

bp_status train_record_end(checkpoint *c)
{
    if (!ranks_leads(c->s->set)) {
        return BP_OK;
    }
    json_line *line = record_begin(&c->book, "end", c->s->runtime.steps);
    line_hex(line, "state_digest", c->digest);
    BP_TRY(record_exports_put(line, c->s));
    train_record_line_end(c);
    (void)train_record_sync(c); /* counted */
    return BP_OK;
}

void train_record_close(checkpoint *c, int code)
{
    if (c->s == NULL || c->log.path[0] == '\0') {
        return;
    }
    char chain[BP_SHA256_TEXT];
    bp_sha256_text(c->book.chain, chain);
    json_line *line = events_begin(&c->log, "exit", c->s->runtime.steps);
    line_count(line, "code", (uint64_t)code);
    line_text(line, "chain", chain);
    line_count(line, "anomalies", c->watch.flagged);
    line_count(line, "replays", c->watch.replays);
    line_count(line, "mismatches", c->watch.mismatches);
    line_count(line, "verified", c->watch.verified);
    line_count(line, "record_errors", c->book.errors);
    line_count(line, "event_errors", c->log.errors);
    events_end(&c->log);
    record_close(&c->book);
    events_close(&c->log);
}
