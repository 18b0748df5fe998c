/* SPDX-License-Identifier: MIT */
/* One GPT-2 block: forward, and backward from whatever part of the tape was kept.
 *
 * The tape is an array of slots. Forward and recomputation are the same functions: bring_<slot>
 * makes what a slot holds, from the slots before it, unless it is there. So recomputed values come
 * from the very kernels of forward and are equal to the bit. */
#include "layers/gpt2_block.h"

#include "layers/attention.h"
#include "layers/mlp.h"
#include "layers/norm.h"

typedef enum slot {
    SLOT_NORM_1,       /* (rows, width) ln_1's output */
    SLOT_STATISTICS_1, /* (2, rows) its means and reciprocal deviations */
    SLOT_QKV,          /* (rows, 3 width) */
    SLOT_ATTENTION,    /* (rows, width) attention's output before its projection */
    SLOT_LSE,          /* (heads, rows) log-sum-exp of the scores */
    SLOT_MIDDLE,       /* (rows, width) the stream between the sublayers */
    SLOT_NORM_2,       /* (rows, width) */
    SLOT_STATISTICS_2, /* (2, rows) */
    SLOT_BEFORE,       /* (rows, inner) before GELU */
    SLOT_ACTIVE,       /* (rows, inner) after GELU */
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
    "ln_1", "ln_1.statistics", "qkv", "attention", "attention.lse", "middle",
    "ln_2", "ln_2.statistics", "fc",  "gelu"};

/* A block and the tape it works on. */
typedef struct block {
    bp_emit *emit;
    uint32_t keep; /* slots that outlive this action */
    bp_ref input;  /* (rows, width) */
    bp_ref *tape;  /* SLOT_COUNT */
    uint64_t width;
    bp_norm norm_1;
    bp_linear qkv;
    bp_attention attention;
    bp_residual attention_end;
    bp_norm norm_2;
    bp_mlp mlp;
} block;

uint32_t bp_gpt2_block_first(uint32_t index)
{
    return 2 + BP_GPT2_BLOCK_PARAMETERS * index;
}

/* Dropout sites: 0 is the embedding's; each block has three. */
static block describe(bp_emit *emit, bp_stage_call *call)
{
    const bp_model_config *config = &emit->spec->config;
    const uint32_t index = call->stage - 1;
    const uint32_t first = bp_gpt2_block_first(index);
    const uint32_t site = 1 + 3 * index;
    const uint64_t width = config->width;
    const uint64_t inner = config->inner != 0 ? config->inner : 4 * width;
    return (block){.emit = emit,
                   .input = call->input,
                   .tape = call->tape,
                   .width = width,
                   .norm_1 = {first + BP_GPT2_LN_1_WEIGHT, first + BP_GPT2_LN_1_BIAS, width,
                              config->norm_epsilon},
                   .qkv = {.weight = first + BP_GPT2_C_ATTN_WEIGHT,
                           .bias = first + BP_GPT2_C_ATTN_BIAS,
                           .in = width,
                           .out = 3 * width},
                   .attention = {.heads = config->heads,
                                 .head_width = width / config->heads,
                                 .dropout = {site, config->attention_dropout}},
                   .attention_end = {{.weight = first + BP_GPT2_ATTN_C_PROJ_WEIGHT,
                                      .bias = first + BP_GPT2_ATTN_C_PROJ_BIAS,
                                      .in = width,
                                      .out = width},
                                     {site + 1, config->residual_dropout}},
                   .norm_2 = {first + BP_GPT2_LN_2_WEIGHT, first + BP_GPT2_LN_2_BIAS, width,
                              config->norm_epsilon},
                   .mlp = {{.weight = first + BP_GPT2_C_FC_WEIGHT,
                            .bias = first + BP_GPT2_C_FC_BIAS,
                            .in = width,
                            .out = inner},
                           {{.weight = first + BP_GPT2_MLP_C_PROJ_WEIGHT,
                             .bias = first + BP_GPT2_MLP_C_PROJ_BIAS,
                             .in = inner,
                             .out = width},
                            {site + 2, config->residual_dropout}}}};
}

static bp_ref make(const block *b, slot s)
{
    const uint64_t rows = b->emit->rows;
    const uint64_t shape[SLOT_COUNT][2] = {
        [SLOT_NORM_1] = {rows, b->width},        [SLOT_STATISTICS_1] = {2, rows},
        [SLOT_QKV] = {rows, b->qkv.out},         [SLOT_ATTENTION] = {rows, b->width},
        [SLOT_LSE] = {b->attention.heads, rows}, [SLOT_MIDDLE] = {rows, b->width},
        [SLOT_NORM_2] = {rows, b->width},        [SLOT_STATISTICS_2] = {2, rows},
        [SLOT_BEFORE] = {rows, b->mlp.up.out},   [SLOT_ACTIVE] = {rows, b->mlp.up.out}};
    const bp_class class_of = (b->keep & KEEP(s)) != 0 ? BP_CLASS_TAPE : BP_CLASS_WORKSPACE;
    const bool statistics = s == SLOT_STATISTICS_1 || s == SLOT_LSE || s == SLOT_STATISTICS_2;
    const bp_dtype dtype = statistics ? BP_F32 : bp_emit_working(b->emit);
    return bp_emit_buffer(b->emit, class_of, dtype, shape[s][0], shape[s][1], slot_names[s]);
}

static bp_ref make_if_kept(const block *b, slot s)
{
    return (b->keep & KEEP(s)) != 0 ? make(b, s) : BP_ABSENT;
}

/* A norm's output for the product that follows it. With its statistics it enters the tape; without
 * it is only passed on, and backward makes it again (a pass over memory, little beside the
 * products) rather than hold it through everything in between. */
static bp_ref bring_norm(block *b, const bp_norm *norm, bp_ref x, slot y, bool statistics)
{
    if (bp_ref_present(b->tape[y])) {
        return b->tape[y];
    }
    const slot second = (slot)(y + 1);
    const bp_ref made = make(b, y);
    const bp_ref made_statistics = statistics ? make(b, second) : BP_ABSENT;
    bp_norm_forward(b->emit, norm, b->emit->rows, x, made, made_statistics);
    if (statistics) {
        b->tape[y] = made;
        b->tape[second] = made_statistics;
    }
    return made;
}

static bool keeps(const block *b, slot s)
{
    return (b->keep & KEEP(s)) != 0;
}

static void bring_qkv(block *b)
{
    if (bp_ref_present(b->tape[SLOT_QKV])) {
        return;
    }
    const bp_ref x = bring_norm(b, &b->norm_1, b->input, SLOT_NORM_1, keeps(b, SLOT_NORM_1));
    b->tape[SLOT_QKV] = make(b, SLOT_QKV);
    bp_linear_forward(b->emit, &b->qkv, x, BP_ABSENT, b->tape[SLOT_QKV]);
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

/* The values before and after GELU; the former only where they are kept. */
static void bring_active(block *b)
{
    if (bp_ref_present(b->tape[SLOT_ACTIVE])) {
        return;
    }
    b->tape[SLOT_ACTIVE] = make(b, SLOT_ACTIVE);
    if (bp_ref_present(b->tape[SLOT_BEFORE])) {
        bp_mlp_activate(b->emit, &b->mlp, b->tape[SLOT_BEFORE], b->tape[SLOT_ACTIVE]);
        return;
    }
    const bp_ref x =
        bring_norm(b, &b->norm_2, b->tape[SLOT_MIDDLE], SLOT_NORM_2, keeps(b, SLOT_NORM_2));
    b->tape[SLOT_BEFORE] = make_if_kept(b, SLOT_BEFORE);
    bp_linear_forward_gelu(b->emit, &b->mlp.up, x, b->tape[SLOT_BEFORE], b->tape[SLOT_ACTIVE]);
}

static bp_ref make_output(const block *b)
{
    return bp_emit_buffer(b->emit, b->emit->output_class, bp_emit_working(b->emit), b->emit->rows,
                          b->width, "out");
}

/* From attention's output to the block's. The stream between the sublayers is written where the
 * output will be when nobody needs it afterwards; dropout needs both at once. */
static bp_ref finish(block *b)
{
    const bool shared = !keeps(b, SLOT_MIDDLE) && !bp_residual_drops(b->emit, &b->mlp.down);
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

void bp_gpt2_block_forward(bp_emit *emit, bp_stage_call *call)
{
    block b = describe(emit, call);
    b.keep = emit->mode == BP_MODE_TRAIN ? variant_keeps(call->variant) : KEEP_NOTHING;
    clear_tape(b.tape, KEEP_NOTHING);
    bring_attention(&b);
    call->output = finish(&b);
    clear_tape(b.tape, b.keep);
}

void bp_gpt2_block_decode(bp_emit *emit, bp_stage_call *call)
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
    const bp_ref d_before =
        bp_mlp_backward_down(b->emit, &b->mlp, b->tape[SLOT_BEFORE], b->tape[SLOT_ACTIVE], d_out);
    const bp_ref x = bring_norm(b, &b->norm_2, b->tape[SLOT_MIDDLE], SLOT_NORM_2, true);
    const bp_ref d_middle = bp_mlp_backward_up(b->emit, &b->mlp, x, d_before);
    const bp_norm_backward_call call = {b->tape[SLOT_MIDDLE], b->tape[SLOT_STATISTICS_2], d_middle,
                                        d_out, true};
    bp_norm_backward(b->emit, &b->norm_2, &call);
    return d_middle;
}

/* Gradient of the block's input, from that of the stream between the sublayers. */
static bp_ref backward_attention(block *b, bp_ref d_middle, bool input_wanted)
{
    bring_qkv(b);
    bring_attention(b);
    const bp_ref d_attention = make_gradient(b, b->width, "d_attention");
    bp_residual_backward(b->emit, &b->attention_end, b->tape[SLOT_ATTENTION], d_middle,
                         d_attention);
    const bp_attention_backward_call attention = {.qkv = b->tape[SLOT_QKV],
                                                  .out = b->tape[SLOT_ATTENTION],
                                                  .lse = b->tape[SLOT_LSE],
                                                  .d_out = d_attention,
                                                  .d_qkv = make_gradient(b, b->qkv.out, "d_qkv")};
    bp_attention_backward(b->emit, &b->attention, &attention);
    const bp_ref x = bring_norm(b, &b->norm_1, b->input, SLOT_NORM_1, true);
    bp_linear_backward_parameters(b->emit, &b->qkv, x, attention.d_qkv);
    if (!input_wanted && !bp_norm_trains(b->emit, &b->norm_1)) {
        return BP_ABSENT;
    }
    const bp_ref d_input = make_gradient(b, b->width, "d_input");
    bp_linear_backward_input(b->emit, &b->qkv, attention.d_qkv, d_input);
    const bp_norm_backward_call norm = {b->input, b->tape[SLOT_STATISTICS_1], d_input, d_middle,
                                        input_wanted};
    bp_norm_backward(b->emit, &b->norm_1, &norm);
    return input_wanted ? d_input : BP_ABSENT;
}

void bp_gpt2_block_backward(bp_emit *emit, bp_stage_call *call)
{
    block b = describe(emit, call);
    /* Recomputation makes everything but the norms' outputs, which are made when they are read. */
    b.keep = KEEP_ALL & ~KEEP_NORMS;
    bring_middle(&b);
    bring_active(&b);
    const bp_ref d_middle = backward_mlp(&b, call->d_output);
    call->d_input = backward_attention(&b, d_middle, call->input_wanted);
}

bp_graph_limits bp_gpt2_block_limits(bool backward)
{
    /* Forward with dropout: 9 ops, 8 buffers of the tape, 3 of dropout and output, 5 workspaces.
     * Backward with dropout and an empty tape: 7 ops and 8 buffers of recomputation, 23 ops and 11
     * buffers of gradients, 14 workspaces and 12 weight gradients. A name is at most the stage's (8
     * characters) and a word of 20, a gradient's a little more. */
    const uint32_t ops = backward ? 30 : 9;
    const uint32_t buffers = backward ? 8 + 11 + 14 : 10 + 3 + 5;
    const uint32_t gradients = backward ? BP_GPT2_BLOCK_PARAMETERS : 0;
    return (bp_graph_limits){.buffers = buffers + gradients,
                             .ops = ops,
                             .refs = 6 * ops,
                             .scalars = 8 * ops,
                             .name_bytes = 32 * buffers + 64 * gradients};
}
