/* SPDX-License-Identifier: MIT */
/* The tests of a folder in one program: what tests/suite.sh generates for tests/suite.c. */
#ifndef BP_TESTS_SUITE_H
#define BP_TESTS_SUITE_H

#include <stddef.h>

typedef struct suite_test {
    const char *name; /* of the source without its ending: "test_feed" */
    int (*run)(void); /* its main */
} suite_test;

extern const suite_test suite_tests[];
extern const size_t suite_count;

#endif
