/* SPDX-License-Identifier: MIT */
/* A store with a few files more: those that a GGUF file's keys stand for. */
#include "tools/bedplate/models/gguf_folder.h"

#include <stdlib.h>
#include <string.h>

#include "core/plan/model.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_model.h"
#include "tools/formats/gguf/gguf_tokenizer.h"
#include "tools/formats/hf/hf_config.h"

#define TABLE_BYTES ((size_t)64 << 20) /* address space; pages come as they are used */
#define HANDLES     (UINT64_MAX - 7)   /* of the files: no store underneath has them */

enum { CONFIG, TOKENIZER, TOKENIZER_CONFIG, MODULES, POOLING, FILES };

static const char where[] = "gguf";

/* ---- what they hold ---- */

typedef struct growing {
    char *text;
    size_t length;
    size_t capacity;
} growing;

static bp_status growing_add(void *user, const char *text, size_t length)
{
    growing *g = user;
    if (g->length + length > g->capacity) {
        const size_t wanted = 2 * (g->length + length);
        char *grown = realloc(g->text, wanted);
        if (grown == NULL) {
            return BP_ERR_FIT;
        }
        g->text = grown;
        g->capacity = wanted;
    }
    memcpy(g->text + g->length, text, length);
    g->length += length;
    return BP_OK;
}

static bp_status gguf_folder_room(gguf_folder *f, bp_staging *room)
{
    BP_TRY(memory_take(&f->tables, TABLE_BYTES, false, "memory", f->error));
    *room = (bp_staging){f->tables.address, TABLE_BYTES};
    return BP_OK;
}

/* A table that does not fit the room belongs to a file that is not what it says it is. */
static bp_status gguf_folder_data(gguf_folder *f, bp_status status)
{
    if (status == BP_ERR_FIT && f->error != NULL && f->error->code == BP_ERR_FIT) {
        f->error->code = BP_ERR_DATA;
        return BP_ERR_DATA;
    }
    return status;
}

static bp_status gguf_folder_keep(gguf_folder *f, int which, const char *name, const char *text)
{
    f->file[which].length = strlen(text);
    f->file[which].text = malloc(f->file[which].length + 1);
    if (f->file[which].text == NULL) {
        return bp_error_set(f->error, BP_ERR_FIT, where, "no memory for a model's files", f->path);
    }
    memcpy(f->file[which].text, text, f->file[which].length + 1);
    f->file[which].name = name;
    return BP_OK;
}

/* How a model of vectors pools is said as sentence-transformers says it. */
static bp_status make_modules(gguf_folder *f, const bp_model_config *config)
{
    static const char *const pooling[BP_POOLINGS] = {
        [BP_POOLING_MEAN] = "{\"pooling_mode\": \"mean\"}",
        [BP_POOLING_CLS] = "{\"pooling_mode\": \"cls\"}",
        [BP_POOLING_LAST] = "{\"pooling_mode\": \"lasttoken\"}"};
    BP_TRY(gguf_folder_keep(f, MODULES, "modules.json",
                            "[{\"idx\": 0, \"name\": \"0\", \"path\": \"\", "
                            "\"type\": \"sentence_transformers.models.Transformer\"}, "
                            "{\"idx\": 1, \"name\": \"1\", \"path\": \"1_Pooling\", "
                            "\"type\": \"sentence_transformers.models.Pooling\"}]"));
    return gguf_folder_keep(f, POOLING, "1_Pooling/config.json", pooling[config->pooling]);
}

/* The list of what may be kept as it is. */
static bp_status make_stored(gguf_folder *f, const bp_gguf_file *file, const bp_gguf_family *family,
                             const bp_model *model)
{
    const uint64_t bytes = bp_gguf_stored_bytes(file, family);
    if (bytes == 0) {
        return BP_OK;
    }
    f->stored_room = (bp_staging){malloc((size_t)bytes), (size_t)bytes};
    if (f->stored_room.memory == NULL) {
        return bp_error_set(f->error, BP_ERR_FIT, where, "no memory for a model's files", f->path);
    }
    bp_gguf_stored(file, family, model->input_major, &f->stored_room, &f->stored, &f->stored_count);
    return BP_OK;
}

static bp_status make_config(gguf_folder *f, const bp_gguf_file *file)
{
    const bp_gguf_family *family;
    bp_model_config config;
    BP_TRY(bp_gguf_describe(file, &family, &config, f->error));
    BP_TRY(make_stored(f, file, family, config.family->model));
    f->file[CONFIG].text = malloc(BP_HF_CONFIG_TEXT);
    if (f->file[CONFIG].text == NULL) {
        return bp_error_set(f->error, BP_ERR_FIT, where, "no memory for config.json", f->path);
    }
    f->file[CONFIG].name = "config.json";
    if (config.task == BP_TASK_EMBEDDING) {
        BP_TRY(make_modules(f, &config));
    }
    return bp_hf_config_text(&config, NULL, f->file[CONFIG].text, &f->file[CONFIG].length);
}

/* tokenizer.json or tokenizer_config.json. */
static bp_status make_tokenizer(gguf_folder *f, const bp_gguf_file *file, int which)
{
    growing g = {.text = NULL};
    const bool whole = which == TOKENIZER;
    const uint64_t bytes =
        whole ? bp_gguf_tokenizer_scratch(file) : BP_GGUF_TOKENIZER_CONFIG_SCRATCH;
    void *scratch = bytes < TABLE_BYTES ? malloc((size_t)bytes) : NULL;
    bp_status status = scratch == NULL ? BP_ERR_FIT
                       : whole ? bp_gguf_tokenizer_json(file, scratch, growing_add, &g, f->error)
                               : bp_gguf_tokenizer_config(file, scratch, growing_add, &g, f->error);
    free(scratch);
    f->file[which].text = g.text;
    f->file[which].length = g.length;
    return status;
}

/* Reads the keys and makes one of the files. */
static bp_status gguf_folder_make(gguf_folder *f, int which, const char **why)
{
    bp_gguf_file file;
    bp_staging room;
    bp_store under = *f->under;
    BP_TRY(gguf_folder_room(f, &room));
    bp_status status = gguf_folder_data(f, bp_gguf_open(&file, &under, f->path, &room, f->error));
    if (status == BP_OK) {
        status = which == CONFIG ? make_config(f, &file) : make_tokenizer(f, &file, which);
        *why = bp_gguf_tokenizer_foreign(&file);
        bp_status closed = bp_gguf_close(&file);
        status = status == BP_OK ? closed : status;
    }
    memory_give_back(&f->tables);
    return status;
}

/* ---- the store ---- */

static gguf_folder *folder_of(bp_store *store)
{
    return (gguf_folder *)(void *)store;
}

/* The file behind FILE.gguf/NAME; FILES when it is not there, -1 for paths of the store below. */
static int which_of(const gguf_folder *f, const char *path)
{
    const size_t length = strlen(f->path);
    if (strncmp(path, f->path, length) != 0 || path[length] != '/') {
        return -1;
    }
    for (int i = 0; i < FILES; i++) {
        if (f->file[i].name != NULL && strcmp(path + length + 1, f->file[i].name) == 0) {
            return i;
        }
    }
    return FILES;
}

static bp_status folder_open_read(bp_store *store, const char *path, bp_file *file)
{
    gguf_folder *f = folder_of(store);
    const int which = which_of(f, path);
    if (which < 0) {
        return f->under->open_read(store, path, file);
    }
    const char *why = NULL;
    if (which == FILES ||
        (f->file[which].text == NULL && gguf_folder_make(f, which, &why) != BP_OK)) {
        store->reason = "a GGUF file does not hold this";
        return BP_ERR_STORE;
    }
    file->handle = HANDLES + (uint64_t)which;
    return BP_OK;
}

static bp_status folder_file_size(bp_store *store, bp_file file, uint64_t *bytes)
{
    gguf_folder *f = folder_of(store);
    if (file.handle < HANDLES) {
        return f->under->file_size(store, file, bytes);
    }
    *bytes = f->file[file.handle - HANDLES].length;
    return BP_OK;
}

static bp_status folder_read_at(bp_store *store, bp_file file, uint64_t offset, void *to,
                                size_t bytes)
{
    gguf_folder *f = folder_of(store);
    if (file.handle < HANDLES) {
        return f->under->read_at(store, file, offset, to, bytes);
    }
    const size_t length = f->file[file.handle - HANDLES].length;
    if (offset > length || bytes > length - offset) {
        store->reason = "the file is shorter";
        return BP_ERR_STORE;
    }
    memcpy(to, f->file[file.handle - HANDLES].text + offset, bytes);
    return BP_OK;
}

static bp_status folder_close(bp_store *store, bp_file file)
{
    return file.handle < HANDLES ? folder_of(store)->under->close(store, file) : BP_OK;
}

static bp_status folder_exists(bp_store *store, const char *path, bool *there)
{
    gguf_folder *f = folder_of(store);
    const int which = which_of(f, path);
    *there = which >= 0 && which < FILES;
    return which < 0 ? f->under->exists(store, path, there) : BP_OK;
}

/* As a directory it has nothing that could be listed and written over. */
static bp_status folder_list(bp_store *store, const char *path,
                             bp_status (*each)(void *user, const char *name), void *user)
{
    gguf_folder *f = folder_of(store);
    return strcmp(path, f->path) == 0 ? BP_OK : f->under->list(store, path, each, user);
}

bp_status gguf_folder_open(gguf_folder *folder, const bp_store *under, const char *path, bool *is,
                           const char **why, bp_error *error)
{
    bp_store asked = *under;
    *why = NULL;
    /* What cannot be read as a file is a directory, a preset or nothing. */
    *is = bp_gguf_look(&asked, path, is, NULL) == BP_OK && *is;
    if (!*is) {
        return BP_OK;
    }
    *folder =
        (gguf_folder){.store = *under, .under = under, .path = path, .error = error, .open = true};
    folder->store.open_read = folder_open_read;
    folder->store.file_size = folder_file_size;
    folder->store.read_at = folder_read_at;
    folder->store.close = folder_close;
    folder->store.exists = folder_exists;
    folder->store.list = folder_list;
    BP_TRY(gguf_folder_make(folder, CONFIG, why));
    folder->file[TOKENIZER].name = *why == NULL ? "tokenizer.json" : NULL;
    folder->file[TOKENIZER_CONFIG].name = *why == NULL ? "tokenizer_config.json" : NULL;
    return BP_OK;
}

uint64_t gguf_folder_bytes(const gguf_folder *folder)
{
    return folder->stored_room.capacity + folder->file[CONFIG].length +
           folder->file[TOKENIZER].length + folder->file[TOKENIZER_CONFIG].length;
}

void gguf_folder_close(gguf_folder *folder)
{
    for (int i = 0; i < FILES; i++) {
        free(folder->file[i].text);
        folder->file[i].text = NULL;
    }
    free(folder->stored_room.memory);
    folder->stored_room = (bp_staging){NULL, 0};
    folder->stored_count = 0;
    memory_give_back(&folder->tables);
    folder->open = false;
}
