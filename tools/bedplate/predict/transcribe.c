/* SPDX-License-Identifier: MIT */
/* Texts of speech. */
#include "tools/bedplate/predict/transcribe.h"

#include <stdlib.h>
#include <string.h>

#include "core/ops/convert.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/models/end_tokens.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/models/speech_rules.h"
#include "tools/bedplate/models/text_out.h"
#include "tools/formats/audio/word_errors.h"

static const char where[] = "speech";

/* A text; grows. */
typedef struct transcript {
    char *text;
    size_t used;
    size_t capacity;
} transcript;

typedef struct transcriber {
    session *s;
    bp_source *source;
    speech_source *speech;
    speech_prefix prefix; /* of the data */
    speech_prefix start;  /* of what is written */
    bool finds;           /* start.id[0] is the language that is heard */
    speech_rules rules;
    end_tokens ends;
    float *spectrum;
    int32_t *ids; /* (positions + 1) */
    uint32_t count;
    size_t *row; /* of bp_words_errors */
    size_t row_count;
    char path[BP_STORE_PATH_MAX];
    text_out pieces;
    transcript said;
    transcript heard;
    transcript form[2];
} transcriber;

void transcribe_plan(session *s)
{
    s->spec.generate_context = s->spec.config.positions;
    s->spec.prefill_rows = 1 + SPEECH_PREFIX_MOST;
}

bp_status transcribe_plan_training(session *s)
{
    const settings *set = s->set;
    const bool wanted = set->predicts != NULL && set->predicts[0] == 't';
    const bool hears = model_hears(&s->spec.config);
    const bool judges = set->metric != NULL &&
                        (strcmp(set->metric, "wer") == 0 || strcmp(set->metric, "eval_wer") == 0);
    const char *fault = !hears              ? "this model does not hear"
                        : s->spec.ranks > 1 ? "on several ranks evaluations write nothing down"
                        : s->spec.lora.magnitudes
                            ? "adapters with magnitudes are merged before this model writes"
                        : set->emit_c != NULL         ? "a trainer in C writes nothing down"
                        : !wanted && s->spec.evaluate ? "--predict-with-generate is false"
                                                      : NULL;
    if (fault != NULL && judges && hears) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where, fault, "--metric-for-best-model");
    }
    if (fault == NULL && s->spec.evaluate) {
        transcribe_plan(s);
    }
    return BP_OK;
}

static bp_status transcript_room(transcriber *t, transcript *to, size_t bytes)
{
    if (bytes > to->capacity) {
        char *grown = realloc(to->text, 2 * bytes);
        if (grown == NULL) {
            return bp_error_set(&t->s->error, BP_ERR_FIT, where, "no memory for the text", "");
        }
        to->text = grown;
        to->capacity = 2 * bytes;
    }
    return BP_OK;
}

static bp_status transcript_add(transcriber *t, transcript *to, const char *bytes, size_t count)
{
    BP_TRY(transcript_room(t, to, to->used + count + 1));
    if (count > 0) {
        memcpy(to->text + to->used, bytes, count);
    }
    to->used += count;
    return BP_OK;
}

/* The text of ids, without the space that begins it. */
static bp_status transcript_of(transcriber *t, transcript *to, const int32_t *ids, uint32_t count)
{
    size_t bytes = 0, skip = 0;
    to->used = 0;
    text_out_begin(&t->pieces, &t->s->run_tokenizer);
    for (uint32_t i = 0; i < count; i++) {
        const char *text = text_out_next(&t->pieces, ids[i], &bytes);
        BP_TRY(transcript_add(t, to, text, bytes));
    }
    const char *rest = text_out_end(&t->pieces, &bytes);
    BP_TRY(transcript_add(t, to, rest, bytes));
    while (skip < to->used && to->text[skip] == ' ') {
        skip++;
    }
    memmove(to->text, to->text + skip, to->used - skip);
    to->used -= skip;
    return BP_OK;
}

/* The logits, which are finite. */
static bp_status transcribe_logits(transcriber *t, float **logits)
{
    *logits = t->s->runtime.logits_host;
    const uint32_t vocabulary = t->s->spec.config.vocabulary;
    if (!bp_elements_finite(BP_F32, *logits, vocabulary)) {
        return bp_error_set(&t->s->error, BP_ERR_NONFINITE, where,
                            "the logits are not finite: with these weights values grow beyond what "
                            "they are held in",
                            t->s->set->model);
    }
    return BP_OK;
}

/* The likeliest token that may follow; of equal ones the first. */
static bp_status transcribe_best(transcriber *t, bool begins, uint32_t *best)
{
    float *logits = NULL;
    BP_TRY(transcribe_logits(t, &logits));
    speech_rules_apply(&t->rules, begins, logits);
    *best = 0;
    for (uint32_t v = 1; v < t->s->spec.config.vocabulary; v++) {
        *best = logits[v] > logits[*best] ? v : *best;
    }
    return BP_OK;
}

/* Reads what a text begins with. */
static bp_status transcribe_begin(transcriber *t)
{
    bp_runtime *runtime = &t->s->runtime;
    uint32_t read = 0;
    BP_TRY(bp_runtime_read_source(runtime, (const int32_t *)(const void *)t->spectrum,
                                  t->s->spec.source));
    if (t->finds) {
        float *logits = NULL;
        BP_TRY(bp_runtime_accept(runtime, t->ids, 1));
        BP_TRY(transcribe_logits(t, &logits));
        t->ids[1] = (int32_t)speech_rules_language(&t->rules, logits);
        read = 1;
    }
    return bp_runtime_accept(runtime, t->ids + read, t->count - read);
}

/* Writes the spectrum's text into t->heard. */
static bp_status transcribe_one(transcriber *t)
{
    bp_runtime *runtime = &t->s->runtime;
    const bp_model_config *config = &t->s->spec.config;
    const uint32_t first = 1 + t->start.count;
    if (first > config->positions) {
        return bp_error_limit(&t->s->error, BP_ERR_DATA, where,
                              "what a text begins with is longer than max_target_positions",
                              t->s->set->model, config->positions, BP_LIMIT_LEAST, first);
    }
    t->ids[0] = (int32_t)model_start_token(config);
    for (uint32_t i = 0; i < t->start.count; i++) {
        t->ids[1 + i] = (int32_t)t->start.id[i];
    }
    t->count = first;
    BP_TRY(transcribe_begin(t));
    for (;;) {
        uint32_t id = 0;
        BP_TRY(transcribe_best(t, t->count == first, &id));
        if (end_tokens_has(&t->ends, &t->s->run_tokenizer, config, id)) {
            break;
        }
        t->ids[t->count++] = (int32_t)id;
        if (t->count >= config->positions) {
            break;
        }
        BP_TRY(bp_runtime_accept(runtime, t->ids + t->count - 1, 1));
    }
    return transcript_of(t, &t->heard, t->ids + first, t->count - first);
}

/* What was said, of the tokens that are learned of it. */
static bp_status transcribe_said(transcriber *t, const bp_example *example)
{
    const uint64_t begin = example->prompt + 1 + t->prefix.count;
    const uint64_t count = example->count > begin ? example->count - begin : 0;
    const uint64_t most = t->s->spec.config.positions;
    const uint32_t taken = (uint32_t)(count < most ? count : most);
    if (taken > 0 && t->source->read(t->source, example->first + begin, taken, t->ids) != BP_OK) {
        return bp_error_set(&t->s->error, BP_ERR_DATA, where, "the data cannot be read",
                            t->source->name);
    }
    return transcript_of(t, &t->said, t->ids, taken);
}

static bp_status transcribe_count(transcriber *t, uint64_t *errors, uint64_t *words)
{
    const bool basic = strcmp(t->s->set->normalizer, "basic") == 0;
    const transcript *from[2] = {&t->said, &t->heard};
    for (int i = 0; i < 2; i++) {
        BP_TRY(transcript_room(t, &t->form[i], 4 * from[i]->used + 1));
        t->form[i].used = bp_words_normalise(basic ? BP_WORDS_BASIC : BP_WORDS_NONE, from[i]->text,
                                             from[i]->used, t->form[i].text);
    }
    const size_t need = bp_words_count(t->form[1].text, t->form[1].used) + 1;
    if (need > t->row_count) {
        free(t->row);
        t->row_count = 2 * need;
        t->row = malloc(t->row_count * sizeof *t->row);
        if (t->row == NULL) {
            return bp_error_set(&t->s->error, BP_ERR_FIT, where, "no memory for words", "");
        }
    }
    *words = bp_words_count(t->form[0].text, t->form[0].used);
    *errors =
        bp_words_errors(t->form[0].text, t->form[0].used, t->form[1].text, t->form[1].used, t->row);
    return BP_OK;
}

static bp_status transcribe_row(transcriber *t, uint64_t index, output *out, transcribed *found)
{
    bp_example example;
    uint64_t errors = 0, words = 0;
    BP_TRY(t->source->example(t->source, index, &example));
    bp_example path = example;
    path.count = example.prompt;
    BP_TRY(speech_source_path(t->source, &path, t->path, &t->s->error));
    t->speech->speech.error = &t->s->error;
    BP_TRY(bp_speech_read(&t->speech->speech, t->path, t->spectrum));
    BP_TRY(transcribe_said(t, &example));
    BP_TRY(transcribe_one(t));
    BP_TRY(transcribe_count(t, &errors, &words));
    found->rows++;
    found->errors += errors;
    found->words += words;
    if (out != NULL) {
        json_begin(out);
        json_count(out, "index", index);
        json_text(out, "audio", t->path);
        bp_json_put_bytes(&out->json, "text", t->said.text, t->said.used);
        bp_json_put_bytes(&out->json, "prediction", t->heard.text, t->heard.used);
        json_count(out, "errors", errors);
        json_count(out, "words", words);
        json_end(out);
    }
    return BP_OK;
}

static bp_status transcribe_open(transcriber *t)
{
    session *s = t->s;
    const bp_model_config *config = &s->spec.config;
    BP_TRY(session_open_run_tokenizer(s));
    BP_TRY(speech_prefix_find(&t->prefix, s->set, &s->run_tokenizer.tokenizer, &s->error));
    BP_TRY(end_tokens_find(&t->ends, s->store, s->set->adapter, &s->run_tokenizer,
                           s->directory ? s->set->model : NULL, &s->error));
    BP_TRY(speech_rules_find(&t->rules, s->store, s->set->adapter,
                             s->directory ? s->set->model : NULL, config->vocabulary, &s->error));
    BP_TRY(speech_rules_prefix(&t->rules, s->set, &s->run_tokenizer.tokenizer, &t->start, &t->finds,
                               &s->error));
    t->spectrum = malloc((size_t)speech_source_elements(t->speech) * sizeof *t->spectrum);
    t->ids = malloc(((size_t)config->positions + 1) * sizeof *t->ids);
    return t->spectrum != NULL && t->ids != NULL
               ? BP_OK
               : bp_error_set(&s->error, BP_ERR_FIT, where, "no memory for a spectrum", "");
}

bp_status transcribe_rows(session *s, data_set *data, bp_source *source, const char *path,
                          transcribed *found)
{
    static transcriber t;
    static output out;
    FILE *file = NULL;
    bp_status status = BP_OK;
    memset(&t, 0, sizeof t);
    memset(found, 0, sizeof *found);
    t.s = s;
    t.source = source;
    t.speech = data->speech;
    if (path != NULL) {
        file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
        status = file != NULL ? BP_OK
                              : bp_error_set(&s->error, BP_ERR_STORE, where,
                                             "the file cannot be made", path);
    }
    if (file != NULL) {
        output_begin(&out, file);
    }
    const double began = clock_seconds();
    status = status == BP_OK ? transcribe_open(&t) : status;
    for (uint64_t i = 0; status == BP_OK && i < source->examples; i++) {
        status = transcribe_row(&t, i, file != NULL ? &out : NULL, found);
    }
    found->seconds = clock_seconds() - began;
    if (file != NULL) {
        output_end(&out);
    }
    if (file != NULL && file != stdout && fclose(file) != 0 && status == BP_OK) {
        status = bp_error_set(&s->error, BP_ERR_STORE, where, "the file cannot be written", path);
    }
    free(t.spectrum);
    free(t.ids);
    free(t.row);
    free(t.said.text);
    free(t.heard.text);
    free(t.form[0].text);
    free(t.form[1].text);
    return status;
}
