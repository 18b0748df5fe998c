/* SPDX-License-Identifier: MIT */
/* The way from a sensor to a trainer: windows of a ring, with an interrupt in between; mean and
 * variance against double; labelled rows that are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "device/host/sensor.h"

enum { FRAMES = 64, CHANNELS = 3, WINDOW = 20, HOP = 7 };

static volatile float ring[FRAMES * CHANNELS];
static bp_sensor_learned learned;

static bp_sensor opened(void)
{
    bp_sensor sensor = {.ring = ring,
                        .frames = FRAMES,
                        .channels = CHANNELS,
                        .window = WINDOW,
                        .hop = HOP,
                        .memory = 50,
                        .learned = &learned};
    memset(&learned, 0, sizeof learned);
    assert_int_equal(bp_sensor_open(&sensor), BP_OK);
    return sensor;
}

static void push(bp_sensor *sensor, uint32_t number)
{
    float frame[CHANNELS];
    for (uint32_t c = 0; c < CHANNELS; c++) {
        frame[c] = (float)(number * CHANNELS + c);
    }
    assert_int_equal(bp_sensor_push(sensor, frame), BP_OK);
}

/* The first frame's number; all others follow it. */
static uint32_t first_of(const float *window)
{
    for (uint32_t i = 0; i < WINDOW * CHANNELS; i++) {
        assert_true(window[i] == window[0] + (float)i);
    }
    return (uint32_t)window[0] / CHANNELS;
}

/* verifies device-41.25da */
static void windows_overlap_and_overruns_are_counted(void **state)
{
    (void)state;
    for (uint32_t ahead = 1; ahead < 3 * FRAMES; ahead++) {
        bp_sensor sensor = opened();
        float window[WINDOW * CHANNELS];
        uint32_t pushed = 0, next = 0;
        while (pushed < 10 * FRAMES) {
            for (uint32_t i = 0; i < ahead; i++) {
                push(&sensor, pushed++);
            }
            /* What is looked at begins where the last window went on, or behind what was lost. */
            const uint32_t lost = pushed - next > FRAMES - 1 ? pushed - next - (FRAMES - 1) : 0;
            const uint32_t before = sensor.overrun;
            next += lost;
            while (bp_sensor_window(&sensor, window)) {
                assert_int_equal(first_of(window), next);
                next += HOP;
            }
            assert_int_equal(sensor.overrun - before, lost);
            assert_true(pushed - next < WINDOW);
        }
    }
}

/* So large that copying a window takes long enough for an interrupt to come in between. */
enum { WIDE = 8192, WIDE_WINDOW = 4096, WIDE_HOP = 999, NUMBERS = 4000000 };

static volatile float wide_ring[WIDE * CHANNELS];
static float wide_window[WIDE_WINDOW * CHANNELS];
static bp_sensor *interrupted;
static uint32_t interrupts;
static volatile uint32_t unanswered; /* interrupts that pushed since the consumer last returned */

/* The next one comes when this one has ended; where the consumer had no turn during four, it gets
 * one before more is pushed: a slow build and a busy machine see as many windows as a quiet one.
 * Numbers stay exact in floats. */
static void interrupt(int signal_number)
{
    const struct itimerval soon = {{0, 0}, {0, 60}};
    (void)signal_number;
    if (unanswered < 4) {
        unanswered++;
        interrupts++;
        for (uint32_t i = 0; i < interrupts * 37 % 6000 && interrupted->written < NUMBERS; i++) {
            float frame[CHANNELS];
            for (uint32_t c = 0; c < CHANNELS; c++) {
                frame[c] = (float)(interrupted->written * CHANNELS + c);
            }
            if (bp_sensor_push(interrupted, frame) != BP_OK) {
                return;
            }
        }
    }
    (void)setitimer(ITIMER_REAL, &soon, NULL); /* no wait: at any moment */
}

/* A signal comes between any two instructions, as an interrupt does. */
/* verifies device-41.25da */
static void an_interrupt_at_any_moment(void **state)
{
    (void)state;
    bp_sensor sensor = opened();
    struct sigaction action = {.sa_handler = interrupt};
    const struct itimerval first = {{0, 0}, {0, 60}};
    const struct itimerval never = {{0, 0}, {0, 0}};
    uint32_t windows = 0, next = 0, torn = 0;
    sensor.ring = wide_ring;
    sensor.frames = WIDE;
    sensor.window = WIDE_WINDOW;
    sensor.hop = WIDE_HOP;
    interrupted = &sensor;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &first, NULL), 0); /* no wait: at any moment */
    while (interrupts < 1000 && sensor.written < NUMBERS) {
        const bool taken = bp_sensor_window(&sensor, wide_window);
        unanswered = 0;
        if (taken) {
            for (uint32_t i = 0; i < WIDE_WINDOW * CHANNELS; i++) {
                torn += wide_window[i] != wide_window[0] + (float)i;
            }
            torn += (uint32_t)wide_window[0] < next * CHANNELS;
            next = (uint32_t)wide_window[0] / CHANNELS + WIDE_HOP;
            windows++;
        }
    }
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0); /* no wait: the last */
    assert_int_equal(torn, 0);
    assert_true(windows > 100);
    assert_true(sensor.overrun > 0);
}

/* verifies device-41.25da */
static void mean_and_variance(void **state)
{
    (void)state;
    bp_sensor sensor = opened();
    double mean = 0.0, squares = 0.0, seen = 0.0;
    float window[WINDOW * CHANNELS];
    for (uint32_t n = 0, next = 0; n < 4000; n++) {
        const float frame[CHANNELS] = {(float)(n * 7919 % 257) / 8.0f, 3.0f, -(float)(n % 13)};
        assert_int_equal(bp_sensor_push(&sensor, frame), BP_OK);
        if (!bp_sensor_window(&sensor, window)) {
            continue;
        }
        float raw[WINDOW];
        for (uint32_t t = 0; t < WINDOW; t++) {
            raw[t] = window[t * CHANNELS];
        }
        bp_sensor_normalise(&sensor, window, false);
        for (uint32_t t = WINDOW - HOP; t < WINDOW; t++) {
            const bool full = seen >= 50.0;
            seen = full ? 50.0 : seen + 1.0;
            const double before = (double)raw[t] - mean;
            squares = full ? squares - squares / seen : squares;
            mean += before / seen;
            squares += before * ((double)raw[t] - mean);
        }
        for (uint32_t t = 0; t < WINDOW; t++) {
            const double right = ((double)raw[t] - mean) / sqrt(squares / seen + 1e-6);
            assert_true(fabs((double)window[t * CHANNELS] - right) < 1e-4);
            assert_true(fabsf(window[t * CHANNELS + 1]) < 1e-2f); /* it never moves */
        }
        const bp_sensor_learned was = learned;
        bp_sensor_normalise(&sensor, window, true);
        assert_memory_equal(&was, &learned, sizeof was);
        next++;
    }
}

/* verifies device-41.25da */
static void what_is_refused(void **state)
{
    (void)state;
    bp_sensor sensor = opened();
    const float nan[CHANNELS] = {0.0f, NAN, 0.0f}, infinite[CHANNELS] = {0.0f, 0.0f, -INFINITY};
    const uint32_t good[] = {FRAMES, CHANNELS, WINDOW, HOP, 50};
    const uint32_t bad[][5] = {{0, 3, 20, 7, 50},   {63, 3, 20, 7, 50},  {64, 0, 20, 7, 50},
                               {64, 17, 20, 7, 50}, {64, 3, 0, 7, 50},   {64, 3, 33, 7, 50},
                               {64, 3, 20, 0, 50},  {64, 3, 20, 21, 50}, {64, 3, 20, 7, 0}};
    assert_int_equal(bp_sensor_push(&sensor, nan), BP_ERR_DATA);
    assert_int_equal(bp_sensor_push(&sensor, infinite), BP_ERR_DATA);
    assert_int_equal(sensor.refused, 2);
    assert_int_equal(sensor.written, 0);
    for (size_t i = 0; i <= sizeof bad / sizeof bad[0]; i++) {
        const uint32_t *as = i < sizeof bad / sizeof bad[0] ? bad[i] : good;
        sensor.frames = as[0];
        sensor.channels = as[1];
        sensor.window = as[2];
        sensor.hop = as[3];
        sensor.memory = as[4];
        assert_int_equal(bp_sensor_open(&sensor), as == good ? BP_OK : BP_ERR_USAGE);
    }
    uint32_t memory[64];
    assert_int_equal(bp_replay_open(memory, sizeof memory, 2, 4, BP_REPLAY_CLASSES + 1),
                     BP_ERR_USAGE);
    assert_int_equal(bp_replay_open(memory, sizeof memory, 0, 4, 2), BP_ERR_USAGE);
    assert_int_equal(bp_replay_open(memory, BP_REPLAY_BYTES(2, 4) - 1, 2, 4, 2), BP_ERR_FIT);
    assert_int_equal(bp_replay_open(memory, sizeof memory, UINT32_MAX, UINT32_MAX, 2), BP_ERR_FIT);
}

enum { ROWS = 30, WIDTH = 2, CLASSES = 3, PUT = 600 };

/* Classes come one after the other; each has its share, and of its rows every one has the same
 * chance to be there. */
/* verifies device-41.25da */
static void rows_are_balanced_and_chosen_evenly(void **state)
{
    (void)state;
    uint32_t memory[BP_REPLAY_BYTES(WIDTH, ROWS) / sizeof(uint32_t)];
    bp_replay *replay = (void *)memory;
    const float *row;
    uint32_t label;
    assert_int_equal(bp_replay_open(memory, sizeof memory, WIDTH, ROWS, CLASSES), BP_OK);
    assert_false(bp_replay_draw(replay, &row, &label));
    for (uint32_t c = 0; c < CLASSES; c++) {
        for (uint32_t i = 0; i < PUT; i++) {
            const float numbers[WIDTH] = {(float)c, (float)i};
            assert_int_equal(bp_replay_put(replay, numbers, c), BP_OK);
        }
        for (uint32_t k = 0; k <= c; k++) {
            assert_true(replay->held[k] + 1 >= ROWS / (c + 1) &&
                        replay->held[k] <= ROWS / (c + 1) + 1);
        }
    }
    double early = 0.0, drawn = 0.0;
    for (uint32_t i = 0; i < 900; i++) {
        assert_true(bp_replay_draw(replay, &row, &label));
        assert_int_equal(label, i % CLASSES);
        assert_true(row[0] == (float)label && row[1] < (float)PUT);
        early += row[1] < (float)PUT / 2 ? 1.0 : 0.0;
        drawn += 1.0;
    }
    assert_true(early / drawn > 0.25 && early / drawn < 0.75);
    const float nan[WIDTH] = {0.0f, NAN}, fine[WIDTH] = {0.0f, 1.0f};
    assert_int_equal(bp_replay_put(replay, nan, 0), BP_ERR_DATA);
    assert_int_equal(bp_replay_put(replay, fine, CLASSES), BP_ERR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_overlap_and_overruns_are_counted),
        cmocka_unit_test(an_interrupt_at_any_moment), cmocka_unit_test(mean_and_variance),
        cmocka_unit_test(what_is_refused), cmocka_unit_test(rows_are_balanced_and_chosen_evenly)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
