/* SPDX-License-Identifier: MIT */
/* post_processor of a tokenizer.json: the special tokens around one text and around a pair. */
#include <string.h>

#include "tools/formats/text/token_rules.h"

static const char part_name[] = "post_processor";

static bool type_is(const bp_rules_source *s, uint32_t node, const char *type)
{
    return bp_tree_is_text(s->tree, bp_tree_find(s->tree, node, "type"), type);
}

/* A number 0 .. below - 1. */
static bool read_number(const bp_rules_source *s, uint32_t node, uint32_t below, uint32_t *number)
{
    bool good = bp_tree_is(s->tree, node, BP_JSON_NUMBER) && s->tree->nodes[node].integer &&
                s->tree->nodes[node].i64 >= 0 && s->tree->nodes[node].i64 < (int64_t)below;
    *number = good ? (uint32_t)s->tree->nodes[node].i64 : 0;
    return good;
}

static bool put_id(bp_template_part *part, uint32_t id, uint32_t type)
{
    if (part->count == BP_TEMPLATE_IDS) {
        return false;
    }
    part->ids[part->count] = id;
    part->types[part->count++] = (uint8_t)type;
    return true;
}

/* {"SpecialToken": {"id": "[CLS]", "type_id": 0}}: its ids are in special_tokens. */
static bool put_special(const bp_rules_source *s, uint32_t processor, uint32_t token,
                        bp_template_part *part)
{
    const bp_tree *tree = s->tree;
    uint32_t type;
    uint32_t id;
    const char *name = bp_tree_text(tree, bp_tree_find(tree, token, "id"));
    uint32_t all = bp_tree_find(tree, processor, "special_tokens");
    uint32_t ids = bp_tree_find(tree, bp_tree_find(tree, all, name), "ids");
    if (!read_number(s, bp_tree_find(tree, token, "type_id"), 256, &type) ||
        !bp_tree_is(tree, ids, BP_JSON_ARRAY_BEGIN)) {
        return false;
    }
    for (uint32_t node = tree->nodes[ids].first; node != BP_TREE_NONE;
         node = tree->nodes[node].next) {
        if (!read_number(s, node, BP_TOKENIZER_TOKENS_MAX, &id) || !put_id(part, id, type)) {
            return false;
        }
    }
    return true;
}

/* A list of special tokens and sequences: A once, and B once behind it in a pair. */
static bp_status read_form(const bp_rules_source *s, uint32_t processor, const char *key, bool pair,
                           bp_template *form)
{
    const bp_tree *tree = s->tree;
    uint32_t list = bp_tree_find(tree, processor, key);
    bp_template_part *parts[] = {&form->before, pair ? &form->between : &form->after, &form->after};
    uint32_t sequences = 0;
    bool good = bp_tree_is(tree, list, BP_JSON_ARRAY_BEGIN);
    form->set = true;
    for (uint32_t node = good ? tree->nodes[list].first : BP_TREE_NONE;
         node != BP_TREE_NONE && good; node = tree->nodes[node].next) {
        uint32_t special = bp_tree_find(tree, node, "SpecialToken");
        uint32_t sequence = bp_tree_find(tree, node, "Sequence");
        uint32_t type = 0;
        if (special != BP_TREE_NONE) {
            good = put_special(s, processor, special, parts[sequences]);
            continue;
        }
        good =
            sequences < (pair ? 2u : 1u) &&
            bp_tree_is_text(tree, bp_tree_find(tree, sequence, "id"), sequences == 0 ? "A" : "B") &&
            read_number(s, bp_tree_find(tree, sequence, "type_id"), 256, &type);
        form->type_a = sequences == 0 ? (uint8_t)type : form->type_a;
        form->type_b = sequences == 1 ? (uint8_t)type : form->type_b;
        sequences++;
    }
    return good && sequences == (pair ? 2u : 1u)
               ? BP_OK
               : bp_rules_refuse(s, part_name, processor, key,
                                 "the template must be special tokens around A, or around A and "
                                 "then B, at most 8 in a row, each with its ids");
}

static bp_status read_template(const bp_rules_source *s, uint32_t node, bp_token_rules *rules)
{
    BP_TRY(bp_rules_only(s, part_name, node, "type single pair special_tokens"));
    rules->single = (bp_template){.set = false};
    rules->pair = (bp_template){.set = false};
    BP_TRY(read_form(s, node, "single", false, &rules->single));
    return read_form(s, node, "pair", true, &rules->pair);
}

/* ["[SEP]", 102] */
static bool read_named_id(const bp_rules_source *s, uint32_t node, uint32_t *id)
{
    if (!bp_tree_is(s->tree, node, BP_JSON_ARRAY_BEGIN)) {
        return false;
    }
    uint32_t name = s->tree->nodes[node].first;
    return bp_tree_is(s->tree, name, BP_JSON_TEXT) &&
           read_number(s, s->tree->nodes[name].next, BP_TOKENIZER_TOKENS_MAX, id);
}

/* BERT: cls A sep, cls A sep B sep with type 1 from B on. RoBERTa: a second sep before B, and no
 * types. */
static bp_status read_cls_sep(const bp_rules_source *s, uint32_t node, bool roberta,
                              bp_token_rules *rules)
{
    uint32_t cls;
    uint32_t sep;
    BP_TRY(bp_rules_only(s, part_name, node, "type sep cls trim_offsets add_prefix_space"));
    if (!read_named_id(s, bp_tree_find(s->tree, node, "cls"), &cls) ||
        !read_named_id(s, bp_tree_find(s->tree, node, "sep"), &sep)) {
        return bp_rules_refuse(s, part_name, node, "", "cls and sep must be [text, id]");
    }
    rules->single = (bp_template){
        .before = {.ids = {cls}, .count = 1}, .after = {.ids = {sep}, .count = 1}, .set = true};
    rules->pair = rules->single;
    rules->pair.between = (bp_template_part){.ids = {sep, sep}, .count = roberta ? 2 : 1};
    rules->pair.type_b = roberta ? 0 : 1;
    rules->pair.after.types[0] = rules->pair.type_b;
    return BP_OK;
}

bp_status bp_token_template_read(const bp_rules_source *s, bp_token_rules *rules)
{
    uint32_t node = s->post_processor;
    bool sequence = false;
    rules->pair.type_b = 1; /* what a pair is without a post-processor */
    if (bp_tree_is_null(s->tree, node)) {
        return BP_OK;
    }
    BP_TRY(bp_rules_list(s, part_name, node, "processors", &node, &sequence));
    while (node != BP_TREE_NONE) {
        if (type_is(s, node, "ByteLevel")) { /* moves offsets only */
            BP_TRY(
                bp_rules_only(s, part_name, node, "type add_prefix_space trim_offsets use_regex"));
        } else if (rules->single.set) {
            return bp_rules_refuse(s, part_name, node, "", "only one template is implemented");
        } else if (type_is(s, node, "TemplateProcessing")) {
            BP_TRY(read_template(s, node, rules));
        } else if (type_is(s, node, "BertProcessing") || type_is(s, node, "RobertaProcessing")) {
            BP_TRY(read_cls_sep(s, node, type_is(s, node, "RobertaProcessing"), rules));
        } else {
            return bp_rules_refuse(s, part_name, node, "",
                                   "this kind of part is not among the implemented");
        }
        node = sequence ? s->tree->nodes[node].next : BP_TREE_NONE;
    }
    return BP_OK;
}
