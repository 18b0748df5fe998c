/* SPDX-License-Identifier: MIT */
/* model.safetensors of a Hugging Face GPT-2 directory: into a runtime's weights and out of them. */
#ifndef BP_FORMATS_HF_WEIGHTS_H
#define BP_FORMATS_HF_WEIGHTS_H

#include "core/runtime.h"
#include "core/safetensors.h"

/* What can be wrong with one tensor of a file. */
typedef enum bp_hf_fault {
    BP_HF_MISSING,    /* the model has it, the file does not */
    BP_HF_UNEXPECTED, /* the file has it, the model does not */
    BP_HF_SHAPE,      /* the shapes differ */
    BP_HF_DTYPE,      /* not F32, F16 or BF16 */
    BP_HF_UNTIED,     /* lm_head.weight differs from wte.weight */
    BP_HF_FAULT_COUNT
} bp_hf_fault;

/* "is missing", "is not expected", ... Never NULL. */
const char *bp_hf_fault_text(bp_hf_fault fault);

/* Told of every faulty tensor. */
typedef void (*bp_hf_watch)(void *user, bp_hf_fault fault, const char *tensor);

/* Where weights lie and what to work in. */
typedef struct bp_hf_place {
    bp_store *store;
    const char *path;   /* of the .safetensors file */
    bp_staging scratch; /* aligned to 8; the header's tables first, the rest carries data; at least
                           bp_hf_scratch bytes for a file of the model's own tensors */
    bp_hf_watch watch;  /* may be NULL */
    void *user;
    bp_error *error;
} bp_hf_place;

/* Bytes of scratch for this runtime that leave 1 MiB to carry data. */
uint64_t bp_hf_scratch(const bp_runtime *runtime);

/* Fills the weights of an open runtime from a file, converting F16 and BF16 to F32. Names are taken
 * with and without "transformer."; the causal mask buffers h.I.attn.bias and h.I.attn.masked_bias
 * are passed over, and so is an lm_head.weight that equals wte.weight. BP_ERR_DATA when anything
 * else is missing, unexpected, of another shape or type: every such tensor is told to `watch`, the
 * error names the first one, and no weight has been changed. A file with digests in its metadata is
 * held to them (BP_ERR_DATA, after the damaged tensor was taken). Other errors are those of
 * reading. Optimizer state stays as it is. */
bp_status bp_hf_weights_load(bp_runtime *runtime, const bp_hf_place *place) BP_MUST_CHECK;

/* Writes all weights as F32: to a temporary name, synced, renamed to place->path. */
bp_status bp_hf_weights_save(bp_runtime *runtime, const bp_hf_place *place) BP_MUST_CHECK;

#endif
