/* SPDX-License-Identifier: MIT */
/* The main of a test program with planted faults (mutate_programs.py), in the place of
 * tests/suite.c: it runs a case in a process of its own, with a fault or without, each time that a
 * line asks for it.
 *
 *   TEST CASE FAULT SECONDS WAIT   asked: seconds of the processor, and by the clock
 *   STATUS SECONDS WAITED          answered: exit code, 128 and the signal, or 124 (by the clock)
 *
 * A test that starts itself anew finds BP_MUTANT_TEST set: it is that test at once. */
#define _GNU_SOURCE 1
#include "tests/assurance/mutant_chosen.h"
#include "tests/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { CASES_MAX = 512, NAME_BYTES = 200, OVERDUE = 124, BY_SIGNAL = 128 };

typedef struct asked {
    char test[NAME_BYTES], name[NAME_BYTES];
    int fault, seconds, wait;
} asked;

static const char *case_name; /* "*" for all */

int suite_run_group(const char *name, const struct CMUnitTest *tests, size_t count,
                    CMFixtureFunction setup, CMFixtureFunction teardown);

int suite_run_group(const char *name, const struct CMUnitTest *tests, size_t count,
                    CMFixtureFunction setup, CMFixtureFunction teardown)
{
    static struct CMUnitTest chosen[CASES_MAX];
    size_t left = 0;
    for (size_t i = 0; i < count && left < CASES_MAX; i++) {
        if (case_name == NULL || strcmp(case_name, "*") == 0 ||
            strcmp(case_name, tests[i].name) == 0) {
            chosen[left++] = tests[i];
        }
    }
    return left == 0 ? 0 : _cmocka_run_group_tests(name, chosen, left, setup, teardown);
}

/* Some mains take no arguments, and pass over them. */
static int start_test(const char *name, int count, char **arguments)
{
    for (size_t i = 0; i < suite_count; i++) {
        if (strcmp(suite_tests[i].name, name) == 0) {
            return ((int (*)(int, char **))(void (*)(void))suite_tests[i].run)(count, arguments);
        }
    }
    return BY_SIGNAL - 1;
}

static void run_child(const asked *what, char **arguments)
{
    char number[16];
    const struct rlimit limit = {(rlim_t)what->seconds, (rlim_t)what->seconds + 1};
    (void)setpgid(0, 0);
    (void)setrlimit(RLIMIT_CPU, &limit);
    (void)snprintf(number, sizeof number, "%d", what->fault);
    (void)setenv("BP_MUTANT", number, 1);
    (void)setenv("BP_MUTANT_TEST", what->test, 1);
    (void)setenv("BP_SUITE_TEST", what->test, 1);
    bp_mutant_chosen = what->fault;
    case_name = what->name;
    const int code = start_test(what->test, 1, arguments);
    (void)fflush(NULL);
    exit(code > OVERDUE - 1 ? OVERDUE - 1 : code);
}

static double now(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void answer(FILE *to, const asked *what, char **arguments)
{
    const double begun = now();
    struct timespec pause = {0, 200000};
    struct rusage used;
    int status = 0;
    int code = 0;
    const pid_t child = fork();
    if (child == 0) {
        run_child(what, arguments);
    }
    (void)setpgid(child, child);
    while (wait4(child, &status, WNOHANG, &used) == 0) {
        if (code == 0 && now() - begun > what->wait) {
            code = OVERDUE;
            (void)kill(-child, SIGKILL);
        }
        (void)nanosleep(&pause, NULL); /* no wait: between two looks */
        pause.tv_nsec += pause.tv_nsec < 10000000 ? pause.tv_nsec / 4 : 0;
    }
    (void)kill(-child, SIGKILL); /* what it has left running */
    if (code == 0) {
        code = WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    }
    (void)fprintf(to, "%d %.6f %.6f\n", code,
                  (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                      (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6,
                  now() - begun);
    (void)fflush(to);
}

int main(int count, char **arguments)
{
    const char *again = getenv("BP_MUTANT_TEST");
    if (again != NULL) {
        return start_test(again, count, arguments);
    }
    FILE *from = fdopen(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 100), "r");
    FILE *to = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 100), "w");
    char line[3 * NAME_BYTES];
    asked what;
    if (from == NULL || to == NULL || freopen("/dev/null", "r", stdin) == NULL ||
        freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL) {
        return 1;
    }
    while (fgets(line, sizeof line, from) != NULL) {
        if (sscanf(line, "%199s %199s %d %d %d", what.test, what.name, &what.fault, &what.seconds,
                   &what.wait) != 5) {
            return 1;
        }
        answer(to, &what, arguments);
    }
    return 0;
}
