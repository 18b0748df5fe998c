/* SPDX-License-Identifier: MIT */
/* Llama as a chain of stages. */
#include "layers/families/llama.h"

#include <string.h>

#include "core/plan/adapter.h"
#include "core/plan/range.h"
#include "layers/families/causal.h"
#include "layers/nodes/inputs.h"
#include "layers/blocks/llama_block.h"
#include "layers/nodes/publish.h"
#include "layers/heads/vector.h"

BP_FAMILY_CONFIG_FITS(bp_llama_long);

bp_llama_config bp_llama_config_of(const bp_model_config *config)
{
    bp_llama_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

uint64_t bp_llama_rotary_width(const bp_llama_config *own, uint64_t head_width)
{
    return own->rotary_share > 0.0 ? (uint64_t)((double)head_width * own->rotary_share)
                                   : head_width;
}

bool bp_layer_in(const bp_layer_set *set, uint32_t layer)
{
    return layer < BP_LAYERS_LISTED && (set->bits[layer / 64] >> layer % 64 & 1) != 0;
}

void bp_layer_put(bp_layer_set *set, uint32_t layer)
{
    if (layer < BP_LAYERS_LISTED) {
        set->bits[layer / 64] |= UINT64_C(1) << layer % 64;
    }
}

static uint32_t last_norm(const bp_model_config *config)
{
    return bp_llama_block_first(config, UINT32_MAX);
}

static uint32_t llama_parameter_count(const bp_model_config *config)
{
    const uint32_t biases = bp_llama_config_of(config).norm_bias ? 1 : 0;
    return last_norm(config) + 1 + biases + (bp_causal_has_output(config) ? 1 : 0) +
           bp_vector_parameters(config);
}

static uint32_t llama_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    if (parameter == BP_CAUSAL_TABLE) {
        return 0;
    }
    const bp_llama_config own = bp_llama_config_of(config);
    return 1 + bp_llama_block_of(&own, parameter);
}

static void llama_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    bp_causal_stage_name(config, stage, "embed", "layers.", text);
}

/* Of the weights of queries and keys those of a head belong together. */
static uint64_t rows_together(uint32_t parameter, uint64_t head_width)
{
    return parameter == BP_LLAMA_Q_WEIGHT || parameter == BP_LLAMA_K_WEIGHT ? head_width : 0;
}

/* Names that differ from Llama's. */
static const struct {
    bp_llama_names names;
    bp_llama_parameter parameter;
    const char *name;
} other_names[] = {
    {BP_LLAMA_NAMES_GLM4, BP_LLAMA_AFTER_1, "post_self_attn_layernorm.weight"},
    {BP_LLAMA_NAMES_GLM4, BP_LLAMA_NORM_2, "post_attention_layernorm.weight"},
    {BP_LLAMA_NAMES_GLM4, BP_LLAMA_AFTER_2, "post_mlp_layernorm.weight"},
    {BP_LLAMA_NAMES_HUNYUAN, BP_LLAMA_Q_NORM, "self_attn.query_layernorm.weight"},
    {BP_LLAMA_NAMES_HUNYUAN, BP_LLAMA_K_NORM, "self_attn.key_layernorm.weight"},
    {BP_LLAMA_NAMES_GRANITE4, BP_LLAMA_GATE_UP_WEIGHT, "shared_mlp.input_linear.weight"},
    {BP_LLAMA_NAMES_GRANITE4, BP_LLAMA_DOWN_WEIGHT, "shared_mlp.output_linear.weight"},
    {BP_LLAMA_NAMES_GPT_OSS, BP_LLAMA_ROUTER_WEIGHT, "mlp.router.weight"},
    {BP_LLAMA_NAMES_STARCODER2, BP_LLAMA_UP_WEIGHT, "mlp.c_fc.weight"},
    {BP_LLAMA_NAMES_STARCODER2, BP_LLAMA_UP_BIAS, "mlp.c_fc.bias"},
    {BP_LLAMA_NAMES_STARCODER2, BP_LLAMA_DOWN_WEIGHT, "mlp.c_proj.weight"},
    {BP_LLAMA_NAMES_STARCODER2, BP_LLAMA_DOWN_BIAS, "mlp.c_proj.bias"}};

static void rename_rows(bp_llama_names names, bp_publish_row rows[BP_LLAMA_BLOCK_PARAMETERS])
{
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++) {
        if (other_names[i].names == names) {
            rows[other_names[i].parameter].name = other_names[i].name;
        }
    }
}

/* Those that the model has, of block `index`. */
static void llama_publish_rows(bp_builder *builder, const bp_model_config *config, uint32_t index,
                               const bp_publish_row rows[BP_LLAMA_BLOCK_PARAMETERS])
{
    const bp_llama_shape s = bp_llama_shape_of(config);
    const bool turned = bp_llama_config_of(config).experts_turned;
    char prefix[BP_NAME_BYTES];
    bp_name_append(bp_name_append_number(bp_name_append(prefix, "model.layers."), index), ".");
    for (uint32_t i = 0; i < BP_LLAMA_BLOCK_PARAMETERS; i++) {
        if (!bp_llama_has(config, index, (bp_llama_parameter)i)) {
            continue;
        }
        if (i == BP_LLAMA_ROUTER_BIAS) { /* a vector among these is a correction */
            bp_publish(builder, prefix, &rows[i]);
        } else if (i >= BP_LLAMA_ROUTER_WEIGHT && i <= BP_LLAMA_EXPERTS_DOWN_BIAS) {
            bp_publish_experts(builder, prefix, &rows[i], turned);
        } else {
            bp_publish_dense(builder, prefix, &rows[i], false, rows_together(i, s.head_width));
        }
    }
}

/* Matrices of experts as (in, out). */
static void swap_inputs(bp_publish_row *row)
{
    const uint64_t out = row->shape[1];
    row->shape[1] = row->shape[2];
    row->shape[2] = out;
}

/* What layers of linear attention have, and gates of queries. */
static void llama_linear_rows(const bp_llama_config *own,
                              bp_publish_row rows[BP_LLAMA_BLOCK_PARAMETERS])
{
    const bp_delta delta = bp_llama_delta(own);
    const double range = own->stack.initializer_range;
    const uint64_t width = own->stack.width, values = bp_delta_values(&delta);
    const uint64_t heads = delta.value_heads, row = bp_delta_row(&delta);
    const bool fused = own->linear_fused;
    const bp_publish_row linear[] = {
        {fused ? "linear_attn.in_proj_qkvz.weight" : "linear_attn.in_proj_qkv.weight",
         {fused ? row + values : row, width},
         BP_INIT_NORMAL,
         range},
        {"linear_attn.in_proj_z.weight", {values, width}, BP_INIT_NORMAL, range},
        {fused ? "linear_attn.in_proj_ba.weight" : "linear_attn.in_proj_b.weight",
         {fused ? 2 * heads : heads, width},
         BP_INIT_NORMAL,
         range},
        {"linear_attn.in_proj_a.weight", {heads, width}, BP_INIT_NORMAL, range},
        {"linear_attn.conv1d.weight", {row, 1, own->linear_taps}, BP_INIT_NORMAL, range},
        {"linear_attn.A_log", {heads, 0}, BP_INIT_ONES, 0.0},
        {"linear_attn.dt_bias", {heads, 0}, BP_INIT_ONES, 0.0},
        {"linear_attn.norm.weight", {delta.value_width, 0}, BP_INIT_ONES, 0.0},
        {"linear_attn.out_proj.weight", {width, values}, BP_INIT_NORMAL, range}};
    memcpy(&rows[BP_LLAMA_LINEAR_QKV], linear, sizeof linear);
    if (own->gated) {
        rows[BP_LLAMA_Q_WEIGHT].shape[0] *= 2;
        rows[BP_LLAMA_Q_BIAS].shape[0] *= 2;
    }
}

/* What layers with experts have, and names that differ. */
static void llama_finish_rows(const bp_llama_config *own, uint64_t width, bool mixes,
                              bp_publish_row rows[BP_LLAMA_BLOCK_PARAMETERS])
{
    const uint64_t experts = own->experts, inner = own->expert_inner;
    const double range = own->stack.initializer_range;
    llama_linear_rows(own, rows);
    rows[BP_LLAMA_ROUTER_WEIGHT] =
        (bp_publish_row){"mlp.gate.weight", {experts, width}, BP_INIT_NORMAL, range};
    rows[BP_LLAMA_ROUTER_CORRECTION] =
        (bp_publish_row){"mlp.gate.e_score_correction_bias", {experts, 0}, BP_INIT_ZEROS, 0.0};
    rows[BP_LLAMA_ROUTER_BIAS] =
        (bp_publish_row){"mlp.router.bias", {experts, 0}, BP_INIT_NORMAL, range};
    rows[BP_LLAMA_EXPERTS_GATE_UP] = (bp_publish_row){
        "mlp.experts.gate_up_proj", {experts, 2 * inner, width}, BP_INIT_NORMAL, range};
    rows[BP_LLAMA_EXPERTS_GATE_UP_BIAS] =
        (bp_publish_row){"mlp.experts.gate_up_proj_bias", {experts, 2 * inner}, BP_INIT_ZEROS, 0.0};
    rows[BP_LLAMA_EXPERTS_DOWN] =
        (bp_publish_row){"mlp.experts.down_proj", {experts, width, inner}, BP_INIT_NORMAL, range};
    rows[BP_LLAMA_EXPERTS_DOWN_BIAS] =
        (bp_publish_row){"mlp.experts.down_proj_bias", {experts, width}, BP_INIT_ZEROS, 0.0};
    if (own->experts_turned) {
        swap_inputs(&rows[BP_LLAMA_EXPERTS_GATE_UP]);
        swap_inputs(&rows[BP_LLAMA_EXPERTS_DOWN]);
    }
    if (mixes && own->shared_inner > 0) {
        rows[BP_LLAMA_SHARED_GATE_WEIGHT] =
            (bp_publish_row){"mlp.shared_expert_gate.weight", {1, width}, BP_INIT_NORMAL, range};
        const bool several = own->shared_count > 0;
        rows[BP_LLAMA_GATE_WEIGHT].name =
            several ? "mlp.shared_experts.gate_proj.weight" : "mlp.shared_expert.gate_proj.weight";
        rows[BP_LLAMA_UP_WEIGHT].name =
            several ? "mlp.shared_experts.up_proj.weight" : "mlp.shared_expert.up_proj.weight";
        rows[BP_LLAMA_DOWN_WEIGHT].name =
            several ? "mlp.shared_experts.down_proj.weight" : "mlp.shared_expert.down_proj.weight";
        rows[BP_LLAMA_GATE_WEIGHT].shape[0] = own->shared_inner;
        rows[BP_LLAMA_UP_WEIGHT].shape[0] = own->shared_inner;
        rows[BP_LLAMA_DOWN_WEIGHT].shape[1] = own->shared_inner;
    }
    rename_rows(own->names, rows);
}

static void llama_publish_block(bp_builder *builder, const bp_model_config *config, uint32_t index)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const bp_llama_shape s = bp_llama_shape_of(config);
    const double range = own.stack.initializer_range;
    const uint64_t queries = s.heads * s.head_width, keys = s.kv_heads * s.head_width;
    const bp_init_kind one = own.norm_offset ? BP_INIT_ZEROS : BP_INIT_ONES;
    const uint64_t q_norm = own.whole_norms ? queries : s.head_width;
    const uint64_t k_norm = own.whole_norms ? keys : s.head_width;
    bp_publish_row rows[BP_LLAMA_BLOCK_PARAMETERS] = {
        [BP_LLAMA_NORM_1] = {"input_layernorm.weight", {s.width, 0}, one, 0.0},
        [BP_LLAMA_NORM_1_BIAS] = {"input_layernorm.bias", {s.width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_NORM_2_BIAS] = {"post_attention_layernorm.bias",
                                  {s.width, 0},
                                  BP_INIT_ZEROS,
                                  0.0},
        [BP_LLAMA_QKV_WEIGHT] = {"self_attn.qkv_proj.weight",
                                 {queries + 2 * keys, s.width},
                                 BP_INIT_NORMAL,
                                 range},
        [BP_LLAMA_Q_WEIGHT] = {"self_attn.q_proj.weight",
                               {queries, s.width},
                               BP_INIT_NORMAL,
                               range},
        [BP_LLAMA_Q_BIAS] = {"self_attn.q_proj.bias", {queries, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_K_WEIGHT] = {"self_attn.k_proj.weight", {keys, s.width}, BP_INIT_NORMAL, range},
        [BP_LLAMA_K_BIAS] = {"self_attn.k_proj.bias", {keys, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_V_WEIGHT] = {"self_attn.v_proj.weight", {keys, s.width}, BP_INIT_NORMAL, range},
        [BP_LLAMA_V_BIAS] = {"self_attn.v_proj.bias", {keys, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_O_WEIGHT] = {"self_attn.o_proj.weight",
                               {s.width, queries},
                               BP_INIT_NORMAL,
                               range},
        [BP_LLAMA_O_BIAS] = {"self_attn.o_proj.bias", {s.width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_SINKS] = {"self_attn.sinks", {s.heads, 0}, BP_INIT_NORMAL, range},
        [BP_LLAMA_Q_NORM] = {"self_attn.q_norm.weight", {q_norm, 0}, one, 0.0},
        [BP_LLAMA_K_NORM] = {"self_attn.k_norm.weight", {k_norm, 0}, one, 0.0},
        [BP_LLAMA_AFTER_1] = {"post_attention_layernorm.weight", {s.width, 0}, one, 0.0},
        [BP_LLAMA_NORM_2] = {own.norms == BP_LLAMA_NORMS_BOTH ? "pre_feedforward_layernorm.weight"
                                                              : "post_attention_layernorm.weight",
                             {s.width, 0},
                             one,
                             0.0},
        [BP_LLAMA_GATE_UP_WEIGHT] = {"mlp.gate_up_proj.weight",
                                     {2 * s.inner, s.width},
                                     BP_INIT_NORMAL,
                                     range},
        [BP_LLAMA_GATE_WEIGHT] = {"mlp.gate_proj.weight",
                                  {s.inner, s.width},
                                  BP_INIT_NORMAL,
                                  range},
        [BP_LLAMA_GATE_BIAS] = {"mlp.gate_proj.bias", {s.inner, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_UP_WEIGHT] = {"mlp.up_proj.weight", {s.inner, s.width}, BP_INIT_NORMAL, range},
        [BP_LLAMA_UP_BIAS] = {"mlp.up_proj.bias", {s.inner, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_DOWN_WEIGHT] = {"mlp.down_proj.weight",
                                  {s.width, s.inner},
                                  BP_INIT_NORMAL,
                                  range},
        [BP_LLAMA_DOWN_BIAS] = {"mlp.down_proj.bias", {s.width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_AFTER_2] = {"post_feedforward_layernorm.weight", {s.width, 0}, one, 0.0}};
    llama_finish_rows(&own, s.width, bp_llama_mixes(&own, index), rows);
    llama_publish_rows(builder, config, index, rows);
}

static void llama_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const double range = own.stack.initializer_range;
    const uint64_t width = own.stack.width;
    const uint64_t outputs = bp_causal_classifies(config) ? config->classes : config->vocabulary;
    const bp_publish_row token = {
        "model.embed_tokens.weight", {config->vocabulary, width}, BP_INIT_NORMAL, range};
    const bp_publish_row norm = {
        "model.norm.weight", {width, 0}, own.norm_offset ? BP_INIT_ZEROS : BP_INIT_ONES, 0.0};
    const bp_publish_row bias = {"model.norm.bias", {width, 0}, BP_INIT_ZEROS, 0.0};
    const bp_publish_row head = {bp_causal_classifies(config) ? "score.weight" : "lm_head.weight",
                                 {outputs, width},
                                 BP_INIT_NORMAL,
                                 range};
    if (own.drops_first && own.stack.embedding_dropout > 0.0) {
        bp_publish_table(builder, "", &token);
    } else {
        bp_publish_tokens(builder, "", &token);
    }
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        llama_publish_block(builder, config, i);
    }
    bp_publish(builder, "", &norm);
    if (own.norm_bias) {
        bp_publish(builder, "", &bias);
    }
    if (bp_causal_has_output(config)) {
        bp_publish_head(builder, "", &head,
                        bp_causal_classifies(config) ? BP_HEAD_TASK : BP_HEAD_OUTPUT);
    }
    bp_vector_publish(builder, config, bp_transformer_of(config).width);
}

static bp_causal llama_describe(const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_llama_config own = bp_llama_config_of(config);
    const uint32_t norm = last_norm(config);
    const uint32_t bias = !own.centred    ? BP_NO_PARAMETER
                          : own.norm_bias ? norm + 1
                                          : BP_NORM_NO_BIAS;
    return (bp_causal){
        .embedding = {.token = BP_CAUSAL_TABLE,
                      .position = BP_NO_PARAMETER,
                      .vocabulary = config->vocabulary,
                      .positions = config->positions,
                      .width = own.stack.width,
                      .dropout = {0, own.drops_first ? own.stack.embedding_dropout : 0.0},
                      .scale = own.embedding_scale},
        .norm = {norm, bias, own.stack.width, own.stack.norm_epsilon, own.norm_offset},
        .output = norm + 1 + (own.norm_bias ? 1 : 0),
        .embedding_scale = own.embedding_scale,
        .logit_divisor = own.logit_scale > 0.0 ? 1.0 / own.logit_scale : own.logit_divisor,
        .logit_cap = own.logit_cap,
        .experts = bp_llama_experts(config, 0),
        .balance = own.balance};
}

static uint64_t llama_balance(const bp_spec *spec)
{
    const bp_experts experts = bp_llama_experts(&spec->config, 0);
    return experts.balances ? bp_experts_balance_words(experts.experts, experts.routers) : 0;
}

static bp_status llama_refuse(bp_error *error, const char *text, const char *field, uint64_t found,
                              bp_limit limit, uint64_t wanted)
{
    return bp_error_limit(error, BP_ERR_USAGE, "llama", text, field, (int64_t)found, limit,
                          (int64_t)wanted);
}

static bp_status llama_check_ranges(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const bp_range counts[] = {{"num_key_value_heads", own.kv_heads, 0, own.stack.heads},
                               {"head_dim", own.head_width, 0, 1u << 14}};
    BP_TRY(bp_transformer_check(config, "llama", error));
    return bp_ranges_check(counts, 2, "llama", error);
}

bp_status bp_llama_check_rotary(const bp_spec *spec, uint64_t head_width, const char *family,
                                bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(&spec->config);
    const uint64_t rotated = bp_llama_rotary_width(&own, head_width);
    const bp_real_range turning[] = {{"rope_theta", own.rope_theta, 0.0, 1e12},
                                     {"partial_rotary_factor", own.rotary_share, 0.0, 1.5}};
    BP_TRY(bp_real_ranges_check(turning, 2, family, error));
    if (rotated == 0 || rotated > head_width) {
        return bp_error_limit(error, BP_ERR_USAGE, family,
                              "rotary positions turn a part of a head that it does not have",
                              "partial_rotary_factor", (int64_t)rotated,
                              rotated == 0 ? BP_LIMIT_LEAST : BP_LIMIT_MOST,
                              rotated == 0 ? 2 : (int64_t)head_width);
    }
    if (rotated % 2 != 0) {
        return bp_error_limit(error, BP_ERR_USAGE, family,
                              "rotary positions need a part of an even width",
                              own.rotary_share > 0.0 ? "partial_rotary_factor" : "head_dim",
                              (int64_t)rotated, BP_LIMIT_EXACT, (int64_t)rotated + 1);
    }
    if (own.rope_scaling.kind == BP_ROPE_DYNAMIC && own.rope_scaling.factor > 0.0 &&
        !(own.rope_scaling.low > 0.0) && spec->sequence > spec->config.positions) {
        return bp_error_limit(error, BP_ERR_USAGE, family,
                              "frequencies that grow with the sequence (rope_type dynamic) are "
                              "implemented up to max_position_embeddings",
                              "max-seq-length", (int64_t)spec->sequence, BP_LIMIT_MOST,
                              spec->config.positions);
    }
    return BP_OK;
}

/* The two largest scores of a group are added up. */
static bp_status llama_check_groups(const bp_llama_config *own, bp_error *error)
{
    const uint32_t groups = own->groups > 0 ? own->groups : 1;
    const uint32_t kept = own->groups > 0 ? own->groups_chosen : 1;
    const bp_range counts[] = {{"n_group", groups, 1, 64}, {"topk_group", kept, 1, groups}};
    BP_TRY(bp_ranges_check(counts, 2, "llama", error));
    if (own->experts % groups != 0 || own->experts / groups < 2) {
        return llama_refuse(error, "the groups do not divide the experts into two or more each",
                            "n_group", groups, BP_LIMIT_DIVISOR, own->experts);
    }
    const uint32_t most = own->experts / groups * kept;
    return own->experts_chosen <= most
               ? BP_OK
               : llama_refuse(error, "the chosen groups have fewer experts than a token gets",
                              "num_experts_per_tok", own->experts_chosen, BP_LIMIT_MOST, most);
}

static bp_status llama_check_experts(const bp_spec *spec, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(&spec->config);
    const bp_range counts[] = {{"num_experts", own.experts, 1, 1u << 16},
                               {"num_experts_per_tok", own.experts_chosen, 1, own.experts},
                               {"moe_intermediate_size", own.expert_inner, 1, 1u << 22},
                               {"shared_expert_intermediate_size", own.shared_inner, 0, 1u << 22}};
    BP_TRY(bp_ranges_check(counts, 4, "llama", error));
    if (own.scored) {
        BP_TRY(llama_check_groups(&own, error));
    }
    if (own.scored && !(own.routed_scale > 0.0)) {
        return bp_error_set(error, BP_ERR_USAGE, "llama", "the weights of experts have no scale",
                            "routed_scaling_factor");
    }
    if (own.router_noise > 0.0) {
        return bp_error_set(error, BP_ERR_USAGE, "llama",
                            "noise on what the router reads is not implemented",
                            "router_jitter_noise");
    }
    return BP_OK;
}

/* Sizes of linear attention; rows that decode each in a slot of its own have no states. */
static bp_status llama_check_linear(const bp_spec *spec, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(&spec->config);
    const bp_range counts[] = {{"linear_num_key_heads", own.linear_keys, 1, 1u << 16},
                               {"linear_num_value_heads", own.linear_values, 1, 1u << 16},
                               {"linear_key_head_dim", own.linear_key_width, 1, 1u << 14},
                               {"linear_value_head_dim", own.linear_value_width, 1, 1u << 14},
                               {"linear_conv_kernel_dim", own.linear_taps, 2, 16}};
    BP_TRY(bp_ranges_check(counts, 5, "llama", error));
    if (own.stack.layers > BP_LAYERS_LISTED) {
        return llama_refuse(error, "layers of two kinds are listed for so many at most",
                            "num_hidden_layers", own.stack.layers, BP_LIMIT_MOST, BP_LAYERS_LISTED);
    }
    if (own.linear_values % own.linear_keys != 0) {
        return llama_refuse(error, "the key heads do not divide the value heads",
                            "linear_num_key_heads", own.linear_keys, BP_LIMIT_DIVISOR,
                            own.linear_values);
    }
    if (spec->tape == BP_TAPE_FP8) {
        return bp_error_set(error, BP_ERR_USAGE, "llama",
                            "saved activations in 8 bits are not implemented for models with "
                            "linear attention",
                            "tape-dtype");
    }
    if (spec->generate_regions > 0) {
        return bp_error_set(error, BP_ERR_USAGE, "llama",
                            "completions side by side of several prompts are not implemented for "
                            "models with linear attention",
                            "generate_regions");
    }
    return BP_OK;
}

/* States hold what was read last. */
static bool llama_recurs(const bp_model_config *config)
{
    return bp_llama_config_of(config).linear.listed > 0;
}

static bp_status llama_check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(llama_check_ranges(config, error));
    const bp_llama_shape shape = bp_llama_shape_of(config);
    if (own.head_width == 0 && own.stack.width % own.stack.heads != 0) {
        return llama_refuse(error, "the number of heads does not divide the width hidden_size",
                            "num_attention_heads", own.stack.heads, BP_LIMIT_DIVISOR,
                            own.stack.width);
    }
    if (shape.heads % shape.kv_heads != 0) {
        return llama_refuse(error, "the key-value heads do not divide the heads",
                            "num_key_value_heads", shape.kv_heads, BP_LIMIT_DIVISOR, shape.heads);
    }
    BP_TRY(bp_llama_check_rotary(spec, shape.head_width, "llama", error));
    if (own.experts > 0) {
        BP_TRY(llama_check_experts(spec, error));
    }
    if (own.linear.listed > 0) {
        BP_TRY(llama_check_linear(spec, error));
    }
    if (own.both_ways && (config->task == BP_TASK_CAUSAL_LM || spec->generate_context > 0)) {
        return bp_error_set(error, BP_ERR_USAGE, "llama",
                            "this model reads in both directions (use_bidirectional_attention): it "
                            "does not generate, and its tasks are embedding, classification, "
                            "regression and reranking",
                            "task");
    }
    return bp_causal_check(spec, "llama", error);
}

static uint32_t llama_near_tokens(const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const bool longrope = own.rope_scaling.kind == BP_ROPE_LONG && own.rope_scaling.factor > 0.0;
    return longrope ? own.rope_scaling.original : 0;
}

static uint32_t llama_inputs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    uint32_t count = bp_inputs_texts(spec, rows);
    if (bp_llama_experts(&spec->config, 0).balances) {
        rows[count++] = bp_inputs_lengths(spec);
    }
    if (llama_near_tokens(&spec->config) == 0) {
        return count;
    }
    rows[count] = (bp_input){.name = "extents",
                             .from = BP_INPUT_EXTENTS,
                             .dtype = BP_I32,
                             .rank = 1,
                             .shape = {spec->sequence},
                             .decodes = true};
    return count + 1;
}

static const bp_causal_family llama_self = {{bp_llama_block_describe}, llama_describe};

const bp_model bp_model_llama = {.name = "llama",
                                 .scratch = sizeof(bp_block),
                                 .self = &llama_self,
                                 .pads = true,
                                 .chunks = true,
                                 .token_lanes = true,
                                 .check = llama_check,
                                 .inputs = llama_inputs,
                                 .balance = llama_balance,
                                 .near_tokens = llama_near_tokens,
                                 .recurs = llama_recurs,
                                 .stages = bp_causal_stages,
                                 .stage_name = llama_stage_name,
                                 .variants = bp_causal_variants,
                                 .tapes = bp_block_family_tapes,
                                 .slot_name = bp_block_family_slot_name,
                                 .parameters = llama_parameters,
                                 .parameter_count = llama_parameter_count,
                                 .parameter_stage = llama_parameter_stage,
                                 .forward = bp_causal_forward,
                                 .contrast = bp_vector_contrast,
                                 .backward = bp_causal_backward,
                                 .decode = bp_causal_decode,
                                 .sliced_tables = bp_causal_sliced_tables,
                                 .plain_rows = true,
                                 .slice = bp_causal_slice};
