/* SPDX-License-Identifier: MIT */
/* Viterbi's algorithm over the bytes of a word. Behind byte e - 1 ends the best way so far: its
 * last piece has the id tree[e - 1] and begins at rank[e - 1]; its score is in next and before, a
 * half each. */
#include "tools/formats/text/token_unigram.h"

#include <math.h>
#include <string.h>

#include "tools/formats/text/token_table.h"

#define UNKNOWN_PENALTY 10.0 /* below the least score (sentencepiece, kUnkPenalty) */

static double score_at(const bp_word_work *w, size_t end)
{
    double score;
    const uint64_t bits = (uint64_t)w->next[end - 1] << 32 | w->before[end - 1];
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* The score of a way: a float in SentencePiece. */
static double rounded(const bp_word_work *w, double score)
{
    return w->carried != NULL ? (double)(float)score : score;
}

/* A way that ends in token id over start .. end: kept where none was, or where it is better. */
static void offer(const bp_word_work *w, size_t start, size_t end, uint32_t id, double score)
{
    uint64_t bits;
    if (w->rank[end - 1] != BP_TOKEN_NONE && !(score > score_at(w, end))) {
        return;
    }
    memcpy(&bits, &score, sizeof bits);
    w->next[end - 1] = (uint32_t)(bits >> 32);
    w->before[end - 1] = (uint32_t)bits;
    w->rank[end - 1] = (uint32_t)start;
    w->tree[end - 1] = id;
}

/* Every token that the rest of the word begins with, and the unknown one where the character by
 * itself is none. */
static void go_on(const bp_tokenizer *t, const unsigned char *word, size_t length, size_t start,
                  size_t step, const bp_word_work *w)
{
    const double before = w->carried != NULL ? (double)*w->carried : 0.0;
    const double so_far = start > 0 ? score_at(w, start) : before;
    const size_t most = length - start < t->token_longest ? length : start + t->token_longest;
    uint64_t hash = bp_token_hash_begin();
    bool single = false;
    for (size_t end = start + 1; end <= most; end++) {
        hash = bp_token_hash_add(hash, word[end - 1]);
        if (end < length && (word[end] & 0xc0) == 0x80) {
            continue;
        }
        if (!bp_token_may_begin(t, hash)) {
            break;
        }
        const uint32_t id = bp_token_lookup(t, hash, word + start, end - start);
        if (id != BP_TOKEN_NONE) {
            offer(w, start, end, id, rounded(w, t->scores[id] + so_far));
            single = single || end - start == step;
        }
    }
    if (!single) {
        offer(w, start, start + step, t->rules.unknown_id, rounded(w, t->unknown_score + so_far));
    }
}

/* The ids of a text that is unknown, written from the back. */
static size_t put_unknown(const bp_tokenizer *t, const unsigned char *text, size_t length,
                          uint32_t *id, size_t at)
{
    const uint32_t whole = t->rules.native ? BP_TOKEN_NONE : bp_token_find(t, text, length);
    bool bytes = t->rules.fallback;
    if (whole != BP_TOKEN_NONE) {
        id[--at] = whole;
        return at;
    }
    for (size_t i = 0; bytes && i < length; i++) {
        bytes = t->byte_ids[text[i]] != BP_TOKEN_NONE;
    }
    if (!bytes) {
        id[--at] = t->rules.unknown_id;
        return at;
    }
    for (size_t i = length; i > 0; i--) {
        id[--at] = t->byte_ids[text[i - 1]];
    }
    return at;
}

size_t bp_token_unigram(const bp_tokenizer *t, const unsigned char *word, size_t length,
                        const bp_word_work *w)
{
    size_t step;
    memset(w->rank, 0xff, length * sizeof *w->rank);
    for (size_t start = 0; start < length; start += step) {
        (void)bp_utf8_get(word + start, &step);
        go_on(t, word, length, start, step, w);
    }
    if (w->carried != NULL) {
        *w->carried = (float)score_at(w, length);
    }
    size_t at = length; /* ids are no more than bytes */
    for (size_t end = length; end > 0;) {
        size_t start = w->rank[end - 1];
        const uint32_t id = w->tree[end - 1];
        if (id != t->rules.unknown_id) {
            w->id[--at] = id;
            end = start;
            continue;
        }
        while (start > 0 && w->tree[start - 1] == id) { /* unknown neighbours are one */
            start = w->rank[start - 1];
        }
        at = put_unknown(t, word + start, end - start, w->id, at);
        end = start;
    }
    memmove(w->id, w->id + at, (length - at) * sizeof *w->id);
    return length - at;
}

bp_status bp_token_unigram_finish(bp_tokenizer *t, bp_error *error)
{
    static const char where[] = "tokenizer";
    double least = HUGE_VAL;
    /* Ids of a list are its places; added tokens have no scores. */
    if (t->rules.unknown_id >= t->listed) {
        return bp_error_numbers(error, BP_ERR_DATA, where,
                                "no token has the id for unknown text (found it)", "unk_id",
                                t->rules.unknown_id, t->rules.unknown_id);
    }
    for (uint32_t id = 0; id < t->listed; id++) {
        if (!(fabs(t->scores[id]) < 1e30)) {
            return bp_error_numbers(error, BP_ERR_DATA, where,
                                    "the score of a token is no number (found its id)", "vocab", id,
                                    id);
        }
        least = t->scores[id] < least ? t->scores[id] : least;
    }
    t->unknown_score = least - UNKNOWN_PENALTY;
    for (uint32_t byte = 0; byte < 256; byte++) {
        static const char digits[] = "0123456789ABCDEF";
        const char text[6] = {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
        t->byte_ids[byte] = bp_token_find(t, text, 6);
    }
    return BP_OK;
}
