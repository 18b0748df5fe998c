/* SPDX-License-Identifier: MIT */
/* Checkpoints of several ranks. */
#include "tools/bedplate/runs/checkpoint_ranks.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "core/base/storage.h"
#include "core/run/checkpoint/checkpoint_ranks.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/app/store_lasting.h"
#include "tools/bedplate/app/store_none.h"
#include "tools/bedplate/app/output.h"

/* Another number for every save of every process. */
static uint64_t ranks_save_stamp(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now); /* the process's number is left */
    return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) ^ (uint64_t)getpid() << 44;
}

/* The first rank alone; a medium that fails does not end the reading that all ranks do together. */
static bp_status ranks_save_alone(checkpoint *c)
{
    store_lasting lasting;
    bp_checkpoint_location place = c->place;
    bp_store *medium = place.store;
    store_lasting_begin(&lasting, medium);
    place.store = &lasting.store;
    BP_TRY(bp_checkpoint_save(&place, &c->checkpoint, &c->digest));
    const bp_status status = store_lasting_end(&lasting);
    return status == BP_OK ? BP_OK
                           : bp_storage_failed(place.error, medium, "save", place.directory);
}

/* What the others do meanwhile. */
static bp_status ranks_save_nowhere(checkpoint *c)
{
    bp_checkpoint_location place = c->place;
    bp_store none = store_none();
    place.store = &none;
    return bp_checkpoint_save(&place, &c->checkpoint, &c->digest);
}

bp_status checkpoint_ranks_save(checkpoint *c)
{
    session *s = c->s;
    const bool leads = ranks_leads(s->set);
    if (ranks_size(s->set) > 1 && !c->apart) {
        const bp_checkpoint_ranks team =
            bp_runtime_checkpoint_ranks(&s->runtime, ranks_save_stamp());
        BP_TRY(bp_checkpoint_save_ranks(&c->place, &c->checkpoint, &team, &c->digest, &c->apart));
        if (!c->apart) {
            return BP_OK;
        }
        if (leads && !s->set->quiet) {
            output_print(stderr,
                         "bedplate: %s: not every rank can write there; rank 0 writes alone\n",
                         c->place.directory);
        }
    }
    if (s->plan.builder.shards.ranks == 0) {
        return leads ? bp_checkpoint_save(&c->place, &c->checkpoint, &c->digest) : BP_OK;
    }
    return leads ? ranks_save_alone(c) : ranks_save_nowhere(c);
}
