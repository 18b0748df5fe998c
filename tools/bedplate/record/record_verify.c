/* SPDX-License-Identifier: MIT */
/* A record beside its checkpoints and its files. */
#include "tools/bedplate/record/record_verify.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "core/base/digest.h"
#include "core/base/number.h"
#include "core/base/safetensors.h"
#include "core/run/checkpoint/checkpoint_private.h"
#include "tools/bedplate/runs/checkpoint_offload.h"
#include "tools/bedplate/runs/best.h"
#include "tools/bedplate/runs/checkpoint_keys.h"
#include "tools/bedplate/record/old_names.h"
#include "tools/bedplate/record/record.h"
#include "tools/bedplate/record/record_forms.h"
#include "tools/bedplate/record/record_read.h"

enum { CHECKPOINTS_MAX = 4096 };

static const char where[] = "record";

/* What a checkpoint says of the record. */
typedef struct witness {
    uint64_t step;
    uint64_t digest;
    uint64_t verified; /* UINT64_MAX: it does not say */
    checkpoint_record record;
    best_state best; /* what evaluations had said when it was saved */
    bool met;        /* the record has a line that ends there */
    bool damaged;
} witness;

typedef struct record_check {
    const bp_checkpoint_location *place;
    bp_checkpoint_damaged damaged;
    void *user;
    record_verdict *found;
    bool best;          /* what was exported is of the best evaluation */
    bool averaged;      /* it is the average of a schedule-free rule, formed with this factor; */
    float factor;       /* 0: unknown */
    uint64_t evaluated; /* step of the record's last evaluation */
    uint32_t count;
    witness list[CHECKPOINTS_MAX];
} record_check;

static bp_status witness_name(void *user, const char *name)
{
    record_check *check = user;
    const size_t n = sizeof BP_CHECKPOINT_FINAL - 1;
    uint64_t step;
    if (strncmp(name, BP_CHECKPOINT_FINAL, n) == 0 && bp_checkpoint_parse_step(name + n, &step) &&
        check->count < CHECKPOINTS_MAX) {
        check->list[check->count++] = (witness){.step = step};
    }
    return BP_OK;
}

static bp_status witness_read(record_check *check, witness *w)
{
    char path[BP_STORE_PATH_MAX];
    bp_checkpoint_found found;
    bp_pairs keys;
    BP_TRY(bp_checkpoint_path(check->place, BP_CHECKPOINT_FINAL, w->step, path));
    const bp_status status = bp_checkpoint_verify(check->place, path, &found);
    if (status == BP_ERR_DATA) {
        check->damaged(check->user, path, check->place->error);
        *check->place->error = (bp_error){.code = BP_OK};
        w->damaged = true;
        return BP_OK;
    }
    BP_TRY(status);
    BP_TRY(old_names_read_keys(check->place, path, &keys));
    w->digest = found.digest;
    (void)checkpoint_offload_digest(keys, &w->digest); /* of all, where a part is elsewhere */
    const char *verified = bp_pairs_find(keys, CHECKPOINT_CHECKED_KEY);
    w->verified = verified != NULL ? strtoull(verified, NULL, 10) : UINT64_MAX;
    checkpoint_keys_parse_record(bp_pairs_find(keys, CHECKPOINT_RECORD_KEY), &w->record);
    (void)best_parse(bp_pairs_find(keys, CHECKPOINT_BEST_KEY), &w->best); /* else there is none */
    return BP_OK;
}

static bp_status witness_wrong(const record_check *check, const witness *w, const char *text)
{
    char path[BP_STORE_PATH_MAX];
    BP_TRY(bp_checkpoint_path(check->place, BP_CHECKPOINT_FINAL, w->step, path));
    return bp_error_set(check->place->error, BP_ERR_DATA, where, text, path);
}

/* A line beside what checkpoints say of it. */
static bp_status record_compare(record_check *check, const record_walk *walk)
{
    char chain[BP_SHA256_TEXT];
    uint64_t digest;
    bp_sha256_text(walk->chain, chain);
    for (uint32_t i = 0; i < check->count; i++) {
        witness *w = &check->list[i];
        if (w->record.chain[0] != '\0' && w->record.length == walk->offset) {
            if (strcmp(w->record.chain, chain) != 0) {
                return witness_wrong(check, w, "the checkpoint was saved with another record");
            }
            w->met = true;
        }
        uint64_t of = walk->step; /* the step whose state the line tells */
        const char *key = walk->kind == RECORD_ROLL  ? "to"
                          : walk->kind == RECORD_RUN ? "from"
                                                     : NULL;
        const bool state = key != NULL ? record_count(walk->line, walk->length, key, &of)
                                       : walk->kind == RECORD_STATE || walk->kind == RECORD_ENDED;
        const bool same =
            record_hex(walk->line, walk->length, "state_digest", &digest) && digest == w->digest;
        if (state && of == w->step && !w->damaged && !same) {
            return witness_wrong(check, w, "the record holds another state than the checkpoint");
        }
        const bool told = record_computed(walk) != walk->covered && w->verified != UINT64_MAX;
        if (told && of == w->step && !w->damaged && walk->verified != w->verified) {
            return witness_wrong(check, w,
                                 "the record holds another verified step than the checkpoint");
        }
    }
    return BP_OK;
}

bp_status record_hash(const bp_checkpoint_location *place, const char *path, uint64_t *bytes,
                      char text[BP_SHA256_TEXT])
{
    bp_store *store = place->store;
    unsigned char digest[BP_SHA256_BYTES];
    bp_sha256 sha;
    bp_file file;
    *bytes = 0;
    if (store->open_read(store, path, &file) != BP_OK) {
        return bp_storage_failed(place->error, store, "open", path);
    }
    bp_status status = store->file_size(store, file, bytes);
    bp_sha256_begin(&sha);
    for (uint64_t at = 0; status == BP_OK && at < *bytes;) {
        const uint64_t left = *bytes - at;
        const size_t piece =
            left < place->staging.capacity ? (size_t)left : place->staging.capacity;
        status = store->read_at(store, file, at, place->staging.memory, piece);
        bp_sha256_add(&sha, place->staging.memory, piece);
        at += piece;
    }
    (void)store->close(store, file); /* it was read only */
    bp_sha256_end(&sha, digest);
    bp_sha256_text(digest, text);
    return status == BP_OK ? BP_OK : bp_storage_failed(place->error, store, "read", path);
}

/* One tensor of an exported file: the same bytes as in the checkpoint, by the digests that this
 * has; *known is false where it has no such tensor. */
static bp_status record_compare_tensor(record_check *check, const bp_safetensors *made,
                                       const bp_tensor_entry *mine, const record_saved *saved,
                                       bool *same, bool *known)
{
    char key[sizeof BP_SAFETENSORS_DIGEST + BP_TENSOR_NAME_MAX] = BP_SAFETENSORS_DIGEST;
    const bp_tensor_entry *its = bp_safetensors_find(&saved->model, mine->name);
    record_forms forms;
    uint64_t found = 0, told = 0;
    memcpy(key + strlen(key), mine->name, strlen(mine->name) + 1);
    *known = record_forms_find(&forms, mine, saved);
    *same = true;
    if (forms.other || forms.rest != NULL || forms.master != NULL ||
        (its != NULL && its->dtype != mine->dtype)) {
        return *known
                   ? record_forms_compare(&check->place->staging, made, mine, saved, &forms, same)
                   : BP_OK;
    }
    *known = its != NULL && bp_digest_parse(bp_safetensors_metadata(&saved->model, key), &told);
    if (*known) {
        BP_TRY(bp_safetensors_stream(made, mine, check->place->staging, NULL, NULL, &found));
        *same = found == told;
    }
    return BP_OK;
}

static bp_status record_compare_entries(record_check *check, const bp_safetensors *made,
                                        const record_saved *saved)
{
    for (size_t i = 0; i < made->entry_count; i++) {
        const bp_tensor_entry *mine = &made->entries[i];
        bool same, known;
        BP_TRY(record_compare_tensor(check, made, mine, saved, &same, &known));
        if (!same) {
            const bp_status status =
                bp_error_set(check->place->error, BP_ERR_DATA, where,
                             check->best ? "the exported tensor is not that of the best checkpoint"
                                         : "the exported tensor is not that of the last checkpoint",
                             mine->name);
            bp_error_prefix(check->place->error, made->path);
            return status;
        }
        check->found->tensors++;
        check->found->compared += known ? 1 : 0;
    }
    return BP_OK;
}

static bp_status record_compare_tensors(record_check *check, const char *exported,
                                        const char *directory)
{
    const bp_checkpoint_location *place = check->place;
    char path[2][BP_STORE_PATH_MAX];
    bp_safetensors made;
    record_saved saved = {.averaged = check->averaged, .factor = check->factor};
    const size_t third = place->scratch_bytes / 3 / sizeof(uint64_t) * sizeof(uint64_t);
    unsigned char *scratch = place->scratch;
    BP_TRY(bp_storage_join(path[0], directory, BP_CHECKPOINT_MODEL, place->error));
    BP_TRY(bp_storage_join(path[1], directory, BP_CHECKPOINT_STATE, place->error));
    BP_TRY(bp_safetensors_open(&made, place->store, exported, scratch, third, place->error));
    bp_status status = bp_safetensors_open(&saved.model, place->store, path[0], scratch + third,
                                           third, place->error);
    if (status == BP_OK) {
        status = bp_safetensors_open(&saved.state, place->store, path[1], scratch + 2 * third,
                                     third, place->error);
        if (status == BP_OK) {
            status = record_compare_entries(check, &made, &saved);
            const bp_status closed = bp_safetensors_close(&saved.state);
            status = status == BP_OK ? closed : status;
        }
        const bp_status closed = bp_safetensors_close(&saved.model);
        status = status == BP_OK ? closed : status;
    }
    const bp_status closed = bp_safetensors_close(&made);
    return status == BP_OK ? closed : status;
}

/* What schedule-free rules form the average with, of the options of the run; 0: they do not say. */
static float record_average_factor(const char *line)
{
    static const char key[] = "\"adam-beta1\":\"";
    const char *text = strstr(line, key);
    bp_number beta;
    if (text == NULL || strstr(line, "\"optim-args\":\"\"") == NULL) {
        return 0.0f;
    }
    text += sizeof key - 1;
    return bp_number_parse(text, strcspn(text, "\""), &beta) == BP_OK && beta.real > 0
               ? (float)((1.0 - beta.real) / beta.real)
               : 0.0f;
}

/* The step whose state was exported at `last`: with --load-best-model-at-end that of the best
 * evaluation, as the newest checkpoint knows it where it has seen the last one. False: nobody says.
 */
static bool record_exported_step(const record_check *check, uint64_t last, uint64_t *step)
{
    const witness *newest = NULL;
    *step = last;
    for (uint32_t i = 0; i < check->count; i++) {
        const witness *w = &check->list[i];
        newest = !w->damaged && (newest == NULL || w->step > newest->step) ? w : newest;
    }
    if (check->best && newest != NULL && newest->best.step != 0) {
        *step = newest->best.step;
    }
    return !check->best || (newest != NULL && newest->best.judged == check->evaluated);
}

/* What was exported beside the checkpoint of its step, while that is there. */
static bp_status record_compare_exports(record_check *check, uint64_t last)
{
    static const char *const names[] = {"model.safetensors", "adapter_model.safetensors"};
    const bp_checkpoint_location *place = check->place;
    char path[BP_STORE_PATH_MAX], model_path[BP_STORE_PATH_MAX];
    bool valid = false;
    uint64_t step;
    const bool known = record_exported_step(check, last, &step);
    for (uint32_t i = 0; i < check->count; i++) {
        valid = valid || (check->list[i].step == step && !check->list[i].damaged);
    }
    if (!valid || !known) {
        return BP_OK;
    }
    BP_TRY(bp_checkpoint_path(place, BP_CHECKPOINT_FINAL, step, model_path));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bool there = false;
        BP_TRY(bp_storage_join(path, place->directory, names[i], place->error));
        BP_TRY(bp_storage_exists(place->store, path, &there, place->error));
        if (there) {
            BP_TRY(record_compare_tensors(check, path, model_path));
        }
    }
    return BP_OK;
}

static bp_status record_compare_file(void *user, const record_file *file)
{
    record_check *check = user;
    const bp_checkpoint_location *place = check->place;
    char path[BP_STORE_PATH_MAX], text[BP_SHA256_TEXT];
    bool there = false;
    uint64_t bytes;
    BP_TRY(bp_storage_join(path, place->directory, file->name, place->error));
    BP_TRY(bp_storage_exists(place->store, path, &there, place->error));
    if (!there) {
        check->found->gone++;
        return BP_OK; /* it was moved elsewhere, which says nothing against the run */
    }
    BP_TRY(record_hash(place, path, &bytes, text));
    if (strcmp(text, file->sha256) != 0) {
        const bp_status status =
            bp_error_set(place->error, BP_ERR_DATA, where,
                         "the file is not the one that the run exported (SHA-256)", path);
        bp_error_found(place->error, text, strlen(text));
        bp_error_right(place->error, file->sha256);
        return status;
    }
    if (bytes != file->bytes) {
        return bp_error_limit(place->error, BP_ERR_DATA, where,
                              "the record has another number of bytes of the exported file", path,
                              (int64_t)bytes, BP_LIMIT_EXACT, (int64_t)file->bytes);
    }
    check->found->files++;
    return BP_OK;
}

/* A record that begins at a checkpoint says nothing of it, nor of those before. */
static void record_pass_older(record_check *check, uint64_t from)
{
    for (uint32_t i = 0; from > 0 && i < check->count; i++) {
        if (check->list[i].step <= from) {
            check->list[i].record.chain[0] = '\0';
        }
    }
}

static bp_status record_walk_all(record_check *check, record_walk *walk)
{
    bp_error *error = check->place->error;
    bool more = true;
    for (;;) {
        BP_TRY(record_walk_next(walk, &more, error));
        if (!more) {
            break;
        }
        BP_TRY(record_compare(check, walk));
        if (walk->number == 1) {
            record_pass_older(check, walk->last);
            check->best = strstr(walk->line, "\"load-best-model-at-end\":\"true\"") != NULL;
            check->found->best = check->best;
            check->averaged = strstr(walk->line, "\"optim\":\"schedule_free") != NULL;
            check->factor = record_average_factor(walk->line);
        }
        check->evaluated = walk->kind == RECORD_EVAL ? walk->step : check->evaluated;
        if (walk->kind == RECORD_ENDED) {
            check->found->ended = true;
            BP_TRY(
                record_files_each(walk->line, walk->length, "files", record_compare_file, check));
            BP_TRY(record_compare_exports(check, walk->step));
        }
    }
    if (walk->number == 0) {
        return bp_error_set(error, BP_ERR_DATA, where, "the record has no line", walk->path);
    }
    for (uint32_t i = 0; i < check->count; i++) {
        const witness *w = &check->list[i];
        if (w->record.chain[0] != '\0' && !w->met) {
            return witness_wrong(check, w,
                                 "the checkpoint was saved with a longer, or another, record");
        }
        check->found->checkpoints += w->met ? 1 : 0;
    }
    check->found->lines = walk->number;
    check->found->steps = walk->last;
    check->found->verified = walk->verified;
    bp_sha256_text(walk->chain, check->found->chain);
    return BP_OK;
}

bp_status record_verify(const bp_checkpoint_location *place, bp_checkpoint_damaged damaged,
                        void *user, record_verdict *found)
{
    static record_check check; /* large */
    char path[BP_STORE_PATH_MAX];
    record_walk walk;
    *found = (record_verdict){.there = false};
    check.place = place;
    check.found = found;
    check.damaged = damaged;
    check.user = user;
    check.count = 0;
    check.evaluated = 0;
    if (place->store->list(place->store, place->directory, witness_name, &check) != BP_OK) {
        return bp_storage_failed(place->error, place->store, "list", place->directory);
    }
    for (uint32_t i = 0; i < check.count; i++) {
        BP_TRY(witness_read(&check, &check.list[i]));
    }
    BP_TRY(bp_storage_join(path, place->directory, RECORD_NAME, place->error));
    BP_TRY(bp_storage_exists(place->store, path, &found->there, place->error));
    if (!found->there) {
        return BP_OK;
    }
    BP_TRY(record_walk_begin(&walk, path, place->error));
    const bp_status status = record_walk_all(&check, &walk);
    record_walk_end(&walk);
    return status;
}
