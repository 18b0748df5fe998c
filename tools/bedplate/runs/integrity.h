/* SPDX-License-Identifier: MIT */
/* What a run does beside its steps where the machine is not trusted: a state that only reading must
 * not change, and, with --replay-every, steps with known answers at the start and every
 * --selftest-every, and checkpoints that are read back. */
#ifndef BP_BEDPLATE_INTEGRITY_H
#define BP_BEDPLATE_INTEGRITY_H

#include "tools/bedplate/runs/checkpoint.h"

/* What a selftest has found, in a process of its own, so that the run takes no byte more; or, where
 * none can be had, in this one. */
typedef struct integrity_tested {
    uint32_t runs; /* 0: there was none */
    uint32_t wrong;
    double seconds;
    double when; /* clock_seconds() */
} integrity_tested;

/* Before anything is begun: *code becomes EXIT_MISMATCH where the selftest fails. */
bp_status integrity_start(const settings *set, integrity_tested *tested, int *code) BP_MUST_CHECK;

/* The event of a selftest; nothing where there was none. */
void integrity_note(checkpoint *c, const integrity_tested *tested);

/* After a step, on the rank that leads: the selftest again, when its time has come. BP_ERR_DEVICE,
 * and the run is in doubt, where it fails. *tested: the last one. */
bp_status integrity_step(checkpoint *c, integrity_tested *tested) BP_MUST_CHECK;

/* A sum over the state, and, when it was only read meanwhile, whether it still is that:
 * BP_ERR_DEVICE where not, naming `what` was done. */
bp_status integrity_hold(const checkpoint *c, uint64_t *sum) BP_MUST_CHECK;
bp_status integrity_held(checkpoint *c, uint64_t sum, const char *what) BP_MUST_CHECK;

/* Reads the checkpoint just saved, from the medium as far as the system can be told so: each
 * digest, and that of the state, must be those of what was saved. BP_ERR_STORE where they are not:
 * it is no checkpoint then. Nothing without --replay-every. */
bp_status integrity_read_back(const checkpoint *c) BP_MUST_CHECK;

#endif
