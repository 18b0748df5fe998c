/* SPDX-License-Identifier: MIT */
/* What the processor at hand can do. */
#ifndef BP_DEVICE_HOST_CPU_H
#define BP_DEVICE_HOST_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* AVX2 with FMA, and AVX-512 F, BW, DQ and VL, each with the operating system's support for its
 * registers. False on other architectures. */
bool bp_cpu_has_avx2(void);
bool bp_cpu_has_avx512(void);

/* AMX tiles with products of bf16, and AVX-512. Asks the system for the tiles' registers. */
bool bp_cpu_has_amx(void);

/* Processors online, at least 1. */
uint32_t bp_cpu_count(void);

/* Tells the processor that this is a waiting loop. */
void bp_cpu_relax(void);

#endif
