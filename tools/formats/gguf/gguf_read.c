/* SPDX-License-Identifier: MIT */
/* The head of a GGUF file, read once through a small buffer. Every length is held against what is
 * left of the file before it is believed. */
#include "tools/formats/gguf/gguf_read.h"

#include <string.h>

#include "core/base/sort.h"
#include "core/ops/blocks.h"
#include "core/base/storage.h"
#include "arena/text.h"
#include "core/base/number.h"

#define CHUNK           4096
#define ALIGNMENT_MOST  65536u
#define KEY_LEAST_BYTES 13u /* length, one character... of a key, type, value */

static const char where[] = "gguf";

/* The reading position, with some bytes around it. */
typedef struct cursor {
    bp_gguf_file *f;
    bp_staging *room;
    uint64_t at;
    uint64_t end; /* of the file */
    uint64_t held_at;
    size_t held; /* bytes in the buffer, from held_at on */
    unsigned char buffer[CHUNK];
} cursor;

static bp_status gguf_read_refuse(const cursor *c, const char *text, const char *name)
{
    return bp_error_set(c->f->error, BP_ERR_DATA, where, text, name);
}

static bp_status truncated(const cursor *c, uint64_t wanted)
{
    return bp_error_limit(c->f->error, BP_ERR_DATA, where,
                          "the file ends in the middle of its header", NULL, bp_size_signed(c->end),
                          BP_LIMIT_LEAST, bp_size_signed(bp_size_add(c->at, wanted)));
}

/* Exactly `bytes` bytes at the position, which moves on. */
static bp_status gguf_read_take(cursor *c, void *to, size_t bytes)
{
    unsigned char *out = to;
    if (bytes > c->end - c->at) {
        return truncated(c, bytes);
    }
    while (bytes > 0) {
        if (c->at - c->held_at >= c->held) { /* the position only moves on */
            uint64_t left = c->end - c->at;
            size_t piece = left < CHUNK ? (size_t)left : CHUNK;
            bp_store *store = c->f->store;
            if (store->read_at(store, c->f->file, c->at, c->buffer, piece) != BP_OK) {
                return bp_storage_failed(c->f->error, store, "read", c->f->path);
            }
            c->held_at = c->at;
            c->held = piece;
        }
        size_t skip = (size_t)(c->at - c->held_at);
        size_t piece = c->held - skip < bytes ? c->held - skip : bytes;
        memcpy(out, c->buffer + skip, piece);
        out += piece;
        c->at += piece;
        bytes -= piece;
    }
    return BP_OK;
}

static bp_status gguf_read_take_number(cursor *c, size_t bytes, uint64_t *value)
{
    unsigned char raw[8];
    BP_TRY(gguf_read_take(c, raw, bytes));
    *value = 0;
    for (size_t i = bytes; i > 0; i--) {
        *value = *value << 8 | raw[i - 1];
    }
    return BP_OK;
}

static bp_status skip(cursor *c, uint64_t bytes)
{
    if (bytes > c->end - c->at) {
        return truncated(c, bytes);
    }
    c->at += bytes;
    return BP_OK;
}

static bp_status gguf_read_no_room(const cursor *c, uint64_t needed)
{
    return bp_error_limit(
        c->f->error, BP_ERR_FIT, where, "the memory for reading the file is too small", NULL,
        bp_size_signed(c->room->capacity), BP_LIMIT_LEAST, bp_size_signed(needed));
}

/* A name of 1 to most - 1 bytes without NUL, kept in the room. */
static bp_status take_name(cursor *c, uint64_t most, const char **name)
{
    uint64_t length;
    BP_TRY(gguf_read_take_number(c, 8, &length));
    if (length == 0 || length >= most) {
        bp_status status =
            bp_error_numbers(c->f->error, BP_ERR_DATA, where, "a name is empty or too long, bytes",
                             NULL, bp_size_signed(length), bp_size_signed(most) - 1);
        bp_error_right(c->f->error, most == BP_GGUF_NAME_MAX ? "1 to 63" : "1 to 255");
        return status;
    }
    if (length > c->end - c->at) {
        return truncated(c, length);
    }
    char *kept = bp_room_take(c->room, length + 1);
    if (kept == NULL) {
        return gguf_read_no_room(c, length + 1);
    }
    BP_TRY(gguf_read_take(c, kept, (size_t)length));
    kept[length] = '\0';
    *name = kept;
    return memchr(kept, '\0', (size_t)length) == NULL
               ? BP_OK
               : gguf_read_refuse(c, "a name holds NUL", kept);
}

/* Bytes of a value of fixed size; 0 for the others. */
static size_t type_bytes(uint64_t type)
{
    static const uint8_t bytes[BP_GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < BP_GGUF_TYPES ? bytes[type] : 0;
}

static bp_status skip_strings(cursor *c, uint64_t count)
{
    if (count > (c->end - c->at) / 8) {
        return truncated(c, bp_size_mul(count, 8));
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length;
        BP_TRY(gguf_read_take_number(c, 8, &length));
        BP_TRY(skip(c, length));
    }
    return BP_OK;
}

static bp_status take_array(cursor *c, bp_gguf_key *key)
{
    uint64_t item;
    BP_TRY(gguf_read_take_number(c, 4, &item));
    BP_TRY(gguf_read_take_number(c, 8, &key->count));
    key->at = c->at;
    size_t size = type_bytes(item);
    if (size == 0 && item != BP_GGUF_STRING) {
        return gguf_read_refuse(c, "an array's items have a type that is not known or not allowed",
                                key->name);
    }
    key->item = (bp_gguf_type)item;
    BP_TRY(item == BP_GGUF_STRING ? skip_strings(c, key->count)
                                  : skip(c, bp_size_mul(key->count, size)));
    key->bytes = c->at - key->at;
    return BP_OK;
}

static bp_status gguf_read_take_key(cursor *c, bp_gguf_key *key)
{
    uint64_t type;
    *key = (bp_gguf_key){.name = NULL};
    BP_TRY(take_name(c, BP_GGUF_KEY_MAX, &key->name));
    BP_TRY(gguf_read_take_number(c, 4, &type));
    if (type >= BP_GGUF_TYPES) {
        return gguf_read_refuse(c, "a key has a type that is not known", key->name);
    }
    key->type = (bp_gguf_type)type;
    if (type == BP_GGUF_ARRAY) {
        return take_array(c, key);
    }
    if (type == BP_GGUF_STRING) {
        BP_TRY(gguf_read_take_number(c, 8, &key->count));
        key->at = c->at;
        return skip(c, key->count);
    }
    BP_TRY(gguf_read_take_number(c, type_bytes(type), &key->bits));
    bool wrong = type == BP_GGUF_BOOL && key->bits > 1;
    return wrong ? gguf_read_refuse(c, "a truth value is neither 0 nor 1", key->name) : BP_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const bp_gguf_key *left = a;
    const bp_gguf_key *right = b;
    return strcmp(left->name, right->name);
}

static int compare_entries(const void *a, const void *b)
{
    const bp_tensor_entry *left = a;
    const bp_tensor_entry *right = b;
    return strcmp(left->name, right->name);
}

/* A table of `count` rows of which each stands for at least `least` bytes of the file. */
static bp_status take_table(cursor *c, uint64_t count, uint64_t least, size_t row, void **table)
{
    if (count > (c->end - c->at) / least) {
        return bp_error_limit(c->f->error, BP_ERR_DATA, where,
                              "the header counts more keys or tensors than the file has bytes "
                              "for",
                              NULL, bp_size_signed(count), BP_LIMIT_MOST,
                              bp_size_signed((c->end - c->at) / least));
    }
    *table = bp_room_take(c->room, bp_size_mul(count, row));
    return *table != NULL ? BP_OK : gguf_read_no_room(c, bp_size_mul(count, row));
}

static bp_status take_keys(cursor *c, uint64_t count)
{
    bp_gguf_file *f = c->f;
    void *table;
    BP_TRY(take_table(c, count, KEY_LEAST_BYTES, sizeof *f->keys, &table));
    f->keys = table;
    for (uint64_t i = 0; i < count; i++) {
        BP_TRY(gguf_read_take_key(c, &f->keys[i]));
    }
    f->key_count = (size_t)count;
    bp_heap_sort(f->keys, f->key_count, sizeof *f->keys, compare_keys);
    for (size_t i = 1; i < f->key_count; i++) {
        if (strcmp(f->keys[i - 1].name, f->keys[i].name) == 0) {
            return gguf_read_refuse(c, "a key is there twice", f->keys[i].name);
        }
    }
    return BP_OK;
}

static bp_status read_alignment(cursor *c)
{
    const bp_gguf_key *key = bp_gguf_find(c->f, "general.alignment");
    c->f->alignment = BP_GGUF_ALIGNMENT;
    if (key == NULL) {
        return BP_OK;
    }
    uint64_t value = key->bits;
    bool power = value >= 8 && value <= ALIGNMENT_MOST && (value & (value - 1)) == 0;
    if (key->type != BP_GGUF_U32 || !power) {
        return gguf_read_refuse(c, "the alignment is not a power of two from 8 to 65536",
                                key->name);
    }
    c->f->alignment = value;
    return BP_OK;
}

/* Elements packed in blocks, which rows must hold whole. They are read as floats. */
static bp_status take_blocks(cursor *c, bp_tensor_entry *entry, uint64_t type)
{
    const bp_packed_type *block = bp_packed_of(type);
    if (block == NULL) {
        bp_status status = bp_error_limit(c->f->error, BP_ERR_DATA, where,
                                          "a tensor's type is not F32, F16 or BF16, nor one of the "
                                          "blocks that are read (ggml's number)",
                                          entry->name, bp_size_signed(type), BP_LIMIT_NONE, 0);
        bp_error_right(c->f->error, "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, "
                                    "IQ4_NL or MXFP4");
        return status;
    }
    const uint64_t row = entry->shape[entry->rank - 1];
    if (row % block->elements != 0) {
        return bp_error_limit(
            c->f->error, BP_ERR_DATA, where,
            "the rows of a tensor that is not F32, F16 or BF16 are no whole blocks", entry->name,
            bp_size_signed(block->elements), BP_LIMIT_DIVISOR, bp_size_signed(row));
    }
    entry->dtype = BP_F32;
    entry->packed = block->type;
    return BP_OK;
}

static bp_status take_dtype(cursor *c, bp_tensor_entry *entry)
{
    uint64_t type;
    BP_TRY(gguf_read_take_number(c, 4, &type));
    switch (type) {
    case BP_GGUF_TENSOR_F32:
        entry->dtype = BP_F32;
        return BP_OK;
    case BP_GGUF_TENSOR_F16:
        entry->dtype = BP_F16;
        return BP_OK;
    case BP_GGUF_TENSOR_BF16:
        entry->dtype = BP_BF16;
        return BP_OK;
    default:
        return take_blocks(c, entry, type);
    }
}

/* One tensor of the list. *end is where the data of those before it ends, padded. */
static bp_status take_tensor(cursor *c, bp_tensor_entry *entry, uint64_t *end)
{
    uint64_t rank;
    uint64_t extents[BP_GGUF_RANK_MAX];
    uint64_t elements = 1;
    *entry = (bp_tensor_entry){.name = NULL};
    BP_TRY(take_name(c, BP_GGUF_NAME_MAX, &entry->name));
    BP_TRY(gguf_read_take_number(c, 4, &rank));
    if (rank < 1 || rank > BP_GGUF_RANK_MAX) {
        bp_status status =
            bp_error_numbers(c->f->error, BP_ERR_DATA, where, "a tensor's rank is out of range",
                             entry->name, bp_size_signed(rank), BP_GGUF_RANK_MAX);
        bp_error_right(c->f->error, "1 to 4");
        return status;
    }
    for (uint64_t i = 0; i < rank; i++) {
        BP_TRY(gguf_read_take_number(c, 8, &extents[i]));
        if (extents[i] == 0 || extents[i] > INT64_MAX) {
            return gguf_read_refuse(c, "an extent of a tensor is 0 or negative", entry->name);
        }
        elements = bp_size_mul(elements, extents[i]);
    }
    entry->rank = (uint32_t)rank;
    for (uint32_t i = 0; i < entry->rank; i++) {
        entry->shape[i] = extents[entry->rank - 1 - i];
    }
    BP_TRY(take_dtype(c, entry));
    BP_TRY(gguf_read_take_number(c, 8, &entry->offset));
    const bp_packed_type *block = bp_packed_of(entry->packed);
    entry->bytes = block == NULL ? bp_size_mul(elements, bp_dtype_bytes(entry->dtype))
                                 : bp_packed_bytes(block, elements);
    if (entry->bytes > c->end) {
        return gguf_read_refuse(c, "a tensor is larger than the file", entry->name);
    }
    if (entry->offset != *end) {
        return bp_error_numbers(c->f->error, BP_ERR_DATA, where,
                                "a hole or an overlap in the data before this tensor", entry->name,
                                bp_size_signed(entry->offset), bp_size_signed(*end));
    }
    *end = bp_size_align(bp_size_add(entry->offset, entry->bytes), c->f->alignment);
    return *end > bp_size_add(c->end, ALIGNMENT_MOST)
               ? gguf_read_refuse(c, "the tensors reach beyond the end of the file", entry->name)
               : BP_OK;
}

static bp_status take_tensors(cursor *c, uint64_t count)
{
    bp_tensor_part *part = &c->f->part;
    void *table;
    uint64_t end = 0;
    uint64_t bare = 0; /* without the padding of the last */
    BP_TRY(take_table(c, count, 33, sizeof *part->entries, &table));
    part->entries = table;
    for (uint64_t i = 0; i < count; i++) {
        BP_TRY(take_tensor(c, &part->entries[i], &end));
        bare = part->entries[i].offset + part->entries[i].bytes;
    }
    part->entry_count = (size_t)count;
    part->path = c->f->path;
    part->file_bytes = c->end;
    part->data_at = bp_size_align(c->at, c->f->alignment);
    uint64_t least = count > 0 ? part->data_at + bare : c->at;
    if (c->end < least || c->end > part->data_at + end) {
        return bp_error_numbers(c->f->error, BP_ERR_DATA, where,
                                "the file's length differs from its header", NULL,
                                bp_size_signed(c->end), bp_size_signed(part->data_at + end));
    }
    bp_heap_sort(part->entries, part->entry_count, sizeof *part->entries, compare_entries);
    for (size_t i = 1; i < part->entry_count; i++) {
        if (strcmp(part->entries[i - 1].name, part->entries[i].name) == 0) {
            return gguf_read_refuse(c, "the tensor is there twice", part->entries[i].name);
        }
    }
    return BP_OK;
}

static bp_status read_head(cursor *c)
{
    uint64_t magic;
    uint64_t version;
    uint64_t tensors;
    uint64_t keys;
    BP_TRY(gguf_read_take_number(c, 4, &magic));
    if (magic != BP_GGUF_MAGIC) {
        return gguf_read_refuse(c, "the file does not begin with GGUF", NULL);
    }
    BP_TRY(gguf_read_take_number(c, 4, &version));
    if (version != BP_GGUF_VERSION) {
        return bp_error_numbers(c->f->error, BP_ERR_DATA, where,
                                "this version of the format is not implemented", NULL,
                                bp_size_signed(version), BP_GGUF_VERSION);
    }
    BP_TRY(gguf_read_take_number(c, 8, &tensors));
    BP_TRY(gguf_read_take_number(c, 8, &keys));
    BP_TRY(take_keys(c, keys));
    BP_TRY(read_alignment(c));
    return take_tensors(c, tensors);
}

bp_status bp_gguf_open(bp_gguf_file *file, bp_store *store, const char *path, bp_staging *room,
                       bp_error *error)
{
    bp_error inner = {.code = BP_OK};
    *file = (bp_gguf_file){.store = store, .path = path, .error = &inner};
    if (store->open_read(store, path, &file->file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    cursor c = {.f = file, .room = room};
    bp_status status = BP_OK;
    if (store->file_size(store, file->file, &c.end) != BP_OK) {
        status = bp_storage_failed(&inner, store, "size", path);
    }
    status = status == BP_OK ? read_head(&c) : status;
    file->error = error;
    if (status == BP_OK) {
        return BP_OK;
    }
    if (status != BP_ERR_STORE) {
        bp_error_prefix(&inner, path);
    }
    if (error != NULL && error->code == BP_OK) {
        *error = inner;
    }
    (void)store->close(store, file->file); /* it was only read */
    return status;
}

bp_status bp_gguf_close(bp_gguf_file *file)
{
    if (file->store->close(file->store, file->file) != BP_OK) {
        return bp_storage_failed(file->error, file->store, "close", file->path);
    }
    return BP_OK;
}

/* Values of an open GGUF file. Open has checked that all of them lie inside the file.
 */

bp_status bp_gguf_refuse(const bp_gguf_file *file, const char *text, const char *name)
{
    bp_status status = bp_error_set(file->error, BP_ERR_DATA, where, text, name);
    bp_error_prefix(file->error, file->path);
    return status;
}

static bp_status read_at(const bp_gguf_file *file, uint64_t at, void *to, size_t bytes)
{
    if (file->store->read_at(file->store, file->file, at, to, bytes) != BP_OK) {
        return bp_storage_failed(file->error, file->store, "read", file->path);
    }
    return BP_OK;
}

const bp_gguf_key *bp_gguf_find(const bp_gguf_file *file, const char *name)
{
    size_t low = 0;
    size_t high = file->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(file->keys[middle].name, name);
        if (order == 0) {
            return &file->keys[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

/* The number behind an integer type; false for a negative one and for other types. */
static bool whole_number(const bp_gguf_key *key, uint64_t *value)
{
    static const uint8_t sign_bit[BP_GGUF_TYPES] = {
        [BP_GGUF_I8] = 8, [BP_GGUF_I16] = 16, [BP_GGUF_I32] = 32, [BP_GGUF_I64] = 64};
    switch (key->type) {
    case BP_GGUF_F32:
    case BP_GGUF_F64:
    case BP_GGUF_BOOL:
    case BP_GGUF_STRING:
    case BP_GGUF_ARRAY:
    case BP_GGUF_TYPES:
        return false;
    default:
        *value = key->bits;
        return sign_bit[key->type] == 0 || key->bits >> (sign_bit[key->type] - 1) == 0;
    }
}

bp_status bp_gguf_take_count(const bp_gguf_file *file, const char *name, uint64_t least,
                             uint64_t most, uint32_t *value)
{
    const bp_gguf_key *key = bp_gguf_find(file, name);
    uint64_t found;
    if (key == NULL) {
        return bp_gguf_refuse(file, "the key is missing", name);
    }
    if (!whole_number(key, &found)) {
        return bp_gguf_refuse(file, "this key must be a whole number that is not negative", name);
    }
    if (found < least || found > most) {
        static const char text[] = "a value is out of range";
        bp_status status =
            found < least
                ? bp_error_limit(file->error, BP_ERR_DATA, where, text, name, bp_size_signed(found),
                                 BP_LIMIT_LEAST, bp_size_signed(least))
                : bp_error_limit(file->error, BP_ERR_DATA, where, text, name, bp_size_signed(found),
                                 BP_LIMIT_MOST, bp_size_signed(most));
        bp_error_prefix(file->error, file->path);
        return status;
    }
    *value = (uint32_t)found;
    return BP_OK;
}

/* The number with the fewest digits that is this float: 1e-5, not 9.99999974737875e-06. */
static double decimal_of(float value)
{
    char digits[40];
    bp_number number = {.real = (double)value};
    for (unsigned significant = 1; significant <= 9; significant++) {
        bp_text text;
        bp_text_init(&text, NULL, NULL, digits, sizeof digits);
        bp_text_general(&text, (double)value, significant);
        bool read = bp_text_flush(&text) == BP_OK &&
                    bp_number_parse(digits, strlen(digits), &number) == BP_OK;
        if (read && (float)number.real == value) {
            return number.real;
        }
    }
    return (double)value; /* infinite or not a number */
}

bp_status bp_gguf_take_real(const bp_gguf_file *file, const char *name, double *value)
{
    const bp_gguf_key *key = bp_gguf_find(file, name);
    if (key == NULL) {
        return bp_gguf_refuse(file, "the key is missing", name);
    }
    if (key->type == BP_GGUF_F32) {
        uint32_t bits = (uint32_t)key->bits;
        float single;
        memcpy(&single, &bits, sizeof single);
        *value = decimal_of(single);
        return BP_OK;
    }
    if (key->type == BP_GGUF_F64) {
        memcpy(value, &key->bits, sizeof *value);
        return BP_OK;
    }
    return bp_gguf_refuse(file, "this key must be a number with a fraction", name);
}

bp_status bp_gguf_take_positive(const bp_gguf_file *file, const char *name, double *value)
{
    if (bp_gguf_find(file, name) == NULL) {
        return BP_OK;
    }
    BP_TRY(bp_gguf_take_real(file, name, value));
    return *value > 0.0 && *value < 1e12
               ? BP_OK
               : bp_gguf_refuse(file, "a value is out of range (above 0, below 1e12)", name);
}

bp_status bp_gguf_take_string(const bp_gguf_file *file, const char *name, char *value, size_t room)
{
    const bp_gguf_key *key = bp_gguf_find(file, name);
    if (key == NULL) {
        return bp_gguf_refuse(file, "the key is missing", name);
    }
    if (key->type != BP_GGUF_STRING || key->count >= room) {
        return bp_gguf_refuse(file, "this key must be a string, and not a longer one", name);
    }
    BP_TRY(read_at(file, key->at, value, (size_t)key->count));
    value[key->count] = '\0';
    if (memchr(value, '\0', (size_t)key->count) != NULL) {
        return bp_gguf_refuse(file, "a string holds NUL", name);
    }
    return BP_OK;
}

bool bp_gguf_says(const bp_gguf_file *file, const char *name, const char *word)
{
    char text[64];
    bp_gguf_file quiet = *file;
    quiet.error = NULL; /* another value is an answer here, not an error */
    return bp_gguf_take_string(&quiet, name, text, sizeof text) == BP_OK && strcmp(text, word) == 0;
}

bp_status bp_gguf_items_begin(bp_gguf_items *items, const bp_gguf_file *file, const char *name,
                              bp_gguf_type type)
{
    const bp_gguf_key *key = bp_gguf_find(file, name);
    if (key == NULL) {
        return bp_gguf_refuse(file, "the key is missing", name);
    }
    if (key->type != BP_GGUF_ARRAY || key->item != type) {
        return bp_gguf_refuse(file,
                              type == BP_GGUF_STRING ? "this key must be an array of strings"
                              : type == BP_GGUF_BOOL
                                  ? "this key must be an array of flags"
                                  : "this key must be an array of 32-bit numbers",
                              name);
    }
    items->file = file;
    items->key = key;
    items->next = 0;
    items->at = key->at;
    items->ahead = 0;
    items->ahead_at = 0;
    return BP_OK;
}

static bp_status beyond(const bp_gguf_items *items)
{
    return bp_error_numbers(items->file->error, BP_ERR_USAGE, where,
                            "more items are read than an array has", items->key->name,
                            bp_size_signed(items->next), bp_size_signed(items->key->count));
}

/* Bytes of the array, mostly out of what was read ahead of them. */
static bp_status items_read(bp_gguf_items *items, uint64_t at, void *to, size_t bytes)
{
    const uint64_t end = items->key->at + items->key->bytes;
    if (bytes > BP_GGUF_AHEAD || bytes > end - at) {
        return read_at(items->file, at, to, bytes);
    }
    if (at + bytes > items->ahead_at + items->ahead) { /* places only grow */
        items->ahead_at = at;
        items->ahead = end - at < BP_GGUF_AHEAD ? (size_t)(end - at) : BP_GGUF_AHEAD;
        BP_TRY(read_at(items->file, at, items->buffer, items->ahead));
    }
    memcpy(to, items->buffer + (at - items->ahead_at), bytes);
    return BP_OK;
}

bp_status bp_gguf_items_string(bp_gguf_items *items, char *text, size_t room, size_t *length)
{
    unsigned char raw[8];
    uint64_t bytes = 0;
    if (items->next == items->key->count) {
        return beyond(items);
    }
    BP_TRY(items_read(items, items->at, raw, sizeof raw));
    for (size_t i = 8; i > 0; i--) {
        bytes = bytes << 8 | raw[i - 1];
    }
    if (bytes >= room) {
        return bp_gguf_refuse(items->file, "a string of this array is too long", items->key->name);
    }
    BP_TRY(items_read(items, items->at + 8, text, (size_t)bytes));
    text[bytes] = '\0';
    *length = (size_t)bytes;
    items->at += 8 + bytes;
    items->next++;
    return BP_OK;
}

bp_status bp_gguf_items_flag(bp_gguf_items *items, bool *value)
{
    unsigned char byte = 0;
    if (items->next == items->key->count) {
        return beyond(items);
    }
    BP_TRY(items_read(items, items->at, &byte, sizeof byte));
    *value = byte != 0;
    items->at += sizeof byte;
    items->next++;
    return BP_OK;
}

bp_status bp_gguf_items_i32(bp_gguf_items *items, int32_t *value)
{
    if (items->next == items->key->count) {
        return beyond(items);
    }
    BP_TRY(items_read(items, items->at, value, sizeof *value));
    items->at += sizeof *value;
    items->next++;
    return BP_OK;
}
