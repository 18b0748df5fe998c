/* SPDX-License-Identifier: MIT */
/* How fast a tokenizer encodes, on one core: the whole file, streamed, as often as a second takes.
 * Prints tokens, their XXH64 as uint32 little-endian, bytes of memory and MB/s; with --ids the ids
 * of one run, one a line, and with --decode what they decode to.
 *
 *     build/release/tools/bench/tokenize DIR FILE [--piece BYTES] [--word BYTES] [--ids | --decode]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/digest.h"
#include "device/host/storage/store_posix.h"
#include "tools/formats/text/tokenizer.h"

typedef enum mode { MODE_BENCH, MODE_IDS, MODE_DECODE } mode;

typedef struct bench {
    bp_tokenizer tokenizer;
    bp_encoder encoder;
    bp_decoder decoder;
    bp_digest digest;
    unsigned char *text;
    size_t length;
    size_t piece;
    uint32_t word_bytes;
    uint64_t tokens;
    uint64_t memory;
    mode mode;
} bench;

static void fail(const char *what, const bp_error *error)
{
    fprintf(stderr, "tokenize: %s: %s: %s\n", what, error->name,
            error->text != NULL ? error->text : "");
    exit(1);
}

static void *memory_of(bench *b, uint64_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (size_t)bytes) != 0) {
        exit(1);
    }
    b->memory += bytes;
    return memory;
}

static void open_tokenizer(bench *b, const char *directory)
{
    static uint64_t scratch[BP_TOKENIZER_SCRATCH / 8];
    bp_store_posix posix;
    bp_store *store = &posix.store;
    bp_error error = {.code = BP_OK};
    bp_tokenizer_need need;
    if (bp_store_posix_init(&posix, "") != BP_OK ||
        bp_tokenizer_measure(store, directory, scratch, &need, &error) != BP_OK ||
        need.files == BP_TOKENIZER_NONE ||
        bp_tokenizer_open(&b->tokenizer, store, directory, &need, memory_of(b, need.bytes), scratch,
                          &error) != BP_OK) {
        fail(directory, &error);
    }
    uint64_t bytes = bp_encoder_bytes(b->word_bytes);
    if (bp_encoder_init(&b->encoder, &b->tokenizer, b->word_bytes, memory_of(b, bytes)) != BP_OK) {
        exit(1);
    }
}

static void read_text(bench *b, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    b->length = (size_t)ftell(file);
    rewind(file);
    b->text = malloc(b->length + 1);
    if (b->text == NULL || fread(b->text, 1, b->length, file) != b->length) {
        exit(1);
    }
    fclose(file);
}

static void take_ids(bench *b, const uint32_t *ids, size_t count)
{
    b->tokens += count;
    bp_digest_add(&b->digest, ids, count * sizeof *ids);
    for (size_t i = 0; i < count && b->mode != MODE_BENCH; i++) {
        char bytes[BP_TOKENIZER_DECODED_MAX];
        size_t length;
        if (b->mode == MODE_IDS) {
            printf("%" PRIu32 "\n", ids[i]);
        } else if (bp_decoder_next(&b->decoder, &b->tokenizer, ids[i], bytes, &length) == BP_OK) {
            fwrite(bytes, 1, length, stdout);
        }
    }
}

static void encode(bench *b)
{
    static uint32_t ids[16384];
    size_t written;
    size_t used;
    bool more = true;
    b->tokens = 0;
    bp_digest_begin(&b->digest, 0);
    bp_encoder_begin(&b->encoder, BP_ENCODE_PLAIN);
    for (size_t at = 0; at < b->length; at += used) {
        size_t count = b->length - at < b->piece ? b->length - at : b->piece;
        bp_encoder_feed(&b->encoder, b->text + at, count, ids, 16384, &used, &written);
        take_ids(b, ids, written);
    }
    while (more) {
        more = bp_encoder_end(&b->encoder, ids, 16384, &written);
        take_ids(b, ids, written);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void measure(bench *b)
{
    double best = 1e30;
    double spent = 0.0;
    do {
        double start = now();
        encode(b);
        double seconds = now() - start;
        best = seconds < best ? seconds : best;
        spent += seconds;
    } while (spent < 1.0);
    printf("bytes %zu tokens %" PRIu64 " digest %016" PRIx64 " cut %" PRIu64 " memory %" PRIu64
           " MB/s %.1f\n",
           b->length, b->tokens, bp_digest_end(&b->digest), b->encoder.cut, b->memory,
           (double)b->length / best / 1e6);
}

int main(int count, char **words)
{
    static bench b = {.piece = 65536, .word_bytes = BP_ENCODER_WORD_BYTES};
    if (count < 3) {
        fputs("tokenize DIR FILE [--piece BYTES] [--word BYTES] [--ids | --decode]\n", stderr);
        return 2;
    }
    for (int i = 3; i < count; i++) {
        if (strcmp(words[i], "--piece") == 0 && i + 1 < count) {
            b.piece = (size_t)strtoull(words[++i], NULL, 10);
        } else if (strcmp(words[i], "--word") == 0 && i + 1 < count) {
            b.word_bytes = (uint32_t)strtoul(words[++i], NULL, 10);
        } else {
            b.mode = strcmp(words[i], "--ids") == 0 ? MODE_IDS : MODE_DECODE;
        }
    }
    open_tokenizer(&b, words[1]);
    read_text(&b, words[2]);
    if (b.mode == MODE_BENCH) {
        measure(&b);
    } else {
        encode(&b);
    }
    free(b.text);
    return 0;
}
