/* SPDX-License-Identifier: MIT */
/* In which form a base's dense layers and experts are kept. */
#ifndef BP_BEDPLATE_QUANTISED_CHOICE_H
#define BP_BEDPLATE_QUANTISED_CHOICE_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/settings.h"

/* Fills spec->quantised from --load-in-4bit, --load-in-8bit and --bnb-4bit-use-double-quant, or,
 * where none of them is given, from the quantization_config of the model's config.json. Says on
 * stderr what does not go together: BP_ERR_USAGE. spec->experts is what the options alone ask for:
 * directories have experts as floats. */
bp_status quantised_fill(const settings *set, bp_spec *spec) BP_MUST_CHECK;

/* A form of 4 bits; NONE where there are no such blocks. */
bp_quantised quantised_four(bool fp4, bool nested, uint64_t block);

/* The options that ask for a form, in `words` where they are not constant. */
const char *quantised_options(bp_quantised form, char words[128]);

/* Whether the model is a mixture of experts. spec->model and config are set. */
bool quantised_mixes(const bp_spec *spec);

#endif
