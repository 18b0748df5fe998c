/* SPDX-License-Identifier: MIT */
/* Helpers of ptxvm's own tests: opening the driver, running one instruction or one program. */
#ifndef TESTS_PTXVM_RUN_H
#define TESTS_PTXVM_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/ptxvm/abi.h"

/* cuInit and a context, once for each process; reports stay off stderr. */
void run_open(void);

/* Fails the test with the words of ptxvm's report when result is not wanted. */
void run_expect(int result, int wanted, const char *what);

/* Reads a whole text file; the caller frees it. NULL: no such file. */
char *run_read(const char *path);

/* Device memory holding a copy of the bytes (or undefined bytes when data is NULL). */
uint64_t run_upload(const void *data, size_t bytes);
void run_download(void *data, uint64_t address, size_t bytes);

/* Evaluates statements over registers %a, %b, %c into %d for n threads (at most 1024). Types are
 * PTX's (b16, f32 ...). Returns the CUresult of loading or running. */
typedef struct run_formula {
    const char *text;
    const char *d, *a, *b, *c;
} run_formula;
int run_evaluate(const run_formula *formula, size_t n, void *d, const void *a, const void *b,
                 const void *c);

/* Bytes of a PTX type name. */
size_t run_bytes(const char *type);

/* Runs a program file by its //! lines (see programs/README.md); fails the test if it does not do
 * what they say. */
void run_program(const char *path);

#endif
