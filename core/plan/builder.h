/* SPDX-License-Identifier: MIT */
/* Writing programs: what layers, models and optimizers call.
 *
 * A bp_builder writes ops into a program. Its first failure sticks (bp_builder.status), and every
 * later call then does nothing and returns absent refs, so layers read as the mathematics does; the
 * compiler looks at the status once per action. */
#ifndef BP_CORE_BUILDER_H
#define BP_CORE_BUILDER_H

#include "core/plan/input.h"
#include "core/plan/parts.h"
#include "core/plan/passes/passes.h"
#include "core/plan/passes/shards.h"
#include "core/ops/master.h"
#include "core/ops/quantised.h"
#include "core/ir/program.h"

#define BP_PARAMETER_STATES_MAX 4 /* most state tensors an optimizer keeps per parameter */

#define BP_NO_PARAMETER UINT32_MAX

typedef enum bp_init_kind {
    BP_INIT_ZEROS,
    BP_INIT_ONES,
    BP_INIT_VALUE, /* `deviation` everywhere */
    BP_INIT_NORMAL,
    BP_INIT_NORMS, /* of an adapter's magnitude: the norms of its weight (bp_adapter_norms) */
    BP_INIT_ROWS   /* of trained rows: the table's (bp_rows_values) */
} bp_init_kind;

/* What a weight is to the outputs of a model. No rule of whole matrices (Muon) takes a head's. */
typedef enum bp_head_kind {
    BP_HEAD_NONE,   /* a hidden layer, a norm, an embedding */
    BP_HEAD_OUTPUT, /* of a head that the base model has: frozen beside adapters, as all of it */
    BP_HEAD_TASK    /* of a head that is new with its task: trained beside adapters */
} bp_head_kind;

/* One weight tensor as a model publishes it. */
typedef struct bp_parameter_info {
    const char *name; /* the Hugging Face name; copied */
    uint32_t rank;    /* 1 to 4 */
    uint64_t shape[BP_RANK_MAX];
    bp_init_kind init;
    double deviation;  /* BP_INIT_NORMAL */
    bool decay;        /* weight decay applies (not for norms and biases) */
    bool embedding;    /* looked up by row: its optimizer state stays in 32 bits */
    bool input_major;  /* a matrix stored as (in, out): an output's weights are a column */
    uint64_t together; /* outputs that belong together: a head's of queries or keys; 0: 1 */
    bool statistic;    /* no optimizer moves it, backward does: state, and never trained */
    bool still;        /* of a statistic: nothing moves it, it is only read */
    bool constant;     /* its first values are bp_model.constant's, and it is never trained */
    bool depthwise;    /* a convolution's weight, of each channel by itself */
    bool unpacks;      /* a table whose rows alone are looked up: it may stay in a file's blocks */
    bool routes;       /* of experts, or their router: never quantised or in fp8; of rank 1, what
                          corrects a router's choice: never trained, float32 */
    bp_head_kind head; /* 0: of none */
    bool adapts;       /* an adapter of parameter `base` */
    uint32_t base;
} bp_parameter_info;

/* The same inside a plan, with its buffers. */
typedef struct bp_parameter {
    bp_init_kind init;
    double deviation;
    bool decay;
    bool embedding;
    bool input_major;        /* of bp_parameter_info */
    uint64_t together;       /* likewise, at least 1 */
    bool offloaded;          /* it lives in storage */
    bool fixed;              /* it lies in read-only memory, and is read there */
    bool aside;              /* its master and its optimizer state do */
    bool gradient_offloaded; /* what is added up of its gradient does */
    bool given;              /* its values came from outside: none are drawn for it */
    bool ready;              /* its gradient is complete: norms and apply take it now */
    bool trainable;          /* a frozen one has no gradient, no master, no state */
    bool statistic;          /* of bp_parameter_info */
    bool constant;           /* likewise */
    bool depthwise;          /* likewise */
    bool unpacks;            /* likewise */
    bool routes;             /* likewise */
    bp_head_kind head;       /* likewise */
    bp_master master_form;   /* how `master` completes the weight */
    double rate_scale;       /* of its own learning rate to the run's */
    double weight_decay;     /* its own, already 0 where it does not apply */
    uint32_t optim_bits;     /* asked for by name; 0: the optimizer's own choice */
    uint64_t row_first;      /* the first row that is trained, */
    uint64_t row_count;      /* and how many of the first dimension; 0: all of it */
    uint64_t ready_first; /* first element that is ready, and how many: all of them, or a slice */
    uint64_t ready_count;
    uint32_t name;               /* its place in the emitter's names; see bp_build_name */
    uint64_t count;              /* elements */
    bp_share share;              /* of master and state this rank has these; else all */
    uint32_t rank;               /* 1: a vector */
    uint64_t shape[BP_RANK_MAX]; /* as the model publishes it; 0 behind the rank */
    bp_quantised quantised;      /* then `weight` holds codes, of the matrix as (out, in) */
    uint32_t scales;             /* of a quantised one: buffer "<parameter>.absmax" */
    uint32_t nested;             /* buffer "<parameter>.nested_absmax"; BP_NO_BUFFER: none */
    uint32_t adapter; /* parameter number of its adapter's A, B and the magnitude follow; or none */
    uint32_t base;    /* of an adapter: the parameter it adapts; else none */
    uint32_t rows;    /* of the token embedding: the parameter that is its trained rows; or none */
    uint32_t weight;  /* buffer; its name is the parameter's */
    uint32_t master;  /* buffer "<parameter>.master"; BP_NO_BUFFER where it has none */
    uint32_t gradient;       /* buffer; BP_NO_BUFFER until backward needs it */
    bool gradient_written;   /* in the program being emitted, or before it */
    uint32_t gradient_stage; /* that has written it last */
    uint32_t sum;            /* buffer of gradients added up in 8 bits; BP_NO_BUFFER: none yet */
    uint32_t chunk_sum; /* F32 buffer of its gradient while chunks add to it; BP_NO_BUFFER: none */
    bp_ref chunk_into;  /* where that goes */
    uint32_t state[BP_PARAMETER_STATES_MAX]; /* optimizer's buffers; BP_NO_BUFFER unused */
    bp_acquired acquired;                    /* the passes' own */
} bp_parameter;

/* Which part of an update apply emits (core/ops/update.h). */
typedef enum bp_accumulate {
    BP_ACCUMULATE_WHOLE, /* of a group's only gradient, or the sum of all */
    BP_ACCUMULATE_FIRST, /* of the first micro-batch's gradient: the moments move */
    BP_ACCUMULATE_NEXT,
    BP_ACCUMULATE_LAST /* the moments move, then the weights */
} bp_accumulate;

/* What the builder has of all rows while ops are written over some of them. */
typedef struct bp_row_window {
    uint64_t rows;
    uint64_t first;
    bp_ref losses;
    bp_ref input[3]; /* those that each token has one of */
} bp_row_window;

/* Lanes of tokens (core/plan/passes/token_lanes.h). */
typedef struct bp_token_lanes {
    struct bp_compile *compile; /* NULL: the group's sum has one leaf */
    uint32_t first;             /* leaf of the micro-batch's first lane */
    bool outside;               /* no lane's ops are written: sums over tokens are refused */
    uint64_t row;               /* of the lane that is, the first of this rank's; else 0 */
    bp_row_window all;          /* while it is: of all lanes of this rank */
} bp_token_lanes;

typedef enum bp_mode { BP_MODE_TRAIN, BP_MODE_EVAL, BP_MODE_DECODE } bp_mode;

typedef struct bp_builder {
    bp_graph *graph;
    const bp_spec *spec;
    bp_status status; /* first failure */
    bp_parameter *parameters;
    uint32_t parameter_count;
    uint32_t parameter_limit;
    bp_mode mode;
    const char *label; /* name of the stage being emitted: "h.3" */
    uint32_t stage;
    uint32_t action;
    bp_class output_class;          /* class of the stage's output buffer: tape or checkpoint */
    uint64_t rows;                  /* tokens per run: batch * sequence; decoding: rows per run */
    uint64_t row_first;             /* of a chunk of rows, or of a rank's or a lane's, the first */
    uint64_t sequences;             /* decoding: which these rows belong to, as many to each */
    bp_ref step;                    /* step block, BYTE */
    bp_ref declared[BP_INPUTS_MAX]; /* inputs of the micro-batch, in the order of declaration */
    bp_ref input[BP_INPUT_KINDS];   /* the first of each kind; absent where the model does not
                                       declare one */
    bp_ref shared;        /* what several stages read, made by the first of them: the model's own;
                             absent at a program's start */
    bp_ref shared_second; /* the same, another */
    bp_ref result;   /* result block; while a virtual rank's ops are written, the virtual rank's */
    bp_ref control;  /* control block */
    bp_ref batches;  /* (batch norms) I32, in the order of their parameters: how many micro-batches
                        moved the running statistics of each; absent where nothing is trained, or
                        there are none */
    bp_ref memory;   /* the output of bp_model.memory's stage for this micro-batch, for those behind
                        it; absent where there is none, and where decode goes on */
    bp_ref d_memory; /* its gradient so far, which stages make or add to; absent: 0 */
    bool memory_wanted; /* somebody reads that */
    bool continues;     /* decoding: what prefill made of the source is there */
    bp_ref balance; /* F32, bp_model.balance of them: of this micro-batch, what routers are balanced
                       by; absent where nothing is trained, or there are none */
    bp_ref norm_history;  /* of percentile clipping, where there is one */
    bp_ref class_weights; /* (classes) F32, where the loss has some; else absent */
    bp_ref vectors;       /* (samples of the group, width) F32, where a group's vectors are kept
                             (bp_spec_keeps_vectors), in the programs of training; in those that go
                             backward they are the gradients */
    bool vectors_written; /* earlier in the group */
    bool chunks;          /* chunks of rows add to gradients (bp_build_chunks_begin) */
    bp_ref losses;        /* F32, of each label of a micro-batch (bp_input_labels) */
    bp_ref logits;      /* decoding: (sequences, vocabulary), what the host samples from; afterwards
                           those of prefill; evaluating: what is kept (bp_compile_logits_rows),
                           absent where nothing is */
    bp_ref logits_kept; /* those of the eval program, after all programs are written */
    bp_ref logits_each; /* those of the decode program, likewise */
    bp_ref losses_kept; /* of the eval program, likewise: whole when it has ended, unless later ops
                           of it lie over them */
    bool loss_written;  /* the result's loss_sum was written earlier in the group */
    bool loss_counted;  /* this is a second backward: its losses are in the sum already */
    bp_accumulate fold; /* what apply emits */
    bp_ref norms;       /* F64, the gradients' partial sums of squares; absent: not made yet */
    uint64_t norms_used; /* how many of them are written, where they come stage by stage */
    char *names;         /* of the parameters: the graph's, or of one that counts its own */
    uint32_t names_used;
    uint32_t names_limit;
    void *scratch;          /* the model's, of bp_model.scratch bytes, aligned for any object; what
                               lies in it is nobody's between two calls of the model */
    uint32_t carried;       /* buffers that prefill made for decode, */
    uint32_t carried_asked; /* how many of them decode has asked for, */
    uint32_t carried_next;  /* and behind which buffer the next one lies */
    bool tables;            /* some list op needs a table in the arena */
    bool reduced;           /* backward reads something as a tape in 8 bits leaves it */
    bool narrowed;          /* a product has its operands in 8 bits */
    bool moves;             /* backward moves statistics: a step is not computed again */
    uint32_t weights_end;   /* the buffers of all parameters lie before this one */
    bp_shards shards;       /* who owns what; no ranks: everybody has everything */
    bp_token_lanes lanes;   /* the lanes of a micro-batch's tokens while its ops are written */
    bp_passes passes;       /* the passes' own */
} bp_builder;

/* Makes an emitter that writes `spec` into `graph`: training, no stage, no parameter yet, every ref
 * absent. `parameters` has room for parameter_limit rows. Whoever emits ops begins here. For a
 * graph that counts, builder->names and names_limit have to be set before the first parameter:
 * BP_BUFFER_NAME_MAX bytes for each are enough. A model that asks for
 * scratch has to be given builder->scratch before it emits a stage. */
void bp_build_init(bp_builder *builder, bp_graph *graph, const bp_spec *spec,
                   bp_parameter *parameters, uint32_t parameter_limit);

/* The elements of a parameter that are trained: all, or those of its trained rows. */
static inline bp_share bp_build_trained(const bp_parameter *parameter)
{
    const uint64_t row = parameter->row_count > 0 ? parameter->count / parameter->shape[0] : 0;
    return row == 0 ? (bp_share){0, parameter->count}
                    : (bp_share){parameter->row_first * row, parameter->row_count * row};
}

/* Whether masters and states are shared out, as they are where something is trained. */
static inline bool bp_build_shared(const bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    return spec->ranks > 1 && spec->sharing != BP_SHARING_NONE && spec->optimizer != NULL;
}

/* The matrices of a quantised parameter, each (out, in): those of experts, or the one. */
typedef struct bp_matrices {
    uint64_t count;
    uint64_t out;
    uint64_t in;
} bp_matrices;

bp_matrices bp_build_matrices(const bp_spec *spec, const bp_parameter *parameter);

/* Bytes of its scales, and floats of its nested scales. */
uint64_t bp_build_scale_bytes(const bp_spec *spec, const bp_parameter *parameter);
uint64_t bp_build_nested_floats(const bp_spec *spec, const bp_parameter *parameter);

/* Whether ranks can have parts of a weight, or of its codes, which move as words. What one unit
 * holds stays whole: its gather would be all latency. */
static inline bool bp_parameter_divides(const bp_parameter *parameter)
{
    const bool codes = parameter->quantised != BP_QUANTISED_NONE;
    const uint64_t bytes = codes ? bp_quantised_codes(parameter->count, parameter->quantised) : 0;
    return parameter->count > BP_SHARD_UNIT && bytes % sizeof(float) == 0;
}

/* Whether the weight of a parameter is shared out too. */
static inline bool bp_build_weight_shared(const bp_builder *builder, uint32_t index)
{
    return bp_build_shared(builder) && builder->spec->sharing == BP_SHARING_PARAMETERS &&
           builder->parameters[index].rows == BP_NO_PARAMETER &&
           bp_parameter_divides(&builder->parameters[index]);
}

/* The control block with the loss scale that gradients carry. */
static inline bp_ref bp_build_loss_control(const bp_builder *builder)
{
    const bp_ref before = builder->passes.control_before;
    return bp_ref_present(before) ? before : builder->control;
}

/* The name of a parameter, which is that of its weight. */
const char *bp_build_name(const bp_builder *builder, uint32_t index);

/* Publishes a parameter: makes its weight buffer (class weights, the working type; persistent, or
 * constant in the base of adapters), its master where the spec asks for one, and its row in the
 * table, in the order of calls. Called by bp_model.parameters only. */
void bp_build_parameter(bp_builder *builder, const bp_parameter_info *info);

/* A program-scoped buffer of (rows, width) elements called "<label>.<name>". */
bp_ref bp_build_buffer(bp_builder *builder, bp_class class_of, bp_dtype dtype, uint64_t rows,
                       uint64_t width, const char *name);

/* The same of a shape of up to four dimensions. */
bp_ref bp_build_tensor(bp_builder *builder, bp_class class_of, bp_dtype dtype, uint32_t rank,
                       const uint64_t *shape, const char *name);

/* A carried buffer called "<label>.<name>". What prefill makes, decode shares: it asks for the same
 * ones in the same order, each once. */
bp_ref bp_build_carried(bp_builder *builder, bp_class class_of, bp_dtype dtype, uint64_t rows,
                        uint64_t width, const char *name);

/* A persistent buffer for optimizer state of a parameter, called "<parameter>.<name>". */
uint32_t bp_build_state(bp_builder *builder, uint32_t parameter, bp_dtype dtype, const char *name);

/* The same as `bytes` bytes, `unit` of them for every BP_SHARD_UNIT elements. */
uint32_t bp_build_state_bytes(bp_builder *builder, uint32_t parameter, uint64_t bytes,
                              uint64_t unit, const char *name);

/* Makes the buffer of a parameter's master, if it has one. bp_build_parameter does, but where
 * masters are shared out: then the map comes first. */
void bp_build_master(bp_builder *builder, uint32_t index);

/* A persistent buffer of `count` elements that belongs to the optimizer as a whole. */
bp_ref bp_build_persistent(bp_builder *builder, bp_dtype dtype, uint64_t count, const char *name);

/* Whether parameter `index` is trained: backward leaves out what only a frozen one would need. */
bool bp_build_trainable(const bp_builder *builder, uint32_t index);

/* The element type of weights and activations. */
static inline bp_dtype bp_build_working(const bp_builder *builder)
{
    return builder->spec->working;
}

/* Whether parameter `index` is quantised: its weight, scales and nested scales are then operands of
 * matmul_quantised, and the matrix is (out, in) whatever the model publishes. */
bool bp_build_quantised(const bp_builder *builder, uint32_t index);

/* Whether its weight is the codes of core/ops/fp8.h, in the order that the model publishes: an
 * operand of matmul_quantised, and of updates. */
bool bp_build_fp8(const bp_builder *builder, uint32_t index);

/* The scales of a quantised parameter, and what scales them: absent where nothing does. */
bp_ref bp_build_scales(const bp_builder *builder, uint32_t index);
bp_ref bp_build_nested(const bp_builder *builder, uint32_t index);

/* Asks for parameter number `index` (order of publication), so that ops emitted from here to the
 * release may read its weight, with the scales of a quantised one, or, in an update, write it and
 * its master; BP_NO_PARAMETER is absent. The ref is that of the weight. A stage's action, and each
 * part of an update, gives back all that it asks for; an op on a parameter that is not held is
 * BP_ERR_INTERNAL. It is a marker, for which passes (core/plan/passes/passes.h) write what the
 * weight has to be brought by first: a shard gathered, bytes of storage copied. */
bp_ref bp_build_acquire(bp_builder *builder, uint32_t index, bp_purpose purpose);

/* The same for a parameter whose first dimension is that of experts: ops from here to the release
 * read of it the experts that have rows, and none else, and have `routed->runs` as an operand. Of
 * an offloaded one only these experts are brought, once the op that wrote `runs` has run. */
bp_ref bp_build_acquire_routed(bp_builder *builder, uint32_t index, bp_purpose purpose,
                               const bp_routed *routed);

/* The same for an update, for which nothing is brought: it writes what its rank has. */
bp_ref bp_build_acquire_update(bp_builder *builder, uint32_t index);
void bp_build_release(bp_builder *builder, uint32_t index);

/* Whether a parameter corrects a router's choice. It is transformers' buffer: not trained, and in
 * float32, because shares that are close decide. */
bool bp_build_corrects(const bp_parameter *parameter);

/* The type of a parameter's elements, where they are no codes: the working type or that. */
bp_dtype bp_build_type(const bp_spec *spec, const bp_parameter *parameter);

/* The weight of a parameter that is held. */
bp_ref bp_build_weight(bp_builder *builder, uint32_t index);

/* The same from element `first` on, in an update: of what this rank owns where weights are shared
 * out. */
bp_ref bp_build_update_weight(bp_builder *builder, uint32_t index, uint64_t first);

/* A stage's action or an update is over: BP_ERR_INTERNAL in builder->status when something is held.
 */
void bp_build_resolved(bp_builder *builder);

/* Where the gradient of a parameter goes. *accumulate is 0 for its first writer in the group, 1 for
 * every later one; the caller must then write, or add to, all of it. */
bp_ref bp_build_gradient(bp_builder *builder, uint32_t index, int64_t *accumulate);

/* The same where some rows may be trained: *rows are those of its first dimension, and the gradient
 * has them alone. bp_build_gradient refuses a parameter of which that is so. */
bp_ref bp_build_gradient_rows(bp_builder *builder, uint32_t index, bp_share *rows,
                              int64_t *accumulate);

/* From here to the end bp_build_gradient is asked for a parameter's gradient by one chunk of rows
 * after the other: one of 16 bits is added up in F32 meanwhile, and is rounded once, at the end, as
 * it is by an op over all rows. */
void bp_build_chunks_begin(bp_builder *builder);
void bp_build_chunks_end(bp_builder *builder);

/* The gradient of a parameter that is ready, as norms and apply read it, from element `first` of
 * the parameter on: F32 where it is a sum over virtual ranks, of which a rank may have what it owns
 * alone. */
bp_ref bp_build_ready_gradient(const bp_builder *builder, uint32_t index, uint64_t first);

/* Whether that is offloaded, from where it is brought. */
bool bp_build_gradient_offloaded(const bp_builder *builder, uint32_t index);

/* Brings `count` elements of such a gradient, from element `first` of the parameter on. */
bp_ref bp_build_bring_gradient(bp_builder *builder, uint32_t index, uint64_t first, uint64_t count);

/* What a rank owns of the part of a parameter that is ready; all of it where nothing is shared. */
bp_share bp_build_ready_share(const bp_builder *builder, uint32_t index, uint32_t rank);

/* Whether a rank has the sums of gradients that it owns, and no others. */
static inline bool bp_build_sums_shared(const bp_builder *builder)
{
    return bp_build_shared(builder) && builder->spec->sharing >= BP_SHARING_GRADIENTS;
}

/* Where the gradient of a parameter is added up in 8 bits (spec.gradient_int8), from element
 * `first` on, a multiple of BP_CODEC_BLOCK. */
bp_ref bp_build_sum(bp_builder *builder, uint32_t index, uint64_t first);

/* A ref `elements` further into the same buffer. */
bp_ref bp_ref_at(bp_ref ref, uint64_t elements);

/* Appends an op. Workspace operands are made here, from the device's answer, and overwritten in the
 * copy. `tuples` > 1 is a list op: refs and scalars of all tuples one after the other. */
void bp_build_op(bp_builder *builder, bp_kernel kernel, uint32_t tuples, const bp_ref *refs,
                 const void *scalars);

/* Adds one tuple to the op that was emitted last, whose row of kernels.def is a LIST without
 * workspace, for callers whose number of tensors has no bound. `refs` and `scalars` hold what that
 * row takes, as in bp_build_op. BP_ERR_FIT in builder->status when a table is full. */
void bp_build_tuple(bp_builder *builder, const bp_ref *refs, const void *scalars);

/* Every rank's `bytes` bytes `from` into `to`, rank after rank: begun and waited for. */
void bp_build_gather(bp_builder *builder, bp_ref to, bp_ref from, uint64_t bytes);

/* Elements of a parameter whose state is brought at once, where it is offloaded: whole blocks of
 * every form of it. */
#define BP_ASIDE_ELEMENTS ((uint64_t)1 << 20)

/* Brings `bytes` bytes of a buffer that is offloaded, from `first` on, into one of its own. */
bp_ref bp_build_bring(bp_builder *builder, uint32_t buffer, uint64_t first, uint64_t bytes,
                      const char *name);

/* Brings rows of what lies offloaded at `slot`, as wide as that, from row `first` on; or all. */
bp_ref bp_build_bring_rows_of(bp_builder *builder, bp_ref slot, uint64_t first, uint64_t rows,
                              uint64_t width);
bp_ref bp_build_bring_input(bp_builder *builder, bp_ref slot);

/* Whether all that has the rows of a micro-batch lives in storage (BP_OFFLOAD_STREAMS): while a
 * program trains. */
bool bp_build_streams(const bp_builder *builder);

/* (rows, width) there, until the program ends. */
bp_ref bp_build_away(bp_builder *builder, bp_dtype dtype, uint64_t rows, uint64_t width,
                     const char *name);

/* Writes rows of it, from row `first` on. */
void bp_build_put_rows(bp_builder *builder, bp_ref from, bp_ref slot, uint64_t first, uint64_t rows,
                       uint64_t width);

/* Rows that several matrices (all, width), which lie there one behind the other, have from the same
 * row on: here (count, rows, width). */
typedef struct bp_away_rows {
    uint64_t all;
    uint64_t width;
    uint64_t count; /* of matrices, from number `at` on */
    uint64_t at;
    uint64_t first;
    uint64_t rows;
} bp_away_rows;

/* Brings them, into a buffer of their own: ahead of where they are asked for as what else is
 * offloaded, or, `still`, there. Writes them. One copy each. */
bp_ref bp_build_bring_away(bp_builder *builder, bp_ref slot, const bp_away_rows *rows, bool still,
                           const char *name);
void bp_build_put_away(bp_builder *builder, bp_ref from, bp_ref slot, const bp_away_rows *rows);

/* Whether a table, which `index` has to be, is offloaded: its rows and its slices are then brought
 * one by one, not the whole of it. It is held by bp_build_acquire_update, which brings nothing. */
bool bp_build_table_offloaded(const bp_builder *builder, uint32_t index);

/* Rows of such a table, of the working type: those of `ids`, which the host fills in, into `to`. */
void bp_build_bring_rows(bp_builder *builder, uint32_t index, bp_ref to, bp_ref ids, uint64_t rows,
                         uint64_t width);

/* Rows of a weight (out, in) of a dense layer, from `first` on; no rows: it is brought whole. */
typedef struct bp_weight_slice {
    uint64_t first;
    uint64_t rows;
} bp_weight_slice;

/* The slices in which a product brings such a weight that is offloaded, one after the other: the
 * first, and the one behind a slice, both with no rows where there is none. The weight is held by
 * bp_build_acquire_update, once the first is known. */
bp_weight_slice bp_build_slice_first(const bp_builder *builder, uint32_t index);
bp_weight_slice bp_build_slice_next(const bp_builder *builder, uint32_t index,
                                    bp_weight_slice slice);

/* What a product reads of a weight: as it is, or its codes and what belongs to them, else absent.
 */
typedef struct bp_weight_brought {
    bp_ref weight;
    bp_ref scales;
    bp_ref nested;
} bp_weight_brought;

/* Brings a slice, into buffers of its own. */
bp_weight_brought bp_build_slice_bring(bp_builder *builder, uint32_t index, bp_weight_slice slice);

/* Writes such bytes back to where they were. */
void bp_build_put_back(bp_builder *builder, bp_ref from, uint32_t buffer, uint64_t first,
                       uint64_t bytes);

/* bp_build_<kernel>(builder, &operands, &scalars), one per row of kernels.def. */
#define KERNEL(name)                                                                               \
    static inline void bp_build_##name(bp_builder *builder, const bp_##name##_operands *operands,  \
                                       const bp_##name##_scalars *scalars)                         \
    {                                                                                              \
        bp_build_op(builder, BP_KERNEL_##name, 1, (const bp_ref *)operands, scalars);              \
    }
#include "core/ops/kernels.def"

/* c (+)= op(a) op(b), with nothing beside it. */
static inline void bp_build_product(bp_builder *builder, bp_ref c, bp_ref a, bp_ref b,
                                    const bp_matmul_scalars *scalars)
{
    const bp_matmul_operands operands = {.c = c,
                                         .before = BP_ABSENT,
                                         .a = a,
                                         .b = b,
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    bp_build_matmul(builder, &operands, scalars);
}

#endif
