/* SPDX-License-Identifier: MIT */
/* Which row is computed by which expert (core/ops/experts.def, `order`). */
#ifndef BP_DEVICE_HOST_ROUTE_ORDER_H
#define BP_DEVICE_HOST_ROUTE_ORDER_H

#include "device/host/kernel.h"

typedef struct bp_route {
    const int32_t *begins;  /* (experts + 1): the first row of each, and the end of all */
    const int32_t *choices; /* (rows * top): of each row */
    const int32_t *rows;    /* (rows * top): of each choice */
} bp_route;

static inline bp_route bp_route_of(const void *order, int64_t rows, int64_t top, int64_t experts)
{
    const int32_t *begins = order, *choices = begins + experts + 1;
    return (bp_route){begins, choices, choices + rows * top};
}

#endif
