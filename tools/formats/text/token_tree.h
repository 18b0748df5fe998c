/* SPDX-License-Identifier: MIT */
/* A small JSON value held as a whole: the settings of a tokenizer.json, which refer to each other.
 */
#ifndef BP_FORMATS_TOKEN_TREE_H
#define BP_FORMATS_TOKEN_TREE_H

#include "core/base/json.h"

#define BP_TREE_NODES 1024
#define BP_TREE_TEXT  24576 /* bytes of all strings and keys */
#define BP_TREE_NONE  0     /* no node; the numbers of nodes begin with 1 */

typedef struct bp_tree_node {
    bp_json_kind kind; /* OBJECT_BEGIN, ARRAY_BEGIN, TEXT, NUMBER, TRUE, FALSE, NULL */
    uint16_t first;    /* child */
    uint16_t next;     /* sibling */
    uint32_t key;      /* in text, terminated; of a member of an object */
    uint32_t text;     /* TEXT: in text, terminated */
    uint32_t length;
    bool integer;
    int64_t i64;
    double real;
} bp_tree_node;

typedef struct bp_tree {
    bp_tree_node nodes[BP_TREE_NODES];
    char text[BP_TREE_TEXT];
    uint32_t node_count;
    uint32_t text_used;
    /* A text that is not held: of the key `apart`, given to `take` in pieces; its node is "". Set
     * by the caller. */
    const char *apart;
    bp_status (*take)(void *user, const char *text, size_t length);
    void *user;
} bp_tree;

void bp_tree_init(bp_tree *tree);

/* Reads the value that comes next; *root is its node. BP_ERR_DATA: not JSON, a key that is there
 * twice in an object, or larger than a tree. */
bp_status bp_tree_read(bp_tree *tree, bp_json *json, uint32_t *root) BP_MUST_CHECK;

/* The same for the next value of a list; *there is false at its end. */
bp_status bp_tree_read_item(bp_tree *tree, bp_json *json, uint32_t *root,
                            bool *there) BP_MUST_CHECK;

/* An object whose members the caller reads: its beginning, and a member whose key is *event. */
bp_status bp_tree_begin_object(bp_tree *tree, bp_json *json, const bp_json_event *event,
                               uint32_t *object) BP_MUST_CHECK;
bp_status bp_tree_read_member(bp_tree *tree, bp_json *json, uint32_t object,
                              bp_json_event *event) BP_MUST_CHECK;

/* The member of an object; BP_TREE_NONE when there is none, or when `node` is no object. */
uint32_t bp_tree_find(const bp_tree *tree, uint32_t node, const char *key);

/* What a node is; `node` may be BP_TREE_NONE, which is nothing but absent. */
bool bp_tree_is_text(const bp_tree *tree, uint32_t node, const char *text);
bool bp_tree_is(const bp_tree *tree, uint32_t node, bp_json_kind kind);
/* Neither there nor anything but null. */
bool bp_tree_is_null(const bp_tree *tree, uint32_t node);
/* The text of a node, "" for one that is none. */
const char *bp_tree_text(const bp_tree *tree, uint32_t node);

#endif
