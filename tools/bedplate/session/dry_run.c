/* SPDX-License-Identifier: MIT */
/* Two memories one after the other: a small one to count in, then the one that was counted. */
#include "tools/bedplate/session/dry_run.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/app/output.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PAGE_BYTES       4096
#define WATCH_AFTER      1.0 /* seconds of planning of which nothing is said */
#define WATCH_REDRAW     0.2
#define WATCH_LINE_FIRST 2.0 /* where there is no terminal */
#define WATCH_LINE_EACH  10.0

/* How far planning is, for who waits. */
static struct {
    bool speaks;
    bool terminal;
    bool drawn;
    double began;
    double next; /* nothing is said before */
    uint64_t plans;
} watch;

static volatile sig_atomic_t watch_open; /* a plan is being made, and the above stays as it is */

/* One write, so that a signal handler may call it too. */
static void watch_put(double now)
{
    char line[96];
    bp_text text;
    bp_text_init(&text, NULL, NULL, line, sizeof line);
    bp_text_string(&text, watch.terminal ? "\r\033[K" : "");
    bp_text_string(&text, "bedplate: planning: ");
    bp_text_u64(&text, watch.plans);
    bp_text_string(&text, " plans in ");
    bp_text_u64(&text, (uint64_t)(now - watch.began + 0.5));
    bp_text_string(&text, watch.terminal ? " s" : " s\n");
    watch.next = now + (watch.terminal ? WATCH_REDRAW : WATCH_LINE_EACH);
    watch.drawn = watch.terminal;
    const ssize_t written = write(STDERR_FILENO, line, text.used);
    (void)written; /* nobody sees it */
}

/* Once a second, while one plan takes longer. */
static void watch_alarm(int number)
{
    const int kept = errno;
    const double now = clock_seconds();
    (void)number;
    if (watch_open) {
        if (now >= watch.next) {
            watch_put(now);
        }
        alarm(1);
    }
    errno = kept;
}

void dry_run_watch(bool quiet)
{
    struct sigaction action;
    const double now = clock_seconds();
    watch.speaks = !quiet;
    watch.terminal = isatty(STDERR_FILENO) == 1;
    watch.drawn = false;
    watch.began = now;
    watch.next = now + (watch.terminal ? WATCH_AFTER : WATCH_LINE_FIRST);
    watch.plans = 0;
    memset(&action, 0, sizeof action);
    action.sa_handler = watch_alarm;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
}

void dry_run_wipe(void)
{
    watch_open = 0;
    if (watch.drawn) {
        output_print(stderr, "\r\033[K");
        watch.drawn = false;
    }
}

void dry_run_advance(void)
{
    const double now = clock_seconds();
    watch_open = 0;
    watch.plans++;
    if (!watch.speaks) {
        return;
    }
    if (now >= watch.next) {
        watch_put(now);
    }
    watch_open = 1;
    alarm(1);
}

static bp_status lend(void *user, uint64_t bytes, void **memory, bp_error *error)
{
    memory_block block = {0};
    (void)user;
    const bp_status status = memory_take(&block, bytes, false, "host memory", error);
    *memory = block.address;
    return status;
}

static void take_back(void *user, void *memory, uint64_t bytes)
{
    memory_block block = {memory, (size_t)bytes};
    (void)user;
    memory_give_back(&block);
}

const bp_lender dry_run_lender = {lend, take_back, NULL};

static bp_status take(memory_block *memory, uint64_t bytes, const char *name, bp_error *error)
{
    if (bytes >= PTRDIFF_MAX) {
        return bp_error_set(error, BP_ERR_OVERFLOW, "memory",
                            "a model of these shapes has more ops than can be planned", name);
    }
    return memory_take(memory, bytes, false, name, error);
}

uint64_t dry_run_bytes(const bp_plan *plan)
{
    return bp_size_align(plan->host_bytes, PAGE_BYTES);
}

bp_status dry_run_take(bp_plan *plan, const bp_spec *spec, uint64_t extra, memory_block *memory,
                       bp_error *error)
{
    memory_block scratch = {0};
    dry_run_advance();
    BP_TRY(bp_spec_check(spec, error));
    BP_TRY(take(&scratch, bp_plan_scratch(spec), "host memory", error));
    bp_status status = bp_plan_count(plan, spec, scratch.address, scratch.bytes);
    memory_give_back(&scratch);
    BP_TRY(status);
    return take(memory, bp_size_add(dry_run_bytes(plan), extra), "host memory", error);
}

bp_status dry_run_arena(const bp_spec *spec, uint64_t limit, uint64_t *arena_bytes, bp_error *error)
{
    bp_report report;
    const bp_status status = dry_run_report(spec, limit, &report, error);
    *arena_bytes = report.arena_bytes;
    return status;
}

bp_status dry_run_report(const bp_spec *spec, uint64_t limit, bp_report *report, bp_error *error)
{
    dry_run_advance();
    const bp_report_wish wish = {.limit = limit};
    const bp_status status = bp_choice_report(spec, wish, &dry_run_lender, report, error);
    watch_open = 0;
    return status;
}

bp_status dry_run_digest(const bp_spec *spec, uint64_t *arena_bytes, uint64_t *digest,
                         bp_error *error)
{
    bp_lent_plan lent;
    dry_run_advance();
    BP_TRY(bp_lent_plan_count(&lent, spec, &dry_run_lender, error));
    const bp_status status =
        bp_plan_measure(lent.plan, (bp_report_wish){.limit = 0}, lent.memory, lent.bytes);
    if (status != BP_OK && error->code == BP_OK) {
        *error = lent.plan->error;
    }
    *arena_bytes = lent.plan->report.arena_bytes;
    *digest = bp_graph_digest(&lent.plan->graph);
    bp_lent_plan_end(&lent, &dry_run_lender);
    watch_open = 0;
    return status;
}
