/* SPDX-License-Identifier: MIT */
/* Token files: text that was tokenised once, and is read by position ever after.
 *
 * All little-endian:
 *     header, 128 bytes: "BPTOKENS", u32 version 1, u32 bytes per id (1, 2, 4), u32 tail, u32 form
 *         (bp_document_form), u64 key, u64 tokens, u64 examples, u64 offset of the ids, u64
 *         documents, u64 XXH64 of the examples, u64 XXH64 of the ids, u32 texts of each example (2:
 *         pairs), u32 types (bp_pair_types), u32 lead, u32 join (bp_example),
 *         u32 1 where labels are lacking, u32 1 where some questions have no answer, u64 rows that
 *         were left out, u64 XXH64 of their numbers, u64 XXH64 of the 120 bytes before
 *     examples, 32 bytes each: u64 first token, u64 tokens, u64 prompt tokens (of a pair: those
 *         before the second text), u64 label
 *     zeros, and up to the offset of the ids, the last one first, the numbers of rows of the data
 *         that were left out before an example, u64 each
 *     ids, to the end of the file; in the form BP_FORM_TAGGED as many labels follow the ids of each
 *         example, which count as tokens: each plus one, 0 for none; in the form BP_FORM_CHAT each
 * id is doubled, and plus one where it is a target (BP_FORM_PACKED: data_packed.h) The key names
 * what the file was made from (data_tokenise.h). The file is written under PATH.tmp, synced, and
 * renamed. */
#ifndef BP_FORMATS_DATA_TOKENS_H
#define BP_FORMATS_DATA_TOKENS_H

#include "core/base/digest.h"
#include "core/run/feed.h"
#include "core/base/store.h"

#define BP_TOKENS_HEADER  128
#define BP_TOKENS_EXAMPLE 32
#define BP_TOKENS_BUFFER  65536 /* bytes of each of the writer's two buffers, and for verifying */

/* What the header says. */
typedef struct bp_tokens_head {
    uint32_t width; /* bytes per id */
    uint32_t tail;  /* tokens at the end of each example that stay when it is cut */
    uint32_t form;  /* bp_document_form */
    uint64_t key;
    uint64_t tokens;
    uint64_t examples; /* 0: a stream */
    uint64_t start;    /* offset of the ids */
    uint64_t documents;
    uint64_t examples_digest;
    uint64_t tokens_digest;
    uint32_t texts; /* of each labelled example; 2: pairs */
    uint32_t types; /* of pairs' tokens: bp_pair_types (tokenizer.h) */
    uint32_t lead;  /* of pairs: bp_example */
    uint32_t join;
    uint32_t unlabelled; /* 1: the labels of all examples are BP_NO_LABEL */
    uint32_t impossible; /* 1: of BP_FORM_ANSWERS, some questions have no answer */
    uint64_t left_out;   /* rows without an example, before the last one that has one */
    uint64_t left_digest;
} bp_tokens_head;

/* Bytes of each id where all are below `vocabulary`. */
uint32_t bp_tokens_width(uint32_t vocabulary);

/* Writing. The first four are the caller's to set. */
typedef struct bp_tokens_writer {
    bp_store *store;
    const char *path;      /* the final one */
    unsigned char *buffer; /* 2 * BP_TOKENS_BUFFER */
    bp_error *error;
    bp_tokens_head head; /* width, tail, form, key, documents: the caller's, before the end */
    bp_file file;
    bool open;
    bool made;     /* PATH.tmp is there */
    uint64_t room; /* examples there is room for */
    size_t ids_used;
    size_t examples_used;
    uint64_t ids_at; /* offsets at which the buffers go */
    uint64_t examples_at;
    bp_digest ids_digest;
    bp_digest examples_digest;
    bp_digest left_digest;
    uint64_t row; /* of the data, that the next example is taken to be */
} bp_tokens_writer;

/* Creates PATH.tmp with room for so many examples. After an error of any of these calls
 * bp_tokens_abandon is due. */
bp_status bp_tokens_begin(bp_tokens_writer *writer, uint64_t examples) BP_MUST_CHECK;
bp_status bp_tokens_put(bp_tokens_writer *writer, const uint32_t *ids, size_t count) BP_MUST_CHECK;
/* The next example is row `row` of the data, counted from 0; those between the last one's and it
 * were left out. Each of them takes the room of an example. */
bp_status bp_tokens_at_row(bp_tokens_writer *writer, uint64_t row) BP_MUST_CHECK;
/* BP_ERR_INTERNAL when there is no room for it. */
bp_status bp_tokens_put_example(bp_tokens_writer *writer, const bp_example *example) BP_MUST_CHECK;
/* Writes what waits and the header, syncs, renames. */
bp_status bp_tokens_end(bp_tokens_writer *writer) BP_MUST_CHECK;
/* Closes and removes the temporary file; nothing when there is none. */
void bp_tokens_abandon(bp_tokens_writer *writer);

/* An open token file. Must not move. */
typedef struct bp_tokens {
    bp_source source; /* what the feed is given */
    bp_tokens_head head;
    bp_store *store;
    bp_file file;
    bool open;
    bp_error *error;
} bp_tokens;

/* Opens a token file; path must outlive it. With `buffer` (BP_TOKENS_BUFFER bytes, NULL: not) the
 * whole content is compared with its digests and every example with its bounds. BP_ERR_DATA: not a
 * token file, cut short, damaged. BP_ERR_STORE. After an error nothing is left open. */
bp_status bp_tokens_open(bp_tokens *tokens, bp_store *store, const char *path, void *buffer,
                         bp_error *error) BP_MUST_CHECK;
/* Opens the token file if it is there, whole, and has this key; false, and nothing is open, if not.
 */
bool bp_tokens_fits(bp_tokens *tokens, bp_store *store, const char *path, uint64_t key,
                    void *buffer, bp_error *error);
/* The number of a row that was left out: of the `index`-th of head.left_out, in their order. */
bp_status bp_tokens_left_out(bp_tokens *tokens, uint64_t index, uint64_t *row) BP_MUST_CHECK;
/* Safe after a failed open and when called twice. */
void bp_tokens_close(bp_tokens *tokens);

#endif
