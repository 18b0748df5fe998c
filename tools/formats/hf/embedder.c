/* SPDX-License-Identifier: MIT */
/* modules.json and the small files beside it. */
#include "tools/formats/hf/embedder.h"

#include <string.h>

#include "arena/json_write.h"
#include "core/base/storage.h"
#include "layers/nodes/publish.h"
#include "tools/formats/files/stream_file.h"

enum { FILE_BYTES = 49152, TEXT_BYTES = 4096, WORD_BYTES = BP_EMBEDDER_PATH, DEPTH = 8 };

static const char where[] = "sentence-transformers";

/* A small JSON file that is being read. */
typedef struct embedder_file {
    bp_store *store;
    bp_error *error;
    char *scratch;
    char path[BP_STORE_PATH_MAX];
    bp_json_span span;
    bp_json json;
} embedder_file;

static bp_status embedder_refuse(embedder_file *f, const char *text, const char *name)
{
    const bp_status status = bp_error_set(f->error, BP_ERR_DATA, where, text, name);
    bp_error_prefix(f->error, f->path);
    return status;
}

/* Opens NAME of the directory; *there is false where it is not. */
static bp_status embedder_open(embedder_file *f, const char *directory, const char *name,
                               bool *there)
{
    size_t length = 0;
    BP_TRY(bp_storage_join(f->path, directory, name, f->error));
    if (f->store->exists(f->store, f->path, there) != BP_OK) {
        return bp_storage_failed(f->error, f->store, "look", f->path);
    }
    if (!*there) {
        return BP_OK;
    }
    const bp_status status =
        bp_storage_read_small(f->store, f->path, f->scratch, FILE_BYTES, &length, f->error);
    if (status == BP_ERR_FIT) {
        f->error->code = BP_ERR_DATA;
        return BP_ERR_DATA;
    }
    BP_TRY(status);
    f->span = (bp_json_span){f->scratch, length};
    const bp_json_source source = {bp_json_span_fill, &f->span, length};
    const bp_json_memory memory = {f->scratch + FILE_BYTES, TEXT_BYTES,
                                   f->scratch + FILE_BYTES + TEXT_BYTES,
                                   BP_EMBEDDER_SCRATCH - FILE_BYTES - TEXT_BYTES, DEPTH};
    return bp_json_init(&f->json, &source, &memory, f->error);
}

/* Errors of the JSON reader get the file's name. */
static bp_status embedder_named(embedder_file *f, bp_status status)
{
    if (status != BP_OK && f->json.status != BP_OK) {
        bp_error_prefix(f->error, f->path);
        f->error->code = BP_ERR_DATA;
        return BP_ERR_DATA;
    }
    return status;
}

/* A string as a word; "" for what is none or too long to be one. */
static bp_status embedder_word(bp_json *json, char word[WORD_BYTES])
{
    bp_json_event event;
    word[0] = '\0';
    BP_TRY(bp_json_next(json, &event));
    if (event.kind == BP_JSON_TEXT && event.length < WORD_BYTES) {
        memcpy(word, event.text, event.length + 1);
        return BP_OK;
    }
    const bool bad = event.kind == BP_JSON_TEXT_PART || event.kind == BP_JSON_OBJECT_BEGIN ||
                     event.kind == BP_JSON_ARRAY_BEGIN;
    return bad ? bp_json_refuse(json, "a word is expected here") : BP_OK;
}

static const char *embedder_last(const char *type)
{
    const char *dot = strrchr(type, '.');
    return dot != NULL ? dot + 1 : type;
}

/* A module by the last word of its type; `location`: modules before it. */
static bp_status embedder_module(embedder_file *f, bp_embedder *to, uint32_t location,
                                 const char *type, const char *path)
{
    const char *name = embedder_last(type);
    if (strcmp(name, "Transformer") == 0 && location == 0) {
        return path[0] == '\0'
                   ? BP_OK
                   : embedder_refuse(
                         f, "the transformer is in a subdirectory: give that directory as --model",
                         path);
    }
    const bool dense = strcmp(name, "Dense") == 0 && location > 1 && !to->normalize &&
                       to->dense_count < BP_VECTOR_DENSE_MAX;
    const bool ends = strcmp(name, "Normalize") == 0 && location > 1 && !to->normalize;
    if (!dense && !ends && (strcmp(name, "Pooling") != 0 || location != 1)) {
        return embedder_refuse(f,
                               "the module is not implemented: expected Transformer, "
                               "Pooling, up to 4 of Dense, and perhaps Normalize",
                               name);
    }
    if (strstr(path, "..") != NULL || path[0] == '/') {
        return embedder_refuse(f, "a module lies outside of the directory", path);
    }
    memcpy(to->path[to->module_count++], path, strlen(path) + 1);
    to->dense_count += dense ? 1 : 0;
    to->normalize = ends;
    return BP_OK;
}

static bp_status embedder_modules_read(embedder_file *f, bp_embedder *to)
{
    bp_json_event event;
    uint32_t seen = 0;
    BP_TRY(bp_json_next(&f->json, &event));
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return bp_json_refuse(&f->json, "the file must hold a list of modules");
    }
    BP_TRY(bp_json_next(&f->json, &event));
    while (event.kind == BP_JSON_OBJECT_BEGIN) {
        char type[WORD_BYTES] = "", path[WORD_BYTES] = "";
        BP_TRY(bp_json_next(&f->json, &event));
        while (event.kind == BP_JSON_KEY) {
            const bool is_type = strcmp(event.text, "type") == 0;
            const bool is_path = strcmp(event.text, "path") == 0;
            const bool is_word = is_type || is_path;
            BP_TRY(is_word ? embedder_word(&f->json, is_type ? type : path)
                           : bp_json_skip(&f->json));
            BP_TRY(bp_json_next(&f->json, &event));
        }
        BP_TRY(embedder_module(f, to, seen++, type, path));
        BP_TRY(bp_json_next(&f->json, &event));
    }
    return event.kind == BP_JSON_ARRAY_END
               ? bp_json_next(&f->json, &event)
               : bp_json_refuse(&f->json, "a module is an object ({...})");
}

/* The words of both forms of a pooling's configuration; of those without a value there is no
 * implementation. */
static const struct {
    const char *word;
    const char *flag;
    int pooling;
} poolings[] = {
    {"mean", "pooling_mode_mean_tokens", BP_POOLING_MEAN},
    {"cls", "pooling_mode_cls_token", BP_POOLING_CLS},
    {"lasttoken", "pooling_mode_lasttoken", BP_POOLING_LAST},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", BP_POOLING_SQRT},
    {"weightedmean", "pooling_mode_weightedmean_tokens", BP_POOLING_WEIGHTED},
    {"max", "pooling_mode_max_tokens", -1},
};
enum { POOLINGS = sizeof poolings / sizeof poolings[0] };

/* One more way of pooling that the file asks for. */
static bp_status embedder_pooling(embedder_file *f, bp_embedder *to, uint32_t *count,
                                  const char *word)
{
    for (uint32_t i = 0; i < POOLINGS; i++) {
        if (strcmp(poolings[i].word, word) == 0 && poolings[i].pooling >= 0) {
            to->pooling = (bp_pooling)poolings[i].pooling;
            return ++*count == 1 ? BP_OK
                                 : embedder_refuse(f,
                                                   "several ways of pooling, one behind the "
                                                   "other, are not implemented",
                                                   word);
        }
    }
    return embedder_refuse(f,
                           "this way of pooling is not implemented: expected mean, cls, "
                           "lasttoken, mean_sqrt_len_tokens or weightedmean",
                           word);
}

static bp_status embedder_pooling_words(embedder_file *f, bp_embedder *to, uint32_t *count)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&f->json, &event));
    const bool list = event.kind == BP_JSON_ARRAY_BEGIN;
    if (list) {
        BP_TRY(bp_json_next(&f->json, &event));
    }
    while (event.kind == BP_JSON_TEXT) {
        BP_TRY(embedder_pooling(f, to, count, event.text));
        if (!list) {
            return BP_OK;
        }
        BP_TRY(bp_json_next(&f->json, &event));
    }
    return list && event.kind == BP_JSON_ARRAY_END
               ? BP_OK
               : bp_json_refuse(&f->json, "pooling_mode is a word or a list of words");
}

static bp_status embedder_pooling_key(embedder_file *f, bp_embedder *to, uint32_t *count,
                                      const char *key)
{
    bp_json_event event;
    if (strcmp(key, "pooling_mode") == 0) {
        return embedder_pooling_words(f, to, count);
    }
    for (uint32_t i = 0; i < POOLINGS; i++) {
        if (strcmp(poolings[i].flag, key) == 0) {
            BP_TRY(bp_json_next(&f->json, &event));
            return event.kind == BP_JSON_TRUE ? embedder_pooling(f, to, count, poolings[i].word)
                                              : BP_OK;
        }
    }
    if (strcmp(key, "include_prompt") == 0) {
        BP_TRY(bp_json_next(&f->json, &event));
        to->excludes = event.kind == BP_JSON_FALSE;
        return BP_OK;
    }
    return bp_json_skip(&f->json);
}

/* sentence_bert_config.json. Old models' texts are to be in lower case before their tokenizer sees
 * them, which only the tokenizer's own normaliser does here. */
static bp_status embedder_length_key(embedder_file *f, bp_embedder *to, const char *key)
{
    bp_json_event event;
    const bool length = strcmp(key, "max_seq_length") == 0;
    if (!length && strcmp(key, "do_lower_case") != 0) {
        return bp_json_skip(&f->json);
    }
    BP_TRY(bp_json_next(&f->json, &event));
    if (!length) {
        return event.kind == BP_JSON_TRUE
                   ? embedder_refuse(f, "texts in lower case are not implemented", key)
                   : BP_OK;
    }
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (!event.integer || event.i64 < 1 || event.i64 > INT32_MAX) { /* so is what is no number */
        return bp_json_refuse(&f->json, "max_seq_length is a whole number from 1 on, or null");
    }
    to->max_length = (uint32_t)event.i64;
    return BP_OK;
}

/* tokenizer_config.json, where newer versions leave the length; a number that is none says nothing.
 */
static bp_status embedder_tokens_key(embedder_file *f, bp_embedder *to, const char *key)
{
    bp_json_event event;
    if (strcmp(key, "model_max_length") != 0) {
        return bp_json_skip(&f->json);
    }
    BP_TRY(bp_json_next(&f->json, &event));
    if (event.integer && event.i64 >= 1 && event.i64 <= INT32_MAX) {
        to->max_length = (uint32_t)event.i64;
    }
    return BP_OK;
}

/* config.json of a Dense: the one that `index` is set for. */
static bp_status embedder_dense_key(embedder_file *f, bp_embedder *to, uint32_t index,
                                    const char *key)
{
    bp_vector_dense *dense = &to->dense[index];
    char word[WORD_BYTES];
    bp_json_event event;
    if (strcmp(key, "activation_function") == 0 || strcmp(key, "module_input_name") == 0 ||
        strcmp(key, "module_output_name") == 0) {
        BP_TRY(embedder_word(&f->json, word));
        const char *name = embedder_last(word);
        if (key[0] == 'a' && (strcmp(name, "Tanh") == 0 || strcmp(name, "Identity") == 0)) {
            dense->tanh = name[0] == 'T';
            return BP_OK;
        }
        const bool whole = key[0] == 'm' && (strcmp(word, "sentence_embedding") == 0 ||
                                             (word[0] == '\0' && key[7] == 'o'));
        return whole ? BP_OK
                     : embedder_refuse(f,
                                       key[0] == 'a'
                                           ? "this activation_function is not implemented: "
                                             "expected Identity or Tanh"
                                           : "a Dense of other features than sentence_embedding "
                                             "is not implemented",
                                       word);
    }
    const bool in = strcmp(key, "in_features") == 0, out = strcmp(key, "out_features") == 0;
    const bool bias = strcmp(key, "bias") == 0, adds = strcmp(key, "use_residual") == 0;
    if (!in && !out && !bias && !adds) {
        return bp_json_skip(&f->json);
    }
    BP_TRY(bp_json_next(&f->json, &event));
    if (adds && event.kind != BP_JSON_FALSE) {
        return embedder_refuse(f, "a Dense with a residual is not implemented", key);
    }
    if ((bias || adds) && (event.kind == BP_JSON_TRUE || event.kind == BP_JSON_FALSE)) {
        dense->bias = bias ? event.kind == BP_JSON_TRUE : dense->bias;
        return BP_OK;
    }
    if (bias || !event.integer || event.i64 < 1 || event.i64 > INT32_MAX) {
        return bp_json_refuse(&f->json, "features are whole numbers from 1 on, and bias is true "
                                        "or false");
    }
    *(in ? &to->dense_in : &dense->width) = (uint32_t)event.i64;
    return BP_OK;
}

/* One reading of an object's members. */
typedef struct embedder_prompts {
    char name[WORD_BYTES]; /* of the prompt that is wanted; "": none */
    bool given;            /* the caller's, not default_prompt_name */
    bool found;
    uint32_t dense; /* of a Dense: its number */
} embedder_prompts;

static bp_status embedder_prompt_member(embedder_file *f, bp_embedder *to, embedder_prompts *p)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&f->json, &event));
    while (event.kind == BP_JSON_KEY) {
        const bool wanted = p->name[0] != '\0' && strcmp(event.text, p->name) == 0;
        if (!wanted) {
            BP_TRY(bp_json_skip(&f->json));
        } else {
            BP_TRY(bp_json_next(&f->json, &event));
            if (event.kind != BP_JSON_TEXT || event.length >= BP_EMBEDDER_PROMPT ||
                strlen(event.text) != event.length) {
                return bp_json_refuse(&f->json, "a prompt is a text of at most 2047 bytes");
            }
            memcpy(to->prompt, event.text, event.length + 1);
            p->found = true;
        }
        BP_TRY(bp_json_next(&f->json, &event));
    }
    return event.kind == BP_JSON_OBJECT_END
               ? BP_OK
               : bp_json_refuse(&f->json, "prompts is an object of texts");
}

/* config_sentence_transformers.json is read twice: the default's name may stand behind the prompts.
 */
static bp_status embedder_prompt_key(embedder_file *f, bp_embedder *to, embedder_prompts *p,
                                     bool first, const char *key)
{
    bp_json_event event;
    if (first && !p->given && strcmp(key, "default_prompt_name") == 0) {
        return embedder_word(&f->json, p->name);
    }
    if (!first && strcmp(key, "prompts") == 0) {
        BP_TRY(bp_json_next(&f->json, &event));
        return event.kind == BP_JSON_OBJECT_BEGIN ? embedder_prompt_member(f, to, p) : BP_OK;
    }
    return bp_json_skip(&f->json);
}

/* The files that are one object. */
typedef enum embedder_kind {
    EMBEDDER_POOLING,
    EMBEDDER_DENSE,
    EMBEDDER_LENGTH,
    EMBEDDER_TOKENS,
    EMBEDDER_DEFAULT,
    EMBEDDER_PROMPTS
} embedder_kind;

static bp_status embedder_object(embedder_file *f, bp_embedder *to, embedder_prompts *p,
                                 embedder_kind kind)
{
    bp_json_event event;
    uint32_t count = 0;
    BP_TRY(bp_json_next(&f->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&f->json, "the file must hold one JSON object");
    }
    BP_TRY(bp_json_next(&f->json, &event));
    while (event.kind == BP_JSON_KEY) {
        char key[WORD_BYTES] = "";
        if (event.length < WORD_BYTES) {
            memcpy(key, event.text, event.length + 1);
        }
        BP_TRY(kind == EMBEDDER_POOLING  ? embedder_pooling_key(f, to, &count, key)
               : kind == EMBEDDER_DENSE  ? embedder_dense_key(f, to, p->dense, key)
               : kind == EMBEDDER_LENGTH ? embedder_length_key(f, to, key)
               : kind == EMBEDDER_TOKENS
                   ? embedder_tokens_key(f, to, key)
                   : embedder_prompt_key(f, to, p, kind == EMBEDDER_DEFAULT, key));
        BP_TRY(bp_json_next(&f->json, &event));
    }
    return bp_json_next(&f->json, &event);
}

static bp_status embedder_read(embedder_file *f, const char *directory, const char *name,
                               embedder_kind kind, bp_embedder *to, embedder_prompts *p)
{
    bool there;
    BP_TRY(embedder_open(f, directory, name, &there));
    return there ? embedder_named(f, embedder_object(f, to, p, kind)) : BP_OK;
}

/* A module's own config.json, which lies in a directory below. */
static bp_status embedder_read_module(embedder_file *f, const char *directory, const char *module,
                                      embedder_kind kind, bp_embedder *to, embedder_prompts *p)
{
    char path[BP_STORE_PATH_MAX];
    bool there;
    BP_TRY(bp_storage_join(path, directory, module, f->error));
    BP_TRY(embedder_open(f, path, "config.json", &there));
    if (!there) {
        return embedder_refuse(f, "the file is not there", "config.json");
    }
    return embedder_named(f, embedder_object(f, to, p, kind));
}

static bp_status embedder_read_dense(embedder_file *f, const char *directory, bp_embedder *to)
{
    uint32_t width = 0, first = 0;
    for (uint32_t i = 0; i < to->dense_count; i++) {
        embedder_prompts p = {.dense = i};
        to->dense[i] = (bp_vector_dense){.bias = true, .tanh = true};
        to->dense_in = 0;
        BP_TRY(embedder_read_module(f, directory, to->path[1 + i], EMBEDDER_DENSE, to, &p));
        if (to->dense_in == 0 || to->dense[i].width == 0 || (i > 0 && to->dense_in != width)) {
            return embedder_refuse(f,
                                   "a Dense needs in_features, which are those of what it "
                                   "reads, and out_features",
                                   "in_features");
        }
        first = i == 0 ? to->dense_in : first;
        width = to->dense[i].width;
    }
    to->dense_in = first;
    return BP_OK;
}

/* tokenizer_config.json may list thousands of tokens: it is read in pieces, whatever its size. */
static bp_status embedder_read_tokens(embedder_file *f, const char *directory, bp_embedder *to)
{
    bp_storage_reader reader = {.store = f->store,
                                .path = f->path,
                                .buffer = f->scratch,
                                .capacity = FILE_BYTES,
                                .error = f->error};
    bool there;
    BP_TRY(bp_storage_join(f->path, directory, "tokenizer_config.json", f->error));
    BP_TRY(bp_storage_exists(f->store, f->path, &there, f->error));
    if (!there) {
        return BP_OK;
    }
    if (f->store->open_read(f->store, f->path, &reader.file) != BP_OK) {
        return bp_storage_failed(f->error, f->store, "open", f->path);
    }
    bp_status status = f->store->file_size(f->store, reader.file, &reader.end);
    status = status == BP_OK ? BP_OK : bp_storage_failed(f->error, f->store, "size", f->path);
    const bp_json_source source = {bp_storage_fill, &reader, reader.end};
    const bp_json_memory memory = {f->scratch + FILE_BYTES, TEXT_BYTES, NULL, 0, BP_JSON_DEPTH_MAX};
    status = status == BP_OK ? bp_json_init(&f->json, &source, &memory, f->error) : status;
    if (status == BP_OK) {
        status = embedder_object(f, to, NULL, EMBEDDER_TOKENS);
        status = status == BP_ERR_DATA ? embedder_named(f, status) : status;
    }
    (void)f->store->close(f->store, reader.file); /* it was only read */
    return status;
}

static bp_status embedder_read_prompts(embedder_file *f, const char *directory, const char *name,
                                       bp_embedder *to)
{
    static const char config[] = "config_sentence_transformers.json";
    embedder_prompts p = {.given = name != NULL};
    if (name != NULL && strlen(name) < WORD_BYTES) {
        memcpy(p.name, name, strlen(name) + 1);
    }
    BP_TRY(embedder_read(f, directory, config, EMBEDDER_DEFAULT, to, &p));
    BP_TRY(embedder_read(f, directory, config, EMBEDDER_PROMPTS, to, &p));
    if (!p.found && (p.given || p.name[0] != '\0')) {
        return bp_error_set(f->error, p.given ? BP_ERR_USAGE : BP_ERR_DATA, where,
                            "config_sentence_transformers.json has no prompt of this name",
                            p.given ? name : "default_prompt_name");
    }
    if (to->excludes && to->prompt[0] != '\0') {
        return bp_error_set(f->error, BP_ERR_DATA, where,
                            "vectors without the tokens of the prompt are not implemented",
                            "include_prompt");
    }
    return BP_OK;
}

bp_status bp_embedder_read(bp_store *store, const char *directory, const char *name, void *scratch,
                           bp_embedder *to, bp_error *error)
{
    embedder_file f = {.store = store, .error = error, .scratch = scratch};
    *to = (bp_embedder){.pooling = BP_POOLING_MEAN};
    BP_TRY(embedder_open(&f, directory, "modules.json", &to->present));
    if (to->present) {
        BP_TRY(embedder_named(&f, embedder_modules_read(&f, to)));
        if (to->module_count == 0) {
            return embedder_refuse(&f, "there is no Pooling", "modules.json");
        }
        BP_TRY(embedder_read_module(&f, directory, to->path[0], EMBEDDER_POOLING, to, NULL));
        BP_TRY(embedder_read_dense(&f, directory, to));
        BP_TRY(
            embedder_read(&f, directory, "sentence_bert_config.json", EMBEDDER_LENGTH, to, NULL));
        if (to->max_length == 0) {
            BP_TRY(embedder_read_tokens(&f, directory, to));
        }
    }
    return embedder_read_prompts(&f, directory, name, to);
}

const char *const bp_embedder_files[] = {"modules.json", "sentence_bert_config.json",
                                         "config_sentence_transformers.json", NULL};

/* The directory of the module behind `before` others. */
static void embedder_directory(uint32_t before, const char *name, char path[BP_EMBEDDER_PATH])
{
    bp_name_append(bp_name_append_number(path, before), name);
}

void bp_embedder_dense_path(uint32_t index, char path[BP_EMBEDDER_PATH])
{
    embedder_directory(2 + index, "_Dense/model.safetensors", path);
}

void bp_embedder_dense_prefix(uint32_t index, char prefix[BP_EMBEDDER_PATH])
{
    embedder_directory(2 + index, "_Dense.", prefix);
}

/* Where files are written, and the text of one. */
typedef struct embedder_place {
    bp_store *store;
    const char *directory;
    bp_error *error;
    char text[1024];
} embedder_place;

static bp_status embedder_put(embedder_place *at, const char *name, bp_json_writer *json)
{
    char path[BP_STORE_PATH_MAX];
    bp_json_put_close(json);
    bp_text_char(json->text, '\n');
    const size_t length = (size_t)json->text->written;
    BP_TRY(bp_text_flush(json->text));
    BP_TRY(bp_storage_join(path, at->directory, name, at->error));
    return bp_replace_file(at->store, path, at->text, length, at->error);
}

static void embedder_begin(embedder_place *at, bp_text *text, bp_json_writer *json, char kind)
{
    bp_text_init(text, NULL, NULL, at->text, sizeof at->text);
    bp_json_put_begin(json, text, BP_JSON_SPACED);
    bp_json_put_lines(json, NULL, kind);
}

static void embedder_put_module(bp_json_writer *json, uint32_t index, const char *word)
{
    const char name[2] = {(char)('0' + index), '\0'};
    char path[BP_EMBEDDER_PATH] = "", type[BP_EMBEDDER_PATH];
    if (index > 0) {
        embedder_directory(index, "_", path);
        bp_name_append(path + strlen(path), word);
    }
    bp_name_append(bp_name_append(type, "sentence_transformers.models."), word);
    bp_json_put_open(json, NULL, '{');
    bp_json_put_u64(json, "idx", index);
    bp_json_put_text(json, "name", name);
    bp_json_put_text(json, "path", path);
    bp_json_put_text(json, "type", type);
    bp_json_put_close(json);
}

static bp_status embedder_put_modules(embedder_place *at, const bp_embedder *from)
{
    bp_text text;
    bp_json_writer json;
    embedder_begin(at, &text, &json, '[');
    embedder_put_module(&json, 0, "Transformer");
    embedder_put_module(&json, 1, "Pooling");
    for (uint32_t i = 0; i < from->dense_count; i++) {
        embedder_put_module(&json, 2 + i, "Dense");
    }
    if (from->normalize) {
        embedder_put_module(&json, 2 + from->dense_count, "Normalize");
    }
    return embedder_put(at, bp_embedder_files[0], &json);
}

static bp_status embedder_put_dense(embedder_place *at, const bp_vector_dense *dense, uint32_t in,
                                    uint32_t index)
{
    bp_text text;
    bp_json_writer json;
    char path[BP_EMBEDDER_PATH];
    embedder_directory(2 + index, "_Dense/config.json", path);
    embedder_begin(at, &text, &json, '{');
    bp_json_put_u64(&json, "in_features", in);
    bp_json_put_u64(&json, "out_features", dense->width);
    bp_json_put_flag(&json, "bias", dense->bias);
    bp_json_put_text(&json, "activation_function",
                     dense->tanh ? "torch.nn.modules.activation.Tanh"
                                 : "torch.nn.modules.linear.Identity");
    return embedder_put(at, path, &json);
}

/* The older form, which every version reads. */
static bp_status embedder_put_pooling(embedder_place *at, const bp_embedder *from, uint32_t width)
{
    bp_text text;
    bp_json_writer json;
    embedder_begin(at, &text, &json, '{');
    bp_json_put_u64(&json, "word_embedding_dimension", width);
    for (uint32_t i = 0; i < POOLINGS; i++) {
        bp_json_put_flag(&json, poolings[i].flag, poolings[i].pooling == (int)from->pooling);
    }
    bp_json_put_flag(&json, "include_prompt", true);
    return embedder_put(at, "1_Pooling/config.json", &json);
}

static bp_status embedder_put_rest(embedder_place *at, uint32_t length)
{
    char path[BP_STORE_PATH_MAX];
    bool there = false;
    bp_text text;
    bp_json_writer json;
    embedder_begin(at, &text, &json, '{');
    bp_json_put_u64(&json, "max_seq_length", length);
    bp_json_put_flag(&json, "do_lower_case", false);
    BP_TRY(embedder_put(at, bp_embedder_files[1], &json));
    BP_TRY(bp_storage_join(path, at->directory, bp_embedder_files[2], at->error));
    if (at->store->exists(at->store, path, &there) == BP_OK && there) {
        return BP_OK;
    }
    embedder_begin(at, &text, &json, '{');
    bp_json_put_value(&json, "prompts", "{}");
    bp_json_put_value(&json, "default_prompt_name", "null");
    bp_json_put_text(&json, "similarity_fn_name", "cosine");
    return embedder_put(at, bp_embedder_files[2], &json);
}

bp_status bp_embedder_write(bp_store *store, const char *directory, const bp_embedder *from,
                            uint32_t width, uint32_t length, bp_error *error)
{
    embedder_place at = {.store = store, .directory = directory, .error = error};
    const uint32_t modules = 1 + from->dense_count + (from->normalize ? 1 : 0);
    for (uint32_t i = 1; i <= modules; i++) {
        char path[BP_STORE_PATH_MAX], name[BP_EMBEDDER_PATH];
        embedder_directory(i,
                           i == 1                      ? "_Pooling"
                           : i - 2 < from->dense_count ? "_Dense"
                                                       : "_Normalize",
                           name);
        BP_TRY(bp_storage_join(path, directory, name, error));
        if (store->make_directory(store, path) != BP_OK) {
            return bp_storage_failed(error, store, "make directory", path);
        }
    }
    BP_TRY(embedder_put_pooling(&at, from, width));
    for (uint32_t i = 0; i < from->dense_count; i++) {
        BP_TRY(
            embedder_put_dense(&at, &from->dense[i], i == 0 ? width : from->dense[i - 1].width, i));
    }
    BP_TRY(embedder_put_rest(&at, length));
    return embedder_put_modules(&at, from);
}
