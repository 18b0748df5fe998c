/* SPDX-License-Identifier: MIT */
/* Ranks: processes, or threads of one, that train one model together. What a command sees of them:
 * which rank it is, how it meets the others, and who speaks and writes.
 *
 * Every rank runs the whole command with settings of its own (settings.ranks). Rank 0 speaks and
 * writes files; the others read what it reads. Ranks that are threads share the tools' code and
 * stdio, so one of them runs it at a time: it holds the turn, and gives it away where it computes
 * or may wait for others (ranks_leave_turn, ranks_take_turn). Turns go by rank until each has given
 * its first one away, so what all of them would refuse is said by rank 0 alone. */
#ifndef BP_BEDPLATE_RANKS_H
#define BP_BEDPLATE_RANKS_H

#include <pthread.h>

#include "core/ir/fabric.h"
#include "tools/bedplate/app/settings.h"

#define RANKS_HOST_MAX 64
#define RANKS_MOST     1024

/* What ranks that are processes do of their own. */
typedef struct ranks_process {
    /* This rank cannot go on: all end with the error's exit code, and one says why. Does not
     * return. */
    void (*fail)(const bp_error *error);
    /* The step that is begun, for messages. */
    void (*note)(uint64_t step);
} ranks_process;

typedef struct ranks {
    const bp_fabric *fabric; /* NULL: one rank */
    void *context;           /* the fabric's, open, and agreed on once */
    uint32_t rank;
    uint32_t size;
    uint32_t local;               /* number among the ranks of this host: which device is its own */
    char host[RANKS_HOST_MAX];    /* "": as rank 0 */
    struct ranks_turn *turn;      /* of ranks that are threads; NULL: a process of its own */
    const ranks_process *process; /* of ranks that are processes; NULL: threads */
    uint32_t beside;              /* ranks of this host, this one included; 0: unknown */
    uint32_t together[RANKS_MOST]; /* ranks that share the tokens of this rank's samples, */
    bp_fabric_group sequence;      /* as a group of the fabric */
} ranks;

/* A command, on one rank; returns the exit code. */
typedef int (*ranks_body)(const settings *set);

/* A way to run on several ranks: a row of the table in ranks.c. */
typedef struct ranks_engine {
    const char *word; /* of --fabric, up to the colon */
    /* NULL: `auto` never takes it. Else whether a launcher's variables say that this process is one
     * of several ranks that this engine joins. */
    bool (*found)(void);
    /* Opens the fabric, runs the body on every rank of this process (ranks_run_one), closes.
     * `words`: what follows the colon; NULL: there is none. Returns the exit code; what went wrong
     * outside of the body has been said. */
    int (*run)(const settings *set, const char *words, ranks_body body);
} ranks_engine;

extern const ranks_engine ranks_threads; /* threads:N */
extern const ranks_engine ranks_mpi;     /* mpi */
extern const ranks_engine ranks_nccl;    /* nccl, nccl:N */

/* Runs the body as --fabric says: the engine's ranks, or this process alone. */
int ranks_run(const settings *set, ranks_body body);

/* For engines: the body with a copy of the settings that has these ranks. Ranks above 0 are quiet
 * and have no --json. 2 where there is no memory. */
int ranks_run_one(const settings *set, const ranks *own, ranks_body body);

/* For engines: the group of ranks that share the tokens of this rank's samples, where the settings
 * ask for one, becomes the fabric's. */
void ranks_group(const settings *set, ranks *own, bp_fabric_options *options);

/* For engines: digest that ranks agree on before all else: the program's version. */
uint64_t ranks_version_digest(void);

/* 1 and 0 for settings without ranks. */
uint32_t ranks_size(const settings *set);
uint32_t ranks_rank(const settings *set);

/* Ranks that are threads of this process: each has an arena, and what is beside it. */
uint64_t ranks_in_process(const settings *set);

/* Whether this rank speaks and writes. */
static inline bool ranks_leads(const settings *set)
{
    return ranks_rank(set) == 0;
}

/* What several ranks do at once (steps, evaluation, opening a runtime) lies between these two.
 * Nothing for ranks that are processes. */
void ranks_leave_turn(const settings *set);
void ranks_take_turn(const settings *set);

/* Whether an error may be printed here and now: of ranks that are threads the first one is, as
 * those that follow come of it; of processes, rank 0's, and what is no loss of another rank. */
bool ranks_may_tell(const settings *set, bp_status status);

/* An error of this rank ends all: does not return where ranks are processes. */
void ranks_fail(const settings *set, const bp_error *error);

/* This rank begins a step. */
void ranks_note(const settings *set, uint64_t step);

/* Copies of one command line all find the same fault in it: from hush to the beginning of ranks_run
 * the first one speaks alone. end, with the exit code, gives it the time to. */
void ranks_hush(void);
void ranks_hush_end(int code);

/* Every rank gives `bytes` bytes (a multiple of 4) and gets all ranks' in their order: (size,
 * bytes). Between runs of programs only. Gives the turn away meanwhile. One rank copies. */
bp_status ranks_gather(const settings *set, const void *mine, uint32_t bytes, void *all,
                       bp_error *error) BP_MUST_CHECK;

/* Inside of a step, where no rank has the turn: the first rank on which `mine` holds; as many as
 * there are ranks: none. */
bp_status ranks_first(const settings *set, bool mine, uint32_t *first,
                      bp_error *error) BP_MUST_CHECK;

/* What all ranks must have alike, but for the device, as digests, before the first step. */
typedef struct ranks_facts {
    uint64_t version;
    uint64_t data; /* the identity of what is trained on */
    uint64_t from; /* the step that the run begins at */
    uint64_t total;
    uint64_t device; /* device_identity: no two ranks have the same one; 0: none */
    uint32_t
        option[SETTINGS_OPTIONS_MAX]; /* by option_index, those that shape the result; else 0 */
} ranks_facts;

/* Digests the settings that shape the result. `data` is data_set_identity's. */
void ranks_facts_fill(ranks_facts *facts, const settings *set, const char *data);

/* Called by every rank once its data are found and before its plan is opened (which compares the
 * plans). BP_ERR_USAGE on all, naming the first rank that is not as rank 0 and in what, or two
 * ranks that have one GPU. */
bp_status ranks_compare(const settings *set, const ranks_facts *facts,
                        bp_error *error) BP_MUST_CHECK;

/* Called by every rank with the digest of its plan, before that is opened: BP_ERR_USAGE names the
 * first rank whose plan is not rank 0's, where an option is what differs. */
bp_status ranks_compare_plans(const settings *set, uint64_t digest, bp_error *error) BP_MUST_CHECK;

#endif
