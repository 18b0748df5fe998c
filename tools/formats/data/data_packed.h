/* SPDX-License-Identifier: MIT */
/* Several documents in a row: a token file of rows (BP_FORM_PACKED) made from one of documents.
 *
 *   bfd        documents in decreasing length, each into the row with the least room that still
 *              takes it (best fit), 1000 documents at a time, as TRL packs; what is longer than a
 * row is cut bfd_split  the same, and what is cut off is a document of its own wrapped    one
 * stream of all documents, which is cut into rows wherever they end
 *
 * A row has at most `most` tokens. Ids are stored four times, plus one where they are targets, plus
 * two where a document begins (not of a stream). Tokens of prompts are no targets. */
#ifndef BP_FORMATS_DATA_PACKED_H
#define BP_FORMATS_DATA_PACKED_H

#include "tools/formats/data/data_tokens.h"

#define BP_PACKED_AT_ONCE 1000
#define BP_PACKED_PIECE   4096 /* tokens that are copied at a time */
#define BP_PACKED_SCRATCH                                                                          \
    (BP_PACKED_AT_ONCE * (sizeof(bp_example) + 4 * sizeof(uint64_t)) + 9 * BP_PACKED_PIECE +       \
     2 * BP_TOKENS_BUFFER)

typedef enum bp_packing { BP_PACKING_BFD, BP_PACKING_BFD_SPLIT, BP_PACKING_WRAPPED } bp_packing;

/* All but the last three are the caller's to set. */
typedef struct bp_pack {
    bp_source *source;   /* of examples; or a stream, whose documents end with end_token */
    int64_t end_token;   /* of a stream; -1: none, which is refused */
    uint32_t vocabulary; /* ids are below it */
    uint64_t most;       /* tokens of a row, 2 at least */
    bp_packing packing;
    bp_store *store;
    const char *path; /* of the token file */
    void *scratch;    /* BP_PACKED_SCRATCH, aligned to 8 */
    bp_error *error;
    uint64_t documents;
    uint64_t rows;
    uint64_t cut;         /* tokens that are in no row */
    uint64_t long_number; /* of the first document that was cut, from 1 on, 0: none; its tokens */
    uint64_t long_tokens;
} bp_pack;

/* BP_ERR_DATA: a stream without an end token, which is packed otherwise than wrapped. Of *pack only
 * source, end_token, packing and error are looked at. */
bp_status bp_pack_check(const bp_pack *pack) BP_MUST_CHECK;

/* Makes the file and opens it. BP_ERR_DATA: a stream without an end token, no document of two
 * tokens. After an error nothing is left open. Cost: reads and writes every token once. */
bp_status bp_pack_open(bp_pack *pack, bp_tokens *tokens) BP_MUST_CHECK;

#endif
