/* SPDX-License-Identifier: MIT */
/* An exported tensor beside the checkpoint whose state it was formed of. */
#ifndef BEDPLATE_RECORD_FORMS_H
#define BEDPLATE_RECORD_FORMS_H

#include "core/base/safetensors.h"
#include "core/ops/codec.h"
#include "core/ops/storage_format.h"

/* The files of a checkpoint. */
typedef struct record_saved {
    bp_safetensors model, state;
    bool averaged; /* what is exported is the average of a schedule-free rule: */
    float factor;  /* x = y - factor (z - y); 0: unknown */
} record_saved;

/* How a checkpoint holds what an exported tensor of floats was formed of. */
typedef struct record_forms {
    const bp_tensor_entry *weights, *master, *rest; /* the last two may be NULL */
    bp_master master_form;
    bp_codec rest_form;
    uint64_t count; /* of elements */
    /* Of an expert's tensor, a piece of one of all experts: where it begins there, and how many
     * elements that has. */
    uint64_t first, total;
    /* Not 0: one of the two is (rows, columns), with these columns, and the other transposed. */
    uint64_t columns;
    bool file_wide; /* the exported one is transposed, (columns, rows) */
    bool other;     /* it lies otherwise in the checkpoint, so that bytes say nothing */
} record_forms;

/* What the tensor `mine` was formed of. False: the checkpoint has it in no form that is known. */
bool record_forms_find(record_forms *f, const bp_tensor_entry *mine, const record_saved *saved);

/* Forms the tensor again in the staging memory, and compares; *same stays true where it is. */
bp_status record_forms_compare(const bp_staging *staging, const bp_safetensors *made,
                               const bp_tensor_entry *mine, const record_saved *saved,
                               const record_forms *f, bool *same) BP_MUST_CHECK;

#endif
