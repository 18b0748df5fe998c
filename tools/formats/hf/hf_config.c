/* SPDX-License-Identifier: MIT */
/* Reading config.json by the rows of its family. */
#include "tools/formats/hf/hf_config.h"

#include <string.h>

#include "core/base/storage.h"
#include "layers/families/llama.h"
#include "tools/formats/hf/hf_rope.h"
#include "tools/formats/hf/hf_value.h"

#define READ_BYTES   4096
#define TEXT_BYTES   1024
#define INSIDE_BYTES 96 /* "vision_config.hidden_size" */

static const char where[] = "config.json";

/* The file is read twice: for the model_type, which says what the other keys may hold, and for the
 * rest. */
typedef bp_hf_reading reading;

static const bp_row type_row = {"model_type", BP_ROW_TYPE, BP_ROLE_NONE, 0, 0, 0, 0, 0, NULL};

/* The first reading: only the model_type. */
static bp_status hf_config_take_type(reading *r, bp_json_event *event)
{
    if (strcmp(event->text, type_row.key) != 0) {
        return bp_json_skip(&r->json);
    }
    BP_TRY(bp_json_next(&r->json, event));
    r->family = event->kind == BP_JSON_TEXT ? bp_family_find(event->text) : NULL;
    if (r->family == NULL && event->kind == BP_JSON_TEXT) {
        r->family = bp_family_find_inside(event->text);
        r->wrapped = r->family != NULL;
    }
    return r->family != NULL ? BP_OK : bp_hf_value_refuse(r, &type_row, event);
}

/* A row that reads a key of the file of this name. */
static bool reads(const bp_row *row, const char *key)
{
    return (row->flags & BP_ROW_INSIDE) == 0 && strcmp(row->key, key) == 0;
}

static bool is_key(const char *key, const char *const *names)
{
    while (*names != NULL && strcmp(*names, key) != 0) {
        names++;
    }
    return *names != NULL;
}

/* What becomes of a cross-encoder's logits, by the last word of a class's name; null: the sigmoid.
 */
static bp_status take_score(reading *r, bp_json_event *event)
{
    static const bp_row row = {"activation_fn",
                               BP_ROW_TEXT,
                               BP_ROLE_NONE,
                               0,
                               0,
                               0,
                               0,
                               0,
                               "torch.nn.modules.activation.Sigmoid|"
                               "torch.nn.modules.linear.Identity"};
    BP_TRY(bp_json_next(&r->json, event));
    const char *dot = event->kind == BP_JSON_TEXT ? strrchr(event->text, '.') : NULL;
    const bool raw = dot != NULL && strcmp(dot, ".Identity") == 0;
    if (event->kind != BP_JSON_NULL && !raw && (dot == NULL || strcmp(dot, ".Sigmoid") != 0)) {
        return bp_hf_value_refuse(r, &row, event);
    }
    r->config.raw_scores = raw;
    return BP_OK;
}

/* What feed_forward_proj of T5 implies, and transformers takes from here where a file has both. */
static const char *const acts[] = {"dense_act_fn", "is_gated_act", NULL};
static const bp_row act_row = {"dense_act_fn",      BP_ROW_TEXT, BP_ROLE_NONE, 0, 0, 0, 0, 0,
                               "relu|gelu_new|silu"};

static bp_status take_act(reading *r, bp_json_event *event, bool name)
{
    static const char *const names[] = {"relu", "gelu_new", "silu"};
    static const bp_row gate_row = {"is_gated_act", BP_ROW_FLAG, BP_ROLE_NONE, 0, 0, 0, 1, 0, NULL};
    BP_TRY(bp_json_next(&r->json, event));
    for (uint32_t i = 0; name && event->kind == BP_JSON_TEXT && i < 3; i++) {
        r->act = strcmp(event->text, names[i]) == 0 ? i + 1 : r->act;
    }
    const bool flag = event->kind == BP_JSON_TRUE || event->kind == BP_JSON_FALSE;
    if (name ? r->act == 0 : !flag) {
        return bp_hf_value_refuse(r, name ? &act_row : &gate_row, event);
    }
    r->gate = name ? r->gate : event->kind == BP_JSON_TRUE ? 2 : 1;
    return BP_OK;
}

static bp_status check_act(reading *r)
{
    const bp_row *row = bp_family_row(r->family, "feed_forward_proj");
    uint32_t which = 0; /* relu, gated-gelu, gated-silu */
    if (row == NULL) {
        return BP_OK;
    }
    memcpy(&which, (const char *)&r->config + row->offset, sizeof which);
    if (r->act != 0 && r->act != which + 1) {
        return bp_error_set(&r->error, BP_ERR_DATA, where,
                            "the value contradicts feed_forward_proj", act_row.key);
    }
    if (r->gate != 0 && r->gate != (which != 0 ? 2u : 1u)) {
        return bp_error_set(&r->error, BP_ERR_DATA, where,
                            "the value contradicts feed_forward_proj", acts[1]);
    }
    return BP_OK;
}

/* What sentence-transformers says of a cross-encoder, by itself or as an object. */
static bp_status take_ranker(reading *r, bp_json_event *event)
{
    static const char *const whole[] = {"sentence_transformers", NULL};
    static const char *const score[] = {"sbert_ce_default_activation_function", NULL};
    if (is_key(event->text, score)) {
        r->ranks = true;
        return take_score(r, event);
    }
    if (is_key(event->text, acts) && bp_family_row(r->family, "feed_forward_proj") != NULL) {
        return take_act(r, event, strcmp(event->text, acts[0]) == 0);
    }
    if (!is_key(event->text, whole)) {
        return bp_hf_rope_take_beside(r, event);
    }
    BP_TRY(bp_json_next(&r->json, event));
    if (event->kind != BP_JSON_OBJECT_BEGIN) {
        const bp_row row = {whole[0], BP_ROW_EMPTY, BP_ROLE_NONE, 0, 0, 0, 0, 0, NULL};
        return bp_hf_value_refuse(r, &row, event);
    }
    r->ranks = true;
    BP_TRY(bp_json_next(&r->json, event));
    while (event->kind == BP_JSON_KEY) {
        BP_TRY(strcmp(event->text, "activation_fn") == 0 ? take_score(r, event)
                                                         : bp_json_skip(&r->json));
        BP_TRY(bp_json_next(&r->json, event));
    }
    return BP_OK;
}

/* The first row that reads a key; row_count: none does. */
static size_t hf_config_first_row(const reading *r, const char *key)
{
    size_t first = 0;
    while (first < r->family->row_count && !reads(&r->family->rows[first], key)) {
        first++;
    }
    return first;
}

/* The value of a key whose first row is known. Rows after it take a plain value. */
static bp_status hf_config_take_key(reading *r, bp_json_event *event, size_t first)
{
    const char *key = r->family->rows[first].key;
    BP_TRY(bp_json_next(&r->json, event));
    for (size_t i = first; i < r->family->row_count; i++) {
        if (reads(&r->family->rows[i], key)) {
            BP_TRY(bp_hf_value_take(r, &r->family->rows[i], event));
            r->seen[i] = true;
        }
    }
    return BP_OK;
}

/* Whether rows have keys inside an object of this name: "vision_config.hidden_size". */
static bool hf_config_has_inside(const reading *r, const char *key, char prefix[INSIDE_BYTES])
{
    const size_t length = strlen(key);
    for (size_t i = 0; length + 1 < INSIDE_BYTES && i < r->family->row_count; i++) {
        const char *name = r->family->rows[i].key;
        if (strncmp(name, key, length) == 0 && name[length] == '.') {
            memcpy(prefix, name, length + 1);
            prefix[length + 1] = '\0';
            return true;
        }
    }
    return false;
}

/* An object inside the file's own; null: it says nothing. What no row knows is passed over. */
static bp_status hf_config_take_inside(reading *r, bp_json_event *event, char key[INSIDE_BYTES])
{
    const size_t length = strlen(key);
    const bp_row row = {
        "text_config, vision_config", BP_ROW_EMPTY, BP_ROLE_NONE, 0, 0, 0, 0, 0, NULL};
    BP_TRY(bp_json_next(&r->json, event));
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_OBJECT_BEGIN) {
        return bp_hf_value_refuse(r, &row, event);
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_OBJECT_END) {
            return BP_OK;
        }
        const size_t more = strlen(event->text);
        const bool fits = length + more < INSIDE_BYTES;
        memcpy(key + length, fits ? event->text : "", fits ? more + 1 : 1);
        const size_t first = hf_config_first_row(r, key);
        BP_TRY(first < r->family->row_count ? hf_config_take_key(r, event, first)
                                            : bp_json_skip(&r->json));
    }
}

/* The second: every key that the family knows. */
static bp_status hf_config_take_member(reading *r, bp_json_event *event)
{
    char inside[INSIDE_BYTES];
    const size_t first = hf_config_first_row(r, event->text);
    if (first < r->family->row_count) {
        return hf_config_take_key(r, event, first);
    }
    return hf_config_has_inside(r, event->text, inside) ? hf_config_take_inside(r, event, inside)
                                                        : take_ranker(r, event);
}

static bool is_outside(const char *key)
{
    return strcmp(key, "bos_token_id") == 0 || strcmp(key, "eos_token_id") == 0 ||
           strcmp(key, "pad_token_id") == 0 || strcmp(key, "tie_word_embeddings") == 0;
}

/* What is inside must be the family that is known to be there. */
static bp_status take_inner_type(reading *r, bp_json_event *event)
{
    BP_TRY(bp_json_next(&r->json, event));
    return event->kind == BP_JSON_TEXT && strcmp(event->text, r->family->model_type) == 0
               ? BP_OK
               : bp_hf_value_refuse(r, &type_row, event);
}

/* Of a file around the family's own its tokens and whether the head is tied, which come first, and
 * what is inside. */
static bp_status take_wrapped(reading *r, bp_json_event *event)
{
    if (is_outside(event->text)) {
        return hf_config_take_member(r, event);
    }
    if (strcmp(event->text, "text_config") != 0) {
        return bp_json_skip(&r->json);
    }
    const bp_row row = {"text_config", BP_ROW_EMPTY, BP_ROLE_NONE, 0, 0, 0, 0, 0, NULL};
    BP_TRY(bp_json_next(&r->json, event));
    if (event->kind != BP_JSON_OBJECT_BEGIN) {
        return bp_hf_value_refuse(r, &row, event);
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_OBJECT_END) {
            return BP_OK;
        }
        if (strcmp(event->text, type_row.key) == 0) {
            BP_TRY(take_inner_type(r, event));
            continue;
        }
        const bp_row *known =
            is_outside(event->text) ? bp_family_row(r->family, event->text) : NULL;
        const bool said = known != NULL && r->seen[known - r->family->rows];
        BP_TRY(said ? bp_json_skip(&r->json) : hf_config_take_member(r, event));
    }
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
        BP_TRY(first        ? hf_config_take_type(r, &event)
               : r->wrapped ? take_wrapped(r, &event)
                            : hf_config_take_member(r, &event));
    }
}

/* The task that the file names: a class with a head for one, and how it judges samples. */
static void resolve_task(reading *r)
{
    bp_model_config *config = &r->config;
    config->task = r->writes ? BP_TASK_CAUSAL_LM : config->task;
    if (!r->judges && (config->task < BP_TASK_CLASSES || config->task == BP_TASK_EMBEDDING)) {
        return;
    }
    config->classes = config->classes == 0 ? 2 : config->classes;
    if (r->judges && r->judge != BP_TASK_CLASSES) {
        config->classes = r->judge == BP_TASK_ANSWERS ? 2 : config->classes;
        config->task = r->judge;
        return;
    }
    config->task = config->classes == 1 ? BP_TASK_REGRESSION : BP_TASK_CLASSES;
    config->task = r->problem ? r->asked : config->task;
    if (config->task == BP_TASK_RECONSTRUCTION) {
        config->classes = config->positions; /* a row's own numbers */
    }
    if (r->ranks && config->classes == 1) {
        config->task = BP_TASK_RANKING;
    }
}

/* A list of widths says how many layers there are. */
static bp_status resolve_sizes(reading *r)
{
    const bp_row *row = bp_family_role(r->family, BP_ROLE_LAYERS);
    if (!r->listed || row == NULL) {
        return BP_OK;
    }
    const uint32_t layers = bp_family_count(&r->config, BP_ROLE_LAYERS);
    if (r->seen[row - r->family->rows] && layers != r->sizes) {
        return bp_error_numbers(&r->error, BP_ERR_DATA, where,
                                "hidden_sizes lists another number of layers", row->key, layers,
                                r->sizes);
    }
    memcpy((char *)&r->config + row->offset, &r->sizes, sizeof r->sizes);
    return BP_OK;
}

/* A list of layers has as many items as there are layers. */
static bp_status check_layers(reading *r, const bp_row *row)
{
    bp_layer_set set;
    memcpy(&set, (const char *)&r->config + row->offset, sizeof set);
    const uint32_t layers = bp_family_count(&r->config, BP_ROLE_LAYERS);
    if (set.listed == 0 || set.listed == layers) {
        return BP_OK;
    }
    return bp_error_numbers(&r->error, BP_ERR_DATA, where,
                            "the list has another number of items than there are layers", row->key,
                            set.listed, layers);
}

/* Layers of a kind that the file's other keys, or a list's length, leave without a meaning. */
static bp_status check_settled_layers(reading *r, const bp_row *row)
{
    bp_layer_set set;
    memcpy(&set, (const char *)&r->config + row->offset, sizeof set);
    if (set.listed > BP_LAYERS_LISTED) {
        return bp_error_numbers(&r->error, BP_ERR_DATA, where,
                                "layers of two kinds are implemented up to a number of them",
                                row->key, set.listed, BP_LAYERS_LISTED);
    }
    const bool windows = row->offset == BP_FAMILY_MEMBER(bp_llama_config, near);
    if (windows && bp_llama_config_of(&r->config).window == 0 && (set.bits[0] | set.bits[1]) != 0) {
        return bp_error_set(&r->error, BP_ERR_DATA, where,
                            "layers look through a window, and the file gives none "
                            "(sliding_window, and use_sliding_window where the family has it)",
                            row->key);
    }
    return BP_OK;
}

/* A distance beyond those with a bucket of their own has one, too: of T5 a quarter of the buckets
 * are of such distances, of DeBERTa half, whose farthest distance may be that of the positions. */
static bp_status check_distances(reading *r)
{
    const bp_row *t5 = bp_family_row(r->family, "relative_attention_max_distance");
    const bp_row *deberta = bp_family_row(r->family, "max_relative_positions");
    const bp_row *buckets = bp_family_row(r->family, t5 != NULL ? "relative_attention_num_buckets"
                                                                : "position_buckets");
    const char *config = (const char *)&r->config;
    uint32_t count = 0, near = 0;
    int64_t most = 0;
    if (buckets == NULL || (t5 == NULL && deberta == NULL)) {
        return BP_OK;
    }
    memcpy(&count, config + buckets->offset, sizeof count);
    if (t5 != NULL) {
        memcpy(&near, config + t5->offset, sizeof near);
        most = near;
    } else {
        memcpy(&most, config + deberta->offset, sizeof most);
        most = most > 0 ? most : (int64_t)r->config.positions;
    }
    const int64_t least = t5 != NULL ? count / 4 + 1 : count / 2 + 2;
    return most >= least
               ? BP_OK
               : bp_error_limit(&r->error, BP_ERR_DATA, where, "a value is below its range",
                                t5 != NULL ? t5->key : deberta->key, most, BP_LIMIT_LEAST, least);
}

static bp_status check_whole(reading *r)
{
    const bp_family *family = r->family;
    for (size_t i = 0; i < family->row_count; i++) {
        const bp_row *row = &family->rows[i];
        if ((row->flags & BP_ROW_REQUIRED) != 0 && !r->seen[i]) {
            return bp_error_set(&r->error, BP_ERR_DATA, where,
                                "the field is missing, and there is no usual value", row->key);
        }
    }
    for (size_t i = 0; i < family->row_count; i++) {
        if (family->rows[i].kind == BP_ROW_LAYERS) {
            BP_TRY(check_layers(r, &family->rows[i]));
        }
    }
    BP_TRY(resolve_sizes(r));
    BP_TRY(check_distances(r));
    BP_TRY(check_act(r));
    BP_TRY(bp_family_check_heads(&r->config, where, &r->error));
    if (bp_family_role(family, BP_ROLE_ROTARY) != NULL) {
        BP_TRY(bp_hf_rope_finish(r));
    }
    if (family->resolve != NULL) {
        family->resolve(&r->config);
    }
    for (size_t i = 0; i < family->row_count; i++) {
        if (family->rows[i].kind == BP_ROW_LAYERS) {
            BP_TRY(check_settled_layers(r, &family->rows[i]));
        }
    }
    resolve_task(r);
    if (r->paired && !r->judges) {
        r->config.family = family->pairs;
        r->config.task = BP_TASK_EMBEDDING;
        family->pairs->resolve(&r->config);
    }
    return BP_OK;
}

/* Of config_sentence_transformers.json what kind of model it is of, and its scores. */
static bp_status take_kind(reading *r)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&r->json, "the file must hold one JSON object");
    }
    const bool raw = r->config.raw_scores;
    BP_TRY(bp_json_next(&r->json, &event));
    while (event.kind == BP_JSON_KEY) {
        const bool score = strcmp(event.text, "activation_fn") == 0;
        const bool kind = strcmp(event.text, "model_type") == 0;
        BP_TRY(score  ? take_score(r, &event)
               : kind ? bp_json_next(&r->json, &event)
                      : bp_json_skip(&r->json));
        r->ranks = r->ranks ||
                   (kind && event.kind == BP_JSON_TEXT && strcmp(event.text, "CrossEncoder") == 0);
        BP_TRY(bp_json_next(&r->json, &event));
    }
    r->config.raw_scores = r->ranks ? r->config.raw_scores : raw;
    return bp_json_next(&r->json, &event);
}

/* Which reading of a file. */
typedef enum reading_of { READ_TYPE, READ_MEMBERS, READ_KIND } reading_of;

static bp_status read_once(reading *r, bp_storage_reader *reader, char *scratch, reading_of which)
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
    return which == READ_KIND ? take_kind(r) : take_members(r, which == READ_TYPE);
}

static bp_status read_document(reading *r, bp_storage_reader *reader, char *scratch)
{
    BP_TRY(read_once(r, reader, scratch, READ_TYPE));
    if (r->family == NULL) {
        return bp_error_set(&r->error, BP_ERR_DATA, where,
                            "the field is missing: which family the model is of", type_row.key);
    }
    r->config = bp_family_defaults(r->family);
    BP_TRY(read_once(r, reader, scratch, READ_MEMBERS));
    return check_whole(r);
}

/* Hands the inner error to the caller under the file's name: too many keys are its fault too. */
static bp_status hf_config_report(bp_error *error, bp_error *inner, const char *path)
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

/* Reads a file into *r by `document`, whose error gets the file's name. */
static bp_status hf_config_open(bp_store *store, const char *path, void *scratch, reading *r,
                                bp_status (*document)(reading *, bp_storage_reader *, char *),
                                bp_error *error)
{
    bp_storage_reader reader = {.store = store, .path = path};
    if (store->open_read(store, path, &reader.file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    bp_status status = BP_OK;
    if (store->file_size(store, reader.file, &reader.end) != BP_OK) {
        status = bp_storage_failed(&r->error, store, "size", path);
    } else {
        status = document(r, &reader, scratch);
    }
    /* Nothing was written: a failing close of a file that was read loses nothing. */
    (void)store->close(store, reader.file);
    return status == BP_OK ? BP_OK : hf_config_report(error, &r->error, path);
}

bp_status bp_hf_config_read(bp_store *store, const char *path, void *scratch,
                            bp_model_config *config, bp_error *error)
{
    reading r = {.family = NULL};
    BP_TRY(hf_config_open(store, path, scratch, &r, read_document, error));
    *config = r.config;
    return BP_OK;
}

bp_status bp_hf_config_bare(bp_store *store, const char *path, void *scratch, bool *bare,
                            bp_error *error)
{
    reading r = {.family = NULL};
    BP_TRY(hf_config_open(store, path, scratch, &r, read_document, error));
    *bare = r.bare && r.config.task < BP_TASK_CLASSES;
    return BP_OK;
}

static bp_status read_kind(reading *r, bp_storage_reader *reader, char *scratch)
{
    return read_once(r, reader, scratch, READ_KIND);
}

bp_status bp_hf_ranker_read(bp_store *store, const char *directory, void *scratch,
                            bp_model_config *config, bp_error *error)
{
    char path[BP_STORE_PATH_MAX];
    bool there = false;
    reading r = {.family = config->family, .config = *config};
    BP_TRY(bp_storage_join(path, directory, "config_sentence_transformers.json", error));
    BP_TRY(bp_storage_exists(store, path, &there, error));
    if (!there || config->classes != 1 || !bp_task_scores_samples(config->task)) {
        return BP_OK;
    }
    BP_TRY(hf_config_open(store, path, scratch, &r, read_kind, error));
    config->raw_scores = r.config.raw_scores;
    config->task = r.ranks ? BP_TASK_RANKING : config->task;
    return BP_OK;
}
