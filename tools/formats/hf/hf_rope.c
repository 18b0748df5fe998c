/* SPDX-License-Identifier: MIT */
/* rope_scaling and rope_parameters, read and written. */
#include "tools/formats/hf/hf_rope.h"

#include <string.h>

#include "core/base/math.h"
#include "core/base/number.h"
#include "layers/families/llama.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Names of rope_type, the first by which it is written; 0: not scaled. */
static const struct {
    const char *name;
    bool scales;
    bp_rope_kind kind;
} types[] = {{"default", false, BP_ROPE_LLAMA3}, {"llama3", true, BP_ROPE_LLAMA3},
             {"linear", true, BP_ROPE_LINEAR},   {"dynamic", true, BP_ROPE_DYNAMIC},
             {"yarn", true, BP_ROPE_YARN},       {"longrope", true, BP_ROPE_LONG},
             {"su", true, BP_ROPE_LONG}};

typedef enum rope_number {
    THETA,
    FACTOR,
    LOW,
    HIGH,
    ORIGINAL,
    PARTIAL,
    ATTENTION,
    FAST,
    SLOW,
    MSCALE,
    MSCALE_ALL,
    ALPHA,
    NUMBERS
} rope_number;

/* 0: not named. */
typedef struct rope {
    uint32_t type; /* of types */
    bool named;    /* by rope_type, which comes before type */
    bool even;
    uint32_t pairs[2]; /* of short_factor, long_factor */
    double number[NUMBERS];
} rope;

/* Names of the members, and what each may be. */
static const struct {
    const char *key;
    bp_row range;
} numbers[] = {
#define RANGE(kind, least, most)                                                                   \
    {                                                                                              \
        "", kind, BP_ROLE_NONE, 0, 0, least, most, 0, NULL                                         \
    }
    [THETA] = {"rope_theta", RANGE(BP_ROW_REAL, 0, 1e12)},
    [FACTOR] = {"factor", RANGE(BP_ROW_REAL, 0, 1e12)},
    [LOW] = {"low_freq_factor", RANGE(BP_ROW_REAL, 0, 1e12)},
    [HIGH] = {"high_freq_factor", RANGE(BP_ROW_REAL, 0, 1e12)},
    [ORIGINAL] = {"original_max_position_embeddings", RANGE(BP_ROW_COUNT, 1, 1 << 24)},
    [PARTIAL] = {"partial_rotary_factor", RANGE(BP_ROW_ONE, 0, 0)},
    [ATTENTION] = {"attention_factor", RANGE(BP_ROW_REAL, 0, 1e6)},
    [FAST] = {"beta_fast", RANGE(BP_ROW_REAL, 0, 1e12)},
    [SLOW] = {"beta_slow", RANGE(BP_ROW_REAL, 0, 1e12)},
    [MSCALE] = {"mscale", RANGE(BP_ROW_REAL, 0, 1e6)},
    [MSCALE_ALL] = {"mscale_all_dim", RANGE(BP_ROW_REAL, 0, 1e6)},
    [ALPHA] = {"alpha", RANGE(BP_ROW_REAL, 0, 1e12)},
};

static const char share_key[] = "partial_rotary_factor";

static bool stretches(const bp_hf_reading *r)
{
    return bp_family_row(r->family, BP_ROPE_ALPHA) != NULL;
}

static bp_llama_config own_of(const bp_hf_reading *r)
{
    return bp_llama_config_of(&r->config);
}

/* A member's value is not what it may be: KEY.NAME. */
static bp_status refuse_member(bp_hf_reading *r, const bp_row *row, const char *name,
                               const bp_row *range, const bp_json_event *event)
{
    char key[64];
    bp_row member = *range;
    bp_text text;
    bp_text_init(&text, NULL, NULL, key, sizeof key);
    bp_text_string(&text, row->key);
    bp_text_char(&text, '.');
    bp_text_string(&text, name);
    bp_text_char(&text, '\0');
    bp_status fits = bp_text_flush(&text);
    (void)fits; /* the longest has 48 characters */
    member.key = key;
    return bp_hf_value_refuse(r, &member, event);
}

static bp_status hf_rope_take_type(bp_hf_reading *r, const bp_row *row, const char *name,
                                   const bp_json_event *event, rope *to)
{
    static const bp_row words = {"", BP_ROW_TEXT, BP_ROLE_NONE,
                                 0,  0,           0,
                                 0,  0,           "default|llama3|linear|dynamic|yarn|longrope"};
    for (uint32_t i = 0; event->kind == BP_JSON_TEXT && i < COUNT(types); i++) {
        if (strcmp(event->text, types[i].name) == 0) {
            to->type = i;
            return BP_OK;
        }
    }
    return refuse_member(r, row, name, &words, event);
}

static bool is_right(const bp_hf_reading *r, rope_number which, const bp_json_event *event)
{
    const bp_row *range = &numbers[which].range;
    if (event->kind != BP_JSON_NUMBER || !(event->real > 0.0)) {
        return false;
    }
    if (which == PARTIAL) {
        return bp_family_row(r->family, share_key) != NULL ? event->real <= 1.0
                                                           : event->real == 1.0;
    }
    return event->real >= range->least &&
           (which == ORIGINAL ? event->real <= range->most : event->real < range->most);
}

/* longrope's divisors. */
static bp_status hf_rope_take_list(bp_hf_reading *r, const bp_row *row, bool far,
                                   bp_json_event *event, rope *to)
{
    static const bp_row item = {"", BP_ROW_REAL, BP_ROLE_NONE, 0, 0, 0, 1e6, 0, NULL};
    const char *name = far ? "long_factor" : "short_factor";
    const size_t location =
        far ? BP_FAMILY_MEMBER(bp_llama_long, far) : BP_FAMILY_MEMBER(bp_llama_long, near);
    uint32_t count = 0;
    BP_TRY(bp_json_next(&r->json, event));
    if (event->kind != BP_JSON_ARRAY_BEGIN || r->family->model != &bp_model_llama) {
        return refuse_member(r, row, name, &item, event); /* others have no place for them */
    }
    for (;; count++) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            to->pairs[far ? 1 : 0] = count;
            return BP_OK;
        }
        const bool good = event->kind == BP_JSON_NUMBER && event->real > 0.0;
        if (!good || event->real >= item.most || count == BP_ROPE_PAIRS_MAX) {
            return refuse_member(r, row, name, &item, event);
        }
        const float value = (float)event->real;
        memcpy((char *)&r->config + location + count * sizeof value, &value, sizeof value);
    }
}

/* Members that are no numbers. */
static bool hf_rope_is_list(const char *name, bool *far)
{
    *far = strcmp(name, "long_factor") == 0;
    return *far || strcmp(name, "short_factor") == 0;
}

static bp_status hf_rope_take_member(bp_hf_reading *r, const bp_row *row, bp_json_event *event,
                                     rope *to)
{
    const bool type = strcmp(event->text, "rope_type") == 0;
    rope_number which = THETA;
    bool far = false;
    if (type || strcmp(event->text, "type") == 0) {
        if (!type && to->named) {
            return bp_json_skip(&r->json);
        }
        to->named = type;
        BP_TRY(bp_json_next(&r->json, event));
        return hf_rope_take_type(r, row, type ? "rope_type" : "type", event, to);
    }
    if (hf_rope_is_list(event->text, &far)) {
        return hf_rope_take_list(r, row, far, event, to);
    }
    if (strcmp(event->text, "truncate") == 0) {
        BP_TRY(bp_json_next(&r->json, event));
        to->even = event->kind == BP_JSON_FALSE;
        return BP_OK;
    }
    while (which < NUMBERS && strcmp(numbers[which].key, event->text) != 0) {
        which++;
    }
    if (which == NUMBERS || (which == ALPHA && !stretches(r))) {
        return bp_json_skip(&r->json);
    }
    BP_TRY(bp_json_next(&r->json, event));
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (!is_right(r, which, event)) {
        return refuse_member(r, row, numbers[which].key, &numbers[which].range, event);
    }
    to->number[which] = event->real;
    return BP_OK;
}

/* m(s, k) of yarn's attention factor. */
static double yarn_scale(double factor, double k)
{
    return factor > 1.0 ? 0.1 * k * bp_log(factor) + 1.0 : 1.0;
}

static bp_status hf_rope_refuse(bp_hf_reading *r, const bp_row *row, const char *text)
{
    return bp_error_set(&r->error, BP_ERR_DATA, "config.json", text, row->key);
}

static bp_status hf_rope_resolve(bp_hf_reading *r, const bp_row *row, const rope *from)
{
    const double *n = from->number;
    const bp_rope_kind kind = types[from->type].kind;
    bp_llama_config own = own_of(r);
    r->theta = n[THETA] > 0.0 ? n[THETA] : r->theta;
    if (own.rope_scaling.factor > 0.0) { /* a file without the object scales (gpt-oss) */
        own.rope_scaling = (bp_rope_scaling){0};
    }
    if (n[PARTIAL] > 0.0 && bp_family_row(r->family, share_key) != NULL) {
        own.rotary_share = n[PARTIAL];
    }
    if (types[from->type].scales) {
        /* a class with a member of this name has its number whatever the object says */
        const bool beside = bp_family_row(r->family, numbers[ORIGINAL].key) != NULL;
        const uint32_t original = n[ORIGINAL] > 0.0 && !beside ? (uint32_t)n[ORIGINAL] : 0;
        const bool yarn = kind == BP_ROPE_YARN;
        const bool complete = n[FACTOR] > 0.0 && n[LOW] > 0.0 && n[HIGH] > n[LOW];
        if (kind == BP_ROPE_LLAMA3 && !complete) {
            return hf_rope_refuse(r, row,
                                  "rope_type llama3 needs factor, low_freq_factor and a larger "
                                  "high_freq_factor");
        }
        if ((kind == BP_ROPE_LINEAR || kind == BP_ROPE_DYNAMIC) && !(n[FACTOR] > 0.0)) {
            return hf_rope_refuse(r, row, "rope_type linear and dynamic need factor");
        }
        if (kind == BP_ROPE_LONG && (from->pairs[0] == 0 || from->pairs[0] != from->pairs[1])) {
            return hf_rope_refuse(r, row,
                                  "rope_type longrope needs short_factor and long_factor, lists "
                                  "of the same length");
        }
        own.rope_scaling =
            (bp_rope_scaling){.factor = n[FACTOR],
                              .low = yarn                      ? n[SLOW]
                                     : kind == BP_ROPE_DYNAMIC ? n[ALPHA]
                                                               : n[LOW],
                              .high = yarn ? n[FAST] : n[HIGH],
                              .original = original != 0 ? original : own.rope_scaling.original,
                              .kind = kind,
                              .magnitude = n[ATTENTION],
                              .even = from->even};
        own.rope_pairs = from->pairs[0];
        r->magnitude[0] = yarn ? n[MSCALE] : 0.0;
        r->magnitude[1] = yarn ? n[MSCALE_ALL] : 0.0;
    }
    bp_family_config_set(&r->config, &own, sizeof own);
    return BP_OK;
}

/* rope_parameters of a model with two kinds of layers: an object for each. Only the layers that see
 * all are scaled. */
static bp_status hf_rope_take_two(bp_hf_reading *r, const bp_row *row, bp_json_event *event,
                                  bool near)
{
    rope from = {.type = 0};
    BP_TRY(bp_json_next(&r->json, event));
    if (event->kind != BP_JSON_OBJECT_BEGIN) {
        return bp_hf_value_refuse(r, row, event);
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_OBJECT_END) {
            break;
        }
        BP_TRY(hf_rope_take_member(r, row, event, &from));
    }
    if (!near) {
        return hf_rope_resolve(r, row, &from);
    }
    if (types[from.type].scales) {
        return hf_rope_refuse(r, row, "layers of sliding_attention are not scaled");
    }
    r->near = from.number[THETA] > 0.0 ? from.number[THETA] : r->near;
    return BP_OK;
}

/* Whether layers with a window turn by a base of their own. */
static bool hf_rope_kinds(const bp_family *family)
{
    bool kinds = false;
    for (size_t i = 0; i < family->row_count; i++) {
        kinds = kinds || family->rows[i].offset == BP_FAMILY_MEMBER(bp_llama_config, near_theta);
    }
    return kinds;
}

static bool names_kind(const char *name)
{
    return strcmp(name, "sliding_attention") == 0 || strcmp(name, "full_attention") == 0;
}

/* rope_parameters where each kind of layers has an object. transformers writes members of its own
 * beside them, and passes them over; without any of these objects it would pass everything over. */
static bp_status hf_rope_take_kinds(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    bool beside = false, kinds = false;
    for (;;) {
        rope unused = {.type = 0};
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_OBJECT_END) {
            return beside && !kinds ? hf_rope_refuse(r, row,
                                                     "this family has an object for each kind of "
                                                     "layers")
                                    : BP_OK;
        }
        if (names_kind(event->text)) {
            kinds = true;
            BP_TRY(hf_rope_take_two(r, row, event, strcmp(event->text, "sliding_attention") == 0));
        } else {
            beside = true;
            BP_TRY(hf_rope_take_member(r, row, event, &unused));
        }
    }
}

bp_status bp_hf_rope_take(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    rope from = {.type = 0};
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_OBJECT_BEGIN) {
        return bp_hf_value_refuse(r, row, event);
    }
    const bool older = strcmp(row->key, "rope_scaling") == 0;
    if (!older && hf_rope_kinds(r->family)) {
        return hf_rope_take_kinds(r, row, event);
    }
    bool type = false, old_type = false;
    for (bool first = true;; first = false) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_OBJECT_END) { /* {} is as null there */
            return older && first ? BP_OK
                   : old_type && !type && hf_rope_kinds(r->family)
                       ? hf_rope_refuse(r, row, "this family has rope_type instead of type")
                       : hf_rope_resolve(r, row, &from);
        }
        if (names_kind(event->text)) {
            return hf_rope_refuse(r, row, "an object for each kind of layers is not read here");
        }
        type = type || strcmp(event->text, "rope_type") == 0;
        old_type = old_type || strcmp(event->text, "type") == 0;
        BP_TRY(hf_rope_take_member(r, row, event, &from));
    }
}

bp_status bp_hf_rope_take_beside(bp_hf_reading *r, bp_json_event *event)
{
    const bool share = strcmp(event->text, share_key) == 0;
    const rope_number which = share ? PARTIAL : ORIGINAL;
    const bool known = share ? bp_family_row(r->family, share_key) == NULL
                             : strcmp(event->text, numbers[ORIGINAL].key) == 0;
    if (!known || bp_family_role(r->family, BP_ROLE_ROTARY) == NULL) {
        return bp_json_skip(&r->json);
    }
    bp_row row = numbers[which].range;
    row.key = numbers[which].key;
    BP_TRY(bp_json_next(&r->json, event));
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (!is_right(r, which, event)) {
        return bp_hf_value_refuse(r, &row, event);
    }
    r->original = share ? r->original : (uint32_t)event->real;
    return BP_OK;
}

static void rope_finish_scaling(const bp_hf_reading *r, bp_rope_scaling *s)
{
    const double *m = r->magnitude, positions = (double)r->config.positions;
    if (r->original != 0 && s->kind != BP_ROPE_DYNAMIC && s->kind != BP_ROPE_LINEAR) {
        s->original = r->original; /* transformers prefers it to that of the object */
    }
    s->original = s->original != 0 ? s->original : r->config.positions;
    s->factor = s->factor > 0.0 ? s->factor : positions / (double)s->original;
    if (s->kind == BP_ROPE_YARN) {
        s->low = s->low > 0.0 ? s->low : 1.0;
        s->high = s->high > 0.0 ? s->high : 32.0;
        if (!(s->magnitude > 0.0) && m[0] > 0.0 && m[1] > 0.0) {
            s->magnitude = yarn_scale(s->factor, m[0]) / yarn_scale(s->factor, m[1]);
        }
    }
}

/* A list that is shorter would leave pairs without a divisor. */
static bp_status rope_check_pairs(bp_hf_reading *r, const bp_llama_config *own)
{
    const uint32_t said = bp_family_count(&r->config, BP_ROLE_HEAD_WIDTH);
    const uint32_t head = said > 0 ? said : own->stack.width / own->stack.heads;
    const int64_t pairs = (int64_t)(bp_llama_rotary_width(own, head) / 2);
    return own->rope_pairs == pairs
               ? BP_OK
               : bp_error_limit(&r->error, BP_ERR_DATA, "config.json",
                                "longrope needs a number for each pair of a head that turns",
                                "long_factor", own->rope_pairs, BP_LIMIT_EXACT, pairs);
}

bp_status bp_hf_rope_finish(bp_hf_reading *r)
{
    bp_llama_config own = bp_llama_config_of(&r->config);
    bp_rope_scaling *s = &own.rope_scaling;
    own.near_theta = r->near > 0.0 ? r->near : own.near_theta;
    own.rope_theta = r->theta > 0.0 ? r->theta : own.rope_theta; /* not that beside the object */
    if (s->kind != BP_ROPE_LLAMA3 || s->factor > 0.0) {
        rope_finish_scaling(r, s);
    }
    if (s->kind == BP_ROPE_LONG) {
        BP_TRY(rope_check_pairs(r, &own));
    }
    bp_family_config_set(&r->config, &own, sizeof own);
    return BP_OK;
}

static void put_list(bp_json_writer *json, const char *key, const float *values, uint32_t count)
{
    bp_json_put_open(json, key, '[');
    for (uint32_t i = 0; i < count; i++) {
        bp_json_put_member(json, NULL);
        bp_number_put(json->text, (double)values[i]);
    }
    bp_json_put_close(json);
}

/* What is scaled, and by what the heads turn where `theta` is above 0. */
static void put_object(bp_json_writer *json, const char *key, const bp_model_config *config,
                       double theta)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const bp_rope_scaling *s = &own.rope_scaling;
    const bool yarn = s->kind == BP_ROPE_YARN, stretched = s->kind == BP_ROPE_DYNAMIC;
    uint32_t type = 1;
    while (types[type].kind != s->kind) {
        type++;
    }
    const double values[NUMBERS] = {[FACTOR] = s->factor,
                                    [HIGH] = yarn ? 0.0 : s->high,
                                    [LOW] = yarn || stretched ? 0.0 : s->low,
                                    [ORIGINAL] = (double)s->original,
                                    [ATTENTION] = s->magnitude,
                                    [FAST] = yarn ? s->high : 0.0,
                                    [SLOW] = yarn ? s->low : 0.0,
                                    [ALPHA] = stretched ? s->low : 0.0,
                                    [THETA] = theta};
    static const rope_number order[] = {ALPHA, ATTENTION, FAST,     SLOW, FACTOR,
                                        HIGH,  LOW,       ORIGINAL, THETA};
    bp_json_put_lines(json, key, '{');
    for (size_t i = 0; i < COUNT(order); i++) {
        const double value = values[order[i]];
        if (value > 0.0 && order[i] == ORIGINAL) {
            bp_json_put_u64(json, numbers[ORIGINAL].key, (uint64_t)value);
        } else if (value > 0.0) {
            bp_json_put_member(json, numbers[order[i]].key);
            bp_number_put(json->text, value);
        }
    }
    if (own.rope_pairs > 0) {
        bp_llama_long factors;
        bp_family_config_get(config, &factors, sizeof factors);
        put_list(json, "long_factor", factors.far, own.rope_pairs);
        put_list(json, "short_factor", factors.near, own.rope_pairs);
    }
    if (s->even) {
        bp_json_put_flag(json, "truncate", false);
    }
    bp_json_put_text(json, "rope_type", types[type].name);
    bp_json_put_close(json);
}

static void put_plain(bp_json_writer *json, const char *key, double theta)
{
    bp_json_put_lines(json, key, '{');
    bp_json_put_member(json, numbers[THETA].key);
    bp_number_put(json->text, theta);
    bp_json_put_text(json, "rope_type", types[0].name);
    bp_json_put_close(json);
}

/* Whether a file without the object, or with null, scales. */
static bool scales_without(const bp_family *family)
{
    const bp_row *row = bp_family_row(family, "rope_scaling.factor");
    return row != NULL && row->otherwise > 0.0;
}

void bp_hf_rope_put(bp_json_writer *json, const char *key, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const bool scaled = own.rope_scaling.factor > 0.0;
    if (key == NULL || strcmp(key, "rope_parameters") != 0) {
        if (scaled) {
            put_object(json, key, config, 0.0);
        } else if (scales_without(config->family)) {
            put_plain(json, key, own.rope_theta);
        } else {
            bp_json_put_value(json, key, "null");
        }
        return;
    }
    bp_json_put_lines(json, key, '{');
    if (scaled) {
        put_object(json, "full_attention", config, own.rope_theta);
    } else {
        put_plain(json, "full_attention", own.rope_theta);
    }
    put_plain(json, "sliding_attention", own.near_theta);
    bp_json_put_close(json);
}
