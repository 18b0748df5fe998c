/* SPDX-License-Identifier: MIT */
/* The table of the NEON form. */
#include "device/host/isa.h"

#define TYPED(name) [BP_KERNEL_##name] = &bp_##name##_neon,
#define BF16(name)  [BP_KERNEL_##name] = &bp_##name##_neon_bf16,
#define F16(name)   [BP_KERNEL_##name] = &bp_##name##_neon_f16,

const bp_host_isa bp_host_neon = {
    "neon",
    {{
#define RULE(name, body) TYPED(name)
#include "core/ops/rules.def"
         BP_NEON_KERNELS(TYPED)},
     {BP_TYPED_KERNELS(TYPED) BP_BUILT_KERNELS(BF16)},
     {BP_TYPED_KERNELS(TYPED) BP_BUILT_KERNELS(F16)}},
    NULL,
    NULL,
};
