/* SPDX-License-Identifier: MIT */
/* One producer, one consumer, no lock: the producer alone moves `written`, and what a window copies
 * counts only where the producer has not come round meanwhile. */
#include "device/host/sensor.h"

#include <math.h>
#include <string.h>

#define FREE UINT32_MAX

static bool sensor_finite(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (bits & 0x7f800000) != 0x7f800000;
}

bp_status bp_sensor_open(bp_sensor *sensor)
{
    const bool power = sensor->frames > 0 && (sensor->frames & (sensor->frames - 1)) == 0;
    if (sensor->ring == NULL || sensor->learned == NULL || !power || sensor->channels == 0 ||
        sensor->channels > BP_SENSOR_CHANNELS || sensor->window == 0 ||
        sensor->window > sensor->frames / 2 || sensor->hop == 0 || sensor->hop > sensor->window ||
        sensor->memory == 0) {
        return BP_ERR_USAGE;
    }
    sensor->written = 0;
    sensor->taken = 0;
    sensor->overrun = 0;
    sensor->refused = 0;
    return BP_OK;
}

bp_status bp_sensor_push(bp_sensor *sensor, const float *frame)
{
    const uint32_t at = sensor->written;
    bool finite = true;
    if (sensor->channels == 0 || sensor->ring == NULL) {
        return BP_ERR_USAGE;
    }
    volatile float *to = sensor->ring + (size_t)(at & (sensor->frames - 1)) * sensor->channels;
    for (uint32_t c = 0; c < sensor->channels; c++) {
        finite = finite && sensor_finite(frame[c]);
    }
    if (!finite) {
        sensor->refused = sensor->refused + 1;
        return BP_ERR_DATA;
    }
    for (uint32_t c = 0; c < sensor->channels; c++) {
        to[c] = frame[c];
    }
    sensor->written = at + 1; /* the frame is there before its number */
    return BP_OK;
}

/* The frame that is being written is none of a window's: one less than the ring holds is whole. */
static void sensor_pass_over(bp_sensor *sensor)
{
    const uint32_t behind = sensor->written - sensor->taken;
    if (behind > sensor->frames - 1) {
        const uint32_t lost = behind - (sensor->frames - 1);
        sensor->taken += lost;
        sensor->overrun += lost;
    }
}

bool bp_sensor_window(bp_sensor *sensor, float *window)
{
    const uint32_t channels = sensor->channels;
    for (;;) {
        sensor_pass_over(sensor);
        if (sensor->written - sensor->taken < sensor->window || sensor->window == 0) {
            return false;
        }
        for (uint32_t t = 0; t < sensor->window; t++) {
            const volatile float *from =
                sensor->ring + (size_t)((sensor->taken + t) & (sensor->frames - 1)) * channels;
            for (uint32_t c = 0; c < channels; c++) {
                window[(size_t)t * channels + c] = from[c];
            }
        }
        if (sensor->written - sensor->taken <= sensor->frames - 1) {
            sensor->taken += sensor->hop;
            return true;
        }
    }
}

/* Welford's way; once `memory` frames were seen, older ones fade. */
static void sensor_learn(bp_sensor *sensor, const float *frame)
{
    bp_sensor_learned *learned = sensor->learned;
    const bool full = learned->seen >= sensor->memory;
    learned->seen = full ? sensor->memory : learned->seen + 1;
    const float count = (float)learned->seen;
    for (uint32_t c = 0; c < sensor->channels; c++) {
        bp_sensor_statistics *s = &learned->channel[c];
        const float before = frame[c] - s->mean;
        const float share = before / count;
        const float kept = full ? s->squares - s->squares / count : s->squares;
        s->mean = s->mean + share;
        const float after = frame[c] - s->mean;
        const float square = before * after;
        s->squares = kept + square;
    }
}

void bp_sensor_normalise(bp_sensor *sensor, float *window, bool frozen)
{
    const uint32_t channels = sensor->channels;
    for (uint32_t t = sensor->window - sensor->hop; !frozen && t < sensor->window; t++) {
        sensor_learn(sensor, window + (size_t)t * channels);
    }
    for (uint32_t c = 0; c < channels; c++) {
        const bp_sensor_statistics *s = &sensor->learned->channel[c];
        const uint32_t seen = sensor->learned->seen > 0 ? sensor->learned->seen : 1;
        const float variance = s->squares / (float)seen;
        const float deviation = sqrtf(variance + 1e-6f);
        for (uint32_t t = 0; t < sensor->window; t++) {
            float *x = window + (size_t)t * channels + c;
            const float centred = *x - s->mean;
            *x = centred / deviation;
        }
    }
}

static uint32_t *replay_labels(bp_replay *replay)
{
    return (uint32_t *)(void *)(replay + 1);
}

static float *replay_row(bp_replay *replay, uint32_t place)
{
    return (float *)(void *)(replay_labels(replay) + replay->rows) + (size_t)place * replay->width;
}

/* A number below `below` that is a function of the two (splitmix64's last steps). */
static uint32_t replay_random(uint32_t kind, uint32_t number, uint32_t below)
{
    uint64_t z = ((uint64_t)kind << 32 | number) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(((z >> 32) * below) >> 32);
}

bp_status bp_replay_open(void *memory, size_t bytes, uint32_t width, uint32_t rows,
                         uint32_t classes)
{
    bp_replay *replay = memory;
    if (memory == NULL || width == 0 || rows == 0 || classes == 0 || classes > BP_REPLAY_CLASSES ||
        (uintptr_t)memory % sizeof(uint32_t) != 0) {
        return BP_ERR_USAGE;
    }
    const uint64_t row = bp_size_add(bp_size_mul(width, sizeof(float)), sizeof(uint32_t));
    if (bp_size_add(sizeof *replay, bp_size_mul(rows, row)) > bytes) {
        return BP_ERR_FIT;
    }
    *replay = (bp_replay){.width = width, .rows = rows, .classes = classes};
    memset(replay_labels(replay), 0xff, rows * sizeof(uint32_t));
    return BP_OK;
}

/* Number `which` of the places that have that label. */
static uint32_t replay_place(bp_replay *replay, uint32_t label, uint32_t which)
{
    const uint32_t *labels = replay_labels(replay);
    uint32_t place = 0;
    for (;; place++) {
        if (labels[place] == label && which-- == 0) {
            return place;
        }
    }
}

static uint32_t replay_largest(const bp_replay *replay)
{
    uint32_t largest = 0;
    for (uint32_t c = 1; c < replay->classes; c++) {
        largest = replay->held[c] > replay->held[largest] ? c : largest;
    }
    return largest;
}

/* Where a row of that class goes; rows: nowhere. */
static uint32_t replay_target(bp_replay *replay, uint32_t label)
{
    uint32_t all = 0;
    for (uint32_t c = 0; c < replay->classes; c++) {
        all += replay->held[c];
    }
    if (all < replay->rows) {
        return replay_place(replay, FREE, 0);
    }
    const uint32_t largest = replay_largest(replay);
    const uint32_t seen = replay->seen[label], held = replay->held[label];
    if (held < replay->held[largest]) { /* the largest class gives a place away */
        return replay_place(replay, largest, replay_random(1, seen, replay->held[largest]));
    }
    const uint32_t which = replay_random(2, seen, seen);
    return which < held ? replay_place(replay, label, which) : replay->rows;
}

bp_status bp_replay_put(bp_replay *replay, const float *row, uint32_t label)
{
    if (replay->rows == 0) {
        return BP_ERR_USAGE;
    }
    if (label >= replay->classes) {
        return BP_ERR_DATA;
    }
    for (uint32_t i = 0; i < replay->width; i++) {
        if (!sensor_finite(row[i])) {
            return BP_ERR_DATA;
        }
    }
    replay->seen[label]++;
    const uint32_t place = replay_target(replay, label);
    if (place == replay->rows) {
        return BP_OK;
    }
    uint32_t *at = &replay_labels(replay)[place];
    if (*at != FREE) {
        replay->held[*at]--;
    }
    *at = label;
    replay->held[label]++;
    memcpy(replay_row(replay, place), row, replay->width * sizeof *row);
    return BP_OK;
}

bool bp_replay_draw(bp_replay *replay, const float **row, uint32_t *label)
{
    for (uint32_t i = 0; i < replay->classes; i++) {
        const uint32_t number = replay->drawn++;
        const uint32_t wanted = number % replay->classes;
        if (replay->held[wanted] > 0) {
            *label = wanted;
            *row = replay_row(replay, replay_place(replay, wanted,
                                                   replay_random(3, number, replay->held[wanted])));
            return true;
        }
    }
    return false;
}
