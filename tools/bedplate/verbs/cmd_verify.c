/* SPDX-License-Identifier: MIT */
/* bedplate verify: reads a checkpoint whole and compares every digest. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/digest.h"
#include "core/run/checkpoint/checkpoint.h"
#include "core/base/storage.h"
#include "device/host/storage/store_posix.h"
#include "tools/bedplate/app/memory.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/record/record_verify.h"
#include "tools/bedplate/app/commands.h"

#define SCRATCH_BYTES ((size_t)64 << 20) /* address space; pages come as they are used */
#define STAGING_BYTES ((size_t)1 << 20)

/* What is damaged in a directory. */
typedef struct verify_damage {
    uint64_t newest; /* the newest valid checkpoint */
    uint32_t count;
} verify_damage;

static void print_damaged(void *user, const char *path, const bp_error *reason)
{
    verify_damage *damage = user;
    damage->count++;
    output_print(stderr, "bedplate: %s: damaged: %s: %s\n", path, reason->name,
                 reason->text != NULL ? reason->text : "");
}

/* Those newer than the one that was found have been told of. */
static void print_older(void *user, const char *path, const bp_error *reason)
{
    const verify_damage *damage = user;
    const char *number = strrchr(path, '-');
    if (number != NULL && strtoull(number + 1, NULL, 10) < damage->newest) {
        print_damaged(user, path, reason);
    }
}

/* A directory with a state.safetensors is a checkpoint; any other is looked through for
 * checkpoints. */
static bp_status cmd_verify_check(const bp_checkpoint_location *place, verify_damage *damage,
                                  bp_checkpoint_found *found)
{
    char path[BP_STORE_PATH_MAX];
    bool there = false;
    bp_store *store = place->store;
    BP_TRY(bp_storage_join(path, place->directory, "state.safetensors", place->error));
    BP_TRY(bp_storage_exists(store, path, &there, place->error));
    if (there) {
        return bp_checkpoint_verify(place, place->directory, found);
    }
    BP_TRY(bp_checkpoint_find(place, print_damaged, damage, found, &there));
    if (!there) {
        return bp_error_set(place->error, BP_ERR_DATA, "verify",
                            "there is no valid checkpoint in this directory", place->directory);
    }
    damage->newest = found->step;
    return BP_OK;
}

/* --newest: whether there is a checkpoint to go on from; else everything that is there is whole. */
static bp_status cmd_verify_all(const settings *set, const bp_checkpoint_location *place,
                                bp_checkpoint_found *found, record_verdict *record)
{
    verify_damage damage = {.count = 0};
    BP_TRY(cmd_verify_check(place, &damage, found));
    BP_TRY(record_verify(place, print_older, &damage, record));
    return damage.count == 0 || set->newest
               ? BP_OK
               : bp_error_set(
                     place->error, BP_ERR_DATA, "verify",
                     "a checkpoint in this directory is damaged; --newest asks for a valid "
                     "one alone",
                     place->directory);
}

static void cmd_verify_print_record(bp_text *text, const record_verdict *record)
{
    bp_text_string(text, "record: ");
    bp_text_u64(text, record->lines);
    bp_text_string(text, record->ended ? " lines, ended at step " : " lines, up to step ");
    bp_text_u64(text, record->steps);
    bp_text_string(text, ", agrees with ");
    bp_text_u64(text, record->checkpoints);
    bp_text_string(text, " checkpoints and ");
    bp_text_u64(text, record->files);
    bp_text_string(text, " exported files");
    if (record->gone > 0) {
        bp_text_string(text, " (not here: ");
        bp_text_u64(text, record->gone);
        bp_text_char(text, ')');
    }
    if (record->verified > 0) {
        bp_text_string(text, ", verified up to step ");
        bp_text_u64(text, record->verified);
    }
    bp_text_string(text, ", chain ");
    bp_text_string(text, record->chain);
    bp_text_string(text, "\nverified: chain, digests of checkpoints, SHA-256 of exported files; ");
    if (record->tensors > 0) {
        bp_text_string(text, record->best ? "compared with the best checkpoint: "
                                          : "compared with the last checkpoint: ");
        bp_text_u64(text, record->compared);
        bp_text_string(text, " of ");
        bp_text_u64(text, record->tensors);
        bp_text_string(text, " exported tensors");
    } else {
        bp_text_string(text, "exported tensors were not compared with a checkpoint");
    }
    bp_text_string(text, "; that the run computed them a replay shows\n");
}

static void cmd_verify_print(const settings *set, const bp_checkpoint_found *found,
                             const record_verdict *record, bool valid)
{
    char digest[BP_DIGEST_TEXT];
    output out;
    bp_digest_text(found->digest, digest);
    output_begin(&out, stdout);
    if (set->json) {
        json_begin(&out);
        json_count(&out, "step", found->step);
        json_flag(&out, "valid", valid);
        json_text(&out, "state_digest", valid ? digest : "");
        json_text(&out, "path", valid ? found->path : set->words.item[0]);
        if (record->there) {
            json_open(&out, "record");
            json_count(&out, "lines", record->lines);
            json_count(&out, "steps", record->steps);
            json_flag(&out, "ended", record->ended);
            json_count(&out, "checkpoints", record->checkpoints);
            json_count(&out, "files", record->files);
            json_count(&out, "files_gone", record->gone);
            json_count(&out, "tensors", record->tensors);
            json_count(&out, "tensors_compared", record->compared);
            json_count(&out, "verified", record->verified);
            json_text(&out, "chain", record->chain);
            json_close(&out);
        }
        json_end(&out);
    } else if (valid) {
        bp_text_string(&out.text, found->path);
        bp_text_string(&out.text, ": step ");
        bp_text_u64(&out.text, found->step);
        bp_text_string(&out.text, ", valid, state digest ");
        bp_text_string(&out.text, digest);
        bp_text_char(&out.text, '\n');
        if (record->there) {
            cmd_verify_print_record(&out.text, record);
        } else {
            bp_text_string(&out.text, "record: there is none in this directory\n");
        }
    }
    output_end(&out);
}

int cmd_verify(const settings *set)
{
    bp_error error = {.code = BP_OK};
    bp_store_posix posix;
    memory_block memory = {NULL, 0};
    bp_checkpoint_found found = {.step = 0};
    bp_status status = bp_store_posix_init(&posix, "");
    if (status == BP_OK) {
        status = memory_take(&memory, SCRATCH_BYTES + STAGING_BYTES, false, "memory", &error);
    }
    if (status == BP_OK) {
        char *bytes = memory.address;
        const bp_checkpoint_location place = {.store = &posix.store,
                                              .directory = set->words.item[0],
                                              .scratch = bytes,
                                              .scratch_bytes = SCRATCH_BYTES,
                                              .staging = {bytes + SCRATCH_BYTES, STAGING_BYTES},
                                              .error = &error};
        record_verdict record = {.there = false};
        status = cmd_verify_all(set, &place, &found, &record);
        cmd_verify_print(set, &found, &record, status == BP_OK);
    }
    int code = report_status(status, &error);
    memory_give_back(&memory);
    return code;
}
