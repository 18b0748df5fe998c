/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a chat template, and behind the first NUL as the values it is
 * given: it comes to an end, and what it writes lies inside what it may write. */
#include <stdlib.h>
#include <string.h>

#include "tools/formats/chat/jinja.h"
#include "tools/formats/chat/jinja_json.h"
#include "tools/formats/unicode/unicode.h"

enum { ROOM = 1 << 21, TEXT = 1 << 14, SPANS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Templates are valid UTF-8: whoever reads them sees to that. */
static bool is_clean(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] >= 0x80) {
            return false;
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char talk[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a b\"}, {\"role\": "
        "\"assistant\", \"content\": \"c\"}], \"eos_token\": \"</s>\"}";
    static char memory[ROOM + 16];
    static char text[TEXT];
    static bp_jinja_span spans[SPANS];
    bp_error error = {.code = BP_OK};
    bp_jinja_program program;
    bp_jinja_value variables;
    const uint8_t *end = memchr(bytes, '\0', size);
    const size_t length = end != NULL ? (size_t)(end - bytes) : size;
    const char *values = end != NULL ? (const char *)end + 1 : talk;
    const size_t rest = end != NULL ? size - length - 1 : sizeof talk - 1;
    bp_jinja_room room = {memory + (16 - (uintptr_t)memory % 16) % 16, ROOM, 0, &error};
    if (!is_clean(bytes, length) ||
        bp_jinja_compile(&program, &room, (const char *)bytes, length) != BP_OK ||
        bp_jinja_json_bytes(&room, values, rest, &variables) != BP_OK ||
        variables.kind != BP_JINJA_DICT) {
        return 0;
    }
    bp_jinja_render render = {.program = &program,
                              .room = &room,
                              .variables = &variables,
                              .now = {2024, 7, 26, 0, 0, 0},
                              .out = text,
                              .out_room = TEXT,
                              .spans = spans,
                              .span_room = SPANS};
    bp_status status = bp_jinja_run(&render);
    if (render.length > TEXT || render.span_count > SPANS ||
        (status != BP_OK) != (error.code != BP_OK)) {
        abort();
    }
    return 0;
}
