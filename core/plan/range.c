/* SPDX-License-Identifier: MIT */
/* The first row outside its range speaks. */
#include "core/plan/range.h"

#include "arena/text.h"

bp_status bp_ranges_check(const bp_range *rows, size_t count, const char *where, bp_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const bp_range *r = &rows[i];
        if (r->value < r->least) {
            return bp_error_limit(error, BP_ERR_USAGE, where, "a value is below its range", r->name,
                                  (int64_t)r->value, BP_LIMIT_LEAST, (int64_t)r->least);
        }
        if (r->value > r->most) {
            return bp_error_limit(error, BP_ERR_USAGE, where, "a value is above its range", r->name,
                                  (int64_t)r->value, BP_LIMIT_MOST, (int64_t)r->most);
        }
    }
    return BP_OK;
}

static bp_status real_refuse(const bp_real_range *row, const char *where, bp_error *error)
{
    char words[BP_ERROR_RIGHT_MAX];
    bp_text text;
    bp_status status =
        bp_error_set(error, BP_ERR_USAGE, where, "a real value is outside its range", row->name);
    bp_text_init(&text, NULL, NULL, words, sizeof words);
    bp_text_general(&text, row->value, 6);
    bp_status fits = bp_text_flush(&text);
    bp_error_found(error, words, (size_t)text.written);
    bp_text_init(&text, NULL, NULL, words, sizeof words);
    bp_text_string(&text, "a number from ");
    bp_text_general(&text, row->least, 6);
    bp_text_string(&text, " to below ");
    bp_text_general(&text, row->below, 6);
    bp_text_char(&text, '\0');
    fits = fits == BP_OK ? bp_text_flush(&text) : fits;
    bp_error_right(error, fits == BP_OK ? words : "");
    return status;
}

bp_status bp_real_ranges_check(const bp_real_range *rows, size_t count, const char *where,
                               bp_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (!(rows[i].value >= rows[i].least && rows[i].value < rows[i].below)) {
            return real_refuse(&rows[i], where, error);
        }
    }
    return BP_OK;
}
