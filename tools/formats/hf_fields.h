/* SPDX-License-Identifier: MIT */
/* What the keys of config.json may hold, by model family. */
#ifndef BP_FORMATS_HF_FIELDS_H
#define BP_FORMATS_HF_FIELDS_H

#include "core/compile/spec.h"

typedef enum bp_hf_field_kind {
    BP_FIELD_COUNT,      /* an integer of the model */
    BP_FIELD_COUNT_NULL, /* the same, where null means 0: chosen by the model */
    BP_FIELD_TOKEN,      /* a token id, a list of them (the first counts), or null: none */
    BP_FIELD_REAL,
    BP_FIELD_REAL_NULL, /* the same, where null means what it was */
    BP_FIELD_FLAG,      /* true or false */
    BP_FIELD_FLAG_NOT,  /* the member holds the opposite */
    BP_FIELD_ONE,       /* must be 1 */
    BP_FIELD_TEXT,      /* must be this text */
    BP_FIELD_CHOICE,    /* one of the words of this text, "a|b|c"; the member is its number */
    BP_FIELD_SIZES,     /* a list of integers: the widths of the layers, which it counts */
    BP_FIELD_TEXTS,     /* null, or a list in which every item must be this text */
    BP_FIELD_TRUE,      /* must be true */
    BP_FIELD_FALSE,     /* must be false */
    BP_FIELD_NULL,      /* must be null */
    BP_FIELD_EMPTY,     /* must be null or an empty object */
    BP_FIELD_CLASSES,   /* architectures: a list; a name tells the task */
    BP_FIELD_PROBLEM,   /* problem_type: null or a kind of classification */
    BP_FIELD_LABELS,    /* id2label: an object with one member per class */
    BP_FIELD_QUANTISED, /* quantization_config: null or an object (bnb.h) */
    BP_FIELD_ROPE       /* rope_scaling, rope_parameters: null or an object */
} bp_hf_field_kind;

typedef struct bp_hf_field {
    const char *key;
    bp_hf_field_kind kind;
    size_t offset; /* in bp_model_config */
    int64_t most;  /* counts: 1 .. most */
    double below;  /* reals: 0 .. below, exclusive */
    const char *text;
} bp_hf_field;

/* The keys of one model_type and what a file that leaves them out means. A key may have several
 * rows: its value goes to each. */
typedef struct bp_hf_fields {
    const char *model_type;
    const bp_hf_field *fields;
    size_t count;
    bp_model_config defaults; /* of transformers' configuration class */
} bp_hf_fields;

/* Most rows of any family. */
#define BP_HF_FIELDS_MAX 48

/* The table of a model_type, or NULL; and that of a family. */
const bp_hf_fields *bp_hf_fields_find(const char *model_type);
const bp_hf_fields *bp_hf_fields_of(bp_family family);

#endif
