/* SPDX-License-Identifier: MIT */
/* Nothing in the file is trusted: sums first, then each row of the table. */
#include "tools/bedplate/models/board_state.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "device/host/trainer_state.h"

static const char where[] = "import";

#define CONFIG_MOST (1 << 20)

typedef struct board_state {
    unsigned char *file;
    uint64_t bytes;
    bp_trainer_state_head head;
    const unsigned char *table; /* behind the head's unit, with the bytes of the rows behind it */
    bp_state_tensor *tensors;
    uint32_t count;
    char *names;
    char *config;
} board_state;

static uint32_t state_sum(const void *from, uint64_t bytes)
{
    const unsigned char *at = from;
    uint32_t sum = UINT32_MAX;
    for (; bytes > 0; bytes--) {
        sum ^= *at++;
        for (int bit = 0; bit < 8; bit++) {
            sum = sum >> 1 ^ ((sum & 1) != 0 ? UINT32_C(0xedb88320) : 0);
        }
    }
    return ~sum;
}

/* Whether a state that is whole begins there. */
static bool state_whole(const board_state *s, uint64_t at, bp_trainer_state_head *head)
{
    if (s->bytes - at < BP_TRAINER_UNIT) {
        return false;
    }
    memcpy(head, s->file + at, sizeof *head);
    return head->magic == BP_TRAINER_STATE_MAGIC &&
           head->crc == state_sum(head, offsetof(bp_trainer_state_head, crc)) &&
           head->bytes <= s->bytes - at - BP_TRAINER_UNIT && head->table_bytes <= head->bytes &&
           head->payload == state_sum(s->file + at + BP_TRAINER_UNIT, head->bytes);
}

static bp_status state_choose(board_state *s, const char *from, bp_error *error)
{
    const uint64_t starts[] = {0, s->bytes / 2};
    for (size_t i = 0; i < 2; i++) {
        bp_trainer_state_head head;
        if (state_whole(s, starts[i], &head) &&
            (s->table == NULL || head.sequence > s->head.sequence)) {
            s->head = head;
            s->table = s->file + starts[i] + BP_TRAINER_UNIT;
        }
    }
    if (s->table == NULL) {
        return bp_error_set(error, BP_ERR_DATA, where,
                            "no state in the file is whole: its sums differ from its bytes", from);
    }
    if (s->head.version != BP_TRAINER_STATE_VERSION) {
        return bp_error_limit(error, BP_ERR_DATA, where, "another version of a board's state", from,
                              s->head.version, BP_LIMIT_EXACT, BP_TRAINER_STATE_VERSION);
    }
    return BP_OK;
}

/* One row of the table becomes a tensor; *at goes behind it, *bytes behind its bytes. */
static bool state_row(board_state *s, uint64_t *at, uint64_t *bytes, uint8_t *kind)
{
    bp_trainer_state_row row;
    bp_state_tensor *t = &s->tensors[s->count];
    const uint64_t left = s->head.table_bytes - *at;
    memset(t, 0, sizeof *t);
    if (left < sizeof row) {
        return false;
    }
    memcpy(&row, s->table + *at, sizeof row);
    const uint64_t extents = (uint64_t)row.rank * sizeof(uint32_t);
    if (row.rank > 4 || row.name_bytes == 0 || left - sizeof row < extents + row.name_bytes ||
        bp_dtype_name((bp_dtype)row.dtype)[0] == '?') {
        return false;
    }
    uint64_t size = bp_dtype_bytes((bp_dtype)row.dtype);
    for (uint32_t i = 0; i < row.rank; i++) {
        uint32_t extent;
        memcpy(&extent, s->table + *at + sizeof row + i * sizeof extent, sizeof extent);
        t->shape[i] = extent;
        size = bp_size_mul(size, extent);
    }
    char *name = s->names + (size_t)s->count * BP_CHECKPOINT_TENSOR;
    memcpy(name, s->table + *at + sizeof row + extents, row.name_bytes);
    name[row.name_bytes] = '\0';
    *at += sizeof row + extents + row.name_bytes;
    *kind = row.kind;
    const bool there = (row.kind & BP_TRAINER_ROW_FROZEN) == 0;
    if (there && size > s->head.bytes - *bytes) {
        return false;
    }
    t->name = name;
    t->dtype = (bp_dtype)row.dtype;
    t->rank = row.rank;
    t->bytes = size;
    t->handle = *bytes;
    t->weight = (row.kind & BP_TRAINER_ROW_WEIGHT) != 0;
    *bytes += there ? size : 0;
    return true;
}

static bp_status state_rows(board_state *s, const char *from, bp_error *error)
{
    uint64_t at = 0, bytes = s->head.table_bytes;
    for (uint32_t i = 0; i < s->head.rows; i++) {
        uint8_t kind = 0;
        const bool right = state_row(s, &at, &bytes, &kind);
        const bool part = (kind & BP_TRAINER_ROW_PART) != 0;
        if (!right || (!part && s->count > 0 &&
                       strcmp(s->tensors[s->count - 1].name, s->tensors[s->count].name) >= 0)) {
            return bp_error_set(error, BP_ERR_DATA, where, "the state's table makes no sense",
                                from);
        }
        if ((kind & BP_TRAINER_ROW_FROZEN) != 0) {
            return bp_error_set(error, BP_ERR_DATA, where,
                                "the state lacks a frozen weight, which lies in the board's flash",
                                s->tensors[s->count].name);
        }
        s->count += part ? 0 : 1;
    }
    return BP_OK;
}

static bp_status board_state_read(void *user, uint64_t handle, uint64_t offset, void *to,
                                  size_t bytes)
{
    const board_state *s = user;
    memcpy(to, s->table + handle + offset, bytes);
    return BP_OK;
}

static bp_status state_open(board_state *s, bp_store *store, const char *from, bp_error *error)
{
    bp_file file;
    if (store->open_read(store, from, &file) != BP_OK) {
        return bp_storage_failed(error, store, "open", from);
    }
    bp_status status = store->file_size(store, file, &s->bytes);
    s->file = status == BP_OK ? malloc((size_t)s->bytes + 1) : NULL;
    if (s->file != NULL) {
        status = store->read_at(store, file, 0, s->file, (size_t)s->bytes);
    }
    const bp_status closed = store->close(store, file);
    if (status != BP_OK || closed != BP_OK) {
        return bp_storage_failed(error, store, "read", from);
    }
    return s->file != NULL ? BP_OK
                           : bp_error_set(error, BP_ERR_FIT, where, "no memory for the file", from);
}

static bp_status state_tables(board_state *s, const char *from, bp_error *error)
{
    BP_TRY(state_choose(s, from, error));
    const size_t rows = s->head.table_bytes / (sizeof(bp_trainer_state_row) + 1) + 1;
    s->tensors = calloc(rows, sizeof *s->tensors);
    s->names = calloc(rows, BP_CHECKPOINT_TENSOR);
    if (s->tensors == NULL || s->names == NULL) {
        return bp_error_set(error, BP_ERR_FIT, where, "no memory for the state's table", from);
    }
    return state_rows(s, from, error);
}

static bp_status state_save(board_state *s, bp_store *store, const char *model, const char *to,
                            board_state_found *found, bp_error *error)
{
    char path[BP_STORE_PATH_MAX];
    bp_blob config = {"config.json", NULL, 0};
    static unsigned char staging[4096];
    if (model != NULL) {
        s->config = malloc(CONFIG_MOST);
        BP_TRY(bp_storage_join(path, model, config.name, error));
        BP_TRY(s->config == NULL ? BP_ERR_FIT
                                 : bp_storage_read_file(store, path, s->config, CONFIG_MOST,
                                                        &config.length, error));
        config.bytes = s->config;
    }
    const bp_checkpoint checkpoint = {.step = s->head.step,
                                      .tensors = s->tensors,
                                      .tensor_count = s->count,
                                      .blobs = &config,
                                      .blob_count = model != NULL,
                                      .io = {s, board_state_read, NULL}};
    const uint64_t scratch = bp_checkpoint_scratch(&checkpoint);
    void *memory = malloc((size_t)scratch);
    const bp_checkpoint_location place = {.store = store,
                                          .directory = to,
                                          .scratch = memory,
                                          .scratch_bytes = (size_t)scratch,
                                          .staging = {staging, sizeof staging},
                                          .error = error};
    const bp_status status =
        memory != NULL ? bp_checkpoint_save(&place, &checkpoint, &found->digest) : BP_ERR_FIT;
    free(memory);
    *found = (board_state_found){s->head.step, found->digest, s->head.bytes, s->count};
    return status;
}

bp_status board_state_import(bp_store *store, const char *from, const char *model, const char *to,
                             board_state_found *found, bp_error *error)
{
    board_state s = {.file = NULL};
    bp_status status = state_open(&s, store, from, error);
    if (status == BP_OK) {
        status = state_tables(&s, from, error);
    }
    if (status == BP_OK) {
        status = state_save(&s, store, model, to, found, error);
    }
    free(s.config);
    free(s.names);
    free(s.tensors);
    free(s.file);
    return bp_error_set(error, status, where, "no memory for the state", from);
}
