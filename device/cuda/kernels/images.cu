/* SPDX-License-Identifier: MIT */
/* Windows over images, and batch normalisation. A thread takes one element and adds in the host's
 * order; sums over rows are added up by groups of threads, in double, or over a block. */
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/parameters.h"
#include "device/cuda/kernels/reduce.cuh"

#define COLUMNS 8  /* of a block that sums over rows */
#define GROUPS  32 /* of rows */

BP_DEVICE uint64_t element_of(void)
{
    return (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
}

BP_DEVICE uint64_t places_of(const bp_window_parameters *w)
{
    return w->kernel_height * w->kernel_width;
}

/* A place of an image or of what windows give: its sample, row, column and channel. */
typedef struct place {
    uint64_t b;
    uint64_t y;
    uint64_t x;
    uint64_t c;
} place;

BP_DEVICE place place_of(uint64_t i, uint64_t height, uint64_t width, uint64_t channels)
{
    place at;
    at.c = i % channels;
    i /= channels;
    at.x = i % width;
    i /= width;
    at.y = i % height;
    at.b = i / height;
    return at;
}

/* What place t of window `at` sees of channel c; whether it lies inside. */
BP_DEVICE bool seen_by(const bp_window_parameters *w, place at, uint64_t t, const float *image,
                       const float **x)
{
    int64_t iy =
        (int64_t)(at.y * w->stride_height + t / w->kernel_width * w->dilation) - (int64_t)w->top;
    int64_t ix =
        (int64_t)(at.x * w->stride_width + t % w->kernel_width * w->dilation) - (int64_t)w->left;
    if (iy < 0 || iy >= (int64_t)w->height || ix < 0 || ix >= (int64_t)w->width) {
        return false;
    }
    *x = image + ((at.b * w->height + (uint64_t)iy) * w->width + (uint64_t)ix) * w->pitch + at.c;
    return true;
}

/* The window that sees a place of an image at its own place t, as the number of its first of
 * `each` elements; whether there is one. */
BP_DEVICE bool seeing(const bp_window_parameters *w, place at, uint64_t t, uint64_t each,
                      uint64_t *first)
{
    int64_t y = (int64_t)(at.y + w->top) - (int64_t)(t / w->kernel_width * w->dilation);
    int64_t x = (int64_t)(at.x + w->left) - (int64_t)(t % w->kernel_width * w->dilation);
    if (y < 0 || x < 0 || (uint64_t)y % w->stride_height != 0 ||
        (uint64_t)x % w->stride_width != 0) {
        return false;
    }
    uint64_t oy = (uint64_t)y / w->stride_height, ox = (uint64_t)x / w->stride_width;
    *first = ((at.b * w->out_height + oy) * w->out_width + ox) * each;
    return oy < w->out_height && ox < w->out_width;
}

BP_DEVICE uint64_t window_count(const bp_window_parameters *w)
{
    return w->batch * w->out_height * w->out_width * w->channels;
}

BP_DEVICE uint64_t image_count(const bp_window_parameters *w)
{
    return w->batch * w->height * w->width * w->channels;
}

BP_DEVICE place window_of(const bp_window_parameters *w, uint64_t i)
{
    return place_of(i, w->out_height, w->out_width, w->channels);
}

BP_DEVICE place image_of(const bp_window_parameters *w, uint64_t i)
{
    return place_of(i, w->height, w->width, w->channels);
}

/* An element of an image whose rows may be apart. */
BP_DEVICE uint64_t image_element(const bp_window_parameters *w, place at)
{
    return ((at.b * w->height + at.y) * w->width + at.x) * w->pitch + at.c;
}

BP_KERNEL bp_patches(float *columns, const float *x, bp_window_parameters w)
{
    uint64_t i = element_of(), places = places_of(&w);
    if (i >= window_count(&w) * places) {
        return;
    }
    const float *from;
    place at = window_of(&w, i / places);
    columns[i] = seen_by(&w, at, i % places, x, &from) ? *from : 0.0f;
}

BP_KERNEL bp_patches_backward(float *d_x, const float *d_columns, bp_window_parameters w,
                              uint32_t accumulate)
{
    uint64_t i = element_of(), places = places_of(&w), first;
    if (i >= image_count(&w)) {
        return;
    }
    place at = image_of(&w, i);
    uint64_t element = image_element(&w, at);
    float sum = accumulate != 0 ? d_x[element] : 0.0f;
#pragma unroll 1
    for (uint64_t t = 0; t < places; t++) {
        if (seeing(&w, at, t, w.channels * places, &first)) {
            sum += d_columns[first + at.c * places + t];
        }
    }
    d_x[element] = sum;
}

BP_KERNEL bp_depthwise(float *y, const float *x, const float *weight, const float *bias,
                       bp_window_parameters w)
{
    uint64_t i = element_of(), places = places_of(&w);
    if (i >= window_count(&w)) {
        return;
    }
    const float *from;
    place at = window_of(&w, i);
    float sum = bias != NULL ? bias[at.c] : 0.0f;
#pragma unroll 1
    for (uint64_t t = 0; t < places; t++) {
        if (seen_by(&w, at, t, x, &from)) {
            sum += *from * weight[at.c * places + t];
        }
    }
    y[i] = sum;
}

BP_KERNEL bp_depthwise_backward_input(float *d_x, const float *d_y, const float *weight,
                                      bp_window_parameters w)
{
    uint64_t i = element_of(), places = places_of(&w), first;
    if (i >= image_count(&w)) {
        return;
    }
    place at = image_of(&w, i);
    float sum = 0.0f;
#pragma unroll 1
    for (uint64_t t = 0; t < places; t++) {
        if (seeing(&w, at, t, w.channels, &first)) {
            sum += d_y[first + at.c] * weight[at.c * places + t];
        }
    }
    d_x[image_element(&w, at)] = sum;
}

/* A block has one weight. */
BP_KERNEL bp_depthwise_backward_weight(void *d_weight, const float *d_y, const float *x,
                                       bp_window_parameters w, uint32_t accumulate,
                                       uint32_t form_sum)
{
    uint64_t i = blockIdx.x, places = places_of(&w);
    if (i >= w.channels * places) {
        return;
    }
    const float *from;
    float sum = 0.0f;
    uint64_t windows = w.batch * w.out_height * w.out_width;
#pragma unroll 1
    for (uint64_t row = threadIdx.x; row < windows; row += BP_RUN_THREADS) {
        place at = window_of(&w, row * w.channels + i / places);
        if (seen_by(&w, at, i % places, x, &from)) {
            sum += d_y[row * w.channels + at.c] * *from;
        }
    }
    sum = bp_block_sum(sum);
    if (threadIdx.x == 0) {
        float before = accumulate != 0 ? bp_get(d_weight, i, form_sum) : 0.0f;
        bp_put(d_weight, i, form_sum, before + sum);
    }
}

BP_KERNEL bp_window_max(float *y, float *where, const float *x, bp_window_parameters w)
{
    uint64_t i = element_of();
    if (i >= window_count(&w)) {
        return;
    }
    const float *from;
    place at = window_of(&w, i);
    float most = -INFINITY, which = -1.0f;
#pragma unroll 1
    for (uint64_t t = 0; t < places_of(&w); t++) {
        if (seen_by(&w, at, t, x, &from)) {
            float v = *from;
            bool take = which < 0.0f || v > most || v != v;
            most = take ? v : most;
            which = take ? (float)t : which;
        }
    }
    y[i] = most;
    if (where != NULL) {
        where[i] = which;
    }
}

BP_KERNEL bp_window_max_backward(float *d_x, const float *d_y, const float *where,
                                 bp_window_parameters w)
{
    uint64_t i = element_of(), first;
    if (i >= image_count(&w)) {
        return;
    }
    place at = image_of(&w, i);
    float sum = 0.0f;
#pragma unroll 1
    for (uint64_t t = 0; t < places_of(&w); t++) {
        if (seeing(&w, at, t, w.channels, &first)) {
            sum += where[first + at.c] == (float)t ? d_y[first + at.c] : 0.0f;
        }
    }
    d_x[image_element(&w, at)] = sum;
}

/* How many of `kernel` places, `apart` from each other and the first of them `from`, are below
 * `size` and not negative. */
BP_DEVICE int64_t inside_of(int64_t from, int64_t kernel, int64_t size, int64_t apart)
{
    int64_t low = from < 0 ? (apart - 1 - from) / apart : 0;
    int64_t most = size > from ? (size - from + apart - 1) / apart : 0;
    int64_t high = most < kernel ? most : kernel;
    return high > low ? high - low : 0;
}

BP_DEVICE float divisor_of(const bp_window_parameters *w, uint64_t oy, uint64_t ox, uint32_t inside)
{
    int64_t count = (int64_t)places_of(w);
    if (inside != 0) {
        count = inside_of((int64_t)(oy * w->stride_height) - (int64_t)w->top,
                          (int64_t)w->kernel_height, (int64_t)w->height, (int64_t)w->dilation) *
                inside_of((int64_t)(ox * w->stride_width) - (int64_t)w->left,
                          (int64_t)w->kernel_width, (int64_t)w->width, (int64_t)w->dilation);
    }
    return count > 0 ? (float)count : 1.0f;
}

BP_KERNEL bp_window_mean(float *y, const float *x, bp_window_parameters w, uint32_t inside)
{
    uint64_t i = element_of();
    if (i >= window_count(&w)) {
        return;
    }
    const float *from;
    place at = window_of(&w, i);
    float sum = 0.0f;
#pragma unroll 1
    for (uint64_t t = 0; t < places_of(&w); t++) {
        if (seen_by(&w, at, t, x, &from)) {
            sum += *from;
        }
    }
    y[i] = sum / divisor_of(&w, at.y, at.x, inside);
}

BP_KERNEL bp_window_mean_backward(float *d_x, const float *d_y, bp_window_parameters w,
                                  uint32_t inside)
{
    uint64_t i = element_of(), first;
    if (i >= image_count(&w)) {
        return;
    }
    place at = image_of(&w, i);
    float sum = 0.0f;
#pragma unroll 1
    for (uint64_t t = 0; t < places_of(&w); t++) {
        if (seeing(&w, at, t, w.channels, &first)) {
            uint64_t window = first / w.channels;
            sum += d_y[first + at.c] / divisor_of(&w, window / w.out_width % w.out_height,
                                                  window % w.out_width, inside);
        }
    }
    d_x[image_element(&w, at)] = sum;
}

BP_DEVICE bool there(const int32_t *lengths, uint64_t b)
{
    return lengths == NULL || lengths[b] > 0;
}

/* Rows of the samples that are there. */
BP_DEVICE uint64_t rows_there(const int32_t *lengths, uint64_t batch, uint64_t sequence)
{
    uint64_t count = 0;
#pragma unroll 1
    for (uint64_t b = 0; b < batch; b++) {
        count += there(lengths, b) ? sequence : 0;
    }
    return count;
}

/* The sum over the groups of a block, of every column, in all its threads. */
BP_DEVICE double groups_sum(double sum, double part[GROUPS][COLUMNS])
{
    __syncthreads();
    part[threadIdx.y][threadIdx.x] = sum;
#pragma unroll 1
    for (uint32_t distance = GROUPS / 2; distance > 0; distance /= 2) {
        __syncthreads();
        if (threadIdx.y < distance) {
            part[threadIdx.y][threadIdx.x] += part[threadIdx.y + distance][threadIdx.x];
        }
    }
    __syncthreads();
    return part[0][threadIdx.x];
}

/* A block has 8 columns. */
BP_KERNEL bp_batchnorm_statistics(float *mean, float *variance, const float *x,
                                  const int32_t *lengths, uint64_t batch, uint64_t sequence,
                                  uint64_t width)
{
    __shared__ double part[GROUPS][COLUMNS];
    uint64_t column = (uint64_t)blockIdx.x * COLUMNS + threadIdx.x;
    if (width == 0) {
        return;
    }
    uint64_t count = rows_there(lengths, batch, sequence);
    uint64_t rows = column < width ? batch * sequence : 0;
    double of[2] = {0.0, 0.0};
#pragma unroll 1
    for (uint32_t turn = 0; turn < 2; turn++) {
        double sum = 0.0;
#pragma unroll 1
        for (uint64_t row = threadIdx.y; row < rows; row += GROUPS) {
            double d = (double)x[row * width + column] - of[0];
            double term = turn == 0 ? d : d * d;
            sum += there(lengths, row / sequence) ? term : 0.0;
        }
        sum = groups_sum(sum, part);
        of[1] = count > 0 ? sum / (double)count : 0.0;
        of[0] = turn == 0 ? of[1] : of[0];
    }
    if (threadIdx.y == 0 && column < width) {
        mean[column] = (float)of[0];
        variance[column] = (float)of[1];
    }
}

BP_DEVICE float rstd_of(float variance, float epsilon)
{
    return 1.0f / sqrtf(variance + epsilon);
}

BP_KERNEL bp_batchnorm_forward(float *y, const float *x, const float *mean, const float *variance,
                               const float *weight, const float *bias, uint64_t rows,
                               uint64_t width, float epsilon)
{
    uint64_t i = element_of();
    if (i >= rows * width) {
        return;
    }
    uint64_t c = i % width;
    float scale = rstd_of(variance[c], epsilon) * weight[c];
    y[i] = (x[i] - mean[c]) * scale + bias[c];
}

/* A block has 8 columns. */
BP_KERNEL bp_batchnorm_sums(float *d_weight, float *d_bias, const float *d_y, const float *x,
                            const float *mean, const float *variance, const int32_t *lengths,
                            uint64_t batch, uint64_t sequence, uint64_t width, float epsilon)
{
    __shared__ double part[GROUPS][COLUMNS];
    uint64_t column = (uint64_t)blockIdx.x * COLUMNS + threadIdx.x;
    if (width == 0) {
        return;
    }
    uint64_t rows = column < width ? batch * sequence : 0;
    float middle = column < width ? mean[column] : 0.0f;
    float rstd = column < width ? rstd_of(variance[column], epsilon) : 0.0f;
    double weights = 0.0, biases = 0.0;
#pragma unroll 1
    for (uint64_t row = threadIdx.y; row < rows; row += GROUPS) {
        float d = d_y[row * width + column];
        float normal = (x[row * width + column] - middle) * rstd;
        bool counts = there(lengths, row / sequence);
        weights += counts ? (double)d * (double)normal : 0.0;
        biases += counts ? (double)d : 0.0;
    }
    weights = groups_sum(weights, part);
    biases = groups_sum(biases, part);
    if (threadIdx.y == 0 && column < width) {
        d_weight[column] = (float)weights;
        d_bias[column] = (float)biases;
    }
}

BP_KERNEL bp_batchnorm_backward(float *d_x, const float *d_y, const float *x, const float *mean,
                                const float *variance, const float *weight, const float *d_weight,
                                const float *d_bias, const int32_t *lengths, uint64_t batch,
                                uint64_t sequence, uint64_t width, float epsilon, uint32_t frozen)
{
    uint64_t i = element_of();
    if (i >= batch * sequence * width) {
        return;
    }
    uint64_t c = i % width;
    float rstd = rstd_of(variance[c], epsilon), scale = rstd * weight[c];
    if (!there(lengths, i / width / sequence)) {
        d_x[i] = 0.0f;
    } else if (frozen != 0) {
        d_x[i] = scale * d_y[i];
    } else {
        float count = (float)rows_there(lengths, batch, sequence);
        float normal = (x[i] - mean[c]) * rstd;
        d_x[i] = scale * (d_y[i] - (d_bias[c] / count + normal * (d_weight[c] / count)));
    }
}

BP_KERNEL bp_batchnorm_running(float *running_mean, float *running_variance, int32_t *batches,
                               const float *mean, const float *variance, const int32_t *lengths,
                               uint64_t batch, uint64_t sequence, uint64_t width, float momentum)
{
    uint64_t i = element_of();
    if (i >= width) {
        return;
    }
    uint64_t rows = rows_there(lengths, batch, sequence);
    if (rows > 0) {
        float keep = 1.0f - momentum;
        float unbiased = rows > 1 ? (float)rows / (float)(rows - 1) : 1.0f;
        running_mean[i] = keep * running_mean[i] + momentum * mean[i];
        running_variance[i] = keep * running_variance[i] + momentum * (variance[i] * unbiased);
        if (i == 0 && *batches < INT32_MAX) {
            *batches += 1;
        }
    }
}
