/* SPDX-License-Identifier: MIT */
/* One layer of a convolutional net: its parameters, and its block. */
#ifndef BP_LAYERS_CNN_LAYER_H
#define BP_LAYERS_CNN_LAYER_H

#include "layers/blocks/block.h"
#include "layers/families/cnn.h"

#define BP_CNN_SIZE_MOST (1u << 14) /* height, width, channels */

/* Height, width and channels of the image that layer number `layer` reads; of `layers` what the
 * classifier does. A 0 among them: a window is larger than what it moves over. */
void bp_cnn_shape(const bp_cnn_config *own, uint32_t layer, uint64_t shape[3]);

/* The number of a layer's first parameter; of `layers` that of the classifier's. */
uint32_t bp_cnn_first(const bp_cnn_config *own, uint32_t layer);

/* Publishes a layer's parameters. */
void bp_cnn_publish(bp_builder *builder, const bp_cnn_config *own, uint32_t layer);

/* A layer over `batch` images as a list of nodes. */
void bp_cnn_describe(uint64_t batch, const bp_cnn_config *own, uint32_t layer, bp_block *block);

/* Adds the layer behind `layer` to its list, where that is the mean of a whole image and reads a
 * ReLU, of few places: backward then needs no gradient of each place. Whether it did. */
bool bp_cnn_describe_mean(uint64_t batch, const bp_cnn_config *own, uint32_t layer,
                          bp_block *block);

/* Whether any layer has a norm. */
bool bp_cnn_norms(const bp_cnn_config *own);

/* BP_ERR_USAGE with the layer's number where one cannot be: an unknown kind, no channels, a window
 * that is larger than the padded image, or that could lie outside of it. */
bp_status bp_cnn_check_layers(const bp_cnn_config *own, bp_error *error) BP_MUST_CHECK;

#endif
