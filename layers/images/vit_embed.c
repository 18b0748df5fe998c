/* SPDX-License-Identifier: MIT */
/* ViT's first stage. */
#include "layers/images/vit_embed.h"

#include "layers/nodes/adapter.h"
#include "layers/blocks/vit_block.h"
#include "layers/nodes/norm.h"

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

static uint64_t vit_patch_count(const bp_vit_config *own)
{
    const bp_image_window w = bp_vit_window(own);
    return w.out_height * w.out_width;
}

/* Where the patches of image i begin in rows of tokens of `width` numbers. */
static uint64_t vit_place(const bp_vit_config *own, uint64_t i)
{
    const uint64_t tokens = bp_vit_tokens(own);
    return ((i + 1) * tokens - vit_patch_count(own)) * own->stack.width;
}

/* What patches see of all images: (batch * patches, channels * patch * patch). */
static bp_ref vit_patches(bp_builder *builder, const bp_image_window *w)
{
    const uint64_t batch = builder->spec->batch;
    const uint64_t sees = w->channels * w->kernel[0] * w->kernel[1];
    const bp_ref beside = builder->input[BP_INPUT_SOURCE]; /* of an image with a text */
    const bp_patches_operands operands = {
        .columns = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32,
                                   batch * w->out_height * w->out_width, sees, "patches"),
        .x = bp_ref_present(beside) ? beside : builder->input[BP_INPUT_IDS]};
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
    bp_build_patches(builder, &operands, &scalars);
    return operands.columns;
}

/* ---- An adapter of the patches' convolution: that of a dense layer over them ---- */

/* A sample's rows are its patches here: `first` of one image, or all. */
static bp_adapted vit_adapted(const bp_vit_config *own)
{
    const bp_image_window w = bp_vit_window(own);
    return (bp_adapted){.weight = bp_vit_embeddings_of(own).weight,
                        .in = w.channels * w.kernel[0] * w.kernel[1],
                        .out = own->stack.width,
                        .pitch = own->stack.width};
}

/* Patches with what the adapter's dropout left of them. */
static bp_ref vit_adapter_reads(bp_builder *builder, const bp_vit_config *own, bp_ref columns)
{
    const bp_adapted at = vit_adapted(own);
    const bp_spec *whole = builder->spec;
    const uint64_t rows = builder->rows;
    bp_spec patches = *whole;
    patches.sequence = (uint32_t)vit_patch_count(own);
    builder->spec = &patches;
    builder->rows = (uint64_t)patches.batch * patches.sequence;
    const bp_ref read = bp_adapter_dropped(builder, &at, columns);
    builder->spec = whole;
    builder->rows = rows;
    return read;
}

/* s x A^T of all patches (batch * patches, r). */
static bp_ref vit_adapter_project(bp_builder *builder, const bp_vit_config *own, bp_ref read)
{
    const bp_adapted at = vit_adapted(own);
    const uint64_t rows = builder->rows;
    builder->rows = (uint64_t)builder->spec->batch * vit_patch_count(own);
    const bp_ref u = bp_adapter_narrow(builder, &at, "lora_u");
    bp_adapter_project(builder, &at, read, u);
    bp_adapter_apply_scale(builder, &at, u);
    builder->rows = rows;
    return u;
}

static uint64_t vit_adapter_rank(const bp_builder *builder, const bp_vit_config *own)
{
    const uint32_t weight = bp_vit_embeddings_of(own).weight;
    return builder->parameters[builder->parameters[weight].adapter].shape[0];
}

/* Adds to each image's patches, whose rows lie behind its first token's. */
static void vit_adapter_add(bp_builder *builder, const bp_vit_config *own, bp_ref columns,
                            bp_ref out)
{
    const bp_adapted at = vit_adapted(own);
    const uint64_t rows = builder->rows, patches = vit_patch_count(own);
    const bp_ref u = vit_adapter_project(builder, own, vit_adapter_reads(builder, own, columns));
    builder->rows = patches;
    for (uint64_t i = 0; i < builder->spec->batch; i++) {
        const bp_ref y = bp_ref_at(out, vit_place(own, i));
        bp_adapter_spread(builder, &at, bp_ref_at(u, i * patches * vit_adapter_rank(builder, own)),
                          y, true);
    }
    builder->rows = rows;
}

/* Images in order. */
static void vit_backward_adapter(bp_builder *builder, const bp_vit_config *own, bp_ref d)
{
    const bp_adapted at = vit_adapted(own);
    const uint32_t a = builder->parameters[at.weight].adapter;
    const uint64_t rows = builder->rows, patches = vit_patch_count(own);
    const bp_image_window w = bp_vit_window(own);
    const bool trains_a = bp_build_trainable(builder, a),
               trains_b = bp_build_trainable(builder, a + 1);
    int64_t accumulate = 0;
    if (!trains_a && !trains_b) {
        return;
    }
    const bp_ref read = vit_adapter_reads(builder, own, vit_patches(builder, &w));
    const bp_ref u = trains_b ? vit_adapter_project(builder, own, read) : BP_ABSENT;
    const bp_ref d_a = trains_a ? bp_build_gradient(builder, a, &accumulate) : BP_ABSENT;
    builder->rows = patches;
    for (uint64_t i = 0; i < builder->spec->batch; i++) {
        const bp_ref d_y = bp_ref_at(d, vit_place(own, i));
        if (trains_b) {
            const bp_ref u_i = bp_ref_at(u, i * patches * vit_adapter_rank(builder, own));
            bp_adapter_backward_b(builder, &at, d_y, u_i);
        }
        if (trains_a) {
            const bp_ref d_u = bp_adapter_project_gradient(builder, &at, d_y);
            bp_adapter_outer_a(builder, &at, d_u, bp_ref_at(read, i * patches * at.in), d_a,
                               i > 0 ? 1 : accumulate);
        }
    }
    builder->rows = rows;
}

/* ---- The stage ---- */

/* y (width) = the first token and its position. */
static void vit_first(bp_builder *builder, uint64_t width, bp_ref first, bp_ref positions, bp_ref y)
{
    const bp_dropout_scalars sum = {.count = (int64_t)width, .per_sample = (int64_t)width};
    const bp_dropout_operands parts = {
        .y = y, .x = first, .residual = positions, .step = builder->step};
    bp_build_dropout(builder, &parts, &sum);
}

static void vit_drop(bp_builder *builder, uint64_t width, bp_ref x)
{
    const bp_transformer own = bp_transformer_of(&builder->spec->config);
    const bp_dropout dropout = {0, own.embedding_dropout};
    if (bp_dropout_probability(builder, &dropout) > 0.0) {
        bp_dropout_apply(builder, &dropout, width, x, BP_ABSENT, x);
    }
}

/* What is acquired of the parameters before the blocks; absent where there is none. */
typedef struct vit_held {
    bp_ref first, positions, weight, bias;
} vit_held;

static vit_held vit_acquire(bp_builder *builder, const bp_vit_embeddings *at)
{
    vit_held held;
    held.first = bp_build_acquire(builder, at->first, BP_FOR_FORWARD);
    held.positions = bp_build_acquire(builder, at->positions, BP_FOR_FORWARD);
    held.weight = bp_build_acquire(builder, at->weight, BP_FOR_FORWARD);
    held.bias = bp_build_acquire(builder, at->bias, BP_FOR_FORWARD);
    return held;
}

static void vit_release(bp_builder *builder, const bp_vit_embeddings *at)
{
    bp_build_release(builder, at->bias);
    bp_build_release(builder, at->weight);
    bp_build_release(builder, at->positions);
    bp_build_release(builder, at->first);
}

/* Tokens and their positions, each image's patches by themselves. */
static void vit_sum(bp_builder *builder, const bp_vit_config *own, bp_ref out)
{
    const bp_image_window w = bp_vit_window(own);
    const bp_vit_embeddings at = bp_vit_embeddings_of(own);
    const uint64_t width = own->stack.width, patches = vit_patch_count(own);
    const uint64_t sees = w.channels * w.kernel[0] * w.kernel[1];
    const bp_ref columns = vit_patches(builder, &w);
    const vit_held held = vit_acquire(builder, &at);
    const bp_matmul_scalars scalars = {.m = (int64_t)patches,
                                       .n = (int64_t)width,
                                       .k = (int64_t)sees,
                                       .lda = (int64_t)sees,
                                       .ldb = (int64_t)sees,
                                       .ldc = (int64_t)width,
                                       .transpose_b = 1};
    for (uint64_t i = 0; i < builder->spec->batch; i++) {
        const uint64_t place = vit_place(own, i);
        const bp_matmul_operands operands = {.c = bp_ref_at(out, place),
                                             .before = BP_ABSENT,
                                             .a = bp_ref_at(columns, i * patches * sees),
                                             .b = held.weight,
                                             .bias = held.bias,
                                             .residual =
                                                 bp_ref_at(held.positions, vit_place(own, 0)),
                                             .work = BP_ABSENT};
        if (at.first != BP_NO_PARAMETER) {
            vit_first(builder, width, held.first, held.positions, bp_ref_at(out, place - width));
        }
        bp_build_matmul(builder, &operands, &scalars);
    }
    vit_release(builder, &at);
    if (bp_adapter_there(builder, at.weight)) {
        vit_adapter_add(builder, own, columns, out);
    }
}

static bp_norm vit_first_norm(const bp_vit_config *own)
{
    const uint32_t weight = bp_vit_embeddings_of(own).norm;
    return (bp_norm){weight, weight + 1, own->stack.width, own->stack.norm_epsilon, false};
}

static bool vit_norms_first(const bp_vit_config *own)
{
    return bp_vit_embeddings_of(own).norm != BP_NO_PARAMETER;
}

static bp_ref vit_room(bp_builder *builder, const bp_vit_config *own, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), builder->rows,
                           own->stack.width, name);
}

void bp_vit_embed(bp_builder *builder, bp_ref out)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    if (vit_norms_first(&own)) {
        const bp_norm norm = vit_first_norm(&own);
        const bp_ref sum = vit_room(builder, &own, "sum");
        vit_sum(builder, &own, sum);
        bp_norm_forward(builder, &norm, builder->rows, sum, out, BP_ABSENT);
    } else {
        vit_sum(builder, &own, out);
    }
    vit_drop(builder, own.stack.width, out);
}

/* The first token's gradient is that of the first position, and there is no other of it. */
static void vit_backward_table(bp_builder *builder, uint32_t parameter, uint64_t positions,
                               bp_ref d)
{
    if (parameter == BP_NO_PARAMETER || !bp_build_trainable(builder, parameter)) {
        return;
    }
    bp_embedding_position_backward_scalars scalars = {
        .rows = (int64_t)builder->rows,
        .sequence = builder->spec->sequence,
        .width = (int64_t)bp_transformer_of(&builder->spec->config).width,
        .positions = (int64_t)positions};
    const bp_embedding_position_backward_operands operands = {
        .d_wpe = bp_build_gradient(builder, parameter, &scalars.accumulate),
        .d_out = d,
        .step = builder->step};
    bp_build_embedding_position_backward(builder, &operands, &scalars);
}

/* Images in order. */
static void vit_backward_weight(bp_builder *builder, const bp_vit_config *own, bp_ref d)
{
    const bp_image_window w = bp_vit_window(own);
    const uint64_t width = own->stack.width, patches = vit_patch_count(own);
    const uint64_t sees = w.channels * w.kernel[0] * w.kernel[1];
    const bp_ref columns = vit_patches(builder, &w);
    bp_matmul_scalars scalars = {.m = (int64_t)width,
                                 .n = (int64_t)sees,
                                 .k = (int64_t)patches,
                                 .lda = (int64_t)width,
                                 .ldb = (int64_t)sees,
                                 .ldc = (int64_t)sees,
                                 .transpose_a = 1};
    const bp_ref d_weight =
        bp_build_gradient(builder, bp_vit_embeddings_of(own).weight, &scalars.accumulate);
    for (uint64_t i = 0; i < builder->spec->batch; i++) {
        const bp_matmul_operands operands = {.c = d_weight,
                                             .before = BP_ABSENT,
                                             .a = bp_ref_at(d, vit_place(own, i)),
                                             .b = bp_ref_at(columns, i * patches * sees),
                                             .bias = BP_ABSENT,
                                             .residual = BP_ABSENT,
                                             .work = BP_ABSENT};
        bp_build_matmul(builder, &operands, &scalars);
        scalars.accumulate = 1;
    }
}

static void vit_backward_bias(bp_builder *builder, const bp_vit_config *own, bp_ref d)
{
    const uint64_t width = own->stack.width;
    bp_bias_backward_scalars scalars = {
        .rows = (int64_t)vit_patch_count(own), .n = (int64_t)width, .pitch = (int64_t)width};
    const bp_ref d_bias =
        bp_build_gradient(builder, bp_vit_embeddings_of(own).bias, &scalars.accumulate);
    for (uint64_t i = 0; i < builder->spec->batch; i++) {
        const bp_bias_backward_operands operands = {.d_bias = d_bias,
                                                    .d_y = bp_ref_at(d, vit_place(own, i))};
        bp_build_bias_backward(builder, &operands, &scalars);
        scalars.accumulate = 1;
    }
}

/* The gradient of the sum from that of its norm, which takes its place; the sum is made again. */
static void vit_backward_norm(bp_builder *builder, const bp_vit_config *own, bp_ref d)
{
    const bp_norm norm = vit_first_norm(own);
    const bp_ref statistics =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, bp_norm_statistics(&norm),
                        builder->rows, "norm.statistics");
    const bp_ref sum = vit_room(builder, own, "sum");
    const bp_ref again = vit_room(builder, own, "again");
    vit_sum(builder, own, sum);
    bp_norm_forward(builder, &norm, builder->rows, sum, again, statistics);
    const bp_norm_backward_call back = {sum, statistics, d, BP_ABSENT, true, false};
    bp_norm_backward(builder, &norm, &back);
}

void bp_vit_embed_backward(bp_builder *builder, bp_ref d)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    const bp_vit_embeddings at = bp_vit_embeddings_of(&own);
    vit_drop(builder, own.stack.width, d);
    if (vit_norms_first(&own)) {
        vit_backward_norm(builder, &own, d);
    }
    vit_backward_table(builder, at.first, 1, d);
    vit_backward_table(builder, at.positions, bp_vit_tokens(&own), d);
    if (bp_adapter_there(builder, at.weight)) {
        vit_backward_adapter(builder, &own, d);
    }
    if (bp_build_trainable(builder, at.weight)) {
        vit_backward_weight(builder, &own, d);
    }
    if (at.bias != BP_NO_PARAMETER && bp_build_trainable(builder, at.bias)) {
        vit_backward_bias(builder, &own, d);
    }
}
