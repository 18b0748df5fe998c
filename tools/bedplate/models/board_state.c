/* SPDX-License-Identifier: MIT */
/* Nothing in the file is trusted: sums first, then each row of the table. */
#include "tools/bedplate/models/board_state.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/safetensors.h"
#include "core/base/storage.h"
#include "device/host/trainer_state.h"
#include "tools/bedplate/app/output.h"

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

#define HEADER_MOST ((size_t)16 << 20) /* for the tables of a file */

/* The two files of a checkpoint, and the slot that is made of them. */
typedef struct board_slot {
    bp_safetensors file[2]; /* [0]: weights */
    bool open[2];
    void *scratch[2];
    char path[2][BP_STORE_PATH_MAX];
    unsigned char *bytes; /* the head's unit, the table, the tensors, padding */
    uint64_t table;
    uint64_t data; /* where the next tensor's bytes go */
    uint64_t room;
} board_slot;

static bp_status slot_open(board_slot *b, bp_store *store, const char *checkpoint, bp_error *error)
{
    static const char *const names[] = {"model.safetensors", "state.safetensors"};
    for (int i = 0; i < 2; i++) {
        b->scratch[i] = malloc(HEADER_MOST);
        if (b->scratch[i] == NULL) {
            return BP_ERR_FIT;
        }
        BP_TRY(bp_storage_join(b->path[i], checkpoint, names[i], error));
        BP_TRY(
            bp_safetensors_open(&b->file[i], store, b->path[i], b->scratch[i], HEADER_MOST, error));
        b->open[i] = true;
    }
    return BP_OK;
}

/* What the table and the bytes of a file take. */
static bp_status slot_measure(board_slot *b, const char *checkpoint, bp_error *error)
{
    uint64_t table = 0, bytes = 0;
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < b->file[i].entry_count; k++) {
            const bp_tensor_entry *entry = &b->file[i].entries[k];
            if (entry->rank > 4) {
                return bp_error_set(error, BP_ERR_DATA, where,
                                    "a tensor has more than four dimensions", entry->name);
            }
            table +=
                sizeof(bp_trainer_state_row) + entry->rank * sizeof(uint32_t) + strlen(entry->name);
            bytes = bp_size_add(bytes, entry->bytes);
        }
    }
    b->room = bp_size_align(bp_size_add(BP_TRAINER_UNIT + table, bytes), BP_TRAINER_UNIT);
    b->bytes = b->room < BP_SIZE_INVALID / 2 ? calloc(1, (size_t)b->room) : NULL;
    if (b->bytes == NULL) {
        return bp_error_set(error, BP_ERR_FIT, where, "no memory for the state", checkpoint);
    }
    b->table = BP_TRAINER_UNIT;
    b->data = BP_TRAINER_UNIT + table;
    return BP_OK;
}

static void slot_add(board_slot *b, const void *from, size_t bytes)
{
    memcpy(b->bytes + b->table, from, bytes);
    b->table += bytes;
}

static bp_status slot_tensor(board_slot *b, int file, const bp_tensor_entry *entry)
{
    const bp_trainer_state_row row = {.name_bytes = (uint8_t)strlen(entry->name),
                                      .dtype = (uint8_t)entry->dtype,
                                      .rank = (uint8_t)entry->rank,
                                      .kind = file == 0 ? BP_TRAINER_ROW_WEIGHT : 0};
    slot_add(b, &row, sizeof row);
    for (uint32_t i = 0; i < entry->rank; i++) {
        const uint32_t extent = (uint32_t)entry->shape[i];
        slot_add(b, &extent, sizeof extent);
    }
    slot_add(b, entry->name, row.name_bytes);
    BP_TRY(bp_safetensors_read(&b->file[file], entry, 0, b->bytes + b->data, (size_t)entry->bytes));
    b->data += entry->bytes;
    return BP_OK;
}

/* Both files are sorted by name: so is what they give together. */
static bp_status slot_fill(board_slot *b, uint64_t step, board_state_found *found)
{
    size_t at[2] = {0, 0};
    const uint64_t first = b->data;
    while (at[0] < b->file[0].entry_count || at[1] < b->file[1].entry_count) {
        int file = at[0] < b->file[0].entry_count ? 0 : 1;
        if (file == 0 && at[1] < b->file[1].entry_count &&
            strcmp(b->file[1].entries[at[1]].name, b->file[0].entries[at[0]].name) < 0) {
            file = 1;
        }
        BP_TRY(slot_tensor(b, file, &b->file[file].entries[at[file]]));
        at[file]++;
    }
    bp_trainer_state_head head = {.magic = BP_TRAINER_STATE_MAGIC,
                                  .version = BP_TRAINER_STATE_VERSION,
                                  .rows = (uint32_t)(at[0] + at[1]),
                                  .table_bytes = (uint32_t)(first - BP_TRAINER_UNIT),
                                  .step = step,
                                  .sequence = 1,
                                  .bytes = b->data - BP_TRAINER_UNIT};
    head.identity = state_sum(b->bytes + BP_TRAINER_UNIT, head.table_bytes);
    head.payload = state_sum(b->bytes + BP_TRAINER_UNIT, head.bytes);
    head.crc = state_sum(&head, offsetof(bp_trainer_state_head, crc));
    memcpy(b->bytes, &head, sizeof head);
    found->bytes = b->room;
    found->tensors = head.rows;
    return BP_OK;
}

static bp_status slot_verify(bp_store *store, const char *checkpoint, board_state_found *found,
                             bp_error *error)
{
    static unsigned char staging[4096];
    static bp_checkpoint_found checked;
    void *scratch = malloc(HEADER_MOST);
    const bp_checkpoint_location place = {.store = store,
                                          .scratch = scratch,
                                          .scratch_bytes = HEADER_MOST,
                                          .staging = {staging, sizeof staging},
                                          .error = error};
    const bp_status status =
        scratch != NULL ? bp_checkpoint_verify(&place, checkpoint, &checked) : BP_ERR_FIT;
    free(scratch);
    found->step = checked.step;
    found->digest = checked.digest;
    return status;
}

bp_status board_state_export(bp_store *store, const char *checkpoint, const char *to,
                             board_state_found *found, bp_error *error)
{
    static board_slot b; /* large */
    memset(&b, 0, sizeof b);
    bp_status status = slot_verify(store, checkpoint, found, error);
    if (status == BP_OK) {
        status = slot_open(&b, store, checkpoint, error);
    }
    if (status == BP_OK) {
        status = slot_measure(&b, checkpoint, error);
    }
    if (status == BP_OK) {
        status = slot_fill(&b, found->step, found);
    }
    if (status == BP_OK) {
        status = bp_storage_write_file(store, to, b.bytes, (size_t)b.room, error);
    }
    for (int i = 0; i < 2; i++) {
        const bp_status closed = b.open[i] ? bp_safetensors_close(&b.file[i]) : BP_OK;
        status = status == BP_OK ? closed : status;
        free(b.scratch[i]);
    }
    free(b.bytes);
    return bp_error_set(error, status, where, "no memory for the state", checkpoint);
}

void board_state_print(bool json, const char *path, const board_state_found *found)
{
    output out;
    output_begin(&out, stdout);
    if (json) {
        char digest[17];
        (void)snprintf(digest, sizeof digest, "%016" PRIx64, found->digest);
        json_begin(&out);
        json_text(&out, "path", path);
        json_text(&out, "format", "state");
        json_count(&out, "step", found->step);
        json_count(&out, "tensors", found->tensors);
        json_count(&out, "bytes", found->bytes);
        json_text(&out, "state_digest", digest);
        json_end(&out);
    } else {
        bp_text_string(&out.text, path);
        bp_text_string(&out.text, ": step ");
        bp_text_u64(&out.text, found->step);
        bp_text_string(&out.text, ", ");
        bp_text_u64(&out.text, found->tensors);
        bp_text_string(&out.text, " tensors of a board's state\n");
    }
    output_end(&out);
}
