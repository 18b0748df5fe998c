/* SPDX-License-Identifier: MIT */
/* Files of numbers in memory, read as rows, with all that reading them needs. */
#ifndef BP_TESTS_SUPPORT_NUMBERS_DESK_H
#define BP_TESTS_SUPPORT_NUMBERS_DESK_H

#include "tests/support/store_faulty.h"
#include "tests/support/store_memory.h"
#include "tools/formats/data_numbers.h"

typedef struct numbers_desk {
    memory_store memory;
    faulty_store faulty;
    uint64_t *scratch;
    bp_error error;
    bp_data data;
    bp_data_file files[4];
    uint32_t count;
    bool bare;
    bp_pictures *pictures; /* for lists */
    bp_numbers work;
    bp_tokens tokens;
} numbers_desk;

void numbers_desk_begin(numbers_desk *d);
/* No file may be open but that of the tokens, which is closed. */
void numbers_desk_end(numbers_desk *d);

#endif
