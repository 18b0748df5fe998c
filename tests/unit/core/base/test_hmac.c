/* SPDX-License-Identifier: MIT */
/* HMAC-SHA256 against the answers of RFC 4231, and of Python's hmac for keys about a block long. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/hmac.h"

/* verifies number-7.d44f */
static void published_codes(void **state)
{
    (void)state;
    static const struct {
        unsigned char byte; /* the key: so often; 0: `key` */
        size_t count;
        const char *key, *text, *code;
    } rows[] = {
        {0x0b, 20, NULL, "Hi There",
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {0, 4, "Jefe", "what do ya want for nothing?",
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {0xaa, 131, NULL, "Test Using Larger Than Block-Size Key - Hash Key First",
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
        {0xaa, 64, NULL, "x", "ce3c639dcb9d8baae5d44c3b8b5e233faab4d1860e07489af5c84f213998bd79"},
        {0xaa, 65, NULL, "x", "c2b9a0a013df029c7d812c5ac18388feef0194ee64fcc5f321d149c06137caa3"},
        {0, 0, NULL, "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char key[160], code[BP_SHA256_BYTES];
        char text[BP_SHA256_TEXT];
        memset(key, rows[i].byte, sizeof key);
        bp_hmac_sha256(rows[i].key != NULL ? (const void *)rows[i].key
                                           : (rows[i].count > 0 ? key : NULL),
                       rows[i].count, rows[i].text, strlen(rows[i].text), code);
        bp_sha256_text(code, text);
        assert_string_equal(text, rows[i].code);
    }
}

/* verifies number-7.d44f */
static void codes_are_compared_whole(void **state)
{
    (void)state;
    unsigned char a[BP_SHA256_BYTES] = {1}, b[BP_SHA256_BYTES] = {1};
    assert_true(bp_hmac_same(a, b));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] ^= 0x80;
        assert_false(bp_hmac_same(a, b));
        b[i] ^= 0x80;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_codes),
        cmocka_unit_test(codes_are_compared_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
