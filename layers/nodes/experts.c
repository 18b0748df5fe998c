/* SPDX-License-Identifier: MIT */
/* Experts as ops. */
#include "layers/nodes/experts.h"

#include "core/plan/passes/token_lanes.h"

#include "core/plan/adapter.h"
#include "layers/nodes/adapter.h"

/* The parts of the routing. */
typedef struct routing_parts {
    bp_ref choice;
    bp_ref weights;
    bp_ref order;
} routing_parts;

static routing_parts parts_of(const bp_experts *e, uint64_t rows, bp_ref routing)
{
    const uint64_t choices = rows * e->chosen;
    routing_parts parts = {.choice = routing,
                           .weights = bp_ref_at(routing, choices),
                           .order = bp_ref_at(routing, 2 * choices)};
    parts.weights.dtype = BP_F32;
    return parts;
}

uint64_t bp_experts_words(const bp_experts *experts, uint64_t rows)
{
    return 4 * rows * experts->chosen + experts->experts + 1;
}

static void route_scored(bp_builder *builder, const bp_experts *e, uint64_t rows, bp_ref logits,
                         const routing_parts *parts)
{
    const bp_route_choose_scored_scalars scalars = {.rows = (int64_t)rows,
                                                    .top = (int64_t)e->chosen,
                                                    .experts = (int64_t)e->experts,
                                                    .renormalise = e->renormalise ? 1 : 0,
                                                    .groups = e->groups > 0 ? e->groups : 1,
                                                    .kept = e->groups > 0 ? e->kept : 1,
                                                    .scale = e->scale};
    const bp_route_choose_scored_operands operands = {
        .choice = parts->choice,
        .weights = parts->weights,
        .logits = logits,
        .correction = bp_build_acquire(builder, e->correction, BP_FOR_FORWARD)};
    bp_build_route_choose_scored(builder, &operands, &scalars);
    bp_build_release(builder, e->correction);
}

static void route_plain(bp_builder *builder, const bp_experts *e, uint64_t rows, bp_ref logits,
                        const routing_parts *parts)
{
    const bp_route_choose_scalars scalars = {.rows = (int64_t)rows,
                                             .top = (int64_t)e->chosen,
                                             .experts = (int64_t)e->experts,
                                             .renormalise = e->renormalise ? 1 : 0};
    const bp_route_choose_operands operands = {
        .choice = parts->choice, .weights = parts->weights, .logits = logits};
    bp_build_route_choose(builder, &operands, &scalars);
}

void bp_experts_route(bp_builder *builder, const bp_experts *e, uint64_t rows, bp_ref logits,
                      bp_ref routing)
{
    const routing_parts parts = parts_of(e, rows, routing);
    bp_token_lanes_whole(builder, "experts take their tokens out of a whole micro-batch");
    if (e->scored) {
        route_scored(builder, e, rows, logits, &parts);
    } else {
        route_plain(builder, e, rows, logits, &parts);
    }
    const bp_route_order_scalars sizes = {
        .rows = (int64_t)rows, .top = (int64_t)e->chosen, .experts = (int64_t)e->experts};
    const bp_route_order_operands order = {.order = parts.order, .choice = parts.choice};
    bp_build_route_order(builder, &order, &sizes);
}

void bp_experts_route_backward(bp_builder *builder, const bp_experts *e, uint64_t rows,
                               bp_ref logits, bp_ref routing, bp_ref d_weights, bp_ref d_logits)
{
    const routing_parts parts = parts_of(e, rows, routing);
    if (e->scored) {
        const bp_route_scored_backward_scalars scored = {.rows = (int64_t)rows,
                                                         .top = (int64_t)e->chosen,
                                                         .experts = (int64_t)e->experts,
                                                         .renormalise = e->renormalise ? 1 : 0,
                                                         .scale = e->scale};
        const bp_route_scored_backward_operands of = {
            .d_logits = d_logits, .d_weights = d_weights, .logits = logits, .choice = parts.choice};
        bp_build_route_scored_backward(builder, &of, &scored);
        return;
    }
    const bp_route_backward_scalars scalars = {.rows = (int64_t)rows,
                                               .top = (int64_t)e->chosen,
                                               .experts = (int64_t)e->experts,
                                               .renormalise = e->renormalise ? 1 : 0};
    const bp_route_backward_operands operands = {.d_logits = d_logits,
                                                 .d_weights = d_weights,
                                                 .logits = logits,
                                                 .choice = parts.choice,
                                                 .weights = parts.weights};
    bp_build_route_backward(builder, &operands, &scalars);
}

uint64_t bp_experts_balance_words(uint64_t experts, uint64_t routers)
{
    return (2 * routers + 1) * experts;
}

static bp_ref slopes_of(const bp_builder *builder, const bp_experts *e)
{
    return bp_ref_at(builder->balance, 2 * e->routers * e->experts);
}

/* Samples of a micro-batch, whose lengths the model declares where it has a balancing loss. */
static uint64_t balance_samples(const bp_builder *builder)
{
    return builder->spec->batch;
}

void bp_experts_count(bp_builder *builder, const bp_experts *e, uint64_t rows, bp_ref logits,
                      bp_ref routing)
{
    if (!e->balances || builder->mode != BP_MODE_TRAIN) {
        return;
    }
    const bp_route_balance_scalars scalars = {.rows = (int64_t)rows,
                                              .top = (int64_t)e->chosen,
                                              .experts = (int64_t)e->experts,
                                              .samples = (int64_t)balance_samples(builder)};
    const bp_route_balance_operands operands = {
        .sums = bp_ref_at(builder->balance, 2 * e->router * e->experts),
        .logits = logits,
        .choice = parts_of(e, rows, routing).choice,
        .lengths = builder->input[BP_INPUT_LENGTHS]};
    bp_build_route_balance(builder, &operands, &scalars);
}

void bp_experts_balance(bp_builder *builder, const bp_experts *e, double coefficient)
{
    if (!e->balances || builder->loss_counted) {
        return;
    }
    const bool pairs = builder->spec->preference.kind != BP_PREFERENCE_NONE;
    const bp_route_balance_loss_scalars scalars = {.layers = e->routers,
                                                   .top = (int64_t)e->chosen,
                                                   .experts = (int64_t)e->experts,
                                                   .tells = pairs ? 0 : 1,
                                                   .coefficient = coefficient};
    const bp_route_balance_loss_operands operands = {.result = builder->result,
                                                     .slopes = slopes_of(builder, e),
                                                     .sums = builder->balance,
                                                     .step = builder->step};
    bp_build_route_balance_loss(builder, &operands, &scalars);
}

void bp_experts_balance_backward(bp_builder *builder, const bp_experts *e, uint64_t rows,
                                 bp_ref logits, bp_ref d_logits)
{
    if (!e->balances) {
        return;
    }
    const bp_route_balance_backward_scalars scalars = {
        .rows = (int64_t)rows,
        .top = (int64_t)e->chosen,
        .experts = (int64_t)e->experts,
        .samples = (int64_t)balance_samples(builder),
        .scaled = builder->spec->scaling.kind != BP_SCALING_OFF ? 1 : 0};
    const bp_route_balance_backward_operands operands = {.d_logits = d_logits,
                                                         .logits = logits,
                                                         .slopes = slopes_of(builder, e),
                                                         .lengths =
                                                             builder->input[BP_INPUT_LENGTHS],
                                                         .control = bp_build_loss_control(builder)};
    bp_build_route_balance_backward(builder, &operands, &scalars);
}

/* Weights of experts are read of those that have rows, by the order of choices, which begins with
 * the runs of rows. */
static bp_ref acquire(bp_builder *builder, const bp_experts *e, uint64_t rows, uint32_t parameter,
                      bp_purpose purpose, bp_ref order)
{
    const bp_routed routed = {
        .runs = order, .experts = e->experts, .tokens = rows, .top = e->chosen};
    return bp_build_acquire_routed(builder, parameter, purpose, &routed);
}

/* Rows of the choices, of x (rows, width). */
static bp_ref gather(bp_builder *builder, const bp_experts *e, uint64_t rows, bp_ref x,
                     const routing_parts *parts, const char *name)
{
    const bp_ref y = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                     rows * e->chosen, e->width, name);
    const bp_expert_rows_scalars scalars = {.rows = (int64_t)rows,
                                            .top = (int64_t)e->chosen,
                                            .experts = (int64_t)e->experts,
                                            .width = (int64_t)e->width};
    const bp_expert_rows_operands operands = {.y = y, .x = x, .order = parts->order};
    bp_build_expert_rows(builder, &operands, &scalars);
    return y;
}

/* y = sum + the rows of each token, by weight or, where those are absent, as they are. */
static void combine(bp_builder *builder, const bp_experts *e, uint64_t rows,
                    const bp_expert_combine_operands *operands)
{
    const bp_expert_combine_scalars scalars = {.rows = (int64_t)rows,
                                               .top = (int64_t)e->chosen,
                                               .experts = (int64_t)e->experts,
                                               .width = (int64_t)e->width};
    bp_build_expert_combine(builder, operands, &scalars);
}

/* c (rows * chosen, n) = a (rows * chosen, k) times each row's expert's part of the parameter. */
typedef struct experts_product {
    uint32_t parameter;
    bp_purpose purpose;
    uint64_t n;
    uint64_t k;
    bool transpose; /* the parameter has (n, k) of each expert */
    bool adds;      /* to what c has */
} experts_product;

/* The same of a parameter in codes, whose matrices are (out, in) whatever the model publishes. */
static void multiply_codes(bp_builder *builder, const bp_experts *e, uint64_t rows,
                           const experts_product *product, bp_ref a, bp_ref order, bp_ref c)
{
    const bp_matmul_experts_quantised_scalars scalars = {
        .rows = (int64_t)rows,
        .top = (int64_t)e->chosen,
        .experts = (int64_t)e->experts,
        .n = (int64_t)product->n,
        .k = (int64_t)product->k,
        .transpose_b = product->purpose == BP_FOR_FORWARD,
        .form = (int64_t)builder->parameters[product->parameter].quantised};
    const bp_ref codes = acquire(builder, e, rows, product->parameter, product->purpose, order);
    const bp_matmul_experts_quantised_operands operands = {
        .c = c,
        .a = a,
        .codes = codes,
        .scales = bp_build_scales(builder, product->parameter),
        .nested = bp_build_nested(builder, product->parameter),
        .order = order,
        .residual = product->adds ? c : BP_ABSENT,
        .work = BP_ABSENT};
    bp_build_matmul_experts_quantised(builder, &operands, &scalars);
    bp_build_release(builder, product->parameter);
}

static void multiply(bp_builder *builder, const bp_experts *e, uint64_t rows,
                     const experts_product *product, bp_ref a, bp_ref order, bp_ref c)
{
    if (bp_build_quantised(builder, product->parameter)) {
        multiply_codes(builder, e, rows, product, a, order, c);
        return;
    }
    const bp_matmul_experts_scalars scalars = {.rows = (int64_t)rows,
                                               .top = (int64_t)e->chosen,
                                               .experts = (int64_t)e->experts,
                                               .n = (int64_t)product->n,
                                               .k = (int64_t)product->k,
                                               .transpose_b = product->transpose ? 1 : 0};
    const bp_matmul_experts_operands operands = {
        .c = c,
        .a = a,
        .b = acquire(builder, e, rows, product->parameter, product->purpose, order),
        .order = order,
        .residual = product->adds ? c : BP_ABSENT,
        .work = BP_ABSENT};
    bp_build_matmul_experts(builder, &operands, &scalars);
    bp_build_release(builder, product->parameter);
}

/* c (rows * chosen, width): in each row the expert's part of a weight's bias. */
static void spread_bias(bp_builder *builder, const bp_experts *e, uint64_t rows, uint32_t weight,
                        uint64_t width, bp_ref order, bp_ref c)
{
    const bp_expert_bias_scalars scalars = {.rows = (int64_t)rows,
                                            .top = (int64_t)e->chosen,
                                            .experts = (int64_t)e->experts,
                                            .width = (int64_t)width};
    const bp_expert_bias_operands operands = {
        .y = c,
        .bias = acquire(builder, e, rows, weight + 1, BP_FOR_FORWARD, order),
        .order = order};
    bp_build_expert_bias(builder, &operands, &scalars);
    bp_build_release(builder, weight + 1);
}

/* The gradient of a weight's bias, from that of its rows, by their weights where they are there. */
static void train_bias(bp_builder *builder, const bp_experts *e, uint64_t rows, uint32_t weight,
                       bp_ref d_y, bp_ref weights, bp_ref order)
{
    if (!e->biased || !bp_build_trainable(builder, weight + 1)) {
        return;
    }
    bp_expert_bias_backward_scalars scalars = {
        .rows = (int64_t)rows,
        .top = (int64_t)e->chosen,
        .experts = (int64_t)e->experts,
        .width = (int64_t)builder->parameters[weight + 1].shape[1]};
    const bp_expert_bias_backward_operands operands = {
        .d_bias = bp_build_gradient(builder, weight + 1, &scalars.accumulate),
        .d_y = d_y,
        .weights = weights,
        .order = order};
    bp_build_expert_bias_backward(builder, &operands, &scalars);
}

/* What the bias of the last product adds to the gradient of the weights that follow it. */
static void weigh_bias(bp_builder *builder, const bp_experts *e, uint64_t rows, bp_ref d_weights,
                       bp_ref d_y, bp_ref order)
{
    const bp_expert_bias_weights_scalars scalars = {.rows = (int64_t)rows,
                                                    .top = (int64_t)e->chosen,
                                                    .experts = (int64_t)e->experts,
                                                    .width = (int64_t)e->width};
    const bp_expert_bias_weights_operands operands = {
        .d_weights = d_weights,
        .d_y = d_y,
        .bias = acquire(builder, e, rows, e->down + 1, BP_FOR_BACKWARD, order),
        .order = order};
    bp_build_expert_bias_weights(builder, &operands, &scalars);
    bp_build_release(builder, e->down + 1);
}

/* The gradient of a parameter: of each expert (m, n), its last two dimensions, the sum of a^T b
 * over its rows. */
static void sum_up(bp_builder *builder, const bp_experts *e, uint64_t rows, uint32_t parameter,
                   bp_ref a, bp_ref b, bp_ref order)
{
    if (builder->status != BP_OK) {
        return;
    }
    const uint64_t *shape = builder->parameters[parameter].shape;
    bp_matmul_experts_sums_scalars scalars = {.rows = (int64_t)rows,
                                              .top = (int64_t)e->chosen,
                                              .experts = (int64_t)e->experts,
                                              .m = (int64_t)shape[1],
                                              .n = (int64_t)shape[2]};
    const bp_matmul_experts_sums_operands operands = {
        .c = bp_build_gradient(builder, parameter, &scalars.accumulate),
        .a = a,
        .b = b,
        .order = order,
        .work = BP_ABSENT};
    bp_build_matmul_experts_sums(builder, &operands, &scalars);
}

/* The adapter of a weight of the experts, rows (choices, in) of whose tokens go in. */
typedef struct experts_adapter {
    const bp_experts *e;
    uint64_t rows;
    uint32_t weight;
    uint64_t in;
    uint64_t out;
    bp_ref order;
} experts_adapter;

static uint32_t expert_a_of(const bp_builder *builder, const experts_adapter *of)
{
    return builder->parameters[of->weight].adapter;
}

static uint64_t expert_rank_of(const bp_builder *builder, const experts_adapter *of)
{
    return builder->parameters[expert_a_of(builder, of)].shape[1];
}

/* s x op(matrix), a buffer (choices, r): A of what goes in, B of a gradient. */
static bp_ref experts_narrow(bp_builder *builder, const experts_adapter *of, bp_ref x, bool back)
{
    const uint64_t rank = expert_rank_of(builder, of), choices = of->rows * of->e->chosen;
    const bp_ref u = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                     choices, rank, back ? "lora_d_u" : "lora_u");
    const experts_product product = {.parameter = expert_a_of(builder, of) + (back ? 1 : 0),
                                     .purpose = back ? BP_FOR_BACKWARD : BP_FOR_FORWARD,
                                     .n = rank,
                                     .k = back ? of->out : of->in,
                                     .transpose = !back};
    multiply(builder, of->e, of->rows, &product, x, of->order, u);
    const double factor =
        bp_adapter_scale(&builder->spec->lora, bp_adapter_part(builder, of->weight));
    if (factor < 1.0 || factor > 1.0) {
        const bp_scale_scalars scalars = {.count = (int64_t)(choices * rank), .factor = factor};
        bp_build_scale(builder, &(bp_scale_operands){.y = u, .x = u}, &scalars);
    }
    return u;
}

/* y (choices, out) += s (x A^T) B^T of each row's expert. */
static void experts_adapter_forward(bp_builder *builder, const experts_adapter *of, bp_ref x,
                                    bp_ref y)
{
    if (!bp_adapter_there(builder, of->weight)) {
        return;
    }
    const bp_ref u = experts_narrow(builder, of, x, false);
    const experts_product product = {.parameter = expert_a_of(builder, of) + 1,
                                     .purpose = BP_FOR_FORWARD,
                                     .n = of->out,
                                     .k = expert_rank_of(builder, of),
                                     .transpose = true,
                                     .adds = true};
    multiply(builder, of->e, of->rows, &product, u, of->order, y);
}

/* d_A (+)= (s d_y B)^T x and d_B (+)= d_y^T (s x A^T) of each expert. */
static void experts_adapter_train(bp_builder *builder, const experts_adapter *of, bp_ref x,
                                  bp_ref d_y)
{
    if (!bp_adapter_there(builder, of->weight)) {
        return;
    }
    const uint32_t a = expert_a_of(builder, of);
    if (bp_build_trainable(builder, a + 1)) {
        sum_up(builder, of->e, of->rows, a + 1, d_y, experts_narrow(builder, of, x, false),
               of->order);
    }
    if (bp_build_trainable(builder, a)) {
        sum_up(builder, of->e, of->rows, a, experts_narrow(builder, of, d_y, true), x, of->order);
    }
}

/* d_x (choices, in) += s (d_y B) A. */
static void experts_adapter_backward(bp_builder *builder, const experts_adapter *of, bp_ref d_y,
                                     bp_ref d_x)
{
    if (!bp_adapter_there(builder, of->weight)) {
        return;
    }
    const bp_ref d_u = experts_narrow(builder, of, d_y, true);
    const experts_product product = {.parameter = expert_a_of(builder, of),
                                     .purpose = BP_FOR_BACKWARD,
                                     .n = of->in,
                                     .k = expert_rank_of(builder, of),
                                     .adds = true};
    multiply(builder, of->e, of->rows, &product, d_u, of->order, d_x);
}

static experts_adapter enter_adapter(const bp_experts *e, uint64_t rows, bp_ref order)
{
    return (experts_adapter){e, rows, e->gate_up, e->width, 2 * e->inner, order};
}

static experts_adapter leave_adapter(const bp_experts *e, uint64_t rows, bp_ref order)
{
    return (experts_adapter){e, rows, e->down, e->inner, e->width, order};
}

/* The gradient of a weight, from that of what it makes of x. */
static void train_weight(bp_builder *builder, const bp_experts *e, uint64_t rows, uint32_t weight,
                         bp_ref x, bp_ref d_y, bp_ref order)
{
    if (bp_build_trainable(builder, weight)) {
        sum_up(builder, e, rows, weight, e->input_major ? x : d_y, e->input_major ? d_y : x, order);
    }
}

bool bp_experts_trains(const bp_builder *builder, const bp_experts *e, uint32_t weight)
{
    return bp_experts_trained(builder, weight) ||
           (e->biased && bp_build_trainable(builder, weight + 1));
}

bool bp_experts_trained(const bp_builder *builder, uint32_t weight)
{
    return bp_build_trainable(builder, weight) ||
           (bp_adapter_there(builder, weight) && bp_adapter_trains(builder, weight));
}

void bp_experts_enter(bp_builder *builder, const bp_experts *e, uint64_t rows, bp_ref x,
                      bp_ref routing, bp_ref gate_up)
{
    const routing_parts parts = parts_of(e, rows, routing);
    const experts_adapter adapter = enter_adapter(e, rows, parts.order);
    const experts_product product = {e->gate_up, BP_FOR_FORWARD,  2 * e->inner,
                                     e->width,   !e->input_major, e->biased};
    const bp_ref gathered = gather(builder, e, rows, x, &parts, "expert_rows");
    if (e->biased) {
        spread_bias(builder, e, rows, e->gate_up, 2 * e->inner, parts.order, gate_up);
    }
    multiply(builder, e, rows, &product, gathered, parts.order, gate_up);
    experts_adapter_forward(builder, &adapter, gathered, gate_up);
}

void bp_experts_enter_backward(bp_builder *builder, const bp_experts *e, uint64_t rows, bp_ref x,
                               bp_ref routing, bp_ref d_gate_up, bp_ref sum, bp_ref d_x)
{
    const routing_parts parts = parts_of(e, rows, routing);
    const experts_adapter adapter = enter_adapter(e, rows, parts.order);
    const experts_product product = {e->gate_up,   BP_FOR_BACKWARD, e->width,
                                     2 * e->inner, e->input_major,  false};
    train_bias(builder, e, rows, e->gate_up, d_gate_up, BP_ABSENT, parts.order);
    if (bp_experts_trained(builder, e->gate_up)) {
        const bp_ref gathered = gather(builder, e, rows, x, &parts, "expert_rows");
        train_weight(builder, e, rows, e->gate_up, gathered, d_gate_up, parts.order);
        experts_adapter_train(builder, &adapter, gathered, d_gate_up);
    }
    if (!bp_ref_present(d_x)) {
        return;
    }
    const bp_ref d_rows = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                          rows * e->chosen, e->width, "d_expert_rows");
    multiply(builder, e, rows, &product, d_gate_up, parts.order, d_rows);
    experts_adapter_backward(builder, &adapter, d_gate_up, d_rows);
    combine(
        builder, e, rows,
        &(bp_expert_combine_operands){
            .y = d_x, .x = d_rows, .weights = BP_ABSENT, .order = parts.order, .residual = sum});
}

void bp_experts_leave(bp_builder *builder, const bp_experts *e, uint64_t rows, bp_ref active,
                      bp_ref routing, bp_ref stream, bp_ref y)
{
    const routing_parts parts = parts_of(e, rows, routing);
    const experts_adapter adapter = leave_adapter(e, rows, parts.order);
    const experts_product product = {e->down,  BP_FOR_FORWARD,  e->width,
                                     e->inner, !e->input_major, e->biased};
    const bp_ref made = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                        rows * e->chosen, e->width, "expert_rows");
    if (e->biased) {
        spread_bias(builder, e, rows, e->down, e->width, parts.order, made);
    }
    multiply(builder, e, rows, &product, active, parts.order, made);
    experts_adapter_forward(builder, &adapter, active, made);
    combine(
        builder, e, rows,
        &(bp_expert_combine_operands){
            .y = y, .x = made, .weights = parts.weights, .order = parts.order, .residual = stream});
}

void bp_experts_leave_backward(bp_builder *builder, const bp_experts *e, uint64_t rows,
                               const bp_experts_leave_call *call)
{
    const routing_parts parts = parts_of(e, rows, call->routing);
    const experts_adapter adapter = leave_adapter(e, rows, parts.order);
    const experts_product product = {e->down,  BP_FOR_BACKWARD, e->inner,
                                     e->width, e->input_major,  false};
    const bool trained = bp_experts_trained(builder, e->down);
    const bp_ref d_rows = gather(builder, e, rows, call->d_y, &parts, "d_expert_rows");
    multiply(builder, e, rows, &product, d_rows, parts.order, call->d_active);
    experts_adapter_backward(builder, &adapter, d_rows, call->d_active);
    bp_ref scaled = BP_ABSENT;
    if (trained) {
        scaled = call->spare
                     ? call->active
                     : bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                       rows * e->chosen, e->inner, "weighted");
    }
    const bp_expert_weights_backward_scalars scalars = {.rows = (int64_t)rows,
                                                        .top = (int64_t)e->chosen,
                                                        .experts = (int64_t)e->experts,
                                                        .width = (int64_t)e->inner};
    const bp_expert_weights_backward_operands operands = {.g = call->d_active,
                                                          .d_weights = call->d_weights,
                                                          .scaled = scaled,
                                                          .x = call->active,
                                                          .weights = parts.weights,
                                                          .order = parts.order};
    bp_build_expert_weights_backward(builder, &operands, &scalars);
    if (e->biased) {
        weigh_bias(builder, e, rows, call->d_weights, d_rows, parts.order);
        train_bias(builder, e, rows, e->down, d_rows, parts.weights, parts.order);
    }
    if (trained) {
        train_weight(builder, e, rows, e->down, scaled, d_rows, parts.order);
        /* by the weights' rows, too: they go with what went in */
        experts_adapter_train(builder, &adapter, scaled, d_rows);
    }
}
