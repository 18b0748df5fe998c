/* SPDX-License-Identifier: MIT */
/* bedplate replay: steps of a recorded run once more, from one checkpoint to the next, and every
 * line and state compared with what the record tells. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "core/base/sort.h"
#include "tools/bedplate/session/adapter_choice.h"
#include "tools/bedplate/app/clock.h"
#include "core/base/digest.h"
#include "core/base/random.h"
#include "tools/bedplate/runs/checkpoint_keys.h"
#include "tools/bedplate/record/old_names.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/store_compare.h"
#include "tools/bedplate/record/record_files.h"
#include "tools/bedplate/record/record_read.h"
#include "tools/bedplate/record/record_verify.h"
#include "tools/bedplate/record/replay_compare.h"
#include "tools/bedplate/policy/policy_record.h"
#include "tools/bedplate/record/replay_settings.h"
#include "tools/bedplate/runs/rollback.h"
#include "tools/bedplate/runs/train_ranks.h"
#include "tools/bedplate/runs/training.h"
#include "tools/bedplate/app/commands.h"

enum { STARTS_MAX = 4096, TENSOR_NAME = 128 };

static const char where[] = "replay";

/* A state that a replay can begin with: that before the first step, or a checkpoint's. */
typedef struct replay_start {
    uint64_t step;
    bool first; /* before the first step of all */
    bool chosen;
} replay_start;

typedef struct replay {
    training t;
    settings run; /* what the run was asked to do */
    const settings *set;
    bp_error error;
    char path[BP_STORE_PATH_MAX];
    char *head;        /* the record's first line */
    uint64_t last;     /* step that it tells */
    uint64_t from, to; /* asked: steps from .. to */
    uint64_t at;       /* the state before the first step is here; UINT64_MAX: it is gone */
    uint32_t count;
    replay_start starts[STARTS_MAX + 1]; /* rising */
    /* What was found. */
    uint64_t executed, proven, states;
    uint32_t segments;
    double seconds;
    bool differs;
    uint64_t step; /* of the first difference */
    char key[REPLAY_KEY];
    bool other_source, other_plan; /* than the run's: told, for a replay may have them */
    store_compare exports;         /* what the last line says was exported */
    uint32_t exported;             /* files of it, */
    uint32_t compared;             /* those that were made again alike */
    bool best_gone;                /* what was exported is of a checkpoint that is not there */
    bool ended;                    /* the last line was reached */
    bool back;                     /* the step just computed goes back to `copy` */
    rollback_copy copy; /* where --on-spike is to go back: the newest state that the record tells */
    char tensor[TENSOR_NAME]; /* the first that differs at the next checkpoint */
    record_walk ahead;        /* --task grpo: to the rewards of the step that comes */
    bool looks;               /* it is open */
    char line[RECORD_WAITING];
} replay;

static bp_status replay_bounds(replay *r)
{
    const settings *set = r->set;
    char *end_from = NULL, *end_to = NULL;
    r->from = set->from != NULL ? strtoull(set->from, &end_from, 10) : 1;
    r->to = set->to != NULL ? strtoull(set->to, &end_to, 10) : r->last;
    const bool wrong =
        (end_from != NULL && *end_from != '\0') || (end_to != NULL && *end_to != '\0');
    if (wrong || r->from == 0 || r->from > r->to || r->to > r->last) {
        return bp_error_limit(&r->error, BP_ERR_USAGE, where,
                              "steps are from 1 on and up to the last one of the record",
                              set->from != NULL ? "--from" : "--to",
                              (int64_t)(r->from > r->to || wrong ? r->from : r->to), BP_LIMIT_MOST,
                              (int64_t)r->last);
    }
    return BP_OK;
}

/* Walks the record once: it must be whole, and its first line and its last step are kept. */
static bp_status replay_read(replay *r)
{
    record_walk walk;
    bool more = true;
    BP_TRY(bp_storage_join(r->path, r->set->words.item[0], RECORD_NAME, &r->error));
    BP_TRY(record_walk_begin(&walk, r->path, &r->error));
    bp_status status = record_walk_next(&walk, &more, &r->error);
    if (status == BP_OK && more) {
        r->head = strdup(walk.line);
        r->starts[0] = (replay_start){.step = walk.last, .first = walk.last == 0};
    }
    while (status == BP_OK && more) {
        status = record_walk_next(&walk, &more, &r->error);
    }
    r->last = walk.last;
    record_walk_end(&walk);
    BP_TRY(status);
    if (r->head == NULL) {
        return bp_error_set(&r->error, BP_ERR_DATA, where, "the record is empty", r->path);
    }
    r->count = r->starts[0].first ? 1 : 0;
    return BP_OK;
}

static bp_status replay_add_start(void *user, const char *name)
{
    replay *r = user;
    char *end = NULL;
    const uint64_t step =
        strncmp(name, "checkpoint-", 11) == 0 ? strtoull(name + 11, &end, 10) : UINT64_MAX;
    if (end != NULL && *end == '\0' && step > 0 && step < r->last && r->count < STARTS_MAX) {
        r->starts[r->count++] = (replay_start){.step = step};
    }
    return BP_OK;
}

static int replay_by_step(const void *a, const void *b)
{
    const replay_start *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step ? 1 : 0;
}

/* A spike goes back to states that the record tells, so a replay that may meet one begins there and
 * not at a checkpoint that a signal asked for. */
static bp_status replay_keep_told(replay *r)
{
    record_walk walk;
    bool more = true;
    BP_TRY(record_walk_begin(&walk, r->path, &r->error));
    bp_status status = record_walk_next(&walk, &more, &r->error);
    uint32_t kept = r->starts[0].first ? 1 : 0, at = kept;
    while (status == BP_OK && more && at < r->count) {
        status = record_walk_next(&walk, &more, &r->error);
        while (at < r->count && r->starts[at].step < walk.step) {
            at++;
        }
        if (walk.kind == RECORD_STATE && at < r->count && r->starts[at].step == walk.step) {
            r->starts[kept++] = r->starts[at++];
        }
    }
    r->count = kept;
    record_walk_end(&walk);
    return status;
}

static bp_status replay_find_starts(replay *r)
{
    bp_store *store = &r->t.s.posix.store;
    const char *directory = r->set->words.item[0];
    if (store->list(store, directory, replay_add_start, r) != BP_OK) {
        return bp_storage_failed(&r->error, store, "list", directory);
    }
    if (r->count == 0) {
        return bp_error_set(&r->error, BP_ERR_DATA, where,
                            "there is no checkpoint that a replay could begin with", directory);
    }
    bp_heap_sort(r->starts, r->count, sizeof r->starts[0], replay_by_step);
    return r->t.points.watch.policy == ANOMALY_ROLLBACK ? replay_keep_told(r) : BP_OK;
}

/* Segments that have steps of --from .. --to, or of all the sample that was asked for. */
static void replay_choose(replay *r)
{
    const uint64_t sample = r->set->replay_sample;
    for (uint32_t i = 0; i < r->count; i++) {
        const uint64_t end = i + 1 < r->count ? r->starts[i + 1].step : r->last;
        r->starts[i].chosen = sample == 0 && r->starts[i].step < r->to && end >= r->from;
    }
    for (uint64_t i = 0; i < sample && i < r->count; i++) {
        r->starts[bp_random_permute(r->set->seed, 0, r->count, i)].chosen = true;
    }
}

/* The first difference of all is kept. */
static void replay_differs(replay *r, uint64_t step, const char *key)
{
    if (!r->differs) {
        r->differs = true;
        r->step = step;
        snprintf(r->key, sizeof r->key, "%s", key);
    }
}

/* The member of this run's own first line, made anew, beside that of the record. */
typedef struct file_check {
    replay *r;
    const char *line;
    size_t length;
    const char *list;
    const record_file *wanted;
    bool met;
    uint64_t bytes; /* of what was met */
} file_check;

static bp_status replay_same_file(void *user, const record_file *file)
{
    file_check *check = user;
    if (strcmp(file->sha256, check->wanted->sha256) == 0) {
        check->met = true;
        check->bytes = file->bytes;
    }
    return BP_OK;
}

static bp_status replay_check_file(void *user, const record_file *wanted)
{
    file_check *check = user;
    char name[BP_ERROR_NAME_MAX];
    check->wanted = wanted;
    check->met = wanted->sha256[0] == '\0';
    check->bytes = wanted->bytes;
    BP_TRY(record_files_each(check->line, check->length, check->list, replay_same_file, check));
    if (check->met) {
        if (check->bytes != wanted->bytes) {
            replay_differs(check->r, 0, check->list);
        }
        return BP_OK;
    }
    snprintf(name, sizeof name, "%.100s", wanted->name);
    const bp_status status =
        bp_error_set(&check->r->error, BP_ERR_DATA, where,
                     "the file that is here is not the one that the run read", name);
    bp_error_found(&check->r->error, "another SHA-256", 15);
    bp_error_right(&check->r->error, wanted->sha256);
    return status;
}

static bp_status replay_count_file(void *user, const record_file *file)
{
    (void)file;
    ++*(uint32_t *)user;
    return BP_OK;
}

/* A list says as many files as were read. */
static bp_status replay_count_files(replay *r, const file_check *check)
{
    uint32_t told = 0, found = 0;
    BP_TRY(record_files_each(r->head, strlen(r->head), check->list, replay_count_file, &told));
    BP_TRY(record_files_each(check->line, check->length, check->list, replay_count_file, &found));
    if (told != found) {
        replay_differs(r, 0, check->list);
    }
    return BP_OK;
}

/* Model and data are those of the run, by their SHA-256. */
static bp_status replay_check_files(replay *r)
{
    static const char *const lists[] = {"model", "tokenizer", "adapter", "data", "eval_data"};
    static char text[RECORD_WAITING];
    json_line line;
    size_t length;
    line_begin(&line, text, sizeof text);
    BP_TRY(record_files_put(&line, &r->t.s, &r->t.data));
    BP_TRY(line_end(&line, &length));
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        file_check check = {.r = r, .line = text, .length = length, .list = lists[i]};
        BP_TRY(record_files_each(r->head, strlen(r->head), lists[i], replay_check_file, &check));
        BP_TRY(replay_count_files(r, &check));
    }
    return BP_OK;
}

/* A member of an object of texts that one line has, and another one. */
typedef struct member_check {
    replay *r;
    const char *line; /* the other */
    size_t length;
    const char *key, *value; /* looked for */
    bool met, same;
} member_check;

static bp_status replay_same_member(void *user, const char *key, const char *value)
{
    member_check *check = user;
    if (strcmp(key, check->key) == 0) {
        check->met = true;
        check->same = strcmp(value, check->value) == 0;
    }
    return BP_OK;
}

/* Another program may have other members. */
static bp_status replay_check_member(void *user, const char *key, const char *value)
{
    member_check *check = user;
    check->key = key;
    check->value = value;
    check->met = false;
    BP_TRY(record_members_each(check->line, check->length, "config", replay_same_member, check));
    if (check->met ? !check->same : !check->r->other_source) {
        replay_differs(check->r, 0, "config");
    }
    return BP_OK;
}

static bool replay_same_value(const replay *r, const char *line, size_t length, const char *key)
{
    char told[1024], found[1024];
    const bool any = record_value(r->head, strlen(r->head), key, told, sizeof told);
    const bool made = record_value(line, length, key, found, sizeof found);
    return any == made && (!any || strcmp(told, found) == 0);
}

/* The first line, made again: every member but those that say by what it was computed. */
static bp_status replay_check_run(replay *r)
{
    static const char *const keys[] = {"preset",      "tokens", "windows",   "steps_per_epoch",
                                       "total_steps", "seed",   "data_seed", "program"};
    static char text[RECORD_WAITING];
    training *t = &r->t;
    const train_record_facts facts = {&t->data, &t->feed, t->identity, t->total,
                                      training_epoch_steps(t)};
    json_line line;
    size_t length;
    line_begin(&line, text, sizeof text);
    line_count(&line, "run", 0);
    BP_TRY(train_record_put_run(&line, &t->points, &facts));
    BP_TRY(line_end(&line, &length));
    length--; /* the newline */
    r->other_source = !replay_same_value(r, text, length, "source");
    r->other_plan = !replay_same_value(r, text, length, "plan");
    if (!r->other_source && !replay_same_value(r, text, length, "version")) {
        replay_differs(r, 0, "version");
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!replay_same_value(r, text, length, keys[i])) {
            replay_differs(r, 0, keys[i]);
        }
    }
    member_check check = {.r = r, .line = text, .length = length};
    BP_TRY(record_members_each(r->head, strlen(r->head), "config", replay_check_member, &check));
    check = (member_check){.r = r, .line = r->head, .length = strlen(r->head)}; /* nor fewer */
    return record_members_each(text, length, "config", replay_check_member, &check);
}

/* What names the data names a file or a model beside them too, by its content. */
static bp_status replay_check_beside(replay *r, const char *word, const char *path)
{
    char wanted[DISTILL_IDENTITY];
    if (path == NULL || !record_value(r->head, strlen(r->head), "tokens", wanted, sizeof wanted)) {
        return BP_OK;
    }
    char *right = strstr(wanted, word);
    const char *found = strstr(r->t.identity, word);
    const size_t n = strlen(word) + BP_DIGEST_TEXT - 1;
    if (right == NULL || found == NULL || strncmp(right, found, n) == 0) {
        return BP_OK;
    }
    const bp_status status =
        bp_error_set(&r->error, BP_ERR_DATA, where,
                     "the file that is here is not the one that the run read", path);
    bp_error_found(&r->error, found + 1, n - 1);
    right[n] = '\0';
    bp_error_right(&r->error, right + 1);
    return status;
}

/* A model that is not asked again is the record's. */
static bp_status replay_check_models(replay *r)
{
    char wanted[DISTILL_IDENTITY];
    char *to = r->t.identity;
    const char *refers = r->run.ref_model != NULL ? r->run.ref_model : r->run.model;
    if (!r->set->ask_rewards && r->run.reward_model != NULL &&
        record_value(r->head, strlen(r->head), "tokens", wanted, sizeof wanted)) {
        const char *model = strstr(wanted, POLICY_MODEL_WORD);
        const size_t used = strlen(to);
        snprintf(to + used, sizeof r->t.identity - used, "%s", model != NULL ? model : "");
    }
    BP_TRY(replay_check_beside(r, " teacher ", r->run.distill));
    BP_TRY(replay_check_beside(r, POLICY_REFERENCE_WORD, refers));
    return replay_check_beside(r, POLICY_MODEL_WORD, r->run.reward_model);
}

/* Rewards are not computed again where a command gave them: the record has them. */
static bp_status replay_rewards(void *user, uint64_t step, const char **rewards, size_t *digits)
{
    static const char key[] = "rewards";
    replay *r = user;
    bool more = true;
    if (r->looks && r->ahead.step > step) {
        record_walk_end(&r->ahead);
        r->looks = false;
    }
    if (!r->looks) {
        BP_TRY(record_walk_begin(&r->ahead, r->path, &r->error));
        r->looks = true;
    }
    bool there = r->ahead.kind == RECORD_ROLLOUT && r->ahead.step == step;
    while (more && !there) {
        BP_TRY(record_walk_next(&r->ahead, &more, &r->error));
        there = more && r->ahead.kind == RECORD_ROLLOUT && r->ahead.step >= step;
    }
    const char *at = there ? strstr(r->ahead.line, key) : NULL;
    if (at == NULL) {
        return bp_error_limit(&r->error, BP_ERR_DATA, where,
                              "the record has no rewards of the completions of a step", r->path,
                              (int64_t)step, BP_LIMIT_NONE, 0);
    }
    *rewards = at + sizeof key + 2; /* behind the key; members before it have digits alone */
    *digits = strcspn(*rewards, "\"");
    return BP_OK;
}

/* Rewards are asked for again where there are some, and limits are for the command that is. */
static bp_status replay_check_asked(replay *r)
{
    static const char *const limits[] = {"reward-timeout", "reward-memory-limit",
                                         "reward-cpu-limit"};
    if (r->set->ask_rewards && !policy_asked(&r->run)) {
        return bp_error_set(&r->error, BP_ERR_USAGE, where, "the run is not of --task grpo",
                            "--ask-rewards");
    }
    for (size_t i = 0; i < sizeof limits / sizeof limits[0] && !r->set->ask_rewards; i++) {
        if (option_said(r->set, limits[i])) {
            char name[64];
            snprintf(name, sizeof name, "--%s", limits[i]);
            return bp_error_set(&r->error, BP_ERR_USAGE, where,
                                "no reward command runs without --ask-rewards", name);
        }
    }
    return BP_OK;
}

static bp_status replay_open(replay *r)
{
    training *t = &r->t;
    BP_TRY(replay_check_asked(r));
    t->policy.recorded = r->set->ask_rewards ? NULL : replay_rewards;
    t->policy.user = r;
    BP_TRY(training_read(t, &r->run));
    BP_TRY(checkpoint_recall(&t->points, &t->s));
    BP_TRY(training_feed(t));
    BP_TRY(replay_check_models(r));
    BP_TRY(training_open(t));
    t->points.place.directory = r->set->words.item[0];
    BP_TRY(replay_check_files(r));
    BP_TRY(replay_check_run(r));
    BP_TRY(checkpoint_start(&t->points));
    t->points.watch.log = NULL; /* what it decides is in the record */
    return anomaly_attach(&t->points.watch, &t->s.runtime);
}

/* A line made anew is in r->line, without its closing brace. */
static bool replay_same_line(replay *r, json_line *line, const record_walk *walk)
{
    char key[REPLAY_KEY];
    const size_t length = (size_t)line->text.written;
    if (bp_text_flush(&line->text) == BP_OK &&
        !replay_difference(walk->line, walk->covered, r->line, length, key)) {
        return true;
    }
    replay_differs(r, walk->step, key);
    return false;
}

static bp_status replay_step(replay *r, const record_walk *walk)
{
    training *t = &r->t;
    bp_outcome outcome;
    json_line line;
    BP_TRY(train_ranks_step(t, &outcome));
    line_begin(&line, r->line, sizeof r->line);
    line_count(&line, "step", outcome.step);
    train_record_put_step(&line, &t->s.runtime, &t->feed, &outcome);
    const bool same = replay_same_line(r, &line, walk);
    r->back = outcome.verdict == BP_STEP_BACK;
    r->executed++;
    r->proven += same && !r->differs && walk->step >= r->from ? 1 : 0;
    return BP_OK;
}

static bp_status replay_eval(replay *r, const record_walk *walk)
{
    training *t = &r->t;
    train_record_evaluation found;
    json_line line;
    if (t->data.eval == NULL) {
        return BP_OK;
    }
    BP_TRY(training_judge(t, &found));
    line_begin(&line, r->line, sizeof r->line);
    line_count(&line, "eval", walk->step);
    train_record_put_eval(&line, &found);
    (void)replay_same_line(r, &line, walk); /* noted */
    return BP_OK;
}

static bp_status replay_rollout(replay *r, const record_walk *walk)
{
    json_line line;
    line_begin(&line, r->line, sizeof r->line);
    line_count(&line, "rollout", walk->step);
    if (r->t.policy.s == NULL) {
        replay_differs(r, walk->step, "rollout");
        return BP_OK;
    }
    policy_record_put(&line, &r->t.policy);
    (void)replay_same_line(r, &line, walk); /* noted */
    return BP_OK;
}

static bp_status replay_checkpoint_path(replay *r, uint64_t step, char path[BP_STORE_PATH_MAX])
{
    char name[40];
    snprintf(name, sizeof name, "checkpoint-%" PRIu64, step);
    return bp_storage_join(path, r->set->words.item[0], name, &r->error);
}

static bp_status replay_tensor_digest(const checkpoint *c, size_t i, uint64_t *digest)
{
    const bp_checkpoint one = {
        .tensors = c->tensors + i, .tensor_count = 1, .io = c->checkpoint.io};
    return bp_checkpoint_digest(&c->place, &one, digest);
}

/* Which tensor is the first that a checkpoint has otherwise: its digests before and after loading.
 */
static bp_status replay_find_tensor(replay *r, uint64_t step)
{
    checkpoint *c = &r->t.points;
    char path[BP_STORE_PATH_MAX];
    bool there = false;
    bp_store *store = &r->t.s.posix.store;
    const size_t count = c->checkpoint.tensor_count;
    BP_TRY(replay_checkpoint_path(r, step, path));
    BP_TRY(bp_storage_exists(store, path, &there, &r->error));
    if (r->tensor[0] != '\0' || !there) {
        return BP_OK;
    }
    uint64_t *digests = calloc(count + 1, sizeof *digests);
    bp_status status = digests != NULL ? BP_OK : BP_ERR_FIT;
    for (size_t i = 0; i < count && status == BP_OK; i++) {
        status = replay_tensor_digest(c, i, &digests[i]);
    }
    if (status == BP_OK) {
        status = bp_checkpoint_load(&c->place, path, &c->checkpoint, NULL);
    }
    for (size_t i = 0; i < count && status == BP_OK && r->tensor[0] == '\0'; i++) {
        uint64_t right;
        status = replay_tensor_digest(c, i, &right);
        if (status == BP_OK && right != digests[i]) {
            snprintf(r->tensor, sizeof r->tensor, "%s", c->tensors[i].name);
        }
    }
    free(digests);
    return status;
}

/* With --on-spike rollback the state that spikes go back to from now on. */
static bp_status replay_keep(replay *r, uint64_t step)
{
    const bool any = r->t.points.watch.policy == ANOMALY_ROLLBACK;
    return any ? rollback_keep(&r->t.points, &r->copy, step) : BP_OK;
}

static bp_status replay_roll(replay *r, const record_walk *walk)
{
    json_line line;
    if (!r->back) {
        replay_differs(r, walk->step, "roll");
        return BP_OK;
    }
    r->back = false;
    line_begin(&line, r->line, sizeof r->line);
    line_count(&line, "roll", walk->step);
    train_record_put_roll(&line, walk->step, r->copy.step, r->copy.digest);
    (void)replay_same_line(r, &line, walk); /* noted */
    return rollback_return(&r->t.points, &r->copy);
}

static bp_status replay_state(replay *r, const record_walk *walk)
{
    checkpoint *c = &r->t.points;
    uint64_t found, told;
    BP_TRY(replay_keep(r, walk->step));
    BP_TRY(bp_checkpoint_digest(&c->place, &c->checkpoint, &found));
    r->states++;
    if (record_hex(walk->line, walk->length, "state_digest", &told) && told == found) {
        return BP_OK;
    }
    replay_differs(r, walk->step, "state_digest");
    return replay_find_tensor(r, walk->step);
}

static bp_status replay_other_file(replay *r, const char *name)
{
    replay_differs(r, r->last, "files");
    snprintf(r->tensor, sizeof r->tensor, "%.100s", name);
    return BP_OK;
}

/* A file that was made again, by its name in the record's list. */
typedef struct listed_check {
    const char *name;
    bool met;
} listed_check;

static bp_status replay_same_name(void *user, const record_file *file)
{
    listed_check *check = user;
    check->met = check->met || strcmp(file->name, check->name) == 0;
    return BP_OK;
}

/* What was made again is in the list of what the run has exported. */
static bp_status replay_check_listed(replay *r, const record_walk *walk)
{
    for (uint32_t i = 0; i < r->exports.count; i++) {
        listed_check check = {.name = r->exports.list[i].name};
        BP_TRY(record_files_each(walk->line, walk->length, "files", replay_same_name, &check));
        if (!check.met && record_exports_have(check.name)) {
            BP_TRY(replay_other_file(r, check.name));
        }
    }
    return BP_OK;
}

/* An exported file beside what the state gives: made again, or a copy of the tokenizer's. */
static bp_status replay_export_file(void *user, const record_file *file)
{
    replay *r = user;
    char path[BP_STORE_PATH_MAX], text[BP_SHA256_TEXT];
    file_check copy = {.r = r, .wanted = file};
    const store_compared *made = NULL;
    uint64_t bytes;
    r->exported++;
    for (uint32_t i = 0; i < r->exports.count; i++) {
        made = strcmp(r->exports.list[i].name, file->name) == 0 ? &r->exports.list[i] : made;
    }
    BP_TRY(record_files_each(r->head, strlen(r->head), "tokenizer", replay_same_file, &copy));
    if (!record_exports_have(file->name) || (copy.met && copy.bytes != file->bytes)) {
        return replay_other_file(r, file->name);
    }
    if (made == NULL || !made->there) {
        r->compared += copy.met ? 1 : 0;
        return BP_OK;
    }
    BP_TRY(bp_storage_join(path, r->set->words.item[0], file->name, &r->error));
    BP_TRY(record_hash(&r->t.points.place, path, &bytes, text));
    if (!made->equal || bytes != file->bytes || strcmp(text, file->sha256) != 0) {
        return replay_other_file(r, file->name);
    }
    r->compared++;
    return BP_OK;
}

/* The best evaluation of the record, and what it tells of the state of a step. */
static bp_status replay_scan(replay *r, uint64_t step, best_state *best, uint64_t *told)
{
    record_walk walk;
    bool more = true;
    *best = (best_state){.judged = 0};
    BP_TRY(record_walk_begin(&walk, r->path, &r->error));
    bp_status status = record_walk_next(&walk, &more, &r->error);
    while (status == BP_OK && more) {
        uint64_t bits;
        double value;
        if (walk.kind == RECORD_EVAL && record_hex(walk.line, walk.length, "value_bits", &bits)) {
            memcpy(&value, &bits, sizeof value);
            (void)best_judge(best, &r->t.metric.rule, walk.step, value);
        }
        if (walk.kind == RECORD_STATE && walk.step == step) {
            (void)record_hex(walk.line, walk.length, "state_digest", told);
        }
        status = record_walk_next(&walk, &more, &r->error);
    }
    record_walk_end(&walk);
    return status;
}

/* --load-best-model-at-end: what was exported is the state of the best evaluation, which is the one
 * that the record tells of its step and its checkpoint holds. False where that is not there. */
static bp_status replay_load_best(replay *r, uint64_t last, bool *is)
{
    checkpoint *c = &r->t.points;
    char path[BP_STORE_PATH_MAX];
    best_state best;
    uint64_t told = 0, found = 0;
    *is = true;
    BP_TRY(replay_scan(r, 0, &best, &told));
    if (best.step == 0 || best.step == last) {
        return BP_OK;
    }
    BP_TRY(replay_scan(r, best.step, &best, &told));
    BP_TRY(replay_checkpoint_path(r, best.step, path));
    BP_TRY(bp_storage_exists(&r->t.s.posix.store, path, is, &r->error));
    if (!*is) {
        return BP_OK;
    }
    BP_TRY(bp_checkpoint_load(&c->place, path, &c->checkpoint, &found));
    if (found != told) {
        replay_differs(r, best.step, "state_digest");
    }
    return BP_OK;
}

/* What the run exported is the state that the replay has come to, or that of the best evaluation.
 */
static bp_status replay_exports(replay *r, const record_walk *walk)
{
    session *s = &r->t.s;
    bp_store *const medium = s->store;
    r->ended = true;
    bool is = true;
    if (r->run.load_best) {
        BP_TRY(replay_load_best(r, walk->step, &is));
    }
    r->best_gone = !is;
    if (is) {
        r->run.output_dir = r->set->words.item[0];
        store_compare_begin(&r->exports, medium, &s->posix.store);
        s->store = &r->exports.store;
        r->t.points.unnoted = !adapter_has_note(r->run.output_dir); /* of an older program */
        const bp_status status = checkpoint_export(&r->t.points);
        s->store = medium;
        BP_TRY(status);
        BP_TRY(replay_check_listed(r, walk));
    }
    return record_files_each(walk->line, walk->length, "files", replay_export_file, r);
}

static bp_status replay_end(replay *r, const record_walk *walk)
{
    checkpoint *c = &r->t.points;
    uint64_t found, told;
    BP_TRY(bp_checkpoint_digest(&c->place, &c->checkpoint, &found));
    if (!record_hex(walk->line, walk->length, "state_digest", &told) || told != found) {
        replay_differs(r, walk->step, "state_digest");
        return replay_find_tensor(r, walk->step);
    }
    return replay_exports(r, walk);
}

/* The state that a segment begins with, compared with what the record says of it. */
static bp_status replay_load(replay *r, const replay_start *start)
{
    checkpoint *c = &r->t.points;
    char path[BP_STORE_PATH_MAX];
    uint64_t told, digest = 0;
    if (start->first) {
        BP_TRY(bp_checkpoint_digest(&c->place, &c->checkpoint, &digest));
        const size_t length = strlen(r->head);
        if (!record_hex(r->head, length, "state_digest", &told) || told != digest) {
            replay_differs(r, 0, "state_digest");
        }
        return replay_keep(r, 0);
    }
    BP_TRY(replay_checkpoint_path(r, start->step, path));
    bp_pairs saved;
    BP_TRY(old_names_read_keys(&c->place, path, &saved));
    checkpoint_keys_read_watch(c, saved);
    BP_TRY(bp_checkpoint_load(&c->place, path, &c->checkpoint, &c->digest));
    bp_runtime_continue(&r->t.s.runtime, start->step);
    return replay_keep(r, start->step);
}

static bp_status replay_line(replay *r, const record_walk *walk, const replay_start *start)
{
    const bool behind = walk->last > start->step;
    if (walk->kind == RECORD_ROLL && behind) {
        return replay_roll(r, walk);
    }
    if (r->back) {
        replay_differs(r, walk->last, "roll");
        r->back = false;
    }
    if (walk->kind == RECORD_STEP && behind) {
        return replay_step(r, walk);
    }
    if (walk->kind == RECORD_ROLLOUT && behind) {
        return replay_rollout(r, walk);
    }
    if (walk->kind == RECORD_EVAL && behind) {
        return replay_eval(r, walk);
    }
    if (walk->kind == RECORD_STATE && behind) {
        return replay_state(r, walk);
    }
    if (walk->kind == RECORD_ENDED && behind) {
        return replay_end(r, walk);
    }
    uint64_t told;
    if (walk->kind == RECORD_STATE && walk->step == start->step &&
        record_hex(walk->line, walk->length, "state_digest", &told) && told != r->t.points.digest) {
        replay_differs(r, walk->step, "state_digest");
    }
    return BP_OK;
}

/* Lines up to `end`, and those of that step that follow it. */
static bp_status replay_segment(replay *r, const replay_start *start, uint64_t end)
{
    record_walk walk;
    bool more = true;
    BP_TRY(replay_load(r, start));
    BP_TRY(record_walk_begin(&walk, r->path, &r->error));
    bp_status status = BP_OK;
    while (status == BP_OK && more) {
        status = record_walk_next(&walk, &more, &r->error);
        if (status != BP_OK || !more || walk.last > end) {
            break;
        }
        status = walk.number > 1 ? replay_line(r, &walk, start) : BP_OK;
    }
    record_walk_end(&walk);
    r->segments++;
    return status;
}

static bp_status replay_all(replay *r)
{
    const double began = clock_seconds();
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t end = i + 1 < r->count ? r->starts[i + 1].step : r->last;
        end = r->set->replay_sample == 0 && end > r->to ? r->to : end;
        if (r->starts[i].chosen) {
            BP_TRY(replay_segment(r, &r->starts[i], end));
        }
    }
    r->seconds = clock_seconds() - began;
    return BP_OK;
}

/* What was computed again, and what nobody has. */
static void replay_print_covered(const replay *r)
{
    fputs("computed again: model and data by their SHA-256, configuration, tokens, seeds and "
          "lengths of the run; of each "
          "proven step its line\n",
          stdout);
    if (r->ended) {
        output_print(
            stdout, "and the last state; exported files: %u of %u%s\n", r->compared, r->exported,
            r->best_gone
                ? " (the checkpoint of the best evaluation, of which they are, is not here)"
                : "");
    } else {
        puts("not computed: the run's end and what it exported");
    }
    if (r->other_source || r->other_plan) {
        output_print(stdout, "not computed again, from the record alone: %s%s%s\n",
                     r->other_source ? "its program (source)" : "",
                     r->other_source && r->other_plan ? ", " : "", r->other_plan ? "its plan" : "");
    }
}

static void replay_print(replay *r)
{
    output out;
    const uint64_t rest = r->last > r->proven ? r->last - r->proven : 0;
    const double a_step = r->executed > 0 ? r->seconds / (double)r->executed : 0.0;
    output_begin(&out, stdout);
    if (r->set->json) {
        json_begin(&out);
        json_flag(&out, "equal", !r->differs);
        json_count(&out, "steps", r->last);
        json_count(&out, "executed", r->executed);
        json_count(&out, "proven", r->proven);
        json_count(&out, "segments", r->segments);
        json_count(&out, "segments_of", r->count);
        json_count(&out, "states", r->states);
        json_flag(&out, "end", r->ended);
        json_count(&out, "files", r->compared);
        json_count(&out, "files_of", r->exported);
        json_flag(&out, "same_source", !r->other_source);
        json_flag(&out, "same_plan", !r->other_plan);
        if (r->differs) {
            json_open(&out, "first_difference");
            json_count(&out, "step", r->step);
            json_text(&out, "key", r->key);
            json_text(&out, "tensor", r->tensor);
            json_close(&out);
        }
        json_text(&out, "kernels", r->t.s.spec.device->variant(r->t.s.runtime.device));
        json_count(&out, "threads", r->t.s.spec.device_options.threads);
        json_real(&out, "seconds", r->seconds, 6);
        json_count(&out, "rest_steps", rest);
        json_real(&out, "rest_seconds", (double)rest * a_step, 6);
        json_end(&out);
        output_end(&out);
        return;
    }
    output_end(&out);
    output_print(stdout,
                 "%" PRIu64 " of %" PRIu64 " steps proven in %u of %u segments, %" PRIu64
                 " states compared, %.1f s",
                 r->proven, r->last, r->segments, r->count, r->states, r->seconds);
    output_print(stdout, rest > 0 ? "; the rest would take %.0f s\n" : "\n", (double)rest * a_step);
    replay_print_covered(r);
    if (r->differs) {
        output_print(stdout, "first difference: step %" PRIu64 ", %s%s%s\n", r->step, r->key,
                     r->tensor[0] == '\0'           ? ""
                     : strcmp(r->key, "files") == 0 ? "; "
                                                    : "; first tensor ",
                     r->tensor);
    }
}

/* The replay is an event of the run; a directory that cannot be written to has none. */
static void replay_event(replay *r)
{
    static events log;
    events_open(&log, r->set->words.item[0]);
    json_line *line = events_begin(&log, "replay", r->last);
    line_flag(line, "equal", !r->differs);
    line_count(line, "executed", r->executed);
    line_count(line, "proven", r->proven);
    line_text(line, "kernels", r->t.s.spec.device->variant(r->t.s.runtime.device));
    line_count(line, "threads", r->t.s.spec.device_options.threads);
    events_end(&log);
    events_close(&log);
}

static bp_status replay_run(replay *r)
{
    BP_TRY(replay_bounds(r));
    BP_TRY(replay_open(r));
    BP_TRY(replay_find_starts(r));
    replay_choose(r);
    BP_TRY(replay_all(r));
    replay_print(r);
    replay_event(r);
    return BP_OK;
}

int cmd_replay(const settings *set)
{
    static replay r; /* large, and it must not move */
    r.set = set;
    if (set->replay_compare || set->words.count == 2) {
        return replay_compare(set);
    }
    bp_status status = replay_read(&r);
    if (status == BP_OK) {
        status = replay_settings_fill(&r.run, set, set->words.item[0], r.head, &r.error);
    }
    int code = 0;
    if (status == BP_OK && set->replay_documents > 0) {
        code = replay_documents(set, &r.run);
    } else {
        status = status == BP_OK ? replay_run(&r) : status;
        code = status == BP_OK         ? (r.differs ? 8 : 0)
               : r.error.code != BP_OK ? report_status(status, &r.error)
                                       : session_report(&r.t.s, status);
        checkpoint_end(&r.t.points);
        rollback_forget(&r.copy);
        distill_close(&r.t.words);
        policy_close(&r.t.policy);
        data_set_close(&r.t.data);
        if (r.looks) {
            record_walk_end(&r.ahead);
        }
        session_end(&r.t.s);
    }
    free(r.head);
    return code;
}
