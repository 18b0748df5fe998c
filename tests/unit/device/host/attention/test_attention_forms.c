/* SPDX-License-Identifier: MIT */
/* Attention of every form in every element type, bit for bit: what the portable form finds in f32
 * from the same numbers, rounded once. Heads alone and in groups, both directions, lengths around
 * the edges of blocks, dropout, tasks in uneven ranges. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ir/step.h"
#include "device/host/attention/attention.h"
#include "device/host/isa_table.h"
#include "device/host/vector/half.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/share.h"

#define WORKERS     3
#define GUARD_BYTES 64
#define GUARD       0x5a

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

/* An operand in some type, and the floats it holds. */
typedef struct tensor {
    float *x;
    void *stored;
    int64_t count;
} tensor;

/* Normal numbers that the type holds. */
static tensor tensor_make(int64_t count, bp_dtype type, uint64_t seed)
{
    tensor t = {malloc((size_t)(count + 1) * 4), malloc((size_t)(count + 1) * 4), count};
    assert_non_null(t.x);
    assert_non_null(t.stored);
    fill_normal(t.x, (uint64_t)count, seed, 1.0);
    for (int64_t i = 0; i < count; i++) {
        bp_element_store(t.stored, (uint64_t)i, t.x[i], type);
        t.x[i] = bp_element_load(t.stored, (uint64_t)i, type);
    }
    return t;
}

static void tensor_free(tensor *t)
{
    free(t->x);
    free(t->stored);
}

/* The stored numbers are the floats, rounded. */
static void assert_rounded(const tensor *t, const float *right, bp_dtype type)
{
    for (int64_t i = 0; i < t->count; i++) {
        uint32_t found = 0, expected = 0;
        memcpy(&found, (const char *)t->stored + (size_t)i * bp_dtype_bytes(type),
               bp_dtype_bytes(type));
        bp_element_store(&expected, 0, right[i], type);
        assert_int_equal(found, expected);
    }
}

/* Runs a kernel, tasks in ranges of up to `most` by workers in turn. The workspace holds NaNs and
 * must not be left. `work` is where its address belongs. */
static void run(const bp_host_kernel *kernel, const void *pointers, void **work,
                const void *scalars, bp_dtype type, uint32_t most)
{
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)type, sizeof(dtypes));
    uint64_t part = bp_size_align(kernel->workspace(scalars, dtypes), 64);
    uint64_t tasks = kernel->tasks(scalars);
    size_t bytes = (size_t)(WORKERS * part);
    unsigned char *memory = malloc(bytes + GUARD_BYTES);
    assert_non_null(memory);
    memset(memory, 0xff, bytes);
    memset(memory + bytes, GUARD, GUARD_BYTES);
    *work = memory;
    bp_host_call call = {pointers, scalars, dtypes, NULL, NULL};
    for (uint64_t first = 0; first < tasks;) {
        uint64_t last = first + 1 + draw(most);
        last = last < tasks ? last : tasks;
        kernel->run(&call, first, last, draw(WORKERS));
        first = last;
    }
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        assert_int_equal(memory[bytes + i], GUARD);
    }
    free(memory);
}

typedef const bp_host_kernel *form_kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];

static const bp_attention_forward_scalars shapes[] = {
    {1, 1, 1, 1, 1, 1, 5, 1.0, 0.0, 0, 0.0},      {1, 32, 1, 1, 16, 1, 5, 0.4, 0.0, 0, 0.0},
    {2, 33, 3, 3, 16, 1, 7, 0.25, 0.3, 0, 0.0},   {1, 67, 2, 1, 17, 1, 8, 0.24, 0.1, 0, 0.0},
    {2, 70, 4, 2, 50, 0, 9, 0.2, 0.0, 0, 0.0},    {3, 100, 4, 4, 64, 0, 9, 0.125, 0.2, 0, 0.0},
    {3, 97, 6, 2, 20, 1, 9, 0.2, 0.1, 0, 0.0},    {2, 5, 8, 1, 3, 0, 9, 0.2, 0.5, 0, 0.0},
    {1, 130, 2, 2, 64, 1, 9, 0.125, 0.0, 0, 0.0}, {2, 100, 4, 2, 17, 1, 9, 0.2, 0.1, 30, 1.5},
    {3, 190, 2, 1, 20, 1, 9, 0.2, 0.0, 65, 0.0},  {2, 130, 2, 2, 16, 0, 9, 0.2, 0.2, 20, 3.0},
    {2, 210, 2, 1, 50, 0, 9, 0.2, 0.0, 49, 0.0},  {2, 67, 2, 2, 16, 1, 9, 0.2, 0.0, 1, 0.0},
};
#define SHAPES 14

static const int32_t some_lengths[][3] = {{-4, 1 << 20, 0}, {1, 31, 65}, {33, 32, 64}, {49, 5, 96}};
#define LENGTHS 4

/* One forward and one backward over it. */
typedef struct both {
    bp_attention_forward_scalars s;
    bp_step_block step;
    const int32_t *lengths;
    tensor qkv, d_out, out, lse, d_qkv;
} both;

static both both_make(const bp_attention_forward_scalars *s, const int32_t *lengths, bp_dtype type)
{
    int64_t rows = s->batch * s->sequence;
    int64_t out = rows * s->heads * s->head_width;
    int64_t qkv = rows * (s->heads + 2 * s->kv_heads) * s->head_width;
    both b = {.s = *s, .step = {.seed = 11, .step = 22, .sample = 3}, .lengths = lengths};
    b.qkv = tensor_make(qkv, type, 1);
    b.d_out = tensor_make(out, type, 2);
    b.out = tensor_make(out, type, 3);
    b.d_qkv = tensor_make(qkv, type, 4);
    b.lse = tensor_make(rows * s->heads, BP_F32, 5);
    return b;
}

static void both_free(both *b)
{
    tensor_free(&b->qkv);
    tensor_free(&b->d_out);
    tensor_free(&b->out);
    tensor_free(&b->d_qkv);
    tensor_free(&b->lse);
}

/* By floats (`type` F32: from and into x) or as stored. */
static void both_run(both *b, const form_kernels *kernels, bp_dtype type, bool floats)
{
    bp_attention_backward_scalars scalars;
    memcpy(&scalars, &b->s, sizeof(scalars)); /* the same words */
    bp_attention_forward_pointers f = {.out = floats ? b->out.x : b->out.stored,
                                       .lse = floats ? b->lse.x : b->lse.stored,
                                       .qkv = floats ? b->qkv.x : b->qkv.stored,
                                       .lengths = b->lengths,
                                       .step = &b->step};
    run((*kernels)[type][BP_KERNEL_attention_forward], &f, &f.work, &b->s, type, 7);
    bp_attention_backward_pointers p = {.d_qkv = floats ? b->d_qkv.x : b->d_qkv.stored,
                                        .d_out = floats ? b->d_out.x : b->d_out.stored,
                                        .qkv = f.qkv,
                                        .out = f.out,
                                        .lse = f.lse,
                                        .lengths = b->lengths,
                                        .step = &b->step};
    if (floats) {
        return; /* backward starts from the rounded out */
    }
    run((*kernels)[type][BP_KERNEL_attention_backward], &p, &p.work, &scalars, type, 3);
}

/* The reference: forward, its out rounded to the type, backward from that. */
static void both_reference(both *b, const form_kernels *portable, bp_dtype type)
{
    both_run(b, portable, BP_F32, true);
    tensor rounded = {malloc((size_t)b->out.count * 4), NULL, b->out.count};
    assert_non_null(rounded.x);
    for (int64_t i = 0; i < b->out.count; i++) {
        uint32_t bits = 0;
        bp_element_store(&bits, 0, b->out.x[i], type);
        rounded.x[i] = bp_element_load(&bits, 0, type);
    }
    bp_attention_backward_scalars scalars;
    memcpy(&scalars, &b->s, sizeof(scalars));
    bp_attention_backward_pointers p = {.d_qkv = b->d_qkv.x,
                                        .d_out = b->d_out.x,
                                        .qkv = b->qkv.x,
                                        .out = rounded.x,
                                        .lse = b->lse.x,
                                        .lengths = b->lengths,
                                        .step = &b->step};
    run((*portable)[BP_F32][BP_KERNEL_attention_backward], &p, &p.work, &scalars, BP_F32, 1);
    free(rounded.x);
}

/* Backward over the place of qkv, a copy of it, within documents where there are starts. Leaves it
 * in the place of d_qkv. */
static void both_over(both *b, const form_kernels *kernels, bp_dtype type, const int32_t *starts)
{
    const int64_t rows = b->s.batch * b->s.sequence;
    uint8_t dtypes[BP_OPERANDS_MAX];
    float *deltas = malloc((size_t)(rows * b->s.heads) * sizeof(float));
    bp_attention_backward_over_scalars scalars;
    assert_non_null(deltas);
    memset(dtypes, (int)type, sizeof dtypes);
    memcpy(&scalars, &b->s, sizeof(scalars)); /* the same words */
    const bp_attention_deltas_scalars of = {rows, b->s.heads, b->s.head_width};
    const bp_attention_deltas_pointers d = {deltas, b->d_out.stored, b->out.stored};
    const bp_host_call call = {&d, &of, dtypes, NULL, NULL};
    (*kernels)[type][BP_KERNEL_attention_deltas]->run(&call, 0, (uint64_t)rows, 0);
    memcpy(b->d_qkv.stored, b->qkv.stored, (size_t)b->qkv.count * bp_dtype_bytes(type));
    bp_attention_backward_over_pointers p = {.qkv = b->d_qkv.stored,
                                             .d_out = b->d_out.stored,
                                             .delta = deltas,
                                             .lse = b->lse.stored,
                                             .starts = starts,
                                             .step = &b->step};
    run((*kernels)[type][BP_KERNEL_attention_backward_over], &p, &p.work, &scalars, type, 3);
    free(deltas);
}

static void check_both(const bp_attention_forward_scalars *s, const int32_t *lengths, bp_dtype type)
{
    form_kernels kernels;
    both b = both_make(s, lengths, type);
    bp_host_isa_kernels(0, kernels);
    both_reference(&b, (const form_kernels *)&kernels, type);
    for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
        if (bp_host_isa_runs(form)) {
            bp_host_isa_kernels(form, kernels);
            both_run(&b, (const form_kernels *)&kernels, type, false);
            assert_rounded(&b.out, b.out.x, type);
            assert_rounded(&b.lse, b.lse.x, BP_F32);
            assert_rounded(&b.d_qkv, b.d_qkv.x, type);
            if (s->causal && lengths == NULL) {
                both_over(&b, (const form_kernels *)&kernels, type, NULL);
                assert_rounded(&b.d_qkv, b.d_qkv.x, type);
            }
        }
    }
    both_free(&b);
}

/* Over documents: what attention_packed_backward of the same form leaves elsewhere. */
/* verifies layers-51.f5f9 */
static void over_documents(void **unused)
{
    (void)unused;
    static const bp_attention_forward_scalars s = {2, 70, 4, 2, 17, 1, 9, 0.2, 0.3, 20, 1.5};
    int32_t starts[140];
    form_kernels kernels;
    state = 5;
    for (int i = 0; i < 140; i++) {
        const int at = i % 70;
        starts[i] = at < 33 ? 0 : at < 34 ? 33 : at < 60 ? 34 : -1;
    }
    for (int type = BP_F32; type <= BP_F16; type++) {
        both b = both_make(&s, NULL, (bp_dtype)type);
        for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
            if (!bp_host_isa_runs(form)) {
                continue;
            }
            bp_host_isa_kernels(form, kernels);
            bp_attention_packed_forward_pointers f = {.out = b.out.stored,
                                                      .lse = b.lse.stored,
                                                      .qkv = b.qkv.stored,
                                                      .starts = starts,
                                                      .step = &b.step};
            run(kernels[type][BP_KERNEL_attention_packed_forward], &f, &f.work, &s, (bp_dtype)type,
                3);
            void *right = malloc((size_t)b.qkv.count * 4);
            assert_non_null(right);
            bp_attention_packed_backward_pointers p = {.d_qkv = right,
                                                       .d_out = b.d_out.stored,
                                                       .qkv = b.qkv.stored,
                                                       .out = b.out.stored,
                                                       .lse = b.lse.stored,
                                                       .starts = starts,
                                                       .step = &b.step};
            run(kernels[type][BP_KERNEL_attention_packed_backward], &p, &p.work, &s, (bp_dtype)type,
                3);
            both_over(&b, (const form_kernels *)&kernels, (bp_dtype)type, starts);
            assert_memory_equal(b.d_qkv.stored, right,
                                (size_t)b.qkv.count * bp_dtype_bytes((bp_dtype)type));
            free(right);
        }
        both_free(&b);
    }
}

/* verifies device-1.6909 */
static void forward_and_backward(void **unused)
{
    (void)unused;
    state = 1;
    for (int i = 0; i < SHAPES; i++) {
        for (int type = BP_F32; type <= BP_F16; type++) {
            check_both(&shapes[i], NULL, (bp_dtype)type);
            for (int l = (i + type) % 2; l < LENGTHS; l += (int)long_or(2, 4)) {
                check_both(&shapes[i], some_lengths[l], (bp_dtype)type);
            }
        }
    }
}

/* Sequences of several blocks of keys and stretches of queries, which end in each at another place;
 * lengths and windows that end within and at the edges; beyond what all keys at once would take. */
/* verifies device-1.6909 */
static void backward_in_blocks(void **unused)
{
    (void)unused;
    static const bp_attention_forward_scalars long_shapes[] = {
        {1, 1190, 2, 1, 3, 1, 9, 0.2, 0.1, 0, 0.0},   {1, 1153, 1, 1, 2, 1, 9, 0.2, 0.1, 577, 0.0},
        {1, 700, 2, 1, 17, 0, 9, 0.2, 0.0, 0, 2.0},   {1, 1100, 1, 1, 2, 0, 9, 0.2, 0.0, 40, 0.0},
        {2, 1250, 1, 1, 2, 1, 9, 0.2, 0.0, 31, 1.5},  {1, 2060, 1, 1, 2, 1, 9, 0.2, 0.0, 0, 0.0},
        {1, 2049, 1, 1, 1, 1, 9, 0.2, 0.0, 700, 0.0}, {1, 1190, 2, 1, 3, 1, 9, 0.2, 0.0, 0, 0.0},
    };
    static const int32_t long_lengths[][2] = {{1152, 0}, {577, 40}, {1151, 1249}};
    state = 3;
    for (size_t i = 0; i < sizeof long_shapes / sizeof long_shapes[0]; i++) {
        check_both(&long_shapes[i], i % 2 == 0 ? NULL : long_lengths[i % 3],
                   i % 3 == 1 ? BP_F32 : BP_BF16);
    }
}

/* Forward alone, which leaves what the plain form leaves. */
static void check_forward(const bp_attention_forward_scalars *s, const int32_t *lengths,
                          bp_dtype type)
{
    form_kernels kernels;
    both b = both_make(s, lengths, type);
    bp_attention_forward_pointers p = {
        .out = b.out.x, .lse = b.lse.x, .qkv = b.qkv.x, .lengths = lengths, .step = &b.step};
    bp_host_isa_kernels(0, kernels);
    run(kernels[BP_F32][BP_KERNEL_attention_forward], &p, &p.work, s, BP_F32, 7);
    p = (bp_attention_forward_pointers){.out = b.out.stored,
                                        .lse = b.lse.stored,
                                        .qkv = b.qkv.stored,
                                        .lengths = lengths,
                                        .step = &b.step};
    for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
        if (bp_host_isa_runs(form)) {
            bp_host_isa_kernels(form, kernels);
            run(kernels[type][BP_KERNEL_attention_forward], &p, &p.work, s, type, 9);
            assert_rounded(&b.out, b.out.x, type);
            assert_rounded(&b.lse, b.lse.x, BP_F32);
        }
    }
    both_free(&b);
}

/* Beyond what all keys at once would take: strips of queries of every length, cut by the ranges of
 * workers, lengths and windows that end within and at the edges of a block of keys. */
/* verifies device-1.6909 */
static void forward_in_strips(void **unused)
{
    (void)unused;
    static const bp_attention_forward_scalars long_shapes[] = {
        {1, 2059, 1, 1, 2, 1, 9, 0.2, 0.1, 0, 0.0},
        {1, 2177, 1, 1, 17, 1, 9, 0.2, 0.0, 0, 1.5},
        {1, 2305, 2, 1, 2, 1, 9, 0.2, 0.1, 577, 0.0},
        {2, 2100, 1, 1, 49, 1, 9, 0.2, 0.0, 40, 0.0},
        {1, 2060, 1, 1, 33, 0, 9, 0.2, 0.0, 300, 2.0},
        {2, 2081, 1, 1, 1, 0, 9, 0.2, 0.2, 0, 0.0},
        {1, 2304, 1, 1, 64, 1, 9, 0.2, 0.0, 1153, 0.0},
        {1, 2049, 1, 1, 50, 1, 9, 0.2, 0.0, 1, 0.0},
    };
    static const int32_t long_lengths[][2] = {{1152, 0}, {2048, 40}, {577, 2080}};
    state = 4;
    for (size_t i = 0; i < sizeof long_shapes / sizeof long_shapes[0]; i++) {
        check_forward(&long_shapes[i], NULL, (bp_dtype)(i % 3));
        if (i % 2 == 1) {
            check_forward(&long_shapes[i], long_lengths[i % 3], (bp_dtype)((i + 1) % 3));
        }
    }
}

/* A row of documents of which one is short enough for all keys at once and one is not. */
/* verifies device-1.6909 */
static void strips_of_documents(void **unused)
{
    (void)unused;
    static const bp_attention_forward_scalars s = {1, 4200, 1, 1, 33, 1, 9, 0.2, 0.1, 0, 0.0};
    int32_t starts[4200];
    form_kernels kernels;
    both b = both_make(&s, NULL, BP_BF16);
    state = 6;
    for (int i = 0; i < 4200; i++) {
        starts[i] = i < 2048 ? 0 : i < 4199 ? 2048 : -1;
    }
    bp_attention_packed_forward_pointers p = {
        .out = b.out.x, .lse = b.lse.x, .qkv = b.qkv.x, .starts = starts, .step = &b.step};
    bp_host_isa_kernels(0, kernels);
    run(kernels[BP_F32][BP_KERNEL_attention_packed_forward], &p, &p.work, &s, BP_F32, 1);
    p = (bp_attention_packed_forward_pointers){.out = b.out.stored,
                                               .lse = b.lse.stored,
                                               .qkv = b.qkv.stored,
                                               .starts = starts,
                                               .step = &b.step};
    for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
        if (bp_host_isa_runs(form)) {
            bp_host_isa_kernels(form, kernels);
            run(kernels[BP_BF16][BP_KERNEL_attention_packed_forward], &p, &p.work, &s, BP_BF16, 1);
            assert_rounded(&b.out, b.out.x, BP_BF16);
            assert_rounded(&b.lse, b.lse.x, BP_F32);
        }
    }
    both_free(&b);
}

/* A workspace of forward grows with the sequence by the scores of a strip alone, is never more than
 * what all keys at once took, and has that up to 2,048 tokens. */
static void a_workspace_of_strips(void **unused)
{
    (void)unused;
    const uint8_t floats[BP_OPERANDS_MAX] = {BP_F32}, halves[BP_OPERANDS_MAX] = {BP_BF16};
    for (int64_t width = 1; width <= 256; width += width < 64 ? 7 : 64) {
        const uint64_t d = bp_size_align((uint64_t)width, 16);
        bp_attention_forward_scalars s = {1, 0, 32, 8, width, 1, 9, 0.1, 0.0, 0, 0.0};
        for (s.sequence = 1; s.sequence <= 5000; s.sequence += 1 + s.sequence % 97) {
            const uint64_t t = bp_size_align((uint64_t)s.sequence, 16);
            const uint64_t whole = 4 * (32 * (t + 32) + 2 * d * (t + 32));
            const uint64_t rows = bp_size_align((uint64_t)(s.sequence * width), 16);
            const uint64_t wide = whole + 4 * (3 * rows + 32 * d);
            const uint64_t some = bp_attention_forward_workspace(&s, floats);
            const uint64_t more = bp_attention_forward_workspace(&s, halves);
            assert_true(s.sequence > 2048 || (some == whole && more == wide));
            assert_true(some <= whole && more <= wide);
        }
    }
    bp_attention_forward_scalars s = {1, 1 << 19, 32, 8, 128, 1, 9, 0.1, 0.0, 0, 0.0};
    const uint64_t half = bp_attention_forward_workspace(&s, halves);
    s.sequence = 1 << 20;
    assert_true(bp_attention_forward_workspace(&s, halves) - half == UINT64_C(512) << 19);
}

/* A workspace of backward does not grow with the sequence, but for the sums of gradients by key of
 * elements of 16 bits; up to 2,048 tokens it is what all keys at once took. */
static void a_workspace_of_blocks(void **unused)
{
    (void)unused;
    const uint8_t floats[BP_OPERANDS_MAX] = {BP_F32}, halves[BP_OPERANDS_MAX] = {BP_BF16};
    bp_attention_forward_scalars s = {1, 2048, 32, 8, 128, 1, 9, 0.1, 0.0, 0, 0.0};
    const uint64_t whole = bp_attention_backward_workspace(&s, floats);
    const uint64_t wide = bp_attention_backward_workspace(&s, halves);
    assert_true(whole == 4 * (64 * 2080 + 4 * 128 * 2080));
    assert_true(wide == whole + 4 * UINT64_C(8) * 2048 * 128);
    s.sequence = 2049;
    const uint64_t block = bp_attention_backward_workspace(&s, floats);
    assert_true(block < whole / 4 && bp_attention_backward_workspace(&s, halves) < wide / 2);
    s.sequence = 1 << 20;
    assert_true(bp_attention_backward_workspace(&s, floats) == block);
    assert_true(bp_attention_backward_workspace(&s, halves) < (UINT64_C(1024) << 20) + wide / 2);
    s.head_width = 16;
    for (s.sequence = 1; s.sequence <= 2048; s.sequence++) {
        assert_true(4 * bp_attention_backward_floats(&s) <=
                    bp_attention_backward_workspace(&s, floats));
    }
}

/* The plain form needs a row or two, and never more than the others. */
static void a_workspace_of_rows(void **unused)
{
    (void)unused;
    const uint8_t floats[BP_OPERANDS_MAX] = {BP_F32}, halves[BP_OPERANDS_MAX] = {BP_BF16};
    bp_attention_forward_scalars s = {1, 32, 8, 4, 8, 1, 9, 0.1, 0.0, 0, 0.0};
    assert_int_equal(bp_attention_forward_plain(&s, floats), 4 * 2 * 32);
    assert_int_equal(bp_attention_backward_plain(&s, floats), 4 * 8);
    assert_int_equal(bp_attention_backward_plain(&s, halves), 4 * (8 + 2 * 32 * 8));
    for (s.sequence = 1; s.sequence <= 4096; s.sequence += 13) {
        for (int i = 0; i < 2; i++) {
            const uint8_t *types = i == 0 ? floats : halves;
            s.window = s.sequence % 3 == 0 ? 7 : 0;
            assert_true(bp_attention_forward_plain(&s, types) <=
                        bp_attention_forward_workspace(&s, types));
            assert_true(bp_attention_backward_plain(&s, types) <=
                        bp_attention_backward_workspace(&s, types));
        }
    }
}

/* Rows that end past the cache, heads in groups. */
static void decode_in(bp_dtype type, bool near)
{
    enum { T = 150, H = 4, K = 2, D = 50, ROWS = 9, ROW = (H + 2 * K) * D };
    const bp_attention_decode_scalars s = {ROWS, T, H, K, D, 0.3, near ? 37 : 0, near ? 2.0 : 0.0,
                                           0,    0};
    const bp_step_block step = {.position = T - 6};
    form_kernels kernels;
    tensor qkv = tensor_make(ROWS * ROW, type, 1), out = tensor_make(ROWS * H * D, type, 2);
    tensor k = tensor_make(T * K * D, type, 3), v = tensor_make(T * K * D, type, 4);
    bp_attention_decode_pointers p = {
        .out = out.x, .k_cache = k.x, .v_cache = v.x, .qkv = qkv.x, .step = &step};
    bp_host_isa_kernels(0, kernels);
    run(kernels[0][BP_KERNEL_attention_decode], &p, &p.work, &s, BP_F32, 1);
    p = (bp_attention_decode_pointers){.out = out.stored,
                                       .k_cache = k.stored,
                                       .v_cache = v.stored,
                                       .qkv = qkv.stored,
                                       .step = &step};
    for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
        if (bp_host_isa_runs(form)) {
            bp_host_isa_kernels(form, kernels);
            run(kernels[type][BP_KERNEL_attention_decode], &p, &p.work, &s, type, 2);
            assert_rounded(&out, out.x, type);
            assert_rounded(&k, k.x, type);
            assert_rounded(&v, v.x, type);
        }
    }
    tensor_free(&qkv);
    tensor_free(&out);
    tensor_free(&k);
    tensor_free(&v);
}

/* verifies device-1.6909 */
static void decode(void **unused)
{
    (void)unused;
    state = 2;
    for (int type = BP_F32; type <= BP_F16; type++) {
        decode_in((bp_dtype)type, false);
        decode_in((bp_dtype)type, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_and_backward),  cmocka_unit_test(backward_in_blocks),
        cmocka_unit_test(over_documents),        cmocka_unit_test(a_workspace_of_blocks),
        cmocka_unit_test(a_workspace_of_rows),   cmocka_unit_test(decode),
        cmocka_unit_test(forward_in_strips),     cmocka_unit_test(strips_of_documents),
        cmocka_unit_test(a_workspace_of_strips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
