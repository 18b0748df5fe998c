/* SPDX-License-Identifier: MIT */
/* A tensor of a file seen in another order of its elements and in another element type.
 *
 * Any stretch of the view can be read through a small memory: what is transposed is gathered in
 * strips of rows, so no matrix is ever held whole. */
#ifndef BP_FORMATS_TENSOR_VIEW_H
#define BP_FORMATS_TENSOR_VIEW_H

#include "core/ops/convert.h"
#include "tools/formats/hf/bnb.h"
#include "tools/formats/hf/mxfp4.h"
#include "tools/formats/family/tensor_naming.h"
#include "tools/formats/hf/tensor_pieces.h"
#include "tools/formats/hf/tensor_set.h"

#define BP_VIEW_WORK_MIN 1024u /* least memory that reading a view works in, bytes */

typedef struct bp_tensor_view {
    const bp_tensor_entry *entry; /* F32, F16, BF16, or codes; NULL: nothing to see */
    uint32_t part;
    uint32_t rank; /* of the view; 1 or 2 where it is not plain */
    uint64_t shape[BP_TENSOR_RANK_MAX];
    bool transposed;  /* element (i, j) of the view is (j, i) of the file */
    bool to_halves;   /* with heads: the file interleaves, the view has halves; else the reverse */
    bool thirds;      /* with heads: queries, keys and values are apart on one side, head by head on
                         the other; to_halves: the file has them apart */
    uint32_t heads;   /* 0: rows in the file's order */
    uint64_t skipped; /* elements of the file before the view's first */
    uint64_t absent;  /* zeros of the view before the file's first element */
    int32_t raised;   /* what is added to each element of the file */
    bp_bnb bnb;       /* where the file holds codes: its (out, in) is then the file's order */
    bp_mxfp4 mx;      /* where it has experts' blocks: entry and part are their first tensor's */
    bp_tensor_pieces in;  /* where the file has pieces: entry and part are the first one's */
    bp_tensor_pieces out; /* the view is tensor `index` of these, into which the parameter goes */
    uint64_t index;
} bp_tensor_view;

/* Head counts, for forms that need them. */
typedef struct bp_tensor_heads {
    uint32_t query;
    uint32_t key;
    uint32_t first; /* and rows of a table of positions before the first position's */
} bp_tensor_heads;

/* The parameter as it lies in Bedplate, seen in a file's tensor of that form. False when the form
 * does not go with the tensor's shape. */
bool bp_tensor_view_of(bp_tensor_view *view, uint32_t part, const bp_tensor_entry *entry,
                       bp_tensor_layout form, bp_tensor_heads heads);

/* The same of a quantised weight, whose matrix is (out, in); `input_major`: the parameter is (in,
 * out). */
void bp_tensor_view_codes(bp_tensor_view *view, const bp_bnb *bnb, bool input_major);

/* The same of experts' blocks. */
void bp_tensor_view_mxfp4(bp_tensor_view *view, const bp_mxfp4 *mx);

/* Whether a stretch of the view lies scattered over the file, so that long ones are read faster. */
bool bp_tensor_view_scattered(const bp_tensor_view *view);

/* The same of pieces, of which the entry is the first; and a view of a parameter changed into its
 * tensor `index` of those that a file keeps it in. */
void bp_tensor_view_pieces(bp_tensor_view *view, uint32_t part, const bp_tensor_entry *entry,
                           const bp_tensor_pieces *pieces);
void bp_tensor_view_take(bp_tensor_view *view, const bp_tensor_pieces *pieces, uint64_t index);

/* Changes a view of a parameter into what a file of that form holds of it. False when the forms
 * do not go together (heads need a plain view). */
bool bp_tensor_view_transpose(bp_tensor_view *view, bp_tensor_layout form, bp_tensor_heads heads);

/* The type that the tensor's values have or had before they were quantised. */
bp_dtype bp_tensor_view_dtype(const bp_tensor_view *view);

/* The same tensor in blocks (entry->packed), whose rows products read as they are: rows
 * [first, first + count) of the view, or of a transposed one's columns, into `out`, of whole rows.
 * BP_ERR_USAGE for views that have no such rows. */
bp_status bp_tensor_view_rows(bp_tensor_set *set, const bp_tensor_view *view, uint64_t first,
                              uint64_t count, void *out) BP_MUST_CHECK;

/* Product of the shape. */
uint64_t bp_tensor_view_elements(const bp_tensor_view *view);

/* Whether an element type can be read and written here: F32, F16, BF16. */
bool bp_tensor_readable(bp_dtype dtype);

/* Reads elements [first, first + count) of the view, row-major, as type `to` (readable). Equal
 * types are copied bit by bit; BF16 rounds half away from zero, F16 to nearest even. `work` is at
 * least BP_VIEW_WORK_MIN bytes aligned to 8, apart from `out`. BP_ERR_DATA naming the tensor when a
 * finite value becomes infinite in the new type; else errors of reading. Cost: one read of the file
 * per piece of `work`, or per row of the file and strip where the view is transposed. */
bp_status bp_tensor_view_read(bp_tensor_set *set, const bp_tensor_view *view, uint64_t first,
                              size_t count, bp_dtype to, void *out, bp_staging work) BP_MUST_CHECK;

#endif
