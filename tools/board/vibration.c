/* SPDX-License-Identifier: MIT */
/* A board learns a class of vibrations that it did not know, keeps those that it knew, and goes on
 * after cuts of power. It is built beside a trainer of `plan --predict --emit-c` of an MLP over
 * windows of 32 numbers with 4 classes (tests/variants/boards.sh).
 *
 * The frames are made up, as a function of their number; a board has them from its sensor, by
 * bp_sensor_push in an interrupt. Of what is made up the labels are known; a board has them from a
 * button, or from a rule. CUT=N takes the power away in the N-th write to the flash. */
#include <trainer.h>

#include <string.h>

#include <board.h>

#ifndef CUT
#define CUT 0
#endif
#define WINDOW     32
#define HOP        15
#define SPAN       64  /* frames with one label */
#define KNOWN      320 /* steps with three classes, */
#define ALL        520 /* then with the fourth one alone */
#define KEEP_EVERY 40
#define TESTED     16 /* windows of each class */
#define ROWS       48 /* of the replay buffer */
#define BATCH      PLAN_BATCH
#define SLOT_BYTES 16384

static volatile float ring[2 * WINDOW];
static bp_sensor_learned learned;
static bp_sensor sensor = {.ring = ring,
                           .frames = 2 * WINDOW,
                           .channels = 1,
                           .window = WINDOW,
                           .hop = HOP,
                           .memory = 1024,
                           .learned = &learned};
static uint32_t replay_memory[BP_REPLAY_BYTES(WINDOW, ROWS) / 4];
static unsigned char flash[2][SLOT_BYTES];
static uint32_t writes;

static const bp_trainer_part parts[] = {{"replay", replay_memory, sizeof replay_memory},
                                        {"sensor", &learned, sizeof learned}};

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
    (void)user;
    const bool cut = ++writes == CUT;
    memcpy(flash[slot] + offset, from, cut ? bytes / 2 : bytes);
    return cut ? BP_ERR_STORE : BP_OK;
}

static const bp_trainer_slots slots = {NULL, SLOT_BYTES, flash_read, flash_erase, flash_write};

/* The vibration of a class at a frame: a triangle of its period, and noise of an eighth. */
static float vibration(uint32_t class_number, uint32_t frame)
{
    static const uint32_t periods[] = {4, 7, 11, 18};
    const uint32_t period = periods[class_number], at = frame % period;
    const uint32_t noise = (frame * 2654435761u) >> 24;
    const float wave = (float)(at < period - at ? at : period - at) * 4.0f / (float)period;
    return wave + (float)noise / 2048.0f;
}

static uint32_t label_at(uint32_t frame)
{
    return frame < (KNOWN + 1) * HOP ? frame / SPAN % 3 : 3;
}

static void write_line(const char *before, uint64_t number, const char *after)
{
    char digits[21];
    char *to = digits + 20;
    *to = '\0';
    do {
        *--to = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    board_write(before);
    board_write(to);
    board_write(after);
}

/* How many windows of each class are told right. */
static bp_status test_classes(const char *when)
{
    board_write(when);
    for (uint32_t c = 0; c < PLAN_CLASSES; c++) {
        uint32_t right = 0;
        for (uint32_t i = 0; i < TESTED; i++) {
            float window[WINDOW];
            uint32_t found;
            for (uint32_t t = 0; t < WINDOW; t++) {
                window[t] = vibration(c, 100000 + i * 37 + t);
            }
            bp_sensor_normalise(&sensor, window, true);
            BP_TRY(trainer_classify(window, WINDOW, &found));
            right += found == c;
        }
        write_line(c == 0 ? " " : ", ", right, " of 16");
    }
    board_write("\n");
    return BP_OK;
}

/* Labelled windows of all classes that are known, in turn. */
static bp_status learn(bp_replay *replay)
{
    bp_trainer_outcome outcome;
    for (uint32_t i = 0; i < BATCH; i++) {
        const float *row;
        uint32_t label;
        if (!bp_replay_draw(replay, &row, &label)) {
            return BP_ERR_USAGE;
        }
        BP_TRY(trainer_place(i, row, WINDOW, (int32_t)label));
    }
    return trainer_learn(BATCH, &outcome);
}

static bp_status begin(bp_replay *replay)
{
    bool any;
    BP_TRY(trainer_init());
    BP_TRY(bp_replay_open(replay, sizeof replay_memory, WINDOW, ROWS, PLAN_CLASSES));
    if (!board_read_file("vibration.img", flash, sizeof flash)) {
        memset(flash, 0xff, sizeof flash);
    }
    BP_TRY(trainer_recall(&slots, parts, 2, &any));
    write_line("goes on behind step ", trainer_steps(), "\n");
    return bp_sensor_open(&sensor);
}

static bp_status run(bp_replay *replay)
{
    uint32_t frame = (uint32_t)trainer_steps() * HOP;
    while (trainer_steps() < ALL) {
        float window[WINDOW];
        while (!bp_sensor_window(&sensor, window)) {
            const float now = vibration(label_at(frame), frame);
            BP_TRY(bp_sensor_push(&sensor, &now));
            frame++;
        }
        bp_sensor_normalise(&sensor, window, false);
        BP_TRY(bp_replay_put(replay, window, label_at(frame - 1)));
        BP_TRY(learn(replay));
        if (trainer_steps() == KNOWN) {
            BP_TRY(test_classes("three are known:"));
        }
        if (trainer_steps() % KEEP_EVERY == 0) {
            BP_TRY(trainer_keep(&slots, parts, 2));
        }
    }
    return test_classes("four are known:");
}

int main(void)
{
    bp_replay *replay = (bp_replay *)(void *)replay_memory;
    uint64_t digest = 0;
    bp_status status = begin(replay);
    if (status == BP_OK) {
        status = run(replay);
    }
    if (status == BP_ERR_STORE) {
        write_line("the power was cut behind step ", trainer_steps(), "\n");
    }
    if (!board_write_file("vibration.img", flash, sizeof flash) && status == BP_OK) {
        status = BP_ERR_STORE;
    }
    if (status == BP_OK) {
        status = trainer_digest(&digest);
        write_line("state ", digest, "\n");
    }
    return (int)status;
}
