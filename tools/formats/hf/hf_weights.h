/* SPDX-License-Identifier: MIT */
/* Hugging Face weight files: into a runtime's weights and out of them. */
#ifndef BP_FORMATS_HF_WEIGHTS_H
#define BP_FORMATS_HF_WEIGHTS_H

#include "core/base/safetensors.h"
#include "core/run/runtime.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/tensor_match.h"

/* A file of weights beside the model's own: those of a module behind it. */
typedef struct bp_hf_module {
    char path[BP_STORE_PATH_MAX];
    char prefix[128]; /* of the parameters that it holds, "2_Dense."; its tensors' names lack it */
} bp_hf_module;

/* Whether a parameter's name begins with the prefix of a module. */
bool bp_hf_of_module(const char *name);

/* Where weights lie and what to work in. */
typedef struct bp_hf_location {
    bp_store *store;
    const char *path;   /* of the .safetensors file, or of the index of its shards */
    bp_staging scratch; /* aligned to 8; the headers' tables first, the rest carries data; at least
                           bp_hf_scratch bytes for files of the model's own tensors */
    unsigned allow;     /* BP_ALLOW_ bits: faults that are told but do not stop */
    bool state_follows; /* a checkpoint will be loaded: of what it holds (bp_runtime_in_state) names
                           and shapes are looked at, and no byte is read */
    bool base_there;    /* the frozen base is in the arena (bp_runtime_base_given): likewise */
    const bp_hf_module *modules; /* read behind the files at `path`, or a form's source */
    uint32_t module_count;
    bp_tensor_watch watch; /* may be NULL */
    void *user;
    bp_error *error;
} bp_hf_location;

/* Bytes of scratch for this runtime that leave 1 MiB to carry data. Shards need 1 KiB each beyond
 * the first. */
uint64_t bp_hf_scratch(const bp_runtime *runtime);

/* Fills the weights of an open runtime from the files, converting F32, F16 and BF16 to each weight
 * buffer's own element type, and says of each that it is given (bp_runtime_given). Where memory can
 * be reached and the weight has no master, bytes are read to their place. The names are those of
 * the model's family (hf_family.h). BP_ERR_DATA when a tensor is missing, unexpected, of another
 * shape or type, and place->allow does not let it pass: every such tensor is told to `watch`, the
 * error names the first one, and no weight has been changed. What is allowed to be missing keeps
 * its weights. A file with digests in its metadata is held to them before any weight changes.
 * BP_ERR_DATA naming the tensor, after others were taken, when a value is NaN, infinite or too
 * large for the buffer's type. Other errors are those of reading. Optimizer state stays as it is.
 */
bp_status bp_hf_weights_load(bp_runtime *runtime, const bp_hf_location *location) BP_MUST_CHECK;

/* The element types of a file that is written. */
typedef struct bp_hf_scheme {
    bp_dtype dtype;      /* F32, F16 or BF16, for every tensor that `source` says nothing of */
    const char *source;  /* weights of the same model whose tensors each have the type they are to
                            have again; NULL: none. Must not be place->path's temporary name. */
    const char *carried; /* weights whose tensors of these names are written again as they are: the
                            model has no use for them, and others do; NULL: none. What cannot be
                            read, GGUF files too, is left out. */
    const char *const *patterns; /* the last is NULL */
    const char *module; /* prefix of the module whose weights alone are written, under the names
                           that follow it; NULL: all that are no module's */
    const bp_metadata_group *noted; /* what the file's metadata say besides; NULL: nothing */
    bp_dtype *first; /* out: the type that the model's first tensor has; NULL: nobody asks */
} bp_hf_scheme;

/* Writes weights: to a temporary name, synced, renamed to place->path. Values that the form's
 * type holds exactly come out bit by bit as they were read. BP_ERR_DATA naming the tensor when a
 * value is too large for its type: then place->path is as it was. */
bp_status bp_hf_weights_save(bp_runtime *runtime, const bp_hf_location *location,
                             const bp_hf_scheme *form) BP_MUST_CHECK;

/* The same for the adapters of a runtime that has some (core/plan/adapter.h):
 * adapter_model.safetensors in PEFT's form, whose names are the adapters' own. With them go the
 * parameters that are trained beside them, a classifier above all (PEFT's modules_to_save), as
 * "base_model.model.<name>". When read, those that the file lacks stay as they are, and
 * BP_ERR_USAGE names one that it has and a run that trains would not train. */
bp_status bp_hf_adapters_load(bp_runtime *runtime, const bp_hf_location *location) BP_MUST_CHECK;
bp_status bp_hf_adapters_save(bp_runtime *runtime, const bp_hf_location *location,
                              const bp_hf_scheme *form) BP_MUST_CHECK;

#endif
