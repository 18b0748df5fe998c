/* SPDX-License-Identifier: MIT */
/* Objects of a JSON file, one after the other: an object a line, an array of them, or an object
 * whose member `data` is such an array (SQuAD's files). */
#ifndef BP_FORMATS_DATA_RECORDS_H
#define BP_FORMATS_DATA_RECORDS_H

#include "core/base/json.h"
#include "tools/formats/files/data_reader.h"

#define BP_RECORDS_SCRATCH 32768 /* bytes, aligned to 8 */

/* A stretch of a file as a JSON document. Must not move while it is read. */
typedef struct bp_record_span {
    bp_data_reader *reader;
    uint64_t offset; /* of the next byte to be read */
    uint64_t end;
    bp_json json;
} bp_record_span;

typedef struct bp_records {
    bp_record_span span; /* span.json stands inside of the present object */
    void *scratch;
    bool lines;
    bool begun;     /* of lines: one is being read */
    bool outer;     /* the array is the member of an object */
    uint64_t start; /* of lines: of the next one */
} bp_records;

/* Begins to read offset .. end - 1 of the reader's file. scratch: BP_RECORDS_SCRATCH bytes. */
bp_status bp_record_span_begin(bp_record_span *span, uint64_t offset, uint64_t end,
                               void *scratch) BP_MUST_CHECK;

/* Where in the file the next byte lies that the JSON reader takes. */
uint64_t bp_record_span_position(const bp_record_span *span);

/* Begins with a reader that was begun itself, behind a byte-order mark. */
bp_status bp_records_begin(bp_records *records, bp_data_reader *reader,
                           void *scratch) BP_MUST_CHECK;

/* The next object, whose beginning is taken: its keys come next, and the caller takes them and its
 * end. *there is false behind the last. BP_ERR_DATA with the line, of files of lines. */
bp_status bp_records_next(bp_records *records, bool *there) BP_MUST_CHECK;

/* Gives an error of the JSON reader the file's name and, of lines, the line. */
bp_status bp_records_named(bp_records *records, bp_status status) BP_MUST_CHECK;

#endif
