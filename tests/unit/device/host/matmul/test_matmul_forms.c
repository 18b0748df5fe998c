/* SPDX-License-Identifier: MIT */
/* The matrix product of every form against a plain chain of fused multiply-adds, bit for bit, in
 * every element type: shapes around the edges of tiles and blocks, wide pitches, every epilogue,
 * tasks in uneven ranges. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/math_inline.h"
#include "device/host/matmul/matmul_check.h"
#include "device/host/isa_table.h"
#include "device/host/vector/half.h"
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

/* Floats from -1 to 1, or of any exponent up to 2^72, subnormal ones among them. */
static bool any_exponent;

static float draw_float(void)
{
    float x;
    if (!any_exponent) {
        return (float)draw(2000) / 1000.0f - 1.0f;
    }
    uint32_t bits = draw(200) << 23;
    bits |= draw(1u << 23);
    bits |= draw(2) << 31;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static float *draw_floats(int64_t count)
{
    float *x = malloc((size_t)(count + 1) * sizeof(float));
    assert_non_null(x);
    for (int64_t i = 0; i < count; i++) {
        x[i] = draw_float();
    }
    return x;
}

/* One product and its operands; `right` is what c must become, `before` what GELU is applied to.
 * The operands are floats that their types hold exactly; `stored` are those types. */
typedef struct product {
    bp_matmul_scalars s;
    bp_matmul_pointers p;
    uint8_t dtypes[8];
    bp_dtype type, c_type;
    float *a, *b, *bias, *residual, *start, *right, *right_before;
    void *stored[9];
    void *c, *before;
    int64_t c_count;
    int64_t row_step; /* rows 0, row_step, .. are compared */
    bool in_place;
} product;

static void compute_right(product *x)
{
    const bp_matmul_scalars *s = &x->s;
    memcpy(x->right, x->start, (size_t)x->c_count * sizeof(float));
    memcpy(x->right_before, x->start, (size_t)x->c_count * sizeof(float));
    for (int64_t i = 0; i < s->m; i += x->row_step) {
        for (int64_t j = 0; j < s->n; j++) {
            int64_t at = i * s->ldc + j;
            float sum = s->accumulate != 0 ? x->start[at] : 0.0f;
            for (int64_t k = 0; k < s->k; k++) {
                float a = s->transpose_a != 0 ? x->a[k * s->lda + i] : x->a[i * s->lda + k];
                float b = s->transpose_b != 0 ? x->b[j * s->ldb + k] : x->b[k * s->ldb + j];
                sum = fmaf(a, b, sum);
            }
            sum = x->p.bias != NULL ? sum + x->bias[j] : sum;
            sum = x->p.residual != NULL ? sum + x->residual[at] : sum;
            x->right_before[at] = x->p.before != NULL ? sum : x->start[at];
            /* GELU takes the value that `before` holds */
            x->right[at] = s->gelu != 0 ? bp_gelu_inline(bp_element_round(sum, x->type)) : sum;
        }
    }
}

/* The floats in their type, of which `x` becomes what they hold; the product keeps the bytes. */
static void *stored(product *x, int place, float *values, int64_t count, bp_dtype type)
{
    void *bytes = malloc((size_t)(count + 1) * sizeof(float));
    assert_non_null(bytes);
    for (int64_t i = 0; i < count; i++) {
        bp_element_store(bytes, (uint64_t)i, values[i], type);
        values[i] = bp_element_load(bytes, (uint64_t)i, type);
    }
    x->stored[place] = bytes;
    return bytes;
}

/* epilogue: bit 0 bias, bit 1 residual, bit 2 residual in place, bit 3 GELU, bit 4 keeps what was
 * before it, bit 5 accumulates (alone). forms: bit 0 transposes a, bit 1 b. */
static void scalars_make(product *x, const int64_t shape[3], int transposed, int epilogue,
                         int64_t slack)
{
    bp_matmul_scalars *s = &x->s;
    *s = (bp_matmul_scalars){.m = shape[0], .n = shape[1], .k = shape[2]};
    s->transpose_a = transposed & 1;
    s->transpose_b = transposed >> 1;
    s->accumulate = epilogue >> 5;
    s->gelu = epilogue >> 3 & 1;
    s->lda = (s->transpose_a != 0 ? s->m : s->k) + slack;
    s->ldb = (s->transpose_b != 0 ? s->k : s->n) + slack;
    s->ldc = s->n + slack;
    x->in_place = (epilogue & 4) != 0;
    x->row_step = s->m * s->n * s->k > 2000000 ? 29 : 1;
    x->c_count = s->m * s->ldc;
}

static void product_make(product *x, const int64_t shape[3], int transposed, int epilogue,
                         int64_t slack, const bp_dtype types[2])
{
    memset(x, 0, sizeof(*x));
    scalars_make(x, shape, transposed, epilogue, slack);
    const bp_matmul_scalars *s = &x->s;
    int64_t a_count = (s->transpose_a != 0 ? s->k : s->m) * s->lda;
    int64_t b_count = (s->transpose_b != 0 ? s->n : s->k) * s->ldb;
    x->c_type = types[0];
    x->type = types[1];
    x->dtypes[0] = (uint8_t)types[0];
    memset(x->dtypes + 1, (int)types[1], sizeof(x->dtypes) - 1);
    x->a = draw_floats(a_count);
    x->b = draw_floats(b_count);
    x->bias = draw_floats(s->n);
    x->start = draw_floats(x->c_count);
    x->residual = draw_floats(x->c_count);
    x->right = draw_floats(x->c_count);
    x->right_before = draw_floats(x->c_count);
    if (x->in_place) {
        memcpy(x->residual, x->start, (size_t)x->c_count * sizeof(float));
    }
    x->c = stored(x, 0, x->start, x->c_count, x->c_type);
    x->before = stored(x, 1, x->start, x->c_count, x->c_type);
    x->p.c = x->c;
    x->p.a = stored(x, 2, x->a, a_count, x->type);
    x->p.b = stored(x, 3, x->b, b_count, x->type);
    void *bias = stored(x, 4, x->bias, s->n, x->type);
    void *residual = stored(x, 5, x->residual, x->c_count, x->type);
    x->p.bias = (epilogue & 1) != 0 ? bias : NULL;
    x->p.residual = (epilogue & 6) != 0 ? (x->in_place ? x->c : residual) : NULL;
    x->p.before = (epilogue & 24) == 24 ? x->before : NULL;
    compute_right(x);
    stored(x, 6, x->start, x->c_count, x->c_type);
    stored(x, 7, x->right, x->c_count, x->c_type);
    stored(x, 8, x->right_before, x->c_count, x->c_type);
}

static void product_free(product *x)
{
    float *all[] = {x->a, x->b, x->bias, x->residual, x->start, x->right, x->right_before};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
    for (size_t i = 0; i < sizeof(x->stored) / sizeof(x->stored[0]); i++) {
        free(x->stored[i]);
    }
}

/* The rows that were computed are equal to those of `right`, in c's type. */
static void rows_equal(const product *x, const void *found, const void *right)
{
    size_t element = bp_dtype_bytes(x->c_type);
    for (int64_t i = 0; i < x->s.m; i += x->row_step) {
        size_t at = (size_t)(i * x->s.ldc) * element;
        assert_memory_equal((const char *)found + at, (const char *)right + at,
                            (size_t)x->s.ldc * element);
    }
}

/* Of the workspace of one worker, which the portable form has no use for. */
static uint64_t bytes_of(const bp_host_kernel *kernel, const void *scalars, const uint8_t *dtypes)
{
    return kernel->workspace != NULL ? kernel->workspace(scalars, dtypes) : 0;
}

/* Runs the product by one form, tasks in ranges of up to `most` by workers in turn, and compares.
 * The workspace holds NaNs beforehand and must not be left. */
static void product_check(product *x, const bp_host_kernel *kernel, uint32_t most, bool checked)
{
    const uint64_t check_bytes = checked ? bp_matmul_check_bytes(BP_KERNEL_matmul, &x->s) : 0;
    bp_host_check check = {.key = draw(1000), .level = 4.0f, .bytes = check_bytes};
    check.memory = calloc(1, (size_t)(WORKERS * check_bytes + GUARD_BYTES));
    assert_non_null(check.memory);
    memset((char *)check.memory + WORKERS * check_bytes, GUARD, GUARD_BYTES);
    uint64_t part = bytes_of(kernel, &x->s, x->dtypes), tasks = kernel->tasks(&x->s);
    size_t bytes = (size_t)(WORKERS * part);
    unsigned char *work = malloc(bytes + GUARD_BYTES);
    assert_non_null(work);
    memset(work, 0xff, bytes);
    memset(work + bytes, GUARD, GUARD_BYTES);
    size_t c_bytes = (size_t)x->c_count * bp_dtype_bytes(x->c_type);
    memcpy(x->c, x->stored[6], c_bytes);
    memcpy(x->before, x->stored[6], c_bytes);
    x->p.work = work;
    bp_host_call call = {&x->p, &x->s, x->dtypes, NULL, checked ? &check : NULL};
    for (uint64_t first = 0; first < tasks;) {
        uint64_t last = first + 1 + draw(most);
        last = last < tasks ? last : tasks;
        kernel->run(&call, first, last, draw(WORKERS));
        first = last;
    }
    rows_equal(x, x->c, x->stored[7]);
    rows_equal(x, x->before, x->stored[8]);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        assert_int_equal(work[bytes + i], GUARD);
    }
    for (uint64_t i = 0; i < GUARD_BYTES; i++) {
        assert_int_equal(((unsigned char *)check.memory)[WORKERS * check_bytes + i], GUARD);
    }
    for (uint64_t i = 0; checked && i < WORKERS; i++) { /* nothing was wrong */
        const bp_host_check_found *found =
            (const void *)((const char *)check.memory + i * check_bytes);
        assert_int_equal(found->wrong + found->damaged, 0);
    }
    free(check.memory);
    free(work);
}

/* c's type and that of the others: all one, or a c of its own. */
static const bp_dtype pairs[][2] = {{BP_F32, BP_F32},  {BP_BF16, BP_BF16}, {BP_F16, BP_F16},
                                    {BP_F32, BP_BF16}, {BP_F32, BP_F16},   {BP_BF16, BP_F32}};
#define SAME  3 /* pairs of one type */
#define PAIRS 6

/* Forms number `form` and up. */
static void check_typed(uint32_t form, const int64_t shape[3], int transposed, int epilogue,
                        int64_t slack, const bp_dtype types[2])
{
    product x;
    product_make(&x, shape, transposed, epilogue, slack, types);
    for (; form < BP_HOST_ISAS; form++) {
        const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];
        if (bp_host_isa_runs(form)) {
            bp_host_isa_kernels(form, kernels);
            const bp_host_kernel *kernel = kernels[types[1]][BP_KERNEL_matmul];
            /* In the short form (emulated processors) every eighth product is checked. */
            static uint32_t turn;
            const bool checked = turn++ % share_of(1, 1, 8) == 0;
            if (x.c_count < 20000) {
                product_check(&x, kernel, 3, checked && form > 0);
            }
            product_check(&x, kernel, 1000, false);
            if (checked) {
                product_check(&x, kernel, 1000, true);
            }
            /* The portable one calls fmaf, or has its instruction where there is one. */
            const bp_host_kernel *calls = bp_host_portable.kernels[types[1]][BP_KERNEL_matmul];
            if (form == 0 && kernel != calls) {
                product_check(&x, calls, 1000, false);
            }
        }
    }
    product_free(&x);
}

static void check_forms_from(uint32_t form, const int64_t shape[3], int transposed, int epilogue,
                             int64_t slack)
{
    bool mixed = (epilogue & 31) == 0; /* nothing but the product is added to c */
    for (int i = 0; i < (mixed ? PAIRS : SAME); i++) {
        check_typed(form, shape, transposed, epilogue, slack, pairs[i]);
    }
}

static void check_forms(const int64_t shape[3], int transposed, int epilogue, int64_t slack)
{
    check_forms_from(0, shape, transposed, epilogue, slack);
}

/* Rows around tiles of 6 and 8, columns around vectors and tiles of 16 and 48, and none of k. */
/* verifies device-1.6909 */
static void edges_of_tiles(void **unused)
{
    (void)unused;
    static const int64_t rows[] = {1, 2, 5, 6, 7, 8, 9, 13, 25};
    static const int64_t columns[] = {1, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 97};
    static const int64_t depths[] = {0, 1, 3, 4, 7, 19, 64};
    state = 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t j = 0; j < sizeof(columns) / sizeof(columns[0]); j++) {
            const int64_t shape[3] = {rows[i], columns[j], depths[draw(7)]};
            check_forms(shape, (int)draw(4), (int)draw(8), draw(20));
        }
    }
}

/* verifies device-1.6909 */
static void every_epilogue(void **unused)
{
    (void)unused;
    static const int64_t shapes[][3] = {{1, 150, 40}, {11, 70, 33}, {10, 20, 1030}};
    state = 2;
    for (int epilogue = 0; epilogue <= 32; epilogue++) {
        for (int i = 0; i < 3; i++) {
            check_forms(shapes[i], epilogue % 4, epilogue, 5 * (epilogue % 3));
        }
    }
}

/* k and a's block cut, c taller and wider than one block, more strips than tasks wanted. */
/* verifies device-1.6909 */
static void edges_of_blocks(void **unused)
{
    (void)unused;
    static const int64_t shapes[][3] = {{60, 50, 1030}, {20, 6300, 5},  {6300, 10, 5},
                                        {410, 50, 514}, {1, 300, 1030}, {1, 130, 37},
                                        {1, 4300, 9},   {1, 2050, 35}};
    state = 3;
    for (int i = 0; i < 8; i++) {
        /* In the short form each shape is transposed one way, and each way is that of two shapes.
         */
        const int step = (int)share_of(1, 1, 4);
        for (int transposed = step == 1 ? 0 : i % 4; transposed < 4; transposed += step) {
            check_forms_from(1, shapes[i], transposed, transposed == 1 ? 32 : 5, 3 * transposed);
        }
    }
}

/* k is cut, so c is cut both ways. */
/* verifies device-1.6909 */
static void blocks_of_c(void **unused)
{
    (void)unused;
    const int64_t shape[3] = {400, 500, 514};
    state = 4;
    for (uint32_t i = 0; i < share_of(SAME, SAME, 1); i++) {
        check_typed(1, shape, 1, 4, 0, pairs[i]);
    }
}

/* Where nothing in c is still needed, chains wait there between blocks of k, and between parts of
 * them where the workspace has no room for a buffer (240 rows, 400 terms). */
/* verifies device-1.6909 */
static void chains_wait_in_c(void **unused)
{
    (void)unused;
    static const int64_t shapes[][3] = {{240, 100, 400}, {410, 200, 900}, {60, 250, 1030}};
    static const int epilogues[] = {0, 3, 25, 32};
    state = 5;
    for (int i = 0; i < 12; i += (int)share_of(1, 1, 3)) {
        check_forms_from(1, shapes[i / 4], i % 4, epilogues[i % 4], i / 3 % 3);
    }
}

/* Terms that are subnormal, that overflow, and that are lost beside others: each is added with one
 * rounding, and none is taken for 0. */
/* verifies device-1.6909 */
static void every_exponent(void **unused)
{
    (void)unused;
    static const int64_t depths[] = {1, 2, 3, 8, 21};
    static const int64_t sides[][2] = {{13, 37}, {6, 16}, {1, 40}, {70, 4}};
    state = 6;
    any_exponent = true;
    for (int i = 0; i < 20; i++) {
        const int64_t shape[3] = {sides[i % 4][0], sides[i % 4][1], depths[i / 4]};
        for (int transposed = 0; transposed < 4; transposed++) {
            check_forms(shape, transposed, transposed % 2 == 0 ? 0 : 32, 3 * (i % 2));
        }
    }
    any_exponent = false;
}

/* Few columns of so many terms that they have no room as a whole. */
/* verifies device-1.6909 */
static void few_columns_of_many_terms(void **unused)
{
    (void)unused;
    static const int64_t shape[3] = {32, 8, 100000};
    state = 7;
    for (int transposed = 0; transposed < 4; transposed += 2) {
        check_typed(0, shape, transposed, 0, 0, pairs[0]);
    }
}

/* Few rows over a transposed b, as sequences that are generated together have them: with every
 * epilogue, columns and terms around those that are at hand at once (256, 1024), odd edges of both.
 */
/* verifies device-1.6909 */
static void few_rows_of_a_large_b(void **unused)
{
    (void)unused;
    static const int64_t columns[] = {16, 41, 255, 256, 257, 530};
    static const int64_t depths[] = {16, 17, 300, 1023, 1024, 1027, 2062};
    state = 8;
    for (int epilogue = 0; epilogue <= 32; epilogue += (int)share_of(1, 3, 6)) {
        for (int64_t rows = 2; rows <= 9; rows += (int64_t)share_of(1, 1, 3)) {
            const int i = epilogue + (int)rows;
            const int64_t shape[3] = {rows, columns[i % 6], depths[i % 7]};
            check_forms_from(1, shape, 2, epilogue, i % 3);
        }
    }
}

static void workspace_of_nothing(void **unused)
{
    (void)unused;
    const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];
    for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
        if (bp_host_isa_runs(form)) {
            bp_host_isa_kernels(form, kernels);
            const bp_host_kernel *matmul = kernels[0][BP_KERNEL_matmul];
            bp_matmul_scalars s = {.m = 0, .n = 4, .k = 4};
            assert_int_equal(matmul->tasks(&s), 0);
            assert_int_equal(bytes_of(matmul, &s, NULL), 0);
            s = (bp_matmul_scalars){.m = 4, .n = 0, .k = 4};
            assert_int_equal(matmul->tasks(&s), 0);
            assert_int_equal(bytes_of(matmul, &s, NULL), 0);
            s = (bp_matmul_scalars){.m = 4, .n = 4, .k = -1};
            assert_int_equal(bytes_of(matmul, &s, NULL), 0);
        }
    }
}

/* The bf16 nearest to a finite x, found by comparing the distances to both neighbours. */
static uint16_t nearest_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    uint16_t down = (uint16_t)(bits >> 16);
    double below = (double)bp_f32_from_bf16(down);
    double above = (down & 0x7fff) == 0x7f7f ? copysign(0x1p128, below)
                                             : (double)bp_f32_from_bf16((uint16_t)(down + 1));
    double to_below = fabs((double)x - below), to_above = fabs((double)x - above);
    bool up = to_above < to_below || (to_above == to_below && (down & 1) != 0);
    return (uint16_t)(down + (up ? 1 : 0));
}

/* c = x * 1 in a 16-bit type, by one row (m = 1) or by tiles. */
static void round_by(const bp_host_kernel *kernel, int64_t m, float *x, int64_t n, bp_dtype type,
                     uint16_t *c)
{
    float one[2] = {1.0f, 1.0f};
    bp_matmul_scalars s = {.m = m, .n = n, .k = 1, .lda = 1, .ldb = n, .ldc = n};
    uint8_t dtypes[8] = {(uint8_t)type, BP_F32, BP_F32, BP_F32, BP_F32, BP_F32, BP_F32, BP_F32};
    void *work = malloc((size_t)bytes_of(kernel, &s, dtypes) + 1);
    assert_non_null(work);
    bp_matmul_pointers p = {.c = c, .a = one, .b = x, .work = work};
    bp_host_call call = {&p, &s, dtypes, NULL, NULL};
    kernel->run(&call, 0, kernel->tasks(&s), 0);
    free(work);
}

#define FLOATS (3 * 65536)

/* Around every bf16 and f16: the value, halfway to the next, and a little above halfway; NaNs and
 * infinities among them. Zeros lose their sign in the product. */
/* verifies device-1.6909 */
static void every_rounding(void **unused)
{
    (void)unused;
    static float x[FLOATS];
    static uint16_t c[2 * FLOATS];
    for (int type = BP_BF16; type <= BP_F16; type++) {
        for (uint32_t i = 0; i < 65536; i++) {
            float value = bp_element_load(&(uint16_t){(uint16_t)i}, 0, (bp_dtype)type);
            uint32_t bits, half = type == BP_BF16 ? 0x8000u : 0x1000u;
            memcpy(&bits, &value, sizeof(bits));
            bits = (bits & 0x7fffffffu) == 0 ? 0 : bits;
            const uint32_t near[3] = {bits, bits + half, bits + half + 1};
            memcpy(x + 3 * i, near, sizeof(near));
        }
        for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
            const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];
            for (int64_t m = 1; m <= 2 && bp_host_isa_runs(form); m++) {
                bp_host_isa_kernels(form, kernels);
                round_by(kernels[0][BP_KERNEL_matmul], m, x, FLOATS, (bp_dtype)type, c);
                for (int64_t i = 0; i < m * FLOATS; i++) {
                    float value = x[i % FLOATS];
                    uint16_t right = bp_f16_from_f32(value);
                    if (type == BP_BF16) {
                        right =
                            isfinite(value) ? nearest_bf16(value) : bp_bf16_even_from_f32(value);
                    }
                    assert_int_equal(c[i], right);
                }
            }
        }
    }
}

/* Against exact sums: a chain of k fused terms is off by at most k 2^-24 sum |a b| (Higham,
 * Accuracy and Stability of Numerical Algorithms, section 3.1), and rounding it by half a unit in
 * the last place: 2^-8 of it in bf16, 2^-11 in f16. */
/* verifies device-3.0681 */
static void bounds(void **unused)
{
    (void)unused;
    static const int64_t shape[3] = {13, 50, 700};
    static const double rounding[3] = {0.0, 0x1p-8, 0x1p-11}, step[3] = {0.0, 0.0, 0x1p-25};
    state = 5;
    for (int i = 0; i < PAIRS; i++) {
        product x;
        product_make(&x, shape, i % 4, 0, 3, pairs[i]);
        const bp_matmul_scalars *s = &x.s;
        for (int64_t at = 0; at < s->m * s->n; at++) {
            int64_t row = at / s->n, column = at % s->n;
            double sum = 0.0, size = 0.0;
            for (int64_t k = 0; k < s->k; k++) {
                double a = (double)x.a[s->transpose_a != 0 ? k * s->lda + row : row * s->lda + k];
                double b =
                    (double)x.b[s->transpose_b != 0 ? column * s->ldb + k : k * s->ldb + column];
                sum += a * b;
                size += fabs(a * b);
            }
            double chain = (double)s->k * 0x1p-24 * size;
            double error = fabs((double)x.right[row * s->ldc + column] - sum);
            double rounded = rounding[pairs[i][0]] * (fabs(sum) + chain) + step[pairs[i][0]];
            assert_true(error <= chain + rounded);
        }
        product_free(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_of_tiles),        cmocka_unit_test(every_epilogue),
        cmocka_unit_test(edges_of_blocks),       cmocka_unit_test(blocks_of_c),
        cmocka_unit_test(chains_wait_in_c),      cmocka_unit_test(few_columns_of_many_terms),
        cmocka_unit_test(few_rows_of_a_large_b), cmocka_unit_test(workspace_of_nothing),
        cmocka_unit_test(every_rounding),        cmocka_unit_test(bounds),
        cmocka_unit_test(every_exponent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
