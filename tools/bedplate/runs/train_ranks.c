/* SPDX-License-Identifier: MIT */
/* Ranks meet before the first step and after each. */
#include "tools/bedplate/runs/train_ranks.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tools/bedplate/app/device_choice.h"
#include "tools/bedplate/ranks/ranks.h"

bp_status train_ranks_compare(training *t)
{
    static ranks_facts facts; /* in turn */
    const settings *set = t->s.set;
    if (ranks_size(set) == 1) {
        return BP_OK;
    }
    ranks_facts_fill(&facts, set, t->identity);
    facts.device = bp_device_find(t->s.spec.device, &t->s.spec.device_options).identity;
    facts.total = t->total;
    facts.from = t->points.found ? t->points.newest.step : 0;
    const ranks_facts mine = facts;
    return ranks_compare(set, &mine, &t->s.error);
}

bp_status train_ranks_step(training *t, bp_outcome *outcome)
{
    ranks_note(t->s.set, t->s.runtime.steps + 1);
    BP_TRY(policy_prepare(&t->policy, t->s.runtime.steps));
    ranks_leave_turn(t->s.set);
    const bp_status status = bp_runtime_step(&t->s.runtime, &t->feed, outcome);
    ranks_take_turn(t->s.set);
    policy_outcome(&t->policy, outcome);
    return status;
}

bp_status train_ranks_agree(training *t, train_ranks_word *mine)
{
    const settings *set = t->s.set;
    train_ranks_word all[RANKS_MOST];
    BP_TRY(ranks_gather(set, mine, sizeof *mine, all, &t->s.error));
    for (uint32_t i = 0; i < ranks_size(set); i++) {
        if (memcmp(&all[i].step, &all[0].step, sizeof *mine - offsetof(train_ranks_word, step)) !=
            0) {
            char name[64];
            snprintf(name, sizeof name, "rank %u after step %" PRIu64, i, mine->step);
            return bp_error_set(&t->s.error, BP_ERR_FABRIC, "train",
                                "its loss is not that of rank 0: the ranks have come apart", name);
        }
    }
    for (uint32_t i = 0; i < ranks_size(set); i++) {
        mine->signal = mine->signal != 0 ? mine->signal : all[i].signal;
        mine->stop = mine->stop != 0 ? mine->stop : all[i].stop;
        mine->save |= all[i].save;
    }
    return BP_OK;
}
