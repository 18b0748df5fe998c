/* SPDX-License-Identifier: MIT */
/* Plans of all ranks, none of which has to exist: bytes of each, what it owns, what a step sends.
 */
#ifndef BP_BEDPLATE_SHARD_PLAN_H
#define BP_BEDPLATE_SHARD_PLAN_H

#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/session.h"

/* The values of --shard, in the order of bp_sharing, and `auto` (shard_choice.h). */
#define SHARD_WORDS "none|optimizer|gradients|parameters|auto"

/* The links of a rank: to ranks of its host, and to those of others. */
enum { SHARD_INSIDE, SHARD_BETWEEN, SHARD_LINKS };

typedef struct shard_link {
    uint64_t peers;
    double bytes;     /* that a rank sends in a step, the mean of all */
    double bandwidth; /* bytes per second of a rank in one direction */
    double latency;   /* seconds */
} shard_link;

/* One rank's plan. */
typedef struct shard_rank {
    uint64_t arena_bytes;
    uint64_t class_most[BP_CLASS_COUNT];
    uint64_t owned_bytes; /* of what is shared out */
    double sent_bytes;    /* in a step */
} shard_rank;

typedef struct shard_plan {
    uint32_t ranks;   /* 0: not asked for */
    uint32_t host;    /* ranks of a host */
    shard_rank *rank; /* [ranks] */
    shard_link link[SHARD_LINKS];
    uint64_t calls;   /* of the fabric in a step, each of ranks - 1 messages */
    double exchange;  /* seconds of them, as the programs begin and wait for them */
    double computing; /* seconds of a step by counted costs */
    double sent;      /* bytes in a step by the rank whose plan was counted */
} shard_plan;

/* --ranks and --shard become the spec's; of `auto`, nothing is shared yet. */
void shard_resolve(const settings *set, bp_spec *spec);
bool shard_automatic(const settings *set);

/* --bandwidth, --latency and --ranks-per-host for plan->ranks. BP_ERR_USAGE where they make no
 * sense. */
bp_status shard_plan_links(const settings *set, shard_plan *plan, bp_error *error) BP_MUST_CHECK;

/* Plans every rank; s is planned as rank 0. BP_ERR_USAGE for options that make no sense. Takes
 * memory, which shard_plan_end gives back. Cost: a plan for each rank where state is shared. */
bp_status shard_plan_find(session *s, shard_plan *plan) BP_MUST_CHECK;
void shard_plan_end(shard_plan *plan);

/* Counts what a step of a plan sends, and its computing (shard_wire.c). */
void shard_wire_count(const bp_plan *made, shard_plan *plan);
/* Predicts the seconds of its calls. One caller at a time. Cost: calls by ranks. */
void shard_wire_time(const bp_plan *made, shard_plan *plan);

/* Nothing where no ranks were asked for. with_map: the ranges that each owns as well. */
void shard_plan_json(output *out, const session *s, const shard_plan *plan);
void shard_plan_put(bp_text *text, const session *s, const shard_plan *plan, bool with_map);

#endif
