/* SPDX-License-Identifier: MIT */
/* What fabrics have in common: groups of ranks, and the words of a refusal. */
#ifndef BP_DEVICE_FABRIC_GROUPS_H
#define BP_DEVICE_FABRIC_GROUPS_H

#include "core/ir/fabric.h"

/* BP_ERR_USAGE for a rank that is none of `size`, groups that are not ascending lists of ranks with
 * this rank among them, and `most` groups (with the group of all) or more. */
bp_status bp_fabric_options_check(const bp_fabric_options *options, uint32_t size, uint32_t most,
                                  bp_error *error) BP_MUST_CHECK;

/* A rank's number among the members; group->count: it is none. */
uint32_t bp_fabric_group_position(const bp_fabric_group *group, uint32_t rank);

/* BP_ERR_USAGE: rank `other` is about to run something else than rank 0. */
bp_status bp_fabric_plans_differ(uint32_t other, uint64_t digest, uint64_t first,
                                 bp_error *error) BP_MUST_CHECK;

/* BP_ERR_USAGE: members of a group have another one under its number. */
bp_status bp_fabric_groups_differ(bp_error *error) BP_MUST_CHECK;

#endif
