/* SPDX-License-Identifier: MIT */
/* The compiler: a spec becomes programs over one set of buffers. */
#ifndef BP_CORE_COMPILE_H
#define BP_CORE_COMPILE_H

#include "core/plan/model.h"
#include "core/plan/schedule.h"

/* Bytes kept for the step block before the first input in the inputs buffer. */
uint64_t bp_compile_step_room(const bp_spec *spec);

/* Gradients that become ready together. They are exchanged in buckets of equal size. */
typedef struct bp_window {
    uint32_t stage; /* whose gradients they are; with `table` only a slice of one */
    uint32_t table; /* UINT32_MAX: all that are ready after the stage */
    uint64_t first; /* elements of the table */
    uint64_t count;
    uint64_t elements; /* padded to equal pieces for all ranks; of this rank's piece where ranks
                          have no other sums than those that they own */
    uint64_t all;      /* of all pieces */
    uint32_t low;      /* parameter numbers: of the first that is ready, and behind the last */
    uint32_t high;
    uint32_t buckets;
    uint32_t sent; /* of the buckets */
    uint32_t done;
    bp_ref sums; /* over this rank's virtual ranks; absent: its one virtual rank's leaves, added
                    bucket by bucket */
    bp_ref root; /* of `elements` */
    bool any;    /* something is ready */
    uint32_t purpose; /* what for, and how: the caller's, as the rest */
    bool later;
    bool last;
} bp_window;

/* One bucket on its way. */
typedef struct bp_bucket {
    bool pending;
    uint32_t window; /* counted from the program's first */
    uint32_t number; /* in its window */
    uint64_t first;  /* of the window's elements */
    uint64_t piece;  /* elements of this rank's piece, and of all pieces */
    uint64_t all;
    uint32_t phase; /* 0: nothing under way, 1: pieces are exchanged, 2: sums are gathered */
    int64_t request;
    bp_ref from; /* of what is under way */
    bp_ref to;
} bp_bucket;

#define BP_WINDOWS_MOST 4 /* begun and not yet used */

/* Working tables of the compiler, allocated by bp_compile_init; of use for listings afterwards. */
typedef struct bp_left {
    bool ready;      /* it goes there once the stage behind it has been forward */
    bool there;      /* it does live there */
    bp_ref slot;     /* of the boundary's type and offset */
    int64_t request; /* of what is on its way there */
} bp_left;

typedef struct bp_compile {
    uint32_t stages;
    uint32_t *variants; /* [stages] */
    bp_action *actions; /* the schedule of one micro-batch */
    uint32_t action_count;
    uint32_t first;              /* the lowest stage with a parameter that is trained */
    uint32_t micros;             /* micro-batches that a training program holds */
    bp_ref *boundary;            /* [micros][stages + 1]: newest output of stage s - 1 at s */
    bp_left *left;               /* [micros][stages + 1]: where the boundary is offloaded */
    bp_ref *d_boundary;          /* [micros][stages + 1]: its gradient */
    bp_ref (*tape)[BP_TAPE_MAX]; /* [micros][stages] */
    bp_slice_call *slices;       /* [micros]: what a sliced table's gradient is formed from */
    uint32_t sliced[2]; /* parameters whose gradients are formed slice by slice once the last [0]
                           and the first stage [1] have gone backward; or UINT32_MAX */
    bool head_deferred; /* one of them is the last stage's */
    uint64_t slice_rows[2];        /* rows of a slice of each */
    uint32_t inputs;               /* buffer: step block and inputs of each micro-batch */
    uint32_t balances;             /* buffer: bp_model.balance of each micro-batch, where there */
    uint64_t balance;              /* are so many numbers; 0: none */
    bp_input input[BP_INPUTS_MAX]; /* as the model declares them */
    uint32_t input_count;
    uint32_t virtual_ranks; /* of this rank, and micro-batches of each; 0: the group has one virtual
                               rank */
    uint32_t virtual_rank_micros;
    uint32_t token_lanes; /* of this rank's tokens: as many leaves has each virtual rank of it */
    bp_ref *lane_sums;    /* [stages + 1][levels]: finished subtrees of what is ready there */
    uint32_t *
        virtual_rank_gradients; /* [virtual ranks][parameters]: buffers that are not complete yet */
    bp_ref virtual_rank_results;    /* a result block for each virtual rank, */
    bp_ref result_whole;            /* and that of all while the ops of one are written */
    uint32_t virtual_ranks_counted; /* virtual ranks whose losses have begun to be added up */
    bool losses_joined;
    bp_window windows[BP_WINDOWS_MOST]; /* of gradients that are exchanged, by their number */
    uint32_t windows_opened;
    uint32_t windows_used;
    bp_bucket pending[2];    /* the newest first */
    uint32_t points;         /* acquisitions of parameters since the newest window was opened, */
    uint32_t pace;           /* and from the one before to it */
    char label[32];          /* name of the stage being written */
    bp_graph_limits forward; /* rows of the largest forward action */
} bp_compile;

/* Bytes that bp_compile_run allocates, and the parameters' rows with them. */
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

/* Allocates its tables and the parameters' rows, makes the emitter, publishes the parameters,
 * declares optimizer state, writes every program. The graph is initialised and empty. */
bp_status bp_compile_run(bp_compile *compile, bp_builder *builder, bp_graph *graph,
                         const bp_spec *spec, bp_arena *memory) BP_MUST_CHECK;

/* Bytes of a micro-batch's step block and inputs; micro-batches that lie there one after the other
 * (all of a group's with gradient release, else 1). */
uint64_t bp_compile_micro_bytes(const bp_spec *spec);
uint32_t bp_compile_micros(const bp_spec *spec);

/* How often a step runs a program. */
uint32_t bp_compile_runs(const bp_spec *spec, bp_program_kind program);

/* Prompt tokens per run of prefill. */
uint32_t bp_compile_prefill_rows(const bp_spec *spec);

/* The logits (rows, width) that the eval program keeps: of each sample where the task judges
 * samples, else of each token; with a loss over pairs the log-probability of each row, in F32. 0
 * rows: it keeps none. */
uint64_t bp_compile_logits_rows(const bp_spec *spec);
uint64_t bp_compile_logits_width(const bp_spec *spec);

/* Their element type: the working type, but for vectors of samples, which are F32. */
bp_dtype bp_compile_logits_type(const bp_spec *spec);

#endif
