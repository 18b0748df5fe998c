/* SPDX-License-Identifier: MIT */
/* The three small blocks of scalars that live on the device beside the tensors. */
#ifndef BP_CORE_STEP_H
#define BP_CORE_STEP_H

#include <stdint.h>

/* What changes from run to run of a program. The host writes it into a staging slot and copies it
 * with the tokens before each run; kernels only read it. 64 bytes. */
typedef struct bp_step_block {
    uint64_t seed;
    uint64_t step;        /* attempted optimizer steps before this one; keys dropout */
    uint32_t sample;      /* index within the group of this micro-batch's first sample */
    uint32_t position;    /* generating: position of the first row in the cache */
    uint32_t last_row;    /* generating: the row whose logits are wanted */
    float learning_rate;  /* of this step, from the schedule */
    float inverse_valid;  /* 1 / (the group's valid targets) */
    uint32_t mask_span;   /* positions that attention's dropout counts by; 0: the call's sequence */
    uint32_t mask_first;  /* which of them is the call's first: of packed rows a document's place */
    uint32_t samples;     /* of the group, that are there; 0 where nobody asks */
    float inverse_micros; /* 1 / (the group's micro-batches) */
    uint32_t unused[3];
} bp_step_block;

/* Decisions and counters kept on the device; part of the persistent state. 64 bytes. */
typedef struct bp_control_block {
    uint64_t applied;    /* optimizer steps that changed the weights */
    float clip;          /* gradient factor of this step: clipping and 1 / scale */
    uint32_t skip;       /* 1: this step changes nothing */
    double correction1;  /* 1 - beta1^applied */
    double correction2;  /* 1 - beta2^applied */
    float scale;         /* the loss scale; gradients carry it until the update */
    uint32_t good_steps; /* applied steps in a row since the scale last changed */
    uint32_t bad_steps;  /* skips since the scale last grew or shrank (hysteresis) */
    float norm;          /* of the last applied step, where a step is clipped by the one before */
    double average_sum;  /* schedule-free: of the weights of all applied steps, */
    float average_peak;  /* the largest learning rate of them, */
    float average_mix;   /* and the last one's weight over the sum */
} bp_control_block;

#define BP_NORM_HISTORY 100 /* norms that percentile clipping remembers */

/* What a loss gradient is multiplied by: 1 / valid targets, and the loss scale where there is one.
 */
static inline float bp_loss_weight(const bp_step_block *step, const bp_control_block *control,
                                   int64_t scaled)
{
    return scaled != 0 ? step->inverse_valid * control->scale : step->inverse_valid;
}

/* What one group of micro-batches reports; read back once per step. 64 bytes. */
typedef struct bp_result_block {
    double loss_sum; /* sum over valid targets, nats */
    float norm;      /* global gradient norm before clipping */
    float clip;      /* clip factor, the loss scale left out */
    uint32_t skip;   /* 1: the step changed nothing */
    float scale;     /* the loss scale that this step used; 1 without scaling */
    uint64_t applied;
    float metrics[8]; /* of preferences: BP_METRIC_NUMBERS sums (core/ops/preference.h); else the
                         balancing loss, where there is one, and 0 */
} bp_result_block;

#endif
