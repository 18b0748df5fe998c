/* SPDX-License-Identifier: MIT */
/* Processor features. The compiler's own detection asks cpuid and, for the registers, xgetbv.
 * syscall is not in POSIX 2008, hence the macro. A processor without a system is one, and says
 * nothing of itself. */
#define _DEFAULT_SOURCE
#include "device/host/cpu.h"

#include <string.h>

#if defined(__unix__)
#include <unistd.h>
#endif

#if defined(__linux__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define CPU_WORD_BITS (8 * sizeof(unsigned long))
#define CPU_WORDS     (1024 / CPU_WORD_BITS) /* of the system's set of processors */

uint32_t bp_cpu_allowed(uint16_t *list, uint32_t most)
{
    unsigned long set[CPU_WORDS];
    uint32_t count = 0;
    memset(set, 0, sizeof set);
    if (syscall(SYS_sched_getaffinity, 0, sizeof set, set) <= 0) {
        return 0;
    }
    for (uint32_t i = 0; i < CPU_WORDS * CPU_WORD_BITS && count < most; i++) {
        if ((set[i / CPU_WORD_BITS] >> i % CPU_WORD_BITS & 1) != 0) {
            list[count++] = (uint16_t)i;
        }
    }
    return count;
}

uint32_t bp_cpu_here(void)
{
    unsigned cpu = 0;
    return syscall(SYS_getcpu, &cpu, NULL, NULL) == 0 ? cpu : 0;
}

int32_t bp_cpu_thread(void)
{
    return (int32_t)syscall(SYS_gettid);
}

void bp_cpu_bind(int32_t thread, const uint16_t *list, uint32_t count)
{
    unsigned long set[CPU_WORDS];
    memset(set, 0, sizeof set);
    for (uint32_t i = 0; i < count; i++) {
        set[list[i] / CPU_WORD_BITS] |= 1ul << list[i] % CPU_WORD_BITS;
    }
    (void)syscall(SYS_sched_setaffinity, thread, sizeof set, set);
}

#else

uint32_t bp_cpu_allowed(uint16_t *list, uint32_t most)
{
    (void)list;
    (void)most;
    return 0;
}

uint32_t bp_cpu_here(void)
{
    return 0;
}

int32_t bp_cpu_thread(void)
{
    return 0;
}

void bp_cpu_bind(int32_t thread, const uint16_t *list, uint32_t count)
{
    (void)thread;
    (void)list;
    (void)count;
}

#endif

#if defined(__x86_64__)
#include <cpuid.h>

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

bool bp_cpu_has_sha(void)
{
    enum { SHA = 1 << 29 }; /* of leaf 7's ebx */
    unsigned a, b, c, d;
    return bp_cpu_has_avx2() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & SHA) != 0;
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

bool bp_cpu_has_sha(void)
{
    return false;
}

void bp_cpu_relax(void)
{
}

#endif

bool bp_cpu_has_neon(void)
{
#if defined(__aarch64__) && defined(__linux__)
    enum { ADVANCED_SIMD = 1 << 1 }; /* of the system's word of capabilities */
    return (getauxval(AT_HWCAP) & ADVANCED_SIMD) != 0;
#else
    return false;
#endif
}

bool bp_cpu_has_sve(void)
{
#if defined(__aarch64__) && defined(__linux__)
    enum { SCALABLE = 1 << 22 }; /* of the same word */
    return (getauxval(AT_HWCAP) & SCALABLE) != 0;
#else
    return false;
#endif
}

bool bp_cpu_has_wide_sve(void)
{
#if defined(__aarch64__) && defined(__linux__)
    enum { VECTOR_LENGTH = 51, BYTES = 0xffff, NEON_BYTES = 16 }; /* PR_SVE_GET_VL */
    const int said = bp_cpu_has_sve() ? prctl(VECTOR_LENGTH) : 0;
    return said > 0 && (said & BYTES) > NEON_BYTES;
#else
    return false;
#endif
}

bool bp_cpu_has_bf16(void)
{
#if defined(__aarch64__) && defined(__linux__)
    enum { BF16 = 1 << 14 }; /* of the second word */
    return bp_cpu_has_neon() && (getauxval(AT_HWCAP2) & BF16) != 0;
#else
    return false;
#endif
}

bool bp_cpu_has_sve_bf16(void)
{
#if defined(__aarch64__) && defined(__linux__)
    enum { SCALABLE_BF16 = 1 << 12 }; /* of the second word */
    return bp_cpu_has_sve() && bp_cpu_has_bf16() && (getauxval(AT_HWCAP2) & SCALABLE_BF16) != 0;
#else
    return false;
#endif
}

uint32_t bp_cpu_count(void)
{
#if defined(__unix__)
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 1 ? (uint32_t)count : 1;
#else
    return 1;
#endif
}
