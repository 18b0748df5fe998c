/* SPDX-License-Identifier: MIT */
/* A JSON reader over a document, with everything it needs. */
#ifndef BP_TESTS_SUPPORT_JSON_DESK_H
#define BP_TESTS_SUPPORT_JSON_DESK_H

#include "core/file/json.h"

enum { JSON_DESK_KEYS = 64 };

typedef struct json_desk {
    bp_json json;
    bp_error error;
    bp_json_span span;
    char text[BP_JSON_TEXT_MIN];
    uint64_t keys[JSON_DESK_KEYS * 20 / 8];
    const unsigned char *rest; /* of a document given byte by byte */
    size_t left;
} json_desk;

/* Starts reading a document: whole, or one byte after the other. */
bp_status json_desk_open(json_desk *desk, const char *document, size_t length);
bp_status json_desk_open_by_bytes(json_desk *desk, const char *document, size_t length);

/* Reads to the end; the status of the first failure. */
bp_status json_desk_drain(json_desk *desk);

/* Reads a document both ways, which must give the same status and the same error. */
bp_status json_desk_check(const char *document, size_t length);

#endif
