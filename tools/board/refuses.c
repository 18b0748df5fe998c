/* SPDX-License-Identifier: MIT */
/* What a board must not take: samples of another width, numbers that are none, classes that there
 * are not, a torn state at any byte, a state of another model or version, a ring that overruns. It
 * is built beside a trainer of `plan --predict --emit-c` of an MLP over 16 numbers with 4 classes
 * (tests/variants/boards.sh), and prints one line: what was taken, or that nothing was. TORN is the
 * distance of the bytes at which a write to the flash is torn. */
#include <trainer.h>

#include <bedplate/sensor.h>
#include <math.h>
#include <string.h>

#include <board.h>

#ifndef TORN
#define TORN 1
#endif
#define WIDTH      16
#define CLASSES    4
#define SLOT_BYTES 8192
#define WINDOW     4

static unsigned char flash[2][SLOT_BYTES];
static size_t left = SIZE_MAX; /* bytes that can be written before the power goes */

static bp_status flash_read(void *user, uint32_t slot, uint64_t offset, void *to, size_t bytes)
{
    (void)user;
    memcpy(to, flash[slot] + offset, bytes);
    return BP_OK;
}

static bp_status flash_erase(void *user, uint32_t slot)
{
    (void)user;
    memset(flash[slot], 0xff, SLOT_BYTES);
    return BP_OK;
}

static bp_status flash_write(void *user, uint32_t slot, uint64_t offset, const void *from,
                             size_t bytes)
{
    const size_t some = bytes < left ? bytes : left;
    (void)user;
    memcpy(flash[slot] + offset, from, some);
    left -= left == SIZE_MAX ? 0 : some;
    return some < bytes ? BP_ERR_STORE : BP_OK;
}

static const bp_trainer_slots slots = {NULL, SLOT_BYTES, flash_read, flash_erase, flash_write};
static const float fine[WIDTH];

/* The sum of the steps that were trained, as the state has them: unchanged where all is refused. */
static uint64_t digest_now(void)
{
    uint64_t digest = 0;
    return trainer_digest(&digest) == BP_OK ? digest : 0;
}

static const char *take_samples(void)
{
    float outputs[CLASSES], wrong[WIDTH] = {0.0f};
    uint32_t found;
    bp_trainer_outcome outcome;
    if (trainer_place(0, fine, WIDTH - 1, 0) == BP_OK ||
        trainer_place(0, fine, WIDTH + 1, 0) == BP_OK || trainer_place(0, fine, 0, 0) == BP_OK ||
        trainer_place(0, NULL, WIDTH, 0) == BP_OK ||
        trainer_predict(fine, WIDTH - 1, outputs) == BP_OK ||
        trainer_classify(fine, WIDTH + 1, &found) == BP_OK) {
        return "a sample of another width";
    }
    if (trainer_place(0, fine, WIDTH, CLASSES) == BP_OK ||
        trainer_place(0, fine, WIDTH, INT32_MAX) == BP_OK) {
        return "a class that there is not";
    }
    if (trainer_place(PLAN_BATCH, fine, WIDTH, 0) == BP_OK ||
        trainer_learn(PLAN_BATCH + 1, &outcome) == BP_OK) {
        return "a sample beyond the batch";
    }
    for (int i = 0; i < 3; i++) {
        wrong[WIDTH - 1] = i == 0 ? NAN : i == 1 ? INFINITY : -INFINITY;
        if (trainer_place(0, wrong, WIDTH, 0) == BP_OK ||
            trainer_predict(wrong, WIDTH, outputs) == BP_OK ||
            trainer_classify(wrong, WIDTH, &found) == BP_OK ||
            trainer_put("classifier.bias", wrong + WIDTH - CLASSES, CLASSES * sizeof(float)) ==
                BP_OK) {
            return "a number that is none";
        }
    }
    if (trainer_put("classifier.bias", fine, 1) == BP_OK || trainer_put("none", fine, 4) == BP_OK) {
        return "a tensor of another size or name";
    }
    return NULL;
}

static bp_status learn_once(uint32_t number)
{
    float sample[WIDTH];
    bp_trainer_outcome outcome;
    for (uint32_t b = 0; b < PLAN_BATCH; b++) {
        for (uint32_t i = 0; i < WIDTH; i++) {
            sample[i] = (float)((number * 31 + b * 7 + i * 3) % 17) / 8.0f - 1.0f;
        }
        BP_TRY(trainer_place(b, sample, WIDTH, (int32_t)(b % CLASSES)));
    }
    return trainer_learn(PLAN_BATCH, &outcome);
}

/* A state is kept, and the next one is torn at byte after byte: the first is there each time, until
 * the head of the next is whole. */
static const char *take_torn(void)
{
    bool any;
    if (learn_once(1) != BP_OK || trainer_keep(&slots, NULL, 0) != BP_OK) {
        return "nothing was kept";
    }
    const uint64_t before = digest_now();
    for (size_t at = 0; at < SLOT_BYTES; at += TORN) {
        if (learn_once(2) != BP_OK) {
            return "it does not learn";
        }
        const uint64_t after = digest_now();
        left = at;
        const bp_status kept = trainer_keep(&slots, NULL, 0);
        left = SIZE_MAX;
        if (trainer_recall(&slots, NULL, 0, &any) != BP_OK || !any) {
            return "no state";
        }
        const uint64_t found = digest_now();
        if (found != after && (found != before || kept == BP_OK)) {
            return "a torn state";
        }
        if (kept == BP_OK) {
            return NULL; /* all of it had been written */
        }
        if (found ==
            after) { /* what was torn is the rest of the head's unit: the other slot's turn */
            return at > PLAN_STATE_BYTES ? NULL : "a state that is not there";
        }
    }
    return "a state that does not end";
}

/* The version, then the identity of the model, of both slots, with the CRC of the head mended. */
static const char *take_others(void)
{
    bool any = true;
    static unsigned char good[2][SLOT_BYTES];
    memcpy(good, flash, sizeof flash);
    const size_t places[] = {offsetof(bp_trainer_state_head, version),
                             offsetof(bp_trainer_state_head, identity)};
    const uint64_t before = digest_now();
    for (size_t i = 0; i < 2; i++) {
        for (int slot = 0; slot < 2; slot++) {
            bp_trainer_state_head head;
            memcpy(&head, good[slot], sizeof head);
            ((unsigned char *)&head)[places[i]] ^= 1;
            uint32_t crc = UINT32_MAX;
            for (size_t b = 0; b < offsetof(bp_trainer_state_head, crc); b++) {
                crc ^= ((const unsigned char *)&head)[b];
                for (int bit = 0; bit < 8; bit++) {
                    crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
                }
            }
            head.crc = ~crc;
            memcpy(flash[slot], &head, sizeof head);
        }
        if (trainer_recall(&slots, NULL, 0, &any) == BP_OK && any) {
            return i == 0 ? "a state of another version" : "a state of another model";
        }
        if (digest_now() != before) {
            return "a part of a state that was refused";
        }
    }
    memcpy(flash, good, sizeof flash);
    return trainer_recall(&slots, NULL, 0, &any) == BP_OK && any ? NULL : "not even its own state";
}

/* Twenty frames into a ring of eight, then one with a NaN: the windows are of the newest. */
static const char *take_overrun(void)
{
    static volatile float ring[2 * WINDOW];
    static bp_sensor_learned learned;
    bp_sensor sensor = {.ring = ring,
                        .frames = 2 * WINDOW,
                        .channels = 1,
                        .window = WINDOW,
                        .hop = WINDOW,
                        .memory = 8,
                        .learned = &learned};
    float window[WINDOW], next = -1.0f, first = -1.0f;
    const float none = NAN;
    if (bp_sensor_open(&sensor) != BP_OK) {
        return "the ring did not open";
    }
    for (int i = 0; i < 20; i++) {
        const float frame = (float)i;
        if (bp_sensor_push(&sensor, &frame) != BP_OK) {
            return "a frame was refused";
        }
    }
    if (bp_sensor_push(&sensor, &none) != BP_ERR_DATA || sensor.refused != 1) {
        return "a frame that is no number";
    }
    while (bp_sensor_window(&sensor, window)) {
        first = first < 0.0f ? window[0] : first;
        next = next < 0.0f ? first : next;
        for (int i = 0; i < WINDOW; i++, next += 1.0f) {
            if (window[i] != next) {
                return "frames that do not follow each other";
            }
        }
    }
    /* one place is the interrupt's: seven frames are left, which is one window */
    return (float)sensor.overrun == first && first == 13.0f && next == 17.0f
               ? NULL
               : "frames that were not counted";
}

int main(void)
{
    const char *taken = trainer_init() == BP_OK ? NULL : "it does not begin";
    const uint64_t before = digest_now();
    taken = taken != NULL ? taken : take_samples();
    taken = taken == NULL && digest_now() != before ? "something that was refused" : taken;
    taken = taken != NULL ? taken : take_torn();
    taken = taken != NULL ? taken : take_others();
    taken = taken != NULL ? taken : take_overrun();
    board_write(taken != NULL ? "taken: " : "nothing wrong was taken");
    board_write(taken != NULL ? taken : "");
    board_write("\n");
    return taken != NULL;
}
