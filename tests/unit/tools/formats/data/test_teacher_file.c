/* SPDX-License-Identifier: MIT */
/* Files of what a teacher says: written and read, faults of the medium, damage of every byte and
 * length, and headers and rows that a digest does not guard, as whoever made them could. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/base/digest.h"
#include "core/ops/storage_format.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/teacher_file.h"

enum { ROWS = 3, SEQUENCE = 4, TOP = 2, WORDS = 11, SAID = 9, NUMBERS = SEQUENCE * TOP };
enum { HEAD = sizeof(bp_teacher_head), ROW = 16 + 8 * NUMBERS, WHOLE = HEAD + ROWS * ROW };

static const char path[] = "said";
static const uint32_t inputs_of[ROWS] = {4, 4, 3};

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    bp_error error;
    bp_teacher_file file;
    uint64_t row[ROW / 8];
    bool other; /* the last number of the last row but one is another */
} fixture;

static void fixture_begin(fixture *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
}

static void fixture_end(fixture *d)
{
    bp_teacher_file_close(&d->file);
    bp_teacher_file_close(&d->file);
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
}

static bp_teacher_head head_of(void)
{
    return (bp_teacher_head){.data = 1,
                             .tokenizer = 2,
                             .teacher = 3,
                             .rows = ROWS,
                             .vocabulary = WORDS,
                             .sequence = SEQUENCE,
                             .top_k = TOP,
                             .packed = 1,
                             .words = SAID};
}

static int32_t token_of(uint32_t row, uint32_t place)
{
    return (int32_t)(row * 5 + place) % WORDS;
}

static void tokens_of(uint32_t row, int32_t tokens[SEQUENCE])
{
    for (uint32_t t = 0; t < SEQUENCE; t++) {
        tokens[t] = token_of(row, t);
    }
}

/* What is said of a row, with numbers behind its end that must not be written. */
static void fill_row(fixture *d, uint32_t row)
{
    int32_t *tops = bp_teacher_tops(d->row);
    float *logps = bp_teacher_logps(&d->file.head, d->row);
    for (uint32_t i = 0; i < NUMBERS; i++) {
        tops[i] = (int32_t)(row + i) % WORDS;
        logps[i] = -0.25f * (float)(i % TOP);
    }
}

static void file_begin(fixture *d)
{
    bp_teacher_file_close(&d->file);
    d->error = (bp_error){.code = BP_OK};
    d->file = (bp_teacher_file){.store = &d->faulty.store, .path = path, .error = &d->error};
}

static bp_status write_file(fixture *d)
{
    file_begin(d);
    d->file.head = head_of();
    d->file.head.words = 0;
    bp_status status = bp_teacher_file_begin(&d->file);
    for (uint32_t r = 0; r < ROWS && status == BP_OK; r++) {
        int32_t tokens[SEQUENCE];
        tokens_of(r, tokens);
        fill_row(d, r);
        if (d->other && r == 1) {
            bp_teacher_logps(&d->file.head, d->row)[NUMBERS - 1] = -3.0f;
        }
        status = bp_teacher_file_write(&d->file, r, tokens, inputs_of[r], d->row);
    }
    status = status == BP_OK ? bp_teacher_file_end(&d->file) : status;
    bp_teacher_file_close(&d->file);
    return status;
}

static bp_status open_file(fixture *d)
{
    file_begin(d);
    return bp_teacher_file_open(&d->file);
}

static bp_status read_row(fixture *d, uint32_t row, uint64_t vocabulary)
{
    int32_t tokens[SEQUENCE];
    tokens_of(row, tokens);
    return bp_teacher_file_read(&d->file, row, tokens, inputs_of[row], vocabulary, d->row);
}

/* Opens the file and reads all of it. */
static bp_status read_file(fixture *d)
{
    bp_status status = open_file(d);
    status = status == BP_OK ? bp_teacher_file_check(&d->file) : status;
    for (uint32_t r = 0; r < ROWS && status == BP_OK; r++) {
        status = read_row(d, r, WORDS);
    }
    return status;
}

static unsigned char *bytes_of(fixture *d)
{
    size_t size;
    unsigned char *bytes = memory_store_bytes(&d->memory, path, &size);
    assert_int_equal(size, WHOLE);
    return bytes;
}

/* verifies layers-34.5c43 */
static void what_is_written_is_read(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    assert_int_equal(write_file(&d), BP_OK);
    assert_int_equal(bp_teacher_file_bytes(&d.file.head), WHOLE);
    assert_int_equal(open_file(&d), BP_OK);
    bp_teacher_head wanted = head_of();
    wanted.content = d.file.head.content;
    assert_int_not_equal(wanted.content, 0);
    assert_int_equal(bp_teacher_file_check(&d.file), BP_OK);
    assert_memory_equal(&d.file.head.data, &wanted.data, HEAD - offsetof(bp_teacher_head, data));
    for (uint32_t r = ROWS; r-- > 0;) {
        assert_int_equal(read_row(&d, r, WORDS), BP_OK);
        const int32_t *tops = bp_teacher_tops(d.row);
        const float *logps = bp_teacher_logps(&d.file.head, d.row);
        for (uint32_t i = 0; i < NUMBERS; i++) {
            const bool there = i < inputs_of[r] * TOP;
            assert_int_equal(tops[i], there ? (int32_t)(r + i) % WORDS : 0);
            const float logp = there ? -0.25f * (float)(i % TOP) : 0.0f;
            assert_memory_equal(&logps[i], &logp, sizeof logp);
        }
    }
    fixture_end(&d);
}

/* Every call of the medium fails once: what stood there stays, and nothing beside it. */
/* verifies layers-34.5c43 */
static void faults_are_reported(void **state)
{
    (void)state;
    static const struct {
        fault_kind kind;
        uint32_t calls;
        bool reads;
        bp_status status;
    } faults[] = {{FAULT_OPEN_WRITE, 1, false, BP_ERR_STORE},
                  {FAULT_WRITE_AT, ROWS + 1, false, BP_ERR_STORE},
                  {FAULT_SYNC, 1, false, BP_ERR_STORE},
                  {FAULT_CLOSE, 1, false, BP_ERR_STORE},
                  {FAULT_RENAME, 1, false, BP_ERR_STORE},
                  {FAULT_OPEN_READ, 1, true, BP_ERR_STORE},
                  {FAULT_EXISTS, 1, true, BP_OK},
                  {FAULT_FILE_SIZE, 1, true, BP_ERR_STORE},
                  {FAULT_READ_AT, 2 * ROWS + 1, true, BP_ERR_STORE}};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        for (uint32_t n = 1; n <= faults[i].calls; n++) {
            fixture d;
            fixture_begin(&d);
            if (faults[i].reads) {
                assert_int_equal(write_file(&d), BP_OK);
            } else {
                memory_store_put(&d.memory, path, "old", 3);
            }
            faulty_store_arm(&d.faulty, faults[i].kind, n, false);
            assert_int_equal(faults[i].reads ? read_file(&d) : write_file(&d), faults[i].status);
            assert_int_equal(d.error.code, faults[i].status);
            if (!faults[i].reads) {
                size_t size;
                assert_memory_equal(memory_store_bytes(&d.memory, path, &size), "old", 3);
                assert_int_equal(size, 3);
                assert_null(memory_store_bytes(&d.memory, "said.tmp", &size));
            }
            fixture_end(&d);
        }
    }
}

/* verifies layers-34.5c43 */
static void damage_is_refused(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    assert_int_equal(write_file(&d), BP_OK);
    for (size_t i = 0; i < WHOLE; i++) {
        bytes_of(&d)[i] ^= (unsigned char)(1u << i % 8);
        assert_int_equal(read_file(&d), BP_ERR_DATA);
        assert_string_equal(d.error.name, path);
        bytes_of(&d)[i] ^= (unsigned char)(1u << i % 8);
    }
    assert_int_equal(read_file(&d), BP_OK);
    static unsigned char copy[WHOLE + 1];
    memcpy(copy, bytes_of(&d), WHOLE);
    for (size_t length = 0; length <= WHOLE + 1; length++) {
        bp_teacher_file_close(&d.file);
        memory_store_put(&d.memory, path, copy, length);
        assert_int_equal(read_file(&d), length == WHOLE ? BP_OK : BP_ERR_DATA);
    }
    fixture_end(&d);
}

/* Headers with the digest they should have. */
static bp_status judge_head(fixture *d, const bp_teacher_head *head)
{
    bp_teacher_head made = *head;
    made.digest = bp_digest_of(&made.data, HEAD - offsetof(bp_teacher_head, data), 0);
    memcpy(made.magic, "BPTEACH2", sizeof made.magic);
    bp_teacher_file_close(&d->file);
    memcpy(bytes_of(d), &made, HEAD);
    return open_file(d);
}

/* verifies layers-34.5c43 */
static void headers_that_cannot_be_are_refused(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    assert_int_equal(write_file(&d), BP_OK);
    bp_teacher_head head = head_of();
    assert_int_equal(judge_head(&d, &head), BP_OK);
#define WRONG(change)                                                                              \
    head = head_of();                                                                              \
    head.change;                                                                                   \
    assert_int_equal(judge_head(&d, &head), BP_ERR_DATA)
    WRONG(sequence = 0);
    assert_non_null(strstr(d.error.text, "header"));
    WRONG(top_k = 0);
    assert_non_null(strstr(d.error.text, "header"));
    WRONG(top_k = BP_DISTILL_MOST + 1);
    head.vocabulary = 1000;
    assert_int_equal(judge_head(&d, &head), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "header"));
    WRONG(vocabulary = TOP - 1);
    assert_non_null(strstr(d.error.text, "header"));
    WRONG(vocabulary = UINT64_C(1) << 31);
    assert_non_null(strstr(d.error.text, "header"));
    WRONG(words = WORDS + 1);
    assert_non_null(strstr(d.error.text, "header"));
    WRONG(packed = 2);
    assert_non_null(strstr(d.error.text, "header"));
    WRONG(rows = ROWS + 1);
    assert_non_null(strstr(d.error.text, "not complete"));
    assert_int_equal(d.error.found, WHOLE);
    assert_int_equal(d.error.wanted, WHOLE + ROW);
    WRONG(rows = UINT64_MAX);
    assert_non_null(strstr(d.error.text, "not complete"));
    WRONG(sequence = UINT32_MAX);
    assert_non_null(strstr(d.error.text, "not complete"));
#undef WRONG
    fixture_end(&d);
}

/* Puts numbers where a row has those of its second place, with the digest they should have. */
static bp_status judge_place(fixture *d, uint32_t row, int32_t token, float logp)
{
    unsigned char *at = bytes_of(d) + HEAD + row * ROW;
    memcpy(d->row, at, ROW);
    bp_teacher_tops(d->row)[TOP] = token;
    bp_teacher_logps(&d->file.head, d->row)[TOP] = logp;
    bp_digest digest;
    bp_digest_begin(&digest, 0);
    bp_digest_add(&digest, d->row, 8);
    bp_digest_add(&digest, d->row + 2, ROW - 16);
    d->row[1] = bp_digest_end(&digest);
    memcpy(at, d->row, ROW);
    d->error = (bp_error){.code = BP_OK};
    return read_row(d, row, WORDS);
}

/* verifies layers-34.5c43 */
static void rows_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const float wrong[] = {1e-6f, -INFINITY, INFINITY, NAN};
    fixture d;
    fixture_begin(&d);
    assert_int_equal(write_file(&d), BP_OK);
    assert_int_equal(open_file(&d), BP_OK);
    assert_int_equal(judge_place(&d, 1, SAID - 1, -3e38f), BP_OK);
    assert_int_equal(judge_place(&d, 1, 0, 0.0f), BP_OK);
    assert_int_equal(judge_place(&d, 1, -1, -1.0f), BP_ERR_DATA);
    assert_int_equal(d.error.found, 2); /* the row, from 1 on */
    assert_int_equal(judge_place(&d, 1, WORDS, -1.0f), BP_ERR_DATA);
    assert_int_equal(judge_place(&d, 1, 1 + TOP + 1, -1.0f), BP_ERR_DATA); /* twice */
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(judge_place(&d, 1, SAID - 1, wrong[i]), BP_ERR_DATA);
        assert_non_null(strstr(d.error.text, "is impossible"));
    }
    assert_int_equal(judge_place(&d, 1, SAID - 1, -1.0f), BP_OK);
    d.error = (bp_error){.code = BP_OK};
    assert_int_equal(read_row(&d, 1, SAID - 1), BP_ERR_DATA);       /* a smaller model lacks it */
    assert_int_equal(judge_place(&d, 1, SAID, -1.0f), BP_ERR_DATA); /* the header knows of none */
    fixture_end(&d);
}

/* A row that is whole, and of its tokens, but not the one that the header was made of; and no file
 * at all, and a path without room for what is written beside. */
/* verifies layers-34.5c43 */
static void other_files_are_reported(void **state)
{
    (void)state;
    static unsigned char row[ROW];
    static char longer[BP_STORE_PATH_MAX];
    fixture d;
    fixture_begin(&d);
    assert_int_equal(write_file(&d), BP_OK);
    const uint64_t first = d.file.head.digest;
    memcpy(row, bytes_of(&d) + HEAD + ROW, ROW);
    assert_int_equal(open_file(&d), BP_OK);
    assert_int_equal(judge_place(&d, 1, 0, 0.0f), BP_OK);
    assert_int_equal(bp_teacher_file_check(&d.file), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "its rows differ from"));
    memcpy(bytes_of(&d) + HEAD + ROW, row, ROW);
    assert_int_equal(read_file(&d), BP_OK);
    d.other = true; /* one number of one row: another file */
    assert_int_equal(write_file(&d), BP_OK);
    assert_int_not_equal(d.file.head.digest, first);
    memory_store_free(&d.memory);
    memory_store_init(&d.memory);
    assert_int_equal(open_file(&d), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "does not exist"));
    memset(longer, 'x', sizeof longer - 1);
    file_begin(&d);
    d.file.path = longer;
    assert_int_equal(bp_teacher_file_begin(&d.file), BP_ERR_USAGE);
    fixture_end(&d);
}

/* verifies layers-34.5c43 */
static void other_tokens_are_refused(void **state)
{
    (void)state;
    fixture d;
    int32_t tokens[SEQUENCE];
    fixture_begin(&d);
    assert_int_equal(write_file(&d), BP_OK);
    assert_int_equal(open_file(&d), BP_OK);
    tokens_of(2, tokens);
    tokens[3] = 10; /* behind the row's end: nobody reads it */
    assert_int_equal(bp_teacher_file_read(&d.file, 2, tokens, 3, WORDS, d.row), BP_OK);
    tokens[2] ^= 1;
    assert_int_equal(bp_teacher_file_read(&d.file, 2, tokens, 3, WORDS, d.row), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "other tokens than the data"));
    assert_int_equal(d.error.found, 3);
    fixture_end(&d);
}

/* verifies layers-34.5c43 */
static void a_teacher_without_numbers_is_refused(void **state)
{
    (void)state;
    fixture d;
    int32_t tokens[SEQUENCE];
    fixture_begin(&d);
    file_begin(&d);
    d.file.head = head_of();
    assert_int_equal(bp_teacher_file_begin(&d.file), BP_OK);
    tokens_of(0, tokens);
    fill_row(&d, 0);
    bp_teacher_logps(&d.file.head, d.row)[NUMBERS - 1] = NAN;
    assert_int_equal(bp_teacher_file_write(&d.file, 0, tokens, SEQUENCE - 1, d.row), BP_OK);
    fill_row(&d, 0);
    bp_teacher_logps(&d.file.head, d.row)[NUMBERS - 1] = NAN;
    assert_int_equal(bp_teacher_file_write(&d.file, 0, tokens, SEQUENCE, d.row), BP_ERR_NONFINITE);
    assert_int_equal(d.error.found, 1);
    fixture_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(faults_are_reported),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(headers_that_cannot_be_are_refused),
        cmocka_unit_test(rows_that_cannot_be_are_refused),
        cmocka_unit_test(other_files_are_reported),
        cmocka_unit_test(other_tokens_are_refused),
        cmocka_unit_test(a_teacher_without_numbers_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
