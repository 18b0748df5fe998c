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

/* NEON, which every aarch64 processor with a system for applications has. False elsewhere. */
bool bp_cpu_has_neon(void);

/* SVE, whose registers are as wide as the processor likes; and whether they are wider than NEON's,
 * without which its products are the slower ones. */
bool bp_cpu_has_sve(void);
bool bp_cpu_has_wide_sve(void);

/* NEON's products of bf16 that are added to floats, BFMLALB and BFMLALT. */
bool bp_cpu_has_bf16(void);

/* And SVE's. */
bool bp_cpu_has_sve_bf16(void);

/* AMX tiles with products of bf16, and AVX-512. Asks the system for the tiles' registers. */
bool bp_cpu_has_amx(void);

/* SHA-256's instructions, and AVX2. */
bool bp_cpu_has_sha(void);

/* Processors online, at least 1. */
uint32_t bp_cpu_count(void);

/* Processor numbers that the calling thread may run on, rising: the first `most` of them go to
 * `list`. Returns how many these are; 0 where the system does not say. */
uint32_t bp_cpu_allowed(uint16_t *list, uint32_t most);

/* The processor that the calling thread runs on now; 0 where the system does not say. */
uint32_t bp_cpu_here(void);

/* The system's number of the calling thread, for bp_cpu_bind; 0: it has none. */
int32_t bp_cpu_thread(void);

/* From now on a thread (0: the calling one) runs on these processors alone. What the system refuses
 * changes nothing. */
void bp_cpu_bind(int32_t thread, const uint16_t *list, uint32_t count);

/* Tells the processor that this is a waiting loop. */
void bp_cpu_relax(void);

#endif
