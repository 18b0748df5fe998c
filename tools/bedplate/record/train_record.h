/* SPDX-License-Identifier: MIT */
/* What a training run writes into its record and its events. */
#ifndef BP_BEDPLATE_TRAIN_RECORD_H
#define BP_BEDPLATE_TRAIN_RECORD_H

#include "tools/bedplate/runs/checkpoint.h"
#include "tools/bedplate/sources/data_set.h"
#include "tools/bedplate/runs/metric.h"

/* Of the run, for its first line. */
typedef struct train_record_facts {
    const data_set *data;
    const bp_feed *feed;
    const char *identity; /* data_set_identity */
    uint64_t total;       /* steps */
    uint64_t epoch; /* steps of an epoch: of prompts, where the data are completions of them */
} train_record_facts;

/* Begins the record, or goes on with that of the checkpoint which was loaded, and opens the events.
 * The state is that of the first step. BP_ERR_USAGE: the directory holds the record of another run,
 * BP_ERR_DATA: the record is not the checkpoint's. */
bp_status train_record_begin(checkpoint *c, const train_record_facts *facts) BP_MUST_CHECK;

/* The members of the first line, of a run that begins at runtime.steps in the state of
 * c->first_digest. */
bp_status train_record_put_run(json_line *line, checkpoint *c,
                               const train_record_facts *facts) BP_MUST_CHECK;

/* The line of a step, without its chain, as runs and replays form it. */
void train_record_put_step(json_line *line, const bp_runtime *runtime, const bp_feed *feed,
                           const bp_outcome *outcome);

/* After a step. */
void train_record_step(checkpoint *c, const bp_feed *feed, const bp_outcome *outcome);

/* After an evaluation. */
typedef struct train_record_evaluation {
    double loss;
    uint64_t targets;
    const char *metric;
    double value;
} train_record_evaluation;
void train_record_put_eval(json_line *line, const train_record_evaluation *found);
void train_record_eval(checkpoint *c, const train_record_evaluation *found);

/* After a checkpoint that the options ask for at this step, in any run. */
void train_record_state(checkpoint *c, uint64_t step, uint64_t digest);

/* After a way back from a spike to the state of step `to`: the members of its line, and the line,
 * which is of c->target. */
void train_record_put_roll(json_line *line, uint64_t step, uint64_t to, uint64_t digest);
void train_record_roll(checkpoint *c, uint64_t step, uint64_t digest);

/* After a step of --task grpo: what was generated and scored for it (policy_record.h). */
struct policy_run;
void train_record_rollout(checkpoint *c, uint64_t step, const struct policy_run *policy);

/* record_reopen and record_sync of the run's record. What they or a line found of the file, that it
 * was cut or moved, is told on stderr and in the events. */
void train_record_reopen(checkpoint *c);
bool train_record_sync(checkpoint *c);

/* After the export of a finished run. */
bp_status train_record_end(checkpoint *c) BP_MUST_CHECK;

/* The last event, with the program's exit code, and both files closed. Safe at any stage. */
void train_record_close(checkpoint *c, int code);

/* The parts of the checkpoint's record keys. */
extern const char train_record_source[]; /* SHA-256 of the sources the program was built of */
void train_record_processor(char *text, size_t room);

#endif
