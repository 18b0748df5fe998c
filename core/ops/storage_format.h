/* SPDX-License-Identifier: MIT */
/* The forms in which weights are kept, and what models are trained for: words of a spec. What the
 * forms mean to the byte is in core/ops/master.h and core/ops/quantised.h. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_CORE_STORAGE_FORMAT_H
#define BP_CORE_STORAGE_FORMAT_H

#include <stdbool.h>

/* How the exact value of a weight is kept beside, or inside, its working copy. */
typedef enum bp_master {
    BP_MASTER_WEIGHT,     /* in the weight itself: fp32 weights */
    BP_MASTER_FP32,       /* in a separate fp32 tensor */
    BP_MASTER_SPLIT,      /* bf16 weight and 16-bit remainder */
    BP_MASTER_SPLIT8,     /* bf16 weight and 8-bit remainder; vectors keep SPLIT */
    BP_MASTER_STOCHASTIC, /* nowhere: the update rounds the bf16 weight stochastically */
    BP_MASTER_FP8,        /* e4m3 weight and 16-bit remainder: of single weights, not of a spec */
    BP_MASTER_COUNT
} bp_master;

/* How weights of the blocks' dense layers that are trained are kept (core/ops/fp8.h). */
typedef enum bp_weight_storage {
    BP_WEIGHT_WORKING, /* in the working type, as their master form says */
    BP_WEIGHT_FP8      /* as e4m3 codes, which products read, and a 16-bit remainder */
} bp_weight_storage;

/* How frozen weights are kept in 4 or 8 bits, as bitsandbytes does, or in blocks, as GGUF files do.
 * Forms of bitsandbytes' in 4 bits have blocks of 64 elements, or, with 8 times a number from 1 to
 * 7 added, of 128, 256 .. 4096, and 32 (bp_quantised_with_block of core/ops/quantised.h). */
typedef enum bp_quantised {
    BP_QUANTISED_NONE,
    BP_QUANTISED_NF4,
    BP_QUANTISED_NF4_DOUBLE, /* whose scales are in 8 bits too */
    BP_QUANTISED_INT8,       /* a scale per row */
    BP_QUANTISED_FP8,        /* no form of frozen weights: codes of one that is trained (fp8.h) */
    BP_QUANTISED_FP4,
    BP_QUANTISED_FP4_DOUBLE,
    BP_QUANTISED_KINDS,
    BP_QUANTISED_BLOCKS = 64, /* and ggml's number of a type in blocks (core/ops/blocks.h): */
    BP_QUANTISED_MXFP4 = BP_QUANTISED_BLOCKS + 39
} bp_quantised;

/* How the tape keeps what backward reads (core/ops/tape.h). */
typedef enum bp_tape_storage {
    BP_TAPE_WORKING, /* as forward makes it, in the working type */
    BP_TAPE_FP8      /* as e4m3 codes with a scale for each block of a row */
} bp_tape_storage;

/* How training multiplies in the blocks' dense layers. */
typedef enum bp_product_type {
    BP_PRODUCT_WORKING, /* in the working type */
    BP_PRODUCT_FP8      /* wide layers: e4m3 codes with a scale for each row, summed in f32 */
} bp_product_type;

/* What a model is trained for: which head and which loss. */
typedef enum bp_task {
    BP_TASK_CAUSAL_LM,      /* each token's successor */
    BP_TASK_MASKED_LM,      /* tokens that were hidden */
    BP_TASK_CLASSES,        /* one class per sample: problem_type single_label_classification */
    BP_TASK_LABELS,         /* any of at most 32 classes: multi_label_classification */
    BP_TASK_REGRESSION,     /* a number per sample */
    BP_TASK_TOKENS,         /* a class per token (named entities) */
    BP_TASK_ANSWERS,        /* the first and the last token of an answer */
    BP_TASK_EMBEDDING,      /* a vector per sample, of its tokens */
    BP_TASK_RECONSTRUCTION, /* the numbers of the row itself (autoencoders) */
    BP_TASK_RANKING,        /* how relevant the second text is to the first: a chance per sample */
    BP_TASK_COUNT
} bp_task;

/* How a sample's vector is made of those of its tokens, padding left out. */
typedef enum bp_pooling {
    BP_POOLING_MEAN,
    BP_POOLING_CLS,      /* the first */
    BP_POOLING_LAST,     /* the last */
    BP_POOLING_SQRT,     /* their sum divided by the square root of their number */
    BP_POOLING_WEIGHTED, /* a mean in which the t-th, from 1 on, counts t times */
    BP_POOLINGS
} bp_pooling;

/* Which loss over pairs of rows, if any (core/ops/preference.h has the formulas). */
typedef enum bp_preference_kind {
    BP_PREFERENCE_NONE,
    BP_PREFERENCE_SIGMOID, /* DPO */
    BP_PREFERENCE_HINGE,
    BP_PREFERENCE_IPO,
    BP_PREFERENCE_ORPO,
    BP_PREFERENCE_SIMPO,
    BP_PREFERENCE_KTO,
    BP_PREFERENCES
} bp_preference_kind;

/* What a row is: the first word of its sides. Of a pair the first row is chosen and the second
 * rejected; KTO's first is one or the other, and its second has the same prompt before the
 * completion of another row. */
typedef enum bp_side {
    BP_SIDE_NONE,
    BP_SIDE_CHOSEN, /* KTO: desirable */
    BP_SIDE_REJECTED,
    BP_SIDE_MISMATCHED
} bp_side;

/* A row's sides: bp_side, bits of the reference's log-probability, the first target's place. */
#define BP_SIDE_WORDS 3

/* Metrics of preferences, as sums over them. */
typedef enum bp_metric {
    BP_METRIC_REWARD,    /* of chosen rows, then of rejected ones */
    BP_METRIC_LOGP = 2,  /* likewise */
    BP_METRIC_RIGHT = 4, /* pairs whose chosen row has the greater reward */
    BP_METRIC_MORE,      /* the mean loss of chosen rows' targets, or KTO's z: for each pair */
    BP_METRIC_COUNT = 6, /* chosen rows, rejected ones */
    BP_METRIC_NUMBERS = 8
} bp_metric;

/* Most tokens of which a teacher says something at each place (core/ops/distill.h). */
#define BP_DISTILL_MOST 128

/* Whether each sample as a whole has one label, or is judged by what it is. */
static inline bool bp_task_scores_samples(bp_task task)
{
    return (task >= BP_TASK_CLASSES && task <= BP_TASK_REGRESSION) ||
           task == BP_TASK_RECONSTRUCTION || task == BP_TASK_RANKING;
}

#endif
