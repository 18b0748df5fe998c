/* SPDX-License-Identifier: MIT */
/* Reading config.json: one table says what every known key may hold. */
#include "tools/formats/hf_config.h"

#include <string.h>

#include "core/storage.h"

#define READ_BYTES 4096
#define TEXT_BYTES 1024

static const char where[] = "config.json";

typedef enum field_kind {
    FIELD_COUNT,      /* an integer of the model */
    FIELD_COUNT_NULL, /* the same, where null means 0: chosen by the model */
    FIELD_TOKEN,      /* a token id, a list of them (the first counts), or null: none */
    FIELD_REAL,
    FIELD_TEXT,  /* must be this text */
    FIELD_TRUE,  /* must be true */
    FIELD_FALSE, /* must be false */
    FIELD_NULL,  /* must be null */
    FIELD_EMPTY  /* must be null or an empty object */
} field_kind;

typedef struct field {
    const char *key;
    field_kind kind;
    size_t offset; /* in bp_model_config */
    int64_t most;  /* FIELD_COUNT: 1 .. most */
    double below;  /* FIELD_REAL: least .. below, exclusive */
    const char *text;
} field;

#define AT(member) offsetof(bp_model_config, member)

static const field fields[] = {
    {"model_type", FIELD_TEXT, 0, 0, 0, "gpt2"},
    {"vocab_size", FIELD_COUNT, AT(vocabulary), INT32_MAX, 0, NULL},
    {"n_positions", FIELD_COUNT, AT(positions), 1 << 24, 0, NULL},
    {"max_position_embeddings", FIELD_COUNT, AT(positions), 1 << 24, 0, NULL},
    {"n_embd", FIELD_COUNT, AT(width), 1 << 20, 0, NULL},
    {"hidden_size", FIELD_COUNT, AT(width), 1 << 20, 0, NULL},
    {"n_layer", FIELD_COUNT, AT(layers), 1 << 12, 0, NULL},
    {"num_hidden_layers", FIELD_COUNT, AT(layers), 1 << 12, 0, NULL},
    {"n_head", FIELD_COUNT, AT(heads), 1 << 16, 0, NULL},
    {"num_attention_heads", FIELD_COUNT, AT(heads), 1 << 16, 0, NULL},
    {"n_inner", FIELD_COUNT_NULL, AT(inner), 1 << 22, 0, NULL},
    {"layer_norm_epsilon", FIELD_REAL, AT(norm_epsilon), 0, 1.0, NULL},
    {"initializer_range", FIELD_REAL, AT(initializer_range), 0, 1e6, NULL},
    {"embd_pdrop", FIELD_REAL, AT(embedding_dropout), 0, 1.0, NULL},
    {"resid_pdrop", FIELD_REAL, AT(residual_dropout), 0, 1.0, NULL},
    {"attn_pdrop", FIELD_REAL, AT(attention_dropout), 0, 1.0, NULL},
    {"bos_token_id", FIELD_TOKEN, AT(bos_token), 0, 0, NULL},
    {"eos_token_id", FIELD_TOKEN, AT(eos_token), 0, 0, NULL},
    {"activation_function", FIELD_TEXT, 0, 0, 0, "gelu_new"},
    {"scale_attn_weights", FIELD_TRUE, 0, 0, 0, NULL},
    {"scale_attn_by_inverse_layer_idx", FIELD_FALSE, 0, 0, 0, NULL},
    {"reorder_and_upcast_attn", FIELD_FALSE, 0, 0, 0, NULL},
    {"add_cross_attention", FIELD_FALSE, 0, 0, 0, NULL},
    {"is_encoder_decoder", FIELD_FALSE, 0, 0, 0, NULL},
    {"tie_word_embeddings", FIELD_TRUE, 0, 0, 0, NULL},
    {"pruned_heads", FIELD_EMPTY, 0, 0, 0, NULL},
    {"quantization_config", FIELD_NULL, 0, 0, 0, NULL},
};

#define FIELDS (sizeof fields / sizeof fields[0])

/* transformers' configuration_gpt2.py. */
static const bp_model_config defaults = {
    .vocabulary = 50257,
    .positions = 1024,
    .width = 768,
    .layers = 12,
    .heads = 12,
    .inner = 0,
    .norm_epsilon = 1e-5,
    .initializer_range = 0.02,
    .embedding_dropout = 0.1,
    .residual_dropout = 0.1,
    .attention_dropout = 0.1,
    .bos_token = 50256,
    .eos_token = 50256,
};

typedef struct reading {
    bp_json json;
    bp_model_config config;
    bool seen[FIELDS];
    bp_error error;
} reading;

static bp_status refuse(reading *r, const field *f, const char *text)
{
    return bp_error_set(&r->error, BP_ERR_DATA, where, text, f->key);
}

/* The other name of the same member, if it came before: then both must say the same. */
static bool said_before(const reading *r, const field *f)
{
    for (size_t i = 0; i < FIELDS; i++) {
        if (fields[i].offset == f->offset && fields[i].kind == f->kind && r->seen[i]) {
            return true;
        }
    }
    return false;
}

static bp_status take_count(reading *r, const field *f, const bp_json_event *event)
{
    if (event->kind == BP_JSON_NULL && f->kind == FIELD_COUNT_NULL) {
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

static bp_status take_real(reading *r, const field *f, const bp_json_event *event)
{
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

static bp_status take_token_number(reading *r, const field *f, const bp_json_event *event)
{
    bool good = event->kind == BP_JSON_NUMBER && event->integer;
    if (!good || event->i64 < -1 || event->i64 > INT32_MAX) {
        return refuse(r, f, "this field must be a token id, a list of token ids or null");
    }
    memcpy((char *)&r->config + f->offset, &event->i64, sizeof event->i64);
    return BP_OK;
}

static bp_status take_token(reading *r, const field *f, bp_json_event *event)
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
        if (first) {
            BP_TRY(take_token_number(r, f, event));
        } else if (event->kind != BP_JSON_NUMBER) {
            return refuse(r, f, "this field must be a token id, a list of token ids or null");
        }
        first = false;
    }
}

static bp_status take_text(reading *r, const field *f, const bp_json_event *event)
{
    if (event->kind != BP_JSON_TEXT || strcmp(event->text, f->text) != 0) {
        return refuse(r, f,
                      f->offset == 0 && strcmp(f->key, "model_type") == 0
                          ? "this model type is not implemented (\"gpt2\" is)"
                          : "this value is not implemented (\"gelu_new\" is)");
    }
    return BP_OK;
}

static bp_status take_flag(reading *r, const field *f, const bp_json_event *event)
{
    bp_json_kind wanted = f->kind == FIELD_TRUE    ? BP_JSON_TRUE
                          : f->kind == FIELD_FALSE ? BP_JSON_FALSE
                                                   : BP_JSON_NULL;
    if (event->kind == wanted) {
        return BP_OK;
    }
    return refuse(r, f,
                  f->kind == FIELD_TRUE    ? "this value is not implemented (only true is)"
                  : f->kind == FIELD_FALSE ? "this value is not implemented (only false is)"
                                           : "this is not implemented; the field must be null");
}

static bp_status take_empty(reading *r, const field *f, bp_json_event *event)
{
    if (event->kind == BP_JSON_OBJECT_BEGIN) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_OBJECT_END) {
            return BP_OK;
        }
    }
    return take_flag(r, f, event);
}

static bp_status take_field(reading *r, const field *f)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    switch (f->kind) {
    case FIELD_COUNT:
    case FIELD_COUNT_NULL:
        return take_count(r, f, &event);
    case FIELD_TOKEN:
        return take_token(r, f, &event);
    case FIELD_REAL:
        return take_real(r, f, &event);
    case FIELD_TEXT:
        return take_text(r, f, &event);
    case FIELD_EMPTY:
        return take_empty(r, f, &event);
    default:
        return take_flag(r, f, &event);
    }
}

static bp_status take_members(reading *r)
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
        size_t i = 0;
        while (i < FIELDS && strcmp(fields[i].key, event.text) != 0) {
            i++;
        }
        if (i == FIELDS) {
            BP_TRY(bp_json_skip(&r->json));
        } else {
            BP_TRY(take_field(r, &fields[i]));
            r->seen[i] = true;
        }
    }
}

static bp_status check_whole(reading *r)
{
    if (!r->seen[0]) {
        return refuse(r, &fields[0], "the field is missing (\"gpt2\" is implemented)");
    }
    if (r->config.width % r->config.heads != 0) {
        return bp_error_numbers(&r->error, BP_ERR_DATA, where,
                                "n_head does not divide n_embd (found the remainder)", "n_head",
                                (int64_t)(r->config.width % r->config.heads), 0);
    }
    return BP_OK;
}

static bp_status read_document(reading *r, bp_storage_reader *reader, char *scratch)
{
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
    BP_TRY(take_members(r));
    return check_whole(r);
}

/* Hands the inner error to the caller under the file's name. More keys than the reader has room
 * for is the file's fault as well. */
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
    reading r = {.config = defaults};
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
