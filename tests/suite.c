/* SPDX-License-Identifier: MIT */
/* The main of a suite, which has all tests of one folder (tests/suite.sh links it):
 *
 *   suite test_feed              runs the cases of test_feed.c
 *   suite test_feed 'resume_*'   those whose names match
 *   suite --list                 the names of the tests
 *
 * Ends with the exit status of the test; with 2 where there is no such test or case. */
#include "tests/suite.h"

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SUITE_USAGE = 2 };

static const char *suite_pattern; /* of the cases that are asked for; NULL for all */
static size_t suite_matches;

/* What the tests of a suite call in cmocka's place (tests/suite.sh). */
int suite_run_group(const char *name, const struct CMUnitTest *tests, size_t count,
                    CMFixtureFunction setup, CMFixtureFunction teardown);

int suite_run_group(const char *name, const struct CMUnitTest *tests, size_t count,
                    CMFixtureFunction setup, CMFixtureFunction teardown)
{
    if (suite_pattern == NULL) {
        return _cmocka_run_group_tests(name, tests, count, setup, teardown);
    }
    struct CMUnitTest *chosen = calloc(count, sizeof *chosen);
    size_t matches = 0;
    if (chosen == NULL) {
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        if (fnmatch(suite_pattern, tests[i].name, 0) == 0) {
            chosen[matches++] = tests[i];
        }
    }
    suite_matches += matches;
    const int failed =
        matches == 0 ? 0 : _cmocka_run_group_tests(name, chosen, matches, setup, teardown);
    free(chosen);
    return failed;
}

static int suite_list(FILE *to)
{
    for (size_t i = 0; i < suite_count; i++) {
        (void)fprintf(to, "%s\n", suite_tests[i].name);
    }
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "--list") == 0) {
        return suite_list(stdout);
    }
    if (count != 2 && count != 3) {
        (void)fprintf(stderr, "usage: %s TEST [CASES]; the tests are:\n", arguments[0]);
        (void)suite_list(stderr);
        return SUITE_USAGE;
    }
    suite_pattern = count == 3 ? arguments[2] : NULL;
    for (size_t i = 0; i < suite_count; i++) {
        if (strcmp(suite_tests[i].name, arguments[1]) != 0) {
            continue;
        }
        (void)setenv("BP_SUITE_TEST", arguments[1], 1);
        const int failed = suite_tests[i].run();
        if (suite_pattern != NULL && suite_matches == 0) {
            (void)fprintf(stderr, "%s: %s has no case %s\n", arguments[0], arguments[1],
                          suite_pattern);
            return SUITE_USAGE;
        }
        return failed;
    }
    (void)fprintf(stderr, "%s: there is no test %s; the tests are:\n", arguments[0], arguments[1]);
    (void)suite_list(stderr);
    return SUITE_USAGE;
}
