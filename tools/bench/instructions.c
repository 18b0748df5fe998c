/* SPDX-License-Identifier: MIT */
/* Products of n x n matrices by one form of the host kernels, `times` of them, and nothing else, or
 * AdamW of n x n weights with states of 8 bits: what tools/bench/instructions.sh counts the
 * instructions of.
 *
 *     build/aarch64/tools/bench/instructions neon 96 2 [bf16 | block8 | companded8]
 *
 * `auto` alone says which form is chosen here. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/codec.h"
#include "core/ir/step.h"
#include "device/host/isa_table.h"
#include "device/host/vector/half.h"

#define MOST       512
#define WORK_BYTES (UINT64_C(8) << 20)

static float a[MOST * MOST], b[MOST * MOST], c[MOST * MOST];
static uint64_t work[WORK_BYTES / sizeof(uint64_t)];

static int product(uint32_t form, bp_dtype type, int64_t n, int64_t times)
{
    const bp_host_kernel *kernel = bp_host_isa_kernel(form, type, BP_KERNEL_matmul);
    const bp_matmul_scalars s = {.m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n};
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)type, sizeof dtypes);
    const uint64_t bytes = kernel->workspace != NULL ? kernel->workspace(&s, dtypes) : 0;
    if (bytes > WORK_BYTES) {
        fprintf(stderr, "the product asks for %llu bytes of workspace\n",
                (unsigned long long)bytes);
        return 3;
    }
    for (int64_t i = 0; i < n * n; i++) {
        bp_element_store(a, (uint64_t)i, (float)(i % 17) - 8.0f, type);
        bp_element_store(b, (uint64_t)i, (float)(i % 13) - 6.0f, type);
    }
    const bp_matmul_pointers p = {.c = c, .a = a, .b = b, .work = work};
    const bp_host_call call = {&p, &s, dtypes, NULL, NULL};
    for (int64_t i = 0; i < times; i++) {
        kernel->run(&call, 0, kernel->tasks(&s), 0);
    }
    return 0;
}

/* a: weights, b: gradients, c: the first states, work: the second. */
static int update(uint32_t form, bp_codec codec, int64_t n, int64_t times)
{
    static const uint8_t dtypes[BP_OPERANDS_MAX]; /* f32 */
    const bp_host_kernel *kernel = bp_host_isa_kernel(form, BP_F32, BP_KERNEL_adamw);
    const bp_adamw_scalars s = {
        .count = n * n, .form = codec, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8};
    const bp_control_block control = {.clip = 1.0f, .correction1 = 0.1, .correction2 = 0.05};
    const bp_step_block step = {.learning_rate = 1e-3f};
    for (int64_t i = 0; i < n * n; i++) {
        a[i] = (float)(i % 17) - 8.0f;
        b[i] = ((float)(i % 13) - 6.0f) * (float)(i % 1009);
    }
    const bp_adamw_pointers p = {.weight = a,
                                 .state1 = c,
                                 .state2 = work,
                                 .gradient = b,
                                 .control = &control,
                                 .step = &step};
    const bp_host_call call = {&p, &s, dtypes, NULL, NULL};
    for (int64_t i = 0; i < times; i++) {
        kernel->run(&call, 0, kernel->tasks(&s), 0);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const int64_t n = argc > 2 ? atoi(argv[2]) : 96, times = argc > 3 ? atoi(argv[3]) : 1;
    const char *what = argc > 4 ? argv[4] : "f32";
    uint32_t form;
    if (argc == 2 && strcmp(argv[1], "auto") == 0 && bp_host_isa_find(NULL, &form) == BP_OK) {
        puts(bp_host_isa_name(form));
        return 0;
    }
    if (argc < 2 || bp_host_isa_find(argv[1], &form) != BP_OK || n < 1 || n > MOST) {
        fprintf(stderr,
                "usage: instructions FORM [N [TIMES [bf16 | block8 | companded8]]], "
                "N at most %d\n",
                MOST);
        return 2;
    }
    if (strcmp(what, "block8") == 0 || strcmp(what, "companded8") == 0) {
        return update(form, what[0] == 'b' ? BP_CODEC_BLOCK8 : BP_CODEC_COMPANDED8, n, times);
    }
    return product(form, strcmp(what, "bf16") == 0 ? BP_BF16 : BP_F32, n, times);
}
