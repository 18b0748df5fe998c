/* SPDX-License-Identifier: MIT */
/* Reading record.jsonl. */
#include "tools/bedplate/record/record_read.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/digest.h"
#include "tools/bedplate/record/old_names.h"
#include "tools/bedplate/record/record.h"

#define CHAIN_MEMBER ((size_t)9)                         /* ,"chain": */
#define CHAIN_BYTES  (CHAIN_MEMBER + BP_SHA256_TEXT + 1) /* with the digits in quotes */

enum { TEXT_ROOM = 4096 };

static const char where[] = "record";

static bp_status record_wrong(const record_walk *walk, const char *text, bp_error *error)
{
    return bp_error_limit(error, BP_ERR_DATA, where, text, walk->path, (int64_t)walk->number,
                          BP_LIMIT_NONE, 0);
}

static bp_status record_unreadable(const record_walk *walk, bp_error *error)
{
    return bp_error_set(error, BP_ERR_STORE, where, "the record cannot be read", walk->path);
}

bp_status record_walk_begin(record_walk *walk, const char *path, bp_error *error)
{
    memset(walk, 0, sizeof *walk);
    walk->path = path;
    walk->file = fopen(path, "rb");
    return walk->file != NULL ? BP_OK : record_unreadable(walk, error);
}

void record_walk_end(record_walk *walk)
{
    if (walk->file != NULL) {
        (void)fclose(walk->file); /* it was read only */
    }
    free(walk->line);
    free(walk->told);
    walk->file = NULL;
    walk->line = NULL;
    walk->told = NULL;
}

/* Reads events up to the value of a key of the outermost object, or, without a key, all of them. */
static bool record_find(bp_json *json, const char *key, bp_json_event *event)
{
    bool named = false;
    for (;;) {
        if (bp_json_next(json, event) != BP_OK || event->kind == BP_JSON_END) {
            return key == NULL && event->kind == BP_JSON_END && json->status == BP_OK;
        }
        if (named) {
            return event->kind != BP_JSON_TEXT_PART;
        }
        named = key != NULL && event->kind == BP_JSON_KEY && event->depth == 1 &&
                strcmp(event->text, key) == 0;
    }
}

/* A line as a JSON document. Must not move. */
typedef struct record_reading {
    char text[TEXT_ROOM];
    bp_json json;
    bp_json_span span;
} record_reading;

static bool record_reading_begin(record_reading *r, const char *line, size_t length)
{
    r->span = (bp_json_span){line, length};
    const bp_json_source source = {bp_json_span_fill, &r->span, length};
    const bp_json_memory memory = {.text = r->text, .text_bytes = sizeof r->text, .max_depth = 8};
    return bp_json_init(&r->json, &source, &memory, NULL) == BP_OK;
}

static bool record_json(const char *line, size_t length, const char *key, char *to, size_t room)
{
    record_reading r;
    bp_json_event event;
    if (!record_reading_begin(&r, line, length) || !record_find(&r.json, key, &event) ||
        (key != NULL && event.length >= room)) {
        return false;
    }
    if (key != NULL) {
        memcpy(to, event.text, event.length + 1);
    }
    return true;
}

bool record_value(const char *line, size_t length, const char *key, char *to, size_t room)
{
    return record_json(line, length, key, to, room);
}

bool record_count(const char *line, size_t length, const char *key, uint64_t *value)
{
    char text[24];
    char *end;
    if (!record_value(line, length, key, text, sizeof text) || text[0] < '0' || text[0] > '9') {
        return false;
    }
    *value = strtoull(text, &end, 10);
    return *end == '\0';
}

bool record_hex(const char *line, size_t length, const char *key, uint64_t *value)
{
    char text[BP_DIGEST_TEXT];
    return record_value(line, length, key, text, sizeof text) && bp_digest_parse(text, value);
}

/* A whole line into walk->line; *more is false at the end. A reading that failed is no end: the
 * lines behind it would be taken for none. What was cut off is passed over, but for a line that
 * nothing may follow. */
static bp_status record_read_line(record_walk *walk, bool *more, bp_error *error)
{
    const ssize_t n = getline(&walk->line, &walk->room, walk->file);
    *more = false;
    walk->torn = false;
    if (ferror(walk->file) || (n < 0 && !feof(walk->file))) {
        return record_unreadable(walk, error);
    }
    if (n <= 0 || walk->line[n - 1] != '\n') {
        walk->torn = n > 0;
        return BP_OK;
    }
    *more = true;
    walk->length = (size_t)n - 1;
    walk->line[walk->length] = '\0';
    return BP_OK;
}

bp_status record_tells(record_walk *walk, const char *head, bool *any, bp_error *error)
{
    bool more = true;
    *any = false;
    while (more) {
        BP_TRY(record_read_line(walk, &more, error));
        *any = *any || (more && strncmp(walk->line, head, strlen(head)) == 0);
    }
    return BP_OK;
}

static bool record_chain_agrees(record_walk *walk)
{
    unsigned char told[BP_SHA256_BYTES];
    if (walk->length <= CHAIN_BYTES) {
        return false;
    }
    walk->covered = walk->length - CHAIN_BYTES - 1;
    const char *at = walk->line + walk->covered;
    if (strncmp(at, ",\"chain\":\"", CHAIN_MEMBER + 1) != 0 ||
        !bp_sha256_parse(at + CHAIN_MEMBER + 1, told) || strcmp(at + CHAIN_BYTES - 1, "\"}") != 0) {
        return false;
    }
    record_link(walk->chain, walk->line, walk->covered);
    return memcmp(walk->chain, told, sizeof told) == 0;
}

/* The verified step of a state, where it is told, is none that is to come, and never falls. */
static bool record_verified(record_walk *walk)
{
    char text[24];
    uint64_t step;
    if (!record_value(walk->line, walk->length, "verified", text, sizeof text)) {
        return true;
    }
    if (!record_count(walk->line, walk->length, "verified", &step) || step > walk->step ||
        step < walk->verified) {
        return false;
    }
    walk->verified = step;
    return true;
}

size_t record_computed(const record_walk *walk)
{
    const char *told = walk->kind == RECORD_STATE ? strstr(walk->line, ",\"verified\":") : NULL;
    return told != NULL ? (size_t)(told - walk->line) : walk->covered;
}

/* Where in `told` the state of a step stands, which are in order; told_count: nowhere. */
static size_t record_find_told(const record_walk *walk, uint64_t step)
{
    size_t at = walk->told_count;
    while (at > 0 && walk->told[at - 1].step > step) {
        at--;
    }
    return at > 0 && walk->told[at - 1].step == step ? at - 1 : walk->told_count;
}

/* Keeps the state that a line tells. */
static bp_status record_keep(record_walk *walk, uint64_t step)
{
    if (walk->told_count == walk->told_room) {
        const size_t room = 2 * walk->told_room + 16;
        record_told *more = realloc(walk->told, room * sizeof *more);
        if (more == NULL) {
            return BP_ERR_FIT;
        }
        walk->told = more;
        walk->told_room = room;
    }
    record_told *told = &walk->told[walk->told_count++];
    told->step = step;
    return record_hex(walk->line, walk->length, "state_digest", &told->digest) ? BP_OK
                                                                               : BP_ERR_DATA;
}

/* Whether the state is that which an earlier line tells of the step, if one does. */
static bool record_same_state(const record_walk *walk, uint64_t step, bool must)
{
    uint64_t digest;
    const size_t at = record_find_told(walk, step);
    return at == walk->told_count ? !must
                                  : record_hex(walk->line, walk->length, "state_digest", &digest) &&
                                        digest == walk->told[at].digest;
}

static bool record_goes_back(const record_walk *walk)
{
    uint64_t from, to, batches;
    return record_count(walk->line, walk->length, "from", &from) &&
           record_count(walk->line, walk->length, "to", &to) &&
           record_count(walk->line, walk->length, "batches", &batches) && from == walk->step &&
           to < from && batches == from - to && record_same_state(walk, to, to >= walk->from);
}

/* A line of a kind that each step has at most one of. */
static bool record_follows_step(record_walk *walk)
{
    const uint32_t bit = (uint32_t)1 << walk->kind;
    if (walk->step != walk->last || (walk->seen & bit) != 0 ||
        walk->rolls != (walk->kind == RECORD_ROLL)) {
        return false;
    }
    walk->seen |= bit;
    walk->rolls = false;
    switch (walk->kind) {
    case RECORD_STATE:
        return record_same_state(walk, walk->step, false) && record_verified(walk);
    case RECORD_ENDED:
        return record_same_state(walk, walk->step, false);
    case RECORD_ROLL:
        return record_goes_back(walk);
    default:
        return true;
    }
}

/* Whether a line may stand where it does. */
static bool record_follows(record_walk *walk)
{
    char outcome[24];
    if (walk->number == 1) {
        walk->format = walk->step;
        walk->names = walk->format == 1 ? RECORD_NAMES_OF_FORMAT_1 : RECORD_NAMES_OF_TODAY;
        return walk->kind == RECORD_RUN &&
               record_count(walk->line, walk->length, "from", &walk->from);
    }
    if (walk->kind == RECORD_RUN) {
        return false;
    }
    if (walk->kind != RECORD_STEP) {
        return record_follows_step(walk);
    }
    if (walk->rolls || walk->last == UINT64_MAX || walk->step != walk->last + 1) {
        return false;
    }
    walk->any = true;
    walk->seen = 0;
    walk->rolls = record_value(walk->line, walk->length, "outcome", outcome, sizeof outcome) &&
                  strcmp(outcome, "rolled-back") == 0;
    return true;
}

/* Reads the line by its grammar, and gives it today's names. A run of format 1 that goes on has
 * lines by today's, and none by older names behind them. */
static bp_status record_read_grammar(record_walk *walk, bp_error *error)
{
    record_line line;
    const size_t chained = walk->length - walk->covered;
    bp_status status = record_line_read(walk->line, walk->length, walk->names, &line);
    if (status == BP_ERR_DATA && walk->names == RECORD_NAMES_OF_FORMAT_1) {
        status = record_line_read(walk->line, walk->length, RECORD_NAMES_OF_TODAY, &line);
        walk->names = RECORD_NAMES_OF_TODAY;
    }
    if (status == BP_ERR_DATA) {
        status = bp_error_limit(error, status, where,
                                "the line is none of a record (docs/record.md); line", line.member,
                                (int64_t)walk->number, BP_LIMIT_NONE, 0);
        bp_error_prefix(error, walk->path);
    }
    BP_TRY(status);
    walk->kind = line.kind;
    walk->step = line.step;
    if (walk->format == 1 || (walk->number == 1 && line.step == 1)) {
        BP_TRY(old_names_line(&walk->line, &walk->room, &walk->length));
        walk->covered = walk->length - chained;
    }
    return BP_OK;
}

bp_status record_walk_next(record_walk *walk, bool *more, bp_error *error)
{
    static const char stray[] = "the line does not follow the one before it; line";
    const bool ended = walk->number > 0 && walk->kind == RECORD_ENDED;
    BP_TRY(record_read_line(walk, more, error));
    if (!*more && !(ended && walk->torn)) {
        return BP_OK;
    }
    walk->number++;
    if (ended) {
        return record_wrong(walk, stray, error);
    }
    walk->offset += walk->length + 1;
    if (!record_chain_agrees(walk)) {
        return record_wrong(walk,
                            "the line's chain is not that of the lines up to it: it or an earlier "
                            "one was changed, or one is missing; line",
                            error);
    }
    BP_TRY(record_read_grammar(walk, error));
    if (!record_follows(walk)) {
        return record_wrong(walk, stray, error);
    }
    const uint64_t step = walk->number == 1 ? walk->from : walk->step;
    walk->last = walk->number == 1 || walk->kind == RECORD_STEP ? step : walk->last;
    const bool known = record_find_told(walk, step) < walk->told_count;
    const bool tells = walk->kind == RECORD_RUN || walk->kind == RECORD_STATE;
    return tells && !known ? record_keep(walk, step) : BP_OK;
}

/* Copies a value that fits. */
static void record_copy_text(char *to, size_t room, const bp_json_event *event)
{
    if (event->kind == BP_JSON_TEXT && event->length < room) {
        memcpy(to, event->text, event->length + 1);
    }
}

/* One member of an item: its key has just been read. */
static bp_status record_file_member(bp_json *json, const char *key, record_file *file)
{
    const bool name = strcmp(key, "name") == 0, bytes = strcmp(key, "bytes") == 0;
    const bool digest = strcmp(key, "sha256") == 0;
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    if (name) {
        record_copy_text(file->name, sizeof file->name, &event);
    } else if (digest) {
        record_copy_text(file->sha256, sizeof file->sha256, &event);
    } else if (bytes && event.integer && event.i64 >= 0) {
        file->bytes = (uint64_t)event.i64;
    }
    return BP_OK;
}

bp_status record_files_each(const char *line, size_t length, const char *list,
                            record_file_seen each, void *user)
{
    record_reading r;
    bp_json_event event;
    record_file file = {.bytes = 0};
    if (!record_reading_begin(&r, line, length) || !record_find(&r.json, list, &event)) {
        return BP_OK;
    }
    while (event.kind != BP_JSON_ARRAY_END) {
        BP_TRY(bp_json_next(&r.json, &event));
        if (event.kind == BP_JSON_OBJECT_BEGIN) {
            file = (record_file){.bytes = 0};
        } else if (event.kind == BP_JSON_KEY) {
            BP_TRY(record_file_member(&r.json, event.text, &file));
        } else if (event.kind == BP_JSON_OBJECT_END) {
            BP_TRY(each(user, &file));
        }
    }
    return BP_OK;
}

bp_status record_members_each(const char *line, size_t length, const char *object,
                              record_member_seen each, void *user)
{
    record_reading r;
    bp_json_event event;
    char key[128] = "";
    if (!record_reading_begin(&r, line, length) || !record_find(&r.json, object, &event)) {
        return BP_OK;
    }
    for (;;) {
        BP_TRY(bp_json_next(&r.json, &event));
        if (event.kind == BP_JSON_KEY && event.length < sizeof key) {
            memcpy(key, event.text, event.length + 1);
        } else if (event.kind == BP_JSON_TEXT) {
            BP_TRY(each(user, key, event.text));
        } else if (event.kind == BP_JSON_OBJECT_END || event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
    }
}
