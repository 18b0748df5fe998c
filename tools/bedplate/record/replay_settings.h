/* SPDX-License-Identifier: MIT */
/* The command line that a recorded run stands for. */
#ifndef BP_BEDPLATE_REPLAY_SETTINGS_H
#define BP_BEDPLATE_REPLAY_SETTINGS_H

#include "core/base/error.h"
#include "tools/bedplate/app/settings.h"

/* What a run was asked to do, as settings of `train`: its options from the first line of the
 * record, `run`, where model and data lie from the last start in DIRECTORY/events.jsonl, and both,
 * as well as device, threads, kernels, policy and arena, from `asked` where they were given there.
 * There is no output directory: nothing is written. `record` names the file for messages.
 * BP_ERR_DATA, naming file and SHA-256, for what cannot be found. Texts live as long as the
 * program. */
bp_status replay_settings_fill(settings *to, const settings *asked, const char *directory,
                               const char *run, bp_error *error) BP_MUST_CHECK;

#endif
