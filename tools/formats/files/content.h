/* SPDX-License-Identifier: MIT */
/* What a file is by its content: packed, something that is never text, or text of some form. */
#ifndef BP_FORMATS_CONTENT_H
#define BP_FORMATS_CONTENT_H

#include "tools/formats/data/data.h"

#define BP_CONTENT_HEAD 512 /* bytes of a file's beginning that are looked at */

typedef enum bp_content_kind {
    BP_CONTENT_OTHER, /* no magic number that is known */
    BP_CONTENT_GZIP,
    BP_CONTENT_ZSTD,
    BP_CONTENT_BINARY /* never text */
} bp_content_kind;

typedef struct bp_content {
    bp_content_kind kind;
    const char *text; /* of BINARY: what the file is, and what to do */
} bp_content;

/* By the magic number at the beginning; count: bytes of the head, fewer where the file has fewer.
 */
bp_content bp_content_of(const unsigned char *head, size_t count);

/* What an open file without a name holds, as far as its beginning tells: JSON lines or an array, a
 * table whose first row names a column `label`, else text. */
bp_data_format bp_content_format(const unsigned char *head, size_t count);

/* Reads the beginning of an open file: *count bytes. BP_ERR_STORE. */
bp_status bp_content_head(bp_store *store, bp_file file, const char *path,
                          unsigned char head[BP_CONTENT_HEAD], size_t *count,
                          bp_error *error) BP_MUST_CHECK;

/* Whether open files of text, JSON lines or tables can be that. BP_ERR_DATA, with the file's name:
 * a magic number of something else; of text, a NUL byte, or more bytes that are not UTF-8 than
 * characters beyond ASCII, if they are a tenth of all. Nothing is asked of other formats. Cost:
 * text is read once. */
bp_status bp_content_check(const bp_data *data) BP_MUST_CHECK;

#endif
