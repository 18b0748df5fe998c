/* SPDX-License-Identifier: MIT */
/* The forms of the host kernels, slowest first, and the choice among them. */
#ifndef BP_DEVICE_HOST_ISA_TABLE_H
#define BP_DEVICE_HOST_ISA_TABLE_H

#include "device/host/kernel.h"

#define BP_HOST_ISAS     5 /* which give equal bits */
#define BP_HOST_ISAS_ALL 6 /* and one with bits of its own (matmul_amx.h), taken only by name */

/* Name of form number index < BP_HOST_ISAS_ALL; 0 is "portable". */
const char *bp_host_isa_name(uint32_t index);

/* The slowest form that joins products (join.h): the first of this machine's that is fast. */
#if defined(__x86_64__)
#define BP_HOST_ISA_FUSES 3
#else
#define BP_HOST_ISA_FUSES 1
#endif

/* Whether this build has the form and this processor can run it. */
bool bp_host_isa_runs(uint32_t index);

/* The form of that name, or the fastest of equal bits that runs when name is NULL: SVE only where
 * its registers are wider than NEON's. BP_ERR_USAGE
 * when there is no such name, BP_ERR_DEVICE when there is but it does not run here. */
bp_status bp_host_isa_find(const char *name, uint32_t *index) BP_MUST_CHECK;

/* The same among the forms for which runs[index] is true, so that any processor can be imagined. */
bp_status bp_host_isa_choose(const char *name, const bool runs[BP_HOST_ISAS_ALL],
                             uint32_t *index) BP_MUST_CHECK;

/* What buffers are aligned to at least for the form of that name: 32 bytes where no load takes
 * more, else a line of the cache. NULL, or no such name: what all forms take. */
uint32_t bp_host_isa_alignment(const char *name);

/* Fills kernels: each from this form, or from the next slower one that has it; NULL where none has.
 * The form must run here. */
void bp_host_isa_kernels(uint32_t index,
                         const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT]);

/* One of them. */
const bp_host_kernel *bp_host_isa_kernel(uint32_t index, uint32_t element, uint32_t kernel);

/* The form that computes the bits of form `index` again: for turn 0 that one, for 1 another fast
 * one, for 2 the slowest that is neither; `index` itself where there is none. A plan for the
 * portable form has room for that one only, so there it is the same for all. */
uint32_t bp_host_isa_other(uint32_t index, uint32_t turn);

/* The same for codes of NF4. */
bp_host_codes *bp_host_isa_codes(uint32_t index);

/* And for normal variates. */
bp_host_normals *bp_host_isa_normals(uint32_t index);

/* And for sums over words; NULL: bp_word_sum. */
bp_host_words *bp_host_isa_words(uint32_t index);

#endif
