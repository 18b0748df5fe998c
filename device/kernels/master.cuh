/* SPDX-License-Identifier: MIT */
/* Master forms (core/master.h) as device code: the exact value of a weight beside its working copy. */
#ifndef BP_DEVICE_KERNELS_MASTER_CUH
#define BP_DEVICE_KERNELS_MASTER_CUH

#include "device/kernels/element.cuh"

/* bp_master of core/master.h, whose own includes are no matter of kernels. */
#define BP_MASTER_FP32       1u
#define BP_MASTER_SPLIT      2u
#define BP_MASTER_SPLIT8     3u
#define BP_MASTER_STOCHASTIC 4u

/* Element i of a weight of this form (a type), and of its master, which may be NULL where the kind
 * has none. A bfloat16 weight is rounded half away from zero, as everywhere. */
BP_DEVICE void bp_store_master(void *weight, void *master, uint64_t i, uint32_t form, uint32_t kind,
                               float value)
{
    uint32_t bits = bp_float_bits(value);
    if (kind == BP_MASTER_SPLIT8) {
        uint32_t short_bits = (bits >> 8) + (bits >> 7 & 1);
        ((uint16_t *)weight)[i] = (uint16_t)((short_bits + 0x80) >> 8);
        ((uint8_t *)master)[i] = (uint8_t)short_bits;
        return;
    }
    if ((form & BP_TYPE_BITS) == BP_BFLOAT) {
        ((uint16_t *)weight)[i] = (uint16_t)((bits + 0x8000) >> 16);
    } else {
        bp_put(weight, i, form, value);
    }
    if (kind == BP_MASTER_FP32) {
        ((float *)master)[i] = value;
    } else if (kind == BP_MASTER_SPLIT) {
        ((uint16_t *)master)[i] = (uint16_t)bits;
    }
}

#endif
