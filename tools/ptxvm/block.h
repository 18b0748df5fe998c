/* SPDX-License-Identifier: MIT */
/* Running one cluster of a launch on the calling host thread. */
#ifndef PTXVM_BLOCK_H
#define PTXVM_BLOCK_H

#include "tools/ptxvm/machine.h"

/* False: the launch failed, and the report is made. The cluster's storage grows as needed. */
bool vm_cluster_run(vm_cluster *cluster, vm_launch *launch, uint64_t index);
/* Whether a lane may touch another block's shared memory: the block has begun, as a barrier of the
 * cluster says, and has not ended. */
bool vm_cluster_reaches(vm_warp *warp, const vm_insn *in, unsigned lane, uint32_t rank);

#endif
