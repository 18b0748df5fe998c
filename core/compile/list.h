/* SPDX-License-Identifier: MIT */
/* Writing list ops tuple by tuple, for callers whose number of tensors has no bound. */
#ifndef BP_CORE_LIST_H
#define BP_CORE_LIST_H

#include "core/compile/emit.h"

/* Adds one tuple to the op that was emitted last, whose row of kernels.def is a LIST without
 * workspace. `refs` and `scalars` hold what that row takes, as in bp_emit_op. BP_ERR_FIT in
 * emit->status when a table is full. */
void bp_emit_tuple(bp_emit *emit, const bp_ref *refs, const void *scalars);

#endif
