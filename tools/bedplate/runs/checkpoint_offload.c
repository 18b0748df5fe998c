/* SPDX-License-Identifier: MIT */
/* The last whole step in two places: weights in a checkpoint, states in the offload file. */
#include "tools/bedplate/runs/checkpoint_offload.h"

#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/runs/checkpoint_keys.h"
#include "tools/bedplate/runs/checkpoint_ranks.h"

static const char where[] = "offload";
static const char none[BP_DIGEST_TEXT] = "----------------"; /* as long as a digest */

/* Weights are in every checkpoint, wherever they live, so that it can be used without the file. */
static bool is_offloaded(const session *s, const bp_state_tensor *tensor)
{
    const bp_buffer *buffer = bp_runtime_find(&s->runtime, tensor->name);
    return buffer != NULL && buffer->space == BP_SPACE_OFFLOAD && !tensor->weight;
}

bp_status checkpoint_offload_begin(checkpoint *c)
{
    const size_t count = c->checkpoint.tensor_count;
    if (!offload_versions(&c->s->offload)) {
        return BP_OK;
    }
    c->above = c->tensors + count; /* there is room for two lists */
    c->above_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_offloaded(c->s, &c->tensors[i])) {
            c->above[c->above_count++] = c->tensors[i];
        }
    }
    memcpy(c->offload_text, none, sizeof none);
    return BP_OK;
}

/* The digest in a checkpoint's keys; NULL: all of the state is there. */
static const char *left_offloaded(bp_pairs saved)
{
    const char *text = bp_pairs_find(saved, CHECKPOINT_OFFLOAD_KEY);
    return text != NULL && strcmp(text, none) != 0 ? text : NULL;
}

bool checkpoint_offload_digest(bp_pairs saved, uint64_t *digest)
{
    const char *text = left_offloaded(saved);
    *digest = text != NULL ? strtoull(text, NULL, 16) : *digest;
    return text != NULL;
}

bp_status checkpoint_offload_find(session *s, bp_pairs saved, uint64_t step)
{
    if (left_offloaded(saved) == NULL) {
        return BP_OK;
    }
    if (!s->offload.two) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "a part of this checkpoint's state is in the offload file; give "
                            "that file, and --offload-two-versions",
                            "--offload");
    }
    s->offload.resumes = true;
    s->offload.step = step;
    return BP_OK;
}

bp_status checkpoint_offload_save(checkpoint *c)
{
    session *s = c->s;
    const bp_checkpoint all = c->checkpoint;
    uint64_t digest;
    memcpy(c->offload_text, none, sizeof none);
    if (!offload_versions(&s->offload) || c->last || c->checkpoint.step >= c->total) {
        return checkpoint_ranks_save(c);
    }
    BP_TRY(bp_checkpoint_digest(&c->place, &c->checkpoint, &digest));
    bp_digest_text(digest, c->offload_text);
    BP_TRY(bp_tier_versions_commit(&s->offload.versions, c->checkpoint.step, c->place.error));
    c->checkpoint.tensors = c->above;
    c->checkpoint.tensor_count = c->above_count;
    const bp_status status = checkpoint_ranks_save(c);
    c->checkpoint.tensors = all.tensors;
    c->checkpoint.tensor_count = all.tensor_count;
    BP_TRY(status);
    bp_tier_versions_confirm(&s->offload.versions);
    c->digest = digest;
    return BP_OK;
}

bp_status checkpoint_offload_load(checkpoint *c, bp_pairs saved)
{
    session *s = c->s;
    char text[BP_DIGEST_TEXT], now[BP_DIGEST_TEXT];
    const char *left = left_offloaded(saved);
    if (left == NULL) {
        return bp_checkpoint_load(&c->place, c->newest.path, &c->checkpoint, &c->digest);
    }
    bp_checkpoint above = c->checkpoint;
    memcpy(text, left, sizeof text); /* the keys lie in the scratch */
    above.tensors = c->above;
    above.tensor_count = c->above_count;
    BP_TRY(bp_tier_versions_back(&s->offload.versions, &s->error));
    BP_TRY(bp_checkpoint_load(&c->place, c->newest.path, &above, NULL));
    BP_TRY(bp_checkpoint_digest(&c->place, &c->checkpoint, &c->digest));
    bp_digest_text(c->digest, now);
    return strcmp(now, text) == 0
               ? BP_OK
               : bp_error_set(&s->error, BP_ERR_DATA, where,
                              "the offload file holds another state than the checkpoint records",
                              s->offload.path);
}
