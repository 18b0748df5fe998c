/* SPDX-License-Identifier: MIT */
/* bp_optimizer: an update rule that emits ops. Implemented by optim/<rule>.c. */
#ifndef BP_CORE_OPTIMIZER_H
#define BP_CORE_OPTIMIZER_H

#include "core/emit.h"

struct bp_optimizer {
    const char *name;     /* value of --optim: "adamw" */
    uint32_t state_count; /* state tensors per parameter */
    bp_status (*check)(const bp_optimizer_options *options, bp_error *error);

    /* Makes the state buffers of every parameter with bp_emit_state (named as in PyTorch:
     * "exp_avg", "exp_avg_sq"), before any program is begun. All state starts as zero bytes. */
    void (*declare)(bp_emit *emit);

    /* Emits the end of a group: gradient norm, the decision (skip or not), the update of all
     * parameters that have a gradient. */
    void (*update)(bp_emit *emit);

    /* Ops, buffers, refs and scalars that update and declare emit for this many parameters. */
    bp_graph_limits (*limits)(const bp_spec *spec, uint32_t parameters);
};

#endif
