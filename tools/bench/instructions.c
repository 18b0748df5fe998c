/* SPDX-License-Identifier: MIT */
/* Products of n x n matrices by one form of the host kernels, `times` of them, and nothing else:
 * what tools/bench/instructions.sh counts the instructions of.
 *
 *     build/aarch64/tools/bench/instructions neon 96 2 [bf16]
 *
 * `auto` alone says which form is chosen here. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/host/form_table.h"
#include "device/host/vector/half.h"

#define MOST       512
#define WORK_BYTES (UINT64_C(8) << 20)

static float a[MOST * MOST], b[MOST * MOST], c[MOST * MOST];
static uint64_t work[WORK_BYTES / sizeof(uint64_t)];

int main(int argc, char **argv)
{
    const int64_t n = argc > 2 ? atoi(argv[2]) : 96, times = argc > 3 ? atoi(argv[3]) : 1;
    const bp_dtype type = argc > 4 && strcmp(argv[4], "bf16") == 0 ? BP_BF16 : BP_F32;
    uint32_t form;
    if (argc == 2 && strcmp(argv[1], "auto") == 0 && bp_host_form_find(NULL, &form) == BP_OK) {
        puts(bp_host_form_name(form));
        return 0;
    }
    if (argc < 2 || bp_host_form_find(argv[1], &form) != BP_OK || n < 1 || n > MOST) {
        fprintf(stderr, "usage: instructions FORM [N [TIMES [bf16]]], N at most %d\n", MOST);
        return 2;
    }
    const bp_host_kernel *kernel = bp_host_form_kernel(form, type, BP_KERNEL_matmul);
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
    const bp_host_call call = {&p, &s, dtypes, NULL};
    for (int64_t i = 0; i < times; i++) {
        kernel->run(&call, 0, kernel->tasks(&s), 0);
    }
    return 0;
}
