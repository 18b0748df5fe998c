/* SPDX-License-Identifier: MIT */
/* Master forms, element by element: the specification of what the update kernels do. */
#include "core/ops/master.h"

#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void store_weight(bp_dtype dtype, void *weight, uint64_t i, float value)
{
    if (dtype == BP_F32) {
        ((float *)weight)[i] = value;
    } else if (dtype == BP_F16) {
        ((uint16_t *)weight)[i] = bp_f16_from_f32(value);
    } else {
        ((uint16_t *)weight)[i] = bp_bf16_from_f32(value);
    }
}

static float load_weight(bp_dtype dtype, const void *weight, uint64_t i)
{
    if (dtype == BP_F32) {
        return ((const float *)weight)[i];
    }
    uint16_t bits = ((const uint16_t *)weight)[i];
    return dtype == BP_F16 ? bp_f32_from_f16(bits) : bp_f32_from_bf16(bits);
}

void bp_master_store(bp_dtype dtype, bp_master form, void *weight, void *master, uint64_t i,
                     float value)
{
    uint32_t bits = bits_of(value);
    if (form == BP_MASTER_SPLIT8) {
        uint32_t b24 = (bits >> 8) + (bits >> 7 & 1u);
        ((uint16_t *)weight)[i] = (uint16_t)((b24 + 0x80u) >> 8);
        ((uint8_t *)master)[i] = (uint8_t)b24;
        return;
    }
    store_weight(dtype, weight, i, value);
    if (form == BP_MASTER_FP32) {
        ((float *)master)[i] = value;
    } else if (form == BP_MASTER_SPLIT) {
        ((uint16_t *)weight)[i] = (uint16_t)((bits + 0x8000u) >> 16);
        ((uint16_t *)master)[i] = (uint16_t)bits;
    }
}

float bp_master_load(bp_dtype dtype, bp_master form, const void *weight, const void *master,
                     uint64_t i)
{
    if (form == BP_MASTER_FP32) {
        return ((const float *)master)[i];
    }
    if (form == BP_MASTER_SPLIT) {
        uint32_t low = ((const uint16_t *)master)[i];
        uint32_t high = ((const uint16_t *)weight)[i] - (low >> 15);
        return float_of(high << 16 | low);
    }
    if (form == BP_MASTER_SPLIT8) {
        uint32_t low = ((const uint8_t *)master)[i];
        uint32_t high = ((const uint16_t *)weight)[i] - (low >> 7);
        return float_of(high << 16 | low << 8);
    }
    return load_weight(dtype, weight, i);
}

const char *bp_master_name(bp_master form)
{
    static const char *const names[] = {
        [BP_MASTER_WEIGHT] = "",       [BP_MASTER_FP32] = "fp32",       [BP_MASTER_SPLIT] = "split",
        [BP_MASTER_SPLIT8] = "split8", [BP_MASTER_STOCHASTIC] = "none", [BP_MASTER_FP8] = "fp8"};
    return names[form];
}
