/* SPDX-License-Identifier: MIT */
/* Models by name, and what --task makes of a model. */
#ifndef BP_BEDPLATE_MODEL_TABLE_H
#define BP_BEDPLATE_MODEL_TABLE_H

#include "core/plan/model.h"
#include "tools/bedplate/app/settings.h"

#define TASK_WORDS                                                                                 \
    "auto|causal-lm|masked-lm|classification|multi-label-classification|regression|"               \
    "reranking|token-classification|question-answering|embedding|reconstruction|image-text|dpo|"   \
    "orpo|simpo|kto|grpo"

/* The configuration of a directory, a GGUF file or a preset. False: there is no such model. */
bool model_config(const char *model, bp_model_config *config);

/* Prints the configuration of --model, key by key, as comments of an options file. Nothing where
 * there is no such model: the command itself will say so. */
void model_print(const settings *set);

/* Applies --task and --num-labels to what the model's files or its preset say. BP_ERR_USAGE: a
 * number of classes that the task does not have. */
bp_status model_task(const settings *set, bp_model_config *config, bp_error *error) BP_MUST_CHECK;

/* Whether a row's label is a number: a regression's, or how relevant a text is. */
bool model_task_is_number(bp_task task);

/* Whether the model makes a text of another, by an encoder and a decoder; and what its texts begin
 * with, 0 of others. */
bool model_makes_texts(const bp_model_config *config);
uint32_t model_start_token(const bp_model_config *config);

/* Whether it makes a text of speech; and rows of its encoder, 0 of others. */
bool model_hears(const bp_model_config *config);
uint32_t model_hears_positions(const bp_model_config *config);

/* Whether it compares images with their texts; and rows of its tower of images, 0 of others. */
bool model_sees(const bp_model_config *config);
uint32_t model_sees_tokens(const bp_model_config *config);

/* The word of --task for a bp_task; "unknown" beyond them. */
const char *model_task_word(uint32_t task);

/* Which loss over pairs of rows a word of --task asks for; NONE: none. */
bp_preference_kind model_preference(const char *word);

#endif
