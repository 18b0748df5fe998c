/* SPDX-License-Identifier: MIT */
/* From the settings of a tokenizer.json to rules; what is not implemented is refused by name. */
#ifndef BP_FORMATS_TOKEN_RULES_H
#define BP_FORMATS_TOKEN_RULES_H

#include "tools/formats/text/token_tree.h"
#include "tools/formats/text/tokenizer_state.h"

/* The nodes of the file's parts; BP_TREE_NONE for one that is not there. `model` holds the model's
 * members but its vocab and merges. */
typedef struct bp_rules_source {
    const bp_tree *tree;
    uint32_t normalizer;
    uint32_t pre_tokenizer;
    uint32_t post_processor;
    uint32_t decoder;
    uint32_t model;
    bp_error *error;
} bp_rules_source;

/* Fills *rules. BP_ERR_DATA naming the part ("pre_tokenizer Digits", "model.dropout"): not
 * implemented, or not what such a part must hold. */
bp_status bp_token_rules_read(const bp_rules_source *source, bp_token_rules *rules) BP_MUST_CHECK;

/* Whether a pattern is one that text is split by here, and how. */
bool bp_token_rules_pattern(const char *pattern, bp_split_rule *split);

/* The part of it that is about special tokens around the text. */
bp_status bp_token_template_read(const bp_rules_source *source,
                                 bp_token_rules *rules) BP_MUST_CHECK;

/* Refuses `node`, or one of its members: BP_ERR_DATA with the name "part type.key". */
bp_status bp_rules_refuse(const bp_rules_source *source, const char *part, uint32_t node,
                          const char *key, const char *text) BP_MUST_CHECK;

/* The node is an object and has no members but those of the list "type a b c". */
bp_status bp_rules_only(const bp_rules_source *source, const char *part, uint32_t node,
                        const char *list) BP_MUST_CHECK;

/* A member that is true or false, or `otherwise` when it is not there. */
bp_status bp_rules_flag(const bp_rules_source *source, const char *part, uint32_t node,
                        const char *key, bool otherwise, bool *flag) BP_MUST_CHECK;

/* A text that is implemented with one value only. */
bp_status bp_rules_need_text(const bp_rules_source *source, const char *part, uint32_t node,
                             const char *key, const char *wanted) BP_MUST_CHECK;

/* Whether the node's "type" is this. */
bool bp_rules_is(const bp_rules_source *source, uint32_t node, const char *type);

/* Metaspace, of a pre_tokenizer or a decoder. */
bp_status bp_rules_metaspace(const bp_rules_source *source, const char *part, uint32_t node,
                             bp_prefix_rule *prefix, bool *split) BP_MUST_CHECK;

/* Unigram's parts. */
bp_status bp_rules_unigram_model(const bp_rules_source *source,
                                 bp_token_rules *rules) BP_MUST_CHECK;
bp_status bp_rules_unigram_normalizer(const bp_rules_source *source,
                                      bp_token_rules *rules) BP_MUST_CHECK;
bp_status bp_rules_unigram_pre_tokenizer(const bp_rules_source *source,
                                         bp_token_rules *rules) BP_MUST_CHECK;

/* The members of a part that is one, or of a Sequence under `list_key`: *first is its first node
 * and *sequence says that siblings follow. */
bp_status bp_rules_list(const bp_rules_source *source, const char *part, uint32_t node,
                        const char *list_key, uint32_t *first, bool *sequence) BP_MUST_CHECK;

#endif
