/* SPDX-License-Identifier: MIT */
/* GPUs of several ranks joined by NCCL, over a fabric of the host's that joins the ranks
 * themselves.
 *
 * The host's fabric carries NCCL's unique id, what lies in host memory, and the news that a rank is
 * lost. NCCL moves pieces between GPUs, as work of a stream, and adds nothing. Its communicator
 * blocks nowhere: every call is asked whether it has ended until a time limit, so that it can be
 * aborted when a rank does not come. */
#ifndef BP_DEVICE_FABRIC_NCCL_H
#define BP_DEVICE_FABRIC_NCCL_H

#include "core/ir/fabric.h"
#include "device/fabric/nccl_library.h"

#define BP_NCCL_GROUPS_MAX 8 /* of one rank, the group of all included */

/* Makes a context of bp_fabric_nccl over a fabric of host addresses that is open, and stays the
 * caller's to close, with the same options. The library stays until close. alike: every call has
 * the same places in the arena on all ranks, so that copy engines can do it (what NCCL calls a
 * symmetric window); shares of unequal size lie elsewhere on each. */
void bp_nccl_wrap(void *context, const bp_nccl_library *library, const bp_fabric *inner,
                  void *inner_context, const bp_fabric_options *options, bool alike);

/* open is BP_ERR_USAGE (bp_nccl_wrap does it), close does nothing, and what is no work of a stream
 * is the fabric's below. A rank that is lost: BP_ERR_FABRIC; what NCCL or the GPU finds wrong:
 * BP_ERR_DEVICE, with NCCL's own words. */
extern const bp_fabric bp_fabric_nccl;

#endif
