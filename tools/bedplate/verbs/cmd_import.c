/* SPDX-License-Identifier: MIT */
/* bedplate import: a GGUF or llm.c file as a Hugging Face directory. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/storage.h"
#include "device/host/trainer_state.h"
#include "tools/bedplate/models/board_state.h"
#include "tools/bedplate/models/model_files.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/commands.h"
#include "tools/formats/hf/embedder.h"
#include "tools/formats/gguf/gguf_model.h"
#include "tools/formats/gguf/gguf_tokenizer.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/llmc/llmc_model.h"
#include "tools/formats/files/stream_file.h"

static const char where[] = "import";

typedef struct importing {
    model_files m;
    const char *format;
    bp_gguf_file gguf;
    bool gguf_open;
    bp_llmc_file llmc;
    bp_weight_source source;
} importing;

static bp_status cmd_import_refuse(importing *i, const char *text, const char *name)
{
    return bp_error_set(&i->m.error, BP_ERR_DATA, where, text, name);
}

static bp_status open_gguf(importing *i)
{
    model_files *m = &i->m;
    const bp_gguf_family *family;
    BP_TRY(bp_gguf_open(&i->gguf, m->store, m->set->from, &m->room, &m->error));
    i->gguf_open = true;
    bp_tensor_set_init(&m->source, m->store, m->set->from, &i->gguf.part, 1, &m->error);
    BP_TRY(bp_gguf_describe(&i->gguf, &family, &m->config, &m->error));
    m->model = m->config.family->model;
    return model_files_match(m, family->naming, &i->source);
}

static bp_status open_llmc(importing *i)
{
    model_files *m = &i->m;
    BP_TRY(bp_llmc_open(&i->llmc, m->store, m->set->from, &m->room, &m->error));
    bp_tensor_set_init(&m->source, m->store, m->set->from, &i->llmc.part, 1, &m->error);
    m->config = i->llmc.config;
    m->model = m->config.family->model;
    return model_files_match(m, &bp_llmc_naming, &i->source);
}

/* The first four bytes say what the file is. */
static bp_status open_file(importing *i)
{
    model_files *m = &i->m;
    const char *path = m->set->from;
    bp_store *store = m->store;
    bp_file file;
    unsigned char magic[4] = {0};
    uint64_t bytes = 0;
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) {
        return cmd_import_refuse(i, "there is no such file", path);
    }
    if (store->open_read(store, path, &file) != BP_OK) {
        return bp_storage_failed(&m->error, store, "open", path);
    }
    bool read = store->file_size(store, file, &bytes) == BP_OK && bytes >= 4 &&
                store->read_at(store, file, 0, magic, sizeof magic) == BP_OK;
    (void)store->close(store, file); /* it was only read */
    uint32_t number = (uint32_t)magic[0] | (uint32_t)magic[1] << 8 | (uint32_t)magic[2] << 16 |
                      (uint32_t)magic[3] << 24;
    if (read && number == BP_TRAINER_STATE_MAGIC) {
        i->format = "state";
        return BP_OK;
    }
    if (m->set->model != NULL && number != BP_TRAINER_STATE_MAGIC && read) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where,
                            "only a state of a board has its configuration elsewhere", "--model");
    }
    if (read && number == BP_GGUF_MAGIC) {
        i->format = "gguf";
        return open_gguf(i);
    }
    if (read && number == BP_LLMC_MAGIC) {
        i->format = "llmc";
        return open_llmc(i);
    }
    return cmd_import_refuse(
        i, "the file is neither GGUF nor an llm.c model nor a state of a board (first bytes)",
        path);
}

/* tokenizer_config.json: the roles of tokens and the chat template. */
static bp_status write_tokenizer_config(importing *i)
{
    model_files *m = &i->m;
    char path[BP_STORE_PATH_MAX];
    bp_stream_file stream;
    void *scratch = bp_room_take(&m->room, BP_GGUF_TOKENIZER_CONFIG_SCRATCH);
    if (scratch == NULL) {
        return cmd_import_refuse(i, "the chat template is too large", "tokenizer.chat_template");
    }
    BP_TRY(bp_storage_join(path, m->set->to, "tokenizer_config.json", &m->error));
    BP_TRY(bp_stream_begin(&stream, m->store, path, &m->error));
    bp_status status =
        bp_gguf_tokenizer_config(&i->gguf, scratch, bp_stream_add, &stream, &m->error);
    return bp_stream_end(&stream, status);
}

/* tokenizer.json and tokenizer_config.json, where the file has a tokenizer that they can hold. */
static bp_status write_tokenizer(importing *i)
{
    model_files *m = &i->m;
    char path[BP_STORE_PATH_MAX];
    bp_stream_file stream;
    const char *why = i->gguf_open ? bp_gguf_tokenizer_foreign(&i->gguf) : "the file has none";
    if (why != NULL) {
        output_print(stderr, "bedplate: %s: no tokenizer is written: %s\n", m->set->from, why);
        return BP_OK;
    }
    const uint64_t bytes = bp_gguf_tokenizer_scratch(&i->gguf);
    void *scratch = bytes == BP_SIZE_INVALID ? NULL : bp_room_take(&m->room, bytes);
    if (scratch == NULL) {
        return cmd_import_refuse(i, "the tokenizer is too large", "tokenizer.ggml.tokens");
    }
    BP_TRY(bp_storage_join(path, m->set->to, "tokenizer.json", &m->error));
    BP_TRY(bp_stream_begin(&stream, m->store, path, &m->error));
    bp_status status = bp_gguf_tokenizer_json(&i->gguf, scratch, bp_stream_add, &stream, &m->error);
    BP_TRY(bp_stream_end(&stream, status));
    return write_tokenizer_config(i);
}

static bp_status write_directory(importing *i)
{
    model_files *m = &i->m;
    const char *to = m->set->to;
    char path[BP_STORE_PATH_MAX];
    char *json = (char *)m->work.memory + m->work.capacity - BP_HF_CONFIG_TEXT;
    size_t length;
    if (m->store->make_directory(m->store, to) != BP_OK) {
        return bp_storage_failed(&m->error, m->store, "make directory", to);
    }
    BP_TRY(bp_storage_join(path, to, BP_HF_WEIGHTS, &m->error));
    if (model_files_same(path, m->set->from)) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where, "the target is the source itself",
                            path);
    }
    m->target.path = path;
    BP_TRY(write_tokenizer(i)); /* first: its refusals leave no model without one */
    BP_TRY(bp_hf_export(&i->source, &m->config.family->naming, &m->target));
    BP_TRY(bp_hf_config_text(&m->config, NULL, json, &length));
    bp_json_span span = {json, length};
    const bp_json_source source = {bp_json_span_fill, &span, length};
    BP_TRY(model_files_config(m, &source, to));
    if (m->config.task == BP_TASK_EMBEDDING) {
        const bp_embedder embedder = {.present = true, .pooling = m->config.pooling};
        BP_TRY(bp_embedder_write(m->store, to, &embedder, m->config.classes, m->config.positions,
                                 &m->error));
    }
    if (m->store->sync_directory(m->store, to) != BP_OK) {
        return bp_storage_failed(&m->error, m->store, "sync", to);
    }
    return BP_OK;
}

static bool is_board_state(const importing *i)
{
    return i->format != NULL && strcmp(i->format, "state") == 0;
}

static bp_status write_checkpoint(importing *i)
{
    model_files *m = &i->m;
    board_state_found found = {0};
    BP_TRY(
        board_state_import(m->store, m->set->from, m->set->model, m->set->to, &found, &m->error));
    board_state_print(m->set->json, m->set->to, &found);
    return BP_OK;
}

static bp_status import_model(importing *i, const settings *set)
{
    model_files *m = &i->m;
    BP_TRY(model_files_begin(m, set));
    if (set->from == NULL || set->to == NULL) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where,
                            set->from == NULL ? "the option is needed: the file to read"
                                              : "the option is needed: the directory to write",
                            set->from == NULL ? "--from" : "--to");
    }
    BP_TRY(open_file(i));
    return is_board_state(i) ? write_checkpoint(i) : write_directory(i);
}

int cmd_import(const settings *set)
{
    static importing i; /* it must not move */
    bp_status status = import_model(&i, set);
    if (i.gguf_open) {
        bp_status closed = bp_gguf_close(&i.gguf);
        status = status == BP_OK ? closed : status;
    }
    return model_files_end(&i.m, status, is_board_state(&i) ? NULL : i.format, set->to);
}
