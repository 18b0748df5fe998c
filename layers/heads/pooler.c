/* SPDX-License-Identifier: MIT */
/* The pooling head as ops. */
#include "layers/heads/pooler.h"

#include <math.h>

#include "layers/heads/classifier.h"
#include "layers/nodes/activate.h"
#include "layers/nodes/norm.h"
#include "layers/nodes/publish.h"

void bp_pooler_publish(bp_builder *builder, const bp_vit_config *own)
{
    static const char head[] = "vision_model.head.";
    const uint64_t w = own->stack.width, inner = bp_transformer_inner(&own->stack);
    const double range = own->stack.initializer_range;
    const bp_parameter_info probe = {.name = "vision_model.head.probe",
                                     .rank = 3,
                                     .shape = {1, 1, w},
                                     .init = BP_INIT_NORMAL,
                                     .deviation = range,
                                     .decay = true};
    /* No adapter is in it: PEFT's would not be read by torch.nn.MultiheadAttention. */
    const bp_publish_row attention[] = {
        {"attention.in_proj_weight", {3 * w, w}, BP_INIT_NORMAL, range},
        {"attention.in_proj_bias", {3 * w, 0}, BP_INIT_ZEROS, 0.0},
        {"attention.out_proj.weight", {w, w}, BP_INIT_NORMAL, range},
        {"attention.out_proj.bias", {w, 0}, BP_INIT_ZEROS, 0.0}};
    const bp_publish_row rest[] = {{"layernorm.weight", {w, 0}, BP_INIT_ONES, 0.0},
                                   {"layernorm.bias", {w, 0}, BP_INIT_ZEROS, 0.0},
                                   {"mlp.fc1.weight", {inner, w}, BP_INIT_NORMAL, range},
                                   {"mlp.fc1.bias", {inner, 0}, BP_INIT_ZEROS, 0.0},
                                   {"mlp.fc2.weight", {w, inner}, BP_INIT_NORMAL, range},
                                   {"mlp.fc2.bias", {w, 0}, BP_INIT_ZEROS, 0.0}};
    bp_build_parameter(builder, &probe);
    for (size_t i = 0; i < sizeof attention / sizeof attention[0]; i++) {
        bp_publish_head(builder, head, &attention[i], BP_HEAD_OUTPUT);
    }
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) {
        bp_publish(builder, head, &rest[i]);
    }
}

/* What backward makes again. */
typedef struct pooled {
    bp_linear out, up, down;
    bp_norm norm;
    uint64_t batch, tokens, width, inner;
    bp_ref probes, q, kv, looked, lse; /* (B, W), (B, W), (B S, 2 W), (B, W), (H, B) */
    bp_ref attended, normed, statistics, raised, active;
} pooled;

static bp_ref pooler_make(bp_builder *builder, uint64_t rows, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, rows, width, name);
}

static bp_linear pooler_dense(uint32_t weight, uint64_t in, uint64_t out)
{
    return (bp_linear){
        .weight = weight, .bias = weight + 1, .in = in, .out = out, .output_major = true};
}

static pooled pooler_begin(bp_builder *builder, const bp_vit_config *own, uint32_t first)
{
    const uint64_t w = own->stack.width, inner = bp_transformer_inner(&own->stack);
    const uint64_t batch = builder->spec->batch;
    return (pooled){.out = pooler_dense(first + BP_POOLER_OUT, w, w),
                    .up = pooler_dense(first + BP_POOLER_UP, w, inner),
                    .down = pooler_dense(first + BP_POOLER_DOWN, inner, w),
                    .norm = {first + BP_POOLER_NORM, first + BP_POOLER_NORM + 1, w,
                             own->stack.norm_epsilon, false},
                    .batch = batch,
                    .tokens = builder->spec->sequence,
                    .width = w,
                    .inner = inner,
                    .probes = pooler_make(builder, batch, w, "probes"),
                    .q = pooler_make(builder, batch, w, "q"),
                    .kv = pooler_make(builder, builder->rows, 2 * w, "kv"),
                    .looked = pooler_make(builder, batch, w, "looked"),
                    .lse = pooler_make(builder, batch, own->stack.heads, "lse"),
                    .attended = pooler_make(builder, batch, w, "attended"),
                    .normed = pooler_make(builder, batch, w, "normed"),
                    .statistics = pooler_make(builder, 2, batch, "norm.statistics"),
                    .raised = pooler_make(builder, batch, inner, "up"),
                    .active = pooler_make(builder, batch, inner, "active")};
}

/* c (m, n) = a (m, width) b^T + bias: rows of in_proj from `from` on. */
static void pooler_project(bp_builder *builder, const pooled *p, uint32_t first, bp_ref a, bp_ref c,
                           uint64_t rows, uint64_t from, uint64_t n)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)rows,
                                       .n = (int64_t)n,
                                       .k = (int64_t)p->width,
                                       .lda = (int64_t)p->width,
                                       .ldb = (int64_t)p->width,
                                       .ldc = (int64_t)n,
                                       .transpose_b = 1};
    const bp_ref weight = bp_build_acquire(builder, first + BP_POOLER_IN, BP_FOR_FORWARD),
                 bias = bp_build_acquire(builder, first + BP_POOLER_IN_BIAS, BP_FOR_FORWARD);
    const bp_matmul_operands operands = {.c = c,
                                         .before = BP_ABSENT,
                                         .a = a,
                                         .b = bp_ref_at(weight, from * p->width),
                                         .bias = bp_ref_at(bias, from),
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    bp_build_matmul(builder, &operands, &scalars);
    bp_build_release(builder, first + BP_POOLER_IN_BIAS);
    bp_build_release(builder, first + BP_POOLER_IN);
}

/* The learned row of each image. */
static void pooler_probes(bp_builder *builder, const pooled *p, uint32_t first)
{
    const bp_sample_row_scalars one = {.batch = 1, .sequence = 1, .width = (int64_t)p->width};
    const bp_ref probe = bp_build_acquire(builder, first + BP_POOLER_PROBE, BP_FOR_FORWARD);
    for (uint64_t i = 0; i < p->batch; i++) {
        const bp_sample_row_operands operands = {
            .y = bp_ref_at(p->probes, i * p->width), .x = probe, .lengths = BP_ABSENT};
        bp_build_sample_row(builder, &operands, &one);
    }
    bp_build_release(builder, first + BP_POOLER_PROBE);
}

static pooled pooler_look(bp_builder *builder, const bp_vit_config *own, uint32_t first, bp_ref x)
{
    const pooled p = pooler_begin(builder, own, first);
    const uint64_t head = p.width / own->stack.heads;
    const bp_attention_cross_forward_scalars scalars = {.batch = (int64_t)p.batch,
                                                        .sequence = 1,
                                                        .keys = (int64_t)p.tokens,
                                                        .heads = own->stack.heads,
                                                        .head_width = (int64_t)head,
                                                        .scale =
                                                            (double)(1.0f / sqrtf((float)head))};
    const bp_attention_cross_forward_operands operands = {.out = p.looked,
                                                          .lse = p.lse,
                                                          .q = p.q,
                                                          .kv = p.kv,
                                                          .lengths = BP_ABSENT,
                                                          .step = builder->step,
                                                          .work = BP_ABSENT};
    pooler_probes(builder, &p, first);
    pooler_project(builder, &p, first, p.probes, p.q, p.batch, 0, p.width);
    pooler_project(builder, &p, first, x, p.kv, builder->rows, p.width, 2 * p.width);
    bp_build_attention_cross_forward(builder, &operands, &scalars);
    bp_samples_begin(builder);
    bp_linear_forward(builder, &p.out, p.looked, BP_ABSENT, p.attended);
    bp_norm_forward(builder, &p.norm, builder->rows, p.attended, p.normed, p.statistics);
    bp_linear_forward(builder, &p.up, p.normed, BP_ABSENT, p.raised);
    bp_hidden_act_forward(builder, own->stack.activation, p.batch * p.inner, p.raised, p.active);
    bp_samples_end(builder);
    return p;
}

void bp_pooler_forward(bp_builder *builder, const bp_vit_config *own, uint32_t first, bp_ref x,
                       bp_ref y)
{
    const pooled p = pooler_look(builder, own, first, x);
    bp_samples_begin(builder);
    bp_linear_forward(builder, &p.down, p.active, p.attended, y);
    bp_samples_end(builder);
}

/* ---- Backward ---- */

/* The gradient of what was looked at from that of the vectors, which becomes that of `attended`. */
static bp_ref pooler_mlp_backward(bp_builder *builder, const bp_vit_config *own, const pooled *p,
                                  bp_ref d_y)
{
    const bp_ref d_up = pooler_make(builder, p->batch, p->inner, "d_up"),
                 d = pooler_make(builder, p->batch, p->width, "d_normed"),
                 d_looked = pooler_make(builder, p->batch, p->width, "d_looked");
    const bp_norm_backward_call back = {p->attended, p->statistics, d, d_y, true, false};
    bp_samples_begin(builder);
    bp_linear_backward_parameters(builder, &p->down, p->active, d_y);
    bp_linear_backward_input(builder, &p->down, d_y, d_up);
    bp_hidden_act_backward(builder, own->stack.activation, p->batch * p->inner, p->raised, d_up,
                           d_up);
    bp_linear_backward_parameters(builder, &p->up, p->normed, d_up);
    bp_linear_backward_input(builder, &p->up, d_up, d);
    bp_norm_backward(builder, &p->norm, &back);
    bp_linear_backward_parameters(builder, &p->out, p->looked, d);
    bp_linear_backward_input(builder, &p->out, d, d_looked);
    bp_samples_end(builder);
    return d_looked;
}

/* The gradient `to` (n, width) of rows of in_proj, from d (rows, n) over x (rows, width). */
static void pooler_project_backward(bp_builder *builder, const pooled *p, bp_ref to,
                                    int64_t accumulate, bp_ref x, bp_ref d, uint64_t rows,
                                    uint64_t n)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)n,
                                       .n = (int64_t)p->width,
                                       .k = (int64_t)rows,
                                       .lda = (int64_t)n,
                                       .ldb = (int64_t)p->width,
                                       .ldc = (int64_t)p->width,
                                       .transpose_a = 1,
                                       .accumulate = accumulate};
    bp_build_product(builder, to, d, x, &scalars);
}

static void pooler_sum(bp_builder *builder, bp_ref to, int64_t accumulate, bp_ref d, uint64_t rows,
                       uint64_t n)
{
    const bp_bias_backward_scalars scalars = {
        .rows = (int64_t)rows, .n = (int64_t)n, .pitch = (int64_t)n, .accumulate = accumulate};
    const bp_bias_backward_operands operands = {.d_bias = to, .d_y = d};
    bp_build_bias_backward(builder, &operands, &scalars);
}

/* c (rows, width) = d (rows, n) in_proj from row `from` on. */
static void pooler_project_input(bp_builder *builder, const pooled *p, uint32_t first, bp_ref d,
                                 bp_ref c, uint64_t rows, uint64_t from, uint64_t n)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)rows,
                                       .n = (int64_t)p->width,
                                       .k = (int64_t)n,
                                       .lda = (int64_t)n,
                                       .ldb = (int64_t)p->width,
                                       .ldc = (int64_t)p->width};
    const bp_ref weight = bp_build_acquire(builder, first + BP_POOLER_IN, BP_FOR_BACKWARD);
    bp_build_product(builder, c, d, bp_ref_at(weight, from * p->width), &scalars);
    bp_build_release(builder, first + BP_POOLER_IN);
}

static void pooler_parameters_backward(bp_builder *builder, const pooled *p, uint32_t first,
                                       bp_ref x, bp_ref d_q, bp_ref d_kv)
{
    const uint64_t rows = p->batch * p->tokens, w = p->width;
    int64_t accumulate = 0;
    if (bp_build_trainable(builder, first + BP_POOLER_IN)) {
        const bp_ref d = bp_build_gradient(builder, first + BP_POOLER_IN, &accumulate);
        pooler_project_backward(builder, p, d, accumulate, p->probes, d_q, p->batch, w);
        pooler_project_backward(builder, p, bp_ref_at(d, w * w), accumulate, x, d_kv, rows, 2 * w);
    }
    if (bp_build_trainable(builder, first + BP_POOLER_IN_BIAS)) {
        const bp_ref d = bp_build_gradient(builder, first + BP_POOLER_IN_BIAS, &accumulate);
        pooler_sum(builder, d, accumulate, d_q, p->batch, w);
        pooler_sum(builder, bp_ref_at(d, w), accumulate, d_kv, rows, 2 * w);
    }
    if (bp_build_trainable(builder, first + BP_POOLER_PROBE)) {
        const bp_ref d_probes = pooler_make(builder, p->batch, w, "d_probes");
        pooler_project_input(builder, p, first, d_q, d_probes, p->batch, 0, w);
        const bp_ref d = bp_build_gradient(builder, first + BP_POOLER_PROBE, &accumulate);
        pooler_sum(builder, d, accumulate, d_probes, p->batch, w);
    }
}

bp_ref bp_pooler_backward(bp_builder *builder, const bp_vit_config *own, uint32_t first, bp_ref x,
                          bp_ref d_y)
{
    const pooled p = pooler_look(builder, own, first, x);
    const uint64_t head = p.width / own->stack.heads, rows = builder->rows;
    const bp_ref d_looked = pooler_mlp_backward(builder, own, &p, d_y);
    const bp_attention_cross_backward_scalars scalars = {.batch = (int64_t)p.batch,
                                                         .sequence = 1,
                                                         .keys = (int64_t)p.tokens,
                                                         .heads = own->stack.heads,
                                                         .head_width = (int64_t)head,
                                                         .scale =
                                                             (double)(1.0f / sqrtf((float)head))};
    const bp_attention_cross_backward_operands operands = {
        .d_q = pooler_make(builder, p.batch, p.width, "d_q"),
        .d_kv = pooler_make(builder, rows, 2 * p.width, "d_kv"),
        .d_out = d_looked,
        .q = p.q,
        .kv = p.kv,
        .out = p.looked,
        .lse = p.lse,
        .lengths = BP_ABSENT,
        .step = builder->step,
        .work = BP_ABSENT};
    bp_build_attention_cross_backward(builder, &operands, &scalars);
    pooler_parameters_backward(builder, &p, first, x, operands.d_q, operands.d_kv);
    const bp_ref d_x = pooler_make(builder, rows, p.width, "d_tokens");
    pooler_project_input(builder, &p, first, operands.d_kv, d_x, rows, p.width, 2 * p.width);
    return d_x;
}
