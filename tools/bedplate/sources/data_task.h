/* SPDX-License-Identifier: MIT */
/* The task of a run, found from its data: labelled rows are classified, conversations are learned,
 * preferences compared, and so on. */
#ifndef BP_BEDPLATE_DATA_TASK_H
#define BP_BEDPLATE_DATA_TASK_H

#include "tools/bedplate/sources/data_set.h"

/* Looks at --data and at the configuration of --model. Where --task is auto and the data are for
 * another task than the model is by itself, --task becomes theirs, --num-labels as many as labels
 * that are numbers need, and --data-format imagefolder for a directory of images. Says the task in
 * one line on stderr, unless --quiet, and keeps it in set->task_from. Data that cannot be read are
 * left to the command itself. BP_ERR_USAGE, printed: the data contradict --task, or the model
 * cannot learn what they hold. */
bp_status data_task_resolve(settings *set) BP_MUST_CHECK;

/* Members "task" where it was found from the data "task_from", and "num_labels" where it has
 * classes. */
void data_task_json(output *out, const session *s);

/* Adds the rows of JSON in a list of files to *rows, up to what cannot be read, which train says.
 * Cost: reads the files. */
bp_status data_task_count(session *s, const path_list *list, uint64_t *rows) BP_MUST_CHECK;

/* Says on stderr that the first row of a file has a label which a language model does not learn. */
bp_status data_task_ignored(session *s, const data_files *files) BP_MUST_CHECK;

#endif
