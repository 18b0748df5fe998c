/* SPDX-License-Identifier: MIT */
/* A strict streaming JSON reader (RFC 8259): pull one event after the other, nothing allocated.
 *
 * It takes exactly the documents of the standard: no leading zeros, no trailing commas, no text
 * behind the value, only well-formed UTF-8 and paired surrogates. Depth, size, and the number of
 * keys are limited by what the caller gives, so a hostile file costs no more than a good one.
 *
 * Where the standard leaves the choice (the 35 cases i_ of JSONTestSuite, in
 * tests/fixtures/json/parsing.cases): integers beyond 64 bits are taken, as doubles, and so are
 * numbers too small for one, as zero. Refused are numbers above the largest double, half a pair of
 * surrogates, bytes that are not UTF-8, a byte order mark, UTF-16, and what is nested deeper than
 * max_depth. Keys that stand twice are refused where there is a set of keys. */
#ifndef BP_CORE_JSON_H
#define BP_CORE_JSON_H

#include "arena/base.h"
#include "core/base/error.h"

#define BP_JSON_DEPTH_MAX 64 /* containers that may be open at once */
#define BP_JSON_TEXT_MIN  64 /* least room for text, bytes */

typedef enum bp_json_kind {
    BP_JSON_OBJECT_BEGIN,
    BP_JSON_OBJECT_END,
    BP_JSON_ARRAY_BEGIN,
    BP_JSON_ARRAY_END,
    BP_JSON_KEY,       /* the value that belongs to it comes next */
    BP_JSON_TEXT_PART, /* the beginning of a string that is longer than the text room; more comes */
    BP_JSON_TEXT,      /* a string, or the last part of one */
    BP_JSON_NUMBER,
    BP_JSON_TRUE,
    BP_JSON_FALSE,
    BP_JSON_NULL,
    BP_JSON_END /* the document is complete; every further call says so again */
} bp_json_kind;

typedef struct bp_json_event {
    bp_json_kind kind;
    uint32_t depth;   /* containers open around the value, key, begin or end: 0 at the top */
    const char *text; /* KEY, TEXT_PART, TEXT: the decoded UTF-8, which may hold NUL; NUMBER: as
                         written. Terminated; valid until the next call. Otherwise "". */
    size_t length;    /* bytes at text, without the terminator */
    bool integer;     /* NUMBER: a plain integer that fits int64_t; see core/base/number.h */
    int64_t i64;
    double real;
} bp_json_event;

/* Gives the next bytes of the document, as many as it likes; *count = 0 at the end. The bytes stay
 * valid until the next call. A status other than BP_OK ends the reading and is passed on. */
typedef bp_status (*bp_json_fill)(void *user, const unsigned char **bytes, size_t *count);

typedef struct bp_json_source {
    bp_json_fill fill;
    void *user;
    uint64_t max_bytes; /* a longer document is refused */
} bp_json_source;

/* A document that lies in memory: bp_json_source{bp_json_span_fill, &span, span.length}. */
typedef struct bp_json_span {
    const void *bytes; /* taken by the first fill, NULL after it */
    size_t length;
} bp_json_span;

bp_status bp_json_span_fill(void *user, const unsigned char **bytes, size_t *count);

/* Memory the reader works in; all of it is the caller's and must outlive the reader.
 *
 * Duplicate keys are found with a set of 64-bit hashes (XXH64 of the decoded key, seeded with the
 * object's number), not of the keys themselves: no duplicate is ever missed, and a file without
 * one is refused with a probability below keys^2 / 2^65 (1 in 10^9 for 180,000 keys). */
typedef struct bp_json_memory {
    char *text;         /* a whole key or number, or a part of a string */
    size_t text_bytes;  /* BP_JSON_TEXT_MIN at least */
    void *keys;         /* 8-byte aligned; NULL leaves finding duplicate keys to the caller */
    size_t keys_bytes;  /* bp_json_keys_bytes(keys that may be open at once) */
    uint32_t max_depth; /* 1 ... BP_JSON_DEPTH_MAX */
} bp_json_memory;

/* Bytes that let `keys` keys be open at once (the keys so far of an object and of all objects
 * around it); BP_SIZE_INVALID when that overflows. About 20 to 40 bytes per key. */
uint64_t bp_json_keys_bytes(uint64_t keys);

/* A plain record; the fields are the reader's own. */
typedef struct bp_json {
    bp_json_source source;
    bp_error *error;
    bp_status status; /* the first failure sticks */
    const unsigned char *at;
    const unsigned char *end;
    uint64_t taken; /* bytes of all earlier fills */
    const unsigned char *start;
    char *text;
    size_t text_bytes;
    size_t text_used;
    uint64_t *slots; /* open addressing, 0 = empty */
    uint32_t *stack; /* the slots in use, in the order of their keys */
    uint32_t slot_count;
    uint32_t stack_used;
    uint32_t max_depth;
    uint32_t depth;
    uint32_t expect;
    uint64_t objects; /* objects begun so far: the hash seed */
    uint64_t kinds;   /* bit d: the container at depth d is an object */
    bool in_text;
    uint32_t key_mark[BP_JSON_DEPTH_MAX]; /* stack_used when the container was opened */
    uint64_t key_seed[BP_JSON_DEPTH_MAX]; /* the object's number */
} bp_json;

/* Starts reading. error may be NULL and must outlive the reader. BP_ERR_USAGE: memory outside the
 * bounds above. Clears the key set: O(keys_bytes). */
bp_status bp_json_init(bp_json *json, const bp_json_source *source, const bp_json_memory *memory,
                       bp_error *error) BP_MUST_CHECK;

/* The next event. BP_ERR_DATA: not JSON, or beyond a limit; the error names the byte offset.
 * BP_ERR_FIT: more keys open at once than the key set holds. Other statuses are the source's. After
 * a failure every call returns the same status. */
bp_status bp_json_next(bp_json *json, bp_json_event *event) BP_MUST_CHECK;

/* Reads past the value that comes next, whatever it is. Call it after a KEY. */
bp_status bp_json_skip(bp_json *json) BP_MUST_CHECK;

/* Fails the reading from outside: records `text` with the present byte offset as BP_ERR_DATA, for
 * consumers that find a well-formed document wrong. */
bp_status bp_json_refuse(bp_json *json, const char *text) BP_MUST_CHECK;

#endif
