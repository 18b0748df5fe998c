/* SPDX-License-Identifier: MIT */
/* Doubts about the machine, beside the steps. */
#include "tools/bedplate/runs/integrity.h"
#include "tools/bedplate/app/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/storage.h"
#include "tools/bedplate/app/notify.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/verbs/selftest.h"
#include "tools/bedplate/app/commands.h"

#define SELFTEST_SECONDS 60.0 /* that a manager is told to wait at most */

static const char where[] = "integrity";

extern char **environ;

/* A signal that asks somebody to end says nothing about the machine. */
static bool integrity_asked(int signal)
{
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGKILL;
}

/* The program's selftest in a process of its own, whose memory is not the run's. False where there
 * was none. */
static bool integrity_apart(integrity_tested *tested)
{
    char name[] = "bedplate", what[] = "selftest", words[256] = "";
    char *const arguments[] = {name, what, NULL};
    posix_spawn_file_actions_t files;
    int ends[2], state = 0;
    pid_t child;
    if (pipe(ends) != 0) {
        return false;
    }
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&files, ends[1]);
    const bool runs = posix_spawn(&child, "/proc/self/exe", &files, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&files);
    (void)close(ends[1]);
    for (ssize_t got = 1, used = 0; runs && got != 0 && used < (ssize_t)sizeof words - 1;) {
        got = read(ends[0], words + used, sizeof words - 1 - (size_t)used);
        got = got < 0 && errno != EINTR ? 0 : got;
        used += got > 0 ? got : 0;
    }
    (void)close(ends[0]);
    while (runs && waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    uint32_t right;
    const bool told = sscanf(words, "%u of %u", &right, &tested->runs) == 2;
    tested->wrong = told ? tested->runs - right : 1;
    if (runs && WIFSIGNALED(state) && !integrity_asked(WTERMSIG(state))) {
        tested->runs = told ? tested->runs : 1; /* the machine could not even come to an end */
        return true;
    }
    return runs && told && WIFEXITED(state);
}

static bp_status integrity_test(integrity_tested *tested)
{
    const double began = clock_seconds();
    *tested = (integrity_tested){.runs = 0};
    if (!integrity_apart(tested)) {
        BP_TRY(selftest_run(NULL, NULL, &tested->runs, &tested->wrong));
    }
    tested->when = clock_seconds();
    tested->seconds = tested->when - began;
    return BP_OK;
}

bp_status integrity_start(const settings *set, integrity_tested *tested, int *code)
{
    tested->when = clock_seconds();
    if (set->replay_every == 0) {
        return BP_OK;
    }
    BP_TRY(integrity_test(tested));
    if (tested->wrong > 0) {
        output_print(stderr,
                     "bedplate: %u of %u runs of the selftest came to wrong states: this machine's "
                     "arithmetic is in doubt, and nothing was begun\n",
                     tested->wrong, tested->runs);
        *code = EXIT_MISMATCH;
    }
    return BP_OK;
}

static bp_status integrity_mismatch(checkpoint *c, const char *text, const char *name)
{
    c->watch.doubt = true;
    return bp_error_set(c->place.error, BP_ERR_DEVICE, where, text, name);
}

void integrity_note(checkpoint *c, const integrity_tested *tested)
{
    if (tested->runs == 0) {
        return;
    }
    json_line *line = events_begin(&c->log, "selftest", c->s->runtime.steps);
    line_count(line, "runs", tested->runs);
    line_count(line, "wrong", tested->wrong);
    line_real(line, "seconds", tested->seconds);
    events_end(&c->log);
}

bp_status integrity_step(checkpoint *c, integrity_tested *tested)
{
    const settings *set = c->s->set;
    if (set->replay_every == 0 || !(set->selftest_every > 0) ||
        clock_seconds() - tested->when < set->selftest_every) {
        return BP_OK;
    }
    notify_extend(SELFTEST_SECONDS);
    BP_TRY(integrity_test(tested));
    integrity_note(c, tested);
    return tested->wrong == 0
               ? BP_OK
               : integrity_mismatch(c, "runs of the selftest came to wrong states", "selftest");
}

bp_status integrity_hold(const checkpoint *c, uint64_t *sum)
{
    return bp_guard_state(&c->s->runtime, sum);
}

bp_status integrity_held(checkpoint *c, uint64_t sum, const char *what)
{
    uint64_t now;
    BP_TRY(integrity_hold(c, &now));
    if (now == sum) {
        return BP_OK;
    }
    line_text(events_begin(&c->log, "memory", c->s->runtime.steps), "while", what);
    events_end(&c->log);
    return integrity_mismatch(c, "the state changed in memory while it was only read", what);
}

/* The system may forget what it has of a file; then reading it is reading the medium. */
static void integrity_forget(const char *path, const char *name)
{
    char file[BP_STORE_PATH_MAX];
    if (bp_storage_join(file, path, name, NULL) != BP_OK) {
        return;
    }
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        (void)close(fd); /* nothing was written */
    }
}

bp_status integrity_read_back(const checkpoint *c)
{
    char name[40], path[BP_STORE_PATH_MAX];
    bp_checkpoint_found found = {.digest = 0};
    if (c->watch.every == 0) {
        return BP_OK;
    }
    snprintf(name, sizeof name, "checkpoint-%llu", (unsigned long long)c->checkpoint.step);
    BP_TRY(bp_storage_join(path, c->place.directory, name, c->place.error));
    integrity_forget(path, "model.safetensors");
    integrity_forget(path, "state.safetensors");
    const bp_status status = bp_checkpoint_verify(&c->place, path, &found);
    if (status == BP_OK && found.digest == c->digest) {
        return BP_OK;
    }
    if (status == BP_OK) {
        return bp_error_set(c->place.error, BP_ERR_STORE, where,
                            "what was read back is another state than was saved", path);
    }
    c->place.error->code = BP_ERR_STORE;
    return BP_ERR_STORE;
}
