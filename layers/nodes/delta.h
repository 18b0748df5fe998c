/* SPDX-License-Identifier: MIT */
/* Linear attention by the gated delta rule (Yang, Kautz and Hatamizadeh, arXiv 2412.06464), and the
 * short convolution before it: core/ops/delta.def. Memory of a sequence is a state of fixed size.
 */
#ifndef BP_LAYERS_DELTA_H
#define BP_LAYERS_DELTA_H

#include "core/plan/builder.h"

typedef struct bp_short_conv {
    uint32_t weight; /* parameter number, (channels, 1, taps) */
    uint64_t channels;
    uint64_t taps;
} bp_short_conv;

typedef struct bp_delta {
    uint32_t a_log;     /* parameter number, (value_heads) */
    uint32_t dt_bias;   /* parameter number, (value_heads) */
    uint64_t key_heads; /* divide value_heads */
    uint64_t value_heads;
    uint64_t key_width;
    uint64_t value_width;
} bp_delta;

/* Elements of a row of queries, keys and values; of the values alone. */
uint64_t bp_delta_row(const bp_delta *delta);
uint64_t bp_delta_values(const bp_delta *delta);

/* Parts of rows: `groups` groups of parts of so many elements become rows of their own. Part i goes
 * to output to[i], whose group g begins at column[i] + g * width[i]; what follows the groups goes,
 * as it is, to the end of the first output. */
#define BP_ROW_PARTS         4
#define BP_ROW_PARTS_OUTPUTS 2
typedef struct bp_row_parts {
    uint64_t groups;
    uint64_t width[BP_ROW_PARTS]; /* 0: no such part */
    uint32_t to[BP_ROW_PARTS];
    uint64_t column[BP_ROW_PARTS];
    uint64_t tail;
} bp_row_parts;

/* Elements of a row of x. */
uint64_t bp_row_parts_width(const bp_row_parts *split);

/* y[i] (rows, pitch[i]), where it is present, of x (rows, bp_row_parts_width); and x of all of
 * them. */
void bp_row_parts_split(bp_builder *builder, const bp_row_parts *split, uint64_t rows, bp_ref x,
                        const bp_ref y[BP_ROW_PARTS_OUTPUTS],
                        const uint64_t pitch[BP_ROW_PARTS_OUTPUTS]);
void bp_row_parts_join(bp_builder *builder, const bp_row_parts *split, uint64_t rows, bp_ref x,
                       const bp_ref y[BP_ROW_PARTS_OUTPUTS],
                       const uint64_t pitch[BP_ROW_PARTS_OUTPUTS]);

/* y (B, T, channels) of x; in BP_MODE_DECODE with what is carried of the places before. */
void bp_short_conv_apply(bp_builder *builder, const bp_short_conv *conv, bp_ref x, bp_ref y);

/* d_x, unless absent, of d_y, and the gradient of the weight, where it is trained. */
void bp_short_conv_back(bp_builder *builder, const bp_short_conv *conv, bp_ref x, bp_ref d_y,
                        bp_ref d_x);

/* y (B, T, values) of qkv (B, T, bp_delta_row) and gates (B, T, 2 value_heads); in BP_MODE_DECODE
 * with carried states. */
void bp_delta_apply(bp_builder *builder, const bp_delta *delta, bp_ref qkv, bp_ref gates, bp_ref y);

typedef struct bp_delta_call {
    bp_ref qkv;
    bp_ref gates;
    bp_ref d_y;
    bp_ref d_qkv;   /* out */
    bp_ref d_gates; /* out */
} bp_delta_call;

/* Those, and the gradients of the parameters that are trained. */
void bp_delta_back(bp_builder *builder, const bp_delta *delta, const bp_delta_call *call);

bool bp_delta_trains(const bp_builder *builder, const bp_delta *delta);

#endif
