/* SPDX-License-Identifier: MIT */
/* The tokenizers against Hugging Face's tokenizers library: 10,000 lines each, made here and by
 * tools/golden/tokens.py in the same way, one digest of ids a line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/digest.h"
#include "device/host/storage/store_posix.h"
#include "tools/formats/text/tokenizer.h"

enum { DECODED = 1000, LINES = 10000, LINE_MAX = 4096, WORDS_MAX = 256, WORD_BYTES = 512 };

static const char folder[] = "tests/golden/tokenizers";

typedef struct fixture {
    bp_tokenizer tokenizer;
    bp_encoder encoder;
    void *tables;
    void *work;
} fixture;

static bp_status open_fixture(fixture *d, const char *directory, bp_error *error)
{
    static uint64_t scratch[BP_TOKENIZER_SCRATCH / 8];
    bp_store_posix posix;
    bp_tokenizer_need need;
    assert_int_equal(bp_store_posix_init(&posix, ""), BP_OK);
    BP_TRY(bp_tokenizer_measure(&posix.store, directory, scratch, &need, error));
    d->tables = malloc((size_t)need.bytes);
    d->work = malloc((size_t)bp_encoder_bytes(WORD_BYTES));
    BP_TRY(bp_tokenizer_open(&d->tokenizer, &posix.store, directory, &need, d->tables, scratch,
                             error));
    return bp_encoder_init(&d->encoder, &d->tokenizer, WORD_BYTES, d->work);
}

static void close_fixture(fixture *d)
{
    free(d->tables);
    free(d->work);
}

static unsigned char *read_whole(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    bytes[*size] = '\0';
    fclose(file);
    return bytes;
}

/* ---- The lines, as tools/golden/tokens.py makes them ---- */

typedef struct lines {
    char *file;
    const char *words[WORDS_MAX];
    size_t lengths[WORDS_MAX];
    size_t count;
    uint64_t state;
    unsigned char line[LINE_MAX];
    size_t length;
} lines;

static const uint32_t ranges[][2] = {
    {0x20, 0x7E},       {0x20, 0x7E},        {0xA1, 0x17F},      {0x300, 0x36F},
    {0x391, 0x3A1},     {0x3B1, 0x3C9},      {0x410, 0x44F},     {0x5D0, 0x5EA},
    {0x621, 0x63A},     {0x64B, 0x652},      {0x660, 0x669},     {0x905, 0x939},
    {0x93E, 0x94D},     {0x966, 0x96F},      {0x995, 0x9A8},     {0x9BE, 0x9C4},
    {0xE01, 0xE3A},     {0x1100, 0x1112},    {0x1161, 0x1175},   {0x11A8, 0x11C2},
    {0x1E00, 0x1EFF},   {0x2010, 0x2027},    {0x2070, 0x2071},   {0x2074, 0x208E},
    {0x20A0, 0x20BD},   {0x2150, 0x2188},    {0x2190, 0x23FA},   {0x2580, 0x25A0},
    {0x3001, 0x303F},   {0x3041, 0x3096},    {0x30A1, 0x30FA},   {0x4E00, 0x4E80},
    {0xAC00, 0xD7A3},   {0xF900, 0xFA6D},    {0xFB00, 0xFB06},   {0xFE00, 0xFE0F},
    {0xFF01, 0xFFBE},   {0xE000, 0xE010},    {0xFFF9, 0xFFFD},   {0x10330, 0x1034A},
    {0x1D400, 0x1D454}, {0x1F300, 0x1F64F},  {0x20000, 0x20020}, {0xE0001, 0xE0001},
    {0xE0020, 0xE007F}, {0x100000, 0x100003}};

static const uint32_t spaces[16] = {0x20, 0x20, 0x20, 0x09,   0x0A,   0x0A,   0x0D,   0x0B,
                                    0x0C, 0x85, 0xA0, 0x1680, 0x2003, 0x2028, 0x202F, 0x3000};

static uint32_t below(lines *l, uint32_t count)
{
    l->state += 0x9E3779B97F4A7C15u;
    uint64_t z = l->state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) % count);
}

static void put_byte(lines *l, uint32_t byte)
{
    assert_true(l->length < LINE_MAX);
    l->line[l->length++] = (unsigned char)byte;
}

static void put_character(lines *l, uint32_t c)
{
    if (c < 0x80) {
        put_byte(l, c);
        return;
    }
    if (c < 0x800) {
        put_byte(l, 0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            put_byte(l, 0xe0 | c >> 12);
        } else {
            put_byte(l, 0xf0 | c >> 18);
            put_byte(l, 0x80 | (c >> 12 & 0x3f));
        }
        put_byte(l, 0x80 | (c >> 6 & 0x3f));
    }
    put_byte(l, 0x80 | (c & 0x3f));
}

static void put_word(lines *l, uint32_t kind)
{
    if (kind % 2 == 1) {
        put_byte(l, ' ');
    }
    size_t word = below(l, (uint32_t)l->count);
    for (size_t i = 0; i < l->lengths[word]; i++) {
        put_byte(l, (unsigned char)l->words[word][i]);
    }
}

static void put_range(lines *l)
{
    const uint32_t *range = ranges[below(l, sizeof ranges / sizeof ranges[0])];
    uint32_t count = 1 + below(l, 5);
    while (count-- > 0) {
        put_character(l, range[0] + below(l, range[1] - range[0] + 1));
    }
}

static void put_piece(lines *l)
{
    static const uint32_t counts[] = {6, 7, 3, 6, 60};
    uint32_t kind = below(l, 12);
    if (kind < 5) {
        put_word(l, kind);
        return;
    }
    if (kind == 5) {
        put_range(l);
        return;
    }
    uint32_t count = kind < 11 ? 1 + below(l, counts[kind - 6]) : 0;
    uint32_t same = kind == 10 ? 0x61 + below(l, 26) : kind == 11 ? 0x21 + below(l, 15) : 0;
    count = kind == 11 ? 1 + below(l, 3) : count;
    while (count-- > 0) {
        switch (kind) {
        case 6:
            put_character(l, spaces[below(l, 16)]);
            break;
        case 7:
            put_byte(l, 0x30 + below(l, 10));
            break;
        case 8:
            put_byte(l, below(l, 33));
            break;
        case 9:
            put_byte(l, below(l, 256));
            break;
        default:
            put_byte(l, same);
        }
    }
}

static void make_line(lines *l, uint32_t number)
{
    l->state = (uint64_t)(number + 1) * 0x9E3779B97F4A7C15u;
    l->length = 0;
    for (uint32_t count = 1 + below(l, 14); count > 0; count--) {
        put_piece(l);
    }
}

static void read_words(lines *l)
{
    size_t size;
    char path[256];
    snprintf(path, sizeof path, "%s/words.txt", folder);
    l->file = (char *)read_whole(path, &size);
    assert_non_null(l->file);
    l->count = 0;
    for (char *at = l->file; *at != '\0';) {
        char *end = strchr(at, '\n');
        assert_true(end != NULL && l->count < WORDS_MAX);
        l->words[l->count] = at;
        l->lengths[l->count++] = (size_t)(end - at);
        at = end + 1;
    }
}

/* ---- The comparison ---- */

static uint32_t digest_of(uint32_t digest, const uint32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (uint32_t shift = 0; shift < 32; shift += 8) {
            digest = (digest ^ (ids[i] >> shift & 0xff)) * 0x01000193u;
        }
    }
    return digest;
}

/* Encodes a line in pieces of `piece` bytes, taking `room` ids at a time. */
static uint32_t encode(bp_encoder *e, const lines *l, unsigned flags, size_t piece, size_t room)
{
    uint32_t ids[256];
    uint32_t digest = 0x811C9DC5u;
    size_t written;
    size_t used;
    bool more = true;
    bp_encoder_begin(e, flags);
    for (size_t at = 0; at < l->length; at += used) {
        size_t count = l->length - at < piece ? l->length - at : piece;
        bp_encoder_feed(e, l->line + at, count, ids, room, &used, &written);
        digest = digest_of(digest, ids, written);
    }
    while (more) {
        more = bp_encoder_end(e, ids, room, &written);
        digest = digest_of(digest, ids, written);
    }
    return digest;
}

static void show_line(const lines *l, bp_encoder *e, uint32_t number)
{
    static uint32_t ids[LINE_MAX];
    size_t count;
    printf("line %u:", number);
    for (size_t i = 0; i < l->length; i++) {
        printf(" %02x", l->line[i]);
    }
    bp_encoder_text(e, l->line, l->length, BP_ENCODE_PLAIN, ids, LINE_MAX, &count);
    printf("\nids:");
    for (size_t i = 0; i < count; i++) {
        printf(" %u", ids[i]);
    }
    printf("\n");
}

/* The text that a line's ids decode to. */
static uint32_t decode(const bp_tokenizer *t, const uint32_t *ids, size_t count)
{
    bp_decoder decoder = {.begun = false};
    uint32_t digest = 0x811C9DC5u;
    for (size_t i = 0; i < count; i++) {
        char bytes[BP_TOKENIZER_DECODED_MAX];
        size_t length;
        assert_int_equal(bp_decoder_next(&decoder, t, ids[i], bytes, &length), BP_OK);
        for (size_t k = 0; k < length; k++) {
            digest = (digest ^ (unsigned char)bytes[k]) * 0x01000193u;
        }
    }
    return digest;
}

/* Number `index` of a file of digests. */
static uint32_t wanted_of(const unsigned char *file, size_t index)
{
    uint32_t digest;
    memcpy(&digest, file + 4 * index, 4);
    return digest;
}

static unsigned char *read_golden(const char *name, size_t numbers)
{
    char path[256];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unsigned char *file = read_whole(path, &size);
    if (file == NULL || size < 4 * numbers) {
        fail_msg("%s: not there, or too short", path);
    }
    return file;
}

static void compare(const char *directory, size_t place)
{
    static lines l;
    static uint32_t ids[LINE_MAX];
    fixture d;
    bp_error error = {.code = BP_OK};
    unsigned char *wanted = read_golden("digests.bin", LINES * (place + 1));
    unsigned char *decoded = read_golden("decoded.bin", DECODED * (place + 1));
    if (open_fixture(&d, directory, &error) != BP_OK) {
        fail_msg("%s: %s: %s", directory, error.name, error.text);
    }
    read_words(&l);
    size_t wrong = 0;
    /* SentencePiece finds no names of control pieces in texts. */
    const unsigned flags = d.tokenizer.rules.native ? BP_ENCODE_LITERAL : BP_ENCODE_PLAIN;
    for (uint32_t i = 0; i < LINES; i++) {
        uint32_t digest = wanted_of(wanted, LINES * place + i);
        size_t count;
        make_line(&l, i);
        bp_encoder_text(&d.encoder, l.line, l.length, flags, ids, LINE_MAX, &count);
        bool good = count <= LINE_MAX && digest_of(0x811C9DC5u, ids, count) == digest &&
                    encode(&d.encoder, &l, flags, 1 + i % 7, 256) == digest &&
                    encode(&d.encoder, &l, flags, 1 + i % 61, 1 + i % 5) == digest;
        if (good && i < DECODED) {
            good = decode(&d.tokenizer, ids, count) == wanted_of(decoded, DECODED * place + i);
        }
        if (!good && wrong++ < 5) {
            show_line(&l, &d.encoder, i);
        }
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(d.encoder.cut, 0);
    free(wanted);
    free(decoded);
    free(l.file);
    close_fixture(&d);
}

/* One text and pairs, with special tokens, truncated. */
static void compare_pairs(const char *directory, size_t place)
{
    static lines a;
    static lines b;
    fixture d;
    bp_error error = {.code = BP_OK};
    unsigned char *wanted = read_golden("pairs.bin", 2 * DECODED * (place + 1));
    assert_int_equal(open_fixture(&d, directory, &error), BP_OK);
    read_words(&a);
    b = a;
    for (uint32_t i = 0; i < DECODED; i++) {
        uint32_t ids[64];
        uint32_t wide[64];
        uint8_t types[64];
        size_t count;
        size_t whole;
        make_line(&a, i);
        make_line(&b, i + 1);
        assert_int_equal(bp_encoder_pair(&d.encoder, a.line, a.length, i % 2 ? b.line : NULL,
                                         b.length, BP_ENCODE_TEMPLATE, ids, types, 4 + i % 50,
                                         &count, &whole),
                         BP_OK);
        assert_true(count <= 4 + i % 50 && whole >= count);
        for (size_t k = 0; k < count; k++) {
            wide[k] = types[k];
        }
        size_t row = 2 * (DECODED * place + i);
        if (digest_of(0x811C9DC5u, ids, count) != wanted_of(wanted, row) ||
            digest_of(0x811C9DC5u, wide, count) != wanted_of(wanted, row + 1)) {
            show_line(&a, &d.encoder, i);
            fail_msg("%s: pair %u", directory, i);
        }
    }
    free(wanted);
    free(a.file);
    close_fixture(&d);
}

/* verifies formats-3.2920 */
static void pairs(void **state)
{
    (void)state;
    compare_pairs("tests/golden/tokenizers/llama3", 0);
    compare_pairs("tests/golden/tokenizers/llama2", 1);
    compare_pairs("tests/golden/tokenizers/bert_uncased", 2);
}

/* ---- Texts with their ids, written out ---- */

/* Bytes written as hexadecimal digits up to a comma; returns what is behind it. */
static const char *take_hexadecimal(const char *at, unsigned char *bytes, size_t *length)
{
    *length = 0;
    while (*at != ',') {
        unsigned byte;
        assert_int_equal(sscanf(at, "%2x", &byte), 1);
        bytes[(*length)++] = (unsigned char)byte;
        at += 2;
    }
    return at + 1;
}

static void compare_text(fixture *d, const char *line, unsigned flags)
{
    static unsigned char text[LINE_MAX], decoded[LINE_MAX];
    static uint32_t ids[LINE_MAX];
    size_t length, decoded_length, count, place = 0;
    bp_decoder decoder = {.begun = false};
    line = take_hexadecimal(line, text, &length);
    line = take_hexadecimal(line, decoded, &decoded_length);
    bp_encoder_text(&d->encoder, text, length, flags, ids, LINE_MAX, &count);
    for (size_t i = 0; i < count; i++) {
        char bytes[BP_TOKENIZER_DECODED_MAX];
        char *end;
        assert_int_equal(ids[i], strtoul(line, &end, 10));
        assert_ptr_not_equal(line, end);
        line = end;
        assert_int_equal(bp_decoder_next(&decoder, &d->tokenizer, ids[i], bytes, &length), BP_OK);
        assert_true(length <= decoded_length - place);
        assert_memory_equal(bytes, decoded + place, length);
        place += length;
    }
    assert_int_equal(place, decoded_length);
    assert_int_equal(*line, '\n');
}

static void compare_texts_as(const char *directory, size_t least, unsigned flags)
{
    fixture d;
    char path[256];
    size_t size, texts = 0;
    bp_error error = {.code = BP_OK};
    snprintf(path, sizeof path, "%s/texts.txt", directory);
    char *file = (char *)read_whole(path, &size);
    assert_non_null(file);
    if (open_fixture(&d, directory, &error) != BP_OK) {
        fail_msg("%s: %s", error.name, error.text);
    }
    for (const char *line = file; *line != '\0'; line = strchr(line, '\n') + 1) {
        compare_text(&d, line, flags);
        texts++;
    }
    assert_true(texts >= least);
    free(file);
    close_fixture(&d);
}

static void compare_texts(const char *directory, size_t least)
{
    compare_texts_as(directory, least, BP_ENCODE_PLAIN);
}

/* Words end with a mark, white space is dropped, and letters are lower case. */
/* verifies formats-3.2920 */
static void words_that_end_with_a_mark(void **state)
{
    (void)state;
    compare_texts_as("tests/golden/tokenizers/clip", 400, BP_ENCODE_TEMPLATE);
    compare_texts_as("tests/golden/tokenizers/clip_own", 400, BP_ENCODE_TEMPLATE);
}

/* Four spaces of the vocabulary and four of an added token are two tokens. */
/* verifies formats-3.2920 */
static void added_tokens_of_the_same_bytes(void **state)
{
    (void)state;
    compare_texts("tests/golden/tokenizers/spaces", 100);
}

/* Normal forms and lower case, in pieces as the text comes. */
/* verifies formats-3.2920 */
static void unigram_behind_normal_forms(void **state)
{
    (void)state;
    compare_texts("tests/golden/tokenizers/unigram_nfkc", 200);
    compare_texts("tests/golden/tokenizers/unigram_nfc", 200);
}

/* An added token that is a single word is one only where no letter, digit or mark is beside it. */
/* verifies formats-3.2920 */
static void added_tokens_that_are_single_words(void **state)
{
    (void)state;
    compare_texts("tests/golden/tokenizers/single_words", 300);
}

/* BERT's normalizer takes its classes from an older Unicode than other tables have. */
/* verifies formats-3.2920 */
static void characters_that_unicode_assigned_later(void **state)
{
    (void)state;
    compare_texts("tests/golden/tokenizers/bert_uncased", 100);
}

/* A test of the tokenizer in a folder, whose digests have this place. */
#define COMPARES(name, folder_, place)                                                             \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        compare("tests/golden/tokenizers/" folder_, place);                                        \
    }

/* verifies formats-3.2920 */
COMPARES(gpt2_files, "gpt2_small", 0)
/* verifies formats-3.2920 */
COMPARES(llama3, "llama3", 1)
/* verifies formats-3.2920 */
COMPARES(qwen2, "qwen2", 2)
/* verifies formats-3.2920 */
COMPARES(llama2, "llama2", 3)
/* verifies formats-3.2920 */
COMPARES(metaspace, "metaspace", 4)
/* verifies formats-3.2920 */
COMPARES(bert_uncased, "bert_uncased", 5)
/* verifies formats-3.2920 */
COMPARES(bert_cased, "bert_cased", 6)
/* verifies formats-3.2920 */
COMPARES(smollm, "smollm", 7)
/* verifies formats-3.2920 */
COMPARES(unigram, "unigram", 9)
/* verifies formats-3.2920 */
COMPARES(unigram_strip, "unigram_strip", 10)
/* verifies formats-3.2920 */
COMPARES(unigram_bytes, "unigram_bytes", 11)
/* verifies formats-3.2920 */
COMPARES(gemma, "gemma", 12)
/* verifies formats-3.2920 */
COMPARES(tekken, "tekken", 13)
/* verifies formats-3.2920 */
COMPARES(gpt4o, "gpt4o", 14)
/* verifies formats-3.2920 */
COMPARES(phi4, "phi4", 15)

/* Against SentencePiece. */
/* verifies formats-3.2920 */
COMPARES(spm_unigram, "spm_unigram", 16)
/* verifies formats-3.2920 */
COMPARES(spm_bytes, "spm_bytes", 17)
/* verifies formats-3.2920 */
COMPARES(spm_bpe, "spm_bpe", 18)
/* verifies formats-3.2920 */
COMPARES(spm_bpe_map, "spm_bpe_map", 19)

/* Against tiktoken. */
/* verifies formats-3.2920 */
COMPARES(tekken_own, "tekken_own", 20)
/* verifies formats-3.2920 */
COMPARES(llama3_own, "llama3_own", 22)

/* Against SentencePiece, with the ids that XLM-R's tokenizer makes of its pieces. */
/* verifies formats-3.2920 */
COMPARES(xlmr_own, "xlmr_own", 21)

/* The folder with OpenAI's vocab.json and merges.txt, if there is one on this machine. */
static const char *gpt2_folder(void)
{
    const char *path = getenv("BP_GPT2_DIR");
    if (path == NULL) {
        print_message("skipped: BP_GPT2_DIR names no folder with GPT-2's vocab.json and "
                      "merges.txt\n");
        skip();
    }
    return path;
}

/* verifies formats-3.2920 */
static void gpt2(void **state)
{
    (void)state;
    compare(gpt2_folder(), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_tokens_of_the_same_bytes),
        cmocka_unit_test(added_tokens_that_are_single_words),
        cmocka_unit_test(words_that_end_with_a_mark),
        cmocka_unit_test(unigram_behind_normal_forms),
        cmocka_unit_test(characters_that_unicode_assigned_later),
        cmocka_unit_test(gpt2_files),
        cmocka_unit_test(llama3),
        cmocka_unit_test(qwen2),
        cmocka_unit_test(llama2),
        cmocka_unit_test(metaspace),
        cmocka_unit_test(bert_uncased),
        cmocka_unit_test(bert_cased),
        cmocka_unit_test(smollm),
        cmocka_unit_test(unigram),
        cmocka_unit_test(unigram_strip),
        cmocka_unit_test(unigram_bytes),
        cmocka_unit_test(gemma),
        cmocka_unit_test(tekken),
        cmocka_unit_test(gpt4o),
        cmocka_unit_test(phi4),
        cmocka_unit_test(spm_unigram),
        cmocka_unit_test(spm_bytes),
        cmocka_unit_test(spm_bpe),
        cmocka_unit_test(spm_bpe_map),
        cmocka_unit_test(tekken_own),
        cmocka_unit_test(xlmr_own),
        cmocka_unit_test(llama3_own),
        cmocka_unit_test(gpt2),
        cmocka_unit_test(pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
