/* SPDX-License-Identifier: MIT */
/* What the files of the safetensors reader share. */
#ifndef BP_CORE_SAFETENSORS_PRIVATE_H
#define BP_CORE_SAFETENSORS_PRIVATE_H

#include "core/base/json.h"
#include "core/base/safetensors.h"

/* One reading of a header. The first only counts; the second fills tables of the counted size. */
typedef struct bp_header_scan {
    bp_json json;
    bp_error *error;
    bool filling;
    bool metadata_seen;
    bool changed; /* the second reading found more than the first: the file is being written to */
    size_t entries;
    size_t pairs;
    size_t text; /* bytes of names, keys and values with their terminators */
    bp_tensor_entry *entry_table;
    bp_pair *pair_table;
    char *text_room;
    size_t entry_most;
    size_t pair_most;
    size_t text_most;
} bp_header_scan;

/* Reads a header through scan->json, which has just been started. */
bp_status bp_header_read(bp_header_scan *scan) BP_MUST_CHECK;

#endif
