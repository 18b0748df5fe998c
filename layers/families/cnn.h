/* SPDX-License-Identifier: MIT */
/* Convolutional nets by description: a chain of layers over images, which judges each image, or
 * gives it back (reconstruction). */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_CNN_H
#define BP_LAYERS_CNN_H

#include "core/plan/spec.h"

#define BP_CNN_LAYERS_MAX 60

typedef enum bp_cnn_kind {
    BP_CNN_CONV,      /* a convolution, its norm and ReLU */
    BP_CNN_DEPTHWISE, /* the same of each channel by itself */
    BP_CNN_SEPARABLE, /* depthwise, then 1 x 1, each with norm and ReLU (MobileNet) */
    BP_CNN_DENSE, /* a convolution whose window is the whole image: a dense layer, its norm, ReLU */
    BP_CNN_BASIC, /* two 3 x 3 beside a shortcut (ResNet-18) */
    BP_CNN_BOTTLENECK, /* 1 x 1 to a quarter, 3 x 3, 1 x 1 beside a shortcut (ResNet-50) */
    BP_CNN_INVERTED,   /* 1 x 1, depthwise 3 x 3, 1 x 1 without ReLU, beside what goes in where that
                          has the same shape (MobileNetV2) */
    BP_CNN_MAX_POOL,
    BP_CNN_MEAN_POOL,
    BP_CNN_KIND_COUNT
} bp_cnn_kind;

/* A layer. What a kind has no use for is 0. */
typedef struct bp_cnn_layer {
    uint8_t kind;
    uint8_t kernel[2]; /* height and width; of pools 0: the whole image; dense: 0; of
                          BP_CNN_INVERTED how far the places of its 3 x 3 lie apart, 0: 1 */
    uint8_t stride[2];
    uint8_t padding; /* places on each side; 254: half the kernel, 255: TensorFlow's SAME */
    uint8_t plain;   /* of BP_CNN_CONV, _DEPTHWISE and _DENSE: a bias, and no norm; of
                        BP_CNN_BOTTLENECK: the first of its three has the stride; of
                        BP_CNN_INVERTED: it lacks the first of its three */
    uint8_t linear;  /* the same: no ReLU; of BP_CNN_INVERTED: it stands beside nothing */
    uint32_t channels;
} bp_cnn_layer;

#define BP_RESNET_STAGES 5

/* A ResNet as transformers describes it: 7 x 7 with stride 2, a pool, stages of residual layers and
 * the mean. */
typedef struct bp_resnet {
    uint32_t hidden_sizes[BP_RESNET_STAGES]; /* channels; 0: there is no such stage */
    uint32_t depths[BP_RESNET_STAGES];       /* layers */
    uint32_t embedding_size;                 /* channels before the stages */
    uint32_t bottleneck;                     /* 0: basic layers */
    bool first_strides;                      /* the first stage halves the image as well */
    bool early_strides;                      /* bottlenecks do so in their first convolution */
} bp_resnet;

/* A MobileNetV2 as transformers describes it: 19 layers and the mean, whose widths follow from
 * these numbers. */
typedef struct bp_mobilenet {
    double multiplier;  /* depth_multiplier, of all widths */
    double expansion;   /* expand_ratio: how much wider a layer is in its middle */
    uint32_t divisor;   /* depth_divisible_by, of all widths; 0: the net is none */
    uint32_t least;     /* min_depth */
    uint32_t stride;    /* output_stride */
    uint32_t unlimited; /* ReLU and not ReLU6 */
    bool expands; /* not first_layer_is_expansion: there is a 1 x 1 before the first depthwise */
    bool scaled;  /* not finegrained_output: the last width shrinks with the others */
    bool padded_half; /* not tf_padding */
} bp_mobilenet;

/* Keys of config.json that only these families have. config.positions is height * width * channels.
 */
typedef struct bp_cnn_config {
    uint32_t height;
    uint32_t width;
    uint32_t channels;
    uint32_t layers;
    double epsilon;  /* of norms */
    double momentum; /* how much of its running statistics a micro-batch's replace */
    double dropout;  /* before the classifier */
    bool frozen;     /* norms take the running statistics and leave them */
    bp_cnn_layer layer[BP_CNN_LAYERS_MAX];
    bp_resnet resnet; /* with stages it says the layers, their norms and their names; likewise */
    bp_mobilenet mobilenet;
} bp_cnn_config;

/* With the layers that a ResNet or a MobileNetV2 has, at most BP_CNN_LAYERS_MAX. */
bp_cnn_config bp_cnn_config_of(const bp_model_config *config);

/* Stages: one per layer, and the classifier with the loss. Parameters: layers.<i>.convolution and
 * layers.<i>.normalization of a layer with one convolution; of others layers.<i>.layer.<k> and
 * layers.<i>.shortcut in their place; classifier. Those of a ResNet or a MobileNetV2 are
 * called as transformers does. Weights are as PyTorch's modules have them. An image's numbers are
 * the bits of its (height, width, channels) as float32. */
extern const bp_model bp_model_cnn;

#endif
