/* SPDX-License-Identifier: MIT */
/* Steps of recurrent cells, written once and compiled for every form (see plain_rows.h). Included
 * once per form, which defines BP_PLAIN(name). */
#include "core/base/math_inline.h"
#include "device/host/elements/plain.h"

/* All four rows begin with `rows` and `width`. A task is a row. */
static uint64_t cell_tasks(const void *scalars)
{
    return (uint64_t)((const int64_t *)scalars)[0];
}

static uint64_t cell_width(const bp_host_call *call)
{
    return (uint64_t)((const int64_t *)call->scalars)[1];
}

static inline float logistic(float x)
{
    return 1.0f / (1.0f + bp_expf_inline(-x));
}

/* Part number `part` of `parts` of a row, from column i on. */
static inline uint64_t at(uint64_t row, uint64_t parts, uint64_t part, uint64_t width, uint64_t i)
{
    return (row * parts + part) * width + i;
}

static inline bp_plain_block load(const void *from, uint64_t place, uint64_t count)
{
    return bp_plain_load((const bp_element *)from + place, count);
}

static inline void store(void *to, uint64_t place, uint64_t count, const bp_plain_block *block)
{
    bp_plain_store((bp_element *)to + place, count, block);
}

static void gru_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                            uint32_t worker)
{
    (void)worker;
    const bp_gru_forward_pointers *p = call->pointers;
    const uint64_t w = cell_width(call);
    for (uint64_t row = first; row < last; row++) {
        for (uint64_t i = 0; i < w; i += BP_LANES) {
            const uint64_t count = bp_least(w - i, BP_LANES);
            bp_plain_block r = load(p->gates, at(row, 3, 0, w, i), count);
            bp_plain_block z = load(p->gates, at(row, 3, 1, w, i), count);
            bp_plain_block n = load(p->gates, at(row, 3, 2, w, i), count);
            const bp_plain_block hr = load(p->hidden, at(row, 3, 0, w, i), count);
            const bp_plain_block hz = load(p->hidden, at(row, 3, 1, w, i), count);
            const bp_plain_block hn = load(p->hidden, at(row, 3, 2, w, i), count);
            bp_plain_block h = load(p->h_before, at(row, 1, 0, w, i), count);
            for (int l = 0; l < BP_LANES; l++) {
                r.lane[l] = logistic(r.lane[l] + hr.lane[l]);
                z.lane[l] = logistic(z.lane[l] + hz.lane[l]);
                n.lane[l] = bp_tanhf_inline(fmaf(r.lane[l], hn.lane[l], n.lane[l]));
                h.lane[l] = fmaf(z.lane[l], h.lane[l] - n.lane[l], n.lane[l]);
            }
            store(p->gates, at(row, 3, 0, w, i), count, &r);
            store(p->gates, at(row, 3, 1, w, i), count, &z);
            store(p->gates, at(row, 3, 2, w, i), count, &n);
            store(p->kept, at(row, 1, 0, w, i), count, &hn);
            store(p->h, at(row, 1, 0, w, i), count, &h);
        }
    }
}

static void gru_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                             uint32_t worker)
{
    (void)worker;
    const bp_gru_backward_pointers *p = call->pointers;
    const uint64_t w = cell_width(call);
    for (uint64_t row = first; row < last; row++) {
        for (uint64_t i = 0; i < w; i += BP_LANES) {
            const uint64_t count = bp_least(w - i, BP_LANES), place = at(row, 1, 0, w, i);
            bp_plain_block r = load(p->gates, at(row, 3, 0, w, i), count);
            bp_plain_block z = load(p->gates, at(row, 3, 1, w, i), count);
            bp_plain_block n = load(p->gates, at(row, 3, 2, w, i), count);
            bp_plain_block kept = load(p->kept, place, count);
            const bp_plain_block before = load(p->h_before, place, count);
            const bp_plain_block d_y = load(p->d_y, place, count);
            bp_plain_block d_h = load(p->d_h, place, count);
            for (int l = 0; l < BP_LANES; l++) {
                const float d = d_y.lane[l] + d_h.lane[l];
                const float update = z.lane[l], reset = r.lane[l], new = n.lane[l];
                const float d_n = d * (1.0f - update) * fmaf(-new, new, 1.0f);
                d_h.lane[l] = d * update;
                z.lane[l] = d * (before.lane[l] - new) * (update * (1.0f - update));
                r.lane[l] = d_n * kept.lane[l] * (reset * (1.0f - reset));
                n.lane[l] = d_n;
                kept.lane[l] = d_n * reset;
            }
            store(p->d_gates, at(row, 3, 0, w, i), count, &r);
            store(p->d_gates, at(row, 3, 1, w, i), count, &z);
            store(p->d_gates, at(row, 3, 2, w, i), count, &n);
            store(p->d_hidden, at(row, 3, 0, w, i), count, &r);
            store(p->d_hidden, at(row, 3, 1, w, i), count, &z);
            store(p->d_hidden, at(row, 3, 2, w, i), count, &kept);
            store(p->d_h, place, count, &d_h);
        }
    }
}

static void lstm_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                             uint32_t worker)
{
    (void)worker;
    const bp_lstm_forward_pointers *p = call->pointers;
    const uint64_t w = cell_width(call);
    for (uint64_t row = first; row < last; row++) {
        for (uint64_t i = 0; i < w; i += BP_LANES) {
            const uint64_t count = bp_least(w - i, BP_LANES), place = at(row, 1, 0, w, i);
            bp_plain_block in = load(p->gates, at(row, 4, 0, w, i), count);
            bp_plain_block forget = load(p->gates, at(row, 4, 1, w, i), count);
            bp_plain_block cell = load(p->gates, at(row, 4, 2, w, i), count);
            bp_plain_block out = load(p->gates, at(row, 4, 3, w, i), count);
            bp_plain_block c = load(p->c_before, place, count);
            bp_plain_block h;
            for (int l = 0; l < BP_LANES; l++) {
                in.lane[l] = logistic(in.lane[l]);
                forget.lane[l] = logistic(forget.lane[l]);
                cell.lane[l] = bp_tanhf_inline(cell.lane[l]);
                out.lane[l] = logistic(out.lane[l]);
                c.lane[l] = fmaf(forget.lane[l], c.lane[l], in.lane[l] * cell.lane[l]);
                h.lane[l] = out.lane[l] * bp_tanhf_inline(c.lane[l]);
            }
            store(p->gates, at(row, 4, 0, w, i), count, &in);
            store(p->gates, at(row, 4, 1, w, i), count, &forget);
            store(p->gates, at(row, 4, 2, w, i), count, &cell);
            store(p->gates, at(row, 4, 3, w, i), count, &out);
            store(p->c, place, count, &c);
            store(p->h, place, count, &h);
        }
    }
}

static void lstm_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    (void)worker;
    const bp_lstm_backward_pointers *p = call->pointers;
    const uint64_t w = cell_width(call);
    for (uint64_t row = first; row < last; row++) {
        for (uint64_t i = 0; i < w; i += BP_LANES) {
            const uint64_t count = bp_least(w - i, BP_LANES), place = at(row, 1, 0, w, i);
            bp_plain_block in = load(p->gates, at(row, 4, 0, w, i), count);
            bp_plain_block forget = load(p->gates, at(row, 4, 1, w, i), count);
            bp_plain_block cell = load(p->gates, at(row, 4, 2, w, i), count);
            bp_plain_block out = load(p->gates, at(row, 4, 3, w, i), count);
            const bp_plain_block c = load(p->c, place, count);
            const bp_plain_block before = load(p->c_before, place, count);
            const bp_plain_block d_y = load(p->d_y, place, count);
            const bp_plain_block d_h = load(p->d_h, place, count);
            bp_plain_block d_c = load(p->d_c, place, count);
            for (int l = 0; l < BP_LANES; l++) {
                const float d = d_y.lane[l] + d_h.lane[l], t = bp_tanhf_inline(c.lane[l]);
                const float i_ = in.lane[l], f = forget.lane[l], g = cell.lane[l], o = out.lane[l];
                const float e = fmaf(d * o, fmaf(-t, t, 1.0f), d_c.lane[l]);
                in.lane[l] = e * g * (i_ * (1.0f - i_));
                forget.lane[l] = e * before.lane[l] * (f * (1.0f - f));
                cell.lane[l] = e * i_ * fmaf(-g, g, 1.0f);
                out.lane[l] = d * t * (o * (1.0f - o));
                d_c.lane[l] = e * f;
            }
            store(p->d_gates, at(row, 4, 0, w, i), count, &in);
            store(p->d_gates, at(row, 4, 1, w, i), count, &forget);
            store(p->d_gates, at(row, 4, 2, w, i), count, &cell);
            store(p->d_gates, at(row, 4, 3, w, i), count, &out);
            store(p->d_c, place, count, &d_c);
        }
    }
}

const bp_host_kernel BP_PLAIN(gru_forward) = {cell_tasks, gru_forward_run, NULL};
const bp_host_kernel BP_PLAIN(gru_backward) = {cell_tasks, gru_backward_run, NULL};
const bp_host_kernel BP_PLAIN(lstm_forward) = {cell_tasks, lstm_forward_run, NULL};
const bp_host_kernel BP_PLAIN(lstm_backward) = {cell_tasks, lstm_backward_run, NULL};
