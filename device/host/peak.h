/* SPDX-License-Identifier: MIT */
/* Register-only multiply-add loops: what the arithmetic units of one core can do at most, the bound
 * that `bench` reports speeds against. One loop per form of the host kernels. */
#ifndef BP_DEVICE_HOST_PEAK_H
#define BP_DEVICE_HOST_PEAK_H

#include <stdint.h>

/* Runs `iterations` rounds of independent fused multiply-adds on fp32 registers, touching no
 * memory, and returns how many floating-point operations (two per multiply-add) that was. The
 * caller times it, one call per thread. `sink` receives a value that depends on every operation, so
 * that no compiler drops them. Only call the loop of a form that this CPU has. */
typedef uint64_t bp_peak_loop(uint64_t iterations, float *sink);
bp_peak_loop bp_peak_loop_portable;
bp_peak_loop bp_peak_loop_neon;
bp_peak_loop bp_peak_loop_avx2;
bp_peak_loop bp_peak_loop_avx512;

/* The same for products of bf16 by AMX tiles. */
bp_peak_loop bp_peak_loop_amx;

/* The loop of form number `form` (isa_table.h), which runs here. */
bp_peak_loop *bp_peak_of(uint32_t form);

#endif
