/* SPDX-License-Identifier: MIT */
/* tiktoken's file of Llama 3, a tokenizer.model too: a line is a byte-level token in base64 and its
 * rank, which is its id and the order in which pairs are joined. Its special tokens stand in no
 * file: 256 behind the others, by the names that Llama 3.1 and later give them. */
#include "tools/formats/text/token_ranks.h"

#include <string.h>

#include "arena/text.h"
#include "tools/formats/text/token_table.h"

#define SPECIALS 256

/* Of the first; the others are reserved ones, counted on from the last of these. */
static const char *const named[] = {"<|begin_of_text|>",
                                    "<|end_of_text|>",
                                    "<|reserved_special_token_0|>",
                                    "<|reserved_special_token_1|>",
                                    "<|finetune_right_pad_id|>",
                                    "<|reserved_special_token_2|>",
                                    "<|start_header_id|>",
                                    "<|end_header_id|>",
                                    "<|eom_id|>",
                                    "<|eot_id|>",
                                    "<|python_tag|>"};
#define NAMED    (sizeof named / sizeof named[0])
#define RESERVED 3 /* of which so many are reserved */

static bp_status ranks_refuse(bp_load *load, int64_t line)
{
    return bp_error_numbers(load->error, BP_ERR_DATA, "tokenizer",
                            "this is neither a model of SentencePiece nor tiktoken's, in which a "
                            "line is a token in base64, a space and its rank, from 0 on (found the "
                            "token's number, and the rank due)",
                            "ranks", line + 1, line);
}

bp_status bp_load_is_ranks(bp_load *load, bool *ranks)
{
    uint8_t first;
    bool there;
    BP_TRY(bp_load_byte(load, &first, &there));
    load->line_at -= there ? 1 : 0;
    *ranks = there && first > ' ' && first < 0x7f;
    return BP_OK;
}

/* A line's token in scratch->token, if its rank is `rank`. */
static bool take_line(bp_load *load, size_t length, int64_t rank, size_t *bytes)
{
    const char *line = load->scratch->text;
    const char *space = memchr(line, ' ', length);
    bp_base64 state = {.count = 0};
    int64_t found = 0;
    if (space == NULL || space == line || length - (size_t)(space - line) > 9 || space[1] == '\0' ||
        (size_t)(space - line) / 4 * 3 >= BP_TOKENIZER_DECODED_MAX) {
        return false;
    }
    for (const char *at = space + 1; at < line + length; at++) {
        if (*at < '0' || *at > '9') {
            return false;
        }
        found = 10 * found + (*at - '0');
    }
    *bytes = bp_base64_decode(&state, line, (size_t)(space - line),
                              (unsigned char *)load->scratch->token);
    return !state.wrong && *bytes > 0 && found == rank;
}

static bp_status add_specials(bp_load *load, int64_t first)
{
    for (size_t i = 0; i < SPECIALS; i++) {
        char name[64];
        bp_text text;
        bp_text_init(&text, NULL, NULL, name, sizeof name);
        if (i < NAMED) {
            bp_text_string(&text, named[i]);
        } else {
            bp_text_string(&text, "<|reserved_special_token_");
            bp_text_u64(&text, i - NAMED + RESERVED);
            bp_text_string(&text, "|>");
        }
        BP_TRY(bp_text_flush(&text));
        BP_TRY(
            bp_load_added(load, name, strlen(name), first + (int64_t)i, BP_ADDED_SPECIAL, false));
    }
    return BP_OK;
}

bp_status bp_load_ranks(bp_load *load)
{
    int64_t rank = 0;
    if (load->pass == BP_LOAD_MERGES) {
        return BP_OK;
    }
    if (load->pass == BP_LOAD_COUNT) {
        load->rules = (bp_token_rules){.kind = BP_TOKENIZER_BYTE_BPE,
                                       .split = BP_SPLIT_LLAMA3,
                                       .prefix = BP_PREFIX_NEVER,
                                       .plain = true,
                                       .ranked = true,
                                       .ignore_merges = true};
    }
    for (;;) {
        size_t length, bytes;
        bool there;
        BP_TRY(bp_load_line(load, &length, &there));
        if (!there) {
            break;
        }
        if (length == 0) {
            continue;
        }
        if (!take_line(load, length, rank, &bytes)) {
            return ranks_refuse(load, rank);
        }
        BP_TRY(load->pass == BP_LOAD_COUNT
                   ? bp_load_token(load, "", bytes, rank)
                   : bp_token_add(load->tokenizer, load->scratch->token, bytes, (uint32_t)rank,
                                  true, load->error));
        rank++;
    }
    return add_specials(load, rank);
}
