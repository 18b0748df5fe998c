/* SPDX-License-Identifier: MIT */
/* The table of the AVX2 form. */
#include "device/host/forms.h"

const bp_host_form bp_host_avx2 = {
    "avx2",
    {{
#define ROW(name) [BP_KERNEL_##name] = &bp_##name##_avx2,
         BP_FAST_KERNELS(ROW)},
     {BP_TYPED_KERNELS(ROW)},
     {BP_TYPED_KERNELS(ROW)}},
};
