/* SPDX-License-Identifier: MIT */
/* The table of the AVX2 form. */
#include "device/host/forms.h"

const bp_host_form bp_host_avx2 = {
    "avx2",
    {
        [BP_KERNEL_matmul] = &bp_matmul_avx2,
    },
};
