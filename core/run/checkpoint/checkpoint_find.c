/* SPDX-License-Identifier: MIT */
/* Which checkpoints are there: the newest valid one, and removing what is too many. */
#include "core/run/checkpoint/checkpoint_private.h"

#include <string.h>

#include "core/base/storage.h"

/* A name on the medium that is a checkpoint's. Of two with the same step the replaced one is older.
 */
typedef struct candidate {
    bool any;
    bool replaced;
    uint64_t step;
} candidate;

static bool parse_name(const char *name, const char *prefix, uint64_t *step)
{
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 && bp_checkpoint_parse_step(name + length, step);
}

static bool parse_candidate(const char *name, candidate *found)
{
    found->any = true;
    found->replaced = false;
    if (parse_name(name, BP_CHECKPOINT_FINAL, &found->step)) {
        return true;
    }
    found->replaced = true;
    return parse_name(name, BP_CHECKPOINT_REPLACED, &found->step);
}

static bool newer(const candidate *a, const candidate *b)
{
    if (a->step != b->step) {
        return a->step > b->step;
    }
    return b->replaced && !a->replaced;
}

/* Looks for the newest candidate that is older than `bound`. */
typedef struct search {
    candidate bound; /* any = false: no bound */
    candidate best;
} search;

static bp_status see_newest(void *user, const char *name)
{
    search *s = user;
    candidate found;
    if (!parse_candidate(name, &found)) {
        return BP_OK;
    }
    if (s->bound.any && !newer(&s->bound, &found)) {
        return BP_OK;
    }
    if (!s->best.any || newer(&found, &s->best)) {
        s->best = found;
    }
    return BP_OK;
}

static bp_status list(const bp_checkpoint_location *location,
                      bp_status (*each)(void *user, const char *name), void *user)
{
    if (location->store->list(location->store, location->directory, each, user) != BP_OK) {
        return bp_storage_failed(location->error, location->store, "list", location->directory);
    }
    return BP_OK;
}

static bp_status candidate_path(const bp_checkpoint_location *location, const candidate *which,
                                char path[BP_STORE_PATH_MAX])
{
    const char *prefix = which->replaced ? BP_CHECKPOINT_REPLACED : BP_CHECKPOINT_FINAL;
    return bp_checkpoint_path(location, prefix, which->step, path);
}

/* Verifies one candidate. Damage is told to the caller; what is wrong with the call or the storage
 * is an error: of a checkpoint that cannot be read nobody knows whether it is damaged. */
static bp_status try_candidate(const bp_checkpoint_location *location, const char *path,
                               bp_checkpoint_found *found, bp_error *reason)
{
    bp_checkpoint_location inner = *location;
    inner.error = reason;
    *reason = (bp_error){.code = BP_OK};
    bp_status status = bp_checkpoint_verify(&inner, path, found);
    if (status == BP_OK || status == BP_ERR_DATA) {
        return BP_OK;
    }
    if (location->error != NULL && location->error->code == BP_OK) {
        *location->error = *reason;
    }
    return status;
}

bp_status bp_checkpoint_find(const bp_checkpoint_location *location, bp_checkpoint_damaged damaged,
                             void *user, bp_checkpoint_found *found, bool *any)
{
    *any = false;
    bool there;
    if (location->store->exists(location->store, location->directory, &there) != BP_OK) {
        return bp_storage_failed(location->error, location->store, "look up", location->directory);
    }
    search s = {.bound = {.any = false}};
    if (!there) {
        const bp_status listed =
            location->store->list(location->store, location->directory, see_newest, &s);
        return listed == BP_OK
                   ? bp_error_set(location->error, BP_ERR_STORE, "checkpoint",
                                  "the directory can be listed, not looked up", location->directory)
                   : BP_OK;
    }
    for (;;) {
        s.best.any = false;
        /* a listing that broke off looks like a whole one: the newest of two counts */
        BP_TRY(list(location, see_newest, &s));
        BP_TRY(list(location, see_newest, &s));
        if (!s.best.any) {
            return BP_OK;
        }
        char path[BP_STORE_PATH_MAX];
        BP_TRY(candidate_path(location, &s.best, path));
        bp_error reason;
        BP_TRY(try_candidate(location, path, found, &reason));
        if (reason.code == BP_OK) {
            *any = true;
            return BP_OK;
        }
        if (damaged != NULL) {
            damaged(user, path, &reason);
        }
        s.bound = s.best;
    }
}

/* What pruning wants to know of a listing. */
typedef struct census {
    uint64_t newest;      /* later steps are not counted */
    uint64_t spare;       /* nor is this one, unless it is the newest */
    uint64_t verified;    /* nor this one */
    const uint64_t *back; /* nor this */
    uint64_t count;
    uint64_t oldest;
    const char *prefix; /* the step of one name with this prefix is also wanted */
    bool any;
    uint64_t step;
} census;

static bp_status see_all(void *user, const char *name)
{
    census *c = user;
    uint64_t step;
    if (parse_name(name, c->prefix, &step)) {
        c->any = true;
        c->step = step;
    }
    bool counts = parse_name(name, BP_CHECKPOINT_FINAL, &step) && step <= c->newest;
    const bool back = c->back != NULL && step == *c->back;
    const bool spared = back || (step > 0 && (step == c->spare || step == c->verified));
    if (counts && (!spared || step == c->newest)) {
        c->oldest = c->count == 0 || step < c->oldest ? step : c->oldest;
        c->count++;
    }
    return BP_OK;
}

static bp_status move(const bp_checkpoint_location *location, const char *from, const char *to)
{
    bp_store *store = location->store;
    if (store->rename(store, from, to) != BP_OK) {
        return bp_storage_failed(location->error, store, "rename", from);
    }
    if (store->sync_directory(store, location->directory) != BP_OK) {
        return bp_storage_failed(location->error, store, "sync directory", location->directory);
    }
    return BP_OK;
}

/* A replaced checkpoint goes when its replacement is there; else it takes its name back. */
static bp_status resolve_replaced(const bp_checkpoint_location *location, uint64_t step)
{
    char replaced[BP_STORE_PATH_MAX];
    char final[BP_STORE_PATH_MAX];
    BP_TRY(bp_checkpoint_path(location, BP_CHECKPOINT_REPLACED, step, replaced));
    BP_TRY(bp_checkpoint_path(location, BP_CHECKPOINT_FINAL, step, final));
    bool there;
    if (location->store->exists(location->store, final, &there) != BP_OK) {
        return bp_storage_failed(location->error, location->store, "look up", final);
    }
    if (!there) {
        return move(location, replaced, final);
    }
    return bp_storage_remove_directory(location->store, replaced, location->error);
}

static bp_status remove_temporary(const bp_checkpoint_location *location, uint64_t step)
{
    char path[BP_STORE_PATH_MAX];
    BP_TRY(bp_checkpoint_path(location, BP_CHECKPOINT_TEMPORARY, step, path));
    return bp_storage_remove_directory(location->store, path, location->error);
}

/* Away by one rename, so that no half of it is ever taken for a checkpoint; then its files. */
static bp_status remove_checkpoint(const bp_checkpoint_location *location, uint64_t step)
{
    char final[BP_STORE_PATH_MAX];
    char temporary[BP_STORE_PATH_MAX];
    BP_TRY(bp_checkpoint_path(location, BP_CHECKPOINT_FINAL, step, final));
    BP_TRY(bp_checkpoint_path(location, BP_CHECKPOINT_TEMPORARY, step, temporary));
    BP_TRY(move(location, final, temporary));
    return remove_temporary(location, step);
}

/* Lets `settle` deal with every name that has the prefix. */
static bp_status resolve_all(const bp_checkpoint_location *location, const char *prefix,
                             bp_status (*resolve)(const bp_checkpoint_location *location,
                                                  uint64_t step))
{
    for (;;) {
        census c = {.prefix = prefix};
        BP_TRY(list(location, see_all, &c));
        if (!c.any) {
            return BP_OK;
        }
        BP_TRY(resolve(location, c.step));
    }
}

static bp_status see_later(void *user, const char *name)
{
    census *c = user;
    uint64_t step;
    if (parse_name(name, BP_CHECKPOINT_FINAL, &step) &&
        (step > c->newest || c->newest == BP_CHECKPOINT_NONE)) {
        c->any = true;
        c->step = step;
    }
    return BP_OK;
}

bp_status bp_checkpoint_prune_later(const bp_checkpoint_location *location, uint64_t newest)
{
    for (;;) {
        census c = {.newest = newest};
        BP_TRY(list(location, see_later, &c));
        if (!c.any) {
            return BP_OK;
        }
        BP_TRY(remove_checkpoint(location, c.step));
    }
}

bp_status bp_checkpoint_prune(const bp_checkpoint_location *location, uint64_t newest,
                              uint64_t keep)
{
    BP_TRY(resolve_all(location, BP_CHECKPOINT_TEMPORARY, remove_temporary));
    BP_TRY(resolve_all(location, BP_CHECKPOINT_REPLACED, resolve_replaced));
    while (keep > 0) {
        census c = {.newest = newest,
                    .spare = location->spare,
                    .verified = location->verified,
                    .back = location->back,
                    .prefix = BP_CHECKPOINT_TEMPORARY};
        BP_TRY(list(location, see_all, &c));
        if (c.count <= keep) {
            break;
        }
        BP_TRY(remove_checkpoint(location, c.oldest));
    }
    return BP_OK;
}
