/* SPDX-License-Identifier: MIT */
/* Layers of convolutional nets as config.json writes them: a text each.
 *
 *   conv CHANNELS KERNEL ..      depthwise KERNEL ..      separable CHANNELS KERNEL ..
 *   basic CHANNELS ..            bottleneck CHANNELS ..   max-pool KERNEL ..   mean-pool KERNEL ..
 *
 *   dense CHANNELS ..            (a window of the whole image)
 *
 * KERNEL is N or HEIGHTxWIDTH, of a pool also `all`. Behind these stand, each once and in any
 * order, `stride N` or `stride HEIGHTxWIDTH`, `padding same`, `padding half` or `padding N`;
 * `plain` (a bias and no norm) and `linear` (no ReLU) of conv, depthwise and dense, which has no
 * stride and no padding. Strides are 1; padding is half the kernel, of pools 0. */
#ifndef BP_FORMATS_CNN_TEXT_H
#define BP_FORMATS_CNN_TEXT_H

#include "arena/json_write.h"
#include "layers/families/cnn.h"

/* Whether `text` is a layer, which is then in *layer. */
bool bp_cnn_layer_read(const char *text, bp_cnn_layer *layer);

/* The layer in the same words: reading them gives it back. */
void bp_cnn_layer_put(bp_text *text, const bp_cnn_layer *layer);

/* The layers of a config as a JSON list of texts; whether two configs have the same. */
void bp_cnn_layers_put(bp_json_writer *json, const char *key, const bp_model_config *config);
bool bp_cnn_same(const bp_model_config *a, const bp_model_config *b);

#endif
