/* SPDX-License-Identifier: MIT */
/* config.json of a Hugging Face directory (GPT-2, Llama, Qwen2, BERT): read, and written as text.
 */
#ifndef BP_FORMATS_HF_CONFIG_H
#define BP_FORMATS_HF_CONFIG_H

#include "core/base/error.h"
#include "core/plan/spec.h"
#include "core/base/store.h"
#include "tools/formats/family/class_names.h"

#define BP_HF_CONFIG_SCRATCH   65536   /* bytes that reading needs */
#define BP_HF_CONFIG_BYTES_MAX 1048576 /* a longer config.json is refused */

/* Reads the file at `path` into *config. What the file leaves out has the default of the
 * family's configuration class in transformers; of GPT-2, hidden_size, max_position_embeddings,
 * num_attention_heads and num_hidden_layers are taken as the other names they are.
 * Architectures whose name ends with ForSequenceClassification set the task, with problem_type
 * and id2label; keys that change nothing about the model are passed over. A classifier of one
 * class with the key `sentence_transformers`, or the older
 * sbert_ce_default_activation_function, ranks. BP_ERR_DATA naming file and field: not JSON, no
 * or another model_type, a value out of range, and every field whose value asks for something
 * that is not implemented. BP_ERR_STORE: a read failed. scratch: BP_HF_CONFIG_SCRATCH bytes,
 * aligned to 8, free again afterwards. *config is changed only on success. */
bp_status bp_hf_config_read(bp_store *store, const char *path, void *scratch,
                            bp_model_config *config, bp_error *error) BP_MUST_CHECK;

/* Whether the model of such a file is one without a head: its class is BertModel, or LlamaModel. */
bp_status bp_hf_config_bare(bp_store *store, const char *path, void *scratch, bool *bare,
                            bp_error *error) BP_MUST_CHECK;

/* What else a directory says of a cross-encoder of sentence-transformers 6: whether
 * config_sentence_transformers.json is of one, whose model of one class then ranks
 * (BP_TASK_RANKING), and what becomes of its logits. As bp_hf_config_read. */
bp_status bp_hf_ranker_read(bp_store *store, const char *directory, void *scratch,
                            bp_model_config *config, bp_error *error) BP_MUST_CHECK;

#define BP_HF_CONFIG_TEXT 131072 /* bytes that hold any config.json written here */

/* Writes config.json for `config` as text: `json` has BP_HF_CONFIG_TEXT bytes, *length becomes the
 * characters used. A class is called as `names` has it, where that has as many as the model, else
 * LABEL_0 and so on; NULL: no names. */
bp_status bp_hf_config_text(const bp_model_config *config, const bp_class_names *names, char *json,
                            size_t *length) BP_MUST_CHECK;

#endif
