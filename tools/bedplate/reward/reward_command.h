/* SPDX-License-Identifier: MIT */
/* A command that is asked for rewards: one process, JSON lines over two pipes, with a deadline.
 *
 *     <- {"name":"grader","version":"1","rewards":["format","answer"]}     hello; rewards may lack
 *     -> {"id":17,"step":3,"prompt":"..","completion":"..","answer":"..","finish":"stop",
 *         "ids":[..],"row":{..}}
 *     <- {"id":17,"reward":0.5}, {"id":17,"rewards":{"format":1,"answer":0}} or
 *        {"id":17,"skip":true}
 *
 * Answers may come in any order. A process that is silent for too long, ends, or says something
 * else is killed with its group, a new one is started, and what was not answered is asked once
 * more; what fails then is a failure of that completion. */
#ifndef BP_BEDPLATE_REWARD_COMMAND_H
#define BP_BEDPLATE_REWARD_COMMAND_H

#include <sys/types.h>

#include "core/base/error.h"
#include "tools/bedplate/reward/reward_builtin.h"

#define REWARD_LINE_MAX  65536 /* bytes of an answer */
#define REWARD_NAME_MAX  64
#define REWARD_HELLO_MAX 1024
#define REWARD_AT_ONCE   64 /* requests that are not answered yet, at most */

typedef enum reward_failure { REWARD_STOP, REWARD_SKIP, REWARD_VALUE } reward_failure;

typedef struct reward_command {
    const char *text;      /* for /bin/sh -c */
    const char *errors;    /* the file for its stderr; NULL: this program's */
    double timeout;        /* seconds */
    uint64_t memory_limit; /* bytes of address space; 0: none */
    uint64_t cpu_limit;    /* seconds; 0: none */
    uint64_t check;        /* 0: nothing is asked twice */
    reward_failure on_failure;
    double value;   /* of a failure */
    uint32_t parts; /* scores of an answer */
    char names[REWARD_FUNCTIONS_MAX][REWARD_NAME_MAX];
    char hello[REWARD_HELLO_MAX]; /* the first line of the process, for the record */
    uint64_t requests;            /* completions asked about so far */
    uint64_t failures;            /* of them, those without an answer */
    uint64_t restarts;
    uint64_t differing; /* asked twice and answered in two ways */
    const char *reason; /* of the last failure; static; NULL: none */
    pid_t process;      /* 0: none runs */
    int to;             /* descriptors of a process */
    int from;
    size_t used; /* bytes of the line */
    char line[REWARD_LINE_MAX + 1];
} reward_command;

/* Starts the command and reads its hello line, with the same deadline. BP_ERR_DATA: what is wrong,
 * with the command as its subject. */
bp_status reward_command_open(reward_command *command, bp_error *error) BP_MUST_CHECK;

/* Asks for the rewards of the cases: scores[i * pitch + part], not a number where one is skipped.
 * BP_ERR_DATA: one failed and on_failure is REWARD_STOP. BP_ERR_FIT: no memory. */
bp_status reward_command_score(reward_command *command, const reward_case *cases, uint32_t count,
                               uint32_t pitch, double *scores, bp_error *error) BP_MUST_CHECK;

/* Kills the process and what it started, and waits for it. */
void reward_command_close(reward_command *command);

#endif
