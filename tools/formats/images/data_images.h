/* SPDX-License-Identifier: MIT */
/* Files of images with a class each, as pixels and labels.
 *
 * cifar10   CIFAR-10's binary files: 3,073 bytes an image, its label and then red, green and blue
 *           planes of 32 x 32. Pixels come in the order of models: height, width, channels.
 * idx       MNIST's: two zeros, type 8 (bytes), how many sizes, those as big-endian words, then the
 *           images one after the other. Labels are in a file beside it, of one size, whose name has
 *           `labels` for `images` and `idx1` for `idx3` or `idx4`.
 *
 * Refused as BP_ERR_DATA with the file, and the row where one is at fault: sizes that are not the
 * model's, files whose size is another than they say, labels for another number of images. */
#ifndef BP_FORMATS_DATA_IMAGES_H
#define BP_FORMATS_DATA_IMAGES_H

#include "core/base/digest.h"
#include "tools/formats/data/data.h"
#include "tools/formats/files/data_reader.h"

/* Whether files of this format hold images. */
static inline bool bp_images_format(bp_data_format format)
{
    return format == BP_DATA_CIFAR10 || format == BP_DATA_IDX;
}

#define BP_IMAGES_LABELS 4096 /* bytes of the window over labels */

/* The first four are the caller's to set. */
typedef struct bp_images {
    bp_data_reader *reader; /* over the images, begun; its store, error and window are used */
    const char *path;       /* where they are, to find the labels beside them */
    bp_data_format format;
    uint32_t inputs; /* numbers of the model's image */
    uint64_t count;  /* images */
    uint64_t start;  /* bytes before the first one */
    bp_data_reader labels;
    char labels_path[BP_STORE_PATH_MAX];
    bool open;
    unsigned char window[BP_IMAGES_LABELS];
} bp_images;

/* Looks at the head of the files, and opens that of the labels where there is one. The record must
 * not be moved afterwards; bp_images_end closes it, also after an error. */
bp_status bp_images_begin(bp_images *images) BP_MUST_CHECK;
void bp_images_end(bp_images *images);

/* Pixel `k` of image `i`, in the order (height, width, channels), and its label. */
bp_status bp_images_pixel(bp_images *images, uint64_t i, uint32_t k, uint8_t *pixel) BP_MUST_CHECK;
bp_status bp_images_label(bp_images *images, uint64_t i, uint8_t *label) BP_MUST_CHECK;

/* Adds what the labels' file holds to a key; nothing where labels are among the images. */
bp_status bp_images_key(bp_images *images, bp_digest *key) BP_MUST_CHECK;

#endif
