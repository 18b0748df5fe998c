/* SPDX-License-Identifier: MIT */
/* bp_model: a chain of stages that emit ops. Implemented by layers/<family>.c. */
#ifndef BP_CORE_MODEL_H
#define BP_CORE_MODEL_H

#include "core/plan/builder.h"
#include "core/ir/cost.h"

#define BP_TAPE_MAX 28 /* most buffers a stage keeps for its backward */

/* Tape variants of a stage that has a tape; see bp_model.variants. */
#define BP_TAPE_VARIANTS (BP_RECOMPUTE_ALL + 2)

/* A tape variant that keeps exactly the slots whose bits are set: BP_TAPE_SET | slots. Of stages
 * whose bp_model.tapes names such. */
#define BP_TAPE_SET 0x80000000u

/* One stage action, filled by the compiler (in) and by the stage (out). */
typedef struct bp_stage_call {
    uint32_t stage;
    uint32_t variant;         /* forward, backward: which tape variant */
    bp_ref input;             /* in: the predecessor's output, of the shape that it made it with (up
                                 to four dimensions; often (rows, width)); absent for stage 0 */
    bool input_away;          /* backward in: it is offloaded, and bp_build_bring_rows_of brings
                                 parts of it, bp_build_bring_input all; of models with chunks */
    bool streams;             /* in: input, output and their gradients live in storage, in whole
                                 (rows, width), and come and go in parts (bp_build_streams) */
    bp_ref output;            /* forward out: absent for the last stage */
    bp_ref d_output;          /* backward in: gradient of output; absent for the last stage */
    bp_ref d_input;           /* backward out: gradient of input; absent for stage 0 */
    bool input_wanted;        /* backward in: someone reads d_input; else it may be left out */
    bool table_deferred;      /* backward in: leave out the gradient of a sliced table (below) */
    bp_ref kept[2];           /* backward out, last stage with a deferred table: for slice */
    bp_ref tape[BP_TAPE_MAX]; /* forward out, backward in: kept buffers, the stage's own order */
} bp_stage_call;

/* One slice of the gradient of a sliced table: rows first .. first + rows - 1, from one
 * micro-batch. */
typedef struct bp_slice_call {
    uint32_t table; /* parameter number */
    uint64_t first;
    uint64_t rows;
    bp_ref gradient;    /* (rows, width) of the table's slice */
    int64_t accumulate; /* 0: written; 1: added to */
    bp_ref kept[2];     /* what the last stage's backward kept */
    bp_ref d_embedded;  /* gradient of the output of stage 0 */
} bp_slice_call;

/* At which rates tape variants are compared, and how many are wanted at most. */
typedef struct bp_tape_request {
    bp_rates rates;
    uint32_t limit;
} bp_tape_request;

struct bp_model {
    bool input_major; /* weights of dense layers are (in, out) */
    bool pads;        /* what stands behind a sample's end changes nothing before it, and gets
                         gradients of zero: it may as well not be there (core/plan/buckets.h) */
    bool chunks;      /* spec.sequence_chunk is for its blocks */
    bool compares;    /* the loss of a sample is of all of its micro-batch */
    bool token_lanes; /* sums over tokens are formed lane by lane, and attention knows ranks */
    const char *name; /* config.json's model_type */
    size_t scratch;   /* bytes of builder->scratch that its functions write on while they emit */

    /* What functions that serve several models find of this one, as builder->spec->model->self: a
     * table of their own kind. NULL: they need none. */
    const void *self;

    /* The model's own rules on top of bp_spec_check: BP_ERR_USAGE naming the field. */
    bp_status (*check)(const bp_spec *spec, bp_error *error);

    /* Its inputs and targets: fills rows and returns how many there are. */
    uint32_t (*inputs)(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX]);

    /* Numbers that the stages of a micro-batch share while it is trained, where routers have a
     * balancing loss: builder->balance. NULL: none. */
    uint64_t (*balance)(const bp_spec *spec);

    /* Whether training takes something of all samples of a micro-batch for each of them, as batch
     * norms do. NULL: never. */
    bool (*pools)(const bp_spec *spec);

    /* The stage whose output later stages read beside what they follow, as decoders do an
     * encoder's: builder->memory. UINT32_MAX, or NULL: none. The stage behind it takes what they
     * made of its gradient, builder->d_memory, for that of its input. */
    uint32_t (*memory)(const bp_model_config *config);

    /* The most tokens of a text that is read as it is: a longer one is read otherwise from its
     * first token on (longrope). 0, or NULL: the length of a text changes nothing. */
    uint32_t (*near_tokens)(const bp_model_config *config);

    /* Whether what decode carries is of all tokens read so far, so that none can be taken back.
     * NULL: it is not, where `pads` holds. */
    bool (*recurs)(const bp_model_config *config);

    uint32_t (*stages)(const bp_model_config *config);

    /* Name of a stage for listings and buffers ("wte", "h.0", "head"), written into `text`. */
    void (*stage_name)(const bp_model_config *config, uint32_t stage, char text[32]);

    /* Tape variants of a stage: 1 when it has no tape; else BP_TAPE_VARIANTS, of which variant
     * v lacks what the bits of v name (BP_RECOMPUTE_NORM, ...; 0 keeps everything backward reads)
     * and the last keeps nothing. Backward of variant v recomputes what v lacks. */
    uint32_t (*variants)(const bp_model_config *config, uint32_t stage);

    /* Further tape variants of a stage that has a tape, each BP_TAPE_SET | slots: of what it could
     * keep the sets of which none is both larger and slower than another, in increasing bytes.
     * Returns how many. What it emits to count costs is to be forgotten. NULL: none. */
    uint32_t (*tapes)(bp_builder *builder, const bp_stage_call *call,
                      const bp_tape_request *request, uint32_t *variants);

    /* What listings call a tape slot of such a stage: "qkv". NULL where tapes is. */
    const char *(*slot_name)(const bp_spec *spec, uint32_t stage, uint32_t slot);

    /* Publishes all parameters with bp_build_parameter, in file order. */
    void (*parameters)(bp_builder *builder, const bp_model_config *config);
    uint32_t (*parameter_count)(const bp_model_config *config);

    /* The lowest stage that uses a parameter: its gradient is complete after that stage's backward.
     * NULL: stage 0 for all. */
    uint32_t (*parameter_stage)(const bp_model_config *config, uint32_t parameter);

    /* What an element of a parameter is whose values are the model's (bp_parameter_info.constant).
     * NULL: it has none. */
    double (*constant)(const bp_model_config *config, uint32_t parameter, uint64_t element);

    /* Training and evaluation forward. In BP_MODE_TRAIN it is called for every stage but the last,
     * whose loss is formed inside its backward (so logits and their gradient live one chunk at a
     * time); variant says what to leave in tape (the last variant: nothing, all absent). In
     * BP_MODE_EVAL there is no dropout and no tape, and the last stage writes builder->losses and
     * adds them up in builder->result. Makes its output with class builder->output_class. */
    void (*forward)(bp_builder *builder, bp_stage_call *call);

    /* builder->vectors become their gradients, and their loss is added up in builder->result. NULL:
     * no loss of this model compares samples of several micro-batches. */
    void (*contrast)(bp_builder *builder);

    /* Emits gradients of the stage's parameters and of its input. */
    void (*backward)(bp_builder *builder, bp_stage_call *call);

    /* Generation: builder->rows positions from step.position on, with carried caches of
     * spec->generate_context positions. The last stage writes builder->logits for row
     * step.last_row.
     */
    void (*decode)(bp_builder *builder, bp_stage_call *call);

    /* Where gradients do not stay: the tables whose gradient is formed slice by slice. Parameter
     * number tables[0] is used by the last stage, tables[1] by the first, UINT32_MAX: none. A table
     * that both use is formed at the end of backward, in the order in which it is always added up
     * (the last stage's part of a micro-batch before the first's); another one after its stage's
     * backward. slice emits one slice. NULL: no such tables. */
    void (*sliced_tables)(const bp_spec *spec, uint32_t tables[2]);
    void (*slice)(bp_builder *builder, bp_slice_call *call);

    /* What the first stage makes of tokens are rows of its table, and nothing is added to them but
     * noise in training. */
    bool plain_rows;
};

#endif
