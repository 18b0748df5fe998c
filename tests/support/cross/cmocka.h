/* SPDX-License-Identifier: MIT */
/* What the tests of kernels ask of cmocka, by its names, for machines that the system has no cmocka
 * for (tests/variants/digests.sh runs them under an emulator). A failure ends the test that found
 * it. Include <setjmp.h>, <stdint.h> and <stddef.h> before it, as cmocka's own asks for. */
#ifndef BP_TESTS_SUPPORT_CROSS_CMOCKA_H
#define BP_TESTS_SUPPORT_CROSS_CMOCKA_H

#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
};

extern jmp_buf cross_cmocka_end; /* where a test that failed goes on */

#define cmocka_unit_test(function)                                                                 \
    {                                                                                              \
#function, function                                                                        \
    }
#define print_message(...) printf(__VA_ARGS__)
#define print_error(...)   fprintf(stderr, __VA_ARGS__)
#define fail_msg(...)                                                                              \
    (print_error("%s:%d: ", __FILE__, __LINE__), print_error(__VA_ARGS__), print_error("\n"),      \
     longjmp(cross_cmocka_end, 1))
#define fail() fail_msg("failed")
#define skip() longjmp(cross_cmocka_end, 2)

#define CROSS_ASSERT(condition, text) ((condition) ? (void)0 : (void)fail_msg("%s", text))
#define assert_true(x)                CROSS_ASSERT(x, #x)
#define assert_false(x)               CROSS_ASSERT(!(x), "not " #x)
#define assert_non_null(x)            CROSS_ASSERT((x) != NULL, #x)
#define assert_null(x)                CROSS_ASSERT((x) == NULL, "no " #x)
#define assert_ptr_equal(x, y)        CROSS_ASSERT((x) == (y), #x " is " #y)
#define assert_int_equal(x, y)        CROSS_ASSERT((uint64_t)(x) == (uint64_t)(y), #x " is " #y)
#define assert_memory_equal(x, y, n)  CROSS_ASSERT(memcmp(x, y, n) == 0, #x " is " #y)
#define assert_string_equal(x, y)     CROSS_ASSERT(strcmp(x, y) == 0, #x " is " #y)

/* Runs the tests and says how many passed; 1 where one failed. */
int cross_cmocka_run(const struct CMUnitTest *tests, size_t count);
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cross_cmocka_run(tests, sizeof(tests) / sizeof((tests)[0]))

#endif
