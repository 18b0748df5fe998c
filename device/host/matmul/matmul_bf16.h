/* SPDX-License-Identifier: MIT */
/* The products of bf16 of the NEON form, where a processor has them (bp_cpu_has_bf16), and of the
 * SVE form (bp_cpu_has_sve_bf16). */
#ifndef BP_DEVICE_HOST_MATMUL_BF16_H
#define BP_DEVICE_HOST_MATMUL_BF16_H

#include "device/host/matmul/matmul_pack.h"

extern const bp_matmul_pairs bp_matmul_pairs_neon;
extern const bp_matmul_pairs bp_matmul_pairs_sve;

/* How both pack, for tiles of 6 rows x 16 columns: bp_matmul_pairs says what. */
void bp_matmul_pairs_panel(const struct matmul_work *w, const struct matmul_block *block,
                           int64_t column, int64_t columns);
void bp_matmul_pairs_pack_a(const struct matmul_work *w, const struct matmul_block *block,
                            float *to);

#endif
