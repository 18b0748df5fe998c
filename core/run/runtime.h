/* SPDX-License-Identifier: MIT */
/* The runtime from inside: what core/run/handle.h's caller does not see, and the calls of readers
 * and writers of files. */
#ifndef BP_CORE_RUNTIME_H
#define BP_CORE_RUNTIME_H

#include "arena/arena.h"
#include "core/plan/planned.h"
#include "core/ops/cascade.h"
#include "core/ir/link.h"
#include "core/ir/step.h"
#include "core/run/handle.h"
#include "core/run/step_check.h"
#include "core/run/length_bucket.h"
#include "core/run/state.h"

/* What quantising a parameter carries from call to call. */
typedef struct bp_quantiser {
    bp_cascade sum;
    float offset;
    float largest;
    uint32_t kept;
    float scales[BP_NESTED_BLOCK];
} bp_quantiser;

/* Results of an evaluation that goes by length (core/run/sorted.h), of `groups` groups at most. */
typedef struct bp_sorted {
    uint32_t groups;   /* 0: it does not */
    uint32_t *order;   /* samples from the shortest to the longest */
    uint32_t *tokens;  /* of each sample */
    float *losses;     /* (samples, sequence) */
    float *logits;     /* (samples, kept rows, their width) */
    uint64_t *windows; /* (batch) */
} bp_sorted;

/* Results of a round of an evaluation (core/run/evaluate_round.h). */
typedef struct bp_round {
    uint8_t *mine;
    uint8_t *all;  /* of every rank, `bytes` bytes each; with one rank there is none */
    size_t bytes;  /* of a piece of the round that ran last */
    size_t logits; /* where in it the logits begin */
} bp_round;

/* Which program decided the step being run, and what of it is left. */
typedef struct run_decided {
    const bp_length_bucket *bucket;
    uint32_t program; /* the device's number */
    uint32_t first;
    uint32_t count;
} run_decided;

struct bp_runtime {
    bp_plan *plan;  /* NULL: none was taken */
    bp_error error; /* the first error of any call */
    bp_link link;
    bp_length_run *lengths; /* of the plan's length buckets */
    bp_sorted sorted;
    bp_round round;
    uint64_t padded_runs; /* micro-batches that ran at full length, as bp_length_bucket.runs */
    uint64_t padded_evaluations;
    uint64_t places;                   /* of the step being run, as bp_outcome.places */
    double metrics[BP_METRIC_NUMBERS]; /* of the last evaluation, over pairs of rows */
    const bp_length_bucket *evaluated; /* whose eval program ran last; NULL: the padded run's */
    void *device;                      /* the device's context, inside host */
    const bp_fabric *fabric;           /* open, of several ranks; NULL: there is one */
    void *fabric_rank;                 /* its context */
    uint32_t *state;                   /* persistent buffers in name order */
    uint32_t state_count;
    uint8_t *staging[2];
    uint32_t slot;
    bp_group group;
    int32_t *window;
    float *logits_host; /* (vocabulary), when generating; evaluating: those that are kept */
    uint8_t *transfer;  /* BP_TRANSFER_BYTES for filling and copying state */
    bp_quantiser quantiser;
    const bp_step_check *step_check; /* NULL: nobody */
    run_decided decided;
    uint64_t steps;        /* attempted steps */
    uint64_t skipped;      /* groups without a valid target */
    uint32_t position;     /* tokens in the decode caches */
    const int32_t *source; /* spec.source ids, the caller's; NULL: none were read */
    int32_t source_length; /* how many of them are the text */
    uint32_t text;         /* tokens of the text that they belong to, as far as is known */
    bool far;              /* they were read as those of a text beyond the model's near_tokens */
    bool open;
    bool zeroed; /* the arenas' bytes are as they were given, and those were zero */
};

/* BP_ERR_USAGE with `text` where the runtime is not in that state. */
bp_status bp_runtime_require(bp_runtime *runtime, bool state, const char *text) BP_MUST_CHECK;

/* The runtime of a plan, before a device: it works in what the plan has left of its memory, links
 * there, and is what it was where it has taken this plan before. bp_runtime_open does it; who wants
 * to know the bytes earlier calls it first. BP_ERR_USAGE: the plan is not made, or is open. */
bp_status bp_runtime_take(bp_runtime *runtime, bp_plan *plan) BP_MUST_CHECK;

/* Whether a plan was taken, and is what it was then. */
static inline bool bp_runtime_planned(const bp_runtime *runtime)
{
    return runtime->plan != NULL && runtime->plan->taken == runtime;
}

/* bp_runtime_open over an arena per memory space (report.arena_bytes, report.host.arena_bytes), and
 * over a fabric that is open on every rank: then all ranks must have made the same plan, which is
 * asked before the device is opened. BP_ERR_FIT names the space that is too small. */
bp_status bp_runtime_open_regions(bp_runtime *runtime, bp_plan *plan,
                                  const bp_regions *given) BP_MUST_CHECK;

/* bp_runtime_initialize in parts, for those who bring weights: clear, then load, saying of each
 * parameter that it is given, then draw.
 *
 * Zero optimizer state, step 0, and no parameter is given. Costs nothing for memory that was said
 * to be zero (bp_regions.zeroed) and has not been written since. */
bp_status bp_runtime_clear(bp_runtime *runtime) BP_MUST_CHECK;

/* The values of a parameter have come, or will, from outside: draw leaves it as it is. */
void bp_runtime_given(bp_runtime *runtime, uint32_t parameter);

/* Whether a parameter belongs to the state, which a checkpoint holds: it is no frozen base. */
bool bp_runtime_in_state(const bp_runtime *runtime, uint32_t parameter);
/* All of them are given: a checkpoint will be loaded. */
void bp_runtime_state_given(bp_runtime *runtime);

/* Whether a parameter is of the frozen base, which runs may share (bp_spec.shares_base). */
bool bp_runtime_in_base(const bp_runtime *runtime, uint32_t parameter);
/* All of them are given: another run has put them into the arena. */
void bp_runtime_base_given(bp_runtime *runtime);
/* Whether one of them is not given, so that its values will be drawn from the seed. */
bool bp_runtime_draws_base(const bp_runtime *runtime);

/* First values of every parameter that is not given, the same bits whichever others are. Normal
 * variates are drawn on the device, and nothing is run there when all are given; those of quantised
 * weights are made on the host, once per pass, which is slow. */
bp_status bp_runtime_draw(bp_runtime *runtime) BP_MUST_CHECK;

/* The part of bp_runtime_draw that runs on the device. */
bp_status bp_runtime_draw_normal(bp_runtime *runtime) BP_MUST_CHECK;

/* Generation goes on behind the first `tokens` of what was accepted, as often as is wanted, without
 * reading them again; what bp_runtime_logits says is still what it was. *kept is false, and nothing
 * is done, where they are not kept: recurrent models have their state alone. BP_ERR_USAGE: so many
 * were not accepted. */
bp_status bp_runtime_rewind(bp_runtime *runtime, uint32_t tokens, bool *kept) BP_MUST_CHECK;

/* Generation with spec.generate_regions: which prompt a row goes on from, how many of its
 * positions are that prompt's, and where it is. A negative `shared`: there is nothing in the row.
 */
typedef struct bp_slot {
    int32_t position;
    int32_t region;
    int32_t shared;
} bp_slot;

/* Reads a prompt into a region; the logits that follow it become bp_runtime_logits. Slots that go
 * on from the region lose what they had of it. BP_ERR_USAGE: there is no such region, or no room.
 */
bp_status bp_runtime_read_prompt(bp_runtime *runtime, uint32_t region, const int32_t *ids,
                                 uint32_t count) BP_MUST_CHECK;

/* A token of each slot (spec.generate_sequences of them), whose key and value stay there: the
 * weights are read once for all. Logits become (sequences, vocabulary); each row has the bits that
 * its sequence would have alone. A slot's positions from `shared` on have been decoded in it before
 * this one. BP_ERR_DATA: an id or a position beyond what there is. */
bp_status bp_runtime_decode_slots(bp_runtime *runtime, const int32_t *ids,
                                  const bp_slot *slots) BP_MUST_CHECK;

/* The i-th persistent buffer in name order. */
const bp_buffer *bp_runtime_state(const bp_runtime *runtime, uint32_t i);
/* The persistent buffer of a name, or NULL. */
const bp_buffer *bp_runtime_find(const bp_runtime *runtime, const char *name);
/* Copies part of a buffer out of or into the arena. */
bp_status bp_runtime_read(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset, void *to,
                          size_t bytes) BP_MUST_CHECK;
bp_status bp_runtime_write(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
                           const void *from, size_t bytes) BP_MUST_CHECK;

/* The same of the whole tensor that a buffer is this rank's part of (core/plan/passes/shards.h).
 * read_whole is called by all ranks at once with the same range, and gives all of them the bytes;
 * write_whole keeps what belongs here. */
bp_status bp_runtime_read_gathered(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
                                   void *to, size_t bytes) BP_MUST_CHECK;
bp_status bp_runtime_write_gathered(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
                                    const void *from, size_t bytes) BP_MUST_CHECK;

/* Where elements [first, first + count) of a buffer are for the caller's own hands, between runs;
 * NULL where they are out of reach, or reach beyond the buffer. `width` bytes each. */
void *bp_runtime_reach(bp_runtime *runtime, const bp_buffer *buffer, uint64_t first, uint64_t count,
                       uint64_t width);

/* The spec's between_bytes, until the next run of a program; NULL: there are none, or they are out
 * of reach. */
void *bp_runtime_between(bp_runtime *runtime);

/* Bytes of tensor number i of the state as checkpoints see it (core/run/state.h): what
 * bp_runtime_state_io calls, with read_whole's and write_whole's rules. */
bp_status bp_runtime_state_read(bp_runtime *runtime, uint32_t i, uint64_t offset, void *to,
                                size_t bytes) BP_MUST_CHECK;
bp_status bp_runtime_state_write(bp_runtime *runtime, uint32_t i, uint64_t offset, const void *from,
                                 size_t bytes) BP_MUST_CHECK;

/* The state digest's formula (core/base/digest.h) over the constant weights, the base of
 * adapters, in the order of publication, which a model's configuration fixes. *there is false, and
 * *digest 0, when none is constant. Reads each of their bytes once, through the transfer piece. */
bp_status bp_runtime_base_digest(bp_runtime *runtime, bool *there, uint64_t *digest) BP_MUST_CHECK;

/* bp_runtime_put_weight and its pair for a quantised parameter, whose elements are those of the
 * matrix as (out, in). quantise
 * is called in order from the first element to the last, for every pass (bp_quantised_passes) anew,
 * with whole blocks of 64 but at the end; put and get are not for it. BP_ERR_USAGE otherwise.
 * dequantise gives values in f32, element by element: slow. */
bp_status bp_runtime_quantise(bp_runtime *runtime, uint32_t parameter, uint32_t pass,
                              uint64_t first, const float *values, uint64_t count) BP_MUST_CHECK;
bp_status bp_runtime_dequantise(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                float *values, uint64_t count) BP_MUST_CHECK;

#endif
