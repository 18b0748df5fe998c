/* SPDX-License-Identifier: MIT */
/* preprocessor_config.json: what is done to an image before a model sees it, in transformers'
 * order: resized, its middle cut out, its bytes scaled, normalised for each channel.
 *
 * Read are do_resize, size ({height, width}, {shortest_edge}, or a number), resample (2 bilinear, 3
 * bicubic), crop_pct (of ConvNext's processor, which ResNets use), do_center_crop, crop_size,
 * do_rescale, rescale_factor, do_normalize, image_mean, image_std. Other keys are passed over. */
#ifndef BP_FORMATS_IMAGE_PREP_H
#define BP_FORMATS_IMAGE_PREP_H

#include "core/base/error.h"
#include "core/base/store.h"
#include "tools/formats/images/image_resize.h"

#define BP_IMAGE_PREP_SCRATCH 24576
#define BP_IMAGE_PREP_SIZE    (1 << 14) /* most of a height or width */

/* A plain record without gaps: its bytes say what is done. */
typedef struct bp_image_prep {
    double factor;  /* of a byte; 1/255 */
    double mean[4]; /* of three channels; of one the first is taken */
    double std[4];
    double crop_pct; /* 0: none */
    uint32_t height; /* resized to; 0: not resized, or */
    uint32_t width;
    uint32_t shortest; /* the shorter side becomes that; 0: not this way */
    uint32_t resample;
    uint32_t crop[2]; /* 0: the whole */
    uint32_t normalise;
    uint32_t given; /* there was a file; 0: bytes become numbers from 0 to 1 */
} bp_image_prep;

/* Reads the file. BP_ERR_DATA with file and key: values that are none of these, or a resample that
 * is not computed. scratch: BP_IMAGE_PREP_SCRATCH bytes aligned to 8. */
bp_status bp_image_prep_read(bp_image_prep *prep, bp_store *store, const char *path, void *scratch,
                             bp_error *error) BP_MUST_CHECK;

/* What an image of (height, width) is resized to, and which (height, width) of it is cut out. */
void bp_image_prep_sizes(const bp_image_prep *prep, const uint64_t from[2], uint64_t to[2],
                         uint64_t cut[2]);

/* The number that a byte of channel `c` becomes: in single precision as NumPy has it. */
float bp_image_prep_number(const bp_image_prep *prep, uint8_t byte, uint32_t c);

#endif
