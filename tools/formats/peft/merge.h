/* SPDX-License-Identifier: MIT */
/* Adapters added to the weights that are written: W + s B A, with magnitudes m / n times that
 * (core/plan/adapter.h), element by element, so that no merged matrix is ever in memory. */
#ifndef BP_FORMATS_MERGE_H
#define BP_FORMATS_MERGE_H

#include "core/plan/spec.h"
#include "tools/formats/family/parameters.h"

/* The adapter of one parameter. */
typedef struct bp_merge_pair {
    uint32_t rank;
    float scale;
    const float *a; /* (rank, in); NULL: this parameter has none */
    const float *b; /* (out, rank) */
    float *factor;  /* (out), m / n; NULL: there are no magnitudes */
    uint64_t in;    /* of a convolution what a window sees */
    uint64_t out;
    uint64_t
        experts; /* a is (experts, rank, in) then, and b (out, rank, experts); 0: it is of one */
    bool turned; /* the parameter is (in, out) */
    const float *rows;      /* (row_count, in) in place of rows `tokens` of it; or NULL */
    const uint32_t *tokens; /* the adapter's */
    uint32_t row_count;
    const float *whole; /* the parameter itself, as it was trained beside the adapters; or NULL */
} bp_merge_pair;

struct bp_merge {
    bp_merge_pair *pairs; /* one per parameter of the source */
};

/* Reads the adapters of a set (adapter_model.safetensors) for the parameters of a source, and the
 * parameters that come with them; tables and values are taken from *room. Where there are
 * magnitudes it reads the source's weights once, for the lengths n of W + s B A's rows. BP_ERR_DATA
 * naming the tensor when it is of another base: of a module that the model has not, of another
 * shape or type. BP_ERR_USAGE: it is of a token embedding that a head is tied to, which would
 * change with the table. */
bp_status bp_merge_load(struct bp_merge *merge, bp_tensor_set *adapters, const bp_lora *lora,
                        bool input_major, const bp_weight_source *source, bp_staging *room,
                        bp_error *error) BP_MUST_CHECK;

/* Whether parameter `index` has an adapter, trained rows, or a value that was trained beside them.
 */
bool bp_merge_changes(const struct bp_merge *merge, size_t index);

/* Adds the adapter's part to, or puts the parameter's own value in the place of, `count` elements
 * from number `first` on of a view of parameter `index`. */
void bp_merge_add(const struct bp_merge *merge, const bp_weight_source *source, size_t index,
                  const bp_tensor_view *view, uint64_t first, size_t count, float *values);

/* The parameter's row that row `row` of a view is: rotary heads may be interleaved in files. */
uint64_t bp_merge_row(const bp_tensor_view *view, uint64_t row);

#endif
