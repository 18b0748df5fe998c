/* SPDX-License-Identifier: MIT */
/* From a sensor to a trainer: a ring that an interrupt fills, windows that overlap, normalisation
 * by running mean and variance, and labelled windows that are kept to be learned again.
 *
 *     interrupt:  bp_sensor_push(&sensor, frame)
 *     main loop:  while (bp_sensor_window(&sensor, window)) {
 *                     bp_sensor_normalise(&sensor, window);
 *                     .. trainer_predict(window, ..), or with a label: bp_replay_put(..) }
 *
 * Numbers are computed in float, one operation at a time: the same bits on every machine. All
 * memory is the caller's. */
/* Installed as part of <bedplate/sensor.h>. */
#ifndef BP_DEVICE_HOST_SENSOR_H
#define BP_DEVICE_HOST_SENSOR_H

#include "arena/base.h"

#define BP_SENSOR_CHANNELS 16
#define BP_REPLAY_CLASSES  32

/* What normalisation has seen of a channel. */
typedef struct bp_sensor_statistics {
    float mean;
    float squares; /* sum of squared differences from the mean */
} bp_sensor_statistics;

/* What is kept over a cut of power: a bp_trainer_part of it saves it with a state. */
typedef struct bp_sensor_learned {
    uint32_t seen; /* frames, at most `memory` */
    bp_sensor_statistics channel[BP_SENSOR_CHANNELS];
} bp_sensor_learned;

/* The caller sets the first part, bp_sensor_open the rest. */
typedef struct bp_sensor {
    volatile float *ring; /* (frames, channels) */
    uint32_t frames;      /* a power of two, at least twice a window */
    uint32_t channels;    /* 1 to BP_SENSOR_CHANNELS */
    uint32_t window;      /* frames of a window, */
    uint32_t hop;         /* and from one to the next: 1 to window */
    uint32_t memory;      /* frames that mean and variance remember: older ones fade; 1 or more */

    bp_sensor_learned *learned; /* the caller's: zeros at first, or what was kept */
    volatile uint32_t written;  /* frames, by the interrupt alone */
    uint32_t taken;             /* frames before the next window, by the main loop alone */
    uint32_t overrun;           /* frames that were overwritten before they were looked at */
    volatile uint32_t refused;  /* frames with a number that is not finite */
} bp_sensor;

/* BP_ERR_USAGE: a member is outside of its range. */
bp_status bp_sensor_open(bp_sensor *sensor) BP_MUST_CHECK;

/* Appends a frame of `channels` numbers; the oldest one gives way. May interrupt any of the others,
 * of one interrupt at a time, and takes the same few instructions always. BP_ERR_DATA: a number is
 * not finite; then the frame is counted and left out. BP_ERR_USAGE: the sensor was not opened. */
bp_status bp_sensor_push(bp_sensor *sensor, const float *frame) BP_MUST_CHECK;

/* Copies the next window, (window, channels), and goes on by `hop`; false: it is not complete.
 * Where the ring has overrun, the oldest frames are passed over and counted; a window never has
 * frames of two turns of the ring. */
bool bp_sensor_window(bp_sensor *sensor, float *window);

/* Learns mean and variance from a window's newest `hop` frames, unless `frozen`, and makes every
 * channel's numbers (x - mean) / sqrt(variance + 1e-6). */
void bp_sensor_normalise(bp_sensor *sensor, float *window, bool frozen);

/* Labelled rows in a block of memory, to be learned again beside new ones: of every class as many
 * as of each other (balanced), of each class a uniform choice of all that were there (reservoir).
 * Behind the record lie (rows) labels, UINT32_MAX where a place is free, and (rows, width) numbers.
 */
typedef struct bp_replay {
    uint32_t width; /* numbers of a row */
    uint32_t rows;  /* places */
    uint32_t classes;
    uint32_t drawn;                   /* rows that were drawn, of all time */
    uint32_t seen[BP_REPLAY_CLASSES]; /* rows put, of each class, of all time */
    uint32_t held[BP_REPLAY_CLASSES]; /* rows there */
} bp_replay;

/* Bytes of a block of so many rows. */
#define BP_REPLAY_BYTES(width, rows)                                                               \
    (sizeof(bp_replay) + (size_t)(rows) * (sizeof(uint32_t) + (size_t)(width) * sizeof(float)))

/* An empty one at the start of `memory`, aligned to 4 bytes. BP_ERR_FIT: too few bytes;
 * BP_ERR_USAGE: no width, no rows, or more classes than BP_REPLAY_CLASSES. */
bp_status bp_replay_open(void *memory, size_t bytes, uint32_t width, uint32_t rows,
                         uint32_t classes) BP_MUST_CHECK;

/* Offers a labelled row. BP_ERR_DATA: a label beyond the classes or a number that is not finite;
 * BP_ERR_USAGE: the record is zero. */
bp_status bp_replay_put(bp_replay *replay, const float *row, uint32_t label) BP_MUST_CHECK;

/* The next row to learn from: classes in turn, of each a random row. *row points into the block.
 * False: there is none. */
bool bp_replay_draw(bp_replay *replay, const float **row, uint32_t *label);

#endif
