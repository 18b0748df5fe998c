/* SPDX-License-Identifier: MIT */
/* The objects of config.json that say how rotary positions turn: rope_scaling beside rope_theta
 * (transformers 4), or rope_parameters with all of it (transformers 5). */
#ifndef BP_FORMATS_HF_ROPE_H
#define BP_FORMATS_HF_ROPE_H

#include "tools/formats/hf/hf_value.h"

/* The row of families whose rope_type dynamic may have alpha, by which the base is stretched. */
#define BP_ROPE_ALPHA "rope_scaling.alpha"

/* Reads the value of a BP_ROW_ROPE, whose first event is *event: null, or an object of rope_type
 * that is implemented; of a model with two kinds of layers, one for each kind. What it says goes to
 * the bp_llama_config.
 * BP_ERR_DATA naming the key, or "KEY.NAME": another type, or a number that is missing or out of
 * range. */
bp_status bp_hf_rope_take(bp_hf_reading *reading, const bp_row *row,
                          bp_json_event *event) BP_MUST_CHECK;

/* Reads the value of a key that no row of the family has: of what transformers takes into such an
 * object from beside it, the original positions are kept, and a part of heads is refused. Other
 * keys are passed over. */
bp_status bp_hf_rope_take_beside(bp_hf_reading *reading, bp_json_event *event) BP_MUST_CHECK;

/* Resolves what a scaling leaves to other keys, and yarn's usual numbers: after all fields were
 * read. For families whose own struct is a bp_llama_config. BP_ERR_DATA: longrope's lists do not
 * have a number for each pair that turns. */
bp_status bp_hf_rope_finish(bp_hf_reading *reading) BP_MUST_CHECK;

/* Writes rope_scaling's object, or null where nothing is scaled; as rope_parameters one for each
 * kind of layers. */
void bp_hf_rope_put(bp_json_writer *json, const char *key, const bp_model_config *config);

#endif
