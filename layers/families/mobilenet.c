/* SPDX-License-Identifier: MIT */
/* transformers' modeling_mobilenet_v2.py: Sandler et al., arXiv 1801.04381. */
#include "layers/families/mobilenet.h"

#include <math.h>

#include "core/plan/range.h"
#include "layers/images/image.h"
#include "layers/nodes/publish.h"

#define INVERTED 16

enum { BEFORE = 2 }; /* layers before the inverted ones */

/* The multiple of the divisor that is nearest, unless that is less than nine tenths. */
static uint32_t mobilenet_whole(const bp_mobilenet *net, double value)
{
    const double divisor = net->divisor;
    double near = floor(floor(value + divisor / 2.0) / divisor) * divisor;
    near = near < (double)net->least ? (double)net->least : near;
    near += near < 0.9 * value ? divisor : 0.0;
    return near < 4294967295.0 ? (uint32_t)near : UINT32_MAX;
}

/* rint as Python's round: a half goes to the even number. */
static uint32_t mobilenet_width(const bp_mobilenet *net, uint32_t channels)
{
    return mobilenet_whole(net, rint((double)channels * net->multiplier));
}

uint32_t bp_mobilenet_inner(const bp_mobilenet *net, uint64_t channels)
{
    return mobilenet_whole(net, rint((double)channels * net->expansion));
}

void bp_mobilenet_expand(bp_cnn_config *own)
{
    static const uint8_t strides[INVERTED] = {2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1};
    static const uint16_t widths[INVERTED] = {24, 24, 32, 32, 32,  64,  64,  64,
                                              64, 96, 96, 96, 160, 160, 160, 320};
    const bp_mobilenet *net = &own->mobilenet;
    const uint8_t pad = net->padded_half ? BP_PADDING_HALF : BP_PADDING_SAME;
    const bool fine = !net->scaled && net->multiplier < 1.0;
    bp_cnn_layer *to = own->layer;
    own->momentum = 0.997; /* as the original has it of what stays, here of what is replaced */
    *to++ = (bp_cnn_layer){.kind = BP_CNN_CONV,
                           .kernel = {3, 3},
                           .stride = {2, 2},
                           .padding = pad,
                           .channels = mobilenet_width(net, 32)};
    *to++ = (bp_cnn_layer){.kind = BP_CNN_INVERTED,
                           .stride = {1, 1},
                           .padding = pad,
                           .plain = !net->expands,
                           .linear = 1,
                           .channels = mobilenet_width(net, 16)};
    uint32_t shrunk = 2, dilation = 1; /* by the first convolution */
    for (uint32_t i = 0; i < INVERTED; i++) {
        /* What is as small as it may be looks further instead, from the next layer on. */
        const bool whole = shrunk == net->stride;
        const uint8_t stride = whole ? 1 : strides[i];
        const uint8_t apart = (uint8_t)(whole ? dilation : 1);
        *to++ = (bp_cnn_layer){.kind = BP_CNN_INVERTED,
                               .kernel = {apart, apart},
                               .stride = {stride, stride},
                               .padding = pad,
                               .channels = mobilenet_width(net, widths[i])};
        dilation *= whole ? strides[i] : 1u;
        shrunk *= stride;
    }
    *to++ = (bp_cnn_layer){.kind = BP_CNN_CONV,
                           .kernel = {1, 1},
                           .stride = {1, 1},
                           .channels = fine ? 1280 : mobilenet_width(net, 1280)};
    *to++ = (bp_cnn_layer){.kind = BP_CNN_MEAN_POOL, .stride = {1, 1}};
    own->layers = (uint32_t)(to - own->layer);
}

bp_status bp_mobilenet_check(const bp_mobilenet *net, bp_error *error)
{
    const bp_range counts[] = {{"depth_divisible_by", net->divisor, 1, 1u << 14},
                               {"min_depth", net->least, 1, 1u << 14}};
    const bp_range stride = {"output_stride", net->stride, 1, 32};
    const bp_real_range reals[] = {{"depth_multiplier", net->multiplier, 1e-6, 1e3},
                                   {"expand_ratio", net->expansion, 1e-6, 1e3}};
    BP_TRY(bp_ranges_check(counts, 2, "mobilenet_v2", error));
    BP_TRY(bp_real_ranges_check(reals, 2, "mobilenet_v2", error));
    return bp_ranges_check(&stride, 1, "mobilenet_v2", error);
}

char *bp_mobilenet_prefix(char *to, uint32_t layer)
{
    to = bp_name_append(to, "mobilenet_v2.");
    if (layer < BEFORE) {
        return bp_name_append(to, layer == 0 ? "conv_stem.first_conv." : "conv_stem.");
    }
    if (layer == BEFORE + INVERTED) {
        return bp_name_append(to, "conv_1x1.");
    }
    to = bp_name_append_number(bp_name_append(to, "layer."), layer - BEFORE);
    return bp_name_append(to, ".");
}

char *bp_mobilenet_unit(char *to, uint32_t unit, uint32_t units)
{
    static const char *const names[3] = {"expand_1x1.", "conv_3x3.", "reduce_1x1."};
    return units > 1 ? bp_name_append(to, names[3 - units + unit]) : to;
}
