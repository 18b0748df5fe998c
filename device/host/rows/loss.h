/* SPDX-License-Identifier: MIT */
/* What the loss keeps of a row for cross_entropy_columns. */
#ifndef BP_DEVICE_HOST_LOSS_H
#define BP_DEVICE_HOST_LOSS_H

#include "arena/base.h"

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
