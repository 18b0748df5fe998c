/* SPDX-License-Identifier: MIT */
/* What --ranks, --shard and the links between hosts ask for. */
#include "tools/bedplate/planning/shard_plan.h"

#include <stdlib.h>
#include <string.h>

#include "device/fabric/threads.h"
#include "device/host/cpu.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/session/dry_run.h"

static const char where[] = "ranks";

/* Two numbers, the second as the first where it is not given. */
static bp_status read_pair(const char *text, const char *name, double least, double pair[2],
                           bp_error *error)
{
    const char *next = text;
    for (int i = 0; i < 2; i++) {
        char *end = NULL;
        pair[i] = strtod(next, &end);
        const bool last = *end == '\0';
        if (end == next || !(pair[i] >= least && pair[i] < 1e30) || (!last && *end != ',') ||
            (i == 1 && !last)) {
            return bp_error_set(error, BP_ERR_USAGE, where,
                                "has to be one number, or two with a comma: inside a host, between "
                                "hosts",
                                name);
        }
        pair[1] = pair[i];
        if (last) {
            return BP_OK;
        }
        next = end + 1;
    }
    return BP_OK;
}

static bp_sharing sharing_of(const char *word)
{
    bp_sharing sharing = BP_SHARING_NONE;
    while (sharing < BP_SHARINGS && strcmp(word, bp_sharing_name(sharing)) != 0) {
        sharing++;
    }
    return sharing < BP_SHARINGS ? sharing : BP_SHARING_NONE;
}

bool shard_automatic(const settings *set)
{
    return set->shard != NULL && strcmp(set->shard, "auto") == 0;
}

/* Ranks that a plan is made for, which are not there; 0: those that are. */
static uint32_t ranks_planned(const settings *set)
{
    const bool sequence = set->command == COMMAND_PLAN && set->sequence_ranks > 1;
    const bool asked = set->ranks_asked > 0;
    return (uint32_t)(asked ? set->ranks_asked : sequence ? set->sequence_ranks : 0);
}

void shard_plan_here(settings *set)
{
    const uint64_t here = ranks_in_process(set);
    if (here > 1 && here <= BP_THREADS_RANKS_MAX) {
        const uint64_t each = bp_cpu_count() / here;
        set->ranks_asked = set->ranks_asked > 0 ? set->ranks_asked : here;
        set->threads = set->threads > 0 ? set->threads : each > 0 ? each : 1;
    }
}

bp_status shard_plan_check(const settings *set, bp_error *error)
{
    const char *word = set->fabric;
    const uint64_t here = ranks_in_process(set);
    const bool one =
        strcmp(word, "auto") == 0 || strcmp(word, "none") == 0 || strcmp(word, "threads:1") == 0;
    if (one || set->unit != NULL) { /* a unit's launcher has the ranks */
        return BP_OK;
    }
    if (here < 2 || here > BP_THREADS_RANKS_MAX) {
        const bp_status status = bp_error_set(error, BP_ERR_USAGE, where,
                                              "a plan needs the number of ranks", "--fabric");
        bp_error_found(error, word, strlen(word));
        bp_error_right(error, "threads:1 to threads:16, or --ranks N for ranks in processes");
        return status;
    }
    if (set->ranks_asked != here) {
        return bp_error_numbers(error, BP_ERR_USAGE, where, "--fabric has another number of ranks",
                                "--ranks", (int64_t)set->ranks_asked, (int64_t)here);
    }
    return BP_OK;
}

void shard_resolve(const settings *set, bp_spec *spec)
{
    spec->sharing = set->shard != NULL ? sharing_of(set->shard) : BP_SHARING_NONE;
    spec->gather_ahead = (uint32_t)set->shard_ahead;
    spec->bucket_bytes = set->bucket_mb << 20;
    const uint32_t planned = ranks_planned(set);
    spec->ranks = planned > 0 ? planned : spec->ranks;
}

bp_status shard_plan_links(const settings *set, bp_wire *wire, bp_error *error)
{
    const uint64_t count = wire->ranks;
    const uint64_t asked = set->ranks_per_host > 0 ? set->ranks_per_host : count;
    const uint64_t host = asked < count ? asked : count;
    double bandwidth[2], latency[2];
    if ((count & (count - 1)) != 0) {
        return bp_error_set(
            error, BP_ERR_USAGE, where,
            "the number of ranks is a power of two: it divides the virtual ranks of a step",
            "--ranks");
    }
    if (count % host != 0) {
        return bp_error_numbers(error, BP_ERR_USAGE, where,
                                "every host has as many ranks as the others: the number divides "
                                "that of all ranks",
                                "--ranks-per-host", (int64_t)host, (int64_t)count);
    }
    BP_TRY(read_pair(set->bandwidth, "--bandwidth", 1.0, bandwidth, error));
    BP_TRY(read_pair(set->latency, "--latency", 0.0, latency, error));
    wire->host = (uint32_t)host;
    wire->link[BP_WIRE_INSIDE] = (bp_wire_link){host - 1, 0.0, bandwidth[0], latency[0]};
    wire->link[BP_WIRE_BETWEEN] = (bp_wire_link){count - host, 0.0, bandwidth[1], latency[1]};
    return BP_OK;
}

/* Counts what a step of a plan sends and predicts its seconds. One caller at a time. */
static void shard_wire(const bp_plan *made, bp_wire *wire)
{
    static bp_wire_clocks clocks; /* large */
    bp_wire_count(made, wire);
    bp_wire_time(made, wire, &clocks);
}

bp_status shard_plan_find(session *s, shard_plan *plan)
{
    const uint32_t count = s->spec.ranks;
    *plan = (shard_plan){.ranks = ranks_planned(s->set) > 0 ? count : 0, .wire = {.ranks = count}};
    if (plan->ranks == 0) {
        return BP_OK;
    }
    BP_TRY(shard_plan_links(s->set, &plan->wire, &s->error));
    plan->rank = calloc(count, sizeof *plan->rank);
    if (plan->rank == NULL) {
        return bp_error_set(&s->error, BP_ERR_FIT, where, "no memory for the plans of all ranks",
                            "--ranks");
    }
    shard_wire(&s->plan, &plan->wire);
    dry_run_advance();
    return bp_share_ranks(&s->plan, &dry_run_lender, plan->rank, &s->error);
}

void shard_plan_end(shard_plan *plan)
{
    free(plan->rank);
    plan->rank = NULL;
}
