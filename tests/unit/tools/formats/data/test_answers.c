/* SPDX-License-Identifier: MIT */
/* Questions to windows: ids, types and where answers lie are those of transformers
 * (tools/golden/answers.py); comparing answers by SQuAD's rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/disk_file.h"
#include "tests/fixtures/formats/golden_words.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/answer_score.h"
#include "tools/formats/data/data_answers.h"

enum { LENGTH = 40, STRIDE = 9, LINE = 4096 };

typedef struct fixture {
    golden_words words;
    void *scratch, *offsets;
    memory_store store;
    bp_error error;
    bp_data data;
    bp_tokens tokens;
} fixture;

static void fixture_begin(fixture *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->store);
    assert_int_equal(posix_memalign(&d->scratch, 64, BP_ANSWERS_SCRATCH), 0);
    d->offsets = malloc((size_t)bp_encoder_offsets_bytes());
    golden_words_open(&d->words, "tests/golden/tokenizers/bert_uncased");
}

static void fixture_end(fixture *d)
{
    bp_tokens_close(&d->tokens);
    assert_int_equal(d->store.open_files, 0);
    memory_store_free(&d->store);
    golden_words_close(&d->words);
    free(d->scratch);
    free(d->offsets);
}

static bp_answers work_of(fixture *d)
{
    return (bp_answers){.data = &d->data,
                        .path = "tokens",
                        .encoder = &d->words.encoder,
                        .vocabulary = d->words.need.tokens,
                        .sequence = LENGTH,
                        .stride = STRIDE,
                        .scratch = d->scratch,
                        .offsets = d->offsets,
                        .error = &d->error};
}

/* "ID ID .. | SECOND FIRST LAST" against an example. */
static void compare_line(fixture *d, char *line, uint64_t index)
{
    bp_example row;
    int32_t ids[LENGTH];
    bp_source *source = &d->tokens.source;
    assert_int_equal(source->example(source, index, &row), BP_OK);
    assert_int_equal(source->read(source, row.first, (uint32_t)row.count, ids), BP_OK);
    char *end = strchr(line, '|');
    assert_non_null(end);
    *end = '\0';
    uint32_t count = 0;
    for (char *at = strtok(line, " "); at != NULL; at = strtok(NULL, " ")) {
        assert_true(count < row.count);
        assert_int_equal(ids[count++], atoi(at));
    }
    assert_int_equal(count, row.count);
    int second, first, last;
    assert_int_equal(sscanf(end + 1, "%d %d %d", &second, &first, &last), 3);
    assert_int_equal(row.second, second);
    assert_int_equal(row.label & 0xffff, first);
    assert_int_equal(row.label >> 16 & 0xffff, last);
}

/* Whether questions may have no answer is what the data has. */
/* verifies formats-22.c8a1 */
static void each_question_has_an_answer(void **state)
{
    (void)state;
    static const char text[] =
        "{\"context\": \"a b c\", \"question\": \"a\", \"answers\": {\"text\": [\"b\"], "
        "\"answer_start\": [2]}}\n";
    fixture d;
    fixture_begin(&d);
    memory_store_put(&d.store, "a.jsonl", text, sizeof text - 1);
    bp_data_file file = {.path = "a.jsonl"};
    assert_int_equal(bp_data_open(&d.data, &d.store.store, &file, 1, BP_DATA_AUTO, &d.error),
                     BP_OK);
    bp_answers work = work_of(&d);
    assert_int_equal(bp_answers_open(&work, &d.tokens), BP_OK);
    assert_int_equal(work.questions, 1);
    assert_int_equal(d.tokens.head.impossible, 0);
    bp_tokens_close(&d.tokens);
    bp_data_close(&d.data);
    fixture_end(&d);
}

/* verifies formats-22.c8a1 */
static void test_windows(void **state)
{
    (void)state;
    fixture d;
    char line[LINE];
    uint64_t index = 0, question = 0;
    fixture_begin(&d);
    disk_file_put(&d.store, "tests/golden/answers/squad.json", "squad.json");
    bp_data_file file = {.path = "squad.json"};
    assert_int_equal(bp_data_open(&d.data, &d.store.store, &file, 1, BP_DATA_AUTO, &d.error),
                     BP_OK);
    for (int again = 0; again < 2; again++) {
        bp_answers work = work_of(&d);
        assert_int_equal(bp_answers_open(&work, &d.tokens), BP_OK);
        assert_int_equal(work.built, again == 0);
        assert_int_equal(work.questions, 27);
        if (again == 0) {
            bp_tokens_close(&d.tokens);
        }
    }
    assert_true(d.tokens.head.impossible == 1 && d.tokens.head.texts == 2);
    FILE *golden = fopen("tests/golden/answers/windows.txt", "r");
    assert_non_null(golden);
    while (fgets(line, sizeof line, golden) != NULL) {
        bp_example row;
        compare_line(&d, line, index);
        assert_int_equal(d.tokens.source.example(&d.tokens.source, index++, &row), BP_OK);
        assert_true(row.label >> 32 == question || row.label >> 32 == question + 1);
        question = row.label >> 32;
    }
    fclose(golden);
    assert_int_equal(index, d.tokens.source.examples);
    assert_int_equal(question, 26);
    bp_data_close(&d.data);
    fixture_end(&d);
}

/* Other rows, another stride, another tokenizer: another file. */
/* verifies formats-22.c8a1 */
static void test_key(void **state)
{
    (void)state;
    static const char text[] = "{\"question\": \"a\", \"context\": \"b c d\", \"answers\": []}\n";
    fixture d;
    fixture_begin(&d);
    memory_store_put(&d.store, "a.jsonl", text, sizeof text - 1);
    bp_data_file file = {.path = "a.jsonl"};
    assert_int_equal(bp_data_open(&d.data, &d.store.store, &file, 1, BP_DATA_AUTO, &d.error),
                     BP_OK);
    for (int i = 0; i < 4; i++) {
        bp_answers work = work_of(&d);
        work.sequence -= i == 1 || i == 2 ? 1 : 0;
        work.stride -= i == 2 ? 1 : 0;
        assert_int_equal(bp_answers_open(&work, &d.tokens), BP_OK);
        assert_true(work.built);
        bp_tokens_close(&d.tokens);
    }
    bp_data_close(&d.data);
    fixture_end(&d);
}

/* An answer that is said to lie behind its context, in part or as a whole, is in no window, as
 * transformers' examples have it: both places are [CLS]. */
/* verifies formats-22.c8a1 */
static void test_beyond(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        uint64_t start;
        uint64_t label;
    } cases[] = {{"d", 4, 5 | 5 << 16},
                 {"dx", 4, 0},
                 {"d", 5, 0},
                 {"d", 1000000, 0},
                 {"b c d", 0, 3 | 5 << 16}};
    fixture d;
    fixture_begin(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[LINE];
        bp_example row;
        snprintf(text, sizeof text,
                 "{\"question\": \"a\", \"context\": \"b c d\", \"answers\": {\"text\": [\"%s\"], "
                 "\"answer_start\": [%d]}}\n",
                 cases[i].answer, (int)cases[i].start);
        memory_store_put(&d.store, "a.jsonl", text, strlen(text));
        bp_data_file file = {.path = "a.jsonl"};
        assert_int_equal(bp_data_open(&d.data, &d.store.store, &file, 1, BP_DATA_AUTO, &d.error),
                         BP_OK);
        bp_answers work = work_of(&d);
        assert_int_equal(bp_answers_open(&work, &d.tokens), BP_OK);
        assert_int_equal(d.tokens.source.example(&d.tokens.source, 0, &row), BP_OK);
        assert_int_equal(row.label & 0xffffffff, cases[i].label);
        bp_tokens_close(&d.tokens);
        bp_data_close(&d.data);
    }
    fixture_end(&d);
}

/* Bytes that tokens were made of, where normalising changes their number. */
/* verifies formats-22.c8a1 */
static void test_offsets(void **state)
{
    (void)state;
    static const char text[] =
        "A  caf\xc3\xa9, e\xcc\x81! [SEP]\xe6\x97\xa5\xe6\x9c\xac x\xc2\xady";
    enum { ROOM = 64 };
    uint32_t ids[ROOM], starts[ROOM], ends[ROOM], plain[ROOM];
    size_t count, same;
    fixture d;
    fixture_begin(&d);
    const bp_encoder_trace to = {ids, starts, ends, ROOM, d.offsets};
    assert_int_equal(bp_encoder_offsets(&d.words.encoder, text, sizeof text - 1, &to, &count),
                     BP_OK);
    bp_encoder_text(&d.words.encoder, text, sizeof text - 1, BP_ENCODE_PLAIN, plain, ROOM, &same);
    assert_int_equal(count, same);
    assert_memory_equal(ids, plain, count * sizeof *ids);
    assert_true(starts[0] == 0 && ends[0] == 1);
    for (size_t i = 0; i < count; i++) {
        assert_true(starts[i] < ends[i] && ends[i] <= sizeof text - 1);
        assert_true(i == 0 || starts[i] >= ends[i - 1]);
        const bool separator = (int64_t)ids[i] == bp_tokenizer_special_of(&d.words.tokenizer)->sep;
        assert_true(!separator || memcmp(text + starts[i], "[SEP]", 5) == 0);
    }
    assert_int_equal(ends[count - 1], sizeof text - 1);
    /* What does not fit is counted. */
    const bp_encoder_trace little = {ids, starts, ends, 2, d.offsets};
    ends[2] = 77;
    assert_int_equal(bp_encoder_offsets(&d.words.encoder, text, sizeof text - 1, &little, &same),
                     BP_OK);
    assert_true(same == count && ends[2] == 77);
    fixture_end(&d);
}

static void check_score(const char *a, const char *b, double exact, double f1)
{
    static bp_plain_answer first, second;
    bp_plain_answer_of(a, strlen(a), &first);
    bp_plain_answer_of(b, strlen(b), &second);
    assert_true(fabs(bp_answer_exact(&first, &second) - exact) < 1e-12);
    assert_true(fabs(bp_answer_f1(&first, &second) - f1) < 1e-12);
    assert_true(fabs(bp_answer_f1(&second, &first) - f1) < 1e-12);
}

/* verifies formats-22.c8a1 */
static void test_scores(void **state)
{
    (void)state;
    check_score("The Cat", "cat", 1, 1);
    check_score("a  cat,  an  DOG!", "cat dog", 1, 1);
    check_score("U.S.A.", "usa", 1, 1);
    check_score("!\"#$%&'()*+,-./x:;<=>?@[\\]^_`{|}~", "x", 1, 1);
    check_score("x\x7f", "x", 0, 0);
    check_score("a1", "1", 0, 0); /* no article */
    check_score("the", "", 1, 1);
    check_score("the", "cat", 0, 0);
    check_score("another theory", "other theory", 0, 0.5);
    check_score("x x y", "x y y", 0, 2.0 / 3);
    check_score("one two three", "three", 0, 0.5);
    check_score("\xc3\x89t\xc3\xa9", "\xc3\xa9t\xc3\xa9", 1, 1);
    check_score("\xe2\x80\x93the\xe2\x80\x93 b", "\xe2\x80\x93 \xe2\x80\x93 b", 1, 1);
    check_score("a\xc2\xa0"
                "b",
                "b", 1, 1);
    /* What is too long is cut, on both sides alike. */
    static char text[2 * BP_ANSWER_BYTES + 1];
    memset(text, 'x', sizeof text - 1);
    check_score(text, text, 1, 1);
}

/* Answers at the ends of a context, questions that leave it little room, tokenizers without pairs.
 */
/* verifies formats-22.c8a1 formats-16.301b */
static void test_room(void **state)
{
    (void)state;
    static const char asks[] = "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c";
    static const struct {
        const char *question, *context, *answer;
        int start, tokenizer; /* 1: not WordPiece, 2: nothing before a pair, 3: types alike */
        bp_status status;
        uint64_t label;
    } cases[] = {
        {"a", "b c d", "b", 0, 0, BP_OK, 3 | 3 << 16},
        {"a", "", "b", 0, 0, BP_OK, 0},
        {asks, "b c d", "b", 0, 0, BP_OK, 31 | 31 << 16},
        {asks, "b c d e f g h i j", "b", 0, 0, BP_ERR_DATA, 0},
        {"a", "b c d", "b", 0, 1, BP_ERR_USAGE, 0},
        {"a", "b c d", "b", 0, 2, BP_ERR_USAGE, 0},
        {"a", "b c d", "b", 0, 3, BP_ERR_USAGE, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[LINE];
        fixture d;
        golden_words other;
        fixture_begin(&d);
        golden_words_open(&other, "tests/golden/tokenizers/llama2");
        snprintf(text, sizeof text,
                 "{\"question\": \"%s\", \"context\": \"%s\", \"answers\": {\"text\": [\"%s\"], "
                 "\"answer_start\": [%d]}}\n",
                 cases[i].question, cases[i].context, cases[i].answer, cases[i].start);
        memory_store_put(&d.store, "a.jsonl", text, strlen(text));
        bp_data_file file = {.path = "a.jsonl"};
        assert_int_equal(bp_data_open(&d.data, &d.store.store, &file, 1, BP_DATA_AUTO, &d.error),
                         BP_OK);
        bp_answers work = work_of(&d);
        work.encoder = cases[i].tokenizer == 1 ? &other.encoder : work.encoder;
        bp_template *pair = &d.words.tokenizer.rules.pair;
        pair->before.count = cases[i].tokenizer == 2 ? 0 : pair->before.count;
        pair->type_b = cases[i].tokenizer == 3 ? 2 : pair->type_b;
        const bp_status status = bp_answers_open(&work, &d.tokens);
        if (status != cases[i].status) {
            fail_msg("%zu: %d %s: %s", i, status, d.error.name, d.error.text);
        }
        if (status == BP_OK) {
            bp_example row;
            assert_int_equal(d.tokens.source.example(&d.tokens.source, 0, &row), BP_OK);
            assert_int_equal(row.label & 0xffffffff, cases[i].label);
        }
        bp_data_close(&d.data);
        golden_words_close(&other);
        fixture_end(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows), cmocka_unit_test(each_question_has_an_answer),
        cmocka_unit_test(test_key),     cmocka_unit_test(test_beyond),
        cmocka_unit_test(test_offsets), cmocka_unit_test(test_scores),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
