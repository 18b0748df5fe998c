/* SPDX-License-Identifier: MIT */
/* PNG by libpng and JPEG by libjpeg-turbo (its TurboJPEG), which are loaded when the first such
 * image comes: the program itself needs neither. */
#ifndef BP_BEDPLATE_PICTURES_H
#define BP_BEDPLATE_PICTURES_H

#include "tools/formats/images/picture.h"

typedef struct pictures {
    bp_pictures table;     /* what formats is given */
    void *handle[2];       /* of the libraries, NULL: not loaded yet */
    unsigned char *memory; /* of the present image and its file; allocated */
    size_t bytes;
    unsigned char *more; /* for an image that is resized; allocated */
    size_t more_bytes;
} pictures;

/* Images are of at most 2^28 numbers, files of 2^28 bytes. */
void pictures_begin(pictures *p);
void pictures_end(pictures *p);

#endif
