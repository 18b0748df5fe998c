/* SPDX-License-Identifier: MIT */
/* The fast forms of the host kernels: their tables and the rows that fill them. Rows that are not
 * listed fall back to a slower form. */
#ifndef BP_DEVICE_HOST_FORMS_H
#define BP_DEVICE_HOST_FORMS_H

#include "device/host/kernel.h"

extern const bp_host_form bp_host_avx2;
extern const bp_host_form bp_host_avx512;

extern const bp_host_kernel bp_matmul_avx2;
extern const bp_host_kernel bp_matmul_avx512;

#endif
