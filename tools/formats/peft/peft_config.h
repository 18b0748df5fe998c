/* SPDX-License-Identifier: MIT */
/* adapter_config.json of PEFT (peft/tuners/lora/config.py): into a bp_lora and out of it. */
#ifndef BP_FORMATS_PEFT_CONFIG_H
#define BP_FORMATS_PEFT_CONFIG_H

#include "core/plan/model.h"
#include "core/base/store.h"
#include "tools/formats/peft/peft_choice.h"

#define BP_PEFT_CONFIG_SCRATCH 32768 /* bytes that reading works in */
#define BP_PEFT_CONFIG_TEXT    65536 /* bytes that hold the text */

/* An adapter's configuration; must not move while lora is in use. */
typedef struct bp_peft_config {
    bp_lora lora;
    bp_peft_choice choice;
    char base[512];   /* base_model_name_or_path; "" where it says none */
    bool saves_table; /* modules_to_save has a copy of the token embedding */
} bp_peft_config;

/* Reads the file at `path`. BP_ERR_DATA naming the key when it is no LoRA, or one with something
 * that is not implemented (initialisations that change the base, say). Which modules were saved
 * with it (modules_to_save) its tensors say. scratch: BP_PEFT_CONFIG_SCRATCH bytes aligned to 8. */
bp_status bp_peft_config_read(bp_store *store, const char *path, void *scratch,
                              bp_peft_config *config, bp_error *error) BP_MUST_CHECK;

/* Whether a module of this name is a token embedding. */
bool bp_peft_is_table(const char *module);

/* PEFT's words for the biases that are trained: "none", "all", "lora_only". BP_LORA_BIASES for
 * another; "" for BP_LORA_BIASES. */
bp_lora_bias bp_peft_bias_of(const char *word);
const char *bp_peft_bias_word(bp_lora_bias bias);

/* The text of such a file for adapters that were emitted, as PEFT writes it: sorted keys. `base`
 * names the base model's directory. modules_to_save are the last parts of the names of modules that
 * are trained beside the adapters ("classifier"), at most 64 of them. */
bp_status bp_peft_config_text(const bp_builder *builder, const char *base, char *json, size_t room,
                              size_t *length) BP_MUST_CHECK;

#endif
