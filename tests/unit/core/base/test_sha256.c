/* SPDX-License-Identifier: MIT */
/* SHA-256 against the answers that NIST publishes (FIPS 180-4 examples), in pieces of any length.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/sha256.h"

static void check(const void *bytes, size_t length, size_t piece, const char *right)
{
    bp_sha256 sha;
    unsigned char digest[BP_SHA256_BYTES], back[BP_SHA256_BYTES];
    char text[BP_SHA256_TEXT];
    bp_sha256_begin(&sha);
    for (size_t at = 0; at < length; at += piece) {
        bp_sha256_add(&sha, (const char *)bytes + at, length - at < piece ? length - at : piece);
    }
    bp_sha256_end(&sha, digest);
    bp_sha256_text(digest, text);
    assert_string_equal(text, right);
    assert_true(bp_sha256_parse(text, back));
    assert_memory_equal(back, digest, sizeof digest);
}

/* verifies number-7.d44f */
static void published_answers(void **state)
{
    (void)state;
    static char million[1000000];
    static const char long_one[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", 3, 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check(long_one, sizeof long_one - 1, 7,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(million, 'a', sizeof million);
    for (size_t piece = 1; piece < 4000; piece = piece * 3 + 1) {
        check(million, sizeof million, piece,
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

/* Every length around the padding's two forms, against Python's hashlib: the digest of the digests
 * of 0 .. 199 bytes 'x'. */
/* verifies number-7.d44f */
static void every_length(void **state)
{
    (void)state;
    bp_sha256 all;
    unsigned char digest[BP_SHA256_BYTES];
    char bytes[200], text[BP_SHA256_TEXT];
    memset(bytes, 'x', sizeof bytes);
    bp_sha256_begin(&all);
    for (size_t length = 0; length < sizeof bytes; length++) {
        bp_sha256 one;
        bp_sha256_begin(&one);
        bp_sha256_add(&one, bytes, length);
        bp_sha256_end(&one, digest);
        bp_sha256_add(&all, digest, sizeof digest);
    }
    bp_sha256_end(&all, digest);
    bp_sha256_text(digest, text);
    assert_string_equal(text, "f5e61141898898cdabae3590cb32e1901b40bdc59952302926213a44c105c129");
}

/* The text is 64 digits and a zero; nothing behind it is written. */
/* verifies number-7.d44f */
static void the_text_has_its_bytes(void **state)
{
    (void)state;
    unsigned char digest[BP_SHA256_BYTES + 1];
    char text[BP_SHA256_TEXT + 2];
    memset(digest, 0xa5, sizeof digest);
    memset(text, '?', sizeof text);
    bp_sha256_text(digest, text);
    for (size_t i = 0; i < (size_t)2 * BP_SHA256_BYTES; i++) {
        assert_int_equal(text[i], i % 2 == 0 ? 'a' : '5');
    }
    assert_memory_equal(text + BP_SHA256_TEXT - 1, "\0??", 3);
}

/* verifies number-18.d59d */
static void no_digits(void **state)
{
    (void)state;
    unsigned char digest[BP_SHA256_BYTES];
    char text[BP_SHA256_TEXT];
    memset(text, 'a', sizeof text - 1);
    text[64] = '\0';
    assert_true(bp_sha256_parse(text, digest));
    text[63] = 'A';
    assert_false(bp_sha256_parse(text, digest));
    text[63] = 'g';
    assert_false(bp_sha256_parse(text, digest));
    text[63] = '\0';
    assert_false(bp_sha256_parse(text, digest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_answers),
        cmocka_unit_test(every_length),
        cmocka_unit_test(the_text_has_its_bytes),
        cmocka_unit_test(no_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
