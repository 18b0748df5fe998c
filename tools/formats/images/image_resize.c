/* SPDX-License-Identifier: MIT */
/* Pillow's Resample.c: filters as wide as the reduction, weights in fixed point of 22 bits. */
#include "tools/formats/images/image_resize.h"

#include <math.h>

enum { FRACTION = 22 };

static double resize_support(bp_resample filter)
{
    return filter == BP_RESAMPLE_BICUBIC ? 2.0 : 1.0;
}

/* Keys' cubic with a = -1/2, or a tent. */
static double resize_weight(bp_resample filter, double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (filter == BP_RESAMPLE_BILINEAR) {
        return x < 1.0 ? 1.0 - x : 0.0;
    }
    if (x < 1.0) {
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    }
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

/* The most places that a filter sees. */
static uint64_t resize_span(uint64_t from, uint64_t to)
{
    const double scale = (double)from / (double)to;
    return 2 * (uint64_t)ceil(2.0 * (scale < 1.0 ? 1.0 : scale)) + 1;
}

uint64_t bp_image_resize_bytes(const uint64_t from[2], const uint64_t to[2], uint64_t channels)
{
    const uint64_t result = bp_size_mul(bp_size_mul(to[0], to[1]), channels);
    const uint64_t middle = bp_size_mul(bp_size_mul(from[0], to[1]), channels);
    const uint64_t rows = resize_span(from[0], to[0]), columns = resize_span(from[1], to[1]);
    const uint64_t span = rows > columns ? rows : columns;
    return bp_size_add(bp_size_align(bp_size_add(result, middle), 8), bp_size_mul(span, 12));
}

/* One place of the result: `count` weights from place *first on. reals: room for as many. */
static uint32_t resize_weights(bp_resample filter, uint64_t from, uint64_t to, uint64_t at,
                               uint64_t *first, double *reals, int32_t *weights)
{
    const double ratio = (double)from / (double)to, scale = ratio < 1.0 ? 1.0 : ratio;
    const double support = resize_support(filter) * scale, each = 1.0 / scale;
    const double center = ((double)at + 0.5) * ratio;
    const double low = center - support + 0.5, high = center + support + 0.5;
    const int64_t begin = low < 0.0 ? 0 : (int64_t)low;
    const int64_t end = (int64_t)high > (int64_t)from ? (int64_t)from : (int64_t)high;
    double sum = 0.0;
    for (int64_t x = begin; x < end; x++) {
        reals[x - begin] = resize_weight(filter, ((double)x - center + 0.5) * each);
        sum += reals[x - begin];
    }
    for (int64_t x = 0; x < end - begin; x++) {
        const double w = (sum != 0.0 ? reals[x] / sum : reals[x]) * (double)(1 << FRACTION);
        weights[x] = (int32_t)(w < 0.0 ? w - 0.5 : w + 0.5);
    }
    *first = (uint64_t)begin;
    return (uint32_t)(end - begin);
}

static unsigned char resize_byte(const unsigned char *pixels, uint64_t step, const int32_t *weights,
                                 uint32_t count)
{
    int32_t sum = 1 << (FRACTION - 1);
    for (uint32_t k = 0; k < count; k++) {
        sum += pixels[k * step] * weights[k];
    }
    const int32_t value = sum < 0 ? 0 : sum >> FRACTION;
    return (unsigned char)(value > 255 ? 255 : value);
}

/* Along one axis: `lines` times places `step` bytes apart, lines `pitch` apart, and the same of the
 * result; in `each` bytes a place. */
typedef struct resize_axis {
    uint64_t from, to, lines, step, pitch, step_to, pitch_to, each;
} resize_axis;

static void resize_along(const unsigned char *pixels, const resize_axis *a, bp_resample filter,
                         unsigned char *result, double *reals, int32_t *weights)
{
    for (uint64_t at = 0; at < a->to; at++) {
        uint64_t first;
        const uint32_t count = resize_weights(filter, a->from, a->to, at, &first, reals, weights);
        for (uint64_t line = 0; line < a->lines; line++) {
            const unsigned char *row = pixels + line * a->pitch + first * a->step;
            unsigned char *to = result + line * a->pitch_to + at * a->step_to;
            for (uint64_t c = 0; c < a->each; c++) {
                to[c] = resize_byte(row + c, a->step, weights, count);
            }
        }
    }
}

void bp_image_resize(const unsigned char *pixels, const uint64_t from[2], const uint64_t to[2],
                     uint64_t channels, bp_resample filter, unsigned char *memory)
{
    const uint64_t result = to[0] * to[1] * channels, wide = to[1] * channels;
    unsigned char *middle = memory + result;
    const uint64_t used = bp_size_align(result + from[0] * wide, 8);
    const uint64_t rows = resize_span(from[0], to[0]), columns = resize_span(from[1], to[1]);
    double *reals = (double *)(void *)(memory + used);
    int32_t *weights = (int32_t *)(void *)(reals + (rows > columns ? rows : columns));
    const resize_axis across = {from[1],  to[1], from[0], channels, from[1] * channels,
                                channels, wide,  channels};
    const resize_axis down = {from[0], to[0], 1, wide, 0, wide, 0, wide};
    resize_along(pixels, &across, filter, middle, reals, weights);
    resize_along(middle, &down, filter, memory, reals, weights);
}
