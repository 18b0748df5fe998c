/* SPDX-License-Identifier: MIT */
/* Model files of llm.c (karpathy/llm.c, train_gpt2.py write_model and train_gpt2.cu): GPT-2.
 *
 * 256 int32: magic 20240326, version (3: fp32, 5: bf16), longest sequence, vocabulary, layers,
 * heads, width, padded vocabulary. Then the parameters, each kind over all layers: wte (padded, C),
 * wpe, ln1 weight and bias, qkv weight (3C, C) and bias, projection weight (C, C) and bias, ln2,
 * fc weight (4C, C) and bias, its projection (C, 4C) and bias, final norm. Matrices are (out, in);
 * the norm's epsilon is always 1e-5. */
#ifndef BP_FORMATS_LLMC_MODEL_H
#define BP_FORMATS_LLMC_MODEL_H

#include "core/plan/spec.h"
#include "tools/formats/hf/weight_target.h"

#define BP_LLMC_MAGIC   20240326
#define BP_LLMC_HEADER  1024u /* bytes */
#define BP_LLMC_PADDING 128u  /* the vocabulary is rounded up to a multiple of this */

/* An open file: its configuration, and its tensors under Bedplate's names. */
typedef struct bp_llmc_file {
    bp_model_config config;
    bp_dtype dtype;
    bp_tensor_part part; /* for a bp_tensor_set */
} bp_llmc_file;

/* How the matrices lie in the file, compared with Bedplate. */
extern const bp_tensor_naming bp_llmc_naming;

/* Reads and checks the header: magic, version, every size within the bounds of config.json, heads
 * that divide the width, a padded vocabulary that is not below the vocabulary, and a file exactly
 * as long as that says. Tables are taken from the front of *room. Nothing stays open. BP_ERR_DATA
 * naming the file and what is wrong; BP_ERR_STORE; BP_ERR_FIT. */
bp_status bp_llmc_open(bp_llmc_file *file, bp_store *store, const char *path, bp_staging *room,
                       bp_error *error) BP_MUST_CHECK;

/* Writes such a file: version 5 when the target's type is BF16 (with keep: when every tensor of the
 * source is), version 3 when it is F32 (with keep: otherwise). BP_ERR_USAGE when the type is F16 or
 * the configuration is one that the format cannot say: another epsilon than 1e-5, an inner width
 * that is not four times the width. */
bp_status bp_llmc_export(const bp_weight_source *source, const bp_model_config *config,
                         bp_weight_target *target) BP_MUST_CHECK;

#endif
