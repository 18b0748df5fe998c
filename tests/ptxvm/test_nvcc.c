/* SPDX-License-Identifier: MIT */
/* Programs that nvcc compiled (tests/ptxvm/nvcc), for several targets and at several levels: each
 * runs to the answer of a plain C form, under four seeds. The first half: vectors and tiles. */
/* verifies device-20.1ca2 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ptxvm/nvcc.h"

static void saxpy(void)
{
    float x[N];
    float y[N];
    float r[N];
    nvcc_fill(x, N, 4);
    nvcc_fill(y, N, 2);
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(y, sizeof y);
    launch l = {"saxpy", {2, 1}, 32, 4, {dy, dx, nvcc_bits(3.0f), N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < N; i++) {
        assert_true(r[i] == fmaf(3.0f, x[i], y[i]));
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void reduce(void)
{
    float x[1000];
    float r[3];
    double sum = 0;
    nvcc_fill(x, 1000, 2);
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"reduce", {3, 1}, 128, 3, {dy, dx, 1000}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < 1000; i++) {
        sum += (double)x[i];
    }
    nvcc_near("reduce", (double)r[0] + (double)r[1] + (double)r[2], sum, 1e-5);
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void transpose(void)
{
    float x[20 * 37];
    float r[20 * 37];
    nvcc_fill(x, 20 * 37, 1);
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"transpose", {3, 2}, 256, 4, {dy, dx, 20, 37}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < 20 * 37; i++) {
        assert_true(r[i] == x[(i % 20) * 37 + i / 20]);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void softmax(void)
{
    float x[2 * 50];
    float r[2 * 50];
    nvcc_fill(x, 100, 20);
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"softmax", {2, 1}, 32, 3, {dy, dx, 50}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t row = 0; row < 2; row++) {
        double sum = 0;
        for (size_t i = 0; i < 50; i++) {
            sum += exp((double)x[row * 50 + i]);
        }
        for (size_t i = 0; i < 50; i++) {
            nvcc_near("softmax", (double)r[row * 50 + i], exp((double)x[row * 50 + i]) / sum, 1e-6);
        }
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void gelu(void)
{
    float x[N];
    float r[N];
    nvcc_fill(x, N, 6);
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"gelu", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < N; i++) {
        double v = (double)x[i];
        double t = 0.5 * v * (1 + tanh(0.7978845608 * (v + 0.044715 * v * v * v)));
        nvcc_near("gelu", (double)r[i], t + erf(v) + log(1 + v * v) + pow(2, v), 1e-3);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void histogram(void)
{
    unsigned char x[1000];
    unsigned counts[256] = {0};
    unsigned r[256] = {0};
    for (size_t i = 0; i < sizeof x; i++) {
        x[i] = (unsigned char)((i * i) % 251);
        counts[x[i]]++;
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(r, sizeof r);
    launch l = {"histogram", {3, 1}, 256, 3, {dy, dx, 1000}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    assert_memory_equal(r, counts, sizeof r);
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void scan(void)
{
    int x[N];
    int r[N];
    for (int i = 0; i < N; i++) {
        x[i] = i * i % 17 - 8;
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"scan", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (int i = 0, sum = 0; i < N; i++) {
        sum = i % 32 == 0 ? x[i] : sum + x[i];
        assert_int_equal(r[i], sum);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static float to_bf16(float value)
{
    uint32_t word = (uint32_t)nvcc_bits(value);
    word = (word + 0x7fffu + (word >> 16 & 1)) & 0xffff0000u;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void bf16(void)
{
    float x[2 * N];
    uint16_t r[2 * N];
    nvcc_fill(x, 2 * N, 8);
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"bf16", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < 2 * N; i++) {
        float v = to_bf16(x[i]);
        float s = to_bf16(v * v);
        float wanted = to_bf16(fmaf(s, v, fabsf(v)));
        assert_int_equal(r[i], nvcc_bits(wanted) >> 16);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void half(void)
{
    /* Inputs are quarters, so every intermediate is a half exactly. */
    float x[2 * N];
    uint16_t r[2 * N];
    for (int i = 0; i < 2 * N; i++) {
        x[i] = (float)(i % 41 - 20) * 0.25f;
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"half", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < 2 * N; i++) {
        double v = (double)x[i];
        double wanted = v * v + (v > 2 ? 1.0 : 0.0) + (v - 2);
        int exponent = (r[i] >> 10 & 31) - 25;
        double found = (r[i] & 0x7c00) == 0 ? ldexp(r[i] & 0x3ff, -24)
                                            : ldexp((r[i] & 0x3ff) + 1024, exponent);
        assert_true(((r[i] & 0x8000) != 0 ? -found : found) == wanted);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void mma(void)
{
    uint16_t a[256];
    uint16_t b[128];
    float r[128];
    for (size_t i = 0; i < 256; i++) {
        a[i] = (uint16_t)(nvcc_bits((float)(int)(i % 13) - 6.0f) >> 16);
    }
    for (size_t i = 0; i < 128; i++) {
        b[i] = (uint16_t)(nvcc_bits((float)(int)(i % 11) * 0.5f) >> 16);
    }
    uint64_t da = run_upload(a, sizeof a);
    uint64_t db = run_upload(b, sizeof b);
    uint64_t dc = run_upload(NULL, sizeof r);
    launch l = {"mma", {1, 1}, 32, 3, {dc, da, db}};
    nvcc_start(&l);
    run_download(r, dc, sizeof r);
    for (size_t i = 0; i < 128; i++) {
        float sum = 0;
        for (size_t k = 0; k < 16; k++) {
            size_t at = (i / 8) * 16 + k;
            size_t bt = k * 8 + i % 8;
            sum += ((float)(int)(at % 13) - 6.0f) * ((float)(int)(bt % 11) * 0.5f);
        }
        assert_true(r[i] == sum);
    }
    cuMemFree_v2(da);
    cuMemFree_v2(db);
    cuMemFree_v2(dc);
}

static uint64_t high(uint64_t a, uint64_t b)
{
    uint64_t low = (a & 0xffffffffu) * (b & 0xffffffffu);
    uint64_t m = (a >> 32) * (b & 0xffffffffu) + (low >> 32);
    uint64_t o = (a & 0xffffffffu) * (b >> 32) + (m & 0xffffffffu);
    return (a >> 32) * (b >> 32) + (m >> 32) + (o >> 32);
}

static void wide(void)
{
    uint64_t x[N];
    uint64_t r[N];
    for (size_t i = 0; i < N; i++) {
        x[i] = (i + 1) * 0x9e3779b97f4a7c15ull >> (i % 60);
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"wide", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < N; i++) {
        uint64_t a = x[i];
        uint64_t b = x[(i + 1) % N] | 1;
        uint64_t reversed = 0;
        for (int k = 0; k < 64; k++) {
            reversed |= (a >> k & 1) << (63 - k);
        }
        uint64_t wanted = high(a, b) ^ (a / b) ^ (a % b) ^ (uint64_t)((int64_t)a / 7) ^
                          (uint64_t)__builtin_popcountll(a) ^ ((uint64_t)__builtin_clzll(b) << 32) ^
                          reversed;
        assert_true(r[i] == wanted);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static void math(void)
{
    enum { COLUMNS = 24 };
    static float x[N];
    static float r[N * COLUMNS];
    for (size_t i = 0; i < N; i++) {
        x[i] = nvcc_noise(i) * 1.9f;
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"math", {2, 1}, 96, 3, {dy, dx, N}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (size_t i = 0; i < N; i++) {
        double v = (double)x[i];
        double wanted[COLUMNS] = {asin(v),
                                  acos(v),
                                  atan(v),
                                  atan2(v, 0.25),
                                  sinh(v),
                                  cosh(v),
                                  tan(v),
                                  log2(v + 2),
                                  log1p(v),
                                  expm1(v),
                                  pow(v + 1.5, (double)1.7f),
                                  cbrt(v),
                                  hypot(v, 2),
                                  erfc(v),
                                  tgamma(v + 3),
                                  (double)fmodf(x[i], 0.3f),
                                  v * 8,
                                  (double)nextafterf(x[i], 2.0f),
                                  1 / sqrt(v + 1),
                                  fdim(v, (double)0.2f),
                                  -fabs(v),
                                  pow(10, v),
                                  tanh(v),
                                  erf(v)};
        for (size_t k = 0; k < COLUMNS; k++) {
            nvcc_near("math", (double)r[i * COLUMNS + k], wanted[k], 1e-6);
        }
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

static uint32_t packed(uint32_t a, uint32_t b, bool largest)
{
    uint32_t result = 0;
    for (unsigned i = 0; i < 32; i += 16) {
        int16_t x = (int16_t)(a >> i);
        int16_t y = (int16_t)(b >> i);
        int z = largest ? (x > y ? x : y) : x + y;
        result |= ((uint32_t)z & 0xffffu) << i;
    }
    return result;
}

static void lanes(void)
{
    uint32_t x[64];
    uint32_t r[64];
    for (uint32_t i = 0; i < 64; i++) {
        x[i] = i * 0x01234567u + 9;
    }
    uint64_t dx = run_upload(x, sizeof x);
    uint64_t dy = run_upload(NULL, sizeof r);
    launch l = {"lanes", {1, 1}, 64, 2, {dy, dx}};
    nvcc_start(&l);
    run_download(r, dy, sizeof r);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t v = x[i];
        uint32_t sum = 0;
        for (uint32_t j = i / 16 * 16; j < i / 16 * 16 + 16; j++) {
            sum += x[j];
        }
        uint32_t bytes = (v >> 16 & 0xffu) | (v & 0xffu) << 8 | 0x04020000u;
        uint32_t wanted =
            sum * 1000 + (packed(v, 0x00030005u, false) ^ packed(v, 0x00100010u, true)) +
            (uint32_t)(v == 0 ? 0 : __builtin_ctz(v) + 1) + bytes + (0x80000001u << 3 | v >> 29);
        assert_int_equal(r[i], wanted);
    }
    cuMemFree_v2(dx);
    cuMemFree_v2(dy);
}

int main(void)
{
    static const nvcc_test all[] = {
        {"saxpy", saxpy},     {"reduce", reduce}, {"transpose", transpose},
        {"softmax", softmax}, {"gelu", gelu},     {"histogram", histogram},
        {"scan", scan},       {"bf16", bf16},     {"half", half},
        {"mma", mma},         {"wide", wide},     {"math", math},
        {"lanes", lanes}};
    return nvcc_run("nvcc", all, sizeof all / sizeof all[0]);
}
