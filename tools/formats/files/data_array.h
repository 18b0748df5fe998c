/* SPDX-License-Identifier: MIT */
/* A JSON array of objects as one file: where its elements lie. What they hold is looked at by who
 * reads them. */
#ifndef BP_FORMATS_DATA_ARRAY_H
#define BP_FORMATS_DATA_ARRAY_H

#include "tools/formats/files/data_reader.h"

/* A walk over the elements; the fields are the walk's own but for start and end. */
typedef struct bp_data_array {
    uint64_t at;    /* behind what was seen */
    uint64_t feeds; /* line feeds before it */
    bool any;
    uint64_t start; /* of the present element */
    uint64_t end;   /* behind its last byte */
} bp_data_array;

/* Whether the first byte from `at` on that is no white space opens an array; then the walk stands
 * behind it. BP_ERR_STORE. */
bp_status bp_data_array_begin(bp_data_reader *reader, uint64_t at, bp_data_array *array,
                              bool *is) BP_MUST_CHECK;

/* The next element, and its line in reader->line; *more is false behind the last one. BP_ERR_DATA:
 * the array is cut short, has an empty element, or something follows it. Cost: an element is read
 * once. */
bp_status bp_data_array_next(bp_data_reader *reader, bp_data_array *array,
                             bool *more) BP_MUST_CHECK;

#endif
