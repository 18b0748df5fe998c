/* SPDX-License-Identifier: MIT */
/* bedplate generate: continues a prompt with a planned cache of keys and values, or fills the masks
 * of one (fill_mask.h). */
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/end_tokens.h"
#include "tools/bedplate/fill_mask.h"
#include "tools/bedplate/output.h"
#include "tools/bedplate/progress.h"
#include "tools/bedplate/reply.h"
#include "tools/bedplate/sample.h"
#include "tools/bedplate/session.h"
#include "tools/bedplate/verbs.h"
#include "tools/formats/byte_tokenizer.h"
#include "tools/formats/data_tokenise.h"
#include "tools/formats/family.h"
#include "tools/formats/tensor_view.h"

#define PROMPT_ROWS                                                                                \
    256 /* tokens of a prompt read at once: weights are read once for all of them                  \
         */

static const char where[] = "generate";

typedef struct generation {
    session s;
    int32_t *ids; /* the prompt, then what is written */
    uint32_t prompt;
    uint32_t count;
    uint32_t room;
    sampling how;
    uint32_t *order; /* for sampling */
    float *scores;
    end_tokens ends;
    bool has_text; /* there is a tokenizer: ids are text as well */
    bool shows_ids;
    reply text;
    char *whole; /* what is not streamed; owned */
    size_t used;
    size_t capacity;
    uint32_t sequence;
    bool finished;         /* by a token or a string that ends a text */
    double prompt_seconds; /* of them the prompt's */
    double seconds;
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
    g->ids = malloc(g->room * sizeof *g->ids);
    g->order = malloc((size_t)g->s.spec.config.vocabulary * sizeof *g->order);
    g->scores = malloc((size_t)g->s.spec.config.vocabulary * sizeof *g->scores);
    if (g->ids == NULL || g->order == NULL || g->scores == NULL) {
        return bp_error_set(&g->s.error, BP_ERR_FIT, where, "no memory for the tokens", "");
    }
    return BP_OK;
}

static bp_status bytes_prompt(generation *g)
{
    const char *text = g->s.set->prompt;
    BP_TRY(room_for(g, strlen(text)));
    for (; *text != '\0'; text++) {
        g->ids[g->count++] = (unsigned char)*text;
    }
    return BP_OK;
}

/* The beginning token, if the tokenizer adds one, and the text; nothing that would end it. */
static bp_status encoded_prompt(generation *g)
{
    const char *text = g->s.set->prompt;
    bp_encoder *encoder = &g->s.coder.encoder;
    bool begins;
    uint32_t tail;
    size_t count;
    bp_tokenise_template(encoder, &begins, &tail);
    bp_encoder_text(encoder, text, strlen(text), BP_ENCODE_PLAIN, NULL, 0, &count);
    BP_TRY(room_for(g, count + (begins ? 1 : 0)));
    if (begins) {
        g->ids[g->count++] = (int32_t)bp_tokenizer_special_of(encoder->tokenizer)->bos;
    }
    /* Ids are below 2^31, so the sign is no matter. */
    uint32_t *ids = (uint32_t *)(g->ids + g->count);
    bp_encoder_text(encoder, text, strlen(text), BP_ENCODE_PLAIN, ids, count, &count);
    g->count += (uint32_t)count;
    return BP_OK;
}

static bp_status text_prompt(generation *g)
{
    session *s = &g->s;
    BP_TRY(session_find_coder(s));
    if (s->coder.kind == CODER_NONE) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "a text prompt needs a tokenizer, and the model directory has none; "
                            "give --tokenizer or --prompt-ids",
                            "--prompt");
    }
    BP_TRY(session_open_coder(s));
    return s->coder.kind == CODER_BYTES ? bytes_prompt(g) : encoded_prompt(g);
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
        g->ids[g->count++] = (int32_t)id;
        text = end + strspn(end, ", ");
    }
    return g->count > 0 ? BP_OK : wrong_ids(g);
}

/* Ids are text as well where there is a tokenizer; stop strings need one. */
static bp_status find_text(generation *g)
{
    session *s = &g->s;
    const settings *set = s->set;
    g->shows_ids = set->output_ids || set->prompt_ids != NULL;
    if (set->prompt == NULL &&
        (s->spec.config.vocabulary == BP_BYTE_VOCABULARY || set->stops.count > 0)) {
        BP_TRY(session_open_coder(s));
    }
    g->has_text = s->coder.kind != CODER_NONE;
    if (!g->has_text && set->stops.count > 0) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "a stop string needs a tokenizer, and the model directory has none; "
                            "give --tokenizer",
                            "--stop");
    }
    const bool own = set->tokenizer == NULL && g->has_text && s->coder.directory[0] != '\0';
    return end_tokens_read(&g->ends, s->store,
                           !s->directory ? NULL
                           : own         ? s->coder.directory
                                         : set->model,
                           &s->error);
}

static bp_status read_prompt(generation *g)
{
    const settings *set = g->s.set;
    if ((set->prompt == NULL) == (set->prompt_ids == NULL)) {
        return bp_error_set(&g->s.error, BP_ERR_USAGE, where,
                            "give one of --prompt and --prompt-ids", "--prompt");
    }
    BP_TRY(reply_check(&set->stops, &g->s.error));
    BP_TRY(set->prompt != NULL ? text_prompt(g) : ids_prompt(g));
    g->prompt = g->count;
    return find_text(g);
}

/* Someone may be reading: text is shown as it comes, unless it goes out as a whole. */
static bp_status show(generation *g, output *out, const char *bytes, size_t count)
{
    if (!g->s.set->json && !g->s.set->no_stream) {
        bp_text_bytes(&out->text, bytes, count);
        BP_TRY(count > 0 ? bp_text_flush(&out->text) : BP_OK);
        fflush(out->stream);
        return BP_OK;
    }
    if (g->used + count > g->capacity) {
        const size_t wanted = 2 * (g->used + count);
        char *grown = realloc(g->whole, wanted);
        if (grown == NULL) {
            return bp_error_set(&g->s.error, BP_ERR_FIT, where, "no memory for the text", "");
        }
        g->whole = grown;
        g->capacity = wanted;
    }
    if (count > 0) {
        memcpy(g->whole + g->used, bytes, count);
    }
    g->used += count;
    return BP_OK;
}

/* Shows what token number `at` lets out, as its number or as text. */
static bp_status show_token(generation *g, output *out, uint32_t at, bool ends)
{
    const int32_t id = g->ids[at];
    size_t count = 0;
    const char *bytes = "";
    if (g->has_text && !ends) {
        bytes = reply_next(&g->text, id, &count);
    }
    if (g->shows_ids && !g->s.set->json) {
        char number[16];
        snprintf(number, sizeof number, at == g->prompt ? "%d" : " %d", (int)id);
        return show(g, out, number, strlen(number));
    }
    return show(g, out, bytes, count);
}

/* The next token of the sequence, by the logits that are there. */
static bp_status draw(generation *g, uint32_t *id)
{
    const uint32_t vocabulary = g->s.spec.config.vocabulary;
    const float *logits = g->s.runtime.logits_host;
    if (!bp_elements_finite(BP_F32, logits, vocabulary)) {
        return bp_error_set(&g->s.error, BP_ERR_NONFINITE, where,
                            "the logits are not finite: with these weights values grow beyond "
                            "what they are held in",
                            g->s.set->model);
    }
    if (g->how.repetition_penalty != 1.0) {
        memcpy(g->scores, logits, vocabulary * sizeof *logits);
        sample_penalise(&g->how, logits, g->scores, g->ids, g->count);
        logits = g->scores;
    }
    *id = sample_token(&g->how, logits, vocabulary, g->sequence, g->count - g->prompt, g->order);
    return BP_OK;
}

static bp_status write_tokens(generation *g, output *out)
{
    const settings *set = g->s.set;
    BP_TRY(bp_runtime_restart(&g->s.runtime));
    const double began = clock_seconds();
    BP_TRY(bp_runtime_accept(&g->s.runtime, g->ids, g->count));
    g->prompt_seconds = clock_seconds() - began;
    for (;;) {
        uint32_t id = 0;
        BP_TRY(draw(g, &id));
        g->ids[g->count++] = (int32_t)id;
        const bool ends = end_tokens_has(&g->ends, &g->s.coder, &g->s.spec.config, id);
        BP_TRY(show_token(g, out, g->count - 1, ends));
        g->finished = (ends && !set->ignore_eos) || (g->has_text && g->text.stopped);
        if (g->finished || g->count == g->prompt + set->max_new_tokens) {
            return BP_OK;
        }
        BP_TRY(bp_runtime_accept(&g->s.runtime, &g->ids[g->count - 1], 1));
    }
}

static void put_ids(output *out, const int32_t *ids, uint32_t count)
{
    char text[16];
    bp_text_string(&out->text, ", \"ids\": [");
    for (uint32_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, i == 0 ? "%d" : ", %d", (int)ids[i]);
        bp_text_string(&out->text, text);
    }
    bp_text_string(&out->text, "]");
}

/* The first token follows from the prompt's last logits; each further one from a run of its own. */
static double token_rate(const generation *g)
{
    const uint32_t made = g->count - g->prompt;
    const double after = g->seconds - g->prompt_seconds;
    return made > 1 && after > 0.0 ? (made - 1) / after : made / g->seconds;
}

static void put_json(generation *g, output *out)
{
    uint32_t made = g->count - g->prompt;
    json_begin(out);
    if (g->s.set->sequences > 1) {
        json_count(out, "sequence", g->sequence);
    }
    json_count(out, "tokens", made);
    json_real(out, "tokens_per_second", token_rate(g), 6);
    json_count(out, "prompt_tokens", g->prompt);
    json_real(out, "prompt_tokens_per_second", g->prompt / g->prompt_seconds, 6);
    json_seconds(out, g->s.set->began, g->seconds);
    json_count(out, "arena_bytes", g->s.runtime.report.arena_bytes);
    json_text(out, "finish_reason", g->finished ? "stop" : "length");
    put_ids(out, g->ids + g->prompt, made);
    if (g->has_text) {
        bp_text_string(&out->text, ", \"text\": ");
        bp_text_json_bytes(&out->text, g->whole, g->used);
    }
    json_end(out);
}

/* The end of a sequence's text, also where it broke off. */
static bp_status show_rest(generation *g, output *out)
{
    size_t count = 0;
    const char *bytes = g->has_text ? reply_end(&g->text, &count) : "";
    return g->shows_ids && !g->s.set->json ? BP_OK : show(g, out, bytes, count);
}

static bp_status write_sequence(generation *g, output *out)
{
    const settings *set = g->s.set;
    g->count = g->prompt;
    g->used = 0;
    if (g->has_text) {
        BP_TRY(reply_begin(&g->text, &g->s.coder, &set->stops, &g->s.error));
        for (uint32_t i = 0; i < g->prompt; i++) {
            reply_pass(&g->text, g->ids[i]);
        }
    }
    if (set->sequences > 1 && !set->json && !g->shows_ids) {
        bp_text_string(&out->text, "=== sequence ");
        bp_text_u64(&out->text, g->sequence + 1);
        bp_text_string(&out->text, " of ");
        bp_text_u64(&out->text, set->sequences);
        bp_text_string(&out->text, " ===\n");
    }
    const double began = clock_seconds();
    bp_status status = write_tokens(g, out);
    g->seconds = clock_seconds() - began;
    const bp_status rest = show_rest(g, out);
    status = status == BP_OK ? rest : status;
    reply_close(&g->text);
    if (status == BP_OK && set->json) {
        put_json(g, out);
    } else {
        bp_text_bytes(&out->text, g->whole, g->used);
        bp_text_char(&out->text, '\n');
    }
    return status;
}

static bp_status generate(generation *g, const settings *set)
{
    output out;
    session *s = &g->s;
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
    BP_TRY(read_prompt(g));
    s->spec.generate_context = g->room;
    s->spec.prefill_rows = g->prompt < PROMPT_ROWS ? g->prompt : PROMPT_ROWS;
    BP_TRY(session_start(s));
    g->how = (sampling){.temperature = set->temperature,
                        .top_k = set->top_k,
                        .top_p = set->top_p,
                        .min_p = set->min_p,
                        .repetition_penalty = set->repetition_penalty,
                        .seed = set->seed};
    bp_status status = BP_OK;
    output_begin(&out, stdout);
    for (g->sequence = 0; status == BP_OK && g->sequence < set->sequences; g->sequence++) {
        status = write_sequence(g, &out);
    }
    output_end(&out);
    return status;
}

int cmd_generate(const settings *set)
{
    static generation g;
    int code = session_report(&g.s, generate(&g, set));
    free(g.whole);
    free(g.scores);
    free(g.order);
    free(g.ids);
    session_end(&g.s);
    return code;
}
