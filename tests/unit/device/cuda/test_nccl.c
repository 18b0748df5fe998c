/* SPDX-License-Identifier: MIT */
/* GPUs of several ranks joined by NCCL, which here is a stand-in: the host's own programs of ranks
 * give what loops give, on graphs and launch by launch, and what is refused, fails or hangs ends
 * all in time. The ranks are threads, each with a GPU of the instrument of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/ranks.h"

static instrument on;
static bp_nccl_library nccl;
static const char *const variants[] = {"graph", "plain"};

static int reset(void **state)
{
    (void)state;
    on.set("PTXVM_SEED", "0");
    unsetenv("BP_NCCL_VERSION");
    setenv("BP_NCCL_LIMIT", "60000", 1);
    unsetenv("BP_NCCL_FAILS");
    unsetenv("BP_NCCL_STALLS");
    return 0;
}

/* nccl.h wants the toolkit's headers beside it. */
static bool compiles(const char *option)
{
    char command[512];
    snprintf(command, sizeof command,
             "cc -std=gnu11 -Wall -Wextra -Werror -fsyntax-only %s -I. -isystem "
             "/usr/local/cuda/include tests/gpu/nccl.c >/dev/null 2>&1",
             option);
    return system(command) == 0;
}

/* verifies device-30.2981 */
static void declarations_are_those_of_nccl_h(void **state)
{
    (void)state;
    const bool header = access("/usr/local/cuda/include/nccl.h", R_OK) == 0 ||
                        access("/usr/include/nccl.h", R_OK) == 0;
    if (!header || access("tests/gpu/nccl.c", R_OK) != 0) {
        printf("skipped: no nccl.h here to compare NCCL's declarations with\n");
        return;
    }
    assert_true(compiles(""));
    assert_false(compiles("-DMISTAKE"));
}

static ranks_setup setup_of(uint32_t size, uint32_t variant, uint32_t form)
{
    return (ranks_setup){&bp_device_cuda,    variants[variant], size, 0,
                         form | RANKS_APART, RANKS_LONG_WAIT,   &nccl};
}

/* verifies ranks-14.d729 */
static void ranks_compute_what_loops_compute(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        const char seed[2] = {(char)('0' + i), '\0'};
        const ranks_setup setup = setup_of(i / 2 + 1, i % 2, i > 1 ? RANKS_POISON : 0);
        on.set("PTXVM_SEED", seed);
        ranks_play(&setup);
        ranks_compare(&setup);
        assert_int_equal(on.ledger(NULL, 0), 0);
    }
}

/* Their calls are messages between members, not calls of all. */
/* verifies ranks-14.d729 */
static void groups_compute_apart(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const ranks_setup setup = setup_of(4, i, RANKS_GROUP | RANKS_POISON);
        ranks_play(&setup);
        ranks_compare(&setup);
    }
}

/* Without ncclAlltoAll, as before 2.28, exchanges are messages. */
/* verifies ranks-14.d729 */
static void older_libraries_give_the_same(void **state)
{
    (void)state;
    const bp_nccl_library all = nccl;
    nccl.ncclAlltoAll = NULL;
    nccl.ncclCommWindowRegister = NULL;
    const ranks_setup setup = setup_of(3, 0, RANKS_POISON);
    ranks_play(&setup);
    ranks_compare(&setup);
    nccl = all;
}

/* verifies ranks-18.4f4a */
static void old_and_missing_libraries_are_refused(void **state)
{
    (void)state;
    bp_nccl_library library;
    bp_error error = {.code = BP_OK};
    setenv("BP_NCCL_VERSION", "21504", 1);
    assert_int_equal(bp_nccl_library_load(&library, &error), BP_ERR_DEVICE);
    assert_non_null(strstr(error.text, "NCCL is too old"));
    assert_int_equal(error.found, 21504);
    assert_int_equal(error.wanted, BP_NCCL_LEAST);
}

/* What NCCL finds on one rank ends all: those that wait learn it from the fabric below. */
/* verifies ranks-10.9048 */
static void an_asynchronous_error_ends_the_run(void **state)
{
    (void)state;
    setenv("BP_NCCL_FAILS", "1:4:6", 1);
    for (uint32_t i = 0; i < 2; i++) {
        const ranks_setup setup = setup_of(2, i, 0);
        ranks_play(&setup);
        assert_int_equal(ranks_at(1)->status, BP_ERR_FABRIC);
        assert_non_null(strstr(ranks_at(1)->fabric_error.name, "remote process exited"));
        assert_int_not_equal(ranks_at(0)->status, BP_OK);
    }
}

/* A rank that does not come: nobody waits longer than they are patient. */
/* verifies ranks-10.9048 */
static void a_rank_that_hangs_is_left_behind(void **state)
{
    (void)state;
    setenv("BP_NCCL_STALLS", "1:4", 1);
    for (uint32_t i = 0; i < 2; i++) {
        ranks_setup setup = setup_of(2, i, 0);
        setup.patience_ms = 1500;
        ranks_play(&setup);
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(ranks_at(r)->status, BP_ERR_FABRIC);
            assert_non_null(strstr(ranks_at(r)->fabric_error.text, "in time"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(declarations_are_those_of_nccl_h),
        cmocka_unit_test_teardown(ranks_compute_what_loops_compute, reset),
        cmocka_unit_test_teardown(groups_compute_apart, reset),
        cmocka_unit_test_teardown(older_libraries_give_the_same, reset),
        cmocka_unit_test_teardown(old_and_missing_libraries_are_refused, reset),
        cmocka_unit_test_teardown(an_asynchronous_error_ends_the_run, reset),
        cmocka_unit_test_teardown(a_rank_that_hangs_is_left_behind, reset),
    };
    bp_error error = {.code = BP_OK};
    if (!fake_driver_load(&on)) {
        return 77;
    }
    if (on.real) {
        printf("skipped: real NCCL takes several GPUs; make gpu runs it from the program\n");
        return 0;
    }
    on.set("PTXVM_DEVICES", "4");
    if (!fake_driver_load_other("nccl/libnccl.so.2") ||
        bp_nccl_library_load(&nccl, &error) != BP_OK) {
        printf("no stand-in for NCCL: %s\n", error.name);
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
