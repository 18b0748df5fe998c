/* SPDX-License-Identifier: MIT */
/* The fast forms of the host kernels: their tables and the rows that fill them. Rows that are not
 * listed fall back to a slower form. */
#ifndef BP_DEVICE_HOST_ISA_H
#define BP_DEVICE_HOST_ISA_H

#include "device/host/kernel.h"

/* The files of another processor's forms are not built. */
#if defined(__x86_64__)
#define BP_X86(form) &form
#else
#define BP_X86(form) NULL
#endif
#if defined(__aarch64__)
#define BP_ARM(form) &form
#else
#define BP_ARM(form) NULL
#endif

extern const bp_host_isa bp_host_neon;
extern const bp_host_isa bp_host_sve;
extern const bp_host_isa bp_host_avx2;
extern const bp_host_isa bp_host_avx512;
extern const bp_host_isa bp_host_amx; /* products of bf16; all else is AVX-512's */
extern const bp_host_kernel bp_matmul_amx_kernel;
extern const bp_host_kernel bp_matmul_amx_quantised_kernel;

/* The portable form's products, and the same with an instruction where these call fmaf. */
extern const bp_host_kernel bp_host_matmul;
extern const bp_host_kernel bp_host_matmul_quantised;
extern const bp_host_kernel bp_plain_matmul_avx2;
extern const bp_host_kernel bp_plain_matmul_quantised_avx2;

/* Whether a table has forms of rows of an isa of kernels.def, and what of it serves 16 bits. */
#define BP_AVX2_OF_PORTABLE(...)
#define BP_AVX2_OF_AVX2(...) __VA_ARGS__
#define BP_AVX2_OF_X86(...)  __VA_ARGS__
#define BP_AVX2_OF_FAST(...) __VA_ARGS__
#define BP_AVX512_OF_PORTABLE(...)
#define BP_AVX512_OF_AVX2(...)
#define BP_AVX512_OF_X86(...)  __VA_ARGS__
#define BP_AVX512_OF_FAST(...) __VA_ARGS__
#define BP_NEON_OF_PORTABLE(...)
#define BP_NEON_OF_AVX2(...)
#define BP_NEON_OF_X86(...)
#define BP_NEON_OF_FAST(...) __VA_ARGS__
#define BP_SIXTEEN_SINGLE(typed, built)
#define BP_SIXTEEN_TYPED(typed, built) typed
#define BP_SIXTEEN_BUILT(typed, built) built
#define BP_SIXTEEN_BUILT_PORTABLE(typed, built)

/* The fast forms of every row; those that its FORMS leave out are nowhere. */
#define BP_DECLARE_TYPES(name)                                                                     \
    extern const bp_host_kernel name;                                                              \
    extern const bp_host_kernel name##_bf16;                                                       \
    extern const bp_host_kernel name##_f16;
#define FORMS(name, isa, types)                                                                    \
    BP_DECLARE_TYPES(bp_##name##_avx2)                                                             \
    BP_DECLARE_TYPES(bp_##name##_avx512)                                                           \
    BP_DECLARE_TYPES(bp_##name##_neon)
#include "core/ops/kernels.def"

/* The SVE form is NEON's with other products. */
extern const bp_host_kernel bp_matmul_sve;
extern const bp_host_kernel bp_matmul_quantised_sve;

bp_host_codes bp_four_blocks_avx2;
bp_host_words bp_words_avx2;
bp_host_words bp_words_avx512;
bp_host_normals bp_normals_avx2;
bp_host_normals bp_normals_avx512;

#endif
