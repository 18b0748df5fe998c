/* SPDX-License-Identifier: MIT */
/* Variables of the environment, each read in one place; launchers' are device/fabric/launcher.h's.
 */
#ifndef BP_BEDPLATE_ENVIRONMENT_H
#define BP_BEDPLATE_ENVIRONMENT_H

#include "core/base/error.h"

#define ENVIRONMENT_GRACE "BEDPLATE_GRACE" /* seconds that a stop may take */

/* A number that is not below 0. False: the variable is not set, is empty, or is no such number. */
bool environment_number(const char *name, double *number);

/* The folder for files that nobody keeps: TMPDIR, or /tmp where that is not set or empty. */
const char *environment_temporary(void);

/* Whether each number that a training asks for is one: BP_ERR_USAGE. */
bp_status environment_check(bp_error *error) BP_MUST_CHECK;

#endif
