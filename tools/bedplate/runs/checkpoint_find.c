/* SPDX-License-Identifier: MIT */
/* Which checkpoint is meant. */
#include "tools/bedplate/runs/checkpoint_find.h"

#include <stdio.h>

#include "core/base/storage.h"
#include "tools/bedplate/models/model_files.h"
#include "tools/bedplate/app/output.h"

static const char where[] = "checkpoint";

static void print_damaged(void *user, const char *path, const bp_error *reason)
{
    (void)user;
    output_print(stderr, "bedplate: %s: the checkpoint is damaged and is passed over: %s: %s\n",
                 path, reason->name, reason->text != NULL ? reason->text : "");
}

bp_status checkpoint_find_newest(const bp_checkpoint_location *place, bp_checkpoint_found *found,
                                 bool *any)
{
    return bp_checkpoint_find(place, print_damaged, NULL, found, any);
}

bp_status checkpoint_find_at(const bp_checkpoint_location *place, const char *path,
                             const char *option, bp_checkpoint_found *found)
{
    char state[BP_STORE_PATH_MAX];
    bool exists = false, any = false;
    BP_TRY(bp_storage_join(state, path, "state.safetensors", place->error));
    BP_TRY(bp_storage_exists(place->store, state, &exists, place->error));
    if (exists) {
        return bp_checkpoint_verify(place, path, found);
    }
    bp_checkpoint_location inside = *place;
    inside.directory = path;
    BP_TRY(checkpoint_find_newest(&inside, found, &any));
    if (any) {
        return BP_OK;
    }
    bp_status status = bp_error_set(
        place->error, BP_ERR_DATA, where,
        "there is no checkpoint: give a checkpoint-N, or a directory that has one", path);
    bp_error_prefix(place->error, option);
    return status;
}

bool checkpoint_find_inside(const char *directory, const char *path)
{
    char parent[BP_STORE_PATH_MAX];
    return model_files_same(directory, path) ||
           (bp_storage_join(parent, path, "..", NULL) == BP_OK &&
            model_files_same(directory, parent));
}
