/* SPDX-License-Identifier: MIT */
/* A data file seen through a window of bounded size, and complaints that name file and line. */
#ifndef BP_FORMATS_DATA_READER_H
#define BP_FORMATS_DATA_READER_H

#include "core/base/error.h"
#include "core/base/store.h"

/* The first six are the caller's to set. */
typedef struct bp_data_reader {
    bp_store *store;
    bp_file file; /* open for reading */
    const char *path;
    unsigned char *buffer; /* the window */
    size_t capacity;       /* its bytes, 1 at least */
    bp_error *error;
    uint64_t size; /* the rest: bytes of the file */
    uint64_t base; /* where the window begins */
    size_t held;
    uint64_t line; /* counted from 1, of what is being read; 0: lines are no matter */
} bp_data_reader;

/* Opens what another file or another's name speaks of. BP_ERR_DATA where nothing of that name is
 * there; BP_ERR_STORE. */
bp_status bp_data_reader_open(bp_data_reader *reader) BP_MUST_CHECK;

/* Asks for the file's size. BP_ERR_STORE. */
bp_status bp_data_reader_begin(bp_data_reader *reader) BP_MUST_CHECK;

/* The bytes from `offset` on, as many as the window has of them; *count is 0 only at the file's
 * end. They stay valid until the next call. Going back within the window costs nothing, further a
 * read. BP_ERR_STORE. */
bp_status bp_data_look(bp_data_reader *reader, uint64_t offset, const unsigned char **bytes,
                       size_t *count) BP_MUST_CHECK;

/* *end becomes the offset of the first line feed at or behind `from`, or the file's size. */
bp_status bp_data_line_end(bp_data_reader *reader, uint64_t from, uint64_t *end) BP_MUST_CHECK;

/* Bytes of a UTF-8 byte-order mark at the file's beginning: 3 or 0. */
bp_status bp_data_mark(bp_data_reader *reader, uint64_t *bytes) BP_MUST_CHECK;

/* Puts "FILE: line N" before the name of the error that is recorded. */
void bp_data_name_position(bp_data_reader *reader);

/* Records `text` as BP_ERR_DATA at the present line; with the word that was found, with two
 * numbers, or with one that is beyond the most that may be. */
bp_status bp_data_refuse(bp_data_reader *reader, const char *text) BP_MUST_CHECK;
bp_status bp_data_refuse_word(bp_data_reader *reader, const char *text, const char *word,
                              size_t length) BP_MUST_CHECK;
bp_status bp_data_refuse_numbers(bp_data_reader *reader, const char *text, int64_t found,
                                 int64_t wanted) BP_MUST_CHECK;
bp_status bp_data_refuse_most(bp_data_reader *reader, const char *text, int64_t found,
                              int64_t most) BP_MUST_CHECK;

#endif
