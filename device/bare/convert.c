/* SPDX-License-Identifier: MIT */
/* 64-bit integers to floating point by the hardware for doubles, under the names that the compiler
 * calls (Arm, "Run-time ABI for the Arm Architecture"): the compiler's own library does it with the
 * whole of its software arithmetic, 1.4 KB. One rounding each, to nearest even. */
#include <stdint.h>

#if defined(__ARM_FP) && (__ARM_FP & 8) != 0
#define BASE_CALL                                                                                  \
    __attribute__((pcs("aapcs"))) /* these functions have floats in integer registers */

double __aeabi_ul2d(uint64_t x) BASE_CALL;
double __aeabi_l2d(int64_t x) BASE_CALL;
float __aeabi_ul2f(uint64_t x) BASE_CALL;
float __aeabi_l2f(int64_t x) BASE_CALL;

/* Both halves are exact; their sum is rounded once. */
double __aeabi_ul2d(uint64_t x)
{
    return (double)(uint32_t)(x >> 32) * 4294967296.0 + (double)(uint32_t)x;
}

double __aeabi_l2d(int64_t x)
{
    return (double)(int32_t)(x >> 32) * 4294967296.0 + (double)(uint32_t)x;
}

/* Of more than 53 bits the lowest 11 leave a mark, so that the double is exact and rounds alike. */
static uint64_t short_of(uint64_t x)
{
    return x >> 53 != 0 && (x & 0x7ff) != 0 ? (x & ~UINT64_C(0x7ff)) | 0x800 : x;
}

float __aeabi_ul2f(uint64_t x)
{
    return (float)__aeabi_ul2d(short_of(x));
}

float __aeabi_l2f(int64_t x)
{
    const uint64_t size = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    const float y = __aeabi_ul2f(size);
    return x < 0 ? -y : y;
}
#endif
