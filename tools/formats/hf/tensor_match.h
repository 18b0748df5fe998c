/* SPDX-License-Identifier: MIT */
/* Which tensor of a file belongs to which parameter: every name is matched before any data flows.
 */
#ifndef BP_FORMATS_TENSOR_MATCH_H
#define BP_FORMATS_TENSOR_MATCH_H

#include "core/ir/program.h"
#include "tools/formats/hf/tensor_view.h"
#include "arena/base.h"

/* What can be wrong with one tensor. */
typedef enum bp_tensor_fault {
    BP_TENSOR_MISSING,    /* the model has it, the file does not */
    BP_TENSOR_UNEXPECTED, /* the file has it, the model does not */
    BP_TENSOR_SHAPE,      /* the shapes differ */
    BP_TENSOR_DTYPE,      /* not F32, F16 or BF16 */
    BP_TENSOR_UNTIED,     /* differs from the parameter that it must equal */
    BP_TENSOR_FAULTS
} bp_tensor_fault;

/* "a tensor of the model is missing in the file", ... Never NULL. */
const char *bp_tensor_fault_text(bp_tensor_fault fault);

/* Bits of what may be. */
#define BP_ALLOW_MISSING    1u /* the parameter keeps what it has */
#define BP_ALLOW_UNEXPECTED 2u
#define BP_ALLOW_SHAPE      4u /* as if the tensor were missing */
/* The tensors of a head for a task may be missing, and its classifier be of other classes. */
#define BP_ALLOW_NEW_HEAD 8u

/* One parameter of a model, and where it was found. */
typedef struct bp_wanted {
    const char *name;
    uint32_t rank;
    uint64_t shape[BP_RANK_MAX];
    bool dense;          /* a dense layer's in the blocks: what quantising quantises */
    bool input_major;    /* bp_parameter_info: of experts' matrices (in, out) */
    bp_tensor_view view; /* entry is NULL where nothing was found */
} bp_wanted;

/* One faulty tensor. */
typedef struct bp_tensor_finding {
    bp_tensor_fault fault;
    const char *tensor;           /* the model's name where the model has it, else the file's */
    bool allowed;                 /* the caller said that this may be */
    const bp_wanted *wanted;      /* the parameter; NULL where the model has none */
    const bp_tensor_entry *entry; /* the file's tensor; NULL where it has none */
    bool transposed;              /* the file holds such a tensor the other way round */
} bp_tensor_finding;

/* Told of every faulty tensor; what the finding refers to is valid during the call. */
typedef void (*bp_tensor_watch)(void *user, const bp_tensor_finding *finding);

typedef struct bp_match {
    bp_tensor_set *set;
    const bp_tensor_naming *naming;
    bp_wanted *wanted;
    size_t count;
    bp_tensor_heads heads;
    bool input_major; /* dense layers are (in, out): quantised ones are (out, in) in any file */
    unsigned allow;   /* BP_ALLOW_ bits */
    bool untied;      /* the model's head is its own, if it has one: the file's is no twin */
    bp_staging work;  /* for comparing tensors */
    bp_tensor_watch watch; /* may be NULL */
    void *user;
} bp_match;

/* Sets every wanted->view. BP_ERR_DATA when something is wrong with a tensor that is not allowed:
 * every such tensor is told to `watch`, and set->error names the first under set->path. Changes
 * entry->handle of all tensors (index of the parameter plus one; 0: nobody's). Reads data only to
 * compare twins and to check quantised weights (bnb.h). */
bp_status bp_tensor_match(const bp_match *match) BP_MUST_CHECK;

/* What a file with this naming calls a parameter, by the first rule that matches, and how the
 * tensor lies there. NULL when there is none or it does not fit. */
const bp_tensor_rule *bp_tensor_name(const bp_tensor_naming *naming, const char *ours,
                                     char theirs[BP_TENSOR_NAME_MAX]);

/* The number of layers of a model with these parameters: one more than the highest of
 * "model.layers.N."; 0: none has such a name. */
uint64_t bp_tensor_layers(const bp_wanted *list, size_t count);

/* Whether a tensor is one of those that no model of the family has a use for. In such a pattern ^
 * is the number of layers: the layer behind the last one, which predicts further tokens. */
bool bp_tensor_ignored(const bp_tensor_naming *naming, uint64_t layers, const char *name);

/* Patterns over tensor names, with which tables say how a family's tensors are called.
 *
 * In a pattern # is one or more decimal digits and * any run of characters, also none; everything
 * else is itself. At most one * and BP_NAME_DIGITS_MAX # in a pattern. */
#define BP_NAME_DIGITS_MAX 4

/* Whether the whole of `name` matches. Time is at most the product of the two lengths. */
bool bp_name_matches(const char *pattern, const char *name);

/* If `name` matches `from`, writes `to` with its # and * replaced by what those of `from` stood for
 * (the n-th # by the n-th #), terminated, and returns true. False too when the result does not fit
 * `room` bytes. */
bool bp_name_rewrite(const char *from, const char *to, const char *name, char *out, size_t room);

#endif
