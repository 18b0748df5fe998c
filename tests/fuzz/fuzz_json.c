/* SPDX-License-Identifier: MIT */
/* libFuzzer target: the JSON reader on any bytes, whole and in chunks, must come to one answer. */
#include <stdlib.h>

#include "core/base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* A document in chunks of a fixed size. */
typedef struct json_chunks {
    const uint8_t *bytes;
    size_t left;
    size_t chunk;
} json_chunks;

static bp_status fill_chunk(void *user, const unsigned char **bytes, size_t *count)
{
    json_chunks *chunks = user;
    *bytes = chunks->bytes;
    *count = chunks->left < chunks->chunk ? chunks->left : chunks->chunk;
    chunks->bytes += *count;
    chunks->left -= *count;
    return BP_OK;
}

/* What a reading gave, as a number that depends on every event. */
typedef struct json_result {
    bp_status status;
    uint64_t events;
} json_result;

static uint64_t mix(uint64_t sum, uint64_t value)
{
    return (sum ^ value) * 0x9e3779b97f4a7c15u;
}

static json_result read_in_chunks(const uint8_t *bytes, size_t size, size_t chunk)
{
    json_chunks chunks = {bytes, size, chunk};
    char text[BP_JSON_TEXT_MIN];
    uint64_t keys[400];
    bp_json_source source = {fill_chunk, &chunks, 1u << 20};
    bp_json_memory memory = {text, sizeof text, keys, sizeof keys, 16};
    bp_error error = {.code = BP_OK};
    bp_json json;
    json_result result = {bp_json_init(&json, &source, &memory, &error), 0};
    bp_json_event event = {.kind = BP_JSON_NULL};
    while (result.status == BP_OK && event.kind != BP_JSON_END) {
        result.status = bp_json_next(&json, &event);
        if (event.depth > 16 || event.length >= sizeof text || event.text[event.length] != '\0') {
            abort();
        }
        result.events = mix(result.events, (uint64_t)event.kind + event.depth * 16u);
        for (size_t i = 0; i < event.length; i++) {
            result.events = mix(result.events, (unsigned char)event.text[i]);
        }
    }
    if (result.status != error.code || (result.status == BP_OK && json.stack_used != 0)) {
        abort();
    }
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const size_t chunk_sizes[] = {1, 3, 16};
    json_result whole = read_in_chunks(bytes, size, size + 1);
    for (size_t i = 0; i < 3; i++) {
        json_result parts = read_in_chunks(bytes, size, chunk_sizes[i]);
        if (parts.status != whole.status || parts.events != whole.events) {
            abort();
        }
    }
    return 0;
}
