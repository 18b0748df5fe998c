/* SPDX-License-Identifier: MIT */
/* Pools as ops. */
#include "layers/images/image.h"
#include "layers/images/image_scalars.h"

void bp_pool_max_forward(bp_builder *builder, const bp_image_window *window, bp_ref x, bp_ref y,
                         bp_ref place)
{
    const bp_patches_scalars s = window_scalars(window, builder->rows);
    const bp_window_max_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left,          s.dilation};
    const bp_window_max_operands operands = {.y = y, .place = place, .x = x};
    bp_build_window_max(builder, &operands, &scalars);
}

void bp_pool_max_backward(bp_builder *builder, const bp_image_window *window, bp_ref place,
                          bp_ref d_y, bp_ref d_x)
{
    const bp_patches_scalars s = window_scalars(window, builder->rows);
    const bp_window_max_backward_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left,          s.dilation};
    const bp_window_max_backward_operands operands = {.d_x = d_x, .d_y = d_y, .place = place};
    bp_build_window_max_backward(builder, &operands, &scalars);
}

void bp_pool_mean_forward(bp_builder *builder, const bp_image_window *window, bp_ref x, bp_ref y)
{
    const bp_window_mean_scalars scalars = window_flagged(window, builder->rows, 1);
    const bp_window_mean_operands operands = {.y = y, .x = x};
    bp_build_window_mean(builder, &operands, &scalars);
}

void bp_pool_mean_backward(bp_builder *builder, const bp_image_window *window, bp_ref d_y,
                           bp_ref d_x)
{
    const bp_window_mean_scalars s = window_flagged(window, builder->rows, 1);
    const bp_window_mean_backward_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left,          s.dilation,     s.inside};
    const bp_window_mean_backward_operands operands = {.d_x = d_x, .d_y = d_y};
    bp_build_window_mean_backward(builder, &operands, &scalars);
}

bool bp_image_window_whole(const bp_image_window *window)
{
    return window->out_height == 1 && window->out_width == 1 &&
           window->kernel[0] == window->height && window->kernel[1] == window->width &&
           window->before[0] == 0 && window->before[1] == 0 && window->dilation <= 1;
}

/* The first place of the window is the image; its divisor counts the others, too. */
void bp_pool_mean_backward_place(bp_builder *builder, const bp_image_window *window, bp_ref d_y,
                                 bp_ref d_x)
{
    bp_image_window place = *window;
    place.height = place.width = 1;
    const bp_window_mean_scalars s = window_flagged(&place, builder->rows, 0);
    const bp_window_mean_backward_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left,          s.dilation,     s.inside};
    const bp_window_mean_backward_operands operands = {.d_x = d_x, .d_y = d_y};
    bp_build_window_mean_backward(builder, &operands, &scalars);
}
