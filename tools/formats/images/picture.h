/* SPDX-License-Identifier: MIT */
/* Who decodes images that formats cannot read by themselves (PNG, JPEG): a table of one function
 * that the program gives, over what it found on the machine. */
#ifndef BP_FORMATS_PICTURE_H
#define BP_FORMATS_PICTURE_H

#include "tools/formats/files/data_reader.h"

typedef enum bp_picture_kind {
    BP_PICTURE_OTHER, /* not decoded here */
    BP_PICTURE_PNG,
    BP_PICTURE_JPEG
} bp_picture_kind;

/* By the first four bytes. */
static inline bp_picture_kind bp_picture_of(const unsigned char head[4])
{
    const bool png = head[0] == 0x89 && head[1] == 'P' && head[2] == 'N' && head[3] == 'G';
    const bool jpeg = head[0] == 0xff && head[1] == 0xd8 && head[2] == 0xff;
    return png ? BP_PICTURE_PNG : jpeg ? BP_PICTURE_JPEG : BP_PICTURE_OTHER;
}

typedef struct bp_pictures bp_pictures;

struct bp_pictures {
    /* Decodes the file of a reader that has begun. *pixels: (height, width, channels), valid until
     * the next call. size[2] is 1 where the file is grey and `channels` is 1, else 3: grey images
     * have equal colours then; transparency is left out. BP_ERR_DATA with the file: damaged, cut
     * short, of 16 bits or four inks, too large, or there is no such decoder. */
    bp_status (*read)(bp_pictures *pictures, bp_picture_kind kind, bp_data_reader *file,
                      uint64_t channels, const unsigned char **pixels, uint64_t size[3]);
    /* Memory for an image that is resized, aligned to 16, valid until the next call; NULL: there is
     * none. Images that were read stay. */
    unsigned char *(*room)(bp_pictures *pictures, uint64_t bytes);
};

#endif
