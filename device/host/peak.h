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
uint64_t bp_peak_loop_portable(uint64_t iterations, float *sink);
uint64_t bp_peak_loop_avx2(uint64_t iterations, float *sink);
uint64_t bp_peak_loop_avx512(uint64_t iterations, float *sink);

/* The same for products of bf16 by AMX tiles. */
uint64_t bp_peak_loop_amx(uint64_t iterations, float *sink);

#endif
