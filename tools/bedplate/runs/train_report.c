/* SPDX-License-Identifier: MIT */
/* What a training run says. */
#include "tools/bedplate/runs/train_report.h"
#include "tools/bedplate/app/clock.h"

#include <math.h>
#include <string.h>

#include "core/base/digest.h"
#include "core/plan/parts.h"
#include "tools/bedplate/planning/buckets_text.h"
#include "tools/bedplate/planning/shard_choice_text.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/sources/data_task.h"

void train_totals_begin(train_totals *sum, double began, const bp_spec *spec)
{
    *sum = (train_totals){.began = began,
                          .load_seconds = clock_seconds() - began,
                          .rows = spec->config.vocabulary == 0};
    preference_metrics_begin(&sum->told, spec);
}

void train_totals_add(train_totals *sum, const bp_outcome *outcome, double seconds)
{
    sum->step_seconds += seconds;
    sum->tokens += outcome->tokens;
    sum->places += outcome->places;
    sum->samples += outcome->samples;
    sum->line_seconds += seconds;
    sum->line_tokens += outcome->tokens;
    sum->line_samples += outcome->samples;
    sum->overflow += outcome->skipped ? 1 : 0;
    if (isfinite(outcome->loss)) {
        sum->line_loss += outcome->loss * outcome->weight;
        sum->line_weight += outcome->weight;
        preference_metrics_add(&sum->told, outcome->metrics);
    }
}

static double ratio(double a, double b)
{
    return b > 0.0 ? a / b : 0.0;
}

progress_numbers train_totals_now(const train_totals *sum, const bp_outcome *outcome)
{
    return (progress_numbers){
        .step = outcome->step,
        .loss = outcome->loss,
        .norm = outcome->norm,
        .rate = outcome->rate,
        .scale = outcome->scale,
        .overflow = sum->overflow,
        .tokens_per_second = ratio((double)sum->line_tokens, sum->line_seconds),
        .samples_per_second = ratio((double)sum->line_samples, sum->line_seconds),
        .rows = sum->rows};
}

double train_totals_mean(const train_totals *sum)
{
    return ratio(sum->line_loss, sum->line_weight);
}

void train_totals_cut(train_totals *sum)
{
    sum->line_seconds = 0.0;
    sum->line_tokens = 0;
    sum->line_samples = 0;
    sum->line_loss = 0.0;
    sum->line_weight = 0.0;
    preference_metrics_cut(&sum->told);
}

/* Among several runs each line says whose it is. */
static void train_report_name(output *out, const char *adapter)
{
    if (adapter != NULL) {
        json_text(out, "adapter", adapter);
    }
}

static void train_report_put_name(bp_text *text, const char *adapter)
{
    if (adapter != NULL) {
        bp_text_string(text, adapter);
        bp_text_string(text, ": ");
    }
}

void train_report_begin(const char *adapter, const bp_runtime *runtime, uint64_t host_bytes,
                        uint64_t total, uint64_t steps_per_epoch)
{
    output out;
    const bp_spec *spec = &runtime->plan->spec;
    output_begin(&out, stdout);
    train_report_put_name(&out.text, adapter);
    bp_text_grouped(&out.text, runtime->plan->report.parameters);
    bp_text_string(&out.text, " parameters, arena ");
    bp_text_grouped(&out.text, runtime->plan->report.arena_bytes);
    bp_text_string(&out.text, " bytes (lower bound ");
    bp_text_grouped(&out.text, runtime->plan->report.lower_bound_bytes);
    bp_text_string(&out.text, "), host ");
    bp_text_grouped(&out.text, host_bytes);
    if (runtime->steps >= total) {
        bp_text_string(&out.text, " bytes\nnothing is left to train: the run has had its steps, ");
    } else {
        bp_text_string(&out.text, " bytes\nsteps ");
        bp_text_u64(&out.text, runtime->steps + 1);
        bp_text_string(&out.text, " to ");
    }
    bp_text_u64(&out.text, total);
    bp_text_string(&out.text, ", ");
    bp_text_u64(&out.text, steps_per_epoch);
    bp_text_string(&out.text, " an epoch, ");
    const bool rows = spec->config.vocabulary == 0;
    bp_text_u64(&out.text,
                (uint64_t)spec->batch * spec->accumulation * (rows ? 1 : spec->sequence));
    bp_text_string(&out.text, rows ? " samples a step, " : " tokens a step, ");
    bp_text_string(&out.text, spec->device->variant(runtime->device));
    bp_text_string(&out.text, ", ");
    bp_text_u64(&out.text, spec->device_options.threads);
    bp_text_string(&out.text, " threads\n");
    if (bp_spec_token_lanes(spec) > 1) {
        bp_text_u64(&out.text, bp_spec_token_lanes(spec));
        bp_text_string(&out.text, " parts of a sample's tokens on ");
        bp_text_u64(&out.text, bp_spec_sequence_ranks(spec));
        bp_text_string(&out.text, bp_spec_sequence_ranks(spec) > 1 ? " ranks\n" : " rank\n");
    }
    if (spec->virtual_ranks > 1) {
        bp_text_u64(&out.text, spec->virtual_ranks);
        bp_text_string(&out.text, " virtual ranks on ");
        bp_text_u64(&out.text, bp_spec_ranks(spec));
        bp_text_string(&out.text,
                       bp_spec_ranks(spec) > 1 ? " ranks, whose arenas are alike\n" : " rank\n");
    }
    output_end(&out);
}

void train_report_choice(const char *adapter, const bp_choice *chosen, bool json)
{
    output out;
    output_begin(&out, stdout);
    if (json) {
        json_begin(&out);
        train_report_name(&out, adapter);
        choice_json(&out, chosen, false);
        json_end(&out);
    } else {
        train_report_put_name(&out.text, adapter);
        choice_put_line(&out.text, chosen);
    }
    output_end(&out);
}

void train_report_sharing(const bp_share_choice *chosen, bool json)
{
    output out;
    output_begin(&out, stdout);
    if (json) {
        json_begin(&out);
        shard_choice_json(&out, chosen);
        json_end(&out);
    } else {
        shard_choice_put(&out.text, chosen);
    }
    output_end(&out);
}

void train_report_step(const progress_numbers *now, const train_totals *sum, double epoch,
                       uint64_t arena_bytes)
{
    output out;
    output_begin(&out, stdout);
    json_begin(&out);
    train_report_name(&out, sum->adapter);
    json_count(&out, "step", now->step);
    json_real(&out, "epoch", epoch, 6);
    json_real(&out, "loss", now->loss, 12);
    json_real(&out, "mean_loss", train_totals_mean(sum), 12);
    json_real(&out, "grad_norm", now->norm, 9);
    json_real(&out, "learning_rate", now->rate, 9);
    if (now->rows) {
        json_real(&out, "samples_per_second", now->samples_per_second, 6);
    } else {
        json_real(&out, "tokens_per_second", now->tokens_per_second, 6);
    }
    if (now->scale != 1.0) {
        json_real(&out, "loss_scale", now->scale, 9);
        json_count(&out, "overflow_steps", now->overflow);
    }
    metric_list_json(&sum->found, "", &out);
    json_count(&out, "arena_bytes", arena_bytes);
    json_end(&out);
    output_end(&out);
}

void train_report_eval(const train_evaluation *all)
{
    output out;
    output_begin(&out, stdout);
    json_begin(&out);
    train_report_name(&out, all->adapter);
    json_count(&out, "step", all->step);
    json_real(&out, "epoch", all->epoch, 6);
    metric_list_json(all->found, "eval_", &out);
    predictions_json_more(all->made, all->task, "eval_", &out);
    json_count(&out, "eval_tokens", all->tokens);
    json_end(&out);
    output_end(&out);
}

static void summary_json(output *out, const train_totals *sum, const train_summary *summary,
                         const char *digest)
{
    json_begin(out);
    train_report_name(out, sum->adapter);
    data_task_json(out, summary->session);
    json_count(out, "steps", summary->steps);
    json_text(out, "state_digest", digest);
    json_real(out, "load_seconds", sum->load_seconds, 9);
    json_real(out, "train_seconds", sum->step_seconds, 9);
    json_real(out, "output_seconds", sum->output_seconds, 9);
    json_real(out, "total_seconds", clock_seconds() - sum->began, 9);
    json_real(out, "samples_per_second", ratio((double)sum->samples, sum->step_seconds), 6);
    if (!sum->rows) {
        json_real(out, "tokens_per_second", ratio((double)sum->tokens, sum->step_seconds), 6);
        json_real(out, "padded_tokens_per_second", ratio((double)sum->places, sum->step_seconds),
                  6);
    }
    buckets_json_runs(out, summary->runtime);
    json_count(out, "arena_bytes", summary->arena_bytes);
    json_count(out, "host_bytes", summary->host_bytes);
    if (sum->brought > 0) {
        json_count(out, "offload_read_bytes_per_step", sum->brought / sum->steps);
    }
    if (summary->peak_resident != 0) {
        json_count(out, "peak_resident_bytes", summary->peak_resident);
    }
    json_count(out, "device_bytes_in_use", summary->device_bytes);
    device_memory_json(out, &summary->memory, summary->arena_bytes);
    json_count(out, "skipped_groups", summary->skipped);
    if (summary->evaluated) {
        metric_list_json(summary->found, "eval_", out);
        predictions_json_more(summary->made, summary->task, "eval_", out);
    }
    if (summary->best_step != 0) {
        json_count(out, "best_step", summary->best_step);
        char key[48];
        snprintf(key, sizeof key, "best_eval_%s", summary->metric);
        json_real(out, key, summary->best_value, strcmp(summary->metric, "loss") == 0 ? 12 : 9);
    }
    if (summary->continued != NULL) {
        json_text(out, "continued_from", summary->continued);
        json_count(out, "continued_from_step", summary->continued_step);
    }
    json_flag(out, "stopped_early", summary->early);
    json_text(out, "ended_by", summary->ended);
    if (summary->save_failures > 0) {
        json_count(out, "save_failures", summary->save_failures);
    }
    json_text(out, "output_dir", summary->output_dir);
    json_end(out);
}

static void summary_text(bp_text *text, const train_totals *sum, const train_summary *summary,
                         const char *digest)
{
    if (sum->adapter != NULL) {
        bp_text_string(text, "adapter              ");
        bp_text_string(text, sum->adapter);
        bp_text_char(text, '\n');
    }
    bp_text_string(text, "steps                ");
    bp_text_u64(text, summary->steps);
    bp_text_string(text, "\nstate digest         ");
    bp_text_string(text, digest);
    bp_text_string(text, "\ntrain seconds        ");
    bp_text_fixed(text, sum->step_seconds, 2);
    bp_text_string(text, "\nsamples per second   ");
    bp_text_fixed(text, ratio((double)sum->samples, sum->step_seconds), 2);
    if (!sum->rows) {
        bp_text_string(text, "\ntokens per second    ");
        bp_text_fixed(text, ratio((double)sum->tokens, sum->step_seconds), 0);
    }
    buckets_put_runs(text, summary->runtime);
    bp_text_string(text, "\narena bytes          ");
    bp_text_grouped(text, summary->arena_bytes);
    if (sum->brought > 0) {
        bp_text_string(text, "\nread of the file     ");
        bp_text_grouped(text, sum->brought / sum->steps);
        bp_text_string(text, " bytes a step");
    }
    bp_text_string(text, "\ndevice bytes in use  ");
    bp_text_grouped(text, summary->device_bytes);
    device_memory_text(text, &summary->memory, summary->arena_bytes);
    if (summary->evaluated) {
        bp_text_string(text, "\neval loss            ");
        bp_text_fixed(text, summary->found->of[0].value, 4);
        metric_list_text(summary->found, text);
    }
    if (summary->best_step != 0) {
        bp_text_string(text, "\nbest step            ");
        bp_text_u64(text, summary->best_step);
        char words[24];
        snprintf(words, sizeof words, "\nbest eval %-11s", summary->metric);
        bp_text_string(text, words);
        bp_text_fixed(text, summary->best_value, 4);
    }
    if (summary->continued != NULL) {
        bp_text_string(text, "\ncontinued from       ");
        bp_text_string(text, summary->continued);
        bp_text_string(text, ", step ");
        bp_text_u64(text, summary->continued_step);
    }
    if (summary->early) {
        bp_text_string(text, "\nstopped early        no better evaluation in a while");
    }
    if (summary->skipped > 0) {
        bp_text_string(text, "\nskipped groups       ");
        bp_text_u64(text, summary->skipped);
        bp_text_string(text, " (no target in them)");
    }
    bp_text_string(text, "\nmodel directory      ");
    bp_text_string(text, summary->output_dir);
    bp_text_char(text, '\n');
}

void train_report_end(const train_totals *sum, const train_summary *summary, bool json)
{
    output out;
    char digest[BP_DIGEST_TEXT];
    bp_digest_text(summary->digest, digest);
    output_begin(&out, stdout);
    if (json) {
        summary_json(&out, sum, summary, digest);
    } else {
        summary_text(&out.text, sum, summary, digest);
    }
    output_end(&out);
}
