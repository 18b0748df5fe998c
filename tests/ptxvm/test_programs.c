/* SPDX-License-Identifier: MIT */
/* Every program of tests/ptxvm/programs: hand-written PTX that must give known answers, be reported
 * for a planted fault, or be refused by line, under four seeds and both builds of the arithmetic.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ptxvm/run.h"

enum { PROGRAMS_MAX = 400, PATH_BYTES = 400 };
static const char folder[] = "tests/ptxvm/programs";

static void run_one(void **state)
{
    run_program(*state);
}

static int compare(const void *a, const void *b)
{
    const struct CMUnitTest *x = a;
    const struct CMUnitTest *y = b;
    return strcmp(x->name, y->name);
}

int main(void)
{
    static char paths[PROGRAMS_MAX][PATH_BYTES];
    static struct CMUnitTest tests[PROGRAMS_MAX];
    size_t count = 0;
    DIR *open = opendir(folder);
    if (open == NULL) {
        fprintf(stderr, "run from the repository's root: no %s\n", folder);
        return 1;
    }
    for (struct dirent *at = readdir(open); at != NULL; at = readdir(open)) {
        size_t length = strlen(at->d_name);
        if (length > 4 && length < 200 && strcmp(at->d_name + length - 4, ".ptx") == 0 &&
            count < PROGRAMS_MAX) {
            snprintf(paths[count], PATH_BYTES, "%s/%s", folder, at->d_name);
            tests[count].name = paths[count] + sizeof folder;
            tests[count].test_func = run_one;
            tests[count].initial_state = paths[count];
            count++;
        }
    }
    closedir(open);
    qsort(tests, count, sizeof tests[0], compare);
    run_open();
    return _cmocka_run_group_tests("programs", tests, count, NULL, NULL);
}
