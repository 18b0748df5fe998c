/* SPDX-License-Identifier: MIT */
/* Finding and loading a tokenizer. */
#include "tools/bedplate/models/run_tokenizer.h"

#include <string.h>

#include "core/base/storage.h"
#include "tools/bedplate/models/end_tokens.h"
#include "tools/formats/text/byte_tokenizer.h"
#include "tools/formats/data/data_tokenise.h"

#define ALIGNMENT 64

static const char where[] = "tokenizer";

/* Whether the directory's tokenizer.json is the one that models over bytes are written with. */
static bool is_byte_tokenizer(bp_store *store, const char *directory)
{
    static char right[BP_BYTE_TOKENIZER_TEXT];
    static char found[BP_BYTE_TOKENIZER_TEXT];
    char path[BP_STORE_PATH_MAX];
    size_t right_length;
    size_t length;
    return bp_byte_tokenizer_text(right, &right_length) == BP_OK &&
           bp_storage_join(path, directory, "tokenizer.json", NULL) == BP_OK &&
           bp_storage_read_file(store, path, found, sizeof found, &length, NULL) == BP_OK &&
           length == right_length && memcmp(found, right, length) == 0;
}

/* Of OUT/checkpoint-8 the directory OUT, into which training copies the tokenizer. */
static bool around_checkpoint(const char *path, char around[BP_STORE_PATH_MAX])
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    size_t name = length;
    while (name > 0 && path[name - 1] != '/') {
        name--;
    }
    bool checkpoint = length - name > 11 && strncmp(path + name, "checkpoint-", 11) == 0;
    if (!checkpoint || name >= BP_STORE_PATH_MAX) {
        return false;
    }
    memcpy(around, path, name);
    around[name] = '\0';
    if (name == 0) {
        memcpy(around, ".", 2);
    }
    return true;
}

static bp_status check_size(const run_tokenizer *c, const run_tokenizer_ask *ask)
{
    if (c->need.tokens > ask->config->vocabulary) {
        return bp_error_limit(ask->error, BP_ERR_DATA, where,
                              "the tokenizer has more tokens than the model's vocabulary",
                              c->directory, c->need.tokens, BP_LIMIT_MOST, ask->config->vocabulary);
    }
    return BP_OK;
}

/* Looks in one directory; c->kind says what is there. */
static bp_status look_in(run_tokenizer *c, const run_tokenizer_ask *ask, const char *directory)
{
    memory_block scratch;
    c->kind = TOKENIZER_NONE;
    if (strlen(directory) >= sizeof c->directory) {
        return BP_OK;
    }
    memcpy(c->directory, directory, strlen(directory) + 1);
    if (is_byte_tokenizer(ask->store, directory)) {
        c->kind = TOKENIZER_BYTES;
        return BP_OK;
    }
    BP_TRY(memory_take(&scratch, BP_TOKENIZER_SCRATCH, false, "host memory", ask->error));
    bp_status status =
        bp_tokenizer_measure(ask->store, directory, scratch.address, &c->need, ask->error);
    memory_give_back(&scratch);
    if (status == BP_OK && c->need.files != BP_TOKENIZER_NONE) {
        c->kind = TOKENIZER_TOKENIZER;
        status = check_size(c, ask);
    }
    return status;
}

static bp_status look(run_tokenizer *c, const run_tokenizer_ask *ask)
{
    char around[BP_STORE_PATH_MAX];
    const char *given = ask->set->tokenizer;
    if (given != NULL) {
        BP_TRY(look_in(c, ask, given));
        if (c->kind == TOKENIZER_NONE) {
            return bp_error_set(ask->error, BP_ERR_DATA, where,
                                "the directory holds no tokenizer (tokenizer.json, vocab.json with "
                                "merges.txt, or vocab.txt)",
                                given);
        }
        return BP_OK;
    }
    if (ask->directory) {
        BP_TRY(look_in(c, ask, ask->set->model));
    }
    if (ask->directory && c->kind == TOKENIZER_NONE && around_checkpoint(ask->set->model, around)) {
        BP_TRY(look_in(c, ask, around));
    }
    return BP_OK;
}

static uint64_t scratch_bytes(void)
{
    return BP_TOKENISE_SCRATCH > BP_TOKENIZER_SCRATCH ? BP_TOKENISE_SCRATCH : BP_TOKENIZER_SCRATCH;
}

/* Which tokens end a text: what is said beside the tokenizer, then of the model, goes before what
 * the tokenizer itself says. */
static bp_status find_ends(run_tokenizer *c, const run_tokenizer_ask *ask)
{
    const bp_model_config *config = ask->config;
    const bool other = ask->set->tokenizer != NULL || config->family == NULL;
    const char *model = ask->directory ? ask->set->model : NULL;
    end_tokens ends;
    BP_TRY(end_tokens_read(&ends, ask->store, c->directory, END_TOKENS_FILE, ask->error));
    if (!ends.given && other) {
        BP_TRY(end_tokens_read(&ends, ask->store, c->directory, "config.json", ask->error));
    }
    if (!ends.given && model != NULL) {
        BP_TRY(end_tokens_read(&ends, ask->store, model, END_TOKENS_FILE, ask->error));
    }
    c->ends_given = ends.given;
    if (ends.given) {
        c->end_count = ends.count;
        memcpy(c->end, ends.id, sizeof c->end);
    } else if (ask->directory && config->eos_token >= 0) {
        c->end[c->end_count++] = config->eos_token;
        for (uint32_t i = 0; i < config->more_eos_count; i++) {
            c->end[c->end_count++] = config->more_eos[i];
        }
    }
    return BP_OK;
}

bp_status run_tokenizer_find(run_tokenizer *c, const run_tokenizer_ask *ask)
{
    if (c->bytes > 0) {
        return BP_OK;
    }
    *c = (run_tokenizer){.kind = TOKENIZER_NONE};
    BP_TRY(look(c, ask));
    BP_TRY(find_ends(c, ask));
    uint32_t vocabulary = ask->config->vocabulary;
    bool random = !ask->weights && vocabulary > BP_BYTE_VOCABULARY;
    if (c->kind == TOKENIZER_NONE && (vocabulary == BP_BYTE_VOCABULARY || random)) {
        c->kind = TOKENIZER_BYTES;
    }
    c->bytes = scratch_bytes();
    if (c->kind == TOKENIZER_TOKENIZER) {
        c->bytes = bp_size_add(c->bytes, bp_size_align(c->need.bytes, ALIGNMENT));
        c->bytes = bp_size_add(c->bytes, bp_encoder_bytes(BP_ENCODER_WORD_BYTES));
    }
    return BP_OK;
}

bp_status run_tokenizer_open(run_tokenizer *c, const run_tokenizer_ask *ask)
{
    if (c->block.address != NULL) {
        return BP_OK;
    }
    BP_TRY(memory_take(&c->block, c->bytes, false, "tokenizer memory", ask->error));
    memory_resolve(&c->block); /* planned as a whole, so that it is there as a whole */
    char *at = c->block.address;
    c->scratch = at;
    if (c->kind != TOKENIZER_TOKENIZER) {
        return BP_OK;
    }
    at += scratch_bytes();
    char *room = at + bp_size_align(c->need.bytes, ALIGNMENT);
    BP_TRY(bp_tokenizer_open(&c->tokenizer, ask->store, c->directory, &c->need, at, c->scratch,
                             ask->error));
    return bp_encoder_init(&c->encoder, &c->tokenizer, BP_ENCODER_WORD_BYTES, room);
}

void run_tokenizer_close(run_tokenizer *c)
{
    memory_give_back(&c->block);
}

int64_t run_tokenizer_end_of(const run_tokenizer *c, const bp_tokenizer_special *special,
                             const bp_model_config *config)
{
    int64_t own = special->eos_guessed && config->eos_token >= 0 ? -1 : special->eos;
    bool listed = c->end_count == 0;
    for (uint32_t i = 0; i < c->end_count; i++) {
        listed = listed || c->end[i] == own;
    }
    own = listed ? own : c->end[0];
    if (own < 0) {
        own = config->eos_token;
    }
    return own < (int64_t)config->vocabulary ? own : -1;
}

int64_t run_tokenizer_end_token(const run_tokenizer *c, const bp_model_config *config)
{
    static const bp_tokenizer_special none = {-1, -1, -1, -1, -1, -1, -1, false, false, false};
    return run_tokenizer_end_of(
        c, c->kind == TOKENIZER_TOKENIZER ? bp_tokenizer_special_of(&c->tokenizer) : &none, config);
}

bool run_tokenizer_ends(const run_tokenizer *c, const bp_model_config *config, uint32_t id)
{
    bool ends =
        (int64_t)id == config->eos_token || (int64_t)id == run_tokenizer_end_token(c, config);
    for (uint32_t i = 0; i < config->more_eos_count; i++) {
        ends = ends || (int64_t)id == config->more_eos[i];
    }
    return ends;
}
