/* SPDX-License-Identifier: MIT */
/* Opening, encoding and refusing, for the tests of tokenizers. */
#include "tests/support/tokenizer_desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t desk_scratch[BP_TOKENIZER_SCRATCH / 8];

void desk_init(tokenizer_desk *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
}

void desk_free(tokenizer_desk *d)
{
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d->tables);
    free(d->work);
}

void desk_put(tokenizer_desk *d, const char *name, const char *text)
{
    memory_store_put(&d->memory, name, text, strlen(text));
}

/* Measures and opens in memory of exactly the size that was measured. */
bp_status desk_open_with(tokenizer_desk *d, bp_store *store)
{
    d->error = (bp_error){.code = BP_OK};
    free(d->tables);
    d->tables = NULL;
    BP_TRY(bp_tokenizer_measure(store, "", desk_scratch, &d->need, &d->error));
    assert_int_not_equal(d->need.files, BP_TOKENIZER_NONE);
    d->tables = malloc((size_t)d->need.bytes);
    return bp_tokenizer_open(&d->tokenizer, store, "", &d->need, d->tables, desk_scratch,
                             &d->error);
}

bp_status desk_open(tokenizer_desk *d)
{
    return desk_open_with(d, &d->memory.store);
}

void desk_encoder(tokenizer_desk *d, uint32_t word_bytes)
{
    free(d->work);
    d->work = malloc((size_t)bp_encoder_bytes(word_bytes));
    assert_int_equal(bp_encoder_init(&d->encoder, &d->tokenizer, word_bytes, d->work), BP_OK);
}

void desk_encode(tokenizer_desk *d, const char *text, unsigned flags)
{
    bp_encoder_text(&d->encoder, text, strlen(text), flags, d->ids, IDS, &d->count);
    assert_true(d->count <= IDS);
}

/* Byte-level tokens 0 .. 255 and more of them, some settings, some merges. */
const char *desk_bpe(const char *settings, const char *more, const char *merges)
{
    static char json[JSON_MAX];
    size_t at =
        (size_t)snprintf(json, sizeof json, "{%s\"model\":{\"type\":\"BPE\",\"vocab\":{", settings);
    unsigned next = 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool prints = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        unsigned c = prints ? byte : next++;
        char utf8[3] = {(char)c, 0, 0};
        if (c >= 0x80) {
            utf8[0] = (char)(0xc0 | c >> 6);
            utf8[1] = (char)(0x80 | (c & 0x3f));
        }
        at += (size_t)snprintf(json + at, sizeof json - at, "%s\"%s%s\":%u", byte > 0 ? "," : "",
                               c == '"' || c == '\\' ? "\\" : "", utf8, byte);
    }
    snprintf(json + at, sizeof json - at, "%s},\"merges\":[%s]}}", more, merges);
    return json;
}

void desk_refused(tokenizer_desk *d, const char *wanted)
{
    char message[512];
    assert_int_equal(desk_open(d), BP_ERR_DATA);
    assert_int_equal(d->error.code, BP_ERR_DATA);
    snprintf(message, sizeof message, "%s: %s", d->error.name, d->error.text);
    if (strstr(message, wanted) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", message, wanted);
    }
}
