/* SPDX-License-Identifier: MIT */
/* Unigram's part of a tokenizer.json: its model, its normalizer and its pre_tokenizer. */
#include "tools/formats/text/token_rules.h"

static const char missing_part[] = "this kind of part is not among the implemented for Unigram";

bp_status bp_rules_unigram_model(const bp_rules_source *s, bp_token_rules *rules)
{
    static const char part[] = "model";
    BP_TRY(bp_rules_only(s, part, s->model, "type unk_id byte_fallback"));
    const uint32_t unknown = bp_tree_find(s->tree, s->model, "unk_id");
    const bp_tree_node *number = &s->tree->nodes[unknown];
    if (!bp_tree_is(s->tree, unknown, BP_JSON_NUMBER) || !number->integer || number->i64 < 0 ||
        number->i64 >= BP_TOKENIZER_TOKENS_MAX) {
        return bp_rules_refuse(s, part, s->model, "unk_id", "this must be the id of a token");
    }
    rules->kind = BP_TOKENIZER_UNIGRAM;
    rules->unknown_id = (uint32_t)number->i64;
    return bp_rules_flag(s, part, s->model, "byte_fallback", false, &rules->fallback);
}

/* Replace of a run of spaces. */
static bp_status read_runs(const bp_rules_source *s, uint32_t node, bp_token_rules *rules)
{
    static const char part[] = "normalizer";
    BP_TRY(bp_rules_only(s, part, node, "type pattern content"));
    const uint32_t pattern = bp_tree_find(s->tree, node, "pattern");
    BP_TRY(bp_rules_only(s, part, pattern, "Regex"));
    BP_TRY(bp_rules_need_text(s, part, pattern, "Regex", " {2,}"));
    const uint32_t content = bp_tree_find(s->tree, node, "content");
    rules->runs = bp_tree_is_text(s->tree, content, " ") ? BP_RUNS_SPACE : BP_RUNS_META;
    return rules->runs == BP_RUNS_SPACE
               ? BP_OK
               : bp_rules_need_text(s, part, node, "content", "\xe2\x96\x81");
}

static bp_status read_strip(const bp_rules_source *s, uint32_t node, bp_token_rules *rules)
{
    static const char part[] = "normalizer";
    bool left;
    BP_TRY(bp_rules_only(s, part, node, "type strip_left strip_right"));
    BP_TRY(bp_rules_flag(s, part, node, "strip_left", true, &left));
    BP_TRY(bp_rules_flag(s, part, node, "strip_right", true, &rules->strip_right));
    return !left ? BP_OK
                 : bp_rules_refuse(s, part, node, "strip_left", "only false is implemented");
}

/* A normal form, lower case, or both in this order, which no map follows. */
static bp_status read_folding(const bp_rules_source *s, uint32_t *node, bool sequence,
                              bp_token_rules *rules)
{
    static const char part[] = "normalizer";
    if (*node == BP_TREE_NONE) {
        return BP_OK;
    }
    rules->compatible = bp_rules_is(s, *node, "NFKC");
    rules->compose = bp_rules_is(s, *node, "NFC");
    if (rules->compatible || rules->compose) {
        BP_TRY(bp_rules_only(s, part, *node, "type"));
        *node = sequence ? s->tree->nodes[*node].next : BP_TREE_NONE;
    }
    rules->lower = *node != BP_TREE_NONE && bp_rules_is(s, *node, "Lowercase");
    if (rules->lower) {
        BP_TRY(bp_rules_only(s, part, *node, "type"));
        *node = sequence ? s->tree->nodes[*node].next : BP_TREE_NONE;
    }
    return BP_OK;
}

bp_status bp_rules_unigram_normalizer(const bp_rules_source *s, bp_token_rules *rules)
{
    static const char part[] = "normalizer";
    uint32_t node = s->normalizer;
    bool sequence;
    rules->plain = bp_tree_is_null(s->tree, node);
    if (rules->plain) {
        return BP_OK;
    }
    BP_TRY(bp_rules_list(s, part, node, "normalizers", &node, &sequence));
    /* In the order in which they are streamed: the map, or a normal form and lower case; what is
     * stripped; runs. */
    BP_TRY(read_folding(s, &node, sequence, rules));
    const bool folds = rules->compose || rules->compatible || rules->lower;
    for (int stage = 0; node != BP_TREE_NONE; stage++) {
        if (stage < 1 && !folds && bp_rules_is(s, node, "Precompiled")) {
            BP_TRY(bp_rules_only(s, part, node, "type precompiled_charsmap"));
            rules->charsmap = true;
            stage = 0;
        } else if (stage < 2 && bp_rules_is(s, node, "Strip")) {
            BP_TRY(read_strip(s, node, rules));
            stage = 1;
        } else if (stage < 3 && bp_rules_is(s, node, "Replace")) {
            BP_TRY(read_runs(s, node, rules));
            stage = 2;
        } else {
            return bp_rules_refuse(s, part, node, "", missing_part);
        }
        node = sequence ? s->tree->nodes[node].next : BP_TREE_NONE;
    }
    return BP_OK;
}

bp_status bp_rules_unigram_pre_tokenizer(const bp_rules_source *s, bp_token_rules *rules)
{
    static const char part[] = "pre_tokenizer";
    uint32_t node = s->pre_tokenizer;
    bool sequence = false;
    bool split;
    rules->split = BP_SPLIT_WHOLE;
    if (bp_tree_is_null(s->tree, node)) {
        return BP_OK;
    }
    BP_TRY(bp_rules_list(s, part, node, "pretokenizers", &node, &sequence));
    if (sequence && bp_rules_is(s, node, "WhitespaceSplit")) {
        BP_TRY(bp_rules_only(s, part, node, "type"));
        rules->words = true;
        node = s->tree->nodes[node].next;
    }
    if (!bp_rules_is(s, node, "Metaspace") ||
        (sequence && s->tree->nodes[node].next != BP_TREE_NONE)) {
        return bp_rules_refuse(s, part, node, "", missing_part);
    }
    BP_TRY(bp_rules_metaspace(s, part, node, &rules->prefix, &split));
    if (rules->words && (!split || rules->prefix != BP_PREFIX_META)) {
        return bp_rules_refuse(s, part, node, split ? "prepend_scheme" : "split",
                               "behind WhitespaceSplit only \"always\" and true are implemented");
    }
    rules->split = split ? BP_SPLIT_META : BP_SPLIT_WHOLE;
    rules->spaces = true;
    return BP_OK;
}
