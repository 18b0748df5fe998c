/* SPDX-License-Identifier: MIT */
/* Llama, Qwen2 and what is shaped like them in GGUF. */
#ifndef BP_FORMATS_GGUF_LLAMA_H
#define BP_FORMATS_GGUF_LLAMA_H

#include "layers/families/llama.h"
#include "tools/formats/gguf/gguf_family.h"

/* "<architecture>.<rest>" */
typedef struct bp_gguf_key_name {
    char text[64];
} bp_gguf_key_name;

bp_gguf_key_name bp_gguf_key_of(const char *architecture, const char *rest);

/* Llama's queries and keys have their rotary halves interleaved; Qwen2's are as they are here. */
extern const bp_gguf_family bp_gguf_llama;
extern const bp_gguf_family bp_gguf_qwen2;
extern const bp_gguf_family bp_gguf_mistral;
extern const bp_gguf_family bp_gguf_smollm3;
extern const bp_gguf_family bp_gguf_granite;
extern const bp_gguf_family bp_gguf_olmo2;

/* Rules of names for every family shaped like Llama; query_form and key_form say how the rows of
 * the queries and keys lie. */
#define BP_GGUF_LLAMA_RULES(query_form, key_form)                                                  \
    {"model.embed_tokens.weight", "token_embd.weight", BP_LAYOUT_PLAIN},                           \
        {"model.norm.weight", "output_norm.weight", BP_LAYOUT_PLAIN},                              \
        {"lm_head.weight", "output.weight", BP_LAYOUT_PLAIN},                                      \
        {"model.layers.#.input_layernorm.*", "blk.#.attn_norm.*", BP_LAYOUT_PLAIN},                \
        {"model.layers.#.post_attention_layernorm.*", "blk.#.ffn_norm.*", BP_LAYOUT_PLAIN},        \
        {"model.layers.#.self_attn.q_proj.*", "blk.#.attn_q.*", query_form},                       \
        {"model.layers.#.self_attn.k_proj.*", "blk.#.attn_k.*", key_form},                         \
        {"model.layers.#.self_attn.v_proj.*", "blk.#.attn_v.*", BP_LAYOUT_PLAIN},                  \
        {"model.layers.#.self_attn.o_proj.*", "blk.#.attn_output.*", BP_LAYOUT_PLAIN},             \
        {"model.layers.#.mlp.gate_proj.*", "blk.#.ffn_gate.*", BP_LAYOUT_PLAIN},                   \
        {"model.layers.#.mlp.up_proj.*", "blk.#.ffn_up.*", BP_LAYOUT_PLAIN},                       \
    {                                                                                              \
        "model.layers.#.mlp.down_proj.*", "blk.#.ffn_down.*", BP_LAYOUT_PLAIN                      \
    }

/* A tied head may be written out. */
extern const bp_tensor_twin bp_gguf_llama_twins[1];

/* put and take of such a family, whose own struct begins with a bp_llama_config. */
void bp_gguf_llama_put(bp_gguf_writer *writer, const char *architecture,
                       const bp_model_config *config);
bp_status bp_gguf_llama_take(const bp_gguf_file *file, const char *architecture,
                             bp_model_config *config) BP_MUST_CHECK;

/* The values of rope_freqs.weight: what Llama 3's scaling divides each frequency by. Returns how
 * many there are, half the width of a head, of which the first `room` are written; 0 without
 * scaling. */
size_t bp_gguf_llama_frequencies(const bp_model_config *config, float *factors, size_t room);
/* The same as bp_gguf_family's factors. */
size_t bp_gguf_llama_factors(const bp_model_config *config, uint32_t number, const char **name,
                             float *factors, size_t room);

uint32_t bp_gguf_llama_head_width(const bp_llama_config *own);

/* What a family of this shape reads besides, which others refuse. */
enum {
    BP_GGUF_PARTIAL = 1, /* rope.dimension_count may be less than a head */
    BP_GGUF_WINDOW = 2,  /* attention.sliding_window */
    BP_GGUF_CENTRED = 4, /* attention.layer_norm_epsilon, for norms with a mean */
    BP_GGUF_LONG = 8     /* scaling of rotary positions is read by itself: bp_gguf_long_take */
};
bp_status bp_gguf_llama_take_more(const bp_gguf_file *file, const char *architecture,
                                  bp_model_config *config, unsigned more) BP_MUST_CHECK;

/* BP_ERR_USAGE with the key when a model has what readers of most architectures leave out: a
 * window, a scaling of rotary positions that has no keys. */
bp_status bp_gguf_llama_exports(const bp_model_config *config, bp_error *error) BP_MUST_CHECK;
/* The window alone; and such a refusal. */
bp_status bp_gguf_refuse_window(const bp_model_config *config, bp_error *error) BP_MUST_CHECK;
bp_status bp_gguf_refuse_export(bp_error *error, const char *text, const char *name) BP_MUST_CHECK;

#endif
