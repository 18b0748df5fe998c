/* SPDX-License-Identifier: MIT */
/* BPE by ranks, WordPiece's longest match; Unigram is token_unigram.c. */
#include "tools/formats/text/token_word.h"

#include <string.h>

#include "tools/formats/text/token_pieces.h"
#include "tools/formats/text/token_split.h"
#include "tools/formats/text/token_table.h"
#include "tools/formats/text/token_unigram.h"

#define SHORT_WORD 24 /* symbols; up to here looking at every pair is quicker than a tree */

static uint32_t rank_of(const bp_tokenizer *t, uint32_t left, uint32_t right)
{
    const bp_token_merge *merge = bp_token_merge_of(t, left, right);
    return merge != NULL ? merge->rank : BP_TOKEN_NONE;
}

/* Every byte is a symbol. The name of a special token, spelt as text, is three words: "<|", letters
 * and "|>"; a symbol that ends a word never merges with what follows. */
static void mark_ends(const bp_tokenizer *t, const unsigned char *word, size_t length, uint32_t *id)
{
    for (size_t i = 0; i < BP_CLIP_NAMES; i++) {
        if (length == strlen(bp_clip_names[i]) && memcmp(word, bp_clip_names[i], length) == 0) {
            id[1] = t->end_ids[word[1]];
            id[length - 3] = t->end_ids[word[length - 3]];
        }
    }
    id[length - 1] = t->end_ids[word[length - 1]];
}

/* The symbols a word begins as: its bytes, or its characters where they are tokens and else the
 * bytes of those. */
static size_t symbols_of(const bp_tokenizer *t, const unsigned char *word, size_t length,
                         uint32_t *id)
{
    size_t count = 0;
    if (t->rules.kind != BP_TOKENIZER_CHAR_BPE) {
        for (size_t at = 0; at < length; at++) {
            id[count] = t->byte_ids[word[at]];
            count += id[count] != BP_TOKEN_NONE;
        }
        if (t->rules.ends) {
            mark_ends(t, word, length, id);
        }
        return count;
    }
    for (size_t at = 0; at < length;) {
        size_t step;
        (void)bp_utf8_get(word + at, &step);
        uint32_t found = bp_token_find(t, word + at, step);
        if (found != BP_TOKEN_NONE) {
            id[count++] = found;
        }
        for (size_t i = 0; i < step && found == BP_TOKEN_NONE; i++) {
            id[count++] = t->byte_ids[word[at + i]];
        }
        at += step;
    }
    return count;
}

static size_t merge_short(const bp_tokenizer *t, uint32_t *id, size_t count)
{
    uint32_t rank[SHORT_WORD];
    for (size_t i = 0; i + 1 < count; i++) {
        rank[i] = rank_of(t, id[i], id[i + 1]);
    }
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) {
            best = rank[i] < rank[best] ? i : best;
        }
        if (rank[best] == BP_TOKEN_NONE) {
            break;
        }
        id[best] = bp_token_merge_of(t, id[best], id[best + 1])->id;
        count--;
        memmove(id + best + 1, id + best + 2, (count - best - 1) * sizeof *id);
        memmove(rank + best, rank + best + 1, (count - best - 1) * sizeof *rank);
        if (best + 1 < count) {
            rank[best] = rank_of(t, id[best], id[best + 1]);
        }
        if (best > 0) {
            rank[best - 1] = rank_of(t, id[best - 1], id[best]);
        }
    }
    return count;
}

/* The leftmost of two pairs of the least rank. */
static uint32_t better(const uint32_t *rank, uint32_t a, uint32_t b)
{
    if (rank[a] != rank[b]) {
        return rank[a] < rank[b] ? a : b;
    }
    return a < b ? a : b;
}

/* Node k of the tournament plays its children 2k and 2k + 1; pair i is node count + i. */
static uint32_t player(const bp_word_work *w, size_t node, size_t count)
{
    return node >= count ? (uint32_t)(node - count) : w->tree[node];
}

static void play(const bp_word_work *w, size_t node, size_t count)
{
    w->tree[node] = better(w->rank, player(w, 2 * node, count), player(w, 2 * node + 1, count));
}

void bp_tournament_set(const bp_word_work *w, uint32_t pair, uint32_t rank, size_t count)
{
    if (w->rank[pair] == rank) {
        return;
    }
    w->rank[pair] = rank;
    for (size_t node = (count + pair) / 2; node > 0; node /= 2) {
        play(w, node, count);
    }
}

void bp_tournament_begin(const bp_word_work *w, size_t count)
{
    for (size_t node = count - 1; node > 0; node--) {
        play(w, node, count);
    }
}

/* Merges the pair at i and ranks the two pairs that change. */
static void merge_at(const bp_tokenizer *t, const bp_word_work *w, uint32_t i, size_t count)
{
    uint32_t gone = w->next[i];
    uint32_t after = w->next[gone];
    w->id[i] = bp_token_merge_of(t, w->id[i], w->id[gone])->id;
    w->next[i] = after;
    bp_tournament_set(w, gone, BP_TOKEN_NONE, count);
    if (after < count) {
        w->before[after] = i;
    }
    bp_tournament_set(w, i, after < count ? rank_of(t, w->id[i], w->id[after]) : BP_TOKEN_NONE,
                      count);
    if (i > 0) {
        uint32_t before = w->before[i];
        bp_tournament_set(w, before, rank_of(t, w->id[before], w->id[i]), count);
    }
}

static size_t merge_long(const bp_tokenizer *t, const bp_word_work *w, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        w->next[i] = (uint32_t)i + 1;
        w->before[i] = (uint32_t)i - 1; /* never asked for the first */
        w->rank[i] = i + 1 < count ? rank_of(t, w->id[i], w->id[i + 1]) : BP_TOKEN_NONE;
    }
    bp_tournament_begin(w, count);
    while (w->rank[w->tree[1]] != BP_TOKEN_NONE) {
        merge_at(t, w, w->tree[1], count);
    }
    size_t left = 0;
    for (size_t i = 0; i < count; i = w->next[i]) {
        w->id[left++] = w->id[i];
    }
    return left;
}

static size_t word_bpe(const bp_tokenizer *t, const unsigned char *word, size_t length,
                       const bp_word_work *w)
{
    if (t->rules.ignore_merges && length <= t->token_longest) {
        uint32_t whole = bp_token_find(t, word, length);
        if (whole != BP_TOKEN_NONE) {
            w->id[0] = whole;
            return 1;
        }
    }
    if (t->rules.ranked) {
        return bp_token_pieces_join(t, word, length, w);
    }
    size_t count = symbols_of(t, word, length, w->id);
    if (t->merge_count == 0 || count < 2) {
        return count;
    }
    return count <= SHORT_WORD ? merge_short(t, w->id, count) : merge_long(t, w, count);
}

/* The longest token that begins at text, after "##" unless it is the word's first; its length in
 * *step. The ends of characters are tried from the front, so that each costs one look-up. */
static uint32_t longest_piece(const bp_tokenizer *t, const unsigned char *text, size_t length,
                              bool first, size_t *step)
{
    unsigned char piece[BP_TOKENIZER_DECODED_MAX];
    uint64_t hash = bp_token_hash_begin();
    size_t used = 0;
    for (const char *c = t->rules.continuing; !first && *c != '\0'; c++) {
        piece[used++] = (unsigned char)*c;
        hash = bp_token_hash_add(hash, (unsigned char)*c);
    }
    uint32_t longest = BP_TOKEN_NONE;
    for (size_t at = 0; at < length && used < t->token_longest;) {
        piece[used++] = text[at];
        hash = bp_token_hash_add(hash, text[at++]);
        if (at == length || (text[at] & 0xc0) != 0x80) {
            uint32_t id = bp_token_lookup(t, hash, piece, used);
            longest = id != BP_TOKEN_NONE ? id : longest;
            *step = id != BP_TOKEN_NONE ? at : *step;
        }
    }
    return longest;
}

static size_t word_piece(const bp_tokenizer *t, const unsigned char *word, size_t length,
                         const bp_word_work *w)
{
    size_t characters = 0;
    for (size_t i = 0; i < length; i++) {
        characters += (word[i] & 0xc0) != 0x80;
    }
    size_t count = 0;
    for (size_t at = 0; at < length && characters <= t->rules.word_chars;) {
        size_t step = 0;
        w->id[count] = longest_piece(t, word + at, length - at, at == 0, &step);
        if (w->id[count++] == BP_TOKEN_NONE) {
            characters = SIZE_MAX;
        }
        at += step;
    }
    if (characters > t->rules.word_chars) {
        w->id[0] = t->unknown;
        return 1;
    }
    return count;
}

size_t bp_token_word(const bp_tokenizer *t, const unsigned char *word, size_t length,
                     const bp_word_work *work)
{
    switch (t->rules.kind) {
    case BP_TOKENIZER_WORDPIECE:
        return word_piece(t, word, length, work);
    case BP_TOKENIZER_UNIGRAM:
        return bp_token_unigram(t, word, length, work);
    default:
        return t->rules.native ? bp_token_pieces_join(t, word, length, work)
                               : word_bpe(t, word, length, work);
    }
}
