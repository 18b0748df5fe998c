/* SPDX-License-Identifier: MIT */
/* The in-memory store and its power cuts. */
#include "tests/support/store_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_NODE ((size_t)-1)

static void *grow(void *old, size_t bytes)
{
    void *memory = realloc(old, bytes == 0 ? 1 : bytes);
    if (memory == NULL) {
        fprintf(stderr, "the test ran out of memory\n");
        exit(1);
    }
    return memory;
}

static bp_status failed(bp_store *store, const char *reason)
{
    store->reason = reason;
    store->code = 5;
    return BP_ERR_STORE;
}

static bool power_is_off(const memory_store *memory)
{
    return memory->changes_made >= memory->changes_until;
}

/* Before a call that changes something: counts it, and refuses it when the power is off. */
static bp_status change(bp_store *store)
{
    memory_store *memory = store->context;
    if (power_is_off(memory)) {
        return failed(store, "the power is off");
    }
    memory->changes_made++;
    return BP_OK;
}

static size_t find_entry(const memory_content *content, const char *name)
{
    for (size_t i = 0; i < content->entry_count; i++) {
        if (strcmp(content->entries[i].name, name) == 0) {
            return i;
        }
    }
    return NO_NODE;
}

static void remove_entry(memory_content *content, const char *name)
{
    size_t i = find_entry(content, name);
    if (i != NO_NODE) {
        content->entries[i] = content->entries[--content->entry_count];
    }
}

static void set_entry(memory_content *content, const char *name, size_t node)
{
    remove_entry(content, name);
    content->entries =
        grow(content->entries, (content->entry_count + 1) * sizeof *content->entries);
    memory_entry *entry = &content->entries[content->entry_count++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->node = node;
}

static void apply_change(memory_content *content, const memory_change *made)
{
    if (made->from[0] != '\0') {
        remove_entry(content, made->from);
    }
    if (made->to[0] != '\0') {
        set_entry(content, made->to, made->node);
    }
}

static void apply_write(memory_content *content, const memory_write *made, size_t length)
{
    if (made->bytes == NULL) {
        content->size = 0;
        return;
    }
    if (length > 0 && made->offset + length > content->size) {
        content->bytes = grow(content->bytes, made->offset + length);
        memset(content->bytes + content->size, 0, made->offset + length - content->size);
        content->size = made->offset + length;
    }
    if (length > 0) {
        memcpy(content->bytes + made->offset, made->bytes, length);
    }
}

static void copy_content(memory_content *to, const memory_content *from)
{
    to->bytes = grow(to->bytes, from->size);
    memcpy(to->bytes, from->size > 0 ? from->bytes : (unsigned char *)"", from->size);
    to->size = from->size;
    to->entries = grow(to->entries, from->entry_count * sizeof *from->entries);
    if (from->entry_count > 0) {
        memcpy(to->entries, from->entries, from->entry_count * sizeof *from->entries);
    }
    to->entry_count = from->entry_count;
}

static void forget_pending(memory_node *node)
{
    for (size_t i = 0; i < node->write_count; i++) {
        free(node->writes[i].bytes);
    }
    node->write_count = 0;
    node->change_count = 0;
}

/* Makes the change and remembers it until the directory is synced. */
static void change_directory(memory_node *node, const char *from, const char *to, size_t target)
{
    node->changes = grow(node->changes, (node->change_count + 1) * sizeof *node->changes);
    memory_change *made = &node->changes[node->change_count++];
    snprintf(made->from, sizeof made->from, "%s", from);
    snprintf(made->to, sizeof made->to, "%s", to);
    made->node = target;
    apply_change(&node->now, made);
}

static void change_file(memory_node *node, size_t offset, const void *bytes, size_t length)
{
    /* Twice as many at each power of two: one at a time takes minutes of a sanitizer. */
    if ((node->write_count & (node->write_count - 1)) == 0) {
        const size_t room = node->write_count == 0 ? 1 : 2 * node->write_count;
        node->writes = grow(node->writes, room * sizeof *node->writes);
    }
    memory_write *made = &node->writes[node->write_count++];
    *made = (memory_write){.offset = offset, .length = length};
    if (bytes != NULL) {
        made->bytes = grow(NULL, length);
        memcpy(made->bytes, bytes, length);
    }
    apply_write(&node->now, made, length);
}

/* Walks to the directory that holds the last part of a path, and gives that part. */
static size_t walk(const memory_store *memory, const char *path, char last[64])
{
    size_t node = 0;
    last[0] = '\0';
    while (*path != '\0') {
        size_t length = strcspn(path, "/");
        char part[64];
        snprintf(part, sizeof part, "%.*s", (int)length, path);
        path += length;
        path += strspn(path, "/");
        bool skip = part[0] == '\0' || strcmp(part, ".") == 0;
        if (*path == '\0') {
            snprintf(last, 64, "%s", skip ? "" : part);
            return node;
        }
        size_t entry = skip ? 0 : find_entry(&memory->nodes[node].now, part);
        if (entry == NO_NODE) {
            return NO_NODE;
        }
        node = skip ? node : memory->nodes[node].now.entries[entry].node;
        if (!memory->nodes[node].directory) {
            return NO_NODE;
        }
    }
    return node;
}

static size_t find_node(const memory_store *memory, const char *path)
{
    char last[64];
    size_t node = walk(memory, path, last);
    if (node == NO_NODE || last[0] == '\0') {
        return node;
    }
    size_t entry = find_entry(&memory->nodes[node].now, last);
    return entry == NO_NODE ? NO_NODE : memory->nodes[node].now.entries[entry].node;
}

/* A new node; the table may move. */
static size_t add_node(memory_store *memory, bool directory)
{
    memory->nodes = grow(memory->nodes, (memory->node_count + 1) * sizeof *memory->nodes);
    memory->nodes[memory->node_count] = (memory_node){.directory = directory};
    return memory->node_count++;
}

static bp_status memory_open_read(bp_store *store, const char *path, bp_file *file)
{
    memory_store *memory = store->context;
    size_t node = find_node(memory, path);
    if (power_is_off(memory) || node == NO_NODE || memory->nodes[node].directory) {
        return failed(store, "no such file");
    }
    memory->open_files++;
    file->handle = node + 1;
    return BP_OK;
}

static bp_status memory_open_update(bp_store *store, const char *path, bp_file *file)
{
    return memory_open_read(store, path, file);
}

static bp_status memory_open_write(bp_store *store, const char *path, bp_file *file)
{
    memory_store *memory = store->context;
    BP_TRY(change(store));
    char last[64];
    size_t parent = walk(memory, path, last);
    if (parent == NO_NODE || last[0] == '\0') {
        return failed(store, "no such directory");
    }
    size_t node = find_node(memory, path);
    if (node == NO_NODE) {
        node = add_node(memory, false);
        change_directory(&memory->nodes[parent], "", last, node);
    } else {
        change_file(&memory->nodes[node], 0, NULL, 0);
    }
    memory->open_files++;
    file->handle = node + 1;
    return BP_OK;
}

static memory_node *node_of(const memory_store *memory, bp_file file)
{
    return &memory->nodes[file.handle - 1];
}

static bp_status memory_file_size(bp_store *store, bp_file file, uint64_t *bytes)
{
    *bytes = node_of(store->context, file)->now.size;
    return BP_OK;
}

static bp_status memory_read_at(bp_store *store, bp_file file, uint64_t offset, void *to,
                                size_t bytes)
{
    const memory_content *content = &node_of(store->context, file)->now;
    if (power_is_off(store->context) || offset > content->size || bytes > content->size - offset) {
        return failed(store, "the file ends too early");
    }
    if (bytes > 0) {
        memcpy(to, content->bytes + offset, bytes);
    }
    return BP_OK;
}

static bp_status memory_write_at(bp_store *store, bp_file file, uint64_t offset, const void *from,
                                 size_t bytes)
{
    BP_TRY(change(store));
    change_file(node_of(store->context, file), (size_t)offset, from, bytes);
    return BP_OK;
}

static void make_durable(memory_node *node)
{
    copy_content(&node->durable, &node->now);
    forget_pending(node);
}

static bp_status memory_sync(bp_store *store, bp_file file)
{
    BP_TRY(change(store));
    make_durable(node_of(store->context, file));
    return BP_OK;
}

static bp_status memory_close(bp_store *store, bp_file file)
{
    memory_store *memory = store->context;
    (void)file;
    memory->open_files--;
    return BP_OK;
}

static bp_status memory_rename(bp_store *store, const char *from, const char *to)
{
    memory_store *memory = store->context;
    BP_TRY(change(store));
    char old_name[64];
    char new_name[64];
    size_t parent = walk(memory, from, old_name);
    size_t node = find_node(memory, from);
    size_t there = find_node(memory, to);
    if (node == NO_NODE || walk(memory, to, new_name) != parent) {
        return failed(store, "no such file, or another directory");
    }
    if (there != NO_NODE && memory->nodes[there].now.entry_count > 0) {
        return failed(store, "directory not empty");
    }
    change_directory(&memory->nodes[parent], old_name, new_name, node);
    return BP_OK;
}

static bp_status unlink_entry(bp_store *store, const char *path, bool directory)
{
    memory_store *memory = store->context;
    BP_TRY(change(store));
    char last[64];
    size_t parent = walk(memory, path, last);
    size_t node = find_node(memory, path);
    if (node == NO_NODE || memory->nodes[node].directory != directory) {
        return failed(store, "no such file or directory");
    }
    if (memory->nodes[node].now.entry_count > 0) {
        return failed(store, "directory not empty");
    }
    change_directory(&memory->nodes[parent], last, "", 0);
    return BP_OK;
}

static bp_status memory_remove(bp_store *store, const char *path)
{
    return unlink_entry(store, path, false);
}

static bp_status memory_remove_directory(bp_store *store, const char *path)
{
    return unlink_entry(store, path, true);
}

static bp_status memory_make_directory(bp_store *store, const char *path)
{
    memory_store *memory = store->context;
    BP_TRY(change(store));
    char last[64];
    size_t parent = walk(memory, path, last);
    if (parent == NO_NODE) {
        return failed(store, "no such directory");
    }
    size_t node = find_node(memory, path);
    if (node != NO_NODE) {
        return memory->nodes[node].directory ? BP_OK : failed(store, "is a file");
    }
    node = add_node(memory, true);
    change_directory(&memory->nodes[parent], "", last, node);
    return BP_OK;
}

static bp_status memory_sync_directory(bp_store *store, const char *path)
{
    memory_store *memory = store->context;
    BP_TRY(change(store));
    size_t node = find_node(memory, path);
    if (node == NO_NODE || !memory->nodes[node].directory) {
        return failed(store, "no such directory");
    }
    make_durable(&memory->nodes[node]);
    return BP_OK;
}

static bp_status memory_list(bp_store *store, const char *path,
                             bp_status (*each)(void *user, const char *name), void *user)
{
    memory_store *memory = store->context;
    size_t node = find_node(memory, path);
    if (power_is_off(memory) || node == NO_NODE || !memory->nodes[node].directory) {
        return failed(store, "no such directory");
    }
    const memory_content *content = &memory->nodes[node].now;
    for (size_t i = 0; i < content->entry_count; i++) {
        BP_TRY(each(user, content->entries[i].name));
    }
    return BP_OK;
}

static bp_status memory_free_bytes(bp_store *store, const char *path, uint64_t *bytes)
{
    const memory_store *memory = store->context;
    (void)path;
    *bytes = memory->free_bytes;
    return BP_OK;
}

static bp_status memory_exists(bp_store *store, const char *path, bool *there)
{
    const memory_store *memory = store->context;
    if (power_is_off(memory)) {
        return failed(store, "the power is off");
    }
    *there = find_node(memory, path) != NO_NODE;
    return BP_OK;
}

void memory_store_init(memory_store *memory)
{
    *memory = (memory_store){.changes_until = (size_t)-1, .free_bytes = UINT64_MAX / 2};
    memory->store = (bp_store){.context = memory,
                               .open_read = memory_open_read,
                               .open_write = memory_open_write,
                               .file_size = memory_file_size,
                               .read_at = memory_read_at,
                               .write_at = memory_write_at,
                               .sync = memory_sync,
                               .close = memory_close,
                               .rename = memory_rename,
                               .remove = memory_remove,
                               .make_directory = memory_make_directory,
                               .remove_directory = memory_remove_directory,
                               .sync_directory = memory_sync_directory,
                               .list = memory_list,
                               .free_bytes = memory_free_bytes,
                               .open_update = memory_open_update,
                               .exists = memory_exists};
    (void)add_node(memory, true);
}

void memory_store_free(memory_store *memory)
{
    for (size_t i = 0; i < memory->node_count; i++) {
        memory_node *node = &memory->nodes[i];
        forget_pending(node);
        free(node->writes);
        free(node->changes);
        free(node->now.bytes);
        free(node->now.entries);
        free(node->durable.bytes);
        free(node->durable.entries);
    }
    free(memory->nodes);
}

/* splitmix64: one step of a generator that any seed may start. */
static uint64_t draw(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15u;
    uint64_t z = *seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void lose_some(memory_node *node, uint64_t seed, uint64_t *random)
{
    for (size_t i = 0; i < node->write_count; i++) {
        uint64_t fate = seed < 2 ? seed : draw(random) % 3;
        if (fate != 0) {
            size_t length = node->writes[i].length;
            size_t torn = fate == 2 ? draw(random) % (length + 1) : length;
            apply_write(&node->durable, &node->writes[i], torn);
        }
    }
    for (size_t i = 0; i < node->change_count; i++) {
        if (seed < 2 ? seed == 1 : draw(random) % 2 == 0) {
            apply_change(&node->durable, &node->changes[i]);
        }
    }
    forget_pending(node);
    copy_content(&node->now, &node->durable);
}

void memory_store_power_cut(memory_store *memory, uint64_t seed)
{
    uint64_t random = seed;
    for (size_t i = 0; i < memory->node_count; i++) {
        lose_some(&memory->nodes[i], seed, &random);
    }
    memory->changes_until = (size_t)-1;
    memory->open_files = 0;
}

unsigned char *memory_store_bytes(memory_store *memory, const char *path, size_t *size)
{
    size_t node = find_node(memory, path);
    if (node == NO_NODE || memory->nodes[node].directory) {
        return NULL;
    }
    memory_content *content = &memory->nodes[node].now;
    content->bytes = grow(content->bytes, content->size); /* not NULL for an empty file */
    *size = content->size;
    return content->bytes;
}

void memory_store_put(memory_store *memory, const char *path, const void *bytes, size_t size)
{
    bp_file file;
    bp_store *store = &memory->store;
    bool written = store->open_write(store, path, &file) == BP_OK &&
                   store->write_at(store, file, 0, bytes, size) == BP_OK &&
                   store->close(store, file) == BP_OK;
    if (!written) {
        fprintf(stderr, "the test cannot write %s\n", path);
        exit(1);
    }
}
