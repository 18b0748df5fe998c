/* SPDX-License-Identifier: MIT */
/* The variables that signal handlers may write. */
#include "tools/bedplate/app/signals.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stopping; /* the signal that asks to stop */
static volatile sig_atomic_t first;    /* TERM, INT or XCPU came */
static volatile sig_atomic_t save, report, reopen;
static volatile sig_atomic_t usr1_ends;

static void signals_wish(int number)
{
    if (number == SIGUSR1 && usr1_ends) {
        stopping = number;
    }
    save = number == SIGUSR1 ? 1 : save;
    report = number == SIGUSR2 ? 1 : report;
    reopen = number == SIGHUP ? 1 : reopen;
}

/* The default action of a signal raised here comes when the handler returns. */
static void signals_stop(int number)
{
    if (first && number != SIGXCPU) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    stopping = first ? stopping : number;
    first = 1;
}

static void signals_handle(const int *numbers, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    for (; *numbers != 0; numbers++) {
        sigaction(*numbers, &action, NULL);
    }
}

void signals_begin(bool usr1_stops)
{
    static const int wishes[] = {SIGUSR1, SIGUSR2, SIGHUP, 0};
    static const int ignored[] = {SIGPIPE, SIGXFSZ, 0};
    usr1_ends = usr1_stops;
    signals_handle(wishes, signals_wish);
    signals_handle(ignored, SIG_IGN);
}

void signals_watch(void)
{
    static const int stops[] = {SIGTERM, SIGINT, SIGXCPU, 0};
    signals_handle(stops, signals_stop);
}

unsigned signals_take(void)
{
    unsigned wishes = stopping != 0 ? SIGNAL_STOP : 0;
    wishes |= save ? SIGNAL_SAVE : 0;
    save = 0;
    wishes |= report ? SIGNAL_REPORT : 0;
    report = 0;
    wishes |= reopen ? SIGNAL_REOPEN : 0;
    reopen = 0;
    return wishes;
}

void signals_add(unsigned wishes)
{
    if ((wishes & SIGNAL_STOP) != 0 && stopping == 0) {
        stopping = SIGTERM;
    }
    save = (wishes & SIGNAL_SAVE) != 0 ? 1 : save;
    report = (wishes & SIGNAL_REPORT) != 0 ? 1 : report;
    reopen = (wishes & SIGNAL_REOPEN) != 0 ? 1 : reopen;
}

int signals_caught(void)
{
    return (int)stopping;
}
