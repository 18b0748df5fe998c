/* SPDX-License-Identifier: MIT */
/* ViT's first stage. */
#include "layers/images/vit_embed.h"

#include "layers/nodes/adapter.h"
#include "layers/blocks/vit_block.h"

/* Patches do not overlap; what is left of an image at its right and lower end is not seen. */
bp_image_window bp_vit_window(const bp_vit_config *own)
{
    const uint64_t each = own->patch > 0 ? own->image / own->patch : 0;
    return (bp_image_window){.height = own->image,
                             .width = own->image,
                             .channels = own->channels,
                             .out_height = each,
                             .out_width = each,
                             .kernel = {own->patch, own->patch},
                             .stride = {own->patch, own->patch}};
}

/* What patches see of all images: (batch * patches, channels * patch * patch). */
static bp_ref vit_patches(bp_emit *emit, const bp_image_window *w)
{
    const uint64_t batch = emit->spec->batch;
    const uint64_t sees = w->channels * w->kernel[0] * w->kernel[1];
    const bp_patches_operands operands = {
        .columns = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F32,
                                  batch * w->out_height * w->out_width, sees, "patches"),
        .x = emit->input[BP_INPUT_IDS]};
    const bp_patches_scalars scalars = {.batch = (int64_t)batch,
                                        .height = (int64_t)w->height,
                                        .width = (int64_t)w->width,
                                        .channels = (int64_t)w->channels,
                                        .pitch = (int64_t)w->channels,
                                        .out_height = (int64_t)w->out_height,
                                        .out_width = (int64_t)w->out_width,
                                        .kernel_height = w->kernel[0],
                                        .kernel_width = w->kernel[1],
                                        .stride_height = w->stride[0],
                                        .stride_width = w->stride[1],
                                        .dilation = 1};
    bp_emit_patches(emit, &operands, &scalars);
    return operands.columns;
}

/* ---- An adapter of the patches' convolution: that of a dense layer over them ---- */

/* A sample's rows are its patches here: `first` of one image, or all. */
static bp_adapted vit_adapted(const bp_vit_config *own)
{
    const bp_image_window w = bp_vit_window(own);
    return (bp_adapted){.weight = BP_VIT_PATCH_WEIGHT,
                        .in = w.channels * w.kernel[0] * w.kernel[1],
                        .out = own->stack.width,
                        .pitch = own->stack.width};
}

/* Patches with what the adapter's dropout left of them. */
static bp_ref vit_adapter_reads(bp_emit *emit, const bp_vit_config *own, bp_ref columns)
{
    const bp_adapted at = vit_adapted(own);
    const bp_spec *whole = emit->spec;
    const uint64_t rows = emit->rows;
    bp_spec patches = *whole;
    patches.sequence = bp_vit_tokens(own) - 1;
    emit->spec = &patches;
    emit->rows = (uint64_t)patches.batch * patches.sequence;
    const bp_ref read = bp_adapter_dropped(emit, &at, columns);
    emit->spec = whole;
    emit->rows = rows;
    return read;
}

/* s x A^T of all patches (batch * patches, r). */
static bp_ref vit_adapter_squeeze(bp_emit *emit, const bp_vit_config *own, bp_ref read)
{
    const bp_adapted at = vit_adapted(own);
    const uint64_t rows = emit->rows;
    emit->rows = (uint64_t)emit->spec->batch * (bp_vit_tokens(own) - 1);
    const bp_ref u = bp_adapter_narrow(emit, &at, "lora_u");
    bp_adapter_squeeze(emit, &at, read, u);
    bp_adapter_apply_scale(emit, &at, u);
    emit->rows = rows;
    return u;
}

static uint64_t vit_adapter_rank(const bp_emit *emit)
{
    return emit->parameters[emit->parameters[BP_VIT_PATCH_WEIGHT].adapter].shape[0];
}

/* Adds to each image's patches, whose rows lie behind its first token's. */
static void vit_adapter_add(bp_emit *emit, const bp_vit_config *own, bp_ref columns, bp_ref out)
{
    const bp_adapted at = vit_adapted(own);
    const uint64_t rows = emit->rows, patches = bp_vit_tokens(own) - 1, width = at.out;
    const bp_ref u = vit_adapter_squeeze(emit, own, vit_adapter_reads(emit, own, columns));
    emit->rows = patches;
    for (uint64_t i = 0; i < emit->spec->batch; i++) {
        const bp_ref y = bp_ref_at(out, (i * (patches + 1) + 1) * width);
        bp_adapter_spread(emit, &at, bp_ref_at(u, i * patches * vit_adapter_rank(emit)), y, true);
    }
    emit->rows = rows;
}

/* Images in order. */
static void vit_backward_adapter(bp_emit *emit, const bp_vit_config *own, bp_ref d)
{
    const bp_adapted at = vit_adapted(own);
    const uint32_t a = emit->parameters[at.weight].adapter;
    const uint64_t rows = emit->rows, patches = bp_vit_tokens(own) - 1;
    const bp_image_window w = bp_vit_window(own);
    const bool trains_a = bp_emit_trainable(emit, a), trains_b = bp_emit_trainable(emit, a + 1);
    int64_t accumulate = 0;
    if (!trains_a && !trains_b) {
        return;
    }
    const bp_ref read = vit_adapter_reads(emit, own, vit_patches(emit, &w));
    const bp_ref u = trains_b ? vit_adapter_squeeze(emit, own, read) : BP_ABSENT;
    const bp_ref d_a = trains_a ? bp_emit_gradient(emit, a, &accumulate) : BP_ABSENT;
    emit->rows = patches;
    for (uint64_t i = 0; i < emit->spec->batch; i++) {
        const bp_ref d_y = bp_ref_at(d, (i * (patches + 1) + 1) * at.out);
        if (trains_b) {
            const bp_ref u_i = bp_ref_at(u, i * patches * vit_adapter_rank(emit));
            bp_adapter_backward_b(emit, &at, d_y, u_i);
        }
        if (trains_a) {
            const bp_ref d_u = bp_adapter_squeeze_gradient(emit, &at, d_y);
            bp_adapter_outer_a(emit, &at, d_u, bp_ref_at(read, i * patches * at.in), d_a,
                               i > 0 ? 1 : accumulate);
        }
    }
    emit->rows = rows;
}

/* ---- The stage ---- */

/* y (width) = the first token and its position. */
static void vit_first(bp_emit *emit, uint64_t width, bp_ref first, bp_ref positions, bp_ref y)
{
    const bp_dropout_scalars sum = {.count = (int64_t)width, .per_sample = (int64_t)width};
    const bp_dropout_operands parts = {
        .y = y, .x = first, .residual = positions, .step = emit->step};
    bp_emit_dropout(emit, &parts, &sum);
}

static void vit_drop(bp_emit *emit, uint64_t width, bp_ref x)
{
    const bp_transformer own = bp_transformer_of(&emit->spec->config);
    const bp_dropout dropout = {0, own.embedding_dropout};
    if (bp_dropout_probability(emit, &dropout) > 0.0) {
        bp_dropout_apply(emit, &dropout, width, x, BP_ABSENT, x);
    }
}

/* Each image's patches by themselves: their rows lie behind its first token's. */
void bp_vit_embed(bp_emit *emit, bp_ref out)
{
    const bp_vit_config own = bp_vit_config_of(&emit->spec->config);
    const bp_image_window w = bp_vit_window(&own);
    const uint64_t width = own.stack.width, patches = bp_vit_tokens(&own) - 1;
    const uint64_t sees = w.channels * w.kernel[0] * w.kernel[1];
    const bp_ref columns = vit_patches(emit, &w);
    const bp_ref first = bp_emit_acquire(emit, BP_VIT_FIRST, BP_FOR_FORWARD);
    const bp_ref positions = bp_emit_acquire(emit, BP_VIT_POSITIONS, BP_FOR_FORWARD);
    const bp_ref weight = bp_emit_acquire(emit, BP_VIT_PATCH_WEIGHT, BP_FOR_FORWARD);
    const bp_ref bias = bp_emit_acquire(emit, BP_VIT_PATCH_BIAS, BP_FOR_FORWARD);
    const bp_matmul_scalars scalars = {.m = (int64_t)patches,
                                       .n = (int64_t)width,
                                       .k = (int64_t)sees,
                                       .lda = (int64_t)sees,
                                       .ldb = (int64_t)sees,
                                       .ldc = (int64_t)width,
                                       .transpose_b = 1};
    for (uint64_t i = 0; i < emit->spec->batch; i++) {
        const bp_ref y = bp_ref_at(out, i * (patches + 1) * width);
        const bp_matmul_operands operands = {.c = bp_ref_at(y, width),
                                             .before = BP_ABSENT,
                                             .a = bp_ref_at(columns, i * patches * sees),
                                             .b = weight,
                                             .bias = bias,
                                             .residual = bp_ref_at(positions, width),
                                             .work = BP_ABSENT};
        vit_first(emit, width, first, positions, y);
        bp_emit_matmul(emit, &operands, &scalars);
    }
    bp_emit_release(emit, BP_VIT_PATCH_BIAS);
    bp_emit_release(emit, BP_VIT_PATCH_WEIGHT);
    bp_emit_release(emit, BP_VIT_POSITIONS);
    bp_emit_release(emit, BP_VIT_FIRST);
    if (bp_adapter_there(emit, BP_VIT_PATCH_WEIGHT)) {
        vit_adapter_add(emit, &own, columns, out);
    }
    vit_drop(emit, width, out);
}

/* The first token's gradient is that of the first position, and there is no other of it. */
static void vit_backward_table(bp_emit *emit, uint32_t parameter, uint64_t positions, bp_ref d)
{
    if (!bp_emit_trainable(emit, parameter)) {
        return;
    }
    bp_embedding_position_backward_scalars scalars = {
        .rows = (int64_t)emit->rows,
        .sequence = emit->spec->sequence,
        .width = (int64_t)bp_transformer_of(&emit->spec->config).width,
        .positions = (int64_t)positions};
    const bp_embedding_position_backward_operands operands = {
        .d_wpe = bp_emit_gradient(emit, parameter, &scalars.accumulate),
        .d_out = d,
        .step = emit->step};
    bp_emit_embedding_position_backward(emit, &operands, &scalars);
}

/* Images in order. */
static void vit_backward_weight(bp_emit *emit, const bp_vit_config *own, bp_ref d)
{
    const bp_image_window w = bp_vit_window(own);
    const uint64_t width = own->stack.width, patches = bp_vit_tokens(own) - 1;
    const uint64_t sees = w.channels * w.kernel[0] * w.kernel[1];
    const bp_ref columns = vit_patches(emit, &w);
    bp_matmul_scalars scalars = {.m = (int64_t)width,
                                 .n = (int64_t)sees,
                                 .k = (int64_t)patches,
                                 .lda = (int64_t)width,
                                 .ldb = (int64_t)sees,
                                 .ldc = (int64_t)sees,
                                 .transpose_a = 1};
    const bp_ref d_weight = bp_emit_gradient(emit, BP_VIT_PATCH_WEIGHT, &scalars.accumulate);
    for (uint64_t i = 0; i < emit->spec->batch; i++) {
        const bp_matmul_operands operands = {.c = d_weight,
                                             .before = BP_ABSENT,
                                             .a = bp_ref_at(d, (i * (patches + 1) + 1) * width),
                                             .b = bp_ref_at(columns, i * patches * sees),
                                             .bias = BP_ABSENT,
                                             .residual = BP_ABSENT,
                                             .work = BP_ABSENT};
        bp_emit_matmul(emit, &operands, &scalars);
        scalars.accumulate = 1;
    }
}

static void vit_backward_bias(bp_emit *emit, const bp_vit_config *own, bp_ref d)
{
    const uint64_t width = own->stack.width, tokens = bp_vit_tokens(own);
    bp_bias_backward_scalars scalars = {
        .rows = (int64_t)(tokens - 1), .n = (int64_t)width, .pitch = (int64_t)width};
    const bp_ref d_bias = bp_emit_gradient(emit, BP_VIT_PATCH_BIAS, &scalars.accumulate);
    for (uint64_t i = 0; i < emit->spec->batch; i++) {
        const bp_bias_backward_operands operands = {.d_bias = d_bias,
                                                    .d_y = bp_ref_at(d, (i * tokens + 1) * width)};
        bp_emit_bias_backward(emit, &operands, &scalars);
        scalars.accumulate = 1;
    }
}

void bp_vit_embed_backward(bp_emit *emit, bp_ref d)
{
    const bp_vit_config own = bp_vit_config_of(&emit->spec->config);
    vit_drop(emit, own.stack.width, d);
    vit_backward_table(emit, BP_VIT_FIRST, 1, d);
    vit_backward_table(emit, BP_VIT_POSITIONS, bp_vit_tokens(&own), d);
    if (bp_adapter_there(emit, BP_VIT_PATCH_WEIGHT)) {
        vit_backward_adapter(emit, &own, d);
    }
    if (bp_emit_trainable(emit, BP_VIT_PATCH_WEIGHT)) {
        vit_backward_weight(emit, &own, d);
    }
    if (bp_emit_trainable(emit, BP_VIT_PATCH_BIAS)) {
        vit_backward_bias(emit, &own, d);
    }
}
