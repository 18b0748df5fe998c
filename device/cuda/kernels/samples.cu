/* SPDX-License-Identifier: MIT */
/* One row of each sample, and the losses of whole samples: few, so that a thread has a sample. */
#include "device/cuda/kernels/double.cuh"
#include "device/cuda/kernels/element.cuh"

#define THREADS 128

/* bp_task of core/plan/spec.h. */
#define TASK_CLASSES 2u
#define TASK_LABELS  3u
#define TASK_RANKING 9u

/* How many of sample b's rows, its first, count. */
BP_DEVICE uint64_t rows_of(const int32_t *lengths, uint64_t b, uint64_t sequence, uint32_t mean)
{
    int64_t length = lengths != NULL ? lengths[b] : mean != 0 ? (int64_t)sequence : 1;
    length = length > (int64_t)sequence ? (int64_t)sequence : length;
    return length < 1 ? 1 : (uint64_t)length;
}

/* A block has a sample: y = the last of its rows of x that count, or the mean of them. */
BP_KERNEL bp_sample_row(void *y, const void *x, const int32_t *lengths, uint64_t batch,
                        uint64_t sequence, uint64_t width, uint32_t form, uint32_t mean)
{
    uint64_t b = blockIdx.x;
    if (b >= batch) {
        return;
    }
    uint64_t count = rows_of(lengths, b, sequence, mean), first = mean != 0 ? 0 : count - 1;
#pragma unroll 1
    for (uint64_t i = threadIdx.x; i < width; i += THREADS) {
        float sum = bp_get(x, (b * sequence + first) * width + i, form);
#pragma unroll 1
        for (uint64_t t = first + 1; t < count; t++) {
            sum += bp_get(x, (b * sequence + t) * width + i, form);
        }
        bp_put(y, b * width + i, form, sum / (float)(count - first));
    }
}

/* A block has a row of d_x. */
BP_KERNEL bp_sample_row_backward(void *d_x, const void *d_y, const int32_t *lengths, uint64_t batch,
                                 uint64_t sequence, uint64_t width, uint32_t form, uint32_t mean)
{
    uint64_t row = blockIdx.x;
    if (row >= batch * sequence) {
        return;
    }
    uint64_t b = row / sequence, t = row % sequence;
    uint64_t count = rows_of(lengths, b, sequence, mean), first = mean != 0 ? 0 : count - 1;
    bool picked = t >= first && t < count;
#pragma unroll 1
    for (uint64_t i = threadIdx.x; i < width; i += THREADS) {
        float d = picked ? bp_get(d_y, b * width + i, form) / (float)(count - first) : 0.0f;
        bp_put(d_x, row * width + i, form, d);
    }
}

/* What a sample's loss is made of. */
typedef struct sample {
    void *logits;
    uint64_t first;
    uint64_t classes;
    uint32_t label;
    const float *class_weights; /* NULL: all 1 */
    const float *targets;       /* of the sample's outputs; NULL: the label */
    double smoothing;
    float weight; /* of the gradient; 0: none */
    uint32_t form;
} sample;

/* Of a class's own target and of every class's share of it, times the class's weight. */
BP_DEVICE float class_weight(const sample *s, uint64_t i)
{
    return s->class_weights != NULL ? s->class_weights[i] : 1.0f;
}

/* Cross entropy; the logits become their gradient. */
BP_DEVICE float class_loss(const sample *s)
{
    float most = -INFINITY, sum = 0.0f, all = 0.0f, loss = 0.0f;
    float own = (float)(1.0 - s->smoothing) * class_weight(s, s->label);
    float share = (float)(s->smoothing / (double)s->classes);
    float target = bp_get(s->logits, s->first + s->label, s->form);
#pragma unroll 1
    for (uint64_t i = 0; i < s->classes; i++) {
        float x = bp_get(s->logits, s->first + i, s->form);
        most = x > most ? x : most;
        all += class_weight(s, i);
    }
#pragma unroll 1
    for (uint64_t i = 0; i < s->classes; i++) {
        sum += bp_expf_inline(bp_get(s->logits, s->first + i, s->form) - most);
    }
    float log_sum = most + bp_logf(sum), factor = own + share * all;
#pragma unroll 1
    for (uint64_t i = 0; i < s->classes; i++) {
        float x = bp_get(s->logits, s->first + i, s->form), weight = class_weight(s, i);
        float part = bp_expf_inline(x - most) / sum * factor - share * weight;
        loss += share > 0.0f ? weight * (log_sum - x) : 0.0f;
        if (s->weight != 0.0f) {
            part = i == s->label ? part - own : part;
            bp_put(s->logits, s->first + i, s->form, part * s->weight);
        }
    }
    return own * (log_sum - target) + share * loss;
}

/* Binary cross entropy, against the classes whose bits are set or a chance, or squared error: means
 * over classes. */
BP_DEVICE float mean_loss(const sample *s, bool bits, bool squares)
{
    float sum = 0.0f, number = (float)s->classes;
#pragma unroll 1
    for (uint64_t i = 0; i < s->classes; i++) {
        float x = bp_get(s->logits, s->first + i, s->form), gradient;
        float y = squares && s->targets != NULL ? s->targets[i] : bp_float_from_bits(s->label);
        if (bits) {
            y = i < 32 && (s->label >> i & 1) != 0 ? 1.0f : 0.0f;
        }
        if (!squares) {
            float e = bp_expf_inline(-fabsf(x));
            float chance = x >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e);
            sum += (x > 0.0f ? x : 0.0f) - x * y + bp_logf(1.0f + e);
            gradient = (chance - y) * (s->weight / number);
        } else {
            float off = x - y;
            sum += off * off;
            gradient = 2.0f * off * (s->weight / number);
        }
        if (s->weight != 0.0f) {
            bp_put(s->logits, s->first + i, s->form, gradient);
        }
    }
    return sum / number;
}

/* A block has a sample: its first thread the loss, all of them the zeros. */
BP_KERNEL bp_sample_loss(void *logits, float *losses, const int32_t *labels, const int32_t *lengths,
                         const float *class_weights, const float *targets,
                         const bp_step_block *step, const bp_control_block *control, uint64_t batch,
                         uint64_t sequence, uint64_t classes, uint32_t kind, uint32_t gradient,
                         uint32_t scaled, double smoothing, uint32_t form)
{
    uint64_t b = blockIdx.x;
    if (b >= batch) {
        return;
    }
    int32_t label = labels[b * sequence];
    bool there = (lengths == NULL || lengths[b] > 0) && (kind != TASK_CLASSES || label >= 0);
#pragma unroll 1
    for (uint64_t i = threadIdx.x + 1; i < sequence; i += THREADS) {
        losses[b * sequence + i] = 0.0f;
    }
#pragma unroll 1
    for (uint64_t i = threadIdx.x; !there && gradient != 0 && i < classes; i += THREADS) {
        bp_put(logits, b * classes + i, form, 0.0f);
    }
    if (threadIdx.x != 0) {
        return;
    }
    float weight = scaled != 0 ? step->inverse_valid * control->scale : step->inverse_valid;
    weight = gradient != 0 ? weight : 0.0f;
    const sample s = {
        logits,          b * classes,   classes,
        (uint32_t)label, class_weights, targets != NULL ? targets + b * classes : NULL,
        smoothing,       weight,        form};
    float loss = 0.0f;
    if (there) {
        loss = kind == TASK_CLASSES ? class_loss(&s)
                                    : mean_loss(&s, kind == TASK_LABELS,
                                                kind != TASK_LABELS && kind != TASK_RANKING);
    }
    losses[b * sequence] = loss;
}

/* bp_pooling of core/ops/storage_format.h. */
#define POOLING_CLS      1u
#define POOLING_LAST     2u
#define POOLING_SQRT     3u
#define POOLING_WEIGHTED 4u

/* The rows of a sample that count, as in device/host/rows/pool.c. */
typedef struct share {
    uint64_t first;
    uint64_t last;
    float divisor;
} share;

BP_DEVICE share share_of(uint32_t mode, const int32_t *lengths, uint64_t b, uint64_t sequence)
{
    int64_t length = lengths != NULL ? lengths[b] : (int64_t)sequence;
    length = length > (int64_t)sequence ? (int64_t)sequence : length;
    uint64_t n = (uint64_t)(length < 1 ? 1 : length);
    float count = (float)n;
    share s = {0, n, count};
    if (mode == POOLING_CLS || mode == POOLING_LAST) {
        s.first = mode == POOLING_LAST ? n - 1 : 0;
        s.last = s.first + 1;
        s.divisor = 1.0f;
    } else if (mode == POOLING_SQRT) {
        s.divisor = __fsqrt_rn(count);
    } else if (mode == POOLING_WEIGHTED) {
        s.divisor = count * (count + 1.0f) * 0.5f;
    }
    return s;
}

/* A block has a row of y where all are written, else a sample; a thread has columns. */
BP_KERNEL bp_pool_rows(float *y, const void *x, const int32_t *lengths, const bp_step_block *step,
                       uint64_t batch, uint64_t sequence, uint64_t width, uint64_t total,
                       uint32_t mode, uint32_t later, uint32_t form)
{
    uint64_t sample = step->sample, row = blockIdx.x + (later != 0 ? sample : 0);
    bool there = row >= sample && row - sample < batch;
    if (row >= total || (later != 0 && !there)) {
        return;
    }
    uint64_t b = there ? row - sample : 0;
    share s = share_of(mode, lengths, b, sequence);
#pragma unroll 1
    for (uint64_t i = threadIdx.x; i < width; i += THREADS) {
        float sum = 0.0f;
#pragma unroll 1
        for (uint64_t t = s.first; there && t < s.last; t++) {
            float weight = mode == POOLING_WEIGHTED ? (float)(t + 1) : 1.0f;
            sum += bp_get(x, (b * sequence + t) * width + i, form) * weight;
        }
        y[row * width + i] = there ? sum / s.divisor : 0.0f;
    }
}

/* A block has a row of d_x. */
BP_KERNEL bp_pool_rows_backward(void *d_x, const float *d_y, const int32_t *lengths,
                                const bp_step_block *step, uint64_t batch, uint64_t sequence,
                                uint64_t width, uint64_t total, uint32_t mode, uint32_t form)
{
    uint64_t row = blockIdx.x, b = row / sequence, t = row % sequence;
    uint64_t place = b + step->sample;
    if (b >= batch) {
        return;
    }
    share s = share_of(mode, lengths, b, sequence);
    bool counts = t >= s.first && t < s.last && place < total;
    float weight = mode == POOLING_WEIGHTED ? (float)(t + 1) : 1.0f;
#pragma unroll 1
    for (uint64_t i = threadIdx.x; i < width; i += THREADS) {
        float d = counts ? d_y[place * width + i] * weight / s.divisor : 0.0f;
        bp_put(d_x, row * width + i, form, d);
    }
}

/* Vectors of length 1, as in device/host/rows/contrast.c. A thread has a sample: squares are added
 * up in order. */
#define UNIT_LEAST 1e-12

BP_KERNEL bp_unit_rows(float *y, float *norms, const float *x, const bp_step_block *step,
                       uint64_t pairs, uint64_t texts, uint64_t width)
{
    uint64_t r = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (r >= pairs * texts) {
        return;
    }
    uint64_t row = r % texts * pairs + r / texts;
    bool there = r < step->samples;
    double square = 0.0;
#pragma unroll 1
    for (uint64_t i = 0; there && i < width; i++) {
        double v = x[r * width + i];
        square += v * v;
    }
    double root = sqrt(square);
    float norm = !there ? 1.0f : (float)(root > UNIT_LEAST ? root : UNIT_LEAST);
    norms[row] = norm;
#pragma unroll 1
    for (uint64_t i = 0; i < width; i++) {
        y[row * width + i] = there ? x[r * width + i] / norm : 0.0f;
    }
}

BP_KERNEL bp_unit_rows_backward(float *d_x, const float *d_y, const float *y, const float *norms,
                                const bp_step_block *step, uint64_t pairs, uint64_t texts,
                                uint64_t width)
{
    uint64_t r = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (r >= pairs * texts) {
        return;
    }
    uint64_t row = r % texts * pairs + r / texts;
    bool there = r < step->samples;
    float norm = norms[row];
    double along = 0.0;
#pragma unroll 1
    for (uint64_t i = 0; there && i < width; i++) {
        along += (double)y[row * width + i] * (double)d_y[row * width + i];
    }
#pragma unroll 1
    for (uint64_t i = 0; i < width; i++) {
        float d = (d_y[row * width + i] - y[row * width + i] * (float)along) / norm;
        d_x[r * width + i] = there ? d : 0.0f;
    }
}

/* A thread has an anchor. */
BP_KERNEL bp_contrast_loss(float *scores, float *losses, const bp_step_block *step,
                           const bp_control_block *control, uint64_t rows, uint64_t first,
                           uint64_t pairs, uint64_t kinds, uint32_t scaled, float scale)
{
    uint64_t r = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (r >= rows) {
        return;
    }
    uint64_t own = first + r, all = pairs * kinds, present = step->samples / (kinds + 1);
    float *x = scores + r * all;
    float weight = scaled != 0 ? step->inverse_valid * control->scale : step->inverse_valid;
    float most = -INFINITY;
    double sum = 0.0;
    bool there = own < present;
#pragma unroll 1
    for (uint64_t c = 0; there && c < all; c++) {
        float value = x[c] * scale;
        most = c % pairs < present && value > most ? value : most;
    }
    float target = x[own] * scale;
#pragma unroll 1
    for (uint64_t c = 0; c < all; c++) {
        float part = 0.0f;
        if (there && c % pairs < present) {
            part = bp_expf_inline(x[c] * scale - most);
        }
        x[c] = part;
        sum += (double)part;
    }
    double inverse = there ? 1.0 / sum : 0.0;
#pragma unroll 1
    for (uint64_t c = 0; there && c < all; c++) {
        double part = c == own ? (double)x[c] - sum : (double)x[c];
        x[c] = (float)(part * inverse) * scale * weight;
    }
    losses[r] = there ? (float)((double)most - (double)target + bp_log(sum)) : 0.0f;
}
