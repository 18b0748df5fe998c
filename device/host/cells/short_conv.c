/* SPDX-License-Identifier: MIT */
/* The portable form of short_conv.h, and generation, which has no other. */
#define BP_PLAIN(name) BP_BUILT(bp_host_##name)

#include "core/ir/step.h"
#include "device/host/cells/short_conv.h"

/* The places before the next row, then its own. */
typedef struct conv_window {
    bp_plain_block place[TAPS_MOST];
    uint64_t before;
} conv_window;

static uint64_t conv_decode_tasks(const void *scalars)
{
    const bp_short_conv_decode_scalars *s = scalars;
    return bp_cut(s->channels, BP_LANES);
}

static void conv_window_load(conv_window *w, const conv_channels *c, const bp_element *state,
                             bool begins)
{
    for (uint64_t j = 0; j < w->before; j++) {
        w->place[j] = begins ? (bp_plain_block){{0.0f}} : conv_load(c, state, j);
    }
}

static void conv_window_store(const conv_window *w, const conv_channels *c, bp_element *state)
{
    for (uint64_t j = 0; j < w->before; j++) {
        bp_plain_store(state + j * c->channels + c->first, c->count, &w->place[j]);
    }
}

/* y of the row that comes next, which becomes the last place. */
static void conv_window_row(conv_window *w, const conv_channels *c, const bp_element *x,
                            bp_element *y, uint64_t row)
{
    bp_plain_block sum = {{0.0f}};
    w->place[w->before] = conv_load(c, x, row);
    for (uint64_t j = 0; j < c->taps; j++) {
        for (int l = 0; l < BP_LANES; l++) {
            sum.lane[l] += c->weight[j][l] * w->place[j].lane[l];
        }
    }
    for (int l = 0; l < BP_LANES; l++) {
        sum.lane[l] = sum.lane[l] * conv_logistic(sum.lane[l]);
    }
    bp_plain_store(y + row * c->channels + c->first, c->count, &sum);
    for (uint64_t j = 0; j < w->before; j++) {
        w->place[j] = w->place[j + 1];
    }
}

/* A task is a block of channels. */
static void conv_decode_run(const bp_host_call *call, uint64_t first, uint64_t last,
                            uint32_t worker)
{
    (void)worker;
    const bp_short_conv_decode_scalars *s = call->scalars;
    const bp_short_conv_decode_pointers *p = call->pointers;
    const bp_step_block *step = p->step;
    const uint64_t rows = (uint64_t)s->rows, sequences = (uint64_t)s->others + 1;
    const uint64_t there = s->apart != 0 ? rows : bp_least(rows, (uint64_t)step->last_row + 1);
    conv_channels c = {.channels = (uint64_t)s->channels, .taps = (uint64_t)s->before + 1};
    conv_window w = {.before = (uint64_t)s->before};
    const uint64_t each = w.before * c.channels; /* elements of a sequence's state */
    for (uint64_t task = first; task < last; task++) {
        conv_block(&c, task * BP_LANES, p->weight);
        for (uint64_t row = 0; row < rows; row++) {
            if (row == 0 || s->apart != 0) {
                conv_window_load(&w, &c, (bp_element *)p->state + (s->apart != 0 ? row : 0) * each,
                                 step->position == 0);
            }
            if (row < there) {
                conv_window_row(&w, &c, p->x, p->y, row);
            } else {
                const bp_plain_block zero = {{0.0f}};
                bp_plain_store((bp_element *)p->y + row * c.channels + c.first, c.count, &zero);
            }
            if (s->apart != 0) {
                conv_window_store(&w, &c, (bp_element *)p->state + row * each);
            }
        }
        for (uint64_t i = 0; s->apart == 0 && i < sequences; i++) {
            conv_window_store(&w, &c, (bp_element *)p->state + i * each);
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_short_conv_decode) = {conv_decode_tasks, conv_decode_run,
                                                            NULL};
