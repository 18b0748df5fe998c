/* SPDX-License-Identifier: MIT */
/* Tokenizers in GGUF files: the keys tokenizer.ggml.* written, and read into a tokenizer.json. */
#ifndef BP_FORMATS_GGUF_TOKENIZER_H
#define BP_FORMATS_GGUF_TOKENIZER_H

#include "arena/text.h"
#include "core/plan/spec.h"
#include "tools/formats/chat/jinja.h"
#include "tools/formats/gguf/gguf_read.h"
#include "tools/formats/gguf/gguf_write.h"
#include "tools/formats/text/tokenizer.h"

/* Bytes in which a merge is spelt: two tokens, each byte two at most, and a space. */
#define BP_GGUF_TOKENIZER_TEXT (4 * BP_TOKENIZER_DECODED_MAX + 1)

/* What is to be written. */
typedef struct bp_gguf_tokenizer {
    const bp_tokenizer *tokenizer;
    const bp_model_config *config; /* its vocabulary is the number of tokens written: ids without a
                                      token become [PADn], unused */
    uint32_t *order;               /* room for bp_gguf_tokenizer_room(tokenizer) numbers */
    char *text;                    /* room for BP_GGUF_TOKENIZER_TEXT bytes */
    bp_error *error;
} bp_gguf_tokenizer;

/* Numbers that writing works in: one for each merge or token, whichever are more. */
size_t bp_gguf_tokenizer_room(const bp_tokenizer *tokenizer);

/* Why a tokenizer cannot be said in GGUF's keys; NULL when it can: byte-level BPE split as GPT-2,
 * Llama 3 or Qwen2 do ("gpt2" with tokens, types and merges), and BPE with byte fallback ("llama"
 * with tokens, scores and types; the scores of a model of SentencePiece's are its own, else the
 * score of a token is minus the rank of the first merge that makes it, so that merging by the best
 * score is merging by rank), WordPiece (gguf_words.h) and Unigram (gguf_unigram.h). */
const char *bp_gguf_tokenizer_refusal(const bp_tokenizer *tokenizer, const bp_model_config *config);

/* Writes the keys, a bp_gguf_model.put_tokenizer whose user is a bp_gguf_tokenizer. BP_ERR_DATA
 * when the tokenizer has more tokens than the model. */
bp_status bp_gguf_put_tokenizer(void *user, bp_gguf_writer *writer) BP_MUST_CHECK;

#define BP_GGUF_TOKENIZER_SCRATCH 65536 /* bytes, for byte-level BPE */

/* Bytes that bp_gguf_tokenizer_json works in; BP_SIZE_INVALID when that overflows. */
uint64_t bp_gguf_tokenizer_scratch(const bp_gguf_file *file);

/* Whether a file has a tokenizer that can be written as tokenizer.json: the model "gpt2" split as
 * "gpt-2", "llama-bpe" or "qwen2", the model "llama", whose pieces have scores (gguf_pieces.h),
 * "bert" (gguf_words.h) and "t5" (gguf_unigram.h). NULL when it can, else why not. Reads two
 * strings, and of "t5" the types of the tokens. */
const char *bp_gguf_tokenizer_foreign(const bp_gguf_file *file);

/* Writes it as the text of a tokenizer.json. Control and user-defined tokens become added tokens,
 * unused ones are left out. scratch: bp_gguf_tokenizer_scratch bytes, aligned to 8. BP_ERR_DATA
 * when a key is missing or wrong, types and tokens differ in number, or a token is longer than 8
 * KiB. */
bp_status bp_gguf_tokenizer_json(const bp_gguf_file *file, void *scratch, bp_sink sink, void *user,
                                 bp_error *error) BP_MUST_CHECK;

/* Bytes that bp_gguf_tokenizer_config works in. */
#define BP_GGUF_TOKENIZER_CONFIG_SCRATCH (BP_GGUF_TOKENIZER_SCRATCH + BP_JINJA_SOURCE_MAX)

/* Writes what the keys say of the roles of tokens (bos, eos, unk, pad, cls, sep, mask) and the chat
 * template as the text of a tokenizer_config.json, for a file whose tokenizer is not foreign. A
 * role without a key has none, but that an encoder's cls and sep are its bos and eos, and that
 * WordPiece's mask is [MASK]. A template longer than BP_JINJA_SOURCE_MAX is left out. scratch:
 * BP_GGUF_TOKENIZER_CONFIG_SCRATCH bytes, aligned to 8. Errors as above. */
bp_status bp_gguf_tokenizer_config(const bp_gguf_file *file, void *scratch, bp_sink sink,
                                   void *user, bp_error *error) BP_MUST_CHECK;

#endif
