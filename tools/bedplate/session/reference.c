/* SPDX-License-Identifier: MIT */
/* Log-probabilities of a reference. */
#include "tools/bedplate/session/reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/storage.h"
#include "core/base/digest.h"
#include "tools/bedplate/session/preference_choice.h"
#include "tools/bedplate/sources/data_task.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/bedplate/app/output.h"

/* Before the numbers, in memory and in the file; as the machine has it, like the numbers. */
typedef struct reference_head {
    char magic[8];
    uint64_t key; /* of data, lengths of rows and --ref-model */
    uint64_t rows;
    uint64_t digest; /* of the numbers */
} reference_head;

static const char where[] = "reference", magic[] = "BPREFLOG", file_name[] = "reference.logps";

static bp_status reference_example(bp_source *source, uint64_t index, bp_example *to)
{
    const reference_part *part = source->context;
    uint32_t bits = 0;
    BP_TRY(part->inner->example(part->inner, index, to));
    if (part->logps != NULL) {
        memcpy(&bits, &part->logps[index], sizeof bits);
    }
    to->label = to->label << 32 | bits;
    return BP_OK;
}

static bp_status reference_read(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const reference_part *part = source->context;
    return part->inner->read(part->inner, first, n, to);
}

static float *wrap_part(reference_part *part, bp_source **source, float *logps)
{
    if (*source == NULL) {
        return logps;
    }
    part->inner = *source;
    part->source = **source;
    part->source.context = part;
    part->source.read = reference_read;
    part->source.example = reference_example;
    part->logps = logps;
    *source = &part->source;
    return logps != NULL ? logps + part->inner->examples : NULL;
}

bp_status reference_open(reference *r, session *s, data_set *data)
{
    memset(r, 0, sizeof *r);
    if (s->spec.preference.kind == BP_PREFERENCE_NONE) {
        return BP_OK;
    }
    const uint64_t rows = data->train->examples + (data->eval != NULL ? data->eval->examples : 0);
    const uint64_t bytes = bp_size_add(sizeof(reference_head), bp_size_mul(rows, sizeof(float)));
    float *logps = NULL;
    if (preference_refers(&s->spec)) {
        BP_TRY(memory_take(&r->memory, bytes, false, "reference", &s->error));
        s->reference_bytes = bytes;
        logps = (float *)(void *)((char *)r->memory.address + sizeof(reference_head));
        r->rows = rows;
    }
    logps = wrap_part(&r->train, &data->train, logps);
    (void)wrap_part(&r->eval, &data->eval, logps);
    return BP_OK;
}

bp_status reference_plan(session *s)
{
    uint64_t rows = 0;
    if (!preference_refers(&s->spec)) {
        return BP_OK;
    }
    BP_TRY(data_task_count(s, &s->set->data, &rows));
    BP_TRY(data_task_count(s, &s->set->eval_data, &rows));
    /* kto takes pairs apart, and compares each text with another row's. */
    const bool apart = s->spec.preference.kind == BP_PREFERENCE_KTO;
    rows = bp_size_mul(rows, (uint64_t)preference_rows(&s->spec) * (apart ? 2 : 1));
    s->reference_bytes = bp_size_add(sizeof(reference_head), bp_size_mul(rows, sizeof(float)));
    return BP_OK;
}

static uint64_t key_of(const session *s, const char *identity)
{
    const char *model = s->set->ref_model != NULL ? s->set->ref_model : "";
    bp_digest digest;
    bp_digest_begin(&digest, s->spec.sequence);
    bp_digest_add(&digest, identity, strlen(identity) + 1);
    bp_digest_add(&digest, model, strlen(model));
    return bp_digest_end(&digest);
}

static uint64_t digest_of(const reference *r)
{
    bp_digest digest;
    bp_digest_begin(&digest, 0);
    bp_digest_add(&digest, (char *)r->memory.address + sizeof(reference_head),
                  (size_t)r->rows * sizeof(float));
    return bp_digest_end(&digest);
}

static bp_status path_of(const session *s, char path[BP_STORE_PATH_MAX], bp_error *error)
{
    return bp_storage_join(path, s->set->output_dir, file_name, error);
}

/* The file of this run is there, whole. */
static bool read_file(reference *r, const session *s, const char *identity, const char *path)
{
    reference_head *head = r->memory.address;
    size_t length = 0;
    return bp_storage_read_file(s->store, path, head, r->memory.bytes, &length, NULL) == BP_OK &&
           length == sizeof *head + r->rows * sizeof(float) &&
           memcmp(head->magic, magic, sizeof head->magic) == 0 && head->rows == r->rows &&
           head->key == key_of(s, identity) && head->digest == digest_of(r);
}

bp_status reference_find(reference *r, session *s, const char *identity)
{
    char path[BP_STORE_PATH_MAX];
    uint32_t lacks;
    if (r->rows == 0 || !s->state_follows) {
        return BP_OK;
    }
    const bool found = path_of(s, path, NULL) == BP_OK && read_file(r, s, identity, path);
    /* Ranks share the evaluation that makes it, so all have it or none. */
    ranks_leave_turn(s->set);
    const bp_status status = ranks_first(s->set, !found, &lacks, &s->error);
    ranks_take_turn(s->set);
    BP_TRY(status);
    r->found = lacks == ranks_size(s->set);
    if (!r->found) {
        s->state_follows = false;
    }
    if (!found) {
        output_print(
            stderr,
            "bedplate: %s: there is no such file of this run: the reference is computed again\n",
            path);
    }
    return BP_OK;
}

static bp_status take_rows(void *user, const bp_runtime *runtime)
{
    reference_part *part = user;
    const float *logps = bp_runtime_logits(runtime);
    const uint32_t count = bp_runtime_group(runtime)->samples;
    for (uint32_t i = 0; i < count && part->next < part->inner->examples; i++) {
        part->logps[part->next++] = logps[i];
    }
    return BP_OK;
}

static bp_status fill_part(reference_part *part, session *s, const data_set *data)
{
    double loss;
    uint64_t targets;
    if (part->inner == NULL) {
        return BP_OK;
    }
    memset(part->logps, 0, (size_t)part->inner->examples * sizeof *part->logps);
    part->next = 0;
    bp_feed feed = data_set_feed(data, s, &part->source);
    feed.batch = bp_spec_eval_batch(&s->plan.spec);
    feed.group = feed.batch;
    BP_TRY(bp_feed_init(&feed, &s->error));
    ranks_leave_turn(s->set);
    const bp_status status =
        bp_runtime_evaluate_each(&s->runtime, &feed, 0, take_rows, part, &loss, &targets);
    ranks_take_turn(s->set);
    return status;
}

/* Another model's weights, or the session's own again. */
static bp_status swap_weights(session *s, const char *directory)
{
    char own[BP_STORE_PATH_MAX];
    const bool had = s->weights;
    bool there = false;
    if (directory == NULL) {
        return session_give_weights(s, true);
    }
    memcpy(own, s->weights_path, sizeof own);
    BP_TRY(bp_hf_find(s->store, directory, s->weights_path, &there, &s->error));
    if (!there) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "the reference has no weights: give a model directory", directory);
    }
    s->weights = true;
    BP_TRY(session_give_weights(s, false));
    memcpy(s->weights_path, own, sizeof own);
    s->weights = had;
    return BP_OK;
}

/* An adapter that is evaluated is compared with the model without it. */
static bp_status give_reference(session *s, bool *given)
{
    *given = true;
    if (s->set->ref_model != NULL) {
        return swap_weights(s, s->set->ref_model);
    }
    if (s->set->command != COMMAND_EVAL) {
        *given = false;
        return BP_OK;
    }
    if (s->set->adapter == NULL) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "an evaluation of this task compares with a reference: give its model",
                            "--ref-model");
    }
    return session_give_weights(s, false);
}

static bp_status write_file(const reference *r, session *s, const char *identity)
{
    char path[BP_STORE_PATH_MAX];
    reference_head *head = r->memory.address;
    memcpy(head->magic, magic, sizeof head->magic);
    head->key = key_of(s, identity);
    head->rows = r->rows;
    head->digest = digest_of(r);
    if (s->set->output_dir == NULL || !ranks_leads(s->set) || s->set->command != COMMAND_TRAIN) {
        return BP_OK;
    }
    BP_TRY(path_of(s, path, &s->error));
    if (s->store->make_directory(s->store, s->set->output_dir) != BP_OK) {
        return bp_storage_failed(&s->error, s->store, "make directory", s->set->output_dir);
    }
    return bp_storage_write_file(s->store, path, head, sizeof *head + r->rows * sizeof(float),
                                 &s->error);
}

bp_status reference_fill(reference *r, session *s, const data_set *data, const char *identity)
{
    bool given;
    if (r->rows == 0 || r->found) {
        return BP_OK;
    }
    BP_TRY(give_reference(s, &given));
    BP_TRY(fill_part(&r->train, s, data));
    BP_TRY(fill_part(&r->eval, s, data));
    if (given) {
        BP_TRY(swap_weights(s, NULL));
    }
    if (!s->set->quiet) {
        output_print(stderr,
                     "bedplate: the reference's log-probabilities of %" PRIu64 " rows: %" PRIu64
                     " bytes\n",
                     r->rows, r->rows * (uint64_t)sizeof(float));
    }
    return write_file(r, s, identity);
}

void reference_close(reference *r)
{
    memory_give_back(&r->memory);
}
