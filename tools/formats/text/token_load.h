/* SPDX-License-Identifier: MIT */
/* Reading a tokenizer's files: what its readers share. */
#ifndef BP_FORMATS_TOKEN_LOAD_H
#define BP_FORMATS_TOKEN_LOAD_H

#include "core/base/digest.h"
#include "core/base/storage.h"
#include "tools/formats/text/token_rules.h"

#define BP_LOAD_READ 16384 /* bytes read at a time */
#define BP_LOAD_TEXT (2 * BP_TOKENIZER_DECODED_MAX + 64)

/* What a pass over a file is for. */
typedef enum bp_load_pass {
    BP_LOAD_COUNT,  /* how large, which rules */
    BP_LOAD_TOKENS, /* into the tables */
    BP_LOAD_MERGES
} bp_load_pass;

/* The scratch of measuring and opening. */
typedef struct bp_load_scratch {
    bp_tree tree;
    unsigned char read[BP_LOAD_READ];
    char text[BP_LOAD_TEXT];  /* the JSON reader's; a line of a text file */
    char token[BP_LOAD_TEXT]; /* a key while its value is read; a merge's pieces */
} bp_load_scratch;

/* What tokenizer_config.json says that matters here. */
typedef enum bp_load_name {
    BP_NAME_BOS,
    BP_NAME_EOS,
    BP_NAME_UNK,
    BP_NAME_PAD,
    BP_NAME_CLS,
    BP_NAME_SEP,
    BP_NAME_MASK,
    BP_NAMES
} bp_load_name;

typedef struct bp_load_config {
    bool there;               /* the file */
    bool said[BP_NAMES];      /* it has the key, be it null */
    char names[BP_NAMES][64]; /* "" for null or silence */
    char class_name[64];
    bool lower;      /* do_lower_case; true where it is silent */
    bool ideographs; /* tokenize_chinese_chars; the same */
    int accents;     /* strip_accents: 0, 1, or -1 for null or silence: as lower */
    bool space;      /* add_prefix_space; false where it is silent */
    bool add_bos;    /* add_bos_token; the same */
    bool bos_said;   /* the key is there */
} bp_load_config;

/* One loading; the functions below read one file each. */
typedef struct bp_load {
    bp_store *store;
    bp_error *error; /* the inner record: names what in the file */
    bp_load_scratch *scratch;
    bp_load_pass pass;
    bp_tokenizer_need *need; /* COUNT: what was found */
    bp_tokenizer *tokenizer; /* TOKENS, MERGES: where it goes; its rules are set */
    bp_token_rules rules;    /* COUNT: of the file */
    bp_load_config config;
    bp_digest digest; /* COUNT: of all bytes */

    bp_storage_reader reader;
    bp_json json;
    const unsigned char *line_at; /* what of the bytes read is not in a line yet */
    const unsigned char *line_end;
    uint32_t rank; /* of the next merge */
    bp_base64 base64;

    /* Of SentencePiece's models. */
    bool fairseq; /* XLM-R's: ids as fairseq gave them */
    uint64_t model_type;
    uint32_t unknowns;  /* pieces of that type */
    bool unused, users; /* some piece is unused, or a user's */
    float least;        /* score of a normal piece */
} bp_load;

/* An open file as a JSON document, or as lines. Opening names the file in the error's place. */
bp_status bp_load_open(bp_load *load, const char *path) BP_MUST_CHECK;
void bp_load_close(bp_load *load);
bp_status bp_load_json_begin(bp_load *load) BP_MUST_CHECK;
/* The next line without its end in scratch->text; false at the end of the file. A line end may be
 * "\n" or "\r\n"; the line is valid UTF-8. */
bp_status bp_load_line(bp_load *load, size_t *length, bool *there) BP_MUST_CHECK;

/* The next byte; false at the end of the file. */
bp_status bp_load_byte(bp_load *load, uint8_t *byte, bool *there) BP_MUST_CHECK;
bool bp_load_is_utf8(const char *text, size_t length);

/* Counts a token of the vocabulary, or adds it, as the pass has it. */
bp_status bp_load_token(bp_load *load, const char *text, size_t length, int64_t id) BP_MUST_CHECK;
/* The same for a token with a score. */
bp_status bp_load_scored(bp_load *load, const char *text, size_t length, int64_t id,
                         double score) BP_MUST_CHECK;
/* Takes a piece of a character map in base64 (user: the bp_load). */
bp_status bp_load_map(void *user, const char *text, size_t length) BP_MUST_CHECK;
/* The same for a merge of two tokens as the file spells them. */
bp_status bp_load_merge(bp_load *load, const char *left, size_t left_length, const char *right,
                        size_t right_length) BP_MUST_CHECK;
/* The same for an added token; `normalized`: it is looked for in text behind the normalizer. */
bp_status bp_load_added(bp_load *load, const char *text, size_t length, int64_t id, uint32_t flags,
                        bool normalized) BP_MUST_CHECK;

/* The readers of whole files. Each does what load->pass says. */
bp_status bp_load_tokenizer_json(bp_load *load) BP_MUST_CHECK;
bp_status bp_load_tekken(bp_load *load) BP_MUST_CHECK;
bp_status bp_load_vocab_json(bp_load *load) BP_MUST_CHECK;
bp_status bp_load_merges_txt(bp_load *load) BP_MUST_CHECK;
bp_status bp_load_vocab_txt(bp_load *load) BP_MUST_CHECK;

/* Fills load->config, which is what a missing file says before; texts longer than 63 bytes are no
 * such names. */
void bp_load_config_default(bp_load_config *config);
bp_status bp_load_tokenizer_config(bp_load *load) BP_MUST_CHECK;
/* special_tokens_map.json: roles that tokenizer_config.json says nothing of. */
bp_status bp_load_special_tokens_map(bp_load *load) BP_MUST_CHECK;

#endif
