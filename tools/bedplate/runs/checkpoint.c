/* SPDX-License-Identifier: MIT */
/* Saving, resuming, exporting. */
#include "tools/bedplate/runs/checkpoint.h"
#include "tools/bedplate/app/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "core/run/checkpoint/checkpoint_private.h"
#include "tools/bedplate/models/end_tokens.h"
#include "tools/bedplate/runs/checkpoint_offload.h"
#include "tools/bedplate/models/model_files.h"
#include "tools/bedplate/runs/checkpoint_keys.h"
#include "tools/bedplate/runs/checkpoint_ranks.h"
#include "tools/bedplate/sources/data_conversations.h"
#include "tools/bedplate/runs/integrity.h"
#include "tools/bedplate/record/old_names.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/session/adapter_choice.h"
#include "tools/bedplate/session/preference_choice.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/app/store_lasting.h"
#include "tools/bedplate/app/store_none.h"
#include "tools/bedplate/record/train_record.h"
#include "tools/formats/hf/hf_config_copy.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_weights.h"
#include "tools/formats/files/stream_file.h"
#include "tools/bedplate/app/output.h"

#define STAGING_BYTES ((size_t)256 << 10)

static const char where[] = "output";

typedef struct seen {
    bool checkpoints;
} seen;

static bp_status look_at(void *user, const char *name)
{
    seen *s = user;
    s->checkpoints = s->checkpoints ||
                     strncmp(name, BP_CHECKPOINT_FINAL, strlen(BP_CHECKPOINT_FINAL)) == 0 ||
                     strncmp(name, BP_CHECKPOINT_REPLACED, strlen(BP_CHECKPOINT_REPLACED)) == 0;
    return BP_OK;
}

static bp_status look_for_checkpoints(session *s, seen *found)
{
    const char *directory = s->set->output_dir;
    return s->store->list(s->store, directory, look_at, found) == BP_OK
               ? BP_OK
               : bp_storage_failed(&s->error, s->store, "list", directory);
}

static void print_damaged(void *user, const char *path, const bp_error *reason)
{
    (void)user;
    output_print(stderr, "bedplate: %s: the checkpoint is damaged and is passed over: %s: %s\n",
                 path, reason->name, reason->text != NULL ? reason->text : "");
}

/* The newest valid checkpoint in place->directory; damaged ones are named on stderr. *any is false
 * when there is none. */
static bp_status newest_valid(const bp_checkpoint_location *place, bp_checkpoint_found *found,
                              bool *any)
{
    return bp_checkpoint_find(place, print_damaged, NULL, found, any);
}

/* The checkpoint at `path`: a checkpoint-N, or the newest valid one in a directory of some. All of
 * it is read. BP_ERR_DATA when there is none, or it is damaged; `asked_by` is what the message
 * names.
 */
static bp_status checkpoint_at(const bp_checkpoint_location *place, const char *path,
                               const char *asked_by, bp_checkpoint_found *found)
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
    BP_TRY(newest_valid(&inside, found, &any));
    if (any) {
        return BP_OK;
    }
    bp_status status = bp_error_set(
        place->error, BP_ERR_DATA, "checkpoint",
        "there is no checkpoint: give a checkpoint-N, or a directory that has one", path);
    bp_error_prefix(place->error, asked_by);
    return status;
}

/* Whether `path` is the directory or lies in it. */
static bool lies_inside(const char *directory, const char *path)
{
    char parent[BP_STORE_PATH_MAX];
    return model_files_same(directory, path) ||
           (bp_storage_join(parent, path, "..", NULL) == BP_OK &&
            model_files_same(directory, parent));
}

static bp_status check_config(session *s, const char *directory)
{
    static uint64_t scratch[BP_HF_CONFIG_SCRATCH / 8];
    char path[BP_STORE_PATH_MAX];
    bool exists = false;
    bp_model_config config;
    BP_TRY(bp_storage_join(path, directory, "config.json", &s->error));
    BP_TRY(bp_storage_exists(s->store, path, &exists, &s->error));
    if (!exists) {
        return BP_OK;
    }
    bp_error inner = {.code = BP_OK};
    const bp_status read = bp_hf_config_read(s->store, path, scratch, &config, &inner);
    if (read == BP_ERR_STORE) {
        s->error = inner;
        return read;
    }
    if (read != BP_OK || !bp_family_same(&config, &s->spec.config)) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the output directory holds a different model; give another directory",
                            directory);
    }
    return BP_OK;
}

bp_status checkpoint_check_directory(session *s)
{
    const char *directory = s->set->output_dir;
    if (directory == NULL || directory[0] == '\0') {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the option is needed: where the trained model goes", "--output-dir");
    }
    bool exists = false;
    seen found = {false};
    BP_TRY(bp_storage_exists(s->store, directory, &exists, &s->error));
    if (!exists || s->set->overwrite) {
        return BP_OK;
    }
    BP_TRY(check_config(s, directory));
    BP_TRY(look_for_checkpoints(s, &found));
    const char *from = s->set->resume_from;
    const bool resumes = s->set->resume && (from == NULL || lies_inside(directory, from));
    if (found.checkpoints && !resumes) {
        return bp_error_set(
            &s->error, BP_ERR_USAGE, where,
            "the output directory holds checkpoints of an earlier run; give --resume "
            "to continue it, --overwrite-output-dir to remove them, or another directory",
            directory);
    }
    return BP_OK;
}

static void list_tensors(checkpoint *c)
{
    const bp_runtime *runtime = &c->s->runtime;
    for (uint32_t i = 0; i < bp_runtime_state_count(runtime); i++) {
        c->tensors[i] = bp_runtime_state_tensor(runtime, i);
    }
}

static bp_status list_files(checkpoint *c)
{
    const bp_model_config *config = &c->s->spec.config;
    size_t length;
    BP_TRY(bp_hf_config_text(config, &c->s->names, c->config_json, &length));
    c->files[0] = (bp_blob){"config.json", c->config_json, length};
    c->checkpoint.blob_count = 1;
    run_tokenizer_kind kind = c->s->run_tokenizer.kind;
    bool asked = c->s->run_tokenizer.bytes > 0;
    if (asked ? kind == TOKENIZER_BYTES : config->vocabulary == BP_BYTE_VOCABULARY) {
        BP_TRY(bp_byte_tokenizer_text(c->tokenizer_json, &length));
        c->files[1] = (bp_blob){"tokenizer.json", c->tokenizer_json, length};
        BP_TRY(bp_byte_tokenizer_settings(config->positions, c->tokenizer_settings, &length));
        c->files[2] = (bp_blob){"tokenizer_config.json", c->tokenizer_settings, length};
        c->checkpoint.blob_count = 3;
    }
    c->checkpoint.blobs = c->files;
    return BP_OK;
}

/* The longest name that the run will write, of its last checkpoint while it is made: what does not
 * fit is told before the first step. */
static bp_status checkpoint_check_names(const session *s, uint64_t total, bp_error *error)
{
    char path[BP_STORE_PATH_MAX], name[96];
    if (s->set->output_dir == NULL) {
        return BP_OK; /* a replay writes nothing */
    }
    snprintf(name, sizeof name, "tmp-checkpoint-%llu/special_tokens_map.json",
             (unsigned long long)total);
    const char *directory = s->set->output_dir; /* NULL: a replay, which writes nothing */
    return directory != NULL ? bp_storage_join(path, directory, name, error) : BP_OK;
}

bp_status checkpoint_begin(checkpoint *c, session *s, const checkpoint_facts *facts)
{
    BP_TRY(checkpoint_check_names(s, facts->total_steps, &s->error));
    size_t count = bp_runtime_state_count(&s->runtime);
    c->tensors = malloc((2 * count + 1) * sizeof *c->tensors);
    if (c->tensors == NULL) {
        return bp_error_set(&s->error, BP_ERR_FIT, where, "no memory for the list of tensors", "");
    }
    list_tensors(c);
    c->checkpoint.tensors = c->tensors;
    c->checkpoint.tensor_count = count;
    c->checkpoint.io = bp_runtime_state_io(&s->runtime);
    c->total = facts->total_steps;
    BP_TRY(checkpoint_offload_begin(c));
    BP_TRY(list_files(c));
    BP_TRY(checkpoint_keys_fill(c, facts));
    size_t scratch = s->work.capacity - STAGING_BYTES;
    char *staging = (char *)s->work.memory + scratch;
    c->place = (bp_checkpoint_location){.store = s->store,
                                        .directory = s->set->output_dir,
                                        .scratch = s->work.memory,
                                        .scratch_bytes = scratch,
                                        .staging = {staging, STAGING_BYTES},
                                        .error = &s->error};
    return BP_OK;
}

/* The value of a key that is a number; false when there is none. */
static bool saved_number(bp_pairs saved, const char *key, uint32_t *number)
{
    const char *text = bp_pairs_find(saved, key);
    char *end = NULL;
    unsigned long value = text != NULL ? strtoul(text, &end, 10) : 0;
    bool good = text != NULL && end != text && *end == '\0' && value > 0 && value <= INT32_MAX;
    *number = good ? (uint32_t)value : 0;
    return good;
}

static void recall_shapes(session *s, bp_pairs saved)
{
    uint32_t batch;
    uint32_t accumulation;
    uint32_t rows;
    bool given = option_given(s->set, "per-device-train-batch-size") ||
                 option_given(s->set, "gradient-accumulation-steps");
    bool both = saved_number(saved, "result.per-device-train-batch-size", &batch) &&
                saved_number(saved, "result.gradient-accumulation-steps", &accumulation);
    if (!given && both) {
        s->spec.batch = batch * preference_rows(&s->spec);
        s->spec.accumulation = accumulation;
        s->batch_resolved = true;
    }
    uint32_t lanes;
    if (!option_given(s->set, "virtual-ranks") &&
        saved_number(saved, "result.virtual-ranks", &lanes)) {
        s->spec.virtual_ranks = lanes;
    }
    if (!option_given(s->set, "virtual-sequence-ranks") &&
        saved_number(saved, "result.virtual-sequence-ranks", &lanes)) {
        s->spec.token_lanes = lanes;
    }
    /* Of a smaller micro-batch than the checkpoint's no chunk is kept: the comparison will say it.
     */
    bool chunk = saved_number(saved, "result.loss-chunk-rows", &rows) &&
                 rows <= (uint64_t)s->spec.batch * s->spec.sequence;
    if (chunk && !option_given(s->set, "loss-chunk-rows")) {
        s->spec.loss_rows = rows;
        s->chunk_resolved = true;
    }
}

/* A run that finds no valid checkpoint where there are some would begin anew, and remove them in
 * time; what is left of them may be all that there is of weeks. */
static bp_status check_lost(session *s)
{
    bool there = false;
    seen found = {false};
    BP_TRY(bp_storage_exists(s->store, s->set->output_dir, &there, &s->error));
    if (!there || s->set->overwrite) {
        return BP_OK;
    }
    BP_TRY(look_for_checkpoints(s, &found));
    return !found.checkpoints
               ? BP_OK
               : bp_error_set(
                     &s->error, BP_ERR_DATA, where,
                     "the output directory holds checkpoints of a run and none of them is "
                     "valid; --overwrite-output-dir removes them and starts from the beginning",
                     s->set->output_dir);
}

static bp_status find_newest(checkpoint *c, const bp_checkpoint_location *place)
{
    bp_pairs saved;
    const char *from = c->s->set->resume_from;
    if (from != NULL) {
        BP_TRY(checkpoint_at(place, from, "--resume-from-checkpoint", &c->newest));
        c->found = true;
    } else {
        BP_TRY(newest_valid(place, &c->newest, &c->found));
    }
    if (c->found) {
        BP_TRY(old_names_read_keys(place, c->newest.path, &saved));
        BP_TRY(checkpoint_offload_find(c->s, saved, c->newest.step));
        recall_shapes(c->s, saved);
    }
    return c->found ? BP_OK : check_lost(c->s);
}

bp_status checkpoint_recall(checkpoint *c, session *s)
{
    memory_block memory;
    memset(c, 0, offsetof(checkpoint, log) + offsetof(events, text));
    memset(&c->book, 0, offsetof(record, text));
    c->s = s;
    c->saved = UINT64_MAX;
    c->stated = UINT64_MAX;
    c->book.fd = -1;
    c->log.fd = -1;
    anomaly_begin(&c->watch, s->set, &c->log);
    c->watch.ranks = (anomaly_ranks){s->set, ranks_rank(s->set), ranks_size(s->set), ranks_first};
    /* a plan may be of a directory that it is not given, and is given the checkpoint */
    const bool named = s->set->command == COMMAND_PLAN && s->set->resume_from != NULL;
    if (!s->set->resume || (s->set->output_dir == NULL && !named)) {
        return BP_OK;
    }
    uint64_t bytes = session_work_bytes(s);
    BP_TRY(memory_take(&memory, bytes, false, "host memory", &s->error));
    size_t scratch = (size_t)bytes - STAGING_BYTES;
    const bp_checkpoint_location place = {
        .store = s->store,
        .directory = s->set->output_dir,
        .scratch = memory.address,
        .scratch_bytes = scratch,
        .staging = {(char *)memory.address + scratch, STAGING_BYTES},
        .error = &s->error};
    bp_status status = find_newest(c, &place);
    memory_give_back(&memory);
    return status;
}

/* What the config.json of a checkpoint of an earlier version says of the model. */
static bp_status compare_files(checkpoint *c, const char *directory, const char *asked,
                               size_t *differences)
{
    static uint64_t scratch[BP_HF_CONFIG_SCRATCH / 8];
    session *s = c->s;
    char path[BP_STORE_PATH_MAX];
    bp_model_config saved;
    BP_TRY(bp_storage_join(path, directory, "config.json", &s->error));
    BP_TRY(bp_hf_config_read(s->store, path, scratch, &saved, &s->error));
    *differences += checkpoint_keys_compare_model(&s->spec.config, &saved, asked);
    return BP_OK;
}

static bp_status checkpoint_resume(checkpoint *c)
{
    bp_pairs saved;
    session *s = c->s;
    BP_TRY(old_names_read_keys(&c->place, c->newest.path, &saved));
    size_t differences = checkpoint_keys_compare(c, saved);
    if (bp_pairs_find(saved, CHECKPOINT_OLD_MODEL_KEY) != NULL) {
        BP_TRY(compare_files(c, c->newest.path, "--resume", &differences));
    }
    if (differences > 0) {
        return BP_ERR_USAGE;
    }
    checkpoint_keys_remark(c, saved);
    const bool same_metric = checkpoint_keys_same(c, saved, "run.metric-for-best-model");
    if (!same_metric || !best_parse(bp_pairs_find(saved, CHECKPOINT_BEST_KEY), &c->best)) {
        c->best = (best_state){.judged = 0};
    }
    checkpoint_keys_parse_record(bp_pairs_find(saved, CHECKPOINT_RECORD_KEY), &c->loaded);
    checkpoint_keys_read_watch(c, saved);
    BP_TRY(checkpoint_offload_load(c, saved));
    bp_runtime_continue(&s->runtime, c->newest.step);
    c->saved = c->newest.step;
    checkpoint_keys_put_parent(c, c->saved, c->digest);
    return BP_OK;
}

/* The loss scale and its counters go on where both runs find the scale by themselves. */
static bp_status resolve_scale(checkpoint *c, bool same)
{
    bp_runtime *runtime = &c->s->runtime;
    const bp_scaling *scaling = &runtime->plan->spec.scaling;
    const bp_buffer *buffer = &runtime->plan->graph.buffers[runtime->plan->builder.control.buffer];
    bp_control_block control;
    if (scaling->kind == BP_SCALING_DYNAMIC && same) {
        return BP_OK;
    }
    BP_TRY(bp_runtime_read(runtime, buffer, 0, &control, sizeof control));
    control.scale = (float)scaling->initial;
    control.good_steps = 0;
    control.bad_steps = 0;
    return bp_runtime_write(runtime, buffer, 0, &control, sizeof control);
}

/* --continue-from: the state of the checkpoint, and nothing of its run. Steps are counted from 0
 * for schedule, order of the data and dropout; control.applied, which corrects the moments' bias,
 * goes on. */
static bp_status checkpoint_continue(checkpoint *c)
{
    session *s = c->s;
    bp_pairs saved;
    bp_checkpoint_found from;
    BP_TRY(checkpoint_at(&c->place, s->set->continue_from, "--continue-from", &from));
    BP_TRY(old_names_read_keys(&c->place, from.path, &saved));
    size_t differences = checkpoint_keys_compare_state(c, saved);
    if (bp_pairs_find(saved, CHECKPOINT_OLD_MODEL_KEY) != NULL) {
        BP_TRY(compare_files(c, from.path, "--continue-from", &differences));
    }
    if (differences > 0) {
        output_print(
            stderr,
            "bedplate: --continue-from: the state of another model, optimizer, precision or "
            "adapter cannot be continued; --model with that directory takes its weights alone\n");
        return BP_ERR_USAGE;
    }
    checkpoint_keys_remark(c, saved);
    const bool same_scale = checkpoint_keys_same(c, saved, "result.loss-scale");
    c->began = from.step;
    BP_TRY(bp_checkpoint_load(&c->place, from.path, &c->checkpoint, NULL));
    return resolve_scale(c, same_scale);
}

bp_status checkpoint_start(checkpoint *c)
{
    const settings *set = c->s->set;
    if (c->found) {
        return checkpoint_resume(c);
    }
    if (set->resume && !set->resume_auto && ranks_leads(set)) {
        output_print(stderr,
                     "bedplate: %s: there is no checkpoint to resume from; starting from step 0\n",
                     set->output_dir);
    }
    return set->continue_from != NULL ? checkpoint_continue(c) : BP_OK;
}

/* A checkpoint names its run's record, so the record is on the medium before it. */
static bp_status checkpoint_put(checkpoint *c, checkpoint_cause cause)
{
    const uint64_t step = c->checkpoint.step;
    uint64_t sum;
    const double began = clock_seconds();
    const bool whole = train_record_sync(c);
    anomaly_put(&c->watch);
    checkpoint_keys_put_verified(c);
    checkpoint_keys_put_record(c, whole, cause == CHECKPOINT_DUE && c->stated != step);
    BP_TRY(integrity_hold(c, &sum));
    BP_TRY(checkpoint_offload_save(c));
    BP_TRY(integrity_held(c, sum, "saving"));
    BP_TRY(integrity_read_back(c));
    json_line *line = events_begin(&c->log, "save", step);
    line_hex(line, "state_digest", c->digest);
    line_flag(line, "due", cause == CHECKPOINT_DUE);
    line_flag(line, "record", whole);
    line_flag(line, "read_back", c->watch.every > 0);
    line_count(line, "verified", c->watch.verified);
    line_real(line, "seconds", clock_seconds() - began);
    events_end(&c->log);
    checkpoint_keys_put_parent(c, step, c->digest);
    return BP_OK;
}

bp_status checkpoint_write(checkpoint *c, const bp_checkpoint_location *place,
                           checkpoint_cause cause)
{
    const bp_checkpoint_location kept = c->place;
    const settings *set = c->s->set;
    c->checkpoint.step = c->s->runtime.steps;
    best_put(&c->best, c->best_text);
    c->place = *place;
    ranks_leave_turn(set);
    const bp_status status = ranks_leads(set) ? checkpoint_put(c, cause) : checkpoint_ranks_save(c);
    ranks_take_turn(set);
    c->place = kept;
    c->saved = status == BP_OK ? c->s->runtime.steps : c->saved;
    return status;
}

bp_status checkpoint_state(checkpoint *c)
{
    const uint64_t step = c->s->runtime.steps;
    uint64_t digest = c->digest;
    if (c->saved != step) {
        ranks_leave_turn(c->s->set);
        const bp_status status = bp_checkpoint_digest(&c->place, &c->checkpoint, &digest);
        ranks_take_turn(c->s->set);
        BP_TRY(status);
    }
    train_record_state(c, step, digest);
    return BP_OK;
}

bp_status checkpoint_load_best(checkpoint *c)
{
    char name[64];
    char path[BP_STORE_PATH_MAX];
    session *s = c->s;
    if (c->best.step == 0 || c->best.step == s->runtime.steps) {
        return BP_OK;
    }
    snprintf(name, sizeof name, "checkpoint-%llu", (unsigned long long)c->best.step);
    BP_TRY(bp_storage_join(path, s->set->output_dir, name, &s->error));
    return bp_checkpoint_load(&c->place, path, &c->checkpoint, NULL);
}

/* Copies a file of the model that is trained, if it has it. */
static bp_status copy_file(checkpoint *c, const char *directory, const char *name)
{
    session *s = c->s;
    char from[BP_STORE_PATH_MAX];
    char to[BP_STORE_PATH_MAX];
    bool exists = false;
    BP_TRY(bp_storage_join(from, directory, name, &s->error));
    BP_TRY(bp_storage_join(to, s->set->output_dir, name, &s->error));
    BP_TRY(bp_storage_exists(s->store, from, &exists, &s->error));
    if (!exists) {
        return BP_OK;
    }
    return bp_replace_copy(s->store, from, to, s->work.memory, s->work.capacity, &s->error);
}

/* Where texts and turns end is learned, and generation stops there: what generation_config.json of
 * `from`, which was copied, does not say yet. */
static bp_status keep_ends(checkpoint *c, const char *from)
{
    session *s = c->s;
    const bp_model_config *config = &s->spec.config;
    const run_tokenizer *tokenizer = &s->run_tokenizer;
    end_tokens ends, copied;
    BP_TRY(end_tokens_find(&ends, s->store, NULL, tokenizer, NULL, &s->error));
    BP_TRY(end_tokens_read(&copied, s->store, from, END_TOKENS_FILE, &s->error));
    const bool turns =
        s->turn_end != 0 && !end_tokens_has(&ends, tokenizer, config, s->turn_end - 1);
    if (turns) {
        end_tokens_add(&ends, tokenizer, config, (int64_t)s->turn_end - 1);
    } else if (copied.given || !ends.given) {
        return BP_OK;
    }
    return end_tokens_write(&ends, config, s->store, from, s->set->output_dir, s->work.memory,
                            &s->error);
}

bp_status checkpoint_copy_tokenizer(checkpoint *c)
{
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "vocab.txt",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "tokenizer.model",
                                        "spiece.model",
                                        "sentencepiece.bpe.model",
                                        "tekken.json",
                                        "chat_template.jinja",
                                        "generation_config.json",
                                        "preprocessor_config.json",
                                        "config_sentence_transformers.json"};
    const session *s = c->s;
    bool bytes = c->checkpoint.blob_count > 1;
    const char *from = s->set->tokenizer != NULL ? s->set->tokenizer : s->set->model;
    from = s->run_tokenizer.kind == TOKENIZER_TOKENIZER ? s->run_tokenizer.directory : from;
    bool any = s->directory || s->set->tokenizer != NULL;
    if (ranks_leads(s->set)) {
        BP_TRY(chat_keep_template(c->s, s->set->output_dir));
    }
    if (bytes || !any || !ranks_leads(s->set) || strcmp(from, s->set->output_dir) == 0) {
        return BP_OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (s->set->chat_template != NULL && strcmp(names[i], "chat_template.jinja") == 0) {
            continue; /* another one is used */
        }
        BP_TRY(copy_file(c, from, names[i]));
    }
    return keep_ends(c, from);
}

/* --save-dtype; a preset has no files whose types could be kept. */
static bp_hf_scheme save_form(const session *s)
{
    const char *word = s->set->save_dtype;
    bool source = strcmp(word, "source") == 0 && s->weights;
    bp_hf_scheme form = {.dtype = BP_F32, .source = source ? s->weights_path : NULL};
    if (strcmp(word, "bf16") == 0) {
        form.dtype = BP_BF16;
    } else if (strcmp(word, "fp16") == 0) {
        form.dtype = BP_F16;
    }
    return form;
}

/* adapter_model.safetensors and adapter_config.json: what PEFT opens beside the base model. */
static bp_status export_adapters(checkpoint *c)
{
    session *s = c->s;
    static char json[BP_PEFT_CONFIG_TEXT];
    char path[BP_STORE_PATH_MAX];
    size_t length = 0;
    BP_TRY(bp_storage_join(path, s->set->output_dir, "adapter_model.safetensors", &s->error));
    const bp_hf_location place = {
        .store = s->store, .path = path, .scratch = s->work, .error = &s->error};
    adapter_note note;
    const bp_hf_scheme form = {.dtype = BP_F32,
                               .noted = c->unnoted ? NULL : adapter_note_base(&note, &s->spec)};
    BP_TRY(bp_hf_adapters_save(&s->runtime, &place, &form));
    BP_TRY(bp_peft_config_text(&s->plan.builder, s->set->model, json, sizeof json, &length));
    BP_TRY(bp_storage_join(path, s->set->output_dir, "adapter_config.json", &s->error));
    return bp_replace_file(s->store, path, json, length, &s->error);
}

/* A file beside the weights; config.json says the element type they were saved in, which is that of
 * the first as transformers has it. */
static bp_status export_file(checkpoint *c, const bp_blob *file, bp_dtype dtype)
{
    session *s = c->s;
    char path[BP_STORE_PATH_MAX];
    BP_TRY(bp_storage_join(path, s->set->output_dir, file->name, &s->error));
    if (dtype == BP_F32 || strcmp(file->name, "config.json") != 0) {
        return bp_replace_file(s->store, path, file->bytes, file->length, &s->error);
    }
    bp_json_span span = {file->bytes, file->length};
    const bp_json_source source = {bp_json_span_fill, &span, file->length};
    bp_stream_file stream;
    BP_TRY(bp_stream_begin(&stream, s->store, path, &s->error));
    bp_status status = bp_hf_config_copy(&source, dtype == BP_F16 ? "float16" : "bfloat16",
                                         s->work.memory, bp_stream_add, &stream, &s->error);
    return bp_stream_end(&stream, status);
}

/* Weights of Dense modules, beside adapters too, whose directory then stands for all of it. */
static bp_status export_modules(checkpoint *c)
{
    session *s = c->s;
    for (uint32_t i = 0; i < s->spec.config.dense_count; i++) {
        char name[BP_EMBEDDER_PATH], prefix[BP_EMBEDDER_PATH], path[BP_STORE_PATH_MAX];
        bp_hf_scheme form = save_form(s);
        bp_embedder_dense_path(i, name);
        bp_embedder_dense_prefix(i, prefix);
        form.module = prefix;
        BP_TRY(bp_storage_join(path, s->set->output_dir, name, &s->error));
        const bp_hf_location place = {.store = s->store,
                                      .path = path,
                                      .scratch = s->work,
                                      .modules = s->modules,
                                      .module_count = s->spec.config.dense_count,
                                      .error = &s->error};
        BP_TRY(bp_hf_weights_save(&s->runtime, &place, &form));
    }
    return BP_OK;
}

static bp_status write_export(checkpoint *c)
{
    session *s = c->s;
    char path[BP_STORE_PATH_MAX];
    if (s->spec.config.task == BP_TASK_EMBEDDING && s->spec.config.family->vectors == NULL) {
        const uint32_t width = bp_family_count(&s->spec.config, BP_ROLE_WIDTH);
        BP_TRY(bp_embedder_write(s->store, s->set->output_dir, &s->embedder, width,
                                 s->spec.sequence, &s->error));
        BP_TRY(export_modules(c));
    }
    if (s->plan.spec.lora.rank > 0) {
        return export_adapters(c);
    }
    BP_TRY(bp_storage_join(path, s->set->output_dir, "model.safetensors", &s->error));
    const bp_hf_location place = {
        .store = s->store, .path = path, .scratch = s->work, .error = &s->error};
    bp_hf_scheme form = save_form(s);
    bp_dtype dtype = form.dtype;
    form.first = &dtype;
    if (s->spec.config.task == BP_TASK_EMBEDDING && s->weights) {
        static const char *const poolers[] = {"pooler.*", "bert.pooler.*", "roberta.pooler.*",
                                              NULL};
        form.carried = s->weights_path; /* vectors are made without it, and others read it */
        form.patterns = poolers;
    }
    BP_TRY(bp_hf_weights_save(&s->runtime, &place, &form));
    for (size_t i = 0; i < c->checkpoint.blob_count; i++) {
        BP_TRY(export_file(c, &c->files[i], dtype));
    }
    if (s->store->sync_directory(s->store, s->set->output_dir) != BP_OK) {
        return bp_storage_failed(&s->error, s->store, "sync", s->set->output_dir);
    }
    return BP_OK;
}

/* A medium that fails does not end the reading that all ranks do together. */
static bp_status write_export_shared(checkpoint *c)
{
    store_lasting lasting;
    session *s = c->s;
    bp_store *medium = s->store;
    store_lasting_begin(&lasting, medium);
    s->store = &lasting.store;
    bp_status status = write_export(c);
    s->store = medium;
    BP_TRY(status);
    status = store_lasting_end(&lasting);
    return status == BP_OK ? BP_OK
                           : bp_storage_failed(&s->error, medium, "export", s->set->output_dir);
}

/* What one rank exports. Where ranks share out the state all of them read it at once, so they write
 * as well, into nothing. */
bp_status checkpoint_export(checkpoint *c)
{
    session *s = c->s;
    const bool leads = ranks_leads(s->set);
    if (s->plan.builder.shards.ranks == 0) {
        return leads ? write_export(c) : BP_OK;
    }
    bp_store none = store_none();
    bp_store *const medium = s->store;
    s->store = leads ? medium : &none;
    ranks_leave_turn(s->set);
    const bp_status status = leads ? write_export_shared(c) : write_export(c);
    ranks_take_turn(s->set);
    s->store = medium;
    return status;
}

void checkpoint_end(checkpoint *c)
{
    free(c->tensors);
    c->tensors = NULL;
}
