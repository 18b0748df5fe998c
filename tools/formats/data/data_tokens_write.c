/* SPDX-License-Identifier: MIT */
/* Writing token files. */
#include <string.h>

#include "core/base/storage.h"
#include "tools/formats/data/data_tokens_form.h"
#include "tools/formats/files/stream_file.h"

#define VERSION 1

static const char magic[8] = {'B', 'P', 'T', 'O', 'K', 'E', 'N', 'S'};

static void put_number(unsigned char *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t get_number(const unsigned char *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value |= (uint64_t)from[i] << (8 * i);
    }
    return value;
}

void bp_tokens_head_write(const bp_tokens_head *head, unsigned char bytes[BP_TOKENS_HEADER])
{
    const uint64_t longs[] = {head->key,          head->tokens,    head->examples,
                              head->start,        head->documents, head->examples_digest,
                              head->tokens_digest};
    memset(bytes, 0, BP_TOKENS_HEADER);
    memcpy(bytes, magic, sizeof magic);
    put_number(bytes + 8, VERSION, 4);
    put_number(bytes + 12, head->width, 4);
    put_number(bytes + 16, head->tail, 4);
    put_number(bytes + 20, head->form, 4);
    for (size_t i = 0; i < sizeof longs / sizeof longs[0]; i++) {
        put_number(bytes + 24 + 8 * i, longs[i], 8);
    }
    const uint32_t words[] = {head->texts, head->types,      head->lead,
                              head->join,  head->unlabelled, head->impossible};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        put_number(bytes + 80 + 4 * i, words[i], 4);
    }
    put_number(bytes + 104, head->left_out, 8);
    put_number(bytes + 112, head->left_digest, 8);
    put_number(bytes + 120, bp_digest_of(bytes, 120, 0), 8);
}

bool bp_tokens_head_read(bp_tokens_head *head, const unsigned char bytes[BP_TOKENS_HEADER])
{
    uint64_t *longs[] = {&head->key,          &head->tokens,    &head->examples,
                         &head->start,        &head->documents, &head->examples_digest,
                         &head->tokens_digest};
    head->width = (uint32_t)get_number(bytes + 12, 4);
    head->tail = (uint32_t)get_number(bytes + 16, 4);
    head->form = (uint32_t)get_number(bytes + 20, 4);
    for (size_t i = 0; i < sizeof longs / sizeof longs[0]; i++) {
        *longs[i] = get_number(bytes + 24 + 8 * i, 8);
    }
    uint32_t *words[] = {&head->texts, &head->types,      &head->lead,
                         &head->join,  &head->unlabelled, &head->impossible};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        *words[i] = (uint32_t)get_number(bytes + 80 + 4 * i, 4);
    }
    head->left_out = get_number(bytes + 104, 8);
    head->left_digest = get_number(bytes + 112, 8);
    return memcmp(bytes, magic, sizeof magic) == 0 && get_number(bytes + 8, 4) == VERSION &&
           get_number(bytes + 120, 8) == bp_digest_of(bytes, 120, 0);
}

static void tokens_example_write(const bp_example *example, unsigned char bytes[BP_TOKENS_EXAMPLE])
{
    put_number(bytes, example->first, 8);
    put_number(bytes + 8, example->count, 8);
    put_number(bytes + 16, example->prompt, 8);
    put_number(bytes + 24, example->label, 8);
}

void bp_tokens_example_read(bp_example *example, const unsigned char bytes[BP_TOKENS_EXAMPLE])
{
    *example = (bp_example){.first = get_number(bytes, 8),
                            .count = get_number(bytes + 8, 8),
                            .prompt = get_number(bytes + 16, 8),
                            .label = get_number(bytes + 24, 8)};
}

uint32_t bp_tokens_width(uint32_t vocabulary)
{
    return vocabulary <= 256 ? 1 : vocabulary <= 65536 ? 2 : 4;
}

static bp_status write_at(bp_tokens_writer *w, uint64_t offset, const void *from, size_t bytes)
{
    if (w->store->write_at(w->store, w->file, offset, from, bytes) != BP_OK) {
        return bp_storage_failed(w->error, w->store, "write", w->path);
    }
    return BP_OK;
}

bp_status bp_tokens_begin(bp_tokens_writer *w, uint64_t examples)
{
    char name[BP_STORE_PATH_MAX];
    w->open = false;
    w->made = false;
    w->room = examples;
    w->examples_at = BP_TOKENS_HEADER;
    w->ids_at = bp_size_add(bp_size_mul(examples, BP_TOKENS_EXAMPLE), (uint64_t)BP_TOKENS_HEADER);
    w->head.start = w->ids_at;
    w->head.tokens = 0;
    w->head.examples = 0;
    w->ids_used = 0;
    w->examples_used = 0;
    w->row = 0;
    w->head.left_out = 0;
    bp_digest_begin(&w->left_digest, 0);
    bp_digest_begin(&w->ids_digest, 0);
    bp_digest_begin(&w->examples_digest, 0);
    BP_TRY(bp_replace_name(name, w->path, w->error));
    if (w->store->open_write(w->store, name, &w->file) != BP_OK) {
        return bp_storage_failed(w->error, w->store, "create", name);
    }
    w->open = true;
    w->made = true;
    return BP_OK;
}

static bp_status flush_ids(bp_tokens_writer *w)
{
    BP_TRY(write_at(w, w->ids_at, w->buffer, w->ids_used));
    bp_digest_add(&w->ids_digest, w->buffer, w->ids_used);
    w->ids_at += w->ids_used;
    w->ids_used = 0;
    return BP_OK;
}

bp_status bp_tokens_put(bp_tokens_writer *w, const uint32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (w->ids_used + w->head.width > BP_TOKENS_BUFFER) {
            BP_TRY(flush_ids(w));
        }
        put_number(w->buffer + w->ids_used, ids[i], w->head.width);
        w->ids_used += w->head.width;
    }
    w->head.tokens += count;
    return BP_OK;
}

static bp_status flush_examples(bp_tokens_writer *w)
{
    const unsigned char *from = w->buffer + BP_TOKENS_BUFFER;
    BP_TRY(write_at(w, w->examples_at, from, w->examples_used));
    bp_digest_add(&w->examples_digest, from, w->examples_used);
    w->examples_at += w->examples_used;
    w->examples_used = 0;
    return BP_OK;
}

bp_status bp_tokens_at_row(bp_tokens_writer *w, uint64_t row)
{
    for (; w->row < row; w->row++) {
        unsigned char bytes[8];
        if (w->head.left_out + w->head.examples >= w->room) {
            return bp_error_numbers(w->error, BP_ERR_INTERNAL, "token file",
                                    "more rows than there is room for", w->path,
                                    bp_size_signed(w->row), bp_size_signed(w->room));
        }
        w->head.left_out++;
        put_number(bytes, w->row, sizeof bytes);
        bp_digest_add(&w->left_digest, bytes, sizeof bytes);
        BP_TRY(write_at(w, w->head.start - 8 * w->head.left_out, bytes, sizeof bytes));
    }
    w->row = row + 1;
    return BP_OK;
}

bp_status bp_tokens_put_example(bp_tokens_writer *w, const bp_example *example)
{
    if (w->head.examples == w->room) {
        return bp_error_numbers(w->error, BP_ERR_INTERNAL, "token file",
                                "more examples than there is room for", w->path,
                                bp_size_signed(w->head.examples) + 1, bp_size_signed(w->room));
    }
    if (w->examples_used == BP_TOKENS_BUFFER) {
        BP_TRY(flush_examples(w));
    }
    tokens_example_write(example, w->buffer + BP_TOKENS_BUFFER + w->examples_used);
    w->examples_used += BP_TOKENS_EXAMPLE;
    w->head.examples++;
    return BP_OK;
}

static bp_status data_tokens_write_finish(bp_tokens_writer *w)
{
    unsigned char bytes[BP_TOKENS_HEADER];
    BP_TRY(flush_examples(w));
    BP_TRY(flush_ids(w));
    w->head.examples_digest = bp_digest_end(&w->examples_digest);
    w->head.tokens_digest = bp_digest_end(&w->ids_digest);
    w->head.left_digest = bp_digest_end(&w->left_digest);
    bp_tokens_head_write(&w->head, bytes);
    BP_TRY(write_at(w, 0, bytes, sizeof bytes));
    if (w->store->sync(w->store, w->file) != BP_OK) {
        return bp_storage_failed(w->error, w->store, "sync", w->path);
    }
    w->open = false;
    if (w->store->close(w->store, w->file) != BP_OK) {
        return bp_storage_failed(w->error, w->store, "close", w->path);
    }
    return BP_OK;
}

bp_status bp_tokens_end(bp_tokens_writer *w)
{
    BP_TRY(data_tokens_write_finish(w));
    BP_TRY(bp_replace_end(w->store, w->path, w->error));
    w->made = false;
    return BP_OK;
}

/* The file goes: that it cannot be closed or removed changes no answer. */
void bp_tokens_abandon(bp_tokens_writer *w)
{
    char name[BP_STORE_PATH_MAX];
    if (w->open) {
        w->open = false;
        (void)w->store->close(w->store, w->file);
    }
    if (w->made && bp_replace_name(name, w->path, NULL) == BP_OK) {
        (void)w->store->remove(w->store, name);
    }
    w->made = false;
}
