/* SPDX-License-Identifier: MIT */
/* The multiply-add peak of this machine, measured. */
#ifndef BP_BEDPLATE_PEAK_H
#define BP_BEDPLATE_PEAK_H

#include "core/ir/device.h"

/* GFLOP/s that this many threads reach at once in a loop that touches registers only, with the
 * kernels' form (NULL: the best that this processor has). About a third of a second. 0 when a
 * thread could not be started. */
double peak_gflops(const char *form, uint32_t threads);

#endif
