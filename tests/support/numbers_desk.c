/* SPDX-License-Identifier: MIT */
/* The desk of tests that read rows of numbers. */
#include "tests/support/numbers_desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

void numbers_desk_begin(numbers_desk *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    d->scratch = malloc(BP_NUMBERS_SCRATCH);
}

void numbers_desk_end(numbers_desk *d)
{
    bp_tokens_close(&d->tokens);
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d->scratch);
}
