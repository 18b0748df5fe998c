/* SPDX-License-Identifier: MIT */
/* What the update rules over whole matrices share: a parameter as rows and columns, the room that
 * they work in, and the ops that several of them have. */
#ifndef BP_OPTIM_MATRIX_H
#define BP_OPTIM_MATRIX_H

#include "optim/rule.h"

#define BP_MATRIX_CHUNK 256 /* rows whose columns' squares are added up in one go */

/* A parameter as such a rule sees it: a vector is one column of many rows. */
typedef struct bp_matrix {
    uint64_t rows;
    uint64_t width;
    uint64_t pieces; /* chunks of rows */
} bp_matrix;

bp_matrix bp_matrix_of(const bp_parameter *parameter);

/* Whether a parameter is a matrix of a block: no vector, no table, no head, no adapter. */
bool bp_matrix_hidden(const bp_builder *builder, uint32_t index);

/* The rest, which AdamW updates: which it is, and its numbers. */
bool bp_matrix_rest(const bp_builder *builder, uint32_t index);
void bp_matrix_rest_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars);

/* Room for the largest of the tensors that are ready and taken, made at its first use. */
typedef struct bp_matrix_room {
    bp_ref row_sums;    /* F64 (rows) */
    bp_ref column_sums; /* F64 (pieces, width) */
    bp_ref rows;        /* F32 (rows): factors */
    bp_ref columns;     /* F32 (width) */
    bp_ref partials;    /* F64: two of each BP_CLIP_CHUNK elements */
    bp_ref scale;       /* F32 (2) */
} bp_matrix_room;

bp_matrix_room bp_matrix_make_room(bp_builder *builder,
                                   bool (*takes)(const bp_builder *builder, uint32_t index));

/* A state of `count` floats of a parameter, and the ref of one. */
uint32_t bp_matrix_state(bp_builder *builder, uint32_t index, uint64_t count, const char *name);
bp_ref bp_matrix_state_ref(const bp_builder *builder, uint32_t index, uint32_t state);

/* Sums of squares of x (rows, width); an absent one is not formed. */
void bp_matrix_squares(bp_builder *builder, const bp_matrix *m, bp_ref x, bool raw, bp_ref row_sums,
                       bp_ref column_sums);

/* The update of a parameter by the row `scaled`; factors and scale may be absent. */
typedef struct bp_matrix_step {
    bp_ref x; /* the gradient, or what takes its place */
    bp_ref rows;
    bp_ref columns;
    bp_ref scale;
    bool momentum; /* state1 of the parameter is the moving mean of x */
    double beta;
    bool raw;
} bp_matrix_step;

void bp_matrix_apply(bp_builder *builder, uint32_t index, const bp_matrix_step *step);

#endif
