/* SPDX-License-Identifier: MIT */
/* The service manager's socket. MSG_NOSIGNAL and SOCK_CLOEXEC are not in every POSIX 2008. */
#define _DEFAULT_SOURCE
#include "tools/bedplate/app/notify.h"
#include "tools/bedplate/app/clock.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/bedplate/app/environment.h"

static struct {
    int socket; /* -1: nobody listens */
    struct sockaddr_un address;
    socklen_t length;
    double every; /* seconds between signs of life; 0: none are wanted */
    double last;
} manager = {.socket = -1};

/* Half of what the manager waits is the custom; a quarter leaves room for one slow step. */
static double notify_every(void)
{
    double usec, pid;
    const bool other = environment_number("WATCHDOG_PID", &pid) && pid != (double)getpid();
    return !other && environment_number("WATCHDOG_USEC", &usec) ? 1e-6 * usec / 4 : 0;
}

bool notify_begin(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    const size_t length = path != NULL ? strlen(path) : 0;
    if (length < 2 || length >= sizeof manager.address.sun_path ||
        (path[0] != '/' && path[0] != '@')) {
        return false; /* newer managers also name sockets of other kinds */
    }
    manager.address.sun_family = AF_UNIX;
    memcpy(manager.address.sun_path, path, length + 1);
    if (path[0] == '@') {
        manager.address.sun_path[0] = '\0';
    }
    manager.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    manager.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    manager.every = notify_every();
    return manager.socket >= 0;
}

void notify_send(const char *text)
{
    if (manager.socket < 0) {
        return;
    }
    const ssize_t sent =
        sendto(manager.socket, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
               (const struct sockaddr *)(const void *)&manager.address, manager.length);
    (void)sent;
}

void notify_alive(void)
{
    const double now = clock_seconds();
    if (manager.every > 0 && now - manager.last >= manager.every) {
        manager.last = now;
        notify_send("WATCHDOG=1");
    }
}

void notify_slow(double seconds)
{
    char text[64];
    if (manager.every > 0 && 3 * seconds > 4 * manager.every) {
        manager.every = 1.5 * seconds;
        snprintf(text, sizeof text, "WATCHDOG_USEC=%.0f", 4e6 * manager.every);
        notify_send(text);
    }
}

void notify_extend(double seconds)
{
    char text[64];
    snprintf(text, sizeof text, "EXTEND_TIMEOUT_USEC=%.0f", 1e6 * seconds);
    notify_send(text);
}

void notify_end(int code)
{
    char text[64] = "STOPPING=1";
    if (code > 0 && code < 128) {
        snprintf(text, sizeof text, "STOPPING=1\nEXIT_STATUS=%d", code);
    }
    notify_send(text);
}
