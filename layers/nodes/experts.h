/* SPDX-License-Identifier: MIT */
/* A mixture of experts as nodes: a router's choice, the first products of the experts that were
 * chosen, and the last, whose rows join the stream. Each choice has a row of its own (experts.def),
 * so the buffers of a plan have their sizes whatever the router says. */
#ifndef BP_LAYERS_EXPERTS_H
#define BP_LAYERS_EXPERTS_H

#include "core/plan/builder.h"

typedef struct bp_experts {
    uint32_t gate_up; /* parameter number, (experts, 2 inner, width): gates, then ups, of each */
    uint32_t down;    /* parameter number, (experts, width, inner) */
    bool input_major; /* they are (experts, width, 2 inner) and (experts, inner, width) */
    bool biased; /* both have biases, whose numbers follow: (experts, 2 inner), (experts, width) */
    uint64_t experts;
    uint64_t chosen; /* of each token */
    uint64_t width;
    uint64_t inner;      /* of one expert */
    bool renormalise;    /* the shares of those chosen add up to 1 */
    bool scored;         /* shares are sigmoids, the choice goes by them and by `correction`: */
    uint32_t correction; /* parameter number, (experts) */
    uint32_t groups;     /* of experts, of which `kept` are chosen from; 0: one */
    uint32_t kept;
    double scale;     /* of the weights */
    bool balances;    /* the router adds to the balancing loss: builder->balance has, of each, */
    uint32_t router;  /* from the first on, the sums of route_balance; this one's number, */
    uint32_t routers; /* of so many; behind them are the slopes */
} bp_experts;

/* What the router says, in one value of 32-bit words: choices, their weights, and the order of
 * rows. Words of it. */
uint64_t bp_experts_words(const bp_experts *experts, uint64_t rows);

/* The router, from logits (rows, experts): the value `routing`; and back, from the gradient of the
 * weights, F32 (rows, chosen). */
void bp_experts_route(bp_builder *builder, const bp_experts *experts, uint64_t rows, bp_ref logits,
                      bp_ref routing);
void bp_experts_route_backward(bp_builder *builder, const bp_experts *experts, uint64_t rows,
                               bp_ref logits, bp_ref routing, bp_ref d_weights, bp_ref d_logits);

/* The router's part of the balancing loss, in training: what it chose is counted; all routers' loss
 * is added to the result, `coefficient` times; and what that adds to the gradient of the logits. */
void bp_experts_count(bp_builder *builder, const bp_experts *experts, uint64_t rows, bp_ref logits,
                      bp_ref routing);
void bp_experts_balance(bp_builder *builder, const bp_experts *experts, double coefficient);
void bp_experts_balance_backward(bp_builder *builder, const bp_experts *experts, uint64_t rows,
                                 bp_ref logits, bp_ref d_logits);

/* Numbers of builder->balance. */
uint64_t bp_experts_balance_words(uint64_t experts, uint64_t routers);

/* Whether a weight of them, its adapter or its bias is trained; the first two, which read what goes
 * in. */
bool bp_experts_trains(const bp_builder *builder, const bp_experts *experts, uint32_t weight);
bool bp_experts_trained(const bp_builder *builder, uint32_t weight);

/* gate_up (rows * chosen, 2 inner) of x (rows, width). */
void bp_experts_enter(bp_builder *builder, const bp_experts *experts, uint64_t rows, bp_ref x,
                      bp_ref routing, bp_ref gate_up);

/* From its gradient those of the weight and, unless d_x is absent, of x, added to `sum` where that
 * is there, which may be d_x. x is only read where the weight is trained. */
void bp_experts_enter_backward(bp_builder *builder, const bp_experts *experts, uint64_t rows,
                               bp_ref x, bp_ref routing, bp_ref d_gate_up, bp_ref sum, bp_ref d_x);

/* y (rows, width) = stream + what the experts make of `active` (rows * chosen, inner), by weight.
 */
void bp_experts_leave(bp_builder *builder, const bp_experts *experts, uint64_t rows, bp_ref active,
                      bp_ref routing, bp_ref stream, bp_ref y);

/* Its backward. */
typedef struct bp_experts_leave_call {
    bp_ref active;
    bp_ref routing;
    bp_ref d_y;
    bp_ref d_active;  /* out: may not lie where active does */
    bp_ref d_weights; /* out */
    bool spare;       /* nobody needs active afterwards */
} bp_experts_leave_call;

void bp_experts_leave_backward(bp_builder *builder, const bp_experts *experts, uint64_t rows,
                               const bp_experts_leave_call *call);

#endif
