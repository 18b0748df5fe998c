/* SPDX-License-Identifier: MIT */
/* Products that are checked while they run, by a form whose leaf functions turn one bit over: of a
 * packed factor, of a chain on its way, of what was stored, of a sum of the check itself.
 * BP_FLIP_TRIALS=10000 is the long form, in which shapes are those of GPT-2 124M; it prints a
 * table.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/random.h"
#include "device/host/isa.h"
#include "device/host/isa_table.h"
#include "device/host/matmul/matmul_check.h"

#if defined(__x86_64__)
#define FORM  bp_matmul_isa_avx2
#define INDEX 3
#else
#define FORM  bp_matmul_isa_neon
#define INDEX 1
#endif

enum { TRIALS = 1200, TILE_FLOATS = BP_MATMUL_ROWS_MAX * BP_MATMUL_PANEL_MAX };

typedef enum fault_kind { PANEL, PACKED_A, CHAIN, STORED, CHECK, INPUT, KINDS } fault_kind;
static const char *const kind_names[KINDS] = {
    "a packed panel of b", "packed a",           "a chain on its way",
    "what was stored",     "a sum of the check", "an operand before the product"};

/* Of a typical element: what is missed changes none by more. A panel's bit changes many elements of
 * a column, whose errors may cancel each other by chance. */
static const double limits[] = {2e-2, 1e-3, 1e-3, 1e-3, 0.0, 0.0};

/* Classes of bits of an fp32. */
enum { SIGN, EXPONENT, UPPER, LOWER, CLASSES };
static const char *const class_names[CLASSES] = {"sign", "exponent", "mantissa, bits 12 to 22",
                                                 "mantissa, bits 0 to 11"};

/* The one fault there is: where, counted over calls of its leaf function. */
static struct fault {
    fault_kind kind;
    int64_t left; /* calls before it; below 0: it was */
    uint32_t bit;
    uint32_t random;
    bool every; /* and at every call after it */
} fault;

static int64_t tile_calls, sum_calls;

static void turn(float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    bits ^= UINT32_C(1) << fault.bit;
    memcpy(x, &bits, sizeof bits);
}

/* Whether it is now. */
static bool due(void)
{
    const bool now = fault.left == 0 || (fault.every && fault.left < 0);
    fault.left--;
    return now;
}

/* The chain of one element with a bit turned after some of its terms. */
static void faulty_chain(const bp_matmul_tile *tile)
{
    float chains[TILE_FLOATS];
    const int64_t before = (int64_t)(fault.random >> 8) % (tile->depth + 1);
    const int64_t a = tile->packed ? FORM.rows : 1;
    bp_matmul_tile first = *tile, second = *tile;
    first.depth = before;
    first.to = chains;
    first.to_pitch = FORM.columns;
    first.bias = first.residual = NULL;
    second.depth -= before;
    second.a += before * a;
    second.panel += before * tile->panel_pitch;
    second.from = chains;
    second.from_pitch = FORM.columns;
    FORM.tile(&first);
    turn(chains + (int64_t)(fault.random % (uint32_t)tile->rows) * FORM.columns +
         (int64_t)(fault.random >> 4) % tile->columns);
    FORM.tile(&second);
}

static void faulty_tile(const bp_matmul_tile *tile)
{
    tile_calls++;
    if (fault.kind == CHECK || fault.kind == INPUT || !due()) {
        FORM.tile(tile);
        return;
    }
    const uint32_t random = fault.random;
    if (fault.kind == PANEL) {
        turn((float *)(uintptr_t)tile->panel +
             (int64_t)(random % (uint32_t)tile->depth) * tile->panel_pitch +
             (int64_t)(random >> 12) % tile->columns);
    } else if (fault.kind == PACKED_A) {
        const int64_t row = (int64_t)(random >> 12) % tile->rows;
        const int64_t term = (int64_t)(random % (uint32_t)tile->depth);
        if (tile->packed) { /* otherwise it is the operand itself */
            turn((float *)(uintptr_t)tile->a + term * FORM.rows + row);
        }
    }
    if (fault.kind == CHAIN) {
        faulty_chain(tile);
        return;
    }
    FORM.tile(tile);
    if (fault.kind == STORED) {
        turn(tile->to + (int64_t)(random % (uint32_t)tile->rows) * tile->to_pitch +
             (int64_t)(random >> 12) % tile->columns);
    }
}

static void faulty_sum_of(float *sums, int64_t columns)
{
    sum_calls++;
    if (fault.kind == CHECK && columns > 0 && due()) {
        turn(sums + (int64_t)(fault.random % (uint32_t)columns));
    }
}

static void faulty_sum(float *sums, const float *a, const void *b, int64_t pitch, int64_t depth,
                       int64_t columns, bp_dtype type)
{
    FORM.sum(sums, a, b, pitch, depth, columns, type);
    faulty_sum_of(sums, columns);
}

static void faulty_sum_transposed(float *sums, const float *a, const void *b, int64_t pitch,
                                  int64_t depth, int64_t columns, bp_dtype type)
{
    FORM.sum_transposed(sums, a, b, pitch, depth, columns, type);
    faulty_sum_of(sums, columns);
}

typedef struct shape {
    int64_t m, n, k;
    int64_t transpose_a, transpose_b, accumulate, gelu;
    bool bias, residual, in_place;
} shape;

static const shape small[] = {{96, 80, 70, 0, 0, 0, 1, true, false, false},
                              {80, 100, 64, 0, 1, 0, 0, false, false, false},
                              {100, 70, 40, 1, 0, 0, 0, false, false, false},
                              {64, 70, 600, 0, 0, 0, 0, true, true, true},
                              {70, 64, 48, 1, 0, 1, 0, false, false, false}};
static const shape large[] = {{256, 3072, 768, 0, 0, 0, 1, true, false, false},
                              {256, 768, 3072, 0, 0, 0, 0, true, true, false},
                              {256, 768, 3072, 0, 1, 0, 0, false, false, false},
                              {768, 768, 256, 1, 0, 0, 0, false, false, false},
                              {256, 768, 768, 0, 0, 0, 0, true, true, true}};

/* A product with its operands, and what it gives without a fault. */
typedef struct trial_product {
    bp_matmul_scalars s;
    bp_matmul_pointers p;
    bp_host_check check;
    float *a, *b, *start, *c, *before, *right, *right_before, *bias, *residual;
    size_t a_bytes, c_bytes;
    void *memory[2]; /* workspace; the check's */
    int64_t tiles, sums;
    bool unpacked; /* a isn't packed, for what can be read in place */
} trial_product;

static float *values(size_t count, uint64_t key)
{
    float *x = malloc(count * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++) {
        uint32_t w[4];
        bp_philox((const uint32_t[4]){(uint32_t)i, 0, 0, 0}, key, w);
        x[i] = ((float)w[0] + (float)w[1] + (float)w[2] - 1.5f * 4294967296.0f) * 0x1p-31f;
    }
    return x;
}

static bp_matmul_isa faulty;

static bp_host_check_found run_once(trial_product *x, bool checked)
{
    bp_host_call call = {&x->p, &x->s, NULL, NULL, checked ? &x->check : NULL};
    bp_host_check_found *found = x->memory[1];
    *found = (bp_host_check_found){.columns = 0};
    memcpy(x->c, x->start, x->c_bytes);
    bp_matmul_run(&faulty, &call, 0, bp_matmul_tasks(&x->s, &faulty), 0);
    x->check.key++;
    return *found;
}

static void product_open(trial_product *x, const shape *s)
{
    const size_t c = (size_t)(s->m * s->n), a = (size_t)(s->m * s->k), b = (size_t)(s->n * s->k);
    x->s = (bp_matmul_scalars){.m = s->m, .n = s->n, .k = s->k};
    x->s.lda = s->transpose_a != 0 ? s->m : s->k;
    x->s.ldb = s->transpose_b != 0 ? s->k : s->n;
    x->s.ldc = s->n;
    x->s.transpose_a = s->transpose_a;
    x->s.transpose_b = s->transpose_b;
    x->s.accumulate = s->accumulate;
    x->s.gelu = s->gelu;
    x->a = values(a, 1);
    x->b = values(b, 2);
    x->start = values(c, 3);
    x->bias = values((size_t)s->n, 4);
    x->residual = values(c, 5);
    x->c = values(c, 6);
    x->before = values(c, 7);
    x->right = malloc(c * sizeof(float));
    x->right_before = malloc(c * sizeof(float));
    x->c_bytes = c * sizeof(float);
    x->a_bytes = a * sizeof(float);
    x->check =
        (bp_host_check){.level = 4.0f, .bytes = bp_matmul_check_bytes(BP_KERNEL_matmul, &x->s)};
    x->memory[0] = malloc((size_t)bp_matmul_workspace(&x->s, NULL));
    x->memory[1] = malloc((size_t)x->check.bytes);
    assert_true(x->memory[0] != NULL && x->memory[1] != NULL && x->right != NULL);
    x->check.memory = x->memory[1];
    x->p = (bp_matmul_pointers){.c = x->c,
                                .a = x->a,
                                .b = x->b,
                                .bias = s->bias ? x->bias : NULL,
                                .residual = !s->residual  ? NULL
                                            : s->in_place ? x->c
                                                          : x->residual,
                                .before = s->gelu != 0 ? x->before : NULL,
                                .work = x->memory[0]};
    fault = (struct fault){.left = INT64_MAX};
    (void)run_once(x, false);
    memcpy(x->right, x->c, x->c_bytes);
    memcpy(x->right_before, x->before, x->c_bytes);
    for (int i = 0; i < 8; i++) { /* rounding lifts the level, as in a run's first steps */
        const bp_host_check_found found = run_once(x, true);
        assert_int_equal(found.wrong + found.damaged, 0);
        assert_memory_equal(x->c, x->right, x->c_bytes);
        x->check.level = found.level > x->check.level ? found.level : x->check.level;
    }
    assert_true(x->check.level < 64.0f);
    tile_calls = sum_calls = 0;
    (void)run_once(x, true);
    x->tiles = tile_calls;
    x->sums = sum_calls;
}

static void product_close(trial_product *x)
{
    void *all[] = {x->a,        x->b,         x->start,        x->c,
                   x->before,   x->right,     x->right_before, x->bias,
                   x->residual, x->memory[0], x->memory[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

static bool is_right(const trial_product *x)
{
    return memcmp(x->c, x->right, x->c_bytes) == 0 &&
           (x->p.before == NULL || memcmp(x->before, x->right_before, x->c_bytes) == 0);
}

/* The largest error of c over the root of its mean square. */
static double error_of(const trial_product *x)
{
    const float *c = x->p.before != NULL ? x->before : x->c;
    const float *right = x->p.before != NULL ? x->right_before : x->right;
    double most = 0.0, squares = 0.0;
    const size_t count = x->c_bytes / sizeof(float);
    for (size_t i = 0; i < count; i++) {
        const double off = fabs((double)c[i] - (double)right[i]);
        most = off > most || isnan(off) ? off : most;
        squares += (double)right[i] * (double)right[i];
    }
    return most / sqrt(squares / (double)count);
}

typedef struct tally {
    uint32_t trials, repaired, harmless, missed;
    double most; /* error of those that were missed */
} tally;

static uint32_t class_of(uint32_t bit)
{
    return bit == 31 ? SIGN : bit >= 23 ? EXPONENT : bit >= 12 ? UPPER : LOWER;
}

static void one_trial(trial_product *x, uint32_t number, fault_kind kind, tally *to)
{
    uint32_t w[4];
    bp_philox((const uint32_t[4]){number, (uint32_t)kind, 0, 0}, 29, w);
    const int64_t calls = kind == CHECK ? x->sums : x->tiles;
    fault = (struct fault){
        .kind = kind, .left = (int64_t)(w[0] % (uint64_t)calls), .bit = w[1] % 32, .random = w[2]};
    float *operand = w[3] % 2 == 0 ? x->a : x->b;
    float *at = operand + w[2] % (uint32_t)(operand == x->a ? x->s.m * x->s.k : x->s.n * x->s.k);
    if (kind == INPUT) {
        turn(at);
    }
    const bp_host_check_found found = run_once(x, true);
    if (kind == INPUT) {
        turn(at);
    }
    const bool right = is_right(x);
    tally *t = &to[class_of(w[1] % 32)];
    t->trials++;
    t->repaired += found.wrong > 0 && right ? 1 : 0;
    t->harmless += found.wrong == 0 && right ? 1 : 0;
    t->missed += right ? 0 : 1;
    if (!right) {
        const double error = error_of(x);
        t->most = error > t->most || isnan(error) ? error : t->most;
        if (kind != INPUT && (found.wrong > 0 || !(error < limits[kind] / 2))) {
            print_message("%s, trial %u, bit %u: %u repaired, error %g\n", kind_names[kind], number,
                          (unsigned)(w[1] % 32), (unsigned)found.wrong, error);
        }
    }
    assert_int_equal(found.damaged, 0);
    if (kind == CHECK) {
        assert_true(right);
    }
}

/* Every flip is repaired or harmless, or below the limit of what rounding does; a flip of the check
 * itself changes nothing. What was read wrong from the beginning, no check of a product can know.
 */
/* verifies device-44.ebba */
static void flips_are_repaired(void **state)
{
    (void)state;
    const char *asked = getenv("BP_FLIP_TRIALS");
    const uint32_t trials = asked != NULL ? (uint32_t)strtoul(asked, NULL, 10) : TRIALS;
    const shape *shapes = asked != NULL ? large : small;
    const uint32_t count = sizeof small / sizeof small[0];
    tally all[KINDS][CLASSES];
    memset(all, 0, sizeof all);
    if (!bp_host_isa_runs(INDEX)) {
        skip();
    }
    for (uint32_t i = 0; i < count; i++) {
        trial_product x;
        product_open(&x, &shapes[i]);
        const uint32_t each = trials / count / KINDS;
        print_message("%d x %d x %d: %.1f units of rounding\n", (int)x.s.m, (int)x.s.n, (int)x.s.k,
                      (double)x.check.level);
        for (uint32_t trial = 0; trial < each; trial++) {
            for (uint32_t kind = 0; kind < KINDS; kind++) {
                one_trial(&x, i * each + trial, (fault_kind)kind, all[kind]);
            }
        }
        product_close(&x);
    }
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        for (uint32_t c = 0; c < CLASSES; c++) {
            const tally *t = &all[kind][c];
            print_message("| %s | %s | %u | %u | %u | %u | %.1e |\n", kind_names[kind],
                          class_names[c], t->trials, t->repaired, t->harmless, t->missed, t->most);
        }
    }
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        for (uint32_t c = 0; c < CLASSES; c++) {
            assert_true(kind == INPUT || all[kind][c].most <= limits[kind]);
        }
        assert_true(kind >= CHECK || all[kind][EXPONENT].repaired > 0);
        assert_true(kind >= CHECK || all[kind][SIGN].missed + all[kind][EXPONENT].missed == 0);
    }
}

/* A core that goes on spoiling what it computes: scalar arithmetic puts it right each time. */
/* verifies device-44.ebba */
static void a_faulty_lane_is_repaired(void **state)
{
    (void)state;
    trial_product x;
    if (!bp_host_isa_runs(INDEX)) {
        skip();
    }
    product_open(&x, &small[3]);
    fault = (struct fault){.kind = STORED, .bit = 20, .every = true};
    const bp_host_check_found found = run_once(&x, true);
    assert_true(found.wrong > 1);
    assert_int_equal(found.damaged, 0);
    assert_true(is_right(&x));
    product_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flips_are_repaired),
        cmocka_unit_test(a_faulty_lane_is_repaired),
    };
    faulty = FORM;
    faulty.tile = faulty_tile;
    faulty.sum = faulty_sum;
    faulty.sum_transposed = faulty_sum_transposed;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
