/* SPDX-License-Identifier: MIT */
/* One row of each sample or the mean of them, and the losses of whole samples. They are few: plain
 * form only. */
#include <string.h>

#include "core/base/math.h"
#include "core/plan/spec.h"
#include "core/ir/step.h"
#include "device/host/vector/element.h"

/* Rows of a sample. */
typedef struct sample_rows {
    uint64_t first;
    uint64_t count;
} sample_rows;

/* The rows of sample b that stand for it. */
static sample_rows samples_rows_of(const int32_t *lengths, uint64_t b, int64_t sequence, bool mean)
{
    int64_t length = lengths != NULL ? lengths[b] : mean ? sequence : 1;
    length = length > sequence ? sequence : length < 1 ? 1 : length;
    const uint64_t first = b * (uint64_t)sequence, last = first + (uint64_t)(length - 1);
    return mean ? (sample_rows){first, (uint64_t)length} : (sample_rows){last, 1};
}

static uint64_t row_tasks(const void *scalars)
{
    const bp_sample_row_scalars *s = scalars;
    return (uint64_t)s->batch;
}

static void row_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_sample_row_scalars *s = call->scalars;
    const bp_sample_row_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width;
    for (uint64_t b = first; b < last; b++) {
        const sample_rows rows = samples_rows_of(p->lengths, b, s->sequence, s->mean != 0);
        const bp_element *x = (const bp_element *)p->x + rows.first * width;
        for (uint64_t i = 0; i < width; i++) {
            float sum = bp_get(x, i);
            for (uint64_t t = 1; t < rows.count; t++) {
                sum += bp_get(x, t * width + i);
            }
            bp_put((bp_element *)p->y + b * width, i, sum / (float)rows.count);
        }
    }
}

static uint64_t back_tasks(const void *scalars)
{
    const bp_sample_row_backward_scalars *s = scalars;
    return (uint64_t)s->batch;
}

static void back_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_sample_row_backward_scalars *s = call->scalars;
    const bp_sample_row_backward_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width, sample = (uint64_t)s->sequence * width;
    for (uint64_t b = first; b < last; b++) {
        const sample_rows rows = samples_rows_of(p->lengths, b, s->sequence, s->mean != 0);
        const bp_element *d_y = (const bp_element *)p->d_y + b * width;
        memset((bp_element *)p->d_x + b * sample, 0, sample * sizeof(bp_element));
        for (uint64_t k = 0; k < rows.count * width; k++) {
            bp_put((bp_element *)p->d_x + rows.first * width, k,
                   bp_get(d_y, k % width) / (float)rows.count);
        }
    }
}

/* What a class is to be: own of it all, and a share of every class. */
typedef struct class_target {
    const float *weights; /* (classes); NULL: all 1 */
    float own;
    float share;
} class_target;

static float weight_of(const class_target *target, uint64_t class_number)
{
    return target->weights != NULL ? target->weights[class_number] : 1.0f;
}

/* Cross entropy of one sample, whose logits have this log-sum-exp. */
static float class_loss(const bp_element *x, uint64_t classes, uint64_t label, float log_sum,
                        const class_target *target)
{
    float loss = target->own * weight_of(target, label) * (log_sum - bp_get(x, label)), all = 0.0f;
    for (uint64_t i = 0; target->share > 0.0f && i < classes; i++) {
        all += weight_of(target, i) * (log_sum - bp_get(x, i));
    }
    return loss + target->share * all;
}

/* The same; x becomes its gradient, times weight, where that is not 0: with f the sum of the
 * target's weights, f softmax - target. */
static float class_slope(bp_element *x, uint64_t classes, uint64_t label,
                         const class_target *target, float weight)
{
    float most = -INFINITY, sum = 0.0f, all = 0.0f, own = target->own * weight_of(target, label);
    for (uint64_t i = 0; i < classes; i++) {
        most = bp_get(x, i) > most ? bp_get(x, i) : most;
        all += weight_of(target, i);
    }
    for (uint64_t i = 0; i < classes; i++) {
        sum += bp_expf(bp_get(x, i) - most);
    }
    float loss = class_loss(x, classes, label, most + bp_logf(sum), target);
    float factor = own + target->share * all;
    for (uint64_t i = 0; weight != 0.0f && i < classes; i++) {
        float part = bp_expf(bp_get(x, i) - most) / sum * factor;
        part -= target->share * weight_of(target, i);
        bp_put(x, i, (i == label ? part - own : part) * weight);
    }
    return loss;
}

/* Binary cross entropy, mean over classes: max(x, 0) - x y + log(1 + e^-|x|). y is whether the
 * class's bit is set, or, of a chance, what all bits are as a float. */
static float bits_loss(bp_element *x, uint64_t classes, uint32_t bits, bool chances, float weight)
{
    float sum = 0.0f, target;
    memcpy(&target, &bits, sizeof(target));
    for (uint64_t i = 0; i < classes; i++) {
        float v = bp_get(x, i);
        float y = chances ? target : (float)(bits & 1);
        bits >>= 1;
        float e = bp_expf(-fabsf(v));
        float chance = v >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e);
        sum += (v > 0.0f ? v : 0.0f) - v * y + bp_logf(1.0f + e);
        if (weight != 0.0f) {
            bp_put(x, i, (chance - y) * (weight / (float)classes));
        }
    }
    return sum / (float)classes;
}

/* Squared error, mean over classes, whose target is the label or, with `targets`, each one's. */
static float square_loss(bp_element *x, uint64_t classes, uint32_t bits, const float *targets,
                         float weight)
{
    float target, sum = 0.0f;
    memcpy(&target, &bits, sizeof(target));
    for (uint64_t i = 0; i < classes; i++) {
        float off = bp_get(x, i) - (targets != NULL ? targets[i] : target);
        sum += off * off;
        if (weight != 0.0f) {
            bp_put(x, i, 2.0f * off * (weight / (float)classes));
        }
    }
    return sum / (float)classes;
}

static uint64_t loss_tasks(const void *scalars)
{
    const bp_sample_loss_scalars *s = scalars;
    return (uint64_t)s->batch;
}

static bool there(const bp_sample_loss_scalars *s, int32_t label, int32_t length)
{
    return length > 0 && (s->kind != BP_TASK_CLASSES || label >= 0);
}

/* A task is a sample. */
static void loss_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_sample_loss_scalars *s = call->scalars;
    const bp_sample_loss_pointers *p = call->pointers;
    uint64_t sequence = (uint64_t)s->sequence, classes = (uint64_t)s->classes;
    float weight = s->gradient != 0 ? bp_loss_weight(p->step, p->control, s->scaled) : 0.0f;
    const class_target target = {p->class_weights, (float)(1.0 - s->smoothing),
                                 (float)(s->smoothing / (double)classes)};
    for (uint64_t b = first; b < last; b++) {
        bp_element *x = (bp_element *)p->logits + b * classes;
        float *losses = (float *)p->losses + b * sequence;
        int32_t label = ((const int32_t *)p->labels)[b * sequence];
        memset(losses, 0, sequence * sizeof(float));
        if (!there(s, label, p->lengths != NULL ? ((const int32_t *)p->lengths)[b] : 1)) {
            memset(x, 0, s->gradient != 0 ? classes * sizeof(bp_element) : 0);
        } else if (s->kind == BP_TASK_CLASSES) {
            losses[0] = class_slope(x, classes, (uint64_t)label, &target, weight);
        } else if (s->kind == BP_TASK_LABELS || s->kind == BP_TASK_RANKING) {
            losses[0] = bits_loss(x, classes, (uint32_t)label, s->kind == BP_TASK_RANKING, weight);
        } else {
            const float *targets = p->targets;
            targets = targets != NULL ? targets + b * classes : NULL;
            losses[0] = square_loss(x, classes, (uint32_t)label, targets, weight);
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_sample_row) = {row_tasks, row_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_sample_row_backward) = {back_tasks, back_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_sample_loss) = {loss_tasks, loss_run, NULL};
