/* SPDX-License-Identifier: MIT */
/* The update rules: each row of core/ops/rules.def says the formula and its source, the names of
 * the states, what --optim-args takes, and which optimizers there are. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_RULES_H
#define BP_OPTIM_RULES_H

#include "core/plan/spec.h"

/* Optimizers that bp_spec.optimizer takes; constants, of the value of --optim that their name has.
 * Norms and biases are not decayed unless decay_all is set. Names with _8bit and _4bit store large
 * states in the forms of core/ops/codec.h: in blocks of 256 with a table, companded in groups of
 * 32, in 4 bits. */
#define OPTIMIZER(kind, rule, optimizer, codec, defaults)                                          \
    extern const bp_optimizer bp_optimizer_##optimizer;
#include "core/ops/rules.def"

#endif
