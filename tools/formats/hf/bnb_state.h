/* SPDX-License-Identifier: MIT */
/* The JSON that bitsandbytes keeps beside a weight in 4 bits. */
#ifndef BP_FORMATS_BNB_STATE_H
#define BP_FORMATS_BNB_STATE_H

#include "core/base/dtype.h"
#include "core/base/error.h"

#define BP_BNB_STATE_MAX 1024 /* bytes */

typedef struct bp_bnb_state {
    uint64_t rows;
    uint64_t columns;
    bp_dtype dtype; /* that the weight had: F32, F16, BF16 */
    bool fp4;       /* else NF4 */
    bool nested;
    uint64_t block; /* elements that share a scale */
    double offset;  /* of nested scales */
} bp_bnb_state;

/* Reads one object. BP_ERR_DATA: not JSON, a member that is missing or of another kind, a
 * quant_type other than nf4 and fp4, a blocksize other than 32, 64 .. 4096, a nested_blocksize
 * other than 256, a shape that is no matrix. */
bp_status bp_bnb_state_read(const char *text, size_t length, bp_bnb_state *state,
                            bp_error *error) BP_MUST_CHECK;

/* Writes it as Python's json.dumps does and gives its length; text: BP_BNB_STATE_MAX bytes. */
size_t bp_bnb_state_write(const bp_bnb_state *state, char text[BP_BNB_STATE_MAX]);

#endif
