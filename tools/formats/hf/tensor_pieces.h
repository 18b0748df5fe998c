/* SPDX-License-Identifier: MIT */
/* Parameters that a file keeps as several tensors: experts, which a model has one behind the other,
 * (experts, rows, width), and files have a tensor each, or gates and ups apart.
 *
 * The rule of such a parameter has the form BP_LAYOUT_PIECES. Its `theirs` are one or two names
 * with a bar between: of each expert the rows of the first come before those of the second. A name
 * with @ stands for a tensor of every expert, (rows, width), whose number takes the place of @; one
 * without for a tensor of all, (experts, rows, width).
 *
 * With BP_LAYOUT_TURNS it is two tensors of all experts, whose numbers alternate in the parameter,
 * and whose matrices are transposed. */
#ifndef BP_FORMATS_TENSOR_PIECES_H
#define BP_FORMATS_TENSOR_PIECES_H

#include "tools/formats/hf/tensor_set.h"
#include "tools/formats/family/tensor_naming.h"

#define BP_PIECES_SIDES 2 /* most names of a rule */

/* Handles of entries to be written: tensor `index` of what the handle says otherwise. */
#define BP_PIECES_HANDLE(handle, index) ((handle) | ((uint64_t)(index) + 1) << 40)
#define BP_PIECES_TAKEN(handle)         ((handle) >> 40 != 0)
#define BP_PIECES_INDEX(handle)         (((handle) >> 40) - 1)
#define BP_PIECES_REST(handle)          ((handle) & ((UINT64_C(1) << 40) - 1))

typedef struct bp_tensor_pieces {
    const bp_tensor_rule *rule; /* NULL: no pieces */
    const char *ours;           /* the parameter's name */
    uint32_t sides;             /* names */
    bool single;                /* each expert has tensors of its own */
    bool turns;                 /* numbers of the sides alternate */
    uint32_t rank;              /* of the parameter, and of a tensor of all experts */
    uint64_t experts;
    uint64_t rows; /* of one expert in one tensor */
    uint64_t width;
} bp_tensor_pieces;

/* Whether a rule of that form has pieces. */
static inline bool bp_tensor_in_pieces(bp_tensor_layout form)
{
    return form == BP_LAYOUT_PIECES || form == BP_LAYOUT_TURNS;
}

/* The pieces of a parameter of that name and shape by a rule of that form. False: the shape does
 * not go with it. */
bool bp_tensor_pieces_of(bp_tensor_pieces *pieces, const bp_tensor_rule *rule, const char *ours,
                         uint32_t rank, const uint64_t *shape);

/* Tensors that a file has of it. */
uint64_t bp_tensor_pieces_count(const bp_tensor_pieces *pieces);

/* The name of tensor `index`, and its shape: rank 2 or 3. False: the name is too long. */
bool bp_tensor_pieces_name(const bp_tensor_pieces *pieces, uint64_t index,
                           char theirs[BP_TENSOR_NAME_MAX]);
uint32_t bp_tensor_pieces_shape(const bp_tensor_pieces *pieces, uint64_t shape[3]);

/* Where an element of the parameter lies: in which tensor, where in it, and how many from it on lie
 * there one behind the other. */
typedef struct bp_tensor_place {
    uint64_t index;
    uint64_t first;
    uint64_t run;
} bp_tensor_place;

bp_tensor_place bp_tensor_pieces_place(const bp_tensor_pieces *pieces, uint64_t element);

/* The element of the parameter that is element `first` of tensor `index`; *run: how many follow one
 * behind the other. */
uint64_t bp_tensor_pieces_element(const bp_tensor_pieces *pieces, uint64_t index, uint64_t first,
                                  uint64_t *run);

#endif
