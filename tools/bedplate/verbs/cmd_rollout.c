/* SPDX-License-Identifier: MIT */
/* bedplate rollout: several completions of each prompt, as rows that train reads. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/app/commands.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/models/end_tokens.h"
#include "tools/bedplate/reward/reward.h"
#include "tools/bedplate/reward/reward_model.h"
#include "tools/bedplate/rollout/prompts.h"
#include "tools/bedplate/session/dry_run.h"
#include "tools/formats/family/family.h"

static const char where[] = "rollout";

#define SLOTS_USUAL 16
#define ROUND       256 /* completions that are held before they are written */

/* Completions of some prompts, and the file. */
typedef struct rollouts {
    session s;
    rollout_prompts prompts;
    rollout_choice choice;
    end_tokens ends;
    memory_block held; /* of a round: prompts, completions, ids, log-probabilities, and `work` */
    uint32_t round;    /* prompts */
    rollout_prompt *asked;
    rollout_completion *made;
    reward_case *cases;
    double *scores; /* (completions, rewards.count) */
    void *work;
    rollout_text *texts; /* of a round's completions; owned */
    uint32_t text_count;
    reward_set rewards;
    bool rewarded;
    reward_model model;
    FILE *file;
    output out;
    uint64_t written;
    uint64_t made_count;
    uint64_t tokens;
    uint64_t cut;
    uint64_t scored; /* completions that have a reward, and the sum of these */
    double sum;
    double seconds;
} rollouts;

static bool rollouts_end(const void *user, uint32_t id)
{
    const rollouts *r = user;
    return end_tokens_has(&r->ends, &r->s.run_tokenizer, &r->s.spec.config, id);
}

/* Without an end token every completion is as long as it may be, and none is finished. */
static bp_status rollouts_find_ends(rollouts *r)
{
    session *s = &r->s;
    const uint32_t vocabulary = s->spec.config.vocabulary;
    uint32_t id = 0;
    BP_TRY(end_tokens_find(&r->ends, s->store, s->set->adapter, &s->run_tokenizer,
                           s->directory ? s->set->model : NULL, &s->error));
    while (id < vocabulary && !rollouts_end(r, id)) {
        id++;
    }
    if (id == vocabulary && !s->set->quiet) {
        output_print(stderr,
                     "bedplate: %s: the model has no end token: every completion has %" PRIu64
                     " tokens\n",
                     s->set->model, s->set->max_completion_length);
    }
    return BP_OK;
}

/* As many sequences at once as fit, where there is a limit: the result does not depend on it. */
static bp_status rollouts_choose_slots(rollouts *r)
{
    session *s = &r->s;
    const uint64_t all = bp_size_mul(r->choice.generations, r->prompts.count);
    const bool chosen = strcmp(s->set->slots, "auto") != 0;
    char *end = NULL;
    uint64_t slots = chosen ? strtoull(s->set->slots, &end, 10) : SLOTS_USUAL;
    if (chosen && (*end != '\0' || slots < 1 || slots > ROLLOUT_SLOTS_MOST)) {
        const bp_status status = bp_error_set(&s->error, BP_ERR_USAGE, where,
                                              "the value is no number of sequences", "--slots");
        bp_error_found(&s->error, s->set->slots, strlen(s->set->slots));
        bp_error_right(&s->error, "auto or 1 to 4096");
        return status;
    }
    slots = slots < all ? slots : all;
    for (;; slots = (slots + 1) / 2) {
        uint64_t bytes = 0;
        rollout_spec(&s->spec, r->prompts.longest, &r->choice, (uint32_t)slots);
        BP_TRY(rollout_check(&s->spec, &s->error));
        if (chosen || s->set->arena == 0 || slots == 1) {
            return BP_OK;
        }
        BP_TRY(dry_run_arena(&s->spec, 0, &bytes, &s->error));
        if (bytes <= s->set->arena) {
            return BP_OK;
        }
    }
}

/* What a round needs; `made` points into both of its lists of tokens. */
static void rollouts_pieces(rollouts *r, uint64_t all, bp_arena *memory)
{
    const uint64_t most = r->choice.most, tokens = bp_size_mul(all, most);
    r->asked = bp_arena_take(memory, r->round, sizeof *r->asked);
    r->made = bp_arena_take(memory, all, sizeof *r->made);
    int32_t *ids = bp_arena_take(memory, tokens, sizeof *ids);
    float *logps = bp_arena_take(memory, tokens, sizeof *logps);
    for (uint64_t i = 0; !memory->counts && i < all; i++) {
        r->made[i] = (rollout_completion){.ids = ids + i * most, .logps = logps + i * most};
    }
    r->cases = bp_arena_take(memory, all, sizeof *r->cases);
    r->scores = bp_arena_take(memory, bp_size_mul(all, r->rewards.count), sizeof *r->scores);
    r->work = bp_arena_take(memory, rollout_bytes(&r->s.spec), 1);
}

static bp_status rollouts_take(rollouts *r)
{
    const uint64_t all = bp_size_mul(r->round, r->choice.generations);
    bp_arena memory;
    r->texts = calloc(all, sizeof *r->texts);
    r->text_count = r->texts != NULL ? (uint32_t)all : 0;
    if (r->texts == NULL) {
        return bp_error_set(&r->s.error, BP_ERR_FIT, where, "no memory for the texts", "");
    }
    bp_arena_count(&memory);
    rollouts_pieces(r, all, &memory);
    BP_TRY(memory_take(&r->held, bp_arena_counted(&memory), false, "host memory", &r->s.error));
    bp_arena_init(&memory, r->held.address, r->held.bytes);
    rollouts_pieces(r, all, &memory);
    return BP_OK;
}

/* A value of the row as JSON, behind its key. */
static bp_status rollouts_put(rollouts *r, const bp_jinja_value *key, const bp_jinja_value *value)
{
    bp_json_writer *json = &r->out.json;
    bp_json_put_key(json, key->is.text, key->count);
    bp_json_put_member(json, NULL);
    return bp_jinja_write(&r->out.text, value, BP_JINJA_JSON, &r->s.error);
}

/* The columns that are written anew, or that say what a completion is to be. */
static bool rollouts_replaces(const bp_jinja_value *key)
{
    static const char *const names[] = {"prompt", "messages", "completion", "completion_ids",
                                        "finish", "tokens",   "generation", "prompt_ids",
                                        "logp",   "logps",    "reward",     "rewards"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found = found || bp_jinja_is(key, names[i]);
    }
    return found;
}

/* prompt and completion: texts, or messages. */
static bp_status rollouts_put_texts(rollouts *r, const bp_jinja_value *row,
                                    const rollout_text *text)
{
    bp_json_writer *json = &r->out.json;
    const bp_jinja_value name = bp_jinja_string("prompt", 6);
    const bp_jinja_value *prompt = bp_jinja_dict_get(row->is.dict, "prompt", 6);
    if (prompt != NULL && prompt->kind == BP_JINJA_STRING) {
        BP_TRY(rollouts_put(r, &name, prompt));
        bp_json_put_bytes(json, "completion", text->bytes, text->count);
        return BP_OK;
    }
    bp_jinja_value turns =
        prompt != NULL ? *prompt : *bp_jinja_dict_get(row->is.dict, "messages", 8);
    turns.count = prompt != NULL ? turns.count : rollout_prompt_turns(&turns);
    BP_TRY(rollouts_put(r, &name, &turns));
    json_list(&r->out, "completion");
    json_item(&r->out);
    json_text(&r->out, "role", "assistant");
    bp_json_put_bytes(json, "content", text->bytes, text->count);
    json_close(&r->out);
    json_list_end(&r->out);
    return BP_OK;
}

static void rollouts_put_logps(rollouts *r, const rollout_completion *c)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < c->count; i++) {
        sum += (double)c->logps[i];
    }
    json_real(&r->out, "logp", sum, 9);
    if (!r->s.set->output_ids) {
        return;
    }
    json_list(&r->out, "logps");
    for (uint32_t i = 0; i < c->count; i++) {
        json_real(&r->out, NULL, (double)c->logps[i], 9);
    }
    json_list_end(&r->out);
}

/* The reward and its parts; what is no number is null. */
static void rollouts_put_rewards(rollouts *r, const double *scores)
{
    if (!r->rewarded) {
        return;
    }
    json_real(&r->out, "reward", reward_total(&r->rewards, scores), 17);
    json_open(&r->out, "rewards");
    for (uint32_t f = 0; f < r->rewards.count; f++) {
        char name[REWARD_COLUMN];
        json_real(&r->out, reward_name(&r->rewards, f, name), scores[f], 17);
    }
    json_close(&r->out);
}

/* Completion number i of the round, of the row. */
static bp_status rollouts_write(rollouts *r, const rollout_row *row, uint32_t i)
{
    const rollout_completion *c = &r->made[i];
    bp_jinja_value values;
    BP_TRY(rollout_prompts_values(&r->prompts, row, &values));
    json_begin(&r->out);
    BP_TRY(rollouts_put_texts(r, &values, &r->texts[i]));
    rollouts_put_rewards(r, r->scores + (size_t)i * r->rewards.count);
    json_count(&r->out, "generation", i % r->choice.generations);
    json_text(&r->out, "finish", c->finish == ROLLOUT_STOP ? "stop" : "length");
    json_count(&r->out, "tokens", c->count);
    rollouts_put_logps(r, c);
    if (r->s.set->output_ids) {
        json_ids(&r->out, "prompt_ids", row->ids, row->count);
        json_ids(&r->out, "completion_ids", c->ids, c->count);
    }
    for (uint32_t k = 0; k < values.is.dict->count; k++) {
        const bp_jinja_pair *pair = &values.is.dict->pairs[k];
        if (!rollouts_replaces(&pair->key)) {
            BP_TRY(rollouts_put(r, &pair->key, &pair->value));
        }
    }
    json_end(&r->out);
    r->written++;
    return BP_OK;
}

/* Texts, and what they are worth. */
static bp_status rollouts_judge(rollouts *r, uint64_t first, uint32_t count)
{
    const uint32_t n = r->choice.generations;
    for (uint32_t i = 0; i < count * n; i++) {
        const rollout_row *row = &r->prompts.rows[first + i / n];
        const rollout_completion *c = &r->made[i];
        BP_TRY(rollout_text_make(&r->texts[i], &r->s, &r->asked[i / n], c));
        r->cases[i] = (reward_case){.id = first * n + i,
                                    .prompt = row->text,
                                    .prompt_bytes = row->text_bytes,
                                    .completion = r->texts[i].bytes,
                                    .completion_bytes = r->texts[i].count,
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
        r->made_count++;
        r->tokens += c->count;
        r->cut += c->finish == ROLLOUT_LENGTH ? 1 : 0;
    }
    return r->rewarded ? reward_score(&r->rewards, r->cases, count * n, r->scores, &r->s.error)
                       : BP_OK;
}

static double rollouts_reward(const rollouts *r, uint32_t i)
{
    return r->rewarded ? reward_total(&r->rewards, r->scores + (size_t)i * r->rewards.count) : 0.0;
}

/* Those of a prompt's completions, from number `from` of the round on, that are asked for: all, or
 * the best, the first of equals, or those that reach the threshold. */
static bp_status rollouts_choose(rollouts *r, const rollout_row *row, uint32_t from)
{
    const settings *set = r->s.set;
    const uint32_t end = from + r->choice.generations;
    const bool least = option_given(set, "reward-threshold");
    uint32_t best = end;
    for (uint32_t i = from; i < end; i++) {
        const double reward = rollouts_reward(r, i);
        const bool known = reward == reward;
        r->scored += known ? 1 : 0;
        r->sum += known ? reward : 0.0;
        if (known && (best == end || reward > rollouts_reward(r, best))) {
            best = i;
        }
    }
    for (uint32_t i = from; i < end; i++) {
        const double reward = rollouts_reward(r, i);
        if ((!set->best_of_n || i == best) && (!least || reward >= set->reward_threshold)) {
            BP_TRY(rollouts_write(r, row, i));
        }
    }
    return BP_OK;
}

/* Prompts first .. first + count - 1. */
static bp_status rollouts_round(rollouts *r, uint64_t first, uint32_t count)
{
    const uint32_t n = r->choice.generations;
    for (uint32_t p = 0; p < count; p++) {
        const rollout_row *row = &r->prompts.rows[first + p];
        r->asked[p] = (rollout_prompt){row->ids, row->count, first + p};
    }
    const double began = clock_seconds();
    BP_TRY(rollout_run(&r->s.runtime, &r->choice, r->asked, count, r->made, r->work, &r->s.error));
    r->seconds += clock_seconds() - began;
    BP_TRY(rollouts_judge(r, first, count));
    for (uint32_t p = 0; p < count; p++) {
        BP_TRY(rollouts_choose(r, &r->prompts.rows[first + p], p * n));
    }
    return BP_OK;
}

static bp_status rollouts_all(rollouts *r)
{
    const char *path = r->s.set->output;
    bp_status status = BP_OK;
    r->file = fopen(path, "wb");
    if (r->file == NULL) {
        return bp_error_set(&r->s.error, BP_ERR_STORE, where, "the file cannot be made", path);
    }
    output_begin(&r->out, r->file);
    for (uint64_t first = 0; status == BP_OK && first < r->prompts.count; first += r->round) {
        const uint64_t left = r->prompts.count - first;
        status = rollouts_round(r, first, left < r->round ? (uint32_t)left : r->round);
    }
    output_end(&r->out);
    const bool failed = ferror(r->file) != 0;
    const bool closed = fclose(r->file) == 0;
    BP_TRY(status);
    return failed || !closed
               ? bp_error_set(&r->s.error, BP_ERR_STORE, where, "the file cannot be written", path)
               : BP_OK;
}

static void rollouts_print(rollouts *r)
{
    const session *s = &r->s;
    output out;
    output_begin(&out, stdout);
    if (s->set->json) {
        json_begin(&out);
        json_count(&out, "prompts", r->prompts.count);
        json_count(&out, "completions", r->made_count);
        json_count(&out, "written", r->written);
        if (r->rewarded) {
            json_real(&out, "reward", r->sum / (double)r->scored, 17);
        }
        json_count(&out, "tokens", r->tokens);
        json_count(&out, "truncated", r->cut);
        json_count(&out, "slots", bp_spec_decode_rows(&s->spec));
        json_real(&out, "tokens_per_second", (double)r->tokens / r->seconds, 6);
        json_seconds(&out, s->set->began, r->seconds);
        json_count(&out, "arena_bytes", s->plan.report.arena_bytes);
        json_text(&out, "path", s->set->output);
        json_end(&out);
    } else {
        bp_text_string(&out.text, s->set->output);
        bp_text_string(&out.text, ": ");
        bp_text_grouped(&out.text, r->made_count);
        bp_text_string(&out.text, " completions of ");
        bp_text_grouped(&out.text, r->prompts.count);
        bp_text_string(&out.text, " prompts, ");
        bp_text_grouped(&out.text, r->tokens);
        bp_text_string(&out.text, " tokens, ");
        bp_text_fixed(&out.text, (double)r->tokens / r->seconds, 1);
        bp_text_string(&out.text, " a second; ");
        bp_text_grouped(&out.text, r->cut);
        bp_text_string(&out.text, " without an end token");
        if (r->rewarded) {
            bp_text_string(&out.text, "; mean reward ");
            bp_text_general(&out.text, r->sum / (double)r->scored, 4);
            bp_text_string(&out.text, ", ");
            bp_text_grouped(&out.text, r->written);
            bp_text_string(&out.text, " written");
        }
        bp_text_char(&out.text, '\n');
    }
    output_end(&out);
}

static bp_status rollouts_open_rewards(rollouts *r)
{
    const settings *set = r->s.set;
    if (!reward_named(set)) {
        const char *choice = set->best_of_n                          ? "--best-of-n"
                             : option_given(set, "reward-threshold") ? "--reward-threshold"
                                                                     : NULL;
        return choice == NULL ? BP_OK
                              : bp_error_set(&r->s.error, BP_ERR_USAGE, where,
                                             "there is nothing to choose by; expected --reward, "
                                             "--reward-model or --reward-command",
                                             choice);
    }
    r->rewarded = true;
    BP_TRY(reward_open(&r->rewards, set, &r->s.error));
    r->rewards.model = r->model.owner != NULL ? &r->model : NULL;
    return BP_OK;
}

static bp_status rollouts_begin(rollouts *r, const settings *set)
{
    session *s = &r->s;
    BP_TRY(session_begin(s, set));
    if (set->output == NULL || set->data.count == 0) {
        return set->output == NULL
                   ? bp_error_set(&s->error, BP_ERR_USAGE, where,
                                  "the option is needed: where the completions go", "--output")
                   : bp_error_set(&s->error, BP_ERR_USAGE, where,
                                  "the option is needed: the prompts", "--data");
    }
    s->spec.optimizer = NULL;
    s->spec.batch = s->spec.accumulation = s->spec.sequence = 1;
    bp_family_set_pieces(&s->spec.config, 1);
    r->choice = (rollout_choice){.generations = (uint32_t)set->num_generations,
                                 .most = (uint32_t)set->max_completion_length,
                                 .temperature = set->temperature,
                                 .seed = set->seed,
                                 .ends = rollouts_end,
                                 .user = r};
    rollout_spec(&s->spec, 1, &r->choice, 1);
    BP_TRY(rollout_check(&s->spec, &s->error));
    BP_TRY(rollout_prompts_open(&r->prompts, s, &set->data));
    if (r->prompts.count > UINT32_MAX / r->choice.generations) {
        return bp_error_set(&s->error, BP_ERR_DATA, where, "there are too many completions",
                            "--num-generations");
    }
    r->choice.prompts = (uint32_t)r->prompts.count;
    r->round = r->choice.generations < ROUND ? ROUND / r->choice.generations : 1;
    r->round = r->prompts.count < r->round ? (uint32_t)r->prompts.count : r->round;
    BP_TRY(reward_model_open(&r->model, s, r->prompts.longest + r->choice.most,
                             r->round * r->choice.generations));
    s->reference_bytes += reward_model_bytes(&r->model);
    BP_TRY(rollouts_open_rewards(r));
    return rollouts_find_ends(r);
}

static bp_status rollouts_run(rollouts *r, const settings *set)
{
    BP_TRY(rollouts_begin(r, set));
    BP_TRY(rollouts_choose_slots(r));
    BP_TRY(session_start(&r->s));
    BP_TRY(reward_model_try(&r->model, &r->s.error));
    BP_TRY(rollouts_take(r));
    BP_TRY(rollouts_all(r));
    rollouts_print(r);
    return BP_OK;
}

int cmd_rollout(const settings *set)
{
    static rollouts r;
    const int code = session_report(&r.s, rollouts_run(&r, set));
    for (uint32_t i = 0; i < r.text_count; i++) {
        rollout_text_free(&r.texts[i]);
    }
    free(r.texts);
    if (r.rewarded) {
        reward_close(&r.rewards);
    }
    reward_model_close(&r.model);
    memory_give_back(&r.held);
    rollout_prompts_close(&r.prompts);
    session_end(&r.s);
    return code;
}
