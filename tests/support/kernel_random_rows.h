/* SPDX-License-Identifier: MIT */
/* Random scalars of rows of samples, losses, vectors and images: parts of kernel_random.c. */
#ifndef BP_TESTS_SUPPORT_KERNEL_RANDOM_ROWS_H
#define BP_TESTS_SUPPORT_KERNEL_RANDOM_ROWS_H

#include "tests/support/kernel_random_update.h"

/* Norms, the loss over tokens, sums of losses. */
void draw_rows(dice *d, bp_kernel kernel, any_scalars *s);
void draw_distill(dice *d, bp_kernel kernel, any_scalars *s);
/* `sizes`: pairs, tokens of a row, width. */
void draw_preference(dice *d, bp_kernel kernel, const int64_t sizes[3], any_scalars *s);
/* Positions, classes of samples, recurrent cells. */
void draw_samples(dice *d, bp_kernel kernel, any_scalars *s);

bool is_of_vectors(bp_kernel kernel);
void draw_vectors(dice *d, bp_kernel kernel, any_scalars *s);
bool is_of_images(bp_kernel kernel);
void draw_images(dice *d, bp_kernel kernel, any_scalars *s);

#endif
