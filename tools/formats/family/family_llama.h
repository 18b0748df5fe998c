/* SPDX-License-Identifier: MIT */
/* Rows and names that families shaped like Llama share: their own struct begins with a
 * bp_llama_config. */
#ifndef BP_FORMATS_FAMILY_LLAMA_H
#define BP_FORMATS_FAMILY_LLAMA_H

#include "layers/families/llama.h"
#include "tools/formats/family/family_rows.h"

#define HEAD_WIDTH_MOST (1 << 14)

#define LLAMA(member) BP_FAMILY_MEMBER(bp_llama_config, member)

/* rope_scaling's members, which BP_ROW_ROPE reads and writes. */
#define ROWS_ROPE(theta_)                                                                          \
    ROW_REAL("rope_theta", LLAMA(rope_theta), 1e12, theta_, ROTARY), ROWS_ROPE_SCALING
#define ROWS_ROPE_SCALING                                                                          \
    ROW_FIXED("rope_scaling", ROPE, NULL, 0),                                                      \
        {"rope_scaling.factor",                                                                    \
         BP_ROW_REAL,                                                                              \
         BP_ROLE_NONE,                                                                             \
         BP_ROW_INSIDE,                                                                            \
         LLAMA(rope_scaling.factor),                                                               \
         0,                                                                                        \
         1e12,                                                                                     \
         0,                                                                                        \
         NULL},                                                                                    \
        {"rope_scaling.high_freq_factor",                                                          \
         BP_ROW_REAL,                                                                              \
         BP_ROLE_NONE,                                                                             \
         BP_ROW_INSIDE,                                                                            \
         LLAMA(rope_scaling.high),                                                                 \
         0,                                                                                        \
         1e12,                                                                                     \
         0,                                                                                        \
         NULL},                                                                                    \
        {"rope_scaling.low_freq_factor",                                                           \
         BP_ROW_REAL,                                                                              \
         BP_ROLE_NONE,                                                                             \
         BP_ROW_INSIDE,                                                                            \
         LLAMA(rope_scaling.low),                                                                  \
         0,                                                                                        \
         1e12,                                                                                     \
         0,                                                                                        \
         NULL},                                                                                    \
    {                                                                                              \
        "rope_scaling.original_max_position_embeddings", BP_ROW_COUNT, BP_ROLE_NONE,               \
            BP_ROW_INSIDE, LLAMA(rope_scaling.original), 1, POSITIONS_MOST, 0, NULL                \
    }

/* What is read besides: the newer object, and layers of another kind. */
#define ROWS_ROPE_READ                                                                             \
    ROW_FIXED("rope_parameters", ROPE, NULL, BP_ROW_READ),                                         \
        ROW_FIXED("layer_types", TEXTS, "full_attention", BP_ROW_READ)

/* The same where layers may look through a window, or not turn. */
#define ROWS_ROPE_WINDOWS ROW_FIXED("rope_parameters", ROPE, NULL, BP_ROW_READ)
#define ROW_LAYERS(key, member, words)                                                             \
    {                                                                                              \
        key, BP_ROW_LAYERS, BP_ROLE_NONE, 0, LLAMA(member), 0, 0, 0, words                         \
    }
#define ROW_LAYER_TYPES ROW_LAYERS("layer_types", near, "full_attention|sliding_attention")

/* Qwen's window: of the layers from max_window_layers on, or of those that are listed, and only
 * where use_sliding_window says so. Without one the keys are not written. */
#define FULL_LAYERS 28
#define ROW_FULL_LAYERS                                                                            \
    {                                                                                              \
        "max_window_layers", BP_ROW_COUNT, BP_ROLE_NONE, BP_ROW_SPARSE, LLAMA(full_layers), 0,     \
            POSITIONS_MOST, FULL_LAYERS, NULL                                                      \
    }
#define ROW_SLIDING                                                                                \
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 4096, NONE, BP_ROW_SPARSE)
#define ROW_SLIDES                                                                                 \
    {                                                                                              \
        "use_sliding_window", BP_ROW_FLAG, BP_ROLE_NONE, BP_ROW_SPARSE, LLAMA(slides), 0, 1,       \
            false, NULL                                                                            \
    }

/* sliding_window_pattern of files that do not list the layers: the last of so many sees all;
 * EXAONE's say "LLLG" for 4. */
#define ROW_PATTERN                                                                                \
    {                                                                                              \
        "sliding_window_pattern", BP_ROW_COUNT_NULL, BP_ROLE_NONE, BP_ROW_READ, LLAMA(turn_every), \
            0, LAYERS_MOST, 4, "LG"                                                                \
    }

/* Decoders with experts. */
#define EXPERTS_MOST 4096
#define ROWS_BALANCE(coefficient_)                                                                 \
    ROW_FLAG("output_router_logits", LLAMA(balances), false),                                      \
        ROW_REAL("router_aux_loss_coef", LLAMA(balance), 1e6, coefficient_, NONE)

/* An expert's matrices by themselves, as files have them whoever wrote them before transformers 5,
 * or all experts' in one tensor: either is read, the first is written. */
#define EXPERT(name) "*.mlp.experts.@." name "_proj.weight"
#define EXPERT_RULES(ours_)                                                                        \
    {ours_ ".mlp.experts.gate_up_proj", EXPERT("gate") "|" EXPERT("up"), BP_LAYOUT_PIECES},        \
    {                                                                                              \
        ours_ ".mlp.experts.down_proj", EXPERT("down"), BP_LAYOUT_PIECES                           \
    }

/* Windows in all but the last of every so many layers, where the file does not list them. */
void bp_family_near_every(bp_llama_config *own, uint32_t every);

/* The same by sliding_window_pattern; where there is a window, heads turn in the layers that have
 * it alone. */
void bp_family_still_beside(bp_llama_config *own);

/* Resolves it: the same model has the same numbers, whichever of the keys said so. */
void bp_family_qwen_window(bp_llama_config *own);

/* A preset for tests: two layers of a small model of bytes. */
#define LLAMA_TINY(family_, layers_, ...)                                                          \
    {.family = (family_),                                                                          \
     .vocabulary = 256,                                                                            \
     .positions = 128,                                                                             \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = -1},                                                                             \
        OWN((const bp_llama_config){.stack = {.width = 64,                                         \
                                              .layers = (layers_),                                 \
                                              .heads = 4,                                          \
                                              .inner = 176,                                        \
                                              .norm_epsilon = 1e-6,                                \
                                              .initializer_range = 0.02},                          \
                                    .kv_heads = 2,                                                 \
                                    .rope_theta = 10000.0,                                         \
                                    __VA_ARGS__})

/* Hugging Face's names: a bare model leaves the prefix out; old versions saved the frequencies of
 * the rotary positions as buffers; a tied head may be written out. */
#define LLAMA_NAMING                                                                               \
    {                                                                                              \
        bp_llama_rules, 2, bp_llama_ignored, 1, bp_llama_twins, 1                                  \
    }

/* The same of a text model that may lie beside an image model. */
#define LLAMA_NAMING_INSIDE                                                                        \
    {                                                                                              \
        bp_llama_inside_rules, 4, bp_llama_inside_ignored, 5, bp_llama_inside_twins, 2             \
    }

extern const bp_tensor_rule bp_llama_inside_rules[4];
extern const char *const bp_llama_inside_ignored[5];
extern const bp_tensor_twin bp_llama_inside_twins[2];

extern const bp_tensor_rule bp_llama_rules[2];
extern const char *const bp_llama_ignored[1];
extern const bp_tensor_twin bp_llama_twins[1];

#endif
