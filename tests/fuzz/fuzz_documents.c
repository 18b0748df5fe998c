/* SPDX-License-Identifier: MIT */
/* libFuzzer target: JSON lines and tables of any bytes, through windows of several sizes, must come
 * to one answer. The first byte says what it is: t and c are tables with labels, T, C the same with
 * numbers for labels, l is JSON lines with labels, anything else JSON lines. */
#include "tests/fuzz/one_file.h"
#include "tools/formats/data/data_documents.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* What a reading gave, as a number that depends on all of it but not on how it was cut. */
typedef struct fuzz_taker {
    uint64_t sum;
    int part; /* -1: none yet; -2: no document is open */
} fuzz_taker;

static void take(fuzz_taker *taker, uint64_t value)
{
    taker->sum = (taker->sum ^ value) * 0x9e3779b97f4a7c15u;
}

static bp_status fuzz_begin(void *user, bp_data_reader *reader)
{
    fuzz_taker *taker = user;
    if (taker->part != -2 || reader->line > reader->size + 1) {
        abort();
    }
    taker->part = -1;
    take(taker, 1000 + reader->line);
    return BP_OK;
}

static bp_status fuzz_piece(void *user, bp_document_part part, const char *bytes, size_t count)
{
    fuzz_taker *taker = user;
    if (taker->part == -2 || (int)part < taker->part || count == 0) {
        abort();
    }
    if ((int)part != taker->part) {
        take(taker, 2000 + (uint64_t)part);
    }
    taker->part = (int)part;
    for (size_t i = 0; i < count; i++) {
        take(taker, (unsigned char)bytes[i]);
    }
    return BP_OK;
}

static bp_status fuzz_end(void *user, uint64_t label)
{
    fuzz_taker *taker = user;
    if (taker->part == -2) {
        abort();
    }
    taker->part = -2;
    take(taker, 3000 + label);
    return BP_OK;
}

static uint64_t read_through(bp_store *store, uint8_t kind, size_t window)
{
    static uint64_t scratch[BP_DOCUMENTS_SCRATCH / 8];
    unsigned char buffer[4096];
    bp_error error = {.code = BP_OK};
    fuzz_taker taker = {.part = -2};
    bool csv = kind == 'c' || kind == 'C';
    bool table = csv || kind == 't' || kind == 'T';
    bool labels = table || kind == 'l';
    bp_documents documents = {.user = &taker,
                              .begin = fuzz_begin,
                              .piece = fuzz_piece,
                              .end = fuzz_end,
                              .form = labels ? BP_FORM_LABELLED : BP_FORM_OPEN,
                              .labels =
                                  kind == 'T' || kind == 'C' ? BP_LABELS_BITS : BP_LABELS_CLASS,
                              .classes = 5};
    bp_data_reader reader = {.store = store,
                             .file = {1},
                             .path = "fuzz",
                             .buffer = buffer,
                             .capacity = window,
                             .error = &error};
    bp_status status = bp_data_reader_begin(&reader);
    if (status == BP_OK) {
        bp_data_format format = csv ? BP_DATA_CSV : table ? BP_DATA_TSV : BP_DATA_JSONL;
        status = bp_documents_read(&documents, &reader, format, scratch);
    }
    if (status != error.code || (status != BP_OK && status != BP_ERR_DATA) ||
        (status == BP_OK && taker.part != -2)) {
        abort();
    }
    if (status != BP_OK) {
        taker.sum = 0; /* how much of a bad document came before its fault was seen may differ */
    }
    for (const char *c = error.name; *c != '\0'; c++) {
        take(&taker, (unsigned char)*c); /* the same place */
    }
    return taker.sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const size_t windows[] = {1, 5, 64};
    if (size == 0) {
        return 0;
    }
    one_file one;
    bp_store store = one_store(&one, bytes + 1, size - 1);
    uint64_t whole = read_through(&store, bytes[0], 4096);
    for (size_t i = 0; i < 3; i++) {
        if (read_through(&store, bytes[0], windows[i]) != whole) {
            abort();
        }
    }
    return 0;
}
