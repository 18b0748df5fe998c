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
    {"tekken", CASES(""), "", false, true, true},
    {"gpt-4o", CASES("(?i:'s|'t|'re|'ve|'m|'ll|'d)?"), "{1,3}", false, false, false},
};

typedef struct writing {
    const bp_gguf_file *file;
    const split *how; /* NULL: SentencePiece's pieces, or words */
    bool words;       /* WordPiece */
    bool unigram;
    bp_text text;
    bp_json_writer json;
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
                                "tokenizer.ggml.token_type", bp_size_signed(k->types.key->count),
                                bp_size_signed(k->tokens.key->count));
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
    bp_json_writer *json = &w->json;
    BP_TRY(walk_begin(w, &k));
    bp_json_put_lines(json, "added_tokens", '[');
    for (uint64_t id = 0; id < k.tokens.key->count; id++) {
        size_t length;
        int32_t type;
        BP_TRY(walk_next(w, &k, &length, &type));
        if (!is_added(w, type)) {
            continue;
        }
        bp_json_put_open(json, NULL, '{');
        bp_json_put_u64(json, "id", id);
        bp_json_put_bytes(json, "content", w->token, length);
        bp_json_put_flag(json, "single_word", false);
        bp_json_put_flag(json, "lstrip", false);
        bp_json_put_flag(json, "rstrip", false);
        bp_json_put_flag(json, "normalized", false);
        bp_json_put_flag(json, "special", is_special(w, type));
        bp_json_put_close(json);
    }
    bp_json_put_close(json);
    return BP_OK;
}

static bp_status put_vocabulary(writing *w)
{
    walk k;
    BP_TRY(walk_begin(w, &k));
    bp_json_put_lines(&w->json, "vocab", '{');
    for (uint64_t id = 0; id < k.tokens.key->count; id++) {
        size_t length;
        int32_t type;
        BP_TRY(walk_next(w, &k, &length, &type));
        bool out = type == BP_GGUF_TOKEN_UNUSED ||
                   (w->how != NULL && is_added(w, type) && !is_plain(w->token, length));
        if (out) {
            continue;
        }
        if (w->words && type == BP_GGUF_TOKEN_NORMAL) {
            bp_gguf_words_json(&w->json, w->token, length);
        } else {
            bp_json_put_key(&w->json, w->token, length);
        }
        bp_json_put_u64(&w->json, NULL, id);
    }
    bp_json_put_close(&w->json);
    return BP_OK;
}

static bp_status put_merges(writing *w)
{
    bp_gguf_items items;
    if (w->how == NULL) {
        return bp_gguf_put_pieces(w->file, w->room, &w->json, w->error);
    }
    bp_json_put_lines(&w->json, "merges", '[');
    if (bp_gguf_find(w->file, "tokenizer.ggml.merges") != NULL) {
        BP_TRY(bp_gguf_items_begin(&items, w->file, "tokenizer.ggml.merges", BP_GGUF_STRING));
        for (uint64_t i = 0; i < items.key->count; i++) {
            size_t length;
            BP_TRY(bp_gguf_items_string(&items, w->token, TOKEN, &length));
            bp_json_put_bytes(&w->json, NULL, w->token, length);
        }
    }
    bp_json_put_close(&w->json);
    return BP_OK;
}

static void put_pattern(writing *w, const char *key)
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
    bp_json_put_text(&w->json, key, pattern);
}

static bool truth_of(const bp_gguf_file *file, const char *name, bool other)
{
    const bp_gguf_key *key = bp_gguf_find(file, name);
    return key != NULL && key->type == BP_GGUF_BOOL ? key->bits != 0 : other;
}

/* The text of the token that a key names; *there is false when it names none. */
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
    char text[4 * 64];
    size_t length;
    uint32_t id;
    bool there;
} mark;

static bp_status take_mark(writing *w, const char *key, bool there, mark *to)
{
    to->there = there;
    if (there) {
        BP_TRY(find_token(w, key, &to->length, &to->id, &to->there));
    }
    if (!to->there) {
        return BP_OK;
    }
    if (to->length + 2 >= sizeof to->text) {
        return bp_error_set(w->error, BP_ERR_DATA, "gguf", "this token is too long", key);
    }
    memcpy(to->text, w->token, to->length);
    return BP_OK;
}

static void put_token(writing *w, const char *key, const mark *of)
{
    bp_json_put_bytes(&w->json, key, of->text, of->length);
}

static void put_mark(writing *w, const mark *of, uint32_t type)
{
    bp_json_put_open(&w->json, NULL, '{');
    bp_json_put_open(&w->json, "SpecialToken", '{');
    put_token(w, "id", of);
    bp_json_put_u64(&w->json, "type_id", type);
    bp_json_put_close(&w->json);
    bp_json_put_close(&w->json);
}

/* The first or the second text. */
static void put_sequence(writing *w, const char *id, uint32_t type)
{
    bp_json_put_open(&w->json, NULL, '{');
    bp_json_put_open(&w->json, "Sequence", '{');
    bp_json_put_text(&w->json, "id", id);
    bp_json_put_u64(&w->json, "type_id", type);
    bp_json_put_close(&w->json);
    bp_json_put_close(&w->json);
}

static void put_mark_id(writing *w, const mark *of)
{
    bp_json_put_key(&w->json, of->text, of->length);
    bp_json_put_open(&w->json, NULL, '{');
    put_token(w, "id", of);
    bp_json_put_open(&w->json, "ids", '[');
    bp_json_put_u64(&w->json, NULL, of->id);
    bp_json_put_close(&w->json);
    bp_json_put_open(&w->json, "tokens", '[');
    put_token(w, NULL, of);
    bp_json_put_close(&w->json);
    bp_json_put_close(&w->json);
}

/* An encoder's: a token before a text and one behind it; of WordPiece the second of a pair has
 * types of its own, of RoBERTa it begins with one more of the last. */
static void put_around(writing *w, const mark *first, const mark *last)
{
    const uint32_t second = w->words ? 1 : 0;
    for (uint32_t pair = 0; pair < 2; pair++) {
        bp_json_put_open(&w->json, pair == 0 ? "single" : "pair", '[');
        put_mark(w, first, 0);
        put_sequence(w, "A", 0);
        put_mark(w, last, 0);
        if (pair == 1 && !w->words) {
            put_mark(w, last, 0);
        }
        if (pair == 1) {
            put_sequence(w, "B", second);
            put_mark(w, last, second);
        }
        bp_json_put_close(&w->json);
    }
    bp_json_put_open(&w->json, "special_tokens", '{');
    put_mark_id(w, first);
    if (first->id != last->id) {
        put_mark_id(w, last);
    }
    bp_json_put_close(&w->json);
}

/* A token before every text, or behind every text, as T5 has it. */
static void put_one(writing *w, const mark *one, bool behind)
{
    bp_json_put_open(&w->json, "single", '[');
    if (!behind) {
        put_mark(w, one, 0);
    }
    put_sequence(w, "A", 0);
    if (behind) {
        put_mark(w, one, 0);
    }
    bp_json_put_close(&w->json);
    bp_json_put_open(&w->json, "pair", '[');
    put_sequence(w, "A", 0);
    if (behind) {
        put_mark(w, one, 0);
    }
    put_sequence(w, "B", 1);
    if (behind) {
        put_mark(w, one, 1);
    }
    bp_json_put_close(&w->json);
    bp_json_put_open(&w->json, "special_tokens", '{');
    put_mark_id(w, one);
    bp_json_put_close(&w->json);
}

/* What stands around every text: the beginning token where the file says so, and without a word of
 * it for pieces, Llama 3 and tekken, as llama.cpp has it; the last token where it says so, and
 * without a word of it for RoBERTa and Unigram; of words both. */
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
    const bool begins = first.there, ends = last.there;
    if (!begins && !ends) {
        bp_json_put_value(&w->json, "post_processor", "null");
        return BP_OK;
    }
    bp_json_put_open(&w->json, "post_processor", '{');
    bp_json_put_text(&w->json, "type", "TemplateProcessing");
    if (begins && ends) {
        put_around(w, &first, &last);
    } else {
        put_one(w, begins ? &first : &last, ends);
    }
    bp_json_put_close(&w->json);
    return BP_OK;
}

static void put_bytes(writing *w, const char *key, bool regex)
{
    bp_json_put_open(&w->json, key, '{');
    bp_json_put_text(&w->json, "type", "ByteLevel");
    bp_json_put_flag(&w->json, "add_prefix_space", false);
    bp_json_put_flag(&w->json, "trim_offsets", true);
    bp_json_put_flag(&w->json, "use_regex", regex);
    bp_json_put_close(&w->json);
}

/* What cuts a text before the bytes. */
static void put_first_cut(writing *w)
{
    bp_json_put_open(&w->json, NULL, '{');
    if (w->how->pattern == NULL) {
        bp_json_put_text(&w->json, "type", "Digits");
        bp_json_put_flag(&w->json, "individual_digits", true);
    } else {
        bp_json_put_text(&w->json, "type", "Split");
        bp_json_put_open(&w->json, "pattern", '{');
        put_pattern(w, "Regex");
        bp_json_put_close(&w->json);
        bp_json_put_text(&w->json, "behavior", "Isolated");
        bp_json_put_flag(&w->json, "invert", false);
    }
    bp_json_put_close(&w->json);
}

static bp_status put_rules(writing *w)
{
    const bool cut = w->how->pattern != NULL || w->how->digits == NULL;
    bp_json_put_value(&w->json, "normalizer", w->how->compose ? "{\"type\": \"NFC\"}" : "null");
    if (cut) {
        bp_json_put_open(&w->json, "pre_tokenizer", '{');
        bp_json_put_text(&w->json, "type", "Sequence");
        bp_json_put_lines(&w->json, "pretokenizers", '[');
        put_first_cut(w);
        put_bytes(w, NULL, w->how->pattern == NULL);
        bp_json_put_close(&w->json);
        bp_json_put_close(&w->json);
    } else {
        put_bytes(w, "pre_tokenizer", true);
    }
    BP_TRY(put_template(w));
    put_bytes(w, "decoder", true);
    return BP_OK;
}

static void put_replace(writing *w, const char *from, const char *to)
{
    bp_json_put_open(&w->json, NULL, '{');
    bp_json_put_text(&w->json, "type", "Replace");
    bp_json_put_open(&w->json, "pattern", '{');
    bp_json_put_text(&w->json, "String", from);
    bp_json_put_close(&w->json);
    bp_json_put_text(&w->json, "content", to);
    bp_json_put_close(&w->json);
}

/* Llama 2's: a space becomes a lower block, and one stands before the text. */
static bp_status put_piece_rules(writing *w)
{
    static const char block[] = "\xe2\x96\x81";
    bp_json_writer *json = &w->json;
    const bool before = truth_of(w->file, "tokenizer.ggml.add_space_prefix", true);
    bp_json_put_open(json, "normalizer", '{');
    bp_json_put_text(json, "type", "Sequence");
    bp_json_put_open(json, "normalizers", '[');
    if (before) {
        bp_json_put_value(json, NULL, "{\"type\": \"Prepend\", \"prepend\": \"\xe2\x96\x81\"}");
    }
    put_replace(w, " ", block);
    bp_json_put_close(json);
    bp_json_put_close(json);
    bp_json_put_value(json, "pre_tokenizer", "null");
    BP_TRY(put_template(w));
    bp_json_put_open(json, "decoder", '{');
    bp_json_put_text(json, "type", "Sequence");
    bp_json_put_open(json, "decoders", '[');
    put_replace(w, block, " ");
    bp_json_put_value(json, NULL, "{\"type\": \"ByteFallback\"}");
    bp_json_put_value(json, NULL, "{\"type\": \"Fuse\"}");
    if (before) {
        bp_json_put_value(json, NULL,
                          "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}");
    }
    bp_json_put_close(json);
    bp_json_put_close(json);
    return BP_OK;
}

static bp_status put_words(writing *w)
{
    size_t length = 0;
    uint32_t id;
    bool unknown;
    bp_json_writer *json = &w->json;
    bp_json_put_value(json, "normalizer",
                      "{\"type\": \"BertNormalizer\", \"clean_text\": true, "
                      "\"handle_chinese_chars\": true, \"strip_accents\": null, "
                      "\"lowercase\": true}");
    bp_json_put_value(json, "pre_tokenizer", "{\"type\": \"BertPreTokenizer\"}");
    BP_TRY(put_template(w));
    bp_json_put_value(json, "decoder",
                      "{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}");
    bp_json_put_lines(json, "model", '{');
    bp_json_put_text(json, "type", "WordPiece");
    BP_TRY(find_token(w, "tokenizer.ggml.unknown_token_id", &length, &id, &unknown));
    if (unknown) {
        bp_json_put_bytes(json, "unk_token", w->token, length);
    } else {
        bp_json_put_text(json, "unk_token", "[UNK]");
    }
    bp_json_put_text(json, "continuing_subword_prefix", "##");
    bp_json_put_u64(json, "max_input_chars_per_word", 100);
    BP_TRY(put_vocabulary(w));
    bp_json_put_close(json);
    return BP_OK;
}

static bp_status put_bpe(writing *w)
{
    const bool pieces = w->how == NULL;
    size_t length = 0;
    uint32_t id;
    bool unknown = false;
    bp_json_writer *json = &w->json;
    BP_TRY(pieces ? put_piece_rules(w) : put_rules(w));
    bp_json_put_lines(json, "model", '{');
    bp_json_put_text(json, "type", "BPE");
    bp_json_put_value(json, "dropout", "null");
    if (pieces) {
        BP_TRY(find_token(w, "tokenizer.ggml.unknown_token_id", &length, &id, &unknown));
    }
    if (unknown) {
        bp_json_put_bytes(json, "unk_token", w->token, length);
    } else {
        bp_json_put_value(json, "unk_token", "null");
    }
    bp_json_put_value(json, "continuing_subword_prefix", "null");
    bp_json_put_value(json, "end_of_word_suffix", "null");
    bp_json_put_flag(json, "fuse_unk", pieces);
    bp_json_put_flag(json, "byte_fallback", pieces);
    bp_json_put_flag(json, "ignore_merges", !pieces && w->how->ignore_merges);
    BP_TRY(put_vocabulary(w));
    BP_TRY(put_merges(w));
    bp_json_put_close(json);
    return BP_OK;
}

static bp_status put_document(writing *w)
{
    bp_json_put_text(&w->json, "version", "1.0");
    bp_json_put_value(&w->json, "truncation", "null");
    bp_json_put_value(&w->json, "padding", "null");
    BP_TRY(put_added(w));
    if (w->words) {
        return put_words(w);
    }
    if (w->unigram) {
        BP_TRY(bp_gguf_unigram_rules(w->file, w->token, TOKEN, w->room, &w->json));
        BP_TRY(put_template(w));
        return bp_gguf_unigram_model(w->file, w->token, TOKEN, &w->json);
    }
    return put_bpe(w);
}

static void gguf_tokenizer_begin(writing *w, void *scratch, bp_sink sink, void *user)
{
    w->words = is_model(w->file, "bert");
    w->unigram = is_model(w->file, "t5");
    w->how = is_pieces(w->file) || w->words || w->unigram ? NULL : split_of(w->file);
    bp_text_init(&w->text, sink, user, scratch, BUFFER);
    bp_json_put_begin(&w->json, &w->text, BP_JSON_SPACED);
    bp_json_put_lines(&w->json, NULL, '{');
}

static bp_status gguf_tokenizer_end(writing *w)
{
    bp_json_put_close(&w->json);
    bp_text_char(&w->text, '\n');
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
    w.room = memory + BP_GGUF_TOKENIZER_SCRATCH;
    gguf_tokenizer_begin(&w, scratch, sink, user);
    BP_TRY(put_document(&w));
    return gguf_tokenizer_end(&w);
}

/* A role's token, by its own key or by that of a role that it shares a token with. */
static bp_status put_role(writing *w, const char *role, const char *key, const char *other)
{
    mark token;
    BP_TRY(take_mark(w, key, true, &token));
    if (!token.there && other != NULL) {
        BP_TRY(take_mark(w, other, true, &token));
    }
    if (token.there) {
        put_token(w, role, &token);
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
        bp_json_put_text(&w->json, "mask_token", "[MASK]");
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
    gguf_tokenizer_begin(&w, scratch, sink, user);
    BP_TRY(put_roles(&w));
    if (chat != NULL && chat->type == BP_GGUF_STRING && chat->count < BP_JINJA_SOURCE_MAX) {
        BP_TRY(bp_gguf_take_string(file, key, source, BP_JINJA_SOURCE_MAX));
        bp_json_put_bytes(&w.json, "chat_template", source, (size_t)chat->count);
    }
    bp_json_put_text(&w.json, "tokenizer_class", "PreTrainedTokenizerFast");
    return gguf_tokenizer_end(&w);
}
