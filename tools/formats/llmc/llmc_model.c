/* SPDX-License-Identifier: MIT */
/* The one order of parameters that llm.c knows, read and written. */
#include "tools/formats/llmc/llmc_model.h"

#include <string.h>

#include "arena/text.h"
#include "core/base/sort.h"
#include "core/base/storage.h"
#include "layers/families/transformer.h"
#include "tools/formats/family/family.h"
#include "tools/formats/files/stream_file.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { VERSION_F32 = 3, VERSION_BF16 = 5, NAME_BYTES = 64, HEADER_INTS = 8 };

static const char where[] = "llm.c";

static const bp_tensor_rule rules[] = {
    {"transformer.h.#.attn.c_attn.weight", "transformer.h.#.attn.c_attn.weight",
     BP_LAYOUT_TRANSPOSED},
    {"transformer.h.#.attn.c_proj.weight", "transformer.h.#.attn.c_proj.weight",
     BP_LAYOUT_TRANSPOSED},
    {"transformer.h.#.mlp.c_fc.weight", "transformer.h.#.mlp.c_fc.weight", BP_LAYOUT_TRANSPOSED},
    {"transformer.h.#.mlp.c_proj.weight", "transformer.h.#.mlp.c_proj.weight",
     BP_LAYOUT_TRANSPOSED},
    {"*", "*", BP_LAYOUT_PLAIN},
};

const bp_tensor_naming bp_llmc_naming = {rules, COUNT(rules), NULL, 0, NULL, 0};

/* What an extent of a kind is. */
typedef enum extent { NONE, VOCABULARY, POSITIONS, WIDTH, WIDTH_3, WIDTH_4 } extent;

/* The kinds in the file's order. # in the name is the layer. */
static const struct {
    const char *name;
    extent rows;
    extent columns;
    bool layers;
} kinds[] = {
    {"transformer.wte.weight", VOCABULARY, WIDTH, false},
    {"transformer.wpe.weight", POSITIONS, WIDTH, false},
    {"transformer.h.#.ln_1.weight", WIDTH, NONE, true},
    {"transformer.h.#.ln_1.bias", WIDTH, NONE, true},
    {"transformer.h.#.attn.c_attn.weight", WIDTH_3, WIDTH, true},
    {"transformer.h.#.attn.c_attn.bias", WIDTH_3, NONE, true},
    {"transformer.h.#.attn.c_proj.weight", WIDTH, WIDTH, true},
    {"transformer.h.#.attn.c_proj.bias", WIDTH, NONE, true},
    {"transformer.h.#.ln_2.weight", WIDTH, NONE, true},
    {"transformer.h.#.ln_2.bias", WIDTH, NONE, true},
    {"transformer.h.#.mlp.c_fc.weight", WIDTH_4, WIDTH, true},
    {"transformer.h.#.mlp.c_fc.bias", WIDTH_4, NONE, true},
    {"transformer.h.#.mlp.c_proj.weight", WIDTH, WIDTH_4, true},
    {"transformer.h.#.mlp.c_proj.bias", WIDTH, NONE, true},
    {"transformer.ln_f.weight", WIDTH, NONE, false},
    {"transformer.ln_f.bias", WIDTH, NONE, false},
};

static uint64_t extent_of(const bp_model_config *config, extent which)
{
    const bp_transformer own = bp_transformer_of(config);
    uint64_t width = own.width;
    switch (which) {
    case VOCABULARY:
        return config->vocabulary;
    case POSITIONS:
        return config->positions;
    case WIDTH:
        return width;
    case WIDTH_3:
        return 3 * width;
    case WIDTH_4:
        return 4 * width;
    default:
        return 1;
    }
}

/* The name of a kind in a layer. */
static void llmc_model_name_of(size_t kind, uint32_t layer, char name[NAME_BYTES])
{
    bp_text text;
    bp_text_init(&text, NULL, NULL, name, NAME_BYTES);
    for (const char *c = kinds[kind].name; *c != '\0'; c++) {
        if (*c == '#') {
            bp_text_u64(&text, layer);
        } else {
            bp_text_char(&text, *c);
        }
    }
    bp_status fits = bp_text_flush(&text);
    (void)fits; /* the longest name has 45 characters */
}

static uint64_t padded_vocabulary(const bp_model_config *config)
{
    return bp_size_align(config->vocabulary, BP_LLMC_PADDING);
}

/* ---- reading ---- */

typedef struct opening {
    bp_llmc_file *file;
    bp_store *store;
    bp_file handle;
    bp_error *error;
    uint64_t bytes;  /* of the file */
    uint32_t padded; /* rows of wte in the file */
} opening;

typedef struct field {
    const char *name;
    size_t offset;
    int64_t most;
} field;

/* Header integers 2 to 6. */
static const field fields[] = {
    {"maximum sequence length", offsetof(bp_model_config, positions), 1 << 24},
    {"vocabulary", offsetof(bp_model_config, vocabulary), INT32_MAX},
    {"layers", BP_FAMILY_MEMBER(bp_transformer, layers), 1 << 12},
    {"heads", BP_FAMILY_MEMBER(bp_transformer, heads), 1 << 16},
    {"width", BP_FAMILY_MEMBER(bp_transformer, width), 1 << 20},
};

static bp_status llmc_model_wrong(const opening *o, const char *text, const char *name,
                                  int64_t found, int64_t right)
{
    return bp_error_numbers(o->error, BP_ERR_DATA, where, text, name, found, right);
}

static bp_status check_header(opening *o, const int32_t head[HEADER_INTS])
{
    bp_llmc_file *file = o->file;
    if (head[0] != BP_LLMC_MAGIC) {
        return llmc_model_wrong(o, "the file has no llm.c model header (magic)", NULL, head[0],
                                BP_LLMC_MAGIC);
    }
    if (head[1] != VERSION_F32 && head[1] != VERSION_BF16) {
        bp_status status =
            llmc_model_wrong(o, "this version is not implemented", NULL, head[1], VERSION_F32);
        bp_error_right(o->error, "3 (fp32) or 5 (bf16)");
        return status;
    }
    file->dtype = head[1] == VERSION_F32 ? BP_F32 : BP_BF16;
    for (size_t i = 0; i < COUNT(fields); i++) {
        static const char text[] = "a size in the header is out of range";
        int64_t value = head[2 + i];
        if (value < 1 || value > fields[i].most) {
            return value < 1 ? bp_error_limit(o->error, BP_ERR_DATA, where, text, fields[i].name,
                                              value, BP_LIMIT_LEAST, 1)
                             : bp_error_limit(o->error, BP_ERR_DATA, where, text, fields[i].name,
                                              value, BP_LIMIT_MOST, fields[i].most);
        }
        uint32_t size = (uint32_t)value;
        memcpy((char *)&file->config + fields[i].offset, &size, sizeof size);
    }
    const bp_transformer own = bp_transformer_of(&file->config);
    if (own.width % own.heads != 0) {
        return bp_error_limit(o->error, BP_ERR_DATA, where, "the heads do not divide the width",
                              NULL, own.heads, BP_LIMIT_DIVISOR, own.width);
    }
    if (head[7] < head[3]) {
        return bp_error_limit(o->error, BP_ERR_DATA, where,
                              "the padded vocabulary is smaller than the vocabulary", NULL, head[7],
                              BP_LIMIT_LEAST, head[3]);
    }
    o->padded = (uint32_t)head[7];
    return BP_OK;
}

/* Gives every tensor its place; *end becomes the length that the file must have. */
static void place_tensors(const opening *o, bp_tensor_entry *entries, char (*names)[NAME_BYTES],
                          uint64_t *end)
{
    const bp_model_config *config = &o->file->config;
    size_t size = bp_dtype_bytes(o->file->dtype);
    size_t index = 0;
    uint64_t offset = 0;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        uint32_t layers = kinds[k].layers ? bp_transformer_of(config).layers : 1;
        uint64_t rows = extent_of(config, kinds[k].rows);
        uint64_t columns = extent_of(config, kinds[k].columns);
        uint64_t stored = kinds[k].rows == VOCABULARY ? o->padded : rows;
        for (uint32_t l = 0; l < layers; l++) {
            if (entries != NULL) {
                llmc_model_name_of(k, l, names[index]);
                entries[index] = (bp_tensor_entry){.name = names[index],
                                                   .dtype = o->file->dtype,
                                                   .rank = kinds[k].columns == NONE ? 1 : 2,
                                                   .shape = {rows, columns},
                                                   .offset = offset,
                                                   .bytes = rows * columns * size};
                index++;
            }
            offset = bp_size_add(offset, bp_size_mul(stored * columns, size));
        }
    }
    *end = bp_size_add(BP_LLMC_HEADER, offset);
}

static int compare_entries(const void *a, const void *b)
{
    const bp_tensor_entry *left = a;
    const bp_tensor_entry *right = b;
    return strcmp(left->name, right->name);
}

static bp_status make_tables(opening *o, bp_staging *room)
{
    bp_tensor_part *part = &o->file->part;
    uint64_t count = 4 + 12 * (uint64_t)bp_transformer_of(&o->file->config).layers;
    uint64_t end;
    place_tensors(o, NULL, NULL, &end);
    if (end != o->bytes) {
        return llmc_model_wrong(o, "the file's size differs from its header", NULL,
                                (int64_t)o->bytes, end > INT64_MAX ? INT64_MAX : (int64_t)end);
    }
    bp_tensor_entry *entries = bp_room_take(room, count * sizeof *entries);
    char(*names)[NAME_BYTES] = bp_room_take(room, count * NAME_BYTES);
    if (entries == NULL || names == NULL) {
        return bp_error_limit(o->error, BP_ERR_FIT, where,
                              "the memory for reading the file is too small", NULL,
                              bp_size_signed(room->capacity), BP_LIMIT_LEAST,
                              bp_size_signed(count * (sizeof *entries + NAME_BYTES)));
    }
    place_tensors(o, entries, names, &end);
    part->entries = entries;
    part->entry_count = (size_t)count;
    part->data_at = BP_LLMC_HEADER;
    part->file_bytes = o->bytes;
    bp_heap_sort(entries, part->entry_count, sizeof *entries, compare_entries);
    return BP_OK;
}

static bp_status llmc_model_read_file(opening *o, const char *path, bp_staging *room)
{
    int32_t head[HEADER_INTS];
    if (o->store->file_size(o->store, o->handle, &o->bytes) != BP_OK) {
        return bp_storage_failed(o->error, o->store, "size", path);
    }
    if (o->bytes < BP_LLMC_HEADER) {
        return bp_error_limit(o->error, BP_ERR_DATA, where, "the file is too small for a header",
                              NULL, bp_size_signed(o->bytes), BP_LIMIT_LEAST, BP_LLMC_HEADER);
    }
    if (o->store->read_at(o->store, o->handle, 0, head, sizeof head) != BP_OK) {
        return bp_storage_failed(o->error, o->store, "read", path);
    }
    BP_TRY(check_header(o, head));
    return make_tables(o, room);
}

bp_status bp_llmc_open(bp_llmc_file *file, bp_store *store, const char *path, bp_staging *room,
                       bp_error *error)
{
    bp_error inner = {.code = BP_OK};
    opening o = {.file = file, .store = store, .error = &inner};
    *file = (bp_llmc_file){.config = bp_family_defaults(&bp_family_gpt2), .part = {.path = path}};
    file->config.bos_token = -1;
    file->config.eos_token = -1;
    if (store->open_read(store, path, &o.handle) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    bp_status status = llmc_model_read_file(&o, path, room);
    (void)store->close(store, o.handle); /* it was only read */
    if (status != BP_OK && status != BP_ERR_STORE) {
        bp_error_prefix(&inner, path);
    }
    if (status != BP_OK && error != NULL && error->code == BP_OK) {
        *error = inner;
    }
    if (status == BP_OK && file->config.vocabulary == 50257) {
        file->config.bos_token = 50256; /* GPT-2's own vocabulary: <|endoftext|> */
        file->config.eos_token = 50256;
    }
    return status;
}

/* ---- writing ---- */

typedef struct writing {
    const bp_weight_source *source;
    const bp_weight_target *target;
    const bp_model_config *config;
    bp_dtype dtype;
    bp_file file;
    uint64_t at;
} writing;

static bp_status llmc_model_put(void *user, const void *bytes, size_t length)
{
    writing *w = user;
    bp_store *store = w->target->store;
    if (store->write_at(store, w->file, w->at, bytes, length) != BP_OK) {
        return bp_storage_failed(w->target->error, store, "write", w->target->path);
    }
    w->at += length;
    return BP_OK;
}

static bp_status put_header(writing *w)
{
    const bp_model_config *config = w->config;
    const bp_transformer own = bp_transformer_of(config);
    int32_t head[BP_LLMC_HEADER / 4] = {BP_LLMC_MAGIC,
                                        w->dtype == BP_F32 ? VERSION_F32 : VERSION_BF16,
                                        (int32_t)config->positions,
                                        (int32_t)config->vocabulary,
                                        (int32_t)own.layers,
                                        (int32_t)own.heads,
                                        (int32_t)own.width,
                                        (int32_t)padded_vocabulary(config)};
    return llmc_model_put(w, head, sizeof head);
}

/* The rows of wte that no token has. */
static bp_status put_padding(writing *w)
{
    static const char zeros[4096] = {0};
    uint64_t rows = padded_vocabulary(w->config) - w->config->vocabulary;
    uint64_t left = rows * bp_transformer_of(w->config).width * bp_dtype_bytes(w->dtype);
    while (left > 0) {
        size_t piece = left < sizeof zeros ? (size_t)left : sizeof zeros;
        BP_TRY(llmc_model_put(w, zeros, piece));
        left -= piece;
    }
    return BP_OK;
}

static bp_status put_tensor(writing *w, size_t kind, uint32_t layer)
{
    char wanted[NAME_BYTES];
    char name[BP_TENSOR_NAME_MAX];
    bp_tensor_view view;
    size_t i = 0;
    llmc_model_name_of(kind, layer, wanted);
    while (i < w->source->count && strcmp(w->source->list[i].name, wanted) != 0) {
        i++;
    }
    if (i == w->source->count) {
        return bp_error_set(w->target->error, BP_ERR_USAGE, where,
                            "the model lacks a tensor that the format needs", wanted);
    }
    BP_TRY(bp_weight_source_view(w->source, i, 0, &bp_llmc_naming, name, &view));
    return bp_weight_source_stream(w->source, i, &view, w->dtype, w->target->work, llmc_model_put,
                                   w);
}

static bp_status put_all(writing *w)
{
    BP_TRY(put_header(w));
    for (size_t k = 0; k < COUNT(kinds); k++) {
        uint32_t layers = kinds[k].layers ? bp_transformer_of(w->config).layers : 1;
        for (uint32_t l = 0; l < layers; l++) {
            BP_TRY(put_tensor(w, k, l));
        }
        if (kinds[k].rows == VOCABULARY) {
            BP_TRY(put_padding(w));
        }
    }
    bp_store *store = w->target->store;
    if (store->sync(store, w->file) != BP_OK) {
        return bp_storage_failed(w->target->error, store, "sync", w->target->path);
    }
    return BP_OK;
}

static bp_dtype choose_type(const bp_weight_source *source, const bp_weight_target *target)
{
    if (!target->keep) {
        return target->dtype;
    }
    for (size_t i = 0; i < source->count; i++) {
        if (bp_tensor_view_dtype(&source->list[i].view) != BP_BF16) {
            return BP_F32;
        }
    }
    return BP_BF16;
}

static bp_status llmc_model_refuse(const bp_weight_target *target, const char *text,
                                   const char *name)
{
    return bp_error_set(target->error, BP_ERR_USAGE, where, text, name);
}

static bp_status check_config(const writing *w)
{
    const bp_model_config *config = w->config;
    const bp_transformer own = bp_transformer_of(config);
    if (w->dtype != BP_F32 && w->dtype != BP_BF16) {
        return llmc_model_refuse(w->target, "llm.c files hold fp32 or bf16, not fp16", "--dtype");
    }
    if (own.inner != 0 && own.inner != 4 * own.width) {
        return llmc_model_refuse(
            w->target, "llm.c files cannot hold another inner width than four times n_embd",
            "n_inner");
    }
    if (own.untied) {
        return llmc_model_refuse(w->target, "llm.c files have no head apart from the embedding",
                                 "tie_word_embeddings");
    }
    if (own.norm_epsilon != 1e-5) {
        return llmc_model_refuse(w->target, "llm.c files cannot hold another epsilon than 1e-5",
                                 "layer_norm_epsilon");
    }
    if (padded_vocabulary(config) > INT32_MAX) {
        return llmc_model_refuse(w->target, "llm.c files have no room for a vocabulary this large",
                                 "vocab_size");
    }
    return BP_OK;
}

bp_status bp_llmc_export(const bp_weight_source *source, const bp_model_config *config,
                         bp_weight_target *target)
{
    writing w = {.source = source, .target = target, .config = config};
    bp_store *store = target->store;
    char name[BP_STORE_PATH_MAX];
    w.dtype = choose_type(source, target);
    BP_TRY(check_config(&w));
    if (target->work.capacity < BP_TARGET_WORK_MIN) {
        return bp_error_limit(target->error, BP_ERR_FIT, where,
                              "the memory for writing weights is too small", target->path,
                              bp_size_signed(target->work.capacity), BP_LIMIT_LEAST,
                              BP_TARGET_WORK_MIN);
    }
    BP_TRY(bp_replace_name(name, target->path, target->error));
    if (store->open_write(store, name, &w.file) != BP_OK) {
        return bp_storage_failed(target->error, store, "create", name);
    }
    bp_status status = put_all(&w);
    if (store->close(store, w.file) != BP_OK && status == BP_OK) {
        status = bp_storage_failed(target->error, store, "close", name);
    }
    if (status != BP_OK) {
        bp_replace_abandon(store, target->path);
        return status;
    }
    target->bytes = w.at;
    return bp_replace_end(store, target->path, target->error);
}
