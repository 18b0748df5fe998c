/* SPDX-License-Identifier: MIT */
/* Columns of samples: the feed fills one for each input that a model declares. */
/* Installed as part of <bedplate/feed.h>. */
#ifndef BP_CORE_COLUMN_H
#define BP_CORE_COLUMN_H

#include "core/base/dtype.h"

#define BP_INPUTS_MAX 8

/* Elements of int32_t that staging needs: one window of ids and one of target marks. */
#define BP_FEED_SCRATCH(sequence) ((size_t)(sequence) + 1 + ((size_t)(sequence) + 4) / 4)

/* Where an input comes from: what the feed has of every sample. It fills as many elements as the
 * input has: the first of longer ones, and what stands for nothing behind shorter ones. */
typedef enum bp_input_from {
    BP_INPUT_IDS,    /* its tokens, or its numbers, padded */
    BP_INPUT_LABELS, /* its targets: one for each token, or one for the sample at its first place */
    BP_INPUT_LENGTHS, /* how many of its tokens are no padding, at its first place */
    BP_INPUT_TYPES,   /* for each token, 1 where it belongs to the second text of a pair, else 0 */
    BP_INPUT_ENDS,    /* where an answer ends, at its first place; the labels say where it begins */
    BP_INPUT_PREFERENCES, /* of a row of a pair: BP_SIDE_WORDS words (core/ops/preference.h) */
    BP_INPUT_STARTS,      /* for each token the place where its document begins; -1: padding */
    BP_INPUT_DOCUMENT_POSITIONS, /* for each token its place in its document */
    BP_INPUT_POSITIONS, /* for each token its position in its row: those whose id is the column's
                           fill have that as their position, the others count on from it */
    BP_INPUT_EXTENTS,   /* for each token how many tokens its text has: a packed row's document, or
                           all of a row, its last token too, at most the places of a row; a window
                           of a stream has as many as it has places */
    BP_INPUT_TOPS,      /* for each token what a teacher holds likely to follow it, and their */
    BP_INPUT_LOGPS,     /* log-probabilities: bp_feed.teacher fills both */
    BP_INPUT_WEIGHTS,   /* for each token what its loss is multiplied with: bp_feed.teacher, too */
    BP_INPUT_SOURCE, /* the tokens of the text that another is made of, or its numbers, padded, */
    BP_INPUT_SOURCE_LENGTHS, /* and how many are no padding, at the first place */
    BP_INPUT_SLOT_POSITIONS, /* nothing: of each row that is decoded its position, and */
    BP_INPUT_SLOTS,          /* where it is (attention_slots of core/ops/attention.def) */
    BP_INPUT_KINDS
} bp_input_from;

typedef struct bp_column {
    bp_input_from from;
    bp_dtype dtype;    /* I32 or F32; ids and labels are copied bit by bit */
    uint32_t elements; /* of each sample */
    int32_t fill;      /* what stands for nothing; of ids that is the feed's padding */
    void *data;        /* (samples, elements), the caller's, aligned as the dtype asks */
} bp_column;

#endif
