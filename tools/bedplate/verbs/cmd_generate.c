/* SPDX-License-Identifier: MIT */
/* bedplate generate: continues a prompt with a planned cache of keys and values, or fills the masks
 * of one (fill_mask.h). */
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/predict/chat_talk.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/session/dry_run.h"
#include "tools/bedplate/models/end_tokens.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/models/speech_rules.h"
#include "tools/bedplate/sources/speech_source.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/predict/fill_mask.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/text_stream.h"
#include "tools/bedplate/predict/sample.h"
#include "tools/bedplate/session/session.h"
#include "tools/bedplate/app/commands.h"
#include "tools/formats/text/byte_tokenizer.h"
#include "tools/formats/data/data_tokenise.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/tensor_view.h"

#define PROMPT_ROWS                                                                                \
    256 /* tokens of a prompt read at once: weights are read once for all of them                  \
         */

static const char where[] = "generate";

/* Sequences that are written at once: the weights are read once for all of them. More than these
 * gain little and take a cache each. */
#define AT_ONCE 16

/* One of the texts that are written. */
typedef struct sequence {
    uint32_t number;
    int32_t *ids; /* the prompt, then what is written; owned */
    uint32_t count;
    text_stream text;
    char *whole; /* what is not shown yet; owned */
    size_t used;
    size_t capacity;
    bool finished;  /* by a token or a string that ends a text */
    bool ended;     /* so, or it has all its tokens */
    double seconds; /* until then */
} sequence;

typedef struct generation {
    session s;
    int32_t *prompt_ids;
    uint32_t prompt;
    uint32_t room;
    settings own; /* of a model that hears: what it takes for not given */
    speech_source *speech;
    speech_rules rules;
    bool finds;      /* the token behind the first is the language that is heard */
    int32_t *source; /* of a model that makes a text of another; its prompt is a start token */
    uint32_t sources;
    sampling how;
    uint32_t *order; /* for sampling */
    float *scores;
    float *asked; /* the logits that follow the prompt, of several sequences */
    end_tokens ends;
    bool has_text; /* there is a tokenizer: ids are text as well */
    bool shows_ids;
    sequence at[AT_ONCE];
    uint32_t width;        /* sequences of the decode program */
    uint32_t count;        /* of them, those that are written now */
    uint32_t live;         /* which is shown as it comes; those before it are written out */
    bool reads;            /* the prompt; false: sequences before these have */
    double prompt_seconds; /* of reading it, the last time */
    double began;          /* reading the prompt, the first time */
    double turn;           /* reading the prompt, this time */
} generation;

static bp_status room_for(generation *g, size_t prompt)
{
    uint64_t positions = g->s.spec.config.positions;
    uint64_t most = g->s.set->max_new_tokens;
    if (prompt == 0) {
        return bp_error_set(&g->s.error, BP_ERR_USAGE, where, "the prompt is empty", "--prompt");
    }
    if (prompt + most > positions) {
        return bp_error_limit(&g->s.error, BP_ERR_USAGE, where,
                              "the prompt and the new tokens are longer than the model's "
                              "n_positions",
                              "--max-new-tokens", (int64_t)(prompt + most), BP_LIMIT_MOST,
                              (int64_t)positions);
    }
    g->room = (uint32_t)(prompt + most);
    g->prompt_ids = malloc(g->room * sizeof *g->prompt_ids);
    g->order = malloc((size_t)g->s.spec.config.vocabulary * sizeof *g->order);
    g->scores = malloc((size_t)g->s.spec.config.vocabulary * sizeof *g->scores);
    if (g->s.set->sequences > 1) {
        g->asked = malloc((size_t)g->s.spec.config.vocabulary * sizeof *g->asked);
    }
    if (g->prompt_ids == NULL || g->order == NULL || g->scores == NULL ||
        (g->asked == NULL && g->s.set->sequences > 1)) {
        return bp_error_set(&g->s.error, BP_ERR_FIT, where, "no memory for the tokens", "");
    }
    return BP_OK;
}

static bp_status bytes_prompt(generation *g)
{
    const char *text = g->s.set->prompt;
    BP_TRY(room_for(g, strlen(text)));
    for (; *text != '\0'; text++) {
        g->prompt_ids[g->prompt++] = (unsigned char)*text;
    }
    return BP_OK;
}

/* A source, with all that the tokenizer puts around a text. */
static bp_status encoded_source(generation *g)
{
    const char *text = g->s.set->prompt;
    bp_encoder *encoder = &g->s.run_tokenizer.encoder;
    const int64_t end = run_tokenizer_end_token(&g->s.run_tokenizer, &g->s.spec.config);
    size_t count;
    bp_encoder_text(encoder, text, strlen(text), BP_ENCODE_TEMPLATE, NULL, 0, &count);
    BP_TRY(room_for(g, count > 0 ? count + 1 : 0));
    /* Ids are below 2^31, so the sign is no matter. */
    bp_encoder_text(encoder, text, strlen(text), BP_ENCODE_TEMPLATE, (uint32_t *)g->prompt_ids,
                    count, &count);
    g->prompt = (uint32_t)count;
    if (end >= 0 && (int64_t)g->prompt_ids[count - 1] != end) {
        g->prompt_ids[g->prompt++] = (int32_t)end;
    }
    return BP_OK;
}

/* What was read becomes the source, and the text begins. */
static bp_status read_as_source(generation *g)
{
    g->source = g->prompt_ids;
    g->sources = g->prompt;
    g->prompt_ids = NULL;
    g->room = (uint32_t)g->s.set->max_new_tokens + 1;
    g->prompt_ids = malloc(g->room * sizeof *g->prompt_ids);
    if (g->prompt_ids == NULL) {
        return bp_error_set(&g->s.error, BP_ERR_FIT, where, "no memory for the tokens", "");
    }
    g->prompt_ids[0] = (int32_t)model_start_token(&g->s.spec.config);
    g->prompt = 1;
    g->s.spec.source = g->sources;
    return BP_OK;
}

/* The beginning token, if the tokenizer adds one, and the text; nothing that would end it. */
static bp_status encoded_prompt(generation *g)
{
    const char *text = g->s.set->prompt;
    bp_encoder *encoder = &g->s.run_tokenizer.encoder;
    bool begins;
    uint32_t tail;
    size_t count;
    bp_tokenise_template(encoder, &begins, &tail);
    bp_encoder_text(encoder, text, strlen(text), BP_ENCODE_PLAIN, NULL, 0, &count);
    BP_TRY(room_for(g, count + (begins ? 1 : 0)));
    if (begins) {
        g->prompt_ids[g->prompt++] = (int32_t)bp_tokenizer_special_of(encoder->tokenizer)->bos;
    }
    /* Ids are below 2^31, so the sign is no matter. */
    uint32_t *ids = (uint32_t *)(g->prompt_ids + g->prompt);
    bp_encoder_text(encoder, text, strlen(text), BP_ENCODE_PLAIN, ids, count, &count);
    g->prompt += (uint32_t)count;
    return BP_OK;
}

static bp_status text_prompt(generation *g)
{
    session *s = &g->s;
    BP_TRY(session_find_run_tokenizer(s));
    if (s->run_tokenizer.kind == TOKENIZER_NONE) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "a text prompt needs a tokenizer, and the model directory has none; "
                            "give --tokenizer or --prompt-ids",
                            "--prompt");
    }
    BP_TRY(session_open_run_tokenizer(s));
    if (s->run_tokenizer.kind != TOKENIZER_BYTES && model_makes_texts(&s->spec.config)) {
        return encoded_source(g);
    }
    return s->run_tokenizer.kind == TOKENIZER_BYTES ? bytes_prompt(g) : encoded_prompt(g);
}

static bp_status wrong_ids(generation *g)
{
    return bp_error_set(&g->s.error, BP_ERR_USAGE, where,
                        "the value is not a list of token ids such as 1,2,3", "--prompt-ids");
}

static bp_status check_id(generation *g, long id)
{
    if (id < 0 || id >= (long)g->s.spec.config.vocabulary) {
        return bp_error_limit(&g->s.error, BP_ERR_DATA, where,
                              "a token id is not below the model's vocabulary", "--prompt-ids", id,
                              BP_LIMIT_MOST, (int64_t)g->s.spec.config.vocabulary - 1);
    }
    return BP_OK;
}

static bp_status ids_prompt(generation *g)
{
    const char *text = g->s.set->prompt_ids;
    size_t numbers = 1;
    for (const char *c = text; *c != '\0'; c++) {
        numbers += strchr(", ", *c) != NULL ? 1 : 0;
    }
    BP_TRY(room_for(g, numbers));
    while (*text != '\0') {
        char *end;
        long id = strtol(text, &end, 10);
        if (end == text || (*end != '\0' && strchr(", ", *end) == NULL)) {
            return wrong_ids(g);
        }
        BP_TRY(check_id(g, id));
        g->prompt_ids[g->prompt++] = (int32_t)id;
        text = end + strspn(end, ", ");
    }
    return g->prompt > 0 ? BP_OK : wrong_ids(g);
}

/* Ids are text as well where there is a tokenizer; stop strings need one. */
static bp_status find_text(generation *g)
{
    session *s = &g->s;
    const settings *set = s->set;
    g->shows_ids = set->output_ids || set->prompt_ids != NULL;
    if (set->prompt == NULL &&
        (s->spec.config.vocabulary == BP_BYTE_VOCABULARY || set->stops.count > 0)) {
        BP_TRY(session_open_run_tokenizer(s));
    }
    g->has_text = s->run_tokenizer.kind != TOKENIZER_NONE;
    if (!g->has_text && set->stops.count > 0) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "a stop string needs a tokenizer, and the model directory has none; "
                            "give --tokenizer",
                            "--stop");
    }
    return end_tokens_find(&g->ends, s->store, set->adapter, &s->run_tokenizer,
                           s->directory ? set->model : NULL, &s->error);
}

static bp_status read_prompt(generation *g)
{
    const settings *set = g->s.set;
    if ((set->prompt == NULL) == (set->prompt_ids == NULL)) {
        return bp_error_mend(&g->s.error, BP_ERR_USAGE, where,
                             set->prompt != NULL ? "give --prompt or --prompt-ids, not both"
                                                 : "give one of --prompt and --prompt-ids",
                             "--prompt", set->prompt != NULL ? BP_MEND_NONE : BP_MEND_PROMPT);
    }
    BP_TRY(text_stream_check(&set->stops, &g->s.error));
    BP_TRY(set->prompt != NULL ? text_prompt(g) : ids_prompt(g));
    return find_text(g);
}

/* The file's spectrum becomes the source, and the text begins as the options say. */
static bp_status hear_speech(generation *g)
{
    session *s = &g->s;
    speech_prefix prefix;
    BP_TRY(session_find_run_tokenizer(s));
    if (s->run_tokenizer.kind != TOKENIZER_TOKENIZER) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "texts of speech need the model's tokenizer", "--audio");
    }
    BP_TRY(session_open_run_tokenizer(s));
    BP_TRY(speech_rules_find(&g->rules, s->store, s->set->adapter,
                             s->directory ? s->set->model : NULL, s->spec.config.vocabulary,
                             &s->error));
    BP_TRY(speech_rules_prefix(&g->rules, s->set, &s->run_tokenizer.tokenizer, &prefix, &g->finds,
                               &s->error));
    const uint32_t positions = s->spec.config.positions, first = 1 + prefix.count;
    if (!option_given(s->set, "max-new-tokens")) {
        g->own.max_new_tokens = positions > first ? positions - first : 1;
    }
    BP_TRY(room_for(g, first));
    g->prompt_ids[g->prompt++] = (int32_t)model_start_token(&s->spec.config);
    for (uint32_t i = 0; i < prefix.count; i++) {
        g->prompt_ids[g->prompt++] = (int32_t)prefix.id[i];
    }
    BP_TRY(speech_source_open(&g->speech, s));
    g->source = malloc((size_t)speech_source_elements(g->speech) * sizeof *g->source);
    if (g->source == NULL) {
        return bp_error_set(&s->error, BP_ERR_FIT, where, "no memory for a spectrum", "");
    }
    g->sources = s->spec.source;
    return bp_speech_read(&g->speech->speech, s->set->audio, (float *)(void *)g->source);
}

/* A model that hears is asked by a file, and no other is. */
static bp_status hear_asked(generation *g)
{
    const settings *set = g->s.set;
    const bool hears = model_hears(&g->s.spec.config);
    const bool reads = set->prompt != NULL || set->prompt_ids != NULL;
    if (!hears) {
        return set->audio == NULL ? BP_OK
                                  : bp_error_set(&g->s.error, BP_ERR_USAGE, where,
                                                 "this model reads text, not speech", "--audio");
    }
    return set->audio != NULL && !reads
               ? BP_OK
               : bp_error_set(&g->s.error, BP_ERR_USAGE, where,
                              "this model writes down speech: give --audio alone",
                              reads ? "--prompt" : "--audio");
}

/* Keeps what cannot be shown yet. */
static bp_status sequence_hold(generation *g, sequence *q, const char *bytes, size_t count)
{
    if (q->used + count > q->capacity) {
        const size_t wanted = 2 * (q->used + count);
        char *grown = realloc(q->whole, wanted);
        if (grown == NULL) {
            return bp_error_set(&g->s.error, BP_ERR_FIT, where, "no memory for the text", "");
        }
        q->whole = grown;
        q->capacity = wanted;
    }
    if (count > 0) {
        memcpy(q->whole + q->used, bytes, count);
    }
    q->used += count;
    return BP_OK;
}

/* Someone may be reading: the text of the first that goes on is shown as it comes, unless it goes
 * out as a whole. */
static bp_status show(generation *g, output *out, sequence *q, const char *bytes, size_t count)
{
    if (g->s.set->json || g->s.set->no_stream || q != &g->at[g->live]) {
        return sequence_hold(g, q, bytes, count);
    }
    bp_text_bytes(&out->text, bytes, count);
    BP_TRY(count > 0 ? bp_text_flush(&out->text) : BP_OK);
    fflush(out->stream);
    return BP_OK;
}

/* Shows what the last token lets out, as its number or as text. */
static bp_status show_token(generation *g, output *out, sequence *q, bool ends)
{
    const int32_t id = q->ids[q->count - 1];
    size_t count = 0;
    const char *bytes = "";
    if (g->has_text && !ends) {
        bytes = text_stream_next(&q->text, id, &count);
    }
    if (g->shows_ids && !g->s.set->json) {
        char number[16];
        snprintf(number, sizeof number, q->count == g->prompt + 1 ? "%d" : " %d", (int)id);
        return show(g, out, q, number, strlen(number));
    }
    return show(g, out, q, bytes, count);
}

/* The next token of the sequence, by the logits that are there. */
static bp_status draw(generation *g, const sequence *q, float *logits, uint32_t *id)
{
    const uint32_t vocabulary = g->s.spec.config.vocabulary;
    if (!bp_elements_finite(BP_F32, logits, vocabulary)) {
        return bp_error_set(&g->s.error, BP_ERR_NONFINITE, where,
                            "the logits are not finite: with these weights values grow beyond "
                            "what they are held in",
                            g->s.set->model);
    }
    if (g->speech != NULL) {
        speech_rules_apply(&g->rules, q->count == g->prompt, logits);
    }
    const float *scores = logits;
    if (g->how.repetition_penalty != 1.0) {
        memcpy(g->scores, logits, vocabulary * sizeof *logits);
        sample_penalise(&g->how, logits, g->scores, q->ids, q->count);
        scores = g->scores;
    }
    *id = sample_token(&g->how, scores, vocabulary, q->number, q->count - g->prompt, g->order);
    return BP_OK;
}

/* Finds the language by the logits behind the first token, which all sequences have. */
static bp_status find_language(generation *g)
{
    BP_TRY(bp_runtime_accept(&g->s.runtime, g->prompt_ids, 1));
    const float *logits = g->s.runtime.logits_host;
    if (!bp_elements_finite(BP_F32, logits, g->s.spec.config.vocabulary)) {
        return BP_OK; /* which the first token says */
    }
    g->prompt_ids[1] = (int32_t)speech_rules_language(&g->rules, logits);
    for (uint32_t i = 0; i < g->count; i++) {
        g->at[i].ids[1] = g->prompt_ids[1];
    }
    return BP_OK;
}

/* The first of several turns reads the prompt, and all where the model keeps no tokens. */
static bp_status take_prompt(generation *g, float **logits)
{
    const size_t bytes = (size_t)g->s.spec.config.vocabulary * sizeof *g->asked;
    bp_runtime *runtime = &g->s.runtime;
    bool kept = false;
    if (g->at[0].number > 0) {
        BP_TRY(bp_runtime_rewind(runtime, g->prompt, &kept));
    }
    g->reads = !kept;
    *logits = kept ? g->asked : runtime->logits_host;
    if (kept) {
        return BP_OK;
    }
    BP_TRY(g->source != NULL ? bp_runtime_read_source(runtime, g->source, g->sources)
                             : bp_runtime_restart(runtime));
    const uint32_t read = g->finds ? 1 : 0;
    BP_TRY(g->finds ? find_language(g) : BP_OK);
    BP_TRY(bp_runtime_accept(runtime, g->prompt_ids + read, g->prompt - read));
    g->prompt_seconds = clock_seconds() - g->turn;
    if (g->asked != NULL) {
        memcpy(g->asked, runtime->logits_host, bytes);
    }
    return BP_OK;
}

/* The first token follows from the prompt's last logits; each further one from a run of its own. */
static double token_rate(const generation *g, const sequence *q)
{
    const uint32_t made = q->count - g->prompt;
    const double after = q->seconds - (g->reads ? g->prompt_seconds : 0.0);
    return made > 1 && after > 0.0 ? (made - 1) / after : made / q->seconds;
}

static void put_json(generation *g, output *out, const sequence *q)
{
    uint32_t made = q->count - g->prompt;
    json_begin(out);
    if (g->s.set->sequences > 1) {
        json_count(out, "sequence", q->number);
        json_count(out, "sequences_at_once", g->width);
    }
    json_count(out, "tokens", made);
    json_real(out, "tokens_per_second", token_rate(g, q), 6);
    const uint32_t prompt = g->source != NULL ? g->sources : g->prompt;
    json_count(out, "prompt_tokens", prompt);
    json_real(out, "prompt_tokens_per_second", prompt / g->prompt_seconds, 6);
    json_seconds(out, g->s.set->began, clock_seconds() - g->began);
    json_count(out, "arena_bytes", g->s.plan.report.arena_bytes);
    json_text(out, "finish_reason", q->finished ? "stop" : "length");
    json_ids(out, "ids", q->ids + g->prompt, made);
    if (g->has_text) {
        bp_json_put_bytes(&out->json, "text", q->whole, q->used);
    }
    json_end(out);
}

/* The end of a sequence's text, also where it broke off. */
static bp_status show_rest(generation *g, output *out, sequence *q)
{
    size_t count = 0;
    const char *bytes = g->has_text ? text_stream_end(&q->text, &count) : "";
    return g->shows_ids && !g->s.set->json ? BP_OK : show(g, out, q, bytes, count);
}

static void put_heading(generation *g, output *out, const sequence *q)
{
    const settings *set = g->s.set;
    if (set->sequences > 1 && !set->json && !g->shows_ids) {
        bp_text_string(&out->text, "=== sequence ");
        bp_text_u64(&out->text, q->number + 1);
        bp_text_string(&out->text, " of ");
        bp_text_u64(&out->text, set->sequences);
        bp_text_string(&out->text, " ===\n");
    }
}

static void put_held(output *out, sequence *q)
{
    bp_text_bytes(&out->text, q->whole, q->used);
    q->used = 0;
}

/* Writes out those that have ended, in order; the next one shows what it has so far. */
static void put_ended(generation *g, output *out)
{
    while (g->live < g->count && g->at[g->live].ended) {
        sequence *q = &g->at[g->live];
        if (g->s.set->json) {
            put_json(g, out, q);
        } else {
            put_held(out, q);
            bp_text_char(&out->text, '\n');
        }
        g->live++;
        if (g->live < g->count) {
            q = &g->at[g->live];
            put_heading(g, out, q);
            if (!g->s.set->json && !g->s.set->no_stream) {
                put_held(out, q);
            }
        }
    }
}

/* A token of the sequence, which may be its last. */
static bp_status write_token(generation *g, output *out, sequence *q, float *logits)
{
    const settings *set = g->s.set;
    uint32_t id = 0;
    BP_TRY(draw(g, q, logits, &id));
    q->ids[q->count++] = (int32_t)id;
    const bool ends = end_tokens_has(&g->ends, &g->s.run_tokenizer, &g->s.spec.config, id);
    BP_TRY(show_token(g, out, q, ends));
    q->finished = (ends && !set->ignore_eos) || (g->has_text && q->text.stopped);
    if (q->finished || q->count == g->prompt + set->max_new_tokens) {
        q->seconds = clock_seconds() - g->turn;
        q->ended = true;
        BP_TRY(show_rest(g, out, q));
    }
    return BP_OK;
}

/* Token number `place` of each; what follows one that has ended is not read. */
static bp_status accept_place(generation *g, uint32_t place)
{
    int32_t ids[AT_ONCE] = {0};
    for (uint32_t i = 0; i < g->count; i++) {
        const sequence *q = &g->at[i];
        ids[i] = q->ids[place < q->count ? place : q->count - 1];
    }
    return g->width > 1 ? bp_runtime_accept_each(&g->s.runtime, ids)
                        : bp_runtime_accept(&g->s.runtime, ids, 1);
}

/* The program goes on with the last token of each, or reads all of them again where a text of this
 * length is read otherwise. */
static bp_status accept_tokens(generation *g)
{
    uint32_t count = g->prompt;
    bool again = false;
    for (uint32_t i = 0; i < g->count; i++) {
        count = g->at[i].count > count ? g->at[i].count : count;
    }
    BP_TRY(bp_runtime_reread(&g->s.runtime, count, &again));
    if (!again) {
        return accept_place(g, count - 1);
    }
    BP_TRY(bp_runtime_accept(&g->s.runtime, g->prompt_ids, g->prompt));
    for (uint32_t place = g->prompt; place < count; place++) {
        BP_TRY(accept_place(g, place));
    }
    return BP_OK;
}

static bp_status write_tokens(generation *g, output *out)
{
    const uint32_t vocabulary = g->s.spec.config.vocabulary;
    float *logits = NULL;
    size_t apart = 0; /* behind the prompt all have the same */
    BP_TRY(take_prompt(g, &logits));
    for (;;) {
        for (uint32_t i = 0; i < g->count; i++) {
            if (!g->at[i].ended) {
                BP_TRY(write_token(g, out, &g->at[i], logits + i * apart));
            }
        }
        put_ended(g, out);
        if (g->live == g->count) {
            return BP_OK;
        }
        BP_TRY(accept_tokens(g));
        logits = g->s.runtime.logits_host;
        apart = vocabulary;
    }
}

static bp_status begin_sequence(generation *g, sequence *q, uint32_t number)
{
    q->number = number;
    q->count = g->prompt;
    q->used = 0;
    q->ended = false;
    q->ids = q->ids != NULL ? q->ids : malloc(g->room * sizeof *q->ids);
    if (q->ids == NULL) {
        return bp_error_set(&g->s.error, BP_ERR_FIT, where, "no memory for the tokens", "");
    }
    memcpy(q->ids, g->prompt_ids, g->prompt * sizeof *q->ids);
    if (g->has_text) {
        BP_TRY(text_stream_begin(&q->text, &g->s.run_tokenizer, &g->s.set->stops, &g->s.error));
        for (uint32_t i = 0; i < g->prompt; i++) {
            text_stream_pass(&q->text, q->ids[i]);
        }
    }
    return BP_OK;
}

/* What there is of a text when an error ends it. */
static void break_off(generation *g, output *out)
{
    sequence *q = &g->at[g->live];
    if (g->live < g->count && !g->s.set->json) {
        const bp_status rest = show_rest(g, out, q);
        (void)rest; /* the first error is told */
        put_held(out, q);
        bp_text_char(&out->text, '\n');
    }
}

/* Writes as many sequences as the program has, or as are left. */
static bp_status write_sequences(generation *g, output *out, uint32_t first)
{
    const uint64_t left = g->s.set->sequences - first;
    bp_status status = BP_OK;
    g->count = left < g->width ? (uint32_t)left : g->width;
    g->live = 0;
    g->turn = clock_seconds();
    g->began = first == 0 ? g->turn : g->began;
    for (uint32_t i = 0; i < g->count && status == BP_OK; i++) {
        status = begin_sequence(g, &g->at[i], first + i);
    }
    if (status == BP_OK) {
        put_heading(g, out, &g->at[0]);
        status = write_tokens(g, out);
        if (status != BP_OK) {
            break_off(g, out);
        }
    }
    for (uint32_t i = 0; i < g->count; i++) {
        text_stream_close(&g->at[i].text);
    }
    return status;
}

/* How many sequences at once: as many as fit, where there is a limit, and alike in every turn. */
static bp_status choose_width(generation *g)
{
    session *s = &g->s;
    const uint64_t all = s->set->sequences;
    g->width = s->spec.model->pads ? AT_ONCE : 1;
    for (;; g->width /= 2) {
        uint64_t bytes = 0;
        const uint64_t turns = bp_size_ceil_div(all, g->width);
        s->spec.generate_sequences = (uint32_t)bp_size_ceil_div(all, turns);
        if (s->set->arena == 0 || s->spec.generate_sequences == 1) {
            break;
        }
        BP_TRY(dry_run_arena(&s->spec, 0, &bytes, &s->error));
        if (bytes <= s->set->arena) {
            break;
        }
    }
    g->width = s->spec.generate_sequences;
    return BP_OK;
}

static bp_status generate(generation *g, const settings *set)
{
    output out;
    session *s = &g->s;
    if (set->audio != NULL) { /* the likeliest text, unless another one is asked for */
        g->own = *set;
        g->own.temperature = option_given(set, "temperature") ? set->temperature : 0.0;
        set = &g->own;
    }
    BP_TRY(session_begin(s, set));
    if (s->spec.config.vocabulary == 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "this model judges rows of numbers; it does not generate", "--model");
    }
    if (s->spec.config.task == BP_TASK_MASKED_LM) {
        return fill_mask(s);
    }
    s->spec.optimizer = NULL;
    s->spec.batch = 1;
    s->spec.accumulation = 1;
    s->spec.sequence = 1;
    bp_family_set_pieces(&s->spec.config, 1);
    const bool writes = model_makes_texts(&s->spec.config);
    if (set->talks && writes) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "a model that makes a text of another has no conversations", "--model");
    }
    if (set->talks) {
        return chat_talk(s);
    }
    BP_TRY(hear_asked(g));
    if (model_hears(&s->spec.config)) {
        BP_TRY(text_stream_check(&set->stops, &s->error));
        BP_TRY(hear_speech(g));
        BP_TRY(find_text(g));
    } else {
        BP_TRY(read_prompt(g));
        BP_TRY(writes ? read_as_source(g) : BP_OK);
    }
    s->spec.generate_context = g->room;
    s->spec.prefill_rows = g->prompt < PROMPT_ROWS ? g->prompt : PROMPT_ROWS;
    BP_TRY(choose_width(g));
    BP_TRY(session_start(s));
    g->how = (sampling){.temperature = set->temperature,
                        .top_k = set->top_k,
                        .top_p = set->top_p,
                        .min_p = set->min_p,
                        .repetition_penalty = set->repetition_penalty,
                        .seed = set->seed};
    bp_status status = BP_OK;
    output_begin(&out, stdout);
    for (uint32_t first = 0; status == BP_OK && first < set->sequences; first += g->width) {
        status = write_sequences(g, &out, first);
    }
    output_end(&out);
    return status;
}

int cmd_generate(const settings *set)
{
    static generation g;
    int code = session_report(&g.s, generate(&g, set));
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        free(g.at[i].whole);
        free(g.at[i].ids);
    }
    free(g.asked);
    free(g.scores);
    free(g.order);
    free(g.prompt_ids);
    free(g.source);
    speech_source_close(&g.speech);
    session_end(&g.s);
    return code;
}
