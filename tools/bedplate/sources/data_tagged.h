/* SPDX-License-Identifier: MIT */
/* Sentences of tagged words as a run's data (formats/data/data_tags.h). */
#ifndef BP_BEDPLATE_DATA_TAGGED_H
#define BP_BEDPLATE_DATA_TAGGED_H

#include "tools/bedplate/sources/data_set.h"
#include "tools/formats/data/data_tags.h"

/* Memory that reading such data takes beside the tokenizer's. */
uint64_t data_tagged_bytes(void);

/* BP_ERR_DATA when the open files are none that hold sentences of words. */
bp_status data_tagged_check(const data_files *files, session *s) BP_MUST_CHECK;

/* What data_tagged_open refuses of each file's first sentence. */
bp_status data_tagged_first(const data_files *files, session *s) BP_MUST_CHECK;

/* For a plan: the classes of the tags where the model has none of its own. Cost: reads all files.
 */
bp_status data_tagged_classes(data_files *files, session *s) BP_MUST_CHECK;

/* Makes the token file `name` of the open files, or uses the one that is there, as data_tokenise
 * does. A model that has no names for its classes yet, because its head is new, gets those that the
 * tags of --data have, sorted; s->names and s->spec.config.classes say which. */
bp_status data_tagged_open(data_set *set, data_files *files, session *s,
                           const char *name) BP_MUST_CHECK;

/* Hands over the sentences once more, in the order of the token file's examples. */
bp_status data_tagged_read(data_files *files, session *s, bp_words *words) BP_MUST_CHECK;

#endif
