/* SPDX-License-Identifier: MIT */
/* Saving by several ranks.
 *
 * Goes in rounds. In a round every rank writes up to TEAM_BYTES of up to TEAM_PIECES tensors: of
 * the tensors in the order of the files the first that go on in a run of its own. All ranks make
 * the same choice for everybody, and hear the hash states at the end of the round. */
#include "core/run/checkpoint/checkpoint_ranks.h"

#include <string.h>

#include "arena/text.h"
#include "core/base/storage.h"
#include "core/run/checkpoint/checkpoint_private.h"

enum { TEAM_PIECES = 8, TEAM_REASON = 120, TEAM_BYTES = 16 << 20 };

static const char where[] = "checkpoint";

/* What ranks tell each other. */
typedef struct team_word {
    uint32_t status; /* a bp_status */
    int32_t code;    /* the store's */
    uint64_t header[2];
    uint64_t stamp;
    char reason[TEAM_REASON];
    bp_digest running[TEAM_PIECES];
} team_word;

/* How far a tensor is. */
typedef struct team_tensor {
    uint64_t done;
    bp_digest running;
} team_tensor;

/* What a rank does in a round. */
typedef struct team_seat {
    uint64_t bytes;
    uint64_t pieces;
} team_seat;

typedef struct team {
    const bp_checkpoint_location *location;
    const bp_checkpoint *checkpoint;
    const bp_checkpoint_ranks *ranks;
    bp_checkpoint_layout form;
    char temporary[BP_STORE_PATH_MAX];
    char path[2][BP_STORE_PATH_MAX]; /* of model and state */
    char stamp[BP_STORE_PATH_MAX];
    bp_safetensors_writer writer[2];
    bool open[2];
    team_word *mine;
    team_word *all;       /* [size] */
    team_tensor *tensors; /* by entry, the model's first */
    team_seat *seats;     /* [size] */
    size_t first;         /* entry before which all are done */
} team;

static void team_take(team *t, uint64_t tensors, uint32_t ranks, bp_arena *memory)
{
    t->mine = bp_arena_take(memory, 1, sizeof *t->mine);
    t->all = bp_arena_take(memory, ranks, sizeof *t->all);
    t->seats = bp_arena_take(memory, ranks, sizeof *t->seats);
    t->tensors = bp_arena_take(memory, tensors, sizeof *t->tensors);
}

uint64_t bp_checkpoint_ranks_scratch(uint64_t tensors, uint32_t ranks)
{
    team t;
    bp_arena count;
    bp_arena_count(&count);
    team_take(&t, tensors, ranks, &count);
    return bp_arena_counted(&count);
}

static bool team_leads(const team *t)
{
    return t->ranks->rank == 0;
}

/* *rest: the scratch behind what the ranks take. */
static bp_status team_allocate(team *t, bp_checkpoint_location *rest)
{
    const bp_checkpoint_location *location = t->location;
    const uint64_t count = t->checkpoint->tensor_count;
    const uint64_t needed = bp_checkpoint_ranks_scratch(count, t->ranks->size);
    bp_arena memory;
    if (location->scratch_bytes < needed) {
        return bp_error_limit(
            location->error, BP_ERR_FIT, where, "saving needs more scratch memory, bytes", NULL,
            bp_size_signed(location->scratch_bytes), BP_LIMIT_LEAST, bp_size_signed(needed));
    }
    bp_arena_init(&memory, location->scratch, location->scratch_bytes);
    team_take(t, count, t->ranks->size, &memory);
    *rest = *location;
    rest->scratch = (unsigned char *)location->scratch + memory.used;
    rest->scratch_bytes = bp_arena_left(&memory);
    memset(t->mine, 0, sizeof *t->mine);
    return BP_OK;
}

static void team_put_reason(team *t, bp_status status)
{
    const bp_error *error = t->location->error;
    bp_text text;
    t->mine->status = (uint32_t)status;
    t->mine->code = t->location->store->code;
    bp_text_init(&text, NULL, NULL, t->mine->reason, TEAM_REASON);
    if (error != NULL && error->code != BP_OK) {
        bp_text_string(&text, error->text != NULL ? error->text : "");
        bp_text_string(&text, ": ");
        bp_text_string(&text, error->name);
    }
    bp_status fits = bp_text_flush(&text);
    (void)fits; /* what is cut is cut */
    t->mine->reason[TEAM_REASON - 1] = '\0';
}

/* The failure of another rank as this one's. */
static bp_status team_report(team *t, uint32_t rank)
{
    char name[BP_ERROR_NAME_MAX];
    const team_word *word = &t->all[rank];
    bp_text text;
    if (rank == t->ranks->rank) {
        return (bp_status)word->status;
    }
    t->location->store->code = word->code;
    bp_text_init(&text, NULL, NULL, name, sizeof name);
    bp_text_string(&text, "rank ");
    bp_text_u64(&text, rank);
    bp_text_string(&text, ": ");
    bp_text_string(&text, word->reason);
    bp_status fits = bp_text_flush(&text);
    (void)fits; /* shorter than a name */
    return bp_error_set(t->location->error, (bp_status)word->status, where,
                        "a rank could not save its part", name);
}

/* Every rank tells how it went, and all go on, or none. */
static bp_status team_agree(team *t, bp_status status)
{
    if (status != BP_OK) {
        team_put_reason(t, status);
    }
    BP_TRY(t->ranks->gather(t->ranks->user, t->mine, sizeof *t->mine, t->all));
    for (uint32_t rank = 0; rank < t->ranks->size; rank++) {
        if (t->all[rank].status != BP_OK) {
            return team_report(t, rank);
        }
    }
    return BP_OK;
}

static bp_status team_name_files(team *t, uint64_t stamp)
{
    static const char *const names[] = {BP_CHECKPOINT_MODEL, BP_CHECKPOINT_STATE};
    char name[sizeof BP_CHECKPOINT_STAMP + BP_DIGEST_TEXT] = BP_CHECKPOINT_STAMP;
    bp_digest_text(stamp, name + strlen(name));
    BP_TRY(bp_storage_join(t->stamp, t->temporary, name, t->location->error));
    for (int i = 0; i < 2; i++) {
        BP_TRY(bp_storage_join(t->path[i], t->temporary, names[i], t->location->error));
    }
    return BP_OK;
}

static const bp_safetensors_plan *team_plan(const team *t, int file)
{
    return file == 0 ? &t->form.model : &t->form.state;
}

/* Rank 0: the directory, what others know it by, further files, and both files without headers. */
static bp_status team_begin(team *t)
{
    const bp_checkpoint_location *location = t->location;
    BP_TRY(team_name_files(t, t->ranks->stamp));
    BP_TRY(bp_checkpoint_make_temporary(location, t->temporary));
    BP_TRY(bp_storage_write_file(location->store, t->stamp, "", 0, location->error));
    BP_TRY(bp_checkpoint_write_blobs(location, t->checkpoint, t->temporary));
    for (int i = 0; i < 2; i++) {
        const bp_safetensors_plan *plan = team_plan(t, i);
        BP_TRY(bp_safetensors_begin(&t->writer[i], location->store, t->path[i], plan,
                                    location->error));
        t->open[i] = true;
        t->mine->header[i] = plan->header_bytes;
    }
    t->mine->stamp = t->ranks->stamp;
    return BP_OK;
}

/* Another rank: false where the directory is not rank 0's, or the files cannot be opened. */
static bool team_join(team *t)
{
    bool there = false;
    bp_store *store = t->location->store;
    if (team_name_files(t, t->all[0].stamp) != BP_OK || store->open_update == NULL ||
        store->exists(store, t->stamp, &there) != BP_OK || !there) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        t->writer[i] = (bp_safetensors_writer){.store = store, .path = t->path[i]};
        if (store->open_update(store, t->path[i], &t->writer[i].file) != BP_OK) {
            return false;
        }
        t->open[i] = true;
    }
    return true;
}

/* The store's code stays that of what went wrong first. */
static bp_status team_close(team *t, bp_status status)
{
    bp_store *store = t->location->store;
    int code = store->code;
    for (int i = 0; i < 2; i++) {
        if (t->open[i] && store->close(store, t->writer[i].file) != BP_OK && status == BP_OK) {
            status = bp_storage_failed(t->location->error, store, "close", t->path[i]);
            code = store->code;
        }
        t->open[i] = false;
    }
    store->code = status != BP_OK ? code : store->code;
    return status;
}

/* One piece of a tensor, which this rank writes and adds to the digest. */
static bp_status team_write(team *t, size_t index, uint64_t bytes)
{
    const bp_staging staging = t->location->staging;
    const int file = index < t->form.model.entry_count ? 0 : 1;
    const bp_tensor_entry *entry = &t->form.model.entries[index];
    const uint64_t handle = t->checkpoint->tensors[entry->handle].handle;
    const uint64_t data = 8 + t->all[0].header[file] + entry->offset;
    team_tensor *tensor = &t->tensors[index];
    bp_store *store = t->location->store;
    for (uint64_t at = tensor->done; bytes > 0;) {
        const size_t piece = bytes < staging.capacity ? (size_t)bytes : staging.capacity;
        BP_TRY(t->ranks->read(t->ranks->user, handle, at, staging.memory, piece));
        bp_digest_add(&tensor->running, staging.memory, piece);
        if (store->write_at(store, t->writer[file].file, data + at, staging.memory, piece) !=
            BP_OK) {
            return bp_storage_failed(t->location->error, store, "write", t->path[file]);
        }
        at += piece;
        bytes -= piece;
    }
    return BP_OK;
}

/* A piece is chosen: before the gathering its owner writes it, behind it all take what came. */
static bp_status team_piece(team *t, size_t index, uint32_t owner, uint64_t bytes, bool taken)
{
    team_tensor *tensor = &t->tensors[index];
    const uint64_t seat = t->seats[owner].pieces;
    if (!taken && owner == t->ranks->rank) {
        BP_TRY(team_write(t, index, bytes));
        t->mine->running[seat] = tensor->running;
    }
    if (taken) {
        tensor->running = t->all[owner].running[seat];
        tensor->done += bytes;
    }
    return BP_OK;
}

/* Goes through a round's pieces, the same ones on every rank and each time. */
static bp_status team_pass(team *t, bool taken)
{
    const size_t count = t->checkpoint->tensor_count;
    uint32_t busy = 0;
    memset(t->seats, 0, t->ranks->size * sizeof *t->seats);
    for (size_t i = t->first; i < count && busy < t->ranks->size; i++) {
        uint64_t end = 0;
        const bp_tensor_entry *entry = &t->form.model.entries[i];
        const uint64_t done = t->tensors[i].done;
        if (done == entry->bytes) {
            continue;
        }
        const uint32_t owner =
            t->ranks->owner(t->ranks->user, &t->checkpoint->tensors[entry->handle], done, &end);
        team_seat *seat = &t->seats[owner];
        if (seat->pieces == TEAM_PIECES || seat->bytes == TEAM_BYTES) {
            continue;
        }
        const uint64_t room = TEAM_BYTES - seat->bytes;
        const uint64_t bytes = end - done < room ? end - done : room;
        BP_TRY(team_piece(t, i, owner, bytes, taken));
        seat->bytes += bytes;
        seat->pieces++;
        busy += seat->pieces == TEAM_PIECES || seat->bytes == TEAM_BYTES ? 1 : 0;
    }
    return BP_OK;
}

/* All tensors, and what they come to. */
static bp_status team_tensors(team *t)
{
    const size_t count = t->checkpoint->tensor_count;
    bp_tensor_entry *entries = t->form.model.entries;
    for (size_t i = 0; i < count; i++) {
        t->tensors[i].done = 0;
        bp_digest_begin(&t->tensors[i].running, 0);
    }
    for (;;) {
        while (t->first < count && t->tensors[t->first].done == entries[t->first].bytes) {
            t->first++;
        }
        if (t->first == count) {
            break;
        }
        BP_TRY(team_agree(t, team_pass(t, false)));
        BP_TRY(team_pass(t, true));
    }
    for (size_t i = 0; i < count; i++) {
        entries[i].digest = bp_digest_end(&t->tensors[i].running);
        t->form.digests[entries[i].handle] = entries[i].digest;
    }
    return BP_OK;
}

/* A rank that has written lets its bytes reach the medium. */
static bp_status team_sync(team *t)
{
    bp_store *store = t->location->store;
    for (int i = 0; i < 2; i++) {
        if (store->sync(store, t->writer[i].file) != BP_OK) {
            return bp_storage_failed(t->location->error, store, "sync", t->path[i]);
        }
    }
    return BP_OK;
}

/* Rank 0: the headers, and the directory's name. */
static bp_status team_publish(team *t, uint64_t sum)
{
    const bp_checkpoint_location *location = t->location;
    if (location->store->remove(location->store, t->stamp) != BP_OK) {
        return bp_storage_failed(location->error, location->store, "remove", t->stamp);
    }
    bp_digest_text(sum, t->form.sum);
    for (int i = 0; i < 2; i++) {
        t->open[i] = false; /* end closes it, whatever comes */
        BP_TRY(bp_safetensors_end(&t->writer[i]));
    }
    return bp_checkpoint_publish(location, t->checkpoint->step, t->temporary);
}

static bp_status team_save(team *t, uint64_t *digest)
{
    BP_TRY(team_tensors(t));
    const uint64_t sum = bp_checkpoint_state_digest(t->checkpoint, t->form.digests);
    bp_status status = BP_OK;
    if (!team_leads(t)) {
        status = team_close(t, team_sync(t));
    }
    BP_TRY(team_agree(t, status));
    BP_TRY(team_agree(t, team_leads(t) ? team_publish(t, sum) : BP_OK));
    if (digest != NULL) {
        *digest = sum;
    }
    return BP_OK;
}

/* Whether every rank has rank 0's files open. */
static bp_status team_meet(team *t, bool *apart)
{
    const bool joined = team_leads(t) || team_join(t);
    const uint64_t stamp = t->all[0].stamp;
    t->mine->stamp = joined ? stamp : stamp + 1;
    BP_TRY(team_agree(t, BP_OK));
    *apart = false;
    for (uint32_t rank = 0; rank < t->ranks->size; rank++) {
        *apart = *apart || t->all[rank].stamp != stamp;
    }
    return BP_OK;
}

bp_status bp_checkpoint_save_ranks(const bp_checkpoint_location *location,
                                   const bp_checkpoint *checkpoint,
                                   const bp_checkpoint_ranks *ranks, uint64_t *digest, bool *apart)
{
    team t = {.location = location, .checkpoint = checkpoint, .ranks = ranks};
    bp_checkpoint_location rest;
    *apart = false;
    BP_TRY(team_allocate(&t, &rest));
    bp_status status = bp_checkpoint_make_layout(&rest, checkpoint, &t.form);
    if (status == BP_OK) {
        status =
            bp_checkpoint_path(location, BP_CHECKPOINT_TEMPORARY, checkpoint->step, t.temporary);
    }
    status = status == BP_OK && team_leads(&t) ? team_begin(&t) : status;
    status = team_agree(&t, status);
    status = status == BP_OK ? team_meet(&t, apart) : status;
    status = status == BP_OK && !*apart ? team_save(&t, digest) : status;
    return team_close(&t, status);
}
