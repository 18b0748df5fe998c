/* SPDX-License-Identifier: MIT */
/* tokenizer.json for models over bytes. */
#include "tools/formats/text/byte_tokenizer.h"

#include "arena/json_write.h"

/* GPT-2's printable stand-in for a byte (openai/gpt-2, encoder.py): bytes that print stand for
 * themselves, the other 68 go to U+0100 and up in order. */
static uint32_t character_of(uint32_t byte, uint32_t *next)
{
    bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return prints ? byte : (*next)++;
}

static const char *character_text(uint32_t character, char utf8[3])
{
    const bool ascii = character < 0x80;
    utf8[0] = (char)(ascii ? character : 0xc0 | character >> 6);
    utf8[1] = (char)(ascii ? 0 : 0x80 | (character & 0x3f));
    utf8[2] = '\0';
    return utf8;
}

static void put_vocabulary(bp_json_writer *json)
{
    uint32_t next = 256;
    bp_json_put_lines(json, "vocab", '{');
    for (uint32_t byte = 0; byte < BP_BYTE_VOCABULARY; byte++) {
        char character[3];
        bp_json_put_u64(json, character_text(character_of(byte, &next), character), byte);
    }
    bp_json_put_close(json);
}

static void put_document(bp_json_writer *json)
{
    static const char level[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                                "\"trim_offsets\": true, \"use_regex\": false}";
    bp_json_put_text(json, "version", "1.0");
    bp_json_put_value(json, "truncation", "null");
    bp_json_put_value(json, "padding", "null");
    bp_json_put_value(json, "added_tokens", "[]");
    bp_json_put_value(json, "normalizer", "null");
    bp_json_put_value(json, "pre_tokenizer", level);
    bp_json_put_value(json, "post_processor", "null");
    bp_json_put_value(json, "decoder", level);
    bp_json_put_lines(json, "model", '{');
    bp_json_put_text(json, "type", "BPE");
    bp_json_put_value(json, "dropout", "null");
    bp_json_put_value(json, "unk_token", "null");
    bp_json_put_value(json, "continuing_subword_prefix", "null");
    bp_json_put_value(json, "end_of_word_suffix", "null");
    bp_json_put_flag(json, "fuse_unk", false);
    bp_json_put_flag(json, "byte_fallback", false);
    bp_json_put_flag(json, "ignore_merges", false);
    put_vocabulary(json);
    bp_json_put_value(json, "merges", "[]");
    bp_json_put_close(json);
}

static void byte_tokenizer_begin(bp_text *text, bp_json_writer *json, char *to)
{
    bp_text_init(text, NULL, NULL, to, BP_BYTE_TOKENIZER_TEXT);
    bp_json_put_begin(json, text, BP_JSON_SPACED);
    bp_json_put_lines(json, NULL, '{');
}

static bp_status byte_tokenizer_end(bp_json_writer *json, size_t *length)
{
    bp_json_put_close(json);
    bp_text_char(json->text, '\n');
    *length = (size_t)json->text->written;
    return bp_text_flush(json->text);
}

bp_status bp_byte_tokenizer_settings(uint32_t positions, char *to, size_t *length)
{
    bp_text text;
    bp_json_writer json;
    byte_tokenizer_begin(&text, &json, to);
    bp_json_put_flag(&json, "clean_up_tokenization_spaces", false);
    bp_json_put_u64(&json, "model_max_length", positions);
    bp_json_put_text(&json, "tokenizer_class", "PreTrainedTokenizerFast");
    return byte_tokenizer_end(&json, length);
}

bp_status bp_byte_tokenizer_text(char *to, size_t *length)
{
    bp_text text;
    bp_json_writer json;
    byte_tokenizer_begin(&text, &json, to);
    put_document(&json);
    return byte_tokenizer_end(&json, length);
}
