/* SPDX-License-Identifier: MIT */
/* A training run, as its caller sees it: a plan is opened over a device, then steps.
 *
 *     static bp_plan_room planned;
 *     static bp_runtime_room room;
 *     bp_plan *plan = bp_plan_begin(&planned);
 *     bp_plan_make(plan, &spec, host_memory, host_bytes); // arena bytes are now known
 *     bp_runtime *runtime = bp_runtime_make(&room);
 *     bp_runtime_open(runtime, plan, arena_memory, arena_bytes);
 *     bp_runtime_initialize(runtime);                     // or load weights, or resume
 *     while (...) bp_runtime_step(runtime, &feed, &outcome);
 *     bp_runtime_close(runtime);
 *
 * The caller owns the memories and the rooms; nothing else is allocated. The room must not move
 * once a plan is opened, and the plan and its memory are the runtime's as long as it is asked for
 * anything. Calls of one runtime are made by one thread at a time. A call at the wrong time (before
 * open or after close, a second open) is BP_ERR_USAGE and changes nothing; what returns no status
 * says 0, NULL or "" then. */
/* Installed as part of <bedplate/runtime.h>. */
#ifndef BP_CORE_HANDLE_H
#define BP_CORE_HANDLE_H

#include "core/plan/plan.h"
#include "core/run/feed.h"

typedef struct bp_runtime bp_runtime;

/* Room for a runtime. */
#define BP_RUNTIME_BYTES 3584

typedef union bp_runtime_room {
    unsigned char bytes[BP_RUNTIME_BYTES];
    uint64_t number;
    double real;
    void *address;
} bp_runtime_room;

/* The runtime in a room, empty; the first call of a run. What was in the room before is forgotten,
 * so a runtime that is open has to be closed first. */
bp_runtime *bp_runtime_make(bp_runtime_room *room);

typedef struct bp_outcome {
    uint64_t step;   /* steps attempted so far, this one included */
    double loss;     /* mean over valid targets, nats */
    double norm;     /* gradient norm before clipping */
    double rate;     /* learning rate used */
    uint64_t valid;  /* targets; 0: the group was skipped, nothing ran */
    double weight;   /* of the targets: valid, or by class weights; the loss is the mean over it */
    uint64_t tokens; /* input tokens in the group, padding left out */
    uint64_t places; /* that its programs went over, padding included; 0: nothing ran */
    uint32_t samples;
    double scale;     /* the loss scale used; 1 without scaling */
    bool skipped;     /* loss scaling met an overflow: nothing changed but the scale */
    bool nonfinite;   /* loss or norm, and no lower scale can help; the weights are as they were
                         before the step */
    uint32_t verdict; /* bp_step_verdict, where steps are judged */
    float metrics[BP_METRIC_NUMBERS]; /* of pairs of rows, where the loss is over them: sums; 0
                                    where a group has several virtual ranks */
} bp_outcome;

/* Opens the device over `arena` (aligned to BP_ARENA_ALIGNMENT; NULL where the device brings its
 * own) for a plan that is made, links, seals. BP_ERR_FIT when bytes < footprint.arena_bytes. The
 * state is zero bytes. One runtime at a time has a plan open. A runtime that was closed may open
 * its plan again, and is then what it was, or another one, with which it begins anew; after a
 * failure it is as it was. */
bp_status bp_runtime_open(bp_runtime *runtime, bp_plan *plan, void *arena,
                          uint64_t bytes) BP_MUST_CHECK;

/* Random weights from the seed, zero optimizer state, step 0. */
bp_status bp_runtime_initialize(bp_runtime *runtime) BP_MUST_CHECK;

/* One optimizer step over the feed's group number bp_runtime_steps. The feed fits the plan:
 * sequence, batch and group (batch * accumulation) are the spec's, kind is bp_feed_labels of the
 * task (of token models BP_LABELS_GIVEN as well), vocabulary and classes are not above the
 * config's, class_weights are the spec's, pairs are set for a preference, and bp_feed_init was
 * called: BP_ERR_USAGE names the member that differs. BP_ERR_DATA: the source, an augmentation or a
 * teacher gave a number that the plan has no place for. Nothing has run then. */
bp_status bp_runtime_step(bp_runtime *runtime, const bp_feed *feed,
                          bp_outcome *outcome) BP_MUST_CHECK;

/* Mean loss over up to `steps` groups of `feed` from the first (0: all of them), without dropout;
 * adds up in double in order. Changes no state. The feed fits as that of a step does, but that its
 * batch and its group are bp_spec_eval_batch. */
bp_status bp_runtime_evaluate(bp_runtime *runtime, const bp_feed *feed, uint64_t steps,
                              double *loss, uint64_t *targets) BP_MUST_CHECK;

/* Called after each group of an evaluation, which bp_runtime_group gives, and whose logits, where
 * the spec keeps them, bp_runtime_logits: fp32, (group.samples, classes) of a task that judges
 * samples, else (group.samples * sequence, vocabulary), of which the rows behind a sample's end may
 * be 0 (spec.lengths). Groups come in the order of the feed, whatever order they ran in. Its
 * failure ends the evaluation; it has said why. */
typedef bp_status (*bp_evaluated)(void *user, const bp_runtime *runtime);

/* bp_runtime_evaluate with a watcher (NULL: none). */
bp_status bp_runtime_evaluate_each(bp_runtime *runtime, const bp_feed *feed, uint64_t steps,
                                   bp_evaluated watch, void *user, double *loss,
                                   uint64_t *targets) BP_MUST_CHECK;

/* Generation. restart empties the caches; accept appends ids (prefill runs while many remain) and
 * leaves the logits that follow the last one where bp_runtime_logits says. BP_ERR_FIT when the
 * context is full. */
bp_status bp_runtime_restart(bp_runtime *runtime) BP_MUST_CHECK;
bp_status bp_runtime_accept(bp_runtime *runtime, const int32_t *ids, uint32_t count) BP_MUST_CHECK;

/* The text that a model with an encoder makes another of, and restart: spec.source ids, of which
 * the first `count` are the text and the others anything below the vocabulary; or the numbers that
 * such a model reads of a sample, by their bits. They stay the caller's, and as they are, until
 * there is another source or the runtime is closed. BP_ERR_USAGE: there is no room for so many. */
bp_status bp_runtime_read_source(bp_runtime *runtime, const int32_t *ids,
                                 uint32_t count) BP_MUST_CHECK;

/* Before the tokens are accepted that make a text `tokens` long. *again: the model reads a text of
 * that length otherwise from its first token on (longrope), so the caches are empty now, as after
 * restart, and all of the text is to be accepted, in what pieces ever. Else it goes on as it is.
 * Where it is not asked, accept refuses with BP_ERR_USAGE to mix the two. */
bp_status bp_runtime_reread(bp_runtime *runtime, uint32_t tokens, bool *again) BP_MUST_CHECK;

/* Of spec.generate_sequences > 1 sequences, which begin alike with what accept took, each goes on
 * with an id of its own: the weights are read once for all, and the logits become (sequences,
 * vocabulary). Each sequence has the bits that it would have alone. BP_ERR_FIT as above. */
bp_status bp_runtime_accept_each(bp_runtime *runtime, const int32_t *ids) BP_MUST_CHECK;

/* The first error of any call; its code is BP_OK when there is none. Stays the runtime's. */
const bp_error *bp_runtime_error(const bp_runtime *runtime);

/* Steps attempted so far. */
uint64_t bp_runtime_steps(const bp_runtime *runtime);

/* What generation, or an evaluation that keeps them, has left; see there. */
const float *bp_runtime_logits(const bp_runtime *runtime);

/* The group that an evaluation is at. */
const bp_group *bp_runtime_group(const bp_runtime *runtime);

/* A length of sequences that has programs (bp_spec.lengths, and last bp_spec.sequence), and how
 * many micro-batches they have run. */
typedef struct bp_length {
    uint32_t sequence;
    uint64_t micros; /* of training */
    uint64_t evaluations;
} bp_length;

/* Lengths of a runtime that has a plan, at least one; number `index` of them, rising; the last one
 * beyond. */
uint32_t bp_runtime_length_buckets(const bp_runtime *runtime);
bp_length bp_runtime_length(const bp_runtime *runtime, uint32_t index);

/* A parameter of a runtime that has a plan. */
typedef struct bp_weight {
    const char *name; /* as in Hugging Face files; the runtime's */
    uint32_t rank;
    uint64_t shape[4];
    uint64_t count; /* elements */
    bool trainable;
} bp_weight;

uint32_t bp_runtime_weights(const bp_runtime *runtime);

/* Parameter number `index`, in the order of publication; beyond bp_runtime_weights an empty one. */
bp_weight bp_runtime_weight(const bp_runtime *runtime, uint32_t index);

/* Elements first .. first + count - 1 of parameter number `parameter` (order of publication, see
 * bp_runtime_weight) as fp32: put rounds and splits them into weight and master
 * (core/ops/master.h), get joins them, exactly for the forms that are exact. */
bp_status bp_runtime_put_weight(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                const float *values, uint64_t count) BP_MUST_CHECK;
bp_status bp_runtime_get_weight(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                float *values, uint64_t count) BP_MUST_CHECK;

/* The same as evaluations use them and files for others hold them: of a rule that averages
 * (schedule-free) the average, else what bp_runtime_get_weight gets. */
bp_status bp_runtime_get_trained(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                 float *values, uint64_t count) BP_MUST_CHECK;

/* Ends the device's threads or gives its memory back; a runtime that is not open is left as it is.
 * The arena's contents are gone on a GPU. */
void bp_runtime_close(bp_runtime *runtime);

#endif
