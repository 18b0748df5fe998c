/* SPDX-License-Identifier: MIT */
/* One row per kind of node. */
#include "layers/nodes/node_kinds.h"

#include "core/plan/passes/token_lanes.h"
#include "layers/nodes/activate.h"
#include "layers/nodes/adapter.h"

/* Norms. */

static bool norm_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *x = input_of(block, node, 0), *statistics = output_of(block, node, 1);
    return value_same_shape(x, output_of(block, node, 0)) && value_width(x) == node->norm.width &&
           statistics->statistics && value_width(statistics) == value_rows(x) &&
           value_rows(statistics) == bp_norm_statistics(&node->norm);
}

static bool norm_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_norm_trains(builder, &node->norm);
}

static void norm_forward(const block_run *run, const bp_node *node)
{
    const bool known = (run->making & value_bit(node->out[1])) == 0;
    bp_norm_forward(run->builder, &node->norm, value_rows(input_of(run->block, node, 0)),
                    ref_of_input(run, node, 0), ref_of_output(run, node, 0),
                    known ? BP_ABSENT : ref_of_output(run, node, 1));
}

/* Rows may be heads of the builder's rows. */
static void norm_backward(block_run *run, const bp_node *node)
{
    const uint64_t heads = value_rows(input_of(run->block, node, 0)) / run->builder->rows;
    const bp_ref d = run->grad[node->out[0]], sum = run->grad[node->in[0]];
    const bool over = run->chunk && bp_ref_present(sum);
    const bp_norm_backward_call call = {.x = ref_of_input(run, node, 0),
                                        .statistics = ref_of_output(run, node, 1),
                                        .d_y = d,
                                        .residual = sum,
                                        .input_wanted = wants(run, node, 0),
                                        .over = over};
    if (heads > 1) {
        const bp_head_norm of = {node->norm, heads, heads * node->norm.width};
        bp_head_norm_backward(run->builder, &of, &call);
    } else {
        bp_norm_backward(run->builder, &node->norm, &call);
    }
    run->grad[node->in[0]] = over ? sum : d;
}

/* Norms of heads. Their statistics: those of the queries' heads, then those of the keys'. */

static bool head_norm_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *x = input_of(block, node, 0), *statistics = output_of(block, node, 1);
    const bp_head_norm *q = &node->head_norm[0], *k = &node->head_norm[1];
    return value_same_shape(x, output_of(block, node, 0)) &&
           value_width(x) == q->heads * q->norm.width + 2 * k->heads * k->norm.width &&
           q->pitch == value_width(x) && k->pitch == value_width(x) && statistics->statistics &&
           value_rows(statistics) == q->heads + k->heads &&
           value_width(statistics) == value_rows(x);
}

static bool head_norm_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_norm_trains(builder, &node->head_norm[0].norm) ||
           bp_norm_trains(builder, &node->head_norm[1].norm);
}

static uint64_t first_column(const bp_node *node, uint32_t i)
{
    return i == 0 ? 0 : node->head_norm[0].heads * node->head_norm[0].norm.width;
}

static bp_ref statistics_part(const bp_node *node, uint64_t rows, bp_ref statistics, uint32_t i)
{
    const bool moves = bp_ref_present(statistics) && i > 0;
    return moves ? bp_ref_at(statistics, node->head_norm[0].heads * rows) : statistics;
}

/* The whole value is copied first, for the sake of its last columns. */
static void head_norm_forward(const block_run *run, const bp_node *node)
{
    const bp_value *value = input_of(run->block, node, 0);
    const uint64_t rows = value_rows(value);
    const bp_ref x = ref_of_input(run, node, 0), y = ref_of_output(run, node, 0);
    const bool known = (run->making & value_bit(node->out[1])) == 0;
    const bp_ref statistics = known ? BP_ABSENT : ref_of_output(run, node, 1);
    const bp_copy_scalars all = {.count = (int64_t)count_of(value)};
    const bp_copy_operands copied = {.y = y, .x = x};
    bp_build_copy(run->builder, &copied, &all);
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t column = first_column(node, i);
        bp_head_norm_forward(run->builder, &node->head_norm[i], rows, bp_ref_at(x, column),
                             bp_ref_at(y, column), statistics_part(node, rows, statistics, i));
    }
}

/* The gradient of the values' columns goes on as it is. */
static void head_norm_backward(block_run *run, const bp_node *node)
{
    const uint64_t rows = value_rows(input_of(run->block, node, 0));
    const bp_ref d = run->grad[node->out[0]];
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t column = first_column(node, i);
        const bp_norm_backward_call call = {
            .x = bp_ref_at(ref_of_input(run, node, 0), column),
            .statistics = statistics_part(node, rows, ref_of_output(run, node, 1), i),
            .d_y = bp_ref_at(d, column),
            .residual = BP_ABSENT,
            .input_wanted = wants(run, node, 0)};
        bp_head_norm_backward(run->builder, &node->head_norm[i], &call);
    }
    if (wants(run, node, 0)) {
        node_take_gradient(run, node->in[0], d);
    }
}

/* Products. */

static bool dense_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *x = input_of(block, node, 0);
    for (uint32_t i = 0; i < node->parts; i++) {
        const bp_linear *part = &node->part[i];
        const bp_value *y = output_of(block, node, i);
        const uint64_t pitch = part->pitch != 0 ? part->pitch : part->out;
        if (part->in != value_width(x) || value_rows(y) != value_rows(x) ||
            pitch != value_width(y) || node->column[i] + part->out > pitch) {
            return false;
        }
    }
    return node->parts > 0;
}

static bool dense_trains(const bp_builder *builder, const bp_node *node)
{
    bool trains = false;
    for (uint32_t i = 0; i < node->parts; i++) {
        trains = trains || bp_linear_trains(builder, &node->part[i]);
    }
    return trains;
}

static bool dense_trains_reading(const bp_builder *builder, const bp_node *node)
{
    bool reads = false;
    for (uint32_t i = 0; i < node->parts; i++) {
        reads = reads || bp_linear_trains_reading(builder, &node->part[i]);
    }
    return reads;
}

static void dense_forward(const block_run *run, const bp_node *node)
{
    for (uint32_t i = 0; i < node->parts; i++) {
        if ((run->making & value_bit(node->out[i])) != 0) {
            bp_linear_forward(run->builder, &node->part[i], ref_of_input(run, node, 0), BP_ABSENT,
                              bp_ref_at(ref_of_output(run, node, i), node->column[i]));
        }
    }
}

static void dense_backward(block_run *run, const bp_node *node)
{
    bp_ref d[BP_NODE_OUTPUTS], d_u[BP_NODE_OUTPUTS];
    for (uint32_t i = 0; i < node->parts; i++) {
        d[i] = bp_ref_at(run->grad[node->out[i]], node->column[i]);
        d_u[i] = bp_linear_backward_parameters(run->builder, &node->part[i],
                                               ref_of_input(run, node, 0), d[i]);
    }
    const uint32_t x = node->in[0];
    if (!wants(run, node, 0)) {
        return;
    }
    const bool first = !bp_ref_present(run->grad[x]);
    run->grad[x] = first ? node_make_gradient(run, x) : run->grad[x];
    for (uint32_t i = 0; i < node->parts; i++) {
        bp_linear_backward_input_from(run->builder, &node->part[i], d[i], d_u[i], run->grad[x],
                                      !first || i > 0);
    }
}

/* Rotary positions. */

static bool rotary_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *x = input_of(block, node, 0);
    return value_same_shape(x, output_of(block, node, 0)) &&
           node->heads * (node->rotary.apart != 0 ? node->rotary.apart : node->rotary.width) <=
               value_width(x);
}

static void rotary_forward(const block_run *run, const bp_node *node)
{
    bp_rotary_rotate(run->builder, &node->rotary, node->heads,
                     value_width(input_of(run->block, node, 0)), ref_of_output(run, node, 0),
                     false);
}

static void rotary_backward(block_run *run, const bp_node *node)
{
    const bp_ref d = run->grad[node->out[0]];
    bp_rotary_rotate(run->builder, &node->rotary, node->heads,
                     value_width(input_of(run->block, node, 0)), d, true);
    run->grad[node->in[0]] = d;
}

/* Attention. */

static bool attention_fits(const bp_block *block, const bp_node *node)
{
    const bp_attention *a = &node->attention;
    const uint64_t keys = a->kv_heads != 0 ? a->kv_heads : a->heads;
    const bp_value *qkv = input_of(block, node, 0), *y = output_of(block, node, 0);
    const bp_value *lse = output_of(block, node, 1);
    return value_width(qkv) == (a->heads + 2 * keys) * a->head_width &&
           value_width(y) == a->heads * a->head_width && value_rows(y) == value_rows(qkv) &&
           lse->statistics && value_rows(lse) == a->heads && value_width(lse) == value_rows(qkv);
}

static bool attention_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_attention_trains(builder, &node->attention);
}

static void attention_forward(const block_run *run, const bp_node *node)
{
    const bp_ref qkv = ref_of_input(run, node, 0), y = ref_of_output(run, node, 0);
    if (run->builder->mode == BP_MODE_DECODE) {
        bp_attention_decode(run->builder, &node->attention, qkv, y);
    } else {
        bp_attention_forward(run->builder, &node->attention, qkv, y, ref_of_output(run, node, 1));
    }
}

static void attention_backward(block_run *run, const bp_node *node)
{
    if (bp_ref_present(run->deltas)) {
        bp_attention_backward_over(run->builder, &node->attention, ref_of_input(run, node, 0),
                                   run->grad[node->out[0]], run->deltas,
                                   ref_of_output(run, node, 1));
        node_take_gradient(run, node->in[0], ref_of_input(run, node, 0));
        return;
    }
    const bp_attention_backward_call call = {.qkv = ref_of_input(run, node, 0),
                                             .out = ref_of_output(run, node, 0),
                                             .lse = ref_of_output(run, node, 1),
                                             .d_out = run->grad[node->out[0]],
                                             .d_qkv = node_make_gradient(run, node->in[0])};
    bp_attention_backward(run->builder, &node->attention, &call);
    node_take_gradient(run, node->in[0], call.d_qkv);
}

/* Projections that join the stream. */

static bool residual_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *x = input_of(block, node, 0), *y = output_of(block, node, 0);
    return value_same_shape(input_of(block, node, 1), y) &&
           value_width(x) == node->residual.projection.in && value_rows(x) == value_rows(y) &&
           value_width(y) == node->residual.projection.out;
}

static bool residual_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_linear_trains(builder, &node->residual.projection);
}

static bool residual_trains_reading(const bp_builder *builder, const bp_node *node)
{
    return bp_linear_trains_reading(builder, &node->residual.projection);
}

static void residual_forward(const block_run *run, const bp_node *node)
{
    bp_residual_forward(run->builder, &node->residual, ref_of_input(run, node, 0),
                        ref_of_input(run, node, 1), ref_of_output(run, node, 0));
}

/* The stream's gradient is that of the sum: the very buffer. */
static void residual_backward(block_run *run, const bp_node *node)
{
    const bp_ref d = run->grad[node->out[0]];
    const bp_ref d_x = wants(run, node, 0) ? node_make_gradient(run, node->in[0]) : BP_ABSENT;
    bp_residual_backward(run->builder, &node->residual, ref_of_input(run, node, 0), d, d_x);
    if (bp_ref_present(d_x)) {
        node_take_gradient(run, node->in[0], d_x);
    }
    if (wants(run, node, 1)) {
        node_take_gradient(run, node->in[1], d);
    }
}

/* Activations. */

/* With the product before it where that has not been run. */
static void gelu_forward(const block_run *run, const bp_node *node)
{
    const uint32_t x = node->in[0];
    const bp_ref y = ref_of_output(run, node, 0);
    if ((run->fused & value_bit((uint32_t)(node - run->block->node))) == 0) {
        const bp_gelu_forward_scalars scalars = {
            .count = (int64_t)count_of(input_of(run->block, node, 0))};
        const bp_gelu_forward_operands operands = {.y = y, .x = run->ref[x]};
        bp_build_gelu_forward(run->builder, &operands, &scalars);
        return;
    }
    const bp_node *product = &run->block->node[run->masks.maker[x]];
    bp_linear_forward_gelu(run->builder, &product->part[0], ref_of_input(run, product, 0),
                           run->ref[x], y);
}

static void gelu_backward(block_run *run, const bp_node *node)
{
    const bp_ref d = run->grad[node->out[0]];
    const bp_gelu_backward_scalars scalars = {.count =
                                                  (int64_t)count_of(input_of(run->block, node, 0))};
    const bp_gelu_backward_operands operands = {
        .d_x = d, .d_y = d, .x = ref_of_input(run, node, 0)};
    bp_build_gelu_backward(run->builder, &operands, &scalars);
    node_take_gradient(run, node->in[0], d);
}

static void activation_forward(const block_run *run, const bp_node *node)
{
    bp_activate(run->builder, node->activation, count_of(input_of(run->block, node, 0)),
                ref_of_input(run, node, 0), ref_of_output(run, node, 0));
}

/* By places, which share a row of gradients; what was made for this is given up. */
static void activation_places(block_run *run, const bp_node *node, uint32_t value, bp_ref row)
{
    const bp_ref x = run->ref[value];
    const bool held = (run->held & value_bit(value)) != 0;
    const bp_ref d = held ? node_make_gradient(run, node->in[0]) : x;
    const uint64_t width = value_width(input_of(run->block, node, 0));
    const uint64_t places = value_rows(input_of(run->block, node, 0)) / run->builder->rows;
    for (uint64_t i = 0; i < run->builder->rows * places; i++) {
        bp_activate_backward(run->builder, node->activation, width, bp_ref_at(x, i * width),
                             bp_ref_at(row, i / places * width), bp_ref_at(d, i * width));
    }
    node_take_gradient(run, node->in[0], d);
}

static void activation_backward(block_run *run, const bp_node *node)
{
    const bp_ref d = run->grad[node->out[0]], x = ref_of_input(run, node, 0);
    if ((run->placed & value_bit(node->out[0])) != 0) {
        activation_places(run, node, bp_ref_present(x) ? node->in[0] : node->out[0], d);
        return;
    }
    bp_activate_backward(run->builder, node->activation, count_of(input_of(run->block, node, 0)),
                         bp_ref_present(x) ? x : ref_of_output(run, node, 0), d, d);
    node_take_gradient(run, node->in[0], d);
}

/* The rows of up may be heads of those of the gate. */
static bool swiglu_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *gate = input_of(block, node, 0), *up = input_of(block, node, 1);
    return same_fits(block, node) && count_of(gate) == count_of(up) &&
           value_width(gate) % value_width(up) == 0;
}

static void swiglu_forward(const block_run *run, const bp_node *node)
{
    const int64_t count = (int64_t)count_of(input_of(run->block, node, 0));
    const bp_swiglu_forward_scalars scalars = {
        .count = count, .kind = node->gate, .width = count, .pitch = count};
    const bp_swiglu_forward_operands operands = {.y = ref_of_output(run, node, 0),
                                                 .gate = ref_of_input(run, node, 0),
                                                 .up = ref_of_input(run, node, 1)};
    bp_build_swiglu_forward(run->builder, &operands, &scalars);
}

/* The gradient of `up` takes its place where that was only made for this. */
static void swiglu_backward(block_run *run, const bp_node *node)
{
    const bool spare = (run->held & value_bit(node->in[1])) == 0;
    const bp_ref d = run->grad[node->out[0]];
    const int64_t count = (int64_t)count_of(input_of(run->block, node, 0));
    const bp_swiglu_backward_scalars scalars = {
        .count = count, .kind = node->gate, .width = count, .pitch = count};
    const bp_swiglu_backward_operands operands = {
        .d_gate = d,
        .d_up = spare ? ref_of_input(run, node, 1) : node_make_gradient(run, node->in[1]),
        .d_y = d,
        .gate = ref_of_input(run, node, 0),
        .up = ref_of_input(run, node, 1)};
    bp_build_swiglu_backward(run->builder, &operands, &scalars);
    node_take_gradient(run, node->in[0], d);
    node_take_gradient(run, node->in[1], operands.d_up);
}

/* Dropout in place: its own derivative. A sample's elements are counted from its first, however
 * many places its row has. */
static void apply_dropout(bp_builder *builder, const bp_node *node, const bp_value *value, bp_ref x)
{
    const double probability = bp_dropout_probability(builder, &node->dropout);
    if (!(probability > 0.0)) {
        return;
    }
    bp_token_lanes_whole(builder, BP_TOKEN_LANES_DROPOUT);
    const uint64_t count = count_of(value);
    const bp_dropout_scalars scalars = {.count = (int64_t)count,
                                        .per_sample = (int64_t)(count / builder->spec->batch),
                                        .site = node->dropout.site,
                                        .dropout = probability};
    const bp_dropout_operands operands = {
        .y = x, .x = x, .residual = BP_ABSENT, .step = builder->step};
    bp_build_dropout(builder, &operands, &scalars);
}

static void dropout_forward(const block_run *run, const bp_node *node)
{
    apply_dropout(run->builder, node, input_of(run->block, node, 0), ref_of_output(run, node, 0));
}

static void dropout_backward(block_run *run, const bp_node *node)
{
    const bp_ref d = run->grad[node->out[0]];
    apply_dropout(run->builder, node, input_of(run->block, node, 0), d);
    node_take_gradient(run, node->in[0], d);
}

static const node_row rows[BP_NODE_GATED] = {
    [BP_NODE_NORM] = {.name = "norm",
                      .inputs = 1,
                      .outputs = 2,
                      .reads = READS_INPUT(0) | READS_OUTPUT(1),
                      .fits = norm_fits,
                      .trains = norm_trains,
                      .forward = norm_forward,
                      .backward = norm_backward},
    [BP_NODE_HEAD_NORM] = {.name = "head norm",
                           .inputs = 1,
                           .outputs = 2,
                           .reads = READS_INPUT(0) | READS_OUTPUT(1),
                           .fits = head_norm_fits,
                           .trains = head_norm_trains,
                           .forward = head_norm_forward,
                           .backward = head_norm_backward},
    [BP_NODE_DENSE] = {.name = "dense",
                       .inputs = 1,
                       .ahead = true,
                       .fits = dense_fits,
                       .trains = dense_trains,
                       .trains_reading = dense_trains_reading,
                       .forward = dense_forward,
                       .backward = dense_backward},
    [BP_NODE_ROTARY] = {.name = "rotary",
                        .inputs = 1,
                        .outputs = 1,
                        .places = 1,
                        .must = true,
                        .first_name = true,
                        .fits = rotary_fits,
                        .forward = rotary_forward,
                        .backward = rotary_backward},
    [BP_NODE_ATTENTION] = {.name = "attention",
                           .inputs = 1,
                           .outputs = 2,
                           .reads = READS_INPUT(0) | READS_OUTPUT(0) | READS_OUTPUT(1),
                           .fits = attention_fits,
                           .trains = attention_trains,
                           .forward = attention_forward,
                           .backward = attention_backward},
    [BP_NODE_RESIDUAL] = {.name = "residual",
                          .inputs = 2,
                          .outputs = 1,
                          .ahead = true,
                          .places = 2,
                          .fits = residual_fits,
                          .trains = residual_trains,
                          .trains_reading = residual_trains_reading,
                          .forward = residual_forward,
                          .backward = residual_backward},
    [BP_NODE_GELU] = {.name = "gelu",
                      .inputs = 1,
                      .outputs = 1,
                      .reads = READS_INPUT(0),
                      .fits = same_fits,
                      .forward = gelu_forward,
                      .backward = gelu_backward},
    [BP_NODE_ACTIVATION] = {.name = "activation",
                            .inputs = 1,
                            .outputs = 1,
                            .reads = READS_INPUT(0),
                            .places = 1,
                            .fits = same_fits,
                            .forward = activation_forward,
                            .backward = activation_backward},
    [BP_NODE_SWIGLU] = {.name = "swiglu",
                        .inputs = 2,
                        .outputs = 1,
                        .reads = READS_INPUT(0) | READS_INPUT(1),
                        .places = 1,
                        .first_name = true,
                        .fits = swiglu_fits,
                        .forward = swiglu_forward,
                        .backward = swiglu_backward},
    [BP_NODE_DROPOUT] = {.name = "dropout",
                         .inputs = 1,
                         .outputs = 1,
                         .places = 1,
                         .must = true,
                         .fits = same_fits,
                         .forward = dropout_forward,
                         .backward = dropout_backward},
};

const node_row *node_row_of(const bp_node *node)
{
    return node->kind < BP_NODE_GATED         ? &rows[node->kind]
           : node->kind < BP_NODE_ROUTE       ? &node_gate_rows[node->kind - BP_NODE_GATED]
           : node->kind < BP_NODE_SPLIT       ? &node_experts_rows[node->kind - BP_NODE_ROUTE]
           : node->kind < BP_NODE_CROSS       ? &node_delta_rows[node->kind - BP_NODE_SPLIT]
           : node->kind < BP_NODE_EMBEDDING   ? &node_cross_rows[node->kind - BP_NODE_CROSS]
           : node->kind < BP_NODE_CONVOLUTION ? &node_piece_rows[node->kind - BP_NODE_EMBEDDING]
                                              : &node_image_rows[node->kind - BP_NODE_CONVOLUTION];
}

uint32_t node_outputs(const bp_node *node)
{
    const bool counts = node->kind == BP_NODE_DENSE || node->kind == BP_NODE_SPLIT;
    return counts ? node->parts : node_row_of(node)->outputs;
}

uint32_t node_reads(const bp_builder *builder, const bp_node *node)
{
    const node_row *row = node_row_of(node);
    const uint32_t reads = row->reads_of != NULL ? row->reads_of(builder, node) : row->reads;
    uint32_t mask = 0;
    for (uint32_t i = 0; i < row->inputs; i++) {
        mask |= (reads & READS_INPUT(i)) != 0 ? value_bit(node->in[i]) : 0;
    }
    for (uint32_t i = 0; i < node_outputs(node); i++) {
        mask |= (reads & READS_OUTPUT(i)) != 0 ? value_bit(node->out[i]) : 0;
    }
    const bool reading = row->trains_reading != NULL && row->trains_reading(builder, node);
    return mask | (reading ? value_bit(node->in[0]) : 0);
}
