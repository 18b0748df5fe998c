/* SPDX-License-Identifier: MIT */
/* rope_scaling and rope_parameters, read and written. */
#include "tools/formats/hf_rope.h"

#include <string.h>

typedef enum rope_type { ROPE_DEFAULT, ROPE_LLAMA3 } rope_type;

typedef enum rope_number { THETA, FACTOR, LOW, HIGH, ORIGINAL, PARTIAL, NUMBERS } rope_number;

/* 0: not named. */
typedef struct rope {
    rope_type type;
    double number[NUMBERS];
} rope;

/* Names of the members, in the object and of the rows; what each may be. */
static const struct {
    const char *key;
    const char *row;
    bp_row range;
} numbers[] = {
#define RANGE(key, kind, least, most)                                                              \
    {                                                                                              \
        key, kind, BP_ROLE_NONE, 0, 0, least, most, 0, NULL                                        \
    }
    [THETA] = {"rope_theta", "rope_theta", RANGE("", BP_ROW_REAL, 0, 1e12)},
    [FACTOR] = {"factor", "rope_scaling.factor", RANGE("", BP_ROW_REAL, 0, 1e12)},
    [LOW] = {"low_freq_factor", "rope_scaling.low_freq_factor", RANGE("", BP_ROW_REAL, 0, 1e12)},
    [HIGH] = {"high_freq_factor", "rope_scaling.high_freq_factor", RANGE("", BP_ROW_REAL, 0, 1e12)},
    [ORIGINAL] = {"original_max_position_embeddings",
                  "rope_scaling.original_max_position_embeddings",
                  RANGE("", BP_ROW_COUNT, 1, 1 << 24)},
    [PARTIAL] = {"partial_rotary_factor", NULL, RANGE("", BP_ROW_ONE, 0, 0)},
};

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
    static const bp_row words = {"", BP_ROW_TEXT, BP_ROLE_NONE, 0, 0, 0, 0, 0, "default|llama3"};
    if (event->kind == BP_JSON_TEXT && strcmp(event->text, "default") == 0) {
        to->type = ROPE_DEFAULT;
    } else if (event->kind == BP_JSON_TEXT && strcmp(event->text, "llama3") == 0) {
        to->type = ROPE_LLAMA3;
    } else {
        return refuse_member(r, row, name, &words, event);
    }
    return BP_OK;
}

static bool is_right(rope_number which, const bp_json_event *event)
{
    const bp_row *range = &numbers[which].range;
    if (event->kind != BP_JSON_NUMBER || !(event->real > 0.0)) {
        return false;
    }
    if (which == PARTIAL) {
        return event->real == 1.0;
    }
    return event->real >= range->least &&
           (which == ORIGINAL ? event->real <= range->most : event->real < range->most);
}

static bp_status hf_rope_take_member(bp_hf_reading *r, const bp_row *row, bp_json_event *event,
                                     rope *to)
{
    const bool type = strcmp(event->text, "rope_type") == 0;
    rope_number which = THETA;
    if (type || strcmp(event->text, "type") == 0) {
        BP_TRY(bp_json_next(&r->json, event));
        return hf_rope_take_type(r, row, type ? "rope_type" : "type", event, to);
    }
    while (which < NUMBERS && strcmp(numbers[which].key, event->text) != 0) {
        which++;
    }
    if (which == NUMBERS) {
        return bp_json_skip(&r->json);
    }
    BP_TRY(bp_json_next(&r->json, event));
    if (!is_right(which, event)) {
        return refuse_member(r, row, numbers[which].key, &numbers[which].range, event);
    }
    to->number[which] = event->real;
    return BP_OK;
}

static void hf_rope_store(bp_hf_reading *r, rope_number which, double value)
{
    const bp_row *row = bp_family_row(r->family, numbers[which].row);
    const uint32_t count = (uint32_t)value;
    if (row != NULL) {
        const bool whole = row->kind == BP_ROW_COUNT;
        memcpy((char *)&r->config + row->offset, whole ? (const void *)&count : &value,
               whole ? sizeof count : sizeof value);
    }
}

static bp_status hf_rope_settle(bp_hf_reading *r, const bp_row *row, const rope *from)
{
    const double *n = from->number;
    if (n[THETA] > 0.0) {
        hf_rope_store(r, THETA, n[THETA]);
    }
    if (from->type == ROPE_DEFAULT) {
        return BP_OK;
    }
    if (!(n[FACTOR] > 0.0 && n[LOW] > 0.0 && n[HIGH] > n[LOW] && n[ORIGINAL] >= 1.0)) {
        return bp_error_set(&r->error, BP_ERR_DATA, "config.json",
                            "rope_type llama3 needs factor, low_freq_factor, a larger "
                            "high_freq_factor and original_max_position_embeddings",
                            row->key);
    }
    for (rope_number which = FACTOR; which <= ORIGINAL; which++) {
        hf_rope_store(r, which, n[which]);
    }
    return BP_OK;
}

bp_status bp_hf_rope_take(bp_hf_reading *r, const bp_row *row, bp_json_event *event)
{
    rope from = {.type = ROPE_DEFAULT};
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_OBJECT_BEGIN) {
        return bp_hf_value_refuse(r, row, event);
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, event));
        if (event->kind == BP_JSON_OBJECT_END) {
            return hf_rope_settle(r, row, &from);
        }
        BP_TRY(hf_rope_take_member(r, row, event, &from));
    }
}

void bp_hf_rope_put(bp_text *text, const bp_model_config *config)
{
    static const rope_number order[] = {FACTOR, HIGH, LOW, ORIGINAL};
    const bp_row *row = bp_family_row(config->family, numbers[FACTOR].row);
    double factor = 0.0;
    memcpy(&factor, (const char *)config + row->offset, sizeof factor);
    if (!(factor > 0.0)) {
        bp_text_string(text, "null");
        return;
    }
    bp_text_string(text, "{\n");
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        bp_text_string(text, "    \"");
        bp_text_string(text, numbers[order[i]].key);
        bp_text_string(text, "\": ");
        bp_row_put(text, config, bp_family_row(config->family, numbers[order[i]].row));
        bp_text_string(text, ",\n");
    }
    bp_text_string(text, "    \"rope_type\": \"llama3\"\n  }");
}
