/* SPDX-License-Identifier: MIT */
/* MobileNetV2 as transformers describes it, as layers of a convolutional net. */
#ifndef BP_LAYERS_MOBILENET_H
#define BP_LAYERS_MOBILENET_H

#include "core/base/error.h"
#include "layers/families/cnn.h"

/* Sets layers, and what transformers takes of every norm besides epsilon. */
void bp_mobilenet_expand(bp_cnn_config *own);

/* The width in the middle of a layer over `channels`. */
uint32_t bp_mobilenet_inner(const bp_mobilenet *net, uint64_t channels);

/* BP_ERR_USAGE: widths or strides that are none. */
bp_status bp_mobilenet_check(const bp_mobilenet *net, bp_error *error) BP_MUST_CHECK;

/* What the names of a layer's parameters begin with, and the name of unit `unit` of a layer with
 * `units` of them; both return the end (layers/nodes/publish.h). */
char *bp_mobilenet_prefix(char *to, uint32_t layer);
char *bp_mobilenet_unit(char *to, uint32_t unit, uint32_t units);

#endif
