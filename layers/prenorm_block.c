/* SPDX-License-Identifier: MIT */
/* One block: forward, and backward from whatever part of the tape was kept.
 *
 * The tape is an array of slots. Forward and recomputation are the same functions: bring_<slot>
 * makes what a slot holds, from the slots before it, unless it is there. So recomputed values come
 * from the very kernels of forward and are equal to the bit. */
#include "layers/prenorm_block.h"

typedef enum slot {
    SLOT_NORM_1,       /* (rows, width) the first norm's output */
    SLOT_STATISTICS_1, /* what its backward reads */
    SLOT_QKV,          /* (rows, qkv_width), queries and keys turned */
    SLOT_ATTENTION,    /* (rows, heads * head_width) attention's output before its projection */
    SLOT_LSE,          /* (heads, rows) log-sum-exp of the scores */
    SLOT_MIDDLE,       /* (rows, width) the stream between the sublayers */
    SLOT_NORM_2,       /* (rows, width) */
    SLOT_STATISTICS_2,
    SLOT_BEFORE, /* (rows, inner) before the activation: of the gate, where there is one */
    SLOT_UP,     /* (rows, inner) what the gate multiplies; not where there is none */
    SLOT_ACTIVE, /* (rows, inner) what the last projection reads */
    SLOT_COUNT
} slot;

#define KEEP(s)      (1U << (s))
#define KEEP_NOTHING 0U
#define KEEP_ALL     (KEEP(SLOT_COUNT) - 1U)
#define KEEP_NORMS                                                                                 \
    (KEEP(SLOT_NORM_1) | KEEP(SLOT_STATISTICS_1) | KEEP(SLOT_NORM_2) | KEEP(SLOT_STATISTICS_2))
#define KEEP_ATTENTION (KEEP(SLOT_ATTENTION) | KEEP(SLOT_LSE))

/* What each tape variant keeps: bits of `variant` name what it lacks. */
static uint32_t variant_keeps(uint32_t variant)
{
    if (variant > BP_RECOMPUTE_ALL) {
        return KEEP_NOTHING;
    }
    uint32_t keep = KEEP_ALL;
    keep &= (variant & BP_RECOMPUTE_NORM) != 0 ? ~KEEP_NORMS : KEEP_ALL;
    keep &= (variant & BP_RECOMPUTE_ACTIVATION) != 0 ? ~KEEP(SLOT_ACTIVE) : KEEP_ALL;
    keep &= (variant & BP_RECOMPUTE_ATTENTION) != 0 ? ~KEEP_ATTENTION : KEEP_ALL;
    return keep;
}

static const char *const slot_names[SLOT_COUNT] = {
    "norm_1", "norm_1.statistics", "qkv",    "attention", "attention.lse", "middle",
    "norm_2", "norm_2.statistics", "before", "up",        "active"};

/* A block and the tape it works on. */
typedef struct desk {
    bp_emit *emit;
    const bp_prenorm_block *block;
    uint32_t keep; /* slots that outlive this action */
    uint32_t held; /* slots that were there when it began */
    bp_ref input;  /* (rows, width) */
    bp_ref *tape;  /* SLOT_COUNT */
} desk;

static desk begin(bp_emit *emit, bp_stage_call *call, const bp_prenorm_block *block, uint32_t keep)
{
    desk d = {.emit = emit, .block = block, .keep = keep, .input = call->input, .tape = call->tape};
    for (uint32_t s = 0; s < SLOT_COUNT; s++) {
        d.held |= bp_ref_present(d.tape[s]) ? KEEP(s) : 0;
    }
    return d;
}

static uint64_t inner_of(const bp_prenorm_block *block)
{
    return block->gated ? block->swiglu.up.out : block->mlp.up.out;
}

static const bp_residual *end_of(const bp_prenorm_block *block)
{
    return block->gated ? &block->swiglu.down : &block->mlp.down;
}

static uint64_t attended(const bp_prenorm_block *block)
{
    return block->attention.heads * block->attention.head_width;
}

static bp_ref make(const desk *d, slot s)
{
    const bp_prenorm_block *b = d->block;
    const uint64_t rows = d->emit->rows, inner = inner_of(b);
    const uint64_t shape[SLOT_COUNT][2] = {
        [SLOT_NORM_1] = {rows, b->width},
        [SLOT_STATISTICS_1] = {bp_norm_statistics(&b->norm_1), rows},
        [SLOT_QKV] = {rows, b->qkv_width},
        [SLOT_ATTENTION] = {rows, attended(b)},
        [SLOT_LSE] = {b->attention.heads, rows},
        [SLOT_MIDDLE] = {rows, b->width},
        [SLOT_NORM_2] = {rows, b->width},
        [SLOT_STATISTICS_2] = {bp_norm_statistics(&b->norm_2), rows},
        [SLOT_BEFORE] = {rows, inner},
        [SLOT_UP] = {rows, inner},
        [SLOT_ACTIVE] = {rows, inner}};
    const bp_class class_of = (d->keep & KEEP(s)) != 0 ? BP_CLASS_TAPE : BP_CLASS_WORKSPACE;
    const bool statistics = s == SLOT_STATISTICS_1 || s == SLOT_LSE || s == SLOT_STATISTICS_2;
    const bp_dtype dtype = statistics ? BP_F32 : bp_emit_working(d->emit);
    return bp_emit_buffer(d->emit, class_of, dtype, shape[s][0], shape[s][1], slot_names[s]);
}

static bool keeps(const desk *d, slot s)
{
    return (d->keep & KEEP(s)) != 0;
}

static bp_ref make_if_kept(const desk *d, slot s)
{
    return keeps(d, s) ? make(d, s) : BP_ABSENT;
}

/* A norm's output for the products that follow it. With its statistics it enters the tape; without
 * it is only passed on, and backward makes it again (a pass over memory, little beside the
 * products) rather than hold it through everything in between. */
static bp_ref bring_norm(desk *d, const bp_norm *norm, bp_ref x, slot y, bool with_statistics)
{
    if (bp_ref_present(d->tape[y])) {
        return d->tape[y];
    }
    const slot second = (slot)(y + 1);
    const bp_ref made = make(d, y);
    const bp_ref statistics = with_statistics ? make(d, second) : BP_ABSENT;
    bp_norm_forward(d->emit, norm, d->emit->rows, x, made, statistics);
    if (with_statistics) {
        d->tape[y] = made;
        d->tape[second] = statistics;
    }
    return made;
}

static bp_ref bring_norm_1(desk *d, bool with_statistics)
{
    return bring_norm(d, &d->block->norm_1, d->input, SLOT_NORM_1, with_statistics);
}

static bp_ref bring_norm_2(desk *d, bool with_statistics)
{
    return bring_norm(d, &d->block->norm_2, d->tape[SLOT_MIDDLE], SLOT_NORM_2, with_statistics);
}

/* Where part i of a row of qkv, or of its gradient, begins. */
static bp_ref part_of(const bp_prenorm_block *b, bp_ref qkv, uint32_t i)
{
    return bp_ref_at(qkv, i == 0 ? 0 : b->part[0].out + (i - 1) * b->part[1].out);
}

static void turn(const desk *d, bp_ref qkv, bool back)
{
    const bp_prenorm_block *b = d->block;
    if (b->rotates) {
        bp_rotary_turn(d->emit, &b->rotary, b->attention.heads + b->attention.kv_heads,
                       b->qkv_width, qkv, back);
    }
}

static void bring_qkv(desk *d)
{
    const bp_prenorm_block *b = d->block;
    if (bp_ref_present(d->tape[SLOT_QKV])) {
        return;
    }
    const bp_ref x = bring_norm_1(d, keeps(d, SLOT_NORM_1));
    const bp_ref qkv = make(d, SLOT_QKV);
    d->tape[SLOT_QKV] = qkv;
    for (uint32_t i = 0; i < b->parts; i++) {
        bp_linear_forward(d->emit, &b->part[i], x, BP_ABSENT, part_of(b, qkv, i));
    }
    turn(d, qkv, false);
}

static void bring_attention(desk *d)
{
    if (bp_ref_present(d->tape[SLOT_ATTENTION])) {
        return;
    }
    bring_qkv(d);
    d->tape[SLOT_ATTENTION] = make(d, SLOT_ATTENTION);
    d->tape[SLOT_LSE] = make_if_kept(d, SLOT_LSE);
    bp_attention_forward(d->emit, &d->block->attention, d->tape[SLOT_QKV], d->tape[SLOT_ATTENTION],
                         d->tape[SLOT_LSE]);
}

static void end_attention(desk *d, bp_ref middle)
{
    bp_residual_forward(d->emit, &d->block->attention_end, d->tape[SLOT_ATTENTION], d->input,
                        middle);
    d->tape[SLOT_MIDDLE] = middle;
}

static void bring_middle(desk *d)
{
    if (bp_ref_present(d->tape[SLOT_MIDDLE])) {
        return;
    }
    bring_attention(d);
    end_attention(d, make(d, SLOT_MIDDLE));
}

static void bring_gates(desk *d)
{
    const bp_swiglu *swiglu = &d->block->swiglu;
    if (bp_ref_present(d->tape[SLOT_BEFORE])) {
        return;
    }
    const bp_ref x = bring_norm_2(d, keeps(d, SLOT_NORM_2));
    d->tape[SLOT_BEFORE] = make(d, SLOT_BEFORE);
    d->tape[SLOT_UP] = make(d, SLOT_UP);
    bp_linear_forward(d->emit, &swiglu->gate, x, BP_ABSENT, d->tape[SLOT_BEFORE]);
    bp_linear_forward(d->emit, &swiglu->up, x, BP_ABSENT, d->tape[SLOT_UP]);
}

/* silu(gate) * up, over the gate where nobody needs that afterwards. */
static void activate_gated(desk *d)
{
    bring_gates(d);
    d->tape[SLOT_ACTIVE] = keeps(d, SLOT_BEFORE) ? make(d, SLOT_ACTIVE) : d->tape[SLOT_BEFORE];
    bp_swiglu_activate(d->emit, &d->block->swiglu, d->tape[SLOT_BEFORE], d->tape[SLOT_UP],
                       d->tape[SLOT_ACTIVE]);
}

/* The values before and after GELU; the former only where they are kept. */
static void activate(desk *d)
{
    const bp_mlp *mlp = &d->block->mlp;
    d->tape[SLOT_ACTIVE] = make(d, SLOT_ACTIVE);
    if (bp_ref_present(d->tape[SLOT_BEFORE])) {
        bp_mlp_activate(d->emit, mlp, d->tape[SLOT_BEFORE], d->tape[SLOT_ACTIVE]);
        return;
    }
    const bp_ref x = bring_norm_2(d, keeps(d, SLOT_NORM_2));
    d->tape[SLOT_BEFORE] = make_if_kept(d, SLOT_BEFORE);
    bp_linear_forward_gelu(d->emit, &mlp->up, x, d->tape[SLOT_BEFORE], d->tape[SLOT_ACTIVE]);
}

static void bring_active(desk *d)
{
    if (bp_ref_present(d->tape[SLOT_ACTIVE])) {
        return;
    }
    if (d->block->gated) {
        activate_gated(d);
    } else {
        activate(d);
    }
}

static bp_ref make_output(const desk *d)
{
    return bp_emit_buffer(d->emit, d->emit->output_class, bp_emit_working(d->emit), d->emit->rows,
                          d->block->width, "out");
}

/* From attention's output to the block's. The stream between the sublayers is written where the
 * output will be when nobody needs it afterwards; dropout needs both at once. */
static bp_ref finish(desk *d)
{
    const bp_residual *end = end_of(d->block);
    const bool shared = !keeps(d, SLOT_MIDDLE) && !bp_residual_drops(d->emit, end);
    end_attention(d, shared ? make_output(d) : make(d, SLOT_MIDDLE));
    bring_active(d);
    const bp_ref out = shared ? d->tape[SLOT_MIDDLE] : make_output(d);
    bp_residual_forward(d->emit, end, d->tape[SLOT_ACTIVE], d->tape[SLOT_MIDDLE], out);
    return out;
}

static void clear_tape(bp_ref *tape, uint32_t keep)
{
    for (uint32_t s = 0; s < SLOT_COUNT; s++) {
        if ((keep & KEEP(s)) == 0) {
            tape[s] = BP_ABSENT;
        }
    }
}

void bp_prenorm_block_forward(bp_emit *emit, bp_stage_call *call, const bp_prenorm_block *block)
{
    clear_tape(call->tape, KEEP_NOTHING);
    desk d = begin(emit, call, block,
                   emit->mode == BP_MODE_TRAIN ? variant_keeps(call->variant) : KEEP_NOTHING);
    bring_attention(&d);
    call->output = finish(&d);
    clear_tape(d.tape, d.keep);
}

void bp_prenorm_block_decode(bp_emit *emit, bp_stage_call *call, const bp_prenorm_block *block)
{
    clear_tape(call->tape, KEEP_NOTHING);
    desk d = begin(emit, call, block, KEEP_NOTHING);
    bring_qkv(&d);
    d.tape[SLOT_ATTENTION] = make(&d, SLOT_ATTENTION);
    bp_attention_decode(emit, &block->attention, d.tape[SLOT_QKV], d.tape[SLOT_ATTENTION]);
    call->output = finish(&d);
    clear_tape(d.tape, KEEP_NOTHING);
}

static bp_ref make_gradient(const desk *d, uint64_t width, const char *name)
{
    return bp_emit_buffer(d->emit, BP_CLASS_WORKSPACE, bp_emit_working(d->emit), d->emit->rows,
                          width, name);
}

/* Gradient of the second norm's output, from that of the block's. */
static bp_ref backward_gated(desk *d, bp_ref d_out)
{
    const bp_swiglu *swiglu = &d->block->swiglu;
    bp_swiglu_backward_call call = {.gate = d->tape[SLOT_BEFORE],
                                    .up = d->tape[SLOT_UP],
                                    .active = d->tape[SLOT_ACTIVE],
                                    .up_spare = (d->held & KEEP(SLOT_UP)) == 0,
                                    .d_out = d_out};
    bp_swiglu_backward_down(d->emit, swiglu, &call);
    return bp_swiglu_backward_up(d->emit, swiglu, bring_norm_2(d, true), &call);
}

static bp_ref backward_plain(desk *d, bp_ref d_out)
{
    const bp_mlp *mlp = &d->block->mlp;
    const bp_ref d_before =
        bp_mlp_backward_down(d->emit, mlp, d->tape[SLOT_BEFORE], d->tape[SLOT_ACTIVE], d_out);
    return bp_mlp_backward_up(d->emit, mlp, bring_norm_2(d, true), d_before);
}

/* Gradient of the stream between the sublayers, from that of the output. */
static bp_ref backward_mlp(desk *d, bp_ref d_out)
{
    const bp_ref d_middle = d->block->gated ? backward_gated(d, d_out) : backward_plain(d, d_out);
    const bp_norm_backward_call call = {d->tape[SLOT_MIDDLE], d->tape[SLOT_STATISTICS_2], d_middle,
                                        d_out, true};
    bp_norm_backward(d->emit, &d->block->norm_2, &call);
    return d_middle;
}

/* Gradients of the projections, and that of what they read where it is wanted. */
static bp_ref backward_parts(desk *d, bp_ref d_qkv, bool input_wanted)
{
    const bp_prenorm_block *b = d->block;
    const bp_ref x = bring_norm_1(d, true);
    for (uint32_t i = 0; i < b->parts; i++) {
        bp_linear_backward_parameters(d->emit, &b->part[i], x, part_of(b, d_qkv, i));
    }
    if (!input_wanted) {
        return BP_ABSENT;
    }
    const bp_ref d_x = make_gradient(d, b->width, "d_input");
    bp_linear_backward_input(d->emit, &b->part[0], d_qkv, d_x);
    for (uint32_t i = 1; i < b->parts; i++) {
        bp_linear_backward_input_add(d->emit, &b->part[i], part_of(b, d_qkv, i), d_x);
    }
    return d_x;
}

/* Gradient of the block's input, from that of the stream between the sublayers. */
static bp_ref backward_attention(desk *d, bp_ref d_middle, bool input_wanted)
{
    const bp_prenorm_block *b = d->block;
    bring_qkv(d);
    bring_attention(d);
    const bp_ref d_attention = make_gradient(d, attended(b), "d_attention");
    bp_residual_backward(d->emit, &b->attention_end, d->tape[SLOT_ATTENTION], d_middle,
                         d_attention);
    const bp_attention_backward_call attention = {.qkv = d->tape[SLOT_QKV],
                                                  .out = d->tape[SLOT_ATTENTION],
                                                  .lse = d->tape[SLOT_LSE],
                                                  .d_out = d_attention,
                                                  .d_qkv = make_gradient(d, b->qkv_width, "d_qkv")};
    bp_attention_backward(d->emit, &b->attention, &attention);
    turn(d, attention.d_qkv, true);
    const bp_ref d_input =
        backward_parts(d, attention.d_qkv, input_wanted || bp_norm_trains(d->emit, &b->norm_1));
    if (!bp_ref_present(d_input)) {
        return BP_ABSENT;
    }
    const bp_norm_backward_call norm = {d->input, d->tape[SLOT_STATISTICS_1], d_input, d_middle,
                                        input_wanted};
    bp_norm_backward(d->emit, &b->norm_1, &norm);
    return input_wanted ? d_input : BP_ABSENT;
}

void bp_prenorm_block_backward(bp_emit *emit, bp_stage_call *call, const bp_prenorm_block *block)
{
    /* Recomputation makes everything but the norms' outputs, which are made when they are read. */
    desk d = begin(emit, call, block, KEEP_ALL & ~KEEP_NORMS);
    bring_middle(&d);
    bring_active(&d);
    const bp_ref d_middle = backward_mlp(&d, call->d_output);
    call->d_input = backward_attention(&d, d_middle, call->input_wanted);
}
