/* SPDX-License-Identifier: MIT */
/* Single instructions against cases.txt: answers from exact rational arithmetic (make_cases.py), in
 * both builds of the arithmetic; and the approximate functions against their documented bounds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ptxvm/run.h"

enum { ROWS_MAX = 512, WORD = 8 };

typedef struct block {
    char text[400];
    char types[4][8];
    size_t count;
    uint64_t values[4][ROWS_MAX];
} block;

/* Lays the words of one operand out in its own width. */
static void narrow(unsigned char *out, const uint64_t *values, size_t count, const char *type)
{
    size_t bytes = type[0] == '\0' ? 0 : run_bytes(type);
    for (size_t i = 0; i < count; i++) {
        memcpy(out + i * bytes, &values[i], bytes);
    }
}

static int check_block(const block *b)
{
    static unsigned char operands[4][ROWS_MAX * WORD];
    static unsigned char found[ROWS_MAX * WORD];
    const char *types[4];
    int wrong = 0;
    for (int i = 0; i < 4; i++) {
        types[i] = b->types[i][0] != '\0' ? b->types[i] : NULL;
        narrow(operands[i], b->values[i], b->count, b->types[i]);
    }
    run_formula formula = {b->text, types[0], types[1], types[2], types[3]};
    int result = run_evaluate(&formula, b->count, found, operands[1], operands[2], operands[3]);
    if (result != 0) {
        char report[1024];
        ptxvmReport(report, sizeof report);
        print_error("%s: result %d %s\n", b->text, result, report);
        return 1;
    }
    size_t bytes = run_bytes(types[0]);
    for (size_t i = 0; i < b->count && wrong < 3; i++) {
        if (memcmp(found + i * bytes, operands[0] + i * bytes, bytes) != 0) {
            uint64_t word = 0;
            memcpy(&word, found + i * bytes, bytes);
            print_error("%s of %llx %llx %llx: %llx, wanted %llx\n", b->text,
                        (unsigned long long)b->values[1][i], (unsigned long long)b->values[2][i],
                        (unsigned long long)b->values[3][i], (unsigned long long)word,
                        (unsigned long long)b->values[0][i]);
            wrong++;
        }
    }
    return wrong;
}

static void start_block(block *b, const char *line)
{
    memset(b, 0, sizeof *b);
    const char *bar = strchr(line, '|');
    assert_non_null(bar);
    size_t length = (size_t)(bar - line) - 3;
    assert_true(length < sizeof b->text);
    memcpy(b->text, line + 2, length);
    sscanf(bar + 1, "%7s %7s %7s %7s", b->types[0], b->types[1], b->types[2], b->types[3]);
}

static void run_cases(const char *portable)
{
    static block b;
    char line[600];
    int wrong = 0;
    size_t blocks = 0;
    FILE *in = fopen("tests/ptxvm/cases.txt", "r");
    assert_non_null(in);
    ptxvmSet("PTXVM_PORTABLE", portable);
    while (fgets(line, sizeof line, in) != NULL) {
        if (line[0] == '=') {
            wrong += b.count > 0 ? check_block(&b) : 0;
            start_block(&b, line);
            blocks++;
        } else if (line[0] != '#' && b.count < ROWS_MAX) {
            unsigned long long v[4] = {0, 0, 0, 0};
            assert_true(sscanf(line, "%llx %llx %llx %llx", &v[0], &v[1], &v[2], &v[3]) >= 2);
            for (int i = 0; i < 4; i++) {
                b.values[i][b.count] = v[i];
            }
            b.count++;
        }
    }
    wrong += check_block(&b);
    fclose(in);
    ptxvmSet("PTXVM_PORTABLE", "0");
    assert_true(blocks > 300);
    assert_int_equal(wrong, 0);
}

/* verifies device-20.1ca2 */
static void test_wide(void **state)
{
    (void)state;
    run_cases("0");
}

/* verifies device-20.1ca2 */
static void test_portable(void **state)
{
    (void)state;
    run_cases("1");
}

/* ---- approximate functions: the manual's bounds, against double precision ---- */

typedef double real_function(double x);

static double reciprocal(double x)
{
    return 1 / x;
}
static double inverse_root(double x)
{
    return 1 / sqrt(x);
}

/* verifies device-20.1ca2 */
static void test_approximate(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        real_function *function;
        float from, to;
        double absolute, relative;
    } all[] = {{"ex2.approx.ftz.f32 %d, %a;", exp2, -100, 100, 0, 0x1p-22},
               {"lg2.approx.f32 %d, %a;", log2, 0.001f, 1000, 0x1p-22, 0x1p-22},
               {"sin.approx.f32 %d, %a;", sin, -3.14159f, 3.14159f, 0x1p-20, 0},
               {"cos.approx.f32 %d, %a;", cos, -3.14159f, 3.14159f, 0x1p-20, 0},
               {"tanh.approx.f32 %d, %a;", tanh, -5, 5, 0, 0x1p-11},
               {"rcp.approx.f32 %d, %a;", reciprocal, 0.01f, 1000, 0, 0x1p-23},
               {"rsqrt.approx.f32 %d, %a;", inverse_root, 0.01f, 1000, 0, 0x1p-22},
               {"sqrt.approx.f32 %d, %a;", sqrt, 0, 1000, 0, 0x1p-23}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        float x[ROWS_MAX];
        float y[ROWS_MAX];
        for (size_t i = 0; i < ROWS_MAX; i++) {
            x[i] = all[k].from + (all[k].to - all[k].from) * (float)i / (ROWS_MAX - 1);
        }
        run_formula formula = {all[k].text, "f32", "f32", NULL, NULL};
        assert_int_equal(run_evaluate(&formula, ROWS_MAX, y, x, NULL, NULL), 0);
        for (size_t i = 0; i < ROWS_MAX; i++) {
            double wanted = all[k].function((double)x[i]);
            double bound = all[k].absolute + all[k].relative * fabs(wanted);
            if (!(fabs((double)y[i] - wanted) <= bound)) {
                fail_msg("%s of %g: %g, wanted %g", all[k].text, (double)x[i], (double)y[i],
                         wanted);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wide), cmocka_unit_test(test_portable),
                                       cmocka_unit_test(test_approximate)};
    run_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
