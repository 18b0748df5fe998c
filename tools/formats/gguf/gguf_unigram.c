/* SPDX-License-Identifier: MIT */
/* As convert_hf_to_gguf.py has it for T5 and for XLM-R, and llama.cpp reads it
 * (llm_tokenizer_ugm). */
#include "tools/formats/gguf/gguf_unigram.h"

#include <math.h>
#include <string.h>

#include "tools/formats/text/token_table.h"

static const char meta[3] = {'\xe2', '\x96', '\x81'};

/* What becomes of spaces: those at the ends and all but one between words are dropped, and U+2581
 * stands before every word; or one before the text is all there is to it. */
typedef struct spacing {
    bool merged, prefixed;
} spacing;

static spacing spacing_of(const bp_token_rules *rules)
{
    if (rules->native) {
        return (spacing){rules->strip_right, rules->prefix == BP_PREFIX_PREPEND};
    }
    const bool merged = rules->words || (rules->strip_right && rules->runs != BP_RUNS_STAY);
    return (spacing){merged, rules->prefix == BP_PREFIX_META};
}

static const char *spaces_refusal(const bp_token_rules *rules)
{
    const spacing is = spacing_of(rules);
    if (is.merged && !is.prefixed) {
        return "readers of Unigram that drop spaces put one before a text, which this tokenizer "
               "does not";
    }
    if (rules->native) {
        return NULL;
    }
    if (!rules->spaces || rules->prefix == BP_PREFIX_META_FIRST) {
        return "readers of Unigram put U+2581 for a space, and before every part of a text";
    }
    if (!is.merged && (rules->strip_right || rules->runs != BP_RUNS_STAY)) {
        return "readers of Unigram drop spaces at both ends of a text and between words, or none";
    }
    return !is.merged && is.prefixed
               ? "readers of Unigram put a space before a text that begins with one too"
               : NULL;
}

/* Whether every kind of space that the library drops has become one that readers drop. */
static bool maps_spaces(const bp_tokenizer *t)
{
    static const char *const spaces[] = {"\t", "\n", "\r", "\xc2\xa0", "\xe3\x80\x80"};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        const unsigned char *space = (const unsigned char *)spaces[i];
        size_t used, bytes;
        const char *found = NULL;
        if (t->rules.charsmap) {
            found = bp_charsmap_find(&t->charsmap, space, strlen(spaces[i]), true, &used, &bytes);
        }
        if (found == NULL || strcmp(found, " ") != 0) {
            return false;
        }
    }
    return true;
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

/* Whether U+2581 stands in a piece behind its beginning. */
static bool reaches_over(const unsigned char *text, size_t length)
{
    for (size_t i = 1; i + sizeof meta <= length; i++) {
        if (memcmp(text + i, meta, sizeof meta) == 0) {
            return true;
        }
    }
    return false;
}

static const char *pieces_refusal(const bp_tokenizer *t)
{
    const bool cut = !t->rules.native && (t->rules.words || t->rules.split == BP_SPLIT_META);
    double least = HUGE_VAL, normal = HUGE_VAL;
    for (uint32_t id = 0; id < t->tokens; id++) {
        size_t length = 0;
        if (!bp_token_exists(t, id) || id == t->rules.unknown_id) {
            continue;
        }
        const unsigned char *text = bp_token_text(t, id, &length);
        const bool added = is_added(t, id);
        const bool found = bp_token_find(t, text, length) == id;
        if (!found && !added) {
            return "readers of Unigram take its unused pieces too";
        }
        if (cut && !added && reaches_over(text, length)) {
            return "a piece reaches over a space, where readers of Unigram do not cut";
        }
        least = found && t->scores[id] < least ? t->scores[id] : least;
        normal = !added && t->scores[id] < normal ? t->scores[id] : normal;
    }
    if (cut && bp_token_find(t, meta, sizeof meta) == BP_TOKEN_NONE) {
        return "without the piece U+2581 readers of Unigram take unknown words for one";
    }
    return !t->rules.native && least < normal
               ? "readers of Unigram score what is unknown by its ordinary pieces alone"
               : NULL;
}

/* What the first and the last token of a text are; -1: there is none. */
static int64_t only_id(const bp_template_part *part)
{
    return part->count > 0 ? (int64_t)part->ids[0] : -1;
}

static const char *ends_refusal(const bp_tokenizer *t, const bp_model_config *config)
{
    const bp_template *single = &t->rules.single;
    const int64_t first = only_id(&single->before), last = only_id(&single->after);
    const bool usual = single->before.count <= 1 && single->after.count <= 1 &&
                       (first < 0 || config->bos_token < 0 || first == config->bos_token) &&
                       (last < 0 || config->eos_token < 0 || last == config->eos_token);
    return usual ? NULL
                 : "readers of Unigram put bos_token_id before a text and eos_token_id behind it";
}

const char *bp_gguf_unigram_refusal(const bp_tokenizer *t, const bp_model_config *config)
{
    const bp_token_rules *rules = &t->rules;
    for (uint32_t byte = 0; rules->fallback && byte < 256; byte++) {
        if (t->byte_ids[byte] != BP_TOKEN_NONE) {
            return "readers of Unigram give unknown text one token, not its bytes (byte_fallback)";
        }
    }
    if (rules->compose || rules->compatible || rules->lower) {
        return "readers of Unigram know a character map, and neither normal forms nor lower case";
    }
    const char *why = spaces_refusal(rules);
    if (why == NULL && !rules->native && spacing_of(rules).merged && !maps_spaces(t)) {
        why = "readers of Unigram drop no tabs and line ends, and it has no character map that "
              "makes spaces of them";
    }
    why = why == NULL ? ends_refusal(t, config) : why;
    return why == NULL ? pieces_refusal(t) : why;
}

static void put_id(bp_gguf_writer *w, const char *key, int64_t id)
{
    if (id >= 0) {
        bp_gguf_put_u32(w, key, (uint32_t)id);
    }
}

void bp_gguf_unigram_put(const bp_tokenizer *t, const bp_model_config *config, bp_gguf_writer *w)
{
    const bp_template *single = &t->rules.single;
    const spacing is = spacing_of(&t->rules);
    const int64_t first = only_id(&single->before), last = only_id(&single->after);
    bp_gguf_put_string(w, "tokenizer.ggml.model", "t5", 2);
    bp_gguf_put_string(w, "tokenizer.ggml.pre", "default", 7);
    bp_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", first >= 0);
    bp_gguf_put_bool(w, "tokenizer.ggml.add_eos_token", last >= 0);
    bp_gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", is.prefixed);
    bp_gguf_put_bool(w, "tokenizer.ggml.remove_extra_whitespaces", is.merged);
    put_id(w, "tokenizer.ggml.unknown_token_id", t->rules.unknown_id);
    put_id(w, "tokenizer.ggml.bos_token_id", config->bos_token < 0 ? first : -1);
    put_id(w, "tokenizer.ggml.eos_token_id", config->eos_token < 0 ? last : -1);
    put_id(w, "tokenizer.ggml.seperator_token_id", t->special.sep);
    put_id(w, "tokenizer.ggml.mask_token_id", t->special.mask);
    if (t->rules.charsmap) {
        bp_gguf_put_array(w, "tokenizer.ggml.precompiled_charsmap", BP_GGUF_U8, t->map_used);
        for (uint32_t i = 0; i < t->map_used; i++) {
            bp_gguf_item_u8(w, t->map[i]);
        }
    }
}
