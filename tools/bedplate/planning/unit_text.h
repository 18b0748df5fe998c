/* SPDX-License-Identifier: MIT */
/* plan --unit: the run that was planned as a service of systemd, a batch script of Slurm, or a Job
 * of Kubernetes, with the plan's numbers in it. */
#ifndef BP_BEDPLATE_UNIT_TEXT_H
#define BP_BEDPLATE_UNIT_TEXT_H

#include "tools/bedplate/session/session.h"

#define UNIT_WORDS "systemd|slurm|kubernetes"

/* Writes it. The plan was made, and fits; each word can stand in a unit. */
void unit_put(bp_text *text, const session *s);

/* Whether the plan fits, and its words can stand there. BP_ERR_USAGE: one of the command has a
 * control character, or is not UTF-8: the line of a unit, a script or a manifest could not hold it.
 */
bp_status unit_check(session *s) BP_MUST_CHECK;

#endif
