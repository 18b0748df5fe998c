/* SPDX-License-Identifier: MIT */
/* One Llama block: forward, and backward from whatever part of the tape was kept; built as
 * gpt2_block.c explains. */
#include "layers/llama_block.h"

#include "layers/attention.h"
#include "layers/norm.h"
#include "layers/rotary.h"
#include "layers/swiglu.h"

typedef enum slot {
    SLOT_NORM_1,    /* (rows, width) */
    SLOT_RSTD_1,    /* (rows) its reciprocal deviations */
    SLOT_QKV,       /* (rows, (heads + 2 kv_heads) head_width), queries and keys turned */
    SLOT_ATTENTION, /* (rows, heads * head_width) attention's output before its projection */
    SLOT_LSE,       /* (heads, rows) log-sum-exp of the scores */
    SLOT_MIDDLE,    /* (rows, width) the stream between the sublayers */
    SLOT_NORM_2,    /* (rows, width) */
    SLOT_RSTD_2,    /* (rows) */
    SLOT_GATE,      /* (rows, inner) */
    SLOT_UP,        /* (rows, inner) */
    SLOT_ACTIVE,    /* (rows, inner) silu(gate) * up */
    SLOT_COUNT
} slot;

#define KEEP(s)        (1U << (s))
#define KEEP_NOTHING   0U
#define KEEP_ALL       (KEEP(SLOT_COUNT) - 1U)
#define KEEP_NORM_1    (KEEP(SLOT_NORM_1) | KEEP(SLOT_RSTD_1))
#define KEEP_NORM_2    (KEEP(SLOT_NORM_2) | KEEP(SLOT_RSTD_2))
#define KEEP_NORMS     (KEEP_NORM_1 | KEEP_NORM_2)
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
    "norm_1", "norm_1.rstd", "qkv",  "attention", "attention.lse", "middle",
    "norm_2", "norm_2.rstd", "gate", "up",        "swiglu"};

/* A block and the tape it works on. */
typedef struct block {
    bp_emit *emit;
    uint32_t keep; /* slots that outlive this action */
    uint32_t held; /* slots that were there when it began */
    bp_ref input;  /* (rows, width) */
    bp_ref *tape;  /* SLOT_COUNT */
    bp_llama_shape shape;
    uint64_t qkv_width;
    bp_norm norm_1;
    bp_linear part[3]; /* queries, keys, values; they share an output */
    bp_rotary rotary;
    bp_attention attention;
    bp_residual attention_end;
    bp_norm norm_2;
    bp_swiglu mlp;
} block;

bp_llama_shape bp_llama_shape_of(const bp_model_config *config)
{
    bp_llama_shape shape = {.width = config->width,
                            .inner = config->inner != 0 ? config->inner : 4 * config->width,
                            .heads = config->heads};
    shape.kv_heads = config->kv_heads != 0 ? config->kv_heads : shape.heads;
    shape.head_width = config->head_width != 0 ? config->head_width : shape.width / shape.heads;
    return shape;
}

bool bp_llama_has(const bp_model_config *config, bp_llama_parameter parameter)
{
    switch (parameter) {
    case BP_LLAMA_Q_BIAS:
    case BP_LLAMA_K_BIAS:
    case BP_LLAMA_V_BIAS:
        return config->qkv_bias;
    case BP_LLAMA_O_BIAS:
        return config->output_bias;
    case BP_LLAMA_GATE_BIAS:
    case BP_LLAMA_UP_BIAS:
    case BP_LLAMA_DOWN_BIAS:
        return config->mlp_bias;
    default:
        return true;
    }
}

uint32_t bp_llama_block_parameters(const bp_model_config *config)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < BP_LLAMA_BLOCK_PARAMETERS; p++) {
        count += bp_llama_has(config, (bp_llama_parameter)p) ? 1 : 0;
    }
    return count;
}

/* Numbers of a block's parameters, BP_NO_PARAMETER for those it lacks. */
static void number_parameters(const bp_model_config *config, uint32_t index,
                              uint32_t numbers[BP_LLAMA_BLOCK_PARAMETERS])
{
    uint32_t next = 1 + index * bp_llama_block_parameters(config);
    for (uint32_t p = 0; p < BP_LLAMA_BLOCK_PARAMETERS; p++) {
        const bool there = bp_llama_has(config, (bp_llama_parameter)p);
        numbers[p] = there ? next : BP_NO_PARAMETER;
        next += there ? 1 : 0;
    }
}

static bp_linear dense(const uint32_t *numbers, bp_llama_parameter weight, uint64_t in,
                       uint64_t out, uint64_t pitch)
{
    return (bp_linear){.weight = numbers[weight],
                       .bias = numbers[weight + 1],
                       .in = in,
                       .out = out,
                       .output_major = true,
                       .pitch = pitch};
}

static block describe(bp_emit *emit, bp_stage_call *call)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_llama_shape shape = bp_llama_shape_of(config);
    const uint64_t queries = shape.heads * shape.head_width;
    const uint64_t keys = shape.kv_heads * shape.head_width;
    const uint64_t pitch = queries + 2 * keys;
    uint32_t n[BP_LLAMA_BLOCK_PARAMETERS];
    number_parameters(config, call->stage - 1, n);
    return (block){
        .emit = emit,
        .input = call->input,
        .tape = call->tape,
        .shape = shape,
        .qkv_width = pitch,
        .norm_1 = {n[BP_LLAMA_NORM_1], BP_NO_PARAMETER, shape.width, config->norm_epsilon},
        .part = {dense(n, BP_LLAMA_Q_WEIGHT, shape.width, queries, pitch),
                 dense(n, BP_LLAMA_K_WEIGHT, shape.width, keys, pitch),
                 dense(n, BP_LLAMA_V_WEIGHT, shape.width, keys, pitch)},
        .rotary = {shape.head_width, config->rope_theta, config->rope_scaling},
        .attention = {.heads = (uint32_t)shape.heads,
                      .kv_heads = (uint32_t)shape.kv_heads,
                      .head_width = shape.head_width,
                      .dropout = {call->stage, config->attention_dropout}},
        .attention_end = {dense(n, BP_LLAMA_O_WEIGHT, queries, shape.width, 0), {0, 0.0}},
        .norm_2 = {n[BP_LLAMA_NORM_2], BP_NO_PARAMETER, shape.width, config->norm_epsilon},
        .mlp = {dense(n, BP_LLAMA_GATE_WEIGHT, shape.width, shape.inner, 0),
                dense(n, BP_LLAMA_UP_WEIGHT, shape.width, shape.inner, 0),
                {dense(n, BP_LLAMA_DOWN_WEIGHT, shape.inner, shape.width, 0), {0, 0.0}}}};
}

static bp_ref make(const block *b, slot s)
{
    const uint64_t rows = b->emit->rows;
    const uint64_t attended = b->shape.heads * b->shape.head_width;
    const uint64_t shape[SLOT_COUNT][2] = {
        [SLOT_NORM_1] = {rows, b->shape.width}, [SLOT_RSTD_1] = {1, rows},
        [SLOT_QKV] = {rows, b->qkv_width},      [SLOT_ATTENTION] = {rows, attended},
        [SLOT_LSE] = {b->shape.heads, rows},    [SLOT_MIDDLE] = {rows, b->shape.width},
        [SLOT_NORM_2] = {rows, b->shape.width}, [SLOT_RSTD_2] = {1, rows},
        [SLOT_GATE] = {rows, b->shape.inner},   [SLOT_UP] = {rows, b->shape.inner},
        [SLOT_ACTIVE] = {rows, b->shape.inner}};
    const bp_class class_of = (b->keep & KEEP(s)) != 0 ? BP_CLASS_TAPE : BP_CLASS_WORKSPACE;
    const bool statistics = s == SLOT_RSTD_1 || s == SLOT_LSE || s == SLOT_RSTD_2;
    const bp_dtype dtype = statistics ? BP_F32 : bp_emit_working(b->emit);
    return bp_emit_buffer(b->emit, class_of, dtype, shape[s][0], shape[s][1], slot_names[s]);
}

static bool keeps(const block *b, slot s)
{
    return (b->keep & KEEP(s)) != 0;
}

static bp_ref make_if_kept(const block *b, slot s)
{
    return keeps(b, s) ? make(b, s) : BP_ABSENT;
}

/* A norm's output for the products that follow it; see gpt2_block.c. */
static bp_ref bring_norm(block *b, const bp_norm *norm, bp_ref x, slot y, bool statistics)
{
    if (bp_ref_present(b->tape[y])) {
        return b->tape[y];
    }
    const slot second = (slot)(y + 1);
    const bp_ref made = make(b, y);
    const bp_ref rstd = statistics ? make(b, second) : BP_ABSENT;
    bp_norm_forward(b->emit, norm, b->emit->rows, x, made, rstd);
    if (statistics) {
        b->tape[y] = made;
        b->tape[second] = rstd;
    }
    return made;
}

/* Where part i of a row of qkv, or of its gradient, begins. */
static bp_ref part_of(const block *b, bp_ref qkv, uint32_t i)
{
    return bp_ref_at(qkv, i == 0 ? 0 : b->part[0].out + (i - 1) * b->part[1].out);
}

static void turn(const block *b, bp_ref qkv, bool back)
{
    bp_rotary_turn(b->emit, &b->rotary, b->shape.heads + b->shape.kv_heads, b->qkv_width, qkv,
                   back);
}

static void bring_qkv(block *b)
{
    if (bp_ref_present(b->tape[SLOT_QKV])) {
        return;
    }
    const bp_ref x = bring_norm(b, &b->norm_1, b->input, SLOT_NORM_1, keeps(b, SLOT_NORM_1));
    const bp_ref qkv = make(b, SLOT_QKV);
    b->tape[SLOT_QKV] = qkv;
    for (uint32_t i = 0; i < 3; i++) {
        bp_linear_forward(b->emit, &b->part[i], x, BP_ABSENT, part_of(b, qkv, i));
    }
    turn(b, qkv, false);
}

static void bring_attention(block *b)
{
    if (bp_ref_present(b->tape[SLOT_ATTENTION])) {
        return;
    }
    bring_qkv(b);
    b->tape[SLOT_ATTENTION] = make(b, SLOT_ATTENTION);
    b->tape[SLOT_LSE] = make_if_kept(b, SLOT_LSE);
    bp_attention_forward(b->emit, &b->attention, b->tape[SLOT_QKV], b->tape[SLOT_ATTENTION],
                         b->tape[SLOT_LSE]);
}

static void end_attention(block *b, bp_ref middle)
{
    bp_residual_forward(b->emit, &b->attention_end, b->tape[SLOT_ATTENTION], b->input, middle);
    b->tape[SLOT_MIDDLE] = middle;
}

static void bring_middle(block *b)
{
    if (bp_ref_present(b->tape[SLOT_MIDDLE])) {
        return;
    }
    bring_attention(b);
    end_attention(b, make(b, SLOT_MIDDLE));
}

static void bring_gates(block *b)
{
    if (bp_ref_present(b->tape[SLOT_GATE])) {
        return;
    }
    const bp_ref x =
        bring_norm(b, &b->norm_2, b->tape[SLOT_MIDDLE], SLOT_NORM_2, keeps(b, SLOT_NORM_2));
    b->tape[SLOT_GATE] = make(b, SLOT_GATE);
    b->tape[SLOT_UP] = make(b, SLOT_UP);
    bp_linear_forward(b->emit, &b->mlp.gate, x, BP_ABSENT, b->tape[SLOT_GATE]);
    bp_linear_forward(b->emit, &b->mlp.up, x, BP_ABSENT, b->tape[SLOT_UP]);
}

/* silu(gate) * up, over the gate where nobody needs that afterwards. */
static void bring_active(block *b)
{
    if (bp_ref_present(b->tape[SLOT_ACTIVE])) {
        return;
    }
    bring_gates(b);
    b->tape[SLOT_ACTIVE] = keeps(b, SLOT_GATE) ? make(b, SLOT_ACTIVE) : b->tape[SLOT_GATE];
    bp_swiglu_activate(b->emit, &b->mlp, b->tape[SLOT_GATE], b->tape[SLOT_UP],
                       b->tape[SLOT_ACTIVE]);
}

static bp_ref make_output(const block *b)
{
    return bp_emit_buffer(b->emit, b->emit->output_class, bp_emit_working(b->emit), b->emit->rows,
                          b->shape.width, "out");
}

/* From attention's output to the block's. The stream between the sublayers is written where the
 * output will be when nobody needs it afterwards. */
static bp_ref finish(block *b)
{
    const bool shared = !keeps(b, SLOT_MIDDLE);
    end_attention(b, shared ? make_output(b) : make(b, SLOT_MIDDLE));
    bring_active(b);
    const bp_ref out = shared ? b->tape[SLOT_MIDDLE] : make_output(b);
    bp_residual_forward(b->emit, &b->mlp.down, b->tape[SLOT_ACTIVE], b->tape[SLOT_MIDDLE], out);
    return out;
}

static void clear_tape(bp_ref *tape, uint32_t keep)
{
    for (uint32_t s = 0; s < SLOT_COUNT; s++) {
        if ((keep & (1U << s)) == 0) {
            tape[s] = BP_ABSENT;
        }
    }
}

void bp_llama_block_forward(bp_emit *emit, bp_stage_call *call)
{
    block b = describe(emit, call);
    b.keep = emit->mode == BP_MODE_TRAIN ? variant_keeps(call->variant) : KEEP_NOTHING;
    clear_tape(b.tape, KEEP_NOTHING);
    bring_attention(&b);
    call->output = finish(&b);
    clear_tape(b.tape, b.keep);
}

void bp_llama_block_decode(bp_emit *emit, bp_stage_call *call)
{
    block b = describe(emit, call);
    clear_tape(b.tape, KEEP_NOTHING);
    bring_qkv(&b);
    b.tape[SLOT_ATTENTION] = make(&b, SLOT_ATTENTION);
    bp_attention_decode(emit, &b.attention, b.tape[SLOT_QKV], b.tape[SLOT_ATTENTION]);
    call->output = finish(&b);
    clear_tape(b.tape, KEEP_NOTHING);
}

static bp_ref make_gradient(const block *b, uint64_t width, const char *name)
{
    return bp_emit_buffer(b->emit, BP_CLASS_WORKSPACE, bp_emit_working(b->emit), b->emit->rows,
                          width, name);
}

/* Gradient of the stream between the sublayers, from that of the output. */
static bp_ref backward_mlp(block *b, bp_ref d_out)
{
    bp_swiglu_backward_call mlp = {.gate = b->tape[SLOT_GATE],
                                   .up = b->tape[SLOT_UP],
                                   .active = b->tape[SLOT_ACTIVE],
                                   .up_spare = (b->held & KEEP(SLOT_UP)) == 0,
                                   .d_out = d_out};
    bp_swiglu_backward_down(b->emit, &b->mlp, &mlp);
    const bp_ref x = bring_norm(b, &b->norm_2, b->tape[SLOT_MIDDLE], SLOT_NORM_2, true);
    const bp_ref d_middle = bp_swiglu_backward_up(b->emit, &b->mlp, x, &mlp);
    const bp_norm_backward_call norm = {b->tape[SLOT_MIDDLE], b->tape[SLOT_RSTD_2], d_middle, d_out,
                                        true};
    bp_norm_backward(b->emit, &b->norm_2, &norm);
    return d_middle;
}

/* Gradients of the three projections, and that of what they read where it is wanted. */
static bp_ref backward_parts(block *b, bp_ref d_qkv, bool input_wanted)
{
    const bp_ref x = bring_norm(b, &b->norm_1, b->input, SLOT_NORM_1, true);
    for (uint32_t i = 0; i < 3; i++) {
        bp_linear_backward_parameters(b->emit, &b->part[i], x, part_of(b, d_qkv, i));
    }
    if (!input_wanted) {
        return BP_ABSENT;
    }
    const bp_ref d_x = make_gradient(b, b->shape.width, "d_input");
    bp_linear_backward_input(b->emit, &b->part[0], d_qkv, d_x);
    for (uint32_t i = 1; i < 3; i++) {
        bp_linear_backward_input_add(b->emit, &b->part[i], part_of(b, d_qkv, i), d_x);
    }
    return d_x;
}

/* Gradient of the block's input, from that of the stream between the sublayers. */
static bp_ref backward_attention(block *b, bp_ref d_middle, bool input_wanted)
{
    bring_qkv(b);
    bring_attention(b);
    const uint64_t attended = b->shape.heads * b->shape.head_width;
    const bp_ref d_attention = make_gradient(b, attended, "d_attention");
    bp_residual_backward(b->emit, &b->attention_end, b->tape[SLOT_ATTENTION], d_middle,
                         d_attention);
    const bp_attention_backward_call attention = {.qkv = b->tape[SLOT_QKV],
                                                  .out = b->tape[SLOT_ATTENTION],
                                                  .lse = b->tape[SLOT_LSE],
                                                  .d_out = d_attention,
                                                  .d_qkv = make_gradient(b, b->qkv_width, "d_qkv")};
    bp_attention_backward(b->emit, &b->attention, &attention);
    turn(b, attention.d_qkv, true);
    const bp_ref d_input =
        backward_parts(b, attention.d_qkv, input_wanted || bp_norm_trains(b->emit, &b->norm_1));
    if (!bp_ref_present(d_input)) {
        return BP_ABSENT;
    }
    const bp_norm_backward_call norm = {b->input, b->tape[SLOT_RSTD_1], d_input, d_middle,
                                        input_wanted};
    bp_norm_backward(b->emit, &b->norm_1, &norm);
    return input_wanted ? d_input : BP_ABSENT;
}

void bp_llama_block_backward(bp_emit *emit, bp_stage_call *call)
{
    block b = describe(emit, call);
    for (uint32_t s = 0; s < SLOT_COUNT; s++) {
        b.held |= bp_ref_present(b.tape[s]) ? 1U << s : 0;
    }
    /* Recomputation makes everything but the norms' outputs, which are made when they are read. */
    b.keep = KEEP_ALL & ~KEEP_NORMS;
    bring_middle(&b);
    bring_gates(&b);
    bring_active(&b);
    const bp_ref d_middle = backward_mlp(&b, call->d_output);
    call->d_input = backward_attention(&b, d_middle, call->input_wanted);
}

bp_graph_limits bp_llama_block_limits(bool backward)
{
    /* Forward: 13 ops with the table of angles, 11 buffers of the tape, the output, the table and 8
     * workspaces. Backward with an empty tape: 12 ops of recomputation, 31 of gradients; 11 buffers
     * of the tape, the table, 6 of gradients, 24 workspaces and the weight gradients. A name is at
     * most the stage's (12 characters) and a word of 20, a gradient's a little more. */
    const uint32_t ops = backward ? 44 : 13;
    const uint32_t buffers = backward ? 11 + 1 + 6 + 24 : 11 + 2 + 8;
    const uint32_t gradients = backward ? BP_LLAMA_BLOCK_PARAMETERS : 0;
    return (bp_graph_limits){.buffers = buffers + gradients,
                             .ops = ops,
                             .refs = 7 * ops,
                             .scalars = 10 * ops,
                             .name_bytes = 36 * buffers + 72 * gradients};
}
