/* SPDX-License-Identifier: MIT */
/* Processor features. The compiler's own detection asks cpuid and, for the registers, xgetbv. */
#include "device/host/cpu.h"

#include <unistd.h>

#if defined(__x86_64__)

bool bp_cpu_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

bool bp_cpu_has_avx512(void)
{
    return bp_cpu_has_avx2() && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0;
}

void bp_cpu_relax(void)
{
    __builtin_ia32_pause();
}

#else

bool bp_cpu_has_avx2(void)
{
    return false;
}

bool bp_cpu_has_avx512(void)
{
    return false;
}

void bp_cpu_relax(void)
{
}

#endif

uint32_t bp_cpu_count(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 1 ? (uint32_t)count : 1;
}
