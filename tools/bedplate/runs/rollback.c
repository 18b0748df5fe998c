/* SPDX-License-Identifier: MIT */
/* Back to an earlier state. */
#include "tools/bedplate/runs/rollback.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/storage.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/record/train_record.h"
#include "tools/bedplate/app/output.h"

bp_status rollback_begin(saving *v)
{
    const checkpoint *c = v->points;
    if (c->watch.policy != ANOMALY_ROLLBACK || c->found) {
        return BP_OK;
    }
    return saving_save(v, CHECKPOINT_BETWEEN, true);
}

bp_status rollback_take(checkpoint *c, const bp_outcome *outcome)
{
    session *s = c->s;
    char name[40], path[BP_STORE_PATH_MAX];
    uint64_t digest = 0;
    if (outcome->verdict != BP_STEP_BACK) {
        return BP_OK;
    }
    snprintf(name, sizeof name, "checkpoint-%" PRIu64, c->target);
    BP_TRY(bp_storage_join(path, s->set->output_dir, name, &s->error));
    const bp_status status = bp_checkpoint_load(&c->place, path, &c->checkpoint, &digest);
    if (status != BP_OK) {
        /* What is here now is neither the state before the spike nor that of the checkpoint. */
        c->failed = true;
        output_print(stderr,
                     "bedplate: --on-spike: %s, which step %" PRIu64
                     " goes back to, cannot be loaded; "
                     "the run continues from an older checkpoint (--resume-from-checkpoint)\n",
                     path, outcome->step);
        return status;
    }
    if (ranks_leads(s->set)) {
        output_print(stderr,
                     "bedplate: step %" PRIu64 ": back to the state of step %" PRIu64
                     "; the %" PRIu64 " batches since are passed over\n",
                     outcome->step, c->target, outcome->step - c->target);
    }
    train_record_roll(c, outcome->step, digest);
    return BP_OK;
}

/* Copies all of the state, tensor behind tensor, out of the arena or into it. */
static bp_status rollback_move(const checkpoint *c, unsigned char *bytes, bool out)
{
    const bp_checkpoint *saved = &c->checkpoint;
    const bp_state_io *io = &saved->io;
    for (size_t i = 0; i < saved->tensor_count; i++) {
        const bp_state_tensor *t = &saved->tensors[i];
        BP_TRY(out ? io->read(io->user, t->handle, 0, bytes, (size_t)t->bytes)
                   : io->write(io->user, t->handle, 0, bytes, (size_t)t->bytes));
        bytes += t->bytes;
    }
    return BP_OK;
}

bp_status rollback_keep(const checkpoint *c, rollback_copy *copy, uint64_t step)
{
    size_t bytes = 0;
    for (size_t i = 0; i < c->checkpoint.tensor_count; i++) {
        bytes += (size_t)c->checkpoint.tensors[i].bytes;
    }
    copy->bytes = copy->bytes != NULL ? copy->bytes : malloc(bytes + 1);
    if (copy->bytes == NULL) {
        return bp_error_set(&c->s->error, BP_ERR_FIT, "replay",
                            "no memory for the state that a spike goes back to", "");
    }
    copy->step = step;
    BP_TRY(rollback_move(c, copy->bytes, true));
    return bp_checkpoint_digest(&c->place, &c->checkpoint, &copy->digest);
}

bp_status rollback_return(const checkpoint *c, const rollback_copy *copy)
{
    return rollback_move(c, copy->bytes, false);
}

void rollback_forget(rollback_copy *copy)
{
    free(copy->bytes);
    copy->bytes = NULL;
}
