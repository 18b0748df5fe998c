/* SPDX-License-Identifier: MIT */
/* The program's own parts around text: ids to text as they come, and the best evaluation so far. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/host/storage/store_posix.h"

#include "tools/bedplate/app/clock.c"
#include "tools/bedplate/app/output.c"
#include "tools/bedplate/runs/best.c"
#include "tools/bedplate/models/text_out.c"

/* Gives the bytes of `text` as ids and notes the pieces, separated by |. */
static void pieces_are(const run_tokenizer *c, const int32_t *ids, size_t n, const char *right)
{
    static text_out out;
    char got[256];
    size_t used = 0;
    text_out_begin(&out, c);
    for (size_t i = 0; i <= n; i++) {
        size_t count;
        const char *bytes =
            i < n ? text_out_next(&out, ids[i], &count) : text_out_end(&out, &count);
        memcpy(got + used, bytes, count);
        used += count;
        got[used++] = '|';
    }
    got[used] = '\0';
    assert_string_equal(got, right);
}

static void bytes_are(const char *text, const char *right)
{
    int32_t ids[64];
    size_t n = strlen(text);
    const run_tokenizer c = {.kind = TOKENIZER_BYTES};
    for (size_t i = 0; i < n; i++) {
        ids[i] = (unsigned char)text[i];
    }
    pieces_are(&c, ids, n, right);
}

/* verifies face-18.cca4 */
static void text_is_cut_between_characters(void **state)
{
    (void)state;
    bytes_are("ab", "a|b||");
    bytes_are("\xc3\xa9t", "|\xc3\xa9|t||");
    bytes_are("\xe4\xb8\xad", "||\xe4\xb8\xad||");
    bytes_are("\xf0\x9f\x98\x80!", "|||\xf0\x9f\x98\x80|!||");
    /* What is no UTF-8 comes as it is, at the latest when it cannot become any. */
    bytes_are("\xe4\xb8", "||\xe4\xb8|");
    bytes_are("\xf0\x9f"
              "a",
              "||\xf0\x9f"
              "a||");
    bytes_are("\x80\x80\x80\x80", "\x80|\x80|\x80|\x80||");
    bytes_are("\xc3\xc3\xa9", "|\xc3|\xc3\xa9||");
    const run_tokenizer c = {.kind = TOKENIZER_BYTES};
    const int32_t beyond[3] = {'a', 256, 'b'}; /* a larger vocabulary than bytes */
    pieces_are(&c, beyond, 3, "a||b||");
}

static void a_tokenizer_leaves_special_tokens_out(void **state)
{
    (void)state;
    static run_tokenizer c = {.kind = TOKENIZER_TOKENIZER};
    bp_store_posix posix;
    bp_error error = {.code = BP_OK};
    const char *directory = "tests/golden/tokenizers/gpt2_small";
    uint64_t *scratch = malloc(BP_TOKENIZER_SCRATCH);
    void *memory;
    assert_int_equal(bp_store_posix_init(&posix, ""), BP_OK);
    assert_int_equal(bp_tokenizer_measure(&posix.store, directory, scratch, &c.need, &error),
                     BP_OK);
    assert_int_equal(posix_memalign(&memory, 64, (size_t)c.need.bytes), 0);
    assert_int_equal(
        bp_tokenizer_open(&c.tokenizer, &posix.store, directory, &c.need, memory, scratch, &error),
        BP_OK);
    const int32_t ids[] = {54, 71, 900, 405, 1000000, 30};
    pieces_are(&c, ids, 6, "W|h||at||?||");
    free(memory);
    free(scratch);
}

/* verifies face-25.a06d */
static void the_best_is_the_least(void **state)
{
    (void)state;
    const best_rule least = {.greater = false, .threshold = 0.0};
    best_state best = {.judged = 0};
    assert_false(best_judge(&best, &least, 2, (double)NAN));
    assert_int_equal(best.patience, 1);
    assert_int_equal(best.step, 0);
    assert_true(best_judge(&best, &least, 4, 2.0));
    assert_int_equal(best.patience, 0);
    assert_false(best_judge(&best, &least, 6, 2.0)); /* as good is not better */
    assert_false(best_judge(&best, &least, 8, (double)NAN));
    assert_false(best_judge(&best, &least, 8, 1.0)); /* judged before */
    assert_int_equal(best.patience, 2);
    assert_true(best_judge(&best, &least, 10, 1.5));
    assert_int_equal(best.step, 10);
    assert_int_equal(best.patience, 0);
    assert_true(best.value == 1.5);
}

/* What gains the threshold and no more is the best, and yet patience goes on; what gains more
 * begins it anew. Of scores the greater is the better. */
/* verifies face-25.a06d */
static void patience_asks_for_more_than_the_threshold(void **state)
{
    (void)state;
    const best_rule by_half = {.greater = true, .threshold = 0.5};
    best_state best = {.judged = 0};
    assert_true(best_judge(&best, &by_half, 1, 1.0));
    assert_int_equal(best.patience, 0);
    assert_true(best_judge(&best, &by_half, 2, 1.5));
    assert_int_equal(best.step, 2);
    assert_int_equal(best.patience, 1);
    assert_false(best_judge(&best, &by_half, 3, 1.25));
    assert_int_equal(best.patience, 2);
    assert_true(best_judge(&best, &by_half, 4, 2.25));
    assert_int_equal(best.patience, 0);
}

/* verifies face-25.a06d */
static void what_was_best_is_text(void **state)
{
    (void)state;
    char text[BEST_TEXT];
    best_state back;
    const best_state best = {.judged = 12, .step = 1u << 20, .value = 0.1, .patience = 3};
    best_put(&best, text);
    size_t length = strlen(text);
    assert_true(best_parse(text, &back));
    assert_int_equal(back.judged, 12);
    assert_int_equal(back.step, 1u << 20);
    assert_memory_equal(&back.value, &best.value, sizeof best.value);
    assert_int_equal(back.patience, 3);
    text[length - 1] = '\0';
    assert_false(best_parse(text, &back));
    best_put(&best, text);
    text[20] = 'g';
    assert_false(best_parse(text, &back));
    best_put(&best, text);
    text[16] = '0';
    assert_false(best_parse(text, &back));
    assert_false(best_parse(NULL, &back));
    assert_false(best_parse("", &back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cut_between_characters),
        cmocka_unit_test(a_tokenizer_leaves_special_tokens_out),
        cmocka_unit_test(the_best_is_the_least),
        cmocka_unit_test(patience_asks_for_more_than_the_threshold),
        cmocka_unit_test(what_was_best_is_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
