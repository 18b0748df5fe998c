/* SPDX-License-Identifier: MIT */
/* The files that a run is made of, and those that it made, each with its size and SHA-256. */
#ifndef BP_BEDPLATE_RECORD_FILES_H
#define BP_BEDPLATE_RECORD_FILES_H

#include "tools/bedplate/sources/data_set.h"
#include "tools/bedplate/record/json_line.h"

/* The name of a path without its folders and without slashes behind it, which a directory may have;
 * `name` is returned. */
const char *record_base_name(const char *path, char name[BP_STORE_PATH_MAX]);

/* Lists "model", "tokenizer", "adapter", "data" and "eval_data". What came through a pipe and was
 * not kept has null for its digest. */
bp_status record_files_put(json_line *line, session *s, const data_set *data) BP_MUST_CHECK;

/* List "files": what the run has exported into its output directory. */
bp_status record_exports_put(json_line *line, session *s) BP_MUST_CHECK;

#endif
