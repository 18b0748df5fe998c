/* SPDX-License-Identifier: MIT */
/* The form of a checkpoint: rules, layouts of its files, exact sizes. */
#include "core/run/checkpoint/checkpoint_private.h"

#include <string.h>

#include "arena/arena.h"
#include "arena/text.h"
#include "core/base/storage.h"

enum { SCRATCH_ALIGN = 8, KEY_NAME_MAX = 200, STATE_RANK_MAX = 4 };

/* Decimal digits, terminated. */
static void checkpoint_step_text(uint64_t step, char text[24])
{
    bp_text writer;
    bp_text_init(&writer, NULL, NULL, text, 24);
    bp_text_u64(&writer, step);
    bp_status fits = bp_text_flush(&writer);
    (void)fits; /* 20 digits at most */
}

bool bp_checkpoint_parse_step(const char *text, uint64_t *step)
{
    *step = 0;
    if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0')) {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        *step = bp_size_add(bp_size_mul(*step, 10), (uint64_t)(*text - '0'));
    }
    return *step != BP_SIZE_INVALID;
}

bp_status bp_checkpoint_path(const bp_checkpoint_location *location, const char *prefix,
                             uint64_t step, char path[BP_STORE_PATH_MAX])
{
    char name[48];
    size_t length = strlen(prefix);
    memcpy(name, prefix, length);
    checkpoint_step_text(step, name + length);
    return bp_storage_join(path, location->directory, name, location->error);
}

static bool is_name_character(char c)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || (c != '\0' && strchr("._-", c) != NULL);
}

bool bp_checkpoint_blob_name(const char *name)
{
    size_t length = 0;
    while (is_name_character(name[length])) {
        length++;
    }
    if (name[length] != '\0' || length == 0 || length >= BP_CHECKPOINT_NAME_MAX) {
        return false;
    }
    if (name[0] == '.') {
        return false; /* hidden, or a directory */
    }
    return strcmp(name, BP_CHECKPOINT_MODEL) != 0 && strcmp(name, BP_CHECKPOINT_STATE) != 0;
}

static bp_status refuse(const bp_checkpoint_location *location, const char *text, const char *name)
{
    return bp_error_set(location->error, BP_ERR_USAGE, "checkpoint", text, name);
}

static bp_status check_tensor(const bp_checkpoint_location *location, const bp_state_tensor *tensor)
{
    if (!bp_text_is_utf8(tensor->name)) {
        return refuse(location, "a state tensor's name is not UTF-8", tensor->name);
    }
    if (tensor->rank > STATE_RANK_MAX) {
        return refuse(location, "a state tensor has more than 4 dimensions", tensor->name);
    }
    uint64_t bytes = bp_dtype_bytes(tensor->dtype);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        bytes = bp_size_mul(bytes, tensor->shape[i]);
    }
    if (bytes != tensor->bytes) {
        return bp_error_numbers(location->error, BP_ERR_USAGE, "checkpoint",
                                "a state tensor's bytes are not those of its shape", tensor->name,
                                bp_size_signed(tensor->bytes), bp_size_signed(bytes));
    }
    return BP_OK;
}

static bp_status check_checkpoint(const bp_checkpoint_location *location,
                                  const bp_checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        const bp_state_tensor *tensor = &checkpoint->tensors[i];
        BP_TRY(check_tensor(location, tensor));
        if (i > 0 && strcmp(checkpoint->tensors[i - 1].name, tensor->name) >= 0) {
            return refuse(location, "state tensors are not sorted by unique names", tensor->name);
        }
    }
    for (size_t i = 0; i < checkpoint->keys.count; i++) {
        const bp_pair *pair = &checkpoint->keys.list[i];
        bp_pairs before = {checkpoint->keys.list, i};
        if (strlen(pair->key) > KEY_NAME_MAX || bp_pairs_find(before, pair->key) != NULL) {
            return refuse(location, "a checkpoint key is too long or there twice", pair->key);
        }
        if (!bp_text_is_utf8(pair->key) || !bp_text_is_utf8(pair->value)) {
            return refuse(location, "a checkpoint key or its value is not UTF-8", pair->key);
        }
    }
    if (checkpoint->blob_count > BP_CHECKPOINT_BLOBS) {
        return refuse(location, "too many further files in a checkpoint", NULL);
    }
    for (size_t i = 0; i < checkpoint->blob_count; i++) {
        if (!bp_checkpoint_blob_name(checkpoint->blobs[i].name)) {
            return refuse(location, "a further file's name is not allowed",
                          checkpoint->blobs[i].name);
        }
    }
    return BP_OK;
}

/* The tensors of one file, as entries that remember their place in the list. */
static size_t fill_entries(const bp_checkpoint *checkpoint, bool weight, bp_tensor_entry *entries)
{
    size_t count = 0;
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        const bp_state_tensor *tensor = &checkpoint->tensors[i];
        if (tensor->weight != weight) {
            continue;
        }
        bp_tensor_entry *entry = &entries[count++];
        *entry = (bp_tensor_entry){
            .name = tensor->name, .dtype = tensor->dtype, .rank = tensor->rank, .handle = i};
        memcpy(entry->shape, tensor->shape, sizeof tensor->shape);
    }
    return count;
}

uint64_t bp_checkpoint_pair_digest(const char *prefix, const char *key, const char *value)
{
    bp_digest digest;
    bp_digest_begin(&digest, 0);
    bp_digest_add(&digest, prefix, strlen(prefix));
    bp_digest_add(&digest, key, strlen(key) + 1);
    bp_digest_add(&digest, value, strlen(value));
    return bp_digest_end(&digest);
}

static uint64_t group_digest(const bp_metadata_group *group)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < group->pairs.count; i++) {
        const bp_pair *pair = &group->pairs.list[i];
        sum += bp_checkpoint_pair_digest(group->prefix, pair->key, pair->value);
    }
    return sum;
}

static void fill_metadata(const bp_checkpoint *checkpoint, bp_checkpoint_layout *form)
{
    checkpoint_step_text(checkpoint->step, form->step);
    for (size_t i = 0; i < checkpoint->blob_count; i++) {
        const bp_blob *blob = &checkpoint->blobs[i];
        bp_digest_text(bp_digest_of(blob->bytes, blob->length, 0), form->blob_sum[i]);
        form->blob_pairs[i] = (bp_pair){blob->name, form->blob_sum[i]};
    }
    bp_metadata_group keys = {BP_CHECKPOINT_KEY, checkpoint->keys};
    bp_metadata_group files = {BP_CHECKPOINT_FILE, {form->blob_pairs, checkpoint->blob_count}};
    uint64_t digest = bp_checkpoint_pair_digest("", "format", "pt");
    digest += bp_checkpoint_pair_digest("", BP_CHECKPOINT_STEP_KEY, form->step);
    digest += group_digest(&keys);
    bp_digest_text(digest, form->metadata_sum[0]);
    bp_digest_text(digest + group_digest(&files), form->metadata_sum[1]);
    bp_digest_text(0, form->sum); /* its place; the value comes when the data is out */
    form->model_fixed[0] = (bp_pair){BP_CHECKPOINT_STEP_KEY, form->step};
    form->model_fixed[1] = (bp_pair){BP_CHECKPOINT_META_KEY, form->metadata_sum[0]};
    form->state_fixed[0] = (bp_pair){BP_CHECKPOINT_STEP_KEY, form->step};
    form->state_fixed[1] = (bp_pair){BP_CHECKPOINT_META_KEY, form->metadata_sum[1]};
    form->state_fixed[2] = (bp_pair){BP_CHECKPOINT_SUM_KEY, form->sum};
    form->model_groups[0] = (bp_metadata_group){"", {form->model_fixed, 2}};
    form->model_groups[1] = keys;
    form->state_groups[0] = (bp_metadata_group){"", {form->state_fixed, 3}};
    form->state_groups[1] = keys;
    form->state_groups[2] = files;
}

/* The entries of both files, and the digests of tensors. */
static bp_tensor_entry *layout_take(bp_checkpoint_layout *form, uint64_t tensors, bp_arena *memory)
{
    bp_tensor_entry *entries = bp_arena_take(memory, tensors, sizeof *entries);
    form->digests = bp_arena_take(memory, tensors, sizeof *form->digests);
    return entries;
}

bp_status bp_checkpoint_make_layout(const bp_checkpoint_location *location,
                                    const bp_checkpoint *checkpoint, bp_checkpoint_layout *form)
{
    BP_TRY(check_checkpoint(location, checkpoint));
    bp_arena memory;
    bp_arena_count(&memory);
    bp_tensor_entry *entries = layout_take(form, checkpoint->tensor_count, &memory);
    const uint64_t needed = bp_arena_counted(&memory);
    if (location->scratch_bytes < needed) {
        return bp_error_limit(
            location->error, BP_ERR_FIT, "checkpoint", "saving needs more scratch memory, bytes",
            NULL, bp_size_signed(location->scratch_bytes), BP_LIMIT_LEAST, bp_size_signed(needed));
    }
    bp_arena_init(&memory, location->scratch, location->scratch_bytes);
    entries = layout_take(form, checkpoint->tensor_count, &memory);
    size_t weights = fill_entries(checkpoint, true, entries);
    size_t others = fill_entries(checkpoint, false, entries + weights);
    fill_metadata(checkpoint, form);
    form->model = (bp_safetensors_plan){.entries = entries,
                                        .entry_count = weights,
                                        .groups = form->model_groups,
                                        .group_count = 2,
                                        .digests = true};
    form->state = (bp_safetensors_plan){.entries = entries + weights,
                                        .entry_count = others,
                                        .groups = form->state_groups,
                                        .group_count = 3,
                                        .digests = true};
    BP_TRY(bp_safetensors_layout(&form->model, location->error));
    return bp_safetensors_layout(&form->state, location->error);
}

/* Scratch of a metadata pair with the reader. */
static uint64_t pair_scratch(size_t key, size_t value)
{
    return sizeof(bp_pair) + key + 1 + value + 1;
}

uint64_t bp_checkpoint_scratch(const bp_checkpoint *checkpoint)
{
    uint64_t total = 2 * (SCRATCH_ALIGN + BP_SAFETENSORS_WORK);
    total += 2 * pair_scratch(strlen("format"), strlen("pt"));
    total += 2 * pair_scratch(strlen(BP_CHECKPOINT_STEP_KEY), 20);
    total += pair_scratch(strlen(BP_CHECKPOINT_SUM_KEY), BP_DIGEST_TEXT - 1);
    total += 2 * pair_scratch(strlen(BP_CHECKPOINT_META_KEY), BP_DIGEST_TEXT - 1);
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        size_t name = strlen(checkpoint->tensors[i].name);
        total += sizeof(bp_tensor_entry) + sizeof(uint64_t) + name + 1;
        total += pair_scratch(strlen(BP_SAFETENSORS_DIGEST) + name, BP_DIGEST_TEXT - 1);
    }
    for (size_t i = 0; i < checkpoint->keys.count; i++) {
        const bp_pair *pair = &checkpoint->keys.list[i];
        total +=
            2 * pair_scratch(strlen(BP_CHECKPOINT_KEY) + strlen(pair->key), strlen(pair->value));
    }
    for (size_t i = 0; i < checkpoint->blob_count; i++) {
        size_t name = strlen(BP_CHECKPOINT_FILE) + strlen(checkpoint->blobs[i].name);
        total += pair_scratch(name, BP_DIGEST_TEXT - 1);
    }
    return total;
}

bp_status bp_checkpoint_bytes(const bp_checkpoint_location *location,
                              const bp_checkpoint *checkpoint, uint64_t *bytes)
{
    bp_checkpoint_layout form;
    BP_TRY(bp_checkpoint_make_layout(location, checkpoint, &form));
    *bytes = form.model.file_bytes + form.state.file_bytes;
    for (size_t i = 0; i < checkpoint->blob_count; i++) {
        *bytes += checkpoint->blobs[i].length;
    }
    return BP_OK;
}

bp_status bp_checkpoint_check_space(const bp_checkpoint_location *location,
                                    const bp_checkpoint *checkpoint)
{
    enum { BLOCK = 4096, DIRECTORIES = 65536 };
    uint64_t needed;
    BP_TRY(bp_checkpoint_bytes(location, checkpoint, &needed));
    /* Rounding every file up to whole blocks adds less than one block per file. */
    needed += DIRECTORIES + (checkpoint->blob_count + 2) * BLOCK;
    uint64_t room;
    if (location->store->free_bytes(location->store, location->directory, &room) != BP_OK) {
        return bp_storage_failed(location->error, location->store, "free space",
                                 location->directory);
    }
    if (room < needed) {
        return bp_error_limit(location->error, BP_ERR_STORE, "checkpoint",
                              "not enough free space for the next checkpoint, bytes",
                              location->directory, bp_size_signed(room), BP_LIMIT_LEAST,
                              bp_size_signed(needed));
    }
    return BP_OK;
}
