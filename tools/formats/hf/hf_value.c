/* SPDX-License-Identifier: MIT */
/* Each kind of row takes its value, or refuses it in one form of words. */
#include "tools/formats/hf/hf_value.h"

#include <string.h>

#include "layers/families/llama.h"
#include "tools/formats/hf/bnb.h"
#include "tools/formats/family/images/cnn_text.h"
#include "tools/formats/hf/hf_rope.h"

static const char where[] = "config.json";

/* The value as the file has it; a container by its kind. */
static void note_found(bp_error *error, const bp_json_event *event)
{
    static const char *const words[] = {[BP_JSON_TRUE] = "true",
                                        [BP_JSON_FALSE] = "false",
                                        [BP_JSON_NULL] = "null",
                                        [BP_JSON_ARRAY_BEGIN] = "a list",
                                        [BP_JSON_ARRAY_END] = "the list's end",
                                        [BP_JSON_OBJECT_BEGIN] = "an object"};
    char quoted[BP_ERROR_WORD_MAX] = {'"'};
    if (event->kind == BP_JSON_NUMBER) {
        bp_error_found(error, event->text, event->length);
    } else if (event->kind == BP_JSON_TEXT || event->kind == BP_JSON_TEXT_PART) {
        const size_t room = sizeof quoted - 3;
        const size_t length = event->length < room ? event->length : room;
        memcpy(quoted + 1, event->text, length);
        quoted[length + 1] = '"';
        bp_error_found(error, quoted, length + 2);
    } else {
        const char *word = words[event->kind];
        bp_error_found(error, word, strlen(word));
    }
}

bp_status bp_hf_value_refuse(bp_hf_reading *r, const bp_row *row, const bp_json_event *event)
{
    char words[BP_ERROR_RIGHT_MAX];
    bp_text text;
    bp_status status =
        bp_error_set(&r->error, BP_ERR_DATA, where, "this value is not supported", row->key);
    bp_text_init(&text, NULL, NULL, words, sizeof words - 1);
    bp_row_words(&text, row);
    bp_status fits = bp_text_flush(&text);
    words[text.written < sizeof words - 1 ? text.written : sizeof words - 1] = '\0';
    (void)fits; /* words too long are cut */
    note_found(&r->error, event);
    bp_error_right(&r->error, words);
    return status;
}

/* The other name of the same member, if it came before: then both must say the same. */
static bool said_before(const bp_hf_reading *r, const bp_row *row)
{
    for (size_t i = 0; i < r->family->row_count; i++) {
        const bp_row *other = &r->family->rows[i];
        if (other->offset == row->offset && other->kind == row->kind && r->seen[i]) {
            return true;
        }
    }
    return false;
}

/* The length of a text like "LLLG": its last letter is the second of the words, those before are
 * the first. */
static bool pattern_of(const bp_row *row, const bp_json_event *event, uint32_t *value)
{
    const bool text = event->kind == BP_JSON_TEXT && event->length > 0;
    if (!text || strspn(event->text, (const char[]){row->words[0], '\0'}) + 1 != event->length ||
        event->text[event->length - 1] != row->words[1]) {
        return false;
    }
    *value = (uint32_t)event->length;
    return true;
}

static bp_status take_count(bp_hf_reading *r, const bp_row *row, const bp_json_event *event)
{
    char *to = (char *)&r->config + row->offset;
    uint32_t value = 0, old;
    memcpy(&old, to, sizeof old);
    if (event->kind == BP_JSON_NULL && row->kind == BP_ROW_COUNT_NULL) {
        memcpy(to, &value, sizeof value);
        return BP_OK;
    }
    if (row->words != NULL && pattern_of(row, event, &value)) {
        memcpy(to, &value, sizeof value);
        return BP_OK;
    }
    const bool whole = event->kind == BP_JSON_NUMBER && event->integer;
    if (!whole || event->i64 < (int64_t)row->least || event->i64 > (int64_t)row->most) {
        return bp_hf_value_refuse(r, row, event);
    }
    value = (uint32_t)event->i64;
    if (said_before(r, row) && old != value) {
        return bp_error_numbers(&r->error, BP_ERR_DATA, where,
                                "two names of the same field hold different values", row->key,
                                event->i64, (int64_t)old);
    }
    memcpy(to, &value, sizeof value);
    return BP_OK;
}

static bp_status take_real(bp_hf_reading *r, const bp_row *row, const bp_json_event *event)
{
    if (event->kind == BP_JSON_NULL && row->kind == BP_ROW_REAL_NULL) {
        const double none = 0.0;
        if ((row->flags & BP_ROW_SPARSE) != 0) {
            memcpy((char *)&r->config + row->offset, &none, sizeof none);
        }
        return BP_OK;
    }
    const bool inside =
        event->kind == BP_JSON_NUMBER && event->real >= row->least && event->real < row->most;
    if (!inside) {
        return bp_hf_value_refuse(r, row, event);
    }
    memcpy((char *)&r->config + row->offset, &event->real, sizeof event->real);
    return BP_OK;
}

static bp_status take_one_token(bp_hf_reading *r, const bp_row *row, const bp_json_event *event,
                                int64_t *token)
{
    const bool good = event->kind == BP_JSON_NUMBER && event->integer;
    if (!good || event->i64 < (int64_t)row->least || event->i64 > (int64_t)row->most) {
        return bp_hf_value_refuse(r, row, event);
    }
    *token = event->i64;
    return BP_OK;
}

/* Of several tokens that end a text all count; of other tokens the first. */
static bp_status take_more(bp_hf_reading *r, const bp_row *row, const bp_json_event *event,
                           int64_t token)
{
    bp_model_config *config = &r->config;
    if (row->offset != offsetof(bp_model_config, eos_token)) {
        return BP_OK;
    }
    if (config->more_eos_count == BP_MORE_EOS_MAX) {
        return bp_hf_value_refuse(r, row, event);
    }
    config->more_eos[config->more_eos_count++] = token;
    return BP_OK;
}

static bp_status take_token(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    char *to = (char *)&r->config + row->offset;
    int64_t token = -1;
    if (event->kind != BP_JSON_ARRAY_BEGIN) {
        if (event->kind != BP_JSON_NULL) {
            BP_TRY(take_one_token(r, row, event, &token));
        }
        memcpy(to, &token, sizeof token);
        return BP_OK;
    }
    memcpy(to, &token, sizeof token);
    for (bool first = true;; first = false) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        BP_TRY(take_one_token(r, row, event, &token));
        if (first) {
            memcpy(to, &token, sizeof token);
        } else {
            BP_TRY(take_more(r, row, event, token));
        }
    }
}

/* Which of the words of "a|b|c" the text is; -1: none. */
static int64_t choice_of(const bp_row *row, const bp_json_event *event)
{
    int64_t number = 0;
    const char *word = row->words;
    while (event->kind == BP_JSON_TEXT && word != NULL) {
        const char *end = strchr(word, '|');
        const size_t length = end != NULL ? (size_t)(end - word) : strlen(word);
        if (event->length == length && memcmp(event->text, word, length) == 0) {
            return number;
        }
        word = end != NULL ? end + 1 : NULL;
        number++;
    }
    return -1;
}

static bp_status take_choice(bp_hf_reading *r, const bp_row *row, const bp_json_event *event)
{
    const int64_t number = choice_of(row, event);
    const bool unsaid = event->kind == BP_JSON_NULL && (row->flags & BP_ROW_SPARSE) != 0;
    if (number < 0 && unsaid) {
        return BP_OK;
    }
    if (number < 0) {
        return bp_hf_value_refuse(r, row, event);
    }
    if (row->kind == BP_ROW_CHOICE) {
        const uint32_t value = (uint32_t)number;
        memcpy((char *)&r->config + row->offset, &value, sizeof value);
    }
    return BP_OK;
}

static bp_status take_sizes(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    if (event->kind != BP_JSON_ARRAY_BEGIN) {
        return bp_hf_value_refuse(r, row, event);
    }
    r->listed = true;
    for (r->sizes = 0;; r->sizes++) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        const bool whole = event->kind == BP_JSON_NUMBER && event->integer;
        const bool inside =
            whole && event->i64 >= (int64_t)row->least && event->i64 <= (int64_t)row->most;
        if (!inside || r->sizes == (uint32_t)row->otherwise) {
            return bp_hf_value_refuse(r, row, event);
        }
        const uint32_t size = (uint32_t)event->i64;
        memcpy((char *)&r->config + row->offset + r->sizes * sizeof size, &size, sizeof size);
    }
}

/* The same, where the member ends with a 0. */
static bp_status take_counts(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    const uint32_t sizes = r->sizes, most = (uint32_t)row->otherwise;
    const bool listed = r->listed;
    BP_TRY(take_sizes(r, row, event));
    const size_t used = r->sizes * sizeof(uint32_t);
    memset((char *)&r->config + row->offset + used, 0, most * sizeof(uint32_t) - used);
    r->sizes = sizes; /* they say nothing of layers */
    r->listed = listed;
    return BP_OK;
}

/* Layers of a net, a text each. */
static bp_status take_net(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    bp_cnn_config own = bp_cnn_config_of(&r->config);
    if (event->kind != BP_JSON_ARRAY_BEGIN) {
        return bp_hf_value_refuse(r, row, event);
    }
    for (own.layers = 0;; own.layers++) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            bp_family_config_set(&r->config, &own, sizeof own);
            return BP_OK;
        }
        if (event->kind != BP_JSON_TEXT || own.layers == BP_CNN_LAYERS_MAX ||
            !bp_cnn_layer_read(event->text, &own.layer[own.layers])) {
            return bp_hf_value_refuse(r, row, event);
        }
    }
}

/* Which of two an item of such a list is; -1: neither. */
static int64_t layer_kind(const bp_row *row, const bp_json_event *event)
{
    const bool number = event->kind == BP_JSON_NUMBER && event->integer;
    if (row->words != NULL) {
        return choice_of(row, event);
    }
    return number && event->i64 >= 0 && event->i64 <= 1 ? 1 - event->i64 : -1;
}

static bp_status take_layers(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    bp_layer_set set = {.listed = 0};
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_ARRAY_BEGIN) {
        return bp_hf_value_refuse(r, row, event);
    }
    for (;; set.listed++) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            memcpy((char *)&r->config + row->offset, &set, sizeof set);
            return BP_OK;
        }
        const int64_t second = layer_kind(row, event);
        if (second < 0 || set.listed == BP_LAYERS_LISTED) {
            return bp_hf_value_refuse(r, row, event);
        }
        if (second == 1) {
            bp_layer_put(&set, set.listed);
        }
    }
}

/* Numbers of layers; null and an empty list name none. */
static bp_status take_indices(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    bp_layer_set set = {.listed = 0};
    const bool none = event->kind == BP_JSON_NULL;
    if (!none && event->kind != BP_JSON_ARRAY_BEGIN) {
        return bp_hf_value_refuse(r, row, event);
    }
    while (!none) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            break;
        }
        const bool whole = event->kind == BP_JSON_NUMBER && event->integer;
        if (!whole || event->i64 < 0 || event->i64 >= BP_LAYERS_LISTED) {
            return bp_hf_value_refuse(r, row, event);
        }
        bp_layer_put(&set, (uint32_t)event->i64);
    }
    memcpy((char *)&r->config + row->offset, &set, sizeof set);
    return BP_OK;
}

/* A list of texts, each taken by `take`; or null. */
static bp_status take_list(bp_hf_reading *r, const bp_row *row, bp_json_event *event,
                           bp_status (*take)(bp_hf_reading *, const bp_row *,
                                             const bp_json_event *))
{
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_ARRAY_BEGIN) {
        return bp_hf_value_refuse(r, row, event);
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        BP_TRY(take(r, row, event));
    }
}

static bp_status take_class(bp_hf_reading *r, const bp_row *row, const bp_json_event *event)
{
    static const struct {
        const char *end;
        bp_task task;
    } classes[] = {{"ForSequenceClassification", BP_TASK_CLASSES},
                   {"ForTokenClassification", BP_TASK_TOKENS},
                   {"ForQuestionAnswering", BP_TASK_ANSWERS}};
    if (event->kind != BP_JSON_TEXT) {
        return bp_hf_value_refuse(r, row, event);
    }
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        const size_t most = strlen(classes[i].end);
        if (!r->judges && event->length >= most &&
            strcmp(event->text + event->length - most, classes[i].end) == 0) {
            r->judges = true;
            r->judge = classes[i].task;
        }
    }
    r->paired =
        r->family->pairs != NULL && strcmp(event->text, r->family->pairs->language_class) == 0;
    r->writes = r->family->whole_class != NULL && strcmp(event->text, r->family->whole_class) == 0;
    static const char model[] = "Model"; /* BertModel; GPT2LMHeadModel has a head */
    const bool whole_alone = r->family->whole_class != NULL && r->family->language_class == NULL;
    if (whole_alone && !r->writes && strstr(event->text, "For") != NULL) {
        bp_status status =
            bp_hf_value_refuse(r, row, event); /* its encoder, or its decoder alone */
        bp_error_right(&r->error, r->family->whole_class);
        return status;
    }
    r->bare = event->length >= sizeof model - 1 && strstr(event->text, "Head") == NULL &&
              strcmp(event->text + event->length - (sizeof model - 1), model) == 0;
    return BP_OK;
}

/* Rotary positions without a scaling: an object of which two members count. */
static bp_status take_theta(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_OBJECT_BEGIN) {
        return bp_hf_value_refuse(r, row, event);
    }
    BP_TRY(bp_json_next(&r->json, event));
    while (event->kind == BP_JSON_KEY) {
        const bool theta = strcmp(event->text, "rope_theta") == 0;
        const bool type = strcmp(event->text, "rope_type") == 0;
        BP_TRY(bp_json_next(&r->json, event));
        if (type && (event->kind != BP_JSON_TEXT || strcmp(event->text, "default") != 0)) {
            return bp_hf_value_refuse(r, row, event);
        }
        if (!type && !theta) {
            return bp_hf_value_refuse(r, row, event); /* scalings among them */
        }
        if (theta) {
            BP_TRY(take_real(r, row, event));
        }
        BP_TRY(bp_json_next(&r->json, event));
    }
    return BP_OK;
}

static bp_status take_problem(bp_hf_reading *r, const bp_row *row, const bp_json_event *event)
{
    static const struct {
        const char *name;
        bp_task task;
    } problems[] = {{"single_label_classification", BP_TASK_CLASSES},
                    {"multi_label_classification", BP_TASK_LABELS},
                    {"regression", BP_TASK_REGRESSION},
                    {"reconstruction", BP_TASK_RECONSTRUCTION}};
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    for (size_t i = 0; event->kind == BP_JSON_TEXT && i < sizeof problems / sizeof problems[0];
         i++) {
        if (strcmp(event->text, problems[i].name) == 0) {
            r->problem = true;
            r->asked = problems[i].task;
            return BP_OK;
        }
    }
    return bp_hf_value_refuse(r, row, event);
}

static bp_status take_labels(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    uint32_t count = 0;
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_OBJECT_BEGIN) {
        return bp_hf_value_refuse(r, row, event);
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_OBJECT_END) {
            memcpy((char *)&r->config + row->offset, &count, sizeof count);
            return BP_OK;
        }
        BP_TRY(bp_json_skip(&r->json));
        count++;
    }
}

static bp_status hf_value_take_flag(bp_hf_reading *r, const bp_row *row, const bp_json_event *event)
{
    const bool value = (event->kind == BP_JSON_TRUE) == (row->kind == BP_ROW_FLAG);
    if (event->kind == BP_JSON_NULL && (row->flags & BP_ROW_SPARSE) != 0) {
        return BP_OK; /* the usual value */
    }
    if (event->kind != BP_JSON_TRUE && event->kind != BP_JSON_FALSE) {
        return bp_hf_value_refuse(r, row, event);
    }
    memcpy((char *)&r->config + row->offset, &value, sizeof value);
    return BP_OK;
}

/* Bits of the words of a row that a text names, "a|b"; -1: it names others. */
static int64_t words_in(const bp_row *row, const char *text)
{
    int64_t bits = 0;
    for (const char *at = text; *at != '\0'; at += *at == '|' ? 1 : 0) {
        const size_t length = strcspn(at, "|");
        int64_t bit = 1;
        const char *word = row->words;
        while (*word != '\0' && (strcspn(word, "|") != length || strncmp(word, at, length) != 0)) {
            word += strcspn(word, "|");
            word += *word == '|' ? 1 : 0;
            bit *= 2;
        }
        if (*word == '\0') {
            return -1;
        }
        bits |= bit;
        at += length;
    }
    return bits;
}

/* All words have to be there. */
static bp_status take_words(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    const bool list = event->kind == BP_JSON_ARRAY_BEGIN;
    int64_t all = 0;
    if (list) {
        BP_TRY(bp_json_next(&r->json, event));
    }
    while (event->kind == BP_JSON_TEXT) {
        const int64_t bits = words_in(row, event->text);
        if (bits < 0) {
            return bp_hf_value_refuse(r, row, event);
        }
        all |= bits;
        if (!list) {
            break;
        }
        BP_TRY(bp_json_next(&r->json, event));
    }
    const bool ended = list ? event->kind == BP_JSON_ARRAY_END : event->kind == BP_JSON_TEXT;
    return ended && all == words_in(row, row->words) ? BP_OK : bp_hf_value_refuse(r, row, event);
}

/* What has to be one value. */
static bp_status take_fixed(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    bool good;
    switch (row->kind) {
    case BP_ROW_ONE:
        good = event->kind == BP_JSON_NUMBER &&
               (event->integer ? event->i64 == 1
                               : (row->flags & BP_ROW_SPARSE) != 0 && !(event->real < 1.0) &&
                                     !(event->real > 1.0));
        break;
    case BP_ROW_TRUE:
        good = event->kind == BP_JSON_TRUE;
        break;
    case BP_ROW_FALSE:
        good = event->kind == BP_JSON_FALSE ||
               (event->kind == BP_JSON_NULL && (row->flags & BP_ROW_SPARSE) != 0);
        break;
    default:
        good = event->kind == BP_JSON_NULL;
        break;
    }
    if (row->kind == BP_ROW_EMPTY && event->kind == BP_JSON_OBJECT_BEGIN) {
        const bp_json_event found = *event;
        BP_TRY(bp_json_next(&r->json, event));
        return event->kind == BP_JSON_OBJECT_END ? BP_OK : bp_hf_value_refuse(r, row, &found);
    }
    return good ? BP_OK : bp_hf_value_refuse(r, row, event);
}

bp_status bp_hf_value_take(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    switch (row->kind) {
    case BP_ROW_COUNT:
    case BP_ROW_COUNT_NULL:
        return take_count(r, row, event);
    case BP_ROW_TOKEN:
        return take_token(r, row, event);
    case BP_ROW_REAL:
    case BP_ROW_REAL_NULL:
        return take_real(r, row, event);
    case BP_ROW_FLAG:
    case BP_ROW_FLAG_NOT:
        return hf_value_take_flag(r, row, event);
    case BP_ROW_CHOICE:
    case BP_ROW_TEXT:
        return take_choice(r, row, event);
    case BP_ROW_LAYERS:
        return take_layers(r, row, event);
    case BP_ROW_INDICES:
        return take_indices(r, row, event);
    case BP_ROW_SIZES:
        return take_sizes(r, row, event);
    case BP_ROW_COUNTS:
        return take_counts(r, row, event);
    case BP_ROW_NET:
        return take_net(r, row, event);
    case BP_ROW_WORDS:
        return take_words(r, row, event);
    case BP_ROW_TEXTS:
        return take_list(r, row, event, take_choice);
    case BP_ROW_CLASSES:
        return take_list(r, row, event, take_class);
    case BP_ROW_PROBLEM:
        return take_problem(r, row, event);
    case BP_ROW_LABELS:
        return take_labels(r, row, event);
    case BP_ROW_ROPE:
        return bp_hf_rope_take(r, row, event);
    case BP_ROW_THETA:
        return take_theta(r, row, event);
    case BP_ROW_QUANTISED:
        return bp_bnb_config_read(&r->json, event, &r->config.quantised, &r->config.experts,
                                  &r->error);
    case BP_ROW_TYPE:
        return BP_OK; /* it was read first */
    default:
        return take_fixed(r, row, event);
    }
}
