/* SPDX-License-Identifier: MIT */
/* Comparing lines of records, and the parts of replays that run no step. */
#ifndef BP_BEDPLATE_REPLAY_COMPARE_H
#define BP_BEDPLATE_REPLAY_COMPARE_H

#include "tools/bedplate/app/settings.h"

#define REPLAY_KEY 64

/* Where two lines, compared without their chains, part: the key whose value differs, of the
 * outermost object or inside it. False where they are the same. */
bool replay_difference(const char *a, size_t a_length, const char *b, size_t b_length,
                       char key[REPLAY_KEY]);

/* replay --compare A B: where two runs part. Returns the exit code. */
int replay_compare(const settings *set);

/* replay --documents STEP: the samples of a step, as the data has them. `run` is the settings of
 * the run. Returns the exit code. */
int replay_documents(const settings *set, const settings *run);

#endif
