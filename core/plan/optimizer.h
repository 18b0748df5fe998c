/* SPDX-License-Identifier: MIT */
/* bp_optimizer: an update rule that emits ops. Implemented by optim/<rule>.c. */
#ifndef BP_CORE_OPTIMIZER_H
#define BP_CORE_OPTIMIZER_H

#include "core/ops/codec.h"
#include "core/plan/builder.h"

typedef struct bp_rule bp_rule;

struct bp_optimizer {
    const char *name;                     /* value of --optim: "adamw" */
    bp_codec form;                        /* how the states of large tensors are stored */
    const bp_optimizer_options *defaults; /* of the rule's own numbers: PyTorch's or the paper's */
    bool whole_tensors;  /* apply needs all of a tensor's gradient at once (trust ratios) */
    bool unit_sums;      /* then: all that it needs of it are sums over units, which shards have */
    bool folds;          /* gradients can be folded into the moments one by one (bp_accumulate) */
    const bp_rule *rule; /* what implements it (optim/rule.h) */
    bp_status (*check)(const bp_optimizer *self, const bp_optimizer_options *options,
                       bp_error *error);

    /* Makes the state buffers of every parameter with bp_build_state (named as in PyTorch:
     * "exp_avg", "exp_avg_sq"), before any program is begun. All state starts as zero bytes. */
    void (*declare)(bp_builder *builder);

    /* Bytes of the state of so many elements of a parameter. */
    uint64_t (*state_bytes)(const bp_spec *spec, const bp_parameter *parameter, uint64_t elements);

    /* NULL, or of a rule that is evaluated, and saved for others, at an average of its weights:
     * what their state 0 is multiplied by and taken away from them (kernels.def, averaged_weight),
     * and the form of a parameter's states. */
    double (*average)(const bp_optimizer_options *options);
    bp_codec (*state_form)(const bp_spec *spec, const bp_parameter *parameter);

    /* The end of a group in three parts, for the parameters that are ready (bp_parameter.ready):
     * norms emits the partial sums of squares of their gradients into builder->norms (made at the
     * first call of a program); decide the decision over those written so far (skip or not, the
     * clip factor, the applied step's corrections), with later = true only whether the norm is
     * still finite; apply the update, or the part of it that builder->fold says. With gradient
     * release norms and apply are called stage by stage, and last = true says that no norm is
     * missing any more. */
    void (*norms)(bp_builder *builder);
    void (*decide)(bp_builder *builder, bool later, bool last);
    void (*apply)(bp_builder *builder);
};

#endif
