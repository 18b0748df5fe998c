/* SPDX-License-Identifier: MIT */
/* What the stages of Whisper are made of. */
#include "layers/blocks/whisper_block.h"

#include "layers/blocks/sublayer.h"
#include "layers/nodes/activate.h"

enum { WHISPER_KERNEL = 3, WHISPER_STRIDE = 2 }; /* of the convolutions, the stride of the second */

uint32_t bp_whisper_memory_stage(const bp_whisper_config *own)
{
    return own->stack.layers + 2;
}

bp_whisper_place bp_whisper_place_of(const bp_whisper_config *own, uint32_t stage)
{
    const uint32_t memory = bp_whisper_memory_stage(own);
    return stage == 0                                  ? BP_WHISPER_FIRST_CONV
           : stage == 1                                ? BP_WHISPER_SECOND_CONV
           : stage < memory                            ? BP_WHISPER_ENCODER_BLOCK
           : stage == memory                           ? BP_WHISPER_ENCODER_END
           : stage == memory + 1                       ? BP_WHISPER_DECODER_EMBEDDING
           : stage <= memory + 1 + own->decoder_layers ? BP_WHISPER_DECODER_BLOCK
                                                       : BP_WHISPER_HEAD;
}

uint32_t bp_whisper_encoder_first(const bp_whisper_config *own, uint32_t index)
{
    (void)own;
    return BP_WHISPER_EMBEDDINGS + BP_WHISPER_BLOCK_PARAMETERS * index;
}

uint32_t bp_whisper_decoder_first(const bp_whisper_config *own, uint32_t index)
{
    const uint32_t each = BP_WHISPER_BLOCK_PARAMETERS + BP_WHISPER_CROSS_PARAMETERS;
    return bp_whisper_encoder_first(own, own->stack.layers) + 2 + each * index;
}

uint32_t bp_whisper_decoder_site(const bp_whisper_config *own, uint32_t block)
{
    return 2 + 3 * own->stack.layers + 5 * block;
}

/* A block on its way. */
typedef struct whisper_building {
    bp_whisper_config own;
    bool decodes; /* it is the decoder's */
    uint32_t heads;
    uint64_t inner;
    uint32_t first; /* parameter */
    uint32_t site;
    bp_block_list list;
} whisper_building;

static bp_linear whisper_dense(uint32_t weight, bool biased, uint64_t in, uint64_t out)
{
    return (bp_linear){.weight = weight,
                       .bias = biased ? weight + 1 : BP_NO_PARAMETER,
                       .in = in,
                       .out = out,
                       .output_major = true};
}

static bp_norm whisper_norm(const whisper_building *b, uint32_t weight)
{
    return (bp_norm){weight, weight + 1, b->own.stack.width, b->own.stack.norm_epsilon, false};
}

/* The stream with what attention adds. */
static uint32_t whisper_attention(const whisper_building *b)
{
    static const char *const names[2] = {"middle", "d_middle"};
    const bp_transformer *stack = &b->own.stack;
    const uint64_t width = stack->width;
    const bp_norm norm = whisper_norm(b, b->first + BP_WHISPER_NORM_1);
    const bp_attention_parts parts = {
        .norm = &norm,
        .norm_gradient = "d_norm_1",
        .products = 3,
        .product = {whisper_dense(b->first + BP_WHISPER_Q, true, width, width),
                    whisper_dense(b->first + BP_WHISPER_K, false, width, width),
                    whisper_dense(b->first + BP_WHISPER_V, true, width, width)},
        .attention = {.heads = b->heads,
                      .head_width = width / b->heads,
                      .bidirectional = !b->decodes,
                      .dropout = {b->site, stack->attention_dropout}}};
    const bp_residual end = {whisper_dense(b->first + BP_WHISPER_O, true, width, width),
                             {b->site + 1, stack->residual_dropout}};
    const uint32_t y = bp_list_attention(&b->list, 0, &parts);
    return bp_list_residual(&b->list, &end, y, 0, names);
}

/* The same of attention to the encoder's output. */
static uint32_t whisper_cross(const whisper_building *b, const bp_builder *builder, uint32_t middle)
{
    static const char *const names[3] = {"norm_x", "d_norm_x", "norm_x.statistics"};
    static const char *const queries[2] = {"query", "d_query"};
    static const char *const ends[2] = {"crossed", "d_crossed"};
    const bp_transformer *stack = &b->own.stack;
    const uint64_t width = stack->width;
    const uint32_t first = b->first + BP_WHISPER_UP;
    const bp_norm norm = whisper_norm(b, first + BP_WHISPER_NORM_1);
    const bp_linear query = whisper_dense(first + BP_WHISPER_Q, true, width, width);
    const bp_residual end = {whisper_dense(first + BP_WHISPER_O, true, width, width),
                             {b->site + 3, stack->residual_dropout}};
    const bp_cross cross = {.heads = b->heads,
                            .head_width = width / b->heads,
                            .key = whisper_dense(first + BP_WHISPER_K, false, width, width),
                            .value = whisper_dense(first + BP_WHISPER_V, true, width, width),
                            .lengths = BP_ABSENT,
                            .dropout = {b->site + 2, stack->attention_dropout}};
    const uint32_t x = bp_list_norm(&b->list, &norm, middle, names);
    const uint32_t q = bp_list_dense(&b->list, &query, x, queries);
    const uint32_t y = bp_list_cross(&b->list, &cross, q, bp_cross_rows(builder));
    return bp_list_residual(&b->list, &end, y, middle, ends);
}

static void whisper_perceptron(const whisper_building *b, uint32_t middle)
{
    static const char *const names[3] = {"norm_2", "d_norm_2", "norm_2.statistics"};
    const bp_transformer *stack = &b->own.stack;
    const uint32_t cross = b->decodes ? BP_WHISPER_CROSS_PARAMETERS : 0;
    const uint32_t first = b->first + cross, site = b->site + (b->decodes ? 4 : 2);
    const bp_norm norm = whisper_norm(b, first + BP_WHISPER_NORM_2);
    const bp_mlp_parts mlp = {
        .up = whisper_dense(first + BP_WHISPER_UP, true, stack->width, b->inner),
        .function = bp_hidden_act_node(stack->activation, 0, 0),
        .down = {whisper_dense(first + BP_WHISPER_DOWN, true, b->inner, stack->width),
                 {site, stack->residual_dropout}},
        .names = {{"up", "d_up"}, {"active", "d_active"}, {"out", NULL}}};
    const uint32_t x = bp_list_norm(&b->list, &norm, middle, names);
    (void)bp_list_mlp(&b->list, x, middle, &mlp);
}

static uint32_t whisper_frame_value(bp_block *block, const char *name, const char *gradient,
                                    const uint64_t shape[4])
{
    block->value[block->values] =
        (bp_value){name, gradient, {shape[0], shape[1], shape[2], shape[3]}, BP_VALUE_WORKING};
    return block->values++;
}

/* gelu(conv(x)): frames are the lines of an image that is one place wide. */
static void whisper_convolution(const bp_whisper_config *own, uint64_t samples, bool second,
                                bp_block *block)
{
    static const uint8_t kernel[2] = {WHISPER_KERNEL, 1},
                         strides[2][2] = {{1, 1}, {WHISPER_STRIDE, 1}};
    const uint64_t image[3] = {bp_whisper_frames(own), 1, second ? own->stack.width : own->mels};
    const bp_image_window window =
        bp_image_window_over(image, kernel, strides[second ? 1 : 0], BP_PADDING_HALF, 1);
    const uint64_t from[4] = {samples, image[0], 1, image[2]};
    const uint64_t to[4] = {samples, window.out_height, 1, own->stack.width};
    block->values = 0;
    block->nodes = 2;
    block->ends = block->poor = false;
    block->chunk_first = 0;
    block->chunk_rows = 0;
    const uint32_t x = whisper_frame_value(block, "input", "d_in", from);
    const uint32_t convolved = whisper_frame_value(block, "convolved", "d_convolved", to);
    const uint32_t active = whisper_frame_value(block, "active", "d_active", to);
    const uint32_t weight = second ? BP_WHISPER_CONV_2 : BP_WHISPER_CONV_1;
    block->node[0] = (bp_node){
        .kind = BP_NODE_CONVOLUTION,
        .in = {x},
        .out = {convolved},
        .convolution = {
            .weight = weight, .bias = weight + 1, .window = window, .out = own->stack.width}};
    block->node[1] = bp_hidden_act_node(BP_HIDDEN_GELU, convolved, active);
    block->node[1].class_of = BP_RECOMPUTE_ACTIVATION;
}

void bp_whisper_block_describe(const bp_builder *builder, const bp_stage_call *call,
                               bp_block *block)
{
    whisper_building b = {.own = bp_whisper_config_of(&builder->spec->config)};
    const bp_whisper_place place = bp_whisper_place_of(&b.own, call->stage);
    if (place <= BP_WHISPER_SECOND_CONV) {
        whisper_convolution(&b.own, builder->spec->batch, place == BP_WHISPER_SECOND_CONV, block);
        return;
    }
    b.decodes = place > BP_WHISPER_ENCODER_END;
    const uint32_t memory = bp_whisper_memory_stage(&b.own);
    const uint32_t index = call->stage - 2 - (b.decodes ? memory : 0);
    b.heads = b.decodes ? b.own.decoder_heads : b.own.stack.heads;
    b.inner = b.decodes ? b.own.decoder_inner : bp_transformer_inner(&b.own.stack);
    b.site = b.decodes ? bp_whisper_decoder_site(&b.own, index) : 1 + 3 * index;
    b.first = b.decodes ? bp_whisper_decoder_first(&b.own, index)
                        : bp_whisper_encoder_first(&b.own, index);
    b.list = bp_list_begin(block, builder->rows, b.own.stack.width);
    const uint32_t middle = whisper_attention(&b);
    whisper_perceptron(&b, b.decodes ? whisper_cross(&b, builder, middle) : middle);
}
