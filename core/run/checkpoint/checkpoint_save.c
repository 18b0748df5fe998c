/* SPDX-License-Identifier: MIT */
/* Saving a checkpoint: everything into a temporary directory, synced, then one rename. */
#include "core/run/checkpoint/checkpoint_private.h"

#include <string.h>

#include "core/base/storage.h"

static bp_status failed(const bp_checkpoint_location *location, const char *call, const char *path)
{
    return bp_storage_failed(location->error, location->store, call, path);
}

static bp_status sync_directory(const bp_checkpoint_location *location, const char *path)
{
    bp_status status = location->store->sync_directory(location->store, path);
    return status == BP_OK ? BP_OK : failed(location, "sync directory", path);
}

static bp_status exists(const bp_checkpoint_location *location, const char *path, bool *there)
{
    bp_status status = location->store->exists(location->store, path, there);
    return status == BP_OK ? BP_OK : failed(location, "look up", path);
}

static bp_status rename_synced(const bp_checkpoint_location *location, const char *from,
                               const char *to)
{
    if (location->store->rename(location->store, from, to) != BP_OK) {
        return failed(location, "rename", from);
    }
    return sync_directory(location, location->directory);
}

static bp_status remove_if_there(const bp_checkpoint_location *location, const char *path)
{
    bool there;
    BP_TRY(exists(location, path, &there));
    return there ? bp_storage_remove_directory(location->store, path, location->error) : BP_OK;
}

static bp_status make_directory(const bp_checkpoint_location *location, const char *path)
{
    bp_status status = location->store->make_directory(location->store, path);
    return status == BP_OK ? BP_OK : failed(location, "make directory", path);
}

/* Creates the output directory and makes its name durable in its parent. */
static bp_status prepare_output(const bp_checkpoint_location *location)
{
    bool there;
    BP_TRY(exists(location, location->directory, &there));
    if (there) {
        return BP_OK;
    }
    BP_TRY(make_directory(location, location->directory));
    char parent[BP_STORE_PATH_MAX];
    BP_TRY(bp_storage_join(parent, "", location->directory, location->error));
    char *slash = strrchr(parent, '/');
    if (slash == NULL) {
        return sync_directory(location, ".");
    }
    slash[slash == parent ? 1 : 0] = '\0';
    return sync_directory(location, parent);
}

static bp_status read_tensor(void *user, const bp_tensor_entry *entry, uint64_t offset, void *to,
                             size_t bytes)
{
    const bp_checkpoint *checkpoint = user;
    const bp_state_tensor *tensor = &checkpoint->tensors[entry->handle];
    return checkpoint->io.read(checkpoint->io.user, tensor->handle, offset, to, bytes);
}

uint64_t bp_checkpoint_state_digest(const bp_checkpoint *checkpoint, const uint64_t *digests)
{
    bp_digest sum;
    bp_digest_begin(&sum, 0);
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        const bp_state_tensor *tensor = &checkpoint->tensors[i];
        bp_digest_add_tensor(&sum, tensor->name, tensor->dtype, tensor->shape, tensor->rank,
                             digests[i]);
    }
    return bp_digest_end(&sum);
}

static void keep_digests(const bp_safetensors_plan *plan, uint64_t *digests)
{
    for (size_t i = 0; i < plan->entry_count; i++) {
        digests[plan->entries[i].handle] = plan->entries[i].digest;
    }
}

/* Writes one tensor file; for the state file, whose header comes last, the sum is known by then. */
static bp_status write_tensors(const bp_checkpoint_location *location,
                               const bp_checkpoint *checkpoint, bp_checkpoint_layout *form,
                               const char *directory, const char *name)
{
    bool last = strcmp(name, BP_CHECKPOINT_STATE) == 0;
    const bp_safetensors_plan *plan = last ? &form->state : &form->model;
    char path[BP_STORE_PATH_MAX];
    BP_TRY(bp_storage_join(path, directory, name, location->error));
    bp_safetensors_writer writer;
    BP_TRY(bp_safetensors_begin(&writer, location->store, path, plan, location->error));
    BP_TRY(bp_safetensors_write(&writer, location->staging, read_tensor,
                                (void *)(uintptr_t)checkpoint));
    keep_digests(plan, form->digests);
    if (last) {
        bp_digest_text(bp_checkpoint_state_digest(checkpoint, form->digests), form->sum);
    }
    return bp_safetensors_end(&writer);
}

bp_status bp_checkpoint_write_blobs(const bp_checkpoint_location *location,
                                    const bp_checkpoint *checkpoint, const char *directory)
{
    for (size_t i = 0; i < checkpoint->blob_count; i++) {
        const bp_blob *blob = &checkpoint->blobs[i];
        char path[BP_STORE_PATH_MAX];
        BP_TRY(bp_storage_join(path, directory, blob->name, location->error));
        BP_TRY(bp_storage_write_file(location->store, path, blob->bytes, blob->length,
                                     location->error));
    }
    return BP_OK;
}

/* One of the same step makes room first, under a name by which it is still found. */
bp_status bp_checkpoint_publish(const bp_checkpoint_location *location, uint64_t step,
                                const char *temporary)
{
    char final[BP_STORE_PATH_MAX];
    char replaced[BP_STORE_PATH_MAX];
    BP_TRY(sync_directory(location, temporary));
    BP_TRY(bp_checkpoint_path(location, BP_CHECKPOINT_FINAL, step, final));
    BP_TRY(bp_checkpoint_path(location, BP_CHECKPOINT_REPLACED, step, replaced));
    bool there;
    BP_TRY(exists(location, final, &there));
    if (there) {
        BP_TRY(remove_if_there(location, replaced));
        BP_TRY(rename_synced(location, final, replaced));
    }
    BP_TRY(rename_synced(location, temporary, final));
    return remove_if_there(location, replaced);
}

bp_status bp_checkpoint_make_temporary(const bp_checkpoint_location *location,
                                       const char *temporary)
{
    BP_TRY(prepare_output(location));
    BP_TRY(remove_if_there(location, temporary));
    return make_directory(location, temporary);
}

bp_status bp_checkpoint_save(const bp_checkpoint_location *location,
                             const bp_checkpoint *checkpoint, uint64_t *digest)
{
    bp_checkpoint_layout form;
    BP_TRY(bp_checkpoint_make_layout(location, checkpoint, &form));
    char temporary[BP_STORE_PATH_MAX];
    BP_TRY(bp_checkpoint_path(location, BP_CHECKPOINT_TEMPORARY, checkpoint->step, temporary));
    BP_TRY(bp_checkpoint_make_temporary(location, temporary));
    BP_TRY(bp_checkpoint_write_blobs(location, checkpoint, temporary));
    BP_TRY(write_tensors(location, checkpoint, &form, temporary, BP_CHECKPOINT_MODEL));
    BP_TRY(write_tensors(location, checkpoint, &form, temporary, BP_CHECKPOINT_STATE));
    BP_TRY(bp_checkpoint_publish(location, checkpoint->step, temporary));
    if (digest != NULL) {
        *digest = bp_checkpoint_state_digest(checkpoint, form.digests);
    }
    return BP_OK;
}

static bp_status digest_tensor(const bp_checkpoint_location *location, const bp_state_io *io,
                               const bp_state_tensor *tensor, uint64_t *digest)
{
    bp_digest running;
    bp_digest_begin(&running, 0);
    for (uint64_t offset = 0; offset < tensor->bytes;) {
        uint64_t left = tensor->bytes - offset;
        size_t capacity = location->staging.capacity;
        size_t piece = left < capacity ? (size_t)left : capacity;
        BP_TRY(io->read(io->user, tensor->handle, offset, location->staging.memory, piece));
        bp_digest_add(&running, location->staging.memory, piece);
        offset += piece;
    }
    *digest = bp_digest_end(&running);
    return BP_OK;
}

bp_status bp_checkpoint_digest(const bp_checkpoint_location *location,
                               const bp_checkpoint *checkpoint, uint64_t *digest)
{
    bp_digest sum;
    bp_digest_begin(&sum, 0);
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        const bp_state_tensor *tensor = &checkpoint->tensors[i];
        uint64_t bytes;
        BP_TRY(digest_tensor(location, &checkpoint->io, tensor, &bytes));
        bp_digest_add_tensor(&sum, tensor->name, tensor->dtype, tensor->shape, tensor->rank, bytes);
    }
    *digest = bp_digest_end(&sum);
    return BP_OK;
}
