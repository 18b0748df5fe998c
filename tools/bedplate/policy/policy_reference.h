/* SPDX-License-Identifier: MIT */
/* The reference of a policy whose whole weights are trained: the model as it began, or --ref-model.
 * Like a reward model it is a session of its own in the bytes that the policy's programs leave free
 * (bp_spec.between_bytes), and its weights are read from their file each time. */
#ifndef BP_BEDPLATE_POLICY_REFERENCE_H
#define BP_BEDPLATE_POLICY_REFERENCE_H

#include "tools/bedplate/session/session.h"

/* Must not move once open. */
typedef struct policy_reference {
    session *owner; /* the policy's; NULL: there is none */
    settings set;   /* its own */
    session s;
    uint64_t stamp; /* of its files */
} policy_reference;

/* Opens and plans it, of the policy's shapes; the policy's spec gets its bytes. BP_ERR_DATA: there
 * are no weights; BP_ERR_USAGE: it has other tokens than the policy. */
bp_status policy_reference_open(policy_reference *r, session *owner) BP_MUST_CHECK;

/* One number for its files, which may not be replaced from here on. */
bp_status policy_reference_identify(policy_reference *r, uint64_t *digest) BP_MUST_CHECK;

/* Bytes of host memory that it takes; 0: there is none. */
uint64_t policy_reference_bytes(const policy_reference *r);

/* Between two runs of the policy's programs: its runtime is open, with its weights, until `end`,
 * which follows in any case. BP_ERR_STORE: its files were replaced. */
bp_status policy_reference_begin(policy_reference *r) BP_MUST_CHECK;
void policy_reference_end(policy_reference *r);

/* Safe on a record that is all zero. */
void policy_reference_close(policy_reference *r);

#endif
