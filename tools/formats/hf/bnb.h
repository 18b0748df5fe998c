/* SPDX-License-Identifier: MIT */
/* Weights that bitsandbytes has quantised, in safetensors files.
 *
 * 4 bits: X.weight U8 (ceil(n / 2), 1), codes of the matrix (out, in) flattened; X.weight.absmax
 * F32 (ceil(n / blocksize)), or, where scales are quantised too, U8 with X.weight.nested_absmax F32
 * and X.weight.nested_quant_map F32 (256); X.weight.quant_map F32 (16); and
 * X.weight.quant_state.bitsandbytes__nf4 (or __fp4), U8 that hold a JSON object {quant_type,
 * blocksize, dtype, shape, nested_blocksize, nested_dtype, nested_offset}. 8 bits: X.weight I8
 * (out, in), X.SCB F32 (out), X.weight_format U8 (0: by rows). core/ops/quantised.h says what
 * they mean. */
#ifndef BP_FORMATS_BNB_H
#define BP_FORMATS_BNB_H

#include "core/base/json.h"
#include "core/ops/quantised.h"
#include "tools/formats/hf/tensor_set.h"

/* A tensor of the set and its file. */
typedef struct bp_bnb_tensor {
    bp_tensor_entry *entry; /* NULL: there is none */
    uint32_t part;
} bp_bnb_tensor;

/* The tensors of one quantised weight. */
typedef struct bp_bnb {
    bp_quantised form; /* BP_QUANTISED_NONE: it is not quantised */
    uint64_t rows;     /* out */
    uint64_t columns;  /* in */
    bp_dtype dtype;    /* that the weight had: F32, F16, BF16 */
    float offset;      /* of nested scales */
    bp_bnb_tensor codes;
    bp_bnb_tensor scales;
    bp_bnb_tensor nested;     /* nested_absmax */
    bp_bnb_tensor nested_map; /* nested_quant_map */
    bp_bnb_tensor map;        /* quant_map */
    bp_bnb_tensor state;      /* quant_state, or weight_format */
} bp_bnb;

/* Whether a tensor of that type may be a quantised weight: U8 or I8. */
bool bp_bnb_possible(const bp_tensor_entry *entry);

/* Reads what belongs to the weight `entry`, and checks it: every tensor is there, of the right type
 * and size for the shape, the maps and the state are those that are implemented. Sets the handle of
 * every tensor that it uses to `handle`. bnb->form stays BP_QUANTISED_NONE when nothing beside the
 * tensor says that it is quantised. BP_ERR_DATA naming the tensor. */
bp_status bp_bnb_find(bp_tensor_set *set, bp_tensor_entry *entry, uint32_t part, uint64_t handle,
                      bp_bnb *bnb) BP_MUST_CHECK;

/* Elements [first, first + count) of the flattened matrix (out, in), as f32. */
bp_status bp_bnb_read(bp_tensor_set *set, const bp_bnb *bnb, uint64_t first, size_t count,
                      float *values) BP_MUST_CHECK;

/* The floats of core/ops/quantised.h's `nested` in front of the scales of scales: offset and
 * map. */
bp_status bp_bnb_nested(bp_tensor_set *set, const bp_bnb *bnb,
                        float head[BP_NESTED_SCALES]) BP_MUST_CHECK;

/* The quantization_config of config.json, whose first event is *event: null, bitsandbytes' in a
 * form that is implemented, of dense layers, or mxfp4, of experts; else BP_ERR_DATA naming the
 * member. */
bp_status bp_bnb_config_read(bp_json *json, bp_json_event *event, bp_quantised *form,
                             bp_quantised *experts, bp_error *error) BP_MUST_CHECK;

#endif
