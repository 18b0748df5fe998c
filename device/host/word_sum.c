/* SPDX-License-Identifier: MIT */
/* Sums over words, piece by piece. */
#include "device/host/word_sum.h"

#include "core/base/digest.h"

#define WORD_SUM_PIECE ((uint64_t)1 << 20) /* bytes of a task */

typedef struct word_sum {
    bp_host_words *words;
    const unsigned char *bytes;
    uint64_t count;
    uint64_t from;
    uint64_t sum; /* atomic */
} word_sum;

static void word_sum_pieces(void *argument, uint64_t first, uint64_t last, uint32_t worker)
{
    word_sum *s = argument;
    const uint64_t begin = first * WORD_SUM_PIECE;
    const uint64_t end = last * WORD_SUM_PIECE < s->count ? last * WORD_SUM_PIECE : s->count;
    (void)worker;
    const uint64_t from = s->from + begin / sizeof(uint32_t);
    const size_t whole = s->words != NULL ? (size_t)(end - begin) / sizeof(uint32_t) : 0;
    const size_t done = whole * sizeof(uint32_t);
    uint64_t sum = whole > 0 ? s->words(s->bytes + begin, whole, from) : 0;
    sum += bp_word_sum(s->bytes + begin + done, (size_t)(end - begin) - done, from + whole);
    (void)__atomic_fetch_add(&s->sum, sum, __ATOMIC_RELAXED);
}

uint64_t bp_host_word_sum(bp_pool *pool, bp_host_words *words, const void *bytes, uint64_t count,
                          uint64_t from)
{
    word_sum s = {words, bytes, count, from, 0};
    bp_pool_run(pool, word_sum_pieces, &s, bp_size_ceil_div(count, WORD_SUM_PIECE), false);
    return s.sum;
}
