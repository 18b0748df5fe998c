/* SPDX-License-Identifier: MIT */
/* One Llama block as a stage: middle = x + attention(norm(x)), out = middle + mlp(norm(middle)); in
 * some families norms follow the sublayers instead, or too, or both sublayers read one norm. */
#ifndef BP_LAYERS_LLAMA_BLOCK_H
#define BP_LAYERS_LLAMA_BLOCK_H

#include "layers/blocks/block.h"
#include "layers/families/llama.h"

/* A block's parameters in the order of publication; a model lacks the biases and the norms of heads
 * that its config does not name. */
typedef enum bp_llama_parameter {
    BP_LLAMA_NORM_1,
    BP_LLAMA_NORM_1_BIAS,
    BP_LLAMA_QKV_WEIGHT,
    BP_LLAMA_QKV_BIAS, /* no model has it */
    BP_LLAMA_Q_WEIGHT,
    BP_LLAMA_Q_BIAS,
    BP_LLAMA_K_WEIGHT,
    BP_LLAMA_K_BIAS,
    BP_LLAMA_V_WEIGHT,
    BP_LLAMA_V_BIAS,
    BP_LLAMA_O_WEIGHT,
    BP_LLAMA_O_BIAS,
    BP_LLAMA_SINKS,
    BP_LLAMA_Q_NORM,
    BP_LLAMA_K_NORM,
    BP_LLAMA_LINEAR_QKV, /* of layers of linear attention, and the next eight; with z it is fused */
    BP_LLAMA_LINEAR_Z,
    BP_LLAMA_LINEAR_B, /* with a it is fused */
    BP_LLAMA_LINEAR_A,
    BP_LLAMA_LINEAR_CONV,
    BP_LLAMA_LINEAR_A_LOG,
    BP_LLAMA_LINEAR_DT_BIAS,
    BP_LLAMA_LINEAR_NORM,
    BP_LLAMA_LINEAR_OUT,
    BP_LLAMA_AFTER_1,
    BP_LLAMA_NORM_2,
    BP_LLAMA_NORM_2_BIAS,
    BP_LLAMA_ROUTER_WEIGHT, /* of layers with experts, and the next six */
    BP_LLAMA_ROUTER_BIAS,
    BP_LLAMA_ROUTER_CORRECTION,
    BP_LLAMA_EXPERTS_GATE_UP,
    BP_LLAMA_EXPERTS_GATE_UP_BIAS,
    BP_LLAMA_EXPERTS_DOWN,
    BP_LLAMA_EXPERTS_DOWN_BIAS,
    BP_LLAMA_SHARED_GATE_WEIGHT, /* of an expert that all tokens have, whose matrices are a */
    BP_LLAMA_SHARED_GATE_BIAS,   /* perceptron's below; no model has it */
    BP_LLAMA_GATE_UP_WEIGHT,
    BP_LLAMA_GATE_UP_BIAS, /* no model has it */
    BP_LLAMA_GATE_WEIGHT,
    BP_LLAMA_GATE_BIAS,
    BP_LLAMA_UP_WEIGHT,
    BP_LLAMA_UP_BIAS,
    BP_LLAMA_DOWN_WEIGHT,
    BP_LLAMA_DOWN_BIAS,
    BP_LLAMA_AFTER_2,
    BP_LLAMA_BLOCK_PARAMETERS
} bp_llama_parameter;

/* Shapes that follow from a config. */
typedef struct bp_llama_shape {
    uint64_t width;
    uint64_t inner;
    uint64_t heads;
    uint64_t kv_heads;
    uint64_t head_width;
} bp_llama_shape;

bp_llama_shape bp_llama_shape_of(const bp_model_config *config);

/* Whether a layer's attention is linear; the sizes of that, without parameters. */
bool bp_llama_linear(const bp_llama_config *own, uint32_t layer);
bp_delta bp_llama_delta(const bp_llama_config *own);

/* Whether a layer has experts. */
bool bp_llama_mixes(const bp_llama_config *own, uint32_t layer);

/* The sizes of a layer's experts, and the router's part of the balancing loss where there is one;
 * without parameters. */
bp_experts bp_llama_experts(const bp_model_config *config, uint32_t layer);

/* Whether the model has this parameter in a block. */
bool bp_llama_has(const bp_model_config *config, uint32_t block, bp_llama_parameter parameter);

/* The number of a block's first parameter; of blocks that are not there, that of what follows them.
 */
uint32_t bp_llama_block_first(const bp_model_config *config, uint32_t block);

/* The block of a parameter behind the token embedding; the number of blocks for those behind them.
 */
uint32_t bp_llama_block_of(const bp_llama_config *own, uint32_t parameter);

/* Whether heads of this width can be turned as the config says, the beginning of its own struct
 * being a bp_llama_config: BP_ERR_USAGE naming the field, with `family` as the error's place. */
bp_status bp_llama_check_rotary(const bp_spec *spec, uint64_t head_width, const char *family,
                                bp_error *error) BP_MUST_CHECK;

/* The list of nodes of block `index` = call->stage - 1. */
void bp_llama_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block);

#endif
