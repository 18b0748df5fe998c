/* SPDX-License-Identifier: MIT */
/* Who makes products and attention for a Hopper, and in which tiles: launches as pure functions of
 * the op. Their bits: test_hopper.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/quantised.h"
#include "device/cuda/launch.h"
#include "device/cuda/ptx_table.h"
#include "device/cuda/target.h"

/* What a plan says of an op with kernels for every GPU, and of one with the target's own. */
static void check_said(const bp_cuda_target *target, const bp_linked_op *op, bool own)
{
    const bool sixteen = op->dtypes[0] != BP_F32;
    const char *why = bp_cuda_plan_misses(target, op);
    assert_true((why != NULL) == (target->hopper && sixteen && !own));
}

/* Which family makes a product of bf16 in an arena from `place` on, planned without a driver. */
static uint32_t planned(const bp_cuda_target *target, const bp_matmul_scalars *s, uint64_t place,
                        bp_dtype dtype)
{
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    uint64_t offsets[BP_OPERANDS_MAX];
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)dtype, sizeof dtypes);
    for (uint32_t i = 0; i < BP_OPERANDS_MAX; i++) {
        offsets[i] = place + i * (UINT64_C(1) << 30);
    }
    const bp_linked_op op = {BP_KERNEL_matmul, 1, offsets, s, dtypes, 0};
    const uint32_t count = bp_cuda_plan_launches(target, &op, launches);
    assert_true(count >= 1 && count <= 2);
    const bp_cuda_launch *first = &launches[0];
    if (bp_cuda_modules[first->module].family == BP_CUDA_FAMILY_matmul_hopper) {
        assert_true(first->grid[0] * first->grid[1] <= 132 || first->grid[0] == 1);
        assert_int_equal(first->block[0], 384);
        assert_true(first->shared_bytes <= target->shared_limit);
    }
    const uint32_t family = bp_cuda_modules[first->module].family;
    if (target->refused == 0) {
        check_said(target, &op,
                   family == BP_CUDA_FAMILY_matmul_hopper || family == BP_CUDA_FAMILY_matmul_low);
    }
    return family;
}

/* A narrow side has the same form, in one launch, on every GPU: those of an adapter of rank 64 for
 * 8,192 rows; not one of 65 columns, of fewer terms than two slices, of more than 1,024 for each
 * block, or in fp32. */
static void check_low(const bp_cuda_target *plain, const bp_cuda_target *hopper)
{
    static const bp_matmul_scalars low[] = {{8192, 64, 4096, 4096, 4096, 64, 0, 1, 0, 0},
                                            {8192, 8, 14336, 14336, 8, 8, 0, 0, 0, 0},
                                            {64, 14336, 8192, 64, 14336, 14336, 1, 0, 1, 0},
                                            {512, 16, 8192, 512, 16, 16, 1, 0, 1, 0}};
    static const bp_matmul_scalars not_low[] = {{8192, 65, 4096, 4096, 4096, 65, 0, 1, 0, 0},
                                                {8192, 64, 255, 256, 256, 64, 0, 1, 0, 0},
                                                {512, 16, 8193, 512, 16, 16, 1, 0, 1, 0}};
    for (uint32_t i = 0; i < sizeof low / sizeof low[0]; i++) {
        assert_int_equal(planned(plain, &low[i], 0, BP_BF16), BP_CUDA_FAMILY_matmul_low);
        assert_int_equal(planned(hopper, &low[i], 8, BP_F16), BP_CUDA_FAMILY_matmul_low);
        assert_int_equal(planned(plain, &low[i], 0, BP_F32), BP_CUDA_FAMILY_matmul);
    }
    for (uint32_t i = 0; i < sizeof not_low / sizeof not_low[0]; i++) {
        assert_int_equal(planned(plain, &not_low[i], 0, BP_BF16), BP_CUDA_FAMILY_matmul);
    }
}

/* Hopper's form: 16-bit elements on that target, enough tiles, operands that a tensor map can
 * describe. All else, and where the driver does not take its text, goes to the others. */
/* verifies device-24.f51a */
static void who_makes_which_product(void **state)
{
    (void)state;
    const uint32_t own = BP_CUDA_FAMILY_matmul_hopper, all = BP_CUDA_FAMILY_matmul;
    const bp_cuda_target plain = bp_cuda_target_of(bp_cuda_target_find("sm_80"), false);
    bp_cuda_target hopper = bp_cuda_target_of(bp_cuda_target_find("sm_90a"), false);
    /* GPT-2's first product of a block, forward, and its weight's gradient: three splits. */
    const bp_matmul_scalars forward = {8192, 2304, 768, 768, 768, 2304, 0, 1, 0, 0};
    const bp_matmul_scalars weight = {768, 768, 8192, 768, 768, 768, 1, 0, 1, 0};
    assert_int_equal(planned(&hopper, &forward, 0, BP_BF16), own);
    assert_int_equal(planned(&hopper, &weight, 0, BP_F16), own);
    assert_int_equal(planned(&plain, &forward, 0, BP_BF16), all);
    assert_int_equal(planned(&hopper, &forward, 0, BP_F32), all);
    assert_int_equal(planned(&hopper, &forward, 8, BP_BF16), all);
    bp_matmul_scalars other = forward;
    other.lda = 772; /* lines that begin at multiples of 8 bytes */
    assert_int_equal(planned(&hopper, &other, 0, BP_BF16), all);
    other = forward;
    other.m = 256;
    other.n = 2816; /* 44 tiles, too short to split */
    assert_int_equal(planned(&hopper, &other, 0, BP_BF16), own);
    other.n = 2816 - 128 * 2; /* 40: in three splits 120 */
    assert_int_equal(planned(&hopper, &other, 0, BP_BF16), own);
    other.k = 64;
    assert_int_equal(planned(&hopper, &other, 0, BP_BF16), all);
    const bp_matmul_scalars thin = {16384, 64, 64, 64, 64, 64, 0, 1, 0, 0};
    assert_int_equal(planned(&hopper, &thin, 0, BP_BF16), all); /* b has 8 KiB */
    check_low(&plain, &hopper);
    const uint64_t more = bp_cuda_workspace(&hopper, BP_KERNEL_matmul, &weight);
    assert_true(more == UINT64_C(3) * 768 * 768 * 4);
    assert_true(bp_cuda_workspace(&plain, BP_KERNEL_matmul, &weight) == 0);
    hopper.refused = UINT64_C(1) << BP_CUDA_MODULE_matmul_hopper;
    assert_int_equal(planned(&hopper, &forward, 0, BP_BF16), all);
}

/* The tile of a product on Hopper's own instructions, planned without a driver: rows and columns as
 * its kernel's last word has them. */
static void tile_of(const bp_matmul_scalars *s, uint32_t *rows, uint32_t *columns)
{
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    uint64_t offsets[BP_OPERANDS_MAX] = {0};
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, BP_BF16, sizeof dtypes);
    const bp_cuda_target hopper = bp_cuda_target_of(bp_cuda_target_find("sm_90a"), false);
    const bp_linked_op op = {BP_KERNEL_matmul, 1, offsets, s, dtypes, 0};
    assert_true(bp_cuda_plan_launches(&hopper, &op, launches) >= 1);
    assert_int_equal(bp_cuda_modules[launches[0].module].family, BP_CUDA_FAMILY_matmul_hopper);
    const uint64_t flags = launches[0].parameter[launches[0].parameter_count - 3].value;
    *rows = (uint32_t)((flags >> 12 & 1) + 1) * 128;
    *columns = (uint32_t)(flags >> 13 & 7) * 32;
}

/* Tiles by the model of device/cuda/hopper_tiles.h, from waves counted by hand. Weight gradients
 * keep the splits that they have in tiles of 128, so that bits do not depend on the tile. */
/* verifies device-24.f51a */
static void which_tile_takes_fewest_clocks(void **state)
{
    static const struct {
        bp_matmul_scalars scalars;
        uint32_t rows;
        uint32_t columns;
    } rows[] = {
        /* 384 tiles in 3 waves of 21,242 clocks; of 256 x 128 576 in 5 of 14,766 */
        {{8192, 2304, 768, 768, 768, 2304, 0, 1, 0, 0}, 256, 192},
        /* 128 in one wave; of 128 x 192 256 in 2 of 12,303 */
        {{8192, 768, 768, 768, 768, 768, 0, 1, 0, 0}, 256, 192},
        /* 96 in one wave of 114,267; of 256 x 128 72 in one of 137,146 */
        {{3072, 768, 8192, 3072, 768, 768, 1, 0, 1, 0}, 128, 192},
        /* 640 in 5 waves of 34,458; of 256 x 128 832 in 7 of 28,481 */
        {{16384, 1600, 1600, 1600, 1600, 1600, 0, 1, 0, 0}, 256, 160},
        /* 512 in 4 waves of 35,866; of 256 x 192 704 in 6 of 51,962 */
        {{16384, 2048, 2048, 2048, 2048, 2048, 0, 1, 0, 0}, 256, 128},
        /* 36 tiles in 3 splits: one wave of all, and 703 clocks are least */
        {{768, 768, 8192, 768, 768, 768, 1, 0, 1, 0}, 128, 128},
        /* 133 tiles of 128 are two waves, 67 of 256 one */
        {{128 * 133, 128, 768, 768, 768, 128, 0, 1, 0, 0}, 256, 128},
        {{128 * 132, 128, 768, 768, 768, 128, 0, 1, 0, 0}, 128, 128},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t down, across;
        tile_of(&rows[i].scalars, &down, &across);
        assert_int_equal(down, rows[i].rows);
        assert_int_equal(across, rows[i].columns);
    }
}

/* Which family makes attention, planned without a driver: the launch before the last, if several.
 */
static uint32_t attention_of(const bp_cuda_target *target, bp_kernel kernel,
                             const bp_attention_forward_scalars *s, bp_dtype dtype)
{
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    uint64_t offsets[BP_OPERANDS_MAX];
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)dtype, sizeof dtypes);
    for (uint32_t i = 0; i < BP_OPERANDS_MAX; i++) {
        offsets[i] = i * (UINT64_C(1) << 36);
    }
    const bp_linked_op op = {kernel, 1, offsets, s, dtypes, 0};
    const uint32_t count = bp_cuda_plan_launches(target, &op, launches);
    const bool forward =
        kernel == BP_KERNEL_attention_forward || kernel == BP_KERNEL_attention_packed_forward;
    assert_int_equal(count, forward ? 1 : 3);
    assert_true(launches[count - 1].shared_bytes <= target->shared_limit);
    const uint32_t family = bp_cuda_modules[launches[count - 1].module].family;
    if (target->refused == 0) {
        check_said(target, &op, family == BP_CUDA_FAMILY_attention_hopper);
    }
    return family;
}

/* Hopper's form: 16-bit elements, heads of 64 and of 128, operands that fill 128 KiB. */
/* verifies device-24.f51a */
static void who_makes_which_attention(void **state)
{
    (void)state;
    const uint32_t own = BP_CUDA_FAMILY_attention_hopper, all = BP_CUDA_FAMILY_attention_16;
    const bp_kernel forward = BP_KERNEL_attention_forward, backward = BP_KERNEL_attention_backward;
    const bp_cuda_target plain = bp_cuda_target_of(bp_cuda_target_find("sm_80"), false);
    bp_cuda_target hopper = bp_cuda_target_of(bp_cuda_target_find("sm_90a"), false);
    bp_attention_forward_scalars s = {8, 1024, 12, 12, 64, 1, 0, 0.125, 0.0, 0, 0.0};
    assert_int_equal(attention_of(&hopper, forward, &s, BP_BF16), own);
    assert_int_equal(attention_of(&hopper, backward, &s, BP_F16), own);
    assert_int_equal(attention_of(&plain, forward, &s, BP_BF16), all);
    assert_int_equal(attention_of(&hopper, forward, &s, BP_F32), BP_CUDA_FAMILY_attention);
    s.head_width = 128;
    s.kv_heads = 4;
    assert_int_equal(attention_of(&hopper, backward, &s, BP_BF16), own);
    assert_int_equal(attention_of(&hopper, BP_KERNEL_attention_packed_forward, &s, BP_F16), own);
    assert_int_equal(attention_of(&hopper, BP_KERNEL_attention_packed_backward, &s, BP_BF16), own);
    assert_int_equal(attention_of(&plain, BP_KERNEL_attention_packed_backward, &s, BP_BF16), all);
    s.head_width = 80;
    assert_int_equal(attention_of(&hopper, forward, &s, BP_BF16), all);
    assert_int_equal(attention_of(&hopper, BP_KERNEL_attention_packed_forward, &s, BP_BF16), all);
    s.head_width = 64;
    s.batch = 1;
    s.sequence = 85; /* of 12 heads and 8 more 217,600 bytes, of 12 alone 130,560 */
    assert_int_equal(attention_of(&hopper, forward, &s, BP_BF16), own);
    assert_int_equal(attention_of(&hopper, backward, &s, BP_BF16), all);
    s.sequence = 86;
    assert_int_equal(attention_of(&hopper, backward, &s, BP_BF16), own);
    hopper.refused = UINT64_C(1) << BP_CUDA_MODULE_attention_hopper;
    assert_int_equal(attention_of(&hopper, forward, &s, BP_BF16), all);
}

/* Which family makes a product with codes from `place` on, planned without a driver. */
static uint32_t quantised_of(const bp_cuda_target *target, const bp_matmul_quantised_scalars *s,
                             uint64_t place, bp_dtype dtype)
{
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    uint64_t offsets[BP_OPERANDS_MAX];
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)dtype, sizeof dtypes);
    for (uint32_t i = 0; i < BP_OPERANDS_MAX; i++) {
        offsets[i] = place + i * (UINT64_C(1) << 36);
    }
    const bp_linked_op op = {BP_KERNEL_matmul_quantised, 1, offsets, s, dtypes, 0};
    assert_int_equal(bp_cuda_plan_launches(target, &op, launches), 1);
    assert_true(launches[0].shared_bytes <= target->shared_limit && launches[0].grid[0] > 0);
    const uint32_t family = bp_cuda_modules[launches[0].module].family;
    const bool own = family == BP_CUDA_FAMILY_quantised_hopper;
    assert_true(!own || (launches[0].grid[0] <= 132 && launches[0].block[0] == 512));
    if (target->refused == 0) {
        check_said(target, &op, own);
    }
    return family;
}

/* Hopper's form: 16-bit elements, rows of codes in eights, an `a` that a tensor map can describe,
 * enough tiles. */
/* verifies device-24.f51a */
static void who_makes_which_quantised_product(void **state)
{
    (void)state;
    const uint32_t own = BP_CUDA_FAMILY_quantised_hopper, all = BP_CUDA_FAMILY_quantised;
    const bp_cuda_target plain = bp_cuda_target_of(bp_cuda_target_find("sm_80"), false);
    bp_cuda_target hopper = bp_cuda_target_of(bp_cuda_target_find("sm_90a"), false);
    const bp_matmul_quantised_scalars s = {.m = 4096,
                                           .n = 4096,
                                           .k = 4096,
                                           .lda = 4096,
                                           .ldc = 4096,
                                           .transpose_b = 1,
                                           .form = BP_QUANTISED_NF4_DOUBLE};
    assert_int_equal(quantised_of(&hopper, &s, 0, BP_BF16), own);
    assert_int_equal(quantised_of(&plain, &s, 0, BP_BF16), all);
    assert_int_equal(quantised_of(&hopper, &s, 0, BP_F32), all);
    assert_int_equal(quantised_of(&hopper, &s, 8, BP_F16), all);
    bp_matmul_quantised_scalars other = s;
    other.lda = 4100; /* lines that begin at multiples of 8 bytes */
    assert_int_equal(quantised_of(&hopper, &other, 0, BP_BF16), all);
    other = s;
    other.k = 4092; /* of a row of codes, as weights lie forward */
    assert_int_equal(quantised_of(&hopper, &other, 0, BP_BF16), all);
    other.transpose_b = 0; /* and backward, where rows have n */
    assert_int_equal(quantised_of(&hopper, &other, 0, BP_BF16), own);
    other.n = 4092;
    assert_int_equal(quantised_of(&hopper, &other, 0, BP_BF16), all);
    other = s;
    other.m = 16; /* 128 KiB, and 32 tiles */
    assert_int_equal(quantised_of(&hopper, &other, 0, BP_BF16), all);
    other.n = 48 * 128 - 127;
    assert_int_equal(quantised_of(&hopper, &other, 0, BP_BF16), own);
    other.m = 15;
    assert_int_equal(quantised_of(&hopper, &other, 0, BP_BF16), all);
    other = s;
    other.k = other.lda = UINT32_MAX / 2 / 8 * 8 + 8;
    assert_int_equal(quantised_of(&hopper, &other, 0, BP_BF16), all);
    hopper.refused = UINT64_C(1) << BP_CUDA_MODULE_quantised_hopper;
    assert_int_equal(quantised_of(&hopper, &s, 0, BP_BF16), all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_makes_which_product),
        cmocka_unit_test(which_tile_takes_fewest_clocks),
        cmocka_unit_test(who_makes_which_attention),
        cmocka_unit_test(who_makes_which_quantised_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
