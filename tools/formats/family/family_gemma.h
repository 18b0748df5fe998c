/* SPDX-License-Identifier: MIT */
/* What descriptors of Gemma, Gemma 2 and Gemma 3 share. */
#ifndef BP_FORMATS_FAMILY_GEMMA_H
#define BP_FORMATS_FAMILY_GEMMA_H

#include "tools/formats/family/family_llama.h"

/* Resolves what all three have and no file says: norms about 1, the gate, the embedding's factor.
 * every: 0, or norms on both sides, scores by query_pre_attn_scalar, and where the file does not
 * list the layers, windows in all but the last of every so many. */
void bp_family_gemma_resolve(bp_model_config *config, uint32_t every);

/* A preset for tests: of the later ones with a window. */
#define GEMMA_TINY(family_, layers_, ...)                                                          \
    LLAMA_TINY(family_, layers_, .head_width = 32, .norm_offset = true, .gate = BP_GATE_GELU_TANH, \
               .embedding_scale = 8.0, __VA_ARGS__)
#define GEMMA_LATER_TINY(family_, layers_, ...)                                                    \
    GEMMA_TINY(family_, layers_, .norms = BP_LLAMA_NORMS_BOTH, .query_scalar = 32.0,               \
               .attention_scale = 0.17677669529663687, .window = 24, __VA_ARGS__)

/* Rows that the later ones have between their sizes and their own. */
#define ROWS_GEMMA_LATER                                                                           \
    ROW_LAYER_TYPES, ROW_TYPE,                                                                     \
        ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 4, KV_HEADS,            \
                       BP_ROW_RESOLVED),                                                           \
        {"query_pre_attn_scalar",                                                                  \
         BP_ROW_REAL,                                                                              \
         BP_ROLE_NONE,                                                                             \
         BP_ROW_WHOLE,                                                                             \
         LLAMA(query_scalar),                                                                      \
         0,                                                                                        \
         1e6,                                                                                      \
         256.0,                                                                                    \
         NULL},                                                                                    \
        ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE)

#endif
