/* SPDX-License-Identifier: MIT */
/* What a teacher says of the rows of a data set: of each place its `top_k` likeliest tokens and
 * their log-probabilities, 8 bytes a token, and 16 a row. Numbers as the machine has them:
 *     header, 96 bytes: bp_teacher_head
 *     rows: u64 XXH64 of the tokens that the teacher read, u64 XXH64 of that number and of what
 *         follows, i32 tokens (sequence, top_k), f32 log-probabilities (sequence, top_k); zeros
 *         behind a row's end
 * So the header's digest is one of all that the file says. Written is PATH.tmp, which becomes PATH
 * when it is whole: until then what stood there stays. */
#ifndef BP_FORMATS_TEACHER_FILE_H
#define BP_FORMATS_TEACHER_FILE_H

#include "core/base/error.h"
#include "core/base/store.h"
#include "core/base/digest.h"

typedef struct bp_teacher_head {
    char magic[8];      /* "BPTEACH2" */
    uint64_t digest;    /* XXH64 of the 80 bytes that follow */
    uint64_t data;      /* of the tokens, as the writer names them */
    uint64_t tokenizer; /* digest of what made them of text; 0: nothing did, or a token is a byte */
    uint64_t teacher;   /* digest of its weights and of what is made of them */
    uint64_t rows;
    uint64_t vocabulary; /* the teacher's: its tokens are below */
    uint32_t sequence;   /* places of a row */
    uint32_t top_k;      /* 1 .. BP_DISTILL_MOST */
    uint32_t packed;     /* 1: rows hold several documents, 0 */
    uint32_t words;      /* the largest of all tokens, + 1 */
    uint64_t content;    /* XXH64 of the rows' second digests, in order */
    uint32_t zeros[4];
} bp_teacher_head;

/* The first three, and for writing of the head data to packed, are the caller's to set. */
typedef struct bp_teacher_file {
    bp_store *store;
    const char *path;
    bp_error *error;
    bp_teacher_head head;
    bp_file file;
    bool open;
    bool writes;       /* PATH.tmp is not whole yet */
    bp_digest content; /* of the rows that were written */
} bp_teacher_file;

/* A row in memory is as in the file, 8-aligned: its bytes, its tokens, its log-probabilities. */
uint64_t bp_teacher_row_bytes(const bp_teacher_head *head);
int32_t *bp_teacher_tops(void *row);
float *bp_teacher_logps(const bp_teacher_head *head, void *row);

/* The bytes of a file. */
uint64_t bp_teacher_file_bytes(const bp_teacher_head *head);

/* Opens a file for reading, and reads its header. BP_ERR_DATA: there is none, it is another file,
 * or damaged, or not whole. After any outcome bp_teacher_file_close is due, as after begin; which
 * removes what was written if it did not come to its end. */
bp_status bp_teacher_file_open(bp_teacher_file *file) BP_MUST_CHECK;

/* Whether the rows' digests are those that the header was made of: 8 bytes of each row are read.
 * With what bp_teacher_file_read checks this is all the file says. BP_ERR_DATA: they are not. */
bp_status bp_teacher_file_check(const bp_teacher_file *file) BP_MUST_CHECK;

/* Reads row number `number` < head.rows to `row`: what is said of `inputs` <= head.sequence tokens,
 * of which each place's are below `vocabulary` and head.words, all different, with
 * log-probabilities up to 0.
 * BP_ERR_DATA names the row, counted from 1: it is damaged, of other tokens, or not that. */
bp_status bp_teacher_file_read(const bp_teacher_file *file, uint64_t number, const int32_t *tokens,
                               uint32_t inputs, uint64_t vocabulary, void *row) BP_MUST_CHECK;

/* Makes PATH.tmp. */
bp_status bp_teacher_file_begin(bp_teacher_file *file) BP_MUST_CHECK;

/* Writes row number `number` from `row`, whose two digests are made; what lies behind `inputs` is
 * 0. Rows come in order, from 0 on. BP_ERR_NONFINITE: what is said is not what read would take
 * (weights that are no numbers). */
bp_status bp_teacher_file_write(bp_teacher_file *file, uint64_t number, const int32_t *tokens,
                                uint32_t inputs, void *row) BP_MUST_CHECK;

/* Writes the header, once all rows are there, and makes the whole PATH. */
bp_status bp_teacher_file_end(bp_teacher_file *file) BP_MUST_CHECK;

void bp_teacher_file_close(bp_teacher_file *file);

#endif
