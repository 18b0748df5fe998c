/* SPDX-License-Identifier: MIT */
/* bedplate train: steps inside the arena, with a log, evaluations, checkpoints and an orderly end.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/runs/product_check.h"
#include "tools/bedplate/runs/checkpoint.h"
#include "tools/bedplate/runs/checkpoint_keys.h"
#include "tools/bedplate/session/class_weights.h"
#include "tools/bedplate/sources/data_set.h"
#include "tools/bedplate/planning/buckets_text.h"
#include "tools/bedplate/planning/release_cost.h"
#include "tools/bedplate/runs/integrity.h"
#include "tools/bedplate/runs/metric.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/sources/packing.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/predict/predictions_data.h"
#include "tools/bedplate/predict/transcribe.h"
#include "tools/bedplate/session/preference_choice.h"
#include "tools/bedplate/app/process_memory.h"
#include "tools/bedplate/runs/progress.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/ranks/ranks_memory.h"
#include "tools/bedplate/session/rate_choice.h"
#include "tools/bedplate/runs/rollback.h"
#include "tools/bedplate/runs/service.h"
#include "tools/bedplate/session/session.h"
#include "tools/bedplate/app/signals.h"
#include "tools/bedplate/policy/policy_record.h"
#include "tools/bedplate/runs/train_ranks.h"
#include "tools/bedplate/record/train_record.h"
#include "tools/bedplate/runs/train_report.h"
#include "tools/bedplate/runs/training.h"
#include "tools/bedplate/app/commands.h"
#include "tools/bedplate/app/environment.h"
#include "tools/bedplate/verbs/train_run.h"

static bp_status group_by_length(training *t)
{
    session *s = &t->s;
    if (!s->set->group_by_length) {
        return BP_OK;
    }
    BP_TRY(data_grouped_check(s, t->feed.source->examples == 0));
    BP_TRY(memory_take(&t->lengths, session_length_bytes(s), false, "host memory", &s->error));
    t->megabatch = (bp_megabatch){.rows = t->lengths.address};
    t->feed.megabatch = &t->megabatch;
    t->feed.order = bp_feed_by_length;
    return BP_OK;
}

/* Completions are the data, and have no order. */
static bp_status init_policy_feed(training *t)
{
    t->feed = data_set_feed(&t->data, &t->s, &t->policy.source);
    t->feed.group = t->policy.count;
    t->feed.teacher = &t->policy.teacher;
    return bp_feed_init(&t->feed, &t->s.error);
}

static bp_status init_feeds(training *t)
{
    session *s = &t->s;
    const bp_spec *spec = &s->spec;
    t->feed = data_set_feed(&t->data, s, t->data.train);
    t->feed.group = spec->batch * spec->accumulation;
    /* Mismatched rows are those of a batch in the order of the data. */
    t->feed.shuffle = spec->preference.kind != BP_PREFERENCE_KTO;
    if (s->set->data_seed >= 0) {
        t->feed.seed = (uint64_t)s->set->data_seed;
    }
    bool augments = false;
    BP_TRY(image_augment_choose(s, &t->augment, &augments));
    t->feed.augment = augments ? &t->augment.feed : NULL;
    BP_TRY(bp_feed_init(&t->feed, &s->error));
    BP_TRY(group_by_length(t));
    BP_TRY(data_set_mix(&t->data, s, &t->feed));
    if (t->data.eval == NULL) {
        return BP_OK;
    }
    t->eval_feed = data_set_feed(&t->data, s, t->data.eval);
    t->eval_feed.batch = bp_spec_eval_batch(spec);
    t->eval_feed.group = t->eval_feed.batch;
    return bp_feed_init(&t->eval_feed, &s->error);
}

/* With gradient release all micro-batches of a group go through one program. */
static bp_status choose_lengths(training *t)
{
    const bp_spec *spec = &t->s.spec;
    const bool whole = bp_spec_whole_group(spec);
    return lengths_fill(&t->s, &t->feed, whole ? t->feed.group : spec->batch);
}

/* Steps of an option, of which below 1 is a share of all steps, rounded up as transformers does. */
static uint64_t steps_of(const training *t, double steps)
{
    const double share = ceil(steps * (double)t->total);
    return steps <= 0.0 ? 0 : steps >= 1.0 ? (uint64_t)steps : share >= 1.0 ? (uint64_t)share : 1;
}

uint64_t training_epoch_steps(const training *t)
{
    return t->policy.s != NULL ? t->policy.epoch_steps : t->feed.steps_per_epoch;
}

/* A number of steps, or the word of a strategy; 0: never. */
static uint64_t steps_between(const training *t, const char *strategy, double steps)
{
    return strcmp(strategy, "steps") == 0   ? steps_of(t, steps)
           : strcmp(strategy, "epoch") == 0 ? training_epoch_steps(t)
                                            : 0;
}

/* The run's length, the schedule that follows from it, and when it is evaluated and saved. */
static bp_status fill_schedule(training *t)
{
    const settings *set = t->s.set;
    double epochs = ceil(set->epochs * (double)training_epoch_steps(t));
    t->total = set->max_steps >= 0 ? (uint64_t)set->max_steps : (uint64_t)epochs;
    t->eval_every = steps_between(t, set->eval_strategy, set->eval_steps);
    t->save_every = steps_between(t, set->save_strategy, set->save_steps);
    t->log_every = steps_of(t, set->logging_steps);
    /* The first evaluation is the best so far; patience counts those after it, before the end. */
    const uint64_t judged = t->eval_every > 0 && t->total > 0 ? (t->total - 1) / t->eval_every : 0;
    if (set->patience > 0 && judged <= set->patience) {
        output_print(
            stderr,
            "bedplate: --early-stopping-patience: the run cannot end early: it has %" PRIu64
            " evaluations before its last step, every %" PRIu64 " of %" PRIu64
            " steps, and would need %" PRIu64 "; --eval-steps makes them more frequent\n",
            judged, t->eval_every, t->total, set->patience + 1);
    }
    return rate_fill(set, t->total, &t->s.spec);
}

/* A memory option that is to save bytes and does not is worth a word, and so are evaluations that
 * take more. Other plans are made for that, while the arenas are not there yet. */
static bp_status tell_costs(session *s)
{
    const uint64_t bytes = s->plan.report.arena_bytes;
    uint64_t more;
    release_cost cost;
    char words[256];
    bp_text text;
    BP_TRY(release_cost_find(&s->spec, bytes, &cost, &s->error));
    BP_TRY(eval_cost_find(&s->plan.spec, bytes, s->set->quiet, &more, &s->error));
    if (!cost.enlarges || s->set->quiet) {
        return BP_OK;
    }
    bp_text_init(&text, NULL, NULL, words, sizeof words);
    release_cost_put(&text, &cost);
    bp_text_char(&text, '\0');
    BP_TRY(bp_text_flush(&text));
    output_print(stderr, "bedplate: --gradient-release enlarges this arena: %s\n", words);
    return BP_OK;
}

bp_status training_read(training *t, const settings *set)
{
    session *s = &t->s;
    t->evaluated = UINT64_MAX;
    BP_TRY(session_begin(s, set));
    return bp_spec_check(&s->spec, &s->error);
}

/* The same of a run whose data are prompts: the files are watched and recorded as others are. */
static bp_status feed_policy(training *t)
{
    session *s = &t->s;
    rollout_prompts *prompts = &t->policy.prompts;
    BP_TRY(policy_open(&t->policy, s));
    t->data.main = prompts->files;
    t->data.train = &t->policy.source;
    prompts->files.data.file_count = 0;
    prompts->files.expanded = false;
    BP_TRY(metric_choose(s->set, &s->spec, &t->metric));
    BP_TRY(session_choose(s));
    BP_TRY(init_policy_feed(t));
    BP_TRY(policy_start(&t->policy, t->identity, sizeof t->identity));
    BP_TRY(fill_schedule(t));
    const uint32_t each = t->policy.iterations; /* a checkpoint lies where completions are new */
    t->save_every = bp_size_mul(bp_size_ceil_div(t->save_every, each), each);
    return BP_OK;
}

bp_status training_find(training *t)
{
    session *s = &t->s;
    BP_TRY(policy_check_others(s));
    BP_TRY(packing_check(s));
    BP_TRY(data_set_open(&t->data, s));
    BP_TRY(packing_open(&t->packed, s, &t->data));
    BP_TRY(reference_open(&t->reference, s, &t->data));
    BP_TRY(metric_check(s->set, &s->spec, t->data.eval != NULL, &t->metric, &s->error));
    BP_TRY(class_weights_fill(s, t->data.train));
    s->spec.evaluate = t->data.eval != NULL || preference_refers(&s->spec);
    return transcribe_plan_training(s);
}

bp_status training_schedule(training *t)
{
    session *s = &t->s;
    BP_TRY(init_feeds(t));
    BP_TRY(choose_lengths(t));
    BP_TRY(data_set_identity(s, t->data.train, t->identity, sizeof t->identity));
    BP_TRY(distill_open(&t->words, s, &t->feed, t->identity));
    return fill_schedule(t);
}

bp_status training_feed(training *t)
{
    if (policy_asked(t->s.set)) {
        return feed_policy(t);
    }
    BP_TRY(training_find(t));
    BP_TRY(session_choose(&t->s));
    return training_schedule(t);
}

bp_status training_open(training *t)
{
    session *s = &t->s;
    BP_TRY(reference_find(&t->reference, s, t->identity));
    BP_TRY(session_start(s));
    BP_TRY(reference_fill(&t->reference, s, &t->data, t->identity));
    const checkpoint_facts facts = {t->total, t->identity};
    return checkpoint_begin(&t->points, s, &facts);
}

bp_status train_read(training *t, const settings *set)
{
    session *s = &t->s;
    BP_TRY(training_read(t, set));
    BP_TRY(checkpoint_check_directory(s));
    BP_TRY(checkpoint_recall(&t->points, s));
    s->state_follows = t->points.found;
    return BP_OK;
}

bp_status train_open(training *t)
{
    session *s = &t->s;
    const settings *set = s->set;
    BP_TRY(data_watch_begin(&t->watch, &t->data, &s->error));
    t->watch.adapter = t->adapter;
    t->care.data = &t->watch;
    BP_TRY(train_ranks_compare(t));
    s->planned = tell_costs;
    BP_TRY(training_open(t));
    BP_TRY(checkpoint_start(&t->points));
    BP_TRY(anomaly_attach(&t->points.watch, &s->runtime));
    t->points.watch.busy = service_replays;
    t->points.watch.busy_user = &t->care;
    if (s->store->make_directory(s->store, set->output_dir) != BP_OK) {
        return bp_storage_failed(&s->error, s->store, "make directory", set->output_dir);
    }
    t->points.checkpoint.step = t->total;
    saving_begin(&t->care.saves, &t->points);
    BP_TRY(saving_check(&t->care.saves));
    const train_record_facts run = {&t->data, &t->feed, t->identity, t->total,
                                    training_epoch_steps(t)};
    BP_TRY(train_record_begin(&t->points, &run));
    BP_TRY(checkpoint_copy_tokenizer(&t->points));
    BP_TRY(session_save_rates(s));
    BP_TRY(service_open(&t->care, s));
    return rollback_begin(&t->care.saves);
}

/* Everything up to the first step: nothing but a token file is written before all of it has
 * succeeded. */
static bp_status prepare(training *t, const settings *set)
{
    session *s = &t->s;
    BP_TRY(train_read(t, set));
    BP_TRY(ranks_memory_alike(set, training_feed(t), &s->error, &s->error));
    return train_open(t);
}

static double epoch_of(const training *t, uint64_t step)
{
    return (double)step / (double)training_epoch_steps(t);
}

/* Speech of an evaluation, whose words are counted. */
static bp_status training_write_down(training *t)
{
    session *s = &t->s;
    transcribed heard;
    if (s->spec.generate_context == 0 || !model_hears(&s->spec.config)) {
        return BP_OK;
    }
    BP_TRY(transcribe_rows(s, &t->data, t->eval_feed.source, NULL, &heard));
    t->made.words = heard.words;
    t->made.word_errors = heard.errors;
    return BP_OK;
}

bp_status training_judge(training *t, train_record_evaluation *found)
{
    session *s = &t->s;
    const bp_evaluated watch = predictions_watch(&s->spec);
    BP_TRY(predictions_begin(&t->made, &s->names, NULL, &s->error));
    BP_TRY(predictions_data_begin(&t->made, s, t->eval_feed.source));
    ranks_leave_turn(s->set); /* ranks share the micro-batches out, and wait for each other */
    const bp_status status = bp_runtime_evaluate_each(&s->runtime, &t->eval_feed, 0, watch,
                                                      &t->made, &found->loss, &found->targets);
    ranks_take_turn(s->set);
    BP_TRY(status);
    BP_TRY(data_evaluated(s, t->eval_feed.source, found->targets, found->loss));
    BP_TRY(training_write_down(t));
    preference_metrics_begin(&t->made.told, &s->spec);
    memcpy(t->made.told.of, s->runtime.metrics, sizeof t->made.told.of);
    BP_TRY(predictions_data_end(&t->made, s, &t->data));
    found->metric = t->metric.name;
    const bp_task task = predictions_task(&s->spec);
    found->value = metric_value(&t->metric, found->loss, &t->made, task);
    metric_list_of(&t->found, task, found->loss, &t->made);
    return BP_OK;
}

static bp_status cmd_train_evaluate(training *t)
{
    session *s = &t->s;
    train_record_evaluation found;
    if (t->data.eval == NULL || t->evaluated == s->runtime.steps) {
        return BP_OK;
    }
    uint64_t sum;
    service_state(&t->care, RUN_EVALUATING);
    BP_TRY(integrity_hold(&t->points, &sum));
    BP_TRY(training_judge(t, &found));
    BP_TRY(integrity_held(&t->points, sum, "evaluation"));
    t->evaluated = s->runtime.steps;
    train_record_eval(&t->points, &found);
    bool best = best_judge(&t->points.best, &t->metric.rule, t->evaluated, found.value);
    if (!ranks_leads(s->set)) {
        /* rank 0 says it */
    } else if (s->set->json) {
        const train_evaluation all = {
            t->adapter, s->runtime.steps,   epoch_of(t, s->runtime.steps), found.targets, &t->found,
            &t->made,   s->spec.config.task};
        train_report_eval(&all);
    } else {
        progress_evaluation(&t->bar, &t->found);
    }
    service_evaluated(&t->care, t->evaluated, &t->found);
    service_state(&t->care, RUN_TRAINING);
    /* The best model so far is on the medium before training goes on. */
    const bool kept =
        s->set->load_best || s->set->keep_best || strcmp(s->set->save_strategy, "best") == 0;
    return best && kept ? service_save(&t->care, CHECKPOINT_DUE, false) : BP_OK;
}

/* Numbers and samples of completions are events, from which watch and report have them. */
static void note_completions(training *t, uint64_t step)
{
    if (ranks_leads(t->s.set)) {
        json_line *line = events_begin(&t->points.log, "rollout", step);
        policy_event_put(line, &t->policy, &t->sum.found);
        events_end(&t->points.log);
    }
}

static void log_step(training *t, const bp_outcome *outcome, progress_numbers *numbers)
{
    const settings *set = t->s.set;
    uint64_t step = outcome->step;
    const progress_numbers now = train_totals_now(&t->sum, outcome);
    *numbers = now;
    progress_step(&t->bar, &now);
    bool last = step == t->total || step == set->stop_at_step;
    bool first = step == 1 && set->logging_first;
    if (step % t->log_every != 0 && !last && !first) {
        return;
    }
    metric_list_of_steps(&t->sum.found, &t->sum.told);
    if (t->policy.s != NULL) {
        policy_metrics(&t->policy, &t->sum.found);
        note_completions(t, step);
    }
    if (set->json) {
        train_report_step(&now, &t->sum, epoch_of(t, step), t->s.plan.report.arena_bytes);
    }
    service_logged(&t->care, &now, &t->sum, epoch_of(t, step));
    progress_line(&t->bar, &now);
    progress_metrics(&t->bar, &t->sum.found);
    train_totals_cut(&t->sum);
}

/* A group of which nothing is learned, as where all its targets were cut off or none was masked. */
static void say_empty(const training *t, const bp_outcome *outcome)
{
    if (!(outcome->weight > 0.0) && ranks_leads(t->s.set)) {
        output_print(stderr,
                     "bedplate: step %" PRIu64 ": its group has no targets: nothing is learned\n",
                     outcome->step);
    }
}

static bool due(uint64_t step, uint64_t every)
{
    return every != 0 && step % every == 0;
}

static bp_status after_step(training *t, uint64_t step)
{
    if (due(step, t->eval_every)) {
        BP_TRY(cmd_train_evaluate(t));
    }
    if (due(step, t->save_every) && policy_between(&t->policy, step)) {
        t->owed = true; /* which look_around saves where the run can go on from it */
        return BP_OK;
    }
    return due(step, t->save_every) ? service_save(&t->care, CHECKPOINT_DUE, false) : BP_OK;
}

static bool out_of_patience(const training *t)
{
    uint64_t most = t->s.set->patience;
    return most > 0 && t->points.best.patience >= most;
}

/* After a step: what signals and limits ask. */
static bp_status look_around(training *t, const progress_numbers *now, double seconds)
{
    bool save = false;
    const double began = clock_seconds();
    t->care.judges_next = due(t->s.runtime.steps + 1, t->eval_every);
    t->stop = service_step(&t->care, now, seconds, &save);
    t->sum.output_seconds += clock_seconds() - began;
    train_ranks_word mine = {(uint64_t)signals_caught(), (uint64_t)t->stop, save,
                             t->s.runtime.steps, now->loss};
    BP_TRY(train_ranks_agree(t, &mine));
    t->signal = (int)mine.signal;
    t->stop = (service_stop)mine.stop;
    t->owed = t->owed || mine.save != 0;
    if (!t->owed || policy_between(&t->policy, t->s.runtime.steps)) {
        return BP_OK;
    }
    t->owed = false;
    return service_save(&t->care, CHECKPOINT_BETWEEN, false);
}

/* A step and what was due after it. */
static bp_status take_step(training *t, progress_numbers *now, double *seconds, bool *nonfinite)
{
    bp_runtime *runtime = &t->s.runtime;
    bp_outcome outcome;
    const double began = clock_seconds();
    const uint64_t brought = t->s.offload.file.read_bytes;
    BP_TRY(train_ranks_step(t, &outcome));
    *seconds = clock_seconds() - began;
    t->sum.brought += t->s.offload.file.read_bytes - brought;
    t->sum.steps++;
    say_empty(t, &outcome);
    train_totals_add(&t->sum, &outcome, *seconds);
    device_memory_step(&t->memory, runtime);
    train_record_step(&t->points, &t->feed, &outcome);
    BP_TRY(rollback_take(&t->points, &outcome));
    if (!policy_between(&t->policy, outcome.step - 1)) {
        train_record_rollout(&t->points, outcome.step, &t->policy);
    }
    product_check_tell(&t->s.told, &t->s.checked, &t->points.log, outcome.step);
    BP_TRY(anomaly_guard(&t->points.watch, runtime));
    BP_TRY(ranks_leads(t->s.set) ? integrity_step(&t->points, &t->tested) : BP_OK);
    service_count(&t->care, outcome.tokens, outcome.samples);
    log_step(t, &outcome, now);
    t->sum.output_seconds += clock_seconds() - began - *seconds;
    *nonfinite = outcome.nonfinite;
    return outcome.nonfinite ? BP_OK : after_step(t, runtime->steps);
}

/* Whether the run is asked to end, where it may. */
static bool asked_to_end(const training *t)
{
    return t->stop != SERVICE_GO_ON && !policy_between(&t->policy, t->s.runtime.steps);
}

bp_status train_turn(training *t, train_ending *end)
{
    const uint64_t stop = t->s.set->stop_at_step;
    const bool stops = stop != 0 && stop < t->total;
    progress_numbers now;
    double seconds;
    bool nonfinite;
    *end = stops ? TRAIN_STOP_STEP : TRAIN_COMPLETE;
    if (t->s.runtime.steps >= (stops ? stop : t->total)) {
        return BP_OK;
    }
    if (out_of_patience(t)) {
        *end = TRAIN_EARLY;
        return BP_OK;
    }
    *end = TRAIN_ASKED;
    t->stop = service_before_step(&t->care);
    if (asked_to_end(t)) {
        return BP_OK;
    }
    BP_TRY(take_step(t, &now, &seconds, &nonfinite));
    *end = nonfinite ? TRAIN_NONFINITE : TRAIN_ANOMALY;
    if (nonfinite || t->points.watch.exhausted) {
        return BP_OK;
    }
    BP_TRY(look_around(t, &now, seconds));
    *end = asked_to_end(t) ? TRAIN_ASKED : TRAIN_GOES_ON;
    return BP_OK;
}

static void cmd_train_report(training *t, train_ending end)
{
    session *s = &t->s;
    const bp_device *device = s->spec.device;
    device_memory_read(&t->memory, &s->runtime);
    const train_summary summary = {
        .steps = s->runtime.steps,
        .skipped = s->runtime.skipped,
        .digest = t->points.digest,
        .arena_bytes = s->plan.report.arena_bytes,
        .host_bytes = session_host_bytes(s),
        .peak_resident = process_peak(),
        .device_bytes = device->bytes_in_use(s->runtime.device),
        .memory = t->memory,
        .evaluated = t->evaluated != UINT64_MAX,
        .found = &t->found,
        .made = &t->made,
        .task = s->spec.config.task,
        .best_step = s->set->load_best || s->set->patience > 0 ? t->points.best.step : 0,
        .best_value = t->points.best.value,
        .metric = t->metric.name,
        .continued = t->points.found ? NULL : s->set->continue_from,
        .continued_step = t->points.began,
        .session = s,
        .runtime = &s->runtime,
        .early = end == TRAIN_EARLY,
        .ended = end == TRAIN_ASKED       ? service_stop_name(t->stop)
                 : end == TRAIN_STOP_STEP ? "stop-at-step"
                 : end == TRAIN_EARLY     ? "early-stopping"
                 : end == TRAIN_NONFINITE ? "nonfinite"
                 : end == TRAIN_ANOMALY   ? "spike-budget"
                                          : "complete",
        .save_failures = t->care.saves.failures,
        .output_dir = s->set->output_dir,
    };
    train_report_end(&t->sum, &summary, s->set->json);
}

bp_status train_finish(training *t, train_ending end, int *code)
{
    const bool finished = end == TRAIN_COMPLETE || end == TRAIN_EARLY;
    const char *name = t->adapter != NULL ? t->adapter : "";
    const char *colon = t->adapter != NULL ? ": " : "";
    if (finished) {
        BP_TRY(cmd_train_evaluate(t));
    }
    progress_end(&t->bar);
    BP_TRY(service_save(&t->care, finished ? CHECKPOINT_DUE : CHECKPOINT_BETWEEN, true));
    if (finished && t->s.set->load_best) {
        BP_TRY(checkpoint_load_best(&t->points));
    }
    if (finished) {
        BP_TRY(saving_here(&t->care.saves));
        BP_TRY(checkpoint_export(&t->points));
        BP_TRY(train_record_end(&t->points));
    }
    if (!ranks_leads(t->s.set)) {
        const bool signal = end == TRAIN_ASKED && t->stop == SERVICE_SIGNAL;
        *code = signal                   ? 128 + t->signal
                : end == TRAIN_ANOMALY   ? EXIT_ANOMALY
                : end == TRAIN_NONFINITE ? bp_status_exit_code(BP_ERR_NONFINITE)
                                         : 0;
        return BP_OK;
    }
    cmd_train_report(t, end);
    if (end == TRAIN_ASKED) {
        const bool signal = t->stop == SERVICE_SIGNAL;
        *code = signal ? 128 + t->signal : 0;
        output_print(stderr, "bedplate: %s%sstopped by %s; step %" PRIu64 " is saved\n", name,
                     colon, signal ? "a signal" : service_stop_name(t->stop), t->s.runtime.steps);
    } else if (end == TRAIN_ANOMALY) {
        *code = EXIT_ANOMALY;
        output_print(stderr,
                     "bedplate: %s%s--spike-budget: more than %" PRIu64
                     " of the last 100 steps were anomalies; step %" PRIu64 " is saved\n",
                     name, colon, t->points.watch.budget, t->s.runtime.steps);
    } else if (end == TRAIN_NONFINITE) {
        *code = bp_status_exit_code(BP_ERR_NONFINITE);
        output_print(stderr,
                     "bedplate: %s%sthe loss or the gradient norm of step %" PRIu64
                     " is not finite; the weights are those before it, and the state is saved\n",
                     name, colon, t->s.runtime.steps);
    }
    return BP_OK;
}

bp_status train_give_up(training *t, bp_status status)
{
    progress_end(&t->bar);
    const bool between = !offload_failed(&t->s.error) && !offload_failed(&t->s.runtime.error);
    bool whole = (status == BP_ERR_DATA || status == BP_ERR_STORE) && between && !t->points.failed;
    const bp_error first = t->s.error;
    if (whole && t->points.saved != t->s.runtime.steps &&
        service_save(&t->care, CHECKPOINT_BETWEEN, true) == BP_OK && ranks_leads(t->s.set)) {
        output_print(stderr, "bedplate: %s%sstep %" PRIu64 " is saved\n",
                     t->adapter != NULL ? t->adapter : "", t->adapter != NULL ? ": " : "",
                     t->s.runtime.steps);
    }
    t->s.error = first;
    return status;
}

void train_begin(training *t)
{
    session *s = &t->s;
    const settings *set = s->set;
    const bool leads = ranks_leads(set);
    integrity_note(&t->points, &t->tested);
    service_ready(&t->care, t->total);
    if (s->choice.made && leads) {
        train_report_choice(t->adapter, &s->choice, set->json);
    }
    if (s->sharing.made && leads) {
        train_report_sharing(&s->sharing, set->json);
    }
    if (!set->json && leads) {
        train_report_begin(t->adapter, &s->runtime, session_host_bytes(s), t->total,
                           training_epoch_steps(t));
    }
    progress_begin(&t->bar, s->runtime.steps, t->total, set->quiet);
    t->bar.name = t->adapter;
    train_totals_begin(&t->sum, set->began, &s->spec);
    t->sum.adapter = t->adapter;
}

static bp_status train(training *t, const settings *set, int *code)
{
    train_ending end = TRAIN_GOES_ON;
    bp_status status = BP_OK;
    BP_TRY(integrity_start(set, &t->tested, code));
    if (*code != 0) {
        return BP_OK;
    }
    BP_TRY(prepare(t, set));
    train_begin(t);
    while (status == BP_OK && end == TRAIN_GOES_ON) {
        status = train_turn(t, &end);
    }
    return status == BP_OK ? train_finish(t, end, code) : train_give_up(t, status);
}

int train_close(training *t, bp_status status, int code)
{
    if (status != BP_OK) {
        code = session_report(&t->s, status);
        product_check_tell(&t->s.told, &t->s.checked, &t->points.log, t->s.runtime.steps + 1);
        code = t->points.watch.doubt || t->s.checked.damaged ? EXIT_MISMATCH : code;
    }
    service_end(&t->care, code);
    train_record_close(&t->points, code);
    checkpoint_end(&t->points);
    data_watch_end(&t->watch);
    data_set_close(&t->data);
    bp_tokens_close(&t->packed);
    reference_close(&t->reference);
    distill_close(&t->words);
    policy_close(&t->policy);
    session_end(&t->s);
    return code;
}

static int train_with(training *t, const settings *set)
{
    int code = 0;
    service_begin(&t->care, set);
    const bp_status status = train(t, set, &code);
    return train_close(t, status, code);
}

/* The first rank of a process has a place of its own; others are threads beside it. */
static int train_rank(const settings *set)
{
    static training first; /* large, and it must not move */
    const bool beside = set->ranks != NULL && set->ranks->turn != NULL && set->ranks->rank > 0;
    if (!beside) {
        return train_with(&first, set);
    }
    training *t = calloc(1, sizeof *t);
    if (t == NULL) {
        output_print(stderr, "bedplate: --fabric: no memory for another rank\n");
        return bp_status_exit_code(BP_ERR_FIT);
    }
    const int code = train_with(t, set);
    free(t);
    return code;
}

int cmd_train(const settings *set)
{
    bp_error error = {.code = BP_OK};
    bp_status status = environment_check(&error);
    status = status == BP_OK ? checkpoint_keys_check(set, &error) : status;
    return status == BP_OK ? ranks_run(set, train_rank) : report_status(status, &error);
}
