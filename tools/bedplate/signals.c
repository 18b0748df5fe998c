/* SPDX-License-Identifier: MIT */
/* The one variable that a signal handler may write. */
#include "tools/bedplate/signals.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t caught;

static void remember(int number)
{
    caught = number;
}

void signals_watch(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = remember;
    action.sa_flags = SA_RESTART | (int)SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN;
    action.sa_flags = 0;
    sigaction(SIGPIPE, &action, NULL);
}

int signals_caught(void)
{
    return (int)caught;
}
