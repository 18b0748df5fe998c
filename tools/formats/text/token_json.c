/* SPDX-License-Identifier: MIT */
/* tokenizer.json. Its parts may come in any order, so each pass takes what it is for. */
#include <string.h>

#include "tools/formats/text/token_load.h"

static bp_status token_json_refuse(bp_load *load, const char *name, const char *text)
{
    return bp_error_set(load->error, BP_ERR_DATA, "tokenizer.json", text, name);
}

static bp_status next(bp_load *load, bp_json_event *event)
{
    return bp_json_next(&load->json, event);
}

/* [["piece", score], ..] behind its bracket: Unigram's vocabulary, whose ids are its places. */
static bp_status read_scored(bp_load *load)
{
    static const char wrong[] = "the vocabulary's list must be of texts with their scores";
    bp_json_event event;
    char *piece = load->scratch->token;
    if (load->pass == BP_LOAD_COUNT) {
        load->need->scored = true;
    }
    for (int64_t id = 0;; id++) {
        BP_TRY(next(load, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        if (event.kind != BP_JSON_ARRAY_BEGIN) {
            return token_json_refuse(load, "vocab", wrong);
        }
        BP_TRY(next(load, &event));
        const size_t length = event.length;
        if (event.kind != BP_JSON_TEXT || length >= BP_TOKENIZER_DECODED_MAX) {
            return token_json_refuse(load, "vocab", wrong);
        }
        memcpy(piece, event.text, length);
        BP_TRY(next(load, &event));
        if (event.kind != BP_JSON_NUMBER) {
            return token_json_refuse(load, "vocab", wrong);
        }
        BP_TRY(bp_load_scored(load, piece, length, id, event.real));
        BP_TRY(next(load, &event));
        if (event.kind != BP_JSON_ARRAY_END) {
            return token_json_refuse(load, "vocab", wrong);
        }
    }
}

/* {"token": id, ..}: the vocabulary, and the whole of a vocab.json. */
static bp_status read_vocab(bp_load *load)
{
    bp_json_event event;
    BP_TRY(next(load, &event));
    if (event.kind == BP_JSON_ARRAY_BEGIN) {
        return read_scored(load);
    }
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return token_json_refuse(load, "vocab",
                                 "the vocabulary must be an object of tokens and their ids, or a "
                                 "list of them with their scores");
    }
    for (;;) {
        BP_TRY(next(load, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            return BP_OK;
        }
        /* The value's event takes the key's place; bp_load_token works in place. */
        size_t length = event.length;
        char *key = load->scratch->token;
        if (length >= BP_TOKENIZER_DECODED_MAX) {
            return bp_json_refuse(&load->json, "a token is too long");
        }
        memcpy(key, event.text, length);
        BP_TRY(next(load, &event));
        if (event.kind != BP_JSON_NUMBER || !event.integer) {
            return bp_json_refuse(&load->json, "the id of a token must be a whole number");
        }
        BP_TRY(bp_load_token(load, key, length, event.i64));
    }
}

/* "a b" */
static bp_status take_merge_text(bp_load *load, const char *text, size_t length)
{
    const char *space = memchr(text, ' ', length);
    size_t left = space != NULL ? (size_t)(space - text) : length;
    size_t rest = space != NULL ? length - left - 1 : 0;
    if (space == NULL || memchr(space + 1, ' ', rest) != NULL) {
        return token_json_refuse(load, "merges",
                                 "a merge must be two tokens with one space between them");
    }
    return bp_load_merge(load, text, left, space + 1, rest);
}

/* ["a", "b"] behind its bracket */
static bp_status take_merge_pair(bp_load *load)
{
    static const char wrong[] = "a merge must be a list of two tokens";
    bp_json_event event;
    char *left = load->scratch->token;
    BP_TRY(next(load, &event));
    size_t length = event.length;
    if (event.kind != BP_JSON_TEXT || length >= BP_TOKENIZER_DECODED_MAX) {
        return token_json_refuse(load, "merges", wrong);
    }
    memcpy(left, event.text, length);
    BP_TRY(next(load, &event));
    if (event.kind != BP_JSON_TEXT) {
        return token_json_refuse(load, "merges", wrong);
    }
    BP_TRY(bp_load_merge(load, left, length, event.text, event.length));
    BP_TRY(next(load, &event));
    return event.kind == BP_JSON_ARRAY_END ? BP_OK : token_json_refuse(load, "merges", wrong);
}

static bp_status read_merges(bp_load *load)
{
    bp_json_event event;
    BP_TRY(next(load, &event));
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return token_json_refuse(load, "merges", "the merges must be a list");
    }
    for (;;) {
        BP_TRY(next(load, &event));
        switch (event.kind) {
        case BP_JSON_ARRAY_END:
            return BP_OK;
        case BP_JSON_TEXT:
            BP_TRY(take_merge_text(load, event.text, event.length));
            break;
        case BP_JSON_ARRAY_BEGIN:
            BP_TRY(take_merge_pair(load));
            break;
        default:
            return token_json_refuse(load, "merges", "a merge must be a text or a list of two");
        }
    }
}

/* One added token: its settings, each of which is implemented or refused. */
static bp_status take_added(bp_load *load, const bp_rules_source *s, uint32_t node)
{
    static const char part[] = "added_tokens";
    bool special, left, right, word, normalized;
    BP_TRY(bp_rules_only(s, part, node, "id content single_word lstrip rstrip normalized special"));
    BP_TRY(bp_rules_flag(s, part, node, "special", false, &special));
    BP_TRY(bp_rules_flag(s, part, node, "lstrip", false, &left));
    BP_TRY(bp_rules_flag(s, part, node, "rstrip", false, &right));
    BP_TRY(bp_rules_flag(s, part, node, "single_word", false, &word));
    BP_TRY(bp_rules_flag(s, part, node, "normalized", !special, &normalized));
    uint32_t id = bp_tree_find(s->tree, node, "id");
    uint32_t content = bp_tree_find(s->tree, node, "content");
    if (!bp_tree_is(s->tree, id, BP_JSON_NUMBER) || !s->tree->nodes[id].integer ||
        !bp_tree_is(s->tree, content, BP_JSON_TEXT)) {
        return bp_rules_refuse(s, part, node, "", "an added token needs an id and a content");
    }
    uint32_t flags = (special ? BP_ADDED_SPECIAL : 0u) | (left ? BP_ADDED_LSTRIP : 0u) |
                     (right ? BP_ADDED_RSTRIP : 0u) | (word ? BP_ADDED_WORD : 0u);
    return bp_load_added(load, bp_tree_text(s->tree, content), s->tree->nodes[content].length,
                         s->tree->nodes[id].i64, flags, normalized);
}

static bp_status read_added(bp_load *load)
{
    bp_tree *tree = &load->scratch->tree;
    bp_rules_source source = {.tree = tree, .error = load->error};
    uint32_t nodes = tree->node_count;
    uint32_t text = tree->text_used;
    bp_json_event event;
    BP_TRY(next(load, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return token_json_refuse(load, "added_tokens", "this part must be a list");
    }
    for (;;) {
        uint32_t node;
        bool more;
        BP_TRY(bp_tree_read_item(tree, &load->json, &node, &more));
        if (!more) {
            return BP_OK;
        }
        BP_TRY(take_added(load, &source, node));
        tree->node_count = nodes; /* one at a time */
        tree->text_used = text;
    }
}

/* The members of the model; its settings are linked under one node. */
static bp_status read_model(bp_load *load, uint32_t *model)
{
    bp_tree *tree = &load->scratch->tree;
    bp_json_event event;
    bool vocab = false;
    bool merges = false;
    BP_TRY(next(load, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return token_json_refuse(load, "model", "this part must be an object");
    }
    BP_TRY(bp_tree_begin_object(tree, &load->json, &event, model));
    for (;;) {
        BP_TRY(next(load, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            return vocab ? BP_OK
                         : token_json_refuse(load, "model.vocab", "the vocabulary is missing");
        }
        bool *seen = strcmp(event.text, "vocab") == 0    ? &vocab
                     : strcmp(event.text, "merges") == 0 ? &merges
                                                         : NULL;
        if (seen == NULL) {
            BP_TRY(bp_tree_read_member(tree, &load->json, *model, &event));
            continue;
        }
        if (*seen) {
            return bp_json_refuse(&load->json, "a key is there twice");
        }
        *seen = true;
        bp_load_pass other = seen == &vocab ? BP_LOAD_MERGES : BP_LOAD_TOKENS;
        if (load->pass == other) {
            BP_TRY(bp_json_skip(&load->json));
        } else {
            BP_TRY(seen == &vocab ? read_vocab(load) : read_merges(load));
        }
    }
}

/* One part of the file. */
static bp_status read_part(bp_load *load, bp_rules_source *s, const char *key, uint32_t *seen)
{
    static const char *const parts[] = {"version",        "truncation", "padding",
                                        "added_tokens",   "normalizer", "pre_tokenizer",
                                        "post_processor", "decoder",    "model"};
    uint32_t *nodes[] = {&s->normalizer, &s->pre_tokenizer, &s->post_processor, &s->decoder};
    size_t part = 0;
    while (part < 9 && strcmp(parts[part], key) != 0) {
        part++;
    }
    if (part == 9) {
        return token_json_refuse(load, key, "this part of a tokenizer.json is not implemented");
    }
    if ((*seen >> part & 1) != 0) {
        return bp_json_refuse(&load->json, "a key is there twice");
    }
    *seen |= 1u << part;
    if (part == 3 && load->pass != BP_LOAD_TOKENS) {
        return read_added(load);
    }
    if (part == 8) {
        return read_model(load, &s->model);
    }
    /* Text of the normalizer is counted first and then taken. */
    if (part == 4 && load->pass == BP_LOAD_TOKENS) {
        uint32_t again;
        return bp_tree_read(&load->scratch->tree, &load->json, &again);
    }
    /* transformers resets truncation and padding at every call, so the file's mean nothing. */
    return part >= 4 && load->pass == BP_LOAD_COUNT
               ? bp_tree_read(&load->scratch->tree, &load->json, nodes[part - 4])
               : bp_json_skip(&load->json);
}

bp_status bp_load_tokenizer_json(bp_load *load)
{
    bp_rules_source source = {.tree = &load->scratch->tree, .error = load->error};
    bp_json_event event;
    uint32_t seen = 0;
    bp_tree_init(&load->scratch->tree);
    load->scratch->tree.apart = "precompiled_charsmap";
    load->scratch->tree.take = bp_load_map;
    load->scratch->tree.user = load;
    load->base64 = (bp_base64){.count = 0};
    BP_TRY(bp_load_json_begin(load));
    BP_TRY(next(load, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&load->json, "the file must hold one JSON object");
    }
    for (;;) {
        char key[32];
        BP_TRY(next(load, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            break;
        }
        size_t length = event.length < sizeof key ? event.length : sizeof key - 1;
        memcpy(key, event.text, length);
        key[length] = '\0';
        BP_TRY(read_part(load, &source, key, &seen));
    }
    BP_TRY(next(load, &event)); /* nothing but the end */
    if ((seen >> 8 & 1) == 0) {
        return token_json_refuse(load, "model", "this part is missing");
    }
    return load->pass == BP_LOAD_COUNT ? bp_token_rules_read(&source, &load->rules) : BP_OK;
}

bp_status bp_load_vocab_json(bp_load *load)
{
    bp_json_event event;
    BP_TRY(bp_load_json_begin(load));
    BP_TRY(read_vocab(load));
    return next(load, &event);
}
