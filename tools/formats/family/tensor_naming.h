/* SPDX-License-Identifier: MIT */
/* How a file format calls the tensors of a model family, and how it lays them out. */
#ifndef BP_FORMATS_TENSOR_NAMING_H
#define BP_FORMATS_TENSOR_NAMING_H

#include "arena/base.h"

/* How a tensor lies in a file, compared with the parameter in Bedplate. */
typedef enum bp_tensor_layout {
    BP_LAYOUT_PLAIN,
    BP_LAYOUT_TRANSPOSED,  /* the file's rows are the parameter's columns */
    BP_LAYOUT_QUERY_HEADS, /* rotary halves of each head interleaved in the file, where Bedplate and
                            Hugging Face have one after the other: row h * D + 2 * i + j of the file
                            is row h * D + j * D / 2 + i; heads of the queries */
    BP_LAYOUT_KEY_HEADS,   /* the same, heads of the keys */
    BP_LAYOUT_THIRDS,      /* all heads' queries, then all keys, then all values in the file, where
                            Bedplate has them head by head: row (k * heads + h) * D + i of the file
                            is row (h * 3 + k) * D + i */
    BP_LAYOUT_BEHIND, /* the file begins with the row of the first position: those that the table
                       has before it, which no token has, are not there, and read as zeros */
    BP_LAYOUT_RAISED, /* every element is one more in the file: norms that Bedplate and Hugging
                       Face keep about 0 */
    BP_LAYOUT_PIECES, /* several tensors in the file: tools/formats/hf/tensor_pieces.h */
    BP_LAYOUT_TURNS, /* the same of two tensors whose numbers alternate here (gpt-oss): of (experts,
                        in, 2 out) each has (experts, out, in), of (experts, 2 out) (experts, out)
                      */
    BP_LAYOUT_NUMBER, /* one number, which in the file has no dimension */
    BP_LAYOUT_EXPERTS /* (out, r * experts) in the file, the expert the fastest, of (experts, out,
                         r): the B of experts in PEFT's files */
} bp_tensor_layout;

/* Parameters whose names match `ours` are called `theirs` in the file (patterns of hf_names.h). */
typedef struct bp_tensor_rule {
    const char *ours;
    const char *theirs;
    bp_tensor_layout form;
} bp_tensor_rule;

/* A tensor that a file may hold although the model has none of its own there: then it must equal
 * the tensor of the parameter `ours`, or is it where the file has no other. (A tied output head,
 * written out.) A model with the parameter `unless` has no use for it and passes it over. */
typedef struct bp_tensor_twin {
    const char *theirs; /* a whole name, as are the others */
    const char *ours;
    const char *unless; /* NULL: never */
} bp_tensor_twin;

/* Rules are tried in order and the first name that the file holds is taken; the first rule that
 * matches names the tensor when a file is written. */
typedef struct bp_tensor_naming {
    const bp_tensor_rule *rules;
    size_t rule_count;
    const char *const *ignored; /* patterns of tensors that no model has a use for */
    size_t ignored_count;
    const bp_tensor_twin *twins;
    size_t twin_count;
} bp_tensor_naming;

#endif
