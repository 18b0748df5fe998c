/* SPDX-License-Identifier: MIT */
/* Convolutions and pools as ops. */
#include "layers/image.h"

bp_image_window bp_image_window_over(const uint64_t image[3], const uint8_t kernel[2],
                                     const uint8_t stride[2], uint32_t padding)
{
    uint64_t out[2];
    bp_image_window w = {.height = image[0], .width = image[1], .channels = image[2]};
    for (int i = 0; i < 2; i++) {
        w.kernel[i] = kernel[i] != 0 ? kernel[i] : (uint32_t)image[i];
        w.stride[i] = stride[i] != 0 ? stride[i] : 1;
        uint64_t both = 0;
        if (padding == BP_PADDING_SAME) {
            out[i] = (image[i] + w.stride[i] - 1) / w.stride[i];
            const uint64_t need = (out[i] - 1) * w.stride[i] + w.kernel[i];
            both = out[i] > 0 && need > image[i] ? need - image[i] : 0;
            w.before[i] = (uint32_t)(both / 2);
        } else {
            w.before[i] = padding == BP_PADDING_HALF ? w.kernel[i] / 2 : padding;
            both = image[i] + 2 * (uint64_t)w.before[i];
            out[i] = both >= w.kernel[i] ? (both - w.kernel[i]) / w.stride[i] + 1 : 0;
        }
    }
    w.out_height = out[0];
    w.out_width = out[1];
    return w;
}

/* The first scalars of all rows of windows, over `images` images. */
static bp_patches_scalars window_scalars(const bp_image_window *w, uint64_t images)
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
                                .left = w->before[1]};
}

/* The same with a flag behind them. */
static bp_window_mean_scalars window_flagged(const bp_image_window *w, uint64_t images,
                                             int64_t flag)
{
    const bp_patches_scalars s = window_scalars(w, images);
    return (bp_window_mean_scalars){s.batch,        s.height,
                                    s.width,        s.channels,
                                    s.pitch,        s.out_height,
                                    s.out_width,    s.kernel_height,
                                    s.kernel_width, s.stride_height,
                                    s.stride_width, s.top,
                                    s.left,         flag};
}

/* Windows of an image, and what one of them sees. */
static uint64_t window_rows(const bp_image_window *w)
{
    return w->out_height * w->out_width;
}

static uint64_t window_sees(const bp_image_window *w)
{
    return w->channels * w->kernel[0] * w->kernel[1];
}

static uint64_t window_image(const bp_image_window *w)
{
    return w->height * w->width * w->channels;
}

/* Whether windows see the image as it is: what they see need not be written down. */
static bool sees_places(const bp_image_window *w)
{
    return w->kernel[0] == 1 && w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1 &&
           w->before[0] == 0 && w->before[1] == 0;
}

/* Images whose windows are written down at a time. */
static uint64_t images_at_once(const bp_emit *emit, const bp_convolution *layer)
{
    const bp_image_window *w = &layer->window;
    if (sees_places(w)) {
        return emit->rows;
    }
    const uint64_t bytes = bp_size_mul(bp_size_mul(window_rows(w), window_sees(w)), sizeof(float));
    const uint64_t images = bytes > 0 ? BP_PATCHES_BYTES / bytes : emit->rows;
    return images == 0 ? 1 : images < emit->rows ? images : emit->rows;
}

/* What the windows of some images see, or its gradient: a buffer, or the images themselves. */
static bp_ref make_columns(bp_emit *emit, const bp_convolution *layer, uint64_t images,
                           const char *name)
{
    return bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit),
                          images * window_rows(&layer->window), window_sees(&layer->window), name);
}

static bp_ref see(bp_emit *emit, const bp_convolution *layer, uint64_t images, bp_ref x,
                  bp_ref columns)
{
    if (sees_places(&layer->window)) {
        return x;
    }
    const bp_patches_scalars scalars = window_scalars(&layer->window, images);
    const bp_patches_operands operands = {.columns = columns, .x = x};
    bp_emit_patches(emit, &operands, &scalars);
    return columns;
}

static void depthwise_forward(bp_emit *emit, const bp_convolution *layer, bp_ref x, bp_ref y)
{
    const bp_patches_scalars s = window_scalars(&layer->window, emit->rows);
    const bp_depthwise_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left};
    const bp_depthwise_operands operands = {
        .y = y,
        .x = x,
        .weight = bp_emit_acquire(emit, layer->weight, BP_FOR_FORWARD),
        .bias = bp_emit_acquire(emit, layer->bias, BP_FOR_FORWARD)};
    bp_emit_depthwise(emit, &operands, &scalars);
    bp_emit_release(emit, layer->bias);
    bp_emit_release(emit, layer->weight);
}

void bp_convolution_forward(bp_emit *emit, const bp_convolution *layer, bp_ref x, bp_ref y)
{
    const bp_image_window *w = &layer->window;
    if (layer->depthwise) {
        depthwise_forward(emit, layer, x, y);
        return;
    }
    const uint64_t tile = images_at_once(emit, layer);
    const bp_ref columns = sees_places(w) ? BP_ABSENT : make_columns(emit, layer, tile, "patches");
    const bp_ref weight = bp_emit_acquire(emit, layer->weight, BP_FOR_FORWARD);
    const bp_ref bias = bp_emit_acquire(emit, layer->bias, BP_FOR_FORWARD);
    for (uint64_t first = 0; first < emit->rows; first += tile) {
        const uint64_t images = emit->rows - first < tile ? emit->rows - first : tile;
        const bp_ref seen =
            see(emit, layer, images, bp_ref_at(x, first * window_image(w)), columns);
        const bp_matmul_scalars scalars = {.m = (int64_t)(images * window_rows(w)),
                                           .n = (int64_t)layer->out,
                                           .k = (int64_t)window_sees(w),
                                           .lda = (int64_t)window_sees(w),
                                           .ldb = (int64_t)window_sees(w),
                                           .ldc = (int64_t)layer->out,
                                           .transpose_b = 1};
        const bp_matmul_operands operands = {.c = bp_ref_at(y, first * window_rows(w) * layer->out),
                                             .before = BP_ABSENT,
                                             .a = seen,
                                             .b = weight,
                                             .bias = bias,
                                             .residual = BP_ABSENT,
                                             .work = BP_ABSENT};
        bp_emit_matmul(emit, &operands, &scalars);
    }
    bp_emit_release(emit, layer->bias);
    bp_emit_release(emit, layer->weight);
}

bool bp_convolution_trains(const bp_emit *emit, const bp_convolution *layer)
{
    return bp_emit_trainable(emit, layer->weight) ||
           (layer->bias != BP_NO_PARAMETER && bp_emit_trainable(emit, layer->bias));
}

bool bp_convolution_trains_reading(const bp_emit *emit, const bp_convolution *layer)
{
    return bp_emit_trainable(emit, layer->weight);
}

static void backward_bias(bp_emit *emit, const bp_convolution *layer, bp_ref d_y)
{
    bp_bias_backward_scalars scalars = {.rows = (int64_t)(emit->rows * window_rows(&layer->window)),
                                        .n = (int64_t)layer->out,
                                        .pitch = (int64_t)layer->out};
    const bp_bias_backward_operands operands = {
        .d_bias = bp_emit_gradient(emit, layer->bias, &scalars.accumulate), .d_y = d_y};
    bp_emit_bias_backward(emit, &operands, &scalars);
}

static void depthwise_backward_weight(bp_emit *emit, const bp_convolution *layer, bp_ref x,
                                      bp_ref d_y)
{
    int64_t accumulate = 0;
    const bp_ref d_weight = bp_emit_gradient(emit, layer->weight, &accumulate);
    const bp_window_mean_scalars s = window_flagged(&layer->window, emit->rows, accumulate);
    const bp_depthwise_backward_weight_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left,          s.inside};
    const bp_depthwise_backward_weight_operands operands = {
        .d_weight = d_weight, .d_y = d_y, .x = x};
    bp_emit_depthwise_backward_weight(emit, &operands, &scalars);
}

/* d_y^T times what the windows see, tile after tile. */
static void backward_weight(bp_emit *emit, const bp_convolution *layer, bp_ref x, bp_ref d_y)
{
    const bp_image_window *w = &layer->window;
    const uint64_t tile = images_at_once(emit, layer);
    int64_t accumulate = 0;
    const bp_ref columns = sees_places(w) ? BP_ABSENT : make_columns(emit, layer, tile, "patches");
    const bp_ref d_weight = bp_emit_gradient(emit, layer->weight, &accumulate);
    for (uint64_t first = 0; first < emit->rows; first += tile) {
        const uint64_t images = emit->rows - first < tile ? emit->rows - first : tile;
        const bp_ref seen =
            see(emit, layer, images, bp_ref_at(x, first * window_image(w)), columns);
        const bp_matmul_scalars scalars = {.m = (int64_t)layer->out,
                                           .n = (int64_t)window_sees(w),
                                           .k = (int64_t)(images * window_rows(w)),
                                           .lda = (int64_t)layer->out,
                                           .ldb = (int64_t)window_sees(w),
                                           .ldc = (int64_t)window_sees(w),
                                           .transpose_a = 1,
                                           .accumulate = first > 0 ? 1 : accumulate};
        const bp_matmul_operands operands = {
            .c = d_weight,
            .before = BP_ABSENT,
            .a = bp_ref_at(d_y, first * window_rows(w) * layer->out),
            .b = seen,
            .bias = BP_ABSENT,
            .residual = BP_ABSENT,
            .work = BP_ABSENT};
        bp_emit_matmul(emit, &operands, &scalars);
    }
}

void bp_convolution_backward_parameters(bp_emit *emit, const bp_convolution *layer, bp_ref x,
                                        bp_ref d_y)
{
    if (layer->bias != BP_NO_PARAMETER && bp_emit_trainable(emit, layer->bias)) {
        backward_bias(emit, layer, d_y);
    }
    if (!bp_emit_trainable(emit, layer->weight)) {
        return;
    }
    if (layer->depthwise) {
        depthwise_backward_weight(emit, layer, x, d_y);
    } else {
        backward_weight(emit, layer, x, d_y);
    }
}

static void depthwise_backward_input(bp_emit *emit, const bp_convolution *layer, bp_ref d_y,
                                     bp_ref d_x)
{
    const bp_patches_scalars s = window_scalars(&layer->window, emit->rows);
    const bp_depthwise_backward_input_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left};
    const bp_depthwise_backward_input_operands operands = {
        .d_x = d_x, .d_y = d_y, .weight = bp_emit_acquire(emit, layer->weight, BP_FOR_BACKWARD)};
    bp_emit_depthwise_backward_input(emit, &operands, &scalars);
    bp_emit_release(emit, layer->weight);
}

void bp_convolution_backward_input(bp_emit *emit, const bp_convolution *layer, bp_ref d_y,
                                   bp_ref d_x)
{
    const bp_image_window *w = &layer->window;
    if (layer->depthwise) {
        depthwise_backward_input(emit, layer, d_y, d_x);
        return;
    }
    const uint64_t tile = images_at_once(emit, layer);
    const bp_ref columns =
        sees_places(w) ? BP_ABSENT : make_columns(emit, layer, tile, "d_patches");
    const bp_ref weight = bp_emit_acquire(emit, layer->weight, BP_FOR_BACKWARD);
    for (uint64_t first = 0; first < emit->rows; first += tile) {
        const uint64_t images = emit->rows - first < tile ? emit->rows - first : tile;
        const bp_ref to = bp_ref_at(d_x, first * window_image(w));
        const bp_matmul_scalars scalars = {.m = (int64_t)(images * window_rows(w)),
                                           .n = (int64_t)window_sees(w),
                                           .k = (int64_t)layer->out,
                                           .lda = (int64_t)layer->out,
                                           .ldb = (int64_t)window_sees(w),
                                           .ldc = (int64_t)window_sees(w)};
        const bp_matmul_operands operands = {
            .c = sees_places(w) ? to : columns,
            .before = BP_ABSENT,
            .a = bp_ref_at(d_y, first * window_rows(w) * layer->out),
            .b = weight,
            .bias = BP_ABSENT,
            .residual = BP_ABSENT,
            .work = BP_ABSENT};
        bp_emit_matmul(emit, &operands, &scalars);
        if (!sees_places(w)) {
            const bp_window_mean_scalars s = window_flagged(w, images, 0);
            const bp_patches_backward_scalars back = {
                s.batch,        s.height,    s.width,         s.channels,     s.pitch,
                s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
                s.stride_width, s.top,       s.left,          s.inside};
            const bp_patches_backward_operands given = {.d_x = to, .d_columns = columns};
            bp_emit_patches_backward(emit, &given, &back);
        }
    }
    bp_emit_release(emit, layer->weight);
}

void bp_pool_max_forward(bp_emit *emit, const bp_image_window *window, bp_ref x, bp_ref y,
                         bp_ref place)
{
    const bp_patches_scalars s = window_scalars(window, emit->rows);
    const bp_window_max_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left};
    const bp_window_max_operands operands = {.y = y, .place = place, .x = x};
    bp_emit_window_max(emit, &operands, &scalars);
}

void bp_pool_max_backward(bp_emit *emit, const bp_image_window *window, bp_ref place, bp_ref d_y,
                          bp_ref d_x)
{
    const bp_patches_scalars s = window_scalars(window, emit->rows);
    const bp_window_max_backward_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left};
    const bp_window_max_backward_operands operands = {.d_x = d_x, .d_y = d_y, .place = place};
    bp_emit_window_max_backward(emit, &operands, &scalars);
}

void bp_pool_mean_forward(bp_emit *emit, const bp_image_window *window, bp_ref x, bp_ref y)
{
    const bp_window_mean_scalars scalars = window_flagged(window, emit->rows, 1);
    const bp_window_mean_operands operands = {.y = y, .x = x};
    bp_emit_window_mean(emit, &operands, &scalars);
}

void bp_pool_mean_backward(bp_emit *emit, const bp_image_window *window, bp_ref d_y, bp_ref d_x)
{
    const bp_window_mean_scalars s = window_flagged(window, emit->rows, 1);
    const bp_window_mean_backward_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left,          s.inside};
    const bp_window_mean_backward_operands operands = {.d_x = d_x, .d_y = d_y};
    bp_emit_window_mean_backward(emit, &operands, &scalars);
}
