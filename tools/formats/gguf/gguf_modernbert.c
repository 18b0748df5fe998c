/* SPDX-License-Identifier: MIT */
/* ModernBERT in GGUF as llama.cpp's converter has it (ModernBertModel): a model of vectors. Every
 * so many layers one looks at all, the first among them, with the base of rotary positions
 * rope.freq_base; the others at half of sliding_window to either side, with rope.freq_base_swa. */
#include "layers/families/modernbert.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_bert.h"
#include "tools/formats/gguf/gguf_rope.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* What readers take where a file is silent. */
enum { USUAL_EVERY = 3, USUAL_BASE = 10000 };

#define BLOCK(ours, theirs)                                                                        \
    {                                                                                              \
        "model.layers.#." ours, "blk.#." theirs, BP_LAYOUT_PLAIN                                   \
    }

static const bp_tensor_rule rules[] = {
    {"model.embeddings.tok_embeddings.weight", "token_embd.weight", BP_LAYOUT_PLAIN},
    {"model.embeddings.norm.*", "token_embd_norm.*", BP_LAYOUT_PLAIN},
    {"model.final_norm.*", "output_norm.*", BP_LAYOUT_PLAIN},
    BLOCK("attn_norm.*", "attn_norm.*"),
    BLOCK("attn.Wqkv.*", "attn_qkv.*"),
    BLOCK("attn.Wo.*", "attn_output.*"),
    BLOCK("mlp_norm.*", "ffn_norm.*"),
    BLOCK("mlp.Wi.*", "ffn_up.*"),
    BLOCK("mlp.Wo.*", "ffn_down.*")};

/* Heads of other tasks, which converters may leave. */
static const char *const heads[] = {"cls.*", "cls_norm.*"};

static const bp_tensor_naming naming = {rules, COUNT(rules), heads, COUNT(heads), NULL, 0};

/* Whether layer i looks at its neighbours just where i is no multiple of `every`. */
static bool is_every(const bp_llama_config *own, uint32_t every)
{
    for (uint32_t i = 0; i < own->stack.layers; i++) {
        if (bp_layer_in(&own->near, i) != (i % every != 0)) {
            return false;
        }
    }
    return true;
}

/* 0: no number says which layers look at all. */
static uint32_t every_of(const bp_llama_config *own)
{
    uint32_t every = 1;
    while (every <= own->stack.layers && !is_every(own, every)) {
        every++;
    }
    return every <= own->stack.layers ? every : 0;
}

static void modernbert_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_modernbert_config_of(config).llama;
    const uint32_t every = every_of(&own);
    bp_gguf_encoder_put(w, a, config);
    bp_gguf_put_f32(w, bp_gguf_key_of(a, "rope.freq_base").text, (float)own.rope_theta);
    if (every > 1) { /* readers end where no layer looks through a window that is there */
        bp_gguf_put_u32(w, bp_gguf_key_of(a, "attention.sliding_window").text, own.window);
        bp_gguf_put_u32(w, bp_gguf_key_of(a, "attention.sliding_window_pattern").text, every);
        bp_gguf_put_f32(w, bp_gguf_key_of(a, "rope.freq_base_swa").text, (float)own.near_theta);
    }
    bp_gguf_put_string(w, bp_gguf_key_of(a, "rope.scaling.type").text, "none", 4);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "vocab_size").text, config->vocabulary);
}

static bp_status modernbert_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_modernbert_config_of(config).llama;
    BP_TRY(bp_gguf_encoder_exports(config, error));
    BP_TRY(bp_gguf_rope_exports(&own, 0, error));
    return every_of(&own) != 0
               ? BP_OK
               : bp_gguf_refuse_export(
                     error, "readers know one global layer in every N, the first among them",
                     "layer_types");
}

/* A base of rotary positions. */
static bp_status take_base(const bp_gguf_file *f, const char *a, const char *rest, double *base)
{
    *base = (double)USUAL_BASE;
    return bp_gguf_take_positive(f, bp_gguf_key_of(a, rest).text, base);
}

static bp_status modernbert_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    bp_modernbert_config own = bp_modernbert_config_of(config);
    const bp_gguf_key_name window = bp_gguf_key_of(a, "attention.sliding_window");
    const bp_gguf_key_name pattern = bp_gguf_key_of(a, "attention.sliding_window_pattern");
    BP_TRY(bp_gguf_encoder_take(f, a, config, &own.llama.stack));
    if (own.llama.stack.layers > BP_LAYERS_LISTED) {
        bp_status status =
            bp_error_limit(f->error, BP_ERR_DATA, "gguf", "there are too many layers",
                           bp_gguf_key_of(a, "block_count").text, own.llama.stack.layers,
                           BP_LIMIT_MOST, BP_LAYERS_LISTED);
        bp_error_prefix(f->error, f->path);
        return status;
    }
    if (own.llama.stack.width / own.llama.stack.heads % 2 != 0) {
        return bp_gguf_refuse(f, "rotary positions need heads of an even width",
                              bp_gguf_key_of(a, "attention.head_count").text);
    }
    own.llama.near = (bp_layer_set){.listed = 0};
    own.every = 1; /* without a window every layer looks at all */
    BP_TRY(take_base(f, a, "rope.freq_base", &own.llama.rope_theta));
    BP_TRY(take_base(f, a, "rope.freq_base_swa", &own.llama.near_theta));
    if (bp_gguf_find(f, window.text) != NULL) {
        own.every = USUAL_EVERY;
        BP_TRY(bp_gguf_take_count(f, window.text, 2, 1 << 24, &own.llama.window));
        if (bp_gguf_find(f, pattern.text) != NULL) {
            BP_TRY(bp_gguf_take_count(f, pattern.text, 1, 1 << 12, &own.every));
        }
    }
    bp_family_config_set(config, &own, sizeof own);
    config->family->resolve(config);
    return BP_OK;
}

const bp_gguf_family bp_gguf_modernbert = {"modernbert",      "modern-bert",   &naming,
                                           modernbert_put,    modernbert_take, NULL,
                                           modernbert_exports};
