/* SPDX-License-Identifier: MIT */
/* TensorBoard's event files: records of protocol buffers, each with two checksums, in files of a
 * directory that are read in the order of their names. A torn last record is passed over by its
 * reader; what is wrong in the middle of a file ends it for ever, so a file is never opened again:
 * a process that goes on with a run begins another. Allocates nothing but what libc's directory
 * needs at the opening. */
#ifndef BP_BEDPLATE_EVENT_FILE_H
#define BP_BEDPLATE_EVENT_FILE_H

#include "core/base/store.h"

enum { EVENT_BYTES = 65536, EVENT_DEPTH = 8 };

typedef struct event_file {
    int fd;          /* below 0: there is none, and every event is an error */
    uint64_t errors; /* events that were not written */
    char directory[BP_STORE_PATH_MAX];
    uint32_t files;   /* opened by this process */
    double wall;      /* seconds of the epoch that events get; 0: the clock's */
    uint64_t started; /* step of the SessionLog */
    size_t used;
    size_t open[EVENT_DEPTH]; /* where messages that are not ended begin */
    uint32_t depth;
    bool full;
    unsigned char bytes[EVENT_BYTES];
} event_file;

/* Makes the directory and a file in it whose name comes after those that are there, whatever the
 * clock says; its first events are the version, and that steps from `step` on are new: readers
 * forget what older files say of them. False where that failed. */
bool event_file_open(event_file *e, const char *directory, uint64_t step);
/* Goes on in another file: the one before was moved. */
void event_file_reopen(event_file *e);
void event_file_close(event_file *e);

void event_scalar(event_file *e, uint64_t step, const char *tag, double value);
/* Markdown. */
void event_text(event_file *e, uint64_t step, const char *tag, const char *text);

/* The run's options: begin, a value for each, end. */
void event_hparams_begin(event_file *e);
void event_hparam_number(event_file *e, const char *name, double value);
void event_hparam_text(event_file *e, const char *name, const char *value);
void event_hparam_flag(event_file *e, const char *name, bool value);
void event_hparams_end(event_file *e);
/* How the run ended: 1 success, 2 failure. */
void event_hparams_status(event_file *e, uint64_t step, unsigned status);

/* CRC-32C (Castagnoli) of bytes, as records have it: rotated and shifted. */
uint32_t event_checksum(const unsigned char *bytes, size_t count);

#endif
