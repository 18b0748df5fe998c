/* SPDX-License-Identifier: MIT */
/* Projections that join the residual stream. */
#include "layers/nodes/residual.h"

bool bp_residual_drops(const bp_builder *builder, const bp_residual *residual)
{
    return bp_dropout_probability(builder, &residual->dropout) > 0.0;
}

void bp_residual_forward(bp_builder *builder, const bp_residual *residual, bp_ref x, bp_ref stream,
                         bp_ref out)
{
    const bp_linear *projection = &residual->projection;
    if (!bp_residual_drops(builder, residual)) {
        bp_linear_forward(builder, projection, x, stream, out);
        return;
    }
    bp_linear_forward(builder, projection, x, BP_ABSENT, out);
    bp_dropout_apply(builder, &residual->dropout, projection->out, out, stream, out);
}

void bp_residual_backward(bp_builder *builder, const bp_residual *residual, bp_ref x, bp_ref d_out,
                          bp_ref d_x)
{
    const bp_linear *projection = &residual->projection;
    bp_ref d_y = d_out;
    if (bp_residual_drops(builder, residual)) {
        d_y = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), builder->rows,
                              projection->out, "d_dropped");
        bp_dropout_apply(builder, &residual->dropout, projection->out, d_out, BP_ABSENT, d_y);
    }
    /* The parameters first: x dies here, and d_x can take its place. */
    const bp_ref d_u = bp_linear_backward_parameters(builder, projection, x, d_y);
    if (bp_ref_present(d_x)) {
        bp_linear_backward_input_from(builder, projection, d_y, d_u, d_x, false);
    }
}
