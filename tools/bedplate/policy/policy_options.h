/* SPDX-License-Identifier: MIT */
/* Options of reinforcement fine-tuning as numbers of its loss. */
#ifndef BP_BEDPLATE_POLICY_OPTIONS_H
#define BP_BEDPLATE_POLICY_OPTIONS_H

#include "core/base/error.h"
#include "tools/bedplate/app/settings.h"
#include "tools/bedplate/policy/policy_loss.h"

/* BP_ERR_USAGE: a loss type of another task, bounds that are the wrong way round. */
bp_status policy_numbers_read(const settings *set, policy_numbers *numbers, policy_scale *scale,
                              bp_error *error) BP_MUST_CHECK;

#endif
