/* SPDX-License-Identifier: MIT */
/* A fabric over another one that looks at what arrives: with every call the digests of its pieces
 * go as a call of their own, each seeded with the call's number, its kind and its group. What was
 * lost, came twice, came for another call, or with another bit, is refused when it is waited for,
 * and never used.
 *
 * It costs the digests of what is sent and of what arrives (XXH64), and half of the flights. */
#ifndef BP_DEVICE_FABRIC_CHECKED_H
#define BP_DEVICE_FABRIC_CHECKED_H

#include "core/ir/fabric.h"

#define BP_CHECKED_RANKS_MAX       128
#define BP_CHECKED_COLLECTIVES_MAX 8
#define BP_CHECKED_GROUPS_MAX      8

/* Makes a context of bp_fabric_checked over a fabric of host addresses that is open, and stays the
 * caller's to close. BP_ERR_USAGE: it takes a GPU's addresses, or has too many ranks. */
bp_status bp_checked_wrap(void *context, const bp_fabric *inner, void *inner_context,
                          bp_error *error) BP_MUST_CHECK;

/* open is BP_ERR_USAGE (bp_checked_wrap does it), close does nothing. A message that is not what
 * was sent: BP_ERR_FABRIC, with the rank it came from. */
extern const bp_fabric bp_fabric_checked;

#endif
