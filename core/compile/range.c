/* SPDX-License-Identifier: MIT */
/* The first row outside its range speaks. */
#include "core/compile/range.h"

bp_status bp_ranges_check(const bp_range *rows, size_t count, const char *where, bp_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const bp_range *r = &rows[i];
        if (r->value < r->least) {
            return bp_error_numbers(error, BP_ERR_USAGE, where, "a value is below its range",
                                    r->name, (int64_t)r->value, (int64_t)r->least);
        }
        if (r->value > r->most) {
            return bp_error_numbers(error, BP_ERR_USAGE, where, "a value is above its range",
                                    r->name, (int64_t)r->value, (int64_t)r->most);
        }
    }
    return BP_OK;
}

bp_status bp_real_ranges_check(const bp_real_range *rows, size_t count, const char *where,
                               bp_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (!(rows[i].value >= rows[i].least && rows[i].value < rows[i].below)) {
            return bp_error_set(error, BP_ERR_USAGE, where,
                                "a real value is outside its range (dropouts and epsilon lie in "
                                "[0, 1), initializer_range is not negative)",
                                rows[i].name);
        }
    }
    return BP_OK;
}
