/* SPDX-License-Identifier: MIT */
/* bedplate bench optim: an update rule against a loop that moves the same bytes. */
#ifndef BP_BEDPLATE_BENCH_OPTIM_H
#define BP_BEDPLATE_BENCH_OPTIM_H

#include "core/base/error.h"
#include "tools/bedplate/app/settings.h"

/* Times the update of --elements weights by --optim on the host, in the types and master form that
 * the settings ask for, beside a loop on as many threads that reads the same buffers and writes
 * back those that the rule writes. Prints both; the fraction is the loop's time over the rule's.
 * Cycles count all threads; the clock is estimated from a chain of multiplications, which take
 * three cycles each on current processors. */
bp_status bench_optim(const settings *set, bp_error *error) BP_MUST_CHECK;

#endif
