/* SPDX-License-Identifier: MIT */
/* Saves that are postponed rather than lost. */
/* flock is not in POSIX 2008, hence the macro. */
#define _DEFAULT_SOURCE
#include "tools/bedplate/runs/saving.h"
#include "tools/bedplate/app/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/storage.h"
#include "tools/bedplate/app/notify.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/path_guard.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/app/signals.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/environment.h"

#define UNATTENDED_KEEP 2
#define RETRY_SECONDS   15.0
#define PROBE_BYTES     ((uint64_t)16 << 20)
#define PROBE_SECONDS   0.5
#define LIMIT_MOST      64 /* more checkpoints than this are pruned to it at once */

static bool saving_unattended(const settings *set)
{
    static const char *const names[] = {"time-limit", "stop-when", "on-usr1", "storage-patience"};
    bool any = set->resume_auto;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        any = any || option_given(set, names[i]);
    }
    return any;
}

void saving_begin(saving *v, checkpoint *points)
{
    const settings *set = points->s->set;
    const bool given = option_given(set, "save-total-limit");
    const bool alone = saving_unattended(set);
    *v = (saving){.points = points, .patience = set->storage_patience, .waits = alone};
    v->keep = !given && (alone || set->offload_two) ? UNATTENDED_KEEP : set->save_total_limit;
    v->may_prune = !given || set->save_total_limit > 0;
    if (!given && alone && !set->quiet && ranks_leads(set)) {
        output_print(
            stderr,
            "bedplate: an unattended run keeps its newest %d checkpoints (--save-total-limit)\n",
            UNATTENDED_KEEP);
    }
}

/* What the first rank tells the others of a save: they write it together, or not at all. */
typedef enum saving_word {
    SAVING_WRITE, /* the writing begins */
    SAVING_WAIT,  /* another word follows */
    SAVING_DONE,  /* it is saved */
    SAVING_PASS,  /* it is postponed */
    SAVING_FAIL   /* it is given up */
} saving_word;

static bool saving_shared(const saving *v)
{
    return ranks_size(v->points->s->set) > 1;
}

/* Every rank gives a word and takes the first one's. */
static bp_status saving_hear(saving *v, saving_word *word)
{
    session *s = v->points->s;
    uint32_t mine = (uint32_t)*word;
    uint32_t all[RANKS_MOST];
    BP_TRY(ranks_gather(s->set, &mine, sizeof mine, all, &s->error));
    *word = (saving_word)all[0];
    return BP_OK;
}

static bp_status saving_say(saving *v, saving_word word)
{
    return saving_shared(v) ? saving_hear(v, &word) : BP_OK;
}

/* The place with the error of this attempt: the session's keeps the first one for ever. */
static bp_checkpoint_location saving_location(saving *v)
{
    bp_checkpoint_location place = v->points->place;
    v->error = (bp_error){.code = BP_OK};
    place.error = &v->error;
    const settings *set = v->points->s->set;
    place.spare = set->load_best || set->keep_best ? v->points->best.step : 0;
    place.verified = v->proven;
    place.back = v->points->watch.policy == ANOMALY_ROLLBACK ? &v->points->target : NULL;
    return place;
}

/* A rank that does not lead. What it writes may fail, and be tried again with all the others. */
static bp_status saving_follow(saving *v, checkpoint_cause cause)
{
    checkpoint *c = v->points;
    saving_word word = SAVING_WAIT;
    if (c->saved == c->s->runtime.steps) {
        return BP_OK;
    }
    const uint64_t before = c->saved;
    while (word == SAVING_WAIT || word == SAVING_WRITE) {
        BP_TRY(saving_hear(v, &word));
        if (word != SAVING_WRITE) {
            continue;
        }
        const bp_checkpoint_location place = saving_location(v);
        const bp_status status = checkpoint_write(c, &place, cause);
        if (status != BP_OK && status != BP_ERR_STORE) {
            c->s->error = c->s->error.code == BP_OK ? v->error : c->s->error;
            return status;
        }
    }
    if (word == SAVING_FAIL) {
        c->failed = true;
        return bp_error_set(&c->s->error, BP_ERR_STORE, "saving",
                            "rank 0 could not write the checkpoint", c->place.directory);
    }
    c->saved = word == SAVING_PASS ? before : c->s->runtime.steps;
    return cause == CHECKPOINT_DUE ? checkpoint_state(c) : BP_OK;
}

/* The newest checkpoint that is known to be valid; 0: none. */
static uint64_t saving_newest(const checkpoint *c)
{
    return c->saved != UINT64_MAX ? c->saved : c->found ? c->newest.step : 0;
}

/* What the search at the start has passed over lies behind the newest valid one, is of no use to
 * anybody but who repairs it by hand, and would hold its room for ever. */
static bp_status saving_drop_damaged(saving *v, uint64_t newest)
{
    checkpoint *c = v->points;
    bp_checkpoint_location place = saving_location(v);
    if (c->found && c->s->set->resume_from == NULL) {
        v->faults += bp_checkpoint_prune_later(&place, newest) != BP_OK ? 1 : 0;
    }
    place = saving_location(v);
    return bp_checkpoint_check_space(&place, &c->checkpoint);
}

/* Whether there is room; where there is not, what can go goes, the oldest first: what was
 * abandoned, then checkpoints, but for the newest valid, the best and the last verified. */
static bp_status saving_make_room(saving *v)
{
    checkpoint *c = v->points;
    bp_checkpoint_location place = saving_location(v);
    bp_status status = bp_checkpoint_check_space(&place, &c->checkpoint);
    if (status != BP_ERR_STORE) {
        return status;
    }
    const uint64_t newest = saving_newest(c);
    const bool prunes = v->may_prune && newest > 0;
    uint64_t keep = v->keep > 0 && v->keep < LIMIT_MOST ? v->keep : LIMIT_MOST;
    for (bool first = true; status == BP_ERR_STORE && (first || (prunes && keep > 1));
         first = false) {
        keep -= first ? 0 : 1;
        place = saving_location(v);
        v->faults += bp_checkpoint_prune(&place, newest, first ? 0 : keep) != BP_OK ? 1 : 0;
        place = saving_location(v);
        status = bp_checkpoint_check_space(&place, &c->checkpoint);
    }
    return status == BP_ERR_STORE && prunes ? saving_drop_damaged(v, newest) : status;
}

/* What an earlier run has abandoned is removed, which a living one would miss. The system lets go
 * of the lock when the process ends, in whatever way. */
static bp_status saving_lock(saving *v)
{
    const bp_checkpoint_location *place = &v->points->place;
    v->lock = open(place->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (v->lock < 0) {
        return bp_error_set(&v->points->s->error, BP_ERR_STORE, "saving",
                            "the output directory cannot be opened", place->directory);
    }
    if (flock(v->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        return bp_error_set(&v->points->s->error, BP_ERR_STORE, "saving",
                            "another run is at work in this directory", place->directory);
    }
    return BP_OK;
}

/* The directory under that name is the one that is locked: another one would get checkpoints
 * without the record that they name, beside those of the run that made it. */
static bp_status saving_same_directory(saving *v, bp_error *error)
{
    struct stat mine, now;
    const char *path = v->points->place.directory;
    if (v->lock < 0 || fstat(v->lock, &mine) != 0) {
        return BP_OK;
    }
    v->replaced = false;
    if (stat(path, &now) != 0) {
        return bp_error_set(error, BP_ERR_STORE, "saving", "the output directory is gone", path);
    }
    v->replaced = mine.st_dev != now.st_dev || mine.st_ino != now.st_ino;
    return !v->replaced
               ? BP_OK
               : bp_error_set(error, BP_ERR_STORE, "saving",
                              "another directory has taken the place of the one that this run "
                              "began in",
                              path);
}

bp_status saving_here(saving *v)
{
    return ranks_leads(v->points->s->set) ? saving_same_directory(v, &v->points->s->error) : BP_OK;
}

bp_status saving_check(saving *v)
{
    checkpoint *c = v->points;
    bool there = false;
    bp_checkpoint_location place = saving_location(v);
    if (!ranks_leads(c->s->set)) {
        return BP_OK;
    }
    BP_TRY(saving_lock(v));
    BP_TRY(bp_storage_exists(place.store, place.directory, &there, &c->s->error));
    if (there) {
        /* What a dead run has left would be in the way of every save under its name. */
        v->faults += bp_checkpoint_prune(&place, 0, 0) != BP_OK ? 1 : 0;
    }
    bp_status status = BP_OK;
    if (c->s->set->overwrite && !c->found) {
        place = saving_location(v);
        status = bp_checkpoint_prune_later(&place, BP_CHECKPOINT_NONE);
    }
    status = status == BP_OK ? saving_make_room(v) : status;
    if (status != BP_OK) {
        c->s->error = v->error;
    }
    return status;
}

/* Seconds to write `bytes` from the beginning of a file and sync it; 0: the medium refuses. */
static double saving_probe_write(const saving *v, int file, uint64_t bytes, uint64_t *written)
{
    const bp_staging *work = &v->points->s->work;
    const double began = clock_seconds();
    ssize_t put = 1;
    *written = 0;
    while (put > 0 && *written < bytes && clock_seconds() - began < PROBE_SECONDS) {
        const uint64_t left = bytes - *written;
        put = write(file, work->memory, left < work->capacity ? (size_t)left : work->capacity);
        *written += put > 0 ? (uint64_t)put : 0;
    }
    return fsync(file) == 0 && put > 0 ? clock_seconds() - began : 0;
}

/* A save is so many bytes, and so many syncs, which may take longer than the bytes. */
static double saving_probe(const saving *v, uint64_t bytes)
{
    char path[BP_STORE_PATH_MAX];
    const checkpoint *c = v->points;
    uint64_t written = 0, ignored;
    if (bp_storage_join(path, c->place.directory, "tmp-probe", NULL) != BP_OK) {
        return 0;
    }
    const int file = path_guard_create(path, 0600);
    if (file < 0) {
        return 0;
    }
    (void)unlink(path);
    const double once = saving_probe_write(v, file, 1, &ignored);
    const double all =
        saving_probe_write(v, file, bytes < PROBE_BYTES ? bytes : PROBE_BYTES, &written);
    (void)close(file); /* nothing of it stays */
    /* The files, two directories, the record; one sync is in `all`. */
    const double syncs = (double)(c->checkpoint.blob_count + 2 + 2 + 1 - 1);
    return all > 0 && written > 0 ? syncs * once + all * ((double)bytes / (double)written) : 0;
}

void saving_measure(saving *v)
{
    checkpoint *c = v->points;
    bp_checkpoint_location place = saving_location(v);
    if (bp_checkpoint_bytes(&place, &c->checkpoint, &v->bytes) != BP_OK) {
        return;
    }
    v->seconds = saving_probe(v, v->bytes);
    if (v->seconds > 0 && !c->s->set->quiet) {
        output_print(stderr, "bedplate: a save takes about %.2g s here (%.1f MB at %.0f MB/s)\n",
                     v->seconds, 1e-6 * (double)v->bytes, 1e-6 * (double)v->bytes / v->seconds);
    }
    double grace;
    if (environment_number(ENVIRONMENT_GRACE, &grace) && v->seconds > grace) {
        output_print(
            stderr,
            "bedplate: that is longer than BEDPLATE_GRACE (%g s): a stop may lose the steps "
            "since the last checkpoint\n",
            grace);
    }
}

/* One attempt; v->error says why it failed. */
static bp_status saving_try(saving *v, checkpoint_cause cause)
{
    checkpoint *c = v->points;
    c->checkpoint.step = c->s->runtime.steps;
    const double began = clock_seconds();
    if (saving_newest(c) <= c->watch.verified) {
        v->proven = saving_newest(c);
    }
    v->tried = began;
    notify_extend(60.0 + 4.0 * v->seconds);
    v->error = (bp_error){.code = BP_OK};
    bp_status status = saving_same_directory(v, &v->error);
    status = status == BP_OK ? saving_make_room(v) : status;
    if (status == BP_OK) {
        const bp_checkpoint_location place = saving_location(v);
        BP_TRY(saving_say(v, SAVING_WRITE));
        status = checkpoint_write(c, &place, cause);
        const int why = place.store->code;
        if (status == BP_ERR_STORE && (why == ENOSPC || why == EDQUOT || why == EFBIG)) {
            /* The half that is there would hold the room that is missing. */
            bp_checkpoint_location inner = place;
            bp_error ignored = {.code = BP_OK};
            inner.error = &ignored;
            v->faults += bp_checkpoint_prune(&inner, 0, 0) != BP_OK ? 1 : 0;
        }
    }
    if (status == BP_OK) {
        v->seconds = clock_seconds() - began;
        v->wall = (double)time(NULL);
        v->saves++;
        v->missed_since = 0;
        const bp_checkpoint_location place = saving_location(v);
        v->faults += bp_checkpoint_prune(&place, c->saved, v->keep) != BP_OK ? 1 : 0;
    }
    return status;
}

static void saving_tell(saving *v)
{
    const bp_error *e = &v->error;
    output_print(stderr,
                 "bedplate: the checkpoint of step %" PRIu64 " could not be written: %s: %s",
                 v->points->s->runtime.steps, e->name, e->text != NULL ? e->text : "");
    if (e->numbers) {
        output_print(stderr, ": found %" PRId64 ", expected %" PRId64, e->found, e->wanted);
    }
    output_print(stderr, "\n");
    json_line *line = events_begin(&v->points->log, "save-failed", v->points->s->runtime.steps);
    line_text(line, "file", e->name);
    line_text(line, "reason", e->text != NULL ? e->text : "");
    line_real(line, "found", e->numbers ? (double)e->found : 0);
    line_real(line, "needed", e->numbers ? (double)e->wanted : 0);
    events_end(&v->points->log);
}

static bp_status saving_give_up(saving *v)
{
    checkpoint *c = v->points;
    c->failed = true;
    c->s->error = v->error;
    return BP_ERR_STORE;
}

/* At the end of a run there is no training left to do meanwhile. */
static bp_status saving_wait(saving *v, checkpoint_cause cause)
{
    bp_status status = BP_ERR_STORE;
    while (status == BP_ERR_STORE && clock_seconds() - v->missed_since < v->patience &&
           signals_caught() == 0) {
        const struct timespec pause = {.tv_sec = 1};
        (void)nanosleep(&pause, NULL);
        notify_extend(60.0);
        BP_TRY(saving_say(v, SAVING_WAIT));
        if (saving_due(v)) {
            status = saving_try(v, cause);
        }
    }
    return status;
}

/* What follows a save that failed: BP_OK, while training may go on without it. */
static bp_status saving_miss(saving *v, checkpoint_cause cause, bool last)
{
    checkpoint *c = v->points;
    const double now = clock_seconds();
    v->failures++;
    v->missed_since = v->missed_since > 0 ? v->missed_since : now;
    saving_tell(v);
    if (last) {
        /* EIO: the medium's state is unknown, and a name that failed is not tried again. */
        const bool waits = v->waits && c->place.store->code != EIO && !v->replaced;
        const bp_status status = waits ? saving_wait(v, cause) : BP_ERR_STORE;
        return status == BP_ERR_STORE ? saving_give_up(v) : status;
    }
    if (now - v->missed_since >= v->patience || v->replaced) {
        return saving_give_up(v);
    }
    output_print(stderr, "bedplate: it is postponed; training continues for %.0f s at most\n",
                 v->patience - (now - v->missed_since));
    return BP_OK;
}

bp_status saving_save(saving *v, checkpoint_cause cause, bool last)
{
    checkpoint *c = v->points;
    bp_status status = BP_OK;
    c->target = cause == CHECKPOINT_DUE ? c->s->runtime.steps : c->target;
    c->last = last;
    if (!ranks_leads(c->s->set)) {
        return saving_follow(v, cause);
    }
    if (c->saved != c->s->runtime.steps) {
        status = saving_try(v, cause);
        if (status == BP_ERR_STORE) {
            status = saving_miss(v, cause, last);
        } else if (status != BP_OK && c->s->error.code == BP_OK) {
            c->s->error = v->error;
        }
        const bool missed = c->saved != c->s->runtime.steps;
        if (status != BP_ERR_FABRIC) {
            BP_TRY(saving_say(v, status != BP_OK ? SAVING_FAIL
                                 : missed        ? SAVING_PASS
                                                 : SAVING_DONE));
        }
    }
    return status == BP_OK && cause == CHECKPOINT_DUE ? checkpoint_state(c) : status;
}

bool saving_due(const saving *v)
{
    const double now = clock_seconds();
    const bool over = now - v->missed_since >= v->patience;
    return v->missed_since > 0 && (over || now - v->tried >= RETRY_SECONDS);
}
