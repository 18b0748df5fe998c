/* SPDX-License-Identifier: MIT */
/* Linked into the test programs of `make mutation-requirements`: of a program's cases only those
 * run that BP_MUTANT_CASES names ("one,two"; all where it is not set). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASES_MAX 512

int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);

static bool cases_name(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown)
{
    static struct CMUnitTest chosen[CASES_MAX];
    const char *list = getenv("BP_MUTANT_CASES");
    size_t left = 0;
    if (list == NULL || count > CASES_MAX) {
        return __real__cmocka_run_group_tests(name, tests, count, setup, teardown);
    }
    for (size_t i = 0; i < count; i++) {
        if (cases_name(list, tests[i].name)) {
            chosen[left++] = tests[i];
        }
    }
    return left == 0 ? 0 : __real__cmocka_run_group_tests(name, chosen, left, setup, teardown);
}
