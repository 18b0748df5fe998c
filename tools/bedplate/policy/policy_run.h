/* SPDX-License-Identifier: MIT */
/* Reinforcement fine-tuning (--task grpo): before a step the policy itself generates completions of
 * some prompts, which get rewards and, compared with each other, advantages; the step learns them
 * with one weight a token.
 *
 * What is generated is a function of the weights before the step, the seed and the step's number,
 * and what is learned one of that and of the rewards: a run that is resumed goes on as if nothing
 * had been, and one that is replayed makes the same completions again. */
#ifndef BP_BEDPLATE_POLICY_RUN_H
#define BP_BEDPLATE_POLICY_RUN_H

#include "tools/bedplate/models/end_tokens.h"
#include "tools/bedplate/policy/policy_loss.h"
#include "tools/bedplate/policy/policy_reference.h"
#include "tools/bedplate/record/json_line.h"
#include "tools/bedplate/reward/reward.h"
#include "tools/bedplate/reward/reward_model.h"
#include "tools/bedplate/rollout/prompts.h"
#include "tools/bedplate/runs/metric.h"

/* What a batch of completions came to; counts of tokens are of completions. */
typedef struct policy_counts {
    uint64_t tokens;
    uint32_t shortest, longest, ended_shortest, ended_longest; /* 0 where there is none */
    uint64_t ended_tokens;
    uint32_t ended; /* by an end token */
    double entropy; /* the mean over tokens that count, of the policy that sampled them */
} policy_counts;

typedef struct policy_run policy_run;

/* Must not move once open. */
struct policy_run {
    session *s; /* NULL: the task is another one */
    rollout_prompts prompts;
    rollout_choice choice;
    end_tokens ends;
    bool rewarded; /* rewards are open */
    reward_set rewards;
    reward_model model;
    policy_numbers numbers;
    policy_scale scale;
    bool masks;      /* completions without an end token do not count */
    uint32_t groups; /* prompts of a step */
    uint32_t count;  /* completions of it */
    uint64_t epoch_steps;
    uint32_t iterations; /* steps on the same completions; 0 where the task is another one */
    memory_block held;   /* of a step, counted: */
    rollout_prompt *asked;
    rollout_completion *made;
    uint64_t *chosen;         /* prompts by their number in the data */
    uint32_t *first;          /* (count + 1): where tokens of completions begin */
    double *x, *old, *slopes; /* (tokens): of the policy, and of that which sampled */
    double *ref;              /* (tokens), of a reference; NULL: there is none */
    double *scores;           /* (count, rewards) */
    double *totals;           /* (count) */
    float *advantages;
    float *returns; /* (tokens): their advantages, where each has its own; else NULL */
    bool *masked;
    float *entropies; /* (tokens), of the policy that sampled */
    double top;       /* the share of tokens that count, by their entropy; 1: all */
    bool *dull;       /* (tokens), those that do not; NULL: all do */
    uint32_t *order;  /* (2 * tokens), to find them */
    reward_case *cases;
    rollout_text *texts;
    void *work;
    void *wire;                 /* of several ranks; else of no bytes */
    policy_reference reference; /* of whole weights */
    memory_block adapters;      /* of the policy, while the reference is computed */
    uint64_t generated;         /* 1 + the number of the batch of completions; 0: none */
    uint64_t weighed;           /* 1 + the step that weights are of; 0: none */
    policy_loss_metrics metrics;
    double charged; /* the mean divergence of a token, where it is part of the reward */
    policy_spread spread;
    policy_counts counts;
    char reward_names[2 * REWARD_FUNCTIONS_MAX][REWARD_COLUMN + 16]; /* rewards/NAME/mean, /std */
    uint64_t failures; /* of the reward command that were printed */
    bool differing;    /* it was printed that it answers differently */
    bp_source source;
    bp_teacher teacher;
    /* A replay's: what the record has of a step's rewards as `digits` characters, of the first step
     * there is where `step` is 0. NULL: rewards are asked for. */
    bp_status (*recorded)(void *user, uint64_t step, const char **rewards, size_t *digits);
    void *user;
};

/* Whether --task is this one. */
bool policy_asked(const settings *set);

/* Defaults of the task where options were not given: TRL's. */
void policy_resolve(settings *set);

/* The spec's part that follows from options alone, for prompts of up to `longest` tokens: lengths,
 * decode programs, weights of tokens. BP_ERR_USAGE: what cannot be with this task, by its option.
 */
bp_status policy_fill(session *s, uint32_t longest, rollout_choice *choice) BP_MUST_CHECK;

/* BP_ERR_USAGE: an option of this task beside another one. */
bp_status policy_check_others(session *s) BP_MUST_CHECK;

/* Opens prompts and checks options, of a session that has begun; fills the spec. The source of the
 * run's feed is policy->source then. Nothing where the task is another one. */
bp_status policy_open(policy_run *policy, session *s) BP_MUST_CHECK;

/* Of a plan: the spec for prompts of --data, or, without, for what --max-seq-length has before the
 * longest completion; and what the run would take of host memory. */
bp_status policy_plan(policy_run *policy, session *s) BP_MUST_CHECK;

/* The phases of a step, in their order. A reward model scores between the others. */
typedef enum policy_phase {
    POLICY_GENERATING,
    POLICY_SCORING,
    POLICY_TRAINING,
    POLICY_PHASES
} policy_phase;

/* Bytes of the arena if one of the phases were all of it. */
typedef struct policy_phases {
    uint64_t bytes[POLICY_PHASES]; /* 0: there is no such phase; all 0: the task is another one */
    uint64_t classes[POLICY_PHASES][BP_CLASS_COUNT]; /* of them, at the peak of the phase */
    uint32_t slots, tokens;
} policy_phases;

bp_status policy_phases_find(const bp_spec *spec, policy_phases *phases,
                             bp_error *error) BP_MUST_CHECK;
void policy_phases_put(bp_text *text, const policy_phases *phases);
void policy_phases_json(output *out, const policy_phases *phases);

/* A section of the plan's page: a bar for each phase, the largest marked. */
void policy_phases_page(bp_text *text, const policy_phases *phases);

/* Takes its memory and starts the reward command, once the spec is chosen. `identity`: room for
 * DISTILL_IDENTITY bytes, which name the prompts and, behind these words, models beside the policy.
 */
#define POLICY_REFERENCE_WORD " reference "
#define POLICY_MODEL_WORD     " reward-model "
bp_status policy_start(policy_run *policy, char *identity, size_t room) BP_MUST_CHECK;

/* Before step number `step` (from 0): generates, scores and weighs. BP_ERR_DATA: a reward that
 * stops the run. Nothing is changed that a later call would not make again. */
bp_status policy_prepare(policy_run *policy, uint64_t step) BP_MUST_CHECK;

/* Whether a step with the same completions is still to come: no checkpoint lies here. */
bool policy_between(const policy_run *policy, uint64_t steps);

/* What the step came to, counted as the loss of completions is; nothing where the task is another
 * one.
 */
void policy_outcome(const policy_run *policy, bp_outcome *outcome);

/* Numbers of the step that was prepared, by TRL's names. */
void policy_metrics(const policy_run *policy, metric_list *list);

/* Ends the reward command and gives everything back. Safe on a record that is all zero. */
void policy_close(policy_run *policy);

#endif
