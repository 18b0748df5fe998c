/* SPDX-License-Identifier: MIT */
/* Programs that nvcc compiled (tests/ptxvm/nvcc), for several targets and at several levels: each
 * runs to the answer of a plain C form, under four seeds, or is refused by line. The second half:
 * calls, tables, numbers, refusals. */
/* verifies device-20.1ca2 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ptxvm/nvcc.h"

typedef struct pair {
    int a;
    double b;
    short c[3];
} pair;

static pair twist(pair p, int i)
{
    pair r;
    r.a = p.a * 3 + i;
    r.b = p.b * 0.5 + p.c[i % 3];
    for (int j = 0; j < 3; j++) {
        r.c[j] = (short)(p.c[2 - j] + i);
    }
    return r;
}

static void call(void)
{
    int x[N];
    double r[N];
    for (int i = 0; i < N; i++) {
        x[i] = i * 7 - 300;
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"call", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (int i = 0; i < N; i++) {
        pair p = {x[i], (double)x[i], {1, 2, 3}};
        pair q = twist(twist(p, i), i + 1);
        int early = i % 3 == 0 ? -i : (i % 5 == 0 ? i * 100 : i);
        assert_true(r[i] == q.a + q.b + q.c[0] * 10 + q.c[1] * 100 + q.c[2] * 1000 + early);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static int choose(int v, int i, int y)
{
    int r = v ^ i;
    switch (v) {
    case 0:
        return v + i;
    case 1:
        return v * i + 7;
    case 2:
        return i / (v + 1);
    case 3:
        return i % (v + 2);
    case 4:
        for (int j = 0; j < i % 4; j++) {
            r += y + j;
        }
        return r;
    case 5:
        return ~i;
    case 6:
        return i << v;
    case 7:
        return i * i - 3;
    case 8:
        return i * 31;
    default:
        return -1;
    }
}

static void select_case(void)
{
    int x[N];
    int y[N];
    int r[N];
    for (int i = 0; i < N; i++) {
        x[i] = i * 5 % 11;
        y[i] = i - 70;
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(y, sizeof y);
    launch l = {"select", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (int i = 0; i < N; i++) {
        assert_int_equal(r[i], choose(x[i], i, y[i]));
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void local(void)
{
    int x[N];
    int r[N];
    for (int i = 0; i < N; i++) {
        x[i] = i * 37 % 101;
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"local", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (int i = 0; i < N; i++) {
        int stack[24];
        for (int j = 0; j < 24; j++) {
            stack[j] = x[(i + j) % N];
        }
        qsort(stack, 24, sizeof(int), compare_ints);
        assert_int_equal(r[i], stack[x[i] & 15] * 2 + stack[23]);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void tables(void)
{
    static const float weights[5] = {0.5f, -1.0f, 2.0f, 4.0f, 0.25f};
    float x[N];
    float r[N];
    nvcc_fill(x, N, 3);
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"tables", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < N; i++) {
        nvcc_near("tables", (double)r[i],
                  (double)(x[i] * weights[i % 5]) + (double)(i % 3 * 10) + 10.0 + 20.0, 1e-6);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void doubles(void)
{
    double x[N];
    double r[N];
    for (size_t i = 0; i < N; i++) {
        x[i] = (double)i * 0.37 + 0.01;
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"double", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < N; i++) {
        double v = x[i];
        nvcc_near("double", r[i], exp(-v) + sqrt(v) / (1 + v) + log(v + 1) + rint(v * 3) + cbrt(v),
                  1e-14);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void layernorm(void)
{
    enum { WIDTH = 75 };
    float x[2 * WIDTH];
    float g[WIDTH];
    float r[2 * WIDTH];
    nvcc_fill(x, 2 * WIDTH, 5);
    nvcc_fill(g, WIDTH, 1);
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dg = run_upload(g, sizeof g);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"layernorm", {2, 1}, 64, 5, {dy, dx, dg, dg, WIDTH}};
    ptxvmSet("PTXVM_DEVICE", "sm_120");
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < 2 * WIDTH; i++) {
        const float *row = x + i / WIDTH * WIDTH;
        double m = 0;
        double v = 0;
        for (size_t j = 0; j < WIDTH; j++) {
            m += (double)row[j] / WIDTH;
        }
        for (size_t j = 0; j < WIDTH; j++) {
            v += ((double)row[j] - m) * ((double)row[j] - m) / WIDTH;
        }
        double scale = (double)g[i % WIDTH];
        nvcc_near("layernorm", (double)r[i], ((double)x[i] - m) / sqrt(v + 1e-5) * scale + scale,
                  1e-5);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dg);
    cuMemFree_v2(dy);
}

static void vote(void)
{
    int x[32];
    uint32_t r[32];
    uint32_t odd = 0;
    uint32_t sum = 0;
    int top = 0;
    bool any = false;
    for (int i = 0; i < 32; i++) {
        x[i] = i * 13 % 47;
        odd |= (uint32_t)(x[i] & 1) << i;
        sum += (uint32_t)x[i];
        top = (x[i] & 1) != 0 && x[i] > top ? x[i] : top;
        any = any || ((x[i] & 1) == 0 && x[i] > 40);
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"vote", {1, 1}, 32, 3, {dy, dx, 32}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (int i = 0; i < 32; i++) {
        uint32_t same = 0;
        for (int j = 0; j < 32; j++) {
            same |= (uint32_t)(x[i] % 4 == x[j] % 4) << j;
        }
        uint32_t more = (x[i] & 1) != 0 ? (uint32_t)top : (uint32_t)any + 2u;
        assert_int_equal(r[i], (odd ^ same ^ sum) + more);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void philox(void)
{
    uint32_t r[4 * N];
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"philox", {2, 1}, 96, 3, {dy, 77, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t a = i, b = 0, c = 1, d = 2, p = 77, q = ~77u;
        for (int round = 0; round < 10; round++) {
            uint64_t first = 0xD2511F53ull * a;
            uint64_t second = 0xCD9E8D57ull * c;
            a = (uint32_t)(second >> 32) ^ b ^ p;
            b = (uint32_t)second;
            c = (uint32_t)(first >> 32) ^ d ^ q;
            d = (uint32_t)first;
            p += 0x9E3779B9u;
            q += 0xBB67AE85u;
        }
        uint32_t wanted[4] = {a, b, c, d};
        assert_memory_equal(&r[4 * i], wanted, sizeof wanted);
    }
    cuMemFree_v2(dy);
}

static void matmul(void)
{
    enum { ROWS = 19, COLUMNS = 35, DEPTH = 21 };
    float a[ROWS * DEPTH];
    float b[DEPTH * COLUMNS];
    float r[ROWS * COLUMNS];
    nvcc_fill(a, ROWS * DEPTH, 2);
    nvcc_fill(b, DEPTH * COLUMNS, 3);
    uint64_t da = run_upload(a, sizeof a);
    uint64_t db = run_upload(b, sizeof b);
    uint64_t dc = run_upload(NULL, sizeof r);
    launch l = {"matmul", {3, 2}, 256, 6, {dc, da, db, ROWS, COLUMNS, DEPTH}};
    nvcc_start(&l);
    run_download(r, dc, sizeof r);
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        float sum = 0;
        for (size_t k = 0; k < DEPTH; k++) {
            sum += a[i / COLUMNS * DEPTH + k] * b[k * COLUMNS + i % COLUMNS];
        }
        assert_true(r[i] == sum);
    }
    cuMemFree_v2(da);
    cuMemFree_v2(db);
    cuMemFree_v2(dc);
}

static void lastblock(void)
{
    float x[N];
    float r = 0;
    uint32_t zero = 0;
    double sum = 0;
    nvcc_fill(x, N, 2);
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    uint64_t parts = run_upload(NULL, 8 * sizeof(float));
    uint64_t ticket = run_upload(&zero, sizeof zero);
    launch l = {"lastblock", {8, 1}, 64, 5, {dy, parts, ticket, dx, N}};
    nvcc_start(&l);
    run_download(&r, dy, sizeof r);
    for (size_t i = 0; i < N; i++) {
        sum += (double)x[i];
    }
    nvcc_near("lastblock", (double)r, sum, 1e-5);
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
    cuMemFree_v2(parts);
    cuMemFree_v2(ticket);
}

static void adam(void)
{
    enum { COUNT = 4 * 40 };
    float w[COUNT], m[COUNT], v[COUNT], g[COUNT], r[COUNT];
    nvcc_fill(w, COUNT, 1);
    nvcc_fill(m, COUNT, 0.1f);
    nvcc_fill(g, COUNT, 2);
    for (size_t i = 0; i < COUNT; i++) {
        v[i] = fabsf(nvcc_noise(i + 5));
    }
    uint64_t dw = run_upload(w, sizeof w);
    uint64_t dm = run_upload(m, sizeof m);
    uint64_t dv = run_upload(v, sizeof v);
    uint64_t dg = run_upload(g, sizeof g);
    launch l = {"adam", {2, 1}, 32, 6, {dw, dm, dv, dg, nvcc_bits(0.01f), 40}};
    nvcc_start(&l);
    run_download(r, dw, sizeof r);
    for (size_t i = 0; i < COUNT; i++) {
        double q = 0.9 * (double)m[i] + 0.1 * (double)g[i];
        double s = 0.99 * (double)v[i] + 0.01 * (double)g[i] * (double)g[i];
        nvcc_near("adam", (double)r[i], (double)w[i] - 0.01 * q / (sqrt(s) + 1e-8), 1e-6);
    }
    cuMemFree_v2(dw);
    cuMemFree_v2(dm);
    cuMemFree_v2(dv);
    cuMemFree_v2(dg);
}

static void trig(void)
{
    float x[N];
    float r[N];
    nvcc_fill(x, N, 2000000);
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"trig", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < N; i++) {
        nvcc_near("trig", (double)r[i], sin((double)x[i]) + 2 * cos((double)x[i]), 1e-6);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void rounding(void)
{
    float x[N];
    float r[N];
    for (size_t i = 0; i < N; i++) {
        x[i] = (float)i * 0.25f + 0.5f;
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"rounding", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < N; i++) {
        float v = x[i];
        float parts = roundf(v) + 2 * rintf(v) + 4 * floorf(v) + 8 * ceilf(v) + 16 * truncf(v);
        float up = nextafterf(v, INFINITY);
        parts += up - v; /* the sum rounded up less the sum rounded down, of a tiny addend */
        parts += rintf(v) + truncf(v) + truncf(v);
        nvcc_near("rounding", (double)r[i], (double)parts + (double)v * (double)0.1f, 1e-6);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void traps(void)
{
    void *module = nvcc_load("noreturn");
    void *function = NULL;
    uint64_t dy = run_upload(NULL, 64 * sizeof(int));
    int n = 64;
    void *parameters[2] = {&dy, &n};
    char text[1024];
    run_expect(cuModuleGetFunction(&function, module, "k"), 0, "noreturn");
    assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 65, 1, 1, 0, NULL, parameters, NULL), 701);
    assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL), 0);
    assert_int_equal(cuCtxSynchronize(), 0);
    n = 10;
    assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL), 0);
    assert_int_equal(cuCtxSynchronize(), 719);
    assert_true(ptxvmReport(text, sizeof text) > 0);
    assert_non_null(strstr(text, "trap"));
    ptxvmRevive();
    cuMemFree_v2(dy);
    run_expect(cuModuleUnload(module), 0, "noreturn");
}

static void refusals(void)
{
    static const struct {
        const char *name;
        const char *words;
    } all[] = {{"recursion", "calls itself"},
               {"print", "'vprintf' has no definition"},
               {"wmma", "unknown instruction 'wmma."},
               {"clock", "%clock64"},
               {"pointer", "unknown address"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char path[200];
        char log[400] = "";
        int options[2] = {5, 6};
        void *values[2] = {log, (void *)(uintptr_t)sizeof log};
        void *module = NULL;
        snprintf(path, sizeof path, "tests/ptxvm/nvcc/%s.ptx", all[i].name);
        char *text = run_read(path);
        assert_non_null(text);
        assert_int_equal(cuModuleLoadDataEx(&module, text, 2, options, values), 218);
        if (strstr(log, "line ") == NULL || strstr(log, all[i].words) == NULL) {
            fail_msg("%s: '%s'", all[i].name, log);
        }
        ptxvmRevive();
        free(text);
    }
}

int main(void)
{
    static const nvcc_test all[] = {
        {"call", call},         {"select", select_case},  {"local", local},      {"tables", tables},
        {"double", doubles},    {"layernorm", layernorm}, {"vote", vote},        {"philox", philox},
        {"matmul", matmul},     {"lastblock", lastblock}, {"adam", adam},        {"trig", trig},
        {"rounding", rounding}, {"traps", traps},         {"refusals", refusals}};
    return nvcc_run("nvcc more", all, sizeof all / sizeof all[0]);
}
