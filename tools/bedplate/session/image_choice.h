/* SPDX-License-Identifier: MIT */
/* Models that read images: how large these are, what is done to them before and in training. */
#ifndef BP_BEDPLATE_IMAGE_CHOICE_H
#define BP_BEDPLATE_IMAGE_CHOICE_H

#include "tools/bedplate/session/session.h"
#include "tools/formats/images/image_augment.h"
#include "tools/formats/images/image_prep.h"

/* Height, width and channels of the model's images; false: it reads none, size is zeros. */
bool image_size(const bp_spec *spec, uint32_t size[3]);

/* What the model's directory says is done to images of bytes; given = 0 where it says nothing, or
 * the model reads none. */
bp_status image_prep_find(bp_image_prep *prep, session *s) BP_MUST_CHECK;

/* The same beside config.json, whatever the model reads. */
bp_status image_prep_beside(bp_image_prep *prep, session *s) BP_MUST_CHECK;

/* A ResNet's config.json does not say how large its images are: what preprocessor_config.json makes
 * of all images alike does, unless config.json has an image_size (other than 224, what its lack
 * means). */
bp_status image_size_resolve(session *s) BP_MUST_CHECK;

/* BP_ERR_USAGE: crops or flips of what are no images, both forms of crops, or a padding that is not
 * below the image's sides. */
bp_status image_augment_check(session *s) BP_MUST_CHECK;

/* --random-crop, --random-resized-crop, --random-horizontal-flip; false: none was asked for. */
bp_status image_augment_choose(session *s, bp_image_augment *augment, bool *asked) BP_MUST_CHECK;

#endif
