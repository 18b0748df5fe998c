/* SPDX-License-Identifier: MIT */
/* bedplate eval: the mean loss of a model over data, and what it predicts. */
#include "tools/bedplate/sources/data_set.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/planning/buckets_text.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/predict/predictions_data.h"
#include "tools/bedplate/predict/transcribe.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/runs/metric.h"
#include "tools/bedplate/session/preference_choice.h"
#include "tools/bedplate/session/reference.h"
#include "tools/bedplate/session/session.h"
#include "tools/bedplate/sources/data_task.h"
#include "tools/bedplate/app/commands.h"

#include <math.h>
#include <string.h>

/* --per-device-eval-batch-size, 0: 8. */
static uint32_t batch_asked(const session *s)
{
    const uint32_t asked = s->set->eval_batch != 0 ? (uint32_t)s->set->eval_batch : 8;
    return asked * (s->spec.texts > 1 ? s->spec.texts : preference_rows(&s->spec));
}

/* A batch larger than the data would refuse it; evaluation has no reason to. */
static uint32_t batch_of(const session *s, const bp_source *source)
{
    const uint64_t asked = batch_asked(s);
    /* Of a stream the last window, which may be short, is not counted: a batch wants whole ones. */
    uint64_t windows = source->examples;
    if (windows == 0 && source->count > 0) {
        windows = (source->count - 1) / s->spec.sequence;
    }
    uint64_t batch = asked < windows ? asked : windows;
    return batch > 0 ? (uint32_t)batch : 1;
}

/* Where the result goes: predictions on standard output have that to themselves. */
static FILE *cmd_eval_stream(const session *s)
{
    const char *path = s->set->predictions;
    return path != NULL && strcmp(path, "-") == 0 ? stderr : stdout;
}

/* Rows without labels are judged, and there is no loss to tell of. */
static void print_judged(const session *s, const predictions *made, double seconds)
{
    output out;
    output_begin(&out, cmd_eval_stream(s));
    if (s->set->json) {
        json_begin(&out);
        data_task_json(&out, s);
        json_count(&out, "rows", made->rows);
        json_real(&out, "rows_per_second", (double)made->rows / seconds, 6);
        json_seconds(&out, s->set->began, seconds);
        json_count(&out, "arena_bytes", s->plan.report.arena_bytes);
        json_end(&out);
    } else {
        bp_text_grouped(&out.text, made->rows);
        bp_text_string(&out.text, " rows without labels are judged in ");
        bp_text_string(&out.text, s->set->predictions);
        bp_text_char(&out.text, '\n');
    }
    output_end(&out);
}

/* What is written down of speech, and its words' errors; heard NULL: the model reads. */
static void cmd_eval_heard_json(output *out, const transcribed *heard)
{
    if (heard != NULL) {
        json_real(out, "wer", (double)heard->errors / (double)(heard->words > 0 ? heard->words : 1),
                  9);
        json_count(out, "word_errors", heard->errors);
        json_count(out, "words", heard->words);
        json_count(out, "rows", heard->rows);
        json_real(out, "transcribe_seconds", heard->seconds, 6);
    }
}

static void cmd_eval_heard(output *out, const transcribed *heard)
{
    if (heard != NULL) {
        const double words = (double)(heard->words > 0 ? heard->words : 1);
        bp_text_string(&out->text, "; word error rate ");
        bp_text_fixed(&out->text, (double)heard->errors / words, 4);
        bp_text_string(&out->text, ", ");
        bp_text_grouped(&out->text, heard->errors);
        bp_text_string(&out->text, " errors of ");
        bp_text_grouped(&out->text, heard->words);
        bp_text_string(&out->text, " words");
    }
}

static void cmd_eval_print(const session *s, const predictions *made, const transcribed *heard,
                           double loss, uint64_t tokens, double seconds)
{
    output out;
    metric_list found;
    const bp_task task = s->spec.config.task;
    const bool words = task == BP_TASK_TOKENS, answers = task == BP_TASK_ANSWERS;
    metric_list_of(&found, predictions_task(&s->spec), loss, made);
    output_begin(&out, cmd_eval_stream(s));
    if (s->set->json) {
        json_begin(&out);
        data_task_json(&out, s);
        metric_list_json(&found, "", &out);
        predictions_json_more(made, task, "", &out);
        cmd_eval_heard_json(&out, heard);
        json_count(&out, "tokens", tokens);
        if (predictions_are_made(&s->spec)) {
            json_count(&out, "rows", made->rows);
        }
        json_real(&out, s->spec.config.vocabulary == 0 ? "rows_per_second" : "tokens_per_second",
                  (double)tokens / seconds, 6);
        json_seconds(&out, s->set->began, seconds);
        buckets_json_runs(&out, &s->runtime);
        json_count(&out, "arena_bytes", s->plan.report.arena_bytes);
        json_end(&out);
    } else {
        const bool pairs = made->told.kind != BP_PREFERENCE_NONE;
        const bool rows = !pairs && predictions_are_made(&s->spec);
        bp_text_string(&out.text, "loss ");
        bp_text_fixed(&out.text, loss, pairs || rows ? 6 : 4);
        if (!pairs) {
            bp_text_string(&out.text, words  ? " per tagged token over "
                                      : rows ? " per row over "
                                             : " nats per token over ");
            bp_text_grouped(&out.text, answers ? made->rows : tokens);
            bp_text_string(&out.text, answers ? " windows" : rows && !words ? " rows" : " tokens");
        }
        metric_list_text(&found, &out.text);
        cmd_eval_heard(&out, heard);
        bp_text_char(&out.text, '\n');
    }
    output_end(&out);
}

/* Runs over all data, and writes the predictions if they are wanted. */
static bp_status cmd_eval_run(session *s, data_set *data, const bp_feed *feed)
{
    static predictions made;
    double loss;
    uint64_t tokens;
    transcribed written_down;
    const bool hears = model_hears(&s->spec.config);
    const char *path = hears ? NULL : s->set->predictions;
    const bp_evaluated watch = predictions_watch(&s->spec);
    BP_TRY(predictions_begin(&made, &s->names, path, &s->error));
    made.unlabelled =
        data->main.tokens.head.unlabelled != 0 && s->spec.config.task != BP_TASK_EMBEDDING;
    BP_TRY(predictions_data_begin(&made, s, feed->source));
    BP_TRY(predictions_data_rows(&made, data));
    double began = clock_seconds();
    bp_status status = bp_runtime_evaluate_each(&s->runtime, feed, 0, watch, &made, &loss, &tokens);
    double seconds = clock_seconds() - began;
    preference_metrics_begin(&made.told, &s->spec);
    memcpy(made.told.of, s->runtime.metrics, sizeof made.told.of);
    status = status == BP_OK ? predictions_data_end(&made, s, data) : status;
    bp_status written = predictions_end(&made, path, &s->error);
    BP_TRY(status);
    BP_TRY(written);
    if (made.unlabelled) {
        print_judged(s, &made, seconds);
        return BP_OK;
    }
    BP_TRY(data_evaluated(s, feed->source, tokens, loss));
    if (hears) {
        BP_TRY(transcribe_rows(s, data, feed->source, s->set->predictions, &written_down));
    }
    cmd_eval_print(s, &made, hears ? &written_down : NULL, loss, tokens, seconds);
    return isfinite(loss) ? BP_OK
                          : bp_error_set(&s->error, BP_ERR_NONFINITE, "eval",
                                         "the loss is not finite: with these weights values grow "
                                         "beyond what they are held in",
                                         s->set->model);
}

static bp_status cmd_eval_evaluate(session *s, data_set *data, reference *compared,
                                   const settings *set)
{
    BP_TRY(session_begin(s, set));
    BP_TRY(predictions_check(&s->spec, set->predictions, &s->error));
    s->spec.batch = batch_asked(s);
    s->spec.accumulation = 1;
    s->spec.optimizer = NULL;
    s->spec.evaluate = true;
    BP_TRY(bp_spec_check(&s->spec, &s->error));
    BP_TRY(data_set_open(data, s));
    BP_TRY(reference_open(compared, s, data));
    bp_source *source = data->eval != NULL ? data->eval : data->train;
    s->spec.batch = batch_of(s, source);
    bp_feed feed = data_set_feed(data, s, source);
    BP_TRY(bp_feed_init(&feed, &s->error));
    BP_TRY(lengths_fill(s, &feed, 1));
    if (model_hears(&s->spec.config)) {
        transcribe_plan(s);
    }
    BP_TRY(session_start(s));
    BP_TRY(reference_fill(compared, s, data, ""));
    return cmd_eval_run(s, data, &feed);
}

int cmd_eval(const settings *set)
{
    static session s;
    static data_set data;
    static reference compared;
    int code = session_report(&s, cmd_eval_evaluate(&s, &data, &compared, set));
    data_set_close(&data);
    reference_close(&compared);
    session_end(&s);
    return code;
}
