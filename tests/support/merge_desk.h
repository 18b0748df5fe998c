/* SPDX-License-Identifier: MIT */
/* Weights of a model in a store in memory, and adapters beside them that are merged as they are
 * read. */
#ifndef BP_TESTS_SUPPORT_MERGE_DESK_H
#define BP_TESTS_SUPPORT_MERGE_DESK_H

#include "tests/support/store_memory.h"
#include "tests/support/tensors_made.h"
#include "tools/formats/hf_files.h"
#include "tools/formats/merge.h"
#include "tools/formats/weight_target.h"

typedef struct merge_desk {
    memory_store memory;
    bp_error error;
    bp_tensor_set set;
    bp_tensor_set adapters;
    bp_parameters parameters;
    bp_weight_source source;
    struct bp_merge merge;
    bp_staging room;
    uint64_t scratch[1 << 16];
    uint64_t work[1 << 12];
} merge_desk;

/* With a model's parameters listed, and nothing in the store. */
merge_desk *merge_desk_new(const bp_model *model, const bp_model_config *config);
/* Opens the weights at "in", whose names are the family's. */
void merge_desk_open(merge_desk *d, const char *family, bp_tensor_heads heads);
/* Writes adapters, frees them, and loads them. */
bp_status merge_desk_load(merge_desk *d, made_tensors *made, const bp_lora *lora);
void merge_desk_free(merge_desk *d);

#endif
