/* SPDX-License-Identifier: MIT */
/* The last whole step in two places: weights in a snapshot, states in the file below. */
#include "tools/bedplate/runs/checkpoint_below.h"

#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/runs/checkpoint_keys.h"
#include "tools/bedplate/runs/checkpoint_ranks.h"

static const char where[] = "below";
static const char none[BP_DIGEST_TEXT] = "----------------"; /* as long as a digest */

/* Weights are in every snapshot, wherever they live, so that it can be used without the file. */
static bool lives_below(const session *s, const bp_state_tensor *tensor)
{
    const bp_buffer *buffer = bp_runtime_find(&s->runtime, tensor->name);
    return buffer != NULL && buffer->space == BP_SPACE_BELOW && !tensor->weight;
}

bp_status checkpoint_below_begin(checkpoint *c)
{
    const size_t count = c->snapshot.tensor_count;
    if (!below_versions(&c->s->below)) {
        return BP_OK;
    }
    c->above = c->tensors + count; /* there is room for two lists */
    c->above_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!lives_below(c->s, &c->tensors[i])) {
            c->above[c->above_count++] = c->tensors[i];
        }
    }
    memcpy(c->below_text, none, sizeof none);
    return BP_OK;
}

/* The digest in a snapshot's keys; NULL: all of the state is there. */
static const char *left_below(bp_pairs saved)
{
    const char *text = bp_pairs_find(saved, CHECKPOINT_BELOW_KEY);
    return text != NULL && strcmp(text, none) != 0 ? text : NULL;
}

bool checkpoint_below_digest(bp_pairs saved, uint64_t *digest)
{
    const char *text = left_below(saved);
    *digest = text != NULL ? strtoull(text, NULL, 16) : *digest;
    return text != NULL;
}

bp_status checkpoint_below_find(session *s, bp_pairs saved, uint64_t step)
{
    if (left_below(saved) == NULL) {
        return BP_OK;
    }
    if (!s->below.two) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "a part of this snapshot's state is in the file below the arena; give "
                            "that file, and --below-two-versions",
                            "--below");
    }
    s->below.resumes = true;
    s->below.step = step;
    return BP_OK;
}

bp_status checkpoint_below_save(checkpoint *c)
{
    session *s = c->s;
    const bp_snapshot all = c->snapshot;
    uint64_t digest;
    memcpy(c->below_text, none, sizeof none);
    if (!below_versions(&s->below) || c->last || c->snapshot.step >= c->total) {
        return checkpoint_ranks_save(c);
    }
    BP_TRY(bp_snapshot_digest(&c->place, &c->snapshot, &digest));
    bp_digest_text(digest, c->below_text);
    BP_TRY(bp_tier_versions_commit(&s->below.versions, c->snapshot.step, c->place.error));
    c->snapshot.tensors = c->above;
    c->snapshot.tensor_count = c->above_count;
    const bp_status status = checkpoint_ranks_save(c);
    c->snapshot.tensors = all.tensors;
    c->snapshot.tensor_count = all.tensor_count;
    BP_TRY(status);
    bp_tier_versions_confirm(&s->below.versions);
    c->digest = digest;
    return BP_OK;
}

bp_status checkpoint_below_load(checkpoint *c, bp_pairs saved)
{
    session *s = c->s;
    char text[BP_DIGEST_TEXT], now[BP_DIGEST_TEXT];
    const char *left = left_below(saved);
    if (left == NULL) {
        return bp_snapshot_load(&c->place, c->newest.path, &c->snapshot, &c->digest);
    }
    bp_snapshot above = c->snapshot;
    memcpy(text, left, sizeof text); /* the keys lie in the scratch */
    above.tensors = c->above;
    above.tensor_count = c->above_count;
    BP_TRY(bp_tier_versions_back(&s->below.versions, &s->error));
    BP_TRY(bp_snapshot_load(&c->place, c->newest.path, &above, NULL));
    BP_TRY(bp_snapshot_digest(&c->place, &c->snapshot, &c->digest));
    bp_digest_text(c->digest, now);
    return strcmp(now, text) == 0
               ? BP_OK
               : bp_error_set(&s->error, BP_ERR_DATA, where,
                              "the file below holds another state than the snapshot says",
                              s->below.path);
}
