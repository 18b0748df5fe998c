/* SPDX-License-Identifier: MIT */
/* The table of families, and what follows from rows without a file. */
#include "tools/formats/family/family.h"

#include <math.h>
#include <string.h>

#include "core/base/number.h"
#include "layers/families/llama.h"
#include "tools/formats/family/images/cnn_text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define FAMILY(name) &bp_family_##name,
static const bp_family *const families[] = {
#include "tools/formats/family/families.def"
};
#undef FAMILY

const bp_family *bp_family_at(size_t index)
{
    return index < COUNT(families) ? families[index] : NULL;
}

const bp_family *bp_family_find(const char *model_type)
{
    for (size_t i = 0; i < COUNT(families); i++) {
        if (strcmp(families[i]->model_type, model_type) == 0) {
            return families[i];
        }
    }
    return NULL;
}

const bp_family *bp_family_find_inside(const char *wrapper)
{
    for (size_t i = 0; i < COUNT(families); i++) {
        if (families[i]->wrapper != NULL && strcmp(families[i]->wrapper, wrapper) == 0) {
            return families[i];
        }
    }
    return NULL;
}

const bp_gguf_family *bp_gguf_family_find(const char *model_type)
{
    const bp_family *family = bp_family_find(model_type);
    return family != NULL ? family->gguf : NULL;
}

const bp_gguf_family *bp_gguf_family_of(const char *architecture)
{
    for (size_t i = 0; i < COUNT(families); i++) {
        const bp_gguf_family *gguf = families[i]->gguf;
        if (gguf != NULL && strcmp(gguf->architecture, architecture) == 0) {
            return gguf;
        }
    }
    return NULL;
}

/* ---- values ---- */

static uint32_t stored_count(const bp_model_config *config, const bp_row *row)
{
    uint32_t value;
    memcpy(&value, (const char *)config + row->offset, sizeof value);
    return value;
}

static double stored_real(const bp_model_config *config, const bp_row *row)
{
    double value;
    memcpy(&value, (const char *)config + row->offset, sizeof value);
    return value;
}

static int64_t stored_token(const bp_model_config *config, const bp_row *row)
{
    int64_t value;
    memcpy(&value, (const char *)config + row->offset, sizeof value);
    return value;
}

static bool stored_flag(const bp_model_config *config, const bp_row *row)
{
    bool value;
    memcpy(&value, (const char *)config + row->offset, sizeof value);
    return value;
}

/* A row's `otherwise` into its member. */
static void store_default(bp_model_config *config, const bp_row *row)
{
    char *to = (char *)config + row->offset;
    const uint32_t count = row->otherwise > 0.0 ? (uint32_t)row->otherwise : 0;
    const int64_t token = (int64_t)row->otherwise;
    const bool flag = row->otherwise != 0.0;
    switch (row->kind) {
    case BP_ROW_COUNT:
    case BP_ROW_COUNT_NULL:
    case BP_ROW_CHOICE:
        memcpy(to, &count, sizeof count);
        break;
    case BP_ROW_TOKEN:
        memcpy(to, &token, sizeof token);
        break;
    case BP_ROW_REAL:
    case BP_ROW_REAL_NULL:
        memcpy(to, &row->otherwise, sizeof row->otherwise);
        break;
    case BP_ROW_FLAG:
    case BP_ROW_FLAG_NOT:
        memcpy(to, &flag, sizeof flag);
        break;
    default:
        break;
    }
}

bp_model_config bp_family_defaults(const bp_family *family)
{
    bp_model_config config = {
        .family = family, .task = family->task, .bos_token = -1, .eos_token = -1, .pad_token = -1};
    for (size_t i = 0; i < family->row_count; i++) {
        /* another name of a value has no usual one of its own */
        if ((family->rows[i].flags & BP_ROW_READ) == 0 || family->rows[i].otherwise != 0.0) {
            store_default(&config, &family->rows[i]);
        }
    }
    return config;
}

bp_model_config bp_family_adopt(const bp_spec *spec)
{
    bp_model_config config = spec->config;
    for (size_t i = 0; i < COUNT(families) && config.family == NULL; i++) {
        config.family = families[i]->model == spec->model ? families[i] : NULL;
    }
    return config;
}

const bp_row *bp_family_row(const bp_family *family, const char *key)
{
    for (size_t i = 0; i < family->row_count; i++) {
        if (BP_ROW_STORED(family->rows[i].kind) && strcmp(family->rows[i].key, key) == 0) {
            return &family->rows[i];
        }
    }
    return NULL;
}

const bp_row *bp_family_role(const bp_family *family, bp_role role)
{
    for (size_t i = 0; i < family->row_count; i++) {
        if (family->rows[i].role == role) {
            return &family->rows[i];
        }
    }
    return NULL;
}

/* What 0 leaves open is filled in. The roles that are asked for have no such meaning themselves. */
static uint32_t resolved_count(const bp_model_config *config, const bp_row *row)
{
    const uint32_t value = stored_count(config, row);
    if (value != 0) {
        return value;
    }
    switch (row->role) {
    case BP_ROLE_INNER:
        return 4 * stored_count(config, bp_family_role(config->family, BP_ROLE_WIDTH));
    case BP_ROLE_KV_HEADS:
        return stored_count(config, bp_family_role(config->family, BP_ROLE_HEADS));
    case BP_ROLE_HEAD_WIDTH: {
        const uint32_t heads = stored_count(config, bp_family_role(config->family, BP_ROLE_HEADS));
        const uint32_t width = stored_count(config, bp_family_role(config->family, BP_ROLE_WIDTH));
        return heads != 0 ? width / heads : 0;
    }
    default:
        return 0;
    }
}

uint32_t bp_family_count(const bp_model_config *config, bp_role role)
{
    const bp_row *row = config->family != NULL ? bp_family_role(config->family, role) : NULL;
    return row != NULL ? resolved_count(config, row) : 0;
}

bool bp_family_untied(const bp_model_config *config)
{
    const bp_row *row =
        config->family != NULL ? bp_family_role(config->family, BP_ROLE_UNTIED) : NULL;
    return row != NULL && stored_flag(config, row);
}

void bp_family_set_dropouts(bp_model_config *config, double probability)
{
    const bp_family *family = config->family;
    for (size_t i = 0; i < family->row_count; i++) {
        if (family->rows[i].role == BP_ROLE_DROPOUT) {
            memcpy((char *)config + family->rows[i].offset, &probability, sizeof probability);
        }
    }
}

void bp_family_set_pieces(bp_model_config *config, uint32_t pieces)
{
    if (config->family->pieces != 0) {
        memcpy((char *)config + config->family->pieces, &pieces, sizeof pieces);
    }
}

uint32_t bp_family_pieces(const bp_model_config *config)
{
    uint32_t pieces = 0;
    if (config->family->pieces != 0) {
        memcpy(&pieces, (const char *)config + config->family->pieces, sizeof pieces);
    }
    return pieces;
}

bp_status bp_family_check_heads(const bp_model_config *config, const char *where, bp_error *error)
{
    const bp_row *heads = bp_family_role(config->family, BP_ROLE_HEADS);
    const bp_row *own = bp_family_role(config->family, BP_ROLE_HEAD_WIDTH);
    if (heads == NULL) {
        return BP_OK;
    }
    const uint32_t count = stored_count(config, heads);
    const uint32_t width = bp_family_count(config, BP_ROLE_WIDTH);
    if ((own == NULL || stored_count(config, own) == 0) && width % count != 0) {
        return bp_error_limit(error, BP_ERR_DATA, where, "the heads do not divide the width",
                              heads->key, count, BP_LIMIT_DIVISOR, width);
    }
    const bp_row *kv_heads = bp_family_role(config->family, BP_ROLE_KV_HEADS);
    if (kv_heads != NULL && count % resolved_count(config, kv_heads) != 0) {
        return bp_error_limit(error, BP_ERR_DATA, where,
                              "the key-value heads do not divide the heads", kv_heads->key,
                              resolved_count(config, kv_heads), BP_LIMIT_DIVISOR, count);
    }
    const bool turned = bp_family_role(config->family, BP_ROLE_ROTARY) != NULL;
    if (turned && own != NULL && resolved_count(config, own) % 2 != 0) {
        bp_status status = bp_error_numbers(
            error, BP_ERR_DATA, where, "rotary positions need heads of an even width", own->key,
            resolved_count(config, own), resolved_count(config, own) + 1);
        bp_error_right(error, "an even number");
        return status;
    }
    return BP_OK;
}

/* ---- two models ---- */

/* Number `index` of a list. */
static uint32_t listed_at(const bp_model_config *config, const bp_row *row, uint32_t index)
{
    bp_row one = *row;
    one.offset += index * sizeof(uint32_t);
    return stored_count(config, &one);
}

/* How many numbers a list that ends with 0 has. */
static uint32_t counts_count(const bp_model_config *config, const bp_row *row)
{
    uint32_t count = 0;
    while (count < (uint32_t)row->otherwise && listed_at(config, row, count) != 0) {
        count++;
    }
    return count;
}

/* Width number `index` of a list, which may leave it to the width of all. */
static uint32_t size_at(const bp_model_config *config, const bp_row *row, uint32_t index)
{
    const uint32_t own = listed_at(config, row, index);
    return own != 0 ? own : bp_family_count(config, BP_ROLE_WIDTH);
}

/* How many widths a list has. */
static uint32_t size_count(const bp_model_config *config, const bp_row *row)
{
    const uint32_t layers = bp_family_count(config, BP_ROLE_LAYERS);
    const uint32_t most = (uint32_t)row->otherwise;
    return layers < most ? layers : most;
}

static bool has_sizes(const bp_family *family)
{
    for (size_t i = 0; i < family->row_count; i++) {
        if (family->rows[i].kind == BP_ROW_SIZES) {
            return true;
        }
    }
    return false;
}

/* Neither is above the other: equal, or one of them is no number. */
static bool same_reals(double a, double b)
{
    const bool differ = a < b || a > b;
    return !differ;
}

static bool same_sizes(const bp_model_config *a, const bp_model_config *b, const bp_row *row)
{
    for (uint32_t i = 0; i < size_count(a, row); i++) {
        if (size_at(a, row, i) != size_at(b, row, i)) {
            return false;
        }
    }
    return true;
}

/* Where widths are listed, the one of them all says nothing. */
static bool same_row(const bp_model_config *a, const bp_model_config *b, const bp_row *row)
{
    switch (row->kind) {
    case BP_ROW_COUNT:
    case BP_ROW_COUNT_NULL:
        return (row->role == BP_ROLE_WIDTH && has_sizes(a->family)) ||
               resolved_count(a, row) == resolved_count(b, row);
    case BP_ROW_CHOICE:
    case BP_ROW_LABELS:
        return stored_count(a, row) == stored_count(b, row);
    case BP_ROW_LAYERS:
    case BP_ROW_INDICES:
        return memcmp((const char *)a + row->offset, (const char *)b + row->offset,
                      sizeof(bp_layer_set)) == 0;
    case BP_ROW_SIZES:
        return same_sizes(a, b, row);
    case BP_ROW_COUNTS:
        return memcmp((const char *)a + row->offset, (const char *)b + row->offset,
                      (size_t)row->otherwise * sizeof(uint32_t)) == 0;
    case BP_ROW_NET:
        return bp_cnn_same(a, b);
    case BP_ROW_REAL:
    case BP_ROW_REAL_NULL:
        return row->role == BP_ROLE_DROPOUT || row->role == BP_ROLE_INITIAL ||
               same_reals(stored_real(a, row), stored_real(b, row));
    case BP_ROW_FLAG:
    case BP_ROW_FLAG_NOT:
        return stored_flag(a, row) == stored_flag(b, row);
    default:
        return true;
    }
}

bool bp_family_same(const bp_model_config *a, const bp_model_config *b)
{
    bool same = a->family == b->family && a->task == b->task && a->classes == b->classes;
    for (size_t i = 0; same && i < a->family->row_count; i++) {
        same = same_row(a, b, &a->family->rows[i]);
    }
    return same;
}

/* ---- values as text ---- */

/* One token, or, of those that end a text, a list. */
static void put_tokens(bp_json_writer *json, const char *key, const bp_model_config *config,
                       const bp_row *row)
{
    const bool ends = row->offset == offsetof(bp_model_config, eos_token);
    const int64_t token = stored_token(config, row);
    if (ends && config->more_eos_count > 0) {
        bp_json_put_open(json, key, '[');
        bp_json_put_i64(json, NULL, config->eos_token);
        for (uint32_t i = 0; i < config->more_eos_count; i++) {
            bp_json_put_i64(json, NULL, config->more_eos[i]);
        }
        bp_json_put_close(json);
    } else if (token < 0) {
        bp_json_put_value(json, key, "null");
    } else {
        bp_json_put_i64(json, key, token);
    }
}

static void put_choice(bp_json_writer *json, const char *key, const char *words, uint32_t number)
{
    for (; number > 0; number--) {
        words = strchr(words, '|') + 1;
    }
    bp_json_put_bytes(json, key, words, strcspn(words, "|"));
}

/* Numbers where there are no words. */
static void put_layers(bp_json_writer *json, const char *key, const bp_model_config *config,
                       const bp_row *row)
{
    bp_layer_set set;
    memcpy(&set, (const char *)config + row->offset, sizeof set);
    if (set.listed == 0) {
        bp_json_put_value(json, key, "null");
        return;
    }
    bp_json_put_open(json, key, '[');
    for (uint32_t i = 0; i < set.listed; i++) {
        const uint32_t second = bp_layer_in(&set, i) ? 1 : 0;
        if (row->words != NULL) {
            put_choice(json, NULL, row->words, second);
        } else {
            bp_json_put_u64(json, NULL, 1 - second);
        }
    }
    bp_json_put_close(json);
}

static void put_indices(bp_json_writer *json, const char *key, const bp_model_config *config,
                        const bp_row *row)
{
    bp_layer_set set;
    memcpy(&set, (const char *)config + row->offset, sizeof set);
    bp_json_put_open(json, key, '[');
    for (uint32_t i = 0; i < BP_LAYERS_LISTED; i++) {
        if (bp_layer_in(&set, i)) {
            bp_json_put_u64(json, NULL, i);
        }
    }
    bp_json_put_close(json);
}

static void put_counts(bp_json_writer *json, const char *key, const bp_model_config *config,
                       const bp_row *row)
{
    const bool widths = row->kind == BP_ROW_SIZES;
    const uint32_t sizes = widths ? size_count(config, row) : counts_count(config, row);
    bp_json_put_open(json, key, '[');
    for (uint32_t i = 0; i < sizes; i++) {
        bp_json_put_u64(json, NULL, widths ? size_at(config, row, i) : listed_at(config, row, i));
    }
    bp_json_put_close(json);
}

void bp_row_put(bp_json_writer *json, const char *key, const bp_model_config *config,
                const bp_row *row)
{
    switch (row->kind) {
    case BP_ROW_COUNT:
    case BP_ROW_COUNT_NULL:
        bp_json_put_u64(json, key, resolved_count(config, row));
        break;
    case BP_ROW_LABELS:
        bp_json_put_u64(json, key, config->classes);
        break;
    case BP_ROW_TOKEN:
        put_tokens(json, key, config, row);
        break;
    case BP_ROW_REAL:
    case BP_ROW_REAL_NULL:
        if ((row->flags & BP_ROW_WHOLE) != 0 &&
            same_reals(stored_real(config, row), floor(stored_real(config, row)))) {
            bp_json_put_u64(json, key, (uint64_t)stored_real(config, row));
            break;
        }
        bp_json_put_member(json, key);
        bp_number_put(json->text, stored_real(config, row));
        break;
    case BP_ROW_FLAG:
    case BP_ROW_FLAG_NOT:
        bp_json_put_flag(json, key, stored_flag(config, row) == (row->kind == BP_ROW_FLAG));
        break;
    case BP_ROW_CHOICE:
        put_choice(json, key, row->words, stored_count(config, row));
        break;
    case BP_ROW_LAYERS:
        put_layers(json, key, config, row);
        break;
    case BP_ROW_INDICES:
        put_indices(json, key, config, row);
        break;
    case BP_ROW_SIZES:
    case BP_ROW_COUNTS:
        put_counts(json, key, config, row);
        break;
    case BP_ROW_NET:
        bp_cnn_layers_put(json, key, config);
        break;
    default:
        bp_json_put_value(json, key, "null");
        break;
    }
}

bool bp_row_value(const bp_model_config *config, size_t index, char value[BP_ROW_VALUE_BYTES])
{
    const bp_family *family = config->family;
    const bp_row *row = &family->rows[index];
    bp_text text;
    bp_json_writer json;
    if (!BP_ROW_STORED(row->kind) || (row->flags & BP_ROW_READ) != 0) {
        return false;
    }
    for (size_t i = 0; i < index; i++) {
        if (strcmp(family->rows[i].key, row->key) == 0) {
            return false;
        }
    }
    bp_text_init(&text, NULL, NULL, value, BP_ROW_VALUE_BYTES);
    bp_json_put_begin(&json, &text, BP_JSON_SPACED);
    bp_row_put(&json, NULL, config, row);
    return bp_text_flush(&text) == BP_OK;
}
