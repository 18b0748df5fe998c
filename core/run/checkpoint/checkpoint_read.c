/* SPDX-License-Identifier: MIT */
/* Reading a checkpoint: verifying every digest, loading the tensors, looking at the keys. */
#include "core/run/checkpoint/checkpoint_private.h"

#include <string.h>

#include "core/base/storage.h"

/* Both tensor files of a checkpoint, open. */
typedef struct pair_of_files {
    const bp_checkpoint_location *location;
    const char *path;
    char model_path[BP_STORE_PATH_MAX];
    char state_path[BP_STORE_PATH_MAX];
    bp_safetensors model;
    bp_safetensors state;
    uint64_t step;
} pair_of_files;

static bp_status damaged(const bp_safetensors *file, const char *text, const char *name)
{
    bp_status status = bp_error_set(file->error, BP_ERR_DATA, "checkpoint", text, name);
    bp_error_prefix(file->error, file->path);
    return status;
}

/* Gives the path of a checkpoint's file. One that is not there is damage; one that cannot be looked
 * up, or opened, is the storage's failure and says nothing of the checkpoint. */
static bp_status checkpoint_there(const bp_checkpoint_location *location, const char *checkpoint,
                                  const char *name, char path[BP_STORE_PATH_MAX])
{
    bool there;
    BP_TRY(bp_storage_join(path, checkpoint, name, location->error));
    BP_TRY(bp_storage_holds(location->store, checkpoint, name, &there, location->error));
    return there ? BP_OK
                 : bp_error_set(location->error, BP_ERR_DATA, "checkpoint",
                                "a file of the checkpoint is missing", path);
}

static bp_status open_files(pair_of_files *files, const bp_checkpoint_location *location,
                            const char *path)
{
    files->location = location;
    files->path = path;
    BP_TRY(checkpoint_there(location, path, BP_CHECKPOINT_MODEL, files->model_path));
    BP_TRY(checkpoint_there(location, path, BP_CHECKPOINT_STATE, files->state_path));
    BP_TRY(bp_safetensors_open(&files->model, location->store, files->model_path, location->scratch,
                               location->scratch_bytes, location->error));
    size_t used = files->model.scratch_used;
    bp_status status = bp_safetensors_open(&files->state, location->store, files->state_path,
                                           (unsigned char *)location->scratch + used,
                                           location->scratch_bytes - used, location->error);
    if (status != BP_OK) {
        bp_status closed = bp_safetensors_close(&files->model);
        (void)closed; /* only read; the first error is reported */
    }
    return status;
}

static bp_status close_files(pair_of_files *files, bp_status status)
{
    bp_status model = bp_safetensors_close(&files->model);
    bp_status state = bp_safetensors_close(&files->state);
    if (status != BP_OK) {
        return status;
    }
    return model != BP_OK ? model : state;
}

/* The step that a file was saved with. */
static bp_status step_of(const bp_safetensors *file, uint64_t *step)
{
    const char *text = bp_safetensors_metadata(file, BP_CHECKPOINT_STEP_KEY);
    if (text == NULL || !bp_checkpoint_parse_step(text, step)) {
        return damaged(file, "the file has no step", NULL);
    }
    return BP_OK;
}

static bool is_digest_key(const char *key)
{
    if (strncmp(key, BP_SAFETENSORS_DIGEST, strlen(BP_SAFETENSORS_DIGEST)) == 0) {
        return true;
    }
    return strcmp(key, BP_CHECKPOINT_SUM_KEY) == 0 || strcmp(key, BP_CHECKPOINT_META_KEY) == 0;
}

/* The keys, file names and the step are as they were saved. */
static bp_status check_metadata(const bp_safetensors *file)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < file->metadata_count; i++) {
        const bp_pair *pair = &file->metadata[i];
        if (!is_digest_key(pair->key)) {
            sum += bp_checkpoint_pair_digest("", pair->key, pair->value);
        }
    }
    uint64_t stored;
    const char *text = bp_safetensors_metadata(file, BP_CHECKPOINT_META_KEY);
    if (!bp_digest_parse(text, &stored) || stored != sum) {
        return damaged(file, "the metadata digest is missing or not that of the metadata", NULL);
    }
    return BP_OK;
}

/* Both headers are as they were saved, in the same step. */
static bp_status check_headers(pair_of_files *files)
{
    uint64_t step;
    BP_TRY(check_metadata(&files->model));
    BP_TRY(check_metadata(&files->state));
    BP_TRY(step_of(&files->model, &step));
    BP_TRY(step_of(&files->state, &files->step));
    if (step != files->step) {
        return bp_error_numbers(files->location->error, BP_ERR_DATA, "checkpoint",
                                "the two tensor files are of different steps", files->path,
                                bp_size_signed(step), bp_size_signed(files->step));
    }
    return BP_OK;
}

/* The file of the two whose next tensor comes first by name; NULL when both are through. The same
 * name in both is no state that can have been saved. */
static bp_status next_file(pair_of_files *files, const size_t at[2], bp_safetensors **next)
{
    bool model_left = at[0] < files->model.entry_count;
    bool state_left = at[1] < files->state.entry_count;
    if (!model_left) {
        *next = state_left ? &files->state : NULL;
        return BP_OK;
    }
    *next = &files->model;
    if (!state_left) {
        return BP_OK;
    }
    const char *name = files->model.entries[at[0]].name;
    int order = strcmp(name, files->state.entries[at[1]].name);
    if (order == 0) {
        return damaged(&files->state, "the tensor is in both files of the checkpoint", name);
    }
    *next = order < 0 ? &files->model : &files->state;
    return BP_OK;
}

static bp_status check_digest(const bp_safetensors *file, const bp_tensor_entry *entry,
                              uint64_t digest)
{
    char key[sizeof BP_SAFETENSORS_DIGEST + BP_TENSOR_NAME_MAX] = BP_SAFETENSORS_DIGEST;
    memcpy(key + strlen(key), entry->name, strlen(entry->name) + 1);
    uint64_t stored;
    if (!bp_digest_parse(bp_safetensors_metadata(file, key), &stored)) {
        return damaged(file, "the tensor has no digest", entry->name);
    }
    if (stored != digest) {
        return damaged(file, "the tensor's bytes do not have the digest they were saved with",
                       entry->name);
    }
    return BP_OK;
}

static bp_status check_sum(const pair_of_files *files, uint64_t sum)
{
    uint64_t stored;
    const char *text = bp_safetensors_metadata(&files->state, BP_CHECKPOINT_SUM_KEY);
    if (!bp_digest_parse(text, &stored) || stored != sum) {
        return damaged(&files->state, "the state digest is missing or not that of the tensors",
                       NULL);
    }
    return BP_OK;
}

static bp_status write_tensor(void *user, const bp_tensor_entry *entry, uint64_t offset,
                              const void *from, size_t bytes)
{
    const bp_checkpoint *checkpoint = user;
    /* The merged order of the files is the order of the list, so the entry was given its index. */
    uint64_t handle = checkpoint->tensors[entry->handle].handle;
    return checkpoint->io.write(checkpoint->io.user, handle, offset, from, bytes);
}

/* Reads all tensors in the order of names, checks their digests, and gives that of the state. With
 * a checkpoint they are also copied to its memory. */
static bp_status read_tensors(pair_of_files *files, const bp_checkpoint *checkpoint, uint64_t *sum)
{
    bp_digest running;
    bp_digest_begin(&running, 0);
    size_t at[2] = {0, 0};
    bp_safetensors *file;
    BP_TRY(next_file(files, at, &file));
    while (file != NULL) {
        size_t *index = &at[file == &files->model ? 0 : 1];
        bp_tensor_entry *entry = &file->entries[*index];
        entry->handle = at[0] + at[1];
        uint64_t digest;
        BP_TRY(bp_safetensors_stream(file, entry, files->location->staging,
                                     checkpoint != NULL ? write_tensor : NULL,
                                     (void *)(uintptr_t)checkpoint, &digest));
        BP_TRY(check_digest(file, entry, digest));
        bp_digest_add_tensor(&running, entry->name, entry->dtype, entry->shape, entry->rank,
                             digest);
        (*index)++;
        BP_TRY(next_file(files, at, &file));
    }
    *sum = bp_digest_end(&running);
    return check_sum(files, *sum);
}

static bp_status digest_open_file(const bp_checkpoint_location *location, bp_file file,
                                  uint64_t *digest)
{
    bp_store *store = location->store;
    uint64_t bytes;
    BP_TRY(store->file_size(store, file, &bytes));
    bp_digest running;
    bp_digest_begin(&running, 0);
    for (uint64_t offset = 0; offset < bytes;) {
        uint64_t left = bytes - offset;
        size_t capacity = location->staging.capacity;
        size_t piece = left < capacity ? (size_t)left : capacity;
        BP_TRY(store->read_at(store, file, offset, location->staging.memory, piece));
        bp_digest_add(&running, location->staging.memory, piece);
        offset += piece;
    }
    *digest = bp_digest_end(&running);
    return BP_OK;
}

static bp_status check_blob(const pair_of_files *files, const char *name, const char *text)
{
    const bp_checkpoint_location *location = files->location;
    uint64_t stored;
    if (!bp_checkpoint_blob_name(name) || !bp_digest_parse(text, &stored)) {
        return damaged(&files->state, "a further file's name or digest is not allowed", name);
    }
    char path[BP_STORE_PATH_MAX];
    bp_file file;
    BP_TRY(checkpoint_there(location, files->path, name, path));
    if (location->store->open_read(location->store, path, &file) != BP_OK) {
        return bp_storage_failed(location->error, location->store, "open", path);
    }
    uint64_t digest;
    bp_status status = digest_open_file(location, file, &digest);
    if (status != BP_OK) {
        status = bp_storage_failed(location->error, location->store, "read", path);
    } else if (digest != stored) {
        status = bp_error_set(location->error, BP_ERR_DATA, "checkpoint",
                              "the file does not have the digest it was saved with", path);
    }
    bp_status closed = location->store->close(location->store, file);
    (void)closed; /* only read */
    return status;
}

/* The part of the sorted metadata whose keys begin with `prefix`. */
static void metadata_range(const bp_safetensors *file, const char *prefix, bp_pair **first,
                           size_t *count)
{
    size_t length = strlen(prefix);
    size_t from = 0;
    while (from < file->metadata_count && strncmp(file->metadata[from].key, prefix, length) != 0) {
        from++;
    }
    size_t to = from;
    while (to < file->metadata_count && strncmp(file->metadata[to].key, prefix, length) == 0) {
        to++;
    }
    *first = file->metadata + from;
    *count = to - from;
}

static bp_status check_blobs(const pair_of_files *files)
{
    bp_pair *blobs;
    size_t count;
    metadata_range(&files->state, BP_CHECKPOINT_FILE, &blobs, &count);
    for (size_t i = 0; i < count; i++) {
        BP_TRY(check_blob(files, blobs[i].key + strlen(BP_CHECKPOINT_FILE), blobs[i].value));
    }
    return BP_OK;
}

static bp_status verify_files(pair_of_files *files, bp_checkpoint_found *found)
{
    BP_TRY(check_headers(files));
    BP_TRY(check_blobs(files));
    BP_TRY(read_tensors(files, NULL, &found->digest));
    found->step = files->step;
    return bp_storage_join(found->path, "", files->path, files->location->error);
}

bp_status bp_checkpoint_verify(const bp_checkpoint_location *location, const char *path,
                               bp_checkpoint_found *found)
{
    pair_of_files files;
    BP_TRY(open_files(&files, location, path));
    return close_files(&files, verify_files(&files, found));
}

static bool same_form(const bp_tensor_entry *entry, const bp_state_tensor *tensor)
{
    if (entry->dtype != tensor->dtype || entry->rank != tensor->rank) {
        return false;
    }
    for (uint32_t i = 0; i < entry->rank; i++) {
        if (entry->shape[i] != tensor->shape[i]) {
            return false;
        }
    }
    return true;
}

/* Every tensor of the list is in its file in the same form, and the files hold no other. */
static bp_status check_forms(const pair_of_files *files, const bp_checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        const bp_state_tensor *tensor = &checkpoint->tensors[i];
        const bp_safetensors *file = tensor->weight ? &files->model : &files->state;
        const bp_tensor_entry *entry = bp_safetensors_find(file, tensor->name);
        if (entry == NULL) {
            return damaged(file, "a tensor of the model is missing", tensor->name);
        }
        if (!same_form(entry, tensor)) {
            return damaged(file, "a tensor has another type or shape than in the model",
                           tensor->name);
        }
    }
    size_t count = files->model.entry_count + files->state.entry_count;
    if (count != checkpoint->tensor_count) {
        return bp_error_numbers(files->location->error, BP_ERR_DATA, "checkpoint",
                                "the checkpoint holds tensors that the model does not have",
                                files->path, bp_size_signed(count),
                                bp_size_signed(checkpoint->tensor_count));
    }
    return BP_OK;
}

bp_status bp_checkpoint_load(const bp_checkpoint_location *location, const char *path,
                             const bp_checkpoint *checkpoint, uint64_t *digest)
{
    pair_of_files files;
    BP_TRY(open_files(&files, location, path));
    uint64_t sum = 0;
    bp_status status = check_headers(&files);
    if (status == BP_OK) {
        status = check_forms(&files, checkpoint);
    }
    if (status == BP_OK) {
        status = read_tensors(&files, checkpoint, &sum);
    }
    if (digest != NULL) {
        *digest = sum;
    }
    return close_files(&files, status);
}

bp_status bp_checkpoint_read_keys(const bp_checkpoint_location *location, const char *path,
                                  bp_pairs *keys)
{
    char state_path[BP_STORE_PATH_MAX];
    bp_safetensors file;
    BP_TRY(checkpoint_there(location, path, BP_CHECKPOINT_STATE, state_path));
    BP_TRY(bp_safetensors_open(&file, location->store, state_path, location->scratch,
                               location->scratch_bytes, location->error));
    bp_pair *first;
    bp_status status = check_metadata(&file);
    metadata_range(&file, BP_CHECKPOINT_KEY, &first, &keys->count);
    for (size_t i = 0; i < keys->count; i++) {
        first[i].key += strlen(BP_CHECKPOINT_KEY);
    }
    keys->list = first;
    bp_status closed = bp_safetensors_close(&file);
    return status != BP_OK ? status : closed;
}

/* The first key of two sorted lists that one lacks, or whose values differ; NULL: none. */
static const char *first_other(const bp_safetensors *a, const bp_safetensors *b)
{
    bp_pair *x, *y;
    size_t x_count, y_count, i = 0;
    metadata_range(a, BP_SAFETENSORS_DIGEST, &x, &x_count);
    metadata_range(b, BP_SAFETENSORS_DIGEST, &y, &y_count);
    for (; i < x_count && i < y_count; i++) {
        const int order = strcmp(x[i].key, y[i].key);
        if (order != 0 || strcmp(x[i].value, y[i].value) != 0) {
            return order <= 0 ? x[i].key : y[i].key;
        }
    }
    return i < x_count ? x[i].key : i < y_count ? y[i].key : NULL;
}

bp_status bp_checkpoint_compare(const bp_checkpoint_location *location, const char *a,
                                const char *b, char name[BP_CHECKPOINT_TENSOR])
{
    pair_of_files one, other;
    const size_t half = location->scratch_bytes / 2 / sizeof(uint64_t) * sizeof(uint64_t);
    bp_checkpoint_location first = *location, second = *location;
    first.scratch_bytes = half;
    second.scratch = (unsigned char *)location->scratch + half;
    second.scratch_bytes = location->scratch_bytes - half;
    name[0] = '\0';
    BP_TRY(open_files(&one, &first, a));
    bp_status status = open_files(&other, &second, b);
    if (status == BP_OK) {
        const char *weight = first_other(&one.model, &other.model);
        const char *rest = first_other(&one.state, &other.state);
        const char *key =
            weight == NULL || (rest != NULL && strcmp(rest, weight) < 0) ? rest : weight;
        if (key != NULL && strlen(key) < BP_CHECKPOINT_TENSOR) {
            key += strlen(BP_SAFETENSORS_DIGEST);
            memcpy(name, key, strlen(key) + 1);
        }
        status = close_files(&other, status);
    }
    return close_files(&one, status);
}
