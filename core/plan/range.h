/* SPDX-License-Identifier: MIT */
/* Tables of numbers that have to lie in ranges. */
#ifndef BP_CORE_RANGE_H
#define BP_CORE_RANGE_H

#include "core/base/error.h"

/* A whole number under its option's or its key's name. */
typedef struct bp_range {
    const char *name;
    uint64_t value;
    uint64_t least;
    uint64_t most;
} bp_range;

/* A real number: at least `least` and below `below`, so not NaN either. */
typedef struct bp_real_range {
    const char *name;
    double value;
    double least;
    double below;
} bp_real_range;

/* BP_ERR_USAGE for the first row outside its range, with its name and, of whole numbers, what was
 * found and the nearest that would be right. */
bp_status bp_ranges_check(const bp_range *rows, size_t count, const char *where,
                          bp_error *error) BP_MUST_CHECK;
bp_status bp_real_ranges_check(const bp_real_range *rows, size_t count, const char *where,
                               bp_error *error) BP_MUST_CHECK;

#endif
