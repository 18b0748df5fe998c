/* SPDX-License-Identifier: MIT */
/* Random programs of copies that overlap in time, judged byte by byte. */
#include "tests/support/random_flights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/number/random.h"
#include "tests/support/hand_program.h"

#define BUFFERS 5 /* the last two in the host arena */
#define BYTES   64
#define OPS     12

typedef enum kind { COMPUTE, BEGIN, WAIT } kind;

/* One op over pieces of two buffers; a wait repeats its begin's. */
typedef struct step {
    kind kind;
    int to, from;
    uint32_t to_at, from_at, bytes;
    int64_t ticket;
} step;

typedef struct plan {
    step steps[2 * OPS];
    int count;
    int64_t begun;
} plan;

typedef unsigned char contents[BUFFERS][BYTES];

static uint64_t seed, drawn;
static hand_program h;

static uint32_t draw(uint32_t count)
{
    uint32_t value = (uint32_t)(bp_random_uniform(seed, 7, drawn++) * count);
    return value < count ? value : count - 1;
}

/* Pieces of multiples of 4 bytes in two different buffers. */
static step draw_step(const plan *p)
{
    step s = {.kind = draw(3) == 0 ? COMPUTE : BEGIN, .ticket = p->begun};
    const uint32_t buffers = s.kind == COMPUTE ? BUFFERS - 2 : BUFFERS;
    s.to = (int)draw(buffers);
    s.from = (s.to + 1 + (int)draw(buffers - 1)) % (int)buffers;
    s.bytes = 4 + 4 * draw(6);
    s.to_at = 4 * draw((BYTES - s.bytes) / 4 + 1);
    s.from_at = 4 * draw((BYTES - s.bytes) / 4 + 1);
    return s;
}

/* Begins, computing, and waits in any order; now and then a wait is forgotten or comes twice. */
static void draw_plan(plan *p)
{
    int open[2 * OPS], count = 0;
    *p = (plan){.count = 0};
    while (p->count < OPS || count > 0) {
        const bool end = p->count >= OPS || (count > 0 && draw(3) == 0);
        if (!end) {
            p->steps[p->count] = draw_step(p);
            if (p->steps[p->count].kind == BEGIN) {
                open[count++] = p->count;
                p->begun++;
            }
            p->count++;
            continue;
        }
        const int which = (int)draw((uint32_t)count);
        step wait = p->steps[open[which]];
        wait.kind = WAIT;
        const uint32_t slip = draw(60);
        for (uint32_t i = slip == 0 ? 1 : 0; i < (slip == 1 ? 2 : 1) && p->count < 2 * OPS; i++) {
            p->steps[p->count++] = wait;
        }
        open[which] = open[--count];
        if (p->count >= 2 * OPS) {
            return;
        }
    }
}

/* Whether anybody may do it, byte by byte. */
static bool is_legal(const plan *p)
{
    int sources[BUFFERS][BYTES] = {{0}}, targets[BUFFERS][BYTES] = {{0}};
    bool flying[2 * OPS] = {false};
    for (int i = 0; i < p->count; i++) {
        const step *s = &p->steps[i];
        const int change = s->kind == BEGIN ? 1 : -1;
        if (s->kind == WAIT && !flying[s->ticket]) {
            return false;
        }
        for (uint32_t b = 0; b < s->bytes; b++) {
            int *to = &targets[s->to][s->to_at + b], *from = &sources[s->from][s->from_at + b];
            if (s->kind == WAIT) {
                *to += change;
                *from += change;
                continue;
            }
            if (*to != 0 || sources[s->to][s->to_at + b] != 0 ||
                targets[s->from][s->from_at + b] != 0) {
                return false;
            }
            if (s->kind == BEGIN) {
                *to += change;
                *from += change;
            }
        }
        if (s->kind != COMPUTE) {
            flying[s->ticket] = s->kind == BEGIN;
        }
    }
    for (int64_t t = 0; t < p->begun; t++) {
        if (flying[t]) {
            return false;
        }
    }
    return true;
}

/* Whether the verifier says that a copy of what lives below is read after that has changed
 * (core/program/verify_copies.h). It keeps one source for each buffer, so which programs these are
 * is not told byte by byte here; but something below has to be written after it was brought. */
static bool is_stale(const plan *p, bp_status status)
{
    if (status != BP_ERR_VERIFY ||
        strstr(h.error.text, "what it was brought from has changed") == NULL) {
        return false;
    }
    bool brought[BUFFERS] = {false}, changed = false;
    for (int i = 0; i < p->count; i++) {
        const step *s = &p->steps[i];
        brought[s->from] = brought[s->from] || s->kind == BEGIN;
        changed = changed || (s->kind == BEGIN && s->to >= BUFFERS - 2 && brought[s->to]);
    }
    assert_true(changed);
    return true;
}

static void run_plainly(const plan *p, kind when, contents bytes)
{
    for (int i = 0; i < p->count; i++) {
        const step *s = &p->steps[i];
        if (s->kind == COMPUTE || s->kind == when) {
            memcpy(bytes[s->to] + s->to_at, bytes[s->from] + s->from_at, s->bytes);
        }
    }
}

static void write_program(const plan *p, bp_ref *refs)
{
    static const char *const names[BUFFERS] = {"a", "b", "c", "far d", "far e"};
    hand_begin(&h);
    for (int i = 0; i < BUFFERS; i++) {
        refs[i] = hand_buffer(&h, names[i], i < BUFFERS - 2 ? BP_SPACE_DEVICE : BP_SPACE_HOST,
                              BP_SCOPE_PERSISTENT, BYTES);
    }
    for (int i = 0; i < p->count; i++) {
        const step *s = &p->steps[i];
        const bp_ref to = hand_at(refs[s->to], s->to_at, BP_U8);
        const bp_ref from = hand_at(refs[s->from], s->from_at, BP_U8);
        if (s->kind == COMPUTE) {
            hand_compute(&h, to, from, s->bytes / 4);
        } else if (s->kind == BEGIN) {
            (void)hand_copy_begin(&h, to, from, s->bytes);
        } else {
            hand_copy_wait(&h, s->ticket, to, from, s->bytes);
        }
    }
}

static void run_on_device(const plan *p, const bp_ref *refs, const bp_device_options *options)
{
    contents given, at_begin, at_wait, got;
    for (int i = 0; i < BUFFERS * BYTES; i++) {
        given[i / BYTES][i % BYTES] = (unsigned char)(i * 37 + 11);
    }
    memcpy(at_begin, given, sizeof given);
    memcpy(at_wait, given, sizeof given);
    run_plainly(p, BEGIN, at_begin);
    run_plainly(p, WAIT, at_wait);
    assert_memory_equal(at_begin, at_wait, sizeof given);
    assert_int_equal(hand_open(&h, options, true, NULL, NULL), BP_OK);
    for (int i = 0; i < BUFFERS; i++) {
        assert_int_equal(hand_write(&h, refs[i], given[i], BYTES), BP_OK);
    }
    assert_int_equal(hand_run(&h), BP_OK);
    for (int i = 0; i < BUFFERS; i++) {
        assert_int_equal(hand_read(&h, refs[i], got[i], BYTES), BP_OK);
    }
    assert_memory_equal(got, at_begin, sizeof got);
}

void random_flights(const bp_device *device, uint64_t programs, int runs,
                    random_flights_options *options_of)
{
    int legal = 0, illegal = 0, stale = 0;
    for (seed = 1; seed <= programs; seed++) {
        plan p;
        bp_ref refs[BUFFERS];
        drawn = 0;
        draw_plan(&p);
        write_program(&p, refs);
        const bool right = is_legal(&p);
        const bp_status status = hand_plan(&h, device);
        if (right && is_stale(&p, status)) {
            stale++;
            hand_close(&h);
            continue;
        }
        if ((status == BP_OK) != right) {
            print_error("program %d: %s, and it is %s\n", (int)seed,
                        status == BP_OK ? "accepted" : h.error.text, right ? "legal" : "not");
        }
        assert_int_equal(status, right ? BP_OK : BP_ERR_VERIFY);
        legal += right;
        illegal += !right;
        if (right && legal <= runs) {
            const bp_device_options options = options_of(seed);
            run_on_device(&p, refs, &options);
        }
        hand_close(&h);
    }
    print_message("%d legal, %d not, %d read what has changed below\n", legal, illegal, stale);
    assert_true(legal > (int)programs / 40 && illegal > (int)programs / 10);
}
