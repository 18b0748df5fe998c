/* SPDX-License-Identifier: MIT */
/* The portable form: every kernel of kernels.def in plain C. */
#include "core/base/random.h"
#include "core/ops/quantised.h"
#include "device/host/isa.h"

#define KERNEL(name)            extern const bp_host_kernel bp_host_##name;
#define FORMS(name, isa, types) BP_DECLARE_TYPES(bp_host_##name)
#include "core/ops/kernels.def"

#define ROW(name, ending) [BP_KERNEL_##name] = &bp_host_##name##ending,
#define SINGLE(name, ending)
#define TYPED(name, ending)          ROW(name, )
#define BUILT(name, ending)          ROW(name, ending)
#define BUILT_PORTABLE(name, ending) ROW(name, ending)

const bp_host_isa bp_host_portable = {
    "portable",
    {{
#define KERNEL(name) &bp_host_##name,
#include "core/ops/kernels.def"
     },
     {
#define FORMS(name, isa, types) types(name, _bf16)
#include "core/ops/kernels.def"
     },
     {
#define FORMS(name, isa, types) types(name, _f16)
#include "core/ops/kernels.def"
     }},
    bp_four_blocks,
    NULL,
    bp_random_normals,
};
