/* SPDX-License-Identifier: MIT */
/* Reading token files. */
#include "tools/formats/data/data_tokens.h"

#include <string.h>

#include "core/base/storage.h"
#include "tools/formats/data/data.h"
#include "tools/formats/data/data_documents.h"
#include "tools/formats/data/data_tokens_form.h"

static const char where[] = "token file";

static bp_status data_tokens_refuse(bp_tokens *tokens, const char *text, uint64_t found,
                                    uint64_t wanted)
{
    return bp_error_numbers(tokens->error, BP_ERR_DATA, where, text, tokens->source.name,
                            bp_size_signed(found), bp_size_signed(wanted));
}

static bp_status read_at(bp_tokens *tokens, uint64_t offset, void *to, size_t bytes)
{
    if (tokens->store->read_at(tokens->store, tokens->file, offset, to, bytes) != BP_OK) {
        return bp_storage_failed(tokens->error, tokens->store, "read", tokens->source.name);
    }
    return BP_OK;
}

static bp_status read_head(bp_tokens *tokens)
{
    unsigned char bytes[BP_TOKENS_HEADER];
    bp_tokens_head *head = &tokens->head;
    uint64_t size;
    if (tokens->store->file_size(tokens->store, tokens->file, &size) != BP_OK) {
        return bp_storage_failed(tokens->error, tokens->store, "size", tokens->source.name);
    }
    if (size < BP_TOKENS_HEADER) {
        return data_tokens_refuse(tokens, "the file is too short for a token file", size,
                                  BP_TOKENS_HEADER);
    }
    BP_TRY(read_at(tokens, 0, bytes, sizeof bytes));
    if (!bp_tokens_head_read(head, bytes)) {
        return bp_error_set(tokens->error, BP_ERR_DATA, where,
                            "the file has no token file's header, or a damaged one",
                            tokens->source.name);
    }
    bool width = head->width == 1 || head->width == 2 || head->width == 4;
    const uint64_t examples =
        bp_size_add(bp_size_mul(head->examples, BP_TOKENS_EXAMPLE), bp_size_mul(head->left_out, 8));
    uint64_t right = bp_size_add(head->start, bp_size_mul(head->tokens, head->width));
    if (!width || bp_size_add(examples, BP_TOKENS_HEADER) > head->start || size != right) {
        return data_tokens_refuse(tokens, "the file's size differs from its header", size, right);
    }
    return BP_OK;
}

static bp_status check_example(bp_tokens *tokens, const bp_example *example)
{
    uint64_t all = tokens->head.tokens;
    const uint64_t most = example->first > all ? 0 : (all - example->first);
    if (example->first > all || example->count > most || example->shift > most - example->count ||
        example->prompt > example->count || example->second > example->count) {
        return data_tokens_refuse(tokens, "an example lies outside the tokens", example->first,
                                  all);
    }
    return BP_OK;
}

/* An example's bytes, and what the header says of all of them. */
static bp_status take_example(bp_tokens *tokens, const unsigned char *bytes, bp_example *to)
{
    const bp_tokens_head *head = &tokens->head;
    bp_tokens_example_read(to, bytes);
    to->tail = head->tail;
    if (head->texts == 2 && head->form != BP_FORM_TEXTS) {
        to->second = to->prompt;
        to->prompt = 0;
        to->lead = head->lead;
        to->join = head->join;
    }
    if (head->form == BP_FORM_TAGGED) {
        to->shift = to->count;
    }
    return check_example(tokens, to);
}

static bp_status read_example(bp_source *source, uint64_t index, bp_example *to)
{
    bp_tokens *tokens = source->context;
    unsigned char bytes[BP_TOKENS_EXAMPLE];
    BP_TRY(read_at(tokens, BP_TOKENS_HEADER + index * BP_TOKENS_EXAMPLE, bytes, sizeof bytes));
    return take_example(tokens, bytes, to);
}

static bp_status read_ids(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    bp_tokens *tokens = source->context;
    const bp_tokens_head *head = &tokens->head;
    if (first > head->tokens || n > head->tokens - first) {
        return bp_error_set(tokens->error, BP_ERR_INTERNAL, where, "a read beyond the data",
                            source->name);
    }
    return bp_data_read_ids(tokens->store, tokens->file, source->name,
                            head->start + first * head->width, head->width, n, to, tokens->error);
}

/* Ids of conversations are doubled, for the mark of targets. */
static bp_status read_chat_ids(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    BP_TRY(read_ids(source, first, n, to));
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (int32_t)((uint32_t)to[i] >> 1);
    }
    return BP_OK;
}

static bp_status read_chat_targets(bp_source *source, uint64_t first, uint32_t n, uint8_t *counts)
{
    enum { AT_ONCE = 64 };
    const bp_tokens *tokens = source->context;
    const uint32_t marks = tokens->head.form == BP_FORM_PACKED ? 3 : 1;
    int32_t ids[AT_ONCE];
    for (uint32_t i = 0; i < n; i += AT_ONCE) {
        const uint32_t now = n - i < AT_ONCE ? n - i : AT_ONCE;
        BP_TRY(read_ids(source, first + i, now, ids));
        for (uint32_t k = 0; k < now; k++) {
            counts[i + k] = (uint8_t)((uint32_t)ids[k] & marks);
        }
    }
    return BP_OK;
}

/* Ids of packed rows are stored four times, for two marks (data_packed.h). */
static bp_status read_packed_ids(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    BP_TRY(read_ids(source, first, n, to));
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (int32_t)((uint32_t)to[i] >> 2);
    }
    return BP_OK;
}

/* Labels lie among the tokens, each plus one. */
static bp_status read_labels(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    BP_TRY(read_ids(source, first, n, to));
    for (uint32_t i = 0; i < n; i++) {
        to[i] = to[i] > 0 ? to[i] - 1 : -1;
    }
    return BP_OK;
}

/* What a part of the file is looked through for. */
typedef bp_status (*look)(bp_tokens *tokens, const unsigned char *bytes, size_t count);

static bp_status look_at_examples(bp_tokens *tokens, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i += BP_TOKENS_EXAMPLE) {
        bp_example example;
        BP_TRY(take_example(tokens, bytes + i, &example));
    }
    return BP_OK;
}

/* Compares a part of the file with its digest, and looks at it piece by piece on the way. */
static bp_status digest(bp_tokens *tokens, uint64_t from, uint64_t bytes, void *buffer,
                        uint64_t right, look each)
{
    bp_digest sum;
    bp_status status = BP_OK;
    bp_digest_begin(&sum, 0);
    while (bytes > 0) {
        size_t n = bytes < BP_TOKENS_BUFFER ? (size_t)bytes : BP_TOKENS_BUFFER;
        BP_TRY(read_at(tokens, from, buffer, n));
        bp_digest_add(&sum, buffer, n);
        if (each != NULL && status == BP_OK) {
            status = each(tokens, buffer, n);
        }
        from += n;
        bytes -= n;
    }
    if (status == BP_OK && bp_digest_end(&sum) != right) {
        return bp_error_set(tokens->error, BP_ERR_DATA, where,
                            "the token file is damaged: its digest differs", tokens->source.name);
    }
    return status;
}

/* The numbers of rows that were left out rise. */
static bp_status verify_left_out(bp_tokens *tokens)
{
    const bp_tokens_head *head = &tokens->head;
    bp_digest sum;
    bp_digest_begin(&sum, 0);
    for (uint64_t i = 0; i < head->left_out; i++) {
        unsigned char bytes[8];
        BP_TRY(read_at(tokens, head->start - 8 * (i + 1), bytes, sizeof bytes));
        bp_digest_add(&sum, bytes, sizeof bytes);
    }
    return head->left_out == 0 || bp_digest_end(&sum) == head->left_digest
               ? BP_OK
               : bp_error_set(tokens->error, BP_ERR_DATA, where,
                              "the token file is damaged: its digest differs", tokens->source.name);
}

bp_status bp_tokens_left_out(bp_tokens *tokens, uint64_t index, uint64_t *row)
{
    unsigned char bytes[8];
    BP_TRY(read_at(tokens, tokens->head.start - 8 * (index + 1), bytes, sizeof bytes));
    *row = 0;
    for (uint32_t i = 8; i-- > 0;) {
        *row = *row << 8 | bytes[i];
    }
    return BP_OK;
}

/* BP_TOKENS_BUFFER is a whole number of examples. */
static bp_status verify(bp_tokens *tokens, void *buffer)
{
    const bp_tokens_head *head = &tokens->head;
    BP_TRY(digest(tokens, BP_TOKENS_HEADER, head->examples * BP_TOKENS_EXAMPLE, buffer,
                  head->examples_digest, look_at_examples));
    BP_TRY(verify_left_out(tokens));
    return digest(tokens, head->start, head->tokens * head->width, buffer, head->tokens_digest,
                  NULL);
}

bp_status bp_tokens_open(bp_tokens *tokens, bp_store *store, const char *path, void *buffer,
                         bp_error *error)
{
    *tokens = (bp_tokens){.store = store, .error = error};
    tokens->source = (bp_source){.context = tokens, .name = path, .read = read_ids};
    if (store->open_read(store, path, &tokens->file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    tokens->open = true;
    bp_status status = read_head(tokens);
    if (status == BP_OK && buffer != NULL) {
        status = verify(tokens, buffer);
    }
    tokens->source.count = tokens->head.tokens;
    tokens->source.examples = tokens->head.examples;
    tokens->source.example = read_example;
    tokens->source.together = tokens->head.form == BP_FORM_TEXTS ? tokens->head.texts : 1;
    tokens->source.labels = tokens->head.form == BP_FORM_TAGGED ? read_labels : NULL;
    if (tokens->head.form == BP_FORM_CHAT) {
        tokens->source.read = read_chat_ids;
        tokens->source.targets = read_chat_targets;
    }
    if (tokens->head.form == BP_FORM_PACKED) {
        tokens->source.read = read_packed_ids;
        tokens->source.targets = read_chat_targets;
    }
    if (status != BP_OK) {
        bp_tokens_close(tokens);
    }
    return status;
}

bool bp_tokens_fits(bp_tokens *tokens, bp_store *store, const char *path, uint64_t key,
                    void *buffer, bp_error *error)
{
    bool there = false;
    if (store->exists(store, path, &there) != BP_OK || !there ||
        bp_tokens_open(tokens, store, path, buffer, NULL) != BP_OK) {
        return false;
    }
    tokens->error = error;
    if (tokens->head.key != key) {
        bp_tokens_close(tokens);
        return false;
    }
    return true;
}

void bp_tokens_close(bp_tokens *tokens)
{
    if (tokens->open) {
        tokens->open = false;
        /* Nothing was written: a failing close of a file that was read loses nothing. */
        (void)tokens->store->close(tokens->store, tokens->file);
    }
}
