/* SPDX-License-Identifier: MIT */
/* events.jsonl. */
#include "tools/bedplate/record/events.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_PIECE = 4096 }; /* read at once: a page of the text, which is used anyway */

/* The number after a line's last one: lines that were moved away are counted by those that follow.
 */
static uint64_t events_after(const char *text, uint64_t sequence)
{
    static const char key[] = "\"seq\":";
    for (const char *at = strstr(text, key); at != NULL; at = strstr(at, key)) {
        at += sizeof key - 1;
        const uint64_t after = strtoull(at, NULL, 10) + 1;
        sequence = after > sequence ? after : sequence;
    }
    return sequence;
}

/* Finds the number of the next line, and ends a last one that was cut off. */
static void events_count(events *e)
{
    char last = '\n';
    ssize_t n;
    off_t at = 0;
    e->sequence = 0;
    for (; (n = pread(e->fd, e->text, EVENTS_PIECE, at)) > 0; at += n) {
        for (ssize_t i = 0; i < n; i++) {
            e->sequence += e->text[i] == '\n' ? 1 : 0;
        }
        last = e->text[n - 1];
    }
    n = pread(e->fd, e->text, EVENTS_PIECE, at > EVENTS_PIECE ? at - EVENTS_PIECE : 0);
    e->text[n > 0 ? n : 0] = '\0';
    if (last != '\n') {
        e->errors += write(e->fd, "\n", 1) == 1 ? 0 : 1;
        e->sequence++;
    }
    e->sequence = events_after(e->text, e->sequence);
}

void events_open(events *e, const char *directory)
{
    const int length = snprintf(e->path, sizeof e->path, "%s/%s", directory, EVENTS_NAME);
    e->errors = 0;
    e->fd = -1;
    if (length > 0 && (size_t)length < sizeof e->path) {
        e->fd = open(e->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    }
    if (e->fd >= 0) {
        events_count(e);
    }
}

void events_reopen(events *e)
{
    events_close(e);
    e->fd = open(e->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

void events_close(events *e)
{
    if (e->fd >= 0) {
        (void)close(e->fd); /* each line went out by a call of its own */
    }
    e->fd = -1;
}

json_line *events_begin(events *e, const char *kind, uint64_t step)
{
    struct timespec now = {0, 0};
    struct tm parts;
    char day[32] = "";
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts) != NULL) {
        (void)strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    json_line *line = &e->line;
    line_begin(line, e->text, sizeof e->text);
    line_text(line, "event", kind);
    line_count(line, "seq", e->sequence);
    line_text(line, "time", day);
    bp_json_put_member(&line->json, "unix");
    bp_text_fixed(&line->text, (double)now.tv_sec + (double)(now.tv_nsec / 1000) * 1e-6, 6);
    line_count(line, "step", step);
    return line;
}

void events_end(events *e)
{
    size_t length;
    const bool whole = line_end(&e->line, &length) == BP_OK && e->fd >= 0;
    e->sequence++;
    if (!whole || write(e->fd, e->text, length) != (ssize_t)length) {
        e->errors++;
    }
}
