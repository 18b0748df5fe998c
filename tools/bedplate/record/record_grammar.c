/* SPDX-License-Identifier: MIT */
/* The grammar of a record's lines. */
#include "tools/bedplate/record/record_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "arena/text.h"
#include "core/base/json.h"
#include "core/base/sha256.h"

enum { HEX_DIGITS = 16, NAME_MOST = 255, LINE_DEPTH = 4 };

typedef enum record_type {
    TYPE_FORMAT,
    TYPE_COUNT,
    TYPE_TEXT,
    TYPE_REAL, /* two members: the decimal and, under KEY_bits, what counts */
    TYPE_HEX16,
    TYPE_HEX64,
    TYPE_OUTCOME,
    TYPE_TEXTS,
    TYPE_FILES,
    TYPE_EXPORTS
} record_type;

/* Which lines have a member. */
typedef enum record_there { ALWAYS, MAYBE, FORMAT_1, TODAY } record_there;

typedef struct record_rule {
    const char *name;
    record_type type;
    record_there there;
} record_rule;

/* A kind's rules end with one that has no name; the first is the kind's own. */
static const record_rule record_rules[][22] = {
    [RECORD_RUN] = {{"run", TYPE_FORMAT, ALWAYS},
                    {"from", TYPE_COUNT, ALWAYS},
                    {"preset", TYPE_TEXT, MAYBE},
                    {"options", TYPE_TEXTS, ALWAYS},
                    {"config", TYPE_TEXTS, ALWAYS},
                    {"model", TYPE_FILES, ALWAYS},
                    {"tokenizer", TYPE_FILES, ALWAYS},
                    {"adapter", TYPE_FILES, ALWAYS},
                    {"data", TYPE_FILES, ALWAYS},
                    {"eval_data", TYPE_FILES, ALWAYS},
                    {"tokens", TYPE_TEXT, ALWAYS},
                    {"windows", TYPE_COUNT, ALWAYS},
                    {"steps_per_epoch", TYPE_COUNT, ALWAYS},
                    {"total_steps", TYPE_COUNT, ALWAYS},
                    {"seed", TYPE_COUNT, ALWAYS},
                    {"data_seed", TYPE_COUNT, ALWAYS},
                    {"state_digest", TYPE_HEX16, ALWAYS},
                    {"program", TYPE_TEXT, ALWAYS},
                    {"version", TYPE_TEXT, ALWAYS},
                    {"source", TYPE_HEX64, ALWAYS},
                    {"plan", TYPE_HEX16, MAYBE}},
    [RECORD_STEP] = {{"step", TYPE_COUNT, ALWAYS},
                     {"first", TYPE_COUNT, ALWAYS},
                     {"samples", TYPE_COUNT, ALWAYS},
                     {"batch", TYPE_HEX64, ALWAYS},
                     {"valid", TYPE_COUNT, ALWAYS},
                     {"loss", TYPE_REAL, ALWAYS},
                     {"norm", TYPE_REAL, FORMAT_1},
                     {"rate", TYPE_REAL, FORMAT_1},
                     {"grad_norm", TYPE_REAL, TODAY},
                     {"lr", TYPE_REAL, TODAY},
                     {"scale", TYPE_REAL, ALWAYS},
                     {"outcome", TYPE_OUTCOME, ALWAYS}},
    [RECORD_EVAL] = {{"eval", TYPE_COUNT, ALWAYS},
                     {"loss", TYPE_REAL, ALWAYS},
                     {"targets", TYPE_COUNT, ALWAYS},
                     {"metric", TYPE_TEXT, ALWAYS},
                     {"value", TYPE_REAL, ALWAYS}},
    [RECORD_STATE] = {{"state", TYPE_COUNT, ALWAYS},
                      {"state_digest", TYPE_HEX16, ALWAYS},
                      {"verified", TYPE_COUNT, MAYBE}},
    [RECORD_ROLL] = {{"roll", TYPE_COUNT, ALWAYS},
                     {"from", TYPE_COUNT, ALWAYS},
                     {"to", TYPE_COUNT, ALWAYS},
                     {"batches", TYPE_COUNT, ALWAYS},
                     {"state_digest", TYPE_HEX16, ALWAYS}},
    [RECORD_ROLLOUT] = {{"rollout", TYPE_COUNT, ALWAYS},
                        {"prompts", TYPE_TEXT, ALWAYS},
                        {"tokens", TYPE_TEXT, ALWAYS},
                        {"ended", TYPE_TEXT, ALWAYS},
                        {"ids", TYPE_TEXT, ALWAYS},
                        {"batch", TYPE_HEX64, ALWAYS},
                        {"rewards", TYPE_TEXT, ALWAYS},
                        {"advantages", TYPE_TEXT, ALWAYS}},
    [RECORD_ENDED] = {{"end", TYPE_COUNT, ALWAYS},
                      {"state_digest", TYPE_HEX16, ALWAYS},
                      {"files", TYPE_EXPORTS, ALWAYS}},
};

/* A line that is being read, in front of `end`, where there is a zero. */
typedef struct record_scan {
    const char *at;
    const char *end;
} record_scan;

static bool scan_is(record_scan *s, const char *word)
{
    const size_t n = strlen(word);
    const bool is = strncmp(s->at, word, n) == 0;
    s->at += is ? n : 0;
    return is;
}

/* WORDS around a name. */
static bool scan_key(record_scan *s, const char *before, const char *name, const char *behind)
{
    return scan_is(s, before) && scan_is(s, name) && scan_is(s, behind);
}

static bool scan_count(record_scan *s, uint64_t *value)
{
    const char *from = s->at;
    for (*value = 0; *s->at >= '0' && *s->at <= '9'; s->at++) {
        const uint64_t digit = (uint64_t)(*s->at - '0');
        if (*value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *value = *value * 10 + digit;
    }
    return s->at > from && (*from != '0' || s->at == from + 1);
}

static bool scan_hexadecimal(record_scan *s, size_t digits, uint64_t *value)
{
    static const char hexadecimal[] = "0123456789abcdef";
    *value = 0;
    for (size_t i = 0; i < digits; i++) {
        const char *digit = *s->at != '\0' ? strchr(hexadecimal, *s->at) : NULL;
        if (digit == NULL) {
            return false;
        }
        *value = *value << 4 | (uint64_t)(digit - hexadecimal);
        s->at++;
    }
    return true;
}

static bool scan_hex(record_scan *s, size_t digits)
{
    uint64_t value;
    return scan_is(s, "\"") && scan_hexadecimal(s, digits, &value) && scan_is(s, "\"");
}

/* A character that the program escapes; by digits only one that has no shorter form. */
static bool scan_escape(record_scan *s)
{
    uint64_t value;
    if (!scan_is(s, "\\u00")) {
        s->at++;
        return *s->at != '\0' && strchr("\"\\bfnrt", *s->at++) != NULL;
    }
    return scan_hexadecimal(s, 2, &value) && value > 0 && value < ' ' &&
           strchr("\b\f\n\r\t", (int)value) == NULL;
}

/* A text of *bytes bytes, without its quotes and escapes. */
static bool scan_text(record_scan *s, size_t *bytes)
{
    if (!scan_is(s, "\"")) {
        return false;
    }
    for (*bytes = 0; *s->at != '"'; ++*bytes) {
        if ((unsigned char)*s->at < ' ') {
            return false; /* the end, too */
        }
        if (*s->at == '\\') {
            if (!scan_escape(s)) {
                return false;
            }
        } else {
            s->at++;
        }
    }
    return scan_is(s, "\"");
}

/* The decimal is what the program writes for the bits. */
static bool scan_real(record_scan *s, const char *name)
{
    char decimal[40];
    bp_text text;
    uint64_t bits;
    double value;
    record_scan told = *s;
    s->at += strcspn(s->at, ",");
    if (!scan_key(s, ",\"", name, "_bits\":\"") || !scan_hexadecimal(s, HEX_DIGITS, &bits)) {
        return false;
    }
    memcpy(&value, &bits, sizeof value);
    bp_text_init(&text, NULL, NULL, decimal, sizeof decimal);
    bp_text_json_number(&text, value, 9);
    return bp_text_flush(&text) == BP_OK && scan_is(&told, decimal) && *told.at == ',' &&
           scan_is(s, "\"");
}

static bool scan_outcome(record_scan *s)
{
    static const char *const words[] = {
        "\"applied\"",     "\"empty\"",   "\"skipped-overflow\"", "\"skipped-anomaly\"",
        "\"rolled-back\"", "\"clipped\"", "\"nonfinite\""};
    bool is = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0] && !is; i++) {
        is = scan_is(s, words[i]);
    }
    return is;
}

static bool scan_texts(record_scan *s)
{
    size_t bytes;
    if (!scan_is(s, "{")) {
        return false;
    }
    if (scan_is(s, "}")) {
        return true;
    }
    do {
        if (!scan_text(s, &bytes) || bytes == 0 || !scan_is(s, ":") || !scan_text(s, &bytes)) {
            return false;
        }
    } while (scan_is(s, ","));
    return scan_is(s, "}");
}

/* What was exported has a digest, and lies in the output directory. */
static bool scan_file(record_scan *s, bool exported)
{
    size_t name;
    uint64_t count;
    if (!scan_is(s, "{\"name\":")) {
        return false;
    }
    const char *from = s->at;
    if (!scan_text(s, &name) || name == 0 || name > NAME_MOST) {
        return false;
    }
    const bool path = memchr(from, '/', (size_t)(s->at - from)) != NULL ||
                      strncmp(from, "\".\"", 3) == 0 || strncmp(from, "\"..\"", 4) == 0;
    if ((exported && path) || !scan_is(s, ",\"bytes\":") || !scan_count(s, &count) ||
        !scan_is(s, ",\"sha256\":")) {
        return false;
    }
    return ((!exported && scan_is(s, "null")) || scan_hex(s, BP_SHA256_TEXT - 1)) &&
           scan_is(s, "}");
}

static bool scan_files(record_scan *s, bool exported)
{
    if (!scan_is(s, "[")) {
        return false;
    }
    if (scan_is(s, "]")) {
        return true;
    }
    do {
        if (!scan_file(s, exported)) {
            return false;
        }
    } while (scan_is(s, ","));
    return scan_is(s, "]");
}

static bool scan_value(record_scan *s, const record_rule *rule, uint64_t *count)
{
    size_t bytes;
    switch (rule->type) {
    case TYPE_FORMAT:
        return scan_count(s, count) && *count >= 1 && *count <= RECORD_FORMAT;
    case TYPE_COUNT:
        return scan_count(s, count);
    case TYPE_TEXT:
        return scan_text(s, &bytes);
    case TYPE_REAL:
        return scan_real(s, rule->name);
    case TYPE_HEX16:
        return scan_hex(s, HEX_DIGITS);
    case TYPE_HEX64:
        return scan_hex(s, BP_SHA256_TEXT - 1);
    case TYPE_OUTCOME:
        return scan_outcome(s);
    case TYPE_TEXTS:
        return scan_texts(s);
    default:
        return scan_files(s, rule->type == TYPE_EXPORTS);
    }
}

static bool scan_kind(record_scan *s, record_kind *kind)
{
    const size_t kinds = sizeof record_rules / sizeof record_rules[0];
    for (size_t i = 0; i < kinds; i++) {
        record_scan first = *s;
        if (scan_key(&first, "{\"", record_rules[i][0].name, "\":")) {
            *kind = (record_kind)i;
            return true;
        }
    }
    return false;
}

static bool scan_line(record_scan *s, record_names by, record_line *line)
{
    uint64_t count;
    line->member = "";
    if (!scan_kind(s, &line->kind)) {
        return false;
    }
    const record_rule *first = record_rules[line->kind];
    for (const record_rule *rule = first; rule->name != NULL; rule++) {
        const record_there other = by == RECORD_NAMES_OF_TODAY ? FORMAT_1 : TODAY;
        record_scan member = *s;
        if (rule->there == other) {
            continue;
        }
        if (!scan_key(&member, rule == first ? "{\"" : ",\"", rule->name, "\":")) {
            if (rule->there == MAYBE) {
                continue;
            }
            line->member = rule->name;
            return false;
        }
        s->at = member.at;
        line->member = rule->name;
        if (!scan_value(s, rule, rule == first ? &line->step : &count)) {
            return false;
        }
    }
    line->member = "chain";
    return scan_is(s, ",\"chain\":") && scan_hex(s, BP_SHA256_TEXT - 1) && scan_is(s, "}") &&
           s->at == s->end;
}

/* Options and configuration name nothing twice: all else has its place. */
static bp_status record_line_unique(const char *text, size_t length)
{
    char room[4096];
    size_t most = 1;
    for (const char *at = strstr(text, "\":"); at != NULL; at = strstr(at + 1, "\":")) {
        most++;
    }
    const size_t bytes = (size_t)bp_json_keys_bytes(most);
    void *keys = malloc(bytes);
    if (keys == NULL) {
        return BP_ERR_FIT;
    }
    bp_json json;
    bp_json_event event = {.kind = BP_JSON_NULL};
    bp_json_span span = {text, length};
    const bp_json_source source = {bp_json_span_fill, &span, length};
    const bp_json_memory memory = {room, sizeof room, keys, bytes, LINE_DEPTH};
    bp_status status = bp_json_init(&json, &source, &memory, NULL);
    while (status == BP_OK && event.kind != BP_JSON_END) {
        status = bp_json_next(&json, &event);
    }
    free(keys);
    return status;
}

bp_status record_line_read(const char *text, size_t length, record_names by, record_line *line)
{
    record_scan s = {text, text + length};
    if (!scan_line(&s, by, line)) {
        return BP_ERR_DATA;
    }
    line->member = line->kind == RECORD_RUN ? "options or config" : "";
    if (length >= RECORD_LINE_MAX || !bp_text_is_utf8(text)) {
        return BP_ERR_DATA;
    }
    return line->kind == RECORD_RUN ? record_line_unique(text, length) : BP_OK;
}
