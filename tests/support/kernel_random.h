/* SPDX-License-Identifier: MIT */
/* A random but meaningful call of any row of kernels.def, for comparing forms and devices. */
#ifndef BP_TESTS_SUPPORT_KERNEL_RANDOM_H
#define BP_TESTS_SUPPORT_KERNEL_RANDOM_H

#include "tests/support/kernel_case.h"

/* Makes case number `seed` of a kernel: shapes (1, odd ones, sizes around every vector's and tile's
 * end), flags, absent operands and contents are drawn from the seed. The same seed gives the same
 * case for every device. */
void kernel_random_case(kernel_case *c, const bp_device *device, bp_kernel kernel, uint64_t seed);

/* The same in a working type. In 16 bits, operands of type FLOAT draw one each; a row without a
 * working type draws at least one of 16 bits, and is drawn in f32 where it takes nothing else. */
void kernel_random_case_typed(kernel_case *c, const bp_device *device, bp_kernel kernel,
                              bp_dtype working, uint64_t seed);

/* The same with given scalars for its one tuple, and absent operands (bit i: operand i). */
void kernel_shaped_case(kernel_case *c, const bp_device *device, bp_kernel kernel,
                        const void *scalars, uint32_t absent, uint64_t seed);

#endif
