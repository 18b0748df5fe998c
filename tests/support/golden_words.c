/* SPDX-License-Identifier: MIT */
/* Opening tokenizers of the repository. */
#include "tests/support/golden_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

void golden_words_open(golden_words *w, const char *directory)
{
    bp_error error = {.code = BP_OK};
    bp_store *store = &w->posix.store;
    uint64_t *scratch = malloc(BP_TOKENIZER_SCRATCH);
    assert_int_equal(bp_store_posix_init(&w->posix, ""), BP_OK);
    assert_int_equal(bp_tokenizer_measure(store, directory, scratch, &w->need, &error), BP_OK);
    assert_int_equal(posix_memalign(&w->memory, 64, (size_t)w->need.bytes), 0);
    assert_int_equal(posix_memalign(&w->room, 64, (size_t)bp_encoder_bytes(1024)), 0);
    assert_int_equal(
        bp_tokenizer_open(&w->tokenizer, store, directory, &w->need, w->memory, scratch, &error),
        BP_OK);
    assert_int_equal(bp_encoder_init(&w->encoder, &w->tokenizer, 1024, w->room), BP_OK);
    free(scratch);
}

void golden_words_close(golden_words *w)
{
    free(w->memory);
    free(w->room);
}
