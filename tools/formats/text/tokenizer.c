/* SPDX-License-Identifier: MIT */
/* Finding a directory's tokenizer, measuring it and opening it. */
#include "tools/formats/text/tokenizer.h"

#include <string.h>

#include "tools/formats/text/token_load.h"
#include "tools/formats/text/token_pieces.h"
#include "tools/formats/text/token_ranks.h"
#include "tools/formats/text/token_table.h"
#include "tools/formats/text/token_unigram.h"

/* Fails to compile when the scratch is too small. */
typedef char scratch_suffices[sizeof(bp_load_scratch) <= BP_TOKENIZER_SCRATCH ? 1 : -1];

static const char where[] = "tokenizer";

/* The loading, its inner error, and for whom. */
typedef struct opening {
    bp_load load;
    bp_error inner;
    bp_tokenizer_need need;
    const char *directory;
    const char *pieces; /* the file of SentencePiece, or tiktoken's */
    bool config_there;
    bool map_there; /* special_tokens_map.json */
    bp_error *error;
} opening;

static bp_status find_files(opening *o)
{
    static const char *const names[] = {"tokenizer.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "vocab.txt",
                                        "tokenizer.model",
                                        "tokenizer_config.json",
                                        "spiece.model",
                                        "tekken.json",
                                        "sentencepiece.bpe.model",
                                        "special_tokens_map.json"};
    bool there[10];
    bp_store *store = o->load.store;
    for (size_t i = 0; i < 10; i++) {
        char path[BP_STORE_PATH_MAX];
        BP_TRY(bp_storage_join(path, o->directory, names[i], o->error));
        if (store->exists(store, path, &there[i]) != BP_OK) {
            return bp_storage_failed(o->error, store, "exists", path);
        }
    }
    o->config_there = there[5];
    o->map_there = there[9];
    o->need.files = there[0]                           ? BP_TOKENIZER_JSON
                    : there[1] && there[2]             ? BP_TOKENIZER_GPT2
                    : there[3]                         ? BP_TOKENIZER_BERT
                    : there[4] || there[6] || there[8] ? BP_TOKENIZER_PIECES
                    : there[7]                         ? BP_TOKENIZER_TEKKEN
                                                       : BP_TOKENIZER_NONE;
    o->pieces = names[there[4] ? 4 : there[6] ? 6 : 8];
    if (o->need.files == BP_TOKENIZER_NONE && there[1]) {
        return bp_error_set(o->error, BP_ERR_DATA, where,
                            "vocab.json is there and merges.txt is missing", o->directory);
    }
    return BP_OK;
}

/* Reads one file in the pass that is set; the file's name comes before what its reader found. */
static bp_status tokenizer_read_file(opening *o, const char *name, bp_status (*read)(bp_load *load))
{
    char path[BP_STORE_PATH_MAX];
    BP_TRY(bp_storage_join(path, o->directory, name, o->error));
    o->inner = (bp_error){.code = BP_OK};
    bp_status status = bp_load_open(&o->load, path);
    if (status == BP_OK) {
        status = read(&o->load);
        bp_load_close(&o->load);
    }
    if (status == BP_OK) {
        return BP_OK;
    }
    if (o->inner.code != BP_ERR_STORE) {
        o->inner.code = BP_ERR_DATA;
        bp_error_prefix(&o->inner, path);
    }
    if (o->error != NULL && o->error->code == BP_OK) {
        *o->error = o->inner;
    }
    return o->inner.code;
}

/* SentencePiece's model, or tiktoken's ranks: which, the file says. */
static bp_status read_model(bp_load *load)
{
    bool ranks = load->need->files == BP_TOKENIZER_RANKS;
    if (load->pass == BP_LOAD_COUNT) {
        BP_TRY(bp_load_is_ranks(load, &ranks));
        load->need->files = ranks ? BP_TOKENIZER_RANKS : BP_TOKENIZER_PIECES;
        load->fairseq = load->fairseq && !ranks;
    }
    return ranks ? bp_load_ranks(load) : bp_load_pieces(load);
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strcmp(word, *list) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether SentencePiece's pieces have fairseq's ids: by the class, or by the name of the file. */
static bool is_fairseq(const opening *o)
{
    static const char *const classes[] = {"XLMRobertaTokenizer", "XLMRobertaTokenizerFast", NULL};
    const char *class_name = o->load.config.class_name;
    return is_one_of(class_name, classes) ||
           (class_name[0] == '\0' && strcmp(o->pieces, "sentencepiece.bpe.model") == 0);
}

static bp_status read_vocabulary(opening *o, bp_load_pass pass)
{
    o->load.pass = pass;
    o->load.rank = 0;
    switch (o->need.files) {
    case BP_TOKENIZER_JSON:
        return tokenizer_read_file(o, "tokenizer.json", bp_load_tokenizer_json);
    case BP_TOKENIZER_GPT2:
        if (pass != BP_LOAD_MERGES) {
            BP_TRY(tokenizer_read_file(o, "vocab.json", bp_load_vocab_json));
        }
        return pass != BP_LOAD_TOKENS ? tokenizer_read_file(o, "merges.txt", bp_load_merges_txt)
                                      : BP_OK;
    case BP_TOKENIZER_PIECES:
    case BP_TOKENIZER_RANKS:
        o->load.fairseq = o->need.files == BP_TOKENIZER_PIECES && is_fairseq(o);
        return tokenizer_read_file(o, o->pieces, read_model);
    case BP_TOKENIZER_TEKKEN:
        return tokenizer_read_file(o, "tekken.json", bp_load_tekken);
    default:
        return pass != BP_LOAD_MERGES ? tokenizer_read_file(o, "vocab.txt", bp_load_vocab_txt)
                                      : BP_OK;
    }
}

static bp_status tokenizer_refuse(opening *o, const char *name, const char *text)
{
    return bp_error_set(o->error, BP_ERR_DATA, where, text, name);
}

/* Whether a model of SentencePiece's, or of tiktoken's, is of a class that is implemented. */
static bp_status check_class(opening *o)
{
    static const char *const pieces[] = {"",
                                         "LlamaTokenizer",
                                         "LlamaTokenizerFast",
                                         "GemmaTokenizer",
                                         "GemmaTokenizerFast",
                                         "T5Tokenizer",
                                         "T5TokenizerFast",
                                         NULL};
    static const char *const ranks[] = {"",
                                        "PreTrainedTokenizer",
                                        "PreTrainedTokenizerFast",
                                        "TokenizersBackend",
                                        "LlamaTokenizer",
                                        "LlamaTokenizerFast",
                                        NULL};
    const char *class_name = o->load.config.class_name;
    if (o->need.files == BP_TOKENIZER_RANKS) {
        return is_one_of(class_name, ranks)
                   ? BP_OK
                   : tokenizer_refuse(o, class_name,
                                      "of tiktoken's files only Llama 3's is implemented");
    }
    return o->load.fairseq || is_one_of(class_name, pieces)
               ? BP_OK
               : tokenizer_refuse(o, class_name,
                                  "of SentencePiece's models only those of LlamaTokenizer, "
                                  "GemmaTokenizer, T5Tokenizer and XLMRobertaTokenizer are "
                                  "implemented");
}

/* Files that hold a vocabulary only leave the rules to the class of tokenizer they are for. */
static bp_status set_rules(opening *o)
{
    static const char *const gpt2[] = {"", "GPT2Tokenizer", "GPT2TokenizerFast", NULL};
    static const char *const clip[] = {"CLIPTokenizer", "CLIPTokenizerFast", NULL};
    static const char *const bert[] = {"",
                                       "BertTokenizer",
                                       "BertTokenizerFast",
                                       "DistilBertTokenizer",
                                       "DistilBertTokenizerFast",
                                       "ElectraTokenizer",
                                       "ElectraTokenizerFast",
                                       NULL};
    const bp_load_config *config = &o->load.config;
    bp_token_rules *rules = &o->load.rules;
    if (o->need.files == BP_TOKENIZER_JSON || o->need.files == BP_TOKENIZER_TEKKEN) {
        return BP_OK;
    }
    if (o->need.files == BP_TOKENIZER_PIECES || o->need.files == BP_TOKENIZER_RANKS) {
        return check_class(o);
    }
    bool is_gpt2 = o->need.files == BP_TOKENIZER_GPT2;
    if (is_gpt2 && is_one_of(config->class_name, clip)) {
        *rules = (bp_token_rules){.kind = BP_TOKENIZER_BYTE_BPE,
                                  .split = BP_SPLIT_CLIP,
                                  .compose = true,
                                  .lower = true,
                                  .ends = true,
                                  .unknown = "<|endoftext|>"};
        o->need.added += 2;
        return BP_OK;
    }
    if (!is_one_of(config->class_name, is_gpt2 ? gpt2 : bert)) {
        return tokenizer_refuse(
            o, config->class_name,
            is_gpt2 ? "of vocab.json with merges.txt only GPT2Tokenizer and CLIPTokenizer "
                      "are implemented"
                    : "of vocab.txt only BertTokenizer is implemented");
    }
    if (is_gpt2) {
        *rules = (bp_token_rules){.kind = BP_TOKENIZER_BYTE_BPE,
                                  .split = BP_SPLIT_GPT2,
                                  .prefix = config->space ? BP_PREFIX_SPACE : BP_PREFIX_NEVER,
                                  .pair = {.type_b = 1},
                                  .unknown = "<|endoftext|>",
                                  .plain = true};
        o->need.added += 1;
        return BP_OK;
    }
    *rules = (bp_token_rules){.kind = BP_TOKENIZER_WORDPIECE,
                              .split = BP_SPLIT_BERT,
                              .clean = true,
                              .ideographs = config->ideographs,
                              .lower = config->lower,
                              .accents = config->accents < 0 ? config->lower : config->accents == 1,
                              .tidy = true,
                              .word_chars = 100,
                              .continuing = "##",
                              .unknown = "[UNK]"};
    o->need.added += 5;
    return BP_OK;
}

/* The counting pass: what there is, its rules, and the bytes it takes. */
static bp_status tokenizer_measure(opening *o)
{
    bp_tokenizer_need *need = &o->need;
    BP_TRY(find_files(o));
    if (need->files == BP_TOKENIZER_NONE) {
        return BP_OK;
    }
    bp_digest_begin(&o->load.digest, 0);
    bp_load_config_default(&o->load.config);
    o->load.pass = BP_LOAD_COUNT;
    if (o->config_there) {
        BP_TRY(tokenizer_read_file(o, "tokenizer_config.json", bp_load_tokenizer_config));
    }
    if (o->map_there) {
        BP_TRY(tokenizer_read_file(o, "special_tokens_map.json", bp_load_special_tokens_map));
    }
    BP_TRY(read_vocabulary(o, BP_LOAD_COUNT));
    BP_TRY(set_rules(o));
    if (!o->load.rules.native && need->scored != (o->load.rules.kind == BP_TOKENIZER_UNIGRAM)) {
        return tokenizer_refuse(o, "vocab",
                                need->scored ? "the vocabulary must be an object of tokens and "
                                               "their ids: a list with scores is Unigram's"
                                             : "Unigram's vocabulary must be a list of pieces with "
                                               "their scores");
    }
    if (need->entries == 0) {
        return tokenizer_refuse(o, o->directory, "the tokenizer's vocabulary is empty");
    }
    uint64_t most = 2 * ((uint64_t)need->entries + need->added) + 1024;
    if (need->tokens > most) {
        return bp_error_numbers(o->error, BP_ERR_DATA, where,
                                "too many ids below the largest have no token (found the largest, "
                                "and the largest allowed)",
                                o->directory, need->tokens - 1, (int64_t)most - 1);
    }
    need->bytes = bp_token_table_bytes(need);
    if (need->bytes > SIZE_MAX / 2) {
        return tokenizer_refuse(o, o->directory, "the tokenizer is too large");
    }
    return BP_OK;
}

static void tokenizer_begin(opening *o, bp_store *store, const char *directory, void *scratch,
                            bp_error *error)
{
    memset(o, 0, sizeof *o);
    o->directory = directory;
    o->error = error;
    o->load.store = store;
    o->load.error = &o->inner;
    o->load.scratch = scratch;
    o->load.need = &o->need;
}

bp_status bp_tokenizer_measure(bp_store *store, const char *directory, void *scratch,
                               bp_tokenizer_need *need, bp_error *error)
{
    opening o;
    tokenizer_begin(&o, store, directory, scratch, error);
    BP_TRY(tokenizer_measure(&o));
    *need = o.need;
    return BP_OK;
}

static uint32_t find_text(const bp_tokenizer *t, const char *text)
{
    int64_t id = text[0] != '\0' ? bp_tokenizer_find(t, text, strlen(text)) : -1;
    return id < 0 ? BP_TOKEN_NONE : (uint32_t)id;
}

/* ---- After the tables are full ---- */

static bp_status find_bytes(opening *o, bp_tokenizer *t)
{
    static const char digits[] = "0123456789ABCDEF";
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[6] = {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
        unsigned char one = (unsigned char)byte;
        const unsigned char end[] = {one, '<', '/', 'w', '>'};
        t->byte_ids[byte] = t->rules.kind == BP_TOKENIZER_CHAR_BPE ? bp_token_find(t, text, 6)
                                                                   : bp_token_find(t, &one, 1);
        t->end_ids[byte] = t->rules.ends ? bp_token_find(t, end, sizeof end) : t->byte_ids[byte];
        if (t->byte_ids[byte] != BP_TOKEN_NONE && t->end_ids[byte] != BP_TOKEN_NONE) {
            continue;
        }
        /* Without an unknown token the tokenizers library leaves such bytes out, so that what is
         * around them may merge. */
        t->missing_bytes++;
        bool level = t->rules.kind == BP_TOKENIZER_BYTE_BPE && t->rules.split != BP_SPLIT_WHOLE;
        if (!level || t->rules.ends || t->rules.unknown[0] != '\0') {
            return bp_error_numbers(o->error, BP_ERR_DATA, where,
                                    "the vocabulary has no token for a byte (found it)",
                                    o->directory, byte, byte);
        }
    }
    return BP_OK;
}

/* Special tokens that a class of tokenizer adds to its vocabulary. */
static bp_status add_special(opening *o, bp_tokenizer *t)
{
    static const char *const gpt2[] = {"<|endoftext|>", "<|startoftext|>", NULL};
    static const char *const bert[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]", NULL};
    if (o->need.files != BP_TOKENIZER_GPT2 && o->need.files != BP_TOKENIZER_BERT) {
        return BP_OK;
    }
    for (const char *const *name = o->need.files == BP_TOKENIZER_GPT2 ? gpt2 : bert; *name != NULL;
         name++) {
        uint32_t id = find_text(t, *name);
        if (id != BP_TOKEN_NONE && (name != gpt2 + 1 || t->rules.ends)) {
            BP_TRY(bp_token_add_added(t, id, BP_ADDED_SPECIAL, o->error));
        }
    }
    return BP_OK;
}

/* Names that stand for a special token where no file says which does. */
static const char *const usual[BP_NAMES][4] = {
    {"<s>", "<|begin_of_text|>", "<|endoftext|>", ""}, /* bos */
    {"</s>", "<|end_of_text|>", "<|endoftext|>", ""},  /* eos */
    {"[UNK]", "<unk>", "<|endoftext|>", ""},           /* unk */
    {"[PAD]", "<pad>", "", ""},                        /* pad */
    {"[CLS]", "", "", ""},                             /* cls */
    {"[SEP]", "", "", ""},                             /* sep */
    {"[MASK]", "<mask>", "", ""}                       /* mask */
};

/* The token that tokenizer.json's post-processor puts before a text is its bos, the one behind it
 * its eos; an encoder's are cls and sep, where they have those names. */
static uint32_t around_texts(const opening *o, const bp_tokenizer *t, bp_load_name name)
{
    const bp_template *single = &t->rules.single;
    const bool encoder = find_text(t, "[CLS]") != BP_TOKEN_NONE;
    const bp_template_part *part = name == (encoder ? BP_NAME_CLS : BP_NAME_BOS)   ? &single->before
                                   : name == (encoder ? BP_NAME_SEP : BP_NAME_EOS) ? &single->after
                                                                                   : NULL;
    const bool says = o->need.files == BP_TOKENIZER_JSON && part != NULL && part->count == 1 &&
                      (!encoder || part->ids[0] == find_text(t, usual[name][0]));
    return says ? part->ids[0] : BP_TOKEN_NONE;
}

static int64_t special_of(const opening *o, const bp_tokenizer *t, bp_load_name name)
{
    const bp_load_config *config = &o->load.config;
    /* A role that neither the files beside a tokenizer.json nor it itself name is nobody's. */
    const bool guessed = !config->there || o->need.files != BP_TOKENIZER_JSON;
    uint32_t id = config->said[name] ? find_text(t, config->names[name]) : around_texts(o, t, name);
    for (size_t i = 0; !config->said[name] && guessed && id == BP_TOKEN_NONE && i < 4; i++) {
        id = find_text(t, usual[name][i]);
    }
    return id == BP_TOKEN_NONE ? -1 : (int64_t)id;
}

/* Whether a role that was found is that of a usual name. */
static bool is_guessed(const opening *o, const bp_tokenizer *t, bp_load_name name, int64_t found)
{
    return found >= 0 && !o->load.config.said[name] && around_texts(o, t, name) == BP_TOKEN_NONE;
}

static void set_special(const opening *o, bp_tokenizer *t)
{
    t->special = (bp_tokenizer_special){.bos = special_of(o, t, BP_NAME_BOS),
                                        .eos = special_of(o, t, BP_NAME_EOS),
                                        .unk = special_of(o, t, BP_NAME_UNK),
                                        .pad = special_of(o, t, BP_NAME_PAD),
                                        .cls = special_of(o, t, BP_NAME_CLS),
                                        .sep = special_of(o, t, BP_NAME_SEP),
                                        .mask = special_of(o, t, BP_NAME_MASK)};
    t->special.eos_guessed = is_guessed(o, t, BP_NAME_EOS, t->special.eos);
    t->special.bos_guessed = is_guessed(o, t, BP_NAME_BOS, t->special.bos);
    t->special.pad_guessed = is_guessed(o, t, BP_NAME_PAD, t->special.pad);
    if (t->rules.ends && o->need.files == BP_TOKENIZER_GPT2) { /* what CLIPTokenizer begins with */
        t->special.bos = t->special.bos_guessed ? find_text(t, "<|startoftext|>") : t->special.bos;
        t->special.pad = t->special.pad < 0 ? t->special.eos : t->special.pad;
    }
    if (o->load.fairseq) {
        t->special.cls = t->special.cls < 0 ? t->special.bos : t->special.cls;
        t->special.sep = t->special.sep < 0 ? t->special.eos : t->special.sep;
    }
}

/* <s> A </s>, <s> A </s></s> B </s> */
static void set_around(bp_tokenizer *t, int64_t begin, int64_t end)
{
    bp_template *single = &t->rules.single, *pair = &t->rules.pair;
    single->before = (bp_template_part){.ids = {(uint32_t)begin}, .count = 1};
    single->after = (bp_template_part){.ids = {(uint32_t)end}, .count = 1};
    *pair = *single;
    pair->between = (bp_template_part){.ids = {(uint32_t)end, (uint32_t)end}, .count = 2};
}

/* The template of files that have none: BERT's, XLM-R's, CLIP's, and GPT-2's with add_bos_token. */
static bp_status set_template(opening *o, bp_tokenizer *t)
{
    bp_token_rules *rules = &t->rules;
    bp_template_part *before = &rules->single.before;
    if (o->load.fairseq) {
        set_around(t, t->special.cls, t->special.sep);
        return BP_OK;
    }
    if (rules->ends && o->need.files == BP_TOKENIZER_GPT2) {
        if (t->special.bos < 0 || t->special.eos < 0) {
            return tokenizer_refuse(o, o->directory,
                                    "CLIP's vocab.json must hold <|startoftext|> and "
                                    "<|endoftext|>");
        }
        set_around(t, t->special.bos, t->special.eos);
        return BP_OK;
    }
    const bool pieces = o->need.files == BP_TOKENIZER_PIECES;
    const bool t5 = strncmp(o->load.config.class_name, "T5", 2) == 0;
    if (pieces && t5 && t->special.eos >= 0) {
        rules->single.after = (bp_template_part){.ids = {(uint32_t)t->special.eos}, .count = 1};
        rules->pair.between = rules->pair.after = rules->single.after;
    }
    /* Those classes put it there unless they are told not to. */
    const bool begins =
        ((pieces && !t5) || rules->ranked) && (o->load.config.add_bos || !o->load.config.bos_said);
    if ((begins || (o->need.files == BP_TOKENIZER_GPT2 && o->load.config.add_bos)) &&
        t->special.bos >= 0) {
        *before = (bp_template_part){.ids = {(uint32_t)t->special.bos}, .count = 1};
        rules->pair.before = rules->pair.between = *before;
        rules->pair.between.types[0] = 1;
    }
    if (o->need.files != BP_TOKENIZER_BERT) {
        return BP_OK;
    }
    if (t->special.cls < 0 || t->special.sep < 0) {
        return tokenizer_refuse(o, o->directory, "vocab.txt must hold [CLS] and [SEP]");
    }
    *before = (bp_template_part){.ids = {(uint32_t)t->special.cls}, .count = 1};
    rules->single.after = (bp_template_part){.ids = {(uint32_t)t->special.sep}, .count = 1};
    rules->pair = rules->single;
    rules->pair.between = rules->single.after;
    rules->pair.after.types[0] = 1;
    rules->pair.type_b = 1;
    return BP_OK;
}

static bp_status check_part(opening *o, const bp_tokenizer *t, const bp_template_part *part)
{
    for (uint32_t i = 0; i < part->count; i++) {
        if (!bp_token_exists(t, part->ids[i])) {
            return bp_error_numbers(o->error, BP_ERR_DATA, where,
                                    "the post_processor adds an id that no token has (found it)",
                                    o->directory, part->ids[i], part->ids[i]);
        }
    }
    return BP_OK;
}

static bp_status tokenizer_finish(opening *o, bp_tokenizer *t)
{
    bp_token_rules *rules = &t->rules;
    BP_TRY(add_special(o, t));
    set_special(o, t);
    BP_TRY(set_template(o, t));
    for (const bp_template *form = &rules->single; form != NULL;
         form = form == &rules->single ? &rules->pair : NULL) {
        BP_TRY(check_part(o, t, &form->before));
        BP_TRY(check_part(o, t, &form->between));
        BP_TRY(check_part(o, t, &form->after));
    }
    if (rules->kind == BP_TOKENIZER_WORDPIECE) {
        t->unknown = bp_token_find(t, rules->unknown, strlen(rules->unknown));
        return t->unknown != BP_TOKEN_NONE
                   ? BP_OK
                   : tokenizer_refuse(o, rules->unknown,
                                      "the vocabulary lacks the token for unknown words");
    }
    if (rules->native) {
        bp_token_pieces_finish(&o->load);
        t->special.unk = rules->unknown_id;
        return rules->charsmap
                   ? bp_charsmap_open(&t->charsmap, t->map, t->map_used, where, o->error)
                   : BP_OK;
    }
    if (rules->kind == BP_TOKENIZER_UNIGRAM) {
        BP_TRY(bp_token_unigram_finish(t, o->error));
        return rules->charsmap
                   ? bp_charsmap_open(&t->charsmap, t->map, t->map_used, where, o->error)
                   : BP_OK;
    }
    BP_TRY(find_bytes(o, t));
    bool bytes = rules->kind == BP_TOKENIZER_BYTE_BPE && rules->split == BP_SPLIT_WHOLE;
    /* A text that is one word lacks no byte (find_bytes), and ranked tokens are split by a pattern.
     */
    if (bytes && rules->prefix == BP_PREFIX_NEVER && !rules->compose && t->merge_count == 0 &&
        t->added_count == 0) {
        rules->kind = BP_TOKENIZER_BYTES;
    }
    return BP_OK;
}

bp_status bp_tokenizer_open(bp_tokenizer *t, bp_store *store, const char *directory,
                            const bp_tokenizer_need *need, void *memory, void *scratch,
                            bp_error *error)
{
    opening o;
    tokenizer_begin(&o, store, directory, scratch, error);
    BP_TRY(tokenizer_measure(&o));
    const bp_tokenizer_need *now = &o.need;
    if (now->files == BP_TOKENIZER_NONE || now->files != need->files || now->bytes != need->bytes ||
        now->tokens != need->tokens || now->entries != need->entries ||
        now->merges != need->merges || now->added != need->added ||
        now->text_bytes != need->text_bytes || now->map_bytes != need->map_bytes) {
        return tokenizer_refuse(&o, directory,
                                "the tokenizer's files changed since they were measured");
    }
    memset(t, 0, sizeof *t);
    t->rules = o.load.rules;
    t->digest = bp_digest_end(&o.load.digest);
    bp_token_table_init(t, now, memory);
    o.load.tokenizer = t;
    BP_TRY(read_vocabulary(&o, BP_LOAD_TOKENS));
    BP_TRY(read_vocabulary(&o, BP_LOAD_MERGES));
    return tokenizer_finish(&o, t);
}
