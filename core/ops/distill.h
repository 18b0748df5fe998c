/* SPDX-License-Identifier: MIT */
/* What a teacher says of a row: log-probabilities of its likeliest tokens, as inline code of the
 * host and of CUDA. Hinton, Vinyals, Dean, arXiv 1503.02531, over the `k` tokens that are stored:
 * the teacher's probabilities at a temperature are those of the k made to add up to 1; the
 * student's are over its whole vocabulary. Whoever includes this has bp_expf and bp_logf. */
#ifndef BP_CORE_DISTILL_H
#define BP_CORE_DISTILL_H

#include <stdint.h>

#include "core/ops/storage_format.h"

/* The numbers of a loss (1 - alpha) cross entropy + alpha T^2 KL(teacher || student), and the
 * factors of its gradient. */
typedef struct bp_distill_slope {
    float inverse; /* 1 / T */
    float label;   /* (1 - alpha) times a row's weight */
    float teacher; /* alpha T times it: T^2, of which 1 / T is the derivative of logit / T */
    float of_label, of_teacher; /* of the losses */
} bp_distill_slope;

static inline bp_distill_slope bp_distill_slope_of(float weight, double alpha, double temperature)
{
    const float label = (float)(1.0 - alpha);
    const bp_distill_slope s = {(float)(1.0 / temperature), weight * label,
                                weight * (float)(alpha * temperature), label,
                                (float)(alpha * temperature * temperature)};
    return s;
}

/* The teacher's k numbers at the temperature: the likeliest, the sum of exp((logp - most) / T). */
typedef struct bp_distill_teacher {
    float most, factor, log_sum;
} bp_distill_teacher;

static inline bp_distill_teacher bp_distill_read(const float *logps, uint64_t k, float inverse)
{
    bp_distill_teacher t = {logps[0], 0.0f, 0.0f};
    for (uint64_t j = 1; j < k; j++) {
        t.most = logps[j] > t.most ? logps[j] : t.most;
    }
    float sum = 0.0f;
    for (uint64_t j = 0; j < k; j++) {
        sum += bp_expf((logps[j] - t.most) * inverse);
    }
    t.factor = 1.0f / sum;
    t.log_sum = bp_logf(sum);
    return t;
}

/* The teacher's probability of one of them. */
static inline float bp_distill_share(const bp_distill_teacher *t, float logp, float inverse)
{
    return bp_expf((logp - t->most) * inverse) * t->factor;
}

/* What that one adds to KL(teacher || student); `student` is the student's log-probability. */
static inline float bp_distill_term(const bp_distill_teacher *t, float logp, float inverse,
                                    float student)
{
    const float share = bp_distill_share(t, logp, inverse);
    return share > 0.0f ? share * ((logp - t->most) * inverse - t->log_sum - student) : 0.0f;
}

#endif
