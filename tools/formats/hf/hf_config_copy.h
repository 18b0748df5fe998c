/* SPDX-License-Identifier: MIT */
/* A config.json with another element type or another member, everything else as it is. */
#ifndef BP_FORMATS_HF_CONFIG_COPY_H
#define BP_FORMATS_HF_CONFIG_COPY_H

#include "arena/text.h"
#include "core/base/json.h"
#include "core/ops/quantised.h"

#define BP_CONFIG_COPY_SCRATCH 393216 /* bytes */

/* Rewrites a JSON object with two-space indentation, replacing the values of its top-level
 * "torch_dtype" and "dtype" by `dtype` ("float32", "bfloat16", "float16"), or adding "torch_dtype"
 * where there is neither. Numbers stay as they are written. scratch: BP_CONFIG_COPY_SCRATCH bytes
 * aligned to 8. BP_ERR_DATA: not JSON, no object, or a string of more than 256 KiB; the sink's own
 * statuses are passed on. */
bp_status bp_hf_config_copy(const bp_json_source *source, const char *dtype, void *scratch,
                            bp_sink sink, void *user, bp_error *error) BP_MUST_CHECK;

/* What else may change. */
typedef struct bp_config_change {
    const char *dtype;      /* as above; NULL: it stays */
    bool requantised;       /* quantization_config is left out, */
    bp_quantised quantised; /* and bitsandbytes' for this form is added, but for NONE */
    const char *key;        /* a top-level member that is replaced or added; NULL: none */
    const char *value;      /* and its value as JSON */
} bp_config_change;

bp_status bp_hf_config_change(const bp_json_source *source, const bp_config_change *change,
                              void *scratch, bp_sink sink, void *user,
                              bp_error *error) BP_MUST_CHECK;

#endif
