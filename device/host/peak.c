/* SPDX-License-Identifier: MIT */
/* The multiply-add bound of plain C on any CPU, and which form has which. */
#include "device/host/peak.h"

#include "device/host/isa_table.h"
#include "device/host/isa.h"

#define CHAINS 16

/* Separate multiplies and adds: without a fused instruction fmaf is a library call, which measures
 * nothing. Sixteen chains keep the adders busy while each waits for its own last result. */
uint64_t bp_peak_loop_portable(uint64_t iterations, float *sink)
{
    float chain[CHAINS];
    float sum = 0.0f;
    for (int i = 0; i < CHAINS; i++) {
        chain[i] = (float)i;
    }
    for (uint64_t round = 0; round < iterations; round++) {
        for (int i = 0; i < CHAINS; i++) {
            chain[i] = chain[i] * 0.5f + 1.0f;
        }
    }
    for (int i = 0; i < CHAINS; i++) {
        sum += chain[i];
    }
    *sink = sum;
    return iterations * CHAINS * 2;
}

bp_peak_loop *bp_peak_of(uint32_t form)
{
    static bp_peak_loop *const loops[BP_HOST_ISAS_ALL] = {
        bp_peak_loop_portable,     BP_ARM(bp_peak_loop_neon),   BP_ARM(bp_peak_loop_neon),
        BP_X86(bp_peak_loop_avx2), BP_X86(bp_peak_loop_avx512), BP_X86(bp_peak_loop_amx)};
    return loops[form];
}
