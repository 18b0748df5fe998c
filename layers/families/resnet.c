/* SPDX-License-Identifier: MIT */
/* transformers' modeling_resnet.py: He et al., arXiv 1512.03385, with the stride in a bottleneck's
 * 3 x 3 unless early_strides says otherwise. */
#include "layers/families/resnet.h"

#include "layers/images/image.h"
#include "layers/nodes/publish.h"

/* Adds a layer while there is room. */
static void resnet_add(bp_cnn_config *own, bp_cnn_layer layer)
{
    if (own->layers < BP_CNN_LAYERS_MAX) {
        own->layer[own->layers++] = layer;
    }
}

void bp_resnet_expand(bp_cnn_config *own)
{
    const bp_resnet *resnet = &own->resnet;
    own->layers = 0;
    own->epsilon = 1e-5; /* PyTorch's BatchNorm2d */
    own->momentum = 0.1;
    resnet_add(own, (bp_cnn_layer){.kind = BP_CNN_CONV,
                                   .kernel = {7, 7},
                                   .stride = {2, 2},
                                   .padding = BP_PADDING_HALF,
                                   .channels = resnet->embedding_size});
    resnet_add(own, (bp_cnn_layer){
                        .kind = BP_CNN_MAX_POOL, .kernel = {3, 3}, .stride = {2, 2}, .padding = 1});
    for (uint32_t i = 0; i < BP_RESNET_STAGES && resnet->hidden_sizes[i] != 0; i++) {
        for (uint32_t k = 0; k < resnet->depths[i] && own->layers < BP_CNN_LAYERS_MAX; k++) {
            const uint8_t stride = k == 0 && (i > 0 || resnet->first_strides) ? 2 : 1;
            resnet_add(own, (bp_cnn_layer){.kind = resnet->bottleneck != 0 ? BP_CNN_BOTTLENECK
                                                                           : BP_CNN_BASIC,
                                           .stride = {stride, stride},
                                           .padding = BP_PADDING_HALF,
                                           .plain = resnet->early_strides,
                                           .channels = resnet->hidden_sizes[i]});
        }
    }
    resnet_add(own, (bp_cnn_layer){.kind = BP_CNN_MEAN_POOL, .stride = {1, 1}});
}

bp_status bp_resnet_check(const bp_cnn_config *own, bp_error *error)
{
    uint64_t layers = 3;
    for (uint32_t i = 0; i < BP_RESNET_STAGES; i++) {
        const bool there = own->resnet.hidden_sizes[i] != 0;
        if (there != (own->resnet.depths[i] != 0)) {
            return bp_error_set(error, BP_ERR_USAGE, "resnet",
                                "hidden_sizes and depths have a number for each stage", "depths");
        }
        layers += own->resnet.depths[i];
    }
    if (layers > BP_CNN_LAYERS_MAX) {
        return bp_error_limit(error, BP_ERR_USAGE, "resnet", "the stages have too many layers",
                              "depths", (int64_t)layers, BP_LIMIT_MOST, BP_CNN_LAYERS_MAX);
    }
    return BP_OK;
}

char *bp_resnet_prefix(char *to, const bp_resnet *resnet, uint32_t layer)
{
    enum { BEFORE = 2 }; /* layers before the stages */
    uint32_t stage = 0, left = layer < BEFORE ? 0 : layer - BEFORE;
    if (layer < BEFORE) {
        return bp_name_append(to, "resnet.embedder.embedder.");
    }
    while (stage + 1 < BP_RESNET_STAGES && left >= resnet->depths[stage]) {
        left -= resnet->depths[stage++];
    }
    to = bp_name_append_number(bp_name_append(to, "resnet.encoder.stages."), stage);
    to = bp_name_append_number(bp_name_append(to, ".layers."), left);
    return bp_name_append(to, ".");
}
