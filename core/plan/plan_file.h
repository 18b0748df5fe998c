/* SPDX-License-Identifier: MIT */
/* A plan as bytes, and what two plans have alike. */
#ifndef BP_CORE_PLAN_FILE_H
#define BP_CORE_PLAN_FILE_H

#include "arena/text.h"
#include "core/plan/planned.h"

/* A written plan. Its words are 64 bits, the lowest byte first. */
typedef struct bp_plan_file {
    const unsigned char *bytes;
    uint64_t length;
} bp_plan_file;

/* Whether the file is a whole plan of this version. */
bp_status bp_plan_file_check(const bp_plan_file *file, bp_error *error) BP_MUST_CHECK;

/* Whether a plan that was counted has the choices that the file's had. */
bp_status bp_plan_file_choices(const bp_plan_file *file, const bp_spec *spec,
                               bp_error *error) BP_MUST_CHECK;

/* Whether its programs, with lifetimes, are those of the file's. */
bp_status bp_plan_file_programs(const bp_plan_file *file, const bp_graph *graph,
                                bp_error *error) BP_MUST_CHECK;

/* Puts the file's places into a graph of its programs, and its bytes into the report. They may be
 * anything: they are verified next. */
void bp_plan_file_place(const bp_plan_file *file, bp_graph *graph, bp_report *report);

/* The choices of a spec by which plans differ, for reading. */
#define BP_PLAN_CHOICES 31

typedef struct bp_plan_choice {
    const char *name;
    uint64_t value;
} bp_plan_choice;

void bp_plan_choices(const bp_spec *spec, bp_plan_choice choices[BP_PLAN_CHOICES]);

/* Every program op by op: number, kernel, engine unless it computes, operands (buffer, place with
 * its space unless that is the device's, bytes), scalars. */
void bp_plan_put_programs(bp_text *out, const bp_graph *graph);

#endif
