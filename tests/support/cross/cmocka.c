/* SPDX-License-Identifier: MIT */
/* The loop over a program's tests. */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/cross/cmocka.h"

jmp_buf cross_cmocka_end;

int cross_cmocka_run(const struct CMUnitTest *tests, size_t count)
{
    static volatile size_t failed; /* static, as is what goes on behind a jump */
    static volatile size_t i;
    for (i = 0; i < count; i++) {
        void *state = NULL;
        int end = setjmp(cross_cmocka_end);
        if (end == 0) {
            tests[i].test(&state);
        } else if (end == 1) {
            print_error("FAILED: %s\n", tests[i].name);
            failed++;
        }
    }
    printf("%zu of %zu tests passed\n", count - failed, count);
    return failed == 0 ? 0 : 1;
}
