/* SPDX-License-Identifier: MIT */
/* Images as what a feed reads beside their texts. An example's first text is the path of a file, as
 * that of speech is (speech_source.h); the image is read when a batch is made of it. */
#ifndef BP_BEDPLATE_IMAGE_SOURCE_H
#define BP_BEDPLATE_IMAGE_SOURCE_H

#include "tools/bedplate/session/image_choice.h"
#include "tools/bedplate/sources/pictures.h"

/* Must not move. */
typedef struct image_source {
    bp_feed_texts texts; /* the first: what a feed has of it */
    pictures decoders;
    bp_image_prep prep;
    uint32_t size[3]; /* height, width, channels of the model's images */
    bp_store *store;
    bp_error *error; /* of the present call */
} image_source;

/* *source is NULL for a model that does not see, and stays where it is open. BP_ERR_FIT; the errors
 * of preprocessor_config.json. */
bp_status image_source_open(image_source **source, session *s) BP_MUST_CHECK;
void image_source_close(image_source **source);

/* Whether there is such a file. BP_ERR_STORE, naming it. */
bp_status image_source_check(image_source *source, const char *path) BP_MUST_CHECK;

#endif
