/* SPDX-License-Identifier: MIT */
/* plan --emit-c DIR: the plan as C, a trainer that needs no planning (device/host/trainer.h). */
#ifndef BP_BEDPLATE_EMIT_C_H
#define BP_BEDPLATE_EMIT_C_H

#include "tools/bedplate/session/session.h"

/* Makes DIR, if it is not there, and writes tables, an interface, an example and a makefile into
 * it, over older ones. The plan was made for the portable form on one thread. BP_ERR_USAGE: it is
 * one that a trainer cannot do (ranks, a second memory space, length buckets (programs for shorter
 * texts), quantised weights, weights of classes); BP_ERR_FIT: 4 GiB or more; BP_ERR_STORE: it could
 * not be written.
 */
bp_status emit_c_write(session *s) BP_MUST_CHECK;

/* What no option beside it can mend, before anything is planned: BP_ERR_USAGE. */
bp_status emit_c_check(session *s) BP_MUST_CHECK;

#endif
