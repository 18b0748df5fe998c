/* SPDX-License-Identifier: MIT */
/* Batch normalisation: y = (x - mean) / sqrt(variance + epsilon) * weight + bias for each channel.
 *
 * In training mean and variance are those of a micro-batch's places, and running ones, which are
 * state, follow them: they move in backward, which runs once for each micro-batch whatever is
 * recomputed. So the gradients of one large batch are not those of several micro-batches.
 * Evaluation takes the running ones, and so does a norm that is frozen, or whose weight and bias
 * are, or whose net has adapters, whose files have no statistics. */
#ifndef BP_LAYERS_BATCH_NORM_H
#define BP_LAYERS_BATCH_NORM_H

#include "core/plan/builder.h"

typedef struct bp_batch_norm {
    uint32_t first;  /* parameter number of the weight; bias, running mean and variance follow */
    uint64_t width;  /* channels */
    uint64_t places; /* of an image */
    double epsilon;
    double momentum; /* how much of the running statistics a micro-batch's replace */
    bool frozen;
} bp_batch_norm;

#define BP_BATCH_NORM_PARAMETERS 4

/* Publishes them as "<prefix>weight", "bias", "running_mean" and "running_var"; `frozen` as of the
 * norm. */
void bp_batch_norm_publish(bp_builder *builder, const char *prefix, uint64_t width, bool frozen);

/* Behind all parameters: makes builder->batches for the norms among them, where a net is trained
 * and has no adapters. */
void bp_batch_norm_count(bp_builder *builder);

/* Whether its weight or its bias is trained. */
bool bp_batch_norm_trains(const bp_builder *builder, const bp_batch_norm *norm);

/* Whether the running statistics are taken, and whether backward reads x. */
bool bp_batch_norm_runs(const bp_builder *builder, const bp_batch_norm *norm);
bool bp_batch_norm_reads(const bp_builder *builder, const bp_batch_norm *norm);

/* y from x, which it may be. statistics (2, width) F32: absent, to be made (`made` false) or to be
 * used; without them they are made where they are needed. */
void bp_batch_norm_forward(bp_builder *builder, const bp_batch_norm *norm, bp_ref x, bp_ref y,
                           bp_ref statistics, bool made);

/* d_y becomes d_x, where that is wanted; d_weight and d_bias (+)= ..; the running statistics move.
 * x may be absent where bp_batch_norm_reads is false, statistics where the running ones are taken.
 */
void bp_batch_norm_backward(bp_builder *builder, const bp_batch_norm *norm, bp_ref x,
                            bp_ref statistics, bp_ref d_y, bool wanted);

#endif
