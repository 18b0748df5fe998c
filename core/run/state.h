/* SPDX-License-Identifier: MIT */
/* A runtime's persistent state as checkpoints see it: named tensors and a way to their bytes.
 *
 *     for (uint32_t i = 0; i < bp_runtime_state_count(runtime); i++)
 *         tensors[i] = bp_runtime_state_tensor(runtime, i);
 *     bp_checkpoint checkpoint = {.step = bp_runtime_steps(runtime), .tensors = tensors,
 *                             .tensor_count = bp_runtime_state_count(runtime),
 *                             .io = bp_runtime_state_io(runtime)};
 *     bp_checkpoint_save(&place, &checkpoint, NULL);
 */
/* Installed as part of <bedplate/store.h>. */
#ifndef BP_CORE_STATE_H
#define BP_CORE_STATE_H

#include "core/run/handle.h"
#include "core/run/checkpoint/checkpoint.h"

/* Tensors of the state of a runtime that is planned. */
uint32_t bp_runtime_state_count(const bp_runtime *runtime);

/* Tensor number i, in name order; an empty one beyond bp_runtime_state_count. Its name is the
 * runtime's, its handle is i. A weight in fp8 is two of them: what core/run/state_view.c makes of
 * it. */
bp_state_tensor bp_runtime_state_tensor(const bp_runtime *runtime, uint32_t i);

/* Copies to and from the state of a runtime that is open: BP_ERR_USAGE for bytes outside a tensor.
 * Where ranks share the state out, all of them read at once, and get the same. */
bp_state_io bp_runtime_state_io(bp_runtime *runtime);

/* The next step is the one after `step` of them: the last call of a resume, when the state is
 * loaded. */
void bp_runtime_continue(bp_runtime *runtime, uint64_t step);

#endif
