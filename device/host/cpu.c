/* SPDX-License-Identifier: MIT */
/* Processor features. The compiler's own detection asks cpuid and, for the registers, xgetbv.
 * syscall is not in POSIX 2008, hence the macro. */
#define _DEFAULT_SOURCE
#include "device/host/cpu.h"

#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>

/* Conversions of 16-bit floats, which not every compiler's detection knows by name. Their registers
 * are those of AVX. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool bp_cpu_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && has_f16c();
}

bool bp_cpu_has_avx512(void)
{
    return bp_cpu_has_avx2() && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0;
}

/* The registers of tiles are large: Linux gives them to a process that asks (5.16 and later). */
static bool tiles_given(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST_REGISTERS = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_REGISTERS, TILE_DATA) == 0;
#else
    return false;
#endif
}

bool bp_cpu_has_amx(void)
{
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 }; /* of leaf 7's edx */
    unsigned a, b, c, d;
    return bp_cpu_has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
           (d & AMX_BF16) != 0 && (d & AMX_TILE) != 0 && tiles_given();
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

bool bp_cpu_has_amx(void)
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
