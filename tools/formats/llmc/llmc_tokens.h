/* SPDX-License-Identifier: MIT */
/* Writing token files in llm.c's format (karpathy/llm.c, dev/data/data_common.py): 256 int32 of
 * header (magic, version, count, zeros), then the ids, all little-endian. */
#ifndef BP_FORMATS_LLMC_TOKENS_H
#define BP_FORMATS_LLMC_TOKENS_H

#include "core/base/error.h"
#include "core/run/feed.h"
#include "core/base/store.h"

#define BP_LLMC_SCRATCH    65536       /* bytes */
#define BP_LLMC_TOKENS_MAX 2147483647u /* what the header can count */

/* Bytes of an id: 2 for up to 65,536 ids (magic 20240520, version 1), else 4 (20240801, 7). */
uint32_t bp_llmc_width(uint32_t vocabulary);

/* Writes all tokens of a source, of which the ids are below `vocabulary`: path.tmp is written and
 * synced, then renamed. scratch: BP_LLMC_SCRATCH bytes aligned to 8. BP_ERR_DATA: no token, more
 * than the header can count, an id that is not below the vocabulary. BP_ERR_STORE; after an error
 * an earlier file is as it was. */
bp_status bp_llmc_write_tokens(bp_store *store, const char *path, bp_source *source,
                               uint32_t vocabulary, void *scratch, bp_error *error) BP_MUST_CHECK;

#endif
