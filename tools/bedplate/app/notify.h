/* SPDX-License-Identifier: MIT */
/* sd_notify by its protocol: datagrams to $NOTIFY_SOCKET, a path or, after '@', an abstract name.
 * Without it, or where sending fails, nothing happens: a manager never stops a run by not
 * listening. */
#ifndef BP_BEDPLATE_NOTIFY_H
#define BP_BEDPLATE_NOTIFY_H

#include <stdbool.h>

/* Opens the socket; whether there is a manager that listens. */
bool notify_begin(void);

/* One datagram: assignments "NAME=VALUE", one per line. */
void notify_send(const char *text);

/* After a completed step: WATCHDOG=1, as often as the manager needs it ($WATCHDOG_USEC, unless
 * $WATCHDOG_PID is another process). */
void notify_alive(void);

/* WATCHDOG_USEC: where a step took so long that a few of them would be taken for a hang, the
 * manager is to wait six times as long. */
void notify_slow(double seconds);

/* EXTEND_TIMEOUT_USEC: what begins now may take so many seconds. */
void notify_extend(double seconds);

/* The process ends with this exit code: STOPPING=1 and, where it failed, EXIT_STATUS. */
void notify_end(int code);

#endif
