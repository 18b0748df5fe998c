/* SPDX-License-Identifier: MIT */
/* Entries that this libcuda.so.1 has and NVIDIA's has not. Programs find them by dlsym and do
 * without when they are absent. All return a CUresult (0 is success) unless they say otherwise. */
#ifndef PTXVM_PTXVM_H
#define PTXVM_PTXVM_H

#include <stddef.h>
#include <stdint.h>

#define PTXVM_API __attribute__((visibility("default")))

enum { PTXVM_READ = 1, PTXVM_WRITE = 2 };

/* What one pointer parameter may touch: rows of row_bytes, pitch bytes apart. */
typedef struct ptxvm_operand {
    uint32_t parameter; /* index among the kernel's parameters */
    uint32_t access;    /* PTXVM_READ, PTXVM_WRITE or both */
    uint64_t rows;
    uint64_t row_bytes;
    uint64_t pitch;
} ptxvm_operand;

/* Declares the operands of this thread's next launch, captured ones included. From then on that
 * launch may touch nothing else. Copied; forgotten by the launch call. */
PTXVM_API int ptxvmNextOperands(const ptxvm_operand *operands, uint32_t count);

/* The bytes are undefined from this point of the stream on. Captured like any other work. */
PTXVM_API int ptxvmUndefineAsync(uint64_t address, size_t bytes, void *stream);

/* Sets what an environment variable of that name would have set: PTXVM_SEED and the like. */
PTXVM_API int ptxvmSet(const char *name, const char *value);

/* Copies the words of the first failure since the last call and forgets it. Returns its length, 0
 * when there was none. */
PTXVM_API int ptxvmReport(char *text, size_t size);

/* The sticky error is forgotten and all queues are emptied, as a new process would find it. */
PTXVM_API int ptxvmRevive(void);

/* How many handles of every kind are alive; with text, one line for each kind that has any. */
PTXVM_API int ptxvmLedger(char *text, size_t size);

/* How often an entry point was called so far; name NULL: all of them. Failed calls count. */
PTXVM_API int ptxvmCalls(const char *name);

/* The n-th entry point in order of name-table index, NULL beyond the last. */
PTXVM_API const char *ptxvmEntryName(int index);

/* Writes the coverage files now, as the end of the process does (PTXVM_COVERAGE). */
PTXVM_API int ptxvmWriteCoverage(void);

#endif
