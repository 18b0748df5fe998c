/* SPDX-License-Identifier: MIT */
/* Elements between types by the array: what weights go through on their way out of a file and into
 * one. Element by element the rules are those of dtype.h and master.h; the bits are theirs. */
#ifndef BP_CORE_CONVERT_H
#define BP_CORE_CONVERT_H

#include "core/base/dtype.h"
#include "core/ops/storage_format.h"

/* Converts `count` elements of F32, BF16 or F16 to another of them; equal types are copied bit by
 * bit. False when a finite value became infinite. The arrays lie apart, at any alignment. */
bool bp_elements_convert(bp_dtype from, const void *in, bp_dtype to, void *out, size_t count);

/* Rounds values to F16 or BF16, in place. */
void bp_elements_round(bp_dtype to, float *values, size_t count);

/* Whether no element (F32, BF16, F16) is infinite or NaN. */
bool bp_elements_finite(bp_dtype dtype, const void *elements, size_t count);

/* bp_master_store and bp_master_load of `count` elements from the first on. */
void bp_elements_store(bp_dtype dtype, bp_master form, void *weights, void *masters,
                       const float *values, size_t count);
void bp_elements_load(bp_dtype dtype, bp_master form, const void *weights, const void *masters,
                      float *values, size_t count);

#endif
