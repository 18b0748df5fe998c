/* SPDX-License-Identifier: MIT */
/* The rows of kernels.def, scalar by scalar: what a row requires of them, and extents that saturate
 * where a scalar is no size, so that nothing negative or huge looks like something small. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "arena/base.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_random.h"
#include "tests/fixtures/share.h"

#define SEEDS long_or(12, 6)

/* What each scalar is, read from the table once more. */
typedef enum scalar_kind { IS_DIM, IS_FLAG, IS_REAL, IS_FRACTION } scalar_kind;

typedef struct scalar_row {
    bp_kernel kernel;
    const char *name;
    scalar_kind kind;
} scalar_row;

static const scalar_row scalar_rows[] = {
#define KERNEL(name) {BP_KERNEL_##name, NULL, IS_DIM},
#define DIM(x)       {BP_KERNEL_COUNT, #x, IS_DIM},
#define FLAG(x)      {BP_KERNEL_COUNT, #x, IS_FLAG},
#define REAL(x)      {BP_KERNEL_COUNT, #x, IS_REAL},
#define FRACTION(x)  {BP_KERNEL_COUNT, #x, IS_FRACTION},
#include "core/ops/kernels.def"
    {BP_KERNEL_COUNT, NULL, IS_DIM}};

/* The kind of a kernel's scalar number i. */
static scalar_kind kind_of(bp_kernel kernel, uint32_t i)
{
    size_t at = 0;
    while (scalar_rows[at].name != NULL || scalar_rows[at].kernel != kernel) {
        at++;
    }
    const scalar_row *row = &scalar_rows[at + 1 + i];
    assert_string_equal(row->name, bp_kernel_describe(kernel)->scalar[i].name);
    return row->kind;
}

static uint64_t bits_of(double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

typedef void (*scalar_act)(const bp_kernel_info *info, const uint64_t *scalars, uint32_t i,
                           scalar_kind kind);

/* Every scalar of every row, in drawn calls. */
static void each_scalar(scalar_act act)
{
    for (uint32_t kernel = 0; kernel < BP_KERNEL_COUNT; kernel++) {
        const bp_kernel_info *info = bp_kernel_describe((bp_kernel)kernel);
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            kernel_case c;
            uint64_t scalars[BP_SCALARS_MAX];
            kernel_random_case(&c, &bp_device_host, (bp_kernel)kernel, seed);
            memcpy(scalars, c.scalars, sizeof scalars);
            kernel_case_free(&c);
            assert_true(info->legal(scalars));
            for (uint32_t i = 0; i < info->scalar_count; i++) {
                act(info, scalars, i, kind_of((bp_kernel)kernel, i));
            }
        }
    }
}

static bool legal_with(const bp_kernel_info *info, const uint64_t *scalars, uint32_t i,
                       uint64_t value)
{
    uint64_t changed[BP_SCALARS_MAX];
    memcpy(changed, scalars, sizeof changed);
    changed[i] = value;
    return info->legal(changed);
}

static void act_kind(const bp_kernel_info *info, const uint64_t *scalars, uint32_t i,
                     scalar_kind kind)
{
    static const double no_fractions[] = {-0.5, 1.0, 7.0, -1e300};
    if (kind == IS_FLAG) {
        assert_false(legal_with(info, scalars, i, 2));
        assert_false(legal_with(info, scalars, i, UINT64_MAX));
    }
    for (size_t k = 0; kind == IS_FRACTION && k < 4; k++) {
        assert_false(legal_with(info, scalars, i, bits_of(no_fractions[k])));
    }
    if (kind == IS_FRACTION) {
        assert_false(legal_with(info, scalars, i, UINT64_C(0x7ff8000000000000))); /* NaN */
        assert_true(legal_with(info, scalars, i, bits_of(0.0)));
    }
}

/* verifies program-8.d4d3 */
static void flags_and_fractions_are_held(void **state)
{
    (void)state;
    each_scalar(act_kind);
}

typedef struct require_row {
    bp_kernel kernel;
    const char *scalar;
    int64_t value;
    bool legal;
} require_row;

#define ROW(kernel, scalar, value, legal)                                                          \
    {                                                                                              \
        BP_KERNEL_##kernel, #scalar, value, legal                                                  \
    }

/* What stands behind REQUIRE, in numbers. */
static const require_row requires[] = {
    ROW(embedding_forward, sequence, 0, false),
    ROW(embedding_token_backward, sequence, 0, false),
    ROW(attention_forward, kv_heads, 0, false),
    ROW(attention_backward, kv_heads, 0, false),
    ROW(attention_backward_over, kv_heads, 0, false),
    ROW(attention_decode, kv_heads, 0, false),
    ROW(attention_slots, kv_heads, 0, false),
    ROW(attention_sinks_decode, kv_heads, 0, false),
    ROW(attention_sinks_slots, kv_heads, 0, false),
    ROW(short_conv_forward, taps, 0, false),
    ROW(short_conv_forward, taps, 17, false),
    ROW(short_conv_backward, taps, 17, false),
    ROW(short_conv_backward_weight, taps, 17, false),
    ROW(short_conv_decode, before, 0, false),
    ROW(short_conv_decode, before, 16, false),
    ROW(delta_forward, key_heads, 0, false),
    ROW(delta_backward, key_heads, 0, false),
    ROW(delta_decode, key_heads, 0, false),
    ROW(expert_bias, top, 1000, false),
    ROW(expert_bias_backward, top, 1000, false),
    ROW(expert_bias_weights, top, 0, false),
    ROW(route_choose, top, 0, false),
    ROW(route_choose, top, 1000, false),
    ROW(route_choose_scored, top, 0, false),
    ROW(route_choose_scored, top, 1000, false),
    ROW(route_choose_scored, groups, 65, false),
    ROW(route_choose_scored, kept, 0, false),
    ROW(route_choose_scored, kept, 65, false),
    ROW(route_scored_backward, top, 0, false),
    ROW(route_scored_backward, top, 1000, false),
    ROW(matmul_experts, top, 1000, false),
    ROW(matmul_experts_quantised, top, 1000, false),
    ROW(matmul_experts_quantised, form, 0, false),
    ROW(matmul_experts_quantised, form, 1000, false),
    ROW(attention_biased_forward, kv_heads, 0, false),
    ROW(attention_biased_backward, kv_heads, 0, false),
    ROW(attention_biased_decode, kv_heads, 0, false),
    ROW(relative_bias, buckets, 3, false),
    ROW(relative_bias, buckets, 257, false),
    ROW(relative_bias, most, 0, false),
    ROW(relative_bias_backward, buckets, 3, false),
    ROW(relative_bias_backward, buckets, 257, false),
    ROW(relative_bias_backward, most, 0, false),
    ROW(attention_disentangled_forward, buckets, 3, false),
    ROW(attention_disentangled_forward, buckets, 4097, false),
    ROW(attention_disentangled_forward, most, 0, false),
    ROW(attention_disentangled_backward, buckets, 3, false),
    ROW(attention_disentangled_backward, buckets, 4097, false),
    ROW(attention_disentangled_backward, most, 0, false),
    ROW(tree_sum, pieces, 0, false),
    ROW(tree_sum, pieces, 1024, true),
    ROW(tree_sum, pieces, 1025, false),
    ROW(tree_sum, pieces, 3, false),
    ROW(tree_sum, pieces, 2048, false),
    ROW(loss_tree, lanes, 0, false),
    ROW(loss_tree, lanes, 3, false),
    ROW(loss_tree, lanes, 2048, false),
    ROW(step_decide, scaling, 3, false),
    ROW(step_decide, previous, 3, false),
    ROW(step_decide, percentile, 1 << 20, false),
    ROW(random_normal, form, 1000, false),
    ROW(activation_forward, kind, 1000, false),
    ROW(activation_backward, kind, 1000, false),
    ROW(sample_loss, kind, 1000, false),
    ROW(sample_loss, sequence, 0, false),
    ROW(matmul_quantised, form, 0, false),
    ROW(matmul_quantised, form, 1000, false),
    ROW(broadcast_begin, root, 1 << 20, false),
    ROW(all_gather_begin, ranks, 0, false),
    ROW(exchange_begin, ranks, 0, false),
    ROW(gather_pieces_begin, ranks, 0, false),
    ROW(gather_pieces_begin, member, 1, false),
    ROW(exchange_pieces_begin, member, 1, false),
    ROW(adamw, fold, 4, false),
    ROW(adamw, first, 255, false),
    ROW(adamw, form, 1000, false),
    ROW(adamw, master_form, 1000, false),
    ROW(scaled, rows, 0, false),
    ROW(scaled, width, 0, false),
    ROW(square_sums, chunk, 0, false),
    ROW(moment_factors, kind, 3, false),
    ROW(direction, form, 1000, false),
};

/* verifies program-8.d4d3 */
static void requirements_are_those_of_the_table(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof requires / sizeof requires[0]; r++) {
        const require_row *row = &requires[r];
        const bp_kernel_info *info = bp_kernel_describe(row->kernel);
        kernel_case c;
        uint32_t i = 0;
        while (i < info->scalar_count && strcmp(info->scalar[i].name, row->scalar) != 0) {
            i++;
        }
        if (i == info->scalar_count) {
            fail_msg("%s has no %s", info->name, row->scalar);
        }
        kernel_random_case(&c, &bp_device_host, row->kernel, r);
        if (legal_with(info, c.scalars, i, (uint64_t)row->value) != row->legal) {
            fail_msg("%s: %s = %d", info->name, row->scalar, (int)row->value);
        }
        kernel_case_free(&c);
    }
}

/* From the first element of the first row to the last one of the last; rows that overlap are none,
 * and one row has no pitch. */
/* verifies program-8.d4d3 */
static void extents_reach_to_their_last_element(void **state)
{
    (void)state;
    static const struct {
        uint64_t rows, width, pitch, bytes;
    } cases[] = {
        {0, 5, 5, 0},
        {3, 0, 5, 0},
        {1, 5, 0, 20},
        {1, 5, 9, 20},
        {2, 5, 5, 40},
        {2, 5, 7, 48},
        {3, 5, 7, 76},
        {2, 5, 4, BP_SIZE_INVALID},
        {3, 5, 4, BP_SIZE_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bp_extent extent = {
            .rows = cases[i].rows, .width = cases[i].width, .pitch = cases[i].pitch};
        assert_true(bp_extent_bytes(&extent, 4) == cases[i].bytes);
    }
}

/* Bytes that an extent reaches over, of elements of one byte. */
static uint64_t reach(const bp_kernel_info *info, const uint64_t *scalars, uint32_t operand)
{
    bp_extent extents[BP_OPERANDS_MAX];
    memset(extents, 0, sizeof extents);
    info->extents(scalars, extents);
    return bp_extent_bytes(&extents[operand], 1);
}

static void act_extents(const bp_kernel_info *info, const uint64_t *scalars, uint32_t i,
                        scalar_kind kind)
{
    static const int64_t values[] = {0, 1, 2, 3, 64, 255, 256, 1000, 1025, INT64_C(1) << 40, -1};
    uint64_t changed[BP_SCALARS_MAX];
    memcpy(changed, scalars, sizeof changed);
    for (size_t k = 0; kind == IS_DIM && k < sizeof values / sizeof values[0]; k++) {
        changed[i] = (uint64_t)values[k];
        const bool legal = info->legal(changed);
        for (uint32_t o = 0; o < info->operand_count; o++) {
            const uint64_t bytes = legal ? reach(info, changed, o) : BP_SIZE_INVALID;
            /* No size may go round to a small one: what -1 reaches to is as it was, nothing at
             * all, more, or no size. */
            const uint64_t before = reach(info, scalars, o);
            assert_true(values[k] != -1 || bytes == 0 || bytes >= before ||
                        info->operand[o].sized || strcmp(info->scalar[i].name, "chunk") == 0);
        }
    }
}

/* verifies program-2.b754 */
static void extents_do_not_go_round(void **state)
{
    (void)state;
    each_scalar(act_extents);
}

/* Of two operands that may be the same bytes the first is written and the second is not: the
 * verifier looks for the one that is written in the first place alone. */
/* verifies program-3.94c6 */
static void pairs_begin_with_what_is_written(void **state)
{
    (void)state;
    uint32_t pairs = 0;
    for (uint32_t kernel = 0; kernel < BP_KERNEL_COUNT; kernel++) {
        const bp_kernel_info *info = bp_kernel_describe((bp_kernel)kernel);
        bp_extent extents[BP_OPERANDS_MAX];
        kernel_case c;
        kernel_random_case(&c, &bp_device_host, (bp_kernel)kernel, kernel);
        info->extents(c.scalars, extents);
        kernel_case_free(&c);
        for (uint32_t i = 0; i < info->in_place_count; i++) {
            assert_int_not_equal(extents[info->in_place[i][0]].access, BP_ACCESS_READ);
            assert_int_equal(extents[info->in_place[i][1]].access, BP_ACCESS_READ);
            pairs++;
        }
    }
    assert_true(pairs > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_and_fractions_are_held),
        cmocka_unit_test(requirements_are_those_of_the_table),
        cmocka_unit_test(extents_do_not_go_round),
        cmocka_unit_test(extents_reach_to_their_last_element),
        cmocka_unit_test(pairs_begin_with_what_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
