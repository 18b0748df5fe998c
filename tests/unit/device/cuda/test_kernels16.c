/* SPDX-License-Identifier: MIT */
/* Rows of kernels.def in bfloat16 and half on CUDA, against the host in float on the same inputs:
 * results differ by their rounding, one unit of the last place, and the order of long sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/dtype.h"
#include "core/ops/master.h"
#include "core/ops/quantised.h"
#include "core/ir/step.h"
#include "device/cuda/cuda.h"
#include "device/cuda/launch.h"
#include "device/cuda/target.h"
#include "device/host/host.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/kernels/difference.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"
#include "tests/fixtures/share.h"

#define ARENA_BYTES (UINT64_C(48) << (getenv("BP_TEST_GPU") != NULL ? 22 : 20))
#define SEEDS       share_of(10, 6, 4)
#define ORDERED     1 /* of them also run in other orders */

static instrument driver;
static kernel_device host, cuda;

static uint16_t to_16(float x, bp_dtype dtype)
{
    uint32_t bits;
    if (dtype == BP_F16) {
        return bp_f16_from_f32(x);
    }
    memcpy(&bits, &x, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* to nearest even */
}

static float from_16(uint16_t bits, bp_dtype dtype)
{
    return dtype == BP_F16 ? bp_f32_from_f16(bits) : bp_f32_from_bf16(bits);
}

/* Which operands are 16 bits wide: all, those of the working type, or the others. */
typedef enum mix { MIX_ALL, MIX_WORKING, MIX_OTHERS, MIX_COUNT } mix;

/* What one comparison is about. */
typedef struct trial {
    bp_dtype dtype; /* of 16 bits */
    mix mix;
    bool ordered; /* also runs in other orders */
} trial;

static uint32_t slots_of(const kernel_case *c)
{
    return c->tuples * bp_kernel_describe(c->kernel)->operand_count;
}

/* Whether an operand is 16 bits wide. */
static bool narrow(const kernel_case *c, uint32_t slot, const trial *on)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    const bp_operand_info *operand = &info->operand[slot % info->operand_count];
    mix left_out = operand->type != BP_TYPE_ANY ? MIX_WORKING : MIX_OTHERS;
    return operand->type <= BP_TYPE_WEIGHT && !operand->workspace && on->mix != left_out &&
           c->dtypes[slot] != BP_U8 && c->offsets[slot] != BP_OFFSET_ABSENT;
}

/* Rounds all narrow elements: the host keeps them as floats, CUDA gets them packed at the start of
 * the operand's place. */
static void round_inputs(kernel_case *c, const trial *on, bool pack)
{
    for (uint32_t slot = 0; slot < slots_of(c); slot++) {
        unsigned char *at = narrow(c, slot, on) ? c->image + c->offsets[slot] : NULL;
        for (uint64_t i = 0; at != NULL && i < c->bytes[slot] / 4; i++) {
            float x;
            memcpy(&x, at + i * 4, 4);
            uint16_t bits = to_16(x, on->dtype);
            x = from_16(bits, on->dtype);
            memcpy(at + i * (pack ? 2 : 4), pack ? (void *)&bits : (void *)&x, pack ? 2 : 4);
        }
    }
}

/* Links and runs ops over a case's image. */
static void run_ops(kernel_case *c, kernel_device *on, bp_linked_op *ops, uint32_t count)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    bp_linked_program program = {ops, count};
    uint64_t bytes = on->device->link_bytes(count, slots_of(c), c->tuples * info->scalar_count);
    void *memory = malloc(bytes);
    assert_int_equal(on->device->upload(on->context, 0, c->image, c->image_bytes), BP_OK);
    assert_int_equal(on->device->link(on->context, 0, &program, memory, bytes), BP_OK);
    assert_int_equal(on->device->run(on->context, 0), BP_OK);
    assert_int_equal(on->device->wait(on->context), BP_OK);
    assert_int_equal(on->device->download(on->context, 0, c->image, c->image_bytes), BP_OK);
    free(memory);
}

/* A case with one type for each slot; kernel_case_run knows floats only. */
static void run_typed(kernel_case *c, kernel_device *on, const uint8_t *dtypes)
{
    uint64_t table = bp_size_align(c->image_bytes, BP_ARENA_ALIGNMENT);
    bp_linked_op op = {c->kernel, c->tuples, c->offsets, c->scalars, dtypes, table};
    run_ops(c, on, &op, 1);
}

static void run_16(kernel_case *c, const trial *on)
{
    uint8_t dtypes[CASE_TUPLES * BP_OPERANDS_MAX];
    for (uint32_t slot = 0; slot < slots_of(c); slot++) {
        dtypes[slot] = (uint8_t)(narrow(c, slot, on) ? on->dtype : BP_F32);
    }
    run_typed(c, &cuda, dtypes);
}

static float float_at(const unsigned char *at, uint64_t i)
{
    float x;
    memcpy(&x, at + i * 4, 4);
    return x;
}

/* How far a value may be from the host's: a unit of its last place, which where halves are
 * subnormal is the same for all, and what long sums in float are off. */
static double bound_of(const trial *on, double right, double largest)
{
    double unit = on->dtype == BP_F16 ? 0x1p-10 : 0x1p-7;
    return unit * fabs(right) + 0x1p-14 * largest + (on->dtype == BP_F16 ? 0x1p-24 : 0.0);
}

/* Attention on tensor cores, whose weights, and gradients of scores, are each rounded to the type
 * (attention_power.cuh). */
static bool weights_rounded(const kernel_case *c)
{
    const bp_attention_forward_scalars *s = (const void *)c->scalars; /* of all of these rows */
    return (c->kernel == BP_KERNEL_attention_forward || c->kernel == BP_KERNEL_attention_backward ||
            c->kernel == BP_KERNEL_attention_packed_forward ||
            c->kernel == BP_KERNEL_attention_packed_backward) &&
           s->head_width % 8 == 0;
}

/* What the op rounds to its type on the way and the host in float does not: the value that GELU
 * takes, whose distance times the slope is below a tenth of a unit where the result is small;
 * values of codes, which the rest of a sum may cancel; weights of attention by half a unit each, of
 * which sums keep less than a quarter of the largest output's (0.14 in 60 cases of each row). */
static double bound_inside(const kernel_case *c, const trial *on, double largest)
{
    double unit = on->dtype == BP_F16 ? 0x1p-10 : 0x1p-7;
    if (c->kernel == BP_KERNEL_matmul && ((const bp_matmul_scalars *)c->scalars)->gelu != 0) {
        return 0.1 * unit;
    }
    if (weights_rounded(c)) {
        return 0.25 * unit * largest;
    }
    bool codes = c->kernel == BP_KERNEL_weight_norms &&
                 ((const bp_weight_norms_scalars *)c->scalars)->form != 0;
    return codes ? unit * largest : 0.0;
}

/* What a half cannot hold becomes infinite. */
static bool too_large(double x, double right, const trial *on)
{
    return on->dtype == BP_F16 && isinf(x) && fabs(right) >= 65520.0 && (x > 0.0) == (right > 0.0);
}

/* Compares what the op may have written, in 16 bits or in float. */
static void compare_slot(const kernel_case *got, const kernel_case *want, uint32_t slot,
                         const trial *on)
{
    const bp_kernel_info *info = bp_kernel_describe(got->kernel);
    const unsigned char *a = got->image + got->offsets[slot];
    const unsigned char *b = want->image + want->offsets[slot];
    uint64_t count = want->bytes[slot] / 4;
    double largest = 1e-30;
    for (uint64_t i = 0; i < count; i++) {
        double x = fabs((double)float_at(b, i));
        largest = want->writable[want->offsets[slot] + i * 4] == 1 && x > largest ? x : largest;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (want->writable[want->offsets[slot] + i * 4] != 1) {
            continue;
        }
        uint16_t bits;
        memcpy(&bits, a + i * 2, 2);
        double x = (double)(narrow(got, slot, on) ? from_16(bits, on->dtype) : float_at(a, i));
        double y = (double)float_at(b, i);
        bool both = isnan(x) && isnan(y);
        double bound = bound_of(on, y, largest) + bound_inside(got, on, largest);
        if (!both && !(fabs(x - y) <= bound) && !too_large(x, y, on)) {
            print_error("%s: %s[%llu] is %.9g, the host gives %.9g, the largest is %.3g\n",
                        info->name, info->operand[slot % info->operand_count].name,
                        (unsigned long long)i, x, y, largest);
            for (uint32_t s = 0; s < info->scalar_count; s++) {
                print_error(" %s=%lld", info->scalar[s].name, (long long)got->scalars[s]);
            }
            print_error("\n");
            fail();
        }
    }
}

/* The same call with fragments, warps and blocks in other orders: equal bits. */
static void run_in_other_orders(kernel_case *c, const unsigned char *start, const trial *on)
{
    static const char *const orders[] = {"1", "2", "3"};
    unsigned char *right = kernel_case_save(c);
    static uint32_t turn; /* in the short form calls take turns */
    turn++;
    for (uint32_t i = 0; driver.set != NULL && i < 3; i++) {
        if (!long_form() && i != turn % 3) {
            continue;
        }
        assert_int_equal(driver.set("PTXVM_SEED", orders[i]), 0);
        kernel_case_restore(c, start);
        run_16(c, on);
        for (uint64_t b = 0; b < c->image_bytes; b++) {
            /* of the workspace there is nothing to say */
            if (c->writable[b] != 2 && c->image[b] != right[b]) {
                fail_msg("%s: other bits in order %s", bp_kernel_describe(c->kernel)->name,
                         orders[i]);
            }
        }
    }
    assert_true(driver.set == NULL || driver.set("PTXVM_SEED", "0") == 0);
    kernel_case_restore(c, right);
    free(right);
}

/* Runs both cases, whose inputs are the same floats, and compares what they wrote. */
static void run_both(kernel_case *want, kernel_case *got, const trial *on)
{
    round_inputs(want, on, false);
    kernel_case_run(want, &host);
    round_inputs(got, on, true);
    unsigned char *start = kernel_case_save(got);
    run_16(got, on);
    if (on->ordered) {
        run_in_other_orders(got, start, on);
    }
    free(start);
    const bp_kernel_info *info = bp_kernel_describe(got->kernel);
    for (uint32_t slot = 0; slot < slots_of(got); slot++) {
        bp_operand_type type = info->operand[slot % info->operand_count].type;
        bool floats = type <= BP_TYPE_F32;
        if (floats && got->offsets[slot] != BP_OFFSET_ABSENT) {
            compare_slot(got, want, slot, on);
        }
    }
    kernel_case_free(want);
    kernel_case_free(got);
}

/* Whether a case may have operands of several types: it has some that are free to. */
static bool mixable(const kernel_case *c)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    bool found = false;
    for (uint32_t i = 0; i < info->operand_count; i++) {
        found = found || info->operand[i].type == BP_TYPE_FLOAT ||
                info->operand[i].type == BP_TYPE_WEIGHT;
    }
    if (c->kernel == BP_KERNEL_matmul_quantised) {
        return false; /* sums in f32 go on from slices of a matrix, which a GPU does not bring */
    }
    if (c->kernel == BP_KERNEL_matmul) {
        const bp_matmul_scalars *s = (const bp_matmul_scalars *)c->scalars;
        return s->gelu == 0 && c->offsets[OPERAND(matmul, bias)] == BP_OFFSET_ABSENT &&
               c->offsets[OPERAND(matmul, residual)] == BP_OFFSET_ABSENT;
    }
    return found;
}

static void row_test(bp_kernel kernel, bp_dtype dtype)
{
    /* partial sums of a norm are of many elements each */
    const uint32_t seeds =
        kernel == BP_KERNEL_norm_partial ? share_of(10, dtype == BP_F16 ? 1 : 2, 4) : SEEDS;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        kernel_case want, got;
        kernel_random_case(&want, &bp_device_host, kernel, seed);
        kernel_random_case(&got, &bp_device_cuda, kernel, seed);
        trial on = {dtype, mixable(&got) ? (mix)(seed % MIX_COUNT) : MIX_ALL, seed <= ORDERED};
        run_both(&want, &got, &on);
    }
}

/* Backward of such a call: no probability is above 1, so no value's gradient is above the sum of
 * what comes back to it, of 140 rows of two heads. */
static void gradients_stay_finite(const kernel_case *forward, const trial *on)
{
    const uint32_t qkv = OPERAND(attention_backward, qkv), out = OPERAND(attention_backward, out);
    const uint32_t lse = OPERAND(attention_backward, lse), d = OPERAND(attention_backward, d_qkv);
    kernel_case c;
    kernel_shaped_case(&c, &bp_device_cuda, BP_KERNEL_attention_backward, forward->scalars,
                       UINT32_C(1) << OPERAND(attention_backward, lengths), 1);
    const float one = 1.0f;
    const uint32_t d_out = OPERAND(attention_backward, d_out);
    for (uint64_t i = 0; i < c.bytes[d_out] / 4; i++) {
        memcpy(c.image + c.offsets[d_out] + i * 4, &one, 4);
    }
    round_inputs(&c, on, true);
    memcpy(c.image + c.offsets[qkv],
           forward->image + forward->offsets[OPERAND(attention_forward, qkv)], c.bytes[qkv] / 2);
    memcpy(c.image + c.offsets[out],
           forward->image + forward->offsets[OPERAND(attention_forward, out)], c.bytes[out] / 2);
    memcpy(c.image + c.offsets[lse],
           forward->image + forward->offsets[OPERAND(attention_forward, lse)], c.bytes[lse]);
    run_16(&c, on);
    for (uint64_t i = 0; i < c.bytes[d] / 4; i++) {
        uint16_t bits;
        memcpy(&bits, c.image + c.offsets[d] + i * 2, 2);
        if (i % 256 >= 192 && !(fabsf(from_16(bits, on->dtype)) <= 2 * 140.0f)) {
            fail_msg("d_v[%llu] is %g", (unsigned long long)i, (double)from_16(bits, on->dtype));
        }
    }
    kernel_case_free(&c);
}

#define NO_BEFORE   (UINT32_C(1) << OPERAND(matmul, before))
#define NO_BIAS     (UINT32_C(1) << OPERAND(matmul, bias))
#define NO_RESIDUAL (UINT32_C(1) << OPERAND(matmul, residual))

/* A product with a narrow side, and its scale in place, are one launch with the bits of two. */
static void scale_after(bp_dtype dtype, const bp_matmul_scalars *s, double factor)
{
    const trial on = {dtype, MIX_ALL, false};
    const bp_cuda_target target = bp_cuda_target_of(bp_cuda_target_find("sm_80"), false);
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    uint8_t dtypes[BP_OPERANDS_MAX];
    bool both;
    kernel_case one, two;
    memset(dtypes, (int)dtype, sizeof dtypes);
    kernel_shaped_case(&one, &bp_device_cuda, BP_KERNEL_matmul, s,
                       NO_BEFORE | NO_BIAS | NO_RESIDUAL, 1);
    kernel_shaped_case(&two, &bp_device_cuda, BP_KERNEL_matmul, s,
                       NO_BEFORE | NO_BIAS | NO_RESIDUAL, 1);
    round_inputs(&one, &on, true);
    round_inputs(&two, &on, true);
    const uint64_t c = one.offsets[OPERAND(matmul, c)], places[] = {c, c};
    const bp_scale_scalars scale = {.count = s->m * s->n, .factor = factor};
    bp_linked_op ops[] = {
        {BP_KERNEL_matmul, 1, one.offsets, s, dtypes, BP_OFFSET_ABSENT},
        {BP_KERNEL_scale, 1, places, &scale, dtypes, BP_OFFSET_ABSENT},
    };
    assert_int_equal(bp_cuda_plan_pair(&target, &ops[0], &ops[1], launches, &both), 1);
    assert_true(both);
    run_ops(&one, &cuda, ops, 2);
    run_ops(&two, &cuda, &ops[0], 1);
    run_ops(&two, &cuda, &ops[1], 1);
    assert_true(kernel_case_same(&one, two.image, "two launches'"));
    bp_scale_scalars fewer = scale; /* others are ops of their own */
    fewer.count--;
    ops[1].scalars = &fewer;
    (void)bp_cuda_plan_pair(&target, &ops[0], &ops[1], launches, &both);
    assert_false(both);
    const uint64_t elsewhere[] = {c + 64, c};
    ops[1].scalars = &scale;
    ops[1].offsets = elsewhere;
    (void)bp_cuda_plan_pair(&target, &ops[0], &ops[1], launches, &both);
    assert_false(both);
    bp_matmul_scalars adds = *s;
    adds.accumulate = 1;
    ops[0].scalars = &adds;
    ops[1].offsets = places;
    (void)bp_cuda_plan_pair(&target, &ops[0], &ops[1], launches, &both);
    assert_false(both);
    kernel_case_free(&one);
    kernel_case_free(&two);
}

/* verifies device-10.ca2f */
static void scales_are_folded(void **state)
{
    static const bp_matmul_scalars down = {130, 16, 264, 264, 264, 16, 0, 1, 0, 0};
    static const bp_matmul_scalars turned = {9, 130, 300, 300, 300, 130, 0, 1, 0, 0};
    (void)state;
    scale_after(BP_BF16, &down, 1.7);
    scale_after(BP_F16, &down, 2.0);
    scale_after(BP_BF16, &turned, -0.3);
}

/* Attention over values that are all 1 gives 1, whatever its scores: also where exponents are too
 * large to be exact, and where a larger product is a smaller score. */
static void weights_sum_to_one(bp_dtype dtype, double scale)
{
    const bp_attention_forward_scalars s = {1, 140, 2, 1, 64, 1, 0, scale, 0.0, 0, 0.0};
    const uint32_t in = OPERAND(attention_forward, qkv), out = OPERAND(attention_forward, out);
    const uint32_t absent = (UINT32_C(1) << OPERAND(attention_forward, lengths));
    const trial on = {dtype, MIX_ALL, false};
    const float one = 1.0f;
    kernel_case c;
    kernel_shaped_case(&c, &bp_device_cuda, BP_KERNEL_attention_forward, &s, absent, 1);
    for (uint64_t i = 0; i < c.bytes[in] / 4; i++) {
        if (i % 256 >= 192) { /* a row has two heads' queries, then keys and values of one */
            memcpy(c.image + c.offsets[in] + i * 4, &one, 4);
        }
    }
    round_inputs(&c, &on, true);
    run_16(&c, &on);
    for (uint64_t i = 0; i < c.bytes[out] / 4; i++) {
        uint16_t bits;
        memcpy(&bits, c.image + c.offsets[out] + i * 2, 2);
        if (!(fabsf(from_16(bits, dtype) - 1.0f) <= (dtype == BP_F16 ? 0x1p-10f : 0x1p-7f))) {
            fail_msg("scale %g: out[%llu] is %g", scale, (unsigned long long)i,
                     (double)from_16(bits, dtype));
        }
    }
    gradients_stay_finite(&c, &on);
    kernel_case_free(&c);
}

/* verifies device-10.ca2f */
static void attention_of_any_scale(void **state)
{
    static const double scales[] = {1e-6, 0.125, -0.2, 0.0, 3e6, -3e6, 1e20};
    (void)state;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        weights_sum_to_one(i % 2 == 0 ? BP_BF16 : BP_F16, scales[i]);
    }
}

/* Products that the random shapes do not reach: tiles of 128 in all transpositions, with rows that
 * are aligned and rows that are not, and splits with what follows them. */
static const struct {
    uint32_t absent;
    bp_matmul_scalars scalars;
} products[] = {
    {0, {1025, 1290, 45, 48, 1296, 1292, 0, 0, 0, 1}},
    {NO_BEFORE | NO_BIAS | NO_RESIDUAL, {1030, 1281, 70, 1032, 72, 1281, 1, 1, 1, 0}},
    {NO_BEFORE, {1040, 1290, 33, 33, 33, 1291, 0, 1, 0, 0}},
    {NO_BIAS | NO_BEFORE, {1040, 1290, 64, 1041, 1291, 1296, 1, 0, 0, 0}},
    {0, {66, 68, 600, 600, 72, 72, 0, 0, 0, 1}},
    {NO_BEFORE | NO_BIAS | NO_RESIDUAL, {67, 65, 517, 67, 65, 65, 1, 0, 1, 0}},
    /* a narrow side: an adapter's products, forward and backward, and few rows */
    {NO_BEFORE | NO_BIAS | NO_RESIDUAL, {130, 16, 264, 264, 264, 16, 0, 1, 0, 0}},
    {NO_BEFORE | NO_BIAS | NO_RESIDUAL, {135, 24, 700, 704, 24, 24, 0, 0, 0, 0}},
    {NO_BEFORE | NO_BIAS | NO_RESIDUAL, {70, 62, 300, 304, 64, 64, 0, 0, 0, 0}},
    {NO_BEFORE | NO_BIAS | NO_RESIDUAL, {16, 200, 1000, 16, 200, 200, 1, 0, 1, 0}},
    {NO_BEFORE | NO_BIAS | NO_RESIDUAL, {200, 8, 1150, 200, 8, 8, 1, 0, 1, 0}},
    {0, {61, 271, 385, 385, 272, 272, 0, 0, 0, 1}},
    {NO_BEFORE, {70, 33, 517, 71, 518, 35, 1, 1, 0, 0}},
    {0, {1, 1000, 256, 256, 256, 1000, 0, 1, 0, 0}},
    {NO_BEFORE | NO_BIAS | NO_RESIDUAL, {64, 64, 1024, 64, 1024, 64, 1, 1, 1, 0}},
};

static void products_test(bp_dtype dtype)
{
    for (uint32_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        if (!long_form() && i < 4 && i % 2 == (dtype == BP_F16 ? 1u : 0u)) {
            continue; /* large: one type each */
        }
        kernel_case want, got;
        const bp_matmul_scalars *s = &products[i].scalars;
        kernel_shaped_case(&want, &bp_device_host, BP_KERNEL_matmul, s, products[i].absent, i);
        kernel_shaped_case(&got, &bp_device_cuda, BP_KERNEL_matmul, s, products[i].absent, i);
        trial on = {dtype, mixable(&got) ? MIX_WORKING : MIX_ALL, false};
        run_both(&want, &got, &on);
    }
}

/* verifies device-10.ca2f */
static void products_bf16(void **state)
{
    (void)state;
    products_test(BP_BF16);
}

/* verifies device-10.ca2f */
static void products_f16(void **state)
{
    (void)state;
    products_test(BP_F16);
}

/* Sums over more rows than the random shapes have, four of a group at a time. */
static void tall_sums_test(bp_dtype dtype)
{
    static const bp_kernel kernels[] = {BP_KERNEL_layernorm_backward_parameters,
                                        BP_KERNEL_bias_backward, BP_KERNEL_rmsnorm_backward_weight};
    const bp_layernorm_backward_parameters_scalars norm = {300, 9, 1};
    const bp_bias_backward_scalars bias = {300, 9, 9, 0};
    const bp_rmsnorm_backward_weight_scalars heads = {300, 9, 1, 1, 9};
    const void *const scalars[] = {&norm, &bias, &heads};
    for (uint32_t i = 0; i < 3; i++) {
        kernel_case want, got;
        kernel_shaped_case(&want, &bp_device_host, kernels[i], scalars[i], 0, i);
        kernel_shaped_case(&got, &bp_device_cuda, kernels[i], scalars[i], 0, i);
        trial on = {dtype, MIX_ALL, false};
        run_both(&want, &got, &on);
    }
}

/* verifies device-10.ca2f */
static void tall_sums_16(void **state)
{
    (void)state;
    tall_sums_test(BP_BF16);
    tall_sums_test(BP_F16);
}

/* One update of `count` weights in a master form, on both devices: equal bits. */
static void update_both(bp_dtype weight, bp_dtype gradient, bp_master form, int64_t count)
{
    const bp_adamw_scalars s = {.count = count,
                                .first = 512,
                                .stream = 7,
                                .master_form = form,
                                .decay = 0.1,
                                .rate_scale = 1.0,
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .epsilon = 1e-8};
    bool none = bp_master_bytes(form) == 0;
    uint32_t absent = UINT32_C(1) << OPERAND(adamw, state3);
    absent |= none ? UINT32_C(1) << OPERAND(adamw, master) : 0;
    kernel_case want, got;
    kernel_shaped_case(&want, &bp_device_host, BP_KERNEL_adamw, &s, absent, (uint64_t)count);
    kernel_shaped_case(&got, &bp_device_cuda, BP_KERNEL_adamw, &s, absent, (uint64_t)count);
    uint8_t dtypes[BP_OPERANDS_MAX] = {BP_F32};
    dtypes[OPERAND(adamw, weight)] = (uint8_t)weight;
    dtypes[OPERAND(adamw, gradient)] = (uint8_t)gradient;
    ((bp_control_block *)kernel_case_at(&want, 0, OPERAND(adamw, control)))->skip = 0;
    unsigned char *g = kernel_case_at(&want, 0, OPERAND(adamw, gradient));
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits = to_16(float_at(g, (uint64_t)i), BP_BF16);
        float value = (float)(i % 17 - 8) * 0.0371f;
        bp_master_store(weight, form, kernel_case_at(&want, 0, OPERAND(adamw, weight)),
                        none ? NULL : kernel_case_at(&want, 0, OPERAND(adamw, master)), (uint64_t)i,
                        value);
        memcpy(g + 2 * i, &bits, gradient == BP_BF16 ? 2 : 0);
    }
    memcpy(got.image, want.image, want.image_bytes);
    run_typed(&want, &host, dtypes);
    run_typed(&got, &cuda, dtypes);
    if (!kernel_case_same(&got, want.image, "the host's")) {
        print_error("other bits than the host: weights %s, gradients %s, master %s, %d elements\n",
                    bp_dtype_name(weight), bp_dtype_name(gradient), bp_master_name(form),
                    (int)count);
        fail();
    }
    kernel_case_free(&want);
    kernel_case_free(&got);
}

static void weights_move_with_their_masters(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 7, 1024, 2503};
    for (uint32_t i = 0; i < 4; i++) {
        for (bp_dtype gradient = BP_F32; gradient <= BP_BF16; gradient++) {
            update_both(BP_F32, gradient, BP_MASTER_WEIGHT, counts[i]);
            update_both(BP_F16, gradient, BP_MASTER_FP32, counts[i]);
            for (bp_master form = BP_MASTER_FP32; form <= BP_MASTER_STOCHASTIC; form++) {
                update_both(BP_BF16, gradient, form, counts[i]);
            }
        }
    }
}

/* Weights and masters as a run begins: equal bits. */
static void first_weights_have_their_masters(void **state)
{
    (void)state;
    for (bp_master form = BP_MASTER_FP32; form <= BP_MASTER_STOCHASTIC; form++) {
        const bp_random_normal_scalars s = {
            .count = 517, .stream = 3, .form = form, .deviation = 0.02};
        bool none = bp_master_bytes(form) == 0;
        uint32_t absent = none ? UINT32_C(1) << OPERAND(random_normal, master) : 0;
        kernel_case want, got;
        kernel_shaped_case(&want, &bp_device_host, BP_KERNEL_random_normal, &s, absent, form);
        kernel_shaped_case(&got, &bp_device_cuda, BP_KERNEL_random_normal, &s, absent, form);
        uint8_t dtypes[BP_OPERANDS_MAX] = {BP_BF16};
        memcpy(got.image, want.image, want.image_bytes);
        run_typed(&want, &host, dtypes);
        run_typed(&got, &cuda, dtypes);
        assert_true(kernel_case_same(&got, want.image, "the host's"));
        kernel_case_free(&want);
        kernel_case_free(&got);
        const bp_store_values_scalars stored = {.count = 517, .form = form};
        absent = none ? UINT32_C(1) << OPERAND(store_values, master) : 0;
        kernel_shaped_case(&want, &bp_device_host, BP_KERNEL_store_values, &stored, absent, form);
        kernel_shaped_case(&got, &bp_device_cuda, BP_KERNEL_store_values, &stored, absent, form);
        memcpy(got.image, want.image, want.image_bytes);
        run_typed(&want, &host, dtypes);
        run_typed(&got, &cuda, dtypes);
        assert_true(kernel_case_same(&got, want.image, "the host's"));
        kernel_case_free(&want);
        kernel_case_free(&got);
    }
}

/* The same elements by the product of plain weights, where it is not split: equal bits. */
static void compare_plain(const kernel_case *quantised, const kernel_case *before, bp_dtype dtype)
{
    static const uint32_t pairs[][2] = {
        {OPERAND(matmul_quantised, a), OPERAND(matmul, a)},
        {OPERAND(matmul_quantised, bias), OPERAND(matmul, bias)},
        {OPERAND(matmul_quantised, residual), OPERAND(matmul, residual)},
        {OPERAND(matmul_quantised, c), OPERAND(matmul, c)},
        {OPERAND(matmul_quantised, before), OPERAND(matmul, before)}};
    const bp_matmul_quantised_scalars *q = (const void *)quantised->scalars;
    const uint64_t columns = (uint64_t)(q->transpose_b != 0 ? q->k : q->n);
    const bp_matmul_scalars s = {.m = q->m,
                                 .n = q->n,
                                 .k = q->k,
                                 .lda = q->lda,
                                 .ldb = (int64_t)columns,
                                 .ldc = q->ldc,
                                 .transpose_b = q->transpose_b,
                                 .gelu = q->gelu};
    const bp_quantised_matrix b = {
        .form = q->form,
        .columns = columns,
        .codes = kernel_case_at(before, 0, OPERAND(matmul_quantised, codes)),
        .scales = kernel_case_at(before, 0, OPERAND(matmul_quantised, scales)),
        .nested = kernel_case_at(before, 0, OPERAND(matmul_quantised, nested))};
    uint8_t dtypes[BP_OPERANDS_MAX];
    uint32_t absent = 0;
    memset(dtypes, (int)dtype, sizeof dtypes);
    for (uint32_t i = 0; i < 5; i++) {
        absent |= kernel_case_at(before, 0, pairs[i][0]) == NULL ? UINT32_C(1) << pairs[i][1] : 0;
    }
    kernel_case plain;
    kernel_case_init_typed(&plain, &bp_device_cuda, BP_KERNEL_matmul, &s, 1, absent, dtypes);
    for (uint32_t i = 0; i < 5; i++) {
        if ((absent >> pairs[i][1] & 1) == 0) {
            memcpy(kernel_case_at(&plain, 0, pairs[i][1]), kernel_case_at(before, 0, pairs[i][0]),
                   before->bytes[pairs[i][0]]);
        }
    }
    uint16_t *values = kernel_case_at(&plain, 0, OPERAND(matmul, b));
    for (uint64_t i = 0; i < (uint64_t)q->n * (uint64_t)q->k; i++) {
        values[i] = to_16(bp_quantised_value(&b, i), dtype);
    }
    run_typed(&plain, &cuda, plain.dtypes);
    for (uint32_t i = 3; i < 5; i++) {
        const void *x = kernel_case_at(quantised, 0, pairs[i][0]);
        if (x != NULL) {
            assert_memory_equal(x, kernel_case_at(&plain, 0, pairs[i][1]),
                                quantised->bytes[pairs[i][0]]);
        }
    }
    kernel_case_free(&plain);
}

/* Near what the host has, whose sums are chains. Padding of rows has the same pattern in both. */
static void compare_near(const kernel_case *got, const kernel_case *want, uint32_t slot,
                         bp_dtype dtype)
{
    const trial on = {dtype, MIX_ALL, false};
    const uint16_t *a = kernel_case_at(got, 0, slot), *b = kernel_case_at(want, 0, slot);
    for (uint64_t i = 0; a != NULL && i < want->bytes[slot] / 2; i++) {
        const double x = (double)from_16(a[i], dtype), y = (double)from_16(b[i], dtype);
        if (a[i] != b[i] && !(fabs(x - y) <= bound_of(&on, y, 64.0))) {
            fail_msg("element %llu is %.9g, the host has %.9g", (unsigned long long)i, x, y);
        }
    }
}

/* Products with quantised weights, which all devices round to the working type before they are
 * multiplied. */
static void quantised_test(bp_dtype dtype)
{
    uint32_t plain = 0;
    /* codes in every form and place */
    for (uint64_t seed = 1; seed <= share_of(20, 20, 8); seed++) {
        kernel_case want, got, before;
        kernel_random_case_typed(&want, &bp_device_host, BP_KERNEL_matmul_quantised, dtype, seed);
        kernel_random_case_typed(&got, &bp_device_cuda, BP_KERNEL_matmul_quantised, dtype, seed);
        kernel_random_case_typed(&before, &bp_device_cuda, BP_KERNEL_matmul_quantised, dtype, seed);
        run_typed(&want, &host, want.dtypes);
        run_typed(&got, &cuda, got.dtypes);
        compare_near(&got, &want, OPERAND(matmul_quantised, c), dtype);
        compare_near(&got, &want, OPERAND(matmul_quantised, before), dtype);
        if (((const bp_matmul_quantised_scalars *)got.scalars)->k < 256) {
            compare_plain(&got, &before, dtype);
            plain++;
        }
        kernel_case_free(&want);
        kernel_case_free(&got);
        kernel_case_free(&before);
    }
    assert_true(plain > 0);
}

/* verifies device-10.ca2f */
static void quantised_16(void **state)
{
    (void)state;
    quantised_test(BP_BF16);
    quantised_test(BP_F16);
}

static int open_devices(void **state)
{
    (void)state;
    kernel_device_open(&host, &bp_device_host, "portable", 1, ARENA_BYTES);
    kernel_device_open(&cuda, &bp_device_cuda, "plain", 1, ARENA_BYTES);
    return 0;
}

static int close_devices(void **state)
{
    static char text[2048];
    (void)state;
    kernel_device_close(&cuda);
    kernel_device_close(&host);
    if (driver.report != NULL && driver.report(text, sizeof(text)) > 0) {
        print_error("%s\n", text);
    }
    return driver.revive != NULL ? driver.revive() : 0;
}

#define ROW(kernel, dtype)                                                                         \
    static void kernel##_##dtype(void **state)                                                     \
    {                                                                                              \
        (void)state;                                                                               \
        row_test(BP_KERNEL_##kernel, dtype);                                                       \
    }
#define TEST(kernel, dtype)                                                                        \
    cmocka_unit_test_setup_teardown(kernel##_##dtype, open_devices, close_devices),
/* Every row with elements. */
#define ROWS                                                                                       \
    X(embedding_forward)                                                                           \
    X(embedding_token_backward)                                                                    \
    X(embedding_position_backward)                                                                 \
    X(layernorm_forward)                                                                           \
    X(layernorm_backward_input)                                                                    \
    X(layernorm_backward_parameters)                                                               \
    X(matmul)                                                                                      \
    X(bias_backward)                                                                               \
    X(gelu_forward)                                                                                \
    X(gelu_backward)                                                                               \
    X(dropout)                                                                                     \
    X(attention_forward)                                                                           \
    X(attention_backward)                                                                          \
    X(attention_packed_forward)                                                                    \
    X(attention_packed_backward)                                                                   \
    X(attention_decode)                                                                            \
    X(cross_entropy)                                                                               \
    X(cross_entropy_columns)                                                                       \
    X(cross_entropy_forward)                                                                       \
    X(distill)                                                                                     \
    X(distill_columns)                                                                             \
    X(top_logits)                                                                                  \
    X(norm_partial)                                                                                \
    X(copy)                                                                                        \
    X(scale)                                                                                       \
    X(random_normal)                                                                               \
    X(rmsnorm_forward)                                                                             \
    X(rmsnorm_backward_input)                                                                      \
    X(rmsnorm_backward_weight)                                                                     \
    X(rotary)                                                                                      \
    X(regroup)                                                                                     \
    X(swiglu_forward)                                                                              \
    X(swiglu_backward)                                                                             \
    X(activation_forward)                                                                          \
    X(activation_backward)                                                                         \
    X(sample_row)                                                                                  \
    X(sample_row_backward)                                                                         \
    X(sample_loss)                                                                                 \
    X(pool_rows)                                                                                   \
    X(pool_rows_backward)                                                                          \
    X(state_begin)                                                                                 \
    X(gru_forward)                                                                                 \
    X(gru_backward)                                                                                \
    X(lstm_forward)                                                                                \
    X(lstm_backward)                                                                               \
    X(weight_norms)                                                                                \
    X(magnitude_apply)                                                                             \
    X(magnitude_backward)                                                                          \
    X(pick_row)

#define X(kernel) ROW(kernel, BP_BF16) ROW(kernel, BP_F16)
ROWS
#undef X
    int
    main(void)
{
    const struct CMUnitTest tests[] = {
#define X(kernel) TEST(kernel, BP_BF16) TEST(kernel, BP_F16)
        ROWS cmocka_unit_test_setup_teardown(products_bf16, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(scales_are_folded, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(attention_of_any_scale, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(products_f16, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(tall_sums_16, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(quantised_16, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(weights_move_with_their_masters, open_devices,
                                        close_devices),
        cmocka_unit_test_setup_teardown(first_weights_have_their_masters, open_devices,
                                        close_devices)};
    if (!fake_driver_load(&driver)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
