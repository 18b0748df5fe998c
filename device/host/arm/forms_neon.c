/* SPDX-License-Identifier: MIT */
/* The table of the NEON form. */
#include "device/host/isa.h"

#define ROW(name, ending)          [BP_KERNEL_##name] = &bp_##name##_neon##ending,
#define BUILT(name, types, ending) BP_SIXTEEN_##types(ROW(name, ), ROW(name, ending))

const bp_host_isa bp_host_neon = {
    "neon",
    {{
#define FORMS(name, isa, types) BP_NEON_OF_##isa(ROW(name, ))
#include "core/ops/kernels.def"
     },
     {
#define FORMS(name, isa, types) BP_NEON_OF_##isa(BUILT(name, types, _bf16))
#include "core/ops/kernels.def"
     },
     {
#define FORMS(name, isa, types) BP_NEON_OF_##isa(BUILT(name, types, _f16))
#include "core/ops/kernels.def"
     }},
    NULL,
    NULL,
    NULL,
};
