/* SPDX-License-Identifier: MIT */
/* Memory that some ranks have and others lack. */
#ifndef BP_BEDPLATE_RANKS_MEMORY_H
#define BP_BEDPLATE_RANKS_MEMORY_H

#include "core/plan/spec.h"
#include "core/base/error.h"
#include "tools/bedplate/app/settings.h"

/* Called by every rank at the same point before the first step, with how it came there. `mine` is
 * returned for one rank, where it is neither BP_OK nor BP_ERR_FIT (this rank ends all), and where
 * all ranks lack memory or none does. Where some lack it: BP_ERR_USAGE on all of them (BP_ERR_FIT
 * for threads of one process, and under one --arena), in the place of what stood in `error`, with
 * the first rank that does and the numbers of `why`, its error. */
bp_status ranks_memory_alike(const settings *set, bp_status mine, const bp_error *why,
                             bp_error *error) BP_MUST_CHECK;

/* Where all ranks lack it, the first one says so at length. Returns on all of them when `say` has
 * returned there. */
void ranks_memory_say(const settings *set, void (*say)(const void *user), const void *user);

/* BP_ERR_FIT where the spec's device is a GPU that has less memory than so many bytes, whatever is
 * free of it: before ranks join their GPUs, when it can still be told to the others. */
bp_status ranks_memory_gpu(const settings *set, const bp_spec *spec, uint64_t bytes,
                           bp_error *error) BP_MUST_CHECK;

#endif
