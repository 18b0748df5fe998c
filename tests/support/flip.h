/* SPDX-License-Identifier: MIT */
/* A device with a defect: one bit of what one op writes is turned over. */
#ifndef BP_TESTS_SUPPORT_FLIP_H
#define BP_TESTS_SUPPORT_FLIP_H

#include "core/run/runtime.h"

/* Which op, counted over all that are run, and what is done there. */
typedef struct flip {
    const bp_runtime *runtime;
    const bp_device *device; /* that is defective */
    uint64_t ran;            /* ops so far */
    uint64_t at;             /* the op whose output is changed; UINT64_MAX: none */
    uint64_t every;          /* and every so many ops after it; 0: only once */
    uint64_t seed;           /* chooses operand, byte and bit */
    /* Of FLIP_PROCESSORS processors number `sick` - 1 spoils op `sick_op` of every program in which
     * it takes part, otherwise in every way of cutting the work; 0: all are well. */
    uint32_t sick;
    uint32_t sick_op;
    bool sick_form;   /* the kernels of the form that was opened spoil it, always in the same way */
    uint32_t threads; /* workers that take part */
    bp_device_move move;
    uint32_t flipped;
    bp_kernel kernel; /* of the op that was hit last */
} flip;

#define FLIP_PROCESSORS 8

/* The one defect there is, and the device that has it. */
extern flip flip_now;
bp_device flip_device_of(const bp_device *device);
bp_device flip_device(void); /* the host's */

#endif
