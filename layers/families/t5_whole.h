/* SPDX-License-Identifier: MIT */
/* T5 with its decoder, as t5.c calls it: functions of bp_model for the task causal-lm. */
#ifndef BP_LAYERS_T5_WHOLE_H
#define BP_LAYERS_T5_WHOLE_H

#include "layers/families/causal.h"
#include "layers/families/t5.h"

/* Whether a config has a decoder. */
static inline bool bp_t5_whole(const bp_model_config *config)
{
    return config->task == BP_TASK_CAUSAL_LM;
}

bp_status bp_t5_whole_check(const bp_spec *spec, bp_error *error) BP_MUST_CHECK;
uint32_t bp_t5_whole_stages(const bp_model_config *config);
uint32_t bp_t5_whole_variants(const bp_model_config *config, uint32_t stage);
void bp_t5_whole_stage_name(const bp_model_config *config, uint32_t stage, char text[32]);
uint32_t bp_t5_whole_tapes(bp_builder *builder, const bp_stage_call *call,
                           const bp_tape_request *request, uint32_t *variants);
void bp_t5_whole_forward(bp_builder *builder, bp_stage_call *call);
void bp_t5_whole_backward(bp_builder *builder, bp_stage_call *call);
void bp_t5_whole_decode(bp_builder *builder, bp_stage_call *call);

/* The decoder's embedding, last norm and head. */
bp_causal bp_t5_describe_decoder(const bp_builder *builder);

#endif
