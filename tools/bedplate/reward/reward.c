/* SPDX-License-Identifier: MIT */
/* The rewards of a run: --reward, --reward-command, --reward-weights. */
#include "tools/bedplate/reward/reward.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/number.h"
#include "tools/bedplate/reward/reward_model.h"

static const char where[] = "reward";

/* "F,F,..": a weight for each column. */
static bp_status weights_read(reward_set *rewards, const char *text, bp_error *error)
{
    uint32_t given = 0;
    for (uint32_t f = 0; f < rewards->count; f++) {
        rewards->weights[f] = 1.0;
    }
    const char *whole = text;
    for (bool more = text != NULL && *text != '\0'; more;) {
        const size_t length = strcspn(text, ",");
        bp_number number;
        if (bp_number_parse(text, length, &number) != BP_OK) {
            const bp_status status = bp_error_set(error, BP_ERR_USAGE, where,
                                                  "a weight is no number", "--reward-weights");
            bp_error_found(error, whole, strlen(whole));
            bp_error_right(error, "a number for each reward, between commas");
            return status;
        }
        if (given < rewards->count) {
            rewards->weights[given] = number.real;
        }
        given++;
        more = text[length] == ',';
        text += length + (more ? 1 : 0);
    }
    if (given > 0 && given != rewards->count) {
        return bp_error_numbers(error, BP_ERR_USAGE, where, "there is not one weight a reward",
                                "--reward-weights", (int64_t)given, (int64_t)rewards->count);
    }
    return BP_OK;
}

static bp_status failure_read(reward_command *command, const char *word, bp_error *error)
{
    bp_number number;
    command->on_failure = REWARD_STOP;
    if (strcmp(word, "skip") == 0) {
        command->on_failure = REWARD_SKIP;
    } else if (bp_number_parse(word, strlen(word), &number) == BP_OK) {
        command->on_failure = REWARD_VALUE;
        command->value = number.real;
    } else if (strcmp(word, "stop") != 0) {
        const bp_status status = bp_error_set(error, BP_ERR_USAGE, where, "the value is not known",
                                              "--reward-on-failure");
        bp_error_found(error, word, strlen(word));
        bp_error_right(error, "stop, skip or a number");
        return status;
    }
    return BP_OK;
}

static bp_status command_begin(reward_set *rewards, const settings *set, bp_error *error)
{
    reward_command *command = &rewards->command;
    command->text = set->reward_command;
    command->errors = set->reward_log;
    command->timeout = set->reward_timeout;
    command->memory_limit = set->reward_memory;
    command->cpu_limit = (uint64_t)ceil(set->reward_cpu);
    command->check = set->reward_check;
    BP_TRY(failure_read(command, set->reward_on_failure, error));
    BP_TRY(reward_command_open(command, error));
    rewards->asks = true;
    rewards->count += command->parts;
    return BP_OK;
}

bool reward_named(const settings *set)
{
    return set->rewards.count > 0 || set->reward_command != NULL || set->reward_model != NULL;
}

uint32_t reward_model_column(const reward_set *rewards)
{
    return rewards->function_count;
}

/* Where the command's columns begin. */
static uint32_t command_column(const reward_set *rewards)
{
    return rewards->function_count + (rewards->models ? 1 : 0);
}

/* Functions, and their number with the parts of a command. */
static bp_status functions_read(reward_set *rewards, const settings *set, bp_error *error)
{
    memset(rewards, 0, sizeof *rewards);
    if (!reward_named(set)) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "the option is needed: --reward NAME, --reward-model DIR or "
                            "--reward-command COMMAND judges completions",
                            "--reward");
    }
    if (set->rewards.count > REWARD_FUNCTIONS_MAX) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "there are too many rewards", "--reward",
                              (int64_t)set->rewards.count, BP_LIMIT_MOST, REWARD_FUNCTIONS_MAX);
    }
    for (uint32_t f = 0; f < set->rewards.count; f++) {
        BP_TRY(reward_builtin_read(&rewards->functions[f], set->rewards.item[f], error));
    }
    rewards->function_count = set->rewards.count;
    rewards->models = set->reward_model != NULL;
    rewards->count = command_column(rewards);
    return BP_OK;
}

static bp_status columns_check(reward_set *rewards, const settings *set, bp_error *error)
{
    if (rewards->count > REWARD_FUNCTIONS_MAX) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "there are too many rewards", "--reward",
                              (int64_t)rewards->count, BP_LIMIT_MOST, REWARD_FUNCTIONS_MAX);
    }
    return weights_read(rewards, set->reward_weights, error);
}

bp_status reward_check(const settings *set, bp_error *error)
{
    static reward_set rewards; /* large */
    BP_TRY(functions_read(&rewards, set, error));
    if (set->reward_command == NULL) {
        return columns_check(&rewards, set, error);
    }
    return failure_read(&rewards.command, set->reward_on_failure, error);
}

bp_status reward_open(reward_set *rewards, const settings *set, bp_error *error)
{
    BP_TRY(functions_read(rewards, set, error));
    if (set->reward_command != NULL) {
        BP_TRY(command_begin(rewards, set, error));
    }
    return columns_check(rewards, set, error);
}

bp_status reward_open_recorded(reward_set *rewards, const settings *set, uint32_t parts,
                               bp_error *error)
{
    BP_TRY(functions_read(rewards, set, error));
    rewards->count += parts;
    return columns_check(rewards, set, error);
}

bp_status reward_score(reward_set *rewards, const reward_case *cases, uint32_t count,
                       double *scores, bp_error *error)
{
    const uint32_t pitch = rewards->count;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t f = 0; f < rewards->function_count; f++) {
            BP_TRY(reward_builtin_score(&rewards->functions[f], &cases[i],
                                        &scores[(size_t)i * pitch + f], error));
        }
    }
    if (rewards->model != NULL) {
        BP_TRY(reward_model_score(rewards->model, cases, count, pitch,
                                  scores + reward_model_column(rewards), error));
    }
    return rewards->asks ? reward_command_score(&rewards->command, cases, count, pitch,
                                                scores + command_column(rewards), error)
                         : BP_OK;
}

double reward_total(const reward_set *rewards, const double *scores)
{
    double sum = 0.0;
    bool any = false;
    for (uint32_t f = 0; f < rewards->count; f++) {
        if (!isnan(scores[f])) {
            sum += rewards->weights[f] * scores[f];
            any = true;
        }
    }
    return any ? sum : (double)NAN;
}

static const char *reward_own_name(const reward_set *rewards, uint32_t f)
{
    return f < rewards->function_count   ? reward_builtin_name(&rewards->functions[f])
           : f < command_column(rewards) ? "model"
                                         : rewards->command.names[f - command_column(rewards)];
}

const char *reward_name(const reward_set *rewards, uint32_t f, char room[REWARD_COLUMN])
{
    const char *own = reward_own_name(rewards, f);
    uint32_t same = 1;
    for (uint32_t i = 0; i < f; i++) {
        same += strcmp(reward_own_name(rewards, i), own) == 0 ? 1 : 0;
    }
    snprintf(room, REWARD_COLUMN, same > 1 ? "%.63s_%u" : "%.63s", own, same);
    return room;
}

void reward_close(reward_set *rewards)
{
    reward_command_close(&rewards->command);
}
