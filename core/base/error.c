/* SPDX-License-Identifier: MIT */
/* The sticky error record and the words and exit codes of statuses. */
#include "core/base/error.h"

#include <string.h>

static void copy_name(char *to, size_t room, const char *from)
{
    size_t length = 0;
    for (; length + 1 < room && from[length] != '\0'; length++) {
        to[length] = from[length];
    }
    to[length] = '\0';
}

bp_status bp_error_set(bp_error *error, bp_status code, const char *where, const char *text,
                       const char *name)
{
    if (error == NULL || error->code != BP_OK) {
        return code;
    }
    error->code = code;
    error->where = where;
    error->text = text;
    error->numbers = false;
    error->mend = BP_MEND_NONE;
    error->word[0] = '\0';
    error->right[0] = '\0';
    copy_name(error->name, sizeof error->name, name != NULL ? name : "");
    return code;
}

bp_status bp_error_numbers(bp_error *error, bp_status code, const char *where, const char *text,
                           const char *name, int64_t found, int64_t wanted)
{
    return bp_error_limit(error, code, where, text, name, found, BP_LIMIT_EXACT, wanted);
}

bp_status bp_error_limit(bp_error *error, bp_status code, const char *where, const char *text,
                         const char *name, int64_t found, bp_limit limit, int64_t wanted)
{
    bool first = error != NULL && error->code == BP_OK;
    bp_status status = bp_error_set(error, code, where, text, name);
    if (first) {
        error->numbers = true;
        error->found = found;
        error->limit = limit;
        error->wanted = wanted;
    }
    return status;
}

bp_status bp_error_mend(bp_error *error, bp_status code, const char *where, const char *text,
                        const char *name, bp_mend mend)
{
    const bool first = error != NULL && error->code == BP_OK;
    const bp_status status = bp_error_set(error, code, where, text, name);
    if (first) {
        error->mend = (uint8_t)mend;
    }
    return status;
}

const char *bp_limit_words(bp_limit limit)
{
    static const char *const words[] = {[BP_LIMIT_LEAST] = "at least ",
                                        [BP_LIMIT_MOST] = "at most ",
                                        [BP_LIMIT_BELOW] = "below ",
                                        [BP_LIMIT_DIVISOR] = "a divisor of "};
    const size_t index = (size_t)limit;
    return index < sizeof words / sizeof words[0] && words[index] != NULL ? words[index] : "";
}

void bp_error_found(bp_error *error, const char *word, size_t length)
{
    if (error == NULL || error->code == BP_OK) {
        return;
    }
    /* Long paths differ at their ends, so a word that is too long loses its middle. */
    enum { ROOM = BP_ERROR_WORD_MAX - 1, HEAD = 12, DOTS = 3 };
    const bool whole = length <= ROOM;
    const size_t kept = whole ? length : ROOM;
    for (size_t i = 0; i < kept; i++) {
        const char c = whole || i < HEAD ? word[i]
                       : i < HEAD + DOTS ? '.'
                                         : word[length - (ROOM - i)];
        error->word[i] = (char)(c >= ' ' && c <= '~' ? c : '?');
    }
    error->word[kept] = '\0';
}

void bp_error_right(bp_error *error, const char *words)
{
    if (error != NULL && error->code != BP_OK) {
        copy_name(error->right, sizeof error->right, words);
    }
}

void bp_error_prefix(bp_error *error, const char *outer)
{
    if (error == NULL || error->code == BP_OK) {
        return;
    }
    char inner[BP_ERROR_NAME_MAX];
    memcpy(inner, error->name, sizeof inner);
    copy_name(error->name, sizeof error->name, outer);
    size_t used = strlen(error->name);
    if (inner[0] != '\0' && used + 3 < sizeof error->name) {
        memcpy(error->name + used, ": ", 3);
        copy_name(error->name + used + 2, sizeof error->name - used - 2, inner);
    }
}

typedef struct status_row {
    const char *text;
    int exit_code;
} status_row;

static const status_row status_rows[] = {
    [BP_OK] = {"done", 0},
    [BP_ERR_USAGE] = {"usage", 2},
    [BP_ERR_FIT] = {"does not fit", 3},
    [BP_ERR_DATA] = {"bad input data or model", 4},
    [BP_ERR_NONFINITE] = {"training became non-finite", 5},
    [BP_ERR_STORE] = {"storage", 6},
    [BP_ERR_DEVICE] = {"device", 7},
    [BP_ERR_STOPPED] = {"stopped by a signal", 130},
    [BP_ERR_SEALED] = {"memory asked for after the seal", 70},
    [BP_ERR_OVERFLOW] = {"a size overflows", 2},
    [BP_ERR_VERIFY] = {"the program verifier refused a program", 70},
    [BP_ERR_FABRIC] = {"another rank", 10},
    [BP_ERR_INTERNAL] = {"internal error", 70},
};

static const status_row *error_row_of(bp_status status)
{
    size_t rows = sizeof status_rows / sizeof status_rows[0];
    size_t index = (size_t)status;
    return &status_rows[index < rows ? index : (size_t)BP_ERR_INTERNAL];
}

const char *bp_status_text(bp_status status)
{
    return error_row_of(status)->text;
}

int bp_status_exit_code(bp_status status)
{
    return error_row_of(status)->exit_code;
}
