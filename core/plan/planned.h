/* SPDX-License-Identifier: MIT */
/* A plan from inside. */
#ifndef BP_CORE_PLANNED_H
#define BP_CORE_PLANNED_H

#include "arena/arena.h"
#include "core/ir/report.h"
#include "core/plan/buckets.h"
#include "core/plan/compile.h"
#include "core/plan/passes/resident.h"
#include "core/plan/plan.h"

struct bp_plan {
    bp_spec spec;
    bp_error error; /* the first error of any call */
    bp_report report;
    bp_resident resident; /* of what is fetched from the offload tier */
    bp_arena memory;      /* the caller's plan memory */
    bp_graph_limits rows; /* of the graph's tables, counted */
    uint64_t host_bytes;  /* of the plan memory that is needed */
    bp_graph graph;
    bp_builder builder;        /* parameters, and where inputs and results lie */
    bp_compile compile;        /* the schedule of one micro-batch, and the declared inputs */
    bp_length_bucket *buckets; /* length buckets, rising */
    uint32_t bucket_count;
    const char *left_out; /* why there are fewer of them than asked for; NULL: there are all */
    size_t used;          /* of memory; a runtime works in what lies behind */
    const void *taken;    /* the runtime that does */
    bool counted;         /* and nothing else yet: a plan may follow */
    bool made;
    bool open; /* in a runtime */
};

/* Bytes of plan memory that a plan and its runtime allocate where the graph's tables have so many
 * rows. */
uint64_t bp_plan_bytes(const bp_spec *spec, const bp_graph_limits *rows);

struct bp_plan_file;

/* As bp_plan_make_counted; where there is a file (core/plan/plan_file.h) with its places. */
bp_status bp_plan_make_placed(bp_plan *plan, const struct bp_plan_file *file, void *memory,
                              uint64_t bytes) BP_MUST_CHECK;

/* Of a plan that was counted: its programs and its report as bp_plan_make_counted makes them, but
 * not verified, without length buckets, and so without host_bytes. For choosing among many plans,
 * of which the chosen one is then made: the plan is of no other use before. Cost: about half of
 * making it, much less beyond the wish's limit. */
bp_status bp_plan_measure(bp_plan *plan, bp_report_wish wish, void *memory,
                          uint64_t bytes) BP_MUST_CHECK;

/* Of a plan that was measured: lays it out with another wish, in the memory that it has. */
bp_status bp_plan_measure_again(bp_plan *plan, bp_report_wish wish) BP_MUST_CHECK;

/* Of a plan that was counted: its programs alone, with what stays in the arena of what is fetched
 * from the offload tier (plan->resident), neither verified nor laid out. For choosing what lives
 * there: the plan is of no other use before it is made. */
bp_status bp_plan_write_counted(bp_plan *plan, void *memory, uint64_t bytes) BP_MUST_CHECK;

#endif
