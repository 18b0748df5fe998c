/* SPDX-License-Identifier: MIT */
/* GPT-2 in GGUF. Its Conv1D weights are (in, out); GGUF has every matrix as (out, in). */
#include "tools/formats/gguf/gguf_family.h"

#include <string.h>

#include "core/base/storage.h"
#include "layers/families/gpt2.h"
#include "tools/formats/gguf/gguf_llama.h"
#include "tools/formats/gguf/gguf_rope.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The bounds of config.json's fields (hf_config.c). */
enum {
    POSITIONS_MOST = 1 << 24,
    WIDTH_MOST = 1 << 20,
    LAYERS_MOST = 1 << 12,
    HEADS_MOST = 1 << 16
};

static const bp_tensor_rule gpt2_rules[] = {
    {"transformer.wte.weight", "token_embd.weight", BP_LAYOUT_PLAIN},
    {"transformer.wpe.weight", "position_embd.weight", BP_LAYOUT_PLAIN},
    {"transformer.ln_f.*", "output_norm.*", BP_LAYOUT_PLAIN},
    {"lm_head.weight", "output.weight", BP_LAYOUT_PLAIN},
    {"transformer.h.#.ln_1.*", "blk.#.attn_norm.*", BP_LAYOUT_PLAIN},
    {"transformer.h.#.ln_2.*", "blk.#.ffn_norm.*", BP_LAYOUT_PLAIN},
    {"transformer.h.#.attn.c_attn.weight", "blk.#.attn_qkv.weight", BP_LAYOUT_TRANSPOSED},
    {"transformer.h.#.attn.c_attn.bias", "blk.#.attn_qkv.bias", BP_LAYOUT_PLAIN},
    {"transformer.h.#.attn.c_proj.weight", "blk.#.attn_output.weight", BP_LAYOUT_TRANSPOSED},
    {"transformer.h.#.attn.c_proj.bias", "blk.#.attn_output.bias", BP_LAYOUT_PLAIN},
    {"transformer.h.#.mlp.c_fc.weight", "blk.#.ffn_up.weight", BP_LAYOUT_TRANSPOSED},
    {"transformer.h.#.mlp.c_fc.bias", "blk.#.ffn_up.bias", BP_LAYOUT_PLAIN},
    {"transformer.h.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", BP_LAYOUT_TRANSPOSED},
    {"transformer.h.#.mlp.c_proj.bias", "blk.#.ffn_down.bias", BP_LAYOUT_PLAIN},
};

/* Older converters wrote the tied head out. */
static const bp_tensor_twin gpt2_twins[] = {{"output.weight", "transformer.wte.weight", NULL}};

static const bp_tensor_naming naming = {gpt2_rules, COUNT(gpt2_rules), NULL,
                                        0,          gpt2_twins,        COUNT(gpt2_twins)};

static void gpt2_put(bp_gguf_writer *w, const char *architecture, const bp_model_config *config)
{
    (void)architecture; /* its keys are written out below */
    const bp_transformer own = bp_transformer_of(config);
    uint32_t inner = (uint32_t)bp_transformer_inner(&own);
    bp_gguf_put_u32(w, "gpt2.block_count", own.layers);
    bp_gguf_put_u32(w, "gpt2.context_length", config->positions);
    bp_gguf_put_u32(w, "gpt2.embedding_length", own.width);
    bp_gguf_put_u32(w, "gpt2.feed_forward_length", inner);
    bp_gguf_put_u32(w, "gpt2.attention.head_count", own.heads);
    bp_gguf_put_f32(w, "gpt2.attention.layer_norm_epsilon", (float)own.norm_epsilon);
}

/* Whether the file has a head that is no copy of the token embedding: of another type, or by the
 * first byte that differs. */
static bp_status gpt2_take_untied(const bp_gguf_file *f, bool *untied)
{
    enum { PIECE = 4096 };
    unsigned char bytes[2][PIECE];
    const bp_tensor_entry *const both[] = {bp_gguf_tensor(f, "output.weight"),
                                           bp_gguf_tensor(f, "token_embd.weight")};
    *untied = both[0] != NULL && both[1] != NULL &&
              (both[0]->dtype != both[1]->dtype || both[0]->packed != both[1]->packed ||
               both[0]->bytes != both[1]->bytes);
    const uint64_t end = both[0] != NULL && both[1] != NULL ? both[0]->bytes : 0;
    for (uint64_t at = 0; at < end && !*untied; at += PIECE) {
        const size_t some = end - at < PIECE ? (size_t)(end - at) : PIECE;
        for (size_t i = 0; i < COUNT(both); i++) {
            const uint64_t from = f->part.data_at + both[i]->offset + at;
            if (f->store->read_at(f->store, f->file, from, bytes[i], some) != BP_OK) {
                return bp_storage_failed(f->error, f->store, "read", f->path);
            }
        }
        *untied = memcmp(bytes[0], bytes[1], some) != 0;
    }
    return BP_OK;
}

static bp_status gpt2_take(const bp_gguf_file *f, const char *architecture, bp_model_config *config)
{
    (void)architecture;
    bp_transformer own = bp_transformer_of(config);
    double epsilon;
    BP_TRY(bp_gguf_take_count(f, "gpt2.block_count", 1, LAYERS_MOST, &own.layers));
    BP_TRY(bp_gguf_take_count(f, "gpt2.context_length", 1, POSITIONS_MOST, &config->positions));
    BP_TRY(bp_gguf_take_count(f, "gpt2.embedding_length", 1, WIDTH_MOST, &own.width));
    BP_TRY(bp_gguf_take_count(f, "gpt2.feed_forward_length", 1, 4 * WIDTH_MOST, &own.inner));
    BP_TRY(bp_gguf_take_count(f, "gpt2.attention.head_count", 1, HEADS_MOST, &own.heads));
    BP_TRY(bp_gguf_take_real(f, "gpt2.attention.layer_norm_epsilon", &epsilon));
    if (own.width % own.heads != 0) {
        return bp_error_limit(f->error, BP_ERR_DATA, "gguf", "the heads do not divide the width",
                              "gpt2.attention.head_count", own.heads, BP_LIMIT_DIVISOR, own.width);
    }
    if (!(epsilon >= 0.0 && epsilon < 1.0)) {
        return bp_error_set(f->error, BP_ERR_DATA, "gguf", "a value is out of range (0 to 1)",
                            "gpt2.attention.layer_norm_epsilon");
    }
    BP_TRY(gpt2_take_untied(f, &own.untied));
    own.norm_epsilon = epsilon;
    own.inner = own.inner == 4 * own.width ? 0 : own.inner;
    own.initializer_range = 0.02;
    own.embedding_dropout = 0.1;
    own.residual_dropout = 0.1;
    own.attention_dropout = 0.1;
    bp_family_config_set(config, &own, sizeof own);
    return BP_OK;
}

static bp_status gpt2_exports(const bp_model_config *config, bp_error *error)
{
    const bp_transformer own = bp_transformer_of(config);
    if (own.activation == BP_GPT2_GELU_ERF || own.activation == BP_GPT2_RELU) {
        return bp_gguf_refuse_export(error, "readers know GELU's tanh form alone",
                                     "activation_function");
    }
    if (own.scale_by_layer) {
        return bp_gguf_refuse_export(error, "readers divide scores by the root of a head's width",
                                     "scale_attn_by_inverse_layer_idx");
    }
    return BP_OK;
}

const bp_gguf_family bp_gguf_gpt2 = {"gpt2",    "gpt2", &naming,     gpt2_put,
                                     gpt2_take, NULL,   gpt2_exports};
