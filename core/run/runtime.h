/* SPDX-License-Identifier: MIT */
/* The runtime: spec -> programs -> plan -> linked programs -> sealed -> steps.
 *
 *     uint64_t host = bp_runtime_scratch(&spec);
 *     bp_runtime_plan(&runtime, &spec, host_memory, host);      // arena bytes are now known
 *     bp_runtime_open(&runtime, arena_memory, runtime.report.arena_bytes);
 *     bp_runtime_initialize(&runtime);                          // or load weights, or resume
 *     while (...) bp_runtime_step(&runtime, &feed, &outcome);
 *     bp_runtime_close(&runtime);
 *
 * The caller owns both memories and the struct; nothing else is allocated. The struct must not move
 * once planned. */
#ifndef BP_CORE_RUNTIME_H
#define BP_CORE_RUNTIME_H

#include "arena/arena.h"
#include "core/compile/compile.h"
#include "core/run/feed.h"
#include "core/program/link.h"
#include "core/program/report.h"
#include "core/program/step.h"

#define BP_TRANSFER_BYTES 65536 /* piece in which the runtime fills the arena */

typedef struct bp_outcome {
    uint64_t step;   /* steps attempted so far, this one included */
    double loss;     /* mean over valid targets, nats */
    double norm;     /* gradient norm before clipping */
    double rate;     /* learning rate used */
    uint64_t valid;  /* targets; 0: the group was skipped, nothing ran */
    uint64_t tokens; /* input tokens in the group */
    uint32_t samples;
    double scale;   /* the loss scale used; 1 without scaling */
    bool skipped;   /* loss scaling met an overflow: nothing changed but the scale */
    bool nonfinite; /* loss or norm, and no lower scale can help; the weights are as they were
                       before the step */
} bp_outcome;

/* What quantising a parameter carries from call to call. */
typedef struct bp_quantiser {
    double sum;
    float offset;
    float largest;
    uint32_t kept;
    float scales[BP_NESTED_BLOCK];
} bp_quantiser;

typedef struct bp_runtime {
    bp_spec spec;
    bp_error error; /* the first error of any call */
    bp_report report;
    bp_arena host; /* the caller's plan memory */
    bp_graph graph;
    bp_emit emit;
    bp_compile compile; /* the schedule of one micro-batch, for listings */
    bp_link link;
    void *device;    /* the device's context, inside host */
    uint32_t *state; /* persistent buffers in name order */
    uint32_t state_count;
    uint8_t *staging[2];
    uint32_t slot;
    bp_group group;
    int32_t *window;
    float *logits_host; /* (vocabulary), when generating; evaluating: those that are kept */
    uint8_t *transfer;  /* BP_TRANSFER_BYTES for filling and copying state */
    bp_quantiser quantiser;
    uint64_t steps;    /* attempted steps */
    uint64_t skipped;  /* groups without a valid target */
    uint32_t position; /* tokens in the decode caches */
    bool open;
} bp_runtime;

/* Bytes of host memory that plan and open need for this spec: closed form, no memory touched.
 * BP_SIZE_INVALID when the spec makes no sense. */
uint64_t bp_runtime_scratch(const bp_spec *spec);

/* Compiles, verifies and plans. memory is aligned to 64 bytes. On failure runtime->error says why.
 */
bp_status bp_runtime_plan(bp_runtime *runtime, const bp_spec *spec, void *memory,
                          uint64_t bytes) BP_MUST_CHECK;

/* Opens the device over `arena` (aligned to BP_ARENA_ALIGNMENT; NULL where the device brings its
 * own), links, seals. BP_ERR_FIT when bytes < report.arena_bytes. The state is zero bytes. */
bp_status bp_runtime_open(bp_runtime *runtime, void *arena, uint64_t bytes) BP_MUST_CHECK;

/* The same over an arena per memory space (report.arena_bytes, report.host.arena_bytes), and over a
 * fabric that is open on every rank: then all ranks must have made the same plan, which is asked
 * before the device is opened. BP_ERR_FIT names the space that is too small. */
bp_status bp_runtime_open_places(bp_runtime *runtime, const bp_places *given) BP_MUST_CHECK;

/* Random weights from the seed, zero optimizer state, step 0. */
bp_status bp_runtime_initialize(bp_runtime *runtime) BP_MUST_CHECK;

/* The same but for quantised weights, which are to be loaded: those it leaves as they are. */
bp_status bp_runtime_initialize_rest(bp_runtime *runtime) BP_MUST_CHECK;

/* Random values for the quantised weights: slow, they are made on the host, twice. */
bp_status bp_runtime_draw_quantised(bp_runtime *runtime) BP_MUST_CHECK;

/* The part of it that runs on the device: normal variates into the weights that want them. */
bp_status bp_runtime_draw(bp_runtime *runtime) BP_MUST_CHECK;

/* One optimizer step over the feed's group number runtime->steps. */
bp_status bp_runtime_step(bp_runtime *runtime, const bp_feed *feed,
                          bp_outcome *outcome) BP_MUST_CHECK;

/* Mean loss over up to `steps` groups of `feed` from the first (0: all of them), without dropout;
 * adds up in double in order. Changes no state. */
bp_status bp_runtime_evaluate(bp_runtime *runtime, const bp_feed *feed, uint64_t steps,
                              double *loss, uint64_t *targets) BP_MUST_CHECK;

/* Called after each group of an evaluation, whose ids, labels and lengths are in runtime->group,
 * and whose logits, where the spec keeps them, in runtime->logits_host as fp32: (group.samples,
 * classes) of a task that judges samples, else (group.samples * sequence, vocabulary). Its failure
 * ends the evaluation; it has said why. */
typedef bp_status (*bp_evaluated)(void *user, const bp_runtime *runtime);

/* bp_runtime_evaluate with a watcher (NULL: none). */
bp_status bp_runtime_evaluate_each(bp_runtime *runtime, const bp_feed *feed, uint64_t steps,
                                   bp_evaluated watch, void *user, double *loss,
                                   uint64_t *targets) BP_MUST_CHECK;

/* Generation. restart empties the caches; accept appends ids (prefill runs while many remain) and
 * leaves the logits that follow the last one in runtime->logits_host. BP_ERR_FIT when the context
 * is full. */
bp_status bp_runtime_restart(bp_runtime *runtime) BP_MUST_CHECK;
bp_status bp_runtime_accept(bp_runtime *runtime, const int32_t *ids, uint32_t count) BP_MUST_CHECK;

/* The persistent state, for snapshots, digests and weight files: `count` buffers in name order. */
uint32_t bp_runtime_state_count(const bp_runtime *runtime);
/* The i-th persistent buffer in name order. */
const bp_buffer *bp_runtime_state(const bp_runtime *runtime, uint32_t i);
/* The persistent buffer of a name, or NULL. */
const bp_buffer *bp_runtime_find(const bp_runtime *runtime, const char *name);
/* Copies part of a buffer out of or into the arena. */
bp_status bp_runtime_read(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset, void *to,
                          size_t bytes) BP_MUST_CHECK;
bp_status bp_runtime_write(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
                           const void *from, size_t bytes) BP_MUST_CHECK;

/* The state digest's formula (core/number/digest.h) over the constant weights, the base of
 * adapters, in the order of publication, which a model's configuration fixes. *there is false, and
 * *digest 0, when none is constant. Reads each of their bytes once, through the transfer piece. */
bp_status bp_runtime_base_digest(bp_runtime *runtime, bool *there, uint64_t *digest) BP_MUST_CHECK;

/* Elements first .. first + count - 1 of parameter number `parameter` (order of publication, as in
 * emit.parameters) as fp32: put rounds and splits them into weight and master
 * (core/number/master.h), get joins them, exactly for the forms that are exact. */
bp_status bp_runtime_put_weight(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                const float *values, uint64_t count) BP_MUST_CHECK;
bp_status bp_runtime_get_weight(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                float *values, uint64_t count) BP_MUST_CHECK;

/* The same for a quantised parameter, whose elements are those of the matrix as (out, in). quantise
 * is called in order from the first element to the last, for every pass (bp_quantised_passes) anew,
 * with whole blocks of 64 but at the end; put and get are not for it. BP_ERR_USAGE otherwise.
 * dequantise gives values in f32, element by element: slow. */
bp_status bp_runtime_quantise(bp_runtime *runtime, uint32_t parameter, uint32_t pass,
                              uint64_t first, const float *values, uint64_t count) BP_MUST_CHECK;
bp_status bp_runtime_dequantise(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                float *values, uint64_t count) BP_MUST_CHECK;

void bp_runtime_close(bp_runtime *runtime);

#endif
