/* SPDX-License-Identifier: MIT */
/* The portable form: every kernel of kernels.def in plain C. */
#include "core/ops/quantised.h"
#include "device/host/isa.h"

#define KERNEL(name) extern const bp_host_kernel bp_host_##name;
#include "core/ops/kernels.def"

#define DECLARE(name)                                                                              \
    extern const bp_host_kernel bp_host_##name##_bf16;                                             \
    extern const bp_host_kernel bp_host_##name##_f16;
BP_BUILT_KERNELS(DECLARE)
BP_BUILT_PORTABLE_KERNELS(DECLARE)

#define TYPED(name) [BP_KERNEL_##name] = &bp_host_##name,
#define BF16(name)  [BP_KERNEL_##name] = &bp_host_##name##_bf16,
#define F16(name)   [BP_KERNEL_##name] = &bp_host_##name##_f16,

const bp_host_isa bp_host_portable = {
    "portable",
    {{
#define KERNEL(name) &bp_host_##name,
#include "core/ops/kernels.def"
     },
     {BP_TYPED_KERNELS(TYPED) BP_TYPED_PORTABLE_KERNELS(TYPED) BP_BUILT_KERNELS(BF16)
          BP_BUILT_PORTABLE_KERNELS(BF16)},
     {BP_TYPED_KERNELS(TYPED) BP_TYPED_PORTABLE_KERNELS(TYPED) BP_BUILT_KERNELS(F16)
          BP_BUILT_PORTABLE_KERNELS(F16)}},
    bp_four_blocks,
    NULL,
};
