/* SPDX-License-Identifier: MIT */
/* A training run from inside: what the commands that run or repeat one share. */
#ifndef BP_BEDPLATE_TRAINING_H
#define BP_BEDPLATE_TRAINING_H

#include "tools/bedplate/runs/checkpoint.h"
#include "tools/bedplate/app/device_memory.h"
#include "tools/bedplate/runs/distill.h"
#include "tools/bedplate/session/image_choice.h"
#include "tools/bedplate/runs/integrity.h"
#include "tools/bedplate/runs/metric.h"
#include "tools/bedplate/runs/progress.h"
#include "tools/bedplate/policy/policy_run.h"
#include "tools/bedplate/session/reference.h"
#include "tools/bedplate/runs/service.h"
#include "tools/bedplate/record/train_record.h"
#include "tools/bedplate/runs/train_report.h"
#include "tools/bedplate/sources/data_watch.h"

/* Large, and it must not move. */
typedef struct training {
    const char *adapter; /* its name among several (--adapters); NULL: it is alone */
    session s;
    data_set data;
    data_watch watch; /* of its files */
    checkpoint points;
    service care;
    service_stop stop; /* why it ends before its last step */
    bp_feed feed;
    bp_feed eval_feed;
    bp_megabatch megabatch; /* --group-by-length, its rows in `lengths` */
    memory_block lengths;
    bp_image_augment augment; /* crops and flips of images */
    uint64_t total;           /* steps of the whole run */
    uint64_t eval_every;      /* steps between evaluations, and checkpoints; 0: only at the end */
    uint64_t save_every;
    uint64_t log_every;
    char identity[DISTILL_IDENTITY]; /* of what is trained on */
    bp_tokens packed;                /* rows of --packing */
    reference reference;             /* of a loss over pairs */
    distill words;                   /* what a teacher says */
    policy_run policy;               /* --task grpo */
    progress bar;
    train_totals sum;
    device_memory memory;
    metric_choice metric;
    predictions made;        /* by the last evaluation, */
    metric_list found;       /* and its numbers */
    uint64_t evaluated;      /* step of the last evaluation; UINT64_MAX: none */
    integrity_tested tested; /* the last selftest */
    int signal;              /* that ends the run; 0: none */
    bool owed; /* a checkpoint that was asked for between steps on the same completions */
} training;

/* Opening one, in this order, with what has to come between the calls: the model and the spec; the
 * data with its feeds and the schedule; the plan, the runtime in its first state and the list of
 * what a checkpoint holds. */
bp_status training_read(training *t, const settings *set) BP_MUST_CHECK;
bp_status training_feed(training *t) BP_MUST_CHECK;
/* The same in two parts, between which the session chooses what was left to it. */
bp_status training_find(training *t) BP_MUST_CHECK;
bp_status training_schedule(training *t) BP_MUST_CHECK;
bp_status training_open(training *t) BP_MUST_CHECK;

/* Steps of an epoch. A feed of completions begins anew with each step; there an epoch is one of the
 * prompts. */
uint64_t training_epoch_steps(const training *t);

/* Evaluates the held-out data, which is there. */
bp_status training_judge(training *t, train_record_evaluation *found) BP_MUST_CHECK;

#endif
