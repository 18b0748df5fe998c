/* SPDX-License-Identifier: MIT */
/* Every program of tests/ptxvm/programs (hand-written PTX) and of tests/ptxvm/compilers (what other
 * compilers wrote): each must give known answers, be reported for a planted fault, or be refused by
 * line, under four seeds and both builds of the arithmetic. */
/* verifies device-20.1ca2 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ptxvm/run.h"

enum { PROGRAMS_MAX = 400, PATH_BYTES = 400 };

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

/* Adds the programs of a folder after the first `count`; returns how many there are then. */
static size_t add_folder(const char *folder, char paths[][PATH_BYTES], struct CMUnitTest *tests,
                         size_t count)
{
    DIR *open = opendir(folder);
    if (open == NULL) {
        fprintf(stderr, "run from the repository's root: no %s\n", folder);
        exit(1);
    }
    for (struct dirent *at = readdir(open); at != NULL; at = readdir(open)) {
        size_t length = strlen(at->d_name);
        if (length > 4 && length < 200 && strcmp(at->d_name + length - 4, ".ptx") == 0 &&
            count < PROGRAMS_MAX) {
            snprintf(paths[count], PATH_BYTES, "%s/%s", folder, at->d_name);
            tests[count].name = strrchr(paths[count], '/') + 1;
            tests[count].test_func = run_one;
            tests[count].initial_state = paths[count];
            count++;
        }
    }
    closedir(open);
    return count;
}

int main(void)
{
    static char paths[PROGRAMS_MAX][PATH_BYTES];
    static struct CMUnitTest tests[PROGRAMS_MAX];
    size_t count = add_folder("tests/ptxvm/programs", paths, tests, 0);
    count = add_folder("tests/ptxvm/compilers", paths, tests, count);
    qsort(tests, count, sizeof tests[0], compare);
    run_open();
    return _cmocka_run_group_tests("programs", tests, count, NULL, NULL);
}
