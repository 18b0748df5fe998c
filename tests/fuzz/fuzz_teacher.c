/* SPDX-License-Identifier: MIT */
/* libFuzzer target: files of what a teacher says, as they are, and with the digests that they
 * should have, so that what lies behind is met. What is taken is of the model's tokens. */
#include "core/base/digest.h"
#include "tests/fuzz/one_file.h"
#include "tools/formats/data/teacher_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { TEACHER_WORDS = 300, TEACHER_ROW = 1 << 16, TEACHER_HEAD = sizeof(bp_teacher_head) };

static uint8_t teacher_copy[1 << 20];
static int32_t teacher_tokens[TEACHER_ROW / 8];

static void teacher_row(const bp_teacher_head *head, uint32_t inputs, uint64_t *row)
{
    const int32_t *tops = bp_teacher_tops(row);
    const float *logps = bp_teacher_logps(head, row);
    for (uint64_t i = 0; i < (uint64_t)inputs * head->top_k; i++) {
        if (tops[i] < 0 || tops[i] >= TEACHER_WORDS || !(logps[i] <= 0.0f)) {
            abort();
        }
    }
}

/* Reads the rows' digests, and the first rows. */
static void teacher_file(const uint8_t *bytes, size_t size)
{
    one_file one;
    bp_store store = one_store(&one, bytes, size);
    static uint64_t row[TEACHER_ROW / 8];
    bp_error error = {.code = BP_OK};
    bp_teacher_file file = {.store = &store, .path = "t", .error = &error};
    bp_status status = bp_teacher_file_open(&file);
    const bp_teacher_head *head = &file.head;
    if (status != error.code || (status != BP_OK && status != BP_ERR_DATA)) {
        abort();
    }
    if (status == BP_OK) {
        status = bp_teacher_file_check(&file);
        if (status != error.code || (status != BP_OK && status != BP_ERR_DATA)) {
            abort();
        }
    }
    const bool small = status == BP_OK && bp_teacher_row_bytes(head) <= TEACHER_ROW;
    for (uint64_t i = 0; small && i < head->rows && i < 16; i++) {
        const uint32_t inputs = head->sequence - (i > 0 ? head->sequence / 2 : 0);
        error = (bp_error){.code = BP_OK};
        status = bp_teacher_file_read(&file, i, teacher_tokens, inputs, TEACHER_WORDS, row);
        if (status == BP_OK) {
            teacher_row(head, inputs, row);
        } else if (status != BP_ERR_DATA) {
            abort();
        }
    }
    bp_teacher_file_close(&file);
    if (one.open != 0) {
        abort();
    }
}

/* As one who writes the digests over bytes of his own would: all rows have those of zeros. */
static void teacher_digests(uint8_t *bytes, size_t size)
{
    bp_teacher_head head;
    if (size < TEACHER_HEAD) {
        return;
    }
    memcpy(&head, bytes, TEACHER_HEAD);
    bp_digest content;
    bp_digest_begin(&content, 0);
    const uint64_t row = head.top_k - 1u < 200u ? bp_teacher_row_bytes(&head) : UINT64_MAX;
    for (uint64_t at = TEACHER_HEAD; row <= TEACHER_ROW && at + row <= size; at += row) {
        const uint32_t inputs = head.sequence - (at > TEACHER_HEAD ? head.sequence / 2 : 0);
        uint64_t digests[2] = {bp_digest_of(teacher_tokens, inputs * sizeof *teacher_tokens, 0), 0};
        bp_digest said;
        bp_digest_begin(&said, 0);
        bp_digest_add(&said, digests, sizeof digests[0]);
        bp_digest_add(&said, bytes + at + sizeof digests, (size_t)row - sizeof digests);
        digests[1] = bp_digest_end(&said);
        memcpy(bytes + at, digests, sizeof digests);
        bp_digest_add(&content, &digests[1], sizeof digests[1]);
    }
    memcpy(head.magic, "BPTEACH2", sizeof head.magic);
    head.content = bp_digest_end(&content);
    head.digest = bp_digest_of(&head.data, TEACHER_HEAD - offsetof(bp_teacher_head, data), 0);
    memcpy(bytes, &head, TEACHER_HEAD);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    teacher_file(bytes, size);
    if (size <= sizeof teacher_copy) {
        memcpy(teacher_copy, bytes, size);
        teacher_digests(teacher_copy, size);
        teacher_file(teacher_copy, size);
    }
    return 0;
}
