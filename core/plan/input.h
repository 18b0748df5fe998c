/* SPDX-License-Identifier: MIT */
/* What a model is fed: its inputs and targets, declared as rows of a table.
 *
 * The rows lie one behind the other, in the order of their declaration, behind the step block of
 * each micro-batch in the inputs buffer (core/plan/compile.h); the host copies them there before
 * every run from what the feed has staged (core/run/feed.h). */
#ifndef BP_CORE_INPUT_H
#define BP_CORE_INPUT_H

#include "core/plan/column.h"
#include "core/plan/spec.h"

#define BP_INPUT_RANK 4

/* A model may declare several inputs of one kind. */
typedef struct bp_input {
    const char *name;
    bp_input_from from;
    bp_dtype dtype; /* I32 or F32: what the feed stages has 4 bytes; U8: no feed fills it */
    uint32_t rank;  /* of what one sample has; 0: a single number */
    uint64_t shape[BP_INPUT_RANK];
    uint64_t below; /* integers: every one is; 0: they may be anything */
    bool negative;  /* integers: may be negative; of labels that is no target */
    int32_t fill;   /* what stands for nothing: of labels -1, else 0 */
    bool decodes;   /* has one element for each token, and generation reads it as well, */
    uint32_t each;  /* or so many of each row that is decoded; 0: 1 */
    bool whole;     /* generation reads what one sample has, however many rows are decoded */
} bp_input;

/* Elements that one sample has of an input. */
static inline uint64_t bp_input_elements(const bp_input *input)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < input->rank; i++) {
        elements = bp_size_mul(elements, input->shape[i]);
    }
    return elements;
}

/* Elements that a row has of it when it is decoded. */
static inline uint32_t bp_input_each(const bp_input *input)
{
    return input->each > 0 ? input->each : 1;
}

/* Bytes of the inputs buffer that an input takes for a micro-batch, padding included. */
uint64_t bp_input_bytes(const bp_spec *spec, const bp_input *input);

/* Labels of a sample, and losses, which lie likewise: one for each token that a rank has, or one.
 */
uint64_t bp_input_labels(const bp_spec *spec);

/* The inputs of the spec's model, and how many there are. */
uint32_t bp_input_declare(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX]);

/* Whether the spec's model has an input of this kind. */
bool bp_input_declared(const bp_spec *spec, bp_input_from from);

#endif
