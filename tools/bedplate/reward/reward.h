/* SPDX-License-Identifier: MIT */
/* Rewards of completions: built-in functions of their text, a model, and a command that is asked.
 */
#ifndef BP_BEDPLATE_REWARD_H
#define BP_BEDPLATE_REWARD_H

#include "tools/bedplate/app/settings.h"
#include "tools/bedplate/reward/reward_builtin.h"
#include "tools/bedplate/reward/reward_command.h"

/* Must not move once open. About 120 KiB, most of it the command's line. */
typedef struct reward_set {
    uint32_t count; /* columns of scores: functions, the model, then parts of the command */
    uint32_t function_count;
    bool models;                /* there is a model's column */
    struct reward_model *model; /* which scores it; NULL: who has the set does */
    reward_builtin functions[REWARD_FUNCTIONS_MAX];
    double weights[REWARD_FUNCTIONS_MAX];
    bool asks; /* there is a command */
    reward_command command;
} reward_set;

/* Whether the settings name a reward. */
bool reward_named(const settings *set);

/* The number of the model's column, or of where it would be. */
uint32_t reward_model_column(const reward_set *rewards);

/* BP_ERR_USAGE: what reward_open would refuse without asking a command. Not for several threads. */
bp_status reward_check(const settings *set, bp_error *error) BP_MUST_CHECK;

/* Reads --reward, --reward-weights and the options of the command, and starts it. BP_ERR_USAGE
 * names what is wrong in an option; BP_ERR_DATA: the command does not start, or says nothing that
 * is a hello line. What the settings point to must stay. */
bp_status reward_open(reward_set *rewards, const settings *set, bp_error *error) BP_MUST_CHECK;

/* The same without starting a command, which has given `parts` rewards before and is not asked
 * again. */
bp_status reward_open_recorded(reward_set *rewards, const settings *set, uint32_t parts,
                               bp_error *error) BP_MUST_CHECK;

/* Scores completions, in their order: scores[i * rewards->count + f], not a number where function f
 * cannot score completion i. BP_ERR_DATA: the command failed and --reward-on-failure is stop; what
 * failed otherwise is counted in rewards->command.failures. Cost: linear in the texts. */
bp_status reward_score(reward_set *rewards, const reward_case *cases, uint32_t count,
                       double *scores, bp_error *error) BP_MUST_CHECK;

#define REWARD_COLUMN (REWARD_NAME_MAX + 16)

/* The weighted sum of one completion's scores over those that are numbers, in their order; not a
 * number where none is. */
double reward_total(const reward_set *rewards, const double *scores);

/* The name of column f: that of the function without its arguments, or of the command's part;
 * behind an earlier column of the same name with _2, _3 .. Returns room. */
const char *reward_name(const reward_set *rewards, uint32_t f, char room[REWARD_COLUMN]);

/* Ends the command. Safe on a zeroed set. */
void reward_close(reward_set *rewards);

#endif
