/* SPDX-License-Identifier: MIT */
/* What rows take, in words: for errors and for the manual. */
#include <string.h>

#include "tools/formats/family/family.h"

static void put_number(bp_text *text, double value)
{
    if (value == (double)(int64_t)value) {
        bp_text_i64(text, (int64_t)value);
    } else {
        bp_text_general(text, value, 15);
    }
}

static void put_range(bp_text *text, const bp_row *row)
{
    const bool whole = row->kind != BP_ROW_REAL && row->kind != BP_ROW_REAL_NULL;
    bp_text_string(text, whole ? "whole number" : "number");
    bp_text_string(text,
                   row->kind == BP_ROW_SIZES || row->kind == BP_ROW_COUNTS ? "s from " : " from ");
    put_number(text, row->least);
    bp_text_string(text, whole ? " to " : " to below ");
    put_number(text, row->most);
}

/* "a|b|c" as "a", "b" or "c". */
static void put_choices(bp_text *text, const char *words)
{
    bool first = true;
    while (words != NULL) {
        const char *end = strchr(words, '|');
        const size_t length = end != NULL ? (size_t)(end - words) : strlen(words);
        bp_text_string(text, first ? "\"" : end != NULL ? ", \"" : " or \"");
        bp_text_bytes(text, words, length);
        bp_text_char(text, '"');
        first = false;
        words = end != NULL ? end + 1 : NULL;
    }
}

/* An error has no room for all of them. */
static void family_words_put_types(bp_text *text)
{
    size_t count = 0;
    while (bp_family_at(count) != NULL) {
        count++;
    }
    bp_text_string(text, "one of the ");
    bp_text_u64(text, count);
    bp_text_string(text, " types in docs/families.md, such as \"gpt2\", \"llama\" or \"bert\"");
}

static void put_article(bp_text *text, const bp_row *row)
{
    const bool null = row->kind == BP_ROW_COUNT_NULL || row->kind == BP_ROW_REAL_NULL;
    bp_text_string(text, null ? "null or a " : "a ");
}

/* Of kinds that need no value of the row's. */
static const char *family_words_fixed(bp_row_kind kind)
{
    static const char *const fixed[] = {
        [BP_ROW_TOKEN] = "a token id, a list of at most 8 of them, or null",
        [BP_ROW_FLAG] = "true or false",
        [BP_ROW_FLAG_NOT] = "true or false",
        [BP_ROW_INDICES] = "null or a list of numbers of layers from 0 to 127",
        [BP_ROW_LABELS] = "null or an object with a name for each class",
        [BP_ROW_QUANTISED] = "null or an object",
        [BP_ROW_CLASSES] = "null or a list of texts",
        [BP_ROW_PROBLEM] = "null, \"single_label_classification\", "
                           "\"multi_label_classification\" or \"regression\"",
        [BP_ROW_ROPE] = "null or an object of rope_type \"default\", \"llama3\", \"linear\", "
                        "\"dynamic\", \"yarn\" or \"longrope\"",
        [BP_ROW_THETA] = "null or an object of rope_type \"default\" with a rope_theta",
        [BP_ROW_ONE] = "1",
        [BP_ROW_TRUE] = "true",
        [BP_ROW_FALSE] = "false",
        [BP_ROW_NULL] = "null",
        [BP_ROW_EMPTY] = "null or {}"};
    return fixed[kind];
}

void bp_row_words(bp_text *text, const bp_row *row)
{
    switch (row->kind) {
    case BP_ROW_COUNT_NULL:
    case BP_ROW_REAL_NULL:
    case BP_ROW_COUNT:
    case BP_ROW_REAL:
        put_article(text, row);
        put_range(text, row);
        break;
    case BP_ROW_SIZES:
    case BP_ROW_COUNTS:
        bp_text_string(text, "a list of at most ");
        put_number(text, row->otherwise);
        bp_text_char(text, ' ');
        put_range(text, row);
        break;
    case BP_ROW_NET:
        bp_text_string(text, "a list of at most ");
        put_number(text, row->most);
        bp_text_string(text,
                       " texts, a layer each: \"conv 64 3\", \"depthwise 3\", \"separable 64 3\", "
                       "\"basic 64\", \"bottleneck 256\", \"max-pool 2\" or \"mean-pool all\", "
                       "with \"stride 2\" and \"padding same\" behind them");
        break;
    case BP_ROW_LAYERS:
        bp_text_string(text, "null or a list with an item for each of at most 128 layers, ");
        put_choices(text, row->words != NULL ? row->words : "1|0");
        break;
    case BP_ROW_TEXTS:
    case BP_ROW_WORDS:
        bp_text_string(text, row->kind == BP_ROW_WORDS ? "a list of all of "
                                                       : "null or a list in which every item is ");
        put_choices(text, row->words);
        break;
    case BP_ROW_TEXT:
    case BP_ROW_CHOICE:
        put_choices(text, row->words);
        break;
    case BP_ROW_TYPE:
        family_words_put_types(text);
        break;
    default:
        bp_text_string(text, family_words_fixed(row->kind));
        break;
    }
}
