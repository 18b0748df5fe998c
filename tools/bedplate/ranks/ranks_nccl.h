/* SPDX-License-Identifier: MIT */
/* NCCL between the GPUs of ranks: whether it is used, and what it is over. */
#ifndef BP_BEDPLATE_RANKS_NCCL_H
#define BP_BEDPLATE_RANKS_NCCL_H

#include "core/plan/spec.h"
#include "core/ir/address.h"
#include "device/fabric/nccl.h"
#include "tools/bedplate/app/settings.h"

/* A plain record that must not move while the runtime is open. */
typedef struct ranks_gpus {
    bp_nccl_library library;
    void *context; /* of bp_fabric_nccl; NULL: NCCL is not used */
} ranks_gpus;

/* Sets the fabric of `places` for the spec's device: the ranks' own, or NCCL over it for GPUs,
 * where
 * --fabric asks for it, or is auto under a launcher and all ranks have the same NCCL. Called by
 * every rank; all come to the same end. BP_ERR_USAGE: NCCL without a GPU, or with --fabric-check;
 * BP_ERR_DEVICE: --fabric nccl and a rank has none, too old a one, or another. */
bp_status ranks_gpus_join(ranks_gpus *gpus, const settings *set, const bp_spec *spec,
                          bp_regions *places, bp_error *error) BP_MUST_CHECK;

/* After the runtime has closed. */
void ranks_gpus_end(ranks_gpus *gpus);

#endif
