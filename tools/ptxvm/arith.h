/* SPDX-License-Identifier: MIT */
/* Lane arithmetic that is worth vectorising: one source, built twice, chosen at run time. */
#ifndef PTXVM_ARITH_H
#define PTXVM_ARITH_H

#include "tools/ptxvm/program.h"

/* Every kernel of the file, by name. */
#define VM_ARITH_LIST(X)                                                                           \
    X(add_u16)                                                                                     \
    X(sub_u16)                                                                                     \
    X(mul_u16)                                                                                     \
    X(add_u32)                                                                                     \
    X(sub_u32)                                                                                     \
    X(mul_u32)                                                                                     \
    X(mad_u32)                                                                                     \
    X(add_u64) X(sub_u64) X(mul_u64) X(mad_u64) X(wide_u32) X(wide_s32) X(mad_wide_u32) X(         \
        mad_wide_s32) X(min_u16) X(min_s16) X(max_u16) X(max_s16) X(min_u32) X(min_s32) X(max_u32) \
        X(max_s32) X(min_u64) X(min_s64) X(max_u64) X(max_s64) X(neg_s16) X(neg_s32) X(neg_s64)    \
            X(abs_s16) X(abs_s32) X(abs_s64) X(and_b16) X(or_b16) X(xor_b16) X(not_b16) X(and_b32) \
                X(or_b32) X(xor_b32) X(not_b32) X(and_b64) X(or_b64) X(xor_b64) X(not_b64)         \
                    X(shl_b16) X(shl_b32) X(shl_b64) X(shr_u16) X(shr_u32) X(shr_u64) X(shr_s16)   \
                        X(shr_s32) X(shr_s64) X(add_f32) X(sub_f32) X(mul_f32) X(fma_f32)          \
                            X(add_f64) X(sub_f64) X(mul_f64) X(fma_f64) X(min_f32) X(max_f32)      \
                                X(neg_f32) X(abs_f32) X(eq_b16) X(ne_b16) X(lt_u16) X(le_u16)      \
                                    X(lt_s16) X(le_s16) X(eq_b32) X(ne_b32) X(lt_u32) X(le_u32)    \
                                        X(lt_s32) X(le_s32) X(eq_b64) X(ne_b64) X(lt_u64)          \
                                            X(le_u64) X(lt_s64) X(le_s64) X(eq_f32) X(ne_f32)      \
                                                X(lt_f32) X(le_f32) X(nan_f32) X(eq_f64) X(ne_f64) \
                                                    X(lt_f64) X(le_f64) X(nan_f64) X(f32_of_s32)   \
                                                        X(f32_of_u32) X(s64_of_s32) X(u64_of_u32)  \
                                                            X(u32_of_u64) X(f32_of_bf16)           \
                                                                X(bf16_of_f32) X(f64_of_f32)       \
                                                                    X(u32_of_u16) X(s32_of_s16)    \
                                                                        X(u16_of_u32)

typedef enum vm_arith {
    AR_NONE,
#define VM_ARITH_ENUM(name) AR_##name,
    VM_ARITH_LIST(VM_ARITH_ENUM)
#undef VM_ARITH_ENUM
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
 * here. a: rows x k, b: k x columns, c: rows x columns, all row by row. */
typedef void vm_multiply(float *restrict c, const float *a, const float *b, unsigned rows,
                         unsigned columns, unsigned depth);
extern vm_multiply *const vm_multiply_portable;
extern vm_multiply *const vm_multiply_avx2;
vm_multiply *vm_arith_multiply(void);
vm_multiply *vm_arith_wide_multiply(void);

#endif
