/* SPDX-License-Identifier: MIT */
/* torchvision's transforms v1: RandomResizedCrop.get_params, RandomCrop, RandomHorizontalFlip. */
#include "tools/formats/images/image_augment.h"

#include <math.h>
#include <string.h>

#include "core/base/math.h"
#include "core/base/random.h"

#define WORD (1.0 / 4294967296.0)

/* A whole number from 0 to `most`. */
static uint32_t augment_pick(uint32_t word, uint32_t most)
{
    return (uint32_t)((uint64_t)word * ((uint64_t)most + 1) >> 32);
}

static float augment_float(int32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int32_t augment_bits(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The largest part in the middle whose sides are from 3:4 to 4:3. */
static void augment_middle(uint32_t height, uint32_t width, uint32_t part[4])
{
    const bool narrow = 4.0 * width<3.0 * height, wide = 3.0 * width> 4.0 * height;
    part[2] = narrow ? (uint32_t)floor(width / 0.75 + 0.5) : height;
    part[3] = wide ? (uint32_t)floor(height / 0.75 + 0.5) : width;
    part[0] = (height - part[2]) / 2;
    part[1] = (width - part[3]) / 2;
}

void bp_image_augment_part(const bp_image_augment *augment, uint64_t key, uint64_t step,
                           uint32_t sample, uint32_t part[4])
{
    const uint32_t height = augment->size[0], width = augment->size[1];
    const double least = bp_log(0.75), span = bp_log(4.0 / 3.0) - least;
    for (uint64_t i = 0; i < BP_AUGMENT_TRIES; i++) {
        uint32_t words[4];
        bp_dropout_words(key, step, sample, 0, 1 + i, words);
        const double share = augment->scale + (1.0 - augment->scale) * (words[0] * WORD);
        const double area = share * height * width;
        const double ratio = bp_exp(least + span * (words[1] * WORD));
        const double tall = floor(sqrt(area / ratio) + 0.5),
                     broad = floor(sqrt(area * ratio) + 0.5);
        if (tall >= 1.0 && tall <= height && broad >= 1.0 && broad <= width) {
            part[2] = (uint32_t)tall;
            part[3] = (uint32_t)broad;
            part[0] = augment_pick(words[2], height - part[2]);
            part[1] = augment_pick(words[3], width - part[3]);
            return;
        }
    }
    augment_middle(height, width, part);
}

/* Where place `at` of a side of `of` lies in a part's side: two places of it, and the share of the
 * second; bilinear, between the middles of places. */
static double augment_between(uint32_t at, uint32_t of, uint32_t side, uint32_t pair[2])
{
    const double place = ((double)at + 0.5) * side / of - 0.5;
    const double low = place > 0.0 ? floor(place) : 0.0;
    pair[0] = (uint32_t)low;
    pair[1] = pair[0] + 1 < side ? pair[0] + 1 : pair[0];
    return place > 0.0 ? place - low : 0.0;
}

/* A part of the image in the whole image's size. */
static void augment_enlarge(const bp_image_augment *augment, const uint32_t part[4],
                            const int32_t *row, int32_t *to)
{
    const uint32_t height = augment->size[0], width = augment->size[1], n = augment->size[2];
    for (uint32_t y = 0; y < height; y++) {
        uint32_t rows[2], columns[2];
        const double down = augment_between(y, height, part[2], rows);
        const size_t upper = (size_t)(part[0] + rows[0]) * width + part[1];
        const size_t lower = (size_t)(part[0] + rows[1]) * width + part[1];
        for (uint32_t x = 0; x < width; x++) {
            const double right = augment_between(x, width, part[3], columns);
            for (uint32_t c = 0; c < n; c++) {
                const double a = (double)augment_float(row[(upper + columns[0]) * n + c]);
                const double b = (double)augment_float(row[(upper + columns[1]) * n + c]);
                const double d = (double)augment_float(row[(lower + columns[0]) * n + c]);
                const double e = (double)augment_float(row[(lower + columns[1]) * n + c]);
                const double above = a + right * (b - a), below = d + right * (e - d);
                to[((size_t)y * width + x) * n + c] =
                    augment_bits((float)(above + down * (below - above)));
            }
        }
    }
}

/* The image moved by up to `padding` places in each direction; what comes in is black. */
static void augment_move(const bp_image_augment *augment, const uint32_t words[2],
                         const int32_t *row, int32_t *to)
{
    const uint32_t height = augment->size[0], width = augment->size[1], n = augment->size[2];
    const int64_t padding = augment->padding;
    const int64_t top = (int64_t)augment_pick(words[0], 2 * augment->padding) - padding;
    const int64_t left = (int64_t)augment_pick(words[1], 2 * augment->padding) - padding;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            const int64_t from_y = top + y, from_x = left + x;
            const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
            for (uint32_t c = 0; c < n; c++) {
                to[((size_t)y * width + x) * n + c] =
                    inside ? row[((size_t)from_y * width + (size_t)from_x) * n + c]
                           : augment_bits(augment->black[c < 4 ? c : 0]);
            }
        }
    }
}

/* In place. */
static void augment_turn(const bp_image_augment *augment, int32_t *to)
{
    const uint32_t width = augment->size[1], n = augment->size[2];
    for (uint32_t y = 0; y < augment->size[0]; y++) {
        for (uint32_t x = 0; x < width / 2; x++) {
            int32_t *left = to + ((size_t)y * width + x) * n;
            int32_t *right = to + ((size_t)y * width + (width - 1 - x)) * n;
            for (uint32_t c = 0; c < n; c++) {
                const int32_t kept = left[c];
                left[c] = right[c];
                right[c] = kept;
            }
        }
    }
}

static void augment_image(const bp_augment *feed, uint64_t seed, uint64_t step, uint32_t sample,
                          const int32_t *row, int32_t *to)
{
    const bp_image_augment *augment = (const bp_image_augment *)feed; /* its first member */
    const uint64_t key = bp_augment_key(seed);
    const size_t places = (size_t)augment->size[0] * augment->size[1];
    uint32_t words[4], part[4];
    bp_dropout_words(key, step, sample, 0, 0, words);
    if (augment->scale > 0.0) {
        bp_image_augment_part(augment, key, step, sample, part);
        augment_enlarge(augment, part, row, to);
    } else if (augment->padding > 0) {
        augment_move(augment, words, row, to);
    } else {
        memcpy(to, row, places * augment->size[2] * sizeof *to);
    }
    if (words[2] * WORD < augment->flip) {
        augment_turn(augment, to);
    }
}

void bp_image_augment_begin(bp_image_augment *augment)
{
    augment->feed.row = augment_image;
}
