/* SPDX-License-Identifier: MIT */
/* The verbs: each takes the settings and returns the program's exit code. */
#ifndef BP_BEDPLATE_VERBS_H
#define BP_BEDPLATE_VERBS_H

#include "tools/bedplate/settings.h"

int cmd_plan(const settings *set);
int cmd_train(const settings *set);
int cmd_eval(const settings *set);
int cmd_generate(const settings *set);
int cmd_tokenize(const settings *set);
int cmd_verify(const settings *set);
int cmd_bench(const settings *set);
int cmd_devices(const settings *set);
int cmd_arena(const settings *set);
int cmd_export(const settings *set);
int cmd_import(const settings *set);

#endif
