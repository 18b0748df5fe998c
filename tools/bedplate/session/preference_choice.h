/* SPDX-License-Identifier: MIT */
/* Losses over pairs of rows, as options ask for them. */
#ifndef BP_BEDPLATE_PREFERENCE_CHOICE_H
#define BP_BEDPLATE_PREFERENCE_CHOICE_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/settings.h"

/* Defaults of TRL's trainers that differ from Hugging Face's: the learning rate. */
void preference_resolve(settings *set);

/* spec->preference of --task and the numbers. BP_ERR_USAGE: kto with less than two rows a batch. */
bp_status preference_fill(const settings *set, bp_spec *spec, bp_error *error) BP_MUST_CHECK;

/* Rows that a sequence of --per-device-train-batch-size stands for: 2 of a pair, else 1. */
uint32_t preference_rows(const bp_spec *spec);

/* Whether the loss compares with a reference model. */
bool preference_refers(const bp_spec *spec);

#endif
