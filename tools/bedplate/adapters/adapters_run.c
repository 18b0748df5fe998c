/* SPDX-License-Identifier: MIT */
/* Several adapters: opened together, then a step of each in turn. */
#include "tools/bedplate/adapters/adapters_run.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "tools/bedplate/adapters/adapters_arena.h"
#include "tools/bedplate/adapters/adapters_plan.h"
#include "tools/bedplate/app/environment.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/process_memory.h"
#include "tools/bedplate/app/signals.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/verbs/train_run.h"

/* Large, and it must not move. */
typedef struct adapters {
    const settings *set;
    adapters_file file;
    adapters_arena arena;
    training *runs[ADAPTERS_MAX]; /* NULL: ended, or not begun */
    integrity_tested tested;
    uint32_t failed; /* whose error a status is; ADAPTERS_MAX: it was printed */
    int code;        /* of the program */
} adapters;

/* The exit code is that of the first run that has one. */
static void adapters_note_code(adapters *a, int code)
{
    a->code = a->code == 0 ? code : a->code;
}

static void adapters_close(adapters *a, uint32_t i, bp_status status, int code)
{
    if (status != BP_OK) {
        output_print(stderr, "bedplate: %s: the adapter %s ends here:\n", a->file.entries[i]->where,
                     a->file.entries[i]->name);
    }
    adapters_note_code(a, train_close(a->runs[i], status, code));
    free(a->runs[i]);
    a->runs[i] = NULL;
}

/* Above the directories of runs that have their names. */
static bp_status adapters_make_directory(adapters *a)
{
    const char *directory = a->set->output_dir;
    session *s = &a->runs[0]->s;
    bool named = false;
    for (uint32_t i = 0; i < a->file.count; i++) {
        named = named || a->file.entries[i]->directory[0] != '\0';
    }
    a->failed = 0;
    return !named || s->store->make_directory(s->store, directory) == BP_OK
               ? BP_OK
               : bp_storage_failed(&s->error, s->store, "make directory", directory);
}

/* Options and checkpoints of all, then their data. */
static bp_status adapters_read(adapters *a)
{
    for (a->failed = 0; a->failed < a->file.count; a->failed++) {
        const settings *set = &a->file.entries[a->failed]->set;
        training *t = calloc(1, sizeof *t);
        if (t == NULL) {
            output_print(stderr, "bedplate: --adapters: no memory for another run\n");
            a->failed = ADAPTERS_MAX;
            return BP_ERR_FIT;
        }
        a->runs[a->failed] = t;
        t->adapter = a->file.entries[a->failed]->name;
        t->tested = a->tested;
        service_begin(&t->care, set);
        BP_TRY(train_read(t, set));
        BP_TRY(adapters_arena_join(&a->arena, a->failed, &t->s));
    }
    BP_TRY(adapters_make_directory(a));
    for (a->failed = 0; a->failed < a->file.count; a->failed++) {
        BP_TRY(training_find(a->runs[a->failed]));
    }
    return BP_OK;
}

/* The plans of all, then the arena, then each one's first state. */
static bp_status adapters_open(adapters *a)
{
    adapters_arena *arena = &a->arena;
    BP_TRY(adapters_arena_choose(arena, &a->failed));
    for (a->failed = 0; a->failed < a->file.count; a->failed++) {
        BP_TRY(training_schedule(a->runs[a->failed]));
        BP_TRY(session_plan(&a->runs[a->failed]->s));
    }
    BP_TRY(adapters_arena_count(arena, &a->failed));
    a->failed = ADAPTERS_MAX;
    BP_TRY(adapters_arena_take(arena, a->set));
    for (a->failed = 0; a->failed < a->file.count; a->failed++) {
        training *t = a->runs[a->failed];
        BP_TRY(train_open(t));
        if (a->failed == 0) {
            BP_TRY(adapters_arena_check_drawn(arena, &a->failed));
            a->failed = 0;
        }
    }
    if (!a->set->json) {
        adapters_plan_print(arena, a->set);
    }
    for (uint32_t i = 0; i < a->file.count; i++) {
        train_begin(a->runs[i]);
    }
    return BP_OK;
}

/* A step of a run, and its end where it has come; false: it has ended. */
static bool adapters_turn(adapters *a, uint32_t i, service_stop *stop, int *signal)
{
    training *t = a->runs[i];
    train_ending end = TRAIN_ASKED;
    bp_status status = BP_OK;
    int code = 0;
    if (*stop == SERVICE_GO_ON) {
        status = train_turn(t, &end);
    } else {
        t->stop = *stop; /* what ended another one ends all */
        t->signal = *signal;
    }
    if (status == BP_OK && end == TRAIN_GOES_ON) {
        return true;
    }
    if (status == BP_OK && end == TRAIN_ASKED) {
        *stop = t->stop;
        *signal = t->signal;
    }
    status = status == BP_OK ? train_finish(t, end, &code) : train_give_up(t, status);
    adapters_close(a, i, status, code);
    return false;
}

/* Wishes that signals have brought are every run's. */
static void adapters_rounds(adapters *a)
{
    service_stop stop = SERVICE_GO_ON;
    int signal = 0;
    for (uint32_t left = a->file.count; left > 0;) {
        const unsigned wishes = signals_take() & ~(unsigned)SIGNAL_STOP;
        left = 0;
        for (uint32_t i = 0; i < a->file.count; i++) {
            if (a->runs[i] != NULL) {
                signals_add(wishes);
                left += adapters_turn(a, i, &stop, &signal) ? 1 : 0;
            }
        }
    }
}

static void adapters_end(adapters *a, bp_status status)
{
    const uint32_t failed = a->failed;
    if (status != BP_OK && failed == ADAPTERS_MAX) {
        adapters_note_code(a, bp_status_exit_code(status));
    } else if (status != BP_OK && a->runs[failed] != NULL) {
        adapters_close(a, failed, status, 0);
    }
    for (uint32_t i = 0; i < a->file.count; i++) {
        if (a->runs[i] != NULL) {
            (void)train_close(a->runs[i], BP_OK, a->code);
            free(a->runs[i]);
            a->runs[i] = NULL;
        }
    }
    memory_give_back(&a->arena.shared.memory);
}

static void adapters_report(const adapters *a)
{
    output out;
    if (!a->set->json) {
        return;
    }
    output_begin(&out, stdout);
    json_begin(&out);
    json_count(&out, "adapters", a->file.count);
    json_count(&out, "arena_bytes", a->arena.bytes.arena);
    json_count(&out, "host_bytes", a->arena.bytes.host);
    if (process_peak() != 0) {
        json_count(&out, "peak_resident_bytes", process_peak());
    }
    json_end(&out);
    output_end(&out);
}

static void adapters_train(adapters *a)
{
    bp_status status = BP_OK;
    int code = 0;
    a->failed = ADAPTERS_MAX;
    status = integrity_start(a->set, &a->tested, &code);
    adapters_note_code(a, code);
    if (code != 0) {
        return;
    }
    status = status == BP_OK ? adapters_read(a) : status;
    status = status == BP_OK ? adapters_open(a) : status;
    if (status == BP_OK) {
        adapters_rounds(a);
        adapters_report(a);
    }
    adapters_end(a, status);
}

static int adapters_rank(const settings *set)
{
    static adapters a; /* large, and it must not move */
    bp_error error = {.code = BP_OK};
    if (ranks_size(set) > 1) {
        output_print(stderr,
                     "bedplate: --adapters: several adapters train on one rank: found %u, "
                     "expected 1\n",
                     ranks_size(set));
        return 2;
    }
    if (environment_check(&error) != BP_OK) {
        return report_error(&error);
    }
    a.set = set;
    a.arena.file = &a.file;
    const bp_status status = adapters_file_read(&a.file, set);
    if (status != BP_OK) {
        adapters_note_code(&a, bp_status_exit_code(status));
    } else if (set->command == COMMAND_PLAN) {
        adapters_note_code(&a, adapters_plan(&a.arena, set));
    } else {
        adapters_train(&a);
    }
    adapters_file_close(&a.file);
    return a.code;
}

int adapters_run(const settings *set)
{
    return set->command == COMMAND_PLAN ? adapters_rank(set) : ranks_run(set, adapters_rank);
}
