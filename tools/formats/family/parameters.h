/* SPDX-License-Identifier: MIT */
/* The parameters of a model, listed without planning a run. */
#ifndef BP_FORMATS_PARAMETERS_H
#define BP_FORMATS_PARAMETERS_H

#include "core/plan/model.h"
#include "tools/formats/hf/tensor_match.h"

typedef struct bp_parameters {
    bp_wanted *list; /* in the model's order; views are empty */
    size_t count;
} bp_parameters;

/* Bytes that listing takes from a room; BP_SIZE_INVALID when that overflows. */
uint64_t bp_parameters_bytes(const bp_model *model, const bp_model_config *config);

/* Asks the model what it publishes for `config`. Tables and names are taken from the front of
 * *room. BP_ERR_FIT: the room is too small. BP_ERR_OVERFLOW: a shape. */
bp_status bp_parameters_list(const bp_model *model, const bp_model_config *config, bp_staging *room,
                             bp_parameters *parameters, bp_error *error) BP_MUST_CHECK;

/* Where the values of every parameter come from: an open set of files, matched. Writers of all
 * formats read through it. */
typedef struct bp_weight_source {
    bp_tensor_set *set;
    const bp_wanted *list;
    size_t count;
    bp_tensor_heads heads;
    const struct bp_merge *merge;   /* adapters to add; NULL: none (merge.h) */
    bool input_major;               /* the model's dense layers are (in, out) */
    const bp_tensor_naming *naming; /* says what the model may tie (its twins); NULL: nothing */
    bool carries; /* the set has the names of `naming`: tensors that it ignores go along as they are
                   */
} bp_weight_source;

#endif
