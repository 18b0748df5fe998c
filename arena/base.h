/* SPDX-License-Identifier: MIT */
/* The ground everything stands on: the status enum and checked size arithmetic. */
/* Installed as part of <bedplate/base.h>. */
#ifndef BP_ARENA_BASE_H
#define BP_ARENA_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena/config.h"

/* Every function that can fail returns one of these, and the caller must look at it. The classes
 * are those of the program's exit codes, so a status says who can mend the cause. */
typedef enum bp_status {
    BP_OK = 0,
    BP_ERR_USAGE,     /* an option, a spec field or a call that makes no sense (exit 2) */
    BP_ERR_FIT,       /* a plan needs more bytes or table rows than were given (exit 3) */
    BP_ERR_DATA,      /* a file's content: model, tokenizer, text, checkpoint (exit 4) */
    BP_ERR_NONFINITE, /* training produced NaN or infinity; weights kept (exit 5) */
    BP_ERR_STORE,     /* a read, write, sync, rename failed (exit 6) */
    BP_ERR_DEVICE,    /* thread pool, driver or GPU (exit 7) */
    BP_ERR_STOPPED,   /* a signal asked to stop; state saved (exit 130 or 143) */
    BP_ERR_SEALED,    /* memory was asked for after the seal: a programming error */
    BP_ERR_OVERFLOW,  /* a size does not fit its type */
    BP_ERR_VERIFY,    /* the program verifier refused a program: a programming error */
    BP_ERR_FABRIC,    /* another rank is lost or did not come in time (exit 10) */
    BP_ERR_INTERNAL   /* an impossible state was reached: a programming error */
} bp_status;

/* Returns from the calling function with the first status that is not BP_OK. */
#define BP_TRY(call)                                                                               \
    do {                                                                                           \
        bp_status bp_try_status = (call);                                                          \
        if (bp_try_status != BP_OK) {                                                              \
            return bp_try_status;                                                                  \
        }                                                                                          \
    } while (0)

/* Saturating arithmetic: an overflow becomes BP_SIZE_INVALID, which no real size equals and which
 * stays invalid through every further operation. A chain of them needs one test, at its end. */
#define BP_SIZE_INVALID UINT64_MAX

static inline uint64_t bp_size_add(uint64_t a, uint64_t b)
{
    return a > BP_SIZE_INVALID - b ? BP_SIZE_INVALID : a + b;
}

/* A size as a signed number, of an error say: INT64_MAX where it is larger. */
static inline int64_t bp_size_signed(uint64_t size)
{
    return size < INT64_MAX ? (int64_t)size : INT64_MAX;
}

static inline uint64_t bp_size_mul(uint64_t a, uint64_t b)
{
    if (a == BP_SIZE_INVALID || b == BP_SIZE_INVALID) {
        return BP_SIZE_INVALID;
    }
    return (b != 0 && a > BP_SIZE_INVALID / b) ? BP_SIZE_INVALID : a * b;
}

/* a - b; below zero is invalid. */
static inline uint64_t bp_size_sub(uint64_t a, uint64_t b)
{
    return (a == BP_SIZE_INVALID || b > a) ? BP_SIZE_INVALID : a - b;
}

/* Ceiling of a / b; division by zero is invalid. */
static inline uint64_t bp_size_ceil_div(uint64_t a, uint64_t b)
{
    if (a == BP_SIZE_INVALID || b == BP_SIZE_INVALID || b == 0) {
        return BP_SIZE_INVALID;
    }
    return a / b + (a % b != 0 ? 1 : 0);
}

/* The least multiple of alignment that is not below a. alignment > 0. */
static inline uint64_t bp_size_align(uint64_t a, uint64_t alignment)
{
    return bp_size_mul(bp_size_ceil_div(a, alignment), alignment);
}

#endif
