/* SPDX-License-Identifier: MIT */
/* Dropout as ops. */
#include "layers/nodes/dropout.h"

double bp_dropout_probability(const bp_builder *builder, const bp_dropout *dropout)
{
    return builder->mode == BP_MODE_TRAIN ? dropout->probability : 0.0;
}

void bp_dropout_apply(bp_builder *builder, const bp_dropout *dropout, uint64_t width, bp_ref x,
                      bp_ref residual, bp_ref y)
{
    const bp_dropout_scalars scalars = {.count = (int64_t)(builder->rows * width),
                                        .per_sample = (int64_t)(builder->spec->sequence * width),
                                        .site = dropout->site,
                                        .dropout = dropout->probability,
                                        .first = (int64_t)(builder->row_first * width)};
    const bp_dropout_operands operands = {
        .y = y, .x = x, .residual = residual, .step = builder->step};
    bp_build_dropout(builder, &operands, &scalars);
}
