/* SPDX-License-Identifier: MIT */
/* The value of one row, read from config.json. */
#ifndef BP_FORMATS_HF_VALUE_H
#define BP_FORMATS_HF_VALUE_H

#include "core/base/json.h"
#include "tools/formats/family/family.h"

/* A config.json that is being read. */
typedef struct bp_hf_reading {
    bp_json json;
    const bp_family *family; /* NULL: not known yet */
    bool wrapped;            /* the family's own file is the member text_config of this one */
    bp_model_config config;
    bool seen[BP_ROWS_MAX];
    bool judges;   /* architectures names a class that judges samples, tokens, or finds answers */
    bp_task judge; /* which of them: BP_TASK_CLASSES stands for samples */
    bool writes;   /* architectures names what makes a text of another */
    bool paired;   /* architectures names the model of images and texts */
    bool bare;     /* architectures names a class without a head */
    bool problem;  /* problem_type is given */
    bp_task asked; /* by problem_type */
    bool ranks;    /* it is sentence-transformers' cross-encoder */
    bool listed;   /* widths of the layers are listed */
    double theta;  /* rope_theta in an object of rotary positions; 0: none */
    double near;   /* the same of layers with a window */
    uint32_t original;   /* original_max_position_embeddings beside such an object; 0: none */
    double magnitude[2]; /* yarn's mscale and mscale_all_dim; 0: none */
    uint32_t sizes;
    uint32_t act;  /* dense_act_fn of T5: 1 + which; 0: not given */
    uint32_t gate; /* is_gated_act: 1 + whether */
    bp_error error;
} bp_hf_reading;

/* Takes the value that begins with *event for the row. BP_ERR_DATA: the row does not take it; the
 * error names the key, what was found and what would be right. */
bp_status bp_hf_value_take(bp_hf_reading *reading, const bp_row *row,
                           bp_json_event *event) BP_MUST_CHECK;

/* Refuses the value: reading->error names the row's key, the value and what the row takes. */
bp_status bp_hf_value_refuse(bp_hf_reading *reading, const bp_row *row,
                             const bp_json_event *event) BP_MUST_CHECK;

#endif
