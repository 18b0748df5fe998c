/* SPDX-License-Identifier: MIT */
/* One BERT block: forward, and backward from whatever part of the tape was kept; built as
 * prenorm_block.c explains. */
#include "layers/bert_block.h"

#include "layers/activate.h"
#include "layers/attention.h"
#include "layers/norm.h"
#include "layers/residual.h"
#include "layers/transformer.h"

typedef enum slot {
    SLOT_QKV,          /* (rows, 3 width) */
    SLOT_ATTENTION,    /* (rows, width) attention's output before its projection */
    SLOT_LSE,          /* (heads, rows) log-sum-exp of the scores */
    SLOT_SUM_1,        /* (rows, width) what the first norm reads */
    SLOT_STATISTICS_1, /* (2, rows) its means and reciprocal deviations */
    SLOT_NORM_1,       /* (rows, width) the stream between the sublayers */
    SLOT_BEFORE,       /* (rows, inner) before GELU */
    SLOT_ACTIVE,       /* (rows, inner) after GELU */
    SLOT_SUM_2,        /* (rows, width) what the second norm reads */
    SLOT_STATISTICS_2, /* (2, rows) */
    SLOT_COUNT
} slot;

#define KEEP(s)      (1U << (s))
#define KEEP_NOTHING 0U
#define KEEP_ALL     (KEEP(SLOT_COUNT) - 1U)

/* What each tape variant keeps: bits of `variant` name what it lacks. Of the norms only the first
 * one's output can be made again: what it reads is kept. */
static uint32_t variant_keeps(uint32_t variant)
{
    if (variant > BP_RECOMPUTE_ALL) {
        return KEEP_NOTHING;
    }
    uint32_t keep = KEEP_ALL;
    keep &= (variant & BP_RECOMPUTE_NORM) != 0 ? ~KEEP(SLOT_NORM_1) : KEEP_ALL;
    keep &= (variant & BP_RECOMPUTE_ACTIVATION) != 0 ? ~KEEP(SLOT_ACTIVE) : KEEP_ALL;
    keep &= (variant & BP_RECOMPUTE_ATTENTION) != 0 ? ~(KEEP(SLOT_ATTENTION) | KEEP(SLOT_LSE))
                                                    : KEEP_ALL;
    return keep;
}

static const char *const slot_names[SLOT_COUNT] = {
    "qkv",    "attention", "attention.lse", "sum_1", "norm_1.statistics",
    "norm_1", "up",        "gelu",          "sum_2", "norm_2.statistics"};

/* A block and the tape it works on. */
typedef struct block {
    bp_emit *emit;
    uint32_t keep; /* slots that outlive this action */
    bp_ref input;  /* (rows, width) */
    bp_ref *tape;  /* SLOT_COUNT */
    uint64_t width;
    uint64_t inner;
    bp_linear part[3]; /* queries, keys, values; they share an output */
    bp_attention attention;
    bp_residual attention_end;
    bp_norm norm_1;
    bp_linear up;
    bp_residual down;
    bp_norm norm_2;
} block;

/* Three tables and a norm come before. */
uint32_t bp_bert_block_first(uint32_t index)
{
    return 5 + BP_BERT_BLOCK_PARAMETERS * index;
}

static bp_linear dense(uint32_t weight, uint64_t in, uint64_t out, uint64_t pitch)
{
    return (bp_linear){.weight = weight,
                       .bias = weight + 1,
                       .in = in,
                       .out = out,
                       .output_major = true,
                       .pitch = pitch};
}

/* Dropout sites: 0 is the embedding's; each block has three. */
static block describe(bp_emit *emit, bp_stage_call *call)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_transformer own = bp_transformer_of(config);
    const uint32_t index = call->stage - 1;
    const uint32_t first = bp_bert_block_first(index);
    const uint32_t site = 1 + 3 * index;
    const uint64_t width = own.width;
    const uint64_t inner = bp_transformer_inner(&own);
    return (block){.emit = emit,
                   .input = call->input,
                   .tape = call->tape,
                   .width = width,
                   .inner = inner,
                   .part = {dense(first + BP_BERT_Q_WEIGHT, width, width, 3 * width),
                            dense(first + BP_BERT_K_WEIGHT, width, width, 3 * width),
                            dense(first + BP_BERT_V_WEIGHT, width, width, 3 * width)},
                   .attention = {.heads = own.heads,
                                 .head_width = width / own.heads,
                                 .bidirectional = true,
                                 .padded = true,
                                 .lengths = emit->lengths,
                                 .dropout = {site, own.attention_dropout}},
                   .attention_end = {dense(first + BP_BERT_O_WEIGHT, width, width, 0),
                                     {site + 1, own.residual_dropout}},
                   .norm_1 = {first + BP_BERT_NORM_1_WEIGHT, first + BP_BERT_NORM_1_BIAS, width,
                              own.norm_epsilon},
                   .up = dense(first + BP_BERT_UP_WEIGHT, width, inner, 0),
                   .down = {dense(first + BP_BERT_DOWN_WEIGHT, inner, width, 0),
                            {site + 2, own.residual_dropout}},
                   .norm_2 = {first + BP_BERT_NORM_2_WEIGHT, first + BP_BERT_NORM_2_BIAS, width,
                              own.norm_epsilon}};
}

static bp_ref make(const block *b, slot s)
{
    const uint64_t rows = b->emit->rows;
    const uint64_t shape[SLOT_COUNT][2] = {
        [SLOT_QKV] = {rows, 3 * b->width},       [SLOT_ATTENTION] = {rows, b->width},
        [SLOT_LSE] = {b->attention.heads, rows}, [SLOT_SUM_1] = {rows, b->width},
        [SLOT_STATISTICS_1] = {2, rows},         [SLOT_NORM_1] = {rows, b->width},
        [SLOT_BEFORE] = {rows, b->inner},        [SLOT_ACTIVE] = {rows, b->inner},
        [SLOT_SUM_2] = {rows, b->width},         [SLOT_STATISTICS_2] = {2, rows}};
    const bp_class class_of = (b->keep & KEEP(s)) != 0 ? BP_CLASS_TAPE : BP_CLASS_WORKSPACE;
    const bool statistics = s == SLOT_STATISTICS_1 || s == SLOT_LSE || s == SLOT_STATISTICS_2;
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

static bool there(const block *b, slot s)
{
    return bp_ref_present(b->tape[s]);
}

static bp_ref part_of(const block *b, bp_ref qkv, uint32_t i)
{
    return bp_ref_at(qkv, i * b->width);
}

static void bring_qkv(block *b)
{
    if (there(b, SLOT_QKV)) {
        return;
    }
    b->tape[SLOT_QKV] = make(b, SLOT_QKV);
    for (uint32_t i = 0; i < 3; i++) {
        bp_linear_forward(b->emit, &b->part[i], b->input, BP_ABSENT,
                          part_of(b, b->tape[SLOT_QKV], i));
    }
}

static void bring_attention(block *b)
{
    if (there(b, SLOT_ATTENTION)) {
        return;
    }
    bring_qkv(b);
    b->tape[SLOT_ATTENTION] = make(b, SLOT_ATTENTION);
    b->tape[SLOT_LSE] = make_if_kept(b, SLOT_LSE);
    bp_attention_forward(b->emit, &b->attention, b->tape[SLOT_QKV], b->tape[SLOT_ATTENTION],
                         b->tape[SLOT_LSE]);
}

static void bring_sum_1(block *b)
{
    if (there(b, SLOT_SUM_1)) {
        return;
    }
    bring_attention(b);
    b->tape[SLOT_SUM_1] = make(b, SLOT_SUM_1);
    bp_residual_forward(b->emit, &b->attention_end, b->tape[SLOT_ATTENTION], b->input,
                        b->tape[SLOT_SUM_1]);
}

static void bring_norm_1(block *b)
{
    if (there(b, SLOT_NORM_1)) {
        return;
    }
    bring_sum_1(b);
    b->tape[SLOT_NORM_1] = make(b, SLOT_NORM_1);
    const bool known = there(b, SLOT_STATISTICS_1);
    const bp_ref statistics = known ? BP_ABSENT : make_if_kept(b, SLOT_STATISTICS_1);
    bp_norm_forward(b->emit, &b->norm_1, b->emit->rows, b->tape[SLOT_SUM_1], b->tape[SLOT_NORM_1],
                    statistics);
    b->tape[SLOT_STATISTICS_1] = known ? b->tape[SLOT_STATISTICS_1] : statistics;
}

/* The values after GELU; those before it only where they are kept. */
static void bring_active(block *b)
{
    if (there(b, SLOT_ACTIVE)) {
        return;
    }
    b->tape[SLOT_ACTIVE] = make(b, SLOT_ACTIVE);
    bp_ref before = b->tape[SLOT_BEFORE];
    if (!bp_ref_present(before)) {
        bring_norm_1(b);
        b->tape[SLOT_BEFORE] = make_if_kept(b, SLOT_BEFORE);
        before = keeps(b, SLOT_BEFORE) ? b->tape[SLOT_BEFORE] : b->tape[SLOT_ACTIVE];
        bp_linear_forward(b->emit, &b->up, b->tape[SLOT_NORM_1], BP_ABSENT, before);
    }
    bp_activate(b->emit, BP_ACTIVATION_GELU_ERF, b->emit->rows * b->inner, before,
                b->tape[SLOT_ACTIVE]);
}

/* The second norm's output, which is the block's, from what it reads. */
static void end_block(block *b, bp_ref out)
{
    const bp_ref statistics = make_if_kept(b, SLOT_STATISTICS_2);
    bp_norm_forward(b->emit, &b->norm_2, b->emit->rows, b->tape[SLOT_SUM_2], out, statistics);
    b->tape[SLOT_STATISTICS_2] = statistics;
}

static void bring_sum_2(block *b)
{
    bring_norm_1(b);
    bring_active(b);
    if (there(b, SLOT_SUM_2)) {
        return;
    }
    b->tape[SLOT_SUM_2] = make(b, SLOT_SUM_2);
    bp_residual_forward(b->emit, &b->down, b->tape[SLOT_ACTIVE], b->tape[SLOT_NORM_1],
                        b->tape[SLOT_SUM_2]);
}

static void clear_tape(bp_ref *tape, uint32_t keep)
{
    for (uint32_t s = 0; s < SLOT_COUNT; s++) {
        if ((keep & (1U << s)) == 0) {
            tape[s] = BP_ABSENT;
        }
    }
}

void bp_bert_block_forward(bp_emit *emit, bp_stage_call *call)
{
    block b = describe(emit, call);
    b.keep = emit->mode == BP_MODE_TRAIN ? variant_keeps(call->variant) : KEEP_NOTHING;
    clear_tape(b.tape, KEEP_NOTHING);
    bring_sum_2(&b);
    call->output =
        bp_emit_buffer(emit, emit->output_class, bp_emit_working(emit), emit->rows, b.width, "out");
    end_block(&b, call->output);
    clear_tape(b.tape, b.keep);
}

static bp_ref make_gradient(const block *b, uint64_t width, const char *name)
{
    return bp_emit_buffer(b->emit, BP_CLASS_WORKSPACE, bp_emit_working(b->emit), b->emit->rows,
                          width, name);
}

/* d, the gradient of the second norm's input, becomes that of the first norm's output. */
static void backward_mlp(block *b, bp_ref d)
{
    const bp_ref d_active = make_gradient(b, b->inner, "d_gelu");
    bp_residual_backward(b->emit, &b->down, b->tape[SLOT_ACTIVE], d, d_active);
    bp_activate_backward(b->emit, BP_ACTIVATION_GELU_ERF, b->emit->rows * b->inner,
                         b->tape[SLOT_BEFORE], d_active, d_active);
    bp_linear_backward_parameters(b->emit, &b->up, b->tape[SLOT_NORM_1], d_active);
    bp_linear_backward_input_add(b->emit, &b->up, d_active, d);
}

/* d, the gradient of the first norm's input, becomes that of the block's. */
static void backward_attention(block *b, bp_ref d, bool input_wanted)
{
    bring_qkv(b);
    bring_attention(b);
    const bp_ref d_attention = make_gradient(b, b->width, "d_attention");
    bp_residual_backward(b->emit, &b->attention_end, b->tape[SLOT_ATTENTION], d, d_attention);
    const bp_ref d_qkv = make_gradient(b, 3 * b->width, "d_qkv");
    const bp_attention_backward_call attention = {.qkv = b->tape[SLOT_QKV],
                                                  .out = b->tape[SLOT_ATTENTION],
                                                  .lse = b->tape[SLOT_LSE],
                                                  .d_out = d_attention,
                                                  .d_qkv = d_qkv};
    bp_attention_backward(b->emit, &b->attention, &attention);
    for (uint32_t i = 0; i < 3; i++) {
        bp_linear_backward_parameters(b->emit, &b->part[i], b->input, part_of(b, d_qkv, i));
    }
    for (uint32_t i = 0; i < 3 && input_wanted; i++) {
        bp_linear_backward_input_add(b->emit, &b->part[i], part_of(b, d_qkv, i), d);
    }
}

/* What backward reads and the tape lacks. The second norm's statistics come with an output that
 * nobody reads. */
static void recompute(block *b)
{
    bring_sum_1(b);
    bring_sum_2(b);
    if (!there(b, SLOT_STATISTICS_2)) {
        end_block(b, make_gradient(b, b->width, "again"));
    }
}

void bp_bert_block_backward(bp_emit *emit, bp_stage_call *call)
{
    block b = describe(emit, call);
    b.keep = KEEP_ALL;
    recompute(&b);
    const bp_ref d = call->d_output;
    const bp_norm_backward_call norm_2 = {b.tape[SLOT_SUM_2], b.tape[SLOT_STATISTICS_2], d,
                                          BP_ABSENT, true};
    bp_norm_backward(emit, &b.norm_2, &norm_2);
    backward_mlp(&b, d);
    const bp_norm_backward_call norm_1 = {b.tape[SLOT_SUM_1], b.tape[SLOT_STATISTICS_1], d,
                                          BP_ABSENT, true};
    bp_norm_backward(emit, &b.norm_1, &norm_1);
    backward_attention(&b, d, call->input_wanted);
    call->d_input = call->input_wanted ? d : BP_ABSENT;
}

bp_graph_limits bp_bert_block_limits(bool backward)
{
    /* Forward: 12 ops with dropout, 10 buffers of the tape, the output and 6 workspaces. Backward
     * with an empty tape: those, 26 more ops, 6 more buffers, 16 workspaces and the weight
     * gradients. A name is at most the stage's (9 characters) and a word of 22. */
    const uint32_t ops = backward ? 40 : 12;
    const uint32_t buffers = backward ? 10 + 7 + 24 : 10 + 1 + 7;
    const uint32_t gradients = backward ? BP_BERT_BLOCK_PARAMETERS : 0;
    return (bp_graph_limits){.buffers = buffers + gradients,
                             .ops = ops,
                             .refs = 7 * ops,
                             .scalars = 10 * ops,
                             .name_bytes = 36 * buffers + 72 * gradients};
}
