/* SPDX-License-Identifier: MIT */
/* Reading rope_scaling and rope_parameters. */
#include "tools/formats/hf_rope.h"

#include <string.h>

#include "layers/llama.h"

static const char where[] = "config.json";

typedef enum rope_type { ROPE_DEFAULT, ROPE_LLAMA3, ROPE_OTHER } rope_type;

typedef struct rope {
    rope_type type;
    double theta; /* 0: not named */
    double factor;
    double low;
    double high;
    double original;
    char word[BP_ERROR_WORD_MAX]; /* what the type is called, as far as it fits */
    size_t length;
} rope;

static bp_status refuse(bp_error *error, const char *text, const char *field)
{
    return bp_error_set(error, BP_ERR_DATA, where, text, field);
}

static rope_type type_of(const bp_json_event *event)
{
    if (event->kind != BP_JSON_TEXT) {
        return ROPE_OTHER;
    }
    return strcmp(event->text, "default") == 0  ? ROPE_DEFAULT
           : strcmp(event->text, "llama3") == 0 ? ROPE_LLAMA3
                                                : ROPE_OTHER;
}

/* Where a key's number goes; NULL: it is not a number that is known. */
static double *place_of(rope *r, const char *key)
{
    static const struct {
        const char *key;
        size_t offset;
    } places[] = {{"rope_theta", offsetof(rope, theta)},
                  {"factor", offsetof(rope, factor)},
                  {"low_freq_factor", offsetof(rope, low)},
                  {"high_freq_factor", offsetof(rope, high)},
                  {"original_max_position_embeddings", offsetof(rope, original)}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (strcmp(places[i].key, key) == 0) {
            return (double *)(void *)((char *)r + places[i].offset);
        }
    }
    return NULL;
}

static bp_status take_member(bp_json *json, const char *key, bp_json_event *event, rope *r,
                             bp_error *error)
{
    bool type = strcmp(event->text, "rope_type") == 0 || strcmp(event->text, "type") == 0;
    bool partial = strcmp(event->text, "partial_rotary_factor") == 0;
    double *place = place_of(r, event->text);
    if (!type && !partial && place == NULL) {
        return bp_json_skip(json);
    }
    BP_TRY(bp_json_next(json, event));
    if (type) {
        r->type = type_of(event);
        r->length = event->kind == BP_JSON_TEXT ? event->length : 0;
        r->length = r->length < sizeof r->word ? r->length : sizeof r->word;
        memcpy(r->word, r->length > 0 ? event->text : "", r->length);
        return BP_OK;
    }
    bool number = event->kind == BP_JSON_NUMBER && event->real > 0.0 && event->real < 1e12;
    if (!number || (partial && event->real != 1.0)) {
        return refuse(error,
                      "a number of this object is missing, out of range or not implemented "
                      "(partial_rotary_factor must be 1)",
                      key);
    }
    if (place != NULL) {
        *place = event->real;
    }
    return BP_OK;
}

static bp_status settle(const rope *r, const char *key, bp_model_config *config, bp_error *error)
{
    if (r->type == ROPE_OTHER) {
        bp_status status = refuse(
            error, "this rope_type is not implemented (\"default\" and \"llama3\" are)", key);
        bp_error_found(error, r->word, r->length);
        return status;
    }
    bp_llama_config own = bp_llama_config_of(config);
    own.rope_theta = r->theta > 0.0 ? r->theta : own.rope_theta;
    if (r->type == ROPE_DEFAULT) {
        bp_config_set_own(config, &own, sizeof own);
        return BP_OK;
    }
    bool whole = r->factor > 0.0 && r->low > 0.0 && r->high > r->low && r->original >= 1.0 &&
                 r->original <= 1 << 24;
    if (!whole) {
        return refuse(error,
                      "rope_type llama3 needs factor, low_freq_factor, a larger high_freq_factor "
                      "and original_max_position_embeddings",
                      key);
    }
    own.rope_scaling = (bp_rope_scaling){r->factor, r->low, r->high, (uint32_t)r->original};
    bp_config_set_own(config, &own, sizeof own);
    return BP_OK;
}

bp_status bp_hf_rope_read(bp_json *json, const char *key, bp_json_event *event,
                          bp_model_config *config, bp_error *error)
{
    rope r = {.type = ROPE_DEFAULT};
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_OBJECT_BEGIN) {
        return refuse(error, "this field must be null or an object", key);
    }
    for (;;) {
        BP_TRY(bp_json_next(json, event));
        if (event->kind == BP_JSON_OBJECT_END) {
            return settle(&r, key, config, error);
        }
        BP_TRY(take_member(json, key, event, &r, error));
    }
}
