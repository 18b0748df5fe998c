/* SPDX-License-Identifier: MIT */
/* The end of a group, common to every update rule: global gradient norm, clip factor, skip or not.
 */
#ifndef BP_OPTIM_CLIP_H
#define BP_OPTIM_CLIP_H

#include "core/plan/builder.h"

/* Elements per partial sum: part of the norm's definition, since it fixes the order of additions.
 */
#define BP_CLIP_CHUNK 65536

/* Makes the history of norms where there is percentile clipping; called once by declare. */
void bp_clip_declare(bp_builder *builder);

/* bp_optimizer.norms and .decide of every rule: the sums of squares of the gradients that are ready
 * (one list op), and the decision (step_decide of kernels.def): the norm over them, the clip factor
 * of torch.nn.utils.clip_grad_norm_, the loss scale, and whether the step changes anything. The
 * norm is formed when there is no clipping too, because it is what finds NaN and infinity. */
void bp_clip_norms(bp_builder *builder);
void bp_clip_decide(bp_builder *builder, bool later, bool last);

#endif
