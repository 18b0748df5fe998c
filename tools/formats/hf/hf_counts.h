/* SPDX-License-Identifier: MIT */
/* How many micro-batches moved each batch norm's running statistics, as PyTorch's files have it:
 * "<norm>.num_batches_tracked", one I64 without a shape. The runtime has them in builder->batches.
 */
#ifndef BP_FORMATS_HF_COUNTS_H
#define BP_FORMATS_HF_COUNTS_H

#include "core/run/runtime.h"
#include "tools/formats/hf/tensor_match.h"

#define BP_HF_COUNTS (UINT64_C(1) << 32) /* handles of entries to be written begin here */

/* Norms whose counts a runtime has; 0 where it has none of them: it trains nothing, or adapters. */
uint32_t bp_hf_counts(const bp_runtime *runtime);

/* Reads the counts that a file has; one that it lacks is 0. BP_ERR_DATA naming the tensor: it is no
 * number of 64 or 32 bits, or not from 0 to 2147483647. */
bp_status bp_hf_counts_load(bp_runtime *runtime, bp_tensor_set *set, const bp_tensor_naming *naming,
                            bp_error *error) BP_MUST_CHECK;

/* The count that a file has beside the parameter `parameter`, and the model's name for it. NULL: it
 * is no running mean, or the file has none. */
const bp_tensor_entry *bp_hf_counts_beside(const bp_tensor_set *set, const bp_tensor_naming *naming,
                                           const char *parameter, char name[BP_TENSOR_NAME_MAX],
                                           uint32_t *part);

/* Reads one, as bp_hf_counts_load does. */
bp_status bp_hf_counts_read(bp_tensor_set *set, uint32_t part, const bp_tensor_entry *entry,
                            int32_t *count, bp_error *error) BP_MUST_CHECK;

/* Fills bp_hf_counts entries to be written; their names are taken from *room, BP_ERR_FIT where that
 * is too small. */
bp_status bp_hf_counts_list(const bp_runtime *runtime, bp_tensor_entry *entries, bp_staging *room,
                            bp_error *error) BP_MUST_CHECK;

/* The 8 bytes of such an entry. */
bp_status bp_hf_counts_give(bp_runtime *runtime, const bp_tensor_entry *entry,
                            void *to) BP_MUST_CHECK;

#endif
