/* SPDX-License-Identifier: MIT */
/* The table of presets. */
#include "tools/formats/preset.h"

#include <string.h>

/* Shapes of the GPT-2 family as published with the models (huggingface.co/gpt2 and its sizes);
 * everything else is the family's default. */
#define GPT2(width_, layers_, heads_)                                                              \
    {                                                                                              \
        .vocabulary = 50257, .positions = 1024, .width = (width_), .layers = (layers_),            \
        .heads = (heads_), .norm_epsilon = 1e-5, .initializer_range = 0.02,                        \
        .embedding_dropout = 0.1, .residual_dropout = 0.1, .attention_dropout = 0.1,               \
        .bos_token = 50256, .eos_token = 50256                                                     \
    }

/* Models over bytes: id = byte value, no special tokens. */
#define BYTES(width_, layers_, heads_, positions_, dropout_)                                       \
    {                                                                                              \
        .vocabulary = 256, .positions = (positions_), .width = (width_), .layers = (layers_),      \
        .heads = (heads_), .norm_epsilon = 1e-5, .initializer_range = 0.02,                        \
        .embedding_dropout = (dropout_), .residual_dropout = (dropout_),                           \
        .attention_dropout = (dropout_), .bos_token = -1, .eos_token = -1                          \
    }

static const bp_preset presets[] = {
    {"gpt2", "GPT-2, 124 million parameters", GPT2(768, 12, 12)},
    {"gpt2-medium", "GPT-2, 355 million parameters", GPT2(1024, 24, 16)},
    {"gpt2-large", "GPT-2, 774 million parameters", GPT2(1280, 36, 20)},
    {"gpt2-xl", "GPT-2, 1,558 million parameters", GPT2(1600, 48, 25)},
    {"demo", "a byte-level GPT that learns in minutes on two cores", BYTES(224, 4, 7, 256, 0.1)},
    {"tiny", "a byte-level GPT for tests", BYTES(64, 2, 4, 64, 0.0)},
};

const bp_preset *bp_preset_at(uint32_t index)
{
    return index < sizeof presets / sizeof presets[0] ? &presets[index] : NULL;
}

const bp_preset *bp_preset_find(const char *name)
{
    const bp_preset *preset = NULL;
    for (uint32_t i = 0; (preset = bp_preset_at(i)) != NULL; i++) {
        if (strcmp(preset->name, name) == 0) {
            break;
        }
    }
    return preset;
}
