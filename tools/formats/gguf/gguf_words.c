/* SPDX-License-Identifier: MIT */
/* As convert_hf_to_gguf.py (BertModel) has it, and gguf-py's SpecialVocab. */
#include "tools/formats/gguf/gguf_words.h"

#include <string.h>

#include "tools/formats/text/token_table.h"

static const char meta[3] = {'\xe2', '\x96', '\x81'};

/* Whether some piece that goes on with a word begins with U+2581: readers take it for a word. */
static bool is_ambiguous(const bp_tokenizer *t)
{
    for (uint32_t id = 0; id < t->tokens; id++) {
        size_t length = 0;
        const unsigned char *text = bp_token_exists(t, id) ? bp_token_text(t, id, &length) : NULL;
        if (length >= 5 && memcmp(text, "##", 2) == 0 && memcmp(text + 2, meta, 3) == 0) {
            return true;
        }
    }
    return false;
}

const char *bp_gguf_words_refusal(const bp_tokenizer *t)
{
    const bp_token_rules *rules = &t->rules;
    if (!rules->lower || !rules->accents || !rules->ideographs || !rules->clean) {
        return "readers of WordPiece lower-case texts, drop accents and stand ideographs alone, "
               "which this tokenizer does not";
    }
    if (strcmp(rules->continuing, "##") != 0) {
        return "readers of WordPiece know pieces by \"##\" alone";
    }
    if (is_ambiguous(t)) {
        return "a piece of words begins with U+2581, by which readers of WordPiece know a word";
    }
    const bp_template *single = &rules->single;
    const bool usual = single->before.count == 1 && single->after.count == 1 &&
                       (int64_t)single->before.ids[0] == t->special.cls &&
                       (int64_t)single->after.ids[0] == t->special.sep;
    return usual ? NULL : "readers of WordPiece put [CLS] before a text and [SEP] behind it";
}

size_t bp_gguf_words_spell(char *text, size_t length)
{
    if (length >= 2 && memcmp(text, "##", 2) == 0) {
        memmove(text, text + 2, length - 2);
        return length - 2;
    }
    memmove(text + sizeof meta, text, length);
    memcpy(text, meta, sizeof meta);
    return length + sizeof meta;
}

void bp_gguf_words_json(bp_json_writer *to, const char *text, size_t length)
{
    char whole[BP_TOKENIZER_DECODED_MAX + 2] = {'#', '#'};
    if (length >= sizeof meta && memcmp(text, meta, sizeof meta) == 0) {
        bp_json_put_key(to, text + sizeof meta, length - sizeof meta);
        return;
    }
    memcpy(whole + 2, text, length);
    bp_json_put_key(to, whole, length + 2);
}

void bp_gguf_words_put(const bp_tokenizer *t, const bp_model_config *config, bp_gguf_writer *w)
{
    const struct {
        const char *key;
        int64_t id;
    } rows[] = {{"tokenizer.ggml.bos_token_id", config->bos_token < 0 ? t->special.cls : -1},
                {"tokenizer.ggml.eos_token_id", config->eos_token < 0 ? t->special.sep : -1},
                {"tokenizer.ggml.unknown_token_id", t->special.unk},
                {"tokenizer.ggml.seperator_token_id", t->special.sep},
                {"tokenizer.ggml.cls_token_id", t->special.cls},
                {"tokenizer.ggml.mask_token_id", t->special.mask}};
    bp_gguf_put_string(w, "tokenizer.ggml.model", "bert", 4);
    bp_gguf_put_string(w, "tokenizer.ggml.pre", "default", 7);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].id >= 0) {
            bp_gguf_put_u32(w, rows[i].key, (uint32_t)rows[i].id);
        }
    }
}
