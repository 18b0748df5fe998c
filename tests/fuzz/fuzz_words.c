/* SPDX-License-Identifier: MIT */
/* libFuzzer target: sentences of tagged words and questions about texts, of any bytes, through
 * windows of several sizes, must come to one answer. The first byte says what it is: q is
 * questions, j is JSON of words, anything else columns. */
#include "tests/fuzz/one_file.h"
#include "tools/formats/data/data_squad.h"
#include "tools/formats/data/data_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* What a reading gave, as a number that depends on all of it but not on how it was cut. */
static void words_take(uint64_t *sum, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *sum = (*sum ^ ((const uint8_t *)bytes)[i]) * 0x9e3779b97f4a7c15u;
    }
    *sum = (*sum ^ count) * 0x9e3779b97f4a7c15u;
}

static void take_list(uint64_t *sum, const bp_word_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->at[i] > list->at[i + 1] || list->at[i + 1] > BP_WORDS_TEXT) {
            abort();
        }
        words_take(sum, list->text + list->at[i], list->at[i + 1] - list->at[i]);
    }
}

static bp_status take_sentence(void *user, bp_data_reader *reader, const bp_sentence *sentence)
{
    if (reader->line > reader->size + 1 || sentence->words.count == 0 ||
        (sentence->tags.count != 0 && sentence->tags.count != sentence->words.count)) {
        abort();
    }
    take_list(user, &sentence->words);
    take_list(user, &sentence->tags);
    return BP_OK;
}

static bp_status take_question(void *user, bp_data_reader *reader, const bp_question *q)
{
    (void)reader;
    words_take(user, q->id, q->id_length);
    words_take(user, q->question, q->question_length);
    words_take(user, q->context, q->context_length);
    if (q->answers > BP_SQUAD_ANSWERS || q->answer_at[q->answers] > BP_SQUAD_QUESTION) {
        abort();
    }
    words_take(user, q->answer, q->answer_at[q->answers]);
    words_take(user, q->begins, q->answers * sizeof q->begins[0]);
    return BP_OK;
}

/* Reads all of it through a window of so many bytes. */
static bp_status fuzz_words_read(bp_store *store, uint8_t kind, size_t window, uint64_t *sum)
{
    static uint64_t squad_scratch[BP_SQUAD_SCRATCH / 8 + 1];
    static uint64_t words_scratch[BP_WORDS_SCRATCH / 8 + 1];
    static unsigned char buffer[4096];
    bp_error error = {.code = BP_OK};
    bp_data_reader reader = {.store = store,
                             .file = {1},
                             .path = "fuzz",
                             .buffer = buffer,
                             .capacity = window,
                             .error = &error};
    bp_squad squad = {.user = sum, .question = take_question, .may_lack = true};
    bp_words words = {.user = sum, .sentence = take_sentence, .may_lack = true};
    *sum = 1;
    bp_status status = bp_data_reader_begin(&reader);
    if (status == BP_OK && kind == 'q') {
        status = bp_squad_read(&squad, &reader, squad_scratch);
    } else if (status == BP_OK) {
        status = bp_words_read(&words, &reader, kind == 'j' ? BP_DATA_JSONL : BP_DATA_TEXT,
                               words_scratch);
    }
    if ((status == BP_OK) != (error.code == BP_OK) ||
        (status != BP_OK && strncmp(error.name, "fuzz", 4) != 0)) {
        abort(); /* a refusal names the file */
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const size_t windows[] = {4096, 1, 7, 64};
    const uint8_t kind = size > 0 ? bytes[0] : 0;
    const size_t skipped = size > 0 ? 1 : 0;
    one_file one;
    bp_store store = one_store(&one, bytes + skipped, size - skipped);
    uint64_t first, sum;
    const bp_status status = fuzz_words_read(&store, kind, windows[0], &first);
    for (size_t i = 1; i < sizeof windows / sizeof windows[0]; i++) {
        if (fuzz_words_read(&store, kind, windows[i], &sum) != status ||
            (status == BP_OK && sum != first)) {
            abort();
        }
    }
    return 0;
}
