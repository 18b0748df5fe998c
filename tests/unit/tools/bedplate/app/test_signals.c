/* SPDX-License-Identifier: MIT */
/* What signals leave behind, and that the second one of TERM and INT ends a process at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "tools/bedplate/app/signals.c"

/* The status of a child that gets these signals in turn, 0-terminated, and then ends with the
 * wishes that it saw. */
static int status_of(bool usr1_stops, const int *numbers)
{
    const pid_t child = fork();
    if (child == 0) {
        signals_begin(usr1_stops);
        signals_watch();
        for (; *numbers != 0; numbers++) {
            raise(*numbers);
        }
        _exit((int)signals_take() | signals_caught() << 4);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* verifies alone-4.f3bb */
static void wishes_are_bits(void **state)
{
    (void)state;
    const int none[] = {SIGPIPE, SIGXFSZ, 0};
    const int all[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGHUP, 0};
    const int usr1[] = {SIGUSR1, 0};
    assert_int_equal(WEXITSTATUS(status_of(false, none)), 0);
    assert_int_equal(WEXITSTATUS(status_of(false, all)),
                     SIGNAL_SAVE | SIGNAL_REPORT | SIGNAL_REOPEN);
    assert_int_equal(WEXITSTATUS(status_of(true, usr1)) & 15, SIGNAL_STOP | SIGNAL_SAVE);
    assert_int_equal(WEXITSTATUS(status_of(true, usr1)) >> 4, SIGUSR1);
}

/* verifies alone-12.cb37 */
static void the_second_stop_ends_at_once(void **state)
{
    (void)state;
    const int once[] = {SIGTERM, 0};
    const int twice[] = {SIGTERM, SIGINT, 0};
    const int after[] = {SIGXCPU, SIGTERM, 0};
    const int often[] = {SIGINT, SIGXCPU, SIGXCPU, 0};
    const int asked[] = {SIGUSR1, SIGTERM, 0}; /* USR1 asks for a save that TERM does not end */
    assert_int_equal(WEXITSTATUS(status_of(false, once)) & 15, SIGNAL_STOP);
    assert_true(WIFSIGNALED(status_of(false, twice)));
    assert_int_equal(WTERMSIG(status_of(false, twice)), SIGINT);
    assert_int_equal(WTERMSIG(status_of(false, after)), SIGTERM);
    assert_true(WIFEXITED(status_of(false, often)));
    assert_true(WIFEXITED(status_of(true, asked)));
}

/* verifies alone-12.cb37 */
static void a_wish_is_taken_once(void **state)
{
    (void)state;
    signals_add(SIGNAL_SAVE | SIGNAL_REPORT | SIGNAL_REOPEN);
    assert_int_equal(signals_take(), SIGNAL_SAVE | SIGNAL_REPORT | SIGNAL_REOPEN);
    assert_int_equal(signals_take(), 0);
    signals_add(SIGNAL_STOP);
    assert_int_equal(signals_take(), SIGNAL_STOP);
    assert_int_equal(signals_take(), SIGNAL_STOP);
    assert_int_equal(signals_caught(), SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wishes_are_bits),
        cmocka_unit_test(the_second_stop_ends_at_once),
        cmocka_unit_test(a_wish_is_taken_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
