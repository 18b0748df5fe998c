/* SPDX-License-Identifier: MIT */
/* Windows over images: what convolutions, pools and their gradients are made of. Written once and
 * compiled for every form; included once per form, which defines BP_PLAIN(name). Loops over
 * channels are innermost: those lie side by side, and each has chains of additions of its own. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "device/host/vector/element.h"

#define WINDOW_CHANNELS 64 /* whose weights are brought together at a time */

/* The rows of windows begin with the same scalars. */
typedef bp_patches_scalars window_scalars;

static inline int64_t window_positions(const window_scalars *s)
{
    return s->kernel_height * s->kernel_width;
}

/* A row of windows, or of an image, is a task. */
static uint64_t window_row_tasks(const void *scalars)
{
    const window_scalars *s = scalars;
    return (uint64_t)(s->batch * s->out_height);
}

static uint64_t window_image_tasks(const void *scalars)
{
    const window_scalars *s = scalars;
    return (uint64_t)(s->batch * s->height);
}

/* The image's row that place ky of the windows of row oy sees, or -1. */
static inline int64_t window_y(const window_scalars *s, int64_t oy, int64_t ky)
{
    const int64_t y = oy * s->stride_height + ky * s->dilation - s->top;
    return y >= 0 && y < s->height ? y : -1;
}

static inline int64_t window_x(const window_scalars *s, int64_t ox, int64_t kx)
{
    const int64_t x = ox * s->stride_width + kx * s->dilation - s->left;
    return x >= 0 && x < s->width ? x : -1;
}

/* The window that sees place y of an image k behind its beginning, or -1. */
static inline int64_t window_over(int64_t y, int64_t k, int64_t before, int64_t stride,
                                  int64_t count)
{
    const int64_t at = y + before - k;
    return at >= 0 && at % stride == 0 && at / stride < count ? at / stride : -1;
}

static inline int64_t window_over_y(const window_scalars *s, int64_t y, int64_t ky)
{
    return window_over(y, ky * s->dilation, s->top, s->stride_height, s->out_height);
}

static inline int64_t window_over_x(const window_scalars *s, int64_t x, int64_t kx)
{
    return window_over(x, kx * s->dilation, s->left, s->stride_width, s->out_width);
}

static inline const float *image_at(const window_scalars *s, const float *image, int64_t b,
                                    int64_t y, int64_t x)
{
    return image + ((b * s->height + y) * s->width + x) * s->pitch;
}

/* The first element of window (oy, ox), of rows of `each` elements. */
static inline int64_t window_at(const window_scalars *s, int64_t row, int64_t ox, int64_t each)
{
    return (row * s->out_width + ox) * each;
}

/* One place of a window goes to every `step`-th element. */
static inline void patches_position(float *restrict to, const float *restrict from,
                                    int64_t channels, int64_t step)
{
    if (from == NULL) {
        for (int64_t c = 0; c < channels; c++) {
            to[c * step] = 0.0f;
        }
    } else if (step == 1) {
        memcpy(to, from, (size_t)channels * sizeof *to);
    } else {
        for (int64_t c = 0; c < channels; c++) {
            to[c * step] = from[c];
        }
    }
}

static void patches_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const window_scalars *s = call->scalars;
    const bp_patches_pointers *p = call->pointers;
    const int64_t regions = window_positions(s), each = s->channels * regions;
    for (int64_t row = (int64_t)first; row < (int64_t)last; row++) {
        const int64_t b = row / s->out_height, oy = row % s->out_height;
        for (int64_t ox = 0; ox < s->out_width; ox++) {
            float *to = (float *)p->columns + window_at(s, row, ox, each);
            for (int64_t t = 0; t < regions; t++) {
                const int64_t y = window_y(s, oy, t / s->kernel_width);
                const int64_t x = window_x(s, ox, t % s->kernel_width);
                const bool there = y >= 0 && x >= 0;
                patches_position(to + t, there ? image_at(s, p->x, b, y, x) : NULL, s->channels,
                                 regions);
            }
        }
    }
}

/* d += every step-th element of `from`. */
static inline void patches_add(float *restrict d, const float *restrict from, int64_t channels,
                               int64_t step)
{
    for (int64_t c = 0; c < channels; c++) {
        d[c] += from[c * step];
    }
}

static void patches_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                 uint32_t worker)
{
    (void)worker;
    const window_scalars *s = call->scalars;
    const bp_patches_backward_scalars *own = call->scalars;
    const bp_patches_backward_pointers *p = call->pointers;
    const int64_t regions = window_positions(s), each = s->channels * regions;
    for (int64_t row = (int64_t)first; row < (int64_t)last; row++) {
        const int64_t b = row / s->height, y = row % s->height;
        for (int64_t x = 0; x < s->width; x++) {
            float *d = (float *)p->d_x + (row * s->width + x) * s->pitch;
            if (own->accumulate == 0) {
                memset(d, 0, (size_t)s->channels * sizeof *d);
            }
            for (int64_t t = 0; t < regions; t++) {
                const int64_t oy = window_over_y(s, y, t / s->kernel_width);
                const int64_t ox = window_over_x(s, x, t % s->kernel_width);
                if (oy >= 0 && ox >= 0) {
                    const int64_t at = window_at(s, b * s->out_height + oy, ox, each);
                    patches_add(d, (const float *)p->d_columns + at + t, s->channels, regions);
                }
            }
        }
    }
}

/* The weights of place t of up to WINDOW_CHANNELS channels from c on, side by side. */
static inline int64_t depthwise_weights(const window_scalars *s, const float *weight, int64_t c,
                                        int64_t t, float w[WINDOW_CHANNELS])
{
    const int64_t regions = window_positions(s);
    const int64_t left = s->channels - c, count = left < WINDOW_CHANNELS ? left : WINDOW_CHANNELS;
    for (int64_t i = 0; i < count; i++) {
        w[i] = weight[(c + i) * regions + t];
    }
    return count;
}

static inline void depthwise_add(float *restrict y, const float *restrict x,
                                 const float *restrict w, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        y[i] += x[i] * w[i];
    }
}

static void depthwise_bias(const window_scalars *s, const float *bias, float *y)
{
    for (int64_t ox = 0; ox < s->out_width; ox++, y += s->channels) {
        if (bias != NULL) {
            memcpy(y, bias, (size_t)s->channels * sizeof *y);
        } else {
            memset(y, 0, (size_t)s->channels * sizeof *y);
        }
    }
}

/* The weights of a place are brought together once for a row of windows. */
static void depthwise_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const window_scalars *s = call->scalars;
    const bp_depthwise_pointers *p = call->pointers;
    float w[WINDOW_CHANNELS];
    for (int64_t row = (int64_t)first; row < (int64_t)last; row++) {
        const int64_t b = row / s->out_height, oy = row % s->out_height;
        float *to = (float *)p->y + window_at(s, row, 0, s->channels);
        depthwise_bias(s, p->bias, to);
        for (int64_t t = 0; t < window_positions(s); t++) {
            const int64_t y = window_y(s, oy, t / s->kernel_width);
            for (int64_t c = 0, count; y >= 0 && c < s->channels; c += count) {
                count = depthwise_weights(s, p->weight, c, t, w);
                for (int64_t ox = 0; ox < s->out_width; ox++) {
                    const int64_t x = window_x(s, ox, t % s->kernel_width);
                    if (x >= 0) {
                        depthwise_add(to + ox * s->channels + c, image_at(s, p->x, b, y, x) + c, w,
                                      count);
                    }
                }
            }
        }
    }
}

static void depthwise_back_row(const window_scalars *s,
                               const bp_depthwise_backward_input_pointers *p, int64_t row)
{
    const int64_t b = row / s->height, y = row % s->height;
    float *d = (float *)p->d_x + row * s->width * s->pitch;
    float w[WINDOW_CHANNELS];
    for (int64_t x = 0; x < s->width; x++) {
        memset(d + x * s->pitch, 0, (size_t)s->channels * sizeof *d);
    }
    for (int64_t t = 0; t < window_positions(s); t++) {
        const int64_t oy = window_over_y(s, y, t / s->kernel_width);
        for (int64_t c = 0, count; oy >= 0 && c < s->channels; c += count) {
            count = depthwise_weights(s, p->weight, c, t, w);
            for (int64_t x = 0; x < s->width; x++) {
                const int64_t ox = window_over_x(s, x, t % s->kernel_width);
                if (ox >= 0) {
                    const int64_t at = window_at(s, b * s->out_height + oy, ox, s->channels);
                    depthwise_add(d + x * s->pitch + c, (const float *)p->d_y + at + c, w, count);
                }
            }
        }
    }
}

static void depthwise_backward_input_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                         uint32_t worker)
{
    (void)worker;
    for (int64_t row = (int64_t)first; row < (int64_t)last; row++) {
        depthwise_back_row(call->scalars, call->pointers, row);
    }
}

/* A task is a slice of channels. */
static uint64_t depthwise_weight_tasks(const void *scalars)
{
    const window_scalars *s = scalars;
    return bp_cut(s->channels, BP_LANES);
}

/* The sums of one place of the windows over `count` channels from c on. */
static void depthwise_weight_sums(const window_scalars *s,
                                  const bp_depthwise_backward_weight_pointers *p, int64_t c,
                                  int64_t count, int64_t t, float sum[BP_LANES])
{
    for (int64_t row = 0; row < s->batch * s->out_height; row++) {
        const int64_t b = row / s->out_height, oy = row % s->out_height;
        const int64_t y = window_y(s, oy, t / s->kernel_width);
        for (int64_t ox = 0; y >= 0 && ox < s->out_width; ox++) {
            const int64_t x = window_x(s, ox, t % s->kernel_width);
            if (x >= 0) {
                depthwise_add(sum, image_at(s, p->x, b, y, x) + c,
                              (const float *)p->d_y + window_at(s, row, ox, s->channels) + c,
                              count);
            }
        }
    }
}

static void depthwise_backward_weight_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                          uint32_t worker)
{
    (void)worker;
    const window_scalars *s = call->scalars;
    const bp_depthwise_backward_weight_scalars *own = call->scalars;
    const bp_depthwise_backward_weight_pointers *p = call->pointers;
    const bp_dtype type = bp_call_type(call, BP_OPERAND(depthwise_backward_weight, d_weight));
    const int64_t regions = window_positions(s);
    for (int64_t c = (int64_t)first * BP_LANES; c < (int64_t)last * BP_LANES; c += BP_LANES) {
        const int64_t left = s->channels - c, count = left < BP_LANES ? left : BP_LANES;
        for (int64_t t = 0; t < regions; t++) {
            float sum[BP_LANES] = {0.0f};
            for (int64_t i = 0; own->accumulate != 0 && i < count; i++) {
                sum[i] = bp_element_load(p->d_weight, (uint64_t)((c + i) * regions + t), type);
            }
            depthwise_weight_sums(s, p, c, count, t, sum);
            for (int64_t i = 0; i < count; i++) {
                bp_element_store(p->d_weight, (uint64_t)((c + i) * regions + t), sum[i], type);
            }
        }
    }
}

/* Of each channel the larger one stays; the first place that a window sees is always taken. */
static inline void window_take(float *restrict y, float *restrict place, const float *restrict x,
                               int64_t channels, int64_t t, bool seen)
{
    for (int64_t c = 0; c < channels; c++) {
        const float v = x[c];
        const bool take = !seen || v > y[c] || v != v;
        y[c] = take ? v : y[c];
        if (place != NULL) {
            place[c] = take ? (float)t : place[c];
        }
    }
}

static void window_max_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const window_scalars *s = call->scalars;
    const bp_window_max_pointers *p = call->pointers;
    for (int64_t row = (int64_t)first; row < (int64_t)last; row++) {
        const int64_t b = row / s->out_height, oy = row % s->out_height;
        for (int64_t ox = 0; ox < s->out_width; ox++) {
            const int64_t at = window_at(s, row, ox, s->channels);
            float *y = (float *)p->y + at,
                  *place = p->place != NULL ? (float *)p->place + at : NULL;
            bool seen = false;
            for (int64_t c = 0; c < s->channels; c++) {
                y[c] = -INFINITY;
                if (place != NULL) {
                    place[c] = -1.0f;
                }
            }
            for (int64_t t = 0; t < window_positions(s); t++) {
                const int64_t iy = window_y(s, oy, t / s->kernel_width);
                const int64_t ix = window_x(s, ox, t % s->kernel_width);
                if (iy >= 0 && ix >= 0) {
                    window_take(y, place, image_at(s, p->x, b, iy, ix), s->channels, t, seen);
                    seen = true;
                }
            }
        }
    }
}

static inline void window_give(float *restrict d, const float *restrict d_y,
                               const float *restrict place, int64_t channels, int64_t t)
{
    for (int64_t c = 0; c < channels; c++) {
        d[c] += place[c] == (float)t ? d_y[c] : 0.0f;
    }
}

static void window_max_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                    uint32_t worker)
{
    (void)worker;
    const window_scalars *s = call->scalars;
    const bp_window_max_backward_pointers *p = call->pointers;
    for (int64_t row = (int64_t)first; row < (int64_t)last; row++) {
        const int64_t b = row / s->height, y = row % s->height;
        for (int64_t x = 0; x < s->width; x++) {
            float *d = (float *)p->d_x + (row * s->width + x) * s->pitch;
            memset(d, 0, (size_t)s->channels * sizeof *d);
            for (int64_t t = 0; t < window_positions(s); t++) {
                const int64_t oy = window_over_y(s, y, t / s->kernel_width);
                const int64_t ox = window_over_x(s, x, t % s->kernel_width);
                if (oy >= 0 && ox >= 0) {
                    const int64_t at = window_at(s, b * s->out_height + oy, ox, s->channels);
                    window_give(d, (const float *)p->d_y + at, (const float *)p->place + at,
                                s->channels, t);
                }
            }
        }
    }
}

/* How many of `kernel` places, `apart` from each other and the first of them `from`, are below
 * `size` and not negative. */
static inline int64_t window_inside(int64_t from, int64_t kernel, int64_t size, int64_t apart)
{
    const int64_t low = from < 0 ? (apart - 1 - from) / apart : 0;
    const int64_t most = size > from ? (size - from + apart - 1) / apart : 0;
    const int64_t high = most < kernel ? most : kernel;
    return high > low ? high - low : 0;
}

/* What the sum over window (oy, ox) is divided by: at least 1. */
static inline float window_divisor(const bp_window_mean_scalars *s, int64_t oy, int64_t ox)
{
    int64_t count = s->kernel_height * s->kernel_width;
    if (s->inside != 0) {
        count =
            window_inside(oy * s->stride_height - s->top, s->kernel_height, s->height,
                          s->dilation) *
            window_inside(ox * s->stride_width - s->left, s->kernel_width, s->width, s->dilation);
    }
    return count > 0 ? (float)count : 1.0f;
}

static void window_mean_run(const bp_host_call *call, uint64_t first, uint64_t last,
                            uint32_t worker)
{
    (void)worker;
    const window_scalars *s = call->scalars;
    const bp_window_mean_pointers *p = call->pointers;
    for (int64_t row = (int64_t)first; row < (int64_t)last; row++) {
        const int64_t b = row / s->out_height, oy = row % s->out_height;
        for (int64_t ox = 0; ox < s->out_width; ox++) {
            float *y = (float *)p->y + window_at(s, row, ox, s->channels);
            const float divisor = window_divisor(call->scalars, oy, ox);
            memset(y, 0, (size_t)s->channels * sizeof *y);
            for (int64_t t = 0; t < window_positions(s); t++) {
                const int64_t iy = window_y(s, oy, t / s->kernel_width);
                const int64_t ix = window_x(s, ox, t % s->kernel_width);
                if (iy >= 0 && ix >= 0) {
                    patches_add(y, image_at(s, p->x, b, iy, ix), s->channels, 1);
                }
            }
            for (int64_t c = 0; c < s->channels; c++) {
                y[c] /= divisor;
            }
        }
    }
}

static inline void window_share(float *restrict d, const float *restrict d_y, int64_t channels,
                                float divisor)
{
    for (int64_t c = 0; c < channels; c++) {
        d[c] += d_y[c] / divisor;
    }
}

static void window_mean_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                     uint32_t worker)
{
    (void)worker;
    const window_scalars *s = call->scalars;
    const bp_window_mean_backward_pointers *p = call->pointers;
    for (int64_t row = (int64_t)first; row < (int64_t)last; row++) {
        const int64_t b = row / s->height, y = row % s->height;
        for (int64_t x = 0; x < s->width; x++) {
            float *d = (float *)p->d_x + (row * s->width + x) * s->pitch;
            memset(d, 0, (size_t)s->channels * sizeof *d);
            for (int64_t t = 0; t < window_positions(s); t++) {
                const int64_t oy = window_over_y(s, y, t / s->kernel_width);
                const int64_t ox = window_over_x(s, x, t % s->kernel_width);
                if (oy >= 0 && ox >= 0) {
                    const int64_t at = window_at(s, b * s->out_height + oy, ox, s->channels);
                    window_share(d, (const float *)p->d_y + at, s->channels,
                                 window_divisor(call->scalars, oy, ox));
                }
            }
        }
    }
}

const bp_host_kernel BP_PLAIN(patches) = {window_row_tasks, patches_run, NULL};
const bp_host_kernel BP_PLAIN(patches_backward) = {window_image_tasks, patches_backward_run, NULL};
const bp_host_kernel BP_PLAIN(depthwise) = {window_row_tasks, depthwise_run, NULL};
const bp_host_kernel BP_PLAIN(depthwise_backward_input) = {window_image_tasks,
                                                           depthwise_backward_input_run, NULL};
const bp_host_kernel BP_PLAIN(depthwise_backward_weight) = {depthwise_weight_tasks,
                                                            depthwise_backward_weight_run, NULL};
const bp_host_kernel BP_PLAIN(window_max) = {window_row_tasks, window_max_run, NULL};
const bp_host_kernel BP_PLAIN(window_max_backward) = {window_image_tasks, window_max_backward_run,
                                                      NULL};
const bp_host_kernel BP_PLAIN(window_mean) = {window_row_tasks, window_mean_run, NULL};
const bp_host_kernel BP_PLAIN(window_mean_backward) = {window_image_tasks, window_mean_backward_run,
                                                       NULL};
