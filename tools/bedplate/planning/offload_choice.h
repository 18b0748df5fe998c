/* SPDX-License-Identifier: MIT */
/* The second tier of memory: --offload. */
#ifndef BP_BEDPLATE_OFFLOAD_CHOICE_H
#define BP_BEDPLATE_OFFLOAD_CHOICE_H

#include "core/ir/tier_versions.h"
#include "core/ir/traffic.h"
#include "core/plan/planned.h"
#include "core/plan/search/offload_fit.h"
#include "device/host/storage/tier_posix.h"
#include "tools/bedplate/app/memory.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/settings.h"

/* What --offload-what names. */
#define OFFLOAD_BASES       1u
#define OFFLOAD_STATES      2u
#define OFFLOAD_WEIGHTS     4u
#define OFFLOAD_CHECKPOINTS 8u
#define OFFLOAD_STREAMS     32u
#define OFFLOAD_GRADIENTS   16u
#define OFFLOAD_ALL         7u /* that costs no bytes written for every micro-batch */

typedef struct offload_choice {
    bool asked;
    bool host;  /* in the host's memory beside a GPU, instead of a file */
    bool flash; /* frozen weights in the read-only memory of a board */
    char path[1024];
    uint64_t bytes; /* of any, at most */
    uint32_t what;  /* may live there: bits of OFFLOAD_.. */
    bool two;       /* --offload-two-versions */
    bool resumes;   /* a checkpoint is gone on from, of which the file has to have a part */
    uint64_t step;  /* that checkpoint's */
    bp_offload_chosen chosen;
    bp_tier_posix file;
    bp_tier_versions versions; /* over the file; count 0: there is one version */
    memory_block room;
    memory_block list; /* of the ranges that have two versions */
    memory_block bits; /* and which of their pages are where */
} offload_choice;

/* Whether the file of an open run has two versions of something. */
static inline bool offload_versions(const offload_choice *b)
{
    return b->versions.count > 0;
}

/* Reads --offload, if it is given. BP_ERR_USAGE says what is wrong with it. */
bp_status offload_read(offload_choice *b, const settings *set, bp_error *error) BP_MUST_CHECK;

/* Whether the device has the kind of tier that is asked for, and what else is asked for goes with
 * it: BP_ERR_USAGE. */
bp_status offload_check(const offload_choice *b, const settings *set, const bp_spec *spec,
                        bp_error *error) BP_MUST_CHECK;

/* Where the file cannot be made on this machine, a plan says so on stderr: it may be made for
 * another one. */
void offload_say_here(const offload_choice *b);

/* Everything that may be offloaded does, of what is asked for (bits of OFFLOAD_..): in the host's
 * memory where the device is a GPU. */
void offload_all(bp_spec *spec, uint32_t what);

/* Bytes of the process's memory that the file is read and written through, and of what is known of
 * its pages; 0: nothing is offloaded. */
uint64_t offload_room(const offload_choice *b, const bp_plan *plan);

/* Whether the tier that is asked for may have as many bytes as the plan offloads: BP_ERR_FIT. */
bp_status offload_check_bytes(const offload_choice *b, const bp_plan *plan,
                              bp_error *error) BP_MUST_CHECK;

/* Opens the file of a plan with offloaded bytes and puts it into `places`. BP_ERR_FIT where it may
 * not have as many; BP_ERR_STORE where it has no version of the step that is gone on from. */
bp_status offload_open(offload_choice *b, const settings *set, const bp_plan *plan,
                       bp_regions *places, bp_error *error) BP_MUST_CHECK;

/* Whether an error is the tier's, which fails in the middle of a step. */
bool offload_failed(const bp_error *error);

void offload_close(offload_choice *b);

/* What a step moves, and the rate from which on it does not wait: lines of the plan's table, member
 * "below" of its JSON object. Nothing where nothing is offloaded. */
typedef struct offload_traffic {
    bp_traffic step;
    bp_rates rates;
    bp_offload_chosen choice;
    bp_resident resident;
    uint64_t slice;   /* of a matrix, that are brought at once, about; 0: all of it */
    uint64_t bytes;   /* that are offloaded; 0: nothing does */
    bool host;        /* in the host's memory */
    double endurance; /* --offload-endurance; 0: not given */
} offload_traffic;

bp_status offload_traffic_find(const bp_plan *plan, const offload_choice *b, const settings *set,
                               const bp_rates *rates, offload_traffic *t,
                               bp_error *error) BP_MUST_CHECK;
void offload_json(output *out, const offload_traffic *t);
void offload_put(bp_text *text, const offload_traffic *t);

#endif
