/* SPDX-License-Identifier: MIT */
/* Short convolutions along the places of a run, each channel by itself, and SiLU: written once and
 * compiled for every form (see plain_rows.h). Included once per form, which defines BP_PLAIN(name).
 * Products are not fused: without such instructions they would be calls. */
#include "core/base/math_inline.h"
#include "device/host/elements/plain.h"

enum { TAPS_MOST = 16 };

/* What a block of channels is made of. All three rows begin with the same scalars. */
typedef struct conv_channels {
    uint64_t channels;
    uint64_t sequence;
    uint64_t taps;
    const int32_t *starts; /* or NULL */
    uint64_t first;        /* channel of the block */
    uint64_t count;        /* of them, at most 16 */
    float weight[TAPS_MOST][BP_LANES];
} conv_channels;

static conv_channels conv_of(const bp_short_conv_forward_scalars *s, const void *starts)
{
    return (conv_channels){.channels = (uint64_t)s->channels,
                           .sequence = (uint64_t)s->sequence,
                           .taps = (uint64_t)s->taps,
                           .starts = starts};
}

/* Goes on to the block from channel `first` on. */
static void conv_block(conv_channels *c, uint64_t first, const bp_element *weight)
{
    c->first = first;
    c->count = bp_least(c->channels - first, BP_LANES);
    for (uint64_t j = 0; j < c->taps; j++) {
        for (uint64_t l = 0; l < BP_LANES; l++) {
            c->weight[j][l] = l < c->count ? bp_get(weight, (first + l) * c->taps + j) : 0.0f;
        }
    }
}

/* Places before a row that are of its run, at most taps - 1. */
static uint64_t conv_reach(const conv_channels *c, uint64_t row)
{
    const uint64_t most = bp_least(row % c->sequence, c->taps - 1);
    uint64_t n = 0;
    while (n < most && (c->starts == NULL || c->starts[row - n - 1] == c->starts[row])) {
        n++;
    }
    return n;
}

static inline bp_plain_block conv_load(const conv_channels *c, const bp_element *x, uint64_t row)
{
    return bp_plain_load(x + row * c->channels + c->first, c->count);
}

/* p of a row. */
static bp_plain_block conv_sum(const conv_channels *c, const bp_element *x, uint64_t row)
{
    const uint64_t reach = conv_reach(c, row);
    bp_plain_block sum = {{0.0f}};
    for (uint64_t j = c->taps - 1 - reach; j < c->taps; j++) {
        const bp_plain_block v = conv_load(c, x, row - (c->taps - 1 - j));
        for (int l = 0; l < BP_LANES; l++) {
            sum.lane[l] += c->weight[j][l] * v.lane[l];
        }
    }
    return sum;
}

static inline float conv_logistic(float x)
{
    return 1.0f / (1.0f + bp_expf_inline(-x));
}

/* The gradient of p of a row. */
static bp_plain_block conv_slope(const conv_channels *c, const bp_element *x, const bp_element *d_y,
                                 uint64_t row)
{
    bp_plain_block p = conv_sum(c, x, row);
    const bp_plain_block d = conv_load(c, d_y, row);
    for (int l = 0; l < BP_LANES; l++) {
        const float share = conv_logistic(p.lane[l]);
        p.lane[l] = d.lane[l] * (share * (1.0f + p.lane[l] * (1.0f - share)));
    }
    return p;
}

static uint64_t conv_row_tasks(const void *scalars)
{
    const bp_short_conv_forward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->sequence;
}

/* A task is a row; a block of channels goes over all rows of the call. */
static void conv_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                             uint32_t worker)
{
    (void)worker;
    const bp_short_conv_forward_pointers *p = call->pointers;
    conv_channels c = conv_of(call->scalars, p->starts);
    for (uint64_t at = 0; at < c.channels; at += BP_LANES) {
        conv_block(&c, at, p->weight);
        for (uint64_t row = first; row < last; row++) {
            bp_plain_block y = conv_sum(&c, p->x, row);
            for (int l = 0; l < BP_LANES; l++) {
                y.lane[l] = y.lane[l] * conv_logistic(y.lane[l]);
            }
            bp_plain_store((bp_element *)p->y + row * c.channels + at, c.count, &y);
        }
    }
}

/* Of one block: the gradients of p of the next places are kept while rows need them. */
static void conv_backward_block(const conv_channels *c, const bp_short_conv_backward_pointers *p,
                                uint64_t first, uint64_t last)
{
    bp_plain_block slope[TAPS_MOST];
    uint64_t reach[TAPS_MOST];
    uint64_t ready = first; /* rows whose gradient of p is there end here */
    for (uint64_t row = first; row < last; row++) {
        const uint64_t end = row - row % c->sequence + c->sequence;
        const uint64_t needed = bp_least(end, row + c->taps);
        for (ready = ready < row ? row : ready; ready < needed; ready++) {
            slope[ready % TAPS_MOST] = conv_slope(c, p->x, p->d_y, ready);
            reach[ready % TAPS_MOST] = conv_reach(c, ready);
        }
        bp_plain_block sum = {{0.0f}};
        for (uint64_t j = row + c->taps - needed; j < c->taps; j++) {
            const uint64_t from = row + c->taps - 1 - j;
            for (int l = 0; from - row <= reach[from % TAPS_MOST] && l < BP_LANES; l++) {
                sum.lane[l] += c->weight[j][l] * slope[from % TAPS_MOST].lane[l];
            }
        }
        bp_plain_store((bp_element *)p->d_x + row * c->channels + c->first, c->count, &sum);
    }
}

static void conv_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    (void)worker;
    const bp_short_conv_backward_pointers *p = call->pointers;
    conv_channels c = conv_of(call->scalars, p->starts);
    for (uint64_t at = 0; at < c.channels; at += BP_LANES) {
        conv_block(&c, at, p->weight);
        conv_backward_block(&c, p, first, last);
    }
}

static uint64_t conv_channel_tasks(const void *scalars)
{
    const bp_short_conv_forward_scalars *s = scalars;
    return bp_cut(s->channels, BP_LANES);
}

/* Adds a row's part to the block's sums. */
static void conv_weight_row(const conv_channels *c, const bp_short_conv_backward_weight_pointers *p,
                            uint64_t row, float sum[TAPS_MOST][BP_LANES])
{
    const bp_plain_block slope = conv_slope(c, p->x, p->d_y, row);
    for (uint64_t j = c->taps - 1 - conv_reach(c, row); j < c->taps; j++) {
        const bp_plain_block v = conv_load(c, p->x, row - (c->taps - 1 - j));
        for (int l = 0; l < BP_LANES; l++) {
            sum[j][l] += slope.lane[l] * v.lane[l];
        }
    }
}

/* A task is a block of channels. */
static void conv_weight_run(const bp_host_call *call, uint64_t first, uint64_t last,
                            uint32_t worker)
{
    (void)worker;
    const bp_short_conv_backward_weight_scalars *s = call->scalars;
    const bp_short_conv_backward_weight_pointers *p = call->pointers;
    const bp_dtype own = bp_call_type(call, BP_OPERAND(short_conv_backward_weight, d_weight));
    conv_channels c = conv_of(call->scalars, p->starts);
    for (uint64_t task = first; task < last; task++) {
        float sum[TAPS_MOST][BP_LANES] = {{0.0f}};
        conv_block(&c, task * BP_LANES, p->weight);
        const uint64_t base = c.first * c.taps;
        for (uint64_t i = 0; s->accumulate != 0 && i < c.count * c.taps; i++) {
            sum[i % c.taps][i / c.taps] = bp_element_load(p->d_weight, base + i, own);
        }
        for (uint64_t row = 0; row < (uint64_t)(s->batch * s->sequence); row++) {
            conv_weight_row(&c, p, row, sum);
        }
        for (uint64_t i = 0; i < c.count * c.taps; i++) {
            bp_element_store(p->d_weight, base + i, sum[i % c.taps][i / c.taps], own);
        }
    }
}

const bp_host_kernel BP_PLAIN(short_conv_forward) = {conv_row_tasks, conv_forward_run, NULL};
const bp_host_kernel BP_PLAIN(short_conv_backward) = {conv_row_tasks, conv_backward_run, NULL};
const bp_host_kernel BP_PLAIN(short_conv_backward_weight) = {conv_channel_tasks, conv_weight_run,
                                                             NULL};
