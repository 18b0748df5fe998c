/* SPDX-License-Identifier: MIT */
/* The forms in which weights are kept, and what models are trained for: words of a spec. What the
 * forms mean to the byte is in core/number/master.h and core/number/quantised.h. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_CORE_FORMS_H
#define BP_CORE_FORMS_H

#include <stdbool.h>

/* How the exact value of a weight is kept beside, or inside, its working copy. */
typedef enum bp_master {
    BP_MASTER_WEIGHT,    /* in the weight itself: fp32 weights */
    BP_MASTER_FP32,      /* in a separate fp32 tensor */
    BP_MASTER_SPLIT,     /* bf16 weight and 16-bit remainder */
    BP_MASTER_SPLIT8,    /* bf16 weight and 8-bit remainder; vectors keep SPLIT */
    BP_MASTER_STOCHASTIC /* nowhere: the update rounds the bf16 weight stochastically */
} bp_master;

/* How frozen weights are kept in 4 or 8 bits, as bitsandbytes does. */
typedef enum bp_quantised {
    BP_QUANTISED_NONE,
    BP_QUANTISED_NF4,        /* blocks of 64 */
    BP_QUANTISED_NF4_DOUBLE, /* whose scales are in 8 bits too */
    BP_QUANTISED_INT8,       /* a scale per row */
    BP_QUANTISED_COUNT
} bp_quantised;

/* What a model is trained for: which head and which loss. */
typedef enum bp_task {
    BP_TASK_CAUSAL_LM,  /* each token's successor */
    BP_TASK_MASKED_LM,  /* tokens that were hidden */
    BP_TASK_CLASSES,    /* one class per sample: problem_type single_label_classification */
    BP_TASK_LABELS,     /* any of at most 32 classes: multi_label_classification */
    BP_TASK_REGRESSION, /* a number per sample */
    BP_TASK_TOKENS,     /* a class per token (named entities) */
    BP_TASK_ANSWERS,    /* the first and the last token of an answer */
    BP_TASK_COUNT
} bp_task;

/* Whether each sample as a whole has one label. */
static inline bool bp_task_judges_samples(bp_task task)
{
    return task >= BP_TASK_CLASSES && task <= BP_TASK_REGRESSION;
}

#endif
