/* SPDX-License-Identifier: MIT */
/* Sizes of transformer blocks. */
#include "layers/families/transformer.h"

#include "core/plan/range.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

BP_FAMILY_CONFIG_FITS(bp_transformer);

bp_transformer bp_transformer_of(const bp_model_config *config)
{
    bp_transformer own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

uint64_t bp_transformer_inner(const bp_transformer *own)
{
    return own->inner != 0 ? own->inner : 4 * (uint64_t)own->width;
}

bp_status bp_transformer_check(const bp_model_config *config, const char *family, bp_error *error)
{
    const bp_transformer own = bp_transformer_of(config);
    const bp_range counts[] = {
        {"vocab_size", config->vocabulary, 1, INT32_MAX},
        {"n_embd", own.width, 1, 1u << 20},
        {"n_layer", own.layers, 1, 1u << 12},
        {"n_head", own.heads, 1, 1u << 16},
        {"n_inner", own.inner, 0, 1u << 22},
    };
    const bp_real_range reals[] = {
        {"embd_pdrop", own.embedding_dropout, 0.0, 1.0},
        {"resid_pdrop", own.residual_dropout, 0.0, 1.0},
        {"attn_pdrop", own.attention_dropout, 0.0, 1.0},
        {"layer_norm_epsilon", own.norm_epsilon, 0.0, 1.0},
        {"initializer_range", own.initializer_range, 0.0, 1e6},
    };
    BP_TRY(bp_ranges_check(counts, COUNT(counts), family, error));
    return bp_real_ranges_check(reals, COUNT(reals), family, error);
}
