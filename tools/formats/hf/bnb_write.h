/* SPDX-License-Identifier: MIT */
/* Weights on their way into bitsandbytes' files: as a file holds them already, or quantised from
 * what it holds, a stretch at a time. */
#ifndef BP_FORMATS_BNB_WRITE_H
#define BP_FORMATS_BNB_WRITE_H

#include "tools/formats/family/parameters.h"

#define BP_BNB_PARTS 6 /* most tensors of one weight */

typedef struct bp_bnb_writing {
    const bp_weight_source *source;
    bp_quantised form; /* of dense layers */
    float *offsets;    /* scales in 8 bits: one per parameter */
    bp_staging raw;    /* through which the source is read */
} bp_bnb_writing;

/* Whether parameter `index` goes out as codes: the source holds codes, or it is a dense layer's and
 * w->form says so. */
bool bp_bnb_goes(const bp_bnb_writing *w, size_t index);

/* The tensors of a parameter that goes out as codes, which a file calls `name`; their names are
 * taken from *room, their handles are BP_BNB_HANDLE. Nested scales cost one reading of the weight.
 * BP_ERR_FIT: the room is too small. */
bp_status bp_bnb_list(bp_bnb_writing *w, size_t index, const char *name, bp_staging *room,
                      bp_tensor_entry entries[BP_BNB_PARTS], size_t *count) BP_MUST_CHECK;

/* Parameter and part of a handle; part 0 is a tensor of floats. */
#define BP_BNB_HANDLE(index, part) ((uint64_t)(index)*8 + (part))
#define BP_BNB_INDEX(handle)       ((size_t)((handle) / 8))
#define BP_BNB_PART(handle)        ((uint32_t)((handle) % 8))

/* Bytes [offset, offset + bytes) of one of these tensors; both multiples of 1024 but at the end. */
bp_status bp_bnb_give(const bp_bnb_writing *w, uint64_t handle, uint64_t offset, void *to,
                      size_t bytes) BP_MUST_CHECK;

#endif
