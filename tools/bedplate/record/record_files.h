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

/* One number for what a model beside the run's own is: the SHA-256 of its configuration, weights
 * and, where it is open, tokenizer. The session is planned. */
bp_status record_model_digest(session *s, uint64_t *digest) BP_MUST_CHECK;

/* BP_ERR_STORE, naming the model: sizes and times of its configuration and weights are not those of
 * the stamp. A stamp of 0 takes them. */
bp_status record_model_unchanged(session *s, uint64_t *stamp) BP_MUST_CHECK;

/* List "files": what the run has exported into its output directory. */
bp_status record_exports_put(json_line *line, session *s) BP_MUST_CHECK;

/* Whether that list may have a file of this name. */
bool record_exports_have(const char *name);

#endif
