/* SPDX-License-Identifier: MIT */
/* The tables of the AVX-512 form and of the one with AMX. */
#include "device/host/isa.h"

#define TYPED(name) [BP_KERNEL_##name] = &bp_##name##_avx512,
#define BF16(name)  [BP_KERNEL_##name] = &bp_##name##_avx512_bf16,
#define F16(name)   [BP_KERNEL_##name] = &bp_##name##_avx512_f16,

const bp_host_isa bp_host_avx512 = {
    "avx512",
    {{
#define RULE(name, body) TYPED(name)
#include "core/ops/rules.def"
         BP_FAST_KERNELS(TYPED)},
     {BP_TYPED_KERNELS(TYPED) BP_BUILT_KERNELS(BF16)},
     {BP_TYPED_KERNELS(TYPED) BP_BUILT_KERNELS(F16)}},
    NULL,
    bp_words_avx512,
};

const bp_host_isa bp_host_amx = {
    "amx",
    {[BP_BF16] = {[BP_KERNEL_matmul] = &bp_matmul_amx_kernel,
                  [BP_KERNEL_matmul_quantised] = &bp_matmul_amx_quantised_kernel}},
    NULL,
    NULL,
};
