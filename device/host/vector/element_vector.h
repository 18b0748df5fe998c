/* SPDX-License-Identifier: MIT */
/* Vectors of elements: float, bf16 or half in memory, float in registers. Included after a vector
 * header. */
#ifndef BP_DEVICE_HOST_ELEMENT_VECTOR_H
#define BP_DEVICE_HOST_ELEMENT_VECTOR_H

#include "device/host/vector/element.h"

/* Elements i and following of x, of that type; lanes that take no part read nothing and are 0. */
static inline bp_v bp_v_load_as(const void *x, uint64_t i, bp_dtype type, bp_part part)
{
    if (type == BP_F32) {
        return bp_v_load((const float *)x + i, part);
    }
    return bp_v_load16((const uint16_t *)x + i, type, part);
}

static inline void bp_v_store_as(void *x, uint64_t i, bp_v value, bp_dtype type, bp_part part)
{
    if (type == BP_F32) {
        bp_v_store((float *)x + i, value, part);
    } else {
        bp_v_store16((uint16_t *)x + i, value, type, part);
    }
}

/* The same in the working type. */
static inline bp_v bp_v_get(const bp_element *x, bp_part part)
{
    return bp_v_load_as(x, 0, BP_ELEMENT, part);
}

static inline void bp_v_put(bp_element *x, bp_v value, bp_part part)
{
    bp_v_store_as(x, 0, value, BP_ELEMENT, part);
}

/* Asks for the line of elements that a loop through x comes to later: by then memory has answered.
 */
#define BP_ASK_AHEAD 1024
static inline void bp_v_ask(const bp_element *x)
{
    __builtin_prefetch(x + BP_ASK_AHEAD);
}

#endif
