/* SPDX-License-Identifier: MIT */
/* Images as PPM and PGM files (netpbm's P6 and P5): a head of words, spaces and comments, then a
 * number by a byte, or by two where the largest is above 255, (height, width, channels). Of another
 * largest number than 255 each is brought to 0 .. 255, to the nearest, halves to the even one. PNG
 * and JPEG by picture.h, where it is given. A list of such files is a table whose first row names a
 * column `file_name`, and `label`; names are as seen from the table's folder.
 *
 * Refused as BP_ERR_DATA with the file: any other head, a size of the file that is not what its
 * head says (what follows the image may be white space). */
#ifndef BP_FORMATS_DATA_PNM_H
#define BP_FORMATS_DATA_PNM_H

#include "core/base/digest.h"
#include "tools/formats/images/image_prep.h"
#include "tools/formats/images/picture.h"

#define BP_PNM_WINDOW 4096 /* bytes of the window over an image */
#define BP_PNM_HEAD   4096 /* most bytes of a head */

/* An open image. The first two are the caller's to set. Must not be moved. */
typedef struct bp_pnm {
    bp_pictures *pictures; /* for PNG and JPEG; NULL: they are refused */
    uint64_t channels;     /* that are wanted of them */
    bp_data_reader reader;
    bool open;
    const unsigned char *pixels; /* decoded; NULL: they are in the file */
    uint64_t start;              /* bytes before the first number */
    uint64_t most;               /* of the file's numbers */
    uint64_t size[3];            /* height, width, channels */
    char path[BP_STORE_PATH_MAX];
    unsigned char window[BP_PNM_WINDOW];
} bp_pnm;

/* Opens the image that a list at `list` calls by `length` bytes of name. bp_pnm_close closes it,
 * also after an error. BP_ERR_STORE: there is no such file. */
bp_status bp_pnm_open(bp_pnm *pnm, const bp_data_reader *list, const char *name,
                      size_t length) BP_MUST_CHECK;
void bp_pnm_close(bp_pnm *pnm);

/* Reads the head. */
bp_status bp_pnm_begin(bp_pnm *pnm) BP_MUST_CHECK;

/* Resizes and cuts the image as is said, in memory of `pictures`, which is there. BP_ERR_DATA: it
 * is smaller than what is cut out, or too large; BP_ERR_FIT. */
bp_status bp_pnm_prepare(bp_pnm *pnm, const bp_image_prep *prep) BP_MUST_CHECK;

/* Number k of the image. */
bp_status bp_pnm_number(bp_pnm *pnm, uint64_t k, uint8_t *number) BP_MUST_CHECK;

#endif
