/* SPDX-License-Identifier: MIT */
/* ResNets as transformers describes them, as layers of a convolutional net. */
#ifndef BP_LAYERS_RESNET_H
#define BP_LAYERS_RESNET_H

#include "core/base/error.h"
#include "layers/families/cnn.h"

/* Sets layers, as many of them as there is room for, and what transformers takes of every norm. */
void bp_resnet_expand(bp_cnn_config *own);

/* BP_ERR_USAGE: stages without layers, or more layers than there is room for. */
bp_status bp_resnet_check(const bp_cnn_config *own, bp_error *error) BP_MUST_CHECK;

/* What the names of a layer's parameters begin with; returns the end (layers/nodes/publish.h). */
char *bp_resnet_prefix(char *to, const bp_resnet *resnet, uint32_t layer);

#endif
