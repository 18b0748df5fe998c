/* SPDX-License-Identifier: MIT */
/* A reward model in the bytes between the policy's programs. */
#include "tools/bedplate/reward/reward_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/storage.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/path_guard.h"
#include "tools/bedplate/app/process_memory.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/record/record_files.h"
#include "tools/bedplate/session/dry_run.h"
#include "tools/formats/family/family.h"
#include "tools/formats/text/token_table.h"

static const char where[] = "reward model", option_name[] = "--reward-model";

#define MODEL_BATCH 8

/* The first error of the model's session is the caller's. */
static bp_status model_failed(const reward_model *m, bp_status status, bp_error *error)
{
    const bp_error *first = m->s.error.code != BP_OK        ? &m->s.error
                            : m->s.plan.error.code != BP_OK ? &m->s.plan.error
                                                            : &m->s.runtime.error;
    if (status != BP_OK && error->code == BP_OK) {
        *error = *first;
    }
    return status;
}

void reward_model_settings(settings *set, const settings *of, const char *directory)
{
    options_defaults(set);
    set->command = COMMAND_EVAL;
    set->model = directory;
    set->device = of->device;
    set->threads = of->threads;
    set->kernels = of->kernels;
    set->fp32 = of->fp32;
    set->tf32 = of->tf32;
    set->bf16 = of->bf16;
    set->fp16 = of->fp16;
    set->quiet = true;
}

static bp_status model_check(reward_model *m)
{
    session *s = &m->s;
    const bp_task task = s->spec.config.task;
    const bool judges = bp_task_scores_samples(task) && task != BP_TASK_RECONSTRUCTION;
    if (!s->directory || !s->weights) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "a reward model is a directory with weights", option_name);
    }
    if (!judges || s->spec.config.classes != 1 || s->spec.config.vocabulary == 0) {
        return bp_error_limit(&s->error, BP_ERR_USAGE, where,
                              "a reward model judges texts with a head of one label; labels",
                              option_name, judges ? s->spec.config.classes : 0, BP_LIMIT_EXACT, 1);
    }
    return BP_OK;
}

/* Whether the policy's tokens are the model's. */
static bp_status model_compare_tokens(reward_model *m)
{
    session *s = &m->s, *owner = m->owner;
    BP_TRY(session_open_run_tokenizer(s));
    if (s->run_tokenizer.kind == TOKENIZER_NONE) {
        return bp_error_set(&s->error, BP_ERR_DATA, where, "the reward model has no tokenizer",
                            option_name);
    }
    m->same = s->run_tokenizer.kind == owner->run_tokenizer.kind &&
              s->tokenizer_digest == owner->tokenizer_digest &&
              s->spec.config.vocabulary >= owner->spec.config.vocabulary;
    if (m->same) {
        run_tokenizer_close(&s->run_tokenizer);
    } else if (!owner->set->quiet) {
        output_print(stderr,
                     "bedplate: --reward-model: its tokenizer is another one: texts are tokenised "
                     "again\n");
    }
    return BP_OK;
}

static bp_status model_example(bp_source *source, uint64_t index, bp_example *to)
{
    const reward_model *m = source->context;
    const uint32_t length = m->lengths[index];
    *to = (bp_example){.first = index * m->room, .count = length > 0 ? length : 1};
    return BP_OK;
}

static bp_status model_read(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const reward_model *m = source->context;
    memcpy(to, m->ids + first, n * sizeof *to);
    return BP_OK;
}

static void model_pieces(reward_model *m, bp_arena *memory)
{
    m->ids = bp_arena_take(memory, bp_size_mul(m->count, m->room), sizeof *m->ids);
    m->lengths = bp_arena_take(memory, m->count, sizeof *m->lengths);
    m->scores = bp_arena_take(memory, m->count, sizeof *m->scores);
}

static bp_status model_take(reward_model *m)
{
    bp_arena memory;
    bp_arena_count(&memory);
    model_pieces(m, &memory);
    BP_TRY(memory_take(&m->held, bp_arena_counted(&memory), false, "reward model", &m->s.error));
    bp_arena_init(&memory, m->held.address, m->held.bytes);
    model_pieces(m, &memory);
    m->source = (bp_source){.context = m,
                            .name = option_name,
                            .count = (uint64_t)m->count * m->room,
                            .read = model_read,
                            .examples = m->count,
                            .example = model_example};
    return BP_OK;
}

static bp_status model_plan(reward_model *m, uint32_t longest)
{
    session *s = &m->s;
    const uint64_t tokens = m->same ? longest : 2 * (uint64_t)longest;
    const uint32_t most = s->spec.config.positions;
    m->room = tokens < most ? (uint32_t)tokens : most;
    s->spec.sequence = m->room;
    s->spec.batch = m->count < MODEL_BATCH ? m->count : MODEL_BATCH;
    s->spec.accumulation = 1;
    s->spec.eval_batch = 0;
    s->spec.optimizer = NULL;
    s->spec.evaluate = s->spec.keep_logits = true;
    bp_family_set_pieces(&s->spec.config, 1);
    BP_TRY(bp_spec_check(&s->spec, &s->error));
    BP_TRY(model_take(m));
    return session_plan(s);
}

static bp_status model_open(reward_model *m, uint32_t longest)
{
    char path[BP_STORE_PATH_MAX];
    bool there = false;
    session *owner = m->owner;
    BP_TRY(bp_storage_join(path, m->set.model, "config.json", &owner->error));
    BP_TRY(bp_storage_exists(owner->store, path, &there, &owner->error));
    if (!there) {
        const bp_status status =
            bp_error_set(&owner->error, BP_ERR_DATA, where,
                         "a reward model is a directory with weights and config.json", option_name);
        bp_error_found(&owner->error, m->set.model, strlen(m->set.model));
        return status;
    }
    BP_TRY(session_begin(&m->s, &m->set));
    BP_TRY(model_check(m));
    BP_TRY(model_compare_tokens(m));
    return model_plan(m, longest);
}

bp_spec reward_model_phase(const bp_spec *spec, uint64_t bytes)
{
    bp_spec one = *spec;
    one.batch = one.accumulation = one.sequence = 1;
    one.loss_rows = one.length_count = one.sequence_chunk = 0;
    one.generate_context = one.generate_sequences = one.prefill_rows = 0;
    one.generate_regions = one.generate_prompt = 0;
    one.between_bytes = bytes;
    return one;
}

/* Whether it has no room in --arena beside what of the policy lives while it scores, all of that
 * offloaded which may be. */
static bp_status model_is_large(const reward_model *m, bool *large)
{
    const session *owner = m->owner;
    const uint64_t most = owner->set->arena;
    bp_spec one = reward_model_phase(&owner->spec, m->s.plan.report.arena_bytes);
    uint64_t bytes = UINT64_MAX;
    offload_all(&one, owner->offload.what);
    if (most > 0 && m->s.plan.report.arena_bytes <= most) {
        BP_TRY(dry_run_arena(&one, 0, &bytes, &m->owner->error));
    }
    *large = bytes > most;
    return BP_OK;
}

/* Whether its weights are offloaded, which they are not yet: into a file beside the policy's. */
static bp_status model_offloads(reward_model *m, bool *offloads)
{
    const offload_choice *of = &m->owner->offload;
    bool large = false;
    *offloads = false;
    if (!of->asked || of->host || of->flash || m->tier[0] != '\0') {
        return BP_OK;
    }
    BP_TRY(model_is_large(m, &large));
    if (!large) {
        return BP_OK;
    }
    const int length = snprintf(m->tier, sizeof m->tier, "file:%s" PATH_BESIDE_REWARD ":%" PRIu64,
                                of->path, of->bytes);
    m->set.offload = m->tier;
    *offloads = length > 0 && (size_t)length < sizeof m->tier;
    return BP_OK;
}

bp_status reward_model_open(reward_model *m, session *owner, uint32_t longest, uint32_t count)
{
    bool offloads;
    if (owner->set->reward_model == NULL) {
        return BP_OK;
    }
    m->owner = owner;
    m->count = count;
    reward_model_settings(&m->set, owner->set, owner->set->reward_model);
    BP_TRY(model_failed(m, model_open(m, longest), &owner->error));
    BP_TRY(model_offloads(m, &offloads));
    if (offloads) {
        memory_give_back(&m->held);
        session_end(&m->s);
        m->set.offload_buffered = owner->set->offload_buffered;
        BP_TRY(model_failed(m, model_open(m, longest), &owner->error));
    }
    owner->spec.between_bytes = m->s.plan.report.arena_bytes;
    return BP_OK;
}

static bp_status model_identify(reward_model *m, uint64_t *digest)
{
    BP_TRY(record_model_unchanged(&m->s, &m->stamp));
    return record_model_digest(&m->s, digest);
}

bp_status reward_model_identify(reward_model *m, uint64_t *digest, bp_error *error)
{
    return model_failed(m, model_identify(m, digest), error);
}

uint64_t reward_model_bytes(const reward_model *m)
{
    const uint32_t threads = m->owner != NULL ? m->s.spec.device_options.threads : 1;
    const uint64_t open = m->s.run_tokenizer.block.address != NULL ? m->s.run_tokenizer.bytes : 0;
    return m->owner == NULL ? 0
                            : sizeof *m + m->s.host.bytes + m->held.bytes + open +
                                  offload_room(&m->s.offload, &m->s.plan) + process_bytes(threads) -
                                  process_bytes(1);
}

/* Opens the model over the free bytes, with its weights. */
static bp_status model_begin(reward_model *m)
{
    session *s = &m->s;
    void *place = bp_runtime_between(&m->owner->runtime);
    bp_regions places = bp_regions_device(place, s->plan.report.arena_bytes);
    if (place == NULL) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the policy's plan leaves no bytes for the model", option_name);
    }
    BP_TRY(offload_open(&s->offload, &m->set, &s->plan, &places, &s->error));
    BP_TRY(bp_runtime_open_regions(&s->runtime, &s->plan, &places));
    BP_TRY(record_model_unchanged(s, &m->stamp));
    BP_TRY(session_give_weights(s, false));
    return record_model_unchanged(s, &m->stamp);
}

static void model_finish(reward_model *m)
{
    bp_runtime_close(&m->s.runtime);
    offload_close(&m->s.offload);
}

bp_status reward_model_try(reward_model *m, bp_error *error)
{
    if (m->owner == NULL || m->seen) {
        return BP_OK;
    }
    const bp_status status = model_begin(m);
    model_finish(m);
    m->seen = status == BP_OK;
    return model_failed(m, status, error);
}

/* The tokens that the policy has read and written. */
static uint32_t model_own_ids(const reward_model *m, const reward_case *c, int32_t *ids)
{
    const uint32_t ended = c->rendered || c->truncated ? 0 : 1; /* its end token is no text */
    const uint32_t made = c->id_count - ended;
    if (c->prompt_count + made > m->room) {
        return 0;
    }
    memcpy(ids, c->prompt_ids, c->prompt_count * sizeof *ids);
    memcpy(ids + c->prompt_count, c->ids, made * sizeof *ids);
    return c->prompt_count + made;
}

/* What ends the turn of a conversation, which its completion has not; of a plain text nothing. */
static const unsigned char *model_end(const reward_model *m, const reward_case *c, size_t *bytes)
{
    const run_tokenizer *of = &m->owner->run_tokenizer;
    const uint32_t id = c->id_count > 0 ? (uint32_t)c->ids[c->id_count - 1] : 0;
    *bytes = 0;
    return c->rendered && !c->truncated && c->id_count > 0 && of->kind == TOKENIZER_TOKENIZER &&
                   bp_token_exists(&of->tokenizer, id)
               ? bp_token_text(&of->tokenizer, id, bytes)
               : (const unsigned char *)"";
}

/* Prompt and completion as one text in the model's tokens. */
static bp_status model_new_ids(reward_model *m, const reward_case *c, int32_t *ids, uint32_t *count)
{
    session *s = &m->s;
    size_t end_bytes;
    const unsigned char *end = model_end(m, c, &end_bytes);
    const uint64_t bytes = (uint64_t)c->prompt_bytes + c->completion_bytes + end_bytes;
    memory_block text = {NULL, 0};
    size_t made = 0, whole = 0;
    bp_status status = BP_OK;
    BP_TRY(memory_take(&text, bytes + 1, false, "text", &s->error));
    memcpy(text.address, c->prompt, c->prompt_bytes);
    memcpy((char *)text.address + c->prompt_bytes, c->completion, c->completion_bytes);
    memcpy((char *)text.address + c->prompt_bytes + c->completion_bytes, end, end_bytes);
    if (s->run_tokenizer.kind == TOKENIZER_BYTES) {
        for (whole = 0; whole < bytes && whole < m->room; whole++) {
            ids[whole] = ((const unsigned char *)text.address)[whole];
        }
        made = whole;
        whole = (size_t)bytes;
    } else {
        const unsigned flags = c->rendered ? BP_ENCODE_PLAIN : BP_ENCODE_TEMPLATE;
        status = bp_encoder_pair(&s->run_tokenizer.encoder, text.address, (size_t)bytes, NULL, 0,
                                 flags, (uint32_t *)(void *)ids, NULL, m->room, &made, &whole);
    }
    memory_give_back(&text);
    *count = whole > made ? 0 : (uint32_t)made;
    return status == BP_OK
               ? BP_OK
               : bp_error_set(&s->error, BP_ERR_USAGE, where,
                              "the model's longest text has no room for its special tokens",
                              option_name);
}

static bp_status model_texts(reward_model *m, const reward_case *cases, uint32_t count)
{
    uint32_t over = 0;
    memset(m->held.address, 0, m->held.bytes);
    for (uint32_t i = 0; i < count; i++) {
        int32_t *ids = m->ids + (size_t)i * m->room;
        if (m->same) {
            m->lengths[i] = model_own_ids(m, &cases[i], ids);
        } else {
            BP_TRY(model_new_ids(m, &cases[i], ids, &m->lengths[i]));
        }
        over += m->lengths[i] == 0 ? 1 : 0;
    }
    if (over > 0 && !m->told && ranks_leads(m->owner->set)) {
        output_print(stderr,
                     "bedplate: --reward-model: %" PRIu32 " of %" PRIu32
                     " completions have no reward: with their prompts they are no text, or one "
                     "longer than %" PRIu32 " tokens\n",
                     over, count, m->room);
        m->told = true;
    }
    return BP_OK;
}

static bp_status model_keep(void *user, const bp_runtime *runtime)
{
    reward_model *m = user;
    const float *outputs = bp_runtime_logits(runtime);
    const uint32_t samples = bp_runtime_group(runtime)->samples;
    for (uint32_t i = 0; i < samples && m->next < m->count; i++, m->next++) {
        const double score = (double)outputs[i];
        m->scores[m->next] = m->lengths[m->next] > 0 ? score : (double)NAN;
        if (m->lengths[m->next] > 0 && !isfinite(score)) {
            return bp_error_set(&m->s.error, BP_ERR_NONFINITE, where,
                                "the output of the reward model is not finite", option_name);
        }
    }
    return BP_OK;
}

static bp_status model_judge(reward_model *m)
{
    session *s = &m->s;
    const bp_spec *spec = &s->plan.spec;
    const int64_t padding = spec->config.pad_token;
    const bool inside = padding >= 0 && padding < (int64_t)spec->config.vocabulary;
    double loss;
    uint64_t targets;
    bp_feed feed = {.source = &m->source,
                    .error = &s->error,
                    .seed = spec->seed,
                    .sequence = spec->sequence,
                    .batch = spec->batch,
                    .group = spec->batch,
                    .vocabulary = spec->config.vocabulary,
                    .classes = spec->config.classes,
                    .kind = bp_feed_labels(spec->config.task),
                    .padding = inside ? (int32_t)padding : 0};
    BP_TRY(bp_feed_init(&feed, &s->error));
    m->next = 0;
    BP_TRY(model_begin(m));
    return bp_runtime_evaluate_each(&s->runtime, &feed, 0, model_keep, m, &loss, &targets);
}

bp_status reward_model_score(reward_model *m, const reward_case *cases, uint32_t count,
                             uint32_t pitch, double *scores, bp_error *error)
{
    BP_TRY(model_failed(m, model_texts(m, cases, count), error));
    const bp_status status = model_judge(m);
    model_finish(m);
    BP_TRY(model_failed(m, status, error));
    for (uint32_t i = 0; i < count; i++) {
        scores[(size_t)i * pitch] = m->scores[i];
    }
    return BP_OK;
}

void reward_model_close(reward_model *m)
{
    if (m->owner != NULL) {
        memory_give_back(&m->held);
        session_end(&m->s);
    }
}
