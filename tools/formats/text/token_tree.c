/* SPDX-License-Identifier: MIT */
/* Small JSON values in a table of nodes, read without recursion. */
#include "tools/formats/text/token_tree.h"

#include <string.h>

void bp_tree_init(bp_tree *tree)
{
    tree->node_count = 1;
    tree->text_used = 0;
}

static bp_status keep_text(bp_tree *tree, bp_json *json, const bp_json_event *event, uint32_t *at)
{
    if (event->length >= BP_TREE_TEXT - tree->text_used) {
        return bp_json_refuse(json, "the settings of the tokenizer are too long");
    }
    *at = tree->text_used;
    memcpy(tree->text + tree->text_used, event->text, event->length + 1);
    tree->text_used += (uint32_t)event->length + 1;
    return BP_OK;
}

static bp_status token_tree_add_node(bp_tree *tree, bp_json *json, const bp_json_event *event,
                                     uint32_t key, uint32_t *node)
{
    if (tree->node_count == BP_TREE_NODES) {
        return bp_json_refuse(json, "the settings of the tokenizer have too many parts");
    }
    bp_tree_node made = {.kind = event->kind,
                         .key = key,
                         .length = (uint32_t)event->length,
                         .integer = event->integer,
                         .i64 = event->i64,
                         .real = event->real};
    if (event->kind == BP_JSON_TEXT) {
        BP_TRY(keep_text(tree, json, event, &made.text));
    }
    *node = tree->node_count++;
    tree->nodes[*node] = made;
    return BP_OK;
}

/* Containers that are open around the place of reading, and their last children. */
typedef struct nesting {
    uint16_t container[BP_JSON_DEPTH_MAX];
    uint16_t last[BP_JSON_DEPTH_MAX];
    uint32_t depth;
} nesting;

static void link_node(bp_tree *tree, nesting *open, uint32_t node)
{
    if (open->depth == 0) {
        return;
    }
    uint32_t level = open->depth - 1;
    if (open->last[level] == BP_TREE_NONE) {
        tree->nodes[open->container[level]].first = (uint16_t)node;
    } else {
        tree->nodes[open->last[level]].next = (uint16_t)node;
    }
    open->last[level] = (uint16_t)node;
}

static bp_status token_tree_take_key(bp_tree *tree, bp_json *json, uint32_t object,
                                     const bp_json_event *event, uint32_t *key)
{
    if (bp_tree_find(tree, object, event->text) != BP_TREE_NONE) {
        return bp_json_refuse(json, "a key is there twice");
    }
    return keep_text(tree, json, event, key);
}

/* Gives a text that is not held away; *event becomes an empty one. */
static bp_status take_apart(bp_tree *tree, bp_json *json, bp_json_event *event)
{
    while (event->kind == BP_JSON_TEXT_PART) {
        BP_TRY(tree->take(tree->user, event->text, event->length));
        BP_TRY(bp_json_next(json, event));
    }
    BP_TRY(tree->take(tree->user, event->text, event->length));
    event->text = "";
    event->length = 0;
    return BP_OK;
}

static bool is_apart(const bp_tree *tree, const bp_json_event *event, uint32_t key)
{
    const bool text = event->kind == BP_JSON_TEXT || event->kind == BP_JSON_TEXT_PART;
    return text && strcmp(tree->text + key, tree->apart) == 0;
}

/* Reads the value whose first event is *event. */
static bp_status read_value(bp_tree *tree, bp_json *json, bp_json_event *event, uint32_t key,
                            uint32_t *root)
{
    nesting open = {.depth = 0};
    *root = BP_TREE_NONE;
    for (;;) {
        uint32_t node;
        const bool member = open.depth > 0 && tree->nodes[open.container[open.depth - 1]].kind ==
                                                  BP_JSON_OBJECT_BEGIN;
        if (member && is_apart(tree, event, key)) {
            BP_TRY(take_apart(tree, json, event));
        }
        switch (event->kind) {
        case BP_JSON_END:
            return bp_json_refuse(json, "the file must hold one JSON object");
        case BP_JSON_KEY:
            BP_TRY(token_tree_take_key(tree, json, open.container[open.depth - 1], event, &key));
            break;
        case BP_JSON_TEXT_PART:
            return bp_json_refuse(json, "a text of the settings is too long");
        case BP_JSON_OBJECT_END:
        case BP_JSON_ARRAY_END:
            open.depth--;
            break;
        default:
            BP_TRY(token_tree_add_node(tree, json, event, key, &node));
            link_node(tree, &open, node);
            *root = *root == BP_TREE_NONE ? node : *root;
            if (event->kind == BP_JSON_OBJECT_BEGIN || event->kind == BP_JSON_ARRAY_BEGIN) {
                open.container[open.depth] = (uint16_t)node;
                open.last[open.depth++] = BP_TREE_NONE;
            }
        }
        if (open.depth == 0) {
            return BP_OK;
        }
        BP_TRY(bp_json_next(json, event));
    }
}

bp_status bp_tree_read(bp_tree *tree, bp_json *json, uint32_t *root)
{
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    return read_value(tree, json, &event, 0, root);
}

bp_status bp_tree_read_item(bp_tree *tree, bp_json *json, uint32_t *root, bool *there)
{
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    *there = event.kind != BP_JSON_ARRAY_END;
    *root = BP_TREE_NONE;
    return *there ? read_value(tree, json, &event, 0, root) : BP_OK;
}

bp_status bp_tree_begin_object(bp_tree *tree, bp_json *json, const bp_json_event *event,
                               uint32_t *object)
{
    return token_tree_add_node(tree, json, event, 0, object);
}

bp_status bp_tree_read_member(bp_tree *tree, bp_json *json, uint32_t object, bp_json_event *event)
{
    uint32_t key = 0;
    uint32_t node = BP_TREE_NONE;
    BP_TRY(token_tree_take_key(tree, json, object, event, &key));
    BP_TRY(bp_json_next(json, event));
    BP_TRY(read_value(tree, json, event, key, &node));
    tree->nodes[node].next = tree->nodes[object].first;
    tree->nodes[object].first = (uint16_t)node;
    return BP_OK;
}

uint32_t bp_tree_find(const bp_tree *tree, uint32_t node, const char *key)
{
    if (!bp_tree_is(tree, node, BP_JSON_OBJECT_BEGIN)) {
        return BP_TREE_NONE;
    }
    uint32_t child = tree->nodes[node].first;
    while (child != BP_TREE_NONE && strcmp(tree->text + tree->nodes[child].key, key) != 0) {
        child = tree->nodes[child].next;
    }
    return child;
}

bool bp_tree_is(const bp_tree *tree, uint32_t node, bp_json_kind kind)
{
    return node != BP_TREE_NONE && tree->nodes[node].kind == kind;
}

bool bp_tree_is_text(const bp_tree *tree, uint32_t node, const char *text)
{
    return bp_tree_is(tree, node, BP_JSON_TEXT) &&
           strcmp(tree->text + tree->nodes[node].text, text) == 0;
}

bool bp_tree_is_null(const bp_tree *tree, uint32_t node)
{
    return node == BP_TREE_NONE || tree->nodes[node].kind == BP_JSON_NULL;
}

const char *bp_tree_text(const bp_tree *tree, uint32_t node)
{
    return bp_tree_is(tree, node, BP_JSON_TEXT) ? tree->text + tree->nodes[node].text : "";
}
