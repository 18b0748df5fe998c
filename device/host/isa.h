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

/* The rows beside those of rules.def that update_blocks.h makes. */
#define BP_UPDATE_KERNELS(X)                                                                       \
    X(scaled)                                                                                      \
    X(direction)                                                                                   \
    X(scaled_norms)                                                                                \
    X(lamb_norms)                                                                                  \
    X(lars_norms)

/* The kernels that have fast forms. */
#define BP_FAST_KERNELS(X)                                                                         \
    X(matmul)                                                                                      \
    X(matmul_quantised)                                                                            \
    X(bias_backward)                                                                               \
    X(gelu_forward)                                                                                \
    X(gelu_backward)                                                                               \
    X(dropout)                                                                                     \
    BP_UPDATE_KERNELS(X)                                                                           \
    X(norm_partial)                                                                                \
    X(layernorm_forward)                                                                           \
    X(layernorm_backward_input)                                                                    \
    X(layernorm_backward_parameters)                                                               \
    X(attention_forward)                                                                           \
    X(attention_backward)                                                                          \
    X(attention_packed_forward)                                                                    \
    X(attention_packed_backward)                                                                   \
    X(attention_decode)                                                                            \
    X(rmsnorm_forward)                                                                             \
    X(rmsnorm_backward_input)                                                                      \
    X(rmsnorm_backward_weight)                                                                     \
    X(rotary)                                                                                      \
    X(swiglu_forward)                                                                              \
    X(swiglu_backward)                                                                             \
    X(activation_forward)                                                                          \
    X(activation_backward)                                                                         \
    X(gru_forward)                                                                                 \
    X(gru_backward)                                                                                \
    X(lstm_forward)                                                                                \
    X(lstm_backward)                                                                               \
    X(cross_entropy)                                                                               \
    X(cross_entropy_columns)                                                                       \
    X(cross_entropy_forward)                                                                       \
    X(distill)                                                                                     \
    X(distill_columns)                                                                             \
    X(weight_norms)                                                                                \
    X(tape_pack)                                                                                   \
    X(tape_unpack)                                                                                 \
    X(tape_round)                                                                                  \
    X(patches)                                                                                     \
    X(patches_backward)                                                                            \
    X(depthwise)                                                                                   \
    X(depthwise_backward_input)                                                                    \
    X(depthwise_backward_weight)                                                                   \
    X(window_max)                                                                                  \
    X(window_max_backward)                                                                         \
    X(window_mean)                                                                                 \
    X(window_mean_backward)                                                                        \
    X(batchnorm_statistics)                                                                        \
    X(batchnorm_forward)                                                                           \
    X(batchnorm_sums)                                                                              \
    X(batchnorm_backward)                                                                          \
    X(batchnorm_running)

/* The kernels whose one object serves every working type: it looks at the call's dtypes. */
#define BP_TYPED_KERNELS(X)                                                                        \
    X(matmul)                                                                                      \
    X(matmul_quantised)                                                                            \
    X(attention_forward)                                                                           \
    X(attention_backward)                                                                          \
    X(attention_packed_forward)                                                                    \
    X(attention_packed_backward)                                                                   \
    X(attention_decode)

/* The same among the kernels without fast forms. */
#define BP_TYPED_PORTABLE_KERNELS(X)                                                               \
    X(copy)                                                                                        \
    X(state_begin) X(pick_row) X(random_normal) X(store_values) X(scale) X(unit) X(matmul_fp8)

/* The kernels that are built once per working type (element.h): NAME is f32's object, NAME_bf16 and
 * NAME_f16 are the others'. Those with fast forms: */
#define BP_BUILT_KERNELS(X)                                                                        \
    X(bias_backward)                                                                               \
    X(gelu_forward)                                                                                \
    X(gelu_backward)                                                                               \
    X(dropout)                                                                                     \
    X(layernorm_forward)                                                                           \
    X(layernorm_backward_input)                                                                    \
    X(layernorm_backward_parameters)                                                               \
    X(cross_entropy)                                                                               \
    X(cross_entropy_columns)                                                                       \
    X(cross_entropy_forward)                                                                       \
    X(distill)                                                                                     \
    X(distill_columns)                                                                             \
    X(rmsnorm_forward)                                                                             \
    X(rmsnorm_backward_input)                                                                      \
    X(rmsnorm_backward_weight)                                                                     \
    X(rotary)                                                                                      \
    X(swiglu_forward)                                                                              \
    X(swiglu_backward)                                                                             \
    X(activation_forward)                                                                          \
    X(activation_backward)                                                                         \
    X(weight_norms)                                                                                \
    X(tape_pack)                                                                                   \
    X(tape_unpack)                                                                                 \
    X(tape_round)

/* and those without, or in single precision only. */
#define BP_BUILT_PORTABLE_KERNELS(X)                                                               \
    X(embedding_forward)                                                                           \
    X(embedding_token_backward)                                                                    \
    X(embedding_position_backward)                                                                 \
    X(sample_row)                                                                                  \
    X(sample_row_backward)                                                                         \
    X(sample_loss)                                                                                 \
    X(pool_rows)                                                                                   \
    X(pool_rows_backward)                                                                          \
    X(top_logits)                                                                                  \
    X(row_scale)                                                                                   \
    X(regroup)                                                                                     \
    X(magnitude_apply)                                                                             \
    X(magnitude_backward)                                                                          \
    X(gru_forward)                                                                                 \
    X(gru_backward)                                                                                \
    X(lstm_forward)                                                                                \
    X(lstm_backward)

#define BP_FAST_DECLARE(name)                                                                      \
    extern const bp_host_kernel bp_##name##_avx2;                                                  \
    extern const bp_host_kernel bp_##name##_avx512;
BP_FAST_KERNELS(BP_FAST_DECLARE)
#define RULE(name, body) BP_FAST_DECLARE(name)
#include "core/ops/rules.def"

/* The kernels whose AVX2 form serves AVX512 too. */
#define BP_AVX2_KERNELS(X) X(accumulate_codes) X(expand_codes)

#define BP_AVX2_DECLARE(name) extern const bp_host_kernel bp_##name##_avx2;
BP_AVX2_KERNELS(BP_AVX2_DECLARE)

bp_host_codes bp_four_blocks_avx2;
bp_host_words bp_words_avx2;
bp_host_words bp_words_avx512;

/* The kernels that have NEON forms. Cells, images and sums of codes are left to the compiler's
 * vectors, which on aarch64 the portable form has already. */
#define BP_NEON_KERNELS(X)                                                                         \
    BP_TYPED_KERNELS(X) BP_BUILT_KERNELS(X) BP_UPDATE_KERNELS(X) X(norm_partial)

/* The SVE form is NEON's with other products. */
extern const bp_host_kernel bp_matmul_sve;
extern const bp_host_kernel bp_matmul_quantised_sve;

#define BP_NEON_DECLARE(name) extern const bp_host_kernel bp_##name##_neon;
BP_NEON_KERNELS(BP_NEON_DECLARE)
#define RULE(name, body) BP_NEON_DECLARE(name)
#include "core/ops/rules.def"

#define BP_BUILT_DECLARE(name)                                                                     \
    extern const bp_host_kernel bp_##name##_neon_bf16;                                             \
    extern const bp_host_kernel bp_##name##_neon_f16;                                              \
    extern const bp_host_kernel bp_##name##_avx2_bf16;                                             \
    extern const bp_host_kernel bp_##name##_avx2_f16;                                              \
    extern const bp_host_kernel bp_##name##_avx512_bf16;                                           \
    extern const bp_host_kernel bp_##name##_avx512_f16;
BP_BUILT_KERNELS(BP_BUILT_DECLARE)

#endif
