/* SPDX-License-Identifier: MIT */
/* The tokenizer of a GGUF file as tokenizer.json, from front to back: each array is read as often
 * as a part of the document needs it, so no vocabulary is held in memory. */
#include <string.h>

#include "tools/formats/gguf/gguf_pieces.h"
#include "tools/formats/gguf/gguf_tokenizer.h"
#include "tools/formats/gguf/gguf_unigram.h"
#include "tools/formats/gguf/gguf_words.h"

enum { BUFFER = 4096, TOKEN = 8192 };

#define WORDS                                                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}%| ?[^\\s\\p{L}\\p{N}]+"     \
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Words end where an upper case letter follows a lower one (tekken), with contractions (GPT-4o). */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD  "[^\\r\\n\\p{L}\\p{N}]?"
#define CASES(end)                                                                                 \
    LEAD UPPER "*" LOWER "+" end "|" LEAD UPPER "+" LOWER "*" end                                  \
               "|\\p{N}%| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The ways of splitting that llama.cpp has a word for; % in the pattern is how many digits. */
typedef struct split {
    const char *word;
    const char *pattern; /* NULL: ByteLevel's own, GPT-2's */
    const char *digits;  /* NULL: each by itself, before the pattern */
    bool compose;        /* NFC */
    bool ignore_merges;
    bool begins; /* with the beginning token */
} split;

static const split splits[] = {
    {"gpt-2", NULL, "", false, false, false},
    {"roberta-bpe", NULL, "", false, false, true},
    {"llama-bpe", WORDS, "{1,3}", false, true, true},
    {"qwen2", WORDS, "", true, false, false},
    {"smollm", NULL, NULL, false, false, false},
    {"tekken", CASES(""), "", false, true, false},
    {"gpt-4o", CASES("(?i:'s|'t|'re|'ve|'m|'ll|'d)?"), "{1,3}", false, false, false},
};

typedef struct writing {
    const bp_gguf_file *file;
    const split *how; /* NULL: SentencePiece's pieces, or words */
    bool words;       /* WordPiece */
    bool unigram;
    bp_text text;
    char *token; /* TOKEN bytes */
    void *room;  /* for pieces */
    bp_error *error;
} writing;

static const split *split_of(const bp_gguf_file *file)
{
    if (bp_gguf_find(file, "tokenizer.ggml.pre") == NULL) {
        return &splits[0];
    }
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        if (bp_gguf_says(file, "tokenizer.ggml.pre", splits[i].word)) {
            return &splits[i];
        }
    }
    return NULL;
}

static bool is_model(const bp_gguf_file *file, const char *model)
{
    return bp_gguf_says(file, "tokenizer.ggml.model", model);
}

static bool is_pieces(const bp_gguf_file *file)
{
    return is_model(file, "llama") && bp_gguf_find(file, "tokenizer.ggml.scores") != NULL;
}

uint64_t bp_gguf_tokenizer_scratch(const bp_gguf_file *file)
{
    const uint64_t more = is_pieces(file)        ? bp_gguf_pieces_bytes(file)
                          : is_model(file, "t5") ? bp_gguf_unigram_bytes(file)
                                                 : 0;
    return bp_size_add(BP_GGUF_TOKENIZER_SCRATCH, more);
}

const char *bp_gguf_tokenizer_foreign(const bp_gguf_file *file)
{
    if (bp_gguf_find(file, "tokenizer.ggml.model") == NULL) {
        return "the file has none";
    }
    if (is_pieces(file) || is_model(file, "bert")) {
        return NULL;
    }
    if (is_model(file, "t5")) {
        return bp_gguf_unigram_foreign(file);
    }
    if (!is_model(file, "gpt2")) {
        return "only byte-level BPE (\"gpt2\"), scored pieces (\"llama\"), WordPiece (\"bert\") "
               "and Unigram (\"t5\") are implemented";
    }
    return split_of(file) != NULL
               ? NULL
               : "only the splits gpt-2, roberta-bpe, llama-bpe, qwen2, smollm, tekken and "
                 "gpt-4o are implemented";
}

/* A token made of characters that stand for bytes cannot be told from text; those of printable
 * ASCII are both. */
static bool is_plain(const char *token, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (token[i] < 33 || token[i] > 126) {
            return false;
        }
    }
    return true;
}

/* Both arrays, a token at a time. */
typedef struct walk {
    bp_gguf_items tokens;
    bp_gguf_items types;
    bool typed;
} walk;

static bp_status walk_begin(const writing *w, walk *k)
{
    *k = (walk){.typed = bp_gguf_find(w->file, "tokenizer.ggml.token_type") != NULL};
    BP_TRY(bp_gguf_items_begin(&k->tokens, w->file, "tokenizer.ggml.tokens", BP_GGUF_STRING));
    if (!k->typed) {
        return BP_OK;
    }
    BP_TRY(bp_gguf_items_begin(&k->types, w->file, "tokenizer.ggml.token_type", BP_GGUF_I32));
    if (k->types.key->count != k->tokens.key->count) {
        return bp_error_numbers(w->error, BP_ERR_DATA, "gguf",
                                "tokens and their types differ in number",
                                "tokenizer.ggml.token_type", (int64_t)k->types.key->count,
                                (int64_t)k->tokens.key->count);
    }
    return BP_OK;
}

static bp_status walk_next(const writing *w, walk *k, size_t *length, int32_t *type)
{
    *type = BP_GGUF_TOKEN_NORMAL;
    BP_TRY(bp_gguf_items_string(&k->tokens, w->token, TOKEN, length));
    return k->typed ? bp_gguf_items_i32(&k->types, type) : BP_OK;
}

static bool is_special(const writing *w, int32_t type)
{
    return type == BP_GGUF_TOKEN_CONTROL || (w->how == NULL && type == BP_GGUF_TOKEN_UNKNOWN);
}

static bool is_added(const writing *w, int32_t type)
{
    return is_special(w, type) || type == BP_GGUF_TOKEN_USER;
}

static bp_status put_added(writing *w)
{
    walk k;
    bool first = true;
    BP_TRY(walk_begin(w, &k));
    bp_text_string(&w->text, "  \"added_tokens\": [");
    for (uint64_t id = 0; id < k.tokens.key->count; id++) {
        size_t length;
        int32_t type;
        BP_TRY(walk_next(w, &k, &length, &type));
        if (!is_added(w, type)) {
            continue;
        }
        bp_text_string(&w->text, first ? "\n    {\"id\": " : ",\n    {\"id\": ");
        bp_text_u64(&w->text, id);
        bp_text_string(&w->text, ", \"content\": ");
        bp_text_json_bytes(&w->text, w->token, length);
        bp_text_string(&w->text, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                                 "\"normalized\": false, \"special\": ");
        bp_text_string(&w->text, is_special(w, type) ? "true}" : "false}");
        first = false;
    }
    bp_text_string(&w->text, first ? "],\n" : "\n  ],\n");
    return BP_OK;
}

static bp_status put_vocabulary(writing *w)
{
    walk k;
    bool first = true;
    BP_TRY(walk_begin(w, &k));
    bp_text_string(&w->text, "    \"vocab\": {");
    for (uint64_t id = 0; id < k.tokens.key->count; id++) {
        size_t length;
        int32_t type;
        BP_TRY(walk_next(w, &k, &length, &type));
        bool out = type == BP_GGUF_TOKEN_UNUSED ||
                   (w->how != NULL && is_added(w, type) && !is_plain(w->token, length));
        if (out) {
            continue;
        }
        bp_text_string(&w->text, first ? "\n      " : ",\n      ");
        if (w->words && type == BP_GGUF_TOKEN_NORMAL) {
            bp_gguf_words_json(&w->text, w->token, length);
        } else {
            bp_text_json_bytes(&w->text, w->token, length);
        }
        bp_text_string(&w->text, ": ");
        bp_text_u64(&w->text, id);
        first = false;
    }
    bp_text_string(&w->text, w->words ? "\n    }\n" : "\n    },\n");
    return BP_OK;
}

static bp_status put_merges(writing *w)
{
    bp_gguf_items items;
    if (w->how == NULL) {
        bp_text_string(&w->text, "    \"merges\": ");
        BP_TRY(bp_gguf_put_pieces(w->file, w->room, &w->text, w->error));
        bp_text_char(&w->text, '\n');
        return BP_OK;
    }
    bp_text_string(&w->text, "    \"merges\": [");
    if (bp_gguf_find(w->file, "tokenizer.ggml.merges") != NULL) {
        BP_TRY(bp_gguf_items_begin(&items, w->file, "tokenizer.ggml.merges", BP_GGUF_STRING));
        for (uint64_t i = 0; i < items.key->count; i++) {
            size_t length;
            BP_TRY(bp_gguf_items_string(&items, w->token, TOKEN, &length));
            bp_text_string(&w->text, i == 0 ? "\n      " : ",\n      ");
            bp_text_json_bytes(&w->text, w->token, length);
        }
    }
    bp_text_string(&w->text, "\n    ]\n");
    return BP_OK;
}

static void put_pattern(writing *w)
{
    char pattern[512];
    bp_text text;
    bp_text_init(&text, NULL, NULL, pattern, sizeof pattern);
    for (const char *c = w->how->pattern; *c != '\0'; c++) {
        if (*c == '%') {
            bp_text_string(&text, w->how->digits);
        } else {
            bp_text_char(&text, *c);
        }
    }
    bp_status fits = bp_text_flush(&text);
    (void)fits; /* the longest has 380 characters */
    bp_text_json(&w->text, pattern);
}

static bool truth_of(const bp_gguf_file *file, const char *name, bool other)
{
    const bp_gguf_key *key = bp_gguf_find(file, name);
    return key != NULL && key->type == BP_GGUF_BOOL ? key->bits != 0 : other;
}

/* The text of the token that a key names, as a JSON string; *there is false when it names none. */
static bp_status find_token(writing *w, const char *key, size_t *length, uint32_t *id, bool *there)
{
    walk k;
    int32_t type;
    *there = bp_gguf_find(w->file, key) != NULL;
    if (!*there) {
        return BP_OK;
    }
    BP_TRY(bp_gguf_take_count(w->file, key, 0, UINT32_MAX, id));
    BP_TRY(walk_begin(w, &k));
    *there = *id < k.tokens.key->count;
    for (uint64_t i = 0; *there && i <= *id; i++) {
        BP_TRY(walk_next(w, &k, length, &type));
    }
    return BP_OK;
}

/* A special token around texts. */
typedef struct mark {
    char text[4 * 64]; /* as a JSON string; "": there is none */
    uint32_t id;
} mark;

static bp_status take_mark(writing *w, const char *key, bool there, mark *to)
{
    size_t length;
    bp_text text;
    to->text[0] = '\0';
    if (there) {
        BP_TRY(find_token(w, key, &length, &to->id, &there));
    }
    if (!there) {
        return BP_OK;
    }
    bp_text_init(&text, NULL, NULL, to->text, sizeof to->text);
    bp_text_json_bytes(&text, w->token, length);
    return bp_text_flush(&text) == BP_OK
               ? BP_OK
               : bp_error_set(w->error, BP_ERR_DATA, "gguf", "this token is too long", key);
}

static void put_mark(writing *w, const mark *of, uint32_t type, const char *behind)
{
    bp_text_string(&w->text, "{\"SpecialToken\": {\"id\": ");
    bp_text_string(&w->text, of->text);
    bp_text_string(&w->text, type == 0 ? ", \"type_id\": 0}}" : ", \"type_id\": 1}}");
    bp_text_string(&w->text, behind);
}

static void put_mark_id(writing *w, const mark *of)
{
    bp_text_string(&w->text, of->text);
    bp_text_string(&w->text, ": {\"id\": ");
    bp_text_string(&w->text, of->text);
    bp_text_string(&w->text, ", \"ids\": [");
    bp_text_u64(&w->text, of->id);
    bp_text_string(&w->text, "], \"tokens\": [");
    bp_text_string(&w->text, of->text);
    bp_text_string(&w->text, "]}");
}

/* An encoder's: a token before a text and one behind it; of WordPiece the second of a pair has
 * types of its own, of RoBERTa it begins with one more of the last. */
static void put_around(writing *w, const mark *first, const mark *last)
{
    static const char a[] = "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}";
    bp_text_string(&w->text,
                   "  \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [");
    for (uint32_t pair = 0; pair < 2; pair++) {
        bp_text_string(&w->text, pair == 0 ? "" : "], \"pair\": [");
        put_mark(w, first, 0, ", ");
        bp_text_string(&w->text, a);
        bp_text_string(&w->text, ", ");
        put_mark(w, last, 0, "");
        if (pair == 1 && !w->words) {
            bp_text_string(&w->text, ", ");
            put_mark(w, last, 0, "");
        }
    }
    bp_text_string(&w->text, w->words ? ", {\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}, "
                                      : ", {\"Sequence\": {\"id\": \"B\", \"type_id\": 0}}, ");
    put_mark(w, last, w->words ? 1 : 0, "], \"special_tokens\": {");
    put_mark_id(w, first);
    if (first->id != last->id) {
        bp_text_string(&w->text, ", ");
        put_mark_id(w, last);
    }
    bp_text_string(&w->text, "}},\n");
}

/* A token before every text, or behind every text, as T5 has it. */
static void put_one(writing *w, const mark *one, bool behind)
{
    static const char a[] = "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}";
    static const char b[] = "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}";
    bp_text_string(&w->text,
                   "  \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [");
    if (!behind) {
        put_mark(w, one, 0, ", ");
    }
    bp_text_string(&w->text, a);
    if (behind) {
        bp_text_string(&w->text, ", ");
        put_mark(w, one, 0, "");
    }
    bp_text_string(&w->text, "], \"pair\": [");
    bp_text_string(&w->text, a);
    bp_text_string(&w->text, ", ");
    if (behind) {
        put_mark(w, one, 0, ", ");
    }
    bp_text_string(&w->text, b);
    if (behind) {
        bp_text_string(&w->text, ", ");
        put_mark(w, one, 1, "");
    }
    bp_text_string(&w->text, "], \"special_tokens\": {");
    put_mark_id(w, one);
    bp_text_string(&w->text, "}},\n");
}

/* What stands around every text: the beginning token where the file says so, and without a word of
 * it for pieces and for Llama 3, as llama.cpp has it; the last token where it says so, and without
 * a word of it for RoBERTa and Unigram; of words both. */
static bp_status put_template(writing *w)
{
    mark first, last;
    const bool roberta = w->how != NULL && strcmp(w->how->word, "roberta-bpe") == 0;
    const bool usual = w->how == NULL ? !w->unigram : w->how->begins;
    const bool ended = roberta || w->unigram;
    const bool bos = w->words || truth_of(w->file, "tokenizer.ggml.add_bos_token", usual);
    const bool eos = w->words || truth_of(w->file, "tokenizer.ggml.add_eos_token", ended);
    BP_TRY(take_mark(w, "tokenizer.ggml.bos_token_id", bos, &first));
    BP_TRY(take_mark(w, "tokenizer.ggml.eos_token_id", eos, &last));
    const bool begins = first.text[0] != '\0', ends = last.text[0] != '\0';
    if (begins && ends) {
        put_around(w, &first, &last);
    } else if (begins || ends) {
        put_one(w, begins ? &first : &last, ends);
    } else {
        bp_text_string(&w->text, "  \"post_processor\": null,\n");
    }
    return BP_OK;
}

static bp_status put_rules(writing *w)
{
    static const char bytes[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                                "\"trim_offsets\": true, \"use_regex\": ";
    bp_text_string(&w->text, w->how->compose ? "  \"normalizer\": {\"type\": \"NFC\"},\n"
                                             : "  \"normalizer\": null,\n");
    bp_text_string(&w->text, "  \"pre_tokenizer\": ");
    if (w->how->pattern == NULL && w->how->digits == NULL) {
        bp_text_string(&w->text, "{\"type\": \"Sequence\", \"pretokenizers\": [\n    {\"type\": "
                                 "\"Digits\", \"individual_digits\": true},\n    ");
        bp_text_string(&w->text, bytes);
        bp_text_string(&w->text, "true}\n  ]},\n");
    } else if (w->how->pattern == NULL) {
        bp_text_string(&w->text, bytes);
        bp_text_string(&w->text, "true},\n");
    } else {
        bp_text_string(&w->text, "{\"type\": \"Sequence\", \"pretokenizers\": [\n    {\"type\": "
                                 "\"Split\", \"pattern\": {\"Regex\": ");
        put_pattern(w);
        bp_text_string(&w->text, "}, \"behavior\": \"Isolated\", \"invert\": false},\n    ");
        bp_text_string(&w->text, bytes);
        bp_text_string(&w->text, "false}\n  ]},\n");
    }
    BP_TRY(put_template(w));
    bp_text_string(&w->text, "  \"decoder\": ");
    bp_text_string(&w->text, bytes);
    bp_text_string(&w->text, "true},\n");
    return BP_OK;
}

/* Llama 2's: a space becomes a lower block, and one stands before the text. */
static bp_status put_piece_rules(writing *w)
{
    static const char replace[] = "{\"type\": \"Replace\", \"pattern\": {\"String\": ";
    const bool before = truth_of(w->file, "tokenizer.ggml.add_space_prefix", true);
    bp_text_string(&w->text, "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [");
    bp_text_string(&w->text,
                   before ? "{\"type\": \"Prepend\", \"prepend\": \"\xe2\x96\x81\"}, " : "");
    bp_text_string(&w->text, replace);
    bp_text_string(&w->text, "\" \"}, \"content\": \"\xe2\x96\x81\"}]},\n  \"pre_tokenizer\": "
                             "null,\n");
    BP_TRY(put_template(w));
    bp_text_string(&w->text, "  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [");
    bp_text_string(&w->text, replace);
    bp_text_string(&w->text,
                   "\"\xe2\x96\x81\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, "
                   "{\"type\": \"Fuse\"}");
    bp_text_string(&w->text, before ? ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, "
                                      "\"stop\": 0}]},\n"
                                    : "]},\n");
    return BP_OK;
}

static bp_status put_words(writing *w)
{
    size_t length = 0;
    uint32_t id;
    bool unknown;
    bp_text_string(&w->text,
                   "  \"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, "
                   "\"handle_chinese_chars\": true, \"strip_accents\": null, \"lowercase\": "
                   "true},\n  \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},\n");
    BP_TRY(put_template(w));
    bp_text_string(&w->text,
                   "  \"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": "
                   "true},\n  \"model\": {\n    \"type\": \"WordPiece\",\n    \"unk_token\": ");
    BP_TRY(find_token(w, "tokenizer.ggml.unknown_token_id", &length, &id, &unknown));
    if (unknown) {
        bp_text_json_bytes(&w->text, w->token, length);
    } else {
        bp_text_string(&w->text, "\"[UNK]\"");
    }
    bp_text_string(&w->text, ",\n    \"continuing_subword_prefix\": \"##\",\n    "
                             "\"max_input_chars_per_word\": 100,\n");
    BP_TRY(put_vocabulary(w));
    bp_text_string(&w->text, "  }\n}\n");
    return bp_text_flush(&w->text);
}

static bp_status put_document(writing *w)
{
    bp_text_string(&w->text, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
                             "  \"padding\": null,\n");
    BP_TRY(put_added(w));
    if (w->words) {
        return put_words(w);
    }
    if (w->unigram) {
        BP_TRY(bp_gguf_unigram_rules(w->file, w->token, TOKEN, w->room, &w->text));
        BP_TRY(put_template(w));
        BP_TRY(bp_gguf_unigram_model(w->file, w->token, TOKEN, &w->text));
        bp_text_string(&w->text, "}\n");
        return bp_text_flush(&w->text);
    }
    const bool pieces = w->how == NULL;
    size_t length = 0;
    uint32_t id;
    bool unknown = false;
    BP_TRY(pieces ? put_piece_rules(w) : put_rules(w));
    bp_text_string(&w->text, "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                             "    \"unk_token\": ");
    if (pieces) {
        BP_TRY(find_token(w, "tokenizer.ggml.unknown_token_id", &length, &id, &unknown));
    }
    if (unknown) {
        bp_text_json_bytes(&w->text, w->token, length);
    } else {
        bp_text_string(&w->text, "null");
    }
    bp_text_string(&w->text, ",\n    \"continuing_subword_prefix\": null,\n"
                             "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": ");
    bp_text_string(&w->text, pieces ? "true,\n    \"byte_fallback\": true,\n"
                                    : "false,\n    \"byte_fallback\": false,\n");
    bp_text_string(&w->text, "    \"ignore_merges\": ");
    bp_text_string(&w->text, !pieces && w->how->ignore_merges ? "true,\n" : "false,\n");
    BP_TRY(put_vocabulary(w));
    BP_TRY(put_merges(w));
    bp_text_string(&w->text, "  }\n}\n");
    return bp_text_flush(&w->text);
}

bp_status bp_gguf_tokenizer_json(const bp_gguf_file *file, void *scratch, bp_sink sink, void *user,
                                 bp_error *error)
{
    char *memory = scratch;
    const char *why = bp_gguf_tokenizer_foreign(file);
    writing w = {.file = file, .token = memory + BUFFER, .error = error};
    if (why != NULL) {
        return bp_error_set(error, BP_ERR_DATA, "gguf", why, "tokenizer.ggml.model");
    }
    w.words = is_model(file, "bert");
    w.unigram = is_model(file, "t5");
    w.how = is_pieces(file) || w.words || w.unigram ? NULL : split_of(file);
    w.room = memory + BP_GGUF_TOKENIZER_SCRATCH;
    bp_text_init(&w.text, sink, user, memory, BUFFER);
    return put_document(&w);
}

/* A role's token, by its own key or by that of a role that it shares a token with. */
static bp_status put_role(writing *w, const char *role, const char *key, const char *other)
{
    mark token;
    BP_TRY(take_mark(w, key, true, &token));
    if (token.text[0] == '\0' && other != NULL) {
        BP_TRY(take_mark(w, other, true, &token));
    }
    if (token.text[0] != '\0') {
        bp_text_string(&w->text, "  \"");
        bp_text_string(&w->text, role);
        bp_text_string(&w->text, "\": ");
        bp_text_string(&w->text, token.text);
        bp_text_string(&w->text, ",\n");
    }
    return BP_OK;
}

static bp_status put_roles(writing *w)
{
    static const char bos[] = "tokenizer.ggml.bos_token_id";
    static const char eos[] = "tokenizer.ggml.eos_token_id";
    const bool encoder = w->words || (w->how != NULL && strcmp(w->how->word, "roberta-bpe") == 0);
    BP_TRY(put_role(w, "bos_token", bos, NULL));
    BP_TRY(put_role(w, "eos_token", eos, NULL));
    BP_TRY(put_role(w, "unk_token", "tokenizer.ggml.unknown_token_id", NULL));
    BP_TRY(put_role(w, "pad_token", "tokenizer.ggml.padding_token_id", NULL));
    BP_TRY(put_role(w, "cls_token", "tokenizer.ggml.cls_token_id", encoder ? bos : NULL));
    BP_TRY(put_role(w, "sep_token", "tokenizer.ggml.seperator_token_id", encoder ? eos : NULL));
    BP_TRY(put_role(w, "mask_token", "tokenizer.ggml.mask_token_id", NULL));
    if (w->words && bp_gguf_find(w->file, "tokenizer.ggml.mask_token_id") == NULL) {
        bp_text_string(&w->text, "  \"mask_token\": \"[MASK]\",\n");
    }
    return BP_OK;
}

bp_status bp_gguf_tokenizer_config(const bp_gguf_file *file, void *scratch, bp_sink sink,
                                   void *user, bp_error *error)
{
    static const char key[] = "tokenizer.chat_template";
    char *memory = scratch;
    char *source = memory + BP_GGUF_TOKENIZER_SCRATCH;
    const bp_gguf_key *chat = bp_gguf_find(file, key);
    writing w = {.file = file, .token = memory + BUFFER, .error = error};
    w.words = is_model(file, "bert");
    w.unigram = is_model(file, "t5");
    w.how = is_pieces(file) || w.words || w.unigram ? NULL : split_of(file);
    bp_text_init(&w.text, sink, user, memory, BUFFER);
    bp_text_string(&w.text, "{\n");
    BP_TRY(put_roles(&w));
    if (chat != NULL && chat->type == BP_GGUF_STRING && chat->count < BP_JINJA_SOURCE_MAX) {
        BP_TRY(bp_gguf_take_string(file, key, source, BP_JINJA_SOURCE_MAX));
        bp_text_string(&w.text, "  \"chat_template\": ");
        bp_text_json_bytes(&w.text, source, (size_t)chat->count);
        bp_text_string(&w.text, ",\n");
    }
    bp_text_string(&w.text, "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");
    return bp_text_flush(&w.text);
}
