/* SPDX-License-Identifier: MIT */
/* The proof of the verifier: faults planted into programs of every family and option. A mutant that
 * reads bytes that are not its buffer's own contents, or writes bytes that are not its own, has to
 * be refused; the rest is executed in poison mode and either computes something else, or the same
 * bits. Judges of memory are two that share no code with the verifier: a walk over kernels.def's
 * extents byte by byte (shadow.h), and the kernels themselves, executed twice among different bytes
 * (watch.h). A share of all mutants, chosen by a seed; all of them with BP_TEST_LONG=1. */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/mutant.h"
#include "tests/support/mutant_case.h"
#include "tests/support/mutant_run.h"
#include "tests/support/shadow.h"
#include "tests/support/watch.h"

enum { SHARE = 997, SECONDS_EACH = 60 };

typedef enum verdict {
    VERDICT_NONE,
    VERDICT_REFUSED,
    VERDICT_VALUES,   /* clean, and other values */
    VERDICT_HARMLESS, /* clean, and the same bits */
    VERDICT_ESCAPED,  /* bad memory that the verifier let pass */
    VERDICTS
} verdict;

typedef struct finding {
    uint8_t verdict;
    char fault[247];
} finding;

typedef struct job {
    mutant_case is;
    rig r;
    mutant_room room;
    shadow walk;
    bp_graph copy;
    bp_error error;
    mutant *mutants;
    uint32_t count;
    finding *findings; /* shared with the processes that fill it */
    uint32_t *at;      /* shared: the mutant in work */
    uint64_t digest;   /* of the program without faults */
} job;

static watch_choice choice_of(const mutant *m, const bp_graph *original)
{
    const uint32_t op = m->op - original->program_first[m->program];
    return (watch_choice){.program = m->program, .op = {op, op + 1}, .count = 2};
}

static void judge(job *j, const mutant *m, finding *f)
{
    bp_report report;
    uint64_t digest = 0;
    char fault[256] = "";
    mutant_plant(&j->r.runtime.graph, m, &j->copy);
    if (mutant_verify(&j->room, &j->r, &j->copy, &report) != BP_OK) {
        f->verdict = VERDICT_REFUSED;
        return;
    }
    f->verdict = VERDICT_ESCAPED;
    if (!shadow_walk(&j->walk, &j->copy, report.arena_bytes)) {
        snprintf(f->fault, sizeof f->fault, "%.240s", j->walk.fault);
        return;
    }
    const watch_choice choice = choice_of(m, &j->r.runtime.graph);
    watch_choose(&choice, fault);
    snprintf(f->fault, sizeof f->fault, "crashes");
    const bp_status status = mutant_execute(&j->room, &j->r, &j->copy, &report, &digest);
    if (fault[0] != '\0') {
        snprintf(f->fault, sizeof f->fault, "%.240s", fault);
        return;
    }
    f->verdict = status == BP_OK && digest == j->digest ? VERDICT_HARMLESS : VERDICT_VALUES;
}

/* One of how many mutants is looked at. */
static uint64_t share(void)
{
    const char *text = getenv("BP_TEST_SHARE");
    return text != NULL ? strtoull(text, NULL, 10) : SHARE;
}

static bool taken(uint32_t index, uint32_t number)
{
    uint64_t mixed = (index * 1000003u + number + 1) * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 29;
    mixed *= 0xbf58476d1ce4e5b9u;
    return getenv("BP_TEST_LONG") != NULL || (mixed >> 33) % share() == 0;
}

/* Judges mutants in a process of its own, so that one that crashes is only one. */
static void judge_from(job *j, uint32_t index, uint32_t first)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int ends[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            (void)signal(ends[i], SIG_DFL); /* cmocka has handlers of its own */
        }
        for (uint32_t i = first; i < j->count; i++) {
            *j->at = i;
            if (taken(index, i)) {
                alarm(SECONDS_EACH);
                judge(j, &j->mutants[i], &j->findings[i]);
            }
        }
        *j->at = j->count;
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void *shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void job_open(job *j)
{
    bp_report report;
    mutant_case_open(&j->is, &j->r);
    const bp_graph *graph = &j->r.runtime.graph;
    mutant_room_open(&j->room, &j->r);
    shadow_open(&j->walk, &j->r.runtime.emit, &j->r.runtime.spec,
                2 * j->r.runtime.report.arena_bytes);
    mutant_copy(graph, &j->copy, &j->error);
    j->mutants = mutant_list(graph, &j->count);
    j->findings = shared(j->count * sizeof *j->findings);
    j->at = shared(sizeof *j->at);
    /* The program without a fault: dropping an op that is not there changes nothing. */
    char fault[256] = "";
    const watch_choice all = {.count = 0};
    mutant none = j->mutants[0];
    none.way = MUTANT_WAYS;
    mutant_plant(graph, &none, &j->copy);
    assert_int_equal(mutant_verify(&j->room, &j->r, &j->copy, &report), BP_OK);
    if (!shadow_walk(&j->walk, &j->copy, report.arena_bytes)) {
        fail_msg("%s, %s: without a fault: %s", j->is.family, j->is.option, j->walk.fault);
    }
    watch_choose(&all, fault);
    assert_int_equal(mutant_execute(&j->room, &j->r, &j->copy, &report, &j->digest), BP_OK);
    assert_string_equal(fault, "");
}

static void job_close(job *j)
{
    munmap(j->findings, j->count * sizeof *j->findings);
    munmap(j->at, sizeof *j->at);
    free(j->mutants);
    mutant_free(&j->copy);
    shadow_close(&j->walk);
    mutant_room_close(&j->room);
    rig_close(&j->r);
}

/* Prints the counts of each way; returns how many escaped. */
static uint32_t report_job(const job *j)
{
    uint32_t counts[MUTANT_WAYS][VERDICTS] = {{0}};
    for (uint32_t i = 0; i < j->count; i++) {
        counts[j->mutants[i].way][j->findings[i].verdict]++;
        if (j->findings[i].verdict == VERDICT_ESCAPED) {
            char text[160];
            mutant_describe(&j->r.runtime.graph, &j->mutants[i], text, sizeof text);
            print_message("ESCAPED %s %s: %s: %s\n", j->is.family, j->is.option, text,
                          j->findings[i].fault);
        }
    }
    print_message("%s, %s\n", j->is.family, j->is.option);
    uint32_t escaped = 0;
    for (int way = 0; way < MUTANT_WAYS; way++) {
        const uint32_t *c = counts[way];
        print_message("    %-14s %6u refused %6u by values %6u harmless\n",
                      mutant_way_name((mutant_way)way), c[VERDICT_REFUSED], c[VERDICT_VALUES],
                      c[VERDICT_HARMLESS]);
        escaped += c[VERDICT_ESCAPED];
    }
    return escaped;
}

static void test_mutants(void **state)
{
    (void)state;
    uint32_t escaped = 0;
    const char *only = getenv("BP_TEST_MUTANTS");
    for (uint32_t index = 0; index < mutant_case_count(); index++) {
        static job j;
        char name[80];
        memset(&j, 0, sizeof j);
        if (!mutant_case_get(index, watch_device(), &j.is)) {
            continue;
        }
        snprintf(name, sizeof name, "%s, %s", j.is.family, j.is.option);
        if (only != NULL && strstr(name, only) == NULL) {
            continue;
        }
        job_open(&j);
        for (uint32_t first = 0; first < j.count; first = *j.at + 1) {
            judge_from(&j, index, first);
        }
        escaped += report_job(&j);
        job_close(&j);
    }
    assert_int_equal(escaped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
