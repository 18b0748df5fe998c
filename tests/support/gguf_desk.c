/* SPDX-License-Identifier: MIT */
/* Writing, opening and reading back the file. */
#include "tests/support/gguf_desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

bp_status gguf_desk_put(tokenizer_desk *d, const bp_model_config *config)
{
    static uint32_t order[8192];
    static char text[BP_GGUF_TOKENIZER_TEXT];
    bp_gguf_writer w;
    bp_gguf_tokenizer g = {&d->tokenizer, config, order, text, &d->error};
    d->error = (bp_error){.code = BP_OK};
    assert_true(bp_gguf_tokenizer_room(&d->tokenizer) <= 8192);
    assert_int_equal(bp_gguf_begin(&w, &d->memory.store, "g", &d->error), BP_OK);
    const bp_status status = bp_gguf_put_tokenizer(&g, &w);
    if (status != BP_OK) {
        bp_gguf_abandon(&w);
        return status;
    }
    if (config->bos_token >= 0) { /* as bp_gguf_export does */
        bp_gguf_put_u32(&w, "tokenizer.ggml.bos_token_id", (uint32_t)config->bos_token);
    }
    if (config->eos_token >= 0) {
        bp_gguf_put_u32(&w, "tokenizer.ggml.eos_token_id", (uint32_t)config->eos_token);
    }
    assert_int_equal(bp_gguf_data(&w), BP_OK);
    return bp_gguf_end(&w);
}

void gguf_desk_open(tokenizer_desk *d, bp_gguf_file *file)
{
    static uint64_t tables[65536];
    bp_staging room = {tables, sizeof tables};
    assert_int_equal(bp_gguf_open(file, &d->memory.store, "g", &room, &d->error), BP_OK);
}

void gguf_desk_has(tokenizer_desk *d, uint32_t id, const char *text, int32_t type)
{
    bp_gguf_file file;
    bp_gguf_items tokens, types;
    char found[256];
    size_t length = 0;
    int32_t kind = 0;
    gguf_desk_open(d, &file);
    assert_int_equal(bp_gguf_items_begin(&tokens, &file, "tokenizer.ggml.tokens", BP_GGUF_STRING),
                     BP_OK);
    assert_int_equal(bp_gguf_items_begin(&types, &file, "tokenizer.ggml.token_type", BP_GGUF_I32),
                     BP_OK);
    for (uint32_t i = 0; i <= id; i++) {
        assert_int_equal(bp_gguf_items_string(&tokens, found, sizeof found, &length), BP_OK);
        assert_int_equal(bp_gguf_items_i32(&types, &kind), BP_OK);
    }
    found[length] = '\0';
    assert_string_equal(found, text);
    assert_int_equal(kind, type);
    assert_int_equal(bp_gguf_close(&file), BP_OK);
}

int gguf_desk_says(tokenizer_desk *d, const char *name)
{
    bp_gguf_file file;
    gguf_desk_open(d, &file);
    const bp_gguf_key *key = bp_gguf_find(&file, name);
    const int found = key == NULL ? -1 : key->bits != 0;
    assert_int_equal(bp_gguf_close(&file), BP_OK);
    return found;
}

typedef struct kept {
    char *text;
    size_t used, room;
} kept;

static bp_status keep_text(void *user, const char *bytes, size_t count)
{
    kept *k = user;
    assert_true(k->used + count < k->room);
    memcpy(k->text + k->used, bytes, count);
    k->used += count;
    k->text[k->used] = '\0';
    return BP_OK;
}

bp_status gguf_desk_json(tokenizer_desk *d, char *text, size_t room)
{
    bp_gguf_file file;
    kept k = {text, 0, room};
    text[0] = '\0';
    gguf_desk_open(d, &file);
    void *scratch = malloc((size_t)bp_gguf_tokenizer_scratch(&file));
    assert_non_null(scratch);
    const bp_status status = bp_gguf_tokenizer_json(&file, scratch, keep_text, &k, &d->error);
    free(scratch);
    assert_int_equal(bp_gguf_close(&file), BP_OK);
    return status;
}
