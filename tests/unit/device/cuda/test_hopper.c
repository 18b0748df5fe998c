/* SPDX-License-Identifier: MIT */
/* Products and attention in Hopper's own form (matmul_hopper.cu, quantised_hopper.cu,
 * attention_hopper.cu): the bits of the texts that every GPU runs, in every transposition, with
 * what follows the sums, with splits, at edges, with masks of every kind; under seeds and under the
 * sums of its tensor cores. Who makes what: test_hopper_plan.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/quantised.h"
#include "core/ir/step.h"
#include "device/cuda/context.h"
#include "device/cuda/ptx_table.h"
#include "device/cuda/query.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/kernels/difference.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"
#include "tests/fixtures/share.h"

#define ARENA_BYTES (UINT64_C(24) << 20)
#define LARGE_ARENA (UINT64_C(512) << 20) /* of what fills a GPU */
#define LARGE_RUNS  100
#define NO_BEFORE   (UINT32_C(1) << OPERAND(matmul, before))
#define NO_BIAS     (UINT32_C(1) << OPERAND(matmul, bias))
#define NO_RESIDUAL (UINT32_C(1) << OPERAND(matmul, residual))
#define NOTHING     (NO_BEFORE | NO_BIAS | NO_RESIDUAL)

static instrument driver;
static kernel_device cuda;

typedef struct product {
    bp_matmul_scalars scalars;
    uint32_t absent;
    bp_dtype dtype;
    bp_dtype c;
    const char *device;
} product;

/* m, n, k, lda, ldb, ldc, transpose_a, transpose_b, accumulate, gelu */
static const product products[] = {
    {{1030, 1000, 72, 72, 72, 1000, 0, 1, 0, 1}, 0, BP_BF16, BP_BF16, "sm_90"},
    {{900, 904, 80, 80, 904, 907, 0, 0, 0, 0}, NO_BEFORE, BP_F16, BP_F16, "sm_90"},
    {{1032, 776, 88, 1032, 776, 780, 1, 0, 1, 0}, NOTHING, BP_BF16, BP_F32, "sm_90"},
    {{897, 900, 80, 904, 80, 900, 1, 1, 0, 0}, NOTHING, BP_F16, BP_F32, "sm_90"},
    {{640, 634, 776, 776, 776, 640, 0, 1, 0, 0}, NOTHING, BP_F16, BP_F16, "sm_90"},
    {{897, 896, 80, 904, 80, 896, 1, 1, 0, 0}, NOTHING, BP_BF16, BP_BF16, "sm_90"},
    {{904, 890, 80, 904, 896, 890, 1, 0, 1, 0}, NOTHING, BP_F16, BP_F32, "sm_90"},
    {{897, 769, 96, 96, 776, 772, 0, 0, 0, 0}, NOTHING, BP_BF16, BP_F32, "sm_90:sums"},
    {{2500, 900, 72, 72, 80, 900, 0, 1, 0, 1}, NO_RESIDUAL, BP_BF16, BP_BF16, "sm_90"},
};
#define PRODUCTS (sizeof products / sizeof products[0])

/* Small products for each tile of hopper_tiles.h, in each way in which operands lie and of both
 * types: with edges on every side, and one to four slices of terms. Most have rows of c at
 * multiples of eight elements, and with them every form of what follows the sums. */
#define TILES 5
#define KINDS 8

static product shaped(uint32_t tile, uint32_t kind)
{
    const int64_t transposed_a = kind & 1, transposed_b = kind >> 1 & 1, some = tile + kind;
    const int64_t m = long_or(290, 170) + 13 * some, n = long_or(395, 270) + 7 * some;
    const int64_t k = 8 + 64 * (some % 4);
    const bool sums = kind == tile % KINDS;
    product p = {.scalars = {.m = m,
                             .n = n,
                             .k = k,
                             .lda = transposed_a != 0 ? 8192 : 512,
                             .ldb = transposed_b != 0 ? 512 : 8192,
                             .ldc = some % 4 == 3 ? n + some % 3 : (n + 7) / 8 * 8,
                             .transpose_a = transposed_a,
                             .transpose_b = transposed_b},
                 .dtype = kind < KINDS / 2 ? BP_BF16 : BP_F16,
                 .device = sums ? "sm_90:sums" : "sm_90"};
    p.c = some % 5 < 3 || some % 10 == 9 ? p.dtype : BP_F32;
    p.scalars.accumulate = some % 5 == 3 || some % 10 == 9;
    p.scalars.gelu = some % 5 == 0;
    const uint32_t whole[] = {kind % 2 != 0 ? NO_RESIDUAL | NO_BEFORE : NO_RESIDUAL, NO_BEFORE,
                              kind % 2 != 0 ? NO_RESIDUAL | NO_BEFORE : NOTHING, NOTHING, NOTHING};
    p.absent = some == 10 ? 0 : whole[some % 5];
    return p;
}

/* What the short form takes: each tile in every way in which operands lie, and in each way with
 * every type; those that other seeds and sums are shown with, too. */
static bool in_square(uint32_t tile, uint32_t kind)
{
    return ((kind ^ kind >> 1 ^ kind >> 2 ^ tile) & 1) == 0 || kind == tile ||
           (tile + kind) % 5 < 2;
}

/* More tiles of 128 x 192 than blocks: 133; two slices of terms in the short form. */
static const product many = {
    {19 * 128, 7 * 192, 200, 200, 200, 1344, 0, 1, 0, 0}, NOTHING, BP_BF16, BP_BF16, "sm_90"};

/* A number of a type: small, of either sign, with a full fraction. */
static uint32_t element(bp_dtype dtype, uint64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + 97u;
    x = (x ^ x >> 15) * 2246822519u;
    const uint32_t sign = x >> 31, exponent = x >> 8 & 3, fraction = x >> 12;
    switch (dtype) {
    case BP_BF16:
        return sign << 15 | (124 + exponent) << 7 | (fraction & 0x7f);
    case BP_F16:
        return sign << 15 | (12 + exponent) << 10 | (fraction & 0x3ff);
    default:
        return sign << 31 | (124 + exponent) << 23 | (fraction & 0x7ffff) << 4;
    }
}

/* Codes of every value, and bytes of scales; scales in 32 bits as floats are filled, and the four
 * of a block of FP8 near 1. */
static void fill_bytes(kernel_case *c, uint32_t operand)
{
    const bp_matmul_quantised_scalars *s = (const void *)c->scalars;
    const bool scales = operand == OPERAND(matmul_quantised, scales);
    unsigned char *at = kernel_case_at(c, 0, operand);
    for (uint64_t e = 0; at != NULL && e < c->bytes[operand]; e++) {
        const uint32_t bits = element(BP_F32, scales ? e / 4 : e);
        at[e] =
            (unsigned char)(scales && !bp_quantised_nests(s->form) ? bits >> e % 4 * 8 : bits >> 8);
        if (s->form == BP_QUANTISED_FP8 && e % 260 < 4) {
            at[e] = (unsigned char)(124 + e / 260 % 3 + e % 260);
        }
    }
}

/* Lengths: none, one row, most rows, more than there are. */
static void fill_index(kernel_case *c, uint32_t operand)
{
    const int32_t most = (int32_t)c->scalars[1]; /* attention's sequence */
    int32_t *at = kernel_case_at(c, 0, operand);
    for (uint64_t e = 0; at != NULL && e < c->bytes[operand] / sizeof *at; e++) {
        at[e] = e % 4 == 0 ? most - most / 7 : e % 4 == 1 ? 1 : e % 4 == 2 ? most : 0;
    }
}

/* Packed documents of 1, 9, 25, .. 81 places, 1 again: each 13th place begins one of its own, and
 * what each third would have is padding, as are a last few places. */
static void fill_starts(kernel_case *c, uint32_t operand)
{
    const int32_t sequence = (int32_t)c->scalars[1];
    int32_t *at = kernel_case_at(c, 0, operand);
    for (uint64_t e = 0; e < c->bytes[operand] / sizeof *at; e += (uint64_t)sequence) {
        int32_t first = 0;
        for (int32_t number = (int32_t)(e / (uint64_t)sequence); first < sequence; number++) {
            const int32_t side = 2 * (number % 5) + 1, end = first + side * side;
            const bool there = number % 3 != 2 && first < sequence - 5;
            for (int32_t i = first; i < end && i < sequence; i++) {
                at[e + (uint64_t)i] = there ? first : -1;
            }
            first = end;
        }
    }
}

static void fill(kernel_case *c)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        unsigned char *at = kernel_case_at(c, 0, i);
        const bool floats = info->operand[i].type <= BP_TYPE_F32;
        const bp_dtype dtype =
            info->operand[i].type == BP_TYPE_F32 ? BP_F32 : (bp_dtype)c->dtypes[i];
        const uint64_t count = floats ? c->bytes[i] / bp_dtype_bytes(dtype) : 0;
        if (info->operand[i].type == BP_TYPE_STEP) {
            const bp_step_block step = {.seed = 20261124, .step = 7, .sample = 3};
            memcpy(at, &step, sizeof step);
        } else if (info->operand[i].type == BP_TYPE_BYTE && !info->operand[i].workspace) {
            fill_bytes(c, i);
        } else if (strcmp(info->operand[i].name, "starts") == 0) {
            fill_starts(c, i);
        } else if (!floats && !info->operand[i].workspace) {
            fill_index(c, i);
        }
        for (uint64_t e = 0; at != NULL && !info->operand[i].workspace && e < count; e++) {
            const uint32_t bits = element(dtype, e + i * 7919);
            memcpy(at + e * bp_dtype_bytes(dtype), &bits, bp_dtype_bytes(dtype));
        }
    }
}

/* A setting of the instrument; a GPU is what it is. */
static void set(const char *name, const char *value)
{
    assert_true(driver.real || driver.set(name, value) == 0);
}

static bool dequantizes; /* matrices of codes, where they are whole and rows many */

static void set_device(const char *name, uint32_t tile)
{
    set("PTXVM_DEVICE", name);
    kernel_device_open(&cuda, &bp_device_cuda, "plain", 1, driver.real ? LARGE_ARENA : ARENA_BYTES);
    cuda_context *context = cuda.context;
    context->target = bp_cuda_target_of(bp_cuda_target_find("sm_90a"), false);
    context->target.tile = tile;
    context->target.dequantizes = dequantizes;
}

static void close_device(void)
{
    kernel_device_close(&cuda);
    set("PTXVM_DEVICE", "");
}

/* The family of a case's launch, and its kernel. */
static uint32_t family_of(kernel_case *c, uint32_t launch, uint32_t *function)
{
    cuda_context *context = cuda.context;
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    const bp_linked_op op = {c->kernel, c->tuples, c->offsets, c->scalars, c->dtypes, 0};
    const uint32_t count = bp_cuda_plan_launches(&context->target, &op, launches);
    assert_true(count > launch && count <= 3);
    *function = launches[launch].function;
    return bp_cuda_modules[launches[launch].module].family;
}

static void refuse_hopper(bool refused)
{
    ((cuda_context *)cuda.context)->target.refused =
        refused ? UINT64_C(1) << BP_CUDA_MODULE_matmul_hopper |
                      UINT64_C(1) << BP_CUDA_MODULE_quantised_hopper |
                      UINT64_C(1) << BP_CUDA_MODULE_attention_hopper
                : 0;
}

/* Workspaces as the target has them, which more splits need. */
static uint64_t hopper_workspace(const bp_device_options *options, bp_kernel kernel,
                                 const void *scalars, const uint8_t *dtypes)
{
    bp_device_options there = *options;
    there.target = "sm_90a";
    there.dequantizes = dequantizes;
    return bp_device_cuda.workspace(&there, kernel, scalars, dtypes);
}

/* A call that both forms make, and which of its launches they differ in. */
typedef struct call {
    bp_kernel kernel;
    const void *scalars;
    const uint8_t *dtypes;
    uint32_t absent;
    uint32_t launch;
    uint32_t own; /* families */
    uint32_t other;
} call;

/* Calls of which a bit differed: they are counted, so that a GPU shows all that differ at once. */
static uint32_t differing;

static int same_begin(void **state)
{
    (void)state;
    differing = 0;
    return 0;
}

static int same_end(void **state)
{
    (void)state;
    return differing == 0 ? 0 : -1;
}

static void check_bits(const call *of, uint32_t tile, const char *name, uint32_t seeds)
{
    static const char *const all[] = {"0", "1", "2"};
    const uint32_t runs = !driver.real ? seeds : seeds < LARGE_RUNS ? 3 : LARGE_RUNS;
    kernel_case c;
    uint32_t made;
    set_device(name, tile);
    bp_device device = bp_device_cuda;
    device.workspace = hopper_workspace;
    kernel_case_init_typed(&c, &device, of->kernel, of->scalars, 1, of->absent, of->dtypes);
    fill(&c);
    unsigned char *start = kernel_case_save(&c);
    refuse_hopper(true);
    assert_int_equal(family_of(&c, dequantizes ? 0 : of->launch, &made), of->other);
    /* races of the other form are looked for by test_kernels16.c */
    set("PTXVM_RACES", long_form() ? "1" : "0");
    kernel_case_run(&c, &cuda);
    set("PTXVM_RACES", "1");
    unsigned char *right = kernel_case_save(&c);
    refuse_hopper(false);
    assert_int_equal(family_of(&c, of->launch, &made), of->own);
    for (uint32_t i = 0; i < runs; i++) {
        char what[64];
        (void)snprintf(what, sizeof what, "tile %u, run %u", tile, i);
        set("PTXVM_SEED", all[i % 3]);
        kernel_case_restore(&c, start);
        kernel_case_run(&c, &cuda);
        differing += kernel_case_same(&c, right, what) ? 0 : 1;
    }
    set("PTXVM_SEED", "0");
    free(start);
    free(right);
    kernel_case_free(&c);
    close_device();
}

static void check_product(const product *p, uint32_t tile, uint32_t seeds)
{
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)p->dtype, sizeof dtypes);
    dtypes[OPERAND(matmul, c)] = (uint8_t)p->c;
    const call of = {
        BP_KERNEL_matmul,     &p->scalars, dtypes, p->absent, 0, BP_CUDA_FAMILY_matmul_hopper,
        BP_CUDA_FAMILY_matmul};
    check_bits(&of, tile, p->device, seeds);
}

/* verifies device-23.1466 */
static void products_have_the_same_bits(void **state)
{
    (void)state;
    const uint32_t count = share_of(PRODUCTS, 5, 3);
    for (uint32_t i = 0; i < count; i++) {
        check_product(&products[i], 0, i == 2 ? long_or(3, 1) : 1);
    }
}

/* verifies device-23.1466 */
static void tiles_have_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TILES * KINDS; i++) {
        const uint32_t tile = i / KINDS, kind = i % KINDS;
        if (share_of(1, 0, 0) == 1 || in_square(tile, kind)) {
            const product p = shaped(tile, kind);
            check_product(&p, tile + 1, kind == tile ? long_or(3, 2) : 1);
        }
    }
    if (share_of(1, 1, 0) == 1) {
        product p = many;
        p.scalars.k = long_or(200, 72);
        check_product(&p, TILES, 1);
    }
}

/* On a GPU: products whose tiles fill all multiprocessors several times, with what may follow their
 * sums, again and again, which shows races. The instrument makes none of this size. */
/* verifies device-23.1466 */
static void full_machines_have_the_same_bits(void **state)
{
    static const product large[] = {
        {{8192, 2304, 768, 768, 768, 2304, 0, 1, 0, 0},
         NO_RESIDUAL | NO_BEFORE,
         BP_BF16,
         BP_BF16,
         ""},
        {{8192, 3072, 768, 768, 768, 3072, 0, 1, 0, 1}, NO_RESIDUAL, BP_BF16, BP_BF16, ""},
        {{8192, 768, 3072, 3072, 3072, 768, 0, 1, 0, 0}, NO_BEFORE, BP_F16, BP_F16, ""},
        {{3072, 768, 8192, 3072, 768, 768, 1, 0, 1, 0}, NOTHING, BP_BF16, BP_F32, ""},
    };
    (void)state;
    for (uint32_t i = 0; driver.real && i < sizeof large / sizeof large[0]; i++) {
        check_product(&large[i], 0, i == 0 ? LARGE_RUNS : 3);
    }
}

/* What the driver says of a tensor map that it does not make is the error. */
/* verifies device-12.8cb0 */
static void a_tensor_map_that_fails_is_reported(void **state)
{
    (void)state;
    kernel_case c;
    uint8_t dtypes[BP_OPERANDS_MAX];
    unsigned char memory[4096];
    bp_error error = {0};
    memset(dtypes, BP_BF16, sizeof dtypes);
    set_device("sm_90", 0);
    ((cuda_context *)cuda.context)->error = &error;
    kernel_case_init_typed(&c, &bp_device_cuda, BP_KERNEL_matmul, &many.scalars, 1, NOTHING,
                           dtypes);
    const bp_linked_op op = {c.kernel, c.tuples, c.offsets, c.scalars, c.dtypes, BP_OFFSET_ABSENT};
    const bp_linked_program program = {&op, 1};
    set("PTXVM_FAULT", "cuTensorMapEncodeTiled:1:1");
    if (!driver.real) {
        assert_int_equal(bp_device_cuda.link(cuda.context, 1, &program, memory, sizeof memory),
                         BP_ERR_DEVICE);
        assert_non_null(strstr(error.name, "matmul: CUDA_ERROR_INVALID_VALUE"));
        assert_non_null(strstr(error.name, "cuTensorMapEncodeTiled"));
    }
    set("PTXVM_FAULT", "");
    kernel_case_free(&c);
    close_device();
}

typedef struct quantised {
    bp_matmul_quantised_scalars scalars;
    uint32_t absent; /* of those that products have too */
    bp_dtype dtype;
    const char *device;
} quantised;

#define QUANTISED_BEFORE   (UINT32_C(1) << OPERAND(matmul_quantised, before))
#define QUANTISED_BIAS     (UINT32_C(1) << OPERAND(matmul_quantised, bias))
#define QUANTISED_RESIDUAL (UINT32_C(1) << OPERAND(matmul_quantised, residual))
#define ALONE              (QUANTISED_BEFORE | QUANTISED_BIAS | QUANTISED_RESIDUAL)
#define BLOCKS_OF(size)    (8 * (size)) /* 64 << size elements; 7: 32 */

/* m, n, k, lda, ldc, transpose_b, accumulate, gelu, form. Both directions of every form; edges on
 * every side; more tiles than blocks; scales of scales whose last word is not whole. */
static const quantised quantiseds[] = {
    {{1030, 1000, 136, 136, 1000, 1, 0, 1, BP_QUANTISED_NF4}, 0, BP_BF16, "sm_90"},
    {{897, 904, 72, 80, 907, 0, 0, 0, BP_QUANTISED_NF4_DOUBLE}, QUANTISED_BEFORE, BP_F16, "sm_90"},
    {{900, 904, 72, 80, 904, 1, 0, 0, BP_QUANTISED_NF4}, QUANTISED_BEFORE, BP_BF16, "sm_90"},
    {{904, 896, 72, 80, 896, 0, 0, 0, BP_QUANTISED_INT8},
     QUANTISED_BEFORE | QUANTISED_BIAS,
     BP_F16,
     "sm_90"},
    {{900, 897, 88, 88, 900, 1, 0, 0, BP_QUANTISED_INT8}, ALONE, BP_BF16, "sm_90"},
    {{904, 896, 70, 80, 896, 0, 0, 0, BP_QUANTISED_INT8}, ALONE, BP_F16, "sm_90"},
    {{899, 890, 72, 80, 890, 1, 0, 0, BP_QUANTISED_FP8}, ALONE, BP_F16, "sm_90"},
    {{920, 904, 67, 72, 904, 0, 0, 0, BP_QUANTISED_FP8}, ALONE, BP_BF16, "sm_90"},
    {{1000, 770, 200, 200, 770, 1, 0, 0, BP_QUANTISED_NF4_DOUBLE + BLOCKS_OF(7)},
     ALONE,
     BP_BF16,
     "sm_90:sums"},
    {{900, 1000, 65, 80, 1000, 0, 0, 0, BP_QUANTISED_FP4 + BLOCKS_OF(1)},
     ALONE,
     BP_F16,
     "sm_90:sums"},
    {{897, 900, 8, 80, 900, 1, 0, 0, BP_QUANTISED_FP4_DOUBLE}, ALONE, BP_BF16, "sm_90"},
    {{1500, 1544, 67, 72, 1544, 0, 0, 0, BP_QUANTISED_FP8}, ALONE, BP_BF16, "sm_90"},
};
#define QUANTISEDS (sizeof quantiseds / sizeof quantiseds[0])

static void check_quantised(const quantised *q, uint32_t seeds)
{
    const int64_t form = q->scalars.form;
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)q->dtype, sizeof dtypes);
    uint32_t absent = q->absent;
    absent |= form == BP_QUANTISED_FP8 ? UINT32_C(1) << OPERAND(matmul_quantised, scales) : 0;
    absent |= bp_quantised_nests(form) ? 0 : UINT32_C(1) << OPERAND(matmul_quantised, nested);
    const call of = {BP_KERNEL_matmul_quantised,
                     &q->scalars,
                     dtypes,
                     absent,
                     dequantizes ? 1 : 0,
                     dequantizes ? BP_CUDA_FAMILY_matmul_hopper : BP_CUDA_FAMILY_quantised_hopper,
                     BP_CUDA_FAMILY_quantised};
    check_bits(&of, 0, q->device, seeds);
}

/* verifies device-23.1466 */
static void quantised_products_have_the_same_bits(void **state)
{
    (void)state;
    const uint32_t count = share_of(QUANTISEDS, 8, 4);
    for (uint32_t i = 0; i < count; i++) {
        check_quantised(&quantiseds[i], i == 1 ? long_or(3, 2) : i == 6 ? long_or(3, 1) : 1);
    }
}

/* Matrices of codes of every form that are dequantized before their product: m of 512 and more,
 * whole pieces in a row, no splits. */
/* verifies device-23.1466 */
static void dequantized_products_have_the_same_bits(void **state)
{
    static const quantised rows[] = {
        {{1030, 1160, 136, 136, 1160, 1, 0, 1, BP_QUANTISED_NF4}, 0, BP_BF16, "sm_90"},
        {{1100, 1032, 72, 80, 1040, 0, 0, 0, BP_QUANTISED_NF4_DOUBLE},
         QUANTISED_BEFORE,
         BP_F16,
         "sm_90"},
        {{1030, 1100, 88, 88, 1104, 1, 0, 0, BP_QUANTISED_INT8}, ALONE, BP_BF16, "sm_90"},
        {{1030, 1048, 72, 80, 1048, 0, 0, 0, BP_QUANTISED_INT8}, ALONE, BP_F16, "sm_90"},
        {{1030, 1056, 72, 80, 1056, 1, 0, 0, BP_QUANTISED_FP8}, ALONE, BP_F16, "sm_90"},
        {{1030, 1040, 72, 80, 1040, 0, 0, 0, BP_QUANTISED_FP4 + BLOCKS_OF(1)},
         ALONE,
         BP_BF16,
         "sm_90"},
    };
    (void)state;
    dequantizes = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_quantised(&rows[i], 1);
    }
    dequantizes = false;
}

typedef struct attention {
    bp_attention_forward_scalars scalars; /* of both rows */
    bp_dtype dtype;
    bool lengths;
    bool lse; /* wanted */
    const char *device;
} attention;

/* batch, sequence, heads, kv_heads, head_width, causal, site, scale, dropout, window, cap */
static const attention attentions[] = {
    {{2, 130, 4, 2, 64, 1, 3, 0.125, 0.1, 0, 0.0}, BP_BF16, false, true, "sm_90"},
    {{4, 72, 4, 2, 128, 0, 3, 0.0625, 0.0, 50, 0.0}, BP_F16, true, false, "sm_90"},
    {{1, 193, 3, 1, 128, 1, 5, 0.0625, 0.1, 70, 1.5}, BP_BF16, false, true, "sm_90"},
    /* scales that are no power of two */
    {{4, 90, 3, 1, 64, 1, 0, 0.1, 0.0, 0, 0.0}, BP_BF16, false, true, "sm_90"},
    {{4, 90, 3, 3, 64, 0, 5, 0.125, 0.2, 0, 2.0}, BP_F16, true, true, "sm_90"},
    {{4, 70, 4, 1, 128, 1, 0, 0.088388, 0.0, 0, 0.0}, BP_F16, false, true, "sm_90"},
    /* exponents above those of which products stay exact, and of scores that fall */
    {{3, 180, 2, 1, 64, 1, 0, 3e6, 0.0, 0, 0.0}, BP_BF16, false, true, "sm_90"},
    {{4, 90, 3, 3, 64, 0, 0, -0.2, 0.0, 0, 0.0}, BP_BF16, false, true, "sm_90"},
    {{1, 150, 4, 4, 128, 1, 0, 0.0625, 0.0, 0, 0.0}, BP_F16, false, true, "sm_90:sums"},
    {{2, 260, 2, 1, 64, 1, 0, 0.125, 0.0, 64, 0.0}, BP_BF16, false, true, "sm_90:sums"},
};
#define ATTENTIONS (sizeof attentions / sizeof attentions[0])

/* Of packed documents. */
static const attention packed[] = {
    {{2, 260, 4, 2, 64, 1, 0, 0.125, 0.0, 0, 0.0}, BP_BF16, true, true, "sm_90"},
    {{3, 150, 3, 1, 128, 1, 0, 0.0625, 0.0, 40, 1.5}, BP_F16, true, true, "sm_90"},
    {{1, 520, 2, 2, 64, 1, 0, 0.125, 0.0, 100, 0.0}, BP_F16, true, false, "sm_90:sums"},
    {{2, 193, 2, 1, 128, 1, 0, 0.0625, 0.0, 0, 0.0}, BP_BF16, true, true, "sm_90:sums"},
};
#define PACKED (sizeof packed / sizeof packed[0])

static void check_attention(const attention *a, bp_kernel kernel, uint32_t seeds)
{
    const bool forward =
        kernel == BP_KERNEL_attention_forward || kernel == BP_KERNEL_attention_packed_forward;
    const uint32_t lengths =
        forward ? OPERAND(attention_forward, lengths) : OPERAND(attention_backward, lengths);
    uint8_t dtypes[BP_OPERANDS_MAX];
    uint32_t absent = a->lengths ? 0 : UINT32_C(1) << lengths;
    absent |= forward && !a->lse ? UINT32_C(1) << OPERAND(attention_forward, lse) : 0;
    memset(dtypes, (int)a->dtype, sizeof dtypes);
    const call of = {kernel,
                     &a->scalars,
                     dtypes,
                     absent,
                     forward ? 0 : 1,
                     BP_CUDA_FAMILY_attention_hopper,
                     BP_CUDA_FAMILY_attention_16};
    check_bits(&of, 0, a->device, seeds);
}

/* verifies device-23.1466 */
static void attention_has_the_same_bits(void **state)
{
    (void)state;
    const uint32_t count = share_of(ATTENTIONS, 8, 2);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t forward = i == 2 ? long_or(3, 2) : 1, backward = i == 0 ? long_or(3, 2) : 1;
        check_attention(&attentions[i], BP_KERNEL_attention_forward, forward);
        check_attention(&attentions[i], BP_KERNEL_attention_backward, backward);
    }
}

/* verifies device-23.1466 */
static void packed_attention_has_the_same_bits(void **state)
{
    (void)state;
    const uint32_t count = share_of(PACKED, 2, 2);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t forward = i == 1 ? long_or(3, 2) : 1, backward = i == 0 ? long_or(3, 2) : 1;
        check_attention(&packed[i], BP_KERNEL_attention_packed_forward, forward);
        check_attention(&packed[i], BP_KERNEL_attention_packed_backward, backward);
    }
}

/* Of heads whose tiles fill all multiprocessors several times. */
/* verifies device-23.1466 */
static void attention_of_full_machines_has_the_same_bits(void **state)
{
    static const attention large[] = {
        {{16, 1024, 12, 12, 64, 1, 0, 0.125, 0.0, 0, 0.0}, BP_BF16, false, true, ""},
        {{2, 2048, 32, 8, 128, 1, 0, 0.088388, 0.0, 0, 0.0}, BP_BF16, false, true, ""},
    };
    (void)state;
    for (uint32_t i = 0; driver.real && i < sizeof large / sizeof large[0]; i++) {
        check_attention(&large[i], BP_KERNEL_attention_forward, i == 0 ? LARGE_RUNS : 3);
        check_attention(&large[i], BP_KERNEL_attention_backward, 3);
    }
}

#define SPLIT_AT 64 /* where the second of two documents begins, and a tile */
#define LONG     260

/* NaNs in rows first .. end - 1 of an operand of one sample of 16-bit elements. */
static void poison(kernel_case *c, uint32_t operand, int64_t first, int64_t end)
{
    unsigned char *at = kernel_case_at(c, 0, operand);
    const uint64_t row = c->bytes[operand] / LONG;
    memset(at + (uint64_t)first * row, 0x7f, (uint64_t)(end - first) * row);
}

/* Whether an operand of bf16 has no NaN in rows first .. end - 1. */
static bool is_clean(kernel_case *c, uint32_t operand, int64_t first, int64_t end)
{
    const unsigned char *at = kernel_case_at(c, 0, operand);
    const uint64_t row = c->bytes[operand] / LONG;
    for (uint64_t e = (uint64_t)first * row; e < (uint64_t)end * row; e += 2) {
        if ((at[e + 1] & 0x7f) == 0x7f && at[e] > 0x80) {
            return false;
        }
    }
    return true;
}

/* Of two documents in a row one has NaNs, which times zero are NaNs: where the other's tiles are,
 * its tiles are not looked at. */
static void check_left_out(bp_kernel kernel, bool first_poisoned)
{
    const bp_attention_forward_scalars s = {1, LONG, 4, 2, 64, 1, 0, 0.125, 0.0, 0, 0.0};
    const bool forward = kernel == BP_KERNEL_attention_packed_forward;
    const uint32_t starts = forward ? OPERAND(attention_packed_forward, starts)
                                    : OPERAND(attention_packed_backward, starts);
    const uint32_t qkv =
        forward ? OPERAND(attention_packed_forward, qkv) : OPERAND(attention_packed_backward, qkv);
    const int64_t from = first_poisoned ? 0 : SPLIT_AT, to = first_poisoned ? SPLIT_AT : LONG;
    uint8_t dtypes[BP_OPERANDS_MAX];
    kernel_case c;
    uint32_t made;
    memset(dtypes, BP_BF16, sizeof dtypes);
    set_device("sm_90", 0);
    kernel_case_init_typed(&c, &bp_device_cuda, kernel, &s, 1, 0, dtypes);
    fill(&c);
    int32_t *at = kernel_case_at(&c, 0, starts);
    for (int32_t i = 0; i < LONG; i++) {
        at[i] = i < SPLIT_AT ? 0 : SPLIT_AT;
    }
    poison(&c, qkv, from, to);
    if (!forward) {
        poison(&c, OPERAND(attention_packed_backward, d_out), from, to);
    }
    assert_int_equal(family_of(&c, forward ? 0 : 1, &made), BP_CUDA_FAMILY_attention_hopper);
    kernel_case_run(&c, &cuda);
    const uint32_t result = 0; /* out, or d_qkv */
    assert_true(
        is_clean(&c, result, first_poisoned ? SPLIT_AT : 0, first_poisoned ? LONG : SPLIT_AT));
    assert_false(is_clean(&c, result, from, to));
    kernel_case_free(&c);
    close_device();
}

/* verifies device-23.1466 */
static void tiles_of_other_documents_are_left_out(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        check_left_out(BP_KERNEL_attention_packed_forward, i == 0);
        check_left_out(BP_KERNEL_attention_packed_backward, i == 0);
    }
}

/* The machine's own driver makes both forms where its GPU is a Hopper. */
static bool gpu_serves(void)
{
    bp_cuda_gpu gpu;
    bp_error error = {0};
    return bp_cuda_query(0, &gpu, &error) == BP_OK && gpu.target != NULL &&
           strcmp(gpu.target, "sm_90a") == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(attention_has_the_same_bits, same_begin, same_end),
        cmocka_unit_test_setup_teardown(packed_attention_has_the_same_bits, same_begin, same_end),
        cmocka_unit_test(tiles_of_other_documents_are_left_out),
        cmocka_unit_test_setup_teardown(products_have_the_same_bits, same_begin, same_end),
        cmocka_unit_test_setup_teardown(tiles_have_the_same_bits, same_begin, same_end),
        cmocka_unit_test_setup_teardown(full_machines_have_the_same_bits, same_begin, same_end),
        cmocka_unit_test_setup_teardown(attention_of_full_machines_has_the_same_bits, same_begin,
                                        same_end),
        cmocka_unit_test(a_tensor_map_that_fails_is_reported),
        cmocka_unit_test_setup_teardown(quantised_products_have_the_same_bits, same_begin,
                                        same_end),
        cmocka_unit_test_setup_teardown(dequantized_products_have_the_same_bits, same_begin,
                                        same_end),
    };
    if (!fake_driver_load(&driver)) {
        return 1;
    }
    if (driver.real && !gpu_serves()) {
        print_message("skipped: the GPU is no Hopper\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
