/* SPDX-License-Identifier: MIT */
/* Spikes, and steps that are computed again. */
#include "tools/bedplate/runs/anomaly.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/digest.h"
#include "tools/bedplate/app/output.h"

static const char *const anomaly_words[] = {"none", "warn", "clip", "skip", "rollback"};
static const char *const anomaly_classes[] = {"equal", "transient", "persistent", "unusable"};

/* What is told of each. */
static const char *const anomaly_said[] = {
    "", "two of three runs agreed, and their result is taken: a transient fault",
    "the same again on these processors: a persistent fault", "three runs, three results"};

/* Rising order; few values, and most of the time nearly sorted ones. */
static void anomaly_sort(double *value, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const double x = value[i];
        uint32_t at = i;
        for (; at > 0 && value[at - 1] > x; at--) {
            value[at] = value[at - 1];
        }
        value[at] = x;
    }
}

static double anomaly_median(double *value, uint32_t count)
{
    anomaly_sort(value, count);
    return count % 2 == 1 ? value[count / 2] : 0.5 * (value[count / 2 - 1] + value[count / 2]);
}

double anomaly_limit(const anomaly_window *window, double threshold)
{
    double value[ANOMALY_WINDOW];
    const uint32_t count =
        window->count < ANOMALY_WINDOW ? (uint32_t)window->count : ANOMALY_WINDOW;
    if (count < ANOMALY_SILENT) {
        return (double)INFINITY;
    }
    memcpy(value, window->value, count * sizeof value[0]);
    const double median = anomaly_median(value, count);
    for (uint32_t i = 0; i < count; i++) {
        value[i] = fabs(value[i] - median);
    }
    const double mad = anomaly_median(value, count);
    const double least = 0.001 * fabs(median);
    return median + threshold * 1.4826 * (mad > least ? mad : least);
}

static void anomaly_accept(anomaly_window *window, double value)
{
    window->value[window->count++ % ANOMALY_WINDOW] = value;
}

/* What is wrong with a step; NULL: nothing. */
static const char *anomaly_kind(const anomaly *a, const bp_outcome *seen, double *norm_limit)
{
    *norm_limit = anomaly_limit(&a->norm, a->threshold);
    if (seen->nonfinite || !isfinite(seen->loss) || !isfinite(seen->norm)) {
        return "nonfinite";
    }
    if (seen->loss > anomaly_limit(&a->loss, a->threshold)) {
        return "loss";
    }
    return seen->norm > *norm_limit ? "grad_norm" : NULL;
}

static void anomaly_tell(anomaly *a, const bp_outcome *seen, const char *kind, bp_step_verdict done)
{
    static const char *const words[] = {"none", "clip", "skip", "rollback"};
    a->flagged++;
    if (a->log == NULL || a->ranks.rank > 0) {
        return;
    }
    json_line *line = events_begin(a->log, "anomaly", seen->step);
    line_text(line, "kind", kind);
    line_real(line, "loss", seen->loss);
    line_real(line, "grad_norm", seen->norm);
    line_real(line, "loss_limit", anomaly_limit(&a->loss, a->threshold));
    line_real(line, "grad_norm_limit", anomaly_limit(&a->norm, a->threshold));
    line_text(line, "action", words[done]);
    events_end(a->log);
    output_print(stderr,
                 "bedplate: step %llu: an anomaly of kind %s (loss %.6g, grad_norm %.6g): %s\n",
                 (unsigned long long)seen->step, kind, seen->loss, seen->norm,
                 done == BP_STEP_APPLY ? "told only" : words[done]);
}

/* Counts a step that was acted on against the budget. */
static void anomaly_act(anomaly *a, uint64_t step)
{
    uint64_t recent = 0;
    a->acted[a->acted_count++ % ANOMALY_ACTED] = step;
    for (uint32_t i = 0; i < ANOMALY_ACTED; i++) {
        recent += a->acted[i] != 0 && a->acted[i] + ANOMALY_SPAN > step ? 1 : 0;
    }
    a->exhausted = recent > a->budget;
}

bp_step_verdict anomaly_decide(anomaly *a, const bp_outcome *seen, double *factor)
{
    double limit;
    *factor = 1.0;
    if (a->policy == ANOMALY_NONE) {
        return BP_STEP_APPLY;
    }
    const char *kind = anomaly_kind(a, seen, &limit);
    const bool finite = kind == NULL || strcmp(kind, "nonfinite") != 0;
    const bool high = finite && kind != NULL && seen->norm > limit;
    bp_step_verdict done = BP_STEP_APPLY;
    if (kind != NULL && a->policy >= ANOMALY_CLIP) {
        done = a->policy == ANOMALY_ROLLBACK          ? BP_STEP_BACK
               : a->policy == ANOMALY_SKIP || !finite ? BP_STEP_SKIP
               : high                                 ? BP_STEP_CLIP
                                                      : BP_STEP_APPLY;
    }
    if (kind != NULL) {
        anomaly_tell(a, seen, kind, done);
    }
    if (done == BP_STEP_CLIP) {
        *factor = limit / seen->norm;
    }
    if (done != BP_STEP_APPLY) {
        anomaly_act(a, seen->step);
    }
    if (finite && done < BP_STEP_SKIP) {
        anomaly_accept(&a->loss, seen->loss);
        anomaly_accept(&a->norm, done == BP_STEP_CLIP ? limit : seen->norm);
    }
    return done;
}

static bp_step_verdict anomaly_judge(void *user, const bp_outcome *seen, double *factor)
{
    return anomaly_decide(user, seen, factor);
}

/* Those whose turn it is, and spikes, so that a fault of the machine is not taken for one of the
 * data. */
static bool anomaly_again(void *user, const bp_outcome *seen)
{
    anomaly *a = user;
    double limit;
    const bool again =
        (a->every > 0 && seen->step % a->every == 0) ||
        (a->policy != ANOMALY_NONE && !seen->skipped && anomaly_kind(a, seen, &limit) != NULL);
    if (again && a->busy != NULL) {
        a->busy(a->busy_user, true);
    }
    return again;
}

/* " 3 4 5": of many processors the first ones. */
static void anomaly_processors(const bp_recompute_found *found, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < found->processors && used + 8 < room; i++) {
        used += (size_t)snprintf(text + used, room - used, " %u", (unsigned)found->processor[i]);
    }
}

static void anomaly_found(void *user, const bp_outcome *seen, const bp_recompute_found *found)
{
    anomaly *a = user;
    char processors[5 * BP_RECOMPUTED_PROCESSORS];
    a->replays++;
    if (a->busy != NULL) {
        a->busy(a->busy_user, false);
    }
    if (found->result == BP_RECOMPUTED_EQUAL) {
        a->verified = seen->step;
        return;
    }
    a->mismatches++;
    if (found->result == BP_RECOMPUTED_TRANSIENT) {
        a->verified = seen->step; /* two runs agree; so a record does not tell of the fault */
    }
    a->doubt = found->result != BP_RECOMPUTED_TRANSIENT;
    if (a->ranks.rank > 0) {
        return;
    }
    char rank[32] = "";
    if (a->ranks.size > 1) {
        snprintf(rank, sizeof rank, " on rank %" PRIu32, a->differing);
    }
    anomaly_processors(found, processors, sizeof processors);
    output_print(
        stderr,
        "bedplate: step %llu computed again came out otherwise%s (%s, %s%s%s): %s; the last "
        "verified step is %llu\n",
        (unsigned long long)seen->step, rank, found->kernels,
        found->tensor[0] != '\0' ? found->tensor : "loss or norm",
        found->processors > 0 ? ", processors" : "", processors, anomaly_said[found->result],
        (unsigned long long)a->verified);
    if (a->log != NULL) {
        json_line *line = events_begin(a->log, "mismatch", seen->step);
        line_text(line, "class", anomaly_classes[found->result]);
        line_text(line, "kernels", found->kernels);
        line_text(line, "tensor", found->tensor);
        line_list(line, "processors");
        for (uint32_t i = 0; i < found->processors; i++) {
            line_count(line, NULL, found->processor[i]);
        }
        line_list_close(line);
        line_count(line, "verified", a->verified);
        events_end(a->log);
    }
}

static bp_status anomaly_any(void *user, bool mine, bool *holds)
{
    anomaly *a = user;
    uint32_t first;
    BP_TRY(a->ranks.first(a->ranks.set, mine, &first, NULL));
    *holds = first < a->ranks.size;
    a->differing = *holds ? first : a->differing;
    return BP_OK;
}

void anomaly_begin(anomaly *a, const settings *set, events *log)
{
    memset(a, 0, sizeof *a);
    for (uint32_t i = 0; i < sizeof anomaly_words / sizeof anomaly_words[0]; i++) {
        if (strncmp(set->on_spike, anomaly_words[i], strlen(anomaly_words[i])) == 0) {
            a->policy = (anomaly_policy)i;
        }
    }
    a->threshold = set->spike_threshold;
    a->budget = set->spike_budget;
    a->every = set->replay_every;
    a->log = log;
    a->step_check = (bp_step_check){a, anomaly_again, anomaly_found, anomaly_judge, NULL};
    anomaly_put(a);
}

/* So many bytes more of what must not change. */
static bp_status anomaly_read(anomaly *a, bp_runtime *runtime, uint64_t bytes, bool *changed)
{
    const bool host = strcmp(runtime->plan->spec.device->name, "host") == 0;
    return bp_guard_slice(&a->guard, runtime, bytes, host, changed);
}

bp_status anomaly_attach(anomaly *a, bp_runtime *runtime)
{
    const bool any = a->policy != ANOMALY_NONE || a->every > 0;
    bool changed; /* the first pass says what is right, so it cannot be */
    a->step_check.any = a->ranks.size > 1 ? anomaly_any : NULL;
    if (a->every > 0 && runtime->plan->builder.moves) {
        return bp_error_set(&runtime->error, BP_ERR_USAGE, "anomaly",
                            "backward moves this model's running statistics, so a step cannot be "
                            "computed twice; freeze its norms, or leave this out",
                            "--replay-every");
    }
    BP_TRY(anomaly_read(a, runtime, UINT64_MAX, &changed));
    return any ? bp_runtime_step_check(runtime, &a->step_check) : BP_OK;
}

bp_status anomaly_guard(anomaly *a, bp_runtime *runtime)
{
    bool changed;
    uint64_t slice = a->guard.bytes / ANOMALY_PASS;
    slice = slice > ANOMALY_LEAST ? slice : ANOMALY_LEAST;
    BP_TRY(anomaly_read(a, runtime, slice < ANOMALY_SLICE ? slice : ANOMALY_SLICE, &changed));
    if (!changed) {
        return BP_OK;
    }
    a->doubt = true;
    if (a->log != NULL) {
        line_count(events_begin(a->log, "memory", runtime->steps), "verified", a->verified);
        events_end(a->log);
    }
    return bp_error_set(&runtime->error, BP_ERR_DEVICE, "guard",
                        "constants or linked programs have changed in memory",
                        runtime->plan->spec.device->name);
}

/* All words of the state, in a fixed order, to or from `word`. */
static void anomaly_copy(anomaly *a, uint64_t word[ANOMALY_WORDS], bool out)
{
    struct {
        void *at;
        size_t count;
    } const parts[] = {{a->loss.value, ANOMALY_WINDOW},
                       {a->norm.value, ANOMALY_WINDOW},
                       {&a->loss.count, 1},
                       {&a->norm.count, 1},
                       {&a->acted_count, 1},
                       {a->acted, ANOMALY_ACTED}};
    for (size_t i = 0, at = 0; i < sizeof parts / sizeof parts[0]; at += parts[i++].count) {
        if (out) {
            memcpy(word + at, parts[i].at, parts[i].count * sizeof *word);
        } else {
            memcpy(parts[i].at, word + at, parts[i].count * sizeof *word);
        }
    }
}

void anomaly_put(anomaly *a)
{
    uint64_t word[ANOMALY_WORDS];
    anomaly_copy(a, word, true);
    for (size_t i = 0; i < ANOMALY_WORDS; i++) {
        bp_digest_text(word[i], a->text + i * BP_DIGEST_TEXT);
        a->text[(i + 1) * BP_DIGEST_TEXT - 1] = i + 1 < ANOMALY_WORDS ? ' ' : '\0';
    }
}

bool anomaly_parse(anomaly *a, const char *text)
{
    uint64_t word[ANOMALY_WORDS];
    if (text == NULL || strlen(text) != ANOMALY_TEXT - 1) {
        return false;
    }
    for (size_t i = 0; i < ANOMALY_WORDS; i++) {
        char digits[BP_DIGEST_TEXT];
        memcpy(digits, text + i * BP_DIGEST_TEXT, BP_DIGEST_TEXT - 1);
        digits[BP_DIGEST_TEXT - 1] = '\0';
        if (!bp_digest_parse(digits, &word[i])) {
            return false;
        }
    }
    anomaly_copy(a, word, false);
    return true;
}
