/* SPDX-License-Identifier: MIT */
/* The part of opening a run's data that makes token files. */
#ifndef BP_BEDPLATE_DATA_TOKENISED_H
#define BP_BEDPLATE_DATA_TOKENISED_H

#include "tools/bedplate/sources/data_set.h"

/* Tokenises open files of documents into the token file `name` in --output-dir, or uses the one
 * that is there; files->source becomes its source. Says on stderr what was done, how many documents
 * had no token, and how many examples are longer than a row. Notes in set->made whether the
 * directory was made, and in set->special the tokenizer's special tokens. */
bp_status data_tokenise(data_set *set, data_files *files, session *s,
                        const char *name) BP_MUST_CHECK;

/* For a plan: the classes that labels of the open files name, where nothing else does. Cost: the
 * data is read once. */
bp_status data_classes_find(const data_files *files, session *s) BP_MUST_CHECK;

/* Where the token file `name` goes: into --output-dir, which is made (set->made), or a place of its
 * own. */
bp_status data_token_path(data_set *set, session *s, char path[BP_STORE_PATH_MAX],
                          const char *name) BP_MUST_CHECK;

/* Without --output-dir a token file loses its name: open it stays readable, and goes with the
 * program. Called as soon as it is open, or could not be. */
void data_token_unname(session *s, const char *path);

/* The token file was opened, or not: of that `status` is returned. Its tokens become the source of
 * `files`, under the data's name; unnamed as above. */
bp_status data_token_opened(bp_status status, data_files *files, session *s) BP_MUST_CHECK;

/* With --long-rows refuse BP_ERR_DATA that names row `number`, from 1 on, of the data `name`, whose
 * tokens are more than `most`. */
bp_status data_refuse_long(session *s, const char *name, uint64_t number, uint64_t tokens,
                           uint64_t most) BP_MUST_CHECK;

/* BP_ERR_DATA: no row of the source has a target that a row of the model takes. Of a stream one is
 * looked for anywhere. */
bp_status data_check_targets(session *s, bp_source *source) BP_MUST_CHECK;

/* Says on stderr how many examples are longer than a row, and of how many nothing that is learned
 * is left. */
bp_status data_check_lengths(const data_files *files, session *s) BP_MUST_CHECK;

/* Whether each row has a label as a whole. */
bool data_learns_rows(const bp_model_config *config);

/* BP_ERR_DATA: the task needs labels, and the files have none. */
bp_status data_lacks_labels(const data_files *files, session *s) BP_MUST_CHECK;

/* The same for rows of numbers, of a model that reads such (data_numbers.h). */
bp_status data_open_numbers(data_set *set, data_files *files, session *s,
                            const char *name) BP_MUST_CHECK;

/* BP_ERR_DATA: a model that reads rows of numbers does not read files of this format. */
bp_status data_numbers_check(const data_files *files, session *s) BP_MUST_CHECK;

/* What data_open_numbers refuses of the files' forms and first rows. */
bp_status data_numbers_first(data_files *files, session *s) BP_MUST_CHECK;

/* BP_ERR_DATA: the rows have one text, and vectors are compared. */
bp_status data_one_text(const data_files *files, bp_error *error) BP_MUST_CHECK;

/* Opens a token file that was given as data. */
bp_status data_open_tokens(data_files *files, session *s) BP_MUST_CHECK;

#endif
