/* SPDX-License-Identifier: MIT */
/* The frozen layers at the beginning of a convolutional net by lines of the image (MCUNetV2's
 * patches, Lin et al., arXiv 2110.15352).
 *
 * Layers are divided into groups. Of a group's output some lines are computed at a time, from the
 * lines of the layers before that their windows see, so that only what goes into a group and what
 * comes out is there as a whole. Lines that two turns see are computed twice. Each element is the
 * sum that it always is, in its order: the same bits. */
#ifndef BP_LAYERS_IMAGE_LINES_H
#define BP_LAYERS_IMAGE_LINES_H

#include "layers/images/cnn_layer.h"

typedef struct bp_image_lines {
    uint32_t layers;                   /* the first so many are in groups; 0: none */
    uint8_t first[BP_CNN_LAYERS_MAX];  /* of each of them the first layer of its group, */
    uint8_t end[BP_CNN_LAYERS_MAX];    /* the layer behind it, */
    uint16_t lines[BP_CNN_LAYERS_MAX]; /* and how many lines of its output are made at a time */
} bp_image_lines;

/* Divides the layers before the first that trains a parameter, where little is kept
 * (bp_image_keeps_little) and nothing is adapted: the groups whose largest need of memory is
 * least, and of those the ones that compute fewest lines twice. */
void bp_image_lines_choose(const bp_builder *builder, const bp_cnn_config *own,
                           bp_image_lines *lines);

/* Whether a layer is in a group that takes several turns, or has several layers. */
bool bp_image_lines_there(const bp_cnn_config *own, const bp_image_lines *lines, uint32_t layer);

/* The output of the group that ends with call->stage from what its first layer reads, over
 * builder->rows images, with `block` to write lists of nodes on. */
bp_ref bp_image_lines_forward(bp_builder *builder, const bp_cnn_config *own,
                              const bp_image_lines *lines, uint32_t layer, bp_ref x,
                              bp_block *block);

#endif
