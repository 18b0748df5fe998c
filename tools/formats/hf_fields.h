/* SPDX-License-Identifier: MIT */
/* What the keys of config.json may hold, by model family. */
#ifndef BP_FORMATS_HF_FIELDS_H
#define BP_FORMATS_HF_FIELDS_H

#include "core/compile/model.h"

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

/* What tools that know no family ask of a model, or set. */
typedef enum bp_role {
    BP_ROLE_NONE,
    BP_ROLE_WIDTH, /* of the residual stream, or of what stands for it */
    BP_ROLE_INNER, /* 0: four times the width */
    BP_ROLE_LAYERS,
    BP_ROLE_HEADS,
    BP_ROLE_KV_HEADS,   /* 0: as many as heads */
    BP_ROLE_HEAD_WIDTH, /* 0: width / heads */
    BP_ROLE_DROPOUT,    /* every row of a probability */
    BP_ROLE_UNTIED      /* the head has a table of its own */
} bp_role;

typedef struct bp_hf_field {
    const char *key;
    bp_hf_field_kind kind;
    size_t offset; /* in bp_model_config */
    int64_t most;  /* counts: 1 .. most */
    double below;  /* reals: 0 .. below, exclusive */
    const char *text;
    bp_role role;
} bp_hf_field;

/* A family: one model_type. A key may have several rows: its value goes to each. */
typedef struct bp_family {
    const char *model_type;
    const bp_model *model;
    const bp_hf_field *fields;
    size_t count;
    bp_model_config defaults; /* of transformers' configuration class: what a file leaves out ... */
    const void *own;          /* ... and the family's own part of it */
    size_t own_bytes;
    size_t pieces; /* where a config has its pieces of time; 0: nowhere */
} bp_family;

extern const bp_family bp_family_gpt2;
extern const bp_family bp_family_llama;
extern const bp_family bp_family_qwen2;
extern const bp_family bp_family_bert;
extern const bp_family bp_family_mlp;
extern const bp_family bp_family_rnn;

/* Most rows of any family. */
#define BP_HF_FIELDS_MAX 48

/* Every family in order, NULL after the last; and that of a model_type, or NULL. */
const bp_family *bp_family_at(size_t index);
const bp_family *bp_family_find(const char *model_type);

bp_model_config bp_family_defaults(const bp_family *family);

/* The config of a spec that a caller may have filled by hand: with the first family of its model
 * where it names none. */
bp_model_config bp_family_adopt(const bp_spec *spec);

/* Of a config: a whole number by its role, 0 where its family has none or it has no family; whether
 * the head has a table of its own. */
uint32_t bp_family_count(const bp_model_config *config, bp_role role);
bool bp_family_untied(const bp_model_config *config);

/* Sets every probability of dropout; into how many pieces of time a sequence is cut, where the
 * family cuts. */
void bp_family_set_dropouts(bp_model_config *config, double probability);
void bp_family_set_pieces(bp_model_config *config, uint32_t pieces);
uint32_t bp_family_pieces(const bp_model_config *config);

/* Whether both are the same model: what the layers compute, apart from dropout and what random
 * weights begin with. */
bool bp_family_same(const bp_model_config *a, const bp_model_config *b);

#endif
