/* SPDX-License-Identifier: MIT */
/* The working type that a source is built for. The Makefile builds the sources it calls TYPED once
 * per type, so that a kernel is written once and loops have no choices in them: BP_ELEMENT is the
 * type, bp_element what lies in memory, BP_BUILT(name) the name of this build of something.
 *
 * Operands of the row's type ANY are read by bp_get and written by bp_put; those of type FLOAT,
 * which have each their own type, by bp_element_load and bp_element_store (half.h). */
#ifndef BP_DEVICE_HOST_ELEMENT_H
#define BP_DEVICE_HOST_ELEMENT_H

#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"

#define BP_PASTE(x, y) x##y

/* Place of an operand in its row. */
#define BP_OPERAND(kernel, name) (uint32_t)(offsetof(bp_##kernel##_operands, name) / sizeof(bp_ref))

#if defined(BP_BUILD_BF16)
typedef uint16_t bp_element;
#define BP_ELEMENT     BP_BF16
#define BP_BUILT(name) BP_PASTE(name, _bf16)
#elif defined(BP_BUILD_F16)
typedef uint16_t bp_element;
#define BP_ELEMENT     BP_F16
#define BP_BUILT(name) BP_PASTE(name, _f16)
#else
typedef float bp_element;
#define BP_ELEMENT     BP_F32
#define BP_BUILT(name) name
#endif

/* Whether floats may be parked in elements without being rounded. */
#define BP_ELEMENT_EXACT (BP_ELEMENT == BP_F32)

static inline float bp_get(const bp_element *x, uint64_t i)
{
    return bp_element_load(x, i, BP_ELEMENT);
}

static inline void bp_put(bp_element *x, uint64_t i, float value)
{
    bp_element_store(x, i, value, BP_ELEMENT);
}

/* A slice of sums over rows, kept in float until all rows are in. */
typedef struct bp_columns {
    void *at;       /* the operand */
    bp_dtype type;  /* its own type */
    uint64_t first; /* element of the operand */
    uint64_t count; /* at most BP_COLUMNS */
    float value[BP_COLUMNS];
} bp_columns;

/* Starts from what the operand holds, or from 0. */
static inline void bp_columns_begin(bp_columns *sum, int64_t accumulate)
{
    for (uint64_t i = 0; i < sum->count; i++) {
        sum->value[i] =
            accumulate != 0 ? bp_element_load(sum->at, sum->first + i, sum->type) : 0.0f;
    }
}

/* Stores the sums, each rounded once. */
static inline void bp_columns_end(const bp_columns *sum)
{
    for (uint64_t i = 0; i < sum->count; i++) {
        bp_element_store(sum->at, sum->first + i, sum->value[i], sum->type);
    }
}

#endif
