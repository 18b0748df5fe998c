/* SPDX-License-Identifier: MIT */
/* The processor's SHA-256 against the portable one, which NIST's answers are tested on: every
 * length and offset around blocks, and pieces that begin inside one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "device/host/cpu.h"
#include "device/host/sha256.h"

static unsigned char bytes[3 * 4096 + 256];

static void compare(size_t first, size_t length)
{
    unsigned char right[BP_SHA256_BYTES], digest[BP_SHA256_BYTES];
    bp_sha256 sha;
    bp_sha256_begin(&sha);
    bp_sha256_add(&sha, bytes, first + length);
    bp_sha256_end(&sha, right);
    bp_sha256_begin(&sha);
    bp_host_sha256_add(&sha, bytes, first);
    bp_host_sha256_add(&sha, bytes + first, length);
    bp_sha256_end(&sha, digest);
    assert_memory_equal(digest, right, sizeof right);
}

/* verifies number-7.d44f */
static void the_same_digest(void **state)
{
    (void)state;
    uint32_t x = 1;
    if (!bp_cpu_has_sha()) {
        print_message("this processor has no SHA instructions: the portable form stands in\n");
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(x >> 24);
    }
    for (size_t first = 0; first < 130; first++) {
        compare(first, 4096 + first % 67);
        compare(first, 0);
        compare(first, 3 * 4096);
    }
    compare(4100, 8000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_digest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
