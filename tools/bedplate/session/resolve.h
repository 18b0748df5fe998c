/* SPDX-License-Identifier: MIT */
/* What options imply once all of them are read. */
#ifndef BP_BEDPLATE_RESOLVE_H
#define BP_BEDPLATE_RESOLVE_H

#include "core/base/error.h"
#include "tools/bedplate/app/settings.h"

/* Defaults that follow from other options: --resume's word, the task's and the update rule's. Of
 * settings that were resolved it changes nothing. BP_ERR_USAGE, printed. */
bp_status resolve_options(settings *set) BP_MUST_CHECK;

/* Then what paths and data say: none is read and written, and the task that the data are for.
 * BP_ERR_USAGE or a status of reading, printed. */
bp_status resolve_data(settings *set) BP_MUST_CHECK;

#endif
