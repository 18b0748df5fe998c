/* SPDX-License-Identifier: MIT */
/* The table of the AVX2 form. */
#include "device/host/isa.h"

#define ROW(name, ending)          [BP_KERNEL_##name] = &bp_##name##_avx2##ending,
#define BUILT(name, types, ending) BP_SIXTEEN_##types(ROW(name, ), ROW(name, ending))

const bp_host_isa bp_host_avx2 = {
    "avx2",
    {{
#define FORMS(name, isa, types) BP_AVX2_OF_##isa(ROW(name, ))
#include "core/ops/kernels.def"
     },
     {
#define FORMS(name, isa, types) BP_AVX2_OF_##isa(BUILT(name, types, _bf16))
#include "core/ops/kernels.def"
     },
     {
#define FORMS(name, isa, types) BP_AVX2_OF_##isa(BUILT(name, types, _f16))
#include "core/ops/kernels.def"
     }},
    bp_four_blocks_avx2,
    bp_words_avx2,
    bp_normals_avx2,
};
