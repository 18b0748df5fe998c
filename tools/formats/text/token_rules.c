/* SPDX-License-Identifier: MIT */
/* normalizer, pre_tokenizer, decoder and model of a tokenizer.json. */
#include "tools/formats/text/token_rules.h"

#include <string.h>

#include "arena/text.h"

#define META "\xe2\x96\x81"

static const char where[] = "tokenizer.json";
static const char missing_part[] = "this kind of part is not among the implemented";

/* The split patterns, as they are written in the files. */
#define CONTRACTIONS_ANY_CASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define OTHERS_AND_SPACES     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define CLIP_PATTERN                                                                               \
    "<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|"            \
    "[^\\s\\p{L}\\p{N}]+"

/* Mistral Nemo's and GPT-4o's tell cases apart. */
#define TEKKEN_FIRST                                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
#define TEKKEN_SECOND                                                                              \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
#define GPT4O_END   "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define TEKKEN_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *pattern;
    bp_split_rule rule;
} patterns[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     BP_SPLIT_GPT2},
    {CONTRACTIONS_ANY_CASE "\\p{N}{1,3}" OTHERS_AND_SPACES, BP_SPLIT_LLAMA3},
    {CONTRACTIONS_ANY_CASE "\\p{N}" OTHERS_AND_SPACES, BP_SPLIT_QWEN2},
    {TEKKEN_FIRST "|" TEKKEN_SECOND "|\\p{N}" TEKKEN_REST, BP_SPLIT_TEKKEN},
    {TEKKEN_FIRST GPT4O_END "|" TEKKEN_SECOND GPT4O_END "|\\p{N}{1,3}" TEKKEN_REST, BP_SPLIT_GPT4O},
    /* GPT-4's, as Phi-4 has it: other words for what Llama 3's matches. */
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
     "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     BP_SPLIT_LLAMA3},
};

bool bp_token_rules_pattern(const char *pattern, bp_split_rule *split)
{
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        if (strcmp(patterns[i].pattern, pattern) == 0) {
            *split = patterns[i].rule;
            return true;
        }
    }
    return false;
}

bp_status bp_rules_refuse(const bp_rules_source *s, const char *part, uint32_t node,
                          const char *key, const char *text)
{
    char name[BP_ERROR_NAME_MAX];
    bp_text out;
    bp_text_init(&out, NULL, NULL, name, sizeof name);
    bp_text_string(&out, part);
    const char *type = bp_tree_text(s->tree, bp_tree_find(s->tree, node, "type"));
    if (type[0] != '\0') {
        bp_text_char(&out, ' ');
        bp_text_string(&out, type);
    }
    if (key[0] != '\0') {
        bp_text_char(&out, '.');
        bp_text_string(&out, key);
    }
    /* A name that was cut still names it. */
    if (bp_text_flush(&out) != BP_OK) {
        name[sizeof name - 1] = '\0';
    }
    return bp_error_set(s->error, BP_ERR_DATA, where, text, name);
}

static bool in_list(const char *list, const char *key)
{
    size_t length = strlen(key);
    /* An empty key is found in every place, the one behind the list's end among them. */
    const char *at = length > 0 ? strstr(list, key) : NULL;
    for (; at != NULL; at = strstr(at + 1, key)) {
        bool begins = at == list || at[-1] == ' ';
        if (begins && (at[length] == ' ' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

bp_status bp_rules_only(const bp_rules_source *s, const char *part, uint32_t node, const char *list)
{
    if (!bp_tree_is(s->tree, node, BP_JSON_OBJECT_BEGIN)) {
        return bp_rules_refuse(s, part, node, "", "this part must be an object");
    }
    for (uint32_t child = s->tree->nodes[node].first; child != BP_TREE_NONE;
         child = s->tree->nodes[child].next) {
        const char *key = s->tree->text + s->tree->nodes[child].key;
        if (!in_list(list, key)) {
            return bp_rules_refuse(s, part, node, key, "this setting is not implemented");
        }
    }
    return BP_OK;
}

bp_status bp_rules_flag(const bp_rules_source *s, const char *part, uint32_t node, const char *key,
                        bool otherwise, bool *flag)
{
    uint32_t member = bp_tree_find(s->tree, node, key);
    *flag = member == BP_TREE_NONE ? otherwise : bp_tree_is(s->tree, member, BP_JSON_TRUE);
    if (member != BP_TREE_NONE && !*flag && !bp_tree_is(s->tree, member, BP_JSON_FALSE)) {
        return bp_rules_refuse(s, part, node, key, "this setting must be true or false");
    }
    return BP_OK;
}

/* A setting that is only implemented with one value. */
static bp_status need_flag(const bp_rules_source *s, const char *part, uint32_t node,
                           const char *key, bool otherwise, bool wanted)
{
    bool flag;
    BP_TRY(bp_rules_flag(s, part, node, key, otherwise, &flag));
    return flag == wanted
               ? BP_OK
               : bp_rules_refuse(s, part, node, key,
                                 wanted ? "only true is implemented" : "only false is implemented");
}

bp_status bp_rules_need_text(const bp_rules_source *s, const char *part, uint32_t node,
                             const char *key, const char *wanted)
{
    return bp_tree_is_text(s->tree, bp_tree_find(s->tree, node, key), wanted)
               ? BP_OK
               : bp_rules_refuse(s, part, node, key, "this value is not implemented");
}

bool bp_rules_is(const bp_rules_source *s, uint32_t node, const char *type)
{
    return bp_tree_is_text(s->tree, bp_tree_find(s->tree, node, "type"), type);
}

bp_status bp_rules_list(const bp_rules_source *s, const char *part, uint32_t node,
                        const char *list_key, uint32_t *first, bool *sequence)
{
    *first = node;
    *sequence = bp_rules_is(s, node, "Sequence");
    if (!*sequence) {
        return BP_OK;
    }
    uint32_t list = bp_tree_find(s->tree, node, list_key);
    if (!bp_tree_is(s->tree, list, BP_JSON_ARRAY_BEGIN)) {
        return bp_rules_refuse(s, part, node, list_key, "the list of the sequence is missing");
    }
    *first = s->tree->nodes[list].first;
    return BP_OK;
}

static uint32_t after(const bp_rules_source *s, uint32_t node, bool sequence)
{
    return sequence ? s->tree->nodes[node].next : BP_TREE_NONE;
}

/* ---- normalizer ---- */

static bp_status read_bert_normalizer(const bp_rules_source *s, uint32_t node,
                                      bp_token_rules *rules)
{
    static const char part[] = "normalizer";
    BP_TRY(bp_rules_only(s, part, node,
                         "type clean_text handle_chinese_chars strip_accents lowercase"));
    BP_TRY(bp_rules_flag(s, part, node, "clean_text", true, &rules->clean));
    BP_TRY(bp_rules_flag(s, part, node, "handle_chinese_chars", true, &rules->ideographs));
    BP_TRY(bp_rules_flag(s, part, node, "lowercase", true, &rules->lower));
    if (bp_tree_is_null(s->tree, bp_tree_find(s->tree, node, "strip_accents"))) {
        rules->accents = rules->lower;
        return BP_OK;
    }
    return bp_rules_flag(s, part, node, "strip_accents", false, &rules->accents);
}

static bp_status read_normalizer_step(const bp_rules_source *s, uint32_t node,
                                      bp_token_rules *rules)
{
    static const char part[] = "normalizer";
    if (bp_rules_is(s, node, "Prepend") && !rules->spaces) {
        BP_TRY(bp_rules_only(s, part, node, "type prepend"));
        rules->prefix = BP_PREFIX_PREPEND;
        return bp_rules_need_text(s, part, node, "prepend", META);
    }
    if (bp_rules_is(s, node, "Replace")) {
        BP_TRY(bp_rules_only(s, part, node, "type pattern content"));
        uint32_t pattern = bp_tree_find(s->tree, node, "pattern");
        BP_TRY(bp_rules_only(s, part, pattern, "String"));
        BP_TRY(bp_rules_need_text(s, part, pattern, "String", " "));
        rules->spaces = true;
        return bp_rules_need_text(s, part, node, "content", META);
    }
    return bp_rules_refuse(s, part, node, "", missing_part);
}

/* NFC, any white space a space, lower case, in this order. The split drops what the second makes.
 */
static bp_status read_clip_step(const bp_rules_source *s, uint32_t node, bp_token_rules *rules)
{
    static const char part[] = "normalizer";
    if (bp_rules_is(s, node, "NFC") && !rules->lower) {
        rules->compose = true;
        return bp_rules_only(s, part, node, "type");
    }
    if (bp_rules_is(s, node, "Lowercase")) {
        rules->lower = true;
        return bp_rules_only(s, part, node, "type");
    }
    if (bp_rules_is(s, node, "Replace")) {
        const uint32_t pattern = bp_tree_find(s->tree, node, "pattern");
        BP_TRY(bp_rules_only(s, part, node, "type pattern content"));
        BP_TRY(bp_rules_only(s, part, pattern, "Regex"));
        BP_TRY(bp_rules_need_text(s, part, pattern, "Regex", "\\s+"));
        return bp_rules_need_text(s, part, node, "content", " ");
    }
    return bp_rules_refuse(s, part, node, "", missing_part);
}

static bp_status read_normalizer(const bp_rules_source *s, bp_token_rules *rules)
{
    static const char part[] = "normalizer";
    uint32_t node = s->normalizer;
    bool sequence;
    rules->plain = bp_tree_is_null(s->tree, node);
    if (rules->plain) {
        return BP_OK;
    }
    if (rules->kind == BP_TOKENIZER_UNIGRAM) {
        return bp_rules_unigram_normalizer(s, rules);
    }
    if (rules->kind == BP_TOKENIZER_WORDPIECE) {
        return bp_rules_is(s, node, "BertNormalizer")
                   ? read_bert_normalizer(s, node, rules)
                   : bp_rules_refuse(s, part, node, "", missing_part);
    }
    BP_TRY(bp_rules_list(s, part, node, "normalizers", &node, &sequence));
    while (node != BP_TREE_NONE) {
        if (rules->kind == BP_TOKENIZER_CHAR_BPE) {
            BP_TRY(read_normalizer_step(s, node, rules));
        } else if (rules->ends) {
            BP_TRY(read_clip_step(s, node, rules));
        } else if (bp_rules_is(s, node, "NFC")) {
            BP_TRY(bp_rules_only(s, part, node, "type"));
            rules->compose = true;
        } else {
            return bp_rules_refuse(s, part, node, "", missing_part);
        }
        node = after(s, node, sequence);
    }
    return BP_OK;
}

/* ---- pre_tokenizer ---- */

static bp_status read_byte_level(const bp_rules_source *s, uint32_t node, bool split_before,
                                 bp_token_rules *rules)
{
    static const char part[] = "pre_tokenizer";
    bool regex;
    bool space;
    BP_TRY(bp_rules_only(s, part, node, "type add_prefix_space trim_offsets use_regex"));
    BP_TRY(bp_rules_flag(s, part, node, "use_regex", true, &regex));
    BP_TRY(bp_rules_flag(s, part, node, "add_prefix_space", true, &space));
    if (split_before && (regex || space)) {
        return bp_rules_refuse(s, part, node, regex ? "use_regex" : "add_prefix_space",
                               "only false is implemented behind a Split");
    }
    rules->split = split_before ? rules->split : regex ? BP_SPLIT_GPT2 : BP_SPLIT_WHOLE;
    rules->prefix = space ? BP_PREFIX_SPACE : BP_PREFIX_NEVER;
    return BP_OK;
}

/* CLIP's Split, whose matches are the words. ByteLevel's own pattern behind it cuts the names of
 * special tokens alone. */
static bp_status read_clip_split(const bp_rules_source *s, uint32_t node, uint32_t level,
                                 bp_token_rules *rules)
{
    static const char part[] = "pre_tokenizer";
    const uint32_t pattern = bp_tree_find(s->tree, node, "pattern");
    if (!bp_rules_is(s, node, "Split") || !bp_rules_is(s, level, "ByteLevel") ||
        s->tree->nodes[level].next != BP_TREE_NONE) {
        return bp_rules_refuse(s, part, node, "",
                               "behind end_of_word_suffix only Split and then ByteLevel are "
                               "implemented");
    }
    BP_TRY(bp_rules_only(s, part, node, "type pattern behavior invert"));
    BP_TRY(bp_rules_need_text(s, part, node, "behavior", "Removed"));
    BP_TRY(need_flag(s, part, node, "invert", false, true));
    BP_TRY(bp_rules_only(s, part, pattern, "Regex"));
    BP_TRY(bp_rules_need_text(s, part, pattern, "Regex", CLIP_PATTERN));
    BP_TRY(bp_rules_only(s, part, level, "type add_prefix_space trim_offsets use_regex"));
    BP_TRY(need_flag(s, part, level, "add_prefix_space", true, false));
    BP_TRY(need_flag(s, part, level, "use_regex", true, true));
    rules->split = BP_SPLIT_CLIP;
    return BP_OK;
}

static bp_status read_split(const bp_rules_source *s, uint32_t node, bp_token_rules *rules)
{
    static const char part[] = "pre_tokenizer";
    BP_TRY(bp_rules_only(s, part, node, "type pattern behavior invert"));
    BP_TRY(bp_rules_need_text(s, part, node, "behavior", "Isolated"));
    BP_TRY(need_flag(s, part, node, "invert", false, false));
    uint32_t pattern = bp_tree_find(s->tree, node, "pattern");
    BP_TRY(bp_rules_only(s, part, pattern, "Regex"));
    uint32_t regex = bp_tree_find(s->tree, pattern, "Regex");
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        if (bp_tree_is_text(s->tree, regex, patterns[i].pattern)) {
            rules->split = patterns[i].rule;
            return BP_OK;
        }
    }
    return bp_rules_refuse(s, "pre_tokenizer Split", BP_TREE_NONE, bp_tree_text(s->tree, regex),
                           "this pattern is not among the implemented (GPT-2's, Llama 3's, "
                           "Qwen2's, tekken's, GPT-4o's)");
}

bp_status bp_rules_metaspace(const bp_rules_source *s, const char *part, uint32_t node,
                             bp_prefix_rule *prefix, bool *split)
{
    bool legacy;
    BP_TRY(bp_rules_only(s, part, node,
                         "type replacement add_prefix_space prepend_scheme split str_rep"));
    BP_TRY(bp_rules_need_text(s, part, node, "replacement", META));
    BP_TRY(bp_rules_flag(s, part, node, "add_prefix_space", true, &legacy));
    BP_TRY(bp_rules_flag(s, part, node, "split", true, split));
    uint32_t scheme = bp_tree_find(s->tree, node, "prepend_scheme");
    *prefix = legacy ? BP_PREFIX_META : BP_PREFIX_NEVER;
    if (bp_tree_is_text(s->tree, scheme, "never")) {
        *prefix = BP_PREFIX_NEVER;
    } else if (bp_tree_is_text(s->tree, scheme, "first")) {
        *prefix = BP_PREFIX_META_FIRST;
    } else if (scheme != BP_TREE_NONE && !bp_tree_is_text(s->tree, scheme, "always")) {
        return bp_rules_refuse(s, part, node, "prepend_scheme", "this value is not implemented");
    }
    return BP_OK;
}

/* Digits before ByteLevel with its own pattern. */
static bp_status read_digits(const bp_rules_source *s, uint32_t node, uint32_t level,
                             bp_token_rules *rules)
{
    static const char part[] = "pre_tokenizer";
    BP_TRY(bp_rules_only(s, part, node, "type individual_digits"));
    BP_TRY(need_flag(s, part, node, "individual_digits", false, true));
    BP_TRY(need_flag(s, part, level, "use_regex", true, true));
    BP_TRY(need_flag(s, part, level, "add_prefix_space", true, false));
    rules->split = BP_SPLIT_DIGITS;
    return BP_OK;
}

/* Byte-level splitting: ByteLevel, or Digits before it, or Split and then ByteLevel without its own
 * pattern. */
static bp_status read_byte_splits(const bp_rules_source *s, uint32_t node, bool sequence,
                                  bp_token_rules *rules)
{
    static const char part[] = "pre_tokenizer";
    bool split = sequence && bp_rules_is(s, node, "Split");
    bool digits = sequence && bp_rules_is(s, node, "Digits");
    uint32_t first = node;
    if (rules->ends) {
        return read_clip_split(s, node, after(s, node, sequence), rules);
    }
    if (split) {
        BP_TRY(read_split(s, node, rules));
    }
    if (split || digits) {
        node = after(s, node, sequence);
    }
    if (!bp_rules_is(s, node, "ByteLevel")) {
        return bp_rules_refuse(s, part, node, "", missing_part);
    }
    BP_TRY(read_byte_level(s, node, split, rules));
    if (digits) {
        BP_TRY(read_digits(s, first, node, rules));
    }
    node = after(s, node, sequence);
    return node == BP_TREE_NONE ? BP_OK : bp_rules_refuse(s, part, node, "", missing_part);
}

/* Gemma's Split at spaces, of which the normalizer left none. */
static bp_status read_no_split(const bp_rules_source *s, uint32_t node)
{
    static const char part[] = "pre_tokenizer";
    BP_TRY(bp_rules_only(s, part, node, "type pattern behavior invert"));
    BP_TRY(need_flag(s, part, node, "invert", false, false));
    const uint32_t pattern = bp_tree_find(s->tree, node, "pattern");
    BP_TRY(bp_rules_only(s, part, pattern, "String"));
    return bp_rules_need_text(s, part, pattern, "String", " ");
}

static bp_status read_pre_tokenizer(const bp_rules_source *s, bp_token_rules *rules)
{
    static const char part[] = "pre_tokenizer";
    uint32_t node = s->pre_tokenizer;
    bool sequence = false;
    bool split;
    if (rules->kind == BP_TOKENIZER_WORDPIECE) {
        rules->split = BP_SPLIT_BERT;
        return bp_rules_is(s, node, "BertPreTokenizer")
                   ? bp_rules_only(s, part, node, "type")
                   : bp_rules_refuse(s, part, node, "",
                                     "only BertPreTokenizer is implemented for WordPiece");
    }
    if (rules->kind == BP_TOKENIZER_UNIGRAM) {
        return bp_rules_unigram_pre_tokenizer(s, rules);
    }
    rules->split = BP_SPLIT_WHOLE;
    if (!bp_tree_is_null(s->tree, node)) {
        BP_TRY(bp_rules_list(s, part, node, "pretokenizers", &node, &sequence));
    }
    if (rules->kind == BP_TOKENIZER_BYTE_BPE) {
        return read_byte_splits(s, node, sequence, rules);
    }
    if (bp_tree_is_null(s->tree, node)) {
        return BP_OK;
    }
    if (rules->spaces && bp_rules_is(s, node, "Split")) {
        return read_no_split(s, node);
    }
    if (!bp_rules_is(s, node, "Metaspace") || after(s, node, sequence) != BP_TREE_NONE) {
        return bp_rules_refuse(s, part, node, "", missing_part);
    }
    if (rules->prefix != BP_PREFIX_NEVER || rules->spaces) {
        return bp_rules_refuse(s, part, node, "",
                               "Metaspace is not implemented behind a normalizer");
    }
    BP_TRY(bp_rules_metaspace(s, part, node, &rules->prefix, &split));
    rules->split = split ? BP_SPLIT_META : BP_SPLIT_WHOLE;
    rules->spaces = true;
    return BP_OK;
}

/* ---- decoder ---- */

static bp_status read_strip(const bp_rules_source *s, uint32_t node, bp_token_rules *rules)
{
    static const char part[] = "decoder";
    BP_TRY(bp_rules_only(s, part, node, "type content start stop"));
    BP_TRY(bp_rules_need_text(s, part, node, "content", " "));
    uint32_t start = bp_tree_find(s->tree, node, "start");
    uint32_t stop = bp_tree_find(s->tree, node, "stop");
    if (!bp_tree_is(s->tree, start, BP_JSON_NUMBER) || s->tree->nodes[start].i64 != 1 ||
        !bp_tree_is(s->tree, stop, BP_JSON_NUMBER) || s->tree->nodes[stop].i64 != 0) {
        return bp_rules_refuse(s, part, node, "", "only start 1 and stop 0 are implemented");
    }
    rules->strip = BP_STRIP_ONE;
    return BP_OK;
}

static bp_status read_decoder_step(const bp_rules_source *s, uint32_t node, bp_token_rules *rules)
{
    static const char part[] = "decoder";
    bool split;
    bp_prefix_rule prefix;
    if (bp_rules_is(s, node, "ByteFallback") || bp_rules_is(s, node, "Fuse")) {
        return bp_rules_only(s, part, node, "type");
    }
    if (bp_rules_is(s, node, "Replace")) {
        BP_TRY(bp_rules_only(s, part, node, "type pattern content"));
        uint32_t pattern = bp_tree_find(s->tree, node, "pattern");
        BP_TRY(bp_rules_only(s, part, pattern, "String"));
        BP_TRY(bp_rules_need_text(s, part, pattern, "String", META));
        return bp_rules_need_text(s, part, node, "content", " ");
    }
    if (bp_rules_is(s, node, "Strip")) {
        return read_strip(s, node, rules);
    }
    if (bp_rules_is(s, node, "Metaspace")) {
        BP_TRY(bp_rules_metaspace(s, part, node, &prefix, &split));
        rules->strip = prefix == BP_PREFIX_NEVER ? BP_STRIP_NOTHING : BP_STRIP_ALL;
        return BP_OK;
    }
    return bp_rules_refuse(s, part, node, "", missing_part);
}

static bp_status read_decoder(const bp_rules_source *s, bp_token_rules *rules)
{
    static const char part[] = "decoder";
    uint32_t node = s->decoder;
    bool sequence = false;
    if (bp_tree_is_null(s->tree, node)) {
        return BP_OK; /* decoding is what the kind of tokenizer makes it */
    }
    if (rules->kind == BP_TOKENIZER_WORDPIECE) {
        BP_TRY(bp_rules_only(s, part, node, "type prefix cleanup"));
        BP_TRY(bp_rules_need_text(s, part, node, "type", "WordPiece"));
        BP_TRY(bp_rules_need_text(s, part, node, "prefix", rules->continuing));
        return bp_rules_flag(s, part, node, "cleanup", true, &rules->tidy);
    }
    BP_TRY(bp_rules_list(s, part, node, "decoders", &node, &sequence));
    while (node != BP_TREE_NONE) {
        if (rules->kind == BP_TOKENIZER_CHAR_BPE || rules->kind == BP_TOKENIZER_UNIGRAM) {
            BP_TRY(read_decoder_step(s, node, rules));
        } else if (bp_rules_is(s, node, "ByteLevel")) {
            BP_TRY(bp_rules_only(s, part, node, "type add_prefix_space trim_offsets use_regex"));
        } else {
            return bp_rules_refuse(s, part, node, "", missing_part);
        }
        node = after(s, node, sequence);
    }
    return BP_OK;
}

/* ---- model ---- */

/* A text that must be empty, or not there. */
static bp_status need_no_text(const bp_rules_source *s, const char *key)
{
    uint32_t node = bp_tree_find(s->tree, s->model, key);
    return bp_tree_is_null(s->tree, node) || bp_tree_is_text(s->tree, node, "")
               ? BP_OK
               : bp_rules_refuse(s, "model", s->model, key, "this setting is not implemented");
}

/* Whether some pre-tokenizer of the file works on bytes. */
static bool token_rules_is_byte_level(const bp_rules_source *s)
{
    const bp_tree *tree = s->tree;
    uint32_t list = bp_tree_find(tree, s->pre_tokenizer, "pretokenizers");
    uint32_t node = list != BP_TREE_NONE ? tree->nodes[list].first : s->pre_tokenizer;
    while (node != BP_TREE_NONE && !bp_rules_is(s, node, "ByteLevel")) {
        node = list != BP_TREE_NONE ? tree->nodes[node].next : BP_TREE_NONE;
    }
    return node != BP_TREE_NONE;
}

static bp_status read_bpe(const bp_rules_source *s, bp_token_rules *rules)
{
    static const char part[] = "model";
    bool fallback;
    bool fuse;
    BP_TRY(bp_rules_only(s, part, s->model,
                         "type dropout unk_token continuing_subword_prefix end_of_word_suffix "
                         "fuse_unk byte_fallback ignore_merges"));
    uint32_t dropout = bp_tree_find(s->tree, s->model, "dropout");
    bool drops = bp_tree_is(s->tree, dropout, BP_JSON_NUMBER) && s->tree->nodes[dropout].real > 0;
    if (drops ||
        (!bp_tree_is_null(s->tree, dropout) && !bp_tree_is(s->tree, dropout, BP_JSON_NUMBER))) {
        return bp_rules_refuse(s, part, s->model, "dropout", "only null is implemented");
    }
    BP_TRY(need_no_text(s, "continuing_subword_prefix"));
    const uint32_t end = bp_tree_find(s->tree, s->model, "end_of_word_suffix");
    rules->ends = bp_tree_is_text(s->tree, end, BP_TOKEN_END);
    if (!rules->ends) {
        BP_TRY(need_no_text(s, "end_of_word_suffix"));
    }
    const char *unknown = bp_tree_text(s->tree, bp_tree_find(s->tree, s->model, "unk_token"));
    memcpy(rules->unknown, unknown, strnlen(unknown, sizeof rules->unknown - 1));
    BP_TRY(bp_rules_flag(s, part, s->model, "fuse_unk", false, &fuse));
    BP_TRY(bp_rules_flag(s, part, s->model, "byte_fallback", false, &fallback));
    BP_TRY(bp_rules_flag(s, part, s->model, "ignore_merges", false, &rules->ignore_merges));
    rules->kind = token_rules_is_byte_level(s) ? BP_TOKENIZER_BYTE_BPE : BP_TOKENIZER_CHAR_BPE;
    if (rules->ends && (rules->kind != BP_TOKENIZER_BYTE_BPE || rules->ignore_merges)) {
        return bp_rules_refuse(s, part, s->model, "end_of_word_suffix",
                               "this is implemented with a ByteLevel pre_tokenizer and without "
                               "ignore_merges");
    }
    if (rules->kind == BP_TOKENIZER_CHAR_BPE && !fallback) {
        return bp_rules_refuse(s, part, s->model, "byte_fallback",
                               "BPE is implemented with a ByteLevel pre_tokenizer or with "
                               "byte_fallback true");
    }
    return BP_OK;
}

static bp_status read_wordpiece(const bp_rules_source *s, bp_token_rules *rules)
{
    static const char part[] = "model";
    BP_TRY(bp_rules_only(s, part, s->model,
                         "type unk_token continuing_subword_prefix max_input_chars_per_word"));
    rules->kind = BP_TOKENIZER_WORDPIECE;
    uint32_t prefix = bp_tree_find(s->tree, s->model, "continuing_subword_prefix");
    uint32_t unknown = bp_tree_find(s->tree, s->model, "unk_token");
    uint32_t longest = bp_tree_find(s->tree, s->model, "max_input_chars_per_word");
    const char *text = prefix == BP_TREE_NONE ? "##" : bp_tree_text(s->tree, prefix);
    if (text[0] == '\0' || strlen(text) >= sizeof rules->continuing) {
        return bp_rules_refuse(s, part, s->model, "continuing_subword_prefix",
                               "this must be a text of 1 to 15 bytes");
    }
    memcpy(rules->continuing, text, strlen(text) + 1);
    text = unknown == BP_TREE_NONE ? "[UNK]" : bp_tree_text(s->tree, unknown);
    if (text[0] == '\0' || strlen(text) >= sizeof rules->unknown) {
        return bp_rules_refuse(s, part, s->model, "unk_token",
                               "this must be a text of 1 to 63 bytes");
    }
    memcpy(rules->unknown, text, strlen(text) + 1);
    rules->word_chars = 100;
    if (longest != BP_TREE_NONE) {
        const bp_tree_node *number = &s->tree->nodes[longest];
        /* The shortest word an encoder holds has as many bytes. */
        if (number->kind != BP_JSON_NUMBER || !number->integer || number->i64 < 1 ||
            number->i64 > BP_ENCODER_WORD_MIN / 4) {
            return bp_rules_refuse(s, part, s->model, "max_input_chars_per_word",
                                   "this must be a number from 1 to 128");
        }
        rules->word_chars = (uint32_t)number->i64;
    }
    return BP_OK;
}

bp_status bp_token_rules_read(const bp_rules_source *s, bp_token_rules *rules)
{
    *rules = (bp_token_rules){.kind = BP_TOKENIZER_BYTE_BPE};
    if (bp_rules_is(s, s->model, "BPE")) {
        BP_TRY(read_bpe(s, rules));
    } else if (bp_rules_is(s, s->model, "WordPiece")) {
        BP_TRY(read_wordpiece(s, rules));
    } else if (bp_rules_is(s, s->model, "Unigram")) {
        BP_TRY(bp_rules_unigram_model(s, rules));
    } else {
        return bp_rules_refuse(s, "model", s->model, "",
                               "this kind of model is not among the implemented (BPE, WordPiece, "
                               "Unigram)");
    }
    BP_TRY(read_normalizer(s, rules));
    BP_TRY(read_pre_tokenizer(s, rules));
    BP_TRY(read_decoder(s, rules));
    if (rules->ignore_merges && rules->split == BP_SPLIT_WHOLE) {
        return bp_rules_refuse(s, "model", s->model, "ignore_merges",
                               "only false is implemented without a split pattern");
    }
    return bp_token_template_read(s, rules);
}
