/* SPDX-License-Identifier: MIT */
/* How a process ends while MPI is still at work in it. */
#ifndef BP_DEVICE_FABRIC_LEAVE_H
#define BP_DEVICE_FABRIC_LEAVE_H

/* Writes what a build that counts its lines (make coverage) has counted so far, and counts on from
 * zero; nothing in another build. Before what may end the process: MPI's abort, a launcher. */
void bp_leave_counters(void);

/* Ends the process with a code, at once: what exit would call, MPI's handlers among it, may wait
 * for ever. Streams are not flushed. */
void bp_leave(int code);

#endif
