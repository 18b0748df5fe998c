/* SPDX-License-Identifier: MIT */
/* Sums over words in every form and by several workers are bp_word_sum's, which a loop over bytes
 * in turn says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/digest.h"
#include "core/base/random.h"
#include "device/host/isa_table.h"
#include "device/host/word_sum.h"

enum { BYTES = 3 << 20 };

static unsigned char bytes[BYTES];

static void fill(void)
{
    for (uint32_t i = 0; i < BYTES; i += 16) {
        bp_philox((const uint32_t[4]){i, 0, 0, 0}, 3, (uint32_t *)(void *)(bytes + i));
    }
}

/* The formula of digest.h. */
static uint64_t plain(const unsigned char *at, uint64_t count, uint64_t from)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t multiple = (from + i / 4 + 1) * BP_WORD_STEP | 1;
        sum += ((uint64_t)at[i] << (8 * (i % 4))) * multiple;
    }
    return sum;
}

/* verifies device-1.6909 */
static void each_form_sums_alike(void **state)
{
    (void)state;
    fill();
    for (uint32_t form = 0; form < BP_HOST_ISAS_ALL; form++) {
        bp_host_words *words = bp_host_isa_runs(form) ? bp_host_isa_words(form) : NULL;
        for (size_t count = 0; words != NULL && count < 70; count++) {
            const uint64_t from = count * UINT64_C(0x123456789);
            assert_true(words(bytes + count, count, from) == plain(bytes + count, 4 * count, from));
        }
    }
}

/* verifies number-12.5283 */
static void any_number_of_bytes_is_summed(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 1, 3, 4, 5, 31, 4099, (1 << 20) - 1, (2 << 20) + 7, BYTES};
    bp_pool pool;
    fill();
    assert_int_equal(bp_pool_open(&pool, 3), BP_OK);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const uint64_t right = plain(bytes, counts[i], 5);
        assert_true(bp_word_sum(bytes, counts[i], 5) == right);
        for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
            bp_host_words *words = bp_host_isa_runs(form) ? bp_host_isa_words(form) : NULL;
            assert_true(bp_host_word_sum(&pool, words, bytes, counts[i], 5) == right);
        }
    }
    bp_pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form_sums_alike),
        cmocka_unit_test(any_number_of_bytes_is_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
