/* SPDX-License-Identifier: MIT */
/* The script of the page of runs, and the policy that lets this script run and no other. */
#ifndef BP_BEDPLATE_RUN_SCRIPT_H
#define BP_BEDPLATE_RUN_SCRIPT_H

#include "arena/text.h"

/* Lines without their newlines; NULL ends them. */
extern const char *const run_script[];

/* The element <meta> of a policy: nothing is loaded, and only this script runs, by its SHA-256. */
void run_script_policy(bp_text *text);

/* The element <script>. */
void run_script_put(bp_text *text);

#endif
