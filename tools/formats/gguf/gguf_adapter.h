/* SPDX-License-Identifier: MIT */
/* Adapters as a GGUF file that llama.cpp loads beside a model: what its convert_lora_to_gguf.py
 * writes. general.type "adapter", adapter.type "lora", adapter.lora.alpha, and for each adapted
 * tensor NAME of the model's file NAME.lora_a (r, in) and NAME.lora_b (out, r) in F32, with the
 * rows of B in the order of that file's. llama.cpp adds alpha / r B A. */
#ifndef BP_FORMATS_GGUF_ADAPTER_H
#define BP_FORMATS_GGUF_ADAPTER_H

#include "tools/formats/gguf/gguf_family.h"
#include "tools/formats/hf/weight_target.h"

typedef struct bp_gguf_adapter {
    const bp_gguf_family *family;
    const char *name;    /* general.name; "" leaves it out */
    uint64_t tensors;    /* out: written */
    uint64_t parameters; /* out: in them */
} bp_gguf_adapter;

/* Writes the adapters of source->merge. One alpha stands for all: it is the first adapter's scale
 * times its rank, and B of one with another scale is multiplied by what it lacks. BP_ERR_USAGE
 * naming a parameter whose change has no such form: magnitudes, rows or copies that were trained, a
 * token embedding. Sets target->bytes. */
bp_status bp_gguf_adapter_export(const bp_weight_source *source, bp_gguf_adapter *adapter,
                                 bp_weight_target *target) BP_MUST_CHECK;

#endif
