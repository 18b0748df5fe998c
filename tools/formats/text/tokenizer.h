/* SPDX-License-Identifier: MIT */
/* Tokenizers: text to token ids and back, as the tokenizers library of Hugging Face does it.
 *
 * What is read, the first that is there in a directory:
 *
 *   tokenizer.json           byte-level BPE (split as GPT-2, Llama 3, Qwen2,
 *                            SmolLM, tekken or GPT-4o, or not at all), BPE with byte fallback
 *                            (Llama 2, Gemma), WordPiece (BERT), Unigram with
 *                            the precompiled character map (XLM-R, T5)
 *   vocab.json, merges.txt   GPT-2
 *   vocab.txt                BERT WordPiece
 *   tokenizer.model,         SentencePiece's own models, of the types unigram and
 *   spiece.model,            BPE, to the ids of that library; XLM-R's to those of fairseq
 *   sentencepiece.bpe.model
 *   tokenizer.model          tiktoken's file of Llama 3, to the ids of that library
 *   tekken.json              Mistral's own, which tiktoken's rules apply to
 *
 * and beside any of them tokenizer_config.json for the names of the special tokens (and, beside
 * vocab.txt, for do_lower_case and its like). What a tokenizer.json asks for and is not
 * implemented is refused by name; only "truncation" and "padding" are passed over, which
 * transformers too resets at every call.
 *
 * A bp_tokenizer is only read after it was opened: any number of encoders and decoders may use one
 * at the same time, each in a memory of its own. Nothing is allocated; files, text and ids are
 * validated.
 *
 * Text is UTF-8. What is not valid UTF-8 becomes U+FFFD, one for each maximal part of a character
 * as in Python's decode(errors="replace"), except where every byte is a token by itself and nothing
 * is merged (BP_TOKENIZER_BYTES): there every byte passes as it is. */
#ifndef BP_FORMATS_TOKENIZER_H
#define BP_FORMATS_TOKENIZER_H

#include "core/base/error.h"
#include "core/base/store.h"

#define BP_TOKENIZER_SCRATCH     131072     /* bytes that measuring and opening work in */
#define BP_TOKENIZER_TOKENS_MAX  (1u << 22) /* ids of a vocabulary */
#define BP_TOKENIZER_FILE_MAX    (1u << 28) /* bytes of one file of a tokenizer */
#define BP_TOKENIZER_DECODED_MAX 8192       /* bytes of one token, at most */

typedef enum bp_tokenizer_kind {
    BP_TOKENIZER_BYTES, /* 256 byte-level tokens, nothing merged: any bytes come back as they were
                         */
    BP_TOKENIZER_BYTE_BPE,  /* GPT-2, Llama 3, Qwen2 */
    BP_TOKENIZER_CHAR_BPE,  /* Llama 2: characters, unknown ones as bytes */
    BP_TOKENIZER_WORDPIECE, /* BERT */
    BP_TOKENIZER_UNIGRAM    /* XLM-R, T5: the best of all ways to cut a text into pieces */
} bp_tokenizer_kind;

typedef enum bp_tokenizer_files {
    BP_TOKENIZER_NONE,   /* the directory has no tokenizer */
    BP_TOKENIZER_JSON,   /* tokenizer.json */
    BP_TOKENIZER_GPT2,   /* vocab.json and merges.txt */
    BP_TOKENIZER_BERT,   /* vocab.txt */
    BP_TOKENIZER_PIECES, /* tokenizer.model, spiece.model or sentencepiece.bpe.model */
    BP_TOKENIZER_RANKS,  /* tokenizer.model, where it is tiktoken's */
    BP_TOKENIZER_TEKKEN  /* tekken.json */
} bp_tokenizer_files;

/* What a first pass over the files found; a plan is made from it before anything is loaded. */
typedef struct bp_tokenizer_need {
    bp_tokenizer_files files;
    uint64_t bytes;   /* memory that bp_tokenizer_open takes, exactly */
    uint32_t tokens;  /* the largest id of a token, and one */
    uint32_t entries; /* tokens in the vocabulary */
    uint32_t merges;
    uint32_t added;      /* added tokens */
    uint64_t text_bytes; /* of all tokens */
    bool scored;         /* tokens have scores */
    uint32_t map_bytes;  /* of the character map */
} bp_tokenizer_need;

/* Ids of special tokens; -1 where the tokenizer has none. */
typedef struct bp_tokenizer_special {
    int64_t bos, eos, unk, pad, cls, sep, mask;
    /* From a usual name: no file says it, and a configuration that does goes before. */
    bool eos_guessed, bos_guessed, pad_guessed;
} bp_tokenizer_special;

typedef struct bp_tokenizer bp_tokenizer; /* caller-owned; defined below */

/* Reads the files once, without keeping anything, to say how many bytes they will take. A directory
 * without a tokenizer gives need->files = BP_TOKENIZER_NONE and BP_OK. scratch:
 * BP_TOKENIZER_SCRATCH bytes aligned to 8, free again afterwards. BP_ERR_DATA naming the file and
 * what is wrong or not implemented; BP_ERR_STORE: a read failed. Cost: one pass over the files. */
bp_status bp_tokenizer_measure(bp_store *store, const char *directory, void *scratch,
                               bp_tokenizer_need *need, bp_error *error) BP_MUST_CHECK;

/* Reads the tokenizer that was measured into `memory` (need->bytes of it, aligned to 16), which
 * stays with it until the caller no longer uses it; there is nothing to close. Same scratch, same
 * errors; BP_ERR_DATA too when the files changed since they were measured. */
bp_status bp_tokenizer_open(bp_tokenizer *tokenizer, bp_store *store, const char *directory,
                            const bp_tokenizer_need *need, void *memory, void *scratch,
                            bp_error *error) BP_MUST_CHECK;

/* Facts of an open tokenizer. */
/* Bytes that a byte-level vocabulary made from little text has no token for, nor one for unknown
 * text: as the tokenizers library does, they are left out. 0 in every vocabulary of note. */
uint32_t bp_tokenizer_missing_bytes(const bp_tokenizer *tokenizer);
bp_tokenizer_kind bp_tokenizer_kind_of(const bp_tokenizer *tokenizer);
uint32_t bp_tokenizer_tokens(const bp_tokenizer *tokenizer); /* the largest id, and one */
const bp_tokenizer_special *bp_tokenizer_special_of(const bp_tokenizer *tokenizer);
/* XXH64 of the files that were read: names a tokenizer in a cache of token files. */
uint64_t bp_tokenizer_digest(const bp_tokenizer *tokenizer);
/* The id of a token by its text as the vocabulary file spells it ("<|endoftext|>"); -1 if none. */
int64_t bp_tokenizer_find(const bp_tokenizer *tokenizer, const char *text, size_t length);
/* Whether the id is a special added token (decoders usually leave those out). */
bool bp_tokenizer_is_special(const bp_tokenizer *tokenizer, uint32_t id);
/* Whether the text behind this token is normalised by itself: it is an added token that is looked
 * for in the text as it came. Cost: a look at each added token. */
bool bp_tokenizer_is_cut(const bp_tokenizer *tokenizer, uint32_t id);

/* ---- Encoding ---- */

/* A stretch of text that the tokenizer takes as one word (what is between the cuts of its split
 * pattern, after normalising) must lie in memory as a whole. A longer one is cut after word_bytes
 * bytes, before the character that would not fit, and counted in encoder->cut: there ids may differ
 * from the tokenizers library's, as they may for characters whose class changed between versions of
 * Unicode (unicode.h). The same cut is made however the text was fed. */
#define BP_ENCODER_WORD_BYTES 65536 /* what is usual; a natural word is below 100 */
#define BP_ENCODER_WORD_MIN   512
#define BP_ENCODER_WORD_MAX   (1u << 24)

typedef enum bp_encode_flags {
    BP_ENCODE_PLAIN = 0,
    BP_ENCODE_TEMPLATE = 1, /* add what the post-processor adds: bos, eos, [CLS], [SEP] */
    BP_ENCODE_LITERAL = 2,  /* special tokens spelt out in the text are text like any other, as
                               encode_special_tokens does in the tokenizers library */
    BP_ENCODE_GOES_ON = 4   /* the text goes on with another one: no space is put before it where a
                               tokenizer puts one before every text */
} bp_encode_flags;

typedef struct bp_encoder bp_encoder; /* caller-owned; defined below */

/* Bytes an encoder works in: 21 for each of word_bytes, and 1,085,440; rounded up to 64.
 * Independent of the tokenizer and of the text. BP_SIZE_INVALID: word_bytes outside its bounds. */
uint64_t bp_encoder_bytes(uint32_t word_bytes);

/* Makes an encoder over `memory` (bp_encoder_bytes(word_bytes), aligned to 64). The tokenizer and
 * the memory must outlive it. BP_ERR_USAGE: word_bytes outside its bounds. */
bp_status bp_encoder_init(bp_encoder *encoder, const bp_tokenizer *tokenizer, uint32_t word_bytes,
                          void *memory) BP_MUST_CHECK;

/* Streaming, one document at a time:
 *     begin; while text: feed, take ids; do end, take ids, while it says there are more.
 * The ids are the same whatever the sizes of the pieces and of the room for ids. */

/* Starts a document; what was left of an earlier one is dropped. What encoders learn of words (a
 * cache) stays and never changes an id. */
void bp_encoder_begin(bp_encoder *encoder, unsigned flags);

/* Takes text and gives ids: at most `room` ids are written, *written says how many; *used says how
 * many of the `count` bytes were taken. Call again with the rest while *used < count (the room was
 * full; the next call needs a room of at least 1). Ids may come later than their text. */
void bp_encoder_feed(bp_encoder *encoder, const void *text, size_t count, uint32_t *ids,
                     size_t room, size_t *used, size_t *written);

/* Ends the document: true while there is more to come than the room took; call again then. */
bool bp_encoder_end(bp_encoder *encoder, uint32_t *ids, size_t room, size_t *written);

/* A whole string. *count becomes the ids it gives, which may be more than `room`: then the first
 * `room` were written. */
void bp_encoder_text(bp_encoder *encoder, const void *text, size_t length, unsigned flags,
                     uint32_t *ids, size_t room, size_t *count);

/* One text or a pair, truncated to `room` ids, as transformers does it with truncation=True
 * ("longest_first"): with BP_ENCODE_TEMPLATE [CLS] a [SEP] or [CLS] a [SEP] b [SEP], and types (may
 * be NULL) 0 for the first and 1 for the second part. b NULL: no pair. *count: ids written; *whole
 * (may be NULL): ids there would be without truncation. BP_ERR_USAGE: room is too small for the
 * template's own tokens. */
bp_status bp_encoder_pair(bp_encoder *encoder, const void *a, size_t a_length, const void *b,
                          size_t b_length, unsigned flags, uint32_t *ids, uint8_t *types,
                          size_t room, size_t *count, size_t *whole) BP_MUST_CHECK;

/* Where a text's tokens go and where in it they lie, for bp_encoder_offsets. */
typedef struct bp_encoder_trace {
    uint32_t *ids, *starts, *ends; /* (room) each; bytes of the text */
    size_t room;
    void *memory; /* bp_encoder_offsets_bytes(), aligned to 4 */
} bp_encoder_trace;

uint64_t bp_encoder_offsets_bytes(void);

/* The ids of a whole string without the template, and of each the bytes that it was made of, as the
 * tokenizers library's offsets have them (which count characters); *count as bp_encoder_text says.
 * The text is valid UTF-8. BP_ERR_USAGE: the tokenizer is not WordPiece, or the encoder's words are
 * longer than BP_ENCODER_WORD_BYTES. */
bp_status bp_encoder_offsets(bp_encoder *encoder, const void *text, size_t length,
                             const bp_encoder_trace *to, size_t *count) BP_MUST_CHECK;

/* What stands before the first text of a pair, between the two, and behind the second: returns how
 * many ids. */
typedef enum bp_pair_position { BP_PAIR_BEFORE, BP_PAIR_BETWEEN, BP_PAIR_BEHIND } bp_pair_position;
uint32_t bp_encoder_pair_ids(const bp_encoder *encoder, bp_pair_position place,
                             const uint32_t **ids);

/* What stands before a single text, and behind it; between there is nothing. */
uint32_t bp_encoder_single_ids(const bp_encoder *encoder, bp_pair_position place,
                               const uint32_t **ids);

/* The types of a pair's tokens: none but 0; as BERT has them, 1 from the second text on; others. */
typedef enum bp_pair_types { BP_PAIR_ALIKE, BP_PAIR_APART, BP_PAIR_OTHER } bp_pair_types;
bp_pair_types bp_encoder_pair_types(const bp_encoder *encoder);

/* ---- Decoding ---- */

/* The little that one id needs to know of those before it. Zero is the beginning of a text. */
typedef struct bp_decoder {
    bool begun;
    bool behind_word; /* CLIP: a space comes before the next token */
} bp_decoder;

/* The bytes of one token, given its predecessors: WordPiece's spaces and its cleaning up of them,
 * Llama 2's leading space left out. A character whose bytes are several tokens comes in parts, so
 * only the bytes of a whole text are UTF-8; bytes that are none at all are passed as they are.
 * Special tokens give their text; leave them out by not calling. `bytes` has
 * BP_TOKENIZER_DECODED_MAX bytes. BP_ERR_DATA: no token has this id (a model's vocabulary may be
 * padded); *length is 0 and the decoder as before. */
bp_status bp_decoder_next(bp_decoder *decoder, const bp_tokenizer *tokenizer, uint32_t id,
                          char *bytes, size_t *length) BP_MUST_CHECK;

#include "tools/formats/text/tokenizer_state.h"

#endif
