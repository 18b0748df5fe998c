/* SPDX-License-Identifier: MIT */
/* Images as training sees them: cut at a random place and turned left to right by chance, after
 * they were prepared, as torchvision's RandomResizedCrop, RandomCrop and RandomHorizontalFlip do,
 * in this order.
 *
 * What is done to an image hangs on (seed, step, sample in the group) alone: its words are those of
 * bp_dropout_words under bp_augment_key(seed) at site 0. Of block 0 the first two say where a
 * padded image is cut, the third whether it is turned; of block 1 + i the four say area, ratio of
 * the sides, row and column of try i at a part that is resized. */
#ifndef BP_FORMATS_IMAGE_AUGMENT_H
#define BP_FORMATS_IMAGE_AUGMENT_H

#include "core/run/feed.h"

#define BP_AUGMENT_TRIES 10 /* at a part that fits; then the largest in the middle is taken */

/* `feed` is what bp_feed.augment points to; the others are the caller's to set. */
typedef struct bp_image_augment {
    bp_augment feed;
    uint32_t size[3]; /* height, width and channels of an image */
    uint32_t padding; /* places of `black` put around it, of which it is cut out again; 0: none */
    double scale;     /* a part of at least that area, sides 3:4 to 4:3, made large; 0: none */
    double flip;      /* the probability of turning it */
    float black[4];   /* of each channel */
} bp_image_augment;

void bp_image_augment_begin(bp_image_augment *augment);

/* The part (row, column, height, width) of a height x width image that is made large, by the words
 * of its tries. */
void bp_image_augment_part(const bp_image_augment *augment, uint64_t key, uint64_t step,
                           uint32_t sample, uint32_t part[4]);

#endif
