/* SPDX-License-Identifier: MIT */
/* What the loss keeps of a row for cross_entropy_columns. */
#ifndef BP_DEVICE_HOST_LOSS_H
#define BP_DEVICE_HOST_LOSS_H

#include "arena/base.h"

/* What the gradient of a row is made with: exp(logit - most) * weight / sum + shift, and less peak
 * at the label. Without smoothing shift is -0, which changes no bit. */
typedef struct bp_loss_slope {
    float weight;
    float shift;
    float peak;
} bp_loss_slope;

static inline bp_loss_slope bp_loss_slope_of(float weight, double smoothing, int64_t vocabulary)
{
    const float share = weight * (float)(smoothing / (double)vocabulary);
    return (bp_loss_slope){weight, -share, weight * (float)(1.0 - smoothing)};
}

/* statistics (2, rows; stride), or NULL: nobody wants it. */
static inline void bp_loss_keep(void *statistics, uint64_t row, uint64_t stride, float most,
                                float factor)
{
    if (statistics != NULL) {
        ((float *)statistics)[row] = most;
        ((float *)statistics)[stride + row] = factor;
    }
}

#endif
