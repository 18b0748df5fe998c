/* SPDX-License-Identifier: MIT */
/* train and plan of several adapters on one base (--adapters). */
#ifndef BP_BEDPLATE_ADAPTERS_RUN_H
#define BP_BEDPLATE_ADAPTERS_RUN_H

#include "tools/bedplate/app/settings.h"

/* Plans the runs, or trains them in rounds: a step of each in turn, until each has had its own. One
 * that fails or ends drops out, and the others go on. Settings have the file; returns the exit
 * code, that of the first run that failed. */
int adapters_run(const settings *set);

#endif
