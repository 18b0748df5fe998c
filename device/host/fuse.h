/* SPDX-License-Identifier: MIT */
/* Two ops run as one: a product and the low-rank product that is added to what it wrote, as an
 * adapter's is. The second then adds to each tile while it lies in the nearest cache, and nobody
 * reads c again. Where the low-rank product's left factor is u = x A^T, with a factor, of the x
 * that the product reads, u is made as well of what the product packs of x, and nobody reads x
 * again. Each element's chain of operations is the same as apart, so the bits are. */
#ifndef BP_DEVICE_HOST_FUSE_H
#define BP_DEVICE_HOST_FUSE_H

#include "core/ir/device.h"

#define BP_JOIN_RANK_MOST 64 /* terms of the product that is added */
#define BP_FUSE_REACH     16 /* ops between the two, at most */
#define BP_FUSE_ROWS      48 /* of a task, where u is made along */

/* Bytes of an op's workspace operand for all its workers, as the device states it. */
typedef uint64_t bp_fuse_workspace(const void *context, const bp_linked_op *op);

/* Two ops that are done where the second one stands. */
typedef struct bp_fusion {
    uint32_t before;     /* how many ops before it the product stands; 0: they are not joined */
    uint64_t work;       /* place of the workspace that the product then has, */
    uint64_t work_bytes; /* and its bytes for all workers */
    uint32_t low_rank; /* how many of the ops behind the product, 1 or 2, make u and are done along
                          with it; 0: none. Tasks are rows then, so that each worker makes its own
                          of u. */
} bp_fusion;

/* Looks for the product that op number `at` adds to. The ops between must neither touch what the
 * product writes nor change what it reads, by the bytes where all of these lie; of its workspace it
 * keeps the larger end that they leave alone, if that is enough for `threads` workers. */
bp_fusion bp_host_fuse(const bp_linked_program *program, uint32_t at, uint32_t threads,
                       bp_fuse_workspace *workspace, const void *context);

#endif
