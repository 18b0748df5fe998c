/* SPDX-License-Identifier: MIT */
/* Convolutions as ops. */
#include "layers/images/image.h"

#include "layers/nodes/adapter.h"
#include "layers/images/image_scalars.h"

bp_image_window bp_image_window_over(const uint64_t image[3], const uint8_t kernel[2],
                                     const uint8_t stride[2], uint32_t padding, uint32_t dilation)
{
    uint64_t out[2];
    bp_image_window w = {.height = image[0],
                         .width = image[1],
                         .channels = image[2],
                         .dilation = dilation != 0 ? dilation : 1};
    for (int i = 0; i < 2; i++) {
        w.kernel[i] = kernel[i] != 0 ? kernel[i] : (uint32_t)image[i];
        w.stride[i] = stride[i] != 0 ? stride[i] : 1;
        const uint64_t span = ((uint64_t)w.kernel[i] - 1) * w.dilation + 1;
        uint64_t both = 0;
        if (padding == BP_PADDING_SAME) {
            out[i] = (image[i] + w.stride[i] - 1) / w.stride[i];
            const uint64_t need = (out[i] - 1) * w.stride[i] + span;
            both = out[i] > 0 && need > image[i] ? need - image[i] : 0;
            w.before[i] = (uint32_t)(both / 2);
        } else {
            w.before[i] = padding == BP_PADDING_HALF ? w.kernel[i] / 2 * w.dilation : padding;
            both = image[i] + 2 * (uint64_t)w.before[i];
            out[i] = both >= span ? (both - span) / w.stride[i] + 1 : 0;
        }
    }
    w.out_height = out[0];
    w.out_width = out[1];
    return w;
}

bp_ref bp_image_pixels(bp_builder *builder, uint64_t channels, uint64_t first, uint64_t count)
{
    const bp_pixel_bytes *pixels = &builder->spec->pixels;
    const bp_pixels_scalars scalars = {(int64_t)count,  (int64_t)first,  (int64_t)channels,
                                       pixels->factor,  pixels->mean[0], pixels->mean[1],
                                       pixels->mean[2], pixels->mean[3], pixels->std[0],
                                       pixels->std[1],  pixels->std[2],  pixels->std[3]};
    const bp_pixels_operands operands = {.y = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32,
                                                              count / channels, channels, "pixels"),
                                         .x = builder->input[BP_INPUT_IDS]};
    bp_build_pixels(builder, &operands, &scalars);
    return operands.y;
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

bool bp_image_keeps_little(const bp_builder *builder)
{
    const bp_policy_kind kind = builder->spec->policy.kind;
    const bp_spec *spec = builder->spec; /* sums go on over tiles only there */
    return (kind == BP_POLICY_MEMORY_POOR || kind == BP_POLICY_FULL) && spec->gradient == BP_F32 &&
           spec->device->sums_by_row;
}

/* Bytes of what the windows of some images see that are written down at a time where little is
 * kept, at least a line of windows: where they see more than the images or what is made of them
 * have, a quarter of that. */
static uint64_t bytes_of_little(const bp_image_window *w, uint64_t out, uint64_t images)
{
    const uint64_t made = bp_size_mul(window_rows(w), out);
    const uint64_t image = made > window_image(w) ? made : window_image(w);
    const uint64_t quarter = bp_size_mul(images, image) / 4 * sizeof(float);
    const bool more = bp_size_mul(window_rows(w), window_sees(w)) > image;
    return more && quarter < BP_PATCHES_BYTES ? quarter : BP_PATCHES_BYTES;
}

static uint64_t bytes_at_once(const bp_builder *builder, const bp_convolution *layer)
{
    return bp_image_keeps_little(builder)
               ? bytes_of_little(&layer->window, layer->out, builder->rows)
               : BP_PATCHES_BYTES;
}

uint64_t bp_image_written(const bp_image_window *w, uint64_t out)
{
    const uint64_t line = bp_size_mul(w->out_width, window_sees(w));
    const uint64_t lines = bytes_of_little(w, out, 1) / sizeof(float) / (line > 0 ? line : 1);
    const uint64_t some = lines == 0 ? 1 : lines < w->out_height ? lines : w->out_height;
    return sees_places(w) ? 0 : bp_size_mul(some, line);
}

/* Images whose windows are written down at a time. */
static uint64_t images_at_once(const bp_builder *builder, const bp_convolution *layer)
{
    const bp_image_window *w = &layer->window;
    if (sees_places(w)) {
        return builder->rows;
    }
    const uint64_t bytes = bp_size_mul(bp_size_mul(window_rows(w), window_sees(w)), sizeof(float));
    const uint64_t images = bytes > 0 ? bytes_at_once(builder, layer) / bytes : builder->rows;
    return images == 0 ? 1 : images < builder->rows ? images : builder->rows;
}

/* Lines of an image's windows that are written down at a time: all, or of one image some. */
static uint64_t lines_at_once(const bp_builder *builder, const bp_convolution *layer)
{
    const bp_image_window *w = &layer->window;
    const uint64_t bytes = bp_size_mul(w->out_width * window_sees(w), sizeof(float));
    if (sees_places(w) || !bp_image_keeps_little(builder) || bytes == 0) {
        return w->out_height;
    }
    const uint64_t lines = bytes_at_once(builder, layer) / bytes;
    return lines == 0 ? 1 : lines < w->out_height ? lines : w->out_height;
}

/* What windows see of some images, or its gradient: a buffer, or the images themselves. */
static bp_ref make_columns(bp_builder *builder, const bp_convolution *layer, uint64_t windows,
                           const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), windows,
                           window_sees(&layer->window), name);
}

/* Images `first` to `first + images - 1`, or of one image the lines of windows from `line` on:
 * those whose windows are written down at a time. */
typedef struct image_tile {
    uint64_t first, images;
    uint64_t line, lines;
    bp_ref seen;
} image_tile;

static uint64_t tile_windows(const bp_convolution *layer, const image_tile *tile)
{
    return tile->images * tile->lines * layer->window.out_width;
}

/* Where its windows begin in something that has `width` elements for each. */
static bp_ref from_tile(const bp_convolution *layer, bp_ref all, const image_tile *tile,
                        uint64_t width)
{
    const bp_image_window *w = &layer->window;
    return bp_ref_at(all, (tile->first * w->out_height + tile->line) * w->out_width * width);
}

static bp_ref see(bp_builder *builder, const bp_convolution *layer, const image_tile *tile,
                  bp_ref x, bp_ref columns)
{
    const bp_image_window *w = &layer->window;
    const uint64_t from = tile->line * w->stride[0], above = w->before[0];
    const uint64_t skipped = from > above ? from - above : 0; /* lines of the image */
    const bp_ref images = bp_ref_at(x, tile->first * window_image(w));
    if (sees_places(w)) {
        return images;
    }
    bp_patches_scalars scalars = window_scalars(w, tile->images);
    scalars.height -= (int64_t)skipped;
    scalars.top = from > above ? 0 : (int64_t)(above - from);
    scalars.out_height = (int64_t)tile->lines;
    const bp_patches_operands operands = {.columns = columns,
                                          .x = bp_ref_at(images, skipped * w->width * w->channels)};
    bp_build_patches(builder, &operands, &scalars);
    return columns;
}

static void depthwise_forward(bp_builder *builder, const bp_convolution *layer, bp_ref x, bp_ref y)
{
    const bp_patches_scalars s = window_scalars(&layer->window, builder->rows);
    const bp_depthwise_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left,          s.dilation};
    const bp_depthwise_operands operands = {
        .y = y,
        .x = x,
        .weight = bp_build_acquire(builder, layer->weight, BP_FOR_FORWARD),
        .bias = bp_build_acquire(builder, layer->bias, BP_FOR_FORWARD)};
    bp_build_depthwise(builder, &operands, &scalars);
    bp_build_release(builder, layer->bias);
    bp_build_release(builder, layer->weight);
}

/* ---- Adapters ----
 *
 * A sees what the windows see, B is a convolution of 1 x 1: the adapter of a dense layer whose rows
 * are all windows. What has r columns is made of all images at once; what windows see is written
 * down once for the layer and its adapter, unless dropout takes elements of what A reads. */

static bp_adapted adapted(const bp_convolution *layer)
{
    return (bp_adapted){.weight = layer->weight,
                        .in = window_sees(&layer->window),
                        .out = layer->out,
                        .pitch = layer->out};
}

/* Whole images, as dropout sees them. */
static bp_adapted adapted_images(const bp_convolution *layer)
{
    return (bp_adapted){.weight = layer->weight, .in = window_image(&layer->window)};
}

static bool has_adapter(const bp_builder *builder, const bp_convolution *layer)
{
    return bp_adapter_there(builder, layer->weight);
}

static bool adapter_drops(const bp_builder *builder, const bp_convolution *layer)
{
    const bp_adapted at = adapted_images(layer);
    return has_adapter(builder, layer) && bp_adapter_drops(builder, &at);
}

/* Lets builder->rows be the windows of so many images, and returns what it was. */
static uint64_t rows_begin(bp_builder *builder, const bp_convolution *layer, uint64_t images)
{
    const uint64_t before = builder->rows;
    builder->rows = images * window_rows(&layer->window);
    return before;
}

/* (windows of all images, r); absent without an adapter. */
static bp_ref adapter_narrow(bp_builder *builder, const bp_convolution *layer)
{
    const bp_adapted at = adapted(layer);
    if (!has_adapter(builder, layer)) {
        return BP_ABSENT;
    }
    const uint64_t before = rows_begin(builder, layer, builder->rows);
    const bp_ref u = bp_adapter_narrow(builder, &at, "lora_u");
    builder->rows = before;
    return u;
}

/* Row `first` times the windows of an image on, of something that has `width` columns. */
static bp_ref from_image(const bp_convolution *layer, bp_ref all, uint64_t first, uint64_t width)
{
    return bp_ref_at(all, first * window_rows(&layer->window) * width);
}

static uint64_t adapter_rank(const bp_builder *builder, const bp_convolution *layer)
{
    const uint32_t a =
        builder->status == BP_OK ? builder->parameters[layer->weight].adapter : BP_NO_PARAMETER;
    return a != BP_NO_PARAMETER ? builder->parameters[a].shape[0] : 0;
}

/* The next of an x; false: there is none. columns: see tile_columns. */
static bool next_tile(bp_builder *builder, const bp_convolution *layer, bp_ref x, bp_ref columns,
                      image_tile *tile)
{
    const uint64_t most = images_at_once(builder, layer), all = layer->window.out_height;
    const uint64_t lines = lines_at_once(builder, layer);
    tile->line += tile->lines;
    if (tile->line >= all) {
        tile->line = 0;
        tile->first += tile->images;
    }
    if (tile->first >= builder->rows) {
        return false;
    }
    const uint64_t images = builder->rows - tile->first;
    tile->images = images < most ? images : most;
    tile->lines = all - tile->line < lines ? all - tile->line : lines;
    tile->seen = see(builder, layer, tile, x, columns);
    return true;
}

static bp_ref tile_columns(bp_builder *builder, const bp_convolution *layer, const char *name)
{
    const uint64_t windows =
        images_at_once(builder, layer) * lines_at_once(builder, layer) * layer->window.out_width;
    return sees_places(&layer->window) ? BP_ABSENT : make_columns(builder, layer, windows, name);
}

/* The same for whole images. */
static bp_ref image_columns(bp_builder *builder, const bp_convolution *layer, const char *name)
{
    const uint64_t windows = images_at_once(builder, layer) * window_rows(&layer->window);
    return sees_places(&layer->window) ? BP_ABSENT : make_columns(builder, layer, windows, name);
}

/* The rows of u of a tile = what its windows see A^T. */
static void adapter_project(bp_builder *builder, const bp_convolution *layer,
                            const image_tile *tile, bp_ref u)
{
    const bp_adapted at = adapted(layer);
    const uint64_t before = builder->rows;
    builder->rows = tile_windows(layer, tile);
    bp_adapter_project(builder, &at, tile->seen,
                       from_tile(layer, u, tile, adapter_rank(builder, layer)));
    builder->rows = before;
}

/* What A's windows see: x, or where dropout takes elements a copy without them. A sample is one row
 * here, an image. */
static bp_ref adapter_dropped(bp_builder *builder, const bp_convolution *layer, bp_ref x)
{
    const bp_adapted images = adapted_images(layer);
    const bp_spec *whole = builder->spec;
    bp_spec one = *whole;
    one.sequence = 1;
    builder->spec = &one;
    const bp_ref dropped = bp_adapter_dropped(builder, &images, x);
    builder->spec = whole;
    return dropped;
}

/* d_x += mask(d) */
static void adapter_undropped(bp_builder *builder, const bp_convolution *layer, bp_ref d,
                              bp_ref d_x)
{
    const bp_adapted images = adapted_images(layer);
    const bp_spec *whole = builder->spec;
    bp_spec one = *whole;
    one.sequence = 1;
    builder->spec = &one;
    bp_adapter_undropped(builder, &images, d, d_x, d_x);
    builder->spec = whole;
}

/* y += s u B^T, where u = x A^T, of which dropout leaves elements out here if it does. */
static void adapter_forward(bp_builder *builder, const bp_convolution *layer, bp_ref x, bp_ref u,
                            bp_ref y)
{
    const bp_adapted at = adapted(layer);
    if (!has_adapter(builder, layer)) {
        return;
    }
    if (adapter_drops(builder, layer)) {
        const bp_ref read = adapter_dropped(builder, layer, x);
        const bp_ref columns = tile_columns(builder, layer, "lora_patches");
        image_tile tile = {0, 0, 0, 0, BP_ABSENT};
        while (next_tile(builder, layer, read, columns, &tile)) {
            adapter_project(builder, layer, &tile, u);
        }
    }
    const uint64_t before = rows_begin(builder, layer, builder->rows);
    bp_adapter_apply_scale(builder, &at, u);
    bp_adapter_spread(builder, &at, u, y, true);
    builder->rows = before;
}

/* s d_y B, of all images. */
static bp_ref adapter_gradient(bp_builder *builder, const bp_convolution *layer, bp_ref d_y)
{
    const bp_adapted at = adapted(layer);
    const uint64_t before = rows_begin(builder, layer, builder->rows);
    const bp_ref d_u = bp_adapter_project_gradient(builder, &at, d_y);
    builder->rows = before;
    return d_u;
}

static void adapter_backward_a(bp_builder *builder, const bp_convolution *layer,
                               const image_tile *tile, bp_ref d_u, bp_ref d_a, int64_t accumulate)
{
    const bp_adapted at = adapted(layer);
    const uint64_t before = builder->rows;
    const bool more = tile->first > 0 || tile->line > 0;
    builder->rows = tile_windows(layer, tile);
    bp_adapter_outer_a(builder, &at, from_tile(layer, d_u, tile, adapter_rank(builder, layer)),
                       tile->seen, d_a, more ? 1 : accumulate);
    builder->rows = before;
}

static void adapter_backward_parameters(bp_builder *builder, const bp_convolution *layer, bp_ref x,
                                        bp_ref d_y)
{
    const bp_adapted at = adapted(layer);
    const uint32_t a = builder->parameters[layer->weight].adapter;
    const bool trains_a = bp_build_trainable(builder, a),
               trains_b = bp_build_trainable(builder, a + 1);
    int64_t accumulate = 0;
    if (!trains_a && !trains_b) {
        return;
    }
    const bp_ref read = adapter_dropped(builder, layer, x);
    const bp_ref columns = tile_columns(builder, layer, "lora_patches");
    const bp_ref u = trains_b ? adapter_narrow(builder, layer) : BP_ABSENT;
    const bp_ref d_u = trains_a ? adapter_gradient(builder, layer, d_y) : BP_ABSENT;
    const bp_ref d_a = trains_a ? bp_build_gradient(builder, a, &accumulate) : BP_ABSENT;
    image_tile tile = {0, 0, 0, 0, BP_ABSENT};
    while (next_tile(builder, layer, read, columns, &tile)) {
        if (trains_b) {
            adapter_project(builder, layer, &tile, u);
        }
        if (trains_a) {
            adapter_backward_a(builder, layer, &tile, d_u, d_a, accumulate);
        }
    }
    if (trains_b) {
        const uint64_t before = rows_begin(builder, layer, builder->rows);
        bp_adapter_apply_scale(builder, &at, u);
        bp_adapter_backward_b(builder, &at, d_y, u);
        builder->rows = before;
    }
}

/* d_columns (windows of some images, what they see) = d_u A, or is added to. */
static void adapter_widen(bp_builder *builder, const bp_convolution *layer, uint64_t first,
                          uint64_t images, bp_ref d_u, bp_ref d_columns, bool add)
{
    const bp_adapted at = adapted(layer);
    const uint64_t before = rows_begin(builder, layer, images);
    bp_adapter_widen(builder, &at, from_image(layer, d_u, first, adapter_rank(builder, layer)),
                     d_columns, add);
    builder->rows = before;
}

/* ---- Convolutions ---- */

void bp_convolution_forward(bp_builder *builder, const bp_convolution *layer, bp_ref x, bp_ref y)
{
    const bp_image_window *w = &layer->window;
    const bool drops = adapter_drops(builder, layer);
    if (layer->depthwise) {
        depthwise_forward(builder, layer, x, y);
        return;
    }
    const bp_ref u = adapter_narrow(builder, layer);
    const bp_ref columns = tile_columns(builder, layer, "patches");
    const bp_ref weight = bp_build_acquire(builder, layer->weight, BP_FOR_FORWARD);
    const bp_ref bias = bp_build_acquire(builder, layer->bias, BP_FOR_FORWARD);
    image_tile tile = {0, 0, 0, 0, BP_ABSENT};
    while (next_tile(builder, layer, x, columns, &tile)) {
        const bp_matmul_scalars scalars = {.m = (int64_t)tile_windows(layer, &tile),
                                           .n = (int64_t)layer->out,
                                           .k = (int64_t)window_sees(w),
                                           .lda = (int64_t)window_sees(w),
                                           .ldb = (int64_t)window_sees(w),
                                           .ldc = (int64_t)layer->out,
                                           .transpose_b = 1};
        const bp_matmul_operands operands = {.c = from_tile(layer, y, &tile, layer->out),
                                             .before = BP_ABSENT,
                                             .a = tile.seen,
                                             .b = weight,
                                             .bias = bias,
                                             .residual = BP_ABSENT,
                                             .work = BP_ABSENT};
        bp_build_matmul(builder, &operands, &scalars);
        if (bp_ref_present(u) && !drops) {
            adapter_project(builder, layer, &tile, u);
        }
    }
    bp_build_release(builder, layer->bias);
    bp_build_release(builder, layer->weight);
    adapter_forward(builder, layer, x, u, y);
}

bool bp_convolution_trains_reading(const bp_builder *builder, const bp_convolution *layer)
{
    return bp_build_trainable(builder, layer->weight) ||
           (has_adapter(builder, layer) && bp_adapter_trains(builder, layer->weight));
}

bool bp_convolution_trains(const bp_builder *builder, const bp_convolution *layer)
{
    return bp_convolution_trains_reading(builder, layer) ||
           (layer->bias != BP_NO_PARAMETER && bp_build_trainable(builder, layer->bias));
}

static void backward_bias(bp_builder *builder, const bp_convolution *layer, bp_ref d_y)
{
    bp_bias_backward_scalars scalars = {.rows =
                                            (int64_t)(builder->rows * window_rows(&layer->window)),
                                        .n = (int64_t)layer->out,
                                        .pitch = (int64_t)layer->out};
    const bp_bias_backward_operands operands = {
        .d_bias = bp_build_gradient(builder, layer->bias, &scalars.accumulate), .d_y = d_y};
    bp_build_bias_backward(builder, &operands, &scalars);
}

static void depthwise_backward_weight(bp_builder *builder, const bp_convolution *layer, bp_ref x,
                                      bp_ref d_y)
{
    int64_t accumulate = 0;
    const bp_ref d_weight = bp_build_gradient(builder, layer->weight, &accumulate);
    const bp_window_mean_scalars s = window_flagged(&layer->window, builder->rows, accumulate);
    const bp_depthwise_backward_weight_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left,          s.dilation,     s.inside};
    const bp_depthwise_backward_weight_operands operands = {
        .d_weight = d_weight, .d_y = d_y, .x = x};
    bp_build_depthwise_backward_weight(builder, &operands, &scalars);
}

/* d_y^T times what the windows see, tile after tile. */
static void backward_weight(bp_builder *builder, const bp_convolution *layer, bp_ref x, bp_ref d_y)
{
    const bp_image_window *w = &layer->window;
    int64_t accumulate = 0;
    const bp_ref columns = tile_columns(builder, layer, "patches");
    bp_share rows;
    const bp_ref d_weight = bp_build_gradient_rows(builder, layer->weight, &rows, &accumulate);
    image_tile tile = {0, 0, 0, 0, BP_ABSENT};
    while (next_tile(builder, layer, x, columns, &tile)) {
        const bp_matmul_scalars scalars = {.m = (int64_t)rows.count,
                                           .n = (int64_t)window_sees(w),
                                           .k = (int64_t)tile_windows(layer, &tile),
                                           .lda = (int64_t)layer->out,
                                           .ldb = (int64_t)window_sees(w),
                                           .ldc = (int64_t)window_sees(w),
                                           .transpose_a = 1,
                                           .accumulate =
                                               tile.first > 0 || tile.line > 0 ? 1 : accumulate};
        const bp_matmul_operands operands = {
            .c = d_weight,
            .before = BP_ABSENT,
            .a = bp_ref_at(from_tile(layer, d_y, &tile, layer->out), rows.first),
            .b = tile.seen,
            .bias = BP_ABSENT,
            .residual = BP_ABSENT,
            .work = BP_ABSENT};
        bp_build_matmul(builder, &operands, &scalars);
    }
}

void bp_convolution_backward_parameters(bp_builder *builder, const bp_convolution *layer, bp_ref x,
                                        bp_ref d_y)
{
    if (layer->bias != BP_NO_PARAMETER && bp_build_trainable(builder, layer->bias)) {
        backward_bias(builder, layer, d_y);
    }
    if (has_adapter(builder, layer)) {
        adapter_backward_parameters(builder, layer, x, d_y);
    }
    if (!bp_build_trainable(builder, layer->weight)) {
        return;
    }
    if (layer->depthwise) {
        depthwise_backward_weight(builder, layer, x, d_y);
    } else {
        backward_weight(builder, layer, x, d_y);
    }
}

static void depthwise_backward_input(bp_builder *builder, const bp_convolution *layer, bp_ref d_y,
                                     bp_ref d_x)
{
    const bp_patches_scalars s = window_scalars(&layer->window, builder->rows);
    const bp_depthwise_backward_input_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left,          s.dilation};
    const bp_depthwise_backward_input_operands operands = {
        .d_x = d_x,
        .d_y = d_y,
        .weight = bp_build_acquire(builder, layer->weight, BP_FOR_BACKWARD)};
    bp_build_depthwise_backward_input(builder, &operands, &scalars);
    bp_build_release(builder, layer->weight);
}

/* The gradients of some images, of those of what their windows see: the same where windows see the
 * images as they are. */
static void unsee(bp_builder *builder, const bp_convolution *layer, uint64_t images, bp_ref columns,
                  bp_ref d_x)
{
    if (sees_places(&layer->window)) {
        return;
    }
    const bp_window_mean_scalars s = window_flagged(&layer->window, images, 0);
    const bp_patches_backward_scalars scalars = {
        s.batch,        s.height,    s.width,         s.channels,     s.pitch,
        s.out_height,   s.out_width, s.kernel_height, s.kernel_width, s.stride_height,
        s.stride_width, s.top,       s.left,          s.dilation,     s.inside};
    const bp_patches_backward_operands operands = {.d_x = d_x, .d_columns = columns};
    bp_build_patches_backward(builder, &operands, &scalars);
}

/* d_x += mask of what comes of d_u A: what dropout took has no gradient. */
static void adapter_backward_dropped(bp_builder *builder, const bp_convolution *layer, bp_ref d_u,
                                     bp_ref d_x)
{
    const bp_image_window *w = &layer->window;
    const uint64_t most = images_at_once(builder, layer);
    const bp_ref columns = image_columns(builder, layer, "lora_d_patches");
    const bp_ref d = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                     builder->rows, window_image(w), "lora_d_dropped");
    for (uint64_t first = 0; first < builder->rows; first += most) {
        const uint64_t images = builder->rows - first < most ? builder->rows - first : most;
        const bp_ref to = bp_ref_at(d, first * window_image(w));
        const bp_ref made = sees_places(w) ? to : columns;
        adapter_widen(builder, layer, first, images, d_u, made, false);
        unsee(builder, layer, images, made, to);
    }
    adapter_undropped(builder, layer, d, d_x);
}

void bp_convolution_backward_input(bp_builder *builder, const bp_convolution *layer, bp_ref d_y,
                                   bp_ref d_x)
{
    const bp_image_window *w = &layer->window;
    if (layer->depthwise) {
        depthwise_backward_input(builder, layer, d_y, d_x);
        return;
    }
    const bool adapter = has_adapter(builder, layer), drops = adapter_drops(builder, layer);
    const uint64_t most = images_at_once(builder, layer);
    const bp_ref columns = image_columns(builder, layer, "d_patches");
    const bp_ref d_u = adapter ? adapter_gradient(builder, layer, d_y) : BP_ABSENT;
    const bp_ref weight = bp_build_acquire(builder, layer->weight, BP_FOR_BACKWARD);
    for (uint64_t first = 0; first < builder->rows; first += most) {
        const uint64_t images = builder->rows - first < most ? builder->rows - first : most;
        const bp_ref to = bp_ref_at(d_x, first * window_image(w));
        const bp_ref made = sees_places(w) ? to : columns;
        const bp_matmul_scalars scalars = {.m = (int64_t)(images * window_rows(w)),
                                           .n = (int64_t)window_sees(w),
                                           .k = (int64_t)layer->out,
                                           .lda = (int64_t)layer->out,
                                           .ldb = (int64_t)window_sees(w),
                                           .ldc = (int64_t)window_sees(w)};
        const bp_matmul_operands operands = {.c = made,
                                             .before = BP_ABSENT,
                                             .a = from_image(layer, d_y, first, layer->out),
                                             .b = weight,
                                             .bias = BP_ABSENT,
                                             .residual = BP_ABSENT,
                                             .work = BP_ABSENT};
        bp_build_matmul(builder, &operands, &scalars);
        if (adapter && !drops) {
            adapter_widen(builder, layer, first, images, d_u, made, true);
        }
        unsee(builder, layer, images, made, to);
    }
    bp_build_release(builder, layer->weight);
    if (drops) {
        adapter_backward_dropped(builder, layer, d_u, d_x);
    }
}
