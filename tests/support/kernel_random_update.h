/* SPDX-License-Identifier: MIT */
/* Dice, what operands hold, and random scalars and operands of the update rows: parts of
 * kernel_random.c. */
#ifndef BP_TESTS_SUPPORT_KERNEL_RANDOM_UPDATE_H
#define BP_TESTS_SUPPORT_KERNEL_RANDOM_UPDATE_H

#include <stdlib.h>

#include "core/number/random.h"
#include "tests/support/kernel_case.h"

typedef struct dice {
    uint64_t seed;
    uint64_t next;
} dice;

/* An integer in low .. high. */
static inline int64_t roll(dice *d, int64_t low, int64_t high)
{
    double u = bp_random_uniform(d->seed, 77, d->next++);
    return low + (int64_t)(u * (double)(high - low + 1));
}

/* A size up to `most`, twice that on a GPU: often 1, a tile's end or one off it. */
static inline int64_t size(dice *d, int64_t most)
{
    static const int64_t ends[] = {1, 2, 4, 6, 8, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65};
    int64_t s = roll(d, 0, 1) == 0
                    ? roll(d, 1, most)
                    : ends[roll(d, 0, (int64_t)(sizeof(ends) / sizeof(ends[0])) - 1)];
    s = s < most ? s : most;
    return getenv("BP_TEST_GPU") != NULL && s > 2 ? 2 * s - roll(d, 0, 1) : s;
}

typedef union any_scalars {
#define KERNEL(name) bp_##name##_scalars name;
#include "core/program/kernels.def"
    uint64_t slots[BP_SCALARS_MAX];
} any_scalars;

/* Whether a row begins with UPDATE_SCALARS of kernels.def. */
bool is_update(bp_kernel kernel);

/* Whether it is about sums of gradients in 8 bits. */
bool is_sum(bp_kernel kernel);

/* Whether it begins or ends asynchronous work, and the scalars of such rows. */
bool is_transfer(bp_kernel kernel);
void draw_transfer(dice *d, bp_kernel kernel, any_scalars *s);

/* The scalars of rows of updates and sums; of the first kind the operands that it has not; its
 * states and master.
 */
void draw_update(dice *d, bp_kernel kernel, any_scalars *s);
uint32_t draw_update_absent(dice *d, bp_kernel kernel, const any_scalars *s);
void fill_update_bytes(dice *d, bp_kernel kernel, const any_scalars *s, const char *name,
                       unsigned char *at);

/* Fills what a case reads, its scalars and shapes being drawn. */
void fill_operands(dice *d, kernel_case *c);

#endif
