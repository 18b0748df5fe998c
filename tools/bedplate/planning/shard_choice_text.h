/* SPDX-License-Identifier: MIT */
/* --shard auto: what each form would take; nothing where none was chosen. */
#ifndef BP_BEDPLATE_SHARD_CHOICE_TEXT_H
#define BP_BEDPLATE_SHARD_CHOICE_TEXT_H

#include "core/plan/search/share.h"
#include "tools/bedplate/app/output.h"

void shard_choice_put(bp_text *text, const bp_share_choice *all);
void shard_choice_json(output *out, const bp_share_choice *all);

#endif
