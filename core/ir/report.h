/* SPDX-License-Identifier: MIT */
/* From lifetimes to places: the arena plan of a graph, and the account of where the bytes go. */
#ifndef BP_CORE_REPORT_H
#define BP_CORE_REPORT_H

#include "arena/layout.h"
#include "core/ir/program.h"

/* The plan of one memory space. Bytes unless said otherwise; sizes of buffers count rounded up to
 * the alignment, so that the classes add up to the bound exactly. */
typedef struct bp_report_space {
    uint64_t arena_bytes;
    uint64_t lower_bound_bytes;          /* the largest sum of live bytes */
    uint64_t resident_bytes;             /* buffers that live always, those of others included */
    uint64_t base_bytes;                 /* of these the frozen base, where it is shared */
    uint64_t class_most[BP_CLASS_COUNT]; /* most bytes of the class live at once */
    uint64_t class_peak[BP_CLASS_COUNT]; /* live where the sum of all is largest */
    uint64_t activations_most;           /* most bytes of checkpoint, tape and workspace together */
    uint32_t peak_op;                    /* index into the graph's ops */
    bool optimal;                        /* arena_bytes == lower_bound_bytes */
} bp_report_space;

/* What a plan says, before any arena memory exists: the device arena's plan as a bp_report_space
 * says it, what is of the whole graph, and the plans of the host arena and of storage. */
typedef struct bp_report {
    uint64_t arena_bytes;                /* the device arena */
    uint64_t lower_bound_bytes;          /* the largest sum of live bytes */
    uint64_t host_bytes;                 /* host memory used: tables, staging */
    uint64_t parameters;                 /* elements of all weights */
    uint64_t resident_bytes;             /* buffers that live always, those of others included */
    uint64_t base_bytes;                 /* of these the frozen base, where it is shared */
    uint64_t state_bytes;                /* persistent buffers, unpadded: what a checkpoint holds */
    uint64_t class_most[BP_CLASS_COUNT]; /* most bytes of the class live at once */
    uint64_t class_peak[BP_CLASS_COUNT]; /* live where the sum of all is largest */
    uint64_t activations_most;           /* most bytes of checkpoint, tape and workspace together */
    uint32_t peak_op;                    /* index into the graph's ops */
    bool optimal;                        /* arena_bytes == lower_bound_bytes */
    bp_report_space host;                /* the host arena; no bytes when nothing lives there */
    bp_report_space offload;             /* storage, likewise */
} bp_report;

/* Bytes of scratch that bp_report_plan needs for this many buffers and steps of exact search. */
uint64_t bp_report_scratch(uint32_t buffers, uint64_t nodes);

/* Gives every buffer its offset in the arena of its space (buffers that live always lie at the
 * bottom, in table order; the rest is planned above them) and fills the report, host_bytes
 * excepted. */
bp_status bp_report_plan(bp_graph *graph, uint64_t nodes, void *scratch, uint64_t bytes,
                         bp_report *report) BP_MUST_CHECK;

/* What is asked of a plan that is not to run. All zero: the least layout. */
typedef struct bp_report_wish {
    uint64_t limit;  /* where more bytes live at one time, no layout is searched for; 0: no limit */
    uint64_t enough; /* a layout of no more bytes ends the search; 0: none does */
    bool shares; /* the device arena as bp_spec.shares_base has it, with these bytes of others */
    uint64_t below;
    uint64_t above;
} bp_report_wish;

/* As bp_report_plan, with a wish about the device arena. Beyond its limit arena_bytes is
 * lower_bound_bytes, optimal is false, and buffers of that space have no offsets. */
bp_status bp_report_measure(bp_graph *graph, uint64_t nodes, bp_report_wish wish, void *scratch,
                            uint64_t bytes, bp_report *report) BP_MUST_CHECK;

/* A buffer's bytes as the plan of its graph counts them. */
uint64_t bp_report_rounded(const bp_graph *graph, const bp_buffer *buffer);

#endif
