/* SPDX-License-Identifier: MIT */
/* Losses of completions that a policy was given rewards for: advantages, and the derivative of the
 * loss by the log-probability of each token. Names, defaults and formulas are those of TRL's
 * GRPOTrainer and RLOOTrainer (1.16). All in double, sums in the order of the completions.
 *
 * With x the log-probability of a token, `old` that under the policy that sampled it, and rho =
 * exp(x - old) (sequence level: exp of the mean, RLOO of the sum, over the completion):
 *
 *     clipped   l = -min(min(rho, delta) A, clamp(rho, 1 - epsilon, 1 + epsilon_high) A)
 *     cispo     l = -[min(rho, epsilon_high)] A x, [.] a constant
 *     sapo      l = -A (4 / t) sigmoid(t (rho - 1)), t 1 where A > 0, else 1.05
 *
 * and, with beta and d = ref - x, + beta (e^d - d - 1), times rho where the divergence is
 * corrected. The loss is a sum of l over tokens, each divided as the rule says.
 *
 * Online DPO (TRL's OnlineDPOTrainer) has a loss of pairs instead: of each group the completion
 * with the best reward is chosen and that with the worst rejected. */
#ifndef BP_BEDPLATE_POLICY_LOSS_H
#define BP_BEDPLATE_POLICY_LOSS_H

#include "arena/base.h"

typedef enum policy_form {
    POLICY_CLIPPED,
    POLICY_CISPO,
    POLICY_SAPO,
    POLICY_PAIR_DPO, /* of the best and the worst of a group: the losses of pairs of */
    POLICY_PAIR_IPO  /* core/ops/preference.h over sums of log-probabilities */
} policy_form;
typedef enum policy_level { POLICY_TOKEN, POLICY_SEQUENCE, POLICY_SUM } policy_level;

/* What l of a token is divided by: rows times tokens of its row; tokens of all rows; rows times the
 * longest completion that is allowed; rows. Rows are all completions, masked ones too. */
typedef enum policy_divisor {
    POLICY_BY_ROW,
    POLICY_BY_TOKENS,
    POLICY_BY_LONGEST,
    POLICY_BY_ROWS
} policy_divisor;

/* Options that a form reads. */
typedef enum policy_reads {
    POLICY_READS_EPSILON = 1,
    POLICY_READS_EPSILON_HIGH = 2,
    POLICY_READS_DELTA = 4,
    POLICY_READS_SCALE = 8
} policy_reads;

/* How rewards of a group of completions become advantages. */
typedef enum policy_baseline {
    POLICY_GROUP,  /* less the group's mean */
    POLICY_OTHERS, /* less the mean of the group's others (RLOO) */
    POLICY_ALL,    /* less the mean of all (REINFORCE++) */
    POLICY_BEST    /* 1 of the group's best, the first of equals, -1 of its worst, the last of
                    * equals; 0 of the others, and of all where the best is not better */
} policy_baseline;

typedef enum policy_scale {
    POLICY_SCALE_GROUP,
    POLICY_SCALE_BATCH,
    POLICY_SCALE_NONE
} policy_scale;

/* A row of the table of --loss-type. */
typedef struct policy_rule {
    const char *name;
    policy_form form;
    policy_level level;
    policy_divisor divisor;
    policy_baseline baseline;
    policy_scale scale;           /* where --scale-rewards is not given */
    double epsilon, epsilon_high; /* where they are not given; 0: epsilon_high is epsilon */
} policy_rule;

#define LOSS_TYPE_WORDS                                                                            \
    "dapo|grpo|dr_grpo|bnpo|gspo|cispo|sapo|luspo|rloo|reinforce_plus_plus|online_dpo|online_ipo"

/* Whether its loss is one of pairs. */
bool policy_rule_pairs(const policy_rule *rule);

/* The POLICY_READS_ of it: other bounds and scales would do nothing. */
unsigned policy_rule_reads(const policy_rule *rule);

/* Whether its divergence is part of the reward: RLOO's, of which TRL takes old - ref, summed, and
 * REINFORCE++'s, of which each token has what follows it. */
bool policy_rule_rewards_divergence(const policy_rule *rule);

/* The rule of a word; NULL: there is none. */
const policy_rule *policy_rule_find(const char *name);

typedef struct policy_numbers {
    const policy_rule *rule;
    double epsilon, epsilon_high;
    double delta;     /* 0: no second bound */
    double beta;      /* 0: no reference */
    bool corrected;   /* the divergence is weighted with rho */
    uint32_t longest; /* max_completion_length */
    uint32_t each;    /* completions of a group; of losses of pairs */
} policy_numbers;

/* Completions: tokens first[i] .. first[i + 1] - 1 are those of completion i. */
typedef struct policy_rows {
    uint32_t count;
    const uint32_t *first;
    const double *x;
    const double *old; /* NULL: x, so rho is 1 */
    const double *ref; /* NULL: beta is 0 */
    const float *advantages;
    const float *returns; /* (tokens) in their place, where each token has its own; else NULL */
    const bool *masked;   /* those whose tokens do not count; NULL: none */
    const bool *dull; /* (tokens) those whose l does not count, but the divergence; NULL: none */
} policy_rows;

/* Means over tokens that count; clipping at the sequence level over completions, masked ones too.
 */
typedef struct policy_loss_metrics {
    double loss;
    double kl;
    double low_mean, low_min; /* clip_ratio of A < 0 below 1 - epsilon */
    double high_mean, high_max;
    double region_mean;
    double cispo;            /* cispo_clip_ratio */
    uint32_t pairs;          /* that were compared; then their means: */
    double chosen, rejected; /* beta (log-probability - the reference's) */
    double right;            /* the share of pairs whose chosen one has more of it */
} policy_loss_metrics;

/* The loss, and in slopes[t] its derivative by x[t]; 0 for tokens that do not count. No token may
 * have an infinite x, old or ref. Cost: some exponentials a token. */
void policy_loss(const policy_numbers *numbers, const policy_rows *rows, double *slopes,
                 policy_loss_metrics *metrics);

/* Which tokens are dull: those whose entropy lies below the quantile 1 - top (from 0 to 1) of the
 * entropies of tokens that count, between which it is linear. In fp32, as torch.quantile has it.
 * `order` and `spare`: room for as many indices as there are tokens. rows->dull is not read. */
void policy_entropy_mask(const policy_rows *rows, const float *entropies, double top,
                         uint32_t *order, uint32_t *spare, bool *dull);

/* Rewards' spread, over those that are numbers. */
typedef struct policy_spread {
    double mean, std;   /* of all, ddof 1; 0 where there are fewer than two */
    double flat_groups; /* the share of groups whose standard deviation is 0 */
    uint32_t unscored;  /* completions without a reward */
} policy_spread;

/* advantages[i] of `groups` groups of `each` completions with rewards[i]; not a number has the
 * advantage 0 and counts for no mean. Divided by a standard deviation (ddof 1) + 1e-4, and rounded
 * once. That of the batch is of rewards, with POLICY_OTHERS of what is divided, as TRL has them.
 * `centered`: room for groups * each, not that of the rewards. Of `spread`, flat_groups and
 * unscored. */
void policy_advantages(const policy_rule *rule, policy_scale scale, const double *rewards,
                       uint32_t groups, uint32_t each, double *centered, float *advantages,
                       policy_spread *spread);

/* charged[i]: the reward less beta times the divergence of completion i, the sum of x - ref over
 * its tokens that count. `mean`: that of a token. Of the other members of rows none is read. */
void policy_charge_divergence(const policy_rows *rows, double beta, const double *rewards,
                              double *charged, double *mean);

/* Advantages of tokens (REINFORCE++, arXiv 2501.03262): the return of token t is the completion's
 * reward less beta times the sum of x - ref over t and the tokens behind it. to[t]: the return less
 * the mean of all, divided as policy_advantages divides; mean and deviations are over tokens that
 * count. 0 for others, and where the reward is not a number. `each`: completions of a group.
 * `returns`: room for a number of each token. `mean`: the divergence of a token. Of the other
 * members of rows `masked` is read. */
void policy_token_advantages(policy_scale scale, const policy_rows *rows, uint32_t each,
                             double beta, const double *rewards, double *returns, float *to,
                             double *mean);

/* Mean and standard deviation (ddof 1) of those values that are numbers, `pitch` apart. */
void policy_mean(const double *values, uint32_t count, uint32_t pitch, double *mean, double *std);

#endif
