/* SPDX-License-Identifier: MIT */
/* Attention by strips of a query head's rows: the bits of attention over all of them at once, of
 * every form in every element type; strips, samples and documents that end amid blocks; tasks of a
 * diagonal in any order. */
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

typedef const bp_host_kernel *form_kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];

/* Attention of one key-value head over rows as they lie together, and as strips have them. */
typedef struct both {
    bp_attention_forward_scalars s;
    const int32_t *starts;
    bp_dtype type;
    size_t element;
    uint64_t rows, heads, width;
    void *qkv, *out, *d_out, *d_qkv; /* together */
    float *lse;
    void *q, *kv, *o, *d_o; /* of each head (rows, width); kv (rows, 2 width) */
    float *l, *delta, *d_kv, *sums;
} both;

static void *room(uint64_t count)
{
    void *memory = malloc((size_t)(count + 1) * sizeof(float));
    assert_non_null(memory);
    memset(memory, 0xff, (size_t)(count + 1) * sizeof(float));
    return memory;
}

static void *numbers(uint64_t count, bp_dtype type, uint64_t seed)
{
    float *x = room(count);
    void *stored = room(count);
    fill_normal(x, count, seed, 1.0);
    for (uint64_t i = 0; i < count; i++) {
        bp_element_store(stored, i, x[i], type);
    }
    free(x);
    return stored;
}

/* Columns of rows of all heads to rows of their own, or back. */
static void columns(const both *b, void *all, uint64_t pitch, uint64_t first, void *own,
                    uint64_t own_pitch, uint64_t at, bool back)
{
    for (uint64_t r = 0; r < b->rows; r++) {
        char *x = (char *)all + (r * pitch + first) * b->element;
        char *y = (char *)own + (r * own_pitch + at) * b->element;
        memcpy(back ? x : y, back ? y : x, (size_t)b->width * b->element);
    }
}

static both both_make(const bp_attention_forward_scalars *s, const int32_t *starts, bp_dtype type)
{
    both b = {.s = *s, .starts = starts, .type = type, .element = bp_dtype_bytes(type)};
    b.rows = (uint64_t)(s->batch * s->sequence);
    b.heads = (uint64_t)s->heads;
    b.width = (uint64_t)s->head_width;
    const uint64_t one = b.rows * b.width;
    b.qkv = numbers(one * (b.heads + 2), type, 1);
    b.d_out = numbers(one * b.heads, type, 2);
    b.out = room(one * b.heads);
    b.d_qkv = room(one * (b.heads + 2));
    b.lse = room(b.rows * b.heads);
    b.q = room(one * b.heads);
    b.kv = room(one * 2);
    b.o = room(one * b.heads);
    b.d_o = room(one * b.heads);
    b.l = room(b.rows * b.heads);
    b.delta = room(b.rows * b.heads);
    b.d_kv = room(one * 2);
    b.sums = room(one);
    return b;
}

static void both_free(both *b)
{
    void *all[] = {b->qkv, b->out, b->d_out, b->d_qkv, b->lse,  b->q,   b->kv,
                   b->o,   b->d_o, b->l,     b->delta, b->d_kv, b->sums};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

/* Runs a kernel's tasks in groups of `together`, those of a group from the last to the first, each
 * in a workspace of NaNs. */
static void run(const bp_host_kernel *kernel, const void *pointers, void **work,
                const void *scalars, bp_dtype type, uint64_t together)
{
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)type, sizeof(dtypes));
    const uint64_t bytes = kernel->workspace(scalars, dtypes), tasks = kernel->tasks(scalars);
    unsigned char *memory = malloc((size_t)bytes + 64);
    const bp_host_call call = {pointers, scalars, dtypes, NULL, NULL};
    assert_non_null(memory);
    memset(memory + bytes, 0x5a, 64);
    *work = memory;
    for (uint64_t first = 0; first < tasks; first += together) {
        const uint64_t count = bp_least(together, tasks - first);
        for (uint64_t i = count; i-- > 0;) {
            memset(memory, 0xff, (size_t)bytes);
            kernel->run(&call, first + i, first + i + 1, 0);
        }
    }
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(memory[bytes + i], 0x5a);
    }
    free(memory);
}

/* All rows at once. */
static void run_together(both *b, const form_kernels *kernels)
{
    const bp_step_block step = {.seed = 1};
    const bool packed = b->starts != NULL;
    bp_attention_backward_scalars back;
    memcpy(&back, &b->s, sizeof back); /* the same words, as operands are in the same places */
    bp_attention_forward_pointers f = {
        .out = b->out, .lse = b->lse, .qkv = b->qkv, .lengths = b->starts, .step = &step};
    run((*kernels)[b->type]
                  [packed ? BP_KERNEL_attention_packed_forward : BP_KERNEL_attention_forward],
        &f, &f.work, &b->s, b->type, 1);
    bp_attention_backward_pointers p = {.d_qkv = b->d_qkv,
                                        .d_out = b->d_out,
                                        .qkv = b->qkv,
                                        .out = b->out,
                                        .lse = b->lse,
                                        .lengths = b->starts,
                                        .step = &step};
    run((*kernels)[b->type]
                  [packed ? BP_KERNEL_attention_packed_backward : BP_KERNEL_attention_backward],
        &p, &p.work, &back, b->type, 1);
}

static void run_strip(const both *b, const form_kernels *kernels, uint64_t head, uint64_t first,
                      uint64_t rows, bool back)
{
    const uint64_t at = head * b->rows + first, place = at * b->width * b->element;
    const bp_attention_strip_backward_scalars s = {.batch = b->s.batch,
                                                   .sequence = b->s.sequence,
                                                   .first = (int64_t)first,
                                                   .rows = (int64_t)rows,
                                                   .head_width = b->s.head_width,
                                                   .window = b->s.window,
                                                   .scale = b->s.scale,
                                                   .cap = b->s.cap,
                                                   .more = head > 0 || first > 0};
    if (back) {
        bp_attention_strip_backward_pointers p = {.q = (char *)b->q + place,
                                                  .d_kv = b->d_kv,
                                                  .sums = b->sums,
                                                  .d_out = (char *)b->d_o + place,
                                                  .delta = b->delta + at,
                                                  .lse = b->l + at,
                                                  .kv = b->kv,
                                                  .starts = b->starts};
        run((*kernels)[b->type][BP_KERNEL_attention_strip_backward], &p, &p.work, &s, b->type,
            bp_attention_strip_blocks(&s));
        return;
    }
    bp_attention_strip_forward_pointers p = {.out = (char *)b->o + place,
                                             .lse = b->l + at,
                                             .q = (char *)b->q + place,
                                             .kv = b->kv,
                                             .starts = b->starts};
    run((*kernels)[b->type][BP_KERNEL_attention_strip_forward], &p, &p.work, &s, b->type, 1000);
}

/* By strips of `strip` rows. */
static void run_strips(both *b, const form_kernels *kernels, uint64_t strip)
{
    const uint64_t pitch = (b->heads + 2) * b->width;
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)b->type, sizeof dtypes);
    columns(b, b->qkv, pitch, b->heads * b->width, b->kv, 2 * b->width, 0, false);
    columns(b, b->qkv, pitch, (b->heads + 1) * b->width, b->kv, 2 * b->width, b->width, false);
    for (uint64_t h = 0; h < b->heads; h++) {
        const uint64_t at = h * b->rows, place = at * b->width * b->element;
        columns(b, b->qkv, pitch, h * b->width, (char *)b->q + place, b->width, 0, false);
        columns(b, b->d_out, b->heads * b->width, h * b->width, (char *)b->d_o + place, b->width, 0,
                false);
        for (uint64_t first = 0; first < b->rows; first += strip) {
            run_strip(b, kernels, h, first, bp_least(strip, b->rows - first), false);
        }
    }
    const bp_attention_deltas_scalars one = {(int64_t)(b->heads * b->rows), 1, (int64_t)b->width};
    const bp_attention_deltas_pointers d = {b->delta, b->d_o, b->o};
    const bp_host_call call = {&d, &one, dtypes, NULL, NULL};
    (*kernels)[b->type][BP_KERNEL_attention_deltas]->run(&call, 0, b->heads * b->rows, 0);
    for (uint64_t h = 0; h < b->heads; h++) {
        for (uint64_t first = 0; first < b->rows; first += strip) {
            run_strip(b, kernels, h, first, bp_least(strip, b->rows - first), true);
        }
    }
}

/* They left what lies in all heads' rows. */
static void assert_strips(both *b)
{
    const uint64_t pitch = (b->heads + 2) * b->width, bytes = b->rows * b->width * b->element;
    void *right = room(b->rows * 2 * b->width), *rounded = room(b->rows * 2 * b->width);
    for (uint64_t h = 0; h < b->heads; h++) {
        const uint64_t place = h * bytes;
        columns(b, b->out, b->heads * b->width, h * b->width, right, b->width, 0, false);
        assert_memory_equal((char *)b->o + place, right, (size_t)bytes);
        columns(b, b->d_qkv, pitch, h * b->width, right, b->width, 0, false);
        assert_memory_equal((char *)b->q + place, right, (size_t)bytes);
    }
    columns(b, b->d_qkv, pitch, b->heads * b->width, right, 2 * b->width, 0, false);
    columns(b, b->d_qkv, pitch, (b->heads + 1) * b->width, right, 2 * b->width, b->width, false);
    for (uint64_t i = 0; i < b->rows * 2 * b->width; i++) {
        bp_element_store(rounded, i, b->d_kv[i], b->type);
    }
    assert_memory_equal(rounded, right, (size_t)(2 * bytes));
    free(right);
    free(rounded);
}

static void check(const bp_attention_forward_scalars *s, const int32_t *starts, bp_dtype type,
                  uint64_t strip)
{
    form_kernels kernels;
    for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
        if (bp_host_isa_runs(form)) {
            both b = both_make(s, starts, type);
            bp_host_isa_kernels(form, kernels);
            run_together(&b, (const form_kernels *)&kernels);
            run_strips(&b, (const form_kernels *)&kernels, strip);
            assert_strips(&b);
            both_free(&b);
        }
    }
}

/* The short form takes every third of shapes, strips and types. */
/* verifies device-1.6909 */
static void strips_have_the_bits_of_all_rows(void **unused)
{
    (void)unused;
    static const bp_attention_forward_scalars shapes[] = {
        {1, 1, 1, 1, 1, 1, 0, 1.0, 0.0, 0, 0.0},    {1, 64, 2, 1, 16, 1, 0, 0.4, 0.0, 0, 0.0},
        {2, 70, 3, 1, 17, 1, 0, 0.2, 0.0, 0, 1.5},  {3, 100, 2, 1, 20, 1, 0, 0.2, 0.0, 30, 0.0},
        {1, 700, 2, 1, 33, 1, 0, 0.2, 0.0, 0, 0.0}, {2, 610, 1, 1, 3, 1, 0, 0.2, 0.0, 577, 2.0},
    };
    static const uint64_t strips[] = {1, 13, 32, 100, 257, 1000};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (size_t k = i % 2; k < sizeof strips / sizeof strips[0]; k += i < 4 ? 1 : 2) {
            for (int type = BP_F32; type <= BP_F16; type++) {
                if (long_form() || (i + k + (size_t)type) % 3 == 0) {
                    check(&shapes[i], NULL, (bp_dtype)type, strips[k]);
                }
            }
        }
    }
}

/* Several ranges of keys. */
/* verifies device-1.6909 */
static void diagonals_of_blocks_and_ranges(void **unused)
{
    (void)unused;
    static const bp_attention_forward_scalars shapes[] = {
        {1, 5000, 2, 1, 2, 1, 0, 0.5, 0.0, 0, 0.0},
        {1, 4700, 1, 1, 2, 1, 0, 0.5, 0.0, 2400, 0.0},
        {2, 2400, 1, 1, 3, 1, 0, 0.5, 0.0, 0, 0.0},
    };
    for (size_t i = long_form() ? 0 : 1; i < sizeof shapes / sizeof shapes[0]; i++) {
        check(&shapes[i], NULL, i == 1 ? BP_F32 : BP_BF16, i == 0 ? 1100 : 2304);
    }
}

/* Documents that begin and end amid strips, blocks of queries and of keys, and padding. */
/* verifies layers-51.f5f9 */
static void strips_of_documents(void **unused)
{
    (void)unused;
    static const bp_attention_forward_scalars s = {2, 700, 2, 1, 9, 1, 0, 0.2, 0.0, 100, 0.0};
    static const bp_attention_forward_scalars far = {1, 5000, 1, 1, 2, 1, 0, 0.2, 0.0, 0, 0.0};
    int32_t starts[5000];
    for (int i = 0; i < 1400; i++) {
        const int at = i % 700;
        starts[i] = at < 33 ? 0 : at < 34 ? 33 : at < 647 ? 34 : -1;
    }
    for (int type = BP_F32; type <= BP_F16; type++) {
        if (long_form() || type != BP_BF16) {
            check(&s, starts, (bp_dtype)type, 13);
        }
        if (long_form() || type == BP_BF16) {
            check(&s, starts, (bp_dtype)type, 400);
        }
    }
    for (int i = 0; i < 5000; i++) {
        starts[i] = i < 1234 ? 0 : i < 4900 ? 1234 : -1;
    }
    check(&far, starts, BP_BF16, 1500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strips_have_the_bits_of_all_rows),
        cmocka_unit_test(diagonals_of_blocks_and_ranges),
        cmocka_unit_test(strips_of_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
