/* SPDX-License-Identifier: MIT */
/* What an open tokenizer and an encoder hold: for tokenizer.h, which see, and its own files. */
#ifndef BP_FORMATS_TOKENIZER_STATE_H
#define BP_FORMATS_TOKENIZER_STATE_H

#include "tools/formats/text/token_charsmap.h"
#include "tools/formats/text/tokenizer.h"
#include "tools/formats/unicode/unicode.h"

#define BP_TOKEN_NONE       UINT32_MAX /* no such token, no such merge */
#define BP_TEMPLATE_IDS     8          /* special tokens in a row that a template may add */
#define BP_TOKEN_PREFIX_MAX 16         /* bytes of WordPiece's "##", with a terminator */
#define BP_TOKEN_END        "</w>"     /* CLIP's end of a word */

/* How text becomes words, between which nothing is ever merged. */
typedef enum bp_split_rule {
    BP_SPLIT_WHOLE, /* one word, cut only where no merge reaches across */
    BP_SPLIT_GPT2,
    BP_SPLIT_DIGITS, /* every digit a word by itself, the rest as GPT-2 (SmolLM) */
    BP_SPLIT_LLAMA3, /* up to three digits in a word */
    BP_SPLIT_QWEN2,  /* one digit in a word, else as Llama 3 */
    BP_SPLIT_TEKKEN, /* as Qwen2, and words end where an upper case letter follows a lower */
    BP_SPLIT_GPT4O,  /* the same with contractions, and up to three digits */
    BP_SPLIT_SPACES, /* before every U+2581 behind another character */
    BP_SPLIT_META,   /* before every U+2581 */
    BP_SPLIT_BERT,   /* spaces dropped, punctuation by itself */
    BP_SPLIT_CLIP    /* spaces dropped, one digit in a word, else as GPT-2 */
} bp_split_rule;

/* When text gets a space (or U+2581) put before it. */
typedef enum bp_prefix_rule {
    BP_PREFIX_NEVER,
    BP_PREFIX_SPACE,      /* ByteLevel's add_prefix_space: unless one is there */
    BP_PREFIX_PREPEND,    /* the Prepend normalizer: always */
    BP_PREFIX_META,       /* Metaspace "always": unless one is there */
    BP_PREFIX_META_FIRST, /* Metaspace "first": the same, at the beginning of the document only */
} bp_prefix_rule;

/* What two and more spaces become. */
typedef enum bp_runs_rule {
    BP_RUNS_STAY,
    BP_RUNS_SPACE, /* one space */
    BP_RUNS_META   /* U+2581 */
} bp_runs_rule;

/* What decoding does to the first token's leading space. */
typedef enum bp_strip_rule {
    BP_STRIP_NOTHING,
    BP_STRIP_ONE, /* the Strip decoder */
    BP_STRIP_ALL  /* Metaspace: every space of the first token */
} bp_strip_rule;

/* Special tokens around the text; types are those of their tokens. */
typedef struct bp_template_part {
    uint32_t ids[BP_TEMPLATE_IDS];
    uint8_t types[BP_TEMPLATE_IDS];
    uint32_t count;
} bp_template_part;

typedef struct bp_template {
    bp_template_part before;
    bp_template_part between; /* of a pair only */
    bp_template_part after;
    uint8_t type_a;
    uint8_t type_b;
    bool set; /* whether the file says anything about this form */
} bp_template;

/* What a tokenizer does, without its tables. */
typedef struct bp_token_rules {
    bp_tokenizer_kind kind;
    bp_split_rule split;
    bp_prefix_rule prefix;
    bp_strip_rule strip;
    bool plain;      /* there is no normalizer: text is searched for added tokens as it is */
    bool spaces;     /* ' ' becomes U+2581, and back when decoding */
    bool compose;    /* NFC */
    bool compatible; /* NFKC */
    bool clean;      /* BERT's normalizer: no control characters, every space a ' ' */
    bool ideographs; /* spaces around them */
    bool accents;    /* stripped */
    bool lower;
    bool charsmap;    /* the precompiled character map comes first */
    bool strip_right; /* white space at the end of a segment is dropped */
    bp_runs_rule runs;
    bool words;          /* white space is dropped, and every word begins with U+2581 */
    bool fallback;       /* Unigram: unknown text is its bytes */
    bool native;         /* a model of SentencePiece's: what that library does */
    bool ignore_merges;  /* a word that is a token is that token, whatever the merges say */
    bool ranked;         /* joined is the pair whose text is the token of the least id (tiktoken) */
    bool tidy;           /* WordPiece decoding without the space before punctuation */
    bool ends;           /* a word's last byte is spelt with BP_TOKEN_END */
    uint32_t word_chars; /* a longer word is unknown to WordPiece */
    char continuing[BP_TOKEN_PREFIX_MAX]; /* WordPiece's "##" */
    char unknown[64];                     /* unk_token; "" for none */
    uint32_t unknown_id;                  /* Unigram's unk_id */
    bp_template single;
    bp_template pair;
} bp_token_rules;

/* One merge, in an open-addressed table; an empty slot has the rank BP_TOKEN_NONE. */
typedef struct bp_token_merge {
    uint32_t left, right;
    uint32_t rank;
    uint32_t id; /* of both together */
} bp_token_merge;

typedef enum bp_added_flags {
    BP_ADDED_SPECIAL = 1,
    BP_ADDED_LSTRIP = 2,
    BP_ADDED_RSTRIP = 4,
    BP_ADDED_START = 8,  /* only at the beginning of a segment */
    BP_ADDED_INNER = 16, /* of normalised text: what follows belongs to the segment before */
    BP_ADDED_WORD = 32,  /* single_word: only where no character of a word stands beside it */
    BP_ADDED_LATER = 64  /* normalized: found between those that are not */
} bp_added_flags;

/* An added token: found in the raw text before anything else. In the order of their bytes. */
typedef struct bp_token_added {
    uint32_t start; /* in text */
    uint32_t length;
    uint32_t id;
    uint32_t flags;
} bp_token_added;

#define BP_TOKEN_SPECIAL 0x8000u /* in lengths: the token is special */
#define BP_TOKEN_ABSENT  0x4000u /* in lengths: no token has this id */
#define BP_TOKEN_USER    0x2000u /* in lengths: a piece of users, of SentencePiece's models */
#define BP_TOKEN_LENGTH  0x1fffu

struct bp_tokenizer {
    bp_token_rules rules;
    bp_tokenizer_special special;
    uint64_t digest;
    uint32_t tokens;
    uint32_t merge_count;
    uint32_t added_count;
    uint32_t added_room;     /* that were measured */
    uint32_t listed;         /* tokens that slots hold */
    uint32_t token_longest;  /* bytes of the vocabulary's longest */
    uint32_t unknown;        /* WordPiece's id for it */
    uint32_t missing_bytes;  /* that are no token: they are left out of the text */
    bool added_lstrip;       /* some added token has this flag */
    bool added_word;         /* any of them is a single word */
    uint32_t byte_ids[256];  /* byte-level tokens, or the fallback's */
    uint32_t end_ids[256];   /* of a word's last byte, where rules.ends */
    uint64_t added_first[4]; /* bit b: some added token begins with the byte b */
    char *text;              /* bytes of all tokens; byte-level ones as the bytes they stand for */
    uint64_t text_used;
    uint64_t text_room;
    uint32_t *starts;  /* (tokens) in text */
    uint16_t *lengths; /* (tokens) with flags */
    uint32_t *slots;   /* open addressing by text; BP_TOKEN_NONE is empty */
    uint32_t slot_mask;
    uint32_t merge_mask;
    bp_token_merge *merges;
    bp_token_added *added;
    double *scores;       /* (tokens) Unigram's */
    double unknown_score; /* of a character that is no token */
    uint64_t *beginnings; /* Unigram: bit hash & beginning_mask: some token begins so */
    uint64_t beginning_mask;
    unsigned char *map; /* what the file's character map is decoded to */
    uint32_t map_used;
    uint32_t map_room;
    bp_charsmap charsmap;
    uint64_t *bridges; /* (256 x 256 bits) some merge joins a last byte and a first byte */
};

/* How far the splitter is in the word at the beginning of what it is given. */
typedef struct bp_split {
    size_t at;
    size_t mark;    /* the last space's beginning */
    size_t newline; /* behind the last line end of a run of spaces */
    uint32_t count; /* digits */
    uint32_t state;
} bp_split;

/* A word's symbols while they are merged; word_bytes of each. */
typedef struct bp_word_work {
    uint32_t *id; /* and the ids of the finished word */
    uint32_t *next;
    uint32_t *before;
    uint32_t *rank; /* of the pair that begins here */
    uint32_t *tree; /* a tournament over the ranks */
    float *carried; /* the score of the document so far (SentencePiece's Unigram) */
} bp_word_work;

#define BP_WORD_CACHE     16384 /* words an encoder remembers */
#define BP_WORD_CACHE_KEY 30
#define BP_WORD_CACHE_IDS 8

typedef struct bp_word_entry {
    uint8_t length; /* 0: empty */
    uint8_t count;
    unsigned char word[BP_WORD_CACHE_KEY];
    uint32_t ids[BP_WORD_CACHE_IDS];
} bp_word_entry;

#define BP_ENCODER_RAW    32768 /* bytes of text before it is normalised: holds any added token */
#define BP_ENCODER_MARGIN 4096  /* bytes of text beyond a word: many short ones at a time */
#define BP_COMPOSE_MAX    64    /* characters composed at a time */

/* Where the raw text's next added token is. */
typedef struct bp_added_found {
    bool found;
    size_t start; /* spaces before it included, where it strips them */
    size_t end;
    const bp_token_added *token;
} bp_added_found;

/* How far Unigram's normaliser is. */
typedef struct bp_spelling {
    unsigned char cluster[8]; /* characters that are one to a reader, up to 5 bytes of them */
    uint32_t cluster_length;
    uint32_t before; /* the last character */
    int32_t state;
    bool long_cluster; /* it had more */
    uint32_t spaces;   /* that wait: 2 for any more */
    bool fresh;        /* nothing of the segment, or of the word, was written yet */
} bp_spelling;

typedef struct bp_tracing bp_tracing;

struct bp_encoder {
    const bp_tokenizer *tokenizer;
    bp_tracing *tracing; /* NULL: nobody asks where tokens lie (encoder_offsets.h) */
    uint64_t cut;        /* words that were longer than word_bytes and were cut, since init */
    uint32_t word_bytes;
    unsigned flags;
    bp_word_entry *cache;
    bp_word_work work;

    /* Raw text: well-formed UTF-8 (any bytes for BP_TOKENIZER_BYTES). */
    unsigned char *raw;
    size_t raw_at;     /* what lies before is done */
    size_t raw_clear;  /* no added token begins before it */
    size_t raw_spaces; /* where the run of spaces that ends at raw_clear begins */
    size_t raw_end;
    bp_utf8_cleaner cleaner;
    bp_added_found next;
    bool skip_spaces;    /* an added token strips what is right of it */
    bool document_start; /* nothing came before this segment */
    bool segment_start;  /* nothing of the segment between added tokens was normalised yet */
    bool ending;         /* no more text comes */
    bool behind_word;    /* the character before raw_clear is one of a word */
    bool behind_first;   /* an added token that is not normalised lies there */
    uint32_t stage;      /* of the end: which template tokens are out */

    /* Normalised text. */
    unsigned char *text;
    size_t text_at;
    size_t text_end;
    size_t text_held; /* bytes before text_end that may yet be dropped */
    bool segment_end; /* nothing follows text_end in this segment */
    bool overlong;    /* WordPiece: the rest of a word that is already unknown */
    bp_split split;
    uint32_t composing[BP_COMPOSE_MAX];
    uint32_t composing_count;
    bp_spelling spelling;
    float carried;

    /* Ids of work.id that the caller did not take yet. */
    size_t out_at;
    size_t out_end;
};

#endif
