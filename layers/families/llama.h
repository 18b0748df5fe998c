/* SPDX-License-Identifier: MIT */
/* Llama (Touvron et al., arXiv 2302.13971 and 2307.09288) as the Hugging Face classes
 * LlamaForCausalLM and LlamaForSequenceClassification compute it, and the families that differ from
 * it by numbers and flags: the same names, layouts and numerics, so that weights move both ways. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_LLAMA_H
#define BP_LAYERS_LLAMA_H

#include "core/ops/activation.h"
#include "layers/nodes/rope_scaling.h"
#include "layers/families/transformer.h"

/* Where the norms of a sublayer are: before it, after it (OLMo 2), or both (Gemma 2). */
typedef enum bp_llama_norms {
    BP_LLAMA_NORMS_BEFORE,
    BP_LLAMA_NORMS_AFTER,
    BP_LLAMA_NORMS_BOTH
} bp_llama_norms;

/* Whose names some of a block's parameters have in files; Llama's or Gemma's, the others. */
typedef enum bp_llama_names {
    BP_LLAMA_NAMES_USUAL,
    BP_LLAMA_NAMES_GLM4,
    BP_LLAMA_NAMES_HUNYUAN,
    BP_LLAMA_NAMES_GRANITE4,
    BP_LLAMA_NAMES_STARCODER2,
    BP_LLAMA_NAMES_GPT_OSS
} bp_llama_names;

/* Some of the layers; none listed: a file did not say. */
#define BP_LAYERS_LISTED 128
typedef struct bp_layer_set {
    uint64_t bits[BP_LAYERS_LISTED / 64];
    uint32_t listed;
} bp_layer_set;

bool bp_layer_in(const bp_layer_set *set, uint32_t layer);
void bp_layer_put(bp_layer_set *set, uint32_t layer);

/* What a Llama or one of its kin has of its own; names as in config.json where none is given. */
typedef struct bp_llama_config {
    bp_transformer stack;
    uint32_t kv_heads;   /* num_key_value_heads; 0: heads */
    uint32_t head_width; /* head_dim; 0: width / heads */
    double rope_theta;
    bp_rope_scaling rope_scaling;
    bool qkv_bias;    /* llama: attention_bias; qwen2: always */
    bool output_bias; /* llama: attention_bias */
    bool mlp_bias;
    bool head_norms;  /* queries and keys are normalised head by head: q_norm, k_norm (Qwen3) */
    bool whole_norms; /* the same over all their heads together (OLMo 2) */
    bool norm_offset; /* weights of norms are kept about 0: 1 is added (Gemma) */
    bool fused;       /* one weight for q, k and v, one for gate and up (Phi-3) */
    bool fused_gate;  /* the latter alone (GLM, Granite 4) */
    bool neighbours;  /* heads turn by pairs of neighbours, not of their halves (Cohere, GLM) */
    bool norms_late;  /* q_norm and k_norm come after the turning (Hunyuan) */
    bool parallel;    /* both sublayers read one norm of the block's input (Cohere) */
    bool centred;     /* norms have a mean: layer norms (Cohere, StarCoder2) */
    bool norm_bias;   /* and a bias */
    bool ungated;     /* up, hidden_act and down, without a gate (Arcee, StarCoder2) */
    bool drops_first; /* embedding_dropout is that of the embedding (StarCoder2) */
    bool both_ways;   /* every position looks at all, through half a window to both sides
                         (use_bidirectional_attention of Gemma 3) */
    bp_llama_norms norms;
    bp_llama_names names;
    bp_gate gate;
    uint32_t window;         /* sliding_window; 0: none */
    bp_layer_set near;       /* layers that look through it; none listed: all */
    bool slides;             /* use_sliding_window: whether files mean the window (Qwen, SmolLM3) */
    uint32_t full_layers;    /* max_window_layers: the first ones, that see all (Qwen) */
    uint32_t turn_every;     /* no_rope_layer_interval: the last of so many is still (SmolLM3) */
    bp_layer_set still;      /* layers whose heads do not turn (SmolLM3) */
    double rotary_share;     /* partial_rotary_factor; 0: 1 */
    double near_theta;       /* rope_theta of those layers, unscaled (Gemma 3); 0: as the others */
    double attention_scale;  /* of the scores; 0: 1 / sqrt(head width) */
    double query_scalar;     /* query_pre_attn_scalar, which it follows from (Gemma) */
    double attention_cap;    /* attn_logit_softcapping; 0: none */
    double logit_cap;        /* final_logit_softcapping; 0: none */
    double embedding_scale;  /* 0: 1 */
    double residual_scale;   /* of what a sublayer adds (Granite); 0: 1 */
    uint32_t rope_pairs;     /* of longrope's divisors in bp_llama_long */
    double logit_divisor;    /* logits_scaling (Granite); 0: 1 */
    double logit_scale;      /* of the logits (Cohere); 0: 1 / logit_divisor */
    uint32_t experts;        /* num_experts, instead of one perceptron; 0: none */
    uint32_t experts_chosen; /* num_experts_per_tok */
    uint32_t expert_inner;   /* moe_intermediate_size */
    uint32_t experts_every;  /* decoder_sparse_step: the last of so many layers has them; 0: 1 */
    bp_layer_set alone;      /* mlp_only_layers: layers that have one perceptron all the same */
    bool renormalise;        /* norm_topk_prob: the shares of those chosen add up to 1 */
    uint32_t shared_inner;  /* shared_expert_intermediate_size: of an expert that all tokens have */
    uint32_t shared_count;  /* n_shared_experts: as many side by side, without a gate (GLM-4.5) */
    uint32_t perceptrons;   /* first_k_dense_replace: layers before the first with experts */
    bool scored;            /* the router's shares are sigmoids, which a correction is added to */
    uint32_t groups;        /* n_group of experts, */
    uint32_t groups_chosen; /* of which topk_group are chosen from */
    double routed_scale;    /* routed_scaling_factor, where shares are sigmoids */
    bool balances;          /* output_router_logits: training has the balancing loss, */
    double balance;         /* times router_aux_loss_coef */
    double router_noise;    /* router_jitter_noise (Mixtral): none is implemented */
    bool sinks;             /* a sink for each head's scores (gpt-oss), */
    bool expert_biases;     /* and biases of the router and the experts, */
    bool experts_turned;    /* whose matrices are (in, out), gates and ups in turn, */
    double gate_alpha;      /* swiglu_alpha, */
    double gate_limit;      /* swiglu_limit: bounds of both; 0: none */
    bool gated;             /* queries have gates beside them, of what attention gives (Qwen3.5) */
    bool linear_fused;      /* linear attention has two first weights, not four (Qwen3-Next) */
    bp_layer_set linear;    /* layers of linear attention; none listed: no layer is one */
    uint32_t linear_taps;   /* linear_conv_kernel_dim */
    uint32_t linear_keys;   /* linear_num_key_heads, which divide */
    uint32_t linear_values; /* linear_num_value_heads; */
    uint32_t linear_key_width;   /* linear_key_head_dim */
    uint32_t linear_value_width; /* linear_value_head_dim */
} bp_llama_config;

/* The same with longrope's divisors, which few models have. */
typedef struct bp_llama_long {
    bp_llama_config llama;
    float near[BP_ROPE_PAIRS_MAX]; /* short_factor */
    float far[BP_ROPE_PAIRS_MAX];  /* long_factor */
} bp_llama_long;

bp_llama_config bp_llama_config_of(const bp_model_config *config);

/* Elements of a head that turn. */
uint64_t bp_llama_rotary_width(const bp_llama_config *own, uint64_t head_width);

/* Stages: 0 the embedding, 1 .. num_hidden_layers the blocks, then the last norm, the head (with
 * the embedding's table or its own, or a classifier of each sample's last token) and the loss. */
extern const bp_model bp_model_llama;

#endif
