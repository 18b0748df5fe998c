/* SPDX-License-Identifier: MIT */
/* The merges of a SentencePiece vocabulary in a GGUF file ("llama": pieces with scores). */
#ifndef BP_FORMATS_GGUF_PIECES_H
#define BP_FORMATS_GGUF_PIECES_H

#include "arena/json_write.h"
#include "tools/formats/gguf/gguf_read.h"

/* Bytes that finding the merges works in; BP_SIZE_INVALID when that overflows. */
uint64_t bp_gguf_pieces_bytes(const bp_gguf_file *file);

/* Puts "merges", a list of pairs: every way of making a piece of two others, the best score first,
 * and for one piece the longest left part first, as transformers' converter of such vocabularies
 * has it. llama.cpp joins the two neighbours whose piece has the best score, the first of equals,
 * which is merging by these ranks. Only normal and user-defined tokens are pieces, and only those
 * of at most 512 bytes are cut. `memory` has bp_gguf_pieces_bytes bytes, aligned to 8. BP_ERR_DATA:
 * the arrays differ in number, a score is not a number, or the pieces were chosen to make looking
 * them up slow. */
bp_status bp_gguf_put_pieces(const bp_gguf_file *file, void *memory, bp_json_writer *json,
                             bp_error *error) BP_MUST_CHECK;

#endif
