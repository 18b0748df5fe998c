/* SPDX-License-Identifier: MIT */
/* Lane arithmetic that is worth vectorising: one source, built twice, chosen at run time. */
#ifndef PTXVM_ARITH_H
#define PTXVM_ARITH_H

#include "tools/ptxvm/text/program.h"

typedef enum vm_arith {
    AR_NONE,
#define VM_ARITH(name) AR_##name,
#include "tools/ptxvm/exec/arith.def"
#undef VM_ARITH
    AR_COUNT
} vm_arith;

/* The kernel for this machine; NULL for AR_NONE. */
vm_kernel *vm_arith_kernel(int index);

/* Forces the portable build of every kernel decoded from now on (for tests). */
void vm_arith_force_portable(bool portable);

/* The two builds of the same file. The second exists where the processor family has AVX2. */
extern vm_kernel *const vm_arith_portable[AR_COUNT];
extern vm_kernel *const vm_arith_avx2[AR_COUNT];
/* Whether vm_arith_avx2 may be used here; in arith_choose_*.c, one per processor family. */
bool vm_arith_has_avx2(void);
vm_kernel *vm_arith_wide(int index);

/* C = A x B + C over K in ascending order, one fused multiply-add each: the order that mma has
 * here. a: rows x k, b: k x columns, c: rows x columns, all row by row;
 * columns are a multiple of 8. */
typedef void vm_multiply(float *restrict c, const float *a, const float *b, unsigned rows,
                         unsigned columns, unsigned depth);
extern vm_multiply *const vm_multiply_portable;
extern vm_multiply *const vm_multiply_avx2;
vm_multiply *vm_arith_multiply(void);
vm_multiply *vm_arith_wide_multiply(void);

/* The sums of an architecture's tensor cores, bit for bit (sums.c): asked for by its number (80,
 * 90 ..), 0 asks for none. */
void vm_sums_choose(unsigned asked);
bool vm_sums_chosen(void);

/* One element of a product: a[0 .. count-1] times b[0], b[stride] ..; count is at most 32, and for
 * tf32 a multiple of 4, else of 8. */
typedef struct vm_sum {
    const float *a, *b;
    unsigned stride, count;
    int least, least_b; /* the least exponents of the operands' types */
    bool tf32;
    bool eight; /* types of 8 bits */
    bool half;  /* the result is an f16 */
} vm_sum;
float vm_sums_add(const vm_sum *sum, float c);

#endif
