/* SPDX-License-Identifier: MIT */
/* The first error of a context, kept until somebody reports it. */
/* Installed as part of <bedplate/base.h>. */
#ifndef BP_CORE_ERROR_H
#define BP_CORE_ERROR_H

#include "arena/base.h"

#define BP_ERROR_NAME_MAX  192 /* longest file, tensor or option name kept, with its terminator */
#define BP_ERROR_WORD_MAX  48  /* the same of a word that was found */
#define BP_ERROR_RIGHT_MAX 320 /* the same of the words for what would be right */

/* How the number that would be right is meant: it itself, the least, the most, below it, a divisor
 * of it; or there is none, and only what was found is told. */
typedef enum bp_limit {
    BP_LIMIT_EXACT,
    BP_LIMIT_LEAST,
    BP_LIMIT_MOST,
    BP_LIMIT_BELOW,
    BP_LIMIT_DIVISOR,
    BP_LIMIT_NONE
} bp_limit;

/* What mends an error, for a program that proposes a command: no one searches texts for it. */
typedef enum bp_mend {
    BP_MEND_NONE,
    BP_MEND_ADAPTERS, /* adapters on the weights, which stay frozen */
    BP_MEND_WRAPPED,  /* windows that do not keep documents apart */
    BP_MEND_BUFFERED, /* a file that the page cache may hold */
    BP_MEND_STEPS,    /* a number of steps */
    BP_MEND_PROMPT,   /* a prompt */
    BP_MEND_COUNT
} bp_mend;

/* A caller-owned record. Zero is the valid state "no error". The first error sticks: later calls
 * of bp_error_set leave the record alone, so the report names the cause and not its consequences.
 * The program prints it as
 *     name: text: found F, expected W      (at least W, at most W, ..)
 * or, where a word was found,
 *     name: text: found "word"
 * or, where it is said in words what would be right,
 *     name: text: found word, expected right
 */
typedef struct bp_error {
    bp_status code;
    const char *where;            /* static: the function or the part that found it */
    const char *text;             /* static: what is wrong, in words a user understands */
    char name[BP_ERROR_NAME_MAX]; /* the file, tensor, key or option it is about; "" if none */
    bool numbers;                 /* whether found and wanted say something */
    uint8_t mend;                 /* a bp_mend */
    int64_t found;
    int64_t wanted;
    bp_limit limit;
    char word[BP_ERROR_WORD_MAX];   /* what was found where no number was; "" if none */
    char right[BP_ERROR_RIGHT_MAX]; /* what would be right instead; "" if nobody said */
} bp_error;

/* Records an error if error is not NULL and holds none yet; returns code either way, so that
 * `return bp_error_set(...)` is the idiom. name may be NULL; it is copied and cut to fit. */
bp_status bp_error_set(bp_error *error, bp_status code, const char *where, const char *text,
                       const char *name) BP_MUST_CHECK;

/* The same with two numbers: what was found and what would be right. */
bp_status bp_error_numbers(bp_error *error, bp_status code, const char *where, const char *text,
                           const char *name, int64_t found, int64_t wanted) BP_MUST_CHECK;

/* The same where the second number is a limit of what would be right. Sizes are given by
 * bp_size_signed. */
bp_status bp_error_limit(bp_error *error, bp_status code, const char *where, const char *text,
                         const char *name, int64_t found, bp_limit limit,
                         int64_t wanted) BP_MUST_CHECK;

/* The same as bp_error_set, with what mends it. */
bp_status bp_error_mend(bp_error *error, bp_status code, const char *where, const char *text,
                        const char *name, bp_mend mend) BP_MUST_CHECK;

/* What stands before the number of a limit: "at least ", .. Never NULL. */
const char *bp_limit_words(bp_limit limit);

/* Adds the word that was found to the recorded error: one of BP_ERROR_WORD_MAX characters or more
 * has "..." in place of its middle, and what is no printing ASCII becomes '?'. No-op when there is
 * no error. */
void bp_error_found(bp_error *error, const char *word, size_t length);

/* Adds what would be right, in words: cut to fit. No-op when there is no error. */
void bp_error_right(bp_error *error, const char *words);

/* Puts an outer name (a file, say) before the recorded inner one: "file: inner". For readers that
 * know a tensor's name, called by one that knows the file's. No-op when there is no error. */
void bp_error_prefix(bp_error *error, const char *outer);

/* A static word for a status: "usage", "does not fit", ... Never NULL. */
const char *bp_status_text(bp_status status);

/* The program's exit code for a status (0 done, 2 usage, 3 fit, 4 data, 5 non-finite,
 * 6 storage, 7 device, 10 another rank, 130 stopped, 70 for programming errors). */
int bp_status_exit_code(bp_status status);

#endif
