/* SPDX-License-Identifier: MIT */
/* Images of bytes in another size, to the bit as Pillow's Image.resize makes them: a pass over rows
 * and then one over columns, with rounding to bytes between them. */
#ifndef BP_FORMATS_IMAGE_RESIZE_H
#define BP_FORMATS_IMAGE_RESIZE_H

#include "arena/base.h"

typedef enum bp_resample { BP_RESAMPLE_BILINEAR = 2, BP_RESAMPLE_BICUBIC = 3 } bp_resample;

/* Bytes of memory that a resize from one (height, width) to another needs, for the result and
 * behind it what it works in. */
uint64_t bp_image_resize_bytes(const uint64_t from[2], const uint64_t to[2], uint64_t channels);

/* from (height, width, channels) into memory, aligned to 4, where the result then begins. Sizes are
 * from 1 to 2^16; cost: (filter width) operations a number of each pass. */
void bp_image_resize(const unsigned char *pixels, const uint64_t from[2], const uint64_t to[2],
                     uint64_t channels, bp_resample filter, unsigned char *memory);

#endif
