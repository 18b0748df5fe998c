/* SPDX-License-Identifier: MIT */
/* GPT-NeoX and Pythia: transformers' configuration_gpt_neox.py. In GGUF queries, keys and values
 * are three parts, and readers take GELU's tanh form whatever the model has (they differ by less
 * than 5e-4). */
#include "layers/families/neox.h"

#include "tools/formats/family/family_llama.h"
#include "tools/formats/gguf/gguf_rope.h"

#define NEOX(member) BP_FAMILY_MEMBER(bp_neox_config, member)

static const bp_tensor_rule gguf_rules[] = {
    {"gpt_neox.embed_in.weight", "token_embd.weight", BP_LAYOUT_PLAIN},
    {"gpt_neox.final_layer_norm.*", "output_norm.*", BP_LAYOUT_PLAIN},
    {"embed_out.weight", "output.weight", BP_LAYOUT_PLAIN},
    {"gpt_neox.layers.#.input_layernorm.*", "blk.#.attn_norm.*", BP_LAYOUT_PLAIN},
    {"gpt_neox.layers.#.post_attention_layernorm.*", "blk.#.ffn_norm.*", BP_LAYOUT_PLAIN},
    {"gpt_neox.layers.#.attention.query_key_value.*", "blk.#.attn_qkv.*", BP_LAYOUT_THIRDS},
    {"gpt_neox.layers.#.attention.dense.*", "blk.#.attn_output.*", BP_LAYOUT_PLAIN},
    {"gpt_neox.layers.#.mlp.dense_h_to_4h.*", "blk.#.ffn_up.*", BP_LAYOUT_PLAIN},
    {"gpt_neox.layers.#.mlp.dense_4h_to_h.*", "blk.#.ffn_down.*", BP_LAYOUT_PLAIN},
};
static const bp_tensor_twin gguf_twins[] = {{"output.weight", "gpt_neox.embed_in.weight", NULL}};
static const bp_tensor_naming gguf_naming = {
    gguf_rules, ROWS_COUNT(gguf_rules), NULL, 0, gguf_twins, 1};

static void put_count(bp_gguf_writer *w, const char *a, const char *rest, uint64_t value)
{
    bp_gguf_put_u32(w, bp_gguf_key_of(a, rest).text, (uint32_t)value);
}

static void neox_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_neox_config own = bp_neox_config_of(config);
    const bp_llama_config *l = &own.llama;
    put_count(w, a, "context_length", config->positions);
    put_count(w, a, "embedding_length", l->stack.width);
    put_count(w, a, "block_count", l->stack.layers);
    put_count(w, a, "feed_forward_length", l->stack.inner);
    put_count(w, a, "rope.dimension_count", bp_llama_rotary_width(l, bp_gguf_llama_head_width(l)));
    put_count(w, a, "attention.head_count", l->stack.heads);
    bp_gguf_put_bool(w, bp_gguf_key_of(a, "use_parallel_residual").text, own.parallel);
    bp_gguf_put_f32(w, bp_gguf_key_of(a, "attention.layer_norm_epsilon").text,
                    (float)l->stack.norm_epsilon);
    bp_gguf_put_f32(w, bp_gguf_key_of(a, "rope.freq_base").text, (float)l->rope_theta);
    bp_gguf_rope_put(w, a, l);
}

/* The file does not say which GELU; that of Pythia and GPT-NeoX is taken. */
static bp_status neox_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    const bp_gguf_key *parallel = bp_gguf_find(f, bp_gguf_key_of(a, "use_parallel_residual").text);
    BP_TRY(bp_gguf_llama_take_more(f, a, config, BP_GGUF_PARTIAL | BP_GGUF_CENTRED));
    bp_neox_config own = bp_neox_config_of(config);
    own.llama.kv_heads = 0;
    own.llama.output_bias = false; /* it is always there, and no key of config.json's */
    own.llama.qkv_bias = bp_gguf_tensor(f, "blk.0.attn_qkv.bias") != NULL;
    own.parallel = parallel == NULL || parallel->bits != 0;
    bp_family_config_set(config, &own, sizeof own);
    return BP_OK;
}

static bp_status neox_exports(const bp_model_config *config, bp_error *error)
{
    const bp_neox_config own = bp_neox_config_of(config);
    if (!own.llama.stack.untied) {
        return bp_gguf_refuse_export(
            error, "readers of this architecture want a head with separate weights",
            "tie_word_embeddings");
    }
    if (own.activation == BP_HIDDEN_RELU) {
        return bp_gguf_refuse_export(error, "readers know GELU alone", "hidden_act");
    }
    return own.llama.qkv_bias
               ? bp_gguf_rope_exports(&own.llama, BP_GGUF_ROPE_KEYS, error)
               : bp_gguf_refuse_export(error, "readers of this architecture want biases",
                                       "attention_bias");
}

static const bp_gguf_family gguf = {"gpt_neox", "gptneox", &gguf_naming, neox_put,
                                    neox_take,  NULL,      neox_exports};

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), true),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_ACT("hidden_act", NEOX(activation)),
    ROW_REAL("hidden_dropout", STACK(residual_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("hidden_dropout", STACK(embedding_dropout), 1.0, 0.0, DROPOUT),
    ROWS_STACK(6144, 24576, 2048, 64, 44),
    ROW_REAL("layer_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROW_TYPE,
    ROW_REAL("rotary_emb_base", LLAMA(rope_theta), 1e12, 10000.0, ROTARY),
    ROW_REAL("rotary_pct", LLAMA(rotary_share), 1.5, 0.25, NONE),
    ROWS_ROPE_SCALING,
    ROW_TIED(STACK(untied), true),
    ROW_FLAG("use_parallel_residual", NEOX(parallel), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(50432, 0, 2, -1),
    ROWS_ROPE_WINDOWS,
    /* the newer object's name of rotary_pct; transformers passes it over beside the object */
    {"partial_rotary_factor", BP_ROW_REAL, BP_ROLE_NONE, BP_ROW_READ | BP_ROW_INSIDE,
     LLAMA(rotary_share), 0, 1.5, 0.25, NULL},
    ROWS_CAUSAL_REFUSED,
    ROW_FIXED("is_decoder", FALSE, NULL, BP_ROW_READ),
};

/* A bare model leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"gpt_neox.*", "*", BP_LAYOUT_PLAIN},
    {"embed_out.weight", "lm_head.weight", BP_LAYOUT_PLAIN}, /* the module's name since version 5 */
};

/* Masks and frequencies that old versions saved as buffers. */
static const char *const ignored[] = {
    "*attention.bias",
    "*attention.masked_bias",
    "*rotary_emb.inv_freq",
};

static const bp_tensor_twin twins[] = {
    {"embed_out.weight", "gpt_neox.embed_in.weight", "score.weight"},
};

/* Pythia (arXiv 2304.01373): shapes as in the config.json that come with the weights. */
#define PYTHIA(width_, layers_, heads_)                                                            \
    {.family = &bp_family_gpt_neox,                                                                \
     .vocabulary = 50304,                                                                          \
     .positions = 2048,                                                                            \
     .bos_token = 0,                                                                               \
     .eos_token = 0,                                                                               \
     .pad_token = -1},                                                                             \
        OWN((const bp_neox_config){.llama = {.stack = {.width = (width_),                          \
                                                       .layers = (layers_),                        \
                                                       .heads = (heads_),                          \
                                                       .inner = 4 * (width_),                      \
                                                       .norm_epsilon = 1e-5,                       \
                                                       .initializer_range = 0.02,                  \
                                                       .untied = true},                            \
                                             .qkv_bias = true,                                     \
                                             .rope_theta = 10000.0,                                \
                                             .rotary_share = 0.25},                                \
                                   .parallel = true})

static const bp_preset presets[] = {
    {"pythia-70m", "Pythia, 70 million parameters", PYTHIA(512, 6, 8)},
    {"pythia-160m", "Pythia, 162 million parameters", PYTHIA(768, 12, 12)},
    {"pythia-410m", "Pythia, 405 million parameters", PYTHIA(1024, 24, 16)},
    {"tiny-neox",
     "a byte-level GPT-NeoX for tests",
     {.family = &bp_family_gpt_neox,
      .vocabulary = 256,
      .positions = 128,
      .bos_token = -1,
      .eos_token = -1,
      .pad_token = -1},
     OWN((const bp_neox_config){.llama = {.stack = {.width = 64,
                                                    .layers = 2,
                                                    .heads = 4,
                                                    .inner = 256,
                                                    .norm_epsilon = 1e-5,
                                                    .initializer_range = 0.02,
                                                    .untied = true},
                                          .qkv_bias = true,
                                          .rope_theta = 10000.0,
                                          .rotary_share = 0.25},
                                .parallel = true})},
};

const bp_family bp_family_gpt_neox = {
    .model_type = "gpt_neox",
    .model = &bp_model_neox,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .language_class = "GPTNeoXForCausalLM",
    .judge_class = "GPTNeoXForSequenceClassification",
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), twins, ROWS_COUNT(twins)},
    .gguf = &gguf,
    .adapter_targets = "query_key_value",
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
