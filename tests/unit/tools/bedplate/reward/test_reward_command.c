/* SPDX-License-Identifier: MIT */
/* The reward command: answers in any order, and everything that such a process may do wrong. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bedplate/app/clock.h"

/* The clock stands still while a command may yet say something, however slow the machine, and goes
 * on past every deadline when it has said, by this file, that it will not (SILENT). */
static double now;
static char silent[] = "/tmp/test_reward_silent_XXXXXX";

double clock_seconds(void)
{
    return now;
}

static int poll_or_silent(struct pollfd *at, nfds_t count, int milliseconds)
{
    for (;;) {
        const bool over = access(silent, F_OK) == 0; /* before it is looked for what was said */
        const int ready = poll(at, count, over ? 0 : 5);
        if (ready != 0) {
            return ready;
        }
        if (over) {
            now += milliseconds * 1e-3;
            unlink(silent);
            return 0;
        }
    }
}

#define poll poll_or_silent
#include "tools/bedplate/reward/reward_command.c"
#undef poll

enum { CASES = 5 };

#define SILENT ": >$BP_TEST_SILENT; sleep 999"
#define HELLO  "echo '{\"name\":\"test\",\"version\":\"1\"}'; "
/* Answers each request with a tenth of its id. */
#define ID   "id=${l#*:}; id=${id%%,*}; "
#define GOOD "while read -r l; do " ID "echo \"{\\\"id\\\":$id,\\\"reward\\\":0.$id}\"; done"

static reward_command command;
static bp_error error;
static double scores[CASES];

static bp_status opened(const char *text)
{
    memset(&command, 0, sizeof command);
    error = (bp_error){.code = BP_OK};
    command.text = text;
    command.errors = "/dev/null";
    command.timeout = 0.5;
    command.on_failure = REWARD_SKIP;
    return reward_command_open(&command, &error);
}

static bp_status asked(void)
{
    reward_case cases[CASES];
    memset(cases, 0, sizeof cases);
    for (uint32_t i = 0; i < CASES; i++) {
        cases[i].id = 1 + i;
        cases[i].prompt = cases[i].completion = "a\"\n";
        cases[i].prompt_bytes = cases[i].completion_bytes = 3;
    }
    return reward_command_score(&command, cases, CASES, 1, scores, &error);
}

/* Opens, asks and closes; then all scores are right, or the number of failures. */
static void all_are(const char *text, uint64_t failures, uint64_t restarts)
{
    assert_int_equal(opened(text), BP_OK);
    assert_int_equal(asked(), BP_OK);
    for (uint32_t i = 0; i < CASES && failures == 0; i++) {
        if (scores[i] != (1 + i) / 10.0) {
            fail_msg("%s: %u %g", text, i, scores[i]);
        }
    }
    assert_int_equal(command.failures, failures);
    assert_int_equal(command.restarts, restarts);
    reward_command_close(&command);
    assert_int_equal(command.process, 0);
}

/* verifies reward-4.edad */
static void answers_come_in_any_order(void **state)
{
    (void)state;
    all_are(HELLO GOOD, 0, 0);
    all_are(HELLO "while read -r l; do " ID "s=\"{\\\"id\\\":$id,\\\"reward\\\":0.$id}\\n$s\"; "
                  "[ $id = 5 ] && printf \"$s\"; done",
            0, 0);
}

/* The first process fails, the second answers. */
/* verifies reward-5.40ce */
static void what_fails_once_is_asked_again(void **state)
{
    char file[] = "/tmp/test_reward_XXXXXX", text[1024];
    static const char *const faults[] = {
        "exit 3",
        SILENT,
        "echo junk; sleep 999",
        "echo '{\"id\":1,\"reward\":0.1}'; echo '{\"id\":1,\"reward\":0.1}'; sleep 999",
        "echo '{\"id\":99,\"reward\":1}'; sleep 999",
        "echo '{\"id\":1,\"reward\":NaN}'; sleep 999",
        "echo '{\"id\":1,\"reward\":\"1\"}'; sleep 999",
        "echo '{\"id\":1}'; sleep 999",
        "head -c 1048576 /dev/zero | tr '\\0' x; sleep 999",
        "kill -9 $$",
    };
    (void)state;
    close(mkstemp(file));
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        unlink(file);
        snprintf(text, sizeof text, "%sif [ ! -e %s ]; then : >%s; read -r l; %s; exit; fi; %s",
                 HELLO, file, file, faults[i], GOOD);
        all_are(text, 0, 1);
    }
    unlink(file);
}

/* verifies reward-5.40ce */
static void what_fails_twice_is_a_failure(void **state)
{
    (void)state;
    all_are(HELLO "read -r l; echo junk; sleep 999", CASES, 1);
    assert_true(isnan(scores[0]) && isnan(scores[CASES - 1]));
    assert_int_equal(opened(HELLO "read -r l; " SILENT), BP_OK);
    command.on_failure = REWARD_VALUE;
    command.value = -2;
    assert_int_equal(asked(), BP_OK);
    assert_true(scores[0] == -2 && scores[CASES - 1] == -2);
    reward_command_close(&command);
    assert_int_equal(opened(HELLO "read -r l; " SILENT), BP_OK);
    command.on_failure = REWARD_STOP;
    assert_int_equal(asked(), BP_ERR_DATA);
    assert_string_equal(error.text, "the reward command gives no answer within --reward-timeout");
    reward_command_close(&command);
}

/* verifies reward-6.929e */
static void a_command_without_hello_is_refused(void **state)
{
    (void)state;
    assert_int_equal(opened("no-such-command-here"), BP_ERR_DATA);
    assert_string_equal(error.text,
                        "the reward command ended, or said too much, before a hello line");
    assert_int_equal(opened(SILENT), BP_ERR_DATA);
    assert_string_equal(error.text,
                        "the reward command says no hello line within --reward-timeout");
    assert_int_equal(opened("echo hello; sleep 999"), BP_ERR_DATA);
    assert_string_equal(error.text,
                        "the first line of the reward command is no hello, an object such as "
                        "{\"name\":\"grader\",\"version\":\"1\"}");
    assert_int_equal(command.process, 0);
}

/* verifies reward-4.edad */
static void parts_have_names(void **state)
{
    double two[2 * CASES];
    const reward_case one = {.id = 7, .prompt = "", .completion = ""};
    (void)state;
    assert_int_equal(
        opened("echo '{\"name\":\"t\",\"rewards\":[\"format\",\"answer\"]}'; read -r l; "
               "echo '{\"id\":7,\"rewards\":{\"answer\":0.5,\"format\":1}}'; "
               "read -r l; echo '{\"id\":7,\"skip\":true}'; sleep 999"),
        BP_OK);
    assert_int_equal(command.parts, 2);
    assert_string_equal(command.names[1], "answer");
    assert_int_equal(reward_command_score(&command, &one, 1, 2, two, &error), BP_OK);
    assert_true(two[0] == 1 && two[1] == 0.5);
    assert_int_equal(reward_command_score(&command, &one, 1, 2, two, &error), BP_OK);
    assert_true(isnan(two[0]) && isnan(two[1]));
    reward_command_close(&command);
}

/* verifies reward-7.b2de */
static void different_answers_are_counted(void **state)
{
    (void)state;
    assert_int_equal(opened(HELLO "n=0; while read -r l; do " ID "n=$((n+1)); "
                                  "echo \"{\\\"id\\\":$id,\\\"reward\\\":$n}\"; done"),
                     BP_OK);
    command.check = 2;
    assert_int_equal(asked(), BP_OK);
    assert_int_equal(command.differing, 3);
    reward_command_close(&command);
    assert_int_equal(opened(HELLO GOOD), BP_OK);
    command.check = 1;
    assert_int_equal(asked(), BP_OK);
    assert_int_equal(command.differing, 0);
    reward_command_close(&command);
}

/* verifies reward-6.929e */
static void limits_hold(void **state)
{
    (void)state;
    assert_int_equal(opened(HELLO "sleep 999"), BP_OK);
    reward_command_close(&command);
    memset(&command, 0, sizeof command);
    command.text = "echo $(ulimit -v) $(ulimit -t)";
    command.errors = "/dev/null";
    command.timeout = 2;
    command.memory_limit = 1 << 28;
    command.cpu_limit = 7;
    assert_int_equal(reward_command_open(&command, &error), BP_ERR_DATA);
    assert_memory_equal(command.line, "262144 7\n", 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_in_any_order),
        cmocka_unit_test(what_fails_once_is_asked_again),
        cmocka_unit_test(what_fails_twice_is_a_failure),
        cmocka_unit_test(a_command_without_hello_is_refused),
        cmocka_unit_test(parts_have_names),
        cmocka_unit_test(different_answers_are_counted),
        cmocka_unit_test(limits_hold),
    };
    const int made = mkstemp(silent);
    if (made < 0 || close(made) != 0 || unlink(silent) != 0 ||
        setenv("BP_TEST_SILENT", silent, 1) != 0) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
