/* SPDX-License-Identifier: MIT */
/* How vectors of texts are made: what the model's directory says, and the options. */
#ifndef BP_BEDPLATE_EMBEDDER_CHOICE_H
#define BP_BEDPLATE_EMBEDDER_CHOICE_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/settings.h"

struct session;

#define POOLING_WORDS "auto|mean|cls|lasttoken|mean_sqrt_len_tokens|weightedmean"

/* Fills s->embedder, and the pooling of s->spec.config, whose task is BP_TASK_EMBEDDING.
 * BP_ERR_DATA: a module that is not implemented; BP_ERR_USAGE: --prompt-name. */
bp_status embedder_choose(struct session *s) BP_MUST_CHECK;

/* How many texts a row has until the data says it, what their loss is, and batches of whole rows.
 */
void embedder_fill(const settings *set, bp_spec *spec);

#endif
