/* SPDX-License-Identifier: MIT */
/* The compiler: a spec becomes programs over one set of buffers. */
#ifndef BP_CORE_COMPILE_H
#define BP_CORE_COMPILE_H

#include "core/compile/model.h"
#include "core/compile/schedule.h"

#define BP_STEP_ROOM                                                                               \
    256 /* bytes kept for the step block before the first input in the inputs buffer */

/* Working tables of the compiler, carved by bp_compile_init; of use for listings afterwards. */
typedef struct bp_compile {
    uint32_t stages;
    uint32_t *variants; /* [stages] */
    bp_action *actions; /* the schedule of one micro-batch */
    uint32_t action_count;
    uint32_t first;              /* the lowest stage with a parameter that is trained */
    uint32_t micros;             /* micro-batches that a training program holds */
    bp_ref *boundary;            /* [micros][stages + 1]: newest output of stage s - 1 at s */
    bp_ref *d_boundary;          /* [micros][stages + 1]: its gradient */
    bp_ref (*tape)[BP_TAPE_MAX]; /* [micros][stages] */
    bp_slice_call *slices;       /* [micros]: what a sliced table's gradient is formed from */
    uint32_t sliced[2]; /* parameters whose gradients are formed slice by slice once the last [0]
                           and the first stage [1] have gone backward; or UINT32_MAX */
    bool head_deferred; /* one of them is the last stage's */
    uint64_t slice_rows[2];        /* rows of a slice of each */
    uint32_t inputs;               /* buffer: step block and inputs of each micro-batch */
    bp_input input[BP_INPUTS_MAX]; /* as the model declares them */
    uint32_t input_count;
    char label[32];          /* name of the stage being written */
    bp_graph_limits forward; /* rows of the largest forward action */
} bp_compile;

/* Bytes that bp_compile_run carves, and the parameters' rows with them. */
uint64_t bp_compile_bytes(const bp_spec *spec);

/* Bytes of memory in which bp_compile_count works: closed form. */
uint64_t bp_compile_scratch(const bp_spec *spec);

/* Counts the rows of each table that compiling this spec fills, exactly: every program is emitted
 * into a graph that only counts. The memory is free again afterwards. Cost: that of
 * bp_compile_run, less its copies. Errors are those of bp_compile_run; BP_ERR_OVERFLOW when a
 * number does not fit. *forward (NULL: not wanted) becomes the rows of the largest forward of a
 * stage. */
bp_status bp_compile_count(const bp_spec *spec, bp_arena *memory, bp_graph_limits *tables,
                           bp_graph_limits *forward, bp_error *error) BP_MUST_CHECK;

/* Carves its tables and the parameters' rows, makes the emitter, publishes the parameters, declares
 * optimizer state, writes every program. The graph is initialised and empty. */
bp_status bp_compile_run(bp_compile *compile, bp_emit *emit, bp_graph *graph, const bp_spec *spec,
                         bp_arena *memory) BP_MUST_CHECK;

/* Bytes of a micro-batch's step block and inputs; micro-batches that lie there one after the other
 * (all of a group's with gradient release, else 1), and the bytes of them all. */
uint64_t bp_compile_micro_bytes(const bp_spec *spec);
uint32_t bp_compile_micros(const bp_spec *spec);
uint64_t bp_compile_input_bytes(const bp_spec *spec);

/* Prompt tokens per run of prefill. */
uint32_t bp_compile_prefill_rows(const bp_spec *spec);

/* The logits (rows, width) that the eval program keeps: of each sample where the task judges
 * samples, else of each token. 0 rows: it keeps none. */
uint64_t bp_compile_logits_rows(const bp_spec *spec);
uint64_t bp_compile_logits_width(const bp_spec *spec);

#endif
