/* SPDX-License-Identifier: MIT */
/* tekken.json, Mistral's own: byte-level tokens in the order in which they were found, which is the
 * order in which their pairs are joined (tiktoken), and special tokens in front of them.
 *
 * Its parts are read in the order in which they are written, each once:
 * config, vocab, special_tokens. */
#include <string.h>

#include "arena/text.h"
#include "tools/formats/text/token_load.h"
#include "tools/formats/text/token_table.h"

static bp_status tekken_refuse(bp_load *load, const char *name, const char *text)
{
    return bp_error_set(load->error, BP_ERR_DATA, "tekken.json", text, name);
}

/* Names of the special tokens of files that list none (mistral-common's tekken.py). */
static const char *const usual[] = {"<unk>",
                                    "<s>",
                                    "</s>",
                                    "[INST]",
                                    "[/INST]",
                                    "[AVAILABLE_TOOLS]",
                                    "[/AVAILABLE_TOOLS]",
                                    "[TOOL_RESULTS]",
                                    "[/TOOL_RESULTS]",
                                    "[TOOL_CALLS]",
                                    "[IMG]",
                                    "<pad>",
                                    "[IMG_BREAK]",
                                    "[IMG_END]",
                                    "[PREFIX]",
                                    "[MIDDLE]",
                                    "[SUFFIX]",
                                    "[SYSTEM_PROMPT]",
                                    "[/SYSTEM_PROMPT]",
                                    "[TOOL_CONTENT]"};
#define USUAL (sizeof usual / sizeof usual[0])

/* One reading. */
typedef struct tekken {
    bp_load *load;
    int64_t size;     /* ids in all */
    int64_t specials; /* of which so many come first */
    int64_t found;    /* tokens of vocab */
    int64_t named;    /* special tokens of the file */
} tekken;

static bp_status take_number(tekken *k, const char *key, int64_t *value)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&k->load->json, &event));
    if (event.kind != BP_JSON_NUMBER || !event.integer || event.i64 < 0 ||
        event.i64 > BP_TOKENIZER_TOKENS_MAX) {
        return tekken_refuse(k->load, key, "this must be a whole number of tokens");
    }
    *value = event.i64;
    return BP_OK;
}

static bp_status tekken_config(tekken *k)
{
    bp_json_event event;
    bool split = false;
    bp_token_rules rules = {.kind = BP_TOKENIZER_BYTE_BPE,
                            .prefix = BP_PREFIX_NEVER,
                            .plain = true,
                            .ranked = true,
                            .ignore_merges = true};
    BP_TRY(bp_json_next(&k->load->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return tekken_refuse(k->load, "config", "this part must be an object");
    }
    for (;;) {
        BP_TRY(bp_json_next(&k->load->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            break;
        }
        if (strcmp(event.text, "pattern") == 0) {
            BP_TRY(bp_json_next(&k->load->json, &event));
            split = event.kind == BP_JSON_TEXT && bp_token_rules_pattern(event.text, &rules.split);
            if (!split) {
                return tekken_refuse(k->load, "config.pattern", "this pattern is not implemented");
            }
        } else if (strcmp(event.text, "default_vocab_size") == 0) {
            BP_TRY(take_number(k, "config.default_vocab_size", &k->size));
        } else if (strcmp(event.text, "default_num_special_tokens") == 0) {
            BP_TRY(take_number(k, "config.default_num_special_tokens", &k->specials));
        } else {
            BP_TRY(bp_json_skip(&k->load->json));
        }
    }
    if (!split || k->size <= k->specials || k->specials < (int64_t)USUAL) {
        return tekken_refuse(k->load, "config",
                             "it needs a pattern, and fewer special tokens than tokens");
    }
    if (k->load->pass == BP_LOAD_COUNT) {
        k->load->rules = rules;
    }
    return BP_OK;
}

/* A token of so many bytes, which are in scratch->token. */
static bp_status add_token(tekken *k, size_t length)
{
    bp_load *load = k->load;
    const int64_t id = k->found++ + k->specials;
    if (load->pass == BP_LOAD_COUNT) {
        return bp_load_token(load, "", length, id);
    }
    return bp_token_add(load->tokenizer, load->scratch->token, length, (uint32_t)id, true,
                        load->error);
}

/* {"rank": .., "token_bytes": .., ..} behind its brace; those beyond the vocabulary's size are
 * read and left. */
static bp_status take_token(tekken *k)
{
    bp_load *load = k->load;
    bp_json_event event;
    int64_t rank = -1;
    size_t length = 0;
    for (;;) {
        BP_TRY(bp_json_next(&load->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            break;
        }
        if (strcmp(event.text, "rank") == 0) {
            BP_TRY(take_number(k, "vocab.rank", &rank));
        } else if (strcmp(event.text, "token_bytes") == 0) {
            bp_base64 state = {.count = 0};
            BP_TRY(bp_json_next(&load->json, &event));
            if (event.kind != BP_JSON_TEXT || event.length >= BP_TOKENIZER_DECODED_MAX) {
                return tekken_refuse(load, "vocab.token_bytes", "this must be a text in base64");
            }
            length = bp_base64_decode(&state, event.text, event.length,
                                      (unsigned char *)load->scratch->token);
            if (state.wrong) {
                return tekken_refuse(load, "vocab.token_bytes", "this must be a text in base64");
            }
        } else {
            BP_TRY(bp_json_skip(&load->json));
        }
    }
    if (k->found >= k->size - k->specials) {
        return BP_OK;
    }
    if (rank != k->found || length == 0) {
        return bp_error_numbers(load->error, BP_ERR_DATA, "tekken.json",
                                "tokens need bytes and ranks from 0 on (found the rank, and the "
                                "next one)",
                                "vocab", rank, k->found);
    }
    return add_token(k, length);
}

static bp_status tekken_vocab(tekken *k)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&k->load->json, &event));
    if (event.kind != BP_JSON_ARRAY_BEGIN || k->size == 0) {
        return tekken_refuse(k->load, "vocab", "this part must be a list behind config");
    }
    for (;;) {
        BP_TRY(bp_json_next(&k->load->json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            break;
        }
        if (event.kind != BP_JSON_OBJECT_BEGIN) {
            return tekken_refuse(k->load, "vocab", "a token must be an object");
        }
        BP_TRY(take_token(k));
    }
    return k->found == k->size - k->specials
               ? BP_OK
               : bp_error_numbers(k->load->error, BP_ERR_DATA, "tekken.json",
                                  "there are fewer tokens than config declares", "vocab", k->found,
                                  k->size - k->specials);
}

static bp_status add_named(tekken *k, const char *text, size_t length)
{
    const int64_t id = k->named++;
    return bp_load_added(k->load, text, length, id, BP_ADDED_SPECIAL, false);
}

/* {"rank": .., "token_str": .., ..} behind its brace. */
static bp_status take_special(tekken *k)
{
    bp_load *load = k->load;
    bp_json_event event;
    int64_t rank = -1;
    size_t length = 0;
    char text[256];
    for (;;) {
        BP_TRY(bp_json_next(&load->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            break;
        }
        if (strcmp(event.text, "rank") == 0) {
            BP_TRY(take_number(k, "special_tokens.rank", &rank));
        } else if (strcmp(event.text, "token_str") == 0) {
            BP_TRY(bp_json_next(&load->json, &event));
            length = event.kind == BP_JSON_TEXT && event.length < sizeof text ? event.length : 0;
            memcpy(text, event.text, length);
            text[length] = '\0';
        } else {
            BP_TRY(bp_json_skip(&load->json));
        }
    }
    if (rank != k->named || rank >= k->specials || length == 0) {
        return bp_error_numbers(load->error, BP_ERR_DATA, "tekken.json",
                                "special tokens need texts and ranks from 0 on (found the rank, "
                                "and the next one)",
                                "special_tokens", rank, k->named);
    }
    return add_named(k, text, length);
}

static bp_status tekken_specials(tekken *k)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&k->load->json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_ARRAY_BEGIN || k->found == 0) {
        return tekken_refuse(k->load, "special_tokens", "this part must be a list behind vocab");
    }
    for (;;) {
        BP_TRY(bp_json_next(&k->load->json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        if (event.kind != BP_JSON_OBJECT_BEGIN) {
            return tekken_refuse(k->load, "special_tokens", "a token must be an object");
        }
        BP_TRY(take_special(k));
    }
}

/* The names that a file leaves out, and <SPECIAL_12>, .. behind them. */
static bp_status name_rest(tekken *k)
{
    for (size_t i = 0; k->named == (int64_t)i && i < USUAL; i++) {
        BP_TRY(add_named(k, usual[i], strlen(usual[i])));
    }
    while (k->named < k->specials) {
        char name[32];
        bp_text text;
        bp_text_init(&text, NULL, NULL, name, sizeof name);
        bp_text_string(&text, "<SPECIAL_");
        bp_text_u64(&text, (uint64_t)k->named);
        bp_text_char(&text, '>');
        BP_TRY(bp_text_flush(&text));
        BP_TRY(add_named(k, name, (size_t)text.written));
    }
    return BP_OK;
}

static bp_status tekken_once(tekken *k, const char *key, bool seen, bp_status (*read)(tekken *k))
{
    return seen ? tekken_refuse(k->load, key, "a key is there twice") : read(k);
}

bp_status bp_load_tekken(bp_load *load)
{
    tekken k = {.load = load};
    bp_json_event event;
    if (load->pass == BP_LOAD_MERGES) {
        return BP_OK;
    }
    BP_TRY(bp_load_json_begin(load));
    BP_TRY(bp_json_next(&load->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&load->json, "the file must hold one JSON object");
    }
    for (;;) {
        BP_TRY(bp_json_next(&load->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            break;
        }
        if (strcmp(event.text, "config") == 0) {
            BP_TRY(tekken_once(&k, "config", k.size > 0, tekken_config));
        } else if (strcmp(event.text, "vocab") == 0) {
            BP_TRY(tekken_once(&k, "vocab", k.found > 0, tekken_vocab));
        } else if (strcmp(event.text, "special_tokens") == 0) {
            BP_TRY(tekken_once(&k, "special_tokens", k.named > 0, tekken_specials));
        } else {
            BP_TRY(bp_json_skip(&load->json));
        }
    }
    BP_TRY(bp_json_next(&load->json, &event)); /* nothing but the end */
    return k.found > 0 ? name_rest(&k) : tekken_refuse(load, "vocab", "this part is missing");
}
