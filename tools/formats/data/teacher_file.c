/* SPDX-License-Identifier: MIT */
/* What a teacher says, in a file. */
#include "tools/formats/data/teacher_file.h"

#include <float.h>
#include <string.h>

#include "core/base/storage.h"
#include "core/ops/storage_format.h"
#include "tools/formats/data/data_tokenise.h"
#include "tools/formats/files/stream_file.h"

enum { DIGESTS = 2 * sizeof(uint64_t) }; /* before what a row says */

static const char where[] = "teacher", magic[] = "BPTEACH2";

static uint64_t row_numbers(const bp_teacher_head *head)
{
    return (uint64_t)head->sequence * head->top_k;
}

uint64_t bp_teacher_row_bytes(const bp_teacher_head *head)
{
    return DIGESTS + row_numbers(head) * (sizeof(int32_t) + sizeof(float));
}

int32_t *bp_teacher_tops(void *row)
{
    return (int32_t *)(void *)((char *)row + DIGESTS);
}

float *bp_teacher_logps(const bp_teacher_head *head, void *row)
{
    return (float *)(void *)(bp_teacher_tops(row) + row_numbers(head));
}

uint64_t bp_teacher_file_bytes(const bp_teacher_head *head)
{
    return bp_size_add(sizeof *head, bp_size_mul(head->rows, bp_teacher_row_bytes(head)));
}

static uint64_t head_digest(const bp_teacher_head *head)
{
    return bp_digest_of(&head->data, sizeof *head - offsetof(bp_teacher_head, data), 0);
}

/* Of a row whose first digest is there. */
static uint64_t row_digest(const bp_teacher_head *head, void *row)
{
    bp_digest digest;
    bp_digest_begin(&digest, 0);
    bp_digest_add(&digest, row, sizeof(uint64_t));
    bp_digest_add(&digest, bp_teacher_tops(row), (size_t)(bp_teacher_row_bytes(head) - DIGESTS));
    return bp_digest_end(&digest);
}

static bp_status teacher_refuse(const bp_teacher_file *file, const char *text)
{
    return bp_error_set(file->error, BP_ERR_DATA, where, text, file->path);
}

static bp_status refuse_row(const bp_teacher_file *file, bp_status code, const char *text,
                            uint64_t number)
{
    return bp_error_limit(file->error, code, where, text, file->path, bp_size_signed(number) + 1,
                          BP_LIMIT_NONE, 0);
}

static bool head_possible(const bp_teacher_head *head)
{
    return head->sequence > 0 && head->top_k > 0 && head->top_k <= BP_DISTILL_MOST &&
           head->top_k <= head->vocabulary && head->vocabulary <= INT32_MAX &&
           head->words <= head->vocabulary && head->packed <= 1;
}

bp_status bp_teacher_file_open(bp_teacher_file *file)
{
    bp_store *store = file->store;
    bp_teacher_head *head = &file->head;
    uint64_t bytes = 0;
    bool there = true;
    if (store->exists(store, file->path, &there) == BP_OK && !there) {
        return teacher_refuse(file, "the distillation file cannot be read, or does not exist: "
                                    "`bedplate distill` makes one");
    }
    if (store->open_read(store, file->path, &file->file) != BP_OK) {
        return bp_storage_failed(file->error, store, "open", file->path);
    }
    file->open = true;
    if (store->file_size(store, file->file, &bytes) != BP_OK) {
        return bp_storage_failed(file->error, store, "size", file->path);
    }
    if (bytes < sizeof *head) {
        return teacher_refuse(file, "this is no file that `bedplate distill` made");
    }
    if (store->read_at(store, file->file, 0, head, sizeof *head) != BP_OK) {
        return bp_storage_failed(file->error, store, "read", file->path);
    }
    if (memcmp(head->magic, magic, sizeof head->magic) != 0) {
        return teacher_refuse(file, "this is no file that `bedplate distill` made, or its writing "
                                    "was stopped");
    }
    if (head->digest != head_digest(head) || !head_possible(head)) {
        return teacher_refuse(file, "the header of the distillation file is damaged");
    }
    const uint64_t whole = bp_teacher_file_bytes(head);
    return bytes == whole
               ? BP_OK
               : bp_error_limit(file->error, BP_ERR_DATA, where,
                                "the distillation file is not complete: bytes", file->path,
                                bp_size_signed(bytes), BP_LIMIT_EXACT, bp_size_signed(whole));
}

/* Whether what is said of a place can be: `k` tokens, each once, and probabilities of them. */
static bool place_possible(const int32_t *tops, const float *logps, uint32_t k, uint64_t vocabulary)
{
    for (uint32_t j = 0; j < k; j++) {
        const bool possible = logps[j] <= 0.0f && logps[j] >= -FLT_MAX; /* no NaN either */
        if (tops[j] < 0 || (uint64_t)tops[j] >= vocabulary || !possible) {
            return false;
        }
        for (uint32_t i = 0; i < j; i++) {
            if (tops[i] == tops[j]) {
                return false;
            }
        }
    }
    return true;
}

static bool row_possible(const bp_teacher_head *head, uint32_t inputs, uint64_t vocabulary,
                         void *row)
{
    const uint32_t k = head->top_k;
    const int32_t *tops = bp_teacher_tops(row);
    const float *logps = bp_teacher_logps(head, row);
    for (uint64_t t = 0; t < inputs; t++) {
        if (!place_possible(tops + t * k, logps + t * k, k, vocabulary)) {
            return false;
        }
    }
    return true;
}

static uint64_t row_at(const bp_teacher_head *head, uint64_t number)
{
    return sizeof *head + number * bp_teacher_row_bytes(head);
}

bp_status bp_teacher_file_check(const bp_teacher_file *file)
{
    bp_store *store = file->store;
    const bp_teacher_head *head = &file->head;
    bp_digest content;
    bp_digest_begin(&content, 0);
    for (uint64_t number = 0; number < head->rows; number++) {
        uint64_t digest;
        if (store->read_at(store, file->file, row_at(head, number) + sizeof digest, &digest,
                           sizeof digest) != BP_OK) {
            return bp_storage_failed(file->error, store, "read", file->path);
        }
        bp_data_key_number(&content, digest);
    }
    return bp_digest_end(&content) == head->content
               ? BP_OK
               : teacher_refuse(
                     file,
                     "the distillation file is damaged: its rows differ from its header's digest");
}

static uint64_t tokens_digest(const int32_t *tokens, uint32_t inputs)
{
    return bp_digest_of(tokens, inputs * sizeof *tokens, 0);
}

bp_status bp_teacher_file_read(const bp_teacher_file *file, uint64_t number, const int32_t *tokens,
                               uint32_t inputs, uint64_t vocabulary, void *row)
{
    bp_store *store = file->store;
    const bp_teacher_head *head = &file->head;
    const uint64_t *digests = row;
    const uint64_t most = vocabulary < head->words ? vocabulary : head->words;
    if (store->read_at(store, file->file, row_at(head, number), row,
                       (size_t)bp_teacher_row_bytes(head)) != BP_OK) {
        return bp_storage_failed(file->error, store, "read", file->path);
    }
    if (digests[1] != row_digest(head, row)) {
        return refuse_row(file, BP_ERR_DATA, "a row of the distillation file is damaged: row",
                          number);
    }
    if (digests[0] != tokens_digest(tokens, inputs)) {
        return refuse_row(file, BP_ERR_DATA,
                          "the distillation file has other tokens than the data: row", number);
    }
    if (!row_possible(head, inputs, most, row)) {
        return refuse_row(file, BP_ERR_DATA,
                          "a row of the distillation file is impossible (an unknown or repeated "
                          "token, or no log-probability): row",
                          number);
    }
    return BP_OK;
}

bp_status bp_teacher_file_begin(bp_teacher_file *file)
{
    bp_store *store = file->store;
    char name[BP_STORE_PATH_MAX];
    BP_TRY(bp_replace_name(name, file->path, file->error));
    if (store->open_write(store, name, &file->file) != BP_OK) {
        return bp_storage_failed(file->error, store, "open", name);
    }
    file->open = true;
    file->writes = true;
    file->head.words = 0;
    bp_digest_begin(&file->content, 0);
    return BP_OK;
}

/* What the header says of all rows. */
static void count_row(bp_teacher_file *file, size_t numbers, void *row)
{
    const int32_t *tops = bp_teacher_tops(row);
    const uint64_t *digests = row;
    for (size_t i = 0; i < numbers; i++) {
        if ((uint32_t)tops[i] >= file->head.words) {
            file->head.words = (uint32_t)tops[i] + 1;
        }
    }
    bp_data_key_number(&file->content, digests[1]);
}

bp_status bp_teacher_file_write(bp_teacher_file *file, uint64_t number, const int32_t *tokens,
                                uint32_t inputs, void *row)
{
    bp_store *store = file->store;
    const bp_teacher_head *head = &file->head;
    const size_t behind = (size_t)((head->sequence - inputs) * (uint64_t)head->top_k);
    const size_t there = (size_t)row_numbers(head) - behind;
    uint64_t *digests = row;
    if (!row_possible(head, inputs, head->vocabulary, row)) {
        return refuse_row(file, BP_ERR_NONFINITE,
                          "the teacher's logits are no numbers, or too large: row", number);
    }
    memset(bp_teacher_tops(row) + there, 0, behind * sizeof(int32_t));
    memset(bp_teacher_logps(head, row) + there, 0, behind * sizeof(float));
    digests[0] = tokens_digest(tokens, inputs);
    digests[1] = row_digest(head, row);
    count_row(file, there, row);
    return store->write_at(store, file->file, row_at(head, number), row,
                           (size_t)bp_teacher_row_bytes(head)) == BP_OK
               ? BP_OK
               : bp_storage_failed(file->error, store, "write", file->path);
}

bp_status bp_teacher_file_end(bp_teacher_file *file)
{
    bp_store *store = file->store;
    bp_teacher_head *head = &file->head;
    memcpy(head->magic, magic, sizeof head->magic);
    head->content = bp_digest_end(&file->content);
    head->digest = head_digest(head);
    if (store->write_at(store, file->file, 0, head, sizeof *head) != BP_OK) {
        return bp_storage_failed(file->error, store, "write", file->path);
    }
    if (store->sync(store, file->file) != BP_OK) {
        return bp_storage_failed(file->error, store, "sync", file->path);
    }
    file->open = false;
    if (store->close(store, file->file) != BP_OK) {
        return bp_storage_failed(file->error, store, "close", file->path);
    }
    file->writes = false;
    return bp_replace_end(store, file->path, file->error);
}

void bp_teacher_file_close(bp_teacher_file *file)
{
    if (file->open) {
        (void)file->store->close(file->store, file->file);
        file->open = false;
    }
    if (file->writes) {
        bp_replace_abandon(file->store, file->path);
        file->writes = false;
    }
}
