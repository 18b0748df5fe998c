/* SPDX-License-Identifier: MIT */
/* Where two runs part, and what a step saw. */
#include "tools/bedplate/record/replay_compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "device/host/storage/store_posix.h"
#include "tools/bedplate/app/memory.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/record/record.h"
#include "tools/bedplate/record/record_read.h"
#include "tools/bedplate/runs/training.h"

#define COMPARE_SCRATCH ((size_t)64 << 20) /* address space; pages come as they are used */

bool replay_difference(const char *a, size_t a_length, const char *b, size_t b_length,
                       char key[REPLAY_KEY])
{
    const size_t least = a_length < b_length ? a_length : b_length;
    size_t at = 0;
    while (at < least && a[at] == b[at]) {
        at++;
    }
    if (at == least && a_length == b_length) {
        return false;
    }
    /* The last key that ends before the place. */
    size_t end = at;
    while (end > 2 && !(a[end - 1] == ':' && a[end - 2] == '"')) {
        end--;
    }
    size_t begin = end > 2 ? end - 2 : 0;
    while (begin > 1 && a[begin - 1] != '"') {
        begin--;
    }
    const size_t length = end > 2 ? end - 2 - begin : 0;
    snprintf(key, REPLAY_KEY, "%.*s", (int)(length < REPLAY_KEY ? length : REPLAY_KEY - 1),
             a + begin);
    return true;
}

/* Two walks side by side. */
typedef struct walks {
    record_walk a;
    record_walk b;
    char path[2][BP_STORE_PATH_MAX + 32];
    uint64_t steps; /* in common */
    bool same_run;  /* the first lines say the same of options and files */
    bool differs;
    bool shorter; /* one of them ends before the other */
    char kind[16];
    uint64_t step;
    char key[REPLAY_KEY];
    char run_key[REPLAY_KEY]; /* of the first lines */
    uint64_t checkpoint;      /* of the first step from there on that both have; UINT64_MAX: none */
    char tensor[BP_CHECKPOINT_TENSOR]; /* the first that these have otherwise */
} walks;

/* Whether two first lines say the same up to the state before the first step, and of that. */
static void compare_runs(walks *w)
{
    const char *a = strstr(w->a.line, ",\"program\":\"");
    const char *b = strstr(w->b.line, ",\"program\":\"");
    const size_t a_length = a != NULL ? (size_t)(a - w->a.line) : w->a.covered;
    const size_t b_length = b != NULL ? (size_t)(b - w->b.line) : w->b.covered;
    w->same_run = !replay_difference(w->a.line, a_length, w->b.line, b_length, w->run_key);
}

static bp_status compare_all(walks *w, bp_error *error)
{
    for (bool first = true, more_a = true, more_b = true;; first = false) {
        BP_TRY(record_walk_next(&w->a, &more_a, error));
        BP_TRY(record_walk_next(&w->b, &more_b, error));
        if (!more_a || !more_b) {
            w->shorter = more_a != more_b;
            return BP_OK;
        }
        if (first) {
            compare_runs(w);
            continue;
        }
        char key[REPLAY_KEY];
        if (replay_difference(w->a.line, record_computed(&w->a), w->b.line, record_computed(&w->b),
                              key)) {
            w->differs = true;
            w->step = w->a.step < w->b.step ? w->a.step : w->b.step;
            snprintf(w->kind, sizeof w->kind, "%.*s", (int)strcspn(w->a.line + 2, "\""),
                     w->a.line + 2);
            memcpy(w->key, key, sizeof key);
            return BP_OK;
        }
        w->steps = w->a.any ? w->a.last : 0;
    }
}

/* Looks for the next checkpoint that both directories have. */
typedef struct compare_search {
    walks *w;
    const settings *set;
    bp_store *store;
} compare_search;

static bp_status compare_checkpoint(void *user, const char *name)
{
    const compare_search *search = user;
    walks *w = search->w;
    char path[BP_STORE_PATH_MAX];
    char *end = NULL;
    const uint64_t step =
        strncmp(name, "checkpoint-", 11) == 0 ? strtoull(name + 11, &end, 10) : UINT64_MAX;
    bool there = false;
    if (end == NULL || *end != '\0' || step < w->step || step >= w->checkpoint ||
        bp_storage_join(path, search->set->words.item[1], name, NULL) != BP_OK) {
        return BP_OK;
    }
    if (search->store->exists(search->store, path, &there) == BP_OK && there) {
        w->checkpoint = step;
    }
    return BP_OK;
}

/* Where two runs part, the next checkpoints that both have say in which tensor they are not the
 * same.
 */
static bp_status compare_tensors(const settings *set, walks *w, bp_error *error)
{
    bp_store_posix posix;
    memory_block memory;
    char name[40], path[2][BP_STORE_PATH_MAX];
    BP_TRY(bp_store_posix_init(&posix, ""));
    bp_store *store = &posix.store;
    compare_search search = {w, set, store};
    w->checkpoint = UINT64_MAX;
    if (!w->differs ||
        store->list(store, set->words.item[0], compare_checkpoint, &search) != BP_OK ||
        w->checkpoint == UINT64_MAX) {
        return BP_OK;
    }
    snprintf(name, sizeof name, "checkpoint-%llu", (unsigned long long)w->checkpoint);
    BP_TRY(bp_storage_join(path[0], set->words.item[0], name, error));
    BP_TRY(bp_storage_join(path[1], set->words.item[1], name, error));
    BP_TRY(memory_take(&memory, COMPARE_SCRATCH, false, "host memory", error));
    const bp_checkpoint_location place = {.store = store,
                                          .directory = "",
                                          .scratch = memory.address,
                                          .scratch_bytes = COMPARE_SCRATCH,
                                          .error = error};
    const bp_status status = bp_checkpoint_compare(&place, path[0], path[1], w->tensor);
    memory_give_back(&memory);
    return status;
}

static void compare_print(const settings *set, const walks *w)
{
    output out;
    output_begin(&out, stdout);
    if (set->json) {
        json_begin(&out);
        json_flag(&out, "same_run", w->same_run);
        json_flag(&out, "equal", !w->differs);
        json_count(&out, "equal_steps", w->steps);
        json_flag(&out, "one_is_shorter", w->shorter);
        if (w->differs) {
            json_count(&out, "step", w->step);
            json_text(&out, "line", w->kind);
        }
        if (w->differs) {
            json_text(&out, "key", w->key);
        }
        if (w->tensor[0] != '\0') {
            json_text(&out, "tensor", w->tensor);
            json_count(&out, "tensor_step", w->checkpoint);
        }
        if (!w->same_run) {
            json_text(&out, "run_key", w->run_key);
        }
        json_end(&out);
        output_end(&out);
        return;
    }
    output_end(&out);
    if (!w->same_run) {
        output_print(stdout, "the runs began with different %s\n", w->run_key);
    }
    if (w->differs) {
        output_print(
            stdout,
            "they part at step %llu: %s of its %s line; the %llu steps before are the same\n",
            (unsigned long long)w->step, w->key, w->kind, (unsigned long long)w->steps);
        if (w->tensor[0] != '\0') {
            output_print(stdout, "first tensor, at the checkpoints of step %llu: %s\n",
                         (unsigned long long)w->checkpoint, w->tensor);
        }
    } else {
        output_print(stdout, "the same up to step %llu%s\n", (unsigned long long)w->steps,
                     w->shorter ? ", where one of them ends" : "");
    }
}

int replay_compare(const settings *set)
{
    static walks w;
    bp_error error = {.code = BP_OK};
    if (set->words.count != 2) {
        output_print(stderr, "bedplate: --compare: two output directories are needed\n");
        return 2;
    }
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(w.path[i], sizeof w.path[i], "%s/%s", set->words.item[i], RECORD_NAME);
    }
    bp_status status = record_walk_begin(&w.a, w.path[0], &error);
    if (status == BP_OK) {
        status = record_walk_begin(&w.b, w.path[1], &error);
    }
    if (status == BP_OK) {
        status = compare_all(&w, &error);
    }
    record_walk_end(&w.a);
    record_walk_end(&w.b);
    if (status == BP_OK) {
        status = compare_tensors(set, &w, &error);
    }
    if (status != BP_OK) {
        return report_status(status, &error);
    }
    compare_print(set, &w);
    /* Of one run two answers: one of the machines computed wrongly. */
    return !w.differs ? 0 : w.same_run ? 8 : 4;
}

/* The file of a stream that a token lies in, and its place there. */
static const bp_data_file *documents_file(const data_set *data, uint64_t token)
{
    const bp_data *files = &data->main.data;
    if (data->main.source != &files->source) {
        return NULL; /* a token file of its own: documents have numbers there, no files */
    }
    for (uint32_t i = 0; i < files->file_count; i++) {
        if (token - files->files[i].first < files->files[i].count) {
            return &files->files[i];
        }
    }
    return NULL;
}

static bp_status documents_print(training *t, const settings *set, uint32_t sample, uint64_t window)
{
    bp_source *source = t->feed.source;
    bp_example row = {.first = window * t->feed.sequence, .count = t->feed.sequence};
    if (source->examples > 0) {
        BP_TRY(source->example(source, window, &row));
    } else if (row.count > source->count - row.first) {
        row.count = source->count - row.first;
    }
    const bp_data_file *file = source->examples > 0 ? NULL : documents_file(&t->data, row.first);
    output out;
    output_begin(&out, stdout);
    json_begin(&out);
    json_count(&out, "step", set->replay_documents);
    json_count(&out, "sample", sample);
    json_count(&out, source->examples > 0 ? "example" : "window", window);
    json_count(&out, "first_token", row.first);
    json_count(&out, "tokens", row.count);
    json_text(&out, "file", file != NULL ? file->path : source->name);
    if (file != NULL) {
        json_count(&out, "byte", file->start + (row.first - file->first) * file->width);
    }
    json_end(&out);
    output_end(&out);
    return BP_OK;
}

static bp_status documents_list(training *t, const settings *set, const settings *run)
{
    BP_TRY(training_read(t, run));
    BP_TRY(checkpoint_recall(&t->points, &t->s));
    BP_TRY(training_feed(t));
    const bp_feed *feed = &t->feed;
    const uint64_t step = set->replay_documents - 1;
    if (step >= t->total) {
        return bp_error_limit(&t->s.error, BP_ERR_USAGE, "replay", "the run has no such step",
                              "--documents", (int64_t)step + 1, BP_LIMIT_MOST, (int64_t)t->total);
    }
    const uint64_t first = step % feed->steps_per_epoch * feed->group;
    const uint64_t left = feed->windows - first;
    for (uint32_t i = 0; i < feed->group && i < left; i++) {
        uint64_t window;
        BP_TRY(bp_feed_window(feed, step / feed->steps_per_epoch, first + i, &window));
        BP_TRY(documents_print(t, set, i, window));
    }
    return BP_OK;
}

int replay_documents(const settings *set, const settings *run)
{
    static training t; /* large, and it must not move */
    const bp_status status = documents_list(&t, set, run);
    const int code = session_report(&t.s, status);
    distill_close(&t.words);
    data_set_close(&t.data);
    session_end(&t.s);
    return code;
}
