/* SPDX-License-Identifier: MIT */
/* Activation functions that no product carries in its epilogue. */
#ifndef BP_LAYERS_ACTIVATE_H
#define BP_LAYERS_ACTIVATE_H

#include "core/number/activation.h"
#include "core/compile/emit.h"

/* y = f(x) over `count` elements; y may be x. */
void bp_activate(bp_emit *emit, bp_activation kind, uint64_t count, bp_ref x, bp_ref y);

/* d_x = d_y f'(x); d_x may be d_y or x. */
void bp_activate_backward(bp_emit *emit, bp_activation kind, uint64_t count, bp_ref x, bp_ref d_y,
                          bp_ref d_x);

#endif
