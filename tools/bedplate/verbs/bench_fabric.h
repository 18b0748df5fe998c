/* SPDX-License-Identifier: MIT */
/* bedplate bench fabric: latency and bandwidth of the ranks' links. */
#ifndef BP_BEDPLATE_BENCH_FABRIC_H
#define BP_BEDPLATE_BENCH_FABRIC_H

#include "tools/bedplate/app/settings.h"

/* One rank of it, a body for ranks_run: all ranks exchange pieces of 64 bytes to 16 MiB, --repeat
 * times each; a call takes latency + sent bytes / bandwidth, whose two numbers follow from the
 * shortest medians of both ends. Rank 0 prints, in the words of plan's --latency and --bandwidth.
 */
int bench_fabric(const settings *set);

#endif
