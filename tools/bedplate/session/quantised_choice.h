/* SPDX-License-Identifier: MIT */
/* In which form a base's dense layers are kept. */
#ifndef BP_BEDPLATE_QUANTISED_CHOICE_H
#define BP_BEDPLATE_QUANTISED_CHOICE_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/settings.h"

/* Fills spec->quantised from --load-in-4bit, --load-in-8bit and --bnb-4bit-use-double-quant, or,
 * where none of them is given, from the quantization_config of the model's config.json. Says on
 * stderr what does not go together: BP_ERR_USAGE. */
bp_status quantised_fill(const settings *set, bp_spec *spec) BP_MUST_CHECK;

#endif
