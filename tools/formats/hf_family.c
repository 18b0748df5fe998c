/* SPDX-License-Identifier: MIT */
/* The tables of Hugging Face tensor names (transformers, models/<family>/modeling_<family>.py). */
#include "tools/formats/hf_family.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* GPT-2: the hub's own files leave the prefix out. Conv1D weights are (in, out) in the file and in
 * Bedplate. */
static const bp_tensor_rule gpt2_rules[] = {
    {"*", "*", BP_FORM_PLAIN},
    {"transformer.*", "*", BP_FORM_PLAIN},
};

/* The causal masks that old versions saved as buffers. */
static const char *const gpt2_ignored[] = {
    "transformer.h.#.attn.bias",
    "transformer.h.#.attn.masked_bias",
    "h.#.attn.bias",
    "h.#.attn.masked_bias",
};

static const bp_tensor_twin gpt2_twins[] = {{"lm_head.weight", "transformer.wte.weight"}};

static const bp_hf_family families[] = {
    {"gpt2",
     {gpt2_rules, COUNT(gpt2_rules), gpt2_ignored, COUNT(gpt2_ignored), gpt2_twins,
      COUNT(gpt2_twins)}},
};

const bp_hf_family *bp_hf_family_find(const char *model_type)
{
    for (size_t i = 0; i < COUNT(families); i++) {
        if (strcmp(families[i].model_type, model_type) == 0) {
            return &families[i];
        }
    }
    return NULL;
}
