/* SPDX-License-Identifier: MIT */
/* The table of the AVX2 form. */
#include "device/host/isa.h"

#define TYPED(name) [BP_KERNEL_##name] = &bp_##name##_avx2,
#define BF16(name)  [BP_KERNEL_##name] = &bp_##name##_avx2_bf16,
#define F16(name)   [BP_KERNEL_##name] = &bp_##name##_avx2_f16,

const bp_host_isa bp_host_avx2 = {
    "avx2",
    {{
#define RULE(name, body) TYPED(name)
#include "core/ops/rules.def"
         BP_FAST_KERNELS(TYPED) BP_AVX2_KERNELS(TYPED)},
     {BP_TYPED_KERNELS(TYPED) BP_BUILT_KERNELS(BF16)},
     {BP_TYPED_KERNELS(TYPED) BP_BUILT_KERNELS(F16)}},
    bp_four_blocks_avx2,
    bp_words_avx2,
};
