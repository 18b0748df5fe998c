/* SPDX-License-Identifier: MIT */
/* Layers of convolutional nets: each is a few units, of a convolution and perhaps a norm and a
 * ReLU, one after the other; the last may stand beside them, as a shortcut. */
#include "layers/images/cnn_layer.h"

#include <math.h>
#include <string.h>

#include "layers/families/mobilenet.h"
#include "layers/nodes/publish.h"
#include "layers/families/resnet.h"

#define UNITS_MAX 4

typedef struct cnn_unit {
    uint32_t first; /* parameter number of its weight */
    bp_convolution convolution;
    bool norm;
    bool active;
} cnn_unit;

typedef struct cnn_units {
    cnn_unit unit[UNITS_MAX];
    uint32_t count;
    bool residual; /* what goes in, or what the last unit makes of it, is added to what comes out */
    bool shortcut; /* there is such a unit */
    uint32_t parameters;
    uint64_t shape[3]; /* of what comes out */
} cnn_units;

static uint32_t unit_parameters(const cnn_unit *unit)
{
    return unit->norm ? 1 + BP_BATCH_NORM_PARAMETERS : 2;
}

/* What a unit computes of channels. */
typedef struct unit_asked {
    uint8_t kernel[2], stride[2];
    uint32_t padding;
    uint64_t out; /* 0: of each channel by itself */
    bool plain;
    bool linear;
    uint32_t dilation; /* 0: 1 */
} unit_asked;

static void add_unit(cnn_units *units, uint64_t shape[3], const unit_asked *asked)
{
    cnn_unit *unit = &units->unit[units->count++];
    const bool depthwise = asked->out == 0;
    const bp_image_window window =
        bp_image_window_over(shape, asked->kernel, asked->stride, asked->padding, asked->dilation);
    unit->first = units->parameters;
    unit->norm = !asked->plain;
    unit->active = !asked->linear;
    unit->convolution = (bp_convolution){.weight = unit->first,
                                         .bias = unit->norm ? BP_NO_PARAMETER : unit->first + 1,
                                         .window = window,
                                         .out = depthwise ? shape[2] : asked->out,
                                         .depthwise = depthwise};
    units->parameters += unit_parameters(unit);
    shape[0] = window.out_height;
    shape[1] = window.out_width;
    shape[2] = unit->convolution.out;
}

/* The units beside a shortcut: `narrow` channels in the middle, 0: none (two 3 x 3). */
static void add_residual(cnn_units *units, const bp_cnn_layer *layer, const uint64_t from[3],
                         uint64_t narrow)
{
    const uint64_t wide = layer->channels, inner = narrow != 0 ? narrow : wide;
    const uint32_t pad = layer->padding;
    uint64_t *shape = units->shape;
    uint64_t beside[3] = {from[0], from[1], from[2]};
    const uint8_t *stride = layer->stride;
    const bool early = narrow != 0 && layer->plain != 0;
    unit_asked squeeze = {{1, 1}, {1, 1}, 0, inner, false, false, 1};
    unit_asked middle = {{3, 3}, {1, 1}, pad, inner, false, false, 1};
    memcpy(early ? squeeze.stride : middle.stride, stride, sizeof squeeze.stride);
    const unit_asked spread = {{1, 1}, {1, 1}, 0, wide, false, true, 1};
    const unit_asked second = {{3, 3}, {1, 1}, pad, wide, false, true, 1};
    const unit_asked across = {{1, 1}, {stride[0], stride[1]}, 0, wide, false, true, 1};
    if (narrow != 0) {
        add_unit(units, shape, &squeeze);
    }
    add_unit(units, shape, &middle);
    add_unit(units, shape, narrow != 0 ? &spread : &second);
    units->residual = true;
    units->shortcut = from[2] != wide || stride[0] > 1 || stride[1] > 1;
    if (units->shortcut) {
        add_unit(units, beside, &across);
    }
}

/* The units of an inverted layer: wide in the middle, where each channel is by itself. */
static void add_inverted(cnn_units *units, const bp_cnn_layer *layer, const bp_mobilenet *net)
{
    const uint64_t from = units->shape[2];
    const uint64_t wide = layer->linear != 0 ? from : bp_mobilenet_inner(net, from);
    const unit_asked expand = {{1, 1}, {1, 1}, 0, wide, false, false, 1};
    const unit_asked middle = {.kernel = {3, 3},
                               .stride = {layer->stride[0], layer->stride[1]},
                               .padding = layer->padding,
                               .dilation = layer->kernel[0]};
    const unit_asked reduce = {{1, 1}, {1, 1}, 0, layer->channels, false, true, 1};
    if (layer->plain == 0) {
        add_unit(units, units->shape, &expand);
    }
    add_unit(units, units->shape, &middle);
    add_unit(units, units->shape, &reduce);
    /* both strides are one number (bp_mobilenet_expand) */
    units->residual = layer->linear == 0 && from == layer->channels && layer->stride[0] == 1;
}

/* The units of a layer over an image, with parameters counted from `first`. */
static void expand_layer(const bp_cnn_config *own, const bp_cnn_layer *layer,
                         const uint64_t from[3], uint32_t first, cnn_units *units)
{
    const uint32_t pad = layer->padding;
    const bool depthwise = layer->kind == BP_CNN_DEPTHWISE || layer->kind == BP_CNN_SEPARABLE;
    unit_asked one = {{layer->kernel[0], layer->kernel[1]},
                      {layer->stride[0], layer->stride[1]},
                      pad,
                      depthwise ? 0 : layer->channels,
                      layer->plain != 0,
                      layer->linear != 0,
                      1};
    const unit_asked pointwise = {{1, 1}, {1, 1}, 0, layer->channels, false, false, 1};
    *units = (cnn_units){.parameters = first, .shape = {from[0], from[1], from[2]}};
    switch (layer->kind) {
    case BP_CNN_CONV:
    case BP_CNN_DEPTHWISE:
    case BP_CNN_DENSE:
        add_unit(units, units->shape, &one);
        break;
    case BP_CNN_SEPARABLE:
        one.plain = one.linear = false;
        add_unit(units, units->shape, &one);
        add_unit(units, units->shape, &pointwise);
        break;
    case BP_CNN_BASIC:
        add_residual(units, layer, from, 0);
        break;
    case BP_CNN_BOTTLENECK:
        add_residual(units, layer, from, layer->channels / 4);
        break;
    case BP_CNN_INVERTED:
        add_inverted(units, layer, &own->mobilenet);
        break;
    default: {
        const bp_image_window w = bp_image_window_over(from, layer->kernel, layer->stride, pad, 1);
        units->shape[0] = w.out_height;
        units->shape[1] = w.out_width;
        break;
    }
    }
}

/* The units of layer number `index`, and the image that it reads; of `layers` none, and what the
 * classifier reads. */
static void find_layer(const bp_cnn_config *own, uint32_t index, uint64_t from[3], cnn_units *units)
{
    *units = (cnn_units){.shape = {own->height, own->width, own->channels}};
    for (uint32_t i = 0; i <= index; i++) {
        memcpy(from, units->shape, sizeof units->shape);
        if (i < own->layers) {
            expand_layer(own, &own->layer[i], from, units->parameters, units);
        }
    }
}

void bp_cnn_shape(const bp_cnn_config *own, uint32_t layer, uint64_t shape[3])
{
    cnn_units units;
    find_layer(own, layer, shape, &units);
}

uint32_t bp_cnn_first(const bp_cnn_config *own, uint32_t layer)
{
    uint64_t from[3];
    cnn_units units = {.parameters = 0};
    if (layer > 0) {
        find_layer(own, layer - 1, from, &units);
    }
    return units.parameters;
}

bool bp_cnn_norms(const bp_cnn_config *own)
{
    uint64_t from[3];
    cnn_units units;
    bool norms = false;
    for (uint32_t i = 0; i < own->layers; i++) {
        find_layer(own, i, from, &units);
        for (uint32_t u = 0; u < units.count; u++) {
            norms = norms || units.unit[u].norm;
        }
    }
    return norms;
}

/* Parameters. */

/* Variances that hold backwards (He et al., arXiv 1502.01852), as PyTorch's networks have them. */
static void publish_convolution(bp_builder *builder, const char *prefix,
                                const bp_convolution *layer)
{
    const bp_image_window *w = &layer->window;
    const uint64_t each = (uint64_t)w->kernel[0] * w->kernel[1];
    const double fan = (double)(layer->depthwise ? each : each * layer->out);
    char name[BP_NAME_BYTES];
    bp_name_append(bp_name_append(name, prefix), "convolution.weight");
    const bp_parameter_info weight = {
        .name = name,
        .rank = 4,
        .shape = {layer->out, layer->depthwise ? 1 : w->channels, w->kernel[0], w->kernel[1]},
        .init = BP_INIT_NORMAL,
        .deviation = sqrt(2.0 / fan),
        .decay = true,
        .depthwise = layer->depthwise};
    bp_build_parameter(builder, &weight);
    if (layer->bias != BP_NO_PARAMETER) {
        const bp_publish_row bias = {"convolution.bias", {layer->out, 0}, BP_INIT_ZEROS, 0.0};
        bp_publish(builder, prefix, &bias);
    }
}

static char *layer_prefix(char *to, const bp_cnn_config *own, uint32_t layer)
{
    if (own->mobilenet.divisor != 0) {
        return bp_mobilenet_prefix(to, layer);
    }
    return own->resnet.hidden_sizes[0] != 0
               ? bp_resnet_prefix(to, &own->resnet, layer)
               : bp_name_append(bp_name_append_number(bp_name_append(to, "layers."), layer), ".");
}

void bp_cnn_publish(bp_builder *builder, const bp_cnn_config *own, uint32_t layer)
{
    uint64_t from[3];
    cnn_units units;
    find_layer(own, layer, from, &units);
    for (uint32_t u = 0; u < units.count; u++) {
        const cnn_unit *unit = &units.unit[u];
        char prefix[BP_NAME_BYTES];
        char *end = layer_prefix(prefix, own, layer);
        if (own->mobilenet.divisor != 0) {
            end = bp_mobilenet_unit(end, u, units.count);
        } else if (units.shortcut && u + 1 == units.count) {
            end = bp_name_append(end, "shortcut.");
        } else if (units.count > 1) {
            end = bp_name_append(bp_name_append_number(bp_name_append(end, "layer."), u), ".");
        }
        publish_convolution(builder, prefix, &unit->convolution);
        if (unit->norm) {
            bp_name_append(end, "normalization.");
            bp_batch_norm_publish(builder, prefix, unit->convolution.out, own->frozen);
        }
    }
}

/* Blocks. */

/* What the values of a unit are called, and of the last those of what stands beside it. */
static const char *const names[UNITS_MAX][6] = {
    {"convolved", "d_convolved", "norm", "d_norm", "norm.statistics", "active"},
    {"convolved_1", "d_convolved_1", "norm_1", "d_norm_1", "norm_1.statistics", "active_1"},
    {"convolved_2", "d_convolved_2", "norm_2", "d_norm_2", "norm_2.statistics", "active_2"},
    {"convolved_3", "d_convolved_3", "norm_3", "d_norm_3", "norm_3.statistics", "active_3"}};

static uint32_t add_value(bp_block *block, const char *name, const char *gradient,
                          const uint64_t shape[4], bool statistics)
{
    block->value[block->values] =
        (bp_value){name, gradient, {shape[0], shape[1], shape[2], shape[3]}, statistics};
    return block->values++;
}

static bp_node *add_node(bp_block *block, bp_node_kind kind, uint32_t in)
{
    bp_node *node = &block->node[block->nodes++];
    *node = (bp_node){.kind = kind, .in = {in}};
    return node;
}

static uint32_t add_relu(bp_block *block, const bp_cnn_config *own, uint32_t in, const char *name)
{
    const bool six = own->mobilenet.divisor != 0 && own->mobilenet.unlimited == 0;
    bp_node *node = add_node(block, BP_NODE_ACTIVATION, in);
    node->activation = six ? BP_ACTIVATION_RELU6 : BP_ACTIVATION_RELU;
    node->class_of = BP_RECOMPUTE_ACTIVATION;
    node->out[0] = add_value(block, name, "d_active", block->value[in].shape, false);
    return node->out[0];
}

static uint32_t add_norm(bp_block *block, const cnn_unit *unit, const bp_cnn_config *own,
                         uint32_t in, const char *const named[6])
{
    const uint64_t *shape = block->value[in].shape;
    const uint64_t statistics[4] = {2, unit->convolution.out, 0, 0};
    bp_node *node = add_node(block, BP_NODE_BATCH_NORM, in);
    node->class_of = BP_RECOMPUTE_NORM;
    node->again = true;
    node->batch_norm = (bp_batch_norm){.first = unit->first + 1,
                                       .width = unit->convolution.out,
                                       .places = shape[1] * shape[2],
                                       .epsilon = own->epsilon,
                                       .momentum = own->momentum,
                                       .frozen = own->frozen};
    node->out[1] = add_value(block, named[4], NULL, statistics, true);
    node->out[0] = add_value(block, named[2], named[3], shape, false);
    return node->out[0];
}

/* The value that a unit makes of value `in`. */
static uint32_t describe_unit(bp_block *block, const cnn_units *units, uint32_t u,
                              const bp_cnn_config *own, uint32_t in)
{
    const cnn_unit *unit = &units->unit[u];
    const bp_image_window *w = &unit->convolution.window;
    const uint64_t shape[4] = {block->value[0].shape[0], w->out_height, w->out_width,
                               unit->convolution.out};
    bp_node *node = add_node(block, BP_NODE_CONVOLUTION, in);
    node->convolution = unit->convolution;
    node->out[0] = add_value(block, names[u][0], names[u][1], shape, false);
    uint32_t value = node->out[0];
    if (unit->norm) {
        value = add_norm(block, unit, own, value, names[u]);
    }
    return unit->active ? add_relu(block, own, value, names[u][5]) : value;
}

static void describe_pool(bp_block *block, const bp_cnn_layer *layer, const uint64_t from[3])
{
    const bp_image_window w =
        bp_image_window_over(from, layer->kernel, layer->stride, layer->padding, 1);
    const uint64_t shape[4] = {block->value[0].shape[0], w.out_height, w.out_width, w.channels};
    const bool max = layer->kind == BP_CNN_MAX_POOL;
    bp_node *node = add_node(block, max ? BP_NODE_MAX_POOL : BP_NODE_MEAN_POOL, 0);
    node->window = w;
    if (max) {
        node->out[1] = add_value(block, "place", NULL, shape, true);
    }
    node->out[0] = add_value(block, "pooled", NULL, shape, false);
}

void bp_cnn_describe(uint64_t batch, const bp_cnn_config *own, uint32_t layer, bp_block *block)
{
    uint64_t from[3];
    cnn_units units;
    find_layer(own, layer, from, &units);
    *block = (bp_block){.values = 0};
    const uint64_t shape[4] = {batch, from[0], from[1], from[2]};
    uint32_t value = add_value(block, "input", "d_in", shape, false), beside = 0;
    const uint32_t inner = units.count - (units.shortcut ? 1 : 0);
    if (units.count == 0) {
        describe_pool(block, &own->layer[layer], from);
        return;
    }
    for (uint32_t u = 0; u < inner; u++) {
        value = describe_unit(block, &units, u, own, value);
    }
    if (units.shortcut) {
        beside = describe_unit(block, &units, inner, own, 0);
    }
    if (units.residual) {
        bp_node *sum = add_node(block, BP_NODE_ADD, value);
        sum->in[1] = beside;
        sum->out[0] = add_value(block, "sum", "d_sum", block->value[value].shape, false);
        if (own->layer[layer].kind != BP_CNN_INVERTED) {
            add_relu(block, own, sum->out[0], "out");
        }
    }
}

#define PLACES_MOST 64 /* of a micro-batch: an op each */

bool bp_cnn_describe_mean(uint64_t batch, const bp_cnn_config *own, uint32_t layer, bp_block *block)
{
    uint64_t from[3];
    const bool last = layer + 1 >= own->layers || block->nodes == 0;
    if (last || own->layer[layer + 1].kind != BP_CNN_MEAN_POOL ||
        block->node[block->nodes - 1].kind != BP_NODE_ACTIVATION) {
        return false;
    }
    bp_cnn_shape(own, layer + 1, from);
    const bp_cnn_layer *pool = &own->layer[layer + 1];
    const bp_image_window w =
        bp_image_window_over(from, pool->kernel, pool->stride, pool->padding, 1);
    if (!bp_image_window_whole(&w) || batch > PLACES_MOST / (w.height * w.width)) {
        return false;
    }
    const uint64_t shape[4] = {batch, 1, 1, w.channels};
    bp_node *node = add_node(block, BP_NODE_MEAN_POOL, block->values - 1);
    node->window = w;
    node->out[0] = add_value(block, "pooled", NULL, shape, false);
    return true;
}

/* Refusals. */

static bp_status refuse_layer(bp_error *error, const char *text, uint32_t layer, uint32_t layers)
{
    return bp_error_numbers(error, BP_ERR_USAGE, "cnn", text, "layers", layer, layers);
}

/* Padding of a window's size or more would let it see nothing. */
static bool pads_too_much(const bp_cnn_layer *layer)
{
    const bool own = layer->padding != BP_PADDING_HALF && layer->padding != BP_PADDING_SAME;
    const bool residual = layer->kind >= BP_CNN_BASIC && layer->kind < BP_CNN_MAX_POOL;
    const uint32_t height = residual ? 3 : layer->kernel[0];
    const uint32_t width = residual ? 3 : layer->kernel[1];
    return own && layer->padding > 0 && (layer->padding >= height || layer->padding >= width);
}

static bool has_channels(const bp_cnn_layer *layer)
{
    const bool kept = layer->kind == BP_CNN_DEPTHWISE || layer->kind >= BP_CNN_MAX_POOL;
    const bool quarters = layer->kind != BP_CNN_BOTTLENECK || layer->channels % 4 == 0;
    return kept ? layer->channels == 0
                : layer->channels > 0 && layer->channels <= BP_CNN_SIZE_MOST && quarters;
}

bp_status bp_cnn_check_layers(const bp_cnn_config *own, bp_error *error)
{
    for (uint32_t i = 0; i < own->layers; i++) {
        const bp_cnn_layer *layer = &own->layer[i];
        uint64_t from[3], shape[3];
        const bool pool = layer->kind == BP_CNN_MAX_POOL || layer->kind == BP_CNN_MEAN_POOL;
        const bool sized = layer->kind >= BP_CNN_DENSE && layer->kind < BP_CNN_MAX_POOL;
        if (layer->kind >= BP_CNN_KIND_COUNT || !has_channels(layer)) {
            return refuse_layer(error, "a layer is of no known kind, or its channels are wrong", i,
                                own->layers);
        }
        if ((layer->kernel[0] == 0 || layer->kernel[1] == 0) && !pool && !sized) {
            return refuse_layer(error, "a convolution's window has no size", i, own->layers);
        }
        bp_cnn_shape(own, i, from);
        bp_cnn_shape(own, i + 1, shape);
        if (pads_too_much(layer) || shape[0] == 0 || shape[1] == 0) {
            return refuse_layer(error,
                                "a window is larger than what it moves over, or its padding "
                                "is as large as itself",
                                i, own->layers);
        }
    }
    return BP_OK;
}
