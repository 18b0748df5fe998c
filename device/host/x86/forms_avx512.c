/* SPDX-License-Identifier: MIT */
/* The tables of the AVX-512 form and of the one with AMX. */
#include "device/host/isa.h"

#define ROW(name, ending)          [BP_KERNEL_##name] = &bp_##name##_avx512##ending,
#define BUILT(name, types, ending) BP_SIXTEEN_##types(ROW(name, ), ROW(name, ending))

const bp_host_isa bp_host_avx512 = {
    "avx512",
    {{
#define FORMS(name, isa, types) BP_AVX512_OF_##isa(ROW(name, ))
#include "core/ops/kernels.def"
     },
     {
#define FORMS(name, isa, types) BP_AVX512_OF_##isa(BUILT(name, types, _bf16))
#include "core/ops/kernels.def"
     },
     {
#define FORMS(name, isa, types) BP_AVX512_OF_##isa(BUILT(name, types, _f16))
#include "core/ops/kernels.def"
     }},
    NULL,
    bp_words_avx512,
    bp_normals_avx512,
};

const bp_host_isa bp_host_amx = {
    "amx",
    {[BP_BF16] = {[BP_KERNEL_matmul] = &bp_matmul_amx_kernel,
                  [BP_KERNEL_matmul_quantised] = &bp_matmul_amx_quantised_kernel}},
    NULL,
    NULL,
    NULL,
};
