/* SPDX-License-Identifier: MIT */
/* The objects of config.json that say how rotary positions turn: rope_scaling beside rope_theta
 * (transformers 4), or rope_parameters with all of it (transformers 5). */
#ifndef BP_FORMATS_HF_ROPE_H
#define BP_FORMATS_HF_ROPE_H

#include "core/file/json.h"
#include "core/compile/spec.h"

/* Reads the value of `key`, whose first event is *event: null, or an object of rope_type "default"
 * or "llama3". BP_ERR_DATA naming the field: another type, or a number that is missing or out of
 * range. */
bp_status bp_hf_rope_read(bp_json *json, const char *key, bp_json_event *event,
                          bp_model_config *config, bp_error *error) BP_MUST_CHECK;

#endif
