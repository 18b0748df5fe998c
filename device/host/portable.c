/* SPDX-License-Identifier: MIT */
/* The portable form: every kernel of kernels.def in plain C. */
#include "device/host/forms.h"

#define KERNEL(name) extern const bp_host_kernel bp_host_##name;
#include "core/kernels.def"

#define TYPED(name) [BP_KERNEL_##name] = &bp_host_##name,

const bp_host_form bp_host_portable = {"portable",
                                       {{
#define KERNEL(name) &bp_host_##name,
#include "core/kernels.def"
                                        },
                                        {BP_TYPED_KERNELS(TYPED)},
                                        {BP_TYPED_KERNELS(TYPED)}}};
