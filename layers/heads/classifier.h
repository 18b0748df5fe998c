/* SPDX-License-Identifier: MIT */
/* Heads that judge a whole sample: one row of each sample, a dense layer, and the loss of
 * config.task (classes, labels, regression, or the row itself). */
#ifndef BP_LAYERS_CLASSIFIER_H
#define BP_LAYERS_CLASSIFIER_H

#include "layers/nodes/dropout.h"
#include "layers/nodes/linear.h"

/* What stands for a sample. */
typedef enum bp_sample_part {
    BP_SAMPLE_FIRST, /* its first row */
    BP_SAMPLE_LAST,  /* its last that is no padding */
    BP_SAMPLE_MEAN   /* the mean of all that are none */
} bp_sample_part;

/* y (batch, width) = that of each sample of x (rows, width); and the other way: (rows, width) from
 * d_y, 0 in all other rows. */
bp_ref bp_sample_pick(bp_builder *builder, uint64_t width, bp_sample_part part, bp_ref x);
bp_ref bp_sample_spread(bp_builder *builder, uint64_t width, bp_sample_part part, bp_ref d_y);

/* x (batch, width) with dropout, whose masks belong to samples, in y, which may be x; x itself
 * where there is none. */
bp_ref bp_sample_drop(bp_builder *builder, const bp_dropout *dropout, uint64_t width, bp_ref x,
                      bp_ref y);

typedef struct bp_classifier {
    bp_linear score;    /* (width, classes) */
    bp_dropout dropout; /* of what it reads */
} bp_classifier;

/* builder->losses from x (batch, width), and their sum into builder->result. */
void bp_classifier_forward(bp_builder *builder, const bp_classifier *classifier, bp_ref x);

/* The same with gradients: those of the score's parameters, and that of x, which is returned. */
bp_ref bp_classifier_backward(bp_builder *builder, const bp_classifier *classifier, bp_ref x);

/* The two over the last token that is no padding of each sample of x (rows, width): the classifiers
 * of models that read from left to right. Backward returns the gradient (rows, width) of x. */
void bp_classify_last_forward(bp_builder *builder, const bp_classifier *classifier, bp_ref x);
bp_ref bp_classify_last_backward(bp_builder *builder, const bp_classifier *classifier, bp_ref x);

/* builder->rows is the number of samples between these two: dense layers then work on (batch,
 * width).
 */
void bp_samples_begin(bp_builder *builder);
void bp_samples_end(bp_builder *builder);

#endif
