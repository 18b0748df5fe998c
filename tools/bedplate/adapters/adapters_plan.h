/* SPDX-License-Identifier: MIT */
/* The plan of several adapters on one base. */
#ifndef BP_BEDPLATE_ADAPTERS_PLAN_H
#define BP_BEDPLATE_ADAPTERS_PLAN_H

#include "tools/bedplate/adapters/adapters_arena.h"

/* Plans the runs of arena->file and prints their bytes; the exit code. */
int adapters_plan(adapters_arena *arena, const settings *set);

/* Prints the bytes of an arena that was counted: base, each adapter's own, workspace, all. */
void adapters_plan_print(const adapters_arena *arena, const settings *set);

#endif
