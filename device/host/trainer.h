/* SPDX-License-Identifier: MIT */
/* A trainer made from a plan: const tables that `bedplate plan --emit-c` writes, and what walks
 * them. Nothing is compiled, planned, linked or checked any more: that was done where the tables
 * were made. The bits are those of a run of the library over the same plan.
 *
 *     static uint64_t arena[PLAN_ARENA_BYTES / 8];
 *     BP_TRY(bp_trainer_open(&trainer, &plan, arena, sizeof arena));
 *     BP_TRY(bp_trainer_initialize(&trainer));
 *     while (..) BP_TRY(bp_trainer_step(&trainer, &batch, &outcome));
 *
 * Before an open that succeeded every call of a trainer that is zero is BP_ERR_USAGE, NULL or 0. A
 * pointer other than the trainer that is NULL where a call needs what it points to is BP_ERR_USAGE.
 *
 * Needs no heap, no system, and no memory but the arena, the columns of a batch and the stack. */
/* Installed as part of <bedplate/trainer.h>. */
#ifndef BP_DEVICE_HOST_TRAINER_H
#define BP_DEVICE_HOST_TRAINER_H

#include "core/plan/column.h"
#include "core/plan/spec.h"
#include "core/run/checkpoint/checkpoint.h"

#define BP_TRAINER_ABSENT UINT32_MAX /* an operand that is not there */

/* One op, linked. */
typedef struct bp_trainer_op {
    const bp_host_kernel *form;
    const uint32_t *offsets; /* (tuples, operands) bytes from the arena's start; behind its end
                                those of the frozen weights */
    const uint64_t *scalars; /* (tuples, scalars), integers and bits of doubles */
    const uint8_t *dtypes;   /* (tuples, operands) of bp_dtype */
    uint16_t tuples;
    uint8_t operands;
    uint8_t scalar_count;
} bp_trainer_op;

/* The programs that a trainer may have, as ranges of its ops. */
typedef enum bp_trainer_program {
    BP_TRAINER_INITIALIZE,
    BP_TRAINER_STEP, /* a whole step of one micro-batch; of several: first, next .. and update */
    BP_TRAINER_FIRST,
    BP_TRAINER_NEXT,
    BP_TRAINER_UPDATE,
    BP_TRAINER_EVALUATE, /* and predictions */
    BP_TRAINER_PREFILL,  /* several tokens of a text that is generated, */
    BP_TRAINER_DECODE,   /* and one */
    BP_TRAINER_PROGRAMS
} bp_trainer_program;

/* Bytes of the arena, or behind its end of the frozen weights. */
typedef struct bp_trainer_range {
    uint32_t offset;
    uint32_t bytes;
} bp_trainer_range;

/* The same, filled with a pattern of 4 bytes: a one of 32 bits, or two of 16. */
typedef struct bp_trainer_fill {
    uint32_t offset;
    uint32_t bytes;
    uint32_t pattern;
} bp_trainer_fill;

/* An input that the model declares: where a micro-batch's lies, behind the step block. */
typedef struct bp_trainer_input {
    uint32_t offset;   /* from the step block */
    uint32_t elements; /* of a sample, 4 bytes each */
    uint32_t below;    /* integers (tokens, classes, ..): every one is; 0: they may be anything */
    bool negative;     /* integers: may be negative */
    bool real;         /* numbers: every one is finite */
    bool decodes;      /* generating reads it, an element for each token */
    uint8_t from;      /* bp_input_from: what a prediction puts there */
    int32_t fill;      /* what stands for nothing */
} bp_trainer_input;

/* What an evaluation keeps of each sample, (rows, width) of bp_dtype at an offset; width 0:
 * nothing.
 */
typedef struct bp_trainer_outputs {
    uint32_t offset;
    uint32_t rows;
    uint32_t width;
    bp_dtype dtype;
} bp_trainer_outputs;

/* Generating: the cache's tokens, 0: none; those of one run of prefill; whether the first token
 * goes through it; and where each of the two programs leaves (vocabulary) logits, F32. */
typedef struct bp_trainer_decoding {
    uint32_t context;
    uint32_t prefill;
    uint32_t vocabulary;
    uint32_t prefilled;
    uint32_t decoded;
    bool prefills;
} bp_trainer_decoding;

typedef struct bp_trainer_plan {
    const bp_trainer_op *ops;
    uint16_t first[BP_TRAINER_PROGRAMS];
    uint16_t count[BP_TRAINER_PROGRAMS]; /* 0: the program is not there */
    uint32_t arena_bytes;
    const void *frozen; /* weights that stay as they are, in memory that is only read; or NULL */
    uint32_t step;      /* offsets of the step block, */
    uint32_t result;    /* the result block */
    uint32_t control;   /* and the control block */
    uint32_t micros;    /* micro-batches of a step, */
    uint32_t batch;     /* samples of one, */
    uint32_t evaluated; /* and of a run of the evaluation */
    uint32_t texts;     /* samples that are compared with each other; 0: none are */
    bp_trainer_outputs outputs;
    bp_trainer_decoding decoding;
    uint32_t inputs;
    bp_trainer_input input[BP_INPUTS_MAX];
    const bp_trainer_fill *ones; /* weights that begin as ones */
    uint32_t ones_count;
    const bp_trainer_range *state; /* persistent buffers in the order of their names */
    uint32_t state_count;
    float scale; /* of the loss, at first */
    uint64_t seed;
    bp_rate rate; /* NULL: rate_options.learning_rate, always */
    bp_rate_options rate_options;
} bp_trainer_plan;

/* A plain record owned by the caller. */
typedef struct bp_trainer {
    const bp_trainer_plan *plan;
    unsigned char *arena;
    uint64_t steps;    /* attempted; a state that is put in place brings its own */
    uint32_t position; /* tokens of the text that is generated */
} bp_trainer;

/* What a step or an evaluation reads: of each input, in the order of the plan, micro-batch after
 * micro-batch, (micros, batch, elements) of 4 bytes, aligned to 4. Of a feed's group these are its
 * columns. */
typedef struct bp_trainer_batch {
    const void *column[BP_INPUTS_MAX];
    uint32_t micros; /* micro-batches that are there, at most those of the plan */
    double weight;   /* targets, or their classes' weights: what the loss is the mean over */
} bp_trainer_batch;

typedef struct bp_trainer_outcome {
    uint64_t step;
    double loss;  /* mean over the targets, nats */
    double norm;  /* of the gradients, before clipping; 0 where nobody asks */
    bool skipped; /* loss or norm were not finite: nothing changed but the loss scale, if any */
} bp_trainer_outcome;

/* Takes the arena, aligned to 8 bytes, and makes it zero. BP_ERR_FIT: it is smaller than the
 * plan's; BP_ERR_USAGE: it is not there or not aligned; BP_ERR_DEVICE: this machine's arithmetic is
 * another (core/base/fused.h). */
bp_status bp_trainer_open(bp_trainer *trainer, const bp_trainer_plan *plan, void *arena,
                          uint64_t bytes) BP_MUST_CHECK;

/* Random weights from the seed, zero optimizer state, step 0. */
bp_status bp_trainer_initialize(bp_trainer *trainer) BP_MUST_CHECK;

/* Where the arena has an input of a micro-batch: who fills it there, and gives it as the column,
 * needs no memory of his own where a step is one micro-batch. NULL: there is no such input. */
void *bp_trainer_column(const bp_trainer *trainer, uint32_t input);

/* One optimizer step. A batch without targets is counted and changes nothing. BP_ERR_USAGE: a
 * column is missing, there is no micro-batch or more than the plan's, or the weight is no number
 * from 0 to below 2^32; BP_ERR_DATA: an integer
 * that is not below its input's, as a token beyond the vocabulary or a class beyond the classes, or
 * a number that is not finite. Nothing has changed then. */
bp_status bp_trainer_step(bp_trainer *trainer, const bp_trainer_batch *batch,
                          bp_trainer_outcome *outcome) BP_MUST_CHECK;

/* *loss becomes the sum of the losses of one run of the evaluation, (evaluated, elements) of each
 * input, without dropout; divided by the targets it is the loss. Changes no state. BP_ERR_USAGE:
 * the plan has no evaluation (it was made without evaluation data); else as a step, but that the
 * weight is read of vectors of texts alone. */
bp_status bp_trainer_evaluate(bp_trainer *trainer, const bp_trainer_batch *batch,
                              double *loss) BP_MUST_CHECK;

/* What the model says of one sample: (outputs.rows, outputs.width) floats of the plan, the logits
 * of classes, numbers, or a vector; bit by bit what `bedplate eval --predictions` and `embed` have.
 * `sample` are the elements of its first input, 4 bytes each, numbers or tokens: of numbers all of
 * them, of tokens 1 and more; it may be bp_trainer_column(trainer, 0). Changes no state, and ends
 * the text that is generated. BP_ERR_USAGE: the plan keeps no outputs, `count` are not as many, or
 * another number of elements; BP_ERR_DATA as a step. Cost: an evaluation of plan->evaluated
 * samples. */
bp_status bp_trainer_predict(bp_trainer *trainer, const void *sample, uint32_t elements,
                             float *outputs, uint32_t count) BP_MUST_CHECK;

/* Puts a sample with its label (a class; of numbers the bits of a float) into the arena as number
 * `number` of a micro-batch, for bp_trainer_learn. What runs in between takes it away. The plan has
 * one micro-batch a step, and a label for a whole sample. BP_ERR_USAGE and BP_ERR_DATA as above;
 * nothing has changed then. */
bp_status bp_trainer_place(bp_trainer *trainer, uint32_t number, const void *sample,
                           uint32_t elements, int32_t label) BP_MUST_CHECK;

/* One optimizer step over the first `samples` that were placed; what is missing of a micro-batch is
 * no target. BP_ERR_USAGE: none, or more than a micro-batch; else as a step. */
bp_status bp_trainer_learn(bp_trainer *trainer, uint32_t samples,
                           bp_trainer_outcome *outcome) BP_MUST_CHECK;

/* The first of the largest outputs. BP_ERR_NONFINITE where one is not finite; BP_ERR_USAGE: there
 * are none. */
bp_status bp_trainer_class(const float *outputs, uint32_t count, uint32_t *best) BP_MUST_CHECK;

/* Chooses the next token by the logits; below `vocabulary`. */
typedef uint32_t (*bp_trainer_chooser)(void *user, const float *logits, uint32_t vocabulary);

/* Begins a text anew with its prompt and puts `most` further tokens into `to`: the likeliest ones,
 * as `bedplate generate --temperature 0` has them bit by bit, or what `choose` chooses (NULL:
 * nobody). The cache shares memory with the other programs: they end the text. BP_ERR_USAGE: the
 * plan generates nothing, or no prompt is given; BP_ERR_FIT: more tokens than the cache has;
 * BP_ERR_DATA: a token beyond the vocabulary; BP_ERR_NONFINITE: logits are not finite. Changes no
 * state. */
bp_status bp_trainer_generate(bp_trainer *trainer, const int32_t *prompt, uint32_t count,
                              int32_t *to, uint32_t most, bp_trainer_chooser choose,
                              void *user) BP_MUST_CHECK;

/* One piece of it: appends tokens to the text (behind bp_trainer_restart: begins one); *logits
 * points to (vocabulary) floats, which are there until the next call. */
void bp_trainer_restart(bp_trainer *trainer);
bp_status bp_trainer_accept(bp_trainer *trainer, const int32_t *ids, uint32_t count,
                            const float **logits) BP_MUST_CHECK;

/* A tensor of the state by its name, whole; the list is the one that the tables have
 * (plan_tensors), which says names, types and shapes. BP_ERR_USAGE: there is none of this name, or
 * it has another number of bytes; BP_ERR_DATA: a number is not finite, or the tensor is frozen and
 * these are others. Masters and optimizer states are tensors of their own, and stay. */
bp_status bp_trainer_get(const bp_trainer *trainer, const bp_state_tensor *tensors,
                         const char *name, void *to, size_t bytes) BP_MUST_CHECK;
bp_status bp_trainer_put(bp_trainer *trainer, const bp_state_tensor *tensors, const char *name,
                         const void *from, size_t bytes) BP_MUST_CHECK;

/* Bytes of the whole state; and one part of it after another, into `to` or out of `from`, in the
 * order of the names: what a file or a flash holds of it. The arithmetic of offsets is over all of
 * it. BP_ERR_USAGE for bytes outside. Frozen weights can be written as they are; BP_ERR_DATA for
 * others, which are those of another model. */
uint64_t bp_trainer_state_bytes(const bp_trainer *trainer);
bp_status bp_trainer_read_state(const bp_trainer *trainer, uint64_t offset, void *to,
                                size_t bytes) BP_MUST_CHECK;
bp_status bp_trainer_write_state(bp_trainer *trainer, uint64_t offset, const void *from,
                                 size_t bytes) BP_MUST_CHECK;

/* The way of checkpoints (bp_checkpoint_save, .._load, .._digest) to the state; their list of
 * tensors is the one that the tables have, whose handles are its rows. */
bp_state_io bp_trainer_state_io(bp_trainer *trainer);

#endif
