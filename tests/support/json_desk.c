/* SPDX-License-Identifier: MIT */
/* The JSON desk. */
#include "tests/support/json_desk.h"

#include <string.h>

bp_status json_desk_open(json_desk *desk, const char *document, size_t length)
{
    *desk = (json_desk){.span = {document, length}};
    bp_json_source source = {bp_json_span_fill, &desk->span, 1u << 20};
    bp_json_memory memory = {desk->text, sizeof desk->text, desk->keys, sizeof desk->keys,
                             BP_JSON_DEPTH_MAX};
    return bp_json_init(&desk->json, &source, &memory, &desk->error);
}

static bp_status fill_one_byte(void *user, const unsigned char **bytes, size_t *count)
{
    json_desk *desk = user;
    *bytes = desk->rest;
    *count = desk->left > 0 ? 1 : 0;
    desk->rest += *count;
    desk->left -= *count;
    return BP_OK;
}

bp_status json_desk_open_by_bytes(json_desk *desk, const char *document, size_t length)
{
    bp_status status = json_desk_open(desk, document, length);
    desk->rest = (const unsigned char *)document;
    desk->left = length;
    desk->json.source.fill = fill_one_byte;
    desk->json.source.user = desk;
    return status;
}

bp_status json_desk_drain(json_desk *desk)
{
    bp_json_event event;
    do {
        BP_TRY(bp_json_next(&desk->json, &event));
    } while (event.kind != BP_JSON_END);
    return BP_OK;
}

bp_status json_desk_check(const char *document, size_t length)
{
    json_desk desk;
    BP_TRY(json_desk_open(&desk, document, length));
    bp_status whole = json_desk_drain(&desk);
    bp_error error = desk.error;
    BP_TRY(json_desk_open_by_bytes(&desk, document, length));
    bp_status parts = json_desk_drain(&desk);
    bool same =
        whole == parts && strcmp(error.name, desk.error.name) == 0 && error.text == desk.error.text;
    return same ? whole : BP_ERR_INTERNAL;
}
