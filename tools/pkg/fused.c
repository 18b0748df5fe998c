/* SPDX-License-Identifier: MIT */
/* Linked into the static program of x86-64 alone. Its compiler may not assume the instruction for a
 * fused multiply-add; glibc asks the processor at run time, musl always computes it of many others.
 * These take the names of musl's. */
#include <math.h>
#include <stdbool.h>

#include "core/base/fused.h"
#include "device/host/cpu.h"

static bool has_fused;

/* Before any thread: asking takes longer than the sum. */
__attribute__((constructor)) static void fused_ask(void)
{
    __builtin_cpu_init();
    has_fused = bp_cpu_has_avx2();
}

__attribute__((target("fma"))) static double fused_double(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

__attribute__((target("fma"))) static float fused_float(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

double fma(double a, double b, double c)
{
    return has_fused ? fused_double(a, b, c) : bp_fma(a, b, c);
}

float fmaf(float a, float b, float c)
{
    return has_fused ? fused_float(a, b, c) : bp_fmaf(a, b, c);
}
