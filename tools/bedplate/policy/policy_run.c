/* SPDX-License-Identifier: MIT */
/* Generating, scoring and weighing the completions of a step. */
#include "tools/bedplate/policy/policy_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/digest.h"
#include "core/base/random.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/policy/policy_options.h"
#include "tools/bedplate/policy/policy_ranks.h"
#include "tools/bedplate/policy/policy_record.h"
#include "tools/bedplate/ranks/ranks.h"

static const char where[] = "grpo";

static bool policy_ends(const void *user, uint32_t id)
{
    const policy_run *p = user;
    return end_tokens_has(&p->ends, &p->s->run_tokenizer, &p->s->spec.config, id);
}

static bp_status policy_find_ends(policy_run *p)
{
    session *s = p->s;
    const uint32_t vocabulary = s->spec.config.vocabulary;
    uint32_t id = 0;
    BP_TRY(end_tokens_find(&p->ends, s->store, s->set->adapter, &s->run_tokenizer,
                           s->directory ? s->set->model : NULL, &s->error));
    while (id < vocabulary && !policy_ends(p, id)) {
        id++;
    }
    if (id == vocabulary && p->masks) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the model has no end token, so every completion is truncated and "
                            "nothing would be learned",
                            "--mask-truncated-completions");
    }
    if (id == vocabulary && !s->set->quiet) {
        output_print(stderr,
                     "bedplate: %s: the model has no end token: every completion has %" PRIu64
                     " tokens\n",
                     s->set->model, s->set->max_completion_length);
    }
    return BP_OK;
}

/* The row of a completion: its prompt, then its tokens. They lie `pitch` apart. */
static uint64_t policy_pitch(const policy_run *p)
{
    return (uint64_t)p->prompts.longest + p->choice.most;
}

static bp_status policy_example(bp_source *source, uint64_t index, bp_example *to)
{
    const policy_run *p = source->context;
    const uint32_t prompt = p->asked[index / p->choice.generations].count;
    *to = (bp_example){.first = index * policy_pitch(p),
                       .count = (uint64_t)prompt + p->made[index].count,
                       .prompt = prompt,
                       .label = BP_NO_LABEL};
    return BP_OK;
}

static bp_status policy_read_row(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const policy_run *p = source->context;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t index = (first + i) / policy_pitch(p);
        const uint64_t at = (first + i) % policy_pitch(p);
        const rollout_prompt *prompt = &p->asked[index / p->choice.generations];
        const rollout_completion *c = &p->made[index];
        to[i] = at < prompt->count              ? prompt->ids[at]
                : at < prompt->count + c->count ? c->ids[at - prompt->count]
                                                : 0;
    }
    return BP_OK;
}

/* What the losses of a row's tokens are multiplied with. */
static bp_status policy_row(bp_teacher *teacher, const bp_column *column,
                            const bp_feed_tokens *read, int32_t *to)
{
    const policy_run *p =
        (const policy_run *)(const void *)((const char *)teacher - offsetof(policy_run, teacher));
    memset(to, 0, column->elements * sizeof *to);
    if (read->inputs == 0) {
        return BP_OK;
    }
    const uint64_t i = read->window;
    const uint32_t begin = p->asked[i / p->choice.generations].count - 1;
    for (uint32_t k = 0; k < p->made[i].count && begin + k < column->elements; k++) {
        const float weight = (float)-p->slopes[p->first[i] + k];
        memcpy(&to[begin + k], &weight, sizeof weight);
    }
    return BP_OK;
}

/* A replay takes rewards of a model from the record. */
static bp_status policy_open_model(policy_run *p)
{
    session *s = p->s;
    const uint32_t longest = p->prompts.longest + (uint32_t)s->set->max_completion_length;
    if (p->recorded == NULL) {
        BP_TRY(reward_model_open(&p->model, s, longest, p->count));
    }
    if (p->numbers.beta > 0.0 && s->spec.lora.rank == 0) {
        s->spec.sequence = longest;
        s->spec.policy_temperature = s->set->temperature;
        return policy_reference_open(&p->reference, s);
    }
    return BP_OK;
}

/* Options, of a run and of a plan alike. */
static bp_status policy_begin(policy_run *p, session *s)
{
    p->s = s;
    BP_TRY(policy_numbers_read(s->set, &p->numbers, &p->scale, &s->error));
    p->masks = s->set->mask_truncated;
    p->count = s->spec.batch * s->spec.accumulation;
    p->iterations = (uint32_t)s->set->num_iterations;
    BP_TRY(reward_check(s->set, &s->error));
    return policy_fill(s, 0, &p->choice);
}

bp_status policy_open(policy_run *p, session *s)
{
    const settings *set = s->set;
    if (!policy_asked(set)) {
        return BP_OK;
    }
    BP_TRY(policy_begin(p, s)); /* what is wrong is reported before anything is read */
    BP_TRY(rollout_prompts_open(&p->prompts, s, &set->data));
    p->choice.ends = policy_ends;
    p->choice.user = p;
    BP_TRY(policy_open_model(p));
    BP_TRY(policy_fill(s, p->prompts.longest, &p->choice));
    BP_TRY(policy_find_ends(p));
    p->groups = p->count / p->choice.generations;
    if (p->prompts.count < p->groups) {
        return bp_error_limit(&s->error, BP_ERR_DATA, where,
                              "there are fewer prompts than a step takes", "--data",
                              (int64_t)p->prompts.count, BP_LIMIT_LEAST, p->groups);
    }
    p->epoch_steps = p->prompts.count / p->groups * p->iterations;
    p->source = (bp_source){.context = p,
                            .name = set->data.item[0],
                            .count = p->count * policy_pitch(p),
                            .read = policy_read_row,
                            .examples = p->count,
                            .example = policy_example};
    p->teacher.row = policy_row;
    return BP_OK;
}

/* Whether each token has an advantage of its own. */
static bool policy_by_token(const policy_run *p)
{
    return p->numbers.beta > 0.0 && p->numbers.rule->baseline == POLICY_ALL;
}

static void policy_place(policy_run *p, bp_arena *at)
{
    const uint64_t n = p->count, tokens = n * p->choice.most;
    p->asked = bp_arena_take(at, p->groups, sizeof *p->asked);
    p->made = bp_arena_take(at, n, sizeof *p->made);
    p->chosen = bp_arena_take(at, p->groups, sizeof *p->chosen);
    p->first = bp_arena_take(at, n + 1, sizeof *p->first);
    p->x = bp_arena_take(at, tokens, sizeof *p->x);
    p->old = bp_arena_take(at, tokens, sizeof *p->old);
    p->ref = p->numbers.beta > 0.0 ? bp_arena_take(at, tokens, sizeof *p->ref) : NULL;
    p->slopes = bp_arena_take(at, tokens, sizeof *p->slopes);
    p->scores = bp_arena_take(at, n * REWARD_FUNCTIONS_MAX, sizeof *p->scores);
    p->totals = bp_arena_take(at, n, sizeof *p->totals);
    p->advantages = bp_arena_take(at, n, sizeof *p->advantages);
    p->returns = policy_by_token(p) ? bp_arena_take(at, tokens, sizeof *p->returns) : NULL;
    p->masked = bp_arena_take(at, n, sizeof *p->masked);
    p->entropies = bp_arena_take(at, tokens, sizeof *p->entropies);
    p->top = p->s->set->policy_top_entropy;
    p->dull = p->top < 1.0 ? bp_arena_take(at, tokens, sizeof *p->dull) : NULL;
    p->order = p->top < 1.0 ? bp_arena_take(at, 2 * tokens, sizeof *p->order) : NULL;
    p->cases = bp_arena_take(at, n, sizeof *p->cases);
    p->texts = bp_arena_take(at, n, sizeof *p->texts);
    int32_t *ids = bp_arena_take(at, tokens, sizeof *ids);
    float *logps = bp_arena_take(at, tokens, sizeof *logps);
    float *entropies = bp_arena_take(at, tokens, sizeof *entropies);
    p->work = bp_arena_take(at, rollout_bytes(&p->s->spec), 1);
    p->wire = bp_arena_take(at, policy_ranks_bytes(p), 1);
    for (uint64_t i = 0; !at->counts && i < n; i++) {
        p->made[i] = (rollout_completion){.ids = ids + i * p->choice.most,
                                          .logps = logps + i * p->choice.most,
                                          .entropies = entropies + i * p->choice.most};
    }
}

static uint64_t policy_bytes(policy_run *p)
{
    bp_arena count;
    bp_arena_count(&count);
    policy_place(p, &count);
    return bp_arena_counted(&count);
}

bp_status policy_plan(policy_run *p, session *s)
{
    const settings *set = s->set;
    const uint64_t most = set->max_completion_length;
    if (!policy_asked(set)) {
        return policy_check_others(s);
    }
    if (set->max_batch) {
        return bp_error_set(
            &s->error, BP_ERR_USAGE, where,
            "the batch is the number of completions that are compared, so it is not "
            "searched for: give --per-device-train-batch-size",
            "--max-batch");
    }
    if (set->data.count > 0) {
        BP_TRY(policy_open(p, s));
    } else {
        const uint64_t room = set->sequence > 0 ? set->sequence : s->spec.sequence;
        if (room <= most) {
            return bp_error_limit(&s->error, BP_ERR_USAGE, where,
                                  "a row has no room for a prompt before the longest completion "
                                  "(--data gives the lengths of prompts)",
                                  "--max-seq-length", (int64_t)room, BP_LIMIT_LEAST,
                                  (int64_t)most + 1);
        }
        BP_TRY(policy_begin(p, s));
        p->prompts.longest = (uint32_t)(room - most);
        if (set->reward_model != NULL || p->masks) {
            BP_TRY(session_open_run_tokenizer(s));
        }
        BP_TRY(policy_open_model(p));
        BP_TRY(policy_fill(s, p->prompts.longest, &p->choice));
        if (p->masks) {
            BP_TRY(policy_find_ends(p));
        }
        p->groups = p->count / p->choice.generations;
    }
    s->reference_bytes += policy_bytes(p) + p->prompts.held.bytes + rollout_prompts_work() +
                          reward_model_bytes(&p->model) + policy_reference_bytes(&p->reference);
    return BP_OK;
}

/* Models beside the policy are part of what the run is; a replay that takes the rewards from the
 * record has not the second. */
static bp_status policy_put_models(policy_run *p, bp_text *out)
{
    char hexadecimal[BP_DIGEST_TEXT];
    uint64_t number;
    if (p->reference.owner != NULL) {
        BP_TRY(policy_reference_identify(&p->reference, &number));
        bp_digest_text(number, hexadecimal);
        bp_text_string(out, POLICY_REFERENCE_WORD);
        bp_text_string(out, hexadecimal);
    }
    if (p->model.owner != NULL) {
        BP_TRY(reward_model_identify(&p->model, &number, &p->s->error));
        bp_digest_text(number, hexadecimal);
        bp_text_string(out, POLICY_MODEL_WORD);
        bp_text_string(out, hexadecimal);
    }
    return BP_OK;
}

static bp_status policy_identity(policy_run *p, char *identity, size_t room)
{
    bp_digest digest;
    bp_text out;
    char hexadecimal[BP_DIGEST_TEXT];
    bp_digest_begin(&digest, 0);
    for (uint64_t i = 0; i < p->prompts.count; i++) {
        const rollout_row *row = &p->prompts.rows[i];
        bp_digest_add(&digest, row->ids, row->count * sizeof *row->ids);
        bp_digest_add(&digest, row->line, row->line_bytes);
    }
    bp_digest_text(bp_digest_end(&digest), hexadecimal);
    bp_text_init(&out, NULL, NULL, identity, room);
    bp_text_u64(&out, p->prompts.id_count);
    bp_text_string(&out, " tokens ");
    bp_text_string(&out, hexadecimal);
    bp_text_string(&out, " prompts ");
    bp_text_u64(&out, p->prompts.count);
    BP_TRY(policy_put_models(p, &out));
    return bp_text_flush(&out);
}

/* The command of a replay, or its model, is not asked again: a record is no reason to execute what
 * it names. */
static bp_status policy_open_recorded(policy_run *p)
{
    session *s = p->s;
    const char *rewards;
    size_t digits;
    BP_TRY(p->recorded(p->user, 0, &rewards, &digits));
    const size_t columns = digits / 16 / p->count;
    const uint32_t own = s->set->rewards.count + (s->set->reward_model != NULL ? 1 : 0);
    const bool command = s->set->reward_command != NULL && columns > own;
    return reward_open_recorded(&p->rewards, s->set, command ? (uint32_t)columns - own : 0,
                                &s->error);
}

/* Functions are computed again, and compared with the record as all of its line is. */
static bp_status policy_score(policy_run *p, uint64_t batch)
{
    session *s = p->s;
    const char *rewards;
    size_t digits;
    BP_TRY(policy_ranks_score(p));
    if (p->recorded == NULL || p->rewards.count == p->rewards.function_count) {
        return BP_OK;
    }
    BP_TRY(p->recorded(p->user, batch * p->iterations + 1, &rewards, &digits));
    return policy_record_scores(rewards, digits, p->count, p->rewards.count,
                                p->rewards.function_count, p->scores, &s->error);
}

bp_status policy_start(policy_run *p, char *identity, size_t room)
{
    session *s = p->s;
    bp_arena memory;
    if (s == NULL) {
        return BP_OK;
    }
    BP_TRY(policy_identity(p, identity, room));
    BP_TRY(memory_take(&p->held, policy_bytes(p), false, "completions", &s->error));
    bp_arena_init(&memory, p->held.address, p->held.bytes);
    policy_place(p, &memory);
    s->reference_bytes += p->held.bytes + p->prompts.held.bytes + p->prompts.work.bytes +
                          reward_model_bytes(&p->model) + policy_reference_bytes(&p->reference);
    p->rewarded = true;
    BP_TRY(p->recorded != NULL ? policy_open_recorded(p) : policy_ranks_open_rewards(p));
    p->rewards.model = p->model.owner != NULL ? &p->model : NULL;
    for (uint32_t f = 0; f < p->rewards.count; f++) {
        char column[REWARD_COLUMN];
        const char *name = reward_name(&p->rewards, f, column);
        snprintf(p->reward_names[2 * f], sizeof p->reward_names[0], "rewards/%s/mean", name);
        snprintf(p->reward_names[2 * f + 1], sizeof p->reward_names[0], "rewards/%s/std", name);
    }
    return BP_OK;
}

/* The prompts of a step: the data in an order of its own in each epoch, the rest of which that is
 * less than a step is left out, as TRL does. */
static void policy_choose(policy_run *p, uint64_t batch)
{
    const uint64_t each = p->epoch_steps / p->iterations;
    const uint64_t epoch = batch / each, at = batch % each * p->groups;
    const settings *set = p->s->set;
    const uint64_t seed = set->data_seed >= 0 ? (uint64_t)set->data_seed : set->seed;
    for (uint32_t g = 0; g < p->groups; g++) {
        p->chosen[g] = bp_random_permute(seed, epoch, p->prompts.count, at + g);
        const rollout_row *row = &p->prompts.rows[p->chosen[g]];
        p->asked[g] = (rollout_prompt){.ids = row->ids, .count = row->count, .row = g};
    }
}

static bp_status policy_texts(policy_run *p, uint64_t batch)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const uint32_t g = i / p->choice.generations;
        const rollout_row *row = &p->prompts.rows[p->chosen[g]];
        const rollout_completion *c = &p->made[i];
        BP_TRY(rollout_text_make(&p->texts[i], p->s, &p->asked[g], c));
        p->cases[i] = (reward_case){.id = batch * p->count + i,
                                    .step = batch * p->iterations + 1,
                                    .prompt = row->text,
                                    .prompt_bytes = row->text_bytes,
                                    .completion = p->texts[i].bytes,
                                    .completion_bytes = p->texts[i].count,
                                    .answer = row->answer,
                                    .answer_bytes = row->answer_bytes,
                                    .row = row->line,
                                    .row_bytes = row->line_bytes,
                                    .ids = c->ids,
                                    .id_count = c->count,
                                    .prompt_ids = row->ids,
                                    .prompt_count = row->count,
                                    .rendered = row->rendered,
                                    .truncated = c->finish == ROLLOUT_LENGTH};
    }
    return BP_OK;
}

/* What fails is never silent. */
static void policy_tell_failures(policy_run *p)
{
    const reward_command *command = &p->rewards.command;
    if (command->failures != p->failures) {
        output_print(stderr,
                     "bedplate: --reward-command: %" PRIu64 " of %" PRIu64
                     " completions have no answer: %s\n",
                     command->failures, command->requests,
                     command->reason != NULL ? command->reason : "");
        p->failures = command->failures;
    }
    if (command->differing > 0 && !p->differing) {
        output_print(stderr, "bedplate: --reward-command: the reward is not deterministic: the "
                             "same request has different answers\n");
        p->differing = true;
    }
}

static void policy_count(policy_run *p)
{
    policy_counts *n = &p->counts;
    double sum = 0.0;
    uint64_t counted = 0;
    *n = (policy_counts){.tokens = 0};
    for (uint32_t i = 0; i < p->count; i++) {
        const rollout_completion *c = &p->made[i];
        const bool ended = c->finish == ROLLOUT_STOP;
        n->tokens += c->count;
        n->shortest = n->shortest == 0 || c->count < n->shortest ? c->count : n->shortest;
        n->longest = c->count > n->longest ? c->count : n->longest;
        for (uint32_t k = 0; k < c->count && !p->masked[i]; k++, counted++) {
            sum += (double)c->entropies[k];
        }
        if (ended) {
            const bool least = n->ended == 0 || c->count < n->ended_shortest;
            n->ended++;
            n->ended_tokens += c->count;
            n->ended_shortest = least ? c->count : n->ended_shortest;
            n->ended_longest = c->count > n->ended_longest ? c->count : n->ended_longest;
        }
    }
    n->entropy = counted > 0 ? sum / (double)counted : 0.0;
}

/* Totals and the policy that sampled, of new completions. */
static void policy_gather(policy_run *p)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const rollout_completion *c = &p->made[i];
        p->first[i] = used;
        p->masked[i] = p->masks && c->finish == ROLLOUT_LENGTH;
        p->totals[i] = reward_total(&p->rewards, p->scores + (size_t)i * p->rewards.count);
        for (uint32_t k = 0; k < c->count; k++) {
            p->entropies[used] = c->entropies[k];
            p->old[used++] = (double)c->logps[k];
        }
    }
    p->first[p->count] = used;
    if (p->dull != NULL) {
        const policy_rows rows = {.count = p->count, .first = p->first, .masked = p->masked};
        policy_entropy_mask(&rows, p->entropies, p->top, p->order, p->order + used, p->dull);
    }
}

/* Advantages of new completions. Until they are learned x and slopes are free, which have room for
 * a number of each completion. */
static void policy_compare(policy_run *p)
{
    double *compared = p->totals;
    const policy_rows rows = {
        .count = p->count, .first = p->first, .x = p->old, .ref = p->ref, .masked = p->masked};
    policy_mean(p->totals, p->count, 1, &p->spread.mean, &p->spread.std);
    if (p->ref != NULL && policy_rule_rewards_divergence(p->numbers.rule) && !policy_by_token(p)) {
        compared = p->x;
        policy_charge_divergence(&rows, p->numbers.beta, p->totals, compared, &p->charged);
    }
    policy_advantages(p->numbers.rule, p->scale, compared, p->groups, p->choice.generations,
                      p->slopes, p->advantages, &p->spread);
    if (policy_by_token(p)) {
        policy_token_advantages(p->scale, &rows, p->choice.generations, p->numbers.beta, p->totals,
                                p->slopes, p->returns, &p->charged);
        for (uint32_t i = 0; i < p->count; i++) { /* of its first token, for the record */
            p->advantages[i] = p->first[i] < p->first[i + 1] ? p->returns[p->first[i]] : 0.0f;
        }
    }
}

/* What an evaluation of the completions goes on with. */
typedef struct policy_judging {
    policy_run *p;
    double *to;
    uint32_t next;
} policy_judging;

static bp_status policy_take(void *user, const bp_runtime *runtime)
{
    policy_judging *j = user;
    const policy_run *p = j->p;
    const float *losses = bp_runtime_logits(runtime);
    const uint32_t samples = bp_runtime_group(runtime)->samples;
    for (uint32_t k = 0; k < samples && j->next < p->count; k++, j->next++) {
        const uint32_t i = j->next, begin = p->asked[i / p->choice.generations].count - 1;
        const float *row = losses + (size_t)k * p->s->plan.spec.sequence + begin;
        for (uint32_t t = 0; t < p->made[i].count; t++) {
            j->to[p->first[i] + t] = -(double)row[t];
        }
    }
    return BP_OK;
}

/* Log-probabilities of the completions by the weights of a session as they are: the policy's own,
 * or one of its shapes. */
static bp_status policy_judge(policy_run *p, session *of, double *to)
{
    session *s = p->s;
    const bp_spec *spec = &of->plan.spec;
    policy_judging j = {.p = p, .to = to};
    double loss;
    uint64_t targets;
    bp_feed feed = {.source = &p->source,
                    .error = &s->error,
                    .seed = spec->seed,
                    .sequence = spec->sequence,
                    .batch = bp_spec_eval_batch(spec),
                    .group = bp_spec_eval_batch(spec),
                    .vocabulary = spec->config.vocabulary,
                    .kind = bp_feed_labels(spec->config.task)};
    BP_TRY(bp_feed_init(&feed, &s->error));
    ranks_leave_turn(s->set);
    const bp_status status =
        bp_runtime_evaluate_each(&of->runtime, &feed, 0, policy_take, &j, &loss, &targets);
    ranks_take_turn(s->set);
    return status;
}

/* Each B of the adapters goes out to the block, and zeros come in its place: then the model is its
 * base, bit by bit. Or it comes back. */
static bp_status policy_swap_adapters(policy_run *p, bool away)
{
    static const float zeros[1024];
    bp_runtime *runtime = &p->s->runtime;
    const bp_builder *builder = &p->s->plan.builder;
    char *at = p->adapters.address;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const uint32_t a = builder->parameters[i].adapter;
        if (a == BP_NO_PARAMETER) {
            continue;
        }
        const bp_buffer *b = &p->s->plan.graph.buffers[builder->parameters[a + 1].weight];
        if (at != NULL && away) {
            BP_TRY(bp_runtime_read(runtime, b, 0, at, (size_t)b->bytes));
        } else if (at != NULL) {
            BP_TRY(bp_runtime_write(runtime, b, 0, at, (size_t)b->bytes));
        }
        for (uint64_t k = 0; at != NULL && away && k < b->bytes; k += sizeof zeros) {
            const uint64_t left = b->bytes - k;
            BP_TRY(bp_runtime_write(runtime, b, k, zeros,
                                    left < sizeof zeros ? (size_t)left : sizeof zeros));
        }
        at = at != NULL ? at + bp_size_align(b->bytes, 64) : NULL;
        p->adapters.bytes += p->adapters.address == NULL ? bp_size_align(b->bytes, 64) : 0;
    }
    return BP_OK;
}

static bp_status policy_check_reference(policy_run *p)
{
    for (uint32_t k = 0; k < p->first[p->count]; k++) {
        if (!isfinite(p->ref[k])) {
            return bp_error_set(&p->s->error, BP_ERR_NONFINITE, where,
                                "a log-probability of the reference is not finite",
                                p->s->set->ref_model != NULL ? "--ref-model" : "--beta");
        }
    }
    return BP_OK;
}

static bp_status policy_refer(policy_run *p)
{
    if (p->ref == NULL) {
        return BP_OK;
    }
    if (p->reference.owner != NULL) {
        bp_status status = policy_reference_begin(&p->reference);
        status = status == BP_OK ? policy_judge(p, &p->reference.s, p->ref) : status;
        policy_reference_end(&p->reference);
        return status == BP_OK ? policy_check_reference(p) : status;
    }
    if (p->adapters.address == NULL) {
        p->adapters.bytes = 0;
        BP_TRY(policy_swap_adapters(p, true)); /* counts */
        const uint64_t bytes = p->adapters.bytes;
        BP_TRY(memory_take(&p->adapters, bytes, false, "adapters", &p->s->error));
    }
    BP_TRY(policy_swap_adapters(p, true));
    const bp_status status = policy_judge(p, p->s, p->ref);
    BP_TRY(policy_swap_adapters(p, false));
    return status == BP_OK ? policy_check_reference(p) : status;
}

static bp_status policy_generate(policy_run *p, uint64_t batch)
{
    session *s = p->s;
    policy_choose(p, batch);
    p->choice.step = batch;
    p->generated = 0;
    BP_TRY(reward_model_try(&p->model, &s->error));
    BP_TRY(policy_ranks_generate(p));
    BP_TRY(policy_texts(p, batch));
    const bp_status scored = policy_score(p, batch);
    policy_tell_failures(p);
    BP_TRY(scored);
    policy_gather(p);
    policy_count(p);
    BP_TRY(policy_refer(p));
    policy_compare(p);
    p->generated = batch + 1;
    return BP_OK;
}

/* In the first step the policy that is trained is the one that sampled, bit by bit, so that its
 * log-probabilities are known. */
bp_status policy_prepare(policy_run *p, uint64_t step)
{
    session *s = p->s;
    if (s == NULL || p->weighed == step + 1) {
        return BP_OK;
    }
    const uint64_t batch = step / p->iterations;
    const bool first = step % p->iterations == 0;
    if (p->generated != batch + 1 && !first) {
        return bp_error_limit(&s->error, BP_ERR_DATA, where,
                              "the run cannot go on between steps on the same completions; step",
                              "--num-iterations", (int64_t)step, BP_LIMIT_NONE, 0);
    }
    if (p->generated != batch + 1) {
        BP_TRY(policy_generate(p, batch));
    }
    if (first) {
        memcpy(p->x, p->old, p->first[p->count] * sizeof *p->x);
    } else {
        BP_TRY(policy_judge(p, p->s, p->x));
    }
    const bool charged = policy_rule_rewards_divergence(p->numbers.rule);
    const policy_rows rows = {.count = p->count,
                              .first = p->first,
                              .x = p->x,
                              .old = first ? NULL : p->old,
                              .ref = charged ? NULL : p->ref,
                              .advantages = p->advantages,
                              .returns = p->returns,
                              .masked = p->masked,
                              .dull = p->dull};
    policy_loss(&p->numbers, &rows, p->slopes, &p->metrics);
    p->weighed = step + 1;
    return BP_OK;
}

bool policy_between(const policy_run *p, uint64_t steps)
{
    return p->s != NULL && steps % p->iterations != 0;
}

void policy_outcome(const policy_run *p, bp_outcome *outcome)
{
    if (p->s != NULL && isfinite(outcome->loss)) {
        outcome->loss = p->metrics.loss;
    }
}

static void policy_put_metric(metric_list *list, const char *name, double value)
{
    if (list->count < METRICS_OF_TASK && !isnan(value)) {
        list->of[list->count].name = name;
        list->of[list->count].words = name;
        list->of[list->count++].value = value;
    }
}

static void policy_put_clipping(const policy_run *p, metric_list *list)
{
    const policy_loss_metrics *metrics = &p->metrics;
    if (p->numbers.rule->form == POLICY_CLIPPED) {
        policy_put_metric(list, "clip_ratio/low_mean", metrics->low_mean);
        policy_put_metric(list, "clip_ratio/low_min", metrics->low_min);
        policy_put_metric(list, "clip_ratio/high_mean", metrics->high_mean);
        policy_put_metric(list, "clip_ratio/high_max", metrics->high_max);
        policy_put_metric(list, "clip_ratio/region_mean", metrics->region_mean);
    } else if (p->numbers.rule->form == POLICY_CISPO) {
        policy_put_metric(list, "cispo_clip_ratio", metrics->cispo);
    }
}

void policy_metrics(const policy_run *p, metric_list *list)
{
    const policy_counts *n = &p->counts;
    list->count = 0;
    if (p->s == NULL || p->generated == 0) {
        return;
    }
    const double all = p->count, ended = n->ended > 0 ? n->ended : (double)NAN;
    policy_put_metric(list, "reward", p->spread.mean);
    policy_put_metric(list, "reward_std", p->spread.std);
    policy_put_metric(list, "frac_reward_zero_std", p->spread.flat_groups);
    policy_put_metric(list, "entropy", n->entropy);
    if (p->ref != NULL) {
        const bool charged = policy_rule_rewards_divergence(p->numbers.rule);
        policy_put_metric(list, "kl", charged ? p->charged : p->metrics.kl);
    }
    if (p->metrics.pairs > 0) {
        policy_put_metric(list, "rewards/chosen", p->metrics.chosen);
        policy_put_metric(list, "rewards/rejected", p->metrics.rejected);
        policy_put_metric(list, "rewards/margins", p->metrics.chosen - p->metrics.rejected);
        policy_put_metric(list, "rewards/accuracies", p->metrics.right);
    }
    if (p->iterations > 1) {
        policy_put_clipping(p, list);
    }
    policy_put_metric(list, "completions/mean_length", (double)n->tokens / all);
    policy_put_metric(list, "completions/min_length", n->shortest);
    policy_put_metric(list, "completions/max_length", n->longest);
    policy_put_metric(list, "completions/clipped_ratio", 1.0 - n->ended / all);
    policy_put_metric(list, "completions/mean_terminated_length", (double)n->ended_tokens / ended);
    policy_put_metric(list, "completions/min_terminated_length",
                      n->ended > 0 ? n->ended_shortest : (double)NAN);
    policy_put_metric(list, "completions/max_terminated_length",
                      n->ended > 0 ? n->ended_longest : (double)NAN);
    for (uint32_t f = 0; f < p->rewards.count; f++) {
        double mean, std;
        policy_mean(p->scores + f, p->count, p->rewards.count, &mean, &std);
        policy_put_metric(list, p->reward_names[2 * f], mean);
        policy_put_metric(list, p->reward_names[2 * f + 1], std);
    }
}

void policy_close(policy_run *p)
{
    for (uint32_t i = 0; p->texts != NULL && p->held.address != NULL && i < p->count; i++) {
        rollout_text_free(&p->texts[i]);
    }
    if (p->rewarded) {
        reward_close(&p->rewards);
    }
    reward_model_close(&p->model);
    policy_reference_close(&p->reference);
    memory_give_back(&p->held);
    memory_give_back(&p->adapters);
    if (p->s != NULL) {
        rollout_prompts_close(&p->prompts);
    }
}
