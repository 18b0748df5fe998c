/* SPDX-License-Identifier: MIT */
/* A writer of the few protocol buffers that TensorBoard needs. Field numbers are those of
 * tensorboard/compat/proto: event, summary, tensor, plugins/hparams/plugin_data. */
#define _DEFAULT_SOURCE /* gethostname */
#include "tools/bedplate/record/event_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };
enum { HEAD = 12, TAIL = 4 }; /* of a record: length and its checksum; the data's */

/* Bit by bit: some fifty bytes an event, and a table would be larger than this program's part. */
static uint32_t event_crc(const unsigned char *bytes, size_t count)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

uint32_t event_checksum(const unsigned char *bytes, size_t count)
{
    const uint32_t crc = event_crc(bytes, count);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void event_little(unsigned char *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(value >> (8 * i));
    }
}

static void event_bytes(event_file *e, const void *bytes, size_t count)
{
    if (count > sizeof e->bytes - TAIL - e->used) {
        e->full = true;
        return;
    }
    memcpy(e->bytes + e->used, bytes, count);
    e->used += count;
}

static size_t event_varint_text(unsigned char text[10], uint64_t value)
{
    size_t count = 0;
    for (; value >= 128; value >>= 7) {
        text[count++] = (unsigned char)(value | 128);
    }
    text[count++] = (unsigned char)value;
    return count;
}

static void event_varint(event_file *e, uint64_t value)
{
    unsigned char text[10];
    event_bytes(e, text, event_varint_text(text, value));
}

static void event_key(event_file *e, unsigned field, unsigned type)
{
    event_varint(e, field << 3 | type);
}

static void event_whole(event_file *e, unsigned field, uint64_t value)
{
    event_key(e, field, VARINT);
    event_varint(e, value);
}

static void event_double(event_file *e, unsigned field, double value)
{
    uint64_t bits;
    unsigned char bytes[8];
    memcpy(&bits, &value, sizeof bits);
    event_little(bytes, bits, sizeof bytes);
    event_key(e, field, FIXED64);
    event_bytes(e, bytes, sizeof bytes);
}

static void event_float(event_file *e, unsigned field, double value)
{
    const float single = (float)value;
    uint32_t bits;
    unsigned char bytes[4];
    memcpy(&bits, &single, sizeof bits);
    event_little(bytes, bits, sizeof bytes);
    event_key(e, field, FIXED32);
    event_bytes(e, bytes, sizeof bytes);
}

static void event_string(event_file *e, unsigned field, const char *text)
{
    const size_t length = strlen(text);
    event_key(e, field, LENGTH);
    event_varint(e, length);
    event_bytes(e, text, length);
}

/* A message inside: its length is put in front when it is known. */
static void event_open(event_file *e, unsigned field)
{
    event_key(e, field, LENGTH);
    e->open[e->depth++] = e->used;
}

static void event_shut(event_file *e)
{
    unsigned char text[10];
    const size_t begin = e->open[--e->depth];
    const size_t length = e->used - begin;
    const size_t count = event_varint_text(text, length);
    event_bytes(e, text, count); /* makes the room */
    if (!e->full) {
        memmove(e->bytes + begin + count, e->bytes + begin, length);
        memcpy(e->bytes + begin, text, count);
    }
}

static double event_now(const event_file *e)
{
    struct timeval now = {0};
    if (e->wall > 0) {
        return e->wall;
    }
    (void)gettimeofday(&now, NULL);
    return (double)now.tv_sec + 1e-6 * (double)now.tv_usec;
}

static void event_begin(event_file *e, uint64_t step)
{
    e->used = HEAD;
    e->depth = 0;
    e->full = false;
    event_double(e, 1, event_now(e));
    if (step > 0) {
        event_whole(e, 2, step);
    }
}

/* One write for a whole record, so that a process that dies leaves none half inside a file. */
static void event_end(event_file *e)
{
    event_little(e->bytes, e->used - HEAD, 8);
    event_little(e->bytes + 8, event_checksum(e->bytes, 8), 4);
    event_little(e->bytes + e->used, event_checksum(e->bytes + HEAD, e->used - HEAD), 4);
    e->used += TAIL;
    if (e->full || e->fd < 0) {
        e->errors++;
        return;
    }
    const ssize_t put = write(e->fd, e->bytes, e->used);
    if (put != (ssize_t)e->used) {
        e->errors++;
        event_file_close(e); /* nothing may follow half a record */
    }
}

/* The largest number that names of files here have, 0 if none. */
static double event_newest(const char *directory)
{
    double newest = 0;
    DIR *folder = opendir(directory);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const char *at = strstr(entry->d_name, "tfevents.");
        const double number = at != NULL ? strtod(at + 9, NULL) : 0;
        newest = number > newest ? number : newest;
    }
    if (folder != NULL) {
        (void)closedir(folder); /* only read */
    }
    return newest;
}

static bool event_file_next(event_file *e)
{
    char host[64] = "host";
    char path[BP_STORE_PATH_MAX + 160];
    const double newest = event_newest(e->directory);
    const double now = event_now(e);
    (void)gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/events.out.tfevents.%010.0f.%s.%ld.%" PRIu32, e->directory,
             now > newest + 1 ? now : newest + 1, host, (long)getpid(), e->files++);
    e->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_EXCL | O_CLOEXEC, 0666);
    if (e->fd < 0) {
        e->errors++;
        return false;
    }
    event_begin(e, 0);
    event_string(e, 3, "brain.Event:2");
    event_end(e);
    event_begin(e, e->started);
    event_open(e, 7);     /* session_log */
    event_whole(e, 1, 1); /* START */
    event_shut(e);
    event_end(e);
    return e->fd >= 0;
}

bool event_file_open(event_file *e, const char *directory, uint64_t step)
{
    const size_t length = strlen(directory);
    e->fd = -1;
    e->errors = 0;
    e->files = 0;
    e->started = step;
    if (length >= sizeof e->directory) {
        e->errors++;
        return false;
    }
    memcpy(e->directory, directory, length + 1);
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
        e->errors++;
        return false;
    }
    return event_file_next(e);
}

void event_file_reopen(event_file *e)
{
    event_file_close(e);
    (void)mkdir(e->directory, 0777); /* there already, or the next call says it */
    (void)event_file_next(e);        /* counted */
}

void event_file_close(event_file *e)
{
    if (e->fd >= 0 && close(e->fd) != 0) {
        e->errors++;
    }
    e->fd = -1;
}

/* Summary.value with a tag. */
static void event_value_open(event_file *e, const char *tag)
{
    event_open(e, 5); /* summary */
    event_open(e, 1); /* value */
    event_string(e, 1, tag);
}

static void event_value_shut(event_file *e)
{
    event_shut(e);
    event_shut(e);
}

/* A tensor of one dimension; `text` is its only element, NULL: it has none. */
static void event_tensor(event_file *e, unsigned type, const char *text)
{
    event_open(e, 8);
    event_whole(e, 1, type);
    event_open(e, 2); /* shape */
    event_open(e, 2); /* dim */
    if (text != NULL) {
        event_whole(e, 1, 1);
    }
    event_shut(e);
    event_shut(e);
    if (text != NULL) {
        event_string(e, 8, text);
    }
    event_shut(e);
}

/* What a plugin knows a value by. */
static void event_plugin_open(event_file *e, const char *plugin)
{
    event_open(e, 9); /* metadata */
    event_open(e, 1); /* plugin_data */
    event_string(e, 1, plugin);
}

void event_scalar(event_file *e, uint64_t step, const char *tag, double value)
{
    event_begin(e, step);
    event_value_open(e, tag);
    event_float(e, 2, value);
    event_value_shut(e);
    event_end(e);
}

void event_text(event_file *e, uint64_t step, const char *tag, const char *text)
{
    event_begin(e, step);
    event_value_open(e, tag);
    event_tensor(e, 7, text); /* DT_STRING */
    event_plugin_open(e, "text");
    event_shut(e);
    event_whole(e, 4, 2); /* data class TENSOR */
    event_shut(e);
    event_value_shut(e);
    event_end(e);
}

/* A message of the plugin's own inside HParamsPluginData. */
static void event_session_open(event_file *e, const char *tag, unsigned field)
{
    event_value_open(e, tag);
    event_tensor(e, 1, NULL); /* DT_FLOAT */
    event_plugin_open(e, "hparams");
    event_open(e, 2); /* content */
    event_open(e, field);
}

static void event_session_shut(event_file *e)
{
    for (int i = 0; i < 4; i++) { /* the message, content, plugin_data, metadata */
        event_shut(e);
    }
    event_value_shut(e);
    event_end(e);
}

void event_hparams_begin(event_file *e)
{
    event_begin(e, 0);
    event_session_open(e, "_hparams_/session_start_info", 3);
}

static void event_hparam_begin(event_file *e, const char *name)
{
    event_open(e, 1); /* an entry of the map */
    event_string(e, 1, name);
    event_open(e, 2); /* google.protobuf.Value */
}

static void event_hparam_end(event_file *e)
{
    event_shut(e);
    event_shut(e);
}

void event_hparam_number(event_file *e, const char *name, double value)
{
    event_hparam_begin(e, name);
    event_double(e, 2, value);
    event_hparam_end(e);
}

void event_hparam_text(event_file *e, const char *name, const char *value)
{
    event_hparam_begin(e, name);
    event_string(e, 3, value);
    event_hparam_end(e);
}

void event_hparam_flag(event_file *e, const char *name, bool value)
{
    event_hparam_begin(e, name);
    event_whole(e, 4, value ? 1 : 0);
    event_hparam_end(e);
}

void event_hparams_end(event_file *e)
{
    event_double(e, 5, event_now(e)); /* start_time_secs */
    event_session_shut(e);
}

void event_hparams_status(event_file *e, uint64_t step, unsigned status)
{
    event_begin(e, step);
    event_session_open(e, "_hparams_/session_end_info", 4);
    event_whole(e, 1, status);
    event_double(e, 2, event_now(e));
    event_session_shut(e);
}
