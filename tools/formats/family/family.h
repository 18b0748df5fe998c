/* SPDX-License-Identifier: MIT */
/* Model families: one descriptor each, and the table of them all.
 *
 * A descriptor is the only place that knows a family's configuration: rows, each of which says how
 * a key of config.json is called, where its value lies in bp_model_config, what it may be and what
 * a file that leaves it out means. Reading and writing config.json (hf_config.h), what is refused
 * and in which words, whether two models are the same, the keys of a checkpoint and --print-options
 * all follow from the rows. Tensor names, the GGUF architecture, presets and adapters' targets are
 * beside them. A family is a file family_NAME.c and a line of families.def. */
#ifndef BP_FORMATS_FAMILY_H
#define BP_FORMATS_FAMILY_H

#include "arena/json_write.h"
#include "core/plan/model.h"
#include "tools/formats/gguf/gguf_family.h"
#include "tools/formats/family/preset.h"
#include "tools/formats/family/tensor_naming.h"

typedef enum bp_row_kind {
    /* What is stored: */
    BP_ROW_COUNT,      /* a whole number */
    BP_ROW_COUNT_NULL, /* the same, where null means 0: chosen by the model */
    BP_ROW_TOKEN,      /* a token id, a list of them (eos_token_id: all count), or null: none */
    BP_ROW_REAL,
    BP_ROW_REAL_NULL, /* the same, where null means what a file without it means */
    BP_ROW_FLAG,      /* true or false */
    BP_ROW_FLAG_NOT,  /* the member holds the opposite */
    BP_ROW_CHOICE,    /* one of the words "a|b|c"; the member is its number */
    BP_ROW_LAYERS,    /* a list with "a" or "b" of the words "a|b" for each layer, or 1 or 0: the
                         member is the bp_layer_set of those with the second */
    BP_ROW_INDICES,   /* a list of numbers of layers: the member is the bp_layer_set of them, of
                         which `listed` says nothing */
    BP_ROW_SIZES,     /* a list of whole numbers: widths of the layers, which it counts */
    BP_ROW_COUNTS,    /* a list of at most `otherwise` whole numbers; the member has as many places,
                         0 behind the last */
    BP_ROW_NET,       /* a list of texts, a layer each (cnn_text.h) */
    BP_ROW_LABELS,    /* id2label: an object with one member per class */
    BP_ROW_QUANTISED, /* quantization_config: null or an object (bnb.h) */
    /* What the reader makes something else of: */
    BP_ROW_TYPE,    /* model_type */
    BP_ROW_CLASSES, /* architectures: a list; a name tells the task */
    BP_ROW_PROBLEM, /* problem_type: null or a kind of classification */
    BP_ROW_ROPE,    /* rope_scaling, rope_parameters: null or an object (hf_rope.h) */
    BP_ROW_THETA,   /* rope_parameters of rope_type "default": the member is rope_theta */
    /* What has to be so: */
    BP_ROW_ONE,   /* 1 */
    BP_ROW_TEXT,  /* one of the words "a|b", which mean the same: the first is written */
    BP_ROW_TEXTS, /* null, or a list in which every item is this text */
    BP_ROW_WORDS, /* all of the words "a|b", in a list or so in one text; a list is written */
    BP_ROW_TRUE,
    BP_ROW_FALSE,
    BP_ROW_NULL,
    BP_ROW_EMPTY /* null or an empty object */
} bp_row_kind;

#define BP_ROW_STORED(kind) ((kind) <= BP_ROW_QUANTISED)

/* What tools that know no family ask of a model, or set. */
typedef enum bp_role {
    BP_ROLE_NONE,
    BP_ROLE_WIDTH, /* of the residual stream, or of what stands for it */
    BP_ROLE_INNER, /* 0: four times the width */
    BP_ROLE_LAYERS,
    BP_ROLE_HEADS,
    BP_ROLE_KV_HEADS,   /* 0: as many as heads */
    BP_ROLE_HEAD_WIDTH, /* 0: width / heads */
    BP_ROLE_ROTARY,     /* rope_theta: heads are turned, so their width is even */
    BP_ROLE_DROPOUT,    /* every row of a probability */
    BP_ROLE_INITIAL,    /* what random weights begin with */
    BP_ROLE_UNTIED      /* the head has a table of its own */
} bp_role;

/* Flags of a row. */
enum {
    BP_ROW_READ = 1,     /* another name, or a wish that is refused: read, never written */
    BP_ROW_INSIDE = 2,   /* a member of an object that another row reads and writes */
    BP_ROW_REQUIRED = 4, /* there is no usual value */
    BP_ROW_RESOLVED = 8, /* of COUNT_NULL: 0 is written as what it means */
    BP_ROW_SPARSE = 16,  /* the same: 0 is not written, nor a TOKEN of -1; nor is the usual COUNT,
                            nor a FLAG that is not set; of REAL_NULL: null is 0; of what has to be
                            so: null says nothing, and 1.0 is ONE */
    BP_ROW_WHOLE = 32    /* a REAL that transformers has as an int: a whole one is written so */
};

typedef struct bp_row {
    const char *key; /* in config.json */
    bp_row_kind kind;
    bp_role role;
    unsigned flags;
    size_t offset;    /* in bp_model_config */
    double least;     /* of numbers */
    double most;      /* whole numbers: inclusive; reals: below it */
    double otherwise; /* what a file without the key means */
    const char *words;
} bp_row;

typedef struct bp_family {
    const char *model_type;
    const char *wrapper; /* model_type of files that hold this one's config.json as text_config,
                            beside other models'; NULL: none */
    const bp_model *model;

    /* In the order in which they are written. A key may have several rows: its value goes to each.
     */
    const bp_row *rows;
    size_t row_count;
    bp_task task;               /* of files whose architectures do not judge */
    const char *language_class; /* of architectures; NULL: the file has none */
    const char *judge_class;    /* of samples; NULL: a classifier has no class to be saved as */
    const char *token_class;    /* of tokens; NULL, as the next: it has none */
    const char *answer_class;
    const char *whole_class; /* of what makes a text of another, the task causal-lm, where
                                language_class is the class of its encoder */

    /* What reads these files for BP_TASK_EMBEDDING, with the same members, where the way from
     * tokens to a vector is the model's own: vectors have config.classes numbers, by `resolve`, and
     * sentence-transformers' files are not asked. NULL: this one, as those files say. */
    const struct bp_family *vectors;
    /* What reads these files as one model of images and their texts, with the same members, for
     * that task; config.json's architectures name its language_class. NULL: nothing. */
    const struct bp_family *pairs;

    /* Resolves what one value means by another, after all were read. NULL: nothing. */
    void (*resolve)(bp_model_config *config);

    bp_tensor_naming naming;     /* in Hugging Face's files */
    const bp_gguf_family *gguf;  /* NULL: no such files */
    const char *adapter_targets; /* PEFT's default, "a,b" */
    const char *all_linear;      /* JSON for PEFT's target_modules; NULL: "all-linear" */
    /* The same where it depends on the model; NULL: it does not. */
    const char *(*linear_names)(const bp_model_config *config);
    const bp_preset *presets;
    size_t preset_count;
    size_t pieces; /* where a config has its pieces of time; 0: nowhere */
} bp_family;

#define FAMILY(name) extern const bp_family bp_family_##name;
#include "tools/formats/family/families.def"
#undef FAMILY

#define BP_ROWS_MAX 64 /* most rows of any family */

/* Every family in order, NULL after the last; and that of a model_type, or NULL. */
const bp_family *bp_family_at(size_t index);
const bp_family *bp_family_find(const char *model_type);
/* That whose config.json is inside one of this model_type, or NULL. */
const bp_family *bp_family_find_inside(const char *wrapper);

/* What a config.json that says nothing but the model_type means. */
bp_model_config bp_family_defaults(const bp_family *family);

/* The config of a spec that a caller may have filled by hand: with the first family of its model
 * where it names none. */
bp_model_config bp_family_adopt(const bp_spec *spec);

/* The row of a key, or of a role, that is stored; NULL: none. */
const bp_row *bp_family_row(const bp_family *family, const char *key);
const bp_row *bp_family_role(const bp_family *family, bp_role role);

/* Of a config: a whole number by its role, as the model takes it, 0 where its family has none or it
 * has no family; whether the head has a table of its own. */
uint32_t bp_family_count(const bp_model_config *config, bp_role role);
bool bp_family_untied(const bp_model_config *config);

/* Sets every probability of dropout; into how many pieces of time a sequence is cut, where the
 * family cuts. */
void bp_family_set_dropouts(bp_model_config *config, double probability);
void bp_family_set_pieces(bp_model_config *config, uint32_t pieces);
uint32_t bp_family_pieces(const bp_model_config *config);

/* Whether the heads fit the width and the key-value heads the heads: BP_ERR_DATA with `where` as
 * its place and the key as its name. */
bp_status bp_family_check_heads(const bp_model_config *config, const char *where,
                                bp_error *error) BP_MUST_CHECK;

/* Whether both are the same model: what the layers compute, apart from dropout and what random
 * weights begin with. */
bool bp_family_same(const bp_model_config *a, const bp_model_config *b);

/* The value of a stored row as JSON: whole numbers as the model takes them, reals in the fewest
 * digits that read back as the same. */
void bp_row_put(bp_json_writer *json, const char *key, const bp_model_config *config,
                const bp_row *row);

/* The same as text in `value`, for a row that a checkpoint and --print-options have: stored, no
 * other name for one that came before. False for other rows. */
#define BP_ROW_VALUE_BYTES 3072
bool bp_row_value(const bp_model_config *config, size_t index, char value[BP_ROW_VALUE_BYTES]);

/* What a row takes, in words: "a whole number from 1 to 1048576", "\"gru\" or \"lstm\"". */
void bp_row_words(bp_text *text, const bp_row *row);

#endif
