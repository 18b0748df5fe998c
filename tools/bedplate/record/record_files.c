/* SPDX-License-Identifier: MIT */
/* Files by their SHA-256. */
#include "tools/bedplate/record/record_files.h"

#include <string.h>
#include <sys/stat.h>

#include "core/base/digest.h"
#include "core/base/storage.h"
#include "device/host/sha256.h"

static const char changed[] = "the model's files were replaced while the run reads them";
static const char *const tokenizer_files[] = {
    "tokenizer.json", "tokenizer_config.json",   "vocab.json",        "merges.txt",
    "vocab.txt",      "special_tokens_map.json", "added_tokens.json", "tokenizer.model",
    "spiece.model",   "sentencepiece.bpe.model", "tekken.json"};
static const char *const adapter_files[] = {"adapter_config.json", "adapter_model.safetensors"};
static const char *const exported_files[] = {
    "config.json",    "model.safetensors",     "adapter_config.json", "adapter_model.safetensors",
    "tokenizer.json", "tokenizer_config.json", "vocab.json",          "merges.txt",
    "vocab.txt",      "tokenizer.model",       "spiece.model",        "sentencepiece.bpe.model",
    "tekken.json"};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

const char *record_base_name(const char *path, char name[BP_STORE_PATH_MAX])
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    size_t first = end;
    while (first > 0 && path[first - 1] != '/' && end - first < BP_STORE_PATH_MAX - 1) {
        first--;
    }
    memcpy(name, path + first, end - first);
    name[end - first] = '\0';
    return name;
}

static bp_status record_file_hash(session *s, bp_file file, const char *path, uint64_t *bytes,
                                  char text[BP_SHA256_TEXT])
{
    bp_store *store = &s->posix.store;
    unsigned char digest[BP_SHA256_BYTES];
    bp_sha256 sha;
    bp_sha256_begin(&sha);
    if (store->file_size(store, file, bytes) != BP_OK) {
        return bp_storage_failed(&s->error, store, "size", path);
    }
    for (uint64_t at = 0; at < *bytes;) {
        const uint64_t left = *bytes - at;
        const size_t piece = left < s->work.capacity ? (size_t)left : s->work.capacity;
        if (store->read_at(store, file, at, s->work.memory, piece) != BP_OK) {
            return bp_storage_failed(&s->error, store, "read", path);
        }
        bp_host_sha256_add(&sha, s->work.memory, piece);
        at += piece;
    }
    bp_sha256_end(&sha, digest);
    bp_sha256_text(digest, text);
    return BP_OK;
}

static void record_item(json_line *line, const char *path, uint64_t bytes, const char *digest)
{
    char name[BP_STORE_PATH_MAX];
    line_open(line, NULL);
    line_text(line, "name", record_base_name(path, name));
    line_count(line, "bytes", bytes);
    if (digest != NULL) {
        line_text(line, "sha256", digest);
    } else {
        bp_json_put_value(&line->json, "sha256", "null");
    }
    line_close(line);
}

/* An item {"name":..,"bytes":..,"sha256":..} of a list; the name without its folders. BP_ERR_STORE
 * when the file cannot be read. Uses session->work to read. */
static bp_status record_file_put(void *user, session *s, const char *path)
{
    json_line *line = user;
    bp_store *store = &s->posix.store;
    char text[BP_SHA256_TEXT];
    uint64_t bytes = 0;
    bp_file file;
    if (store->open_read(store, path, &file) != BP_OK) {
        return bp_storage_failed(&s->error, store, "open", path);
    }
    const bp_status status = record_file_hash(s, file, path, &bytes, text);
    (void)store->close(store, file); /* it was read only */
    BP_TRY(status);
    record_item(line, path, bytes, text);
    return BP_OK;
}

typedef bp_status record_visit(void *user, session *s, const char *path);

/* Those of the names that are in the directory. */
static bp_status record_present_each(session *s, const char *directory, const char *const *names,
                                     size_t count, record_visit *visit, void *user)
{
    char path[BP_STORE_PATH_MAX];
    for (size_t i = 0; i < count; i++) {
        bool there = false;
        BP_TRY(bp_storage_join(path, directory, names[i], &s->error));
        BP_TRY(bp_storage_exists(&s->posix.store, path, &there, &s->error));
        if (there) {
            BP_TRY(visit(user, s, path));
        }
    }
    return BP_OK;
}

static bp_status record_present_put(json_line *line, session *s, const char *directory,
                                    const char *const *names, size_t count)
{
    return record_present_each(s, directory, names, count, record_file_put, line);
}

/* The first name behind `after` that ends as weights do. */
typedef struct shard_search {
    char after[BP_STORE_PATH_MAX];
    char next[BP_STORE_PATH_MAX];
} shard_search;

static bp_status shard_look(void *user, const char *name)
{
    static const char ending[] = ".safetensors";
    shard_search *search = user;
    const size_t n = strlen(name), e = sizeof ending - 1;
    const bool weights = n > e && n < sizeof search->next && strcmp(name + n - e, ending) == 0 &&
                         strncmp(name, "adapter", 7) != 0;
    const bool nearer = search->next[0] == '\0' || strcmp(name, search->next) < 0;
    if (weights && nearer && strcmp(name, search->after) > 0) {
        memcpy(search->next, name, n + 1);
    }
    return BP_OK;
}

static bp_status record_shards_each(session *s, record_visit *visit, void *user)
{
    shard_search search = {.after = ""};
    char path[BP_STORE_PATH_MAX];
    bp_store *store = &s->posix.store;
    for (;;) {
        search.next[0] = '\0';
        if (store->list(store, s->set->model, shard_look, &search) != BP_OK) {
            return bp_storage_failed(&s->error, store, "list", s->set->model);
        }
        if (search.next[0] == '\0') {
            return BP_OK;
        }
        BP_TRY(bp_storage_join(path, s->set->model, search.next, &s->error));
        BP_TRY(visit(user, s, path));
        memcpy(search.after, search.next, sizeof search.after);
    }
}

/* Configuration and weights. */
static bp_status record_model_each(session *s, record_visit *visit, void *user)
{
    static const char *const config[] = {"config.json"};
    if (s->gguf.open) {
        return visit(user, s, s->set->model);
    }
    if (!s->directory) {
        return BP_OK; /* a preset: the options name it */
    }
    BP_TRY(record_present_each(s, s->set->model, config, 1, visit, user));
    const size_t n = s->weights ? strlen(s->weights_path) : 0;
    if (n == 0) {
        return BP_OK;
    }
    BP_TRY(visit(user, s, s->weights_path));
    for (uint32_t i = 0; i < s->spec.config.dense_count; i++) {
        BP_TRY(visit(user, s, s->modules[i].path));
    }
    return strcmp(s->weights_path + n - 5, ".json") == 0 ? record_shards_each(s, visit, user)
                                                         : BP_OK;
}

static bp_status record_file_digest(void *user, session *s, const char *path)
{
    bp_store *store = &s->posix.store;
    char text[BP_SHA256_TEXT];
    uint64_t bytes = 0;
    bp_file file;
    if (store->open_read(store, path, &file) != BP_OK) {
        return bp_storage_failed(&s->error, store, "open", path);
    }
    const bp_status status = record_file_hash(s, file, path, &bytes, text);
    (void)store->close(store, file); /* it was read only */
    bp_digest_add(user, text, sizeof text);
    return status;
}

static bp_status record_file_stamp(void *user, session *s, const char *path)
{
    struct stat is;
    if (stat(path, &is) != 0) {
        return bp_error_set(&s->error, BP_ERR_STORE, "model", changed, path);
    }
    const int64_t numbers[] = {(int64_t)is.st_ino, (int64_t)is.st_size, (int64_t)is.st_mtim.tv_sec,
                               (int64_t)is.st_mtim.tv_nsec};
    bp_digest_add(user, numbers, sizeof numbers);
    return BP_OK;
}

bp_status record_model_digest(session *s, uint64_t *to)
{
    bp_digest digest;
    bp_digest_begin(&digest, 0);
    BP_TRY(record_model_each(s, record_file_digest, &digest));
    const bool open = s->run_tokenizer.block.address != NULL;
    if (open && s->run_tokenizer.kind == TOKENIZER_TOKENIZER && !s->gguf.open) {
        BP_TRY(record_present_each(s, s->run_tokenizer.directory, tokenizer_files,
                                   COUNT(tokenizer_files), record_file_digest, &digest));
    }
    *to = bp_digest_end(&digest);
    return BP_OK;
}

bp_status record_model_unchanged(session *s, uint64_t *stamp)
{
    bp_digest digest;
    bp_digest_begin(&digest, 0);
    BP_TRY(record_model_each(s, record_file_stamp, &digest));
    const uint64_t now = bp_digest_end(&digest);
    if (*stamp != 0 && *stamp != now) {
        return bp_error_set(&s->error, BP_ERR_STORE, "model", changed, s->set->model);
    }
    *stamp = now;
    return BP_OK;
}

static bp_status record_data_put(json_line *line, session *s, const data_files *files)
{
    for (uint32_t i = 0; i < files->data.file_count; i++) {
        const bp_data_file *row = &files->rows[i];
        char text[BP_SHA256_TEXT];
        uint64_t bytes = 0;
        /* of a folder of images its table, which is what is open */
        if (!row->nameless && files->data.format != BP_DATA_FOLDER) {
            BP_TRY(record_file_put(line, s, row->path));
        } else if (row->open) {
            BP_TRY(record_file_hash(s, row->file, row->path, &bytes, text));
            record_item(line, row->path, bytes, text);
        } else {
            record_item(line, row->path, 0, NULL);
        }
    }
    return BP_OK;
}

bp_status record_files_put(json_line *line, session *s, const data_set *data)
{
    line_list(line, "model");
    BP_TRY(record_model_each(s, record_file_put, line));
    line_list_close(line);
    line_list(line, "tokenizer");
    if (s->run_tokenizer.kind == TOKENIZER_TOKENIZER && !s->gguf.open) {
        BP_TRY(record_present_put(line, s, s->run_tokenizer.directory, tokenizer_files,
                                  COUNT(tokenizer_files)));
    }
    line_list_close(line);
    line_list(line, "adapter");
    if (s->set->adapter != NULL) {
        BP_TRY(record_present_put(line, s, s->set->adapter, adapter_files, COUNT(adapter_files)));
    }
    line_list_close(line);
    line_list(line, "data");
    BP_TRY(record_data_put(line, s, &data->main));
    line_list_close(line);
    line_list(line, "eval_data");
    BP_TRY(record_data_put(line, s, &data->held));
    line_list_close(line);
    return BP_OK;
}

bool record_exports_have(const char *name)
{
    bool has = false;
    for (size_t i = 0; i < COUNT(exported_files); i++) {
        has = has || strcmp(exported_files[i], name) == 0;
    }
    return has;
}

bp_status record_exports_put(json_line *line, session *s)
{
    line_list(line, "files");
    BP_TRY(record_present_put(line, s, s->set->output_dir, exported_files, COUNT(exported_files)));
    line_list_close(line);
    return BP_OK;
}
