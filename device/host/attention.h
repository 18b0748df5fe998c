/* SPDX-License-Identifier: MIT */
/* What the forms of attention share: the cut into tasks and the workspace. */
#ifndef BP_DEVICE_HOST_ATTENTION_H
#define BP_DEVICE_HOST_ATTENTION_H

#include "device/host/kernel.h"

#define BP_ATTENTION_QUERIES 32 /* query rows of a forward task and of a backward block */

/* Bytes of workspace per worker, O(T x (const + D)), the same for every form. With T' and D'
 * rounded up to 16 elements: forward 32 rows of T' scores and keys and values regrouped; backward
 * the same for scores and their gradients, and keys, values and both of their gradients regrouped.
 */
uint64_t bp_attention_forward_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_backward_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_decode_workspace(const void *scalars, const uint8_t *dtypes);

/* The worker's own part of a workspace whose parts are `bytes` each. */
static inline float *bp_worker_part(void *work, uint64_t bytes, uint32_t worker)
{
    return (float *)(void *)((unsigned char *)work + worker * bp_size_align(bytes, 64));
}

/* Forward: one task per sample, head and block of 32 queries, in this order.
 * Backward: one per sample and head. */
uint64_t bp_attention_forward_tasks(const void *scalars);
uint64_t bp_attention_backward_tasks(const void *scalars);

#endif
