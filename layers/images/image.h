/* SPDX-License-Identifier: MIT */
/* Layers over images (batch, height, width, channels): convolutions and pools, as ops over what
 * windows see. builder->rows is the number of images. */
#ifndef BP_LAYERS_IMAGE_H
#define BP_LAYERS_IMAGE_H

#include "core/plan/builder.h"

/* A window that moves over an image: kernels.def, `patches`. */
typedef struct bp_image_window {
    uint64_t height, width, channels; /* of what it moves over */
    uint64_t out_height, out_width;   /* how often it stands there */
    uint32_t kernel[2];               /* its height and width */
    uint32_t stride[2];
    uint32_t before[2]; /* rows above the image and columns left of it that the first one sees */
    uint32_t dilation;  /* how far its places lie from each other; 1: side by side */
} bp_image_window;

/* `count` numbers of images in bytes (bp_spec.pixels), from number `first` of a micro-batch on. */
bp_ref bp_image_pixels(bp_builder *builder, uint64_t channels, uint64_t first, uint64_t count);

/* A padding of whole windows: BP_PADDING_HALF is kernel / 2 on both sides, as PyTorch's networks
 * have it; BP_PADDING_SAME is what ceil(size / stride) windows need, the odd place behind, as
 * TensorFlow has it. Anything else is that many places on every side. */
#define BP_PADDING_HALF 254u
#define BP_PADDING_SAME 255u

/* The window of this kernel and stride over an image; out_height or out_width is 0 where it is
 * larger than the padded image. kernel {0, 0}: the image's own size. dilation 0 is 1; a padding of
 * whole windows is of what they span. */
bp_image_window bp_image_window_over(const uint64_t image[3], const uint8_t kernel[2],
                                     const uint8_t stride[2], uint32_t padding, uint32_t dilation);

/* y (batch, out_height, out_width, out): a product of what windows see and the weight (out,
 * channels, kernel height, kernel width), in PyTorch's order; or, `depthwise`, of each channel by
 * itself with the weight (channels, 1, kernel height, kernel width). */
typedef struct bp_convolution {
    uint32_t weight; /* parameter number */
    uint32_t bias;   /* parameter number, (out); BP_NO_PARAMETER: none */
    bp_image_window window;
    uint64_t out;
    bool depthwise; /* out is channels */
} bp_convolution;

/* What windows see is written down for some images at a time, this many bytes or one image. */
#define BP_PATCHES_BYTES (UINT64_C(4) << 20)

/* Whether a stage keeps nothing but what it reads. The search for a policy counts `full`, so that
 * it has as many ops as any other. */
bool bp_image_keeps_little(const bp_builder *builder);

/* Elements of what the windows of a convolution with `out` channels see of one image that
 * bp_convolution_forward then writes down at a time; not of one that is depthwise. */
uint64_t bp_image_written(const bp_image_window *w, uint64_t out);

void bp_convolution_forward(bp_builder *builder, const bp_convolution *layer, bp_ref x, bp_ref y);

/* Whether it has a parameter to train, and whether for that backward reads x. */
bool bp_convolution_trains(const bp_builder *builder, const bp_convolution *layer);
bool bp_convolution_trains_reading(const bp_builder *builder, const bp_convolution *layer);

/* d_weight (+)= .., images in order; d_bias (+)= the sums of d_y. */
void bp_convolution_backward_parameters(bp_builder *builder, const bp_convolution *layer, bp_ref x,
                                        bp_ref d_y);
void bp_convolution_backward_input(bp_builder *builder, const bp_convolution *layer, bp_ref d_y,
                                   bp_ref d_x);

/* The largest of each channel that a window sees, with `place` (F32, of y's shape) for the way
 * back, absent where nobody goes back; or the mean of those that lie in the image. */
void bp_pool_max_forward(bp_builder *builder, const bp_image_window *window, bp_ref x, bp_ref y,
                         bp_ref place);
void bp_pool_max_backward(bp_builder *builder, const bp_image_window *window, bp_ref place,
                          bp_ref d_y, bp_ref d_x);
void bp_pool_mean_forward(bp_builder *builder, const bp_image_window *window, bp_ref x, bp_ref y);
void bp_pool_mean_backward(bp_builder *builder, const bp_image_window *window, bp_ref d_y,
                           bp_ref d_x);

/* Whether a window sees all of the image and nothing else, so that the gradient of a mean is the
 * same at every place; d_x (batch, channels) is that of one. */
bool bp_image_window_whole(const bp_image_window *window);
void bp_pool_mean_backward_place(bp_builder *builder, const bp_image_window *window, bp_ref d_y,
                                 bp_ref d_x);

#endif
