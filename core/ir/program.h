/* SPDX-License-Identifier: MIT */
/* Programs: flat lists of ops over symbolic buffers, and the one set of buffers they share.
 *
 * A bp_graph is everything a training run will ever execute: the buffers with their scopes and
 * classes, and for each program (micro-batches, update, eval, decode) its ops. Tables live in
 * memory that the caller gave; a table that is full is BP_ERR_FIT. Nothing here executes or
 * allocates. */
#ifndef BP_CORE_PROGRAM_H
#define BP_CORE_PROGRAM_H

#include "arena/arena.h"
#include "core/ir/device.h"
#include "core/base/error.h"
#include "core/ops/kernel.h"

/* What a buffer holds: the rows of every memory report. */
typedef enum bp_class {
    BP_CLASS_WEIGHTS,
    BP_CLASS_MASTER,
    BP_CLASS_OPTIMIZER,
    BP_CLASS_GRADIENTS,
    BP_CLASS_CHECKPOINT,
    BP_CLASS_TAPE,
    BP_CLASS_WORKSPACE,
    BP_CLASS_IO,
    BP_CLASS_COUNT
} bp_class;

/* How long a buffer lives. */
typedef enum bp_scope {
    BP_SCOPE_CONSTANT,   /* always, written by no program but INITIALIZE: a base of adapters */
    BP_SCOPE_PERSISTENT, /* always; the state */
    BP_SCOPE_RESIDENT,   /* always, but not state: step block, tokens, results; a table whose
                            trained rows programs put in (core/plan/rows.h) */
    BP_SCOPE_GROUP,      /* from its first write in a group to its last use in the update */
    BP_SCOPE_CARRIED,    /* all of one program, contents kept from run to run of it (a KV cache) */
    BP_SCOPE_PROGRAM,    /* from first to last use in one program */
    BP_SCOPE_BETWEEN     /* while no program runs: the caller's; on the time axis at its first tick,
                            before any program that a run begins with */
} bp_scope;

/* The programs. INITIALIZE fills random weights. A group is STEP alone (one micro-batch), or
 * MICRO_FIRST, MICRO_NEXT any number of times, UPDATE; where the loss compares samples of several
 * micro-batches, VECTORS_FIRST, VECTORS_NEXT as often and CONTRAST come before. PREFILL and DECODE
 * share their carried buffers. */
typedef enum bp_program_kind {
    BP_PROGRAM_INITIALIZE,
    BP_PROGRAM_STEP,
    BP_PROGRAM_MICRO_FIRST,
    BP_PROGRAM_MICRO_NEXT,
    BP_PROGRAM_UPDATE,
    BP_PROGRAM_EVAL,
    BP_PROGRAM_PREFILL,
    BP_PROGRAM_DECODE,
    BP_PROGRAM_VECTORS_FIRST,
    BP_PROGRAM_VECTORS_NEXT,
    BP_PROGRAM_CONTRAST,
    BP_PROGRAM_COUNT
} bp_program_kind;

#define BP_RANK_MAX        4
#define BP_BUFFER_NAME_MAX 160 /* bytes, the end included */

/* What a rank has of a tensor that is shared out (core/plan/passes/shards.h): bytes from `first`
 * on; the buffer's shape is that of the tensor. */
typedef struct bp_buffer_part {
    uint64_t whole; /* bytes of the tensor; 0: all of it is here */
    uint64_t first;
    uint64_t unit;   /* bytes of a unit of the map */
    uint32_t tensor; /* its number in the map */
} bp_buffer_part;

typedef struct bp_buffer {
    uint32_t name; /* offset into the graph's names */
    bp_class class_of;
    bp_scope scope;
    bp_dtype dtype;
    uint32_t rank;
    bp_space space; /* where it lives; zero is the device arena */
    uint64_t shape[BP_RANK_MAX];
    uint64_t bytes;
    bp_buffer_part part; /* `bytes` are then the caller's word */
    bool filled;         /* the host writes it before every run */
    uint16_t taken;      /* bit per bp_program_kind: the host reads all of it after that program */
    uint32_t program; /* bp_program_kind of the program that made it; program and carried scopes */
    uint32_t lower;   /* lifetime [lower, upper) on the common time axis; from bp_graph_lifetimes */
    uint32_t upper;
    uint64_t offset; /* from the start of its space's arena; from the plan */
} bp_buffer;

typedef struct bp_op {
    bp_kernel kernel;
    uint32_t tuples;  /* 1, or the length of a list op */
    uint32_t operand; /* index of the first ref: tuples x operand_count of them */
    uint32_t scalar;  /* index of the first scalar: tuples x scalar_count of them */
    uint32_t stage;   /* for reading the listing */
    uint32_t action;  /* index into the schedule's actions, of an op that draws the parameter's
                         number; UINT32_MAX outside one */
    uint32_t brings;  /* begins to bring bytes for this buffer, from other ranks or from below; or
                         BP_NO_BUFFER */
} bp_op;

typedef union bp_scalar {
    int64_t integer;
    double real;
} bp_scalar;

/* Part of a buffer that the host fills: the step block, or integers that it has looked at. The same
 * part is there in each of the buffer's pieces, bp_graph.field_pitch bytes apart. */
typedef struct bp_field {
    uint32_t programs;    /* bit per bp_program_kind: those that may read it */
    bp_operand_type type; /* BP_TYPE_STEP or BP_TYPE_I32 */
    uint32_t buffer;
    uint64_t offset; /* in the first piece */
    uint64_t bytes;
    uint64_t below; /* every integer is; 0: they may be anything */
    bool negative;  /* and may be negative */
} bp_field;

#define BP_PIECE_SCALARS 2 /* that a bp_fabric_piece takes */

#define BP_FIELDS_MAX 24

/* Rows of each table. */
typedef struct bp_graph_limits {
    uint32_t buffers; /* row 0, which is no buffer, counts */
    uint32_t ops;
    uint32_t refs;
    uint32_t scalars;
    uint32_t name_bytes;
} bp_graph_limits;

/* A graph whose tables are absent (bp_graph_count) takes the same calls and only counts rows. */
typedef struct bp_graph {
    bp_buffer *buffers;
    bp_op *ops;
    bp_ref *refs;
    bp_scalar *scalars;
    char *names;
    bp_graph_limits limit;
    bp_graph_limits used;
    uint32_t program_first[BP_PROGRAM_COUNT]; /* index of each program's first op */
    uint32_t program_count[BP_PROGRAM_COUNT]; /* and how many; 0: the program is not there */
    uint32_t program;                         /* the one being written */
    uint32_t requests;                        /* ops in it that begin asynchronous work */
    bp_op newest;                             /* as it stands; its places left out */
    bp_field fields[BP_FIELDS_MAX];           /* of what the host fills in */
    uint32_t field_count;
    uint64_t field_pitch; /* bytes from one piece of a filled buffer to the next */
    uint32_t tables;      /* constant buffer of the list ops' tables; BP_NO_BUFFER: none */
    bool fixed;         /* the host arena is read in place by what computes, and written by none */
    uint32_t alignment; /* of the arenas' buffers; 0: BP_ARENA_ALIGNMENT */
    bp_error *error;    /* where the first error goes; not owned */
} bp_graph;

/* Bytes of the tables for these limits; BP_SIZE_INVALID on overflow. */
uint64_t bp_graph_bytes(const bp_graph_limits *limit);

/* Allocates the tables and makes row 0 of the buffers: BP_NO_BUFFER, of no bytes and never live.
 * BP_ERR_FIT when the arena is too small or limit->buffers is 0. */
bp_status bp_graph_init(bp_graph *graph, const bp_graph_limits *limit, bp_arena *memory,
                        bp_error *error) BP_MUST_CHECK;

/* Makes a graph that counts, without tables: what is written goes nowhere, and graph->used says how
 * many rows there were. Its buffers and ops cannot be read. Where a number would pass 32 bits, or
 * there are more than 2^24 ops, the call is BP_ERR_OVERFLOW. */
void bp_graph_count(bp_graph *graph, bp_error *error);

static inline bool bp_graph_counts(const bp_graph *graph)
{
    return graph->buffers == NULL;
}

/* Starts writing a program; programs must be written in the order of bp_program_kind. */
void bp_graph_begin(bp_graph *graph, bp_program_kind program);

/* Adds a buffer of product(shape) elements and returns its index, 1 or more. `name` is copied; it
 * is unique for constant and persistent buffers. */
bp_status bp_graph_buffer(bp_graph *graph, const bp_buffer *prototype, const char *name,
                          uint32_t *index) BP_MUST_CHECK;

/* The same, called "<first>.<second>"; cut where it would be longer than BP_BUFFER_NAME_MAX, as
 * names only serve readers and the state's order. */
bp_status bp_graph_buffer_of(bp_graph *graph, const bp_buffer *prototype, const char *first,
                             const char *second, uint32_t *index) BP_MUST_CHECK;

/* Makes a buffer this rank's part of its tensor, of so many bytes; its shape stays. */
void bp_graph_part(bp_graph *graph, uint32_t buffer, const bp_buffer_part *part, uint64_t bytes);

/* Says what a part of a filled buffer holds. BP_ERR_INTERNAL when there are BP_FIELDS_MAX. */
bp_status bp_graph_field(bp_graph *graph, const bp_field *field) BP_MUST_CHECK;

/* Says that the host reads all of a buffer after the programs of these bits. */
void bp_graph_take(bp_graph *graph, uint32_t buffer, uint32_t programs);

/* Appends an op of `tuples` tuples: refs and scalars are copied as they are. */
bp_status bp_graph_op(bp_graph *graph, const bp_op *prototype, const bp_ref *refs,
                      const void *scalars) BP_MUST_CHECK;

/* Appends a piece to the row of them that lies among the scalars, for ops whose scalars come later;
 * the first one's number is graph->used.scalars before. */
bp_status bp_graph_piece(bp_graph *graph, uint64_t first, uint64_t bytes) BP_MUST_CHECK;

/* Adds a tuple to the newest op, whose row of kernels.def is a LIST or, for more than one tuple of
 * it, made so by bp_graph_op. */
bp_status bp_graph_tuple(bp_graph *graph, const bp_ref *refs, const void *scalars) BP_MUST_CHECK;

/* Derives every buffer's lifetime from the ops. The time axis is the ops of all programs in order,
 * so that one arena plan serves them all: group buffers span what lies between a group's programs.
 */
void bp_graph_lifetimes(bp_graph *graph);

/* Number of ticks on the time axis: one per op, at least one. */
uint32_t bp_graph_ticks(const bp_graph *graph);

/* The request of the next op that begins asynchronous work in the program being written. */
uint32_t bp_graph_request(const bp_graph *graph);

/* What the arenas' buffers are aligned to. */
static inline uint32_t bp_graph_alignment(const bp_graph *graph)
{
    return graph->alignment == 0 ? BP_ARENA_ALIGNMENT : graph->alignment;
}

/* Where a planned buffer starts. */
static inline uint64_t bp_buffer_address(const bp_buffer *buffer)
{
    return bp_address(buffer->space, buffer->offset);
}

/* A buffer's name; "-" for BP_NO_BUFFER. */
const char *bp_graph_name(const bp_graph *graph, uint32_t buffer);

/* One number for a planned graph: its buffers with their places, its programs, ops, operands and
 * scalars; where it has parts of tensors, the state's tensors and the fabric's calls alone. Ranks
 * that execute together must have the same. */
uint64_t bp_graph_digest(const bp_graph *graph);

/* One number for a graph with lifetimes, without the places of its buffers: what a layout is of. */
uint64_t bp_graph_programs_digest(const bp_graph *graph);

const char *bp_class_name(bp_class class_of);
const char *bp_scope_name(bp_scope scope);
const char *bp_program_name(bp_program_kind program);

#endif
