/* SPDX-License-Identifier: MIT */
/* Reading config.json: one table says what every known key may hold. */
#include "tools/formats/hf_config.h"

#include <string.h>

#include "core/file/storage.h"
#include "layers/bert.h"
#include "layers/llama.h"
#include "layers/mlp_model.h"
#include "tools/formats/bnb.h"
#include "tools/formats/hf_fields.h"
#include "tools/formats/hf_rope.h"

#define READ_BYTES 4096
#define TEXT_BYTES 1024

static const char where[] = "config.json";

#define NAMES "\"gpt2\", \"llama\", \"qwen2\", \"bert\", \"mlp\" and \"rnn\" are"

/* The file is read twice: for the model_type, which says what the other keys may hold, and for the
 * rest. */
typedef struct reading {
    bp_json json;
    const bp_family *table; /* NULL: not known yet */
    bp_model_config config;
    bool seen[BP_HF_FIELDS_MAX];
    bool judges;   /* architectures names a class that judges samples */
    bool problem;  /* problem_type is given */
    bp_task asked; /* by problem_type */
    bool listed;   /* hidden_sizes is given */
    uint32_t sizes;
    bp_error error;
} reading;

static bp_status refuse(reading *r, const bp_hf_field *f, const char *text)
{
    return bp_error_set(&r->error, BP_ERR_DATA, where, text, f->key);
}

/* The same for a value that is a text: the error says it. */
static bp_status refuse_value(reading *r, const bp_hf_field *f, const bp_json_event *event,
                              const char *text)
{
    bp_status status = refuse(r, f, text);
    if (event->kind == BP_JSON_TEXT) {
        bp_error_found(&r->error, event->text, event->length);
    }
    return status;
}

/* The other name of the same member, if it came before: then both must say the same. */
static bool said_before(const reading *r, const bp_hf_field *f)
{
    for (size_t i = 0; i < r->table->count; i++) {
        const bp_hf_field *other = &r->table->fields[i];
        if (other->offset == f->offset && other->kind == f->kind && r->seen[i]) {
            return true;
        }
    }
    return false;
}

static bp_status take_count(reading *r, const bp_hf_field *f, const bp_json_event *event)
{
    if (event->kind == BP_JSON_NULL && f->kind == BP_FIELD_COUNT_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_NUMBER || !event->integer) {
        return refuse(r, f, "this field must be a whole number");
    }
    if (event->i64 < 1 || event->i64 > f->most) {
        return bp_error_numbers(&r->error, BP_ERR_DATA, where, "a value is out of range", f->key,
                                event->i64, event->i64 < 1 ? 1 : f->most);
    }
    uint32_t value = (uint32_t)event->i64;
    uint32_t old;
    memcpy(&old, (char *)&r->config + f->offset, sizeof old);
    if (said_before(r, f) && old != value) {
        return bp_error_numbers(&r->error, BP_ERR_DATA, where,
                                "two names of the same field hold different values", f->key,
                                event->i64, (int64_t)old);
    }
    memcpy((char *)&r->config + f->offset, &value, sizeof value);
    return BP_OK;
}

static bp_status take_real(reading *r, const bp_hf_field *f, const bp_json_event *event)
{
    if (event->kind == BP_JSON_NULL && f->kind == BP_FIELD_REAL_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_NUMBER) {
        return refuse(r, f, "this field must be a number");
    }
    bool inside = event->real >= 0.0 && event->real < f->below;
    if (!inside) {
        return refuse(r, f,
                      "a value is out of range (dropouts and epsilon lie in [0, 1), "
                      "initializer_range is not negative)");
    }
    memcpy((char *)&r->config + f->offset, &event->real, sizeof event->real);
    return BP_OK;
}

static bp_status take_token_number(reading *r, const bp_hf_field *f, const bp_json_event *event)
{
    bool good = event->kind == BP_JSON_NUMBER && event->integer;
    if (!good || event->i64 < -1 || event->i64 > INT32_MAX) {
        return refuse(r, f, "this field must be a token id, a list of token ids or null");
    }
    memcpy((char *)&r->config + f->offset, &event->i64, sizeof event->i64);
    return BP_OK;
}

/* Of several tokens that end a text all count; of other tokens the first. */
static bp_status take_more(reading *r, const bp_hf_field *f, int64_t token)
{
    bp_model_config *config = &r->config;
    if (f->offset != offsetof(bp_model_config, eos_token)) {
        return BP_OK;
    }
    if (config->more_eos_count == BP_MORE_EOS_MAX) {
        return refuse(r, f, "there are more than 8 tokens that end a text");
    }
    config->more_eos[config->more_eos_count++] = token;
    return BP_OK;
}

static bp_status take_token(reading *r, const bp_hf_field *f, bp_json_event *event)
{
    const int64_t none = -1;
    if (event->kind == BP_JSON_NULL) {
        memcpy((char *)&r->config + f->offset, &none, sizeof none);
        return BP_OK;
    }
    if (event->kind != BP_JSON_ARRAY_BEGIN) {
        return take_token_number(r, f, event);
    }
    memcpy((char *)&r->config + f->offset, &none, sizeof none);
    bool first = true;
    for (;;) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        int64_t before;
        memcpy(&before, (char *)&r->config + f->offset, sizeof before);
        BP_TRY(take_token_number(r, f, event));
        if (!first) {
            BP_TRY(take_more(r, f, event->i64));
            memcpy((char *)&r->config + f->offset, &before, sizeof before);
        }
        first = false;
    }
}

static bp_status take_text(reading *r, const bp_hf_field *f, const bp_json_event *event)
{
    if (event->kind == BP_JSON_TEXT && strcmp(event->text, f->text) == 0) {
        return BP_OK;
    }
    bool silu = strcmp(f->text, "silu") == 0, absolute = strcmp(f->text, "absolute") == 0;
    return refuse_value(r, f, event,
                        silu       ? "this value is not implemented (\"silu\" is)"
                        : absolute ? "this value is not implemented (\"absolute\" is)"
                        : strcmp(f->text, "gelu") == 0
                            ? "this value is not implemented (\"gelu\" is)"
                        : strcmp(f->text, "gelu_new") == 0
                            ? "this value is not implemented (\"gelu_new\" is)"
                            : "this value is not implemented (\"full_attention\" is)");
}

/* Which of the words of "a|b|c" the text is. */
static bp_status take_choice(reading *r, const bp_hf_field *f, const bp_json_event *event)
{
    uint32_t number = 0;
    const char *word = f->text;
    while (event->kind == BP_JSON_TEXT && word != NULL) {
        const char *end = strchr(word, '|');
        size_t length = end != NULL ? (size_t)(end - word) : strlen(word);
        if (strlen(event->text) == length && memcmp(event->text, word, length) == 0) {
            memcpy((char *)&r->config + f->offset, &number, sizeof number);
            return BP_OK;
        }
        word = end != NULL ? end + 1 : NULL;
        number++;
    }
    return refuse_value(
        r, f, event,
        f->text[1] == 'r' ? "this value is not implemented (\"gru\" and \"lstm\" are)"
                          : "this value is not implemented (\"gelu\", \"tanh\" and \"relu\" are)");
}

static bp_status take_sizes(reading *r, const bp_hf_field *f, bp_json_event *event)
{
    if (event->kind != BP_JSON_ARRAY_BEGIN) {
        return refuse(r, f, "this field must be a list of whole numbers");
    }
    r->listed = true;
    for (r->sizes = 0;; r->sizes++) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        if (r->sizes == BP_HIDDEN_SIZES_MAX) {
            return bp_error_numbers(&r->error, BP_ERR_DATA, where, "the list is too long", f->key,
                                    r->sizes + 1, BP_HIDDEN_SIZES_MAX);
        }
        bp_hf_field item = *f;
        item.kind = BP_FIELD_COUNT;
        item.offset += r->sizes * sizeof(uint32_t);
        BP_TRY(take_count(r, &item, event));
    }
}

static bp_status take_texts(reading *r, const bp_hf_field *f, bp_json_event *event)
{
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_ARRAY_BEGIN) {
        return refuse(r, f, "this field must be a list of texts");
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        BP_TRY(take_text(r, f, event));
    }
}

static bp_status take_bool(reading *r, const bp_hf_field *f, const bp_json_event *event)
{
    if (event->kind != BP_JSON_TRUE && event->kind != BP_JSON_FALSE) {
        return refuse(r, f, "this field must be true or false");
    }
    bool value = (event->kind == BP_JSON_TRUE) == (f->kind == BP_FIELD_FLAG);
    memcpy((char *)&r->config + f->offset, &value, sizeof value);
    return BP_OK;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), most = strlen(end);
    return length >= most && strcmp(text + length - most, end) == 0;
}

static bp_status take_classes(reading *r, const bp_hf_field *f, bp_json_event *event)
{
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_ARRAY_BEGIN) {
        return refuse(r, f, "this field must be a list of texts");
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        if (event->kind != BP_JSON_TEXT) {
            return refuse(r, f, "this field must be a list of texts");
        }
        r->judges = r->judges || ends_with(event->text, "ForSequenceClassification");
    }
}

static bp_status take_problem(reading *r, const bp_hf_field *f, const bp_json_event *event)
{
    static const struct {
        const char *name;
        bp_task task;
    } problems[] = {{"single_label_classification", BP_TASK_CLASSES},
                    {"multi_label_classification", BP_TASK_LABELS},
                    {"regression", BP_TASK_REGRESSION}};
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    for (size_t i = 0; event->kind == BP_JSON_TEXT && i < 3; i++) {
        if (strcmp(event->text, problems[i].name) == 0) {
            r->problem = true;
            r->asked = problems[i].task;
            return BP_OK;
        }
    }
    return refuse(r, f,
                  "this must be null, \"single_label_classification\", "
                  "\"multi_label_classification\" or \"regression\"");
}

static bp_status take_labels(reading *r, const bp_hf_field *f, bp_json_event *event)
{
    uint32_t count = 0;
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_OBJECT_BEGIN) {
        return refuse(r, f, "this field must be an object with a name for each class");
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_OBJECT_END) {
            memcpy((char *)&r->config + f->offset, &count, sizeof count);
            return BP_OK;
        }
        BP_TRY(bp_json_skip(&r->json));
        count++;
    }
}

static bp_status take_one(reading *r, const bp_hf_field *f, const bp_json_event *event)
{
    bool one = event->kind == BP_JSON_NUMBER && event->integer && event->i64 == 1;
    return one ? BP_OK : refuse(r, f, "this value is not implemented (only 1 is)");
}

static bp_status take_flag(reading *r, const bp_hf_field *f, const bp_json_event *event)
{
    bp_json_kind wanted = f->kind == BP_FIELD_TRUE    ? BP_JSON_TRUE
                          : f->kind == BP_FIELD_FALSE ? BP_JSON_FALSE
                                                      : BP_JSON_NULL;
    if (event->kind == wanted) {
        return BP_OK;
    }
    return refuse(r, f,
                  f->kind == BP_FIELD_TRUE    ? "this value is not implemented (only true is)"
                  : f->kind == BP_FIELD_FALSE ? "this value is not implemented (only false is)"
                                              : "this is not implemented; the field must be null");
}

static bp_status take_empty(reading *r, const bp_hf_field *f, bp_json_event *event)
{
    if (event->kind == BP_JSON_OBJECT_BEGIN) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_OBJECT_END) {
            return BP_OK;
        }
    }
    return take_flag(r, f, event);
}

static bp_status take_field(reading *r, const bp_hf_field *f, bp_json_event *event)
{
    switch (f->kind) {
    case BP_FIELD_COUNT:
    case BP_FIELD_COUNT_NULL:
        return take_count(r, f, event);
    case BP_FIELD_TOKEN:
        return take_token(r, f, event);
    case BP_FIELD_REAL:
    case BP_FIELD_REAL_NULL:
        return take_real(r, f, event);
    case BP_FIELD_FLAG:
    case BP_FIELD_FLAG_NOT:
        return take_bool(r, f, event);
    case BP_FIELD_ONE:
        return take_one(r, f, event);
    case BP_FIELD_TEXT:
        return take_text(r, f, event);
    case BP_FIELD_CHOICE:
        return take_choice(r, f, event);
    case BP_FIELD_SIZES:
        return take_sizes(r, f, event);
    case BP_FIELD_TEXTS:
        return take_texts(r, f, event);
    case BP_FIELD_CLASSES:
        return take_classes(r, f, event);
    case BP_FIELD_PROBLEM:
        return take_problem(r, f, event);
    case BP_FIELD_LABELS:
        return take_labels(r, f, event);
    case BP_FIELD_ROPE:
        return bp_hf_rope_read(&r->json, f->key, event, &r->config, &r->error);
    case BP_FIELD_QUANTISED:
        return bp_bnb_config_read(&r->json, event, &r->config.quantised, &r->error);
    case BP_FIELD_EMPTY:
        return take_empty(r, f, event);
    default:
        return take_flag(r, f, event);
    }
}

static const bp_hf_field type_field = {"model_type", BP_FIELD_TEXT, 0, 0, 0, NULL, BP_ROLE_NONE};

/* The first reading: only the model_type. */
static bp_status take_type(reading *r, bp_json_event *event)
{
    if (strcmp(event->text, type_field.key) != 0) {
        return bp_json_skip(&r->json);
    }
    BP_TRY(bp_json_next(&r->json, event));
    r->table = event->kind == BP_JSON_TEXT ? bp_family_find(event->text) : NULL;
    return r->table != NULL ? BP_OK
                            : refuse_value(r, &type_field, event,
                                           "this model type is not implemented (" NAMES ")");
}

/* The second: every key that the family knows. Rows after the first of a key take a plain value. */
static bp_status take_member(reading *r, bp_json_event *event)
{
    size_t first = 0;
    while (first < r->table->count && strcmp(r->table->fields[first].key, event->text) != 0) {
        first++;
    }
    if (first == r->table->count) {
        return bp_json_skip(&r->json);
    }
    const char *key = r->table->fields[first].key;
    BP_TRY(bp_json_next(&r->json, event));
    for (size_t i = first; i < r->table->count; i++) {
        if (strcmp(r->table->fields[i].key, key) == 0) {
            BP_TRY(take_field(r, &r->table->fields[i], event));
            r->seen[i] = true;
        }
    }
    return BP_OK;
}

static bp_status take_members(reading *r, bool first)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&r->json, "the file must hold one JSON object");
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            return bp_json_next(&r->json, &event);
        }
        BP_TRY(first ? take_type(r, &event) : take_member(r, &event));
    }
}

/* The task that the file names: a class that judges samples, and how. */
static void settle_task(reading *r)
{
    bp_model_config *config = &r->config;
    if (!r->judges && config->family != &bp_family_mlp) {
        return;
    }
    config->classes = config->classes == 0 ? 2 : config->classes;
    config->task = config->classes == 1 ? BP_TASK_REGRESSION : BP_TASK_CLASSES;
    config->task = r->problem ? r->asked : config->task;
}

static bool was_seen(const reading *r, const char *key)
{
    for (size_t i = 0; i < r->table->count; i++) {
        if (strcmp(r->table->fields[i].key, key) == 0 && r->seen[i]) {
            return true;
        }
    }
    return false;
}

/* Chains of dense layers have no usual number of inputs; widths are listed, or all the same. */
static bp_status check_chain(reading *r)
{
    bp_model_config *config = &r->config;
    if (config->family != &bp_family_mlp) {
        return BP_OK;
    }
    bp_mlp_config own = bp_mlp_config_of(config);
    if (config->positions == 0) {
        return bp_error_set(&r->error, BP_ERR_DATA, where,
                            "the field is missing: how many numbers a row has", "input_size");
    }
    if (r->listed && was_seen(r, "num_hidden_layers") && own.layers != r->sizes) {
        return bp_error_numbers(&r->error, BP_ERR_DATA, where,
                                "hidden_sizes lists another number of layers", "num_hidden_layers",
                                own.layers, r->sizes);
    }
    own.layers = r->listed ? r->sizes : own.layers;
    bp_config_set_own(config, &own, sizeof own);
    return BP_OK;
}

/* The heads of a transformer fit its width. */
static bp_status check_heads(reading *r)
{
    const bp_model_config *config = &r->config;
    const uint32_t width = bp_family_count(config, BP_ROLE_WIDTH);
    const uint32_t heads = bp_family_count(config, BP_ROLE_HEADS);
    const bool gpt2 = config->family == &bp_family_gpt2;
    if (heads != 0 && width % heads != 0) {
        return bp_error_numbers(
            &r->error, BP_ERR_DATA, where,
            gpt2 ? "n_head does not divide n_embd (found the remainder)"
                 : "num_attention_heads does not divide hidden_size (found the remainder)",
            gpt2 ? "n_head" : "num_attention_heads", width % heads, 0);
    }
    return BP_OK;
}

/* Those of a Llama may have a width of their own, which rotary positions cut in two. */
static bp_status check_rotary(reading *r)
{
    const bp_llama_config own = bp_llama_config_of(&r->config);
    if (own.head_width == 0) {
        BP_TRY(check_heads(r));
    }
    if (own.kv_heads != 0 && own.stack.heads % own.kv_heads != 0) {
        return bp_error_numbers(&r->error, BP_ERR_DATA, where,
                                "num_key_value_heads does not divide num_attention_heads",
                                "num_key_value_heads", own.kv_heads, own.stack.heads);
    }
    const uint32_t head = own.head_width != 0 ? own.head_width : own.stack.width / own.stack.heads;
    if (head % 2 != 0) {
        return bp_error_numbers(&r->error, BP_ERR_DATA, where,
                                "rotary positions need heads of an even width", "head_dim", head,
                                head + 1);
    }
    return BP_OK;
}

static bp_status check_whole(reading *r)
{
    bp_model_config *config = &r->config;
    BP_TRY(check_chain(r));
    BP_TRY(config->family->model == &bp_model_llama ? check_rotary(r) : check_heads(r));
    if (config->family == &bp_family_bert) {
        bp_bert_config own = bp_bert_config_of(config);
        if (own.classifier_dropout < 0.0) {
            own.classifier_dropout = own.stack.residual_dropout;
            bp_config_set_own(config, &own, sizeof own);
        }
    }
    settle_task(r);
    return BP_OK;
}

static bp_status read_once(reading *r, bp_storage_reader *reader, char *scratch, bool first)
{
    reader->offset = 0;
    reader->buffer = scratch;
    reader->capacity = READ_BYTES;
    reader->error = &r->error;
    bp_json_source source = {bp_storage_fill, reader, BP_HF_CONFIG_BYTES_MAX};
    bp_json_memory memory = {
        .text = scratch + READ_BYTES,
        .text_bytes = TEXT_BYTES,
        .keys = scratch + READ_BYTES + TEXT_BYTES,
        .keys_bytes = BP_HF_CONFIG_SCRATCH - READ_BYTES - TEXT_BYTES,
        .max_depth = BP_JSON_DEPTH_MAX,
    };
    BP_TRY(bp_json_init(&r->json, &source, &memory, &r->error));
    return take_members(r, first);
}

static bp_status read_document(reading *r, bp_storage_reader *reader, char *scratch)
{
    BP_TRY(read_once(r, reader, scratch, true));
    if (r->table == NULL) {
        return refuse(r, &type_field, "the field is missing (" NAMES " implemented)");
    }
    r->config = bp_family_defaults(r->table);
    BP_TRY(read_once(r, reader, scratch, false));
    return check_whole(r);
}

/* Hands the inner error to the caller under the file's name: too many keys are its fault too. */
static bp_status report(bp_error *error, bp_error *inner, const char *path)
{
    bool storage = inner->code == BP_ERR_STORE;
    inner->code = storage ? BP_ERR_STORE : BP_ERR_DATA;
    if (!storage) {
        bp_error_prefix(inner, path);
    }
    if (error != NULL && error->code == BP_OK) {
        *error = *inner;
    }
    return inner->code;
}

bp_status bp_hf_config_read(bp_store *store, const char *path, void *scratch,
                            bp_model_config *config, bp_error *error)
{
    bp_storage_reader reader = {.store = store, .path = path};
    reading r = {.table = NULL};
    if (store->open_read(store, path, &reader.file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    bp_status status = BP_OK;
    if (store->file_size(store, reader.file, &reader.end) != BP_OK) {
        status = bp_storage_failed(&r.error, store, "size", path);
    } else {
        status = read_document(&r, &reader, scratch);
    }
    /* Nothing was written: a failing close of a file that was read loses nothing. */
    (void)store->close(store, reader.file);
    if (status != BP_OK) {
        return report(error, &r.error, path);
    }
    *config = r.config;
    return BP_OK;
}
