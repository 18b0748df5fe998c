/* SPDX-License-Identifier: MIT */
/* What rows of windows say to kernels: all begin with the scalars of `patches`. */
#ifndef BP_LAYERS_IMAGE_SCALARS_H
#define BP_LAYERS_IMAGE_SCALARS_H

#include "layers/images/image.h"

/* The first scalars of all rows of windows, over `images` images. */
static inline bp_patches_scalars window_scalars(const bp_image_window *w, uint64_t images)
{
    return (bp_patches_scalars){.batch = (int64_t)images,
                                .height = (int64_t)w->height,
                                .width = (int64_t)w->width,
                                .channels = (int64_t)w->channels,
                                .pitch = (int64_t)w->channels,
                                .out_height = (int64_t)w->out_height,
                                .out_width = (int64_t)w->out_width,
                                .kernel_height = w->kernel[0],
                                .kernel_width = w->kernel[1],
                                .stride_height = w->stride[0],
                                .stride_width = w->stride[1],
                                .top = w->before[0],
                                .left = w->before[1],
                                .dilation = w->dilation};
}

/* The same with a flag behind them. */
static inline bp_window_mean_scalars window_flagged(const bp_image_window *w, uint64_t images,
                                                    int64_t flag)
{
    const bp_patches_scalars s = window_scalars(w, images);
    return (bp_window_mean_scalars){
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left,          s.dilation,     flag};
}

#endif
