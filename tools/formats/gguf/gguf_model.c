/* SPDX-License-Identifier: MIT */
/* From a GGUF file's keys to a configuration. */
#include "tools/formats/gguf/gguf_model.h"
#include "tools/formats/gguf/gguf_decoders.h"
#include "tools/formats/gguf/gguf_llama.h"

#include <string.h>

#include "arena/text.h"
#include "core/base/sort.h"
#include "core/base/storage.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_rope.h"
#include "tools/formats/hf/tensor_match.h"

static const char where[] = "gguf";

bp_status bp_gguf_look(bp_store *store, const char *path, bool *is, bp_error *error)
{
    bp_file file;
    unsigned char magic[4] = {0};
    uint64_t bytes = 0;
    if (store->open_read(store, path, &file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    bool read = store->file_size(store, file, &bytes) == BP_OK;
    if (read && bytes >= sizeof magic) {
        read = store->read_at(store, file, 0, magic, sizeof magic) == BP_OK;
    }
    bp_status status = read ? BP_OK : bp_storage_failed(error, store, "read", path);
    if (store->close(store, file) != BP_OK && status == BP_OK) {
        status = bp_storage_failed(error, store, "close", path);
    }
    *is = memcmp(magic, "GGUF", sizeof magic) == 0;
    return status;
}

static bp_status refuse_architecture(const char *architecture, bp_error *error)
{
    bp_status status = bp_error_set(error, BP_ERR_DATA, where, "this architecture is not supported",
                                    "general.architecture");
    bp_error_found(error, architecture, strlen(architecture));
    bp_error_right(error, "one that docs/families.md has GGUF for, such as gpt2, llama or qwen2");
    return status;
}

/* A token id; -1 when the file has none. */
static bp_status take_token(const bp_gguf_file *file, const char *key, int64_t *token)
{
    uint32_t id;
    *token = -1;
    if (bp_gguf_find(file, key) == NULL) {
        return BP_OK;
    }
    BP_TRY(bp_gguf_take_count(file, key, 0, INT32_MAX, &id));
    *token = (int64_t)id;
    return BP_OK;
}

static bp_status take_ends(const bp_gguf_file *file, bp_model_config *config)
{
    static const char *const more[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    BP_TRY(take_token(file, "tokenizer.ggml.eos_token_id", &config->eos_token));
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        int64_t token;
        BP_TRY(take_token(file, more[i], &token));
        bool known = token < 0 || token == config->eos_token;
        for (uint32_t k = 0; k < config->more_eos_count; k++) {
            known = known || config->more_eos[k] == token;
        }
        if (!known && config->eos_token < 0) {
            config->eos_token = token;
        } else if (!known) {
            config->more_eos[config->more_eos_count++] = token;
        }
    }
    return BP_OK;
}

static const bp_tensor_entry *embedding_of(const bp_gguf_file *file)
{
    for (size_t i = 0; i < file->part.entry_count; i++) {
        if (strcmp(file->part.entries[i].name, "token_embd.weight") == 0) {
            return &file->part.entries[i];
        }
    }
    return NULL;
}

bp_status bp_gguf_describe(const bp_gguf_file *file, const bp_gguf_family **family,
                           bp_model_config *config, bp_error *error)
{
    char architecture[64];
    const bp_tensor_entry *embedding = embedding_of(file);
    BP_TRY(bp_gguf_take_string(file, "general.architecture", architecture, sizeof architecture));
    *family = bp_gguf_family_of(architecture);
    if (*family == NULL) {
        return refuse_architecture(architecture, error);
    }
    if (*family == &bp_gguf_bert) {
        *family = bp_gguf_bert_of(file);
    }
    if (*family == &bp_gguf_olmo2) {
        *family = bp_gguf_olmo_of(file);
    }
    *config = bp_family_defaults(bp_family_find((*family)->model_type));
    if (embedding == NULL || embedding->rank != 2 || embedding->shape[0] > INT32_MAX) {
        return bp_error_set(error, BP_ERR_DATA, where,
                            "the token embedding is missing, no matrix or too large",
                            "token_embd.weight");
    }
    config->vocabulary = (uint32_t)embedding->shape[0];
    BP_TRY(take_token(file, "tokenizer.ggml.bos_token_id", &config->bos_token));
    BP_TRY(take_token(file, "tokenizer.ggml.padding_token_id", &config->pad_token));
    BP_TRY(take_ends(file, config));
    return (*family)->take(file, (*family)->architecture, config);
}

/* The next name that a tensor in blocks may have as a parameter, by rule *rule and those behind it;
 * NULL: there is no other. */
static const char *stored_name(const bp_tensor_entry *entry, const bp_tensor_naming *naming,
                               size_t *rule, char name[BP_TENSOR_NAME_MAX])
{
    while (entry->packed != 0 && *rule < naming->rule_count) {
        const bp_tensor_rule *r = &naming->rules[(*rule)++];
        if (bp_name_rewrite(r->theirs, r->ours, entry->name, name, BP_TENSOR_NAME_MAX)) {
            return name;
        }
    }
    return NULL;
}

uint64_t bp_gguf_stored_bytes(const bp_gguf_file *file, const bp_gguf_family *family)
{
    uint64_t bytes = 0;
    char name[BP_TENSOR_NAME_MAX];
    for (size_t i = 0; i < file->part.entry_count; i++) {
        size_t rule = 0;
        while (stored_name(&file->part.entries[i], family->naming, &rule, name) != NULL) {
            bytes += sizeof(bp_stored_weight) + bp_size_align(strlen(name) + 1, 8);
        }
    }
    return bytes;
}

static int compare_stored(const void *a, const void *b)
{
    const bp_stored_weight *left = a, *right = b;
    return strcmp(left->name, right->name);
}

/* Whether the file's rows are those of the matrix as products read it, (out, in). */
static bool rows_stay(bp_tensor_layout layout, bool input_major)
{
    const bool heads = layout == BP_LAYOUT_QUERY_HEADS || layout == BP_LAYOUT_KEY_HEADS ||
                       layout == BP_LAYOUT_THIRDS;
    return input_major ? layout == BP_LAYOUT_TRANSPOSED : layout == BP_LAYOUT_PLAIN || heads;
}

void bp_gguf_stored(const bp_gguf_file *file, const bp_gguf_family *family, bool input_major,
                    bp_staging *room, const bp_stored_weight **stored, uint32_t *count)
{
    bp_stored_weight *list = room->memory;
    char *names = (char *)room->memory + room->capacity; /* they grow toward the list */
    uint64_t listed = 0, kept = 0;
    char name[BP_TENSOR_NAME_MAX];
    for (size_t i = 0; i < file->part.entry_count; i++) {
        const bp_tensor_entry *entry = &file->part.entries[i];
        size_t rule = 0;
        while (stored_name(entry, family->naming, &rule, name) != NULL) {
            const int form = BP_QUANTISED_BLOCKS + (int)entry->packed;
            if (rows_stay(family->naming->rules[rule - 1].form, input_major)) {
                names -= bp_size_align(strlen(name) + 1, 8);
                memcpy(names, name, strlen(name) + 1);
                list[listed++] = (bp_stored_weight){names, (bp_quantised)form};
            }
        }
    }
    bp_heap_sort(list, (size_t)listed, sizeof *list, compare_stored);
    for (uint64_t i = 0; i < listed; i++) {
        if (kept == 0 || strcmp(list[kept - 1].name, list[i].name) != 0) {
            list[kept++] = list[i];
        }
    }
    *stored = list;
    *count = (uint32_t)kept;
}

bp_status bp_gguf_open_set(bp_tensor_set *set, bp_store *store, const char *path, bp_staging *room,
                           bp_error *error)
{
    bp_gguf_file file;
    bp_tensor_part *part = bp_room_take(room, sizeof *part);
    if (part == NULL) {
        return bp_error_set(error, BP_ERR_FIT, where, "the memory for reading weights is too small",
                            path);
    }
    BP_TRY(bp_gguf_open(&file, store, path, room, error));
    *part = file.part;
    bp_tensor_set_init(set, store, path, part, 1, error);
    return bp_gguf_close(&file); /* the set opens it again when it reads */
}
