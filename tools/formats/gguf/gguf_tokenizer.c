/* SPDX-License-Identifier: MIT */
/* A tokenizer's tables as arrays of GGUF. */
#include "tools/formats/gguf/gguf_tokenizer.h"

#include <string.h>

#include "tools/formats/gguf/gguf_unigram.h"
#include "tools/formats/gguf/gguf_words.h"
#include "tools/formats/text/token_table.h"

static const char where[] = "gguf";

size_t bp_gguf_tokenizer_room(const bp_tokenizer *tokenizer)
{
    return tokenizer->merge_count > tokenizer->tokens ? tokenizer->merge_count : tokenizer->tokens;
}

static bool gguf_tokenizer_is_byte_level(const bp_tokenizer *t)
{
    return t->rules.kind == BP_TOKENIZER_BYTES || t->rules.kind == BP_TOKENIZER_BYTE_BPE;
}

/* What llama.cpp calls a split; "" when it has no word for it. Without merges every split gives the
 * same tokens. */
static const char *split_word(const bp_tokenizer *t)
{
    switch (t->rules.split) {
    case BP_SPLIT_GPT2:
        return "gpt-2";
    case BP_SPLIT_LLAMA3:
        return "llama-bpe";
    case BP_SPLIT_QWEN2:
        return "qwen2";
    case BP_SPLIT_DIGITS:
        return "smollm";
    case BP_SPLIT_TEKKEN:
        return "tekken";
    case BP_SPLIT_GPT4O:
        return "gpt-4o";
    default:
        return t->merge_count == 0 ? "gpt-2" : "";
    }
}

/* SentencePiece's own BPE, whose scores are the file's. */
static const char *pieces_refusal(const bp_tokenizer *t)
{
    const bp_token_rules *rules = &t->rules;
    if (rules->charsmap || rules->strip_right) {
        return rules->charsmap ? "readers of pieces apply no character map (precompiled_charsmap)"
                               : "readers of pieces keep every space (remove_extra_whitespaces)";
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        if (!rules->fallback || t->byte_ids[byte] == BP_TOKEN_NONE) {
            return "readers of pieces spell what is unknown in bytes, which need byte pieces "
                   "(byte_fallback)";
        }
    }
    for (uint32_t id = 0; rules->prefix != BP_PREFIX_NEVER && id < t->tokens; id++) {
        if ((t->lengths[id] & BP_TOKEN_USER) != 0) {
            return "readers put a space behind every added piece where texts begin with one "
                   "(add_dummy_prefix)";
        }
    }
    return NULL;
}

const char *bp_gguf_tokenizer_refusal(const bp_tokenizer *tokenizer, const bp_model_config *config)
{
    if (tokenizer->added_word) {
        return "readers of GGUF files know no added token that is a single word (single_word)";
    }
    if (tokenizer->rules.ranked) {
        return tokenizer->rules.split == BP_SPLIT_LLAMA3
                   ? "tiktoken's tokenizer.model is not written to GGUF files; save the tokenizer "
                     "as tokenizer.json"
                   : "tekken.json is not written to GGUF files; save the tokenizer as "
                     "tokenizer.json";
    }
    if (gguf_tokenizer_is_byte_level(tokenizer)) {
        return split_word(tokenizer)[0] != '\0' ? NULL
                                                : "GGUF has no name for the way it splits text";
    }
    if (tokenizer->rules.kind == BP_TOKENIZER_WORDPIECE) {
        return bp_gguf_words_refusal(tokenizer);
    }
    if (tokenizer->rules.kind == BP_TOKENIZER_UNIGRAM) {
        return bp_gguf_unigram_refusal(tokenizer, config);
    }
    return tokenizer->rules.native ? pieces_refusal(tokenizer) : NULL;
}

/* GPT-2's character for a byte, as UTF-8; the reverse of bp_token_bytes_of. */
static size_t put_byte(unsigned char byte, char *to)
{
    uint32_t c = byte;
    if (byte < 33) {
        c = 256u + byte;
    } else if (byte >= 127 && byte <= 160) {
        c = 256u + 33u + (byte - 127u);
    } else if (byte == 173) {
        c = 256u + 67u;
    }
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    to[0] = (char)(0xc0 | c >> 6);
    to[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}

/* A token as a vocabulary file spells it. One that cannot be found by its text was written out. */
static size_t spell(const bp_tokenizer *t, uint32_t id, char *to)
{
    size_t length;
    size_t put = 0;
    const unsigned char *text = bp_token_text(t, id, &length);
    if (!gguf_tokenizer_is_byte_level(t) || bp_token_find(t, text, length) != id) {
        memcpy(to, text, length);
        return length;
    }
    for (size_t i = 0; i < length; i++) {
        put += put_byte(text[i], to + put);
    }
    return put;
}

/* Spaces of tokens that users added are spaces in the file: readers look for them before spaces
 * become U+2581. */
static size_t spell_user(const bp_tokenizer *t, uint32_t id, char *to)
{
    static const char meta[3] = {'\xe2', '\x96', '\x81'};
    const size_t length = spell(t, id, to);
    size_t put = 0;
    for (size_t i = 0; i < length; put++) {
        const bool space = t->rules.spaces && i + 3 <= length && memcmp(to + i, meta, 3) == 0;
        to[put] = space ? ' ' : to[i];
        i += space ? 3 : 1;
    }
    return put;
}

static bool is_added(const bp_tokenizer *t, uint32_t id)
{
    for (uint32_t i = 0; i < t->added_count; i++) {
        if (t->added[i].id == id) {
            return true;
        }
    }
    return false;
}

static int32_t gguf_tokenizer_type_of(const bp_gguf_tokenizer *g, uint32_t id)
{
    const bp_tokenizer *t = g->tokenizer;
    size_t length;
    if (!bp_token_exists(t, id)) {
        return BP_GGUF_TOKEN_UNUSED;
    }
    const bool words = t->rules.kind == BP_TOKENIZER_WORDPIECE;
    const bool unigram = t->rules.kind == BP_TOKENIZER_UNIGRAM;
    const int64_t unknown = unigram ? (int64_t)t->rules.unknown_id : t->special.unk;
    if (!words && !gguf_tokenizer_is_byte_level(t) && (int64_t)id == unknown) {
        return BP_GGUF_TOKEN_UNKNOWN;
    }
    const bool bytes = t->rules.kind == BP_TOKENIZER_BYTES; /* where a text may hold them too */
    const bool ends = (int64_t)id == g->config->bos_token || (int64_t)id == g->config->eos_token;
    if (bp_tokenizer_is_special(t, id) || (ends && !bytes)) {
        return BP_GGUF_TOKEN_CONTROL;
    }
    if (is_added(t, id) || (t->lengths[id] & BP_TOKEN_USER) != 0) {
        return BP_GGUF_TOKEN_USER;
    }
    const unsigned char *text = bp_token_text(t, id, &length);
    bool byte = t->rules.kind == BP_TOKENIZER_CHAR_BPE && length == 6 &&
                memcmp(text, "<0x", 3) == 0 && text[5] == '>';
    return byte ? BP_GGUF_TOKEN_BYTE : BP_GGUF_TOKEN_NORMAL;
}

static void put_tokens(const bp_gguf_tokenizer *g, bp_gguf_writer *w)
{
    char *text = g->text;
    bp_gguf_put_array(w, "tokenizer.ggml.tokens", BP_GGUF_STRING, g->config->vocabulary);
    for (uint32_t id = 0; id < g->config->vocabulary; id++) {
        if (bp_token_exists(g->tokenizer, id)) {
            const int32_t type = gguf_tokenizer_type_of(g, id);
            const bool user = type == BP_GGUF_TOKEN_USER;
            size_t length = (user ? spell_user : spell)(g->tokenizer, id, text);
            if (g->tokenizer->rules.kind == BP_TOKENIZER_WORDPIECE &&
                type == BP_GGUF_TOKEN_NORMAL) {
                length = bp_gguf_words_spell(text, length);
            }
            bp_gguf_item_string(w, text, length);
            continue;
        }
        bp_text pad;
        bp_text_init(&pad, NULL, NULL, text, BP_GGUF_TOKENIZER_TEXT);
        bp_text_string(&pad, "[PAD");
        bp_text_u64(&pad, id);
        bp_text_char(&pad, ']');
        bp_status fits = bp_text_flush(&pad);
        (void)fits; /* sixteen characters at most */
        bp_gguf_item_string(w, text, (size_t)pad.written);
    }
}

static void gguf_tokenizer_put_types(const bp_gguf_tokenizer *g, bp_gguf_writer *w)
{
    bp_gguf_put_array(w, "tokenizer.ggml.token_type", BP_GGUF_I32, g->config->vocabulary);
    for (uint32_t id = 0; id < g->config->vocabulary; id++) {
        bp_gguf_item_i32(w, gguf_tokenizer_type_of(g, id));
    }
}

/* Puts the merges' places in the table into the order of their ranks; returns how many. */
static uint32_t order_merges(const bp_gguf_tokenizer *g)
{
    const bp_tokenizer *t = g->tokenizer;
    uint32_t count = 0;
    for (uint32_t r = 0; r < t->merge_count; r++) {
        g->order[r] = BP_TOKEN_NONE;
    }
    for (uint64_t slot = 0; slot <= t->merge_mask; slot++) {
        const bp_token_merge *merge = &t->merges[slot];
        if (merge->rank < t->merge_count) {
            g->order[merge->rank] = (uint32_t)slot;
            count++;
        }
    }
    return count;
}

static void put_merges(const bp_gguf_tokenizer *g, bp_gguf_writer *w)
{
    const bp_tokenizer *t = g->tokenizer;
    char *text = g->text;
    bp_gguf_put_array(w, "tokenizer.ggml.merges", BP_GGUF_STRING, order_merges(g));
    for (uint32_t r = 0; r < t->merge_count; r++) {
        if (g->order[r] == BP_TOKEN_NONE) {
            continue;
        }
        const bp_token_merge *merge = &t->merges[g->order[r]];
        size_t left = spell(t, merge->left, text);
        text[left] = ' ';
        bp_gguf_item_string(w, text, left + 1 + spell(t, merge->right, text + left + 1));
    }
}

/* A vocabulary's own scores; converters give this one to ids without a token. */
static void put_own_scores(const bp_gguf_tokenizer *g, bp_gguf_writer *w)
{
    const bp_tokenizer *t = g->tokenizer;
    bp_gguf_put_array(w, "tokenizer.ggml.scores", BP_GGUF_F32, g->config->vocabulary);
    for (uint32_t id = 0; id < g->config->vocabulary; id++) {
        const int32_t type = gguf_tokenizer_type_of(g, id);
        const float absent = type == BP_GGUF_TOKEN_UNUSED ? -10000.0f : 0.0f;
        bp_gguf_item_f32(w, type == BP_GGUF_TOKEN_NORMAL ? (float)t->scores[id] : absent);
    }
}

/* The rank of the first merge that makes a token, by id; what no merge makes comes last. */
static void put_scores(const bp_gguf_tokenizer *g, bp_gguf_writer *w)
{
    const bp_tokenizer *t = g->tokenizer;
    if (t->scores != NULL) {
        put_own_scores(g, w);
        return;
    }
    for (uint32_t id = 0; id < t->tokens; id++) {
        g->order[id] = t->merge_count;
    }
    for (uint64_t slot = 0; slot <= t->merge_mask; slot++) {
        const bp_token_merge *merge = &t->merges[slot];
        if (merge->rank < t->merge_count && merge->rank < g->order[merge->id]) {
            g->order[merge->id] = merge->rank;
        }
    }
    bp_gguf_put_array(w, "tokenizer.ggml.scores", BP_GGUF_F32, g->config->vocabulary);
    for (uint32_t id = 0; id < g->config->vocabulary; id++) {
        bool plain =
            bp_token_exists(t, id) && gguf_tokenizer_type_of(g, id) == BP_GGUF_TOKEN_NORMAL;
        bp_gguf_item_f32(w, plain ? -(float)g->order[id] : 0.0f);
    }
}

/* What readers take for granted unless the file says otherwise: a beginning token before text of
 * pieces, of Llama 3 and of tekken, and a space before text of pieces. */
static void put_flags(const bp_gguf_tokenizer *g, bp_gguf_writer *w)
{
    const bp_token_rules *rules = &g->tokenizer->rules;
    const bool bytes = gguf_tokenizer_is_byte_level(g->tokenizer);
    const bp_template_part *before = &rules->single.before;
    const bool silent = g->config->bos_token < 0; /* the configuration: the text's own beginning */
    const bool begins =
        before->count > 0 && (silent || (int64_t)before->ids[0] == g->config->bos_token);
    if (silent && begins) {
        bp_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", before->ids[0]);
    }
    const bool usual = !bytes || rules->split == BP_SPLIT_LLAMA3 || rules->split == BP_SPLIT_TEKKEN;
    if (begins != usual) {
        bp_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", begins);
    }
    const bp_template_part *after = &rules->single.after;
    if (g->config->eos_token >= 0 && after->count > 0 &&
        (int64_t)after->ids[0] == g->config->eos_token) {
        bp_gguf_put_bool(w, "tokenizer.ggml.add_eos_token", true);
    }
    if (!bytes && rules->prefix == BP_PREFIX_NEVER) {
        bp_gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", false);
    }
}

bp_status bp_gguf_put_tokenizer(void *user, bp_gguf_writer *writer)
{
    const bp_gguf_tokenizer *g = user;
    const bp_tokenizer *t = g->tokenizer;
    const char *refusal = bp_gguf_tokenizer_refusal(t, g->config);
    if (refusal != NULL) {
        return bp_error_set(g->error, BP_ERR_USAGE, where, refusal, "tokenizer");
    }
    if (t->tokens > g->config->vocabulary) {
        return bp_error_limit(g->error, BP_ERR_DATA, where,
                              "the tokenizer has more tokens than the model", "tokenizer",
                              t->tokens, BP_LIMIT_MOST, g->config->vocabulary);
    }
    if (t->rules.kind == BP_TOKENIZER_WORDPIECE) {
        bp_gguf_words_put(t, g->config, writer);
        put_tokens(g, writer);
        gguf_tokenizer_put_types(g, writer);
        return writer->text.status;
    }
    if (t->rules.kind == BP_TOKENIZER_UNIGRAM) {
        bp_gguf_unigram_put(t, g->config, writer);
        put_tokens(g, writer);
        put_own_scores(g, writer);
        gguf_tokenizer_put_types(g, writer);
        return writer->text.status;
    }
    bool bytes = gguf_tokenizer_is_byte_level(t);
    const char *split = bytes ? split_word(t) : "default";
    bp_gguf_put_string(writer, "tokenizer.ggml.model", bytes ? "gpt2" : "llama", bytes ? 4 : 5);
    bp_gguf_put_string(writer, "tokenizer.ggml.pre", split, strlen(split));
    put_flags(g, writer);
    put_tokens(g, writer);
    if (!bytes) {
        put_scores(g, writer);
    }
    gguf_tokenizer_put_types(g, writer);
    if (bytes) {
        put_merges(g, writer);
    }
    return writer->text.status;
}
