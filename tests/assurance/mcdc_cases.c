/* SPDX-License-Identifier: MIT */
/* Linked into the test programs of `make mcdc`: the cases that carry a requirement run first and
 * write their counters to raw/traced, the others run after them with counters from zero, to
 * raw/other. build/mcdc/traced lists the former, one FILE:CASE a line. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FOLDER    "build/mcdc/"
#define CASES_MAX 512

void __llvm_profile_set_filename(const char *name);
int __llvm_profile_write_file(void);
void __llvm_profile_reset_counters(void);
int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);

static char own_path[PATH_MAX]; /* "/tree/build/mcdc/tests/unit/arena/test_text" */
static char written_to[2][PATH_MAX];

/* The test's source without ".c", "tests/unit/arena/test_text"; NULL where it is none of ours. In a
 * suite the test has its name from tests/suite.c. */
static const char *cases_program(void)
{
    const ssize_t length = readlink("/proc/self/exe", own_path, sizeof own_path - 1);
    if (length <= 0) {
        return NULL;
    }
    own_path[length] = '\0';
    const char *test = getenv("BP_SUITE_TEST");
    char *last = strrchr(own_path, '/');
    if (test != NULL && last != NULL && strcmp(last, "/suite") == 0) {
        const size_t room = sizeof own_path - (size_t)(last + 1 - own_path);
        (void)snprintf(last + 1, room, "%s", test);
    }
    char *at = strstr(own_path, "/" FOLDER "tests/");
    return at == NULL ? NULL : at + sizeof "/" FOLDER - 1;
}

/* Marks the cases that the list names. */
static void cases_mark(const char *program, const struct CMUnitTest *tests, size_t count,
                       bool *traced)
{
    char line[1024];
    FILE *file = fopen(FOLDER "traced", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const size_t length = strlen(program);
        if (strncmp(line, program, length) != 0 || strncmp(line + length, ".c:", 3) != 0) {
            continue;
        }
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < count; i++) {
            traced[i] = traced[i] || strcmp(tests[i].name, line + length + 3) == 0;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* From here on counters go to the folder's file of this program. */
static void cases_count_to(int which, const char *program)
{
    char *to = written_to[which];
    (void)snprintf(to, sizeof written_to[which], "%.*s" FOLDER "raw/%s/",
                   (int)(strstr(own_path, FOLDER) - own_path), own_path,
                   which == 0 ? "traced" : "other");
    size_t at = strlen(to);
    for (; *program != '\0' && at + 16 < sizeof written_to[which]; program++) {
        to[at++] = *program == '/' ? '_' : *program;
    }
    (void)snprintf(to + at, sizeof written_to[which] - at, "-%%2m.profraw");
    __llvm_profile_set_filename(to);
}

static struct {
    CMFixtureFunction setup;
    CMFixtureFunction teardown;
    void *state;
    size_t parts; /* that are still to be run */
    bool ready;
} group;

/* The group is set up once, for both parts, and taken down behind the last. */
static int cases_setup(void **state)
{
    int failed = 0;
    if (!group.ready && group.setup != NULL) {
        failed = group.setup(&group.state);
    }
    group.ready = true;
    *state = group.state;
    return failed;
}

static int cases_teardown(void **state)
{
    group.parts--;
    return group.parts == 0 && group.teardown != NULL ? group.teardown(state) : 0;
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown)
{
    static struct CMUnitTest part[2][CASES_MAX];
    static bool traced[CASES_MAX];
    static bool ran;
    size_t of[2] = {0, 0};
    int failed = 0;
    const char *program = cases_program();
    memset(traced, 0, sizeof traced);
    if (program == NULL || count > CASES_MAX) {
        return __real__cmocka_run_group_tests(name, tests, count, setup, teardown);
    }
    cases_mark(program, tests, count, traced);
    for (size_t i = 0; i < count; i++) {
        const int which = traced[i] ? 0 : 1;
        part[which][of[which]++] = tests[i];
    }
    group.setup = setup;
    group.teardown = teardown;
    group.ready = false;
    group.state = NULL;
    group.parts = (of[0] > 0) + (of[1] > 0);
    for (int which = 0; which < 2; which++) {
        if (of[which] == 0) {
            continue;
        }
        if (ran) {
            (void)__llvm_profile_write_file();
            __llvm_profile_reset_counters();
        }
        ran = true;
        cases_count_to(which, program);
        failed += __real__cmocka_run_group_tests(name, part[which], of[which], cases_setup,
                                                 cases_teardown);
    }
    return failed;
}
