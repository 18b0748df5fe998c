/* SPDX-License-Identifier: MIT */
/* The geometry of the CUDA device without a GPU: what is refused, what is empty, workspaces,
 * tables, and limits that every launch keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/launch.h"
#include "device/cuda/ptx_table.h"
#include "device/cuda/target.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random_rows.h"

static const bp_cuda_target target = {.capability = 80, .shared_limit = BP_CUDA_SHARED_LEAST};

/* What every GPU and the kernels' registers allow; tools/ptx/check.py has the same numbers of
 * threads.
 */
static void assert_launchable(const bp_cuda_launch *launch)
{
    const bp_cuda_module *module = &bp_cuda_modules[launch->module];
    const bp_cuda_function *function = &module->functions[launch->function];
    bool wide = strstr(function->name, "backward_parameters") != NULL ||
                strcmp(function->name, "bp_bias_backward") == 0 ||
                strcmp(function->name, "bp_rmsnorm_backward_weight") == 0;
    uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    /* the losses of lanes are a few numbers, added in one order by one thread */
    bool alone = strcmp(function->name, "bp_loss_tree") == 0 ||
                 strcmp(function->name, "bp_average_step") == 0;
    assert_in_range(threads, alone ? 1 : 32, wide ? 1024 : 256);
    assert_in_range(launch->grid[0], 1, INT32_MAX);
    assert_in_range(launch->grid[1], 1, 65535);
    assert_int_equal(launch->grid[2], 1);
    assert_true(launch->shared_bytes <= function->shared_most);
}

/* Plans one op whose operands lie 1 MiB apart, `shift` bytes off alignment. */
static uint32_t plan(bp_kernel kernel, const void *scalars, bp_dtype dtype, uint64_t shift,
                     bp_cuda_launch *launches)
{
    uint64_t offsets[BP_OPERANDS_MAX];
    uint8_t dtypes[BP_OPERANDS_MAX];
    for (uint32_t i = 0; i < BP_OPERANDS_MAX; i++) {
        offsets[i] = ((uint64_t)i << 20) + shift;
        dtypes[i] = (uint8_t)dtype;
    }
    const bp_linked_op op = {kernel, 1, offsets, scalars, dtypes, 0};
    uint32_t count = bp_cuda_plan_launches(&target, &op, launches);
    for (uint32_t i = 0; count != BP_CUDA_UNSUPPORTED && i < count; i++) {
        assert_launchable(&launches[i]);
    }
    return count;
}

/* verifies device-28.3659 */
static void element_types_must_agree_and_have_kernels(void **state)
{
    (void)state;
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    bp_copy_scalars copy = {.count = 5};
    assert_int_equal(plan(BP_KERNEL_copy, &copy, BP_F32, 0, launches), 1);
    assert_int_equal(plan(BP_KERNEL_copy, &copy, BP_BF16, 0, launches), 1);
    assert_int_equal(plan(BP_KERNEL_copy, &copy, BP_F64, 0, launches), BP_CUDA_UNSUPPORTED);
    const uint64_t offsets[2] = {0, 4096};
    const uint8_t dtypes[2] = {BP_F32, BP_BF16};
    const bp_linked_op mixed = {BP_KERNEL_copy, 1, offsets, &copy, dtypes, 0};
    assert_int_equal(bp_cuda_plan_launches(&target, &mixed, launches), BP_CUDA_UNSUPPORTED);
}

static bool hosts_alone(bp_kernel kernel)
{
    return kernel == BP_KERNEL_attention_slots || is_of_experts(kernel) || is_of_delta(kernel) ||
           kernel == BP_KERNEL_unpack_rows || kernel == BP_KERNEL_pixels ||
           kernel == BP_KERNEL_attention_cross_forward ||
           kernel == BP_KERNEL_attention_cross_backward ||
           kernel == BP_KERNEL_attention_biased_decode ||
           kernel == BP_KERNEL_attention_biased_forward ||
           kernel == BP_KERNEL_attention_biased_backward || kernel == BP_KERNEL_attention_deltas ||
           kernel == BP_KERNEL_attention_backward_over ||
           kernel == BP_KERNEL_attention_strip_forward ||
           kernel == BP_KERNEL_attention_strip_backward || kernel == BP_KERNEL_relative_bias ||
           kernel == BP_KERNEL_relative_bias_backward || kernel == BP_KERNEL_pair_loss ||
           kernel == BP_KERNEL_attention_disentangled_forward ||
           kernel == BP_KERNEL_attention_disentangled_backward ||
           (kernel >= BP_KERNEL_attention_sinks && kernel <= BP_KERNEL_attention_sinks_slots);
}

/* Scalars of zeros: nothing to do, except for the kernels that always write something. */
/* verifies device-28.3659 */
static void an_op_over_nothing_is_no_launch(void **state)
{
    (void)state;
    for (uint32_t kernel = 0; kernel < BP_KERNEL_COUNT; kernel++) {
        bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
        int64_t scalars[BP_SCALARS_MAX] = {0};
        if (kernel == BP_KERNEL_norm_partial) {
            scalars[offsetof(bp_norm_partial_scalars, chunk) / 8] = 1;
        }
        if (kernel == BP_KERNEL_lamb_norms) {
            scalars[offsetof(bp_lamb_norms_scalars, chunk) / 8] = 1;
        }
        if (kernel == BP_KERNEL_lars_norms) {
            scalars[offsetof(bp_lars_norms_scalars, chunk) / 8] = 1;
        }
        if (kernel == BP_KERNEL_scaled_norms) {
            scalars[offsetof(bp_scaled_norms_scalars, chunk) / 8] = 1;
        }
        if (kernel == BP_KERNEL_square_sums) {
            scalars[offsetof(bp_square_sums_scalars, chunk) / 8] = 1;
        }
        if (bp_kernel_describe((bp_kernel)kernel)->engine != BP_ENGINE_COMPUTE ||
            hosts_alone((bp_kernel)kernel)) {
            assert_int_equal(plan((bp_kernel)kernel, scalars, BP_F32, 0, launches),
                             BP_CUDA_UNSUPPORTED);
            continue;
        }
        bool always = kernel == BP_KERNEL_loss_sum || kernel == BP_KERNEL_step_decide ||
                      kernel == BP_KERNEL_average_step || kernel == BP_KERNEL_trust_ratio ||
                      kernel == BP_KERNEL_loss_tree || kernel == BP_KERNEL_preference_loss ||
                      kernel == BP_KERNEL_rms_scale || kernel == BP_KERNEL_limited_factors;
        assert_int_equal(plan((bp_kernel)kernel, scalars, BP_F32, 0, launches), always ? 1 : 0);
        assert_int_equal(bp_cuda_workspace(&target, (bp_kernel)kernel, scalars), 0);
    }
}

/* verifies device-28.3659 */
static void quantised_weights_have_tiles_of_their_own(void **state)
{
    (void)state;
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    bp_matmul_quantised_scalars s = {
        .m = 65, .n = 130, .k = 64, .lda = 64, .ldc = 130, .transpose_b = 1, .form = 1};
    assert_int_equal(plan(BP_KERNEL_matmul_quantised, &s, BP_F32, 0, launches), 1);
    assert_int_equal(launches[0].function, BP_CUDA_FUNCTION_matmul_quantised);
    assert_int_equal(launches[0].grid[0], 6);
    assert_true(launches[0].block[0] == 256 && launches[0].shared_bytes == 0);
    assert_int_equal(plan(BP_KERNEL_matmul_quantised, &s, BP_BF16, 0, launches), 1);
    assert_true(launches[0].block[0] == 128 && launches[0].shared_bytes == 32768);
    assert_int_equal(bp_cuda_workspace(&target, BP_KERNEL_matmul_quantised, &s), 0);
}

/* verifies device-28.3659 */
static void heads_too_wide_for_a_row_are_refused(void **state)
{
    (void)state;
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    bp_attention_forward_scalars forward = {
        .batch = 1, .sequence = 2, .heads = 1, .kv_heads = 1, .head_width = 20001, .causal = 1};
    bp_attention_backward_scalars backward = {
        .batch = 1, .sequence = 2, .heads = 1, .kv_heads = 1, .head_width = 7001, .causal = 1};
    bp_attention_decode_scalars decode = {
        .rows = 1, .positions = 2, .heads = 1, .kv_heads = 1, .head_width = 20001};
    assert_int_equal(plan(BP_KERNEL_attention_forward, &forward, BP_F32, 0, launches),
                     BP_CUDA_UNSUPPORTED);
    assert_int_equal(plan(BP_KERNEL_attention_backward, &backward, BP_F32, 0, launches),
                     BP_CUDA_UNSUPPORTED);
    assert_int_equal(plan(BP_KERNEL_attention_decode, &decode, BP_F32, 0, launches),
                     BP_CUDA_UNSUPPORTED);
    /* in tiles any width goes, a row's width off alignment too */
    forward.head_width = 20000;
    assert_int_equal(plan(BP_KERNEL_attention_forward, &forward, BP_F32, 0, launches), 1);
    assert_int_equal(launches[0].function, BP_CUDA_FUNCTION_attention_forward);
    forward.head_width = 64;
    assert_int_equal(plan(BP_KERNEL_attention_forward, &forward, BP_F32, 4, launches), 1);
    assert_int_equal(launches[0].function, BP_CUDA_FUNCTION_attention_forward_any);
}

/* verifies device-28.3659 */
static void products_split_by_shape_alone(void **state)
{
    (void)state;
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    bp_matmul_scalars s = {.m = 768, .n = 768, .k = 8192, .lda = 768, .ldb = 768, .ldc = 768};
    s.transpose_a = 1;
    uint64_t bytes = bp_cuda_workspace(&target, BP_KERNEL_matmul, &s);
    assert_int_equal(bytes % (768 * 768 * sizeof(float)), 0);
    assert_int_equal(plan(BP_KERNEL_matmul, &s, BP_BF16, 0, launches), 1);
    s.m = 64;
    s.n = 64;
    bytes = bp_cuda_workspace(&target, BP_KERNEL_matmul, &s);
    assert_int_equal(plan(BP_KERNEL_matmul, &s, BP_BF16, 0, launches), 2);
    assert_int_equal(bytes, (uint64_t)launches[0].grid[1] * 64 * 64 * sizeof(float));
    assert_int_equal(plan(BP_KERNEL_matmul, &s, BP_F32, 0, launches), 2);
    assert_int_equal(bytes, (uint64_t)launches[0].grid[1] * 64 * 64 * sizeof(float));
    s.m = 4096;
    s.n = 4096;
    assert_int_equal(bp_cuda_workspace(&target, BP_KERNEL_matmul, &s), 0);
    assert_int_equal(plan(BP_KERNEL_matmul, &s, BP_BF16, 0, launches), 1);
    assert_int_equal(launches[0].grid[0], 1024);
    assert_int_equal(launches[0].block[0], 128);
}

/* A grid has at most 2^31 - 1 blocks: more is refused, never cut off. */
/* verifies device-28.3659 */
static void grids_have_limits(void **state)
{
    (void)state;
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    bp_copy_scalars copy = {.count = INT64_C(1024) * INT32_MAX};
    assert_int_equal(plan(BP_KERNEL_copy, &copy, BP_F32, 0, launches), 1);
    copy.count += 1;
    assert_int_equal(plan(BP_KERNEL_copy, &copy, BP_F32, 0, launches), BP_CUDA_UNSUPPORTED);
    bp_attention_backward_scalars wide = {.batch = 1, .sequence = 2, .heads = 1, .kv_heads = 1};
    wide.head_width = INT64_C(64) * 65535;
    assert_int_equal(plan(BP_KERNEL_attention_backward, &wide, BP_F32, 0, launches), 3);
    wide.head_width += 4;
    assert_int_equal(plan(BP_KERNEL_attention_backward, &wide, BP_F32, 0, launches),
                     BP_CUDA_UNSUPPORTED);
}

/* verifies device-28.3659 */
static void blocks_fit_their_registers(void **state)
{
    (void)state;
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    const bp_bias_backward_scalars bias = {.rows = 5000, .n = 7, .pitch = 7};
    const bp_layernorm_backward_parameters_scalars norm = {.rows = 5000, .width = 7};
    const bp_rmsnorm_backward_weight_scalars rms = {
        .rows = 5000, .width = 7, .heads = 1, .pitch = 7};
    assert_int_equal(plan(BP_KERNEL_bias_backward, &bias, BP_F32, 0, launches), 1);
    assert_int_equal(plan(BP_KERNEL_layernorm_backward_parameters, &norm, BP_F32, 0, launches), 1);
    assert_int_equal(plan(BP_KERNEL_rmsnorm_backward_weight, &rms, BP_F32, 0, launches), 1);
    assert_int_equal(launches[0].block[1], 128);
}

/* verifies device-28.3659 */
static void tables_count_blocks(void **state)
{
    (void)state;
    assert_int_equal(bp_cuda_table_bytes(BP_KERNEL_matmul, 3), 0);
    assert_int_equal(bp_cuda_table_bytes(BP_KERNEL_adamw, 3), 3 * BP_CUDA_RECORD_WORDS * 8);
    bp_adamw_scalars scalars[3] = {{.count = 1025, .beta1 = 0.5}, {.count = 0}, {.count = 1024}};
    uint64_t offsets[27], table[3 * BP_CUDA_RECORD_WORDS];
    for (uint64_t i = 0; i < 27; i++) {
        offsets[i] = 1000 + i;
    }
    const uint8_t dtypes[27] = {0};
    const bp_linked_op op = {BP_KERNEL_adamw, 3, offsets, scalars, dtypes, 0};
    bp_cuda_write_table(&op, table);
    assert_int_equal(table[0], 2);
    assert_int_equal(table[BP_CUDA_RECORD_WORDS], 2);
    assert_int_equal(table[2 * BP_CUDA_RECORD_WORDS], 3);
    assert_memory_equal(&table[BP_CUDA_RECORD_OFFSETS], offsets, 9 * sizeof(uint64_t));
    assert_memory_equal(&table[BP_CUDA_RECORD_SCALARS], &scalars[0], sizeof scalars[0]);
    assert_int_equal(table[BP_CUDA_RECORD_TYPES], 0);
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    assert_int_equal(bp_cuda_plan_launches(&target, &op, launches), 1);
    assert_int_equal(launches[0].grid[0], 3);
}

/* Every module is a text that ends in a zero byte and names its functions. */
static void modules_are_what_they_say(void **state)
{
    (void)state;
    assert_int_equal(bp_cuda_module_count, BP_CUDA_MODULE_COUNT);
    for (uint32_t i = 0; i < bp_cuda_module_count; i++) {
        const bp_cuda_module *module = &bp_cuda_modules[i];
        const char *text = (const char *)module->begin;
        assert_int_equal(*module->end, 0);
        assert_int_equal(strlen(text), module->end - module->begin);
        for (uint32_t f = 0; f < module->function_count; f++) {
            assert_true(module->functions[f].shared_most <=
                        bp_cuda_target_find(module->target)->shared_bytes);
            assert_non_null(strstr(text, module->functions[f].name));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(element_types_must_agree_and_have_kernels),
        cmocka_unit_test(an_op_over_nothing_is_no_launch),
        cmocka_unit_test(quantised_weights_have_tiles_of_their_own),
        cmocka_unit_test(heads_too_wide_for_a_row_are_refused),
        cmocka_unit_test(products_split_by_shape_alone),
        cmocka_unit_test(grids_have_limits),
        cmocka_unit_test(blocks_fit_their_registers),
        cmocka_unit_test(tables_count_blocks),
        cmocka_unit_test(modules_are_what_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
