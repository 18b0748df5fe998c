/* SPDX-License-Identifier: MIT */
/* tokenizer.json for models over bytes. */
#include "tools/formats/text/byte_tokenizer.h"

#include "arena/text.h"

/* GPT-2's printable stand-in for a byte (openai/gpt-2, encoder.py): bytes that print stand for
 * themselves, the other 68 go to U+0100 and up in order. */
static uint32_t character_of(uint32_t byte, uint32_t *next)
{
    bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return prints ? byte : (*next)++;
}

static void put_character(bp_text *text, uint32_t character)
{
    char utf8[3] = {(char)character, 0, 0};
    if (character >= 0x80) {
        utf8[0] = (char)(0xc0 | character >> 6);
        utf8[1] = (char)(0x80 | (character & 0x3f));
    }
    bp_text_json(text, utf8);
}

static void put_vocabulary(bp_text *text)
{
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < BP_BYTE_VOCABULARY; byte++) {
        bp_text_string(text, byte == 0 ? "\n      " : ",\n      ");
        put_character(text, character_of(byte, &next));
        bp_text_string(text, ": ");
        bp_text_u64(text, byte);
    }
}

static const char before[] =
    "{\n"
    "  \"version\": \"1.0\",\n"
    "  \"truncation\": null,\n"
    "  \"padding\": null,\n"
    "  \"added_tokens\": [],\n"
    "  \"normalizer\": null,\n"
    "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
    "\"trim_offsets\": true, \"use_regex\": false},\n"
    "  \"post_processor\": null,\n"
    "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
    "\"trim_offsets\": true, \"use_regex\": false},\n"
    "  \"model\": {\n"
    "    \"type\": \"BPE\",\n"
    "    \"dropout\": null,\n"
    "    \"unk_token\": null,\n"
    "    \"continuing_subword_prefix\": null,\n"
    "    \"end_of_word_suffix\": null,\n"
    "    \"fuse_unk\": false,\n"
    "    \"byte_fallback\": false,\n"
    "    \"ignore_merges\": false,\n"
    "    \"vocab\": {";

static const char after[] = "\n    },\n    \"merges\": []\n  }\n}\n";

bp_status bp_byte_tokenizer_settings(uint32_t positions, char *json, size_t *length)
{
    bp_text text;
    bp_text_init(&text, NULL, NULL, json, BP_BYTE_TOKENIZER_TEXT);
    bp_text_string(&text, "{\n  \"clean_up_tokenization_spaces\": false,\n"
                          "  \"model_max_length\": ");
    bp_text_u64(&text, positions);
    bp_text_string(&text, ",\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");
    *length = (size_t)text.written;
    return bp_text_flush(&text);
}

bp_status bp_byte_tokenizer_text(char *json, size_t *length)
{
    bp_text text;
    bp_text_init(&text, NULL, NULL, json, BP_BYTE_TOKENIZER_TEXT);
    bp_text_string(&text, before);
    put_vocabulary(&text);
    bp_text_string(&text, after);
    *length = (size_t)text.written;
    return bp_text_flush(&text);
}
